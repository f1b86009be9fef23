"""How a service comes back: how many workers it has when, and what its breakers make of that."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from labkit.scenario.run.trace import STATES, Trace

__all__ = ["FULL", "RECOVERED", "Turn", "full_service", "repair_of", "turns_after", "workers_over_time"]

RECOVERED = 5.0
"""Seconds of full service after which a service counts as recovered."""
FULL = 0.99
"""The share of calls with a live answer that is full service."""

_CLOSED, _OPEN = STATES.index("CLOSED"), STATES.index("OPEN")


class Turn(NamedTuple):
    """A breaker that closed after a repair, or opened again.

    Attributes:
        at: seconds.
        state: "CLOSED" or "OPEN".
        workers: how many the service had then.
        can_serve: how many calls a second those can serve.
        arriving: how many calls arrived within the second that follows.
    """

    at: float
    state: str
    workers: int
    can_serve: float
    arriving: int


def workers_over_time(trace: Trace, service: str) -> list[tuple[float, int]]:
    """From when on a service had how many workers: (0.0, the usual number) first; empty if nothing limits it."""
    usual = trace.capacity.get(service)
    if usual is None:
        return []
    found = [(0.0, usual)]
    for period in trace.faults:
        if period.service == service and period.workers is not None:
            if found[-1][0] == period.start:
                found.pop()
            found += [(period.start, period.workers), (period.end, usual)]
    return [one for one in found if one[0] < trace.until]


def repair_of(trace: Trace) -> float | None:
    """When the last fault ended, capacity aside, in seconds; None if there was none or the run ended before."""
    ends = [one.end for one in trace.faults if not one.is_capacity]
    repaired = max(ends, default=None)
    return repaired if repaired is not None and repaired < trace.duration else None


def full_service(start: Sequence[float], useful: bytes, since: float, duration: float) -> float | None:
    """When full service begins: the first call with a live answer from which on it lasts for `RECOVERED` seconds.

    Args:
        start: when each call arrived, in seconds and in order.
        useful: of each call 1 if it got a live answer, else 0.
        since: seconds before which it does not count.
        duration: seconds in which calls may arrive; the stretch has to end within them.

    Returns:
        Seconds; None if it never does.
    """
    so_far = array("I", accumulate(useful, initial=0))
    row = useful.find(1, bisect_left(start, since))
    while row >= 0:
        begin = start[row]
        if begin + RECOVERED > duration + 1e-9:
            return None
        behind = bisect_left(start, begin + RECOVERED, row)
        if so_far[behind] - so_far[row] >= FULL * (behind - row):
            return begin
        row = useful.find(1, row + 1)
    return None


def turns_after(trace: Trace, service: str, seconds: float) -> list[Turn]:
    """The closings after the repair, and the openings that followed them, in order; failed probes are left out.

    Args:
        trace: the run.
        service: whose workers count.
        seconds: that a worker takes for a call.
    """
    repaired = repair_of(trace)
    if repaired is None:
        return []
    levels = workers_over_time(trace, service)
    starts = trace.calls.start
    state: dict[tuple[int, int, int], int] = {}
    found = []
    for at, breaker, target, replica, now in trace.transitions.rows():
        before = state.get((breaker, target, replica), _CLOSED)
        state[breaker, target, replica] = now
        if at < repaired or not (now == _CLOSED or (now == _OPEN and before == _CLOSED)):
            continue
        place = bisect_right(levels, at, key=lambda one: one[0]) - 1
        arriving = bisect_left(starts, at + 1.0) - bisect_left(starts, at)
        workers = levels[place][1] if levels else 0
        found.append(Turn(at, STATES[now], workers, workers / seconds, arriving))
    return found
