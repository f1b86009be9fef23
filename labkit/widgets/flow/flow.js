// The stage on which requests travel, from the callers through the layers to the service and back. It knows no rules: it
// is fed with events (labkit/scenario/read/journeys.py names them) and draws where each request is. The playback of a run and the
// stack that runs now use the same.

const FLOW = {
  begins: 0, waits: 1, arrives: 2, served: 3, answered: 4, fails: 5, runsOut: 6, turnedAway: 7, ends: 8,
  finalMarks: ["success", "unavailable", "rejection", "timeout", "failure", "cancelled", "", "not_useful"],
  states: ["CLOSED", "OPEN", "HALF_OPEN"],
};

/** The shapes of labkit/plots/draw/style.py around (0, 0), as paths: [path, filled]; a request that is under way has none. */
const SHAPES = {
  dot: ["M-4.6 0a4.6 4.6 0 1 0 9.2 0a4.6 4.6 0 1 0-9.2 0Z", true],
  cross: ["M-4.3-4.3L4.3 4.3M-4.3 4.3L4.3-4.3", false],
  "ringed cross": ["M-6.4 0a6.4 6.4 0 1 0 12.8 0a6.4 6.4 0 1 0-12.8 0ZM-3-3L3 3M-3 3L3-3", false],
  bar: ["M0-7V7", false],
  ring: ["M-4.4 0a4.4 4.4 0 1 0 8.8 0a4.4 4.4 0 1 0-8.8 0Z", false],
  diamond: ["M0-6.6L6.6 0L0 6.6L-6.6 0Z", false],
  square: ["M-4.2-4.2h8.4v8.4h-8.4Z", false],
  triangle: ["M0-5.4L5.2 4.2H-5.2Z", false],
  way: ["M-4.2-4.4L5.2 0L-4.2 4.4L-2 0Z", true],
};
const THICK = { bar: 4, cross: 2.2, "ringed cross": 1.8 };

/** A mark as a small picture beside its word; the word is its name. */
function icon(look, kind) {
  const { shape, colour } = kind === "way" ? { shape: "way", colour: "currentColor" } : look.marks[kind];
  const [path, filled] = SHAPES[shape];
  const holder = make("span", { class: "labkit-icon", "aria-hidden": "true" });
  const paint = filled ? `fill="${colour}"` : `fill="none" stroke="${colour}" stroke-width="${THICK[shape] ?? 1.9}"`;
  holder.innerHTML = `<svg viewBox="-8 -8 16 16" width="16" height="16"><path d="${path}" ${paint}/></svg>`;
  return holder;
}

/** A number that is the same for the same call, from 0 to 1, and looks drawn. */
function scatter(number) {
  let x = Math.imul(number + 1, 0x9e3779b1);
  x = Math.imul(x ^ (x >>> 15), 0x85ebca6b);
  return ((x ^ (x >>> 13)) >>> 0) / 4294967296;
}

/**
 * One request on its way: events go in, and where it is at a moment comes out.
 *
 * A layer takes no time, and a mark that takes none to cross the stage is not seen. So a mark travels the whole width in
 * `lag` seconds and is that much late at its far end; whatever else is drawn at a place is as late as a mark that
 * arrives there, and so what meets belongs together.
 */
class Traveller {
  constructor(number, row, plan, lag) {
    Object.assign(this, { number, row, plan, lag, key: scatter(number) });
    this.frames = []; // {t, u: share of the way, v: 0 outbound to 1 back, slot, mark, probe, attempt, jump}
    this.falls = []; // {t, slot, mark, probe}
    this.shown = []; // when each event is seen
    this.attempt = 0;
    this.probe = false;
    this.mark = "way";
    this.from = this.until = 0;
    this.over = false;
  }

  get last() {
    return this.frames[this.frames.length - 1];
  }

