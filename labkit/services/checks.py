"""What the modules of this package ask of the values that they are given."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TypeGuard

from labkit.config import numbers
from labkit.config.findings import without_password
from labkit.config.nearest import nearest

__all__ = ["LONGEST", "MANY", "hint", "is_number", "is_whole", "shown"]

LONGEST = 1e9
"""The most seconds, and the largest factor or rate, that a setting may have."""

MANY = 1_000_000_000
"""The most of anything that is counted."""


def is_number(value: object, least: float = 0.0, most: float = math.inf) -> TypeGuard[int | float]:
    """Whether it is a number from `least` to `most`, by the rule of `labkit.config.numbers`.

    Args:
        value: anything.
        least, most: the limits, which belong to it.
    """
    return numbers.is_number(value, least, most)


def is_whole(value: object, least: int = 0, most: float = math.inf) -> TypeGuard[int]:
    """Whether it is a whole number from `least` to `most`.

    Args:
        value: anything.
        least, most: the limits, which belong to it.
    """
    return numbers.is_whole(value, least, most)


def hint(name: object, known: Iterable[str]) -> str:
    """The end of a sentence about a name that nobody knows: the nearest, if one is near, and all that there are."""
    names = list(known)
    near = nearest(name, names) if isinstance(name, str) else None
    return (f"; did you mean '{near}'?" if near else "") + f" (known: {', '.join(names)})"


def shown(value: object, most: int = 80) -> str:
    """The value in one line, quoted if it is a text, cut where it would be too long for a sentence."""
    line = " ".join(without_password(value).split()) if isinstance(value, str) else numbers.plain_repr(value)
    line = line if len(line) <= most else line[: most - 3] + "..."
    return repr(line) if isinstance(value, str) else line
