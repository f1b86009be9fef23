// The cancellation explorer's own: settings that are worth a try, in one press.

const own = () => {
  const buttons = make("div", { class: "labkit-row", role: "group", "aria-label": "Try" });
  let send = null;
  return {
    build(place, act) {
      send = act;
      place.append(make("div", { class: "labkit-row labkit-try" }, make("span", { class: "labkit-label", "aria-hidden": "true" }, "Try"), buttons));
    },
    paint(view, before) {
      if (before !== null) return;
      buttons.replaceChildren(...view.extra.tries.map(([label, values]) =>
        make("button", { type: "button", onclick: () => send({ do: "set", values }) }, label)));
    },
  };
};