  #stay(t) {
    const last = this.last;
    if (t > last.t) this.frames.push({ ...last, t, mark: this.mark, probe: this.probe, attempt: this.attempt, jump: false });
    else Object.assign(last, { mark: this.mark, probe: this.probe, attempt: this.attempt });
    return Math.max(t, last.t);
  }

  #go(t, u, v, slot = null, gate = -1) {
    let arrival = t;
    const leg = (far, frame) => {
      arrival += this.lag * far;
      this.frames.push({ gate: -1, slot: null, ...frame, t: arrival, mark: this.mark, probe: this.probe, attempt: this.attempt, jump: false });
    };
    const door = 0.1; // from the service's door to a place in it
    if (this.last.slot && !slot) leg(door, { u: 1, v });
    if (slot && !this.last.slot && this.last.u < 1) leg(1 - this.last.u, { u: 1, v });
    const { last } = this;
    leg(Math.max(Math.abs(u - last.u), slot ? door : 0, v !== last.v ? 0.06 : 0), { u, v, slot, gate });
    return arrival;
  }

  /** @param slot of "arrives" and "is served": {service, place, queue}. */
  push(at, code, place, detail, slot = null) {
    const { plan } = this;
    let seen = at;
    if (code === FLOW.begins) {
      this.frames.push({ t: at, u: plan.share(-1), v: 0, gate: -1, slot: null, mark: "way", probe: false, attempt: 0, jump: false });
      this.from = at;
    } else if (this.over) {
      return;
    } else if (code === FLOW.waits) {
      const t = this.#stay(at);
      const back = this.frames.length > 1 && this.last.v === 1;
      const u = plan.share(place);
      const landed = this.#go(t, u, back || this.last.u > u ? 1 : 0);
      seen = this.#go(landed, u, 0.5);
      this.mark = "way";
      this.#stay(seen);
    } else if (code === FLOW.arrives) {
      const t = this.#stay(at);
      this.attempt += 1;
      this.mark = "way";
      this.#stay(t);
      if (this.last.v !== 0) this.#go(t, this.last.u, 0);
      if (detail) {
        const gate = plan.share(plan.breakerAfter(this.last.u));
        if (gate > this.last.u) this.#go(this.last.t, gate, 0);
        this.probe = true;
        this.#stay(this.last.t);
      }
      seen = this.#go(this.last.t, 1, 0, slot);
    } else if (code === FLOW.served) {
      seen = this.#go(this.#stay(at), 1, 0, slot);
    } else if (code === FLOW.answered || code === FLOW.fails) {
      seen = this.#stay(at);
      this.mark = code === FLOW.answered ? "success" : "failure";
      this.#stay(seen);
    } else if (code === FLOW.runsOut) {
      seen = this.#stay(at);
      this.falls.push({ t: seen, slot: this.last.slot, gate: -1, u: this.last.u, v: this.last.v, mark: "timeout", probe: this.probe });
      this.mark = "timeout";
      if (place >= 0) this.frames.push({ t: seen, u: plan.share(place), v: 1, gate: -1, slot: null, mark: "timeout", probe: this.probe, attempt: this.attempt, jump: true });
      else this.#stay(seen);
    } else if (code === FLOW.turnedAway) {
      const t = this.#stay(at);
      if (this.attempt) this.attempt += 1;
      this.mark = "way";
      this.probe = false;
      this.#stay(t);
      if (this.last.v !== 0) this.#go(t, this.last.u, 0);
      seen = this.#go(this.last.t, plan.share(place), 0, null, place);
      this.mark = "rejection";
      this.#stay(seen);
      this.#go(seen, plan.share(place), 1, null, place);
      if (this.attempt) this.attempt -= 1;
    } else if (code === FLOW.ends) {
      const t = this.#stay(at);
      const mark = FLOW.finalMarks[place] || this.mark;
      if (mark === "cancelled") {
        this.falls.push({ t, slot: this.last.slot, gate: -1, u: this.last.u, v: this.last.v, mark, probe: this.probe });
        this.until = t;
        seen = t;
      } else {
        if (mark !== this.mark && plan.fallback >= 0 && plan.share(plan.fallback) < this.last.u) {
          if (this.mark === "way") this.mark = mark;
          this.#go(t, plan.share(plan.fallback), 1);
        }
        this.mark = mark;
        this.#stay(this.last.t);
        seen = this.#go(this.last.t, plan.share(-1), 1);
        this.until = seen + this.lag * 0.3;
      }
      this.over = true;
    }
    if (!this.over) this.until = Infinity;
    this.shown.push(seen);
  }

  /** Where it is: the frame that began, the one that comes, and how far between; null if it is nowhere. */
  at(t) {
    if (t < this.from || t > this.until) return null;
    const { frames } = this;
    let low = 0;
    let high = frames.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (frames[middle].t <= t) low = middle;
      else high = middle - 1;
    }
    const now = frames[low];
    const next = frames[low + 1] ?? now;
    return { now, next: next.jump ? now : next, part: next === now || next.jump ? 0 : (t - now.t) / Math.max(next.t - now.t, 1e-9) };
  }
}

