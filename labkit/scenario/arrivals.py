"""When calls arrive: evenly spaced, at random, at a rate that changes, or at given times."""

from __future__ import annotations

import math
import random
from array import array
from collections.abc import Sequence
from heapq import merge
from itertools import pairwise, repeat

from labkit.scenario.scenario import Load

__all__ = ["arrivals", "expected", "merged"]


def expected(load: Load) -> float:
    """About how many calls a load asks for."""
    if load.at:
        return float(len(load.at))
    if load.rate is not None:
        return (load.end - load.begin) * load.rate
    return _Ramp(load).total


def arrivals(load: Load, seed: str) -> array[float]:
    """The times of a load's calls, in seconds, in order.

    Args:
        load: whose.
        seed: of random arrivals; two loads need two.
    """
    if load.at:
        return array("d", load.at)
    poisson = load.arrivals == "poisson"
    if load.rate is not None and not poisson:
        count = math.ceil((load.end - load.begin) * load.rate - 1e-9)
        return array("d", [load.begin + number / load.rate for number in range(count)])
    draw = random.Random(seed).expovariate
    found = array("d")
    if load.rate is not None:
        now = load.begin + draw(load.rate)
        while now < load.end:
            found.append(now)
            now += draw(load.rate)
        return found
    ramp = _Ramp(load)
    count_so_far = draw(1.0) if poisson else 0.0
    while count_so_far < ramp.total - 1e-9:
        found.append(ramp.when(count_so_far))
        count_so_far += draw(1.0) if poisson else 1.0
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


def merged(times: Sequence[array[float]]) -> tuple[array[float], array[int]]:
    """All arrivals in order, and of which load each is; at one instant the earlier load comes first."""
    if len(times) == 1:
        return times[0], array("H", bytes(2 * len(times[0])))
    starts, loads = array("d"), array("H")
    for second, load in merge(*(zip(one, repeat(number)) for number, one in enumerate(times))):
        starts.append(second)
        loads.append(load)
    return starts, loads
