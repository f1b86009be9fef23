"""A service that comes back slowly, and what returns to it: traffic against capacity over one axis of seconds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from labkit.plots.draw.picture import Picture
from labkit.plots.draw.shapes import Area, Box, Line, Shape, Words
from labkit.plots.draw.style import LINES, SIZE, SIZE_LABEL, SIZE_TICK, width_of
from labkit.plots.runs.binned import Floats, Ribbon, axis_of, binned, highest
from labkit.plots.runs.panels import (
    Fault,
    Frame,
    draw_areas,
    draw_axis,
    draw_key,
    draw_row,
    draw_steps,
    draw_strip,
    in_all,
    risen,
    where_any,
)
from labkit.plots.runs.trace import bins_in, describe, fault_bands
from labkit.scenario.read.recovery import workers_over_time

if TYPE_CHECKING:
    from labkit.plots.runs.binned import Binned
    from labkit.scenario.run.trace import Trace

__all__ = ["recovery_timeline"]

_GUTTER, _MARGIN, _EDGE = 54.0, 16.0, 10.0
_STRIP, _HEAD, _GAP = 30.0, 22.0, 8.0
_CALLS, _ROW, _WORKERS, _WAIT = 128.0, 22.0, 84.0, 62.0


def recovery_timeline(
    trace: Trace, service: str, *, seconds: float, limit: float, width: float = 860.0, title: str = "Recovery"
) -> Picture:
    """Return the picture of a recovery.

    From top to bottom: the calls that came and what became of them, against what the workers can serve; the breaker;
    how many calls were at the service, against its workers; how long callers waited, against their limit.

    Args:
        trace: the run.
        service: whose capacity it is.
        seconds: that a worker takes for a call.
        limit: after how many seconds a call times out.
        width: of the picture, in pixels.
        title: what it is called.
    """
    right = max(width - _MARGIN, _GUTTER + 60.0)
    frame = Frame(_GUTTER, right, axis_of([trace], most=bins_in(right - _GUTTER)))
    data = binned(trace, frame.axis)
    levels = workers_over_time(trace, service)
    bands = [one for one in fault_bands(trace) if one.words and not one.capacity]
    y = 2.0
    shapes: list[Shape] = draw_strip(frame, bands, y - 6.0)
    if bands and (end := bands[-1].end) < trace.duration:
        words = f"repaired at {end:g} s"
        x = frame.at(end) + 6.0
        if x + width_of(words, SIZE_LABEL) <= right and frame.at(end) - frame.at(bands[-1].start) > 60.0:
            shapes.append(Words(round(x, 2), y + 25.0, words, SIZE_LABEL))
    y += _STRIP + _HEAD
    can = [(at, many / seconds) for at, many in levels]
    shapes += _panel(frame, y, _CALLS, bands)
    shapes += _calls(data, frame, can, y)
    y += _CALLS + _GAP
    shapes += [Words(_EDGE, y + 15.5, "state", SIZE_LABEL, ink="muted")]
    for ribbon in data.ribbons[:1] or [Ribbon("", "", 0, [(0.0, "CLOSED")], [])]:
        shapes += draw_row(ribbon, frame, y, _ROW)
    y += _ROW + _HEAD + 4.0
    shapes += _panel(frame, y, _WORKERS, bands)
    flying = data.in_flight.get(service, [0.0] * frame.axis.bins)
    shapes += _workers(flying, frame, [(at, float(many)) for at, many in levels], y)
    y += _WORKERS + _HEAD + _GAP
    shapes += _panel(frame, y, _WAIT, bands)
    shapes += _wait(data, frame, limit, y)
    y += _WAIT + 4.0
    shapes += draw_axis(frame, y)
    key, _ = draw_key(data.ribbons[:1], right, y + 40.0)
    steps = ", then ".join(f"{many} from {at:g} s" for at, many in levels[1:])
    told = f"Workers: {levels[0][1]}, {steps}." if steps else ""
    return Picture(width, y + 46.0, tuple(shapes + key), title, f"{describe(trace, data)} {told}".strip())


def _panel(frame: Frame, top: float, high: float, bands: Sequence[Fault]) -> list[Shape]:
    shapes: list[Shape] = [Box(frame.left, top, frame.right - frame.left, high, fill="panel")]
    for start, end, *_ in bands:
        x0, x1 = frame.at(start), frame.at(end)
        if x1 - x0 >= 0.5:
            shapes.append(Box(x0, top, round(x1 - x0, 2), high, fill="band"))
    return shapes


def _head(frame: Frame, y: float, name: str, tail: str, keys: Sequence[tuple[str, str]]) -> list[Shape]:
    """A panel's name, and at its right what its lines are: a key of `style.LINES` and words for each."""
    shapes: list[Shape] = []
    x = frame.right
    for kind, words in reversed(keys):
        x = round(x - width_of(words, SIZE_LABEL), 2)
        shapes.append(Words(x, y, words, SIZE_LABEL))
        line = Line(((x - 30.0, y - 4.0), (x - 6.0, y - 4.0)), LINES[kind].colour, 2.0, dash=kind == "capacity")
        shapes.append(line)
        x -= 46.0
    fits = _EDGE + width_of(name, SIZE, bold=True) + 10.0 + width_of(tail, SIZE) < x
    return [Words(_EDGE, y, name, SIZE, bold=True, tail=tail if fits else ""), *shapes]


