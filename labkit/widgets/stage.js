// The base of every explorer's page: words to the kernel and back, and whether anybody listens.
// An explorer's own script follows and calls stage(model, el, build).

/** Makes an element: make("p", {class: "x", "aria-live": "polite"}, "text", child, ...). */
function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value != null) node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

/** Sets a text only if it differs, so that a screen reader does not read it again. */
function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** A button that cannot be pressed now stays where it is, keeps its focus and says so. */
function allow(button, allowed) {
  button.setAttribute("aria-disabled", String(!allowed));
}

/**
 * @param build (root, press, unique) => paint(view), or {paint, close} where there is something to let go of when the
 *   view goes: puts the explorer into root; press({do: ...}) talks to the kernel and gives the message's id, with which
 *   root hears "labkit-answered" once the view of it has been shown; unique("name") is an id that no other view on the
 *   page has.
 */
function stage(model, el, build) {
  // Counted on the page and not in here: each view may bring a copy of this script.
  const number = (globalThis.labkitViews = (globalThis.labkitViews ?? 0) + 1);
  // Answers go to all pages of a kernel: a message's id is this page's alone.
  const page = (globalThis.labkitPage ??= Math.random().toString(36).slice(2));
  const unique = (name) => `labkit-${number}-${name}`;
  const root = make("section", { class: "labkit" });
  const offline = make("p", { class: "labkit-offline", role: "status" });
  let asked = 0;
  const waiting = new Map();
  let lost = false;

  const listen = () => say(offline, "");
  const ask = (message) => {
    const id = `${page}.${number}.${++asked}`;
    const unheard = () => {
      lost = true;
      say(
        offline,
        "No answer from the kernel. If a cell is running, this goes on by itself when it ends; " +
          "if not, run this cell again.",
      );
    };
    waiting.set(id, setTimeout(unheard, 2500));
    try {
      model.send({ ...message, ask: id });
    } catch {
      unheard(); // the kernel is gone, and with it the line to it
    }
    return id;
  };
  const hear = (message) => {
    if (!message || !("answered" in message)) return;
    const timer = waiting.get(message.answered);
    if (timer === undefined) return;
    clearTimeout(timer);
    waiting.delete(message.answered);
    root.dataset.answered = message.answered;
    root.dispatchEvent(new CustomEvent("labkit-answered", { detail: message.answered }));
    if (waiting.size === 0 || lost) {
      lost = false;
      listen();
    }
  };
  // JupyterLab's shortcuts ask the focused element itself whether it wants them. A plain key belongs to the explorer
  // (two presses of "d" on a button would delete the cell); what runs the cell or saves the notebook still does.
  const shield = (event) => {
    if (!root.contains(event.target)) return;
    const theirs = event.ctrlKey || event.metaKey || (event.shiftKey && event.key === "Enter");
    event.target.toggleAttribute("data-lm-suppress-shortcuts", !theirs);
  };
  window.addEventListener("keydown", shield, true); // before JupyterLab, which listens on the document
  const built = build(root, ask, unique);
  const { paint, close } = typeof built === "function" ? { paint: built } : built;
  const repaint = () => paint(model.get("view"));
  root.prepend(offline);
  el.append(root);
  repaint();
  model.on("msg:custom", hear);
  model.on("change:view", repaint);
  ask({}); // is anybody there? A saved page may show this without a kernel.
  return () => {
    model.off("msg:custom", hear);
    model.off("change:view", repaint);
    window.removeEventListener("keydown", shield, true);
    for (const timer of waiting.values()) clearTimeout(timer);
    close?.();
    root.remove();
  };
}
