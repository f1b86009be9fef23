"""What leaves an adapter, as a value or as an exception, and what a breaker then counts: a row an adapter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from labkit.plots.draw.picture import Picture
from labkit.plots.draw.shapes import Box, Line, Shape, Words, arrow, mark, wrap
from labkit.plots.draw.style import SIZE, SIZE_LABEL, SIZE_SMALL, state_style, width_of

__all__ = ["Passage", "boundary"]

_LINE = 15.5


class Passage(NamedTuple):
    """One adapter, and what came of it.

    Attributes:
        adapter: its name.
        does: what it does with what comes back, in a few words.
        error: the exception that leaves it, or "" for a value.
        text: what leaves it, in words.
        marks: what the breaker counted, call by call, as keys of `style.MARKS`.
        state: the breaker's state in the end.
        verdict: the count in words.
    """

    adapter: str
    does: str
    error: str
    text: str
    marks: Sequence[str]
    state: str
    verdict: str


def boundary(
    came: str, passages: Sequence[Passage], *, lit: str = "", width: float = 860.0, title: str = ""
) -> Picture:
    """Return the picture.

    Args:
        came: what came back from the dependency, in words.
        passages: a row each.
        lit: the adapter whose row is lit.
        width: of the picture, in pixels; below 700 each row is laid in two.
        title: what it is called.
    """
    shapes, height = (_wide if width >= 700.0 else _narrow)(came, passages, lit, width)
    alt = [f"What comes back: {came}."]
    for one in passages:
        what = f"the exception {one.error}" if one.error else f"a value, {one.text}"
        chosen = " (chosen)" if one.adapter == lit else ""
        alt.append(
            f"{one.adapter}{chosen}: {what} leaves; the breaker is {state_style(one.state).word}, {one.verdict}."
        )
    return Picture(width, height, tuple(shapes), title or "What leaves the adapter", " ".join(alt))


def _wide(came: str, passages: Sequence[Passage], lit: str, width: float) -> tuple[list[Shape], float]:
    high, gap, top = 82.0, 8.0, 30.0
    adapter, leaves, counts = 166.0, 350.0, 604.0
    bottom = top + len(passages) * (high + gap) - gap
    middle = (top + bottom) / 2
    heads = (
        (8.0, "comes back"),
        (adapter, "adapter"),
        (leaves, "what leaves it"),
        (counts, "the breaker, call by call"),
    )
    shapes: list[Shape] = [Words(x, 18.0, text, SIZE_SMALL, ink="muted", bold=True) for x, text in heads]
    shapes += _reply(came, 8.0, middle - 46.0, 118.0, 92.0)
    for number, one in enumerate(passages):
        y = top + number * (high + gap)
        centre = y + high / 2
        shapes += arrow(
            ((128.0, middle), (146.0, middle), (146.0, centre), (adapter - 3.0, centre)), stroke="line", line=1.6
        )
        shapes += _adapter(one, adapter, y, 156.0, high, lit)
        shapes += arrow(((adapter + 158.0, centre), (leaves - 4.0, centre)), stroke="line", line=1.6)
        shapes += _leaves(one, leaves, y + 10.0, counts - leaves - 26.0)
        shapes += _counts(one, counts, y + 10.0, width - counts - 8.0)
        if number:
            shapes.append(Line(((leaves, y - gap / 2), (width - 8.0, y - gap / 2)), "faint", 1.0))
    return shapes, bottom + 8.0


def _narrow(came: str, passages: Sequence[Passage], lit: str, width: float) -> tuple[list[Shape], float]:
    shapes: list[Shape] = [Words(8.0, 18.0, "comes back", SIZE_SMALL, ink="muted", bold=True)]
    shapes += _reply(came, 8.0, 26.0, width - 16.0, 40.0)
    y, high = 84.0, 128.0
    for one in passages:
        shapes += arrow(((30.0, y - 16.0), (30.0, y - 3.0)), stroke="line", line=1.6)
        shapes += _adapter(one, 8.0, y, 136.0, high - 24.0, lit)
        shapes += arrow(((146.0, y + 20.0), (160.0, y + 20.0)), stroke="line", line=1.6)
        shapes += _leaves(one, 164.0, y - 2.0, width - 172.0)
        shapes += _counts(one, 164.0, y + 57.0, width - 172.0)
        y += high
    return shapes, y - 8.0


def _reply(came: str, x: float, y: float, wide: float, high: float) -> list[Shape]:
    lines = wrap(came, wide - 16.0, SIZE_SMALL, bold=True)
    first = y + high / 2 - (len(lines) - 1) * _LINE / 2 + 4.5
    return [
        Box(x, y, wide, high, 8.0, fill="panel", stroke="text", line=1.6),
        *(
            Words(x + wide / 2, first + row * _LINE, text, SIZE_SMALL, "middle", bold=True)
            for row, text in enumerate(lines)
        ),
    ]


def _adapter(one: Passage, x: float, y: float, wide: float, high: float, lit: str) -> list[Shape]:
    chosen = one.adapter == lit
    shapes: list[Shape] = [
        Box(x, y, wide, high, 8.0, fill="panel", stroke="text" if chosen else "line", line=3.6 if chosen else 1.4),
        Words(x + 12.0, y + 23.0, one.adapter, SIZE, bold=True),
    ]
    lines = wrap(one.does, wide - 22.0, SIZE_LABEL)[: int((high - 28.0) / _LINE)]
    shapes += [Words(x + 12.0, y + 41.0 + row * _LINE, text, SIZE_LABEL, ink="muted") for row, text in enumerate(lines)]
    return shapes


def _leaves(one: Passage, x: float, y: float, room: float) -> list[Shape]:
    """A plaque "value" or "exception", the class, and the text under it."""
    word = "exception" if one.error else "value"
    wide = width_of(word, SIZE_SMALL, bold=True) + 18.0
    shapes: list[Shape] = [
        Box(x, y, wide, 20.0, 10.0 if not one.error else 2.0, fill="paper", stroke="text", line=1.6),
        Words(x + wide / 2, y + 14.5, word, SIZE_SMALL, "middle", bold=True),
        Words(x + wide + 7.0, y + 14.5, one.error, SIZE_SMALL, bold=True),
    ]
    lines = wrap(one.text, room, SIZE_LABEL)
    if len(lines) > 2:
        lines = [lines[0], f"{lines[1]} …"]
    return shapes + [Words(x, y + 38.0 + row * _LINE, text, SIZE_LABEL, ink="muted") for row, text in enumerate(lines)]


def _counts(one: Passage, x: float, y: float, room: float) -> list[Shape]:
    """The marks in a row, the state as a plaque, the count in words."""
    step = min(room / max(len(one.marks), 1), 16.0)
    shapes: list[Shape] = []
    for number, kind in enumerate(one.marks):
        shapes += mark(kind, x + step * (number + 0.5), y + 10.0, size=min(5.0, step * 0.4)) if kind else []
    style = state_style(one.state)
    wide = width_of(style.word, SIZE_SMALL, bold=True) + 14.0
    shapes += [
        Box(x, y + 26.0, wide + 12.0, 22.0, 4.0, fill=style.colour, texture=style.texture, ink="#FFFFFF"),
        Box(x + 5.0, y + 29.0, wide + 2.0, 16.0, 3.0, fill=style.colour),
        Words(x + 6.0 + wide / 2, y + 41.5, style.word, SIZE_SMALL, "middle", ink="#FFFFFF", bold=True),
    ]
    left = x + wide + 20.0
    lines = wrap(one.verdict, room - wide - 20.0, SIZE_LABEL)
    return shapes + [Words(left, y + 41.0 + row * _LINE, text, SIZE_LABEL) for row, text in enumerate(lines)]