def _scale(frame: Frame, top: float, high: float, upper: float, unit: str = "") -> list[Shape]:
    """Zero and the most, at the left."""
    return [
        Words(frame.left - 6.0, top + high + 4.0, "0", SIZE_TICK, "end", ink="muted"),
        Words(frame.left - 6.0, top + 9.0, f"{upper:.3g}{unit}", SIZE_TICK, "end", ink="muted"),
    ]


def _stairs(levels: Sequence[tuple[float, float]], frame: Frame, base: float, unit: float) -> list[Shape]:
    """A level over time, as the dashed line that things are held against."""
    points: list[tuple[float, float]] = []
    for index, (at, level) in enumerate(levels):
        end = levels[index + 1][0] if index + 1 < len(levels) else frame.axis.end
        y = round(base - level * unit, 2)
        points += [(frame.at(at), y), (frame.at(end), y)]
    return [Line(tuple(points), LINES["capacity"].colour, 2.2, dash=True)] if points else []


def _calls(data: Binned, frame: Frame, can: Sequence[tuple[float, float]], top: float) -> list[Shape]:
    upper = max(highest(data.offered), highest(in_all(data)), *(level for _, level in can), 1.0)
    room = _CALLS / (_CALLS - 22.0)  # above what is drawn, for its words
    unit = _CALLS / (upper * room)
    shapes = _head(frame, top - 7.0, "calls", "a second", [("offered", "arrive"), ("capacity", "can be served")])
    base: Floats = [top + _CALLS] * frame.axis.bins
    for kind in ("answered", "failed", "unavailable", "cancelled"):
        rate = data.ended[kind]
        if not data.counts[kind]:
            continue
        style = LINES[kind]
        edge = risen(base, rate, unit)
        if style.texture:
            shapes += draw_areas(frame, edge, base, style.colour, style.texture, style.fade)
        shapes += draw_steps(frame, where_any(rate, edge), style.colour, 1.2)
        base = edge
    offered = LINES["offered"]
    shapes += draw_steps(frame, risen(top + _CALLS, data.offered, unit), offered.colour, offered.line)
    shapes += _stairs(can, frame, top + _CALLS, unit)
    return shapes + _scale(frame, top + 22.0, _CALLS - 22.0, upper) + _outcomes(data, frame, top + 3.0)


def _outcomes(data: Binned, frame: Frame, y: float) -> list[Shape]:
    """What the textures are, with how many calls each stands for, above them."""
    words = {"answered": "answered", "failed": "failed or timed out", "unavailable": data.turned_away}
    if frame.right - frame.left < 560.0:
        words["failed"] = "failed"
    shapes: list[Shape] = []
    x = frame.left + 2.0
    for kind, word in words.items():
        if not data.counts[kind]:
            continue
        text = f"{data.counts[kind]:,} {word}"
        wide = 20.0 + width_of(text, SIZE_LABEL) + 10.0
        if x + wide > frame.right:
            break
        style = LINES[kind]
        box = ((x + 5.0, y + 3.0), (x + 17.0, y + 3.0), (x + 17.0, y + 13.0), (x + 5.0, y + 13.0))
        shapes.append(Area(box, style.colour, style.texture, style.fade))
        shapes.append(Line(box, style.colour, 1.2, closed=True))
        shapes.append(Words(round(x + 21.0, 2), y + 12.0, text, SIZE_LABEL))
        x += wide + 5.0
    return shapes


def _workers(flying: Floats, frame: Frame, levels: Sequence[tuple[float, float]], top: float) -> list[Shape]:
    most = highest(flying)
    upper = max(most, *(level for _, level in levels), 1.0) * 1.12
    unit = _WORKERS / upper
    edge = risen(top + _WORKERS, flying, unit)
    shapes = _head(frame, top - 7.0, "at the service", "calls being served or waiting", [("capacity", "workers")])
    style = LINES["in_flight"]
    shapes += draw_areas(frame, edge, [top + _WORKERS] * len(edge), style.colour, style.texture, style.fade)
    shapes += draw_steps(frame, edge, style.colour, style.line)
    shapes += _stairs(levels, frame, top + _WORKERS, unit)
    for index, (at, many) in enumerate(levels):
        end = levels[index + 1][0] if index + 1 < len(levels) else frame.axis.end
        text, right = f"{many:g}", frame.at(end) - 4.0
        if width_of(text, SIZE_TICK) + 4.0 <= right - frame.at(at):
            y = round(max(top + 10.0, top + _WORKERS - many * unit - 4.0), 2)
            shapes.append(Words(round(right, 2), y, text, SIZE_TICK, "end", bold=True))
    return shapes + _scale(frame, top, _WORKERS, upper / 1.12)


def _wait(data: Binned, frame: Frame, limit: float, top: float) -> list[Shape]:
    upper = max(limit, highest(data.p95)) * 1.15
    unit = _WAIT / upper
    edge = risen(top + _WAIT, data.p95, unit)
    shapes = _head(
        frame, top - 7.0, "wait", "95 % of the callers no longer than", [("capacity", f"time-out, {limit:g} s")]
    )
    shapes += draw_steps(frame, edge, LINES["median"].colour, 1.8)
    shapes += _stairs([(0.0, limit)], frame, top + _WAIT, unit)
    return shapes + _scale(frame, top, _WAIT, upper / 1.15, " s")
