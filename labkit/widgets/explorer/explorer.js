// The page of every explorer: controls, a question, a picture, a sentence, the YAML. It shows what a view says and tells
// the kernel what was set; it knows no rules. An explorer of its own may add to it: explorer(root, ask, unique, own).

const REST = 400; // ms without news after which a screen reader is told how things stand
const LOST = 10_000; // ms after which a message that nobody has answered no longer holds up the next

/**
 * @param own null, or {build(place, act, unique, root), paint(view, before), close()}: what one explorer has beyond the
 *   others. `place` is an empty element above the picture; act({do: ...}) talks to the kernel; close, which may be
 *   absent, lets go of observers and timers.
 */
function explorer(root, ask, unique, own = null) {
  let view = null;
  const fields = new Map(); // by key: {row, sync(value), trouble}
  // One message is on its way at a time. What is set meanwhile replaces what waits, so the last position wins and the
  // kernel never runs what nobody is waiting for. A message with `each` is not replaced: every press of it counts.
  let flying = null; // {id, message, since}
  const waiting = [];
  let late = null; // the timer that says "running"

  const send = (message) => {
    const last = waiting.at(-1);
    if (last?.do !== message.do || message.each) waiting.push(message);
    else waiting[waiting.length - 1] = message.do === "set" ? { ...message, values: { ...last.values, ...message.values } } : message;
    if (flying === null || performance.now() - flying.since > LOST) fly();
  };
  const fly = () => {
    const message = waiting.shift();
    flying = { id: ask(message), message, since: performance.now() };
    clearTimeout(late);
    late = setTimeout(() => say(running, "Running …"), 300);
  };
  const pending = () => (flying === null ? waiting : [flying.message, ...waiting]);
  root.addEventListener("labkit-answered", (event) => {
    if (event.detail !== flying?.id) return;
    flying = null;
    clearTimeout(late);
    if (waiting.length) {
      fly();
    } else {
      say(running, "");
      sync();
      announce();
    }
  });
  const set = (key, value) => send({ do: "set", values: { [key]: value } });
  /** Whether the hand is further than the view: a position of this control is still on its way. */
  const ahead = (key) => pending().some((message) => message.do === "set" && key in message.values);
  /** Shows in the controls what the view says, but not in those that the hand has just moved, nor over nonsense. */
  const sync = () => {
    for (const control of view.controls) {
      if (!(control.key in view.trouble) && !ahead(control.key)) fields.get(control.key).sync(control.value);
    }
  };

  // -- controls

  const about = (control) => ["help", "trouble"].filter((what) => what !== "help" || control.help).map((what) => unique(`${control.key}-${what}`)).join(" ");
  /** A label that may break after each "_". */
  const named = (label) => label.split(/(?<=_)/).flatMap((part, place) => (place ? [make("wbr"), part] : [part]));
  const decimals = (step) => Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  /** A number as it is run; what a slider adds in the last digits is no part of it. */
  const asText = (value, step) => (value === null ? "" : Number(value.toFixed(Math.max(decimals(step), 6))).toString());

  function slider(control, label, value, onset, name) {
    const text = make("input", {
      type: "text", inputmode: "decimal", autocomplete: "off", size: 6, id: unique(name),
      "aria-label": control.unit ? `${label}, ${control.unit}` : label, "aria-describedby": about(control),
    });
    const range = make("input", {
      type: "range", min: control.least, max: control.most, step: control.step, "aria-label": label,
      "aria-describedby": about(control),
      oninput: () => {
        text.value = asText(range.valueAsNumber, control.step);
        range.setAttribute("aria-valuetext", `${text.value} ${control.unit}`.trim());
        onset(range.valueAsNumber);
      },
    });
    const typed = () => onset(text.value);
    text.addEventListener("change", typed);
    text.addEventListener("keydown", (event) => {
      if (event.key === "Enter") typed();
    });
    const sync = (now) => {
      if (document.activeElement !== text) text.value = asText(now, control.step);
      if (now !== null && range.valueAsNumber !== now) range.value = now;
      range.setAttribute("aria-valuetext", `${asText(now, control.step)} ${control.unit}`.trim());
      range.disabled = text.disabled = now === null;
    };
    const behind = make("span", { class: "labkit-unit" }, make("span", { "aria-hidden": "true" }, control.unit));
    return { parts: [range, text, behind], sync, range, text };
  }

  const makers = {
    range(control) {
      const one = slider(control, control.label, control.value, (value) => set(control.key, value), control.key);
      const row = make("div", { class: "labkit-control labkit-control-range" },
        make("label", { for: one.text.id, class: "labkit-control-name" }, ...named(control.label)), ...one.parts);
      let last = control.value ?? control.least;
      let none = null;
      if (control.none) {
        none = make("input", {
          type: "checkbox", "aria-label": `${control.label}: ${control.none}`,
          onchange: () => set(control.key, none.checked ? null : last),
        });
        one.parts.at(-1).append(make("label", { class: "labkit-check" }, none, control.none));
      }
      return {
        row,
        inputs: [one.range, one.text],
        sync(value) {
          if (value !== null) last = value;
          one.sync(value);
          if (none) none.checked = value === null;
        },
      };
    },
    span(control) {
      const now = [...control.value];
      const ends = ["begin", "end"].map((which, place) =>
        slider(control, `${control.label}, ${which}`, control.value[place], (value) => {
          now[place] = value;
          set(control.key, [...now]);
        }, `${control.key}-${which}`));
      const row = make("fieldset", { class: "labkit-control" },
        make("legend", { class: "labkit-hidden" }, control.label),
        ...ends.map((one, place) => make("div", { class: "labkit-control-range" },
          make("span", { class: "labkit-control-name", "aria-hidden": "true" },
            make("span", { class: place ? "labkit-unseen" : "" }, `${control.label} `), ["from", "to"][place]), ...one.parts)));
      return {
        row,
        inputs: ends.flatMap((one) => [one.range, one.text]),
        sync(value) {
          value.forEach((each, place) => {
            now[place] = each;
            ends[place].sync(each);
          });
        },
      };
    },
    choice(control) {
      const inputs = control.options.map(([value, word]) => {
        const input = make("input", { type: "radio", name: unique(control.key), value, onchange: () => set(control.key, value) });
        return [input, make("label", { class: "labkit-option" }, input, word)];
      });
      const row = make("fieldset", { class: "labkit-control", "aria-describedby": about(control) },
        make("legend", { class: "labkit-control-name" }, control.label),
        make("div", { class: "labkit-row" }, ...inputs.map(([, label]) => label)));
      return {
        row,
        inputs: inputs.map(([input]) => input),
        sync(value) {
          for (const [input] of inputs) input.checked = input.value === value;
        },
      };
    },
    switch(control) {
      const input = make("input", {
        type: "checkbox", role: "switch", "aria-describedby": about(control),
        onchange: () => set(control.key, input.checked),
      });
      const row = make("div", { class: "labkit-control" }, make("label", { class: "labkit-check" }, input, control.label));
      return { row, inputs: [input], sync: (value) => { input.checked = value; } };
    },
    order(control) {
      const words = Object.fromEntries(control.items);
      const list = make("ol", { class: "labkit-order", "aria-label": control.label });
      const status = make("p", { class: "labkit-hidden", role: "status" });
      let now = [...control.value];
      const move = (value, by) => {
        const from = now.indexOf(value);
        const to = Math.min(now.length - 1, Math.max(0, from + by));
        if (from === to) return;
        now.splice(to, 0, ...now.splice(from, 1));
        draw(value);
        say(status, `${words[value]} is now number ${to + 1} of ${now.length}`);
        set(control.key, [...now]);
      };
      const drop = (value, onto, after) => {
        now = now.filter((each) => each !== value);
        now.splice(now.indexOf(onto) + after, 0, value);
        draw(value);
        say(status, `${words[value]} is now number ${now.indexOf(value) + 1} of ${now.length}`);
        set(control.key, [...now]);
      };
      /** Whether the pointer is over the lower half of an item, so that a drop goes behind it. */
      const below = (event) => {
        const box = event.currentTarget.getBoundingClientRect();
        return event.clientY > box.top + box.height / 2;
      };
      let dragged = null;
      const item = (value, place) => {
        const grip = make("button", {
          type: "button", class: "labkit-grip", "aria-label": `${words[value]}, number ${place + 1} of ${now.length}: move with the arrow keys`,
          "data-value": value,
          onkeydown: (event) => {
            const by = { ArrowUp: -1, ArrowLeft: -1, ArrowDown: 1, ArrowRight: 1 }[event.key];
            if (by) {
              event.preventDefault();
              move(value, by);
            }
          },
        }, "⠿");
        const out = make("button", { type: "button", class: "labkit-small", "aria-label": `leave ${words[value]} out`,
          onclick: () => {
            now = now.filter((each) => each !== value);
            draw(null);
            absent.querySelector(`[data-value="${value}"]`).focus();
            set(control.key, [...now]);
          } }, "×");
        return make("li", {
          draggable: "true", "data-value": value,
          ondragstart: (event) => { dragged = value; event.dataTransfer.effectAllowed = "move"; event.dataTransfer.setData("text/plain", value); },
          ondragover: (event) => {
            if (dragged === null || dragged === value) return;
            event.preventDefault();
            event.currentTarget.dataset.drop = below(event) ? "after" : "before";
          },
          ondragleave: (event) => { delete event.currentTarget.dataset.drop; },
          ondrop: (event) => {
            event.preventDefault();
            if (dragged !== null && dragged !== value) drop(dragged, value, below(event) ? 1 : 0);
            dragged = null;
          },
          ondragend: () => { dragged = null; },
        }, grip, make("span", {}, words[value]), out);
      };
      const absent = make("div", { class: "labkit-row" });
      function draw(focus) {
        list.replaceChildren(...now.map(item));
        absent.replaceChildren(...control.items.filter(([value]) => !now.includes(value)).map(([value, word]) =>
          make("button", { type: "button", class: "labkit-small", "data-value": value, onclick: () => { now = [value, ...now]; draw(value); set(control.key, [...now]); } }, `+ ${word}`)));
        if (focus !== null) list.querySelector(`[data-value="${focus}"].labkit-grip`)?.focus();
      }
      draw(null);
      const row = make("fieldset", { class: "labkit-control labkit-control-order" },
        make("legend", { class: "labkit-control-name" }, control.label), list, absent, status);
      return {
        row,
        inputs: [],
        sync(value) {
          if (value.join() === now.join()) return;
          now = [...value];
          draw(null);
        },
      };
    },
  };

  const controls = make("div", { class: "labkit-controls" });
  const wholeTrouble = make("p", { class: "labkit-trouble" });
  let from = null; // the control that was last used, to give the focus back after a question
  controls.addEventListener("focusin", (event) => {
    from = event.target;
  });

  function build() {
    const place = (keys, into) => {
      for (const control of keys.map((key) => view.controls.find((each) => each.key === key))) {
        const field = makers[control.kind](control);
        field.trouble = make("p", { class: "labkit-trouble", id: unique(`${control.key}-trouble`) });
        field.row.append(field.trouble);
        if (control.help) {
          field.row.title = control.help;
          field.row.append(make("span", { class: "labkit-hidden", id: unique(`${control.key}-help`) }, control.help));
        }
        fields.set(control.key, field);
        into.append(field.row);
      }
    };
    const grouped = view.groups.flatMap(([, keys]) => keys);
    for (const [heading, keys] of view.groups) {
      const into = make("div", { class: "labkit-group", role: "group", "aria-label": heading },
        make("div", { class: "labkit-heading", "aria-hidden": "true" }, heading));
      place(keys, into);
      controls.append(into);
    }
    const rest = view.controls.map((each) => each.key).filter((key) => !grouped.includes(key));
    if (rest.length) {
      const into = make("div", { class: "labkit-group" });
      place(rest, into);
      controls.append(into);
    }
  }

  // -- what stands around them

  const predict = make("input", { type: "checkbox", onchange: () => send({ do: "predict", on: predict.checked }) });
  const predictLabel = make("label", { class: "labkit-check" }, predict, "Predict first");
  const tally = make("span", { class: "labkit-tally" });
  const running = make("span", { class: "labkit-running", role: "status" });
  const reset = make("button", { type: "button", onclick: () => send({ do: "reset" }) }, "Reset");

  const event = make("legend", {});
  const options = make("div", { class: "labkit-row" });
  const question = make("form", {
    class: "labkit-question", hidden: true,
    onsubmit: (submitted) => {
      submitted.preventDefault();
      send({ do: "answer", value: question.querySelector("input:checked")?.value ?? null });
    },
  },
    make("fieldset", {}, event, options),
    make("div", { class: "labkit-row" },
      make("button", { type: "submit", class: "labkit-main" }, "See if it is so"),
      make("button", { type: "button", onclick: () => send({ do: "skip" }) }, "Show it without")));

  const verdict = make("span", { class: "labkit-verdict" });
  const sentence = make("span", { class: "labkit-first" });
  const changed = make("span", { class: "labkit-changed" });
  const told = make("p", { class: "labkit-sentence" }, verdict, sentence, changed);
  const more = make("ul", { class: "labkit-more" });
  const whole = make("details", { open: true }, make("summary", {}, "The whole story"), more);
  const notice = make("p", { class: "labkit-notice" });
  // The one place that a screen reader is told from, once the hand rests: while a slider moves, its value is enough. It
  // stands beside the explorer, so that nothing inside says the same twice.
  const live = make("p", { class: "labkit-hidden", role: "status" });
  let resting = null;
  function announce() {
    clearTimeout(resting);
    resting = setTimeout(() => {
      if (pending().length) return; // the hand has moved on; its answer comes back to here
      const wrong = Object.values(view.trouble);
      const words = view.question !== null ? [`Predict first: ${view.question.text}`] : [view.verdict?.text, view.changed, view.sentences[0], view.notice];
      say(live, (wrong.length ? wrong : words).filter(Boolean).join(" "));
    }, REST);
  }
  const facts = make("dl", { class: "labkit-facts" });
  const picture = make("div", { class: "labkit-picture" });
  const place = make("div", { class: "labkit-own" });

  const copied = make("span", { class: "labkit-muted", role: "status" });
  const copy = (text, what) => async () => {
    let done = false;
    try {
      await navigator.clipboard.writeText(text());
      done = true;
    } catch {
      const area = make("textarea", { class: "labkit-hidden", "aria-hidden": "true" });
      root.append(area);
      area.value = text();
      area.select();
      done = document.execCommand("copy");
      area.remove();
    }
    say(copied, "");
    requestAnimationFrame(() => say(copied, done ? `${what} copied` : "The browser does not let it be copied; select it by hand."));
  };
  const yaml = make("pre", { tabindex: "0", "aria-label": "The scenario as YAML" });
  const yamlNote = make("p", { class: "labkit-muted" });
  const share = make("code", {});
  const details = make("details", {},
    make("summary", {}, "As YAML, and as one line of code"),
    make("div", { class: "labkit-row" },
      make("button", { type: "button", onclick: copy(() => view.yaml, "YAML") }, "Copy the YAML"),
      make("button", { type: "button", onclick: copy(() => view.share, "Code") }, "Copy the code"), copied),
    make("p", { class: "labkit-share" }, share), yamlNote, yaml);

  root.append(
    make("div", { class: "labkit-row labkit-top" }, predictLabel, tally, make("span", { class: "labkit-gap" }), running, reset),
    controls, wholeTrouble, question, told, notice, place, facts, picture, whole, details);
  own?.build(place, send, unique, root);

  // A narrow page asks for a picture that is drawn for it. Each page of a kernel shows the one that fits it.
  let narrow = false;
  let wide = 0; // for which width the narrow picture was asked
  const watcher = new ResizeObserver(([entry]) => {
    const width = entry.contentRect.width;
    const step = Math.round(width / 40) * 40;
    if (width === 0 || (narrow === width < 620 && (!narrow || step === wide))) return; // not shown, or as before
    const again = narrow && width < 620;
    narrow = width < 620;
    wide = step;
    if (again) send({ do: "narrow", on: true, width: wide });
    else if (view !== null) showPicture();
    if (!narrow) send({ do: "narrow", on: false });
  });
  watcher.observe(root);

  let pictured = null;
  function showPicture() {
    const svg = (narrow && view.narrow) || view.svg;
    if (narrow && view.narrow === null && !pending().some((message) => message.do === "narrow")) send({ do: "narrow", on: true, width: wide });
    if (svg === pictured) return;
    pictured = svg;
    // Two views may show the same picture, whose ids say what is drawn: make them this view's own.
    picture.innerHTML = svg.replaceAll(/labkit-(?=[0-9a-f]{8}-)/g, unique(""));
  }

  // -- showing a view

  function showQuestion() {
    const was = !question.hidden;
    const answering = question.contains(document.activeElement);
    question.hidden = view.question === null;
    root.classList.toggle("labkit-veiled", view.question !== null);
    if (view.question === null) {
      if (answering) (from?.isConnected ? from : predict).focus();
      return;
    }
    const key = JSON.stringify(view.question);
    if (question.dataset.key !== key) {
      question.dataset.key = key;
      say(event, view.question.text);
      options.replaceChildren(...view.question.options.map(([value, word]) =>
        make("label", { class: "labkit-option" }, make("input", { type: "radio", name: unique("answer"), value }), word)));
    }
    if (!was) for (const input of options.querySelectorAll("input")) input.checked = false;
  }

  const paint = (shown) => {
    const first = view === null;
    const before = view;
    view = shown;
    if (first) {
      root.setAttribute("aria-label", view.title);
      root.after(live);
      build();
    }
    sync();
    for (const [key, field] of fields) {
      say(field.trouble, view.trouble[key] ?? "");
      for (const input of field.inputs) input.setAttribute("aria-invalid", String(key in view.trouble));
    }
    say(wholeTrouble, view.trouble[""] ?? "");
    predict.checked = view.predict;
    predictLabel.hidden = !view.can_predict && !view.predict;
    say(tally, view.tally);
    showQuestion();
    say(verdict, view.verdict ? `${view.verdict.right ? "✓" : "✗"} ${view.verdict.text} ` : "");
    verdict.className = `labkit-verdict ${view.verdict?.right ? "labkit-right" : "labkit-wrong"}`;
    say(sentence, view.sentences[0] ?? "");
    say(changed, view.changed);
    const rest = view.sentences.slice(1);
    whole.hidden = rest.length === 0;
    while (more.children.length > rest.length) more.lastChild.remove();
    rest.forEach((text, place) => {
      if (!more.children[place]) more.append(make("li"));
      say(more.children[place], text);
    });
    say(notice, view.notice);
    while (facts.children.length > view.facts.length) facts.lastChild.remove();
    view.facts.forEach(([name, value], place) => {
      if (!facts.children[place]) facts.append(make("div", {}, make("dt"), make("dd")));
      say(facts.children[place].children[0], name);
      say(facts.children[place].children[1], value);
    });
    showPicture();
    say(yaml, view.yaml);
    say(share, view.share);
    say(yamlNote, view.of_toolkit
      ? "It runs with labkit run; its middleware and functions load in NeMo Agent Toolkit 1.9.0 as well."
      : "It runs with labkit run. Some of its middleware is labkit's own, which the toolkit has not.");
    own?.paint(view, before);
    root.dataset.runs = String(Number(root.dataset.runs ?? "0") + 1);
  };
  const close = () => {
    watcher.disconnect();
    clearTimeout(late);
    clearTimeout(resting);
    live.remove();
    own?.close?.();
  };
  return { paint, close };
}
