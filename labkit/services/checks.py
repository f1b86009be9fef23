"""What the modules of this package ask of the values that they are given."""

from __future__ import annotations

import math
from collections.abc import Iterable

from labkit.config.nearest import nearest

__all__ = ["hint", "is_number", "is_whole", "shown"]


def is_number(value: object, least: float = 0.0, most: float = math.inf) -> bool:
    """Whether it is a number (True and NaN are none) from `least` to `most`."""
    return isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= most


def is_whole(value: object, least: int = 0, most: float = math.inf) -> bool:
    """Whether it is a whole number from `least` to `most`."""
    return isinstance(value, int) and is_number(value, least, most)


def hint(name: object, known: Iterable[str]) -> str:
    """The end of a sentence about a name that nobody knows: the nearest, if one is near, and all that there are."""
    names = list(known)
    near = nearest(str(name), names)
    return (f"; did you mean '{near}'?" if near else "") + f" (known: {', '.join(names)})"


def shown(value: object, most: int = 80) -> str:
    """The value in one line, quoted if it is a text, cut where it would be too long for a sentence."""
    line = " ".join(value.split()) if isinstance(value, str) else repr(value)
    line = line if len(line) <= most else line[: most - 3] + "..."
    return repr(line) if isinstance(value, str) else line
