"""Breakers that count in different ways, on the same traffic: what each counts, and what state it is in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from labkit.plots.draw.picture import Picture
from labkit.plots.draw.shapes import Area, Box, Disc, Line, Shape, Words
from labkit.plots.draw.style import LINES, SIZE, SIZE_LABEL, SIZE_TICK, STATES, width_of
from labkit.plots.runs.binned import Axis, Floats, Ribbon, axis_of, binned, highest
from labkit.plots.runs.panels import Frame, draw_areas, draw_axis, draw_key, draw_row, draw_steps, risen, where_any

if TYPE_CHECKING:
    from labkit.scenario.run.trace import Trace
    from labkit.scenario.watch.breaker_counts import Counted

__all__ = ["count_ribbons"]

_GUTTER, _MARGIN, _EDGE = 54.0, 16.0, 10.0
_HEAD = 22.0
_TRAFFIC, _COUNT, _ROW = 46.0, 64.0, 19.0
_BETWEEN = 3.0  # a count and the ribbon below it
_GAP = 10.0
_ROOM = 1.42  # how much higher a panel is than what it shows


def count_ribbons(
    counted: Sequence[tuple[str, str, Trace, Counted]],
    without: Trace,
    *,
    width: float = 860.0,
    title: str = "What each breaker counts",
) -> Picture:
    """Return the picture: the traffic as it goes without a breaker, then for each breaker its count and its state.

    Args:
        counted: for each breaker what it is called, whose way of counting that is (in a few words), its run and counts.
        without: the run of the same traffic with no breaker before it.
        width: of the picture, in pixels.
        title: what it is called.
    """
    end = max(without.duration, 1.0)
    bins = axis_of([without], most=max(20, min(120, int((width - _GUTTER - _MARGIN) / 4.0))))
    frame = Frame(_GUTTER, max(width - _MARGIN, _GUTTER + 60.0), Axis(end / 120, 120))
    shapes: list[Shape] = []
    y = _HEAD
    shapes += _traffic(without, Frame(frame.left, _scaled(frame, bins), bins), frame, y)
    y += _TRAFFIC + _GAP
    ribbons = []
    for name, whose, trace, counts in counted:
        y += _HEAD
        shapes += _head(name, whose, _let_through(trace), frame, y - 7.0)
        shapes += _count(counts, frame, y)
        y += _COUNT + _BETWEEN
        ribbon = _ribbon(trace, counts)
        ribbons.append(ribbon)
        shapes += draw_row(ribbon, frame, y, _ROW)
        y += _ROW + _GAP
    shapes += draw_axis(frame, y)
    key, _ = draw_key(ribbons, frame.right, y + 40.0)
    shapes += key
    told = [f"{name[:1].upper()}{name[1:]}: {counts.why()}." for name, _, _, counts in counted]
    return Picture(width, y + 46.0, tuple(shapes), title, " ".join([f"{_in_all(without)}.", *told]))


def _scaled(frame: Frame, bins: Axis) -> float:
    """Where an axis ends that begins where the frame does and has its pixels of a second."""
    return frame.left + (frame.right - frame.left) * bins.end / frame.axis.end


def _in_all(without: Trace) -> str:
    failed = sum(not useful for useful in without.calls.useful)
    return f"Without a breaker {failed:,} of {len(without.calls):,} calls fail"


def _let_through(trace: Trace) -> tuple[str, str]:
    """How many failures a breaker let through, at length and in short."""
    failed = sum(outcome not in (0, 1) for outcome in trace.attempts.outcome)
    return f"{failed:,} failures reached the callers", f"{failed:,} failures"


def _head(name: str, whose: str, said: tuple[str, str], frame: Frame, y: float) -> list[Shape]:
    """A panel's name, whose it is and what is said at its right, as far as there is room."""
    used = _EDGE + width_of(name, SIZE, bold=True) + 10.0
    room = frame.right - used - 14.0
    tried = [(whose, said[0]), (whose, said[1]), ("", said[0]), ("", said[1])]
    tail, right = next((one for one in tried if width_of(one[0]) + width_of(one[1], SIZE_LABEL) <= room), ("", ""))
    shapes: list[Shape] = [Words(_EDGE, y, name, SIZE, bold=True, tail=tail)]
    if right:
        shapes.append(Words(frame.right, y, right, SIZE_LABEL, "end", ink="muted"))
    return shapes


def _traffic(without: Trace, bins: Frame, frame: Frame, top: float) -> list[Shape]:
    """Calls a second without a breaker: answered, and failed above them."""
    data = binned(without, bins.axis)
    failed_in_all = f"{data.counts['failed']:,} of {data.counts['offered']:,} fail"
    said = (_in_all(without), failed_in_all)
    shapes = _head("calls", "a second, if nothing stood before them", said, frame, top - 7.0)
    shapes.append(Box(frame.left, top, frame.right - frame.left, _TRAFFIC, fill="panel"))
    answered, failed = data.ended["answered"], data.ended["failed"]
    most = highest([one + other for one, other in zip(answered, failed, strict=True)]) or 1.0
    unit = _TRAFFIC / (most * 1.15)
    base: Floats = [top + _TRAFFIC] * bins.axis.bins
    for kind, rate in (("answered", answered), ("failed", failed)):
        style = LINES[kind]
        upper = risen(base, rate, unit)
        if style.texture != "solid":
            shapes += draw_areas(bins, upper, base, style.colour, "solid", 0.2)
        shapes += draw_areas(bins, upper, base, style.colour, style.texture, style.fade)
        shapes += draw_steps(bins, where_any(rate, upper), style.colour, 1.5)
        base = upper
    for y, text in ((most * unit, f"{most:.3g}"), (0.0, "0")):
        shapes.append(Words(frame.left - 6.0, round(top + _TRAFFIC - y + 4.0, 2), text, SIZE_TICK, "end", ink="muted"))
    return shapes


