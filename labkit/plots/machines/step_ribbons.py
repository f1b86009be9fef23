"""Several machines on one history, step by step: a ribbon of states each, and where they part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from labkit.plots.draw.picture import Picture
from labkit.plots.draw.shapes import Box, Line, Shape, Words
from labkit.plots.draw.style import SIZE, SIZE_LABEL, SIZE_SMALL, SIZE_TICK, state_style, width_of

__all__ = ["StepCell", "step_ribbons"]

_COLUMN = 66.0
_GUTTER = 88.0
_HEAD = 46.0
_HIGH = 30.0
_ROW = 62.0


class StepCell(NamedTuple):
    """What a step left one machine in.

    Attributes:
        state: its state after the step.
        words: what it decided, in a word or two, or "".
        apart: whether it parts from the others here.
    """

    state: str
    words: str = ""
    apart: bool = False


def step_ribbons(
    steps: Sequence[tuple[str, str]],
    rows: Sequence[tuple[str, Sequence[StepCell]]],
    *,
    width: float = 860.0,
    title: str = "Steps",
) -> Picture:
    """Return the ribbons of several machines over the same steps; the last steps, where all do not fit.

    Args:
        steps: what happened: to whom, and what.
        rows: each machine's name and its cells, one a step.
        width: of the picture, in pixels.
        title: what it is called.
    """
    fit = max(1, int((width - _GUTTER - 8.0) // _COLUMN))
    first = max(0, len(steps) - fit)
    shown = steps[first:]
    height = _HEAD + _ROW * len(rows) + 4.0
    shapes: list[Shape] = []
    right = _GUTTER + _COLUMN * max(len(shown), 1)
    for place, (who, what) in enumerate(shown):
        x = _GUTTER + _COLUMN * (place + 0.5)
        last = place == len(shown) - 1
        if last:
            shapes.append(Box(x - _COLUMN / 2, 2.0, _COLUMN, height - 4.0, 6.0, fill="panel", stroke="line", line=1.0))
        shapes.append(Words(x, 18.0, who, SIZE_SMALL, "middle", bold=True))
        shapes.append(Words(x, 34.0, what, SIZE_TICK, "middle", ink="muted"))
    if first:
        shapes.append(Words(_GUTTER - 10.0, 18.0, f"{first} before", SIZE_TICK, "end", ink="muted"))
    for number, (name, cells) in enumerate(rows):
        y = _HEAD + _ROW * number
        shapes.append(Words(_GUTTER - 10.0, y + _HIGH / 2 + 5.0, name, SIZE, "end", bold=True))
        shapes += _ribbon(cells[first:], y)
        for place, cell in enumerate(cells[first:]):
            x = _GUTTER + _COLUMN * (place + 0.5)
            if cell.words:
                shapes.append(Words(x, y + _HIGH + 14.0, cell.words, SIZE_LABEL, "middle"))
        if not cells:
            shapes.append(Line(((_GUTTER, y + _HIGH / 2), (right, y + _HIGH / 2)), "faint", 2.0, dash=True))
    return Picture(width, height, tuple(shapes), title, _alt(steps, rows))


def _ribbon(cells: Sequence[StepCell], y: float) -> list[Shape]:
    shapes: list[Shape] = []
    start = 0
    for place in range(1, len(cells) + 1):
        if place < len(cells) and cells[place].state == cells[start].state:
            continue
        style = state_style(cells[start].state)
        x, wide = _GUTTER + _COLUMN * start, _COLUMN * (place - start)
        shapes.append(Box(x + 1.0, y, wide - 2.0, _HIGH, 4.0, fill=style.colour, texture=style.texture, ink="#FFFFFF"))
        plaque = width_of(style.word, SIZE_TICK, bold=True)
        if plaque <= wide - 2.0:
            shapes.append(Box(x + 3.0, y + 6.0, min(plaque + 6.0, wide - 5.0), _HIGH - 12.0, 4.0, fill=style.colour))
            shapes.append(Words(x + 6.0, y + _HIGH / 2 + 4.0, style.word, SIZE_TICK, ink="#FFFFFF", bold=True))
        start = place
    # Where it parts from the others: a frame and a notch, since colour alone would not tell it.
    for place, cell in enumerate(cells):
        if cell.apart:
            x = _GUTTER + _COLUMN * place
            shapes.append(Box(x, y - 3.0, _COLUMN, _HIGH + 6.0, 5.0, stroke="text", line=2.5))
    return shapes


def _alt(steps: Sequence[tuple[str, str]], rows: Sequence[tuple[str, Sequence[StepCell]]]) -> str:
    if not steps:
        return "No step so far."
    told = []
    for place, (who, what) in enumerate(steps):
        apart = [
            f"{name} {cells[place].words or 'is'} {state_style(cells[place].state).word}".replace("  ", " ")
            for name, cells in rows
            if cells[place].apart
        ]
        if apart:
            told.append(f"at step {place + 1} ({who} {what}): {', '.join(apart)}")
    now = ", ".join(f"{name} {state_style(cells[-1].state).word}" for name, cells in rows)
    parted = f"They part {'; '.join(told)}." if told else "They never parted."
    return f"{len(steps)} steps. {parted} Now: {now}."