/** What there is on the way: the place of each layer as a share of it, from the callers at 0 to the service at 1. */
function flowPlan(data) {
  const { layers } = data;
  const share = (place) => (place < 0 ? -0.06 : (place + 0.75) / (layers.length + 0.6));
  return {
    ...data,
    share,
    isBreaker: (place) => layers[place].breaker,
    breakerAfter: (u) => layers.findIndex((layer, place) => layer.breaker && share(place) > u),
    fallback: layers.findIndex((layer) => layer.type_ === "fallback"),
  };
}

/** Gives each attempt a place at its service, the lowest that is free. */
class Slots {
  constructor() {
    this.busy = [];
    this.most = 0;
  }

  take(at = 0) {
    let place = this.busy.findIndex((until) => until <= at);
    if (place < 0) place = this.busy.length;
    this.busy[place] = Infinity;
    this.most = Math.max(this.most, place + 1);
    return place;
  }

  free(place, at = 0) {
    this.busy[place] = at;
  }
}

/**
 * The stage itself.
 *
 * @param plan of flowPlan.
 * @param look colours, shapes and textures: view.look.
 * @param most for each service the most places at once: [{work, queue}].
 */
function theatre(plan, look, most) {
  const canvas = make("canvas", { role: "img", "aria-label": "" });
  let pen = canvas.getContext("2d");
  const front = pen;
  const paths = Object.fromEntries(Object.entries(SHAPES).map(([name, [path, filled]]) => [name, [new Path2D(path), filled]]));
  const inks = {};
  const textures = {};
  const rows = plan.rows;
  const many = plan.layers.length;
  let wide = 0;
  let high = 0;
  let ratio = 1;
  let font = "sans-serif";
  let names = []; // of the callers and of each layer, in lines
  const geo = {};
  const fitted = new Map(); // texts, as short as their room
  let ground = null; // what never changes, drawn once

  function theme() {
    const style = getComputedStyle(canvas);
    for (const name of ["text", "muted", "line", "faint", "panel", "paper", "accent"]) inks[name] = style.getPropertyValue(`--labkit-${name}`).trim() || "#6b7280";
    inks.band = "rgba(194, 78, 0, 0.12)";
    font = style.fontFamily || "sans-serif";
    ground = null;
    fitted.clear();
    for (const [state, { colour, texture }] of Object.entries(look.states)) textures[state] = pattern(colour, texture);
  }

  function pattern(colour, texture) {
    if (texture === "solid") return colour;
    const side = 8;
    const tile = new OffscreenCanvas(side * ratio, side * ratio);
    const ink = tile.getContext("2d");
    ink.scale(ratio, ratio);
    ink.fillStyle = ink.strokeStyle = colour;
    if (texture === "hatch") {
      ink.lineWidth = 2.6;
      for (const shift of [-side, 0, side]) {
        ink.beginPath();
        ink.moveTo(shift - 1, side + 1);
        ink.lineTo(shift + side + 1, -1);
        ink.stroke();
      }
    } else {
      for (const [x, y] of [[2, 2], [6, 6]]) {
        ink.beginPath();
        ink.arc(x, y, 1.35, 0, 7);
        ink.fill();
      }
    }
    const made = pen.createPattern(tile, "repeat");
    made.setTransform(new DOMMatrix().scale(1 / ratio));
    return made;
  }

  /** Lay it out for a width, in pixels of the page; `tall` is a height to fill, or 0. */
  function lay(width, tall = 0) {
    ratio = Math.max(1, Math.min(3, globalThis.devicePixelRatio || 1));
    wide = Math.max(300, Math.floor(width));
    const callers = Math.min(84, wide * 0.11);
    const service = Math.min(236, Math.max(116, wide * 0.235));
    Object.assign(geo, { callers, service, left: callers + 6, right: wide - service - 14 });
    theme();
    names = [["callers", geo.callers + 10], ...plan.layers.map((layer) => [layer.name, (geo.right - geo.left) / (many + 0.6) - 6])]
      .map(([name, room]) => inTwo(name, room));
    const head = names.some((lines) => lines.length > 1) ? 61 : 46;
    const usual = { 1: 262, 2: 166, 3: 138 }[rows] ?? 122;
    const rowHigh = tall ? Math.max(100, (tall - head - 8) / rows) : usual;
    high = Math.round(head + rowHigh * rows + 8);
    canvas.width = wide * ratio;
    canvas.height = high * ratio;
    canvas.style.width = `${wide}px`;
    canvas.style.height = `${high}px`;
    Object.assign(geo, {
      head, rowHigh,
      gate: Math.max(34, Math.min(104, (wide - callers - service) / (many + 0.6) - 26)),
    });
    geo.grids = plan.services.map((one, place) => grid(place));
    ground = null;
  }

  /** A name on one line or, where it is too long for that, on two, broken after a "_". */
  function inTwo(name, room) {
    pen.font = `600 13px ${font}`;
    const fits = (text) => pen.measureText(text).width <= room;
    if (fits(name)) return [name];
    const parts = name.split(/(?<=_)/);
    for (let n = parts.length - 1; n > 0; n -= 1) {
      const first = parts.slice(0, n).join("");
      if (fits(first)) return [first, parts.slice(n).join("")];
    }
    return [name];
  }

  const x = (u) => geo.left + (geo.right - geo.left) * u;
  const top = (row) => geo.head + geo.rowHigh * row;
  const lanes = (row) => {
    const begin = top(row) + 34;
    const end = top(row) + geo.rowHigh - 30;
    const lane = (end - begin - 10) / 2;
    return { begin, end, lane, middle: (begin + end) / 2 };
  };
  const y = (row, v, key) => {
    const { begin, lane } = lanes(row);
    const within = 7 + (lane - 14) * key;
    return begin + within + (lane + 10) * v;
  };

  /** The places of a service, so that as many as are ever needed fit. */
  function grid(place) {
    const number = plan.services.length;
    const each = (geo.rowHigh * rows) / number;
    const named = number > 1 && place > 0 ? 18 : 0; // room for a name above it
    const area = { x: wide - geo.service, y: geo.head + each * place + 3 + named, width: geo.service - 6, height: each - 8 - named };
    const inside = { x: area.x + 14, y: area.y + 14, width: area.width - 28, height: area.height - 52 };
    const queue = most[place].queue > 0;
    const fit = (box, count) => {
      let pitch = 19;
      while (pitch > 4 && Math.floor(box.width / pitch) * Math.floor(box.height / pitch) < count) pitch -= 0.5;
      const columns = Math.max(1, Math.floor(box.width / pitch));
      return { ...box, pitch, columns, count, size: Math.min(1, pitch / 14) };
    };
    const split = queue ? inside.width * 0.42 : 0;
    return {
      area,
      queue: queue ? fit({ ...inside, width: split - 8 }, most[place].queue) : null,
      work: fit({ ...inside, x: inside.x + split, width: inside.width - split }, Math.max(most[place].work, 1)),
    };
  }

  function spot({ service, place, queue }) {
    const box = geo.grids[service][queue ? "queue" : "work"] ?? geo.grids[service].work;
    const column = place % box.columns;
    const line = Math.floor(place / box.columns);
    return [box.x + box.pitch * (column + 0.5), box.y + box.pitch * (line + 0.5), box.size];
  }

  function place(frame, who) {
    if (frame.slot) return spot(frame.slot);
    const off = frame.gate < 0 ? 0 : plan.isBreaker(frame.gate) ? geo.gate / 2 + 10 : 16; // it turns around before it
    return [x(frame.u) - off, y(who.row, frame.v, who.key), 1];
  }

  function position(who, t) {
    const where = who.at(t);
    if (!where) return null;
    const [x0, y0, s0] = place(where.now, who);
    const [x1, y1, s1] = place(where.next, who);
    const { part } = where;
    const bend = where.now.slot !== where.next.slot ? part * part * (3 - 2 * part) : part;
    return { x: x0 + (x1 - x0) * part, y: y0 + (y1 - y0) * bend, size: s0 + (s1 - s0) * part, frame: where.now, ahead: x1 - x0 };
  }

  // -- drawing

  function write(text, at, line, { size = 12, bold = false, ink = "text", align = "center", room = Infinity } = {}) {
    const face = `${bold ? "600 " : ""}${size}px ${font}`;
    if (pen.font !== face) pen.font = face;
    pen.fillStyle = inks[ink] ?? ink;
    pen.textAlign = align;
    const key = room < Infinity ? `${text}|${face}|${room}` : text;
    let shown = room < Infinity ? fitted.get(key) : text;
    if (shown === undefined) {
      shown = text;
      while (shown.length > 2 && pen.measureText(shown).width > room) shown = `${shown.slice(0, shown.endsWith("…") ? -2 : -1).trimEnd()}…`;
      if (fitted.size > 500) fitted.clear();
      fitted.set(key, shown);
    }
    pen.fillText(shown, at, line);
  }

  function box(left, up, width, height, radius, fill, stroke, line = 1.5) {
    pen.beginPath();
    pen.roundRect(left, up, width, height, radius);
    if (fill) {
      pen.fillStyle = fill;
      pen.fill();
    }
    if (stroke) {
      pen.strokeStyle = stroke;
      pen.lineWidth = line;
      pen.stroke();
    }
  }

  function drawMark(kind, at, line, { size = 1, probe = false, attempt = 0, alpha = 1 } = {}) {
    const style = kind === "way" ? { shape: "way", colour: inks.text } : look.marks[kind];
    const paint = (shape, colour, scale) => {
      const [path, filled] = paths[shape];
      pen.setTransform(ratio * scale, 0, 0, ratio * scale, at * ratio, line * ratio);
      pen.fillStyle = filled ? colour : inks.paper;
      if (filled || shape === "diamond" || shape === "ringed cross" || shape === "square" || shape === "ring" || shape === "triangle") pen.fill(path);
      if (!filled) {
        pen.strokeStyle = colour;
        pen.lineWidth = THICK[shape] ?? 1.9;
        pen.stroke(path);
      }
    };
    pen.globalAlpha = alpha;
    if (probe) {
      paint("diamond", look.marks.probe.colour, size * 1.35);
      if (kind !== "way") paint(style.shape, style.colour, size * 0.62);
    } else {
      paint(style.shape, style.colour, size);
    }
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    if (attempt > 1 && size > 0.6) write(String(attempt), at + 6.5 * size, line - 4 * size, { size: 10, bold: true, align: "left" });
    pen.globalAlpha = 1;
  }

  function drawGround() {
    if (!ground) {
      ground = new OffscreenCanvas(canvas.width, canvas.height);
      pen = ground.getContext("2d");
      pen.scale(ratio, ratio);
      paintGround();
      pen = front;
    }
    pen.drawImage(ground, 0, 0, wide, high);
  }

  function paintGround() {
    write("callers", 4 + geo.callers / 2, geo.head - 28, { bold: true, size: 13, room: geo.callers + 10 });
    plan.layers.forEach((layer, number) => {
      const room = ((geo.right - geo.left) / (many + 0.6)) - 6;
      const lines = names[number + 1];
      lines.forEach((line, n) => write(line, x(plan.share(number)), geo.head - 28 - 15 * (lines.length - 1 - n), { bold: true, size: 13, room }));
      const words = [layer.kind, layer.words].filter(Boolean);
      pen.font = `11.5px ${font}`;
      const both = words.join(" · ");
      write(pen.measureText(both).width <= room ? both : words[words.length - 1] ?? "", x(plan.share(number)), geo.head - 11, { ink: "muted", size: 11.5, room });
    });
    for (let row = 0; row < rows; row += 1) {
      const { begin, end, lane } = lanes(row);
      const up = top(row);
      box(geo.callers + 4, begin, wide - geo.service - geo.callers - 8, lane, 7, inks.panel);
      box(geo.callers + 4, begin + lane + 10, wide - geo.service - geo.callers - 8, lane, 7, inks.panel);
      box(4, begin - 6, geo.callers - 4, end - begin + 12, 9, inks.panel, inks.line);
      if (plan.replicas > 1) write(`replica ${row + 1}`, 4 + (geo.callers - 4) / 2, up + 20, { ink: "muted", size: 11.5, room: geo.callers });
      pen.fillStyle = inks.line;
      for (const [v, way] of [[0, 1], [1, -1]]) {
        const at = y(row, v, 0.5);
        for (let n = 0; n <= many; n += 1) {
          const between = (plan.share(n - 1) + (n === many ? 1 : plan.share(n))) / 2;
          pen.beginPath();
          pen.moveTo(x(between) - 3 * way, at - 4);
          pen.lineTo(x(between) + 3 * way, at);
          pen.lineTo(x(between) - 3 * way, at + 4);
          pen.lineWidth = 1.2;
          pen.strokeStyle = inks.faint;
          pen.stroke();
        }
      }
    }
  }

  function drawGate(number, row, breaker, scene) {
    const { begin, end, lane } = lanes(row);
    const at = x(plan.share(number));
    if (!breaker) {
      const half = 8;
      box(at - half, begin - 6, half * 2, end - begin + 12, 7, inks.paper, inks.line);
      return;
    }
    const half = geo.gate / 2;
    const style = look.states[breaker.state];
    const fill = textures[breaker.state];
    box(at - half, begin - 4, half * 2, end - begin + 8, 8, inks.paper);
    pen.save();
    pen.beginPath();
    pen.roundRect(at - half, begin - 4, half * 2, end - begin + 8, 8);
    pen.clip();
    if (breaker.state === "CLOSED") {
      pen.globalAlpha = 0.13;
      pen.fillStyle = style.colour;
      pen.fillRect(at - half, begin - 4, half * 2, end - begin + 8);
      pen.globalAlpha = 1;
      pen.fillRect(at - half, begin - 4, 7, end - begin + 8);
      pen.fillRect(at + half - 7, begin - 4, 7, end - begin + 8);
    } else {
      pen.globalAlpha = breaker.state === "OPEN" ? 0.85 : 0.8;
      pen.fillStyle = fill;
      pen.fillRect(at - half, begin - 4, half * 2, end - begin + 8);
      pen.globalAlpha = 1;
    }
    pen.restore();
    box(at - half, begin - 4, half * 2, end - begin + 8, 8, null, style.colour, 2.2);
    if (breaker.state !== "CLOSED") { // the bar across the way out; a probe finds a gap in it
      pen.fillStyle = style.colour;
      if (breaker.state === "OPEN") pen.fillRect(at - half - 3, begin - 4, 6, lane + 8);
      else {
        pen.fillRect(at - half - 3, begin - 4, 6, lane * 0.3);
        pen.fillRect(at - half - 3, begin + lane * 0.7, 6, lane * 0.3 + 4);
      }
    }
    const changed = scene.t - breaker.since;
    if (breaker.since > 0 && changed >= 0 && changed < scene.lag * 0.9) {
      const grown = changed / (scene.lag * 0.9);
      pen.globalAlpha = 1 - grown;
      box(at - half - 14 * grown, begin - 4 - 14 * grown, half * 2 + 28 * grown, end - begin + 8 + 28 * grown, 8 + 14 * grown, null, style.colour, 3);
      pen.globalAlpha = 1;
    }
    const pill = Math.max(half * 2, 66);
    box(at - pill / 2, begin - 32, pill, 24, 7, style.colour);
    write(style.word, at, begin - 15.5, { bold: true, size: 14, ink: "#ffffff", room: pill - 6 });
    if (breaker.state === "OPEN" && breaker.rest !== null) {
      const full = pill;
      box(at - full / 2, end + 9, full, 6, 3, inks.faint);
      if (breaker.rest > 0) box(at - full / 2, end + 9, full * Math.min(1, breaker.rest / breaker.cooldown), 6, 3, style.colour);
      write(breaker.rest > 0 ? `${breaker.rest.toFixed(1)} s left` : "next one probes", at, end + 26, { size: 11.5, ink: "text", bold: true });
    } else if (breaker.words) {
      write(breaker.words, at, end + 22, { size: 11.5, ink: "muted", room: (geo.right - geo.left) / (many + 0.4) });
    }
  }

  function drawService(number, scene) {
    const { area, work, queue } = geo.grids[number];
    const one = plan.services[number];
    const now = scene.services[number];
    const bad = now.words !== "";
    box(area.x, area.y, area.width, area.height, 10, inks.paper);
    if (bad) box(area.x, area.y, area.width, area.height, 10, inks.band);
    box(area.x, area.y, area.width, area.height, 10, null, bad ? look.states.OPEN.colour : inks.line, bad ? 2.4 : 1.5);
    if (number === 0 || plan.services.length > 1) {
      const line = number === 0 && plan.services.length === 1 ? geo.head - 28 : area.y - 6;
      write(one.name, area.x + area.width / 2, line, { bold: true, size: 13, room: area.width });
    }
    if (number === 0 && plan.services.length === 1) {
      write(bad ? now.words : "healthy", area.x + area.width / 2, geo.head - 11, { size: 11.5, bold: bad, ink: bad ? "text" : "muted", room: area.width });
    }
    if (one.workers !== null && plan.every === 1 && one.workers <= work.count) {
      for (let n = 0; n < one.workers; n += 1) {
        const [at, line] = spot({ service: number, place: n, queue: false });
        box(at - work.pitch * 0.42, line - work.pitch * 0.42, work.pitch * 0.84, work.pitch * 0.84, work.pitch * 0.3, null, inks.faint, 1.2);
      }
    }
    if (queue) write("queue", queue.x + queue.width / 2, area.y + 11, { size: 11, ink: "muted" });
    const foot = area.y + area.height - 12;
    const words = one.workers === null
      ? `${now.inside.toLocaleString("en")} in flight`
      : `${Math.min(now.inside, one.workers)}/${one.workers} busy, ${Math.max(0, now.inside - one.workers).toLocaleString("en")} waiting`;
    const several = plan.services.length > 1 ? `${bad ? now.words : "healthy"}, ` : "";
    write(several + words, area.x + area.width / 2, foot, { size: 12.5, bold: true, room: area.width - 10 });
    const limit = one.workers;
    if (limit !== null) {
      box(area.x + 14, foot - 21, area.width - 28, 5, 2.5, inks.faint);
      const share = Math.min(1, now.inside / limit);
      if (share > 0) box(area.x + 14, foot - 21, (area.width - 28) * share, 5, 2.5, now.inside > limit ? look.states.OPEN.colour : inks.line);
    }
  }

  /**
   * Draws a moment.
   *
   * @param scene {t, lag, travellers, breakers: [[of each layer] of each row], services: [{words, inside}], follow}
   * @returns how many marks there were.
   */
  function draw(scene) {
    if (!wide) return 0;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, wide, high);
    pen.textBaseline = "alphabetic";
    drawGround();
    if (scene.rate) write(scene.rate, 4 + geo.callers / 2, geo.head - 11, { ink: "muted", size: 11.5, room: geo.callers + 12 });
    for (let row = 0; row < rows; row += 1) plan.layers.forEach((_, number) => drawGate(number, row, scene.breakers[row][number], scene));
    plan.services.forEach((_, number) => drawService(number, scene));
    let count = 0;
    const { t, lag, follow } = scene;
    const dim = follow ? 0.28 : 1;
    let chosen = null;
    for (const who of scene.travellers) {
      for (const fall of who.falls) {
        const age = (t - fall.t) / (lag * 0.9);
        if (age < 0 || age > 1) continue;
        const [at, line, size] = place(fall, who);
        drawMark(fall.mark, at + 5 * age, line + 58 * age * age, { size: Math.max(size, 0.75), probe: fall.probe, alpha: (1 - age) * (follow && follow !== who ? dim : 1) });
        count += 1;
      }
      const now = position(who, t);
      if (!now) continue;
      count += 1;
      if (who === follow) {
        chosen = now;
        continue;
      }
      const leaving = who.over && t > who.until - lag * 0.3 ? Math.max(0, (who.until - t) / (lag * 0.3)) : 1;
      drawMark(now.frame.mark, now.x, now.y, { size: now.size, probe: now.frame.probe, attempt: now.frame.attempt, alpha: dim * leaving });
    }
    if (chosen) {
      pen.strokeStyle = inks.accent;
      pen.lineWidth = 2.4;
      pen.beginPath();
      pen.arc(chosen.x, chosen.y, 13, 0, 7);
      pen.stroke();
      drawMark(chosen.frame.mark, chosen.x, chosen.y, { size: 1.15, probe: chosen.frame.probe, attempt: chosen.frame.attempt });
      const low = chosen.y < lanes(follow.row).middle;
      write(`call ${(follow.number + 1).toLocaleString("en")}`, Math.max(36, Math.min(wide - 40, chosen.x)), chosen.y + (low ? -19 : 28), { size: 12, bold: true, ink: "accent" });
    }
    return count;
  }

  /** The request at a point of the canvas, or null. */
  function hit(at, line, scene) {
    let best = null;
    let near = 15;
    for (const who of scene.travellers) {
      const now = position(who, scene.t);
      if (!now) continue;
      const far = Math.hypot(now.x - at, now.y - line);
      if (far < near) [best, near] = [who, far];
    }
    return best;
  }

  return { canvas, lay, draw, hit, theme, get height() { return high; } };
}

