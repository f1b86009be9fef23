// What users read, as a list of cards: when, what was asked, the words, and what kind of answer that is. A kind is told
// by a sign and a word before its colour; what is invented is named once more, count by count.

const own = () => {
  const signs = { live: "●", unavailable: "■", invented: "▲", error: "×" };
  const list = make("ol", { class: "labkit-talk", "aria-label": "What users were told, in the order of time" });

  const card = (one) =>
    make("li", { class: `labkit-said labkit-said-${one.kind}` },
      make("div", { class: "labkit-said-head" },
        make("span", { class: "labkit-said-when" }, one.at),
        make("span", { class: "labkit-muted" }, one.moment),
        make("span", { class: "labkit-said-kind" },
          make("span", { "aria-hidden": "true" }, `${signs[one.kind]} `), one.badge)),
      make("p", { class: "labkit-said-asked" }, one.question),
      make("blockquote", { class: "labkit-said-text" }, one.text),
      ...one.invented.map((what) =>
        make("p", { class: "labkit-said-flag" }, make("span", { "aria-hidden": "true" }, "▲ "), `Invented: ${what}`)),
      ...(one.passage ? [make("p", { class: "labkit-said-note" }, one.passage)] : []));

  return {
    build(place) {
      place.append(list);
    },
    paint(view, before) {
      const now = JSON.stringify(view.extra.answers);
      if (before && JSON.stringify(before.extra.answers) === now) return;
      list.replaceChildren(...view.extra.answers.map(card));
    },
  };
};
