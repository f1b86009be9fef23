"""Two runs beside each other on the same axes, with their main numbers between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from labkit.plots.draw.picture import Picture
from labkit.plots.draw.shapes import Line, Shape, Words
from labkit.plots.draw.style import SIZE, SIZE_LABEL, SIZE_TICK, width_of
from labkit.plots.runs.binned import Binned, axis_of, binned
from labkit.plots.runs.panels import (
    HEIGHTS,
    STRIP,
    Frame,
    draw_axis,
    draw_key,
    draw_panels,
    draw_strip,
    scales_of,
    seconds_words,
)
from labkit.plots.runs.trace import GUTTER, MARGIN, PANELS, TITLE, bins_in, describe, fault_bands

if TYPE_CHECKING:
    from labkit.scenario.run.trace import Trace

__all__ = ["comparison"]

_BETWEEN = 152.0
_WIDE_ENOUGH = 720.0
_ROW = 34.0
_FOOT = 30.0  # for the axis


def comparison(
    one: Trace, other: Trace, *, names: Sequence[str] = (), width: float = 860.0, title: str = ""
) -> Picture:
    """Return the picture of two runs: all panels of `trace_timeline` twice, on shared axes.

    Side by side, each number stands between the two panels that it belongs to; where that would be too narrow, the runs
    stand one above the other and the numbers between them.

    Args:
        one, other: the runs.
        names: what to call them; their titles by default.
        width: of the picture, in pixels.
        title: what it is called.
    """
    traces = (one, other)
    called = tuple(names) if len(names) == 2 else (one.title, other.title)
    wide = width >= _WIDE_ENOUGH
    panel = (width - GUTTER - _BETWEEN - MARGIN) / 2 if wide else max(width - GUTTER - MARGIN, 60.0)
    axis = axis_of(traces, most=bins_in(panel))
    data = [binned(trace, axis) for trace in traces]
    scales = scales_of(data, [trace.capacity for trace in traces])
    frames = [Frame(GUTTER, GUTTER + panel, axis, key=not wide, capacity=one.capacity)]
    left = GUTTER + panel + _BETWEEN if wide else GUTTER
    frames.append(Frame(left, left + panel, axis, ticks=not wide, key=not wide, capacity=other.capacity))
    numbers = _numbers(*data)
    shapes: list[Shape] = []
    y = 0.0
    for trace, part, frame, name in zip(traces, data, frames, called, strict=True):
        start = frame.left if wide else 10.0
        shapes.append(Words(start, y + 20.0, _cut(name, frame.right - start), SIZE, bold=True))
        faults = fault_bands(trace)
        shapes += draw_strip(frame, faults, y + TITLE)
        panels, tops = draw_panels(part, frame, scales, faults, y + TITLE + STRIP)
        shapes += panels
        shapes += draw_axis(frame, y + TITLE + STRIP + PANELS)
        if wide:
            height = TITLE + STRIP + PANELS + _FOOT
        else:
            y += TITLE + STRIP + PANELS + _FOOT
            if frame is frames[0]:
                table = _table(numbers, called, width, y)
                shapes += table
                y += 34.0 + 18.0 * sum(len(rows) for rows in numbers.values()) + 14.0
            height = y
    if wide:
        shapes += _between(numbers, tops, GUTTER + panel + _BETWEEN / 2)
        key, _ = draw_key([*data[0].ribbons, *data[1].ribbons], frames[1].right, height + 8.0)
        shapes += key
        height += 16.0
    both = title or f"{called[0]} and {called[1]}"
    told = [f"{name}: {describe(trace, part)}" for name, trace, part in zip(called, traces, data, strict=True)]
    return Picture(width, height, tuple(shapes), both, " ".join([*told, _in_words(numbers)]))


def _numbers(one: Binned, other: Binned) -> dict[str, list[tuple[str, str, str]]]:
    """By panel, what to compare: (what, in the one run, in the other)."""

    def counted(kind: str) -> tuple[str, str]:
        return f"{one.counts[kind]:,}", f"{other.counts[kind]:,}"

    def peak(a: dict[str, tuple[int, float]], b: dict[str, tuple[int, float]], unit: str) -> tuple[str, str]:
        first, second = (max((most for most, _ in peaks.values()), default=0) for peaks in (a, b))
        return f"{first:,}{unit}", f"{second:,}{unit}"

    failed = max(one, other, key=lambda run: run.counts["failed"]).failing
    turned_away = max(one, other, key=lambda run: run.counts["unavailable"]).turned_away
    words = {"answered": "answered", "failed": failed, "unavailable": turned_away,
             "cancelled": "gave up", "not_useful": "answered, of no use", "unfinished": "unfinished"}  # fmt: skip
    callers = [
        (word, *counted(kind))
        for kind, word in words.items()
        if kind == "answered" or one.counts[kind] or other.counts[kind]
    ]
    half, tail = (
        tuple("none" if value is None else seconds_words(value) for value in (one.latency[at], other.latency[at]))
        for at in (0, 1)
    )
    return {
        "callers": callers[:3],
        "breaker": [("times opened", *counted("opens")), ("probes", *counted("probes"))],
        "attempts": [
            ("attempts", *counted("attempts")),
            ("most a second", *peak(one.attempts_peak, other.attempts_peak, "/s")),
        ],
        "in flight": [("most at once", *peak(one.in_flight_peak, other.in_flight_peak, ""))],
        "latency": [("p50", half[0], half[1]), ("p95", tail[0], tail[1])],
    }


def _between(numbers: dict[str, list[tuple[str, str, str]]], tops: dict[str, float], x: float) -> list[Shape]:
    shapes: list[Shape] = []
    for panel, rows in numbers.items():
        y = tops[panel] + (HEIGHTS[panel] - _ROW * len(rows)) / 2
        for what, one, other in rows:
            shapes.append(Words(x, round(y + 12.0, 2), what, SIZE_TICK, "middle", ink="muted"))
            if one == other:
                shapes.append(Words(x, round(y + 27.0, 2), f"{one} in both", SIZE_LABEL, "middle"))
            else:
                size = SIZE if width_of(f"{one} → {other}", SIZE, bold=True) <= _BETWEEN - 12.0 else SIZE_LABEL
                shapes.append(Words(x, round(y + 28.0, 2), f"{one} → {other}", size, "middle", bold=True))
            y += _ROW
    return shapes


def _table(numbers: dict[str, list[tuple[str, str, str]]], names: Sequence[str], width: float, y: float) -> list[Shape]:
    columns = (10.0, width * 0.62, width - MARGIN)
    room = (columns[2] - columns[1]) - 10.0
    y += 20.0
    shapes: list[Shape] = [
        Words(columns[1], y, _cut(names[0], room, SIZE_LABEL), SIZE_LABEL, "end", bold=True),
        Words(columns[2], y, _cut(names[1], room, SIZE_LABEL), SIZE_LABEL, "end", bold=True),
        Line(((10.0, y + 7.0), (width - MARGIN, y + 7.0)), "grid", 1.0),
    ]
    y += 8.0
    for rows in numbers.values():
        for what, one, other in rows:
            y += 18.0
            row = [
                Words(columns[0], y, what, SIZE_LABEL, ink="muted"),
                Words(columns[1], y, one, SIZE_LABEL, "end"),
                Words(columns[2], y, other, SIZE_LABEL, "end"),
            ]
            shapes += row if one == other else [row[0], *(replace(word, bold=True) for word in row[1:])]
    return shapes


def _cut(text: str, room: float, size: float = SIZE) -> str:
    """The text, or as much of it as there is room for."""
    while text and width_of(text, size, bold=True) > room:
        text = text[:-2].rstrip() + "…" if len(text) > 2 else ""
    return text


def _in_words(numbers: dict[str, list[tuple[str, str, str]]]) -> str:
    changes = [
        f"{what} {one} against {other}" for rows in numbers.values() for what, one, other in rows if one != other
    ]
    return f"The difference: {', '.join(changes)}." if changes else "Their main numbers are the same."