def _count(counts: Counted, frame: Frame, top: float) -> list[Shape]:
    """What is held against the threshold, as long as the breaker is closed."""
    rate = counts.way == "rate"
    upper = 1.0 if rate else max(counts.threshold, counts.level(counts.peak))
    unit = _COUNT / (upper * _ROOM)
    base = top + _COUNT

    def height(level: float) -> float:
        return round(base - level * unit, 2)

    shapes: list[Shape] = [Box(frame.left, top, frame.right - frame.left, _COUNT, fill="panel")]
    if counts.way == "interval":
        edge = counts.span
        while edge < frame.axis.end:
            shapes.append(Line(((frame.at(edge), top), (frame.at(edge), base)), "line", 1.0, dash=True))
            edge += counts.span
        if counts.span < frame.axis.end and frame.at(counts.span) > frame.left + 90.0:
            x = frame.at(counts.span)
            shapes.append(Words(x - 5.0, top + 13.0, "counts anew", SIZE_TICK, "end", ink="muted"))
    for judged, points in _stretches(counts, frame, height):
        if judged:
            shapes.append(Area((*points, (points[-1][0], base), (points[0][0], base)), "text", "solid", 0.12))
        shapes.append(Line(tuple(points), "text" if judged else "line", 1.6 if judged else 1.2, dash=not judged))
    limit = height(counts.threshold)
    shapes.append(Line(((frame.left, limit), (frame.right, limit)), STATES["OPEN"].colour, 1.5, dash=True))
    words = [f"opens at {counts.threshold:g}", f"{counts.threshold:g}"]
    if rate:
        share = f"opens at {counts.threshold * 100:g} %"
        words = [f"{share}, of at least {counts.minimum} calls in {counts.span:g} s", share]
    elif counts.way == "interval":
        words = [f"opens at {counts.threshold:g} within {counts.span:g} s", *words]
    text = next((text for text in words if width_of(text, SIZE_LABEL) <= frame.right - frame.left - 20.0), words[-1])
    shapes.append(Words(frame.right - 6.0, limit - 5.0, text, SIZE_LABEL, "end"))
    for label, level in (("0", 0.0), (f"{upper * 100:g} %" if rate else f"{upper:g}", upper)):
        shapes.append(Words(frame.left - 6.0, height(level) + 4.0, label, SIZE_TICK, "end", ink="muted"))
    last = "CLOSED"
    for row in counts.rows:
        if row.state == "OPEN" and last == "CLOSED":
            x = frame.at(row.at)
            y = height(counts.level(row))
            shapes.append(Line(((x, y), (x, base)), STATES["OPEN"].colour, 1.5))
            shapes.append(Disc(x, y, 4.0, fill=STATES["OPEN"].colour))
        last = row.state
    return shapes


def _stretches(
    counts: Counted, frame: Frame, height: Callable[[float], float]
) -> list[tuple[bool, list[tuple[float, float]]]]:
    """The count as lines of steps, one for each time that the breaker was closed and its count judged or not."""
    found: list[tuple[bool, list[tuple[float, float]]]] = []
    rows = [*counts.rows, counts.rows[-1]._replace(at=frame.axis.end)]
    for row, after in pairwise(rows):
        if row.state != "CLOSED" or after.at <= row.at or row.at >= frame.axis.end:
            if row.state != "CLOSED" and found and found[-1][1]:
                found.append((True, []))
            continue
        judged = counts.judged(row)
        x0, x1, y = frame.at(row.at), frame.at(after.at), height(counts.level(row))
        if not found or (found[-1][1] and found[-1][0] != judged):
            joint = found[-1][1][-1:] if found else []
            found.append((judged, list(joint)))
        elif not found[-1][1]:
            found[-1] = (judged, [])
        points = found[-1][1]
        if len(points) > 1 and points[-1][1] == y:
            points[-1] = (x1, y)
        else:
            points += [(x0, y), (x1, y)]
    return [(judged, points) for judged, points in found if len(points) > 1]


def _ribbon(trace: Trace, counts: Counted) -> Ribbon:
    """The breaker's states and probes as a ribbon."""
    place = trace.breakers.index(counts.breaker)
    probes = [
        (start, {0: True, 1: False}.get(outcome))
        for breaker, _, replica, start, _, outcome in trace.probes.rows()
        if breaker == place and replica == counts.replica
    ]
    states = [(0.0, "CLOSED")]
    if counts.target in trace.targets:  # else it never told anything
        states = trace.states(counts.breaker, counts.target, counts.replica)
    return Ribbon(counts.breaker, counts.target, counts.replica, states, probes)
