// The state stepper's page. It shows what a view says and tells the kernel what was pressed; it knows no rules.

const WORDS = { CLOSED: "closed", OPEN: "open", HALF_OPEN: "half-open" };

function stepper(root, press, unique) {
  let view = null;
  let chosen = null; // which call in flight the ending buttons are about; this page's own
  let from = null; // the button that was pressed, to give the focus back after a question
  let asking = false;

  // -- what a learner presses

  const act = (message) => (event) => {
    if (event.currentTarget.getAttribute("aria-disabled") === "true") {
      say(notice, event.currentTarget.dataset.why || "");
      return;
    }
    from = event.currentTarget;
    press(message());
  };
  const button = (text, message, extra = {}) =>
    make("button", { type: "button", onclick: act(message), ...extra }, text);

  const call = button("A call arrives", () => ({ do: "call" }), { class: "labkit-main" });
  const seconds = make("input", {
    type: "text",
    inputmode: "decimal",
    autocomplete: "off",
    size: 5,
    id: unique("seconds"),
    value: "10",
    "aria-describedby": unique("trouble"),
    onkeydown: (event) => {
      if (event.key === "Enter") advance.click();
    },
  });
  const advance = button("Let time pass", () => ({ do: "advance", seconds: seconds.value }));
  const rest = button("To the cooldown’s end", () => ({ do: "advance", seconds: view.to_cooldown_end }), {
    "data-why": "No cooldown is running.",
  });
  const undo = button("Undo", () => ({ do: "undo" }));
  const reset = button("Reset", () => ({ do: "reset" }));
  const endings = [
    ["Success", "ok"],
    ["Failure", "error"],
    ["Cancel", "cancel"],
  ].map(([text, outcome]) =>
    button(text, () => ({ do: "finish", id: chosen, outcome }), {
      "data-why": "No call is in flight; let one arrive.",
      "aria-describedby": unique("chosen"),
    }),
  );
  const trouble = make("p", { class: "labkit-trouble", id: unique("trouble"), role: "alert" });
  const flights = make("div", { class: "labkit-flights" });
  const none = make("span", { class: "labkit-muted" }, "none");
  const chosenWords = make("span", { class: "labkit-hidden", id: unique("chosen") });

  const predict = make("input", {
    type: "checkbox",
    onchange: () => press({ do: "predict", on: predict.checked }),
  });
  const tally = make("span", { class: "labkit-tally" });
  const compare = make("input", {
    type: "checkbox",
    role: "switch",
    onchange: () => press({ do: "compare", on: compare.checked }),
  });
  const compareLabel = make("label", { class: "labkit-check" }, compare, "Side by side");
  const others = beside((message) => {
    from = document.activeElement;
    press(message);
  }, unique);

  // -- what a learner is asked

  const radios = (name, options) =>
    options.map(([value, text]) =>
      make("label", { class: "labkit-option" }, make("input", { type: "radio", name: unique(name), value }), text),
    );
  // Of one breaker; of several, a view says what is asked.
  const ofOne = [
    ["admitted", "Does the call get through?", [["yes", "admitted"], ["no", "rejected"]]],
    ["state", "What is the breaker then?", Object.entries(WORDS)],
  ];
  const fields = { admitted: make("fieldset", {}), state: make("fieldset", {}) };
  let asked = null; // what the fields ask now
  function askFor(wanted) {
    if (wanted === asked || JSON.stringify(wanted) === JSON.stringify(asked)) return;
    asked = wanted;
    for (const [name, text, options] of wanted) {
      fields[name].replaceChildren(
        make("legend", {}, text), make("div", { class: "labkit-row" }, ...radios(name, options)));
    }
  }
  askFor(ofOne);
  const picked = (name) => question.querySelector(`input[name="${unique(name)}"]:checked`)?.value ?? null;
  const event = make("p", { class: "labkit-event", id: unique("event") });
  const question = make(
    "form",
    {
      class: "labkit-question",
      hidden: true,
      "aria-labelledby": unique("event"),
      onsubmit: (submitted) => {
        submitted.preventDefault();
        press({ do: "answer", state: picked("state"), admitted: picked("admitted") });
      },
    },
    event,
    fields.admitted,
    fields.state,
    make(
      "div",
      { class: "labkit-row" },
      make("button", { type: "submit", class: "labkit-main" }, "See if it is so"),
      make("button", { type: "button", onclick: () => press({ do: "skip" }) }, "Show it without"),
      make("button", { type: "button", onclick: () => press({ do: "back" }) }, "Take it back"),
    ),
  );

  // -- what a learner is told

  const verdict = make("span", { class: "labkit-verdict" });
  const sentence = make("span", {});
  const notice = make("p", { class: "labkit-notice", role: "status" });
  const told = make("p", { class: "labkit-sentence", role: "status" }, verdict, sentence);
  const now = make("span", { class: "labkit-now" });
  const gauges = make("ul", { class: "labkit-gauges" });
  const wide = make("div", { class: "labkit-wide" });
  const narrow = make("div", { class: "labkit-narrow" });
  const rows = make("tbody");
  const head = make("tr");
  const count = make("summary");
  const table = make(
    "table",
    {},
    make("caption", { class: "labkit-hidden" }, "The steps so far"),
    make("thead", {}, head),
    rows,
  );

  root.append(
    make(
      "div",
      { class: "labkit-row labkit-top" },
      make("label", { class: "labkit-check" }, predict, "Predict first"),
      compareLabel,
      tally,
      make("span", { class: "labkit-gap" }),
      now,
      undo,
      reset,
    ),
    make(
      "div",
      { class: "labkit-actions" },
      make("div", { class: "labkit-row", role: "group", "aria-label": "Calls and time" }, call,
        make("span", { class: "labkit-gap" }), make("label", { for: seconds.id }, "Seconds"), seconds, advance, rest),
      trouble,
      make("div", { class: "labkit-end", role: "group", "aria-label": "End a call" },
        make("span", { class: "labkit-label" }, "In flight"), flights,
        make("div", { class: "labkit-endings" },
          make("span", { class: "labkit-label" }, "ends with"), ...endings, chosenWords)),
    ),
    others.tries,
    question,
    told,
    notice,
    gauges,
    others.columns,
    wide,
    narrow,
    make("details", {}, count, make("div", { class: "labkit-scroll" }, table)),
  );

  // -- showing a view

  function showFlights() {
    const ids = view.flights.map((flight) => flight.id);
    if (!ids.includes(chosen)) chosen = ids[0] ?? null;
    const key = JSON.stringify([view.flights, view.late]);
    if (flights.dataset.key !== key) {
      flights.dataset.key = key;
      const focused = flights.contains(document.activeElement);
      flights.replaceChildren(
        ...(ids.length === 0
          ? [none]
          : view.flights.map((flight) =>
              make(
                "label",
                { class: `labkit-option labkit-flight-${flight.kind}` },
                make("input", {
                  type: "radio",
                  name: unique("flight"),
                  value: flight.id,
                  onchange: () => {
                    chosen = flight.id;
                    showChosen();
                  },
                }),
                `${flight.id}${flight.kind !== "probe" ? "" : view.compare ? ", a probe" : ", the probe"}`,
                make("span", { class: "labkit-muted" }, ` since ${flight.since} s`),
                ...[view.late[flight.id], flight.where].filter(Boolean).map((words) =>
                  make("span", { class: "labkit-note" }, words)),
              ),
            )),
      );
      if (focused) flights.querySelector("input")?.focus();
    }
    for (const input of flights.querySelectorAll("input")) input.checked = input.value === chosen;
    showChosen();
  }

  function showChosen() {
    say(chosenWords, chosen === null ? "no call is in flight" : `for ${chosen}`);
    for (const ending of endings) allow(ending, chosen !== null && !asking);
  }

  function showGauges() {
    if (gauges.children.length !== view.gauges.length) {
      gauges.replaceChildren(
        ...view.gauges.map(() =>
          make("li", {}, make("span", { class: "labkit-name" }), make("strong"),
            make("span", { class: "labkit-bar", "aria-hidden": "true" }, make("span")), make("code")),
        ),
      );
    }
    view.gauges.forEach((gauge, index) => {
      const [name, text, bar, key] = gauges.children[index].children;
      say(name, gauge.name);
      say(text, gauge.text);
      say(key, gauge.key);
      bar.firstChild.style.width = `${100 * gauge.share}%`;
      gauges.children[index].classList.toggle("labkit-idle", gauge.idle);
    });
  }

  function showQuestion() {
    const before = question.dataset.key ?? "";
    question.dataset.key = view.question === null ? "" : JSON.stringify([view.question, view.history.length]);
    asking = view.question !== null;
    question.hidden = !asking;
    for (const each of [call, advance, rest]) {
      allow(each, !asking && (each !== rest || view.to_cooldown_end !== ""));
    }
    rest.dataset.why = asking ? "" : "No cooldown is running.";
    if (asking && question.dataset.key !== before) {
      askFor(view.question.fields ?? ofOne);
      for (const input of question.querySelectorAll("input")) input.checked = false;
      fields.admitted.hidden = !view.question.about_admission;
      say(event, view.question.text);
      // Only the page that asked moves: a second tab of the same kernel stays where its reader is.
      if (root.contains(document.activeElement)) question.querySelector("fieldset:not([hidden]) input").focus();
    }
  }

  return (next) => {
    const first = view === null;
    const before = view;
    view = next;
    const answering = question.contains(document.activeElement);
    predict.checked = view.predict;
    compare.checked = view.compare !== null;
    compareLabel.hidden = !view.can_compare;
    say(tally, view.tally);
    say(now, `${view.now} s`);
    now.setAttribute("aria-label", `time: ${view.now} seconds`);
    showQuestion();
    if (answering && !asking) (from ?? call).focus();
    showFlights();
    say(verdict, view.verdict ? `${view.verdict.right ? "✓" : "✗"} ${view.verdict.text} ` : "");
    verdict.className = `labkit-verdict ${view.verdict?.right ? "labkit-right" : "labkit-wrong"}`;
    say(sentence, view.sentence);
    say(notice, view.notice);
    say(trouble, view.trouble);
    seconds.setAttribute("aria-invalid", String(view.trouble !== ""));
    allow(undo, view.history.length > 0);
    undo.dataset.why = "There is no step to take back.";
    gauges.hidden = view.compare !== null;
    showGauges();
    if (first || (before.compare === null) !== (view.compare === null)) {
      root.setAttribute("aria-label", `State stepper of ${view.compare ? "three circuit breakers" : "a circuit breaker"}`);
      // Side by side, the diagram of one breaker is folded away under the columns.
      if (view.compare) others.diagram.append(wide, narrow);
      else others.columns.after(wide, narrow);
    }
    others.paint(view.compare);
    if (first || before.wide !== view.wide) {
      // Two views may show the same picture, whose ids say what is drawn: make them this view's own.
      const own = (svg) => svg.replaceAll(/labkit-(?=[0-9a-f]{8}-)/g, unique(""));
      wide.innerHTML = own(view.wide);
      narrow.innerHTML = own(view.narrow);
    }
    root.dataset.state = view.state;
    root.dataset.steps = view.history.length;
    const steps = view.history.length;
    say(count, steps === 0 ? "No step so far" : steps === 1 ? "The step so far" : `The ${steps} steps so far`);
    const names = ["at", "step", ...(view.compare ? view.compare.names : ["decision", "state after"])];
    if (head.dataset.names !== names.join()) {
      head.dataset.names = names.join();
      head.replaceChildren(...names.map((text) => make("th", { scope: "col" }, text)));
    }
    rows.replaceChildren(
      ...view.history.map((step) =>
        make("tr", {}, ...[`${step.at} s`, step.what, ...(step.cells ?? [step.decision, step.state])].map((text) => make("td", {}, text))),
      ),
    );
  };
}
