"""Ranks, peaks a second and the most at once: counted in one way for a run's numbers and for its pictures."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise
from math import ceil, floor

__all__ = ["levels", "most_in_a_second", "rank"]


def rank(share: float, count: int) -> int:
    """Return where, among so many sorted values, the least one stands that so large a share of them does not pass.

    >>> rank(0.95, 20), rank(0.5, 4), rank(0.0, 3)
    (18, 1, 0)
    """
    return max(0, ceil(share * count - 1e-9) - 1)


def most_in_a_second(times: Sequence[float]) -> tuple[int, float]:
    """Return how many of the sorted times lie in the fullest second of the clock, and when that second begins."""
    most, when, first = 0, 0.0, 0
    while first < len(times):
        second = floor(times[first] + 1e-9)
        last = bisect_left(times, second + 1 - 1e-9, first + 1)
        if last - first > most:
            most, when = last - first, float(second)
        first = last
    return most, when


def levels(
    starts: Sequence[float], ends: Sequence[float], cuts: Sequence[int], edges: Sequence[float]
) -> tuple[list[float], tuple[int, float]]:
    """Return the most that were there at once, by bin, and (the most of all, when).

    One that ends when another begins is not there with it.

    Args:
        starts: when each came, sorted.
        ends: when they went, sorted, and infinity after the last.
        cuts: where in `starts` each bin begins, and where the last one ends.
        edges: when each bin begins.
    """
    tops = []
    before = cuts[0]  # what began before the first bin is in none
    most, when, begun, gone = 0, starts[before] if before < cuts[-1] else 0.0, 0, 0
    for edge, (first, last) in zip(edges, pairwise(cuts), strict=True):
        # The level is highest at the edge of a bin, or right after an arrival.
        top = max(0, bisect_left(starts, edge, before, cuts[-1]) - before - bisect_right(ends, edge, gone))
        for at in starts[first:last]:
            begun += 1
            while ends[gone] <= at:
                gone += 1
            if begun - gone > top:
                top = begun - gone
                if top > most:
                    most, when = top, at
        tops.append(float(top))
    return tops, (most, when)
