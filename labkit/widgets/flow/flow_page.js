// The page of flow_view: a run, played back on the stage of flow.js.

function flowPage(root, ask, unique, model) {
  const data = model.get("flow");
  const { look, until } = data;
  const plan = flowPlan(data);
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  let view = null;
  let t = data.begin;
  let playing = false;
  let speed = 1;
  let follow = null;
  let filter = "all";
  let at = -1; // the step that is told, in `steps`
  let drawn = -1; // frames drawn, for whoever measures

  // -- the run, ready to be drawn

  const unpacked = (flat) => {
    const events = [];
    let now = 0;
    for (let n = 2; n < flat.length; n += 4) {
      now += flat[n];
      events.push([now / 10000, flat[n + 1], flat[n + 2], flat[n + 3]]);
    }
    return { call: flat[0], replica: flat[1], events };
  };
  const journeys = data.journeys.map(unpacked);
  const pools = data.services.map(() => ({ work: new Slots(), queue: new Slots() }));
  const place = (all) => { // a place for each attempt, in the order in which they come
    const stays = [];
    for (const journey of all) {
      journey.slots = journey.events.map(() => null);
      journey.events.forEach(([when, code, service], n) => {
        if (code !== FLOW.arrives && code !== FLOW.served) return;
        const next = journey.events[n + 1];
        const queue = code === FLOW.arrives && next?.[1] === FLOW.served;
        stays.push({ journey, n, when, end: next ? next[0] : until, service, queue });
      });
    }
    stays.sort((one, other) => one.when - other.when);
    for (const stay of stays) {
      const pool = pools[stay.service][stay.queue ? "queue" : "work"];
      const slot = pool.take(stay.when);
      pool.free(slot, stay.end + 0.02);
      stay.journey.slots[stay.n] = { service: stay.service, place: slot, queue: stay.queue };
    }
  };
  place(journeys);
  const stage = theatre(plan, look, pools.map((pool) => ({ work: Math.max(pool.work.most, 1), queue: pool.queue.most })));

  // Marks cross the stage in most of a second of the watcher's time, and in less when the run goes by faster.
  const lagOf = (fast) => fast * (fast <= 1 ? 0.8 : fast <= 2 ? 0.6 : fast <= 4 ? 0.45 : 0.3);
  let lag = lagOf(1);
  let travellers = [];
  const travel = (journey) => {
    const who = new Traveller(journey.call, journey.replica, plan, lag);
    journey.events.forEach((event, n) => who.push(...event, journey.slots[n]));
    who.journey = journey;
    return who;
  };

  // -- the steps: whatever happened, in the order in which it is seen

  const breakerNames = (one) => {
    const { name } = data.layers[one.layer];
    return (name === "breaker" ? "the breaker" : name) + (data.replicas > 1 ? ` of replica ${one.replica + 1}` : "");
  };
  let steps = [];
  function lineUp() {
    lag = lagOf(speed);
    travellers = journeys.map(travel);
    if (follow) follow = travellers.find((who) => who.number === follow.number) ?? null;
    sortSteps();
  }
  function sortSteps() {
    const found = [];
    if (filter !== "changes") {
      for (const who of filter === "followed" && follow ? [follow] : travellers) {
        let attempt = 0;
        who.journey.events.forEach((event, n) => {
          if (event[1] === FLOW.arrives) attempt += 1;
          found.push({ seen: who.shown[n], when: event[0], who, event, attempt: event[1] === FLOW.turnedAway ? attempt + 1 : attempt });
        });
      }
    }
    if (filter !== "followed" || !follow) {
      for (const one of data.breakers) {
        for (const [when, state] of one.states.slice(1)) {
          found.push({ seen: when + lag * plan.share(one.layer), when, words: `${breakerNames(one)} is ${look.states[FLOW.states[state]].word}` });
        }
      }
      for (const service of data.services) {
        for (const [begin, end, words] of service.faults) {
          found.push({ seen: begin + lag, when: begin, words: `${service.name}: ${words}` });
          if (end < until) found.push({ seen: end + lag, when: end, words: `${service.name}: that is over` });
        }
      }
    }
    steps = found.sort((one, other) => one.seen - other.seen || one.when - other.when);
    at = -1;
  }
  const wordsOf = (step) => {
    const what = step.words ?? `call ${(step.who.number + 1).toLocaleString("en")} ${flowWords(data, step.event, step.attempt)}`;
    const whose = step.who && data.replicas > 1 && step.event[1] === FLOW.begins ? ` for replica ${step.who.row + 1}` : "";
    return `${step.when.toFixed(2)} s: ${what}${whose}.`;
  };
  /** The last step that has been seen by then. */
  const stepBy = (when) => {
    let low = -1;
    let high = steps.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (steps[middle].seen <= when + 1e-9) low = middle;
      else high = middle - 1;
    }
    return low;
  };

  // -- the moment

  const counters = Object.entries(data.counts).map(([name, { every, total, times }]) => {
    let sum = 0;
    return [name, { every, total, times: Float64Array.from(times, (step) => (sum += step) / 10000) }];
  });
  const counts = Object.fromEntries(counters);
  const count = (name, when) => {
    const one = counts[name];
    if (!one || !one.times.length) return 0;
    let low = 0;
    let high = one.times.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (one.times[middle] <= when + 1e-7) low = middle + 1;
      else high = middle;
    }
    return low === one.times.length ? one.total : low * one.every;
  };
  const byRow = Array.from({ length: data.rows }, (_, row) => data.layers.map((_, layer) => data.breakers.find((one) => one.layer === layer && one.replica === row) ?? null));
  const breakerAt = (one) => {
    if (!one) return null;
    const when = t - lag * plan.share(one.layer);
    let now = one.states[0];
    for (const state of one.states) if (state[0] <= when) now = state;
    const { cooldown } = data.layers[one.layer];
    const state = FLOW.states[now[1]];
    return { state, since: now[0] ? now[0] + lag * plan.share(one.layer) : 0, cooldown, words: "",
      rest: state === "OPEN" && cooldown !== null ? Math.max(0, now[0] + cooldown - when) : null };
  };
  const scene = () => ({
    t, lag, travellers, follow,
    rate: t >= 1 ? `${(count("arrived", t) - count("arrived", t - 1)).toLocaleString("en")} calls/s` : "",
    breakers: byRow.map((row) => row.map(breakerAt)),
    services: data.services.map((service) => {
      const when = t - lag;
      const fault = service.faults.find(([begin, end]) => begin <= when && when < end);
      return { words: fault ? fault[2] : "", inside: count(`${service.name}/arrived`, when) - count(`${service.name}/left`, when) };
    }),
  });

  // -- the page

  const title = make("p", { class: "labkit-title" }, data.title);
  const share = make("p", { class: "labkit-muted labkit-share-of" }, data.share);
  const used = TALLIES.filter(([name]) => name in data.counts);
  const tally = tallies(look, used);
  const told = make("p", { class: "labkit-sentence", role: "status", "aria-live": "polite" });
  const notice = make("p", { class: "labkit-notice labkit-bad", role: "alert" });
  const help = make("p", { class: "labkit-hidden", id: unique("help") }, "Space plays and pauses, the left and right arrow keys go to the event before and after, with Shift by a second, Home and End to the ends. The list of events below tells the same.");
  const frame = make("div", { class: "labkit-stage", tabindex: "0", role: "group", "aria-label": "The stage", "aria-describedby": unique("help") }, stage.canvas, help);

  const button = (name, act, options = {}) => make("button", { type: "button", onclick: act, ...options }, name);
  const play = button("Play", () => toggle(), { class: "labkit-main labkit-play" });
  const back = button("Step back", () => step(-1));
  const forth = button("Step", () => step(1));
  const change = button("Next change", () => nextChange(), { title: "To the next change of a breaker or of the service" });
  const slider = make("input", { type: "range", min: 0, max: until, step: 0.01, "aria-label": "Time", oninput: () => seek(slider.valueAsNumber) });
  const clock = make("output", { class: "labkit-clock", "aria-hidden": "true" });
  const pace = make("select", { onchange: () => { speed = Number(pace.value); const keep = at; lineUp(); if (keep >= 0) at = stepBy(t); render(); } },
    ...[0.1, 0.25, 0.5, 1, 2, 4, 8].map((each) => make("option", { value: each, selected: each === 1 }, `${each}×`)));
  const paceLabel = make("label", { class: "labkit-check labkit-pace" }, "Speed", pace);
  const number = make("input", { type: "text", inputmode: "numeric", autocomplete: "off", size: 7, "aria-label": "Number of a call to follow" });
  const form = make("form", { class: "labkit-row labkit-follow", onsubmit: (event) => { event.preventDefault(); followNumber(number.value); } },
    make("span", { "aria-hidden": "true" }, "Follow call"), number, make("button", { type: "submit" }, "Follow"),
    button("Let go", () => letGo(), { class: "labkit-let-go", hidden: true }));
  number.addEventListener("keydown", (event) => { // JupyterLab keeps the Enter that would submit
    if (event.key !== "Enter") return;
    event.preventDefault();
    followNumber(number.value);
  });
  const letGoButton = form.querySelector(".labkit-let-go");

  const picture = make("div", { class: "labkit-picture labkit-line" });
  const cursor = make("div", { class: "labkit-cursor", "aria-hidden": "true" });
  const line = make("div", { class: "labkit-timeline", onpointerdown: (event) => drag(event), onpointermove: (event) => event.buttons & 1 && drag(event) }, picture, cursor);

  const which = make("select", { onchange: () => { filter = which.value; sortSteps(); at = stepBy(t); render(); listSteps(); } },
    make("option", { value: "all" }, "everything that is shown"),
    make("option", { value: "changes" }, "changes of breakers and service"),
    make("option", { value: "followed", disabled: true }, "the call that is followed"));
  const list = make("ol", { class: "labkit-events" });
  const position = make("span", { class: "labkit-muted" });
  const events = make("details", { class: "labkit-list", open: still.matches },
    make("summary", {}, "The same as a list of events"),
    make("div", { class: "labkit-row" },
      button("Previous event", () => step(-1)), button("Next event", () => step(1)),
      make("label", { class: "labkit-check" }, "Go through", which), position),
    list);
  events.addEventListener("toggle", () => listSteps());
  const story = make("ul", { class: "labkit-more" });
  const whole = make("details", {}, make("summary", {}, "The whole story"), story,
    make("p", { class: "labkit-muted" }, "The layers take no time. To be seen, a mark takes a moment to cross the stage, and whatever is drawn at a place is as late as a mark that arrives there. Sentences, timeline and list have the exact times."));

  root.classList.add("labkit-flow");
  root.append(title, share, tally.list, frame,
    make("div", { class: "labkit-row labkit-transport" }, play, back, forth, change, slider, clock, paceLabel),
    form, told, notice, line, events, whole);

  // -- what a watcher does

  function render(words = null) {
    drawn += 1;
    const now = scene();
    const marks = stage.draw(now);
    cursor.style.transform = `translateX(${(picture.clientWidth || 0) * (view.line.left + (view.line.right - view.line.left) * Math.min(1, t / view.line.end)) / view.line.width}px)`;
    if (playing && words === null && drawn % 6) return; // the eye reads no number sixty times a second
    root.dataset.marks = marks;
    root.dataset.frames = drawn;
    root.dataset.time = t.toFixed(3);
    root.dataset.state = now.breakers[0].find(Boolean)?.state ?? "";
    for (const [name] of used) tally.set(name, count(name, t));
    slider.value = t;
    slider.setAttribute("aria-valuetext", `${t.toFixed(1)} s of ${until.toFixed(0)} s`);
    say(clock, `${(words === null && at >= 0 && !playing ? steps[at].when : t).toFixed(2)} s`);
    if (words !== null) say(told, words);
  }
  function settle() { // says where it stands, once it stands
    at = stepBy(t);
    render(at >= 0 ? wordsOf(steps[at]) : `${t.toFixed(2)} s: nothing has happened yet.`);
    listSteps();
  }
  let settling = null;
  function seek(when) {
    t = Math.max(0, Math.min(until + lag, when));
    at = -1;
    render();
    clearTimeout(settling);
    settling = setTimeout(settle, playing ? 1e9 : 160);
  }
  function pause() {
    playing = false;
    say(play, "Play");
    root.classList.remove("labkit-plays");
  }
  function toggle() {
    if (still.matches) return step(1);
    if (playing) {
      pause();
      settle();
      return;
    }
    if (t >= until) t = 0;
    playing = true;
    at = -1;
    say(play, "Pause");
    root.classList.add("labkit-plays");
    before = null;
    requestAnimationFrame(tick);
  }
  let before = null;
  function tick(now) {
    if (!playing || !root.isConnected) return;
    const passed = before === null ? 0 : Math.min(0.1, (now - before) / 1000);
    before = now;
    const was = t;
    t = Math.min(until + lag, t + passed * speed);
    const change = lastChange(was, t);
    render(change);
    if (t >= until + lag) {
      pause();
      settle();
    } else {
      requestAnimationFrame(tick);
    }
  }
  const changes = () => steps.filter((one) => one.words);
  function lastChange(from, to) { // what to tell while it plays: of changes, or of the call that is followed
    const low = stepBy(from);
    for (let n = stepBy(to); n > low; n -= 1) if (steps[n].words || steps[n].who === follow) return wordsOf(steps[n]);
    return null;
  }
  function show(n) {
    if (playing) pause();
    clearTimeout(settling);
    at = n;
    t = Math.min(until + lag, steps[n].seen);
    render(wordsOf(steps[n]));
    say(clock, `${steps[n].when.toFixed(2)} s`);
    listSteps();
  }
  function step(by) {
    if (!steps.length) return;
    const from = at >= 0 ? at : by > 0 ? stepBy(t) : stepBy(t) + 1;
    const to = from + by;
    if (to < 0 || to >= steps.length) {
      say(told, by > 0 ? "That was the last event." : "That was the first event.");
      return;
    }
    show(to);
  }
  function nextChange() {
    const from = at >= 0 ? at : stepBy(t);
    const next = steps.findIndex((one, n) => n > from && one.words);
    if (next < 0) say(told, changes().length ? "No change comes after this." : "Nothing changes in what is shown.");
    else show(next);
  }

  function chose(who) {
    follow = who;
    const option = which.querySelector("[value=followed]");
    option.disabled = !who;
    letGoButton.hidden = !who;
    if (who) number.value = who.number + 1;
    which.value = filter = who ? "followed" : filter === "followed" ? "all" : filter;
    sortSteps();
    say(notice, "");
    if (!who) settle();
    else if (playing) render(`Following call ${(who.number + 1).toLocaleString("en")}.`);
    else if (t < who.from || t > who.until) show(0);
    else settle();
  }
  const letGo = () => { chose(null); number.value = ""; number.focus(); };
  function followNumber(text) {
    const wanted = Number(text.replaceAll(/[ ,.]/g, "")) - 1;
    const known = travellers.find((who) => who.number === wanted);
    if (known) chose(known);
    else ask({ do: "follow", call: text });
  }

  frame.addEventListener("keydown", (event) => {
    const { key } = event;
    if (key === " ") toggle();
    else if (key === "ArrowRight" || key === "ArrowLeft") {
      const by = key === "ArrowRight" ? 1 : -1;
      if (event.shiftKey) seek(t + by);
      else step(by);
    } else if (key === "Home") seek(0);
    else if (key === "End") seek(until);
    else if (key === "Escape" && follow) chose(null);
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  const point = (event) => {
    const rect = stage.canvas.getBoundingClientRect();
    return [event.clientX - rect.left, event.clientY - rect.top];
  };
  frame.addEventListener("click", (event) => {
    const who = stage.hit(...point(event), scene());
    if (who) chose(who);
    else if (follow && event.target === stage.canvas) chose(null);
  });
  stage.canvas.addEventListener("pointermove", (event) => {
    stage.canvas.style.cursor = stage.hit(...point(event), scene()) ? "pointer" : "default";
  });
  function drag(event) {
    if (event.type === "pointerdown") line.setPointerCapture(event.pointerId);
    const rect = picture.getBoundingClientRect();
    const where = ((event.clientX - rect.left) / rect.width) * view.line.width;
    seek(((where - view.line.left) / (view.line.right - view.line.left)) * view.line.end);
  }

  function listSteps() {
    if (!events.open) return;
    const around = 4;
    const middle = Math.max(0, at);
    const from = Math.max(0, Math.min(middle - around, steps.length - 2 * around - 1));
    const shown = steps.slice(from, from + 2 * around + 1);
    list.start = from + 1;
    list.replaceChildren(...shown.map((one, n) => make("li", { "aria-current": from + n === at ? "step" : false }, wordsOf(one))));
    say(position, steps.length ? `event ${at + 1} of ${steps.length.toLocaleString("en")}` : "no events");
  }

  const motion = () => {
    root.classList.toggle("labkit-still", still.matches);
    if (still.matches) {
      if (playing) pause();
      events.open = true;
    }
    play.hidden = paceLabel.hidden = still.matches;
  };
  still.addEventListener("change", motion);

  let narrow = false;
  const watcher = new ResizeObserver(() => {
    const width = frame.clientWidth;
    if (width < 100) return;
    stage.lay(width);
    if (view) render();
    if ((root.clientWidth < 620) !== narrow) {
      narrow = !narrow;
      ask({ do: "narrow", on: narrow });
    }
  });
  const themed = onTheme(() => { stage.theme(); if (view) render(); });

  const paint = (next) => {
    const previous = view;
    view = next;
    if (!previous) {
      root.setAttribute("aria-label", `${view.title}: ${data.title}`);
      stage.canvas.setAttribute("aria-label", "Requests on their way between callers, layers and service; the list of events tells the same in words.");
      lineUp();
      motion();
      stage.lay(frame.clientWidth || 820);
      watcher.observe(frame);
      for (const text of view.sentences) story.append(make("li", {}, text));
    }
    if (previous?.svg !== view.svg) picture.innerHTML = view.svg.replaceAll(/labkit-(?=[0-9a-f]{8}-)/g, unique(""));
    say(notice, view.notice);
    if (view.followed && view.followed_again !== previous?.followed_again) {
      const extra = unpacked(view.followed);
      if (!travellers.some((who) => who.number === extra.call)) {
        place([extra]);
        journeys.push(extra);
        travellers.push(travel(extra));
      }
      chose(travellers.find((who) => who.number === extra.call));
    }
    if (!previous) settle();
  };
  const close = () => {
    playing = false;
    clearTimeout(settling);
    watcher.disconnect();
    themed.disconnect();
    still.removeEventListener("change", motion);
  };
  return { paint, close };
}
