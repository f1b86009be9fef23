"""The panels of a trace's timeline: each draws one thing over a shared axis of seconds, at a height that never changes.

A rate is a line of steps, one a bin: nothing is smoothed over the edge of an outage. Words stand at what they name,
where there is room for them, and in the panel's head otherwise.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from math import ceil, floor, inf, log10, nan
from typing import NamedTuple, TypeAlias

from labkit.plots.draw.shapes import Area, Box, Disc, Line, Shape, Words, mark
from labkit.plots.draw.style import LINES, MARKS, SIZE, SIZE_LABEL, SIZE_SMALL, SIZE_TICK, STATES, width_of
from labkit.plots.runs.binned import Axis, Binned, Floats, Ribbon, highest, round_step

__all__ = [
    "GAP",
    "HEAD",
    "HEIGHTS",
    "Fault",
    "Frame",
    "Scales",
    "draw_areas",
    "draw_axis",
    "draw_grid",
    "draw_key",
    "draw_panels",
    "draw_row",
    "draw_steps",
    "draw_strip",
    "in_all",
    "risen",
    "scales_of",
    "seconds_words",
    "where_any",
]

Rect: TypeAlias = tuple[float, float, float, float]  # left, top, right, bottom

HEIGHTS = {"callers": 112.0, "breaker": 84.0, "attempts": 84.0, "in flight": 62.0, "latency": 74.0}
HEAD = 22.0  # above each panel, for its name
GAP = 7.0
STRIP = 36.0  # above all panels, for the faults
_LABEL = 14.0  # how high a label is
_HEADROOM = 1.28  # how much higher a panel is than what it shows, for labels
_EDGE = 10.0  # where a panel's name begins
_ROWS = 14  # more breakers than this are drawn as how many of them are in which state


class Fault(NamedTuple):
    """A band: from when to when, its words ("" for one that is told with another), and the row of its words.

    `capacity` says that a service only has fewer workers than usual, and does not fail.
    """

    start: float
    end: float
    words: str
    row: int = 0
    capacity: bool = False


class Scales(NamedTuple):
    """Where each panel's vertical axis ends.

    Attributes:
        callers, attempts: events a second.
        in_flight: attempts.
        latency: seconds, from and to; logarithmic between them.
        at_once: whether there are bins in which half of the calls took no time.
    """

    callers: float
    attempts: float
    in_flight: float
    latency: tuple[float, float]
    at_once: bool


@dataclass(slots=True)
class Frame:
    """Where one trace is drawn.

    Attributes:
        left, right: of the panels, in pixels.
        axis: seconds.
        ticks: whether the vertical axes carry their numbers here, and the panels their names.
        key: whether the breaker's panel says here what its textures are.
        capacity: workers by service.
    """

    left: float
    right: float
    axis: Axis
    ticks: bool = True
    key: bool = True
    capacity: Mapping[str, int] = field(default_factory=dict)
    _edges: list[float] = field(default_factory=list)

    def at(self, seconds: float) -> float:
        """Where a moment lies."""
        share = min(1.0, max(0.0, seconds / self.axis.end))
        return round(self.left + (self.right - self.left) * share, 2)

    @property
    def edges(self) -> list[float]:
        """Where the bins begin, and where the last one ends."""
        if not self._edges:
            self._edges = [round(self.left + index * self.bin, 2) for index in range(self.axis.bins + 1)]
        return self._edges

    @property
    def bin(self) -> float:
        """Pixels of a bin."""
        return (self.right - self.left) / self.axis.bins


def scales_of(data: Sequence[Binned], capacity: Sequence[Mapping[str, int]]) -> Scales:
    """Return the axes on which all of the data fit."""

    def most(lines: list[Floats]) -> float:
        return max([highest(line) for line in lines], default=0.0)

    callers = [one.offered for one in data] + [in_all(one) for one in data]
    attempts = [line for one in data for line in one.attempts.values()]
    levels = most([line for one in data for line in one.in_flight.values()])
    for workers in (workers for one in capacity for workers in one.values()):
        if workers <= 3.0 * levels:
            levels = max(levels, float(workers))
    slow = most([one.p95 for one in data])
    least = min([value for one in data for value in one.median if value > 0.0], default=slow or 0.1)
    slow = max(slow, least)
    latency = (max(least / 1.5, slow / 1e5), max(slow * 1.5, least * 4.0))
    return Scales(
        most(callers) or 1.0,
        most(attempts) or 1.0,
        levels or 1.0,
        latency,
        any(0.0 in one.median for one in data),
    )


def in_all(data: Binned) -> Floats:
    """Return how many calls ended, a second, however they did."""
    return [sum(rates) for rates in zip(*data.ended.values(), strict=True)]


def risen(base: float | Floats, line: Floats, unit: float) -> Floats:
    """Return where a line lies that stands on a base (one for all bins, or one for each), with `unit` pixels for 1.

    Args:
        base: what the line stands on, in pixels from the top.
        line: a value for each bin.
        unit: pixels for a value of 1.
    """
    if isinstance(base, float):
        return [base - value * unit for value in line]
    return [under - value * unit for under, value in zip(base, line, strict=True)]


def where_any(rate: Floats, edge: Floats) -> Floats:
    """Return the edge where there is anything below it, and NaN elsewhere."""
    return [y if value > 0.0 else nan for value, y in zip(rate, edge, strict=True)]


def draw_panels(
    data: Binned, frame: Frame, scales: Scales, faults: Sequence[Fault], top: float
) -> tuple[list[Shape], dict[str, float]]:
    """Return all panels, one below the other, and where the top of each is.

    Args:
        data: the run, counted into bins.
        frame: where time lies on the picture.
        scales: the largest value of each panel.
        faults: when a service failed, drawn behind all panels.
        top: the upper edge of the first panel, in pixels.
    """
    shapes: list[Shape] = []
    tops = {}
    draw: dict[str, Callable[[Binned, Frame, Scales, float], list[Shape]]] = {
        "callers": _callers,
        "breaker": _breaker,
        "attempts": _attempts,
        "in flight": _in_flight,
        "latency": _latency,
    }
    y = top
    for name, high in HEIGHTS.items():
        y += HEAD
        tops[name] = y
        shapes.append(Box(frame.left, y, frame.right - frame.left, high, fill="panel"))
        for fault in faults:
            x0, x1 = frame.at(fault.start), frame.at(fault.end)
            if x1 - x0 >= 0.5:
                # A little short, so that two in a row are two.
                shapes.append(Box(x0, y, round(max(0.5, x1 - x0 - 1.0), 2), high, fill="band"))
        if frame.ticks and name != "breaker":
            shapes.append(Words(_EDGE, y - 7.0, *_name(name)))
        shapes += draw[name](data, frame, scales, y)
        y += high + GAP
    return shapes, tops


def _name(panel: str) -> tuple[str, float, str, str, bool, bool, bool, str]:
    words, unit = {
        "callers": ("callers", "calls per second"),
        "breaker": ("breaker", ""),
        "attempts": ("dependency", "attempts per second"),
        "in flight": ("", "attempts in flight"),
        "latency": ("latency", "seconds, as callers saw it"),
    }[panel]
    return (words or unit, SIZE if words else SIZE_SMALL, "start", "text" if words else "muted",
            bool(words), False, False, unit if words else "")  # fmt: skip


# -- the axis of seconds and what happened to the dependency


def draw_axis(frame: Frame, y: float) -> list[Shape]:
    """Return the axis of seconds, with its upper edge at y; 24 pixels high."""
    end = frame.axis.end
    wide = frame.right - frame.left
    step = round_step(end / max(2.0, min(10.0, wide / 62.0)))
    shapes: list[Shape] = [Line(((frame.left, y), (frame.right, y)), "line", 1.2)]
    count = floor(end / step + 1e-9)
    for index in range(count + 1):
        seconds = index * step
        x = frame.at(seconds)
        text = f"{seconds:g}" + (" s" if index == count else "")
        shapes.append(Line(((x, y), (x, y + 5.0)), "line", 1.2))
        half = width_of(text, SIZE_TICK) / 2
        shapes.append(Words(min(x, frame.right + 12.0 - half), y + 18.0, text, SIZE_TICK, "middle", ink="muted"))
    return shapes


def draw_strip(frame: Frame, faults: Sequence[Fault], y: float) -> list[Shape]:
    """Return the faults' words, each over the beginning of its band, with the strip's upper edge at y.

    Args:
        frame: where time lies on the picture.
        faults: when a service failed, with its words and its row.
        y: the upper edge in pixels.
    """
    shapes: list[Shape] = []
    taken: dict[int, float] = {}
    for fault in faults:
        x0, x1 = frame.at(fault.start), frame.at(fault.end)
        base = y + STRIP - 17.0 * fault.row
        if x1 - x0 >= 0.5:
            shapes.append(Line(((x0, base), (max(x0 + 0.5, x1 - 2.0), base)), "muted", 2.0))
        wide = width_of(fault.words, SIZE_LABEL)
        start = round(max(frame.left, min(x0, frame.right - wide)), 2)
        if fault.words and start >= taken.get(fault.row, 0.0) and wide <= frame.right - frame.left:
            shapes.append(Words(start, base - 5.0, fault.words, SIZE_LABEL))
            taken[fault.row] = start + wide + 10.0
    return shapes


# -- the panels


def _callers(data: Binned, frame: Frame, scales: Scales, top: float) -> list[Shape]:
    high = HEIGHTS["callers"]
    upper = scales.callers * _HEADROOM
    shapes = draw_grid(frame, top, high, upper)
    floor_: Floats = [top + high] * data.axis.bins
    below: Floats = [0.0] * data.axis.bins
    words = {"failed": data.failing, "unavailable": data.turned_away}
    layers: list[tuple[str, Floats, Floats]] = []
    edges: list[Shape] = []
    for kind, rate in data.ended.items():
        if not data.counts[kind]:
            continue
        style = LINES[kind]
        below = [under + value for under, value in zip(below, rate, strict=True)]
        upper_edge = risen(top + high, below, high / upper)
        if style.texture:
            shapes += draw_areas(frame, upper_edge, floor_, style.colour, style.texture, style.fade)
        edges += draw_steps(frame, where_any(rate, upper_edge), style.colour, style.line)
        layers.append((kind, upper_edge, floor_))
        floor_ = upper_edge
    offered = risen(top + high, data.offered, high / upper)
    shapes += edges
    shapes += draw_steps(frame, offered, LINES["offered"].colour, LINES["offered"].line)
    labels = _Labels(frame, top, top + high)
    # Where nothing is offered any more, what ended is the ceiling.
    ceiling = [came if came < over else over for over, came in zip(floor_, offered, strict=True)]
    heard = [f"{data.counts['offered']:,} offered"]
    if data.counts["offered"]:
        labels.beside(heard[0], offered, [], near=0.04)
    for kind, upper_edge, lower_edge in layers:
        text = f"{data.counts[kind]:,} {words.get(kind, LINES[kind].word)}"
        plaque = LINES[kind].texture in ("hatch", "dots")
        if not labels.inside(text, upper_edge, lower_edge, plaque=plaque):
            labels.over(text, upper_edge, lower_edge, ceiling)
    if data.counts["unfinished"]:
        labels.left_over.append(f"{data.counts['unfinished']:,} unfinished")
    return shapes + labels.shapes + _rest(labels.left_over, frame, top, "callers")


def _attempts(data: Binned, frame: Frame, scales: Scales, top: float) -> list[Shape]:
    high = HEIGHTS["attempts"]
    upper = scales.attempts * _HEADROOM
    shapes = draw_grid(frame, top, high, upper)
    lines = {name: risen(top + high, rate, high / upper) for name, rate in data.attempts.items()}
    shapes += _lines(frame, lines, "attempts", top + high)
    labels = _Labels(frame, top, top + high)
    for name, line in lines.items():
        peak, when = data.attempts_peak[name]
        text = f"at most {peak:,}/s" if len(lines) == 1 else f"{name}: at most {peak:,}/s"
        others = [other for key, other in lines.items() if key != name]
        labels.beside(text, line, others, peak=_bin_of(when, line, data.axis))
    if not lines:
        shapes.append(_nothing("no attempt reached it", frame, top + high / 2))
    return shapes + labels.shapes + _rest(labels.left_over, frame, top, "attempts")


def _in_flight(data: Binned, frame: Frame, scales: Scales, top: float) -> list[Shape]:
    high = HEIGHTS["in flight"]
    upper = scales.in_flight * _HEADROOM
    shapes = draw_grid(frame, top, high, upper, most=1, whole=True)
    lines = {name: risen(top + high, level, high / upper) for name, level in data.in_flight.items()}
    shapes += _lines(frame, lines, "in_flight", top + high)
    labels = _Labels(frame, top, top + high)
    style = LINES["capacity"]
    limits = {}
    for name, workers in frame.capacity.items():
        if name not in lines:
            continue
        words = f"{workers:,} workers" if len(lines) == 1 else f"{name}: {workers:,} workers"
        if workers > upper:
            labels.left_over.append(words)
            continue
        y = round(top + high - workers * (high / upper), 2)
        shapes.append(Line(((frame.left, y), (frame.right, y)), style.colour, style.line, dash=True))
        limits[words] = [y] * data.axis.bins
    for words, limit in limits.items():
        labels.beside(words, limit, list(lines.values()), near=0.97)
    for name, line in lines.items():
        peak, when = data.in_flight_peak[name]
        text = f"at most {peak:,}" if len(lines) == 1 else f"{name}: at most {peak:,}"
        others = [*(other for key, other in lines.items() if key != name), *limits.values()]
        labels.beside(text, line, others, peak=_bin_of(when, line, data.axis))
    return shapes + labels.shapes + _rest(labels.left_over, frame, top, "in flight")


def _latency(data: Binned, frame: Frame, scales: Scales, top: float) -> list[Shape]:
    high = HEIGHTS["latency"]
    low, up = (log10(edge) for edge in scales.latency)
    zero = 6.0  # pixels between what took no time and the least that can be told on the scale
    unit = (high - zero) / (up - low)

    foot = top + high - 1.0  # of what took no time

    def place(line: Floats) -> Floats:
        return [
            min(top + high - zero - (log10(seconds) - low) * unit, foot) if seconds > 0.0 else foot + 0.0 * seconds
            for seconds in line
        ]

    shapes: list[Shape] = []
    ticks = [(top + high, "0")] if scales.at_once else []
    for seconds in _round_seconds(*scales.latency):
        y = round(top + high - zero - (log10(seconds) - low) * unit, 2)
        if y > top + 6.0 and all(abs(y - other) >= 11.0 for other, _ in ticks):
            ticks.append((y, f"{seconds:g}"))
    for y, text in ticks:
        shapes.append(Line(((frame.left, y), (frame.right, y)), "grid", 1.0))
        if frame.ticks:
            shapes.append(Words(frame.left - 6.0, y + 4.0, text, SIZE_TICK, "end", ink="muted"))
    lines = {"p95": place(data.p95), "median": place(data.median)}
    labels = _Labels(frame, top, top + high)
    for kind, line in lines.items():
        shapes += draw_steps(frame, line, LINES[kind].colour, LINES[kind].line)
        if data.latency[0] is not None:
            others = [other for key, other in lines.items() if key != kind]
            labels.beside(LINES[kind].word, line, others, near=0.03)
    half, tail = data.latency
    if half is None or tail is None:
        shapes.append(_nothing("no call ended", frame, top + high / 2))
        return shapes
    told = f"p50 {seconds_words(half)}, p95 {seconds_words(tail)} over the run"
    return shapes + labels.shapes + _rest([told] if frame.key else [], frame, top, "latency")


def _round_seconds(low: float, high: float) -> list[float]:
    """Round times between two: the powers of ten, and where those are few, then 2 and 5 times those."""
    powers = range(floor(log10(low)) - 1, ceil(log10(high)) + 1)
    few = log10(high) - log10(low) < 2.0
    steps = [factor * 10.0**power for factor in ((1, 2, 5) if few else (1,)) for power in powers]
    return [float(f"{step:g}") for step in steps if low <= step <= high]


def seconds_words(value: float) -> str:
    """Return a time for people.

    >>> seconds_words(0.0), seconds_words(0.0324), seconds_words(2.0), seconds_words(61.64)
    ('0 s', '32 ms', '2.0 s', '61.6 s')
    """
    if value == 0.0:
        return "0 s"
    if value < 0.9995:
        return f"{value * 1000:.0f} ms" if value >= 0.00995 else f"{value * 1000:.2g} ms"
    return f"{value:,.1f} s"


# -- the breaker's ribbon


def _breaker(data: Binned, frame: Frame, scales: Scales, top: float) -> list[Shape]:
    high = HEIGHTS["breaker"]
    ribbons = data.ribbons
    groups: dict[tuple[str, str], list[Ribbon]] = {}
    for ribbon in ribbons:
        groups.setdefault((ribbon.breaker, ribbon.target), []).append(ribbon)
    shapes: list[Shape] = []
    right = frame.right
    if frame.key and ribbons:
        shapes, right = draw_key(ribbons, frame.right, top - 7.0)
    whose = _whose(ribbons, frame, right, len(groups))
    if frame.ticks:
        shapes.append(Words(_EDGE, top - 7.0, "breaker", SIZE, bold=True, tail=whose))
    elif whose:
        shapes.append(Words(frame.left, top - 7.0, whose, SIZE_SMALL, ink="muted"))
    if not ribbons:
        return [*shapes, _nothing(data.quiet, frame, top + high / 2)]
    if len(ribbons) > _ROWS:
        return shapes + _shares(ribbons, frame, top, high)
    captions = len(groups) if 1 < len(groups) <= 3 else 0
    gap = 3.0 if len(ribbons) <= 6 else 1.5
    room = high - 14.0 * captions - gap * (len(ribbons) + 1)
    thick = min(19.0, room / len(ribbons))
    y = top + (high - thick * len(ribbons) - gap * (len(ribbons) - 1) - 14.0 * captions) / 2
    for (breaker, target), rows in groups.items():
        if captions:
            named = breaker if sum(key[0] == breaker for key in groups) == 1 else f"{breaker}, {target}"
            shapes.append(Words(frame.left + 4.0, round(y + 10.0, 2), named, SIZE_TICK, ink="muted"))
            y += 14.0
        for ribbon in rows:
            shapes += draw_row(ribbon, frame, round(y, 2), thick)
            if frame.ticks and thick >= 9.0 and len(rows) > 1:
                number = f"{ribbon.replica + 1}"
                shapes.append(
                    Words(frame.left - 6.0, round(y + thick / 2 + 4.0, 2), number, SIZE_TICK, "end", ink="muted")
                )
            y += thick + gap
    return shapes


def draw_row(ribbon: Ribbon, frame: Frame, y: float, high: float) -> list[Shape]:
    """One breaker: its states as boxes that touch, each with its word where it fits, and its probes.

    Args:
        ribbon: the breaker's states and probes.
        frame: where time lies on the picture.
        y: the upper edge in pixels.
        high: the row's height in pixels.
    """
    shapes: list[Shape] = []
    words: list[Shape] = []
    size = max(2.2, min(4.5, high / 2 - 2.0))
    reach = size * 1.3 + 3.0
    spots = [frame.at(at) for at, _ in ribbon.probes]
    digits = 1 if frame.axis.end >= 60.0 else 2 if frame.axis.end >= 2.0 else 3
    for x0, x1, state, since in _periods(ribbon, frame):
        style = STATES[state]
        shapes.append(Box(x0, y, round(x1 - x0, 2), high, fill=style.colour, texture=style.texture, ink="#FFFFFF"))
        if high < 13.0:
            continue
        verb = {"OPEN": "opened", "CLOSED": "closed", "HALF_OPEN": "half-open"}[state]
        when = f"{since:.{digits}f} s"
        told = [f"{verb} {when}", when, style.word] if since > 0.0 else [style.word]
        inside = spots[bisect_right(spots, x0 - reach) : bisect_left(spots, x1 + reach)]
        # A word begins where the marks at the start of its period end, and stops before the next mark.
        start = x0 + 3.0
        while inside and inside[0] - reach < start + 4.0:
            start = max(start, inside.pop(0) + reach)
        end = min([x1 - 3.0, *(spot - reach for spot in inside)])
        for text in told:
            wide = width_of(text, SIZE_TICK, bold=True) + 10.0
            if wide <= end - start:
                x = round(start, 2)
                if style.texture != "solid":
                    words.append(Box(x, y + 1.5, wide, high - 3.0, fill=style.colour))
                words.append(Words(x + 5.0, y + high / 2 + 4.0, text, SIZE_TICK, ink="#FFFFFF", bold=True))
                break
    marks: list[Shape] = []
    last = -1e9
    for x, (_, good) in zip(spots, ribbon.probes, strict=True):
        if x - last < size * 1.5:
            continue
        last = x
        marks += _diamond(x, round(y + high / 2, 2), size, good)
    return shapes + words + marks


def _periods(ribbon: Ribbon, frame: Frame) -> list[tuple[float, float, str, float]]:
    """(from, to, state, since when in seconds) in pixels, none so short that it could not be seen."""
    found: list[tuple[float, float, str, float]] = []
    states = ribbon.states
    for index, (at, state) in enumerate(states):
        x0 = frame.at(at)
        x1 = frame.at(states[index + 1][0]) if index + 1 < len(states) else frame.right
        if found and state != "OPEN" and x1 - x0 < 1.0:
            before = found[-1]
            found[-1] = (before[0], x1, before[2], before[3])
        elif found and state == found[-1][2]:
            found[-1] = (found[-1][0], max(x1, found[-1][1]), state, found[-1][3])
        else:
            x0 = max(x0, found[-1][1]) if found else frame.left
            if x1 - x0 < 1.0 and state == "OPEN" and index + 1 < len(states):
                x1 = min(frame.right, x0 + 1.5)
            if x1 > x0:
                found.append((x0, x1, state, at))
    return found


def _diamond(x: float, y: float, size: float, good: bool | None) -> list[Shape]:
    """A probe: filled when it succeeded, hollow when it failed, a ring when it did not end by itself.

    White beneath, since it lies on a state's colour.
    """
    if good is None:
        return [Disc(x, y, size * 1.25, fill="#FFFFFF"), *mark("cancelled", x, y, size=size)]
    ink = MARKS["probe"].colour
    r = size * 1.3
    points = ((x, y - r), (x + r, y), (x, y + r), (x - r, y))
    outer = ((x, y - r - 1.6), (x + r + 1.6, y), (x, y + r + 1.6), (x - r - 1.6, y))
    return [
        Line(outer, "", 0.0, closed=True, fill="#FFFFFF"),
        Line(points, ink, 1.4, closed=True, fill=ink if good else "#FFFFFF"),
    ]


def _shares(ribbons: Sequence[Ribbon], frame: Frame, top: float, high: float) -> list[Shape]:
    """Many breakers: how many of them are in which state."""
    columns = max(1, int((frame.right - frame.left) / 2.0))
    moments = [(column + 0.5) * (frame.axis.end / columns) for column in range(columns)]
    changes = {state: [0] * (columns + 1) for state in STATES}
    for ribbon in ribbons:
        begins = [0, *(bisect_left(moments, at) for at, _ in ribbon.states[1:]), columns]
        for (_, state), begin, end in zip(ribbon.states, begins[:-1], begins[1:], strict=True):
            changes[state][begin] += 1
            changes[state][end] -= 1
    upper = len(ribbons) * 1.02
    shapes = draw_grid(frame, top, high, upper, most=2, whole=True)
    wide = Frame(frame.left, frame.right, Axis(frame.axis.end / columns, columns))
    base: Floats = [top + high] * columns
    for state, style in STATES.items():
        count = [float(many) for many in accumulate(changes[state][:-1])]
        edge = risen(base, count, high / upper)
        shapes += draw_areas(wide, edge, base, style.colour, style.texture, 1.0)
        shapes += draw_steps(wide, where_any(count, edge), style.colour, 1.5)
        base = edge
    return shapes


_PROBES = {True: "probe", False: "failed probe", None: "cancelled probe"}
_GOOD = {str(good): good for good in _PROBES}


def draw_key(ribbons: Sequence[Ribbon], right: float, y: float) -> tuple[list[Shape], float]:
    """Return what the ribbons' textures and marks are, right-aligned on a baseline, and where that begins.

    Args:
        ribbons: those that are drawn; only what occurs in them is explained.
        right: the right edge in pixels.
        y: the baseline in pixels.
    """
    items: list[tuple[str, str]] = [
        (state, style.word)
        for state, style in STATES.items()
        if state == "CLOSED" or any(state in (one for _, one in ribbon.states) for ribbon in ribbons)
    ]
    if len(ribbons) <= _ROWS:
        seen = {good for ribbon in ribbons for _, good in ribbon.probes}
        items += [(str(good), word) for good, word in _PROBES.items() if good in seen]
    shapes: list[Shape] = []
    x = right
    for what, word in reversed(items):
        x -= width_of(word, SIZE_TICK)
        shapes.append(Words(round(x, 2), y, word, SIZE_TICK, ink="muted"))
        if what in STATES:
            style = STATES[what]
            x -= 21.0
            swatch = Box(round(x, 2), y - 9.5, 16.0, 11.0, fill=style.colour, texture=style.texture, ink="#FFFFFF")
            shapes.append(swatch)
        else:
            x -= 14.0
            shapes += _diamond(round(x + 4.0, 2), y - 4.0, 4.0, _GOOD[what])
        x -= 12.0
    return shapes, x


def _whose(ribbons: Sequence[Ribbon], frame: Frame, right: float, groups: int) -> str:
    """Which breakers these are, as far as there is room for it in the panel's head."""
    if not ribbons:
        return ""
    start = _EDGE + width_of("breaker", SIZE, bold=True) + SIZE / 2 if frame.ticks else frame.left
    replicas = max(ribbon.replica for ribbon in ribbons) + 1
    name = ribbons[0].breaker if groups == 1 else f"{groups} breakers"
    rows = f"{name}, one row a replica" if len(ribbons) <= _ROWS else f"{name}, {replicas} replicas"
    for text in (rows, name) if replicas > 1 else (name,):
        if start + width_of(text, SIZE) <= right:
            return text
    return ""


