"""Who shares a breaker's state, and who pays for whose failures: a row of calls for each function on each replica."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import compress
from math import ceil
from typing import TYPE_CHECKING

from labkit.plots.draw.picture import Picture
from labkit.plots.draw.shapes import Area, Box, Line, Shape, Words
from labkit.plots.draw.style import LINES, SIZE_SMALL, SIZE_TICK, width_of
from labkit.plots.runs.binned import Axis, Floats, Ribbon, round_step
from labkit.plots.runs.panels import (
    Frame,
    draw_areas,
    draw_axis,
    draw_key,
    draw_row,
    draw_steps,
    draw_strip,
    risen,
    where_any,
)
from labkit.plots.runs.trace import fault_bands
from labkit.scenario.read.scopes import Bill, Scope, bills

if TYPE_CHECKING:
    from labkit.scenario.run.trace import Trace

__all__ = ["scope_rows"]

_MARGIN, _EDGE = 16.0, 10.0
_STRIP, _ROW = 32.0, 17.0
_ALONE, _ONE_OF_MANY = 52.0, 32.0  # how high the calls of a function are, on the one replica and on several
_TOUCH, _GAP, _APART = 2.0, 9.0, 12.0
_BINS = 60
_OUTCOMES = {"answered": (0,), "failed": (3, 4), "unavailable": (1, 2)}
_WORDS = {"answered": "answered", "failed": "failed", "unavailable": "turned away"}


def scope_rows(
    trace: Trace,
    scopes: Sequence[Scope],
    *,
    names: Mapping[str, str],
    width: float = 860.0,
    title: str = "Who shares a state",
) -> Picture:
    """Return the picture: on each replica each state, with the calls that it decides on above and below it.

    Functions that share a state lie on both sides of one ribbon; where each has its own, there are two.

    Args:
        trace: the run.
        scopes: its states, from `labkit.scenario.read.scopes.scopes_of`.
        names: what to call the functions.
        width: of the picture, in pixels.
        title: what it is called.
    """
    gutter = 178.0 if width >= 640.0 else 156.0
    right = max(width - _MARGIN, gutter + 60.0)
    frame = Frame(gutter, right, Axis(trace.duration / _BINS, _BINS))
    paid = {(bill.function, bill.replica): bill for bill in bills(trace)}
    high = _ALONE if trace.replicas == 1 else _ONE_OF_MANY
    shapes: list[Shape] = draw_strip(frame, [one._replace(row=0) for one in fault_bands(trace)], -4.0)
    y = _STRIP + 4.0
    ribbons: list[Ribbon] = []
    for replica in range(trace.replicas):
        if trace.replicas > 1:
            shapes.append(Words(_EDGE, y + 11.0, f"replica {replica + 1}", SIZE_SMALL, bold=True))
            shapes.append(Line(((gutter, y + 7.0), (right, y + 7.0)), "grid", 1.0))
            y += 18.0
        for scope in scopes:
            first, *others = scope.functions
            shapes += _row(trace, first, replica, paid, names, frame, y, high)
            y += high + _TOUCH
            ribbon = _ribbon(trace, scope, replica)
            ribbons.append(ribbon)
            shapes += draw_row(ribbon, frame, y, _ROW)
            label = f"one state, “{scope.target}”" if others else "a state of its own"
            if width_of(label, SIZE_TICK) > gutter - _EDGE - 8.0:
                label = "one state" if others else "its own state"
            shapes.append(Words(gutter - 8.0, y + 12.5, label, SIZE_TICK, "end", ink="muted"))
            y += _ROW
            for other in others:
                y += _TOUCH
                shapes += _row(trace, other, replica, paid, names, frame, y, high)
                y += high
            y += _GAP
        y += _APART - _GAP if trace.replicas > 1 else 0.0
    y -= _GAP - 4.0
    shapes += draw_axis(frame, y)
    key, start = draw_key(ribbons, right, y + 40.0)
    shapes += key
    outcomes, end = _key(_EDGE, y + 40.0)
    if end + 10.0 > start:
        outcomes, _ = _key(_EDGE, y + 60.0)
        y += 20.0
    shapes += outcomes
    return Picture(width, y + 48.0, tuple(shapes), title, _alt(trace, scopes, list(paid.values()), names))


def _row(
    trace: Trace,
    function: str,
    replica: int,
    paid: Mapping[tuple[str, int], Bill],
    names: Mapping[str, str],
    frame: Frame,
    top: float,
    high: float,
) -> list[Shape]:
    """The calls of one function on one replica by when they came, with what became of them."""
    bill = paid.get((function, replica), Bill(function, replica, 0, 0, 0, 0))
    told = [f"{bill.failed:,} failed, {bill.rejected:,} turned away", f"{bill.failed:,} failed, {bill.rejected:,} away"]
    room = frame.left - _EDGE - 6.0
    text = next((one for one in told if width_of(one, SIZE_TICK) <= room), told[-1])
    shapes: list[Shape] = [
        Words(_EDGE, top + 13.0, names.get(function, function), SIZE_SMALL, bold=True),
        Words(_EDGE, top + 27.0, text, SIZE_TICK),
        Box(frame.left, top, frame.right - frame.left, high, fill="panel"),
    ]
    number, calls = trace.functions.index(function), trace.calls
    whose = zip(calls.function.tolist(), calls.replica.tolist(), strict=True)
    mine = [one == (number, replica) for one in whose]
    start, outcome = list(compress(calls.start.tolist(), mine)), list(compress(calls.outcome.tolist(), mine))
    step = frame.axis.step
    # Bins of less than a call would show the arrivals' beat and not what became of them.
    wide = max(step, round_step(trace.duration / max(1, len(start))))
    bins = Frame(frame.left, frame.right, Axis(wide, max(1, ceil(trace.duration / wide - 1e-9))))
    bins.right = frame.left + (frame.right - frame.left) * bins.axis.end / frame.axis.end
    last = bins.axis.bins - 1
    places = [min(int(at / wide), last) for at in start]
    most = float(max(Counter(places).values(), default=1))
    base: Floats = [top + high] * bins.axis.bins
    for kind, codes in _OUTCOMES.items():
        seen = Counter(compress(places, [code in codes for code in outcome]))
        count = [float(seen[place]) for place in range(bins.axis.bins)]
        style = LINES[kind]
        upper = risen(base, count, (high - 4.0) / most)
        shapes += draw_areas(bins, upper, base, style.colour, style.texture, style.fade)
        shapes += draw_steps(bins, where_any(count, upper), style.colour, 1.3)
        base = upper
    return shapes


def _ribbon(trace: Trace, scope: Scope, replica: int) -> Ribbon:
    states, probes = [(0.0, "CLOSED")], []
    if scope.target in trace.targets:  # else nothing was ever told of it
        states = trace.states(scope.breaker, scope.target, replica)
        who = (trace.breakers.index(scope.breaker), trace.targets.index(scope.target), replica)
        probes = [
            (start, {0: True, 1: False}.get(outcome))
            for breaker, target, one, start, _, outcome in trace.probes.rows()
            if (breaker, target, one) == who
        ]
    return Ribbon(scope.breaker, scope.target, replica, states, probes)


def _key(x: float, y: float) -> tuple[list[Shape], float]:
    """What the textures of the calls are, from x on, and where that ends."""
    shapes: list[Shape] = []
    for kind, word in _WORDS.items():
        style = LINES[kind]
        corners = ((x, y - 9.5), (x + 16.0, y - 9.5), (x + 16.0, y + 1.5), (x, y + 1.5))
        shapes.append(Area(corners, style.colour, style.texture, style.fade))
        shapes.append(Line(corners, style.colour, 1.2, closed=True))
        shapes.append(Words(x + 21.0, y, word, SIZE_TICK, ink="muted"))
        x = round(x + 21.0 + width_of(word, SIZE_TICK) + 12.0, 2)
    return shapes, x


def _alt(trace: Trace, scopes: Sequence[Scope], paid: Sequence[Bill], names: Mapping[str, str]) -> str:
    told = []
    for scope in scopes:
        who = " and ".join(names.get(function, function) for function in scope.functions)
        told.append(f"{who}: {'one state' if len(scope.functions) > 1 else 'a state of its own'}.")
    for bill in paid:
        where = f" on replica {bill.replica + 1}" if trace.replicas > 1 else ""
        told.append(
            f"{names.get(bill.function, bill.function)}{where}: of {bill.offered:,} calls {bill.succeeded:,} answered, "
            f"{bill.failed:,} failed, {bill.rejected:,} turned away."
        )
    return " ".join(told)
