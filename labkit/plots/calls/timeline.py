"""What happened when: calls, a breaker's state and what the dependency saw, over one axis of seconds.

Rows go from top to bottom as a request travels. A call is a line from its start to its end with the mark of how it
ended; a rejection takes no time and is a short bar.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from labkit.plots.draw.picture import Picture
from labkit.plots.draw.shapes import Box, Line, Shape, Words, mark
from labkit.plots.draw.style import MARKS, SIZE, SIZE_SMALL, state_style, width_of

__all__ = ["Period", "Span", "timeline"]

_LANE = 22.0
_MAX_LANES = 8
_APART = 11.0  # from one mark to the next that would hide it
_FIRST_STATE = "CLOSED"


class Span(NamedTuple):
    """Something that took time.

    Attributes:
        start, end: seconds; `end` is None while it goes on.
        kind: how it ended, a key of `style.MARKS`, or "" while it goes on.
        label: a word or a number beside its mark.
    """

    start: float
    end: float | None
    kind: str
    label: str = ""


class Period(NamedTuple):
    """A state from a time until the next period.

    Attributes:
        start: seconds.
        state: its name, such as "OPEN".
    """

    start: float
    state: str


def timeline(
    calls: Sequence[Span],
    periods: Sequence[Period],
    attempts: Sequence[Span],
    *,
    until: float | None = None,
    width: float = 860.0,
    title: str = "Timeline",
) -> Picture:
    """Return the picture of a short run.

    Args:
        calls: as the callers saw them.
        periods: the breaker's states, in order; CLOSED before the first.
        attempts: as the dependency saw them.
        until: where the axis ends, in seconds; a little after the last thing that happens by default.
        width: of the picture, in pixels.
        title: what it is called.
    """
    ends = [span.end if span.end is not None else span.start for span in (*calls, *attempts)]
    last = max([*ends, *(period.start for period in periods), 0.0])
    until = until if until is not None else _round_up(last * 1.06 or 1.0)
    gutter, right = 112.0, 18.0
    scale = (width - gutter - right) / until

    def at(seconds: float) -> float:
        return gutter + seconds * scale

    shapes: list[Shape] = []
    y = 8.0
    for name, spans in (("callers", calls), ("breaker", None), ("dependency", attempts)):
        if spans is None:
            high = 34.0
            shapes += _ribbon(periods, until, at, y, high)
        else:
            lanes = _lanes(spans)
            high = max(lanes.values(), default=0) * _LANE + _LANE + 12.0
            shapes.append(Box(gutter, y, width - gutter - right, high, 6.0, fill="panel"))
            shapes += _spans(spans, lanes, until, at, y + 6.0 + _LANE / 2)
        shapes.append(Words(gutter - 12.0, y + high / 2 + 5.0, name, SIZE, "end", bold=True))
        y += high + 12.0
    shapes += _axis(until, at, y, width - right)
    y += 44.0
    used = [kind for kind in MARKS if any(span.kind == kind for span in (*calls, *attempts))]
    shapes += _legend(used, gutter, y)
    return Picture(width, y + 14.0, tuple(shapes), title, _alt(calls, periods, attempts))


def _round_up(seconds: float) -> float:
    step = _step(seconds)
    return -(-seconds // step) * step


def _step(until: float) -> float:
    """A round distance between ticks, for five to ten of them."""
    size = 1e-3
    while True:
        for factor in (1.0, 2.0, 5.0):
            if until / (size * factor) <= 10.0:
                return size * factor
        size *= 10.0


def _lanes(spans: Iterable[Span]) -> dict[int, int]:
    """The lane of each span: the first that is free when it starts."""
    free: list[float] = []
    lanes = {}
    for index, span in enumerate(spans):
        end = span.end if span.end is not None else float("inf")
        lane = next((i for i, busy_until in enumerate(free) if busy_until <= span.start), None)
        if lane is None and len(free) < _MAX_LANES:
            lane = len(free)
            free.append(end)
        lane = lane if lane is not None else _MAX_LANES - 1
        free[lane] = end
        lanes[index] = lane
    return lanes


def _spans(
    spans: Sequence[Span], lanes: dict[int, int], until: float, at: Callable[[float], float], top: float
) -> list[Shape]:
    shapes: list[Shape] = []
    for index, span in enumerate(spans):
        y = top + lanes[index] * _LANE
        end = span.end if span.end is not None else until
        if end > span.start:
            shapes.append(Line(((at(span.start), y), (at(end), y)), "line", 2.0, dash=span.end is None))
            shapes.append(Line(((at(span.start), y - 4.0), (at(span.start), y + 4.0)), "line", 2.0))
    marked: dict[int, float] = {}
    for index, span in enumerate(spans):
        y = top + lanes[index] * _LANE
        if span.kind and span.end is not None:
            x = at(span.end)
            last = marked.get(lanes[index])
            # What takes no time would lie on the mark before it; it is set beside it, as far as it is still believed.
            if last is not None and span.end == span.start and x <= last + _APART and last - x < 5 * _APART:
                x = last + _APART
            marked[lanes[index]] = x
            shapes += mark(span.kind, x, y, size=5.5)
        if span.label:
            middle = (at(span.start) + at(span.end if span.end is not None else until)) / 2
            shapes.append(Words(middle, y - 5.0, span.label, SIZE_SMALL - 1.0, "middle", ink="muted"))
    return shapes


def _ribbon(
    periods: Sequence[Period], until: float, at: Callable[[float], float], y: float, high: float
) -> list[Shape]:
    whole = list(periods)
    if not whole or whole[0].start > 0.0:
        whole.insert(0, Period(0.0, _FIRST_STATE))
    shapes: list[Shape] = []
    for index, period in enumerate(whole):
        end = whole[index + 1].start if index + 1 < len(whole) else until
        style = state_style(period.state)
        x, wide = at(period.start), at(end) - at(period.start)
        shapes.append(
            Box(x, y, wide, high, 0.0, fill=style.colour, stroke=style.colour, texture=style.texture, ink="#FFFFFF")
        )
        words = style.word if index == 0 else f"{style.word} at {period.start:g} s"
        for text in (words, style.word):
            plaque = width_of(text, SIZE_SMALL, bold=True) + 14.0
            if plaque + 8.0 <= wide:
                shapes.append(Box(x + 4.0, y + 6.0, plaque, high - 12.0, 4.0, fill=style.colour))
                shapes.append(Words(x + 11.0, y + high / 2 + 4.5, text, SIZE_SMALL, ink="#FFFFFF", bold=True))
                break
    return shapes


def _axis(until: float, at: Callable[[float], float], y: float, right: float) -> list[Shape]:
    shapes: list[Shape] = [Line(((at(0.0), y), (right, y)), "line", 1.2)]
    step = _step(until)
    count = int(until / step + 1e-9)
    for index in range(count + 1):
        seconds = index * step
        shapes.append(Line(((at(seconds), y), (at(seconds), y + 5.0)), "line", 1.2))
        text = f"{seconds:g}" + (" s" if index == count else "")
        shapes.append(Words(at(seconds), y + 19.0, text, SIZE_SMALL - 0.5, "middle", ink="muted"))
    return shapes


def _legend(kinds: Sequence[str], x: float, y: float) -> list[Shape]:
    shapes: list[Shape] = []
    for kind in kinds:
        word = MARKS[kind].word
        shapes += mark(kind, x + 8.0, y - 4.5, size=5.5)
        shapes.append(Words(x + 21.0, y, word, SIZE_SMALL, ink="muted"))
        x += 21.0 + width_of(word, SIZE_SMALL) + 22.0
    return shapes


def _alt(calls: Sequence[Span], periods: Sequence[Period], attempts: Sequence[Span]) -> str:
    sentences = [f"Callers: {_counted(calls)}.", f"The dependency saw {_counted(attempts)}."]
    changes = [f"{state_style(period.state).word} from {period.start:g} s" for period in periods if period.start > 0.0]
    sentences.append(f"The breaker: {', '.join(['closed', *changes])}." if changes else "The breaker stays closed.")
    return " ".join(sentences)


def _counted(spans: Sequence[Span]) -> str:
    if not spans:
        return "nothing"
    words = []
    for kind in dict.fromkeys(span.kind for span in spans):
        count = sum(span.kind == kind for span in spans)
        word = MARKS[kind].word if kind else "still going on"
        words.append(f"{count} × {word}")
    return ", ".join(words)
