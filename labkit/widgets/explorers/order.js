// What the order explorer has beyond the others: the steps of one call, one at a time.

const own = () => {
  let at = 0;
  let steps = [];
  let go = null;

  const previous = make("button", { type: "button", onclick: () => go(at - 1) }, "◀ Previous step");
  const next = make("button", { type: "button", class: "labkit-main", onclick: () => go(at + 1) }, "Next step ▶");
  const slider = make("input", { type: "range", min: 0, step: 1, "aria-label": "step", oninput: () => go(slider.valueAsNumber) });
  const count = make("span", { class: "labkit-count" });
  const time = make("span", { class: "labkit-time" });
  const text = make("span", {});
  const list = make("ol", { class: "labkit-steps" });
  const summary = make("summary", {});
  const all = make("details", {}, summary, list);

  const item = ([seconds, layer, , sentence], number) =>
    make("li", {}, make("button", { type: "button", onclick: () => go(number) },
      make("span", { class: "labkit-time" }, `${seconds.toFixed(2)} s`), make("strong", {}, layer), make("span", {}, sentence)));

  const show = () => {
    const [seconds, , , sentence] = steps[at];
    allow(previous, at > 0);
    allow(next, at < steps.length - 1);
    slider.max = steps.length - 1;
    slider.value = at;
    slider.setAttribute("aria-valuetext", `${at + 1} of ${steps.length}`);
    say(count, `step ${at + 1} of ${steps.length}`);
    say(time, `${seconds.toFixed(2)} s`);
    say(text, sentence);
    [...list.children].forEach((each, number) => {
      if (number === at) each.firstChild.setAttribute("aria-current", "step");
      else each.firstChild.removeAttribute("aria-current");
    });
  };

  return {
    build(place, send, unique, root) {
      go = (to) => {
        if (to < 0 || to >= steps.length || to === at) return;
        at = to;
        show();
        send({ do: "step", to });
      };
      place.classList.add("labkit-follow");
      place.setAttribute("role", "group");
      place.setAttribute("aria-label", "Follow one call");
      place.append(
        make("div", { class: "labkit-row" }, previous, next, slider, count),
        make("p", { class: "labkit-step", role: "status", "aria-live": "polite" }, time, text));
      place.addEventListener("keydown", (event) => {
        const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
        if (!by || event.target === slider) return;
        event.preventDefault();
        go(at + by);
      });
      const picture = root.querySelector(".labkit-picture");
      picture.before(place);
      picture.after(all);
    },
    paint(view, before) {
      const known = JSON.stringify(view.extra.steps) === JSON.stringify(steps);
      if (!known) {
        steps = view.extra.steps;
        list.replaceChildren(...steps.map(item));
        say(summary, `All ${steps.length} steps`);
        at = view.extra.at;
      } else if (view.extra.at !== before?.extra.at) {
        at = view.extra.at;
      }
      show();
    },
  };
};