# -- pieces


def draw_grid(
    frame: Frame, top: float, high: float, upper: float, most: int = 2, *, whole: bool = False
) -> list[Shape]:
    """The lines from which values are read off, at round (or whole) numbers; zero is the panel's lower edge.

    Args:
        frame: where time lies on the picture.
        top: the panel's upper edge in pixels.
        high: its height in pixels.
        upper: the value at its upper edge.
        most: how many lines there may be beside zero.
        whole: draw lines at whole numbers only.
    """
    step = round_step(upper / _HEADROOM / most / 2.0)
    if upper / _HEADROOM / step >= 1.5 * most + 1.0:
        step = round_step(step * 1.5)
    step = max(1.0, step) if whole else step
    shapes: list[Shape] = []
    count = floor(upper / step + 1e-9)
    for index in range(count + 1):
        value = index * step
        y = round(top + high - value * (high / upper), 2)
        if index and y - top < 8.0:
            break
        shapes.append(Line(((frame.left, y), (frame.right, y)), "grid", 1.0))
        if frame.ticks:
            text = f"{value:,.6g}" if value < 1e5 else f"{value:,.0f}"
            shapes.append(Words(frame.left - 6.0, y + 4.0, text, SIZE_TICK, "end", ink="muted"))
    return shapes


def _lines(frame: Frame, lines: dict[str, Floats], kind: str, base: float) -> list[Shape]:
    """One line a service; a single one is filled down to the base."""
    style = LINES[kind]
    shapes: list[Shape] = []
    if len(lines) == 1:
        for line in lines.values():
            shapes += draw_areas(frame, line, [base] * len(line), style.colour, style.texture, style.fade)
    for index, line in enumerate(lines.values()):
        shapes += draw_steps(frame, line, style.colour, max(0.8, style.line - 0.7 * index))
    return shapes


