"""A sweep's table, read for a picture: the numbers by cell, and how parameters, metrics and numbers are written."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import pairwise
from math import isfinite
from typing import Any

__all__ = ["Cells", "bare_name", "cells_of", "in_order", "median", "name_words", "value_words", "words_for"]


def median(numbers: Sequence[float]) -> float:
    """Return the middle one, or the mean of the two in the middle."""
    ranked = sorted(numbers)
    half = len(ranked) // 2
    return ranked[half] if len(ranked) % 2 else (ranked[half - 1] + ranked[half]) / 2.0


Cells = dict[tuple[Any, Any], list[float]]


def cells_of(
    table: Iterable[Mapping[str, Any]], x: str, y: str | None, value: str
) -> tuple[Cells, list[Any], list[Any], int]:
    """Return the numbers by cell, the parameters' values in order, and the most numbers that a cell has.

    Args:
        table: the sweep's rows.
        x: the parameter of the columns.
        y: the parameter of the rows; None where one parameter varies.
        value: the metric whose numbers are collected.
    """
    cells: Cells = {}
    for row in table:
        place = (_hashable(row.get(x)), _hashable(row.get(y)) if y is not None else None)
        found = cells.setdefault(place, [])
        number = row.get(value)
        if isinstance(number, int | float) and isfinite(number):
            found.append(float(number))
    columns = in_order({place[0] for place in cells})
    rows = in_order({place[1] for place in cells})
    return cells, columns, rows, max((len(found) for found in cells.values()), default=0)


def _hashable(value: Any) -> Hashable:
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def in_order(values: Iterable[Any]) -> list[Any]:
    """Return the values in order: numbers by size, before words by letter, before nothing."""

    def rank(value: Any) -> tuple[int, float, str]:
        if isinstance(value, int | float) and value == value:
            return (0, float(value), "")
        return (2, 0.0, "") if value is None else (1, 0.0, str(value))

    return sorted(values, key=rank)


def value_words(value: Any) -> str:
    """Return how a parameter's value is written."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)


def name_words(name: str) -> str:
    """Return a metric's or a parameter's name in words.

    >>> name_words("functions.parts.failure_threshold"), name_words("latency_p95_s")
    ('failure threshold', 'latency p95, s')
    """
    words, unit = _words_and_unit(name)
    return f"{words}, {unit}" if unit else words


def bare_name(name: str) -> str:
    """Return a name in words, without its unit."""
    return _words_and_unit(name)[0]


def _words_and_unit(name: str) -> tuple[str, str]:
    last = name.rpartition(".")[2].replace("_", " ")
    if last.endswith(" s") and not last.endswith(" per s"):
        return last.removesuffix(" s"), "s"
    return last, ""


def words_for(numbers: Sequence[float]) -> Any:
    """Return how to write numbers that are seen together: as many places as tell them apart, and no more."""
    distinct = sorted(set(numbers))
    largest = max((abs(number) for number in numbers), default=0.0)
    places = 0
    if any(number != round(number) for number in numbers):
        places = 3 if largest < 1.0 else 2 if largest < 10.0 else 1 if largest < 1000.0 else 0
        while places > 1 and all(round(a, places - 1) != round(b, places - 1) for a, b in pairwise(distinct)):
            places -= 1

    def words(number: float) -> str:
        if abs(number) >= 1e7:
            return f"{number:.3g}"
        return f"{number:,.{places}f}"

    return words
