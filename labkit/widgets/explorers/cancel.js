// The cancellation explorer's own: settings that are worth a try, in one press.

const own = () => {
  const buttons = make("div", { class: "labkit-row labkit-try", role: "group", "aria-label": "Try" });
  let send = null;
  return {
    build(place, act) {
      send = act;
      place.append(buttons);
    },
    paint(view, before) {
      if (before !== null) return;
      buttons.replaceChildren(make("span", { class: "labkit-label", "aria-hidden": "true" }, "Try"), ...view.extra.tries.map(([label, values]) =>
        make("button", { type: "button", onclick: () => send({ do: "set", values }) }, label)));
    },
  };
};