def draw_steps(frame: Frame, ys: Floats, ink: str, thick: float) -> list[Shape]:
    """A line of steps, broken where there is no value.

    Args:
        frame: where time lies on the picture.
        ys: the height for each bin, in pixels from the top; NaN where there is no value.
        ink: the line's colour.
        thick: its width in pixels.
    """
    shapes: list[Shape] = []
    for points in _runs(frame.edges, ys):
        shapes.append(Line(tuple(points), ink, thick))
    return shapes


def _runs(edges: Sequence[float], ys: Floats) -> list[list[tuple[float, float]]]:
    """The points of a line of steps: y by bin, from one edge to the next; a run each where values are missing."""
    runs: list[list[tuple[float, float]]] = []
    points: list[tuple[float, float]] = []
    before: float | None = None
    for x, level in zip(edges, ys, strict=False):
        if level == level:
            y = round(level * 100.0) / 100.0  # several times as fast as round(level, 2)
            if y == before:
                continue
            if before is None:
                points = []
                runs.append(points)
            else:
                points.append((x, before))
            points.append((x, y))
            before = y
        elif before is not None:
            points.append((x, before))
            before = None
    if before is not None:
        points.append((edges[len(ys)], before))
    return runs


def draw_areas(frame: Frame, upper: Floats, lower: Floats, ink: str, texture: str, fade: float) -> list[Shape]:
    """What lies between two lines of steps, wherever it is not empty.

    Args:
        frame: where time lies on the picture.
        upper, lower: the two lines, in pixels from the top for each bin.
        ink: the colour.
        texture: "solid", "hatch" or "dots".
        fade: how opaque a solid area is, from 0 to 1.
    """
    there = [under - over > 0.005 for over, under in zip(upper, lower, strict=True)]
    shapes: list[Shape] = []
    end = 0
    while True in there[end:]:
        start = there.index(True, end)
        end = there.index(False, start) if False in there[start:] else len(there)
        edges = frame.edges[start : end + 1]
        (over,), (under,) = _runs(edges, upper[start:end]), _runs(edges, lower[start:end])
        shapes.append(Area((*over, *reversed(under)), ink, texture, fade))
    return shapes


