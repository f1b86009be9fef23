"""Numbers as a file or an option gives them: what is one, and in which words a sentence says which are allowed.

Python's whole numbers have no end, and `float` has one: who adds or prints a number of a thousand digits must not be
the first to find out. So a number from outside goes through `is_number` before anything reckons with it.
"""

from __future__ import annotations

import math
import sys
from typing import TypeGuard

__all__ = ["LARGEST", "in_range", "in_words", "is_number", "is_whole", "parse_number", "plain_repr"]

LARGEST = sys.float_info.max
"""The largest number that can be reckoned with, about 1.8e308."""


def is_number(
    value: object, least: float = -math.inf, most: float = math.inf, *, above: bool = False
) -> TypeGuard[int | float]:
    """Whether it is a number from `least` to `most`; True, NaN, and what no float can hold are none.

    Args:
        value: anything.
        least, most: the limits, which belong to it; infinite ones let an infinite float pass, and no endless integer.
        above: leave out `least` itself.

    >>> is_number(2.5), is_number(True), is_number(float("nan")), is_number(10**400), is_number(0, 0, above=True)
    (True, False, False, False, False)
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        return False
    if isinstance(value, int) and not -LARGEST <= value <= LARGEST:
        return False
    return not (above and value == least)


def is_whole(value: object, least: float = -math.inf, most: float = math.inf) -> TypeGuard[int]:
    """Whether it is a whole number (of the type int) from `least` to `most`.

    Args:
        value: anything.
        least, most: the limits, which belong to it.

    >>> is_whole(3, 1, 10), is_whole(3.0), is_whole(10**400)
    (True, False, False)
    """
    return isinstance(value, int) and is_number(value, least, most)


def parse_number(text: str) -> int | float | None:
    """The number that a text is in Python's or YAML's plain spelling, whole or not; None when it is none.

    None also for what no float can hold, infinite, NaN, and a number of more digits than Python reads.

    >>> parse_number(" 12 "), parse_number("1e-3"), parse_number("9" * 5000), parse_number("inf"), parse_number("2s")
    (12, 0.001, None, None, None)
    """
    if len(text) > 1000:
        return None
    for read in (int, float):
        try:
            value = read(text)
        except (ValueError, OverflowError):
            continue
        return value if is_number(value) and math.isfinite(value) else None
    return None


def in_words(number: float) -> str:
    """A limit for a sentence.

    >>> in_words(0.0), in_words(0.001), in_words(1e7), in_words(1e-9), in_words(1e300), in_words(2**63)
    ('0', '0.001', '10,000,000', '1e-09', '1e+300', '9,223,372,036,854,775,808')
    """
    if isinstance(number, int):
        return f"{number:,}"
    return f"{number:,.10g}" if not number or 1e-6 <= abs(number) < 1e16 else f"{number:g}"


def in_range(what: str, least: float, most: float, *, above: bool = False) -> str:
    """Which numbers are allowed: both limits, always.

    Args:
        what: the kind of number, with its article.
        least, most: the limits, which belong to it.
        above: leave out `least` itself.

    >>> in_range("a number of seconds", 0, 1e7, above=True), in_range("a whole number", 1, 1000)
    ('a number of seconds above 0, at most 10,000,000', 'a whole number from 1 to 1,000')
    """
    if above:
        return f"{what} above {in_words(least)}, at most {in_words(most)}"
    return f"{what} from {in_words(least)} to {in_words(most)}"


def plain_repr(value: object) -> str:
    """`repr`, also of what holds a number of more digits than Python writes.

    >>> plain_repr([1, "a"]), plain_repr(16**5000)
    ("[1, 'a']", 'an int of more than 4300 digits')
    """
    try:
        return repr(value)
    except ValueError:
        kind = type(value).__name__
        digits = f"{sys.get_int_max_str_digits()} digits"
        return f"an int of more than {digits}" if isinstance(value, int) else f"a {kind} with more than {digits}"
    except RecursionError:
        return f"a {type(value).__name__} that is nested too deep"
