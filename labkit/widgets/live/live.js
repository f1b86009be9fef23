// The page of live_view: the stage of flow.js, fed by what a stack does now. It arrives in batches and is shown a moment
// later, so that it moves evenly.

function livePage(root, ask, unique, model) {
  const data = model.get("flow");
  const { look } = data;
  const plan = flowPlan(data);
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  const LAG = 0.75; // seconds in which a mark crosses the stage
  const BEHIND = 0.3; // seconds that the page is behind the stack
  const PLACES = 60;
  let view = null;
  let number = 0; // of the run that is shown
  let travellers = [];
  let byCall = new Map();
  let due = []; // what is still to be seen: [when, act], in order
  let pool = new Slots();
  let inside = 0;
  let offset = null; // the stack's time less the page's
  let heard = 0;
  let clock = 0;
  let states = [];
  let fault = data.faults.find(([, , words]) => !words)[0];
  let counts = {};
  let drawn = 0;
  const stage = theatre(plan, look, [{ work: PLACES, queue: 0 }]);
  const faultWords = Object.fromEntries(data.faults.map(([name, , words]) => [name, words]));
  const breakers = data.layers.map((_, place) => place).filter((place) => plan.isBreaker(place));

  function clear() {
    travellers = [];
    byCall = new Map();
    due = [];
    pool = new Slots();
    inside = 0;
    offset = null;
    clock = 0;
    counts = {};
    states = Array.from({ length: data.rows }, () => data.layers.map((_, place) => (plan.isBreaker(place) ? { state: "CLOSED", since: 0, at: 0, failures: 0, successes: 0 } : null)));
  }
  clear();

  // -- the page

  const banner = make("div", { class: data.rows > 1 ? "labkit-banner labkit-several" : "labkit-banner", style: `--labkit-rows: ${data.rows}` });
  const signs = Array.from({ length: data.rows }, (_, row) => {
    const word = make("span", { class: "labkit-state-word" });
    const more = make("span", { class: "labkit-state-more", "aria-hidden": "true" });
    const sign = make("div", { class: "labkit-state" },
      data.replicas > 1 ? make("span", { class: "labkit-state-of" }, `replica ${row + 1}`) : "", word, more);
    banner.append(sign);
    return { sign, word, more };
  });
  const tally = tallies(look, TALLIES.filter(([name]) =>
    name !== "not_useful" && name !== "cancelled" && (name !== "unavailable" || plan.fallback >= 0)));
  tally.list.classList.add("labkit-big");
  const frame = make("div", { class: "labkit-stage" }, stage.canvas);
  const button = (name, act, options = {}) => make("button", { type: "button", onclick: act, ...options }, name);
  const go = button("Start", () => ask({ do: view.running ? "stop" : "start" }), { class: "labkit-main labkit-play" });
  const faults = data.faults.map(([name, word, words]) => {
    const one = button(word, () => ask({ do: "fault", value: name }), { "aria-pressed": "false", "data-fault": name, class: words ? "" : "labkit-mend" });
    return [name, one];
  });
  const speed = make("input", { type: "range", min: 1, max: 40, step: 1, "aria-label": "Calls a second" });
  const speedText = make("output", { class: "labkit-clock", "aria-hidden": "true" });
  let asking = null;
  let wanted = null;
  const sendRate = () => {
    asking = ask({ do: "rate", value: wanted });
    wanted = null;
  };
  speed.addEventListener("input", () => {
    wanted = speed.valueAsNumber;
    say(speedText, `${wanted}/s`);
    speed.setAttribute("aria-valuetext", `${wanted} a second`);
    if (asking === null) sendRate();
  });
  const answered = (event) => {
    if (event.detail !== asking) return;
    asking = null;
    if (wanted !== null) sendRate();
  };
  root.addEventListener("labkit-answered", answered);
  const full = button("Fill the screen", () => (document.fullscreenElement === root ? document.exitFullscreen() : root.requestFullscreen?.()));
  const told = make("p", { class: "labkit-sentence", role: "status", "aria-live": "polite" });
  const notice = make("p", { class: "labkit-notice", role: "status" });
  const list = make("ol", { class: "labkit-events", reversed: true });
  const events = make("details", { class: "labkit-list", open: still.matches }, make("summary", {}, "What happened, as a list"),
    make("div", { class: "labkit-row" },
      button("Clear the list", () => list.replaceChildren())), list);

  root.classList.add("labkit-flow", "labkit-live");
  if (data.wide) root.classList.add("labkit-wide");
  root.append(
    make("div", { class: "labkit-row" }, go, make("label", { class: "labkit-check labkit-rate" }, "Calls", speed), speedText, make("span", { class: "labkit-gap" }), full),
    banner, tally.list, frame,
    make("div", { class: "labkit-row labkit-faults", role: "group", "aria-label": "What the service does" }, make("span", { class: "labkit-muted", "aria-hidden": "true" }, "The service:"), ...faults.map(([, one]) => one)),
    told, notice, events);

  // -- what is heard

  const later = (when, act) => {
    let n = due.length;
    while (n > 0 && due[n - 1][0] > when) n -= 1;
    due.splice(n, 0, [when, act]);
  };

  function tell(when, words) {
    const text = `${when.toFixed(1)} s: ${words}.`;
    say(told, text);
    list.prepend(make("li", {}, text));
    while (list.children.length > 40) list.lastChild.remove();
  }

  function event([call, row, at, code, place, detail]) {
    let who = byCall.get(call);
    if (!who) {
      if (code !== FLOW.begins) return; // it began before this page listened
      who = new Traveller(call, row, plan, LAG);
      byCall.set(call, who);
      travellers.push(who);
    }
    let slot = null;
    if (code === FLOW.arrives) {
      who.slot = pool.take(at + LAG) % PLACES;
      slot = { service: 0, place: who.slot, queue: false };
      later(at + LAG, () => { inside += 1; });
    } else if (code === FLOW.answered || code === FLOW.fails || code === FLOW.runsOut) {
      later(at + LAG, () => { inside = Math.max(0, inside - 1); });
    }
    who.push(at, code, place, detail, slot);
    if ((code === FLOW.answered || code === FLOW.fails || code === FLOW.runsOut) && who.slot !== undefined) pool.free(who.slot, who.last.t);
    if (who.over) byCall.delete(call);
  }

  function change([at, row, place, code, failures, successes]) {
    const state = FLOW.states[code];
    later(at + LAG * plan.share(place), () => {
      const now = states[row][place];
      if (now.state !== state) {
        const why = state !== "OPEN" ? "" : now.state === "CLOSED" ? ` after ${failures} ${failures === 1 ? "failure" : "failures"} in a row` : ": a probe has failed";
        Object.assign(now, { state, since: at + LAG * plan.share(place), at });
        const whose = data.replicas > 1 ? ` of replica ${row + 1}` : "";
        tell(at, `${data.layers[place].name === "breaker" ? "the breaker" : data.layers[place].name}${whose} is ${look.states[state].word}${why}`);
      }
      Object.assign(now, { failures, successes });
    });
  }

  const hear = (message) => {
    if (!message || !("live" in message)) return;
    const { live } = message;
    if (message.number !== number) {
      clear();
      number = message.number;
    }
    heard = performance.now() / 1000;
    const newest = live.now - heard;
    offset = offset === null || Math.abs(newest - offset) > 2 ? newest : Math.max(newest, offset - 0.002);
    for (const one of live.events) later(one[2], () => event(one));
    for (const one of live.states) later(one[0], () => change(one));
    for (const [at, name] of live.faults) {
      later(at + LAG, () => {
        if (fault === name) return;
        fault = name;
        tell(at, faultWords[name] ? `the service ${faultWords[name]}` : "the service is mended");
      });
    }
    counts = live.counts;
    root.dataset.batches = String(Number(root.dataset.batches ?? "0") + 1);
    if (live.ended) later(live.now, () => { travellers = travellers.filter((who) => who.over); });
    if (waiting === null) waiting = requestAnimationFrame(tick);
  };
  model.on("msg:custom", hear);

  // -- what is shown

  let waiting = null;
  function tick() {
    waiting = null;
    const now = performance.now() / 1000;
    if (offset !== null) clock = Math.max(clock, now + offset - BEHIND);
    while (due.length && due[0][0] <= clock) due.shift()[1]();
    render(now);
    const quiet = !view.running && !due.length && travellers.length === 0;
    if (root.isConnected && !quiet) waiting = requestAnimationFrame(tick);
    if (quiet) render(now, true);
  }

  const breakerAt = (row, place) => {
    const now = states[row][place];
    if (!now) return null;
    const { cooldown } = data.layers[place];
    const threshold = data.thresholds;
    const seen = clock - LAG * plan.share(place);
    const words = now.state === "CLOSED" ? `${now.failures} of ${threshold.failure_threshold} failures`
      : now.state === "HALF_OPEN" ? `${now.successes} of ${threshold.half_open_success_threshold} probes succeeded` : "";
    return { state: now.state, since: now.since, cooldown, words, rest: now.state === "OPEN" ? Math.max(0, now.at + cooldown - seen) : null };
  };

  function render(now, all = false) {
    drawn += 1;
    const shown = states.map((row, n) => row.map((_, place) => breakerAt(n, place)));
    travellers = travellers.filter((who) => !who.over || clock <= who.until + LAG);
    const moment = { t: clock, lag: LAG, travellers: still.matches ? travellers.filter((who) => who.last.slot && !who.over) : travellers, follow: null, rate: view.running ? `${view.rate.toFixed(0)} calls/s` : "", breakers: shown,
      services: [{ words: faultWords[fault] ?? "", inside }] };
    if (!still.matches || drawn % 12 === 0 || all) root.dataset.marks = stage.draw(moment);
    if (drawn % 6 && !all) return;
    root.dataset.frames = drawn;
    signs.forEach(({ sign, word, more }, row) => {
      const one = shown[row][breakers[0]];
      sign.dataset.state = one.state;
      say(word, look.states[one.state].word);
      say(more, one.rest > 0 ? `${one.rest.toFixed(1)} s` : one.state === "OPEN" ? "next one probes" : one.words);
    });
    root.dataset.state = shown[0][breakers[0]].state;
    for (const [name] of TALLIES) if (tally.has(name)) tally.set(name, counts[name] ?? 0);
    if (view.running && heard && now - heard > 2) say(notice, "Nothing has been heard of the stack for a while. If the kernel was restarted, run this cell again.");
    else say(notice, view.notice);
  }

  const watcher = new ResizeObserver(() => {
    if (frame.clientWidth < 100) return;
    const filled = document.fullscreenElement === root;
    const others = [...root.children].reduce((sum, each) => sum + (each === frame ? 0 : each.offsetHeight), 60);
    stage.lay(frame.clientWidth, filled ? Math.max(300, innerHeight - others) : 0);
    if (view) render(0, true);
  });
  const themed = onTheme(() => { stage.theme(); if (view) render(0, true); });

  const paint = (next) => {
    const first = view === null;
    view = next;
    say(go, view.running ? "Stop" : "Start");
    root.dataset.running = String(view.running);
    if (wanted === null && asking === null) {
      speed.value = view.rate;
      say(speedText, `${view.rate}/s`);
      speed.setAttribute("aria-valuetext", `${view.rate} a second`);
    }
    for (const [name, one] of faults) one.setAttribute("aria-pressed", String(view.fault === name));
    say(notice, view.notice);
    if (first) {
      root.setAttribute("aria-label", view.title);
      stage.canvas.setAttribute("aria-label", "Requests on their way between callers, layers and service; the list below tells in words what changed.");
      stage.lay(frame.clientWidth || 820);
      watcher.observe(frame);
      fault = view.fault;
      say(told, `Press Start: a real HTTP service on this machine, real requests, and the middleware between. It stops by itself after ${data.minutes} ${data.minutes === 1 ? "minute" : "minutes"}.`);
    }
    if (!view.running) {
      heard = 0;
      fault = view.fault;
      travellers = travellers.filter((who) => who.over);
      inside = 0;
      due = [];
    }
    render(0, true);
    if (waiting === null) waiting = requestAnimationFrame(tick);
  };
  const close = () => {
    model.off("msg:custom", hear);
    watcher.disconnect();
    themed.disconnect();
    if (waiting !== null) cancelAnimationFrame(waiting);
  };
  return { paint, close };
}