/** Counters with the mark of what they count, which is the key of the stage as well. */
function tallies(look, entries) {
  const list = make("dl", { class: "labkit-tallies" });
  const fields = new Map();
  for (const [name, mark, word] of entries) {
    const value = make("dd", {}, "0");
    const head = make("dt", {}, ...(mark ? [icon(look, mark)] : []), word);
    const part = make("div", { "data-count": name }, head, value);
    list.append(part);
    fields.set(name, value);
  }
  return { list, has: (name) => fields.has(name), set: (name, count) => say(fields.get(name), count.toLocaleString("en")) };
}

const TALLIES = [
  ["arrived", "way", "calls"],
  ["succeeded", "success", "answered"],
  ["not_useful", "not_useful", "of no use"],
  ["unavailable", "unavailable", "told unavailable"],
  ["rejected", "rejection", "turned away"],
  ["timeout", "timeout", "timed out"],
  ["failed", "failure", "failed"],
  ["cancelled", "cancelled", "gave up"],
  ["probes", "probe", "probes"],
];

/** Tells when the page's theme changes. */
function onTheme(heard) {
  const watcher = new MutationObserver(heard);
  watcher.observe(document.body, { attributeFilter: ["data-jp-theme-light", "class"] });
  return watcher;
}

/** What happened, in words that go on from "call 7": the sentences of labkit/scenario/read/journeys.py. */
function flowWords(data, [, code, place, detail], attempt) {
  const { phrases } = data;
  const fill = (key, where, why = "") => phrases[key].replace("{place}", where).replace("{number}", attempt).replace("{why}", why);
  const layer = (number) => data.layers[number]?.name ?? "";
  switch (code) {
    case FLOW.begins: return fill("begins", "");
    case FLOW.waits: return place < 0 ? fill("waits outside", "") : fill("waits", layer(place));
    case FLOW.arrives: return fill(detail ? "arrives as probe" : attempt > 1 ? "arrives again" : "arrives", data.services[place].name);
    case FLOW.served: return fill("is served", data.services[place].name);
    case FLOW.answered: return fill("is answered", data.services[place].name);
    case FLOW.fails: return fill("fails", data.services[place].name, phrases["why fails"][detail]);
    case FLOW.runsOut: return fill("runs out", layer(place) || "a limit");
    case FLOW.turnedAway: return fill("is turned away", layer(place), phrases["why turned away"][detail]);
    default: return fill("ends", "", phrases["why ends"][place]);
  }
}
