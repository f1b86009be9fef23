// The tradeoff explorer's map: a grid of cells, of which one is in the order of focus and the arrow keys go to the others.
// It asks the kernel for more of the map as long as there is more, a few runs at a time.

const own = () => {
  let send;
  let view = null;
  let focus = null; // [row, column] of the cell that Tab comes to
  const cells = []; // by row, by column
  const label = make("p", { class: "labkit-map-label" });
  const progress = make("progress", { class: "labkit-map-progress", "aria-label": "Runs of the map" });
  const count = make("span", { class: "labkit-muted" });
  const making = make("div", { class: "labkit-row labkit-map-making" }, progress, count);
  let table = null;
  let asked = -1; // how many were done when more was last asked for

  const choose = (row, column) => {
    const { threshold, cooldown } = view.extra.cells[row * cells[0].length + column];
    send({ do: "set", values: { failure_threshold: threshold, cooldown_period: cooldown } });
  };
  const go = (row, column) => {
    focus = [Math.min(cells.length - 1, Math.max(0, row)), Math.min(cells[0].length - 1, Math.max(0, column))];
    reach();
    cells[focus[0]][focus[1]].focus();
  };
  const reach = () => cells.forEach((line, row) => line.forEach((cell, column) => {
    cell.tabIndex = row === focus[0] && column === focus[1] ? 0 : -1;
  }));
  const keys = (event, row, column) => {
    const last = [cells.length - 1, cells[0].length - 1];
    const to = {
      ArrowUp: [row - 1, column], ArrowDown: [row + 1, column], ArrowLeft: [row, column - 1], ArrowRight: [row, column + 1],
      Home: [event.ctrlKey ? 0 : row, 0], End: [event.ctrlKey ? last[0] : row, last[1]], PageUp: [0, column], PageDown: [last[0], column],
    }[event.key];
    if (to) {
      event.preventDefault();
      go(...to);
    } else if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      choose(row, column);
    }
  };

  const head = (text, name) => make("div", { role: "columnheader", class: "labkit-map-head", "aria-label": name }, text);
  function build(extra, place) {
    table = make("div", {
      role: "grid", class: "labkit-map", "aria-label": "Map of failure_threshold, down, and cooldown_period, across",
      style: `--labkit-columns: ${extra.cooldowns.length}`,
    });
    table.append(make("div", { role: "row", class: "labkit-map-row" },
      head(make("span", { class: "labkit-hidden" }, "failure_threshold"), null), ...extra.cooldowns.map((each) => head(`${each} s`, `cooldown_period ${each} s`))));
    extra.thresholds.forEach((threshold, row) => {
      const line = extra.cooldowns.map((_, column) => make("div", {
        role: "gridcell", class: "labkit-map-cell",
        onclick: () => { go(row, column); choose(row, column); },
        onkeydown: (event) => keys(event, row, column),
      }));
      cells.push(line);
      table.append(make("div", { role: "row", class: "labkit-map-row" },
        make("div", { role: "rowheader", class: "labkit-map-head", "aria-label": `failure_threshold ${threshold}` }, threshold), ...line));
    });
    place.append(label, make("div", { class: "labkit-map-frame" },
      make("span", { class: "labkit-map-y", "aria-hidden": "true" }, "failure_threshold ↓"),
      make("span", { class: "labkit-map-x", "aria-hidden": "true" }, "cooldown_period →"), table), making);
  }

  let where;
  return {
    build(place, act) {
      where = place;
      send = act;
    },
    paint(shown) {
      view = shown;
      const { extra } = view;
      if (table === null) build(extra, where);
      say(label, extra.label);
      const total = extra.cells.length;
      extra.cells.forEach((each, index) => {
        const row = Math.floor(index / cells[0].length);
        const column = index % cells[0].length;
        const cell = cells[row][column];
        const chosen = each.threshold === extra.chosen[0] && each.cooldown === extra.chosen[1];
        say(cell, each.words);
        cell.setAttribute("aria-label", `${each.name}${each.best ? ", the best" : ""}`);
        cell.setAttribute("aria-selected", String(chosen));
        cell.style.background = each.ground;
        cell.style.color = each.ink;
        cell.classList.toggle("labkit-map-best", each.best);
        if (chosen && focus === null) focus = [row, column];
      });
      focus ??= [0, 0];
      reach();
      making.hidden = extra.done === total || view.question !== null;
      progress.max = total;
      progress.value = extra.done;
      say(count, `${extra.done} of ${total} runs`);
      if (extra.done < asked || view.question !== null) asked = -1; // another map
      if (extra.done < total && view.question === null && asked !== extra.done) {
        asked = extra.done;
        send({ do: "more" });
      }
    },
  };
};
