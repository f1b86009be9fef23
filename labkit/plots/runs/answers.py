"""What users were told, a mark a question, over the breaker that stood somewhere behind it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from labkit.plots.draw.picture import Picture
from labkit.plots.draw.shapes import Box, Shape, Words, mark
from labkit.plots.draw.style import SIZE, SIZE_LABEL, SIZE_SMALL, width_of
from labkit.plots.runs.binned import Axis, Ribbon, axis_of, binned
from labkit.plots.runs.panels import HEAD, STRIP, Fault, Frame, draw_axis, draw_row, draw_strip
from labkit.plots.runs.trace import fault_bands

if TYPE_CHECKING:
    from labkit.scenario.run.trace import Trace
    from labkit.scenario.watch.answers import Answers

__all__ = ["answers_timeline"]

_LEFT, _RIGHT, _EDGE = 16.0, 16.0, 10.0
_LANE, _RIBBON, _GAP = 34.0, 20.0, 8.0
_LEGEND = 30.0
_MARK_OF = {"live": "success", "unavailable": "unavailable", "invented": "not_useful", "error": "failure"}
_WORDS = {"live": "live", "unavailable": "told “unavailable”", "invented": "invented", "error": "an error"}
_LANES = {"stock": "asked for stock", "documents": "asked about the documents alone"}


def answers_timeline(
    answers: Answers, *, service: str, width: float = 860.0, title: str = "What users were told"
) -> Picture:
    """Return the picture: each question's answer as a mark, the breaker, and what reached the service that failed.

    The height is the same for every run of one scenario.

    Args:
        answers: what was told.
        service: the service whose attempts are shown.
        width: of the picture, in pixels.
        title: what it is called.
    """
    trace = answers.trace
    right = max(width - _RIGHT, _LEFT + 60.0)
    frame = Frame(_LEFT, right, Axis(trace.duration / 100, 100))
    faults = fault_bands(trace)
    shapes: list[Shape] = draw_strip(frame, faults, -6.0)
    y = STRIP
    for about, name in _LANES.items():
        y += HEAD
        told = [one for one in answers.told if one.about == about]
        counts = answers.counts(about)
        shapes += _head(name, [f"{many} {_WORDS[kind]}" for kind, many in counts.items() if many], frame, y)
        shapes += _ground(frame, faults, y)
        shapes += _lane([(one.asked, _MARK_OF[one.kind]) for one in told], frame, y)
        y += _LANE + _GAP
    y += HEAD
    shapes += _head("breaker", [_around(trace)], frame, y)
    shapes += draw_row(_ribbon(trace), frame, y, _RIBBON)
    y += _RIBBON + _GAP + HEAD
    attempts = _attempts(trace, service)
    reached = f"{len(attempts)} attempt" + ("" if len(attempts) == 1 else "s")
    shapes += _head(f"what reached {service}", [reached], frame, y)
    shapes += _ground(frame, faults, y)
    shapes += _lane(attempts, frame, y)
    y += _LANE + 5.0
    shapes += draw_axis(frame, y)
    y += _LEGEND + 14.0
    shapes += _legend(y)
    return Picture(width, y + 8.0, tuple(shapes), title, _alt(answers, reached))


def _head(name: str, told: list[str], frame: Frame, y: float) -> list[Shape]:
    """A lane's name, and what is said at its right as far as there is room."""
    shapes: list[Shape] = [Words(_EDGE, y - 7.0, name, SIZE, bold=True)]
    least = _EDGE + width_of(name, SIZE, bold=True) + 12.0
    words = " · ".join(told)
    while told and least + width_of(words, SIZE_LABEL) > frame.right:
        told = told[:-1]
        words = " · ".join(told)
    if words:
        shapes.append(Words(frame.right, y - 7.0, words, SIZE_LABEL, "end", ink="muted"))
    return shapes


def _ground(frame: Frame, faults: Iterable[Fault], y: float) -> list[Shape]:
    shapes: list[Shape] = [Box(frame.left, y, frame.right - frame.left, _LANE, fill="panel")]
    for fault in faults:
        x0, x1 = frame.at(fault.start), frame.at(fault.end)
        if x1 - x0 >= 0.5:
            shapes.append(Box(x0, y, round(x1 - x0, 2), _LANE, fill="band"))
    return shapes


def _lane(marks: Sequence[tuple[float, str]], frame: Frame, y: float) -> list[Shape]:
    """The marks in one line, as large as most of them allow; what would lie on another is moved up or down."""
    places = [frame.at(at) for at, _ in marks]
    apart = sorted(after - before for before, after in pairwise(places))
    size = max(2.2, min(5.0, apart[len(apart) // 10] / 2.4)) if apart else 5.0
    shapes: list[Shape] = []
    last = [-1e9, -1e9, -1e9]
    for x, (_, kind) in zip(places, marks, strict=True):
        row = next((row for row in (0, 1, 2) if x - last[row] >= size * 2.3), 0)
        last[row] = x
        down = (0.0, -1.0, 1.0)[row] * (size * 2.3 + 0.5)
        shapes += mark(kind, x, round(y + _LANE / 2 + down, 2), size=size)
    return shapes


def _ribbon(trace: Trace) -> Ribbon:
    found = binned(trace, axis_of([trace])).ribbons
    return found[0] if found else Ribbon("breaker", "", 0, [(0.0, "CLOSED")], [])


def _around(trace: Trace) -> str:
    return f"around {trace.targets[0]}" if trace.targets else "it never opened"


def _attempts(trace: Trace, service: str) -> list[tuple[float, str]]:
    """When the service was asked, and the mark of what came of it."""
    from labkit.scenario.run.trace import ATTEMPT_OUTCOMES

    place, attempts = trace.services.index(service), trace.attempts
    kinds = {"answered": "success", "rejected": "success", "cancelled": "timeout", "error_shaped_string": "not_useful"}
    found: list[tuple[float, str]] = []
    for whose, start, outcome in zip(attempts.service, attempts.start, attempts.outcome, strict=True):
        if whose == place:
            name = ATTEMPT_OUTCOMES[outcome] if outcome < len(ATTEMPT_OUTCOMES) else "cancelled"
            found.append((start, kinds.get(name, "failure")))
    return found


def _legend(y: float) -> list[Shape]:
    shapes: list[Shape] = []
    x = _LEFT
    for kind, name in _MARK_OF.items():
        shapes += mark(name, x + 6.0, y - 4.5, size=5.0)
        shapes.append(Words(x + 18.0, y, _WORDS[kind], SIZE_SMALL, ink="muted"))
        x += 18.0 + width_of(_WORDS[kind], SIZE_SMALL) + 18.0
    return shapes


def _alt(answers: Answers, reached: str) -> str:
    sentences = []
    for about, name in _LANES.items():
        counts = answers.counts(about)
        told = ", ".join(f"{many} {_WORDS[kind]}" for kind, many in counts.items() if many) or "nobody"
        sentences.append(f"Those who {name}: {told}.")
    return " ".join([*sentences, f"What reached the service: {reached}."])
