"""What a service's workers did: useful first attempts, useful retries and work for nobody, over the callers' calls."""

from __future__ import annotations

from math import isnan
from typing import TYPE_CHECKING

from labkit.plots.draw.picture import Picture
from labkit.plots.draw.shapes import Area, Box, Line, Shape, Words
from labkit.plots.draw.style import LINES, SIZE, SIZE_LABEL, SIZE_SMALL, width_of
from labkit.plots.runs.binned import Axis, Floats, binned, highest
from labkit.plots.runs.panels import (
    HEAD,
    STRIP,
    Fault,
    Frame,
    draw_areas,
    draw_axis,
    draw_grid,
    draw_steps,
    draw_strip,
    risen,
    where_any,
)
from labkit.plots.runs.trace import fault_bands

if TYPE_CHECKING:
    from labkit.scenario.read.workers import Work
    from labkit.scenario.run.trace import Trace

__all__ = ["work_timeline"]

_GUTTER, _MARGIN, _EDGE = 54.0, 16.0, 10.0
_BAR, _PANEL, _GAP = 30.0, 84.0, 9.0
_ROOM = 1.15
# The texture tells them apart before the colour does: useful is solid or hatched in the colour of success.
_LOOKS = {
    "first": ("useful first attempts", "#009E73", "solid", 0.45),
    "retried": ("useful retries", "#009E73", "hatch", 1.0),
    "wasted": ("for nobody", "#C24E00", "dots", 1.0),
}


def work_timeline(
    trace: Trace, work: Work, *, width: float = 860.0, title: str = "Retries against useful work"
) -> Picture:
    """Return the picture: the split of all work as a bar, then by second callers, attempts and the workers' time.

    The height is the same for every run.

    Args:
        trace: the run.
        work: what was read off it.
        width: of the picture, in pixels.
        title: what it is called.
    """
    bins = len(work.by_second["first"])
    frame = Frame(_GUTTER, max(width - _MARGIN, _GUTTER + 60.0), Axis(1.0, bins))
    faults = fault_bands(trace)
    data = binned(trace, frame.axis)
    y = HEAD
    shapes: list[Shape] = _head("all that the workers did", "", "", frame, y)
    shapes += _bar(work, frame, y)
    y += _BAR + 24.0
    shapes += draw_strip(frame, faults, y - 10.0)
    y += STRIP - 10.0 + HEAD
    counts = data.counts
    told = f"{counts['answered']:,} of {counts['offered']:,} answered"
    shapes += _head("callers", "calls a second", told, frame, y)
    answered = data.ended["answered"]
    most = max(highest(data.offered), highest(answered))
    shapes += _ground(frame, faults, y, most)
    shapes += _level(frame, y, [("answered", answered)], most)
    shapes += _line(frame, y, data.offered, most, "text")
    y += _PANEL + _GAP + HEAD
    attempts = data.attempts[work.service] if work.service in data.attempts else [0.0] * bins
    servable = work.servable or 0.0
    most = max(highest(attempts), servable)
    can = f"{servable:.3g} a second can be answered" if servable else ""
    shapes += _head("dependency", "attempts a second", can, frame, y, dash=bool(servable))
    shapes += _ground(frame, faults, y, most)
    shapes += _level(frame, y, [("attempts", attempts)], most)
    shapes += _limit(frame, y, servable, most)
    y += _PANEL + _GAP + HEAD
    shapes += _head("its workers", "at work, by whose attempt", f"{work.workers} workers", frame, y, dash=True)
    shapes += _ground(frame, faults, y, float(work.workers))
    shapes += _level(frame, y, [(kind, work.by_second[kind]) for kind in _LOOKS], float(work.workers))
    shapes += _limit(frame, y, float(work.workers), float(work.workers))
    y += _PANEL + 5.0
    shapes += draw_axis(frame, y)
    return Picture(width, y + 28.0, tuple(shapes), title, " ".join(work.told()))


