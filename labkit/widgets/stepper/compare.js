// Several breakers side by side: the stepper's columns, their ribbons, and histories that are worth a try.

/**
 * @returns {tries, columns, diagram, paint(shown)}: two elements for the page, the place for a diagram, and what
 *   shows a view's `compare`, or hides all of it for null.
 */
function beside(press, unique) {
  const buttons = make("div", { class: "labkit-tries", role: "group", "aria-labelledby": unique("tries") });
  const tries = make("div", { class: "labkit-try", hidden: true },
    make("span", { class: "labkit-label", id: unique("tries") }, "Play from the beginning, in one press"), buttons);
  const stepsWide = make("div", { class: "labkit-steps-wide" });
  const stepsNarrow = make("div", { class: "labkit-steps-narrow" });
  const cards = make("ul", { class: "labkit-columns" });
  const choices = make("div", { class: "labkit-row" });
  const diagram = make("details", { class: "labkit-diagram" },
    make("summary", {}, "The diagram of one of them"),
    make("fieldset", {}, make("legend", { class: "labkit-hidden" }, "Whose diagram"), choices));
  const columns = make("div", { class: "labkit-beside", hidden: true }, stepsWide, stepsNarrow, cards);
  let before = null;

  const tag = () => make("span", { class: "labkit-differs" });
  const row = () => make("div", {}, make("dt"), make("dd", {}, make("span"), tag()));
  const fill = ({ children: [name, value] }, title, text, differs) => {
    say(name, title);
    say(value.children[0], text);
    say(value.children[1], differs ? "differs" : "");
  };
  const card = (column) =>
    make("li", { class: "labkit-breaker", "aria-labelledby": unique(column.name) },
      make("div", { class: "labkit-whose", id: unique(column.name) }, make("strong", {}, column.title), make("span", { class: "labkit-muted" }, column.under)),
      make("dl", {}, ...Array.from({ length: 2 + column.gauges.length }, row)),
      make("p", { class: "labkit-said" }));

  function paint(shown) {
    tries.hidden = columns.hidden = shown === null;
    if (shown === null) {
      before = null;
      diagram.remove();
      return;
    }
    if (before === null) {
      columns.append(diagram);
      buttons.replaceChildren(...shown.tries.map(([name, label]) =>
        make("button", { type: "button", onclick: () => press({ do: "try", name }) },
          make("span", {}, label), make("code", {}, name))));
      cards.replaceChildren(...shown.columns.map(card));
      choices.replaceChildren(...shown.columns.map(({ name, title }) =>
        make("label", { class: "labkit-option" },
          make("input", { type: "radio", name: unique("diagram"), value: name, onchange: () => press({ do: "diagram", of: name }) }),
          title)));
    }
    shown.columns.forEach((column, place) => {
      const [, list, said] = cards.children[place].children;
      fill(list.children[0], "State", column.word, column.differs.includes("state"));
      list.children[0].dataset.state = column.state;
      fill(list.children[1], "Decision", column.decision || "none", column.differs.includes("decision"));
      column.gauges.forEach((gauge, number) =>
        fill(list.children[number + 2], gauge.name, gauge.text, column.differs.includes(number)));
      say(said, column.sentence);
      cards.children[place].classList.toggle("labkit-faulty", column.fault !== "");
    });
    for (const input of choices.querySelectorAll("input")) input.checked = input.value === shown.diagram;
    if (before?.steps_wide !== shown.steps_wide) {
      const own = (svg) => svg.replaceAll(/labkit-(?=[0-9a-f]{8}-)/g, unique(""));
      stepsWide.innerHTML = own(shown.steps_wide);
      stepsNarrow.innerHTML = own(shown.steps_narrow);
    }
    before = shown;
  }
  return { tries, columns, diagram, paint };
}