def _nothing(words: str, frame: Frame, y: float) -> Words:
    return Words((frame.left + frame.right) / 2, y + 4.0, words, SIZE_LABEL, "middle", ink="muted", italic=True)


def _rest(texts: Sequence[str], frame: Frame, top: float, panel: str) -> list[Shape]:
    """What found no place in its panel, in the panel's head, right-aligned."""
    shapes: list[Shape] = []
    x = frame.right
    words, size, _, _, bold, _, _, tail = _name(panel)
    limit = frame.left
    if frame.ticks:
        limit = _EDGE + width_of(words, size, bold=bold) + width_of(tail, size) + 20.0
    for text in texts:
        wide = width_of(text, SIZE_LABEL)
        if x - wide < limit:
            break
        shapes.append(Words(round(x, 2), top - 7.0, text, SIZE_LABEL, "end", ink="muted"))
        x -= wide + 14.0
    return shapes


class _Labels:
    """Places words in a panel so that they lie on no line and on no other words."""

    def __init__(self, frame: Frame, top: float, bottom: float) -> None:
        self._frame = frame
        self._top, self._bottom = top, bottom
        self._taken: list[Rect] = []
        self.shapes: list[Shape] = []
        self.left_over: list[str] = []

    def inside(self, text: str, upper: Floats, lower: Floats, *, plaque: bool) -> bool:
        """In the middle of an area, where it is high enough; on a plaque where the area has a texture."""
        wide = width_of(text, SIZE_LABEL) + 6.0
        windows = self._windows(wide, len(upper))
        if not windows:
            return False
        over, under = _most(upper, windows), _least(lower, windows)
        room = [low - up for up, low in zip(over, under, strict=True)]
        enough = max(_LABEL + 4.0, 0.9 * max(room))
        high = [place for place, here in enumerate(room) if here >= enough]
        free = [place for place in high if self._is_free(place, wide, over[place], under[place])]
        if not free:
            return False
        place = free[len(free) // 2]
        y = (over[place] + under[place] - _LABEL) / 2
        if plaque:
            x = self._frame.left + place * self._frame.bin
            self.shapes.append(Box(round(x - 2.0, 2), round(y - 1.5, 2), wide + 4.0, _LABEL + 3.0, 3.0, fill="paper"))
        self._put(text, place, wide, y, "middle")
        return True

    def over(self, text: str, upper: Floats, lower: Floats, ceiling: Floats) -> None:
        """Above everything, with a thin line down to the area where it is highest."""
        wide = width_of(text, SIZE_LABEL) + 6.0
        windows = self._windows(wide, len(upper))
        if not windows:
            self.left_over.append(text)
            return
        room = [low - up for up, low in zip(upper, lower, strict=True)]
        peak = room.index(max(room))
        target = self._frame.left + (peak + 0.5) * self._frame.bin
        roof = _least(ceiling, windows)
        best = None
        for place in range(len(upper) - windows + 1):
            x = self._frame.left + place * self._frame.bin
            y = self._top + 3.0
            if roof[place] < y + _LABEL + 1.0 or not self._is_free(place, wide, y, y + _LABEL):
                continue
            away = max(x - target, target - x - wide, 0.0) * 4.0 + abs(x + wide / 2 - target)
            if best is None or away < best[0]:
                best = (away, place)
        if best is None or best[0] > 5.0 * wide:
            self.left_over.append(text)
            return
        x = self._frame.left + best[1] * self._frame.bin
        start = min(max(target, x + 4.0), x + wide - 4.0)
        middle = (upper[peak] + lower[peak]) / 2
        y = self._top + 3.0 + _LABEL
        self.shapes.append(Line(((round(start, 2), y), (round(target, 2), round(middle, 2))), "text", 1.0))
        self.shapes.append(Disc(round(target, 2), round(middle, 2), 2.0, fill="text"))
        self._put(text, best[1], wide, self._top + 3.0)

    def beside(
        self, text: str, line: Floats, others: Sequence[Floats], *, near: float = 0.0, peak: int | None = None
    ) -> None:
        """Right above or below a line, where it is flat and no other comes near.

        Args:
            text: what to write.
            line: the line's y, by bin.
            others: lines to keep clear of.
            near: where along the axis it should rather be, from 0 to 1.
            peak: the bin that the words are about; they stand on it or next to it.
        """
        wide = width_of(text, SIZE_LABEL) + 6.0
        windows = self._windows(wide, len(line))
        if not windows:
            self.left_over.append(text)
            return
        over, under = _least(line, windows), _most(line, windows)
        places = range(len(over))
        if peak is not None:
            near = (peak + 0.5) / len(line)
        across = self._frame.right - self._frame.left
        away = [abs((place + windows / 2) / len(line) - near) * across for place in places]
        # Each a way to set it: the words' upper edge, by place; where it may be; what to keep clear of.
        tries: list[tuple[Floats, Sequence[int], Sequence[Floats]]]
        above = [y - 3.0 - _LABEL for y in over]
        if peak is None:
            tries = [(above, places, others), ([y + 3.0 for y in under], places, others)]
            score = [(low - up) * 2.0 + far * 0.06 for up, low, far in zip(over, under, away, strict=True)]
        else:
            # On top of the peak, or beside it at its height.
            on_it = range(max(0, peak - windows + 1), min(peak + 1, len(over)))
            level = [min(line[peak] + 1.0, self._bottom - _LABEL - 2.0)] * len(over)
            beside_it = [*range(on_it.start), *range(on_it.stop, len(over))]
            tries = [(above, on_it, others), (level, beside_it, [*others, line])]
            score = away
        best: tuple[float, int, float] | None = None
        for ys, allowed, clear in tries:
            # The second way is not the better one for a little.
            handicap = 14.0 if best is not None else 0.0
            fine = [place for place in allowed if self._top + 1.0 <= ys[place] <= self._bottom - 1.0 - _LABEL]
            for place in sorted(fine, key=score.__getitem__):
                if best is not None and score[place] + handicap >= best[0]:
                    break
                y = ys[place]
                if self._is_free(place, wide, y, y + _LABEL) and not any(
                    _crosses(other[place : place + windows], y - 1.0, y + _LABEL + 1.0) for other in clear
                ):
                    best = (score[place], place, y)
                    break
            if best is not None and peak is not None:
                break
        if best is None:
            self.left_over.append(text)
            return
        beside_left = peak is not None and best[1] + windows <= peak
        self._put(text, best[1], wide, best[2], "end" if beside_left else "start")

    def _windows(self, wide: float, bins: int) -> int:
        """How many bins so many pixels cover; 0 if the panel is too narrow."""
        count = ceil(wide / self._frame.bin)
        return count if count <= bins else 0

    def _is_free(self, place: int, wide: float, top: float, bottom: float) -> bool:
        x = self._frame.left + place * self._frame.bin
        return not any(
            x < right + 6.0 and x + wide + 6.0 > left and top < low + 1.0 and bottom + 1.0 > up
            for left, up, right, low in self._taken
        )

    def _put(self, text: str, place: int, wide: float, top: float, anchor: str = "start") -> None:
        x = self._frame.left + place * self._frame.bin
        self._taken.append((x, top, x + wide, top + _LABEL))
        at = {"start": x + 3.0, "middle": x + wide / 2, "end": x + wide - 3.0}[anchor]
        self.shapes.append(Words(round(at, 2), round(top + 10.8, 2), text, SIZE_LABEL, anchor))


def _bin_of(seconds: float, line: Floats, axis: Axis) -> int:
    """The bin of a peak: that of the moment, or of the highest point where that is another."""
    found = min(axis.bins - 1, int(seconds / axis.step))
    top = min(line)
    return found if line[found] <= top + 1.0 else line.index(top)


def _crosses(piece: Floats, top: float, bottom: float) -> bool:
    """Whether a piece of a line comes between two heights, or goes from above the one to below the other."""
    known = [y for y in piece if y == y]
    return bool(known) and max(known) > top and min(known) < bottom


def _least(line: Floats, windows: int) -> Floats:
    """The lowest value in each stretch of so many bins; NaN where one is."""
    return [-value for value in _most([-value for value in line], windows)]


def _most(line: Floats, windows: int) -> Floats:
    """The highest value in each stretch of so many bins; NaN where one is."""
    if any(value != value for value in line):
        found = _most([inf if value != value else value for value in line], windows)
        return [nan if value == inf else value for value in found]
    # Of stretches twice as long each time, and of the last two that cover what is asked for.
    span = 1
    while span * 2 <= windows:
        line = [one if one > other else other for one, other in zip(line, line[span:], strict=False)]
        span *= 2
    rest = windows - span
    if not rest:
        return line
    return [one if one > other else other for one, other in zip(line, line[rest:], strict=False)]
