// The page of every explorer: controls, a question, a picture, a sentence, the YAML. It shows what a view says and tells
// the kernel what was set; it knows no rules. An explorer of its own may add to it: explorer(root, ask, unique, own).

/**
 * @param own null, or {build(place, act, unique), paint(view)}: what one explorer has beyond the others. `place` is an
 *   empty element above the picture; act({do: ...}) talks to the kernel.
 */
function explorer(root, ask, unique, own = null) {
  let view = null;
  const fields = new Map(); // by key: {row, sync(value), trouble}
  const values = {}; // what this page last set or was shown, by key
  // One message is on its way at a time. What is set meanwhile replaces what waits, so the last position wins and the
  // kernel never runs what nobody is waiting for.
  let flying = null;
  let next = null;
  let late = null; // the timer that says "running"

  const send = (message) => {
    if (flying !== null) {
      next = message.do === "set" && next?.do === "set" ? { ...message, values: { ...next.values, ...message.values } } : message;
      return;
    }
    flying = ask(message);
    late = setTimeout(() => root.classList.add("labkit-busy"), 300);
  };
  root.addEventListener("labkit-answered", (event) => {
    if (event.detail !== flying) return;
    flying = null;
    clearTimeout(late);
    root.classList.remove("labkit-busy");
    if (next !== null) {
      const message = next;
      next = null;
      send(message);
    }
  });
  const set = (key, value) => {
    values[key] = value;
    send({ do: "set", values: { [key]: value } });
  };

  // -- controls

  /** A label that may break after each "_". */
  const named = (label) => label.split(/(?<=_)/).flatMap((part, place) => (place ? [make("wbr"), part] : [part]));
  const decimals = (step) => Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  const asText = (value, step) => (value === null ? "" : Number(value.toFixed(Math.max(decimals(step), 0))).toString());

  function slider(control, label, value, onset, name) {
    const text = make("input", {
      type: "text", inputmode: "decimal", autocomplete: "off", size: 6, id: unique(name),
      "aria-label": control.unit ? `${label}, ${control.unit}` : label, "aria-describedby": unique(`${control.key}-trouble`),
    });
    const range = make("input", {
      type: "range", min: control.least, max: control.most, step: control.step, "aria-label": label,
      "aria-describedby": unique(`${control.key}-trouble`),
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
    return { parts: [range, text, make("span", { class: "labkit-unit", "aria-hidden": "true" }, control.unit)], sync, range, text };
  }

  const makers = {
    range(control) {
      const one = slider(control, control.label, control.value, (value) => set(control.key, value), control.key);
      const row = make("div", { class: "labkit-control labkit-control-range" },
        make("label", { for: one.text.id, class: "labkit-control-name" }, ...named(control.label)), ...one.parts);
      let last = control.value ?? control.least;
      let none = null;
      if (control.none) {
        none = make("input", { type: "checkbox", onchange: () => set(control.key, none.checked ? null : last) });
        row.append(make("label", { class: "labkit-check labkit-none" }, none, control.none));
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
      const row = make("fieldset", { class: "labkit-control labkit-control-span" },
        make("legend", { class: "labkit-control-name" }, control.label),
        ...ends.map((one, place) => make("div", { class: "labkit-end-of-span" },
          make("span", { class: "labkit-label", "aria-hidden": "true" }, ["from", "to"][place]), ...one.parts)));
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
      const row = make("fieldset", { class: "labkit-control", "aria-describedby": unique(`${control.key}-trouble`) },
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
        type: "checkbox", role: "switch", "aria-describedby": unique(`${control.key}-trouble`),
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
      const drop = (value, before) => {
        const rest = now.filter((each) => each !== value);
        rest.splice(before === null ? rest.length : rest.indexOf(before), 0, value);
        now = rest;
        draw(value);
        set(control.key, [...now]);
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
          onclick: () => { now = now.filter((each) => each !== value); draw(null); set(control.key, [...now]); } }, "×");
        return make("li", {
          draggable: "true", "data-value": value,
          ondragstart: (event) => { dragged = value; event.dataTransfer.effectAllowed = "move"; event.dataTransfer.setData("text/plain", value); },
          ondragover: (event) => { if (dragged !== null) event.preventDefault(); },
          ondrop: (event) => { event.preventDefault(); if (dragged !== null && dragged !== value) drop(dragged, event.offsetY > event.currentTarget.offsetHeight / 2 ? now[now.indexOf(value) + 1] ?? null : value); dragged = null; },
          ondragend: () => { dragged = null; },
        }, grip, make("span", {}, words[value]), out);
      };
      const absent = make("div", { class: "labkit-row" });
      function draw(focus) {
        list.replaceChildren(...now.map(item));
        absent.replaceChildren(...control.items.filter(([value]) => !now.includes(value)).map(([value, word]) =>
          make("button", { type: "button", class: "labkit-small", onclick: () => { now = [value, ...now]; draw(value); set(control.key, [...now]); } }, `+ ${word}`)));
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
  const wholeTrouble = make("p", { class: "labkit-trouble", role: "alert" });

  function build() {
    const place = (keys, into) => {
      for (const control of view.controls.filter((each) => keys.includes(each.key))) {
        const field = makers[control.kind](control);
        field.trouble = make("p", { class: "labkit-trouble", id: unique(`${control.key}-trouble`), role: "alert" });
        field.row.append(field.trouble);
        if (control.help) field.row.title = control.help;
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
  const busy = make("span", { class: "labkit-running", role: "status" });
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
  const told = make("p", { class: "labkit-sentence", role: "status", "aria-live": "polite" }, verdict, sentence);
  const more = make("ul", { class: "labkit-more" });
  const whole = make("details", { open: true }, make("summary", {}, "The whole story"), more);
  const notice = make("p", { class: "labkit-notice", role: "status" });
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
    make("div", { class: "labkit-row labkit-top" }, predictLabel, tally, make("span", { class: "labkit-gap" }), busy, reset),
    controls, wholeTrouble, question, told, notice, place, facts, picture, whole, details);
  own?.build(place, send, unique, root);

  // A narrow page gets a picture that is drawn for it.
  let narrow = false;
  const watcher = new ResizeObserver(([entry]) => {
    const now = entry.contentRect.width < 620;
    if (now !== narrow && entry.contentRect.width > 0) {
      narrow = now;
      send({ do: "narrow", on: narrow });
    }
  });
  watcher.observe(root);
  new MutationObserver(() => say(busy, root.classList.contains("labkit-busy") ? "Running …" : "")).observe(root, { attributeFilter: ["class"] });

  // -- showing a view

  function showQuestion() {
    const was = !question.hidden;
    question.hidden = view.question === null;
    root.classList.toggle("labkit-veiled", view.question !== null);
    if (view.question === null) return;
    const key = JSON.stringify(view.question);
    if (question.dataset.key !== key) {
      question.dataset.key = key;
      say(event, view.question.text);
      options.replaceChildren(...view.question.options.map(([value, word]) =>
        make("label", { class: "labkit-option" }, make("input", { type: "radio", name: unique("answer"), value }), word)));
    }
    if (!was) for (const input of options.querySelectorAll("input")) input.checked = false;
  }

  return (shown) => {
    const first = view === null;
    const before = view;
    view = shown;
    if (first) {
      root.setAttribute("aria-label", view.title);
      build();
    }
    if (next === null) { // else a newer position is on its way
      for (const control of view.controls) {
        if (!(control.key in view.trouble)) {
          values[control.key] = control.value;
          fields.get(control.key).sync(control.value);
        }
      }
    }
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
    if (first || before.svg !== view.svg) {
      picture.innerHTML = view.svg.replaceAll(/labkit-(?=[0-9a-f]{8}-)/g, unique(""));
    }
    say(yaml, view.yaml);
    say(share, view.share);
    say(yamlNote, view.of_toolkit
      ? "It runs with labkit run; its middleware and functions load in NeMo Agent Toolkit 1.9.0 as well."
      : "It runs with labkit run. Some of its middleware is labkit's own, which the toolkit has not.");
    own?.paint(view, before);
    root.dataset.runs = String(Number(root.dataset.runs ?? "0") + 1);
  };
}