def _head(name: str, tail: str, told: str, frame: Frame, y: float, *, dash: bool = False) -> list[Shape]:
    """A panel's name, and at its right what its dashed line is, or its numbers, where there is room."""
    shapes: list[Shape] = [Words(_EDGE, y - 7.0, name, SIZE, bold=True, tail=tail)]
    used = _EDGE + width_of(name, SIZE, bold=True) + SIZE / 2 + width_of(tail, SIZE)
    wide = width_of(told, SIZE_LABEL) + (30.0 if dash else 0.0)
    if told and used + wide + 8.0 <= frame.right:
        shapes.append(Words(frame.right, y - 7.0, told, SIZE_LABEL, "end"))
        if dash:
            x = frame.right - width_of(told, SIZE_LABEL) - 28.0
            shapes.append(Line(((x, y - 11.0), (x + 22.0, y - 11.0)), LINES["capacity"].colour, 1.5, dash=True))
    return shapes


def _bar(work: Work, frame: Frame, y: float) -> list[Shape]:
    """One bar of all that was done, with each part's share, and below it what the parts are."""
    left, right = _EDGE, frame.right
    shapes: list[Shape] = [Box(left, y, right - left, _BAR, fill="panel")]
    x = left
    for kind, (_, colour, texture, fade) in _LOOKS.items():
        share = work.share(kind)
        end = round(x + (right - left) * share, 2)
        if end - x > 0.2:
            corners = ((x, y), (end, y), (end, y + _BAR), (x, y + _BAR))
            shapes.append(Area(corners, colour, texture, fade))
            shapes.append(Line((*corners, corners[0]), colour, 1.5))
            text = f"{share * 100:.0f} %"
            wide = width_of(text, SIZE, bold=True) + 10.0
            if wide + 4.0 <= end - x:
                middle = (x + end) / 2
                shapes.append(Box(round(middle - wide / 2, 2), y + 5.0, wide, _BAR - 10.0, 3.0, fill="paper"))
                shapes.append(Words(round(middle, 2), y + _BAR / 2 + 5.0, text, SIZE, "middle", bold=True))
        x = end
    x = left
    for words, colour, texture, fade in _LOOKS.values():
        corners = ((x, y + _BAR + 9.0), (x + 17.0, y + _BAR + 9.0), (x + 17.0, y + _BAR + 20.0), (x, y + _BAR + 20.0))
        shapes += [Area(corners, colour, texture, fade), Line((*corners, corners[0]), colour, 1.0)]
        shapes.append(Words(x + 23.0, y + _BAR + 19.0, words, SIZE_SMALL, ink="muted"))
        x += 23.0 + width_of(words, SIZE_SMALL) + 16.0
    return shapes


def _ground(frame: Frame, faults: list[Fault], y: float, most: float) -> list[Shape]:
    shapes: list[Shape] = [Box(frame.left, y, frame.right - frame.left, _PANEL, fill="panel")]
    for fault in faults:
        x0, x1 = frame.at(fault.start), frame.at(fault.end)
        if x1 - x0 >= 0.5:
            shapes.append(Box(x0, y, round(x1 - x0, 2), _PANEL, fill="band"))
    return shapes + draw_grid(frame, y, _PANEL, max(most, 1.0) * _ROOM)


def _level(frame: Frame, y: float, layers: list[tuple[str, Floats]], most: float) -> list[Shape]:
    """Levels by second, stacked from the ground up."""
    unit = _PANEL / (max(most, 1.0) * _ROOM)
    floor: Floats = [y + _PANEL] * frame.axis.bins
    shapes: list[Shape] = []
    for kind, level in layers:
        if kind in _LOOKS:
            _, colour, texture, fade = _LOOKS[kind]
            thick = 1.2
        else:
            style = LINES[kind]
            colour, texture, fade, thick = style.colour, style.texture, style.fade, style.line
        upper = risen(floor, [0.0 if isnan(value) else value for value in level[: frame.axis.bins]], unit)
        shapes += draw_areas(frame, upper, floor, colour, texture, fade)
        shapes += draw_steps(frame, where_any(level, upper), colour, thick)
        floor = upper
    return shapes


def _line(frame: Frame, y: float, level: Floats, most: float, ink: str) -> list[Shape]:
    return draw_steps(frame, risen(y + _PANEL, level, _PANEL / (max(most, 1.0) * _ROOM)), ink, 1.5)


def _limit(frame: Frame, y: float, value: float, most: float) -> list[Shape]:
    if not value:
        return []
    at = round(y + _PANEL - value * (_PANEL / (max(most, 1.0) * _ROOM)), 2)
    return [Line(((frame.left, at), (frame.right, at)), LINES["capacity"].colour, 1.5, dash=True)]
