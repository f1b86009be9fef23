"""Words under a picture, drawn into it: for pages that show a picture and nothing else."""

from __future__ import annotations

from dataclasses import replace

from labkit.plots.draw.picture import Picture
from labkit.plots.draw.shapes import Shape, Words, wrap
from labkit.plots.draw.style import SIZE

__all__ = ["captioned"]

_EDGE, _LINE, _GAP = 8.0, 18.0, 16.0


def captioned(picture: Picture, text: str, hint: str = "") -> Picture:
    """Return the picture with a text under it.

    Args:
        picture: what is drawn above.
        text: one or more sentences; broken into lines of the picture's width.
        hint: another, in the muted ink, below.

    >>> plain = Picture(200.0, 50.0, (), "A run", "It went well.")
    >>> captioned(plain, "The breaker opened.").height
    84.0
    """
    room = picture.width - 2 * _EDGE
    lines = [(line, "text") for line in wrap(text, room, SIZE)] if text else []
    lines += [(line, "muted") for line in wrap(hint, room, SIZE)] if hint else []
    shapes: list[Shape] = [
        Words(_EDGE, picture.height + _GAP + _LINE * number, line, SIZE, ink=ink)
        for number, (line, ink) in enumerate(lines)
    ]
    height = picture.height + (_GAP + _LINE * len(lines) if lines else 0.0)
    return replace(picture, height=height, shapes=(*picture.shapes, *shapes))
