"""When calls arrive: evenly spaced, at random, at a rate that changes, or at given times."""

from __future__ import annotations

import math
import random
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import merge
from itertools import islice, pairwise, repeat

from labkit.scenario.spec.model import Load

__all__ = ["arrivals", "expected", "merged"]

Told = Callable[[int], object]

_BLOCK = 1 << 16  # calls between two words on how far it is


def expected(load: Load) -> float:
    """About how many calls a load asks for."""
    if load.at:
        return float(len(load.at))
    if load.rate is not None:
        return (load.end - load.begin) * load.rate
    return _Ramp(load).total


def arrivals(load: Load, seed: str, told: Told | None = None) -> array[float]:
    """The times of a load's calls, in seconds, in order.

    Args:
        load: whose.
        seed: of random arrivals; two loads need two.
        told: how many are made so far, from time to time.
    """
    if load.at:
        return array("d", load.at)
    poisson = load.arrivals == "poisson"
    if load.rate is None:
        return _told(_on_a_ramp(load, random.Random(seed).expovariate if poisson else None), told)
    if poisson:
        return _told(_at_random(load.begin, load.end, load.rate, random.Random(seed).expovariate), told)
    count = math.ceil((load.end - load.begin) * load.rate - 1e-9)
    return _told((load.begin + number / load.rate for number in range(count)), told)


def _at_random(begin: float, end: float, rate: float, draw: Callable[[float], float]) -> Iterator[float]:
    now = begin + draw(rate)
    while now < end:
        yield now
        now += draw(rate)


def _on_a_ramp(load: Load, draw: Callable[[float], float] | None) -> Iterator[float]:
    ramp = _Ramp(load)
    so_far = draw(1.0) if draw is not None else 0.0
    while so_far < ramp.total - 1e-9:
        yield ramp.when(so_far)
        so_far += draw(1.0) if draw is not None else 1.0


def _told(times: Iterable[float], told: Told | None) -> array[float]:
    """The times, taken in blocks, so that somebody can be told how far it is."""
    found = array("d")
    times = iter(times)
    while block := array("d", islice(times, _BLOCK)):
        found += block
        if told is not None:
            told(len(found))
    return found


class _Ramp:
    """A rate in straight lines from point to point, and how many calls have come by when."""

    def __init__(self, load: Load) -> None:
        self._points: list[tuple[float, float, float]] = []  # second, rate, calls so far
        inside = [point for point in load.ramp if load.begin < point[0] < load.end]
        whole = [(load.begin, _rate(load.ramp, load.begin)), *inside, (load.end, _rate(load.ramp, load.end))]
        calls = 0.0
        for index, (second, rate) in enumerate(whole):
            if index:
                before, rate_before = whole[index - 1]
                calls += (second - before) * (rate + rate_before) / 2
            self._points.append((second, rate, calls))
        self.total = calls
        self._segment = 0

    def when(self, calls: float) -> float:
        """The second by which so many calls have come; asked in increasing order."""
        points = self._points
        while self._segment + 2 < len(points) and points[self._segment + 1][2] <= calls:
            self._segment += 1
        start, rate, so_far = points[self._segment]
        end, rate_after, _ = points[self._segment + 1]
        slope = (rate_after - rate) / (end - start)
        rest = calls - so_far
        if abs(slope) * (end - start) < 1e-9 * max(rate, rate_after, 1e-9):
            return start + rest / rate if rate else end
        root = math.sqrt(max(0.0, rate * rate + 2 * slope * rest))
        return min(end, start + 2 * rest / (rate + root)) if rate + root else start


def _rate(points: Sequence[tuple[float, float]], second: float) -> float:
    """The rate at a second; level before the first point and after the last."""
    if second <= points[0][0]:
        return points[0][1]
    for (start, rate), (end, rate_after) in pairwise(points):
        if second <= end:
            return rate + (rate_after - rate) * (second - start) / (end - start)
    return points[-1][1]


def merged(times: Sequence[array[float]], told: Told | None = None) -> tuple[array[float], array[int]]:
    """All arrivals in order, and of which load each is; at one instant the earlier load comes first.

    Args:
        times: of each load, in order.
        told: how many are in order so far, from time to time.
    """
    if len(times) == 1:
        return times[0], array("H", bytes(2 * len(times[0])))
    starts, loads = array("d"), array("H")
    rows = merge(*(zip(one, repeat(number)) for number, one in enumerate(times)))
    while block := list(islice(rows, _BLOCK)):
        for second, load in block:
            starts.append(second)
            loads.append(load)
        if told is not None:
            told(len(starts))
    return starts, loads
