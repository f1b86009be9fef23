"""The shapes that a picture is made of: one geometry, drawn by two writers (`svg.py`, `png.py`).

Units are pixels at the size in which the picture is shown, y grows downwards. A colour is "#RRGGBB" or the name of one
of `style.INKS`, which the writer turns into a theme's or a file's colour; "" is none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from labkit.plots.draw.style import MARKS, SIZE, SIZE_SMALL, width_of

__all__ = ["Area", "Box", "Disc", "Line", "Shape", "Words", "arrow", "mark", "moved", "wrap"]


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle, with its corners rounded by `radius`.

    `texture` is drawn in `ink` over the fill: "solid" (nothing), "hatch" or "dots".
    """

    x: float
    y: float
    width: float
    height: float
    radius: float = 0.0
    fill: str = ""
    stroke: str = ""
    line: float = 1.0
    dash: bool = False
    texture: str = "solid"
    ink: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """Straight through its points, or, when `curved`, a Bézier curve: a start, then three points a piece."""

    points: tuple[tuple[float, float], ...]
    stroke: str = "line"
    line: float = 1.5
    dash: bool = False
    curved: bool = False
    closed: bool = False
    fill: str = ""


@dataclass(frozen=True, slots=True)
class Disc:
    """A circle."""

    x: float
    y: float
    radius: float
    fill: str = ""
    stroke: str = ""
    line: float = 1.5


@dataclass(frozen=True, slots=True)
class Words:
    """One line of text; y is its baseline. `anchor` is "start", "middle" or "end".

    `tail` goes on in the same line, after a gap and in `tail_ink`, however wide the font makes the text before it; for
    a line that starts at its anchor.
    """

    x: float
    y: float
    text: str
    size: float = SIZE
    anchor: str = "start"
    ink: str = "text"
    bold: bool = False
    mono: bool = False
    italic: bool = False
    tail: str = ""
    tail_ink: str = "muted"


@dataclass(frozen=True, slots=True)
class Area:
    """What its points enclose, filled and without an edge.

    `texture` is "solid" (the fill itself, as opaque as `fade` says, from 0 to 1), "hatch" or "dots": finer than a
    box's, and with what is behind seen between them.
    """

    points: tuple[tuple[float, float], ...]
    fill: str
    texture: str = "solid"
    fade: float = 1.0


Shape: TypeAlias = Area | Box | Line | Disc | Words


def moved(shapes: Iterable[Shape], dx: float, dy: float) -> list[Shape]:
    """Return the shapes at another place.

    Args:
        shapes: what to move; it stays as it is.
        dx, dy: how far to the right and down, in pixels.
    """
    result: list[Shape] = []
    for shape in shapes:
        if isinstance(shape, Line | Area):
            result.append(replace(shape, points=tuple((x + dx, y + dy) for x, y in shape.points)))
        else:
            result.append(replace(shape, x=shape.x + dx, y=shape.y + dy))
    return result


def arrow(
    points: Sequence[tuple[float, float]],
    *,
    stroke: str = "line",
    line: float = 1.5,
    dash: bool = False,
    curved: bool = False,
    head: float = 8.0,
) -> list[Shape]:
    """Return a line with a head at its end.

    Args:
        points: where the line goes, in pixels; the head is at the last one.
        stroke: its colour, by the names of a theme.
        line: its width in pixels.
        dash: whether it is dashed.
        curved: whether it is a curve through the points.
        head: the length of the head in pixels.
    """
    (x0, y0), (x1, y1) = points[-2], points[-1]
    length = max(((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5, 1e-9)
    ux, uy = (x1 - x0) / length, (y1 - y0) / length
    back = (x1 - ux * head, y1 - uy * head)
    half = head * 0.45
    tip = ((x1, y1), (back[0] - uy * half, back[1] + ux * half), (back[0] + uy * half, back[1] - ux * half))
    shaft = (*points[:-1], (x1 - ux * head * 0.7, y1 - uy * head * 0.7))
    return [
        Line(tuple(shaft), stroke, line, dash, curved),
        Line(tip, "", 0.0, closed=True, fill=stroke),
    ]


def mark(kind: str, x: float, y: float, *, size: float = 5.0) -> list[Shape]:
    """Return the mark of something that happened (`style.MARKS`), centred on a point; `size` is its radius.

    Args:
        kind: what happened, a name in `style.MARKS`.
        x, y: its centre in pixels.
        size: its radius in pixels.
    """
    style = MARKS[kind]
    ink, line = style.colour, size * 0.4
    reach = size * (0.62 if style.shape == "ringed cross" else 0.85)
    cross: list[Shape] = [
        Line(((x - reach, y - reach), (x + reach, y + reach)), ink, line),
        Line(((x - reach, y + reach), (x + reach, y - reach)), ink, line),
    ]
    if style.shape == "dot":
        return [Disc(x, y, size * 0.9, fill=ink)]
    if style.shape == "ring":
        return [Disc(x, y, size * 0.9, fill="paper", stroke=ink, line=line)]
    if style.shape == "cross":
        return cross
    if style.shape == "ringed cross":
        return [Disc(x, y, size * 1.25, fill="paper", stroke=ink, line=line * 0.8), *cross]
    if style.shape == "bar":
        return [Line(((x, y - size * 1.4), (x, y + size * 1.4)), ink, line * 1.7)]
    if style.shape == "square":
        return [Box(x - size * 0.9, y - size * 0.9, size * 1.8, size * 1.8, fill="paper", stroke=ink, line=line)]
    if style.shape == "triangle":
        corners = ((x, y - size * 1.1), (x + size * 1.1, y + size * 0.9), (x - size * 1.1, y + size * 0.9))
        return [Line(corners, ink, line, closed=True, fill="paper")]
    return [Line(((x, y - size * 1.2), (x + size * 1.2, y), (x, y + size * 1.2), (x - size * 1.2, y)), ink, line,
                 closed=True, fill="paper")]  # fmt: skip


def wrap(text: str, width: float, size: float = SIZE_SMALL, *, bold: bool = False, mono: bool = False) -> list[str]:
    """Return the text broken into lines of at most `width`, at spaces only.

    Args:
        text: the words.
        width: the room in pixels.
        size: of the letters, in pixels.
        bold, mono: the style in which they are drawn.

    >>> wrap("one probe at a time", 70.0, 12.0)
    ['one probe', 'at a time']
    """
    lines: list[str] = []
    for word in text.split(" "):
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and width_of(longer, size, bold=bold, mono=mono) <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines
