"""Fault plans from a few numbers: failures in bursts with successes between them, and capacity that returns in steps.

What comes of it is plain data, as a scenario's YAML has it.
"""

from __future__ import annotations

from typing import Any

__all__ = ["capacity_back", "evenly", "failing", "returning"]

_DIGITS = 6  # of a second


def evenly(rate: float) -> dict[str, float]:
    """Return a load's `rate` and `from` for calls that keep clear of the edges of `failing`.

    Args:
        rate: calls a second.

    Example:
        >>> evenly(5)
        {'rate': 5, 'from': 0.1}
    """
    return {"rate": rate, "from": round(0.5 / rate, _DIGITS)}


def failing(
    begin: float,
    end: float,
    *,
    rate: float,
    share: float = 1.0,
    every: int | None = None,
    burst: float | None = None,
    calm: float = 0.0,
) -> list[dict[str, Any]]:
    """Return the faults of a dependency that fails in a pattern.

    It is made for calls that come evenly and keep clear of its edges, as `evenly` has them.

    Args:
        begin, end: from when to when, in seconds.
        rate: calls a second.
        share: the part of the calls that fail, drawn from the service's seed, above 0 and at most 1.
        every: of so many calls the last succeeds, whatever was drawn; None for no such call.
        burst: seconds of failures after which `calm` seconds are healthy, in turns; None for failures all the while.
        calm: seconds between two bursts.

    Example:
        >>> failing(10, 20, rate=5, every=30)
        [{'from': 10, 'to': 20, 'fault': 'flapping', 'down': 5.8, 'up': 0.2, 'inner': {'fault': 'error'}}]
    """
    fault: dict[str, Any] = {"fault": "error"}
    if share < 1.0:
        fault["rate"] = share
    if every is not None:
        down, up = round((every - 1) / rate, _DIGITS), round(1 / rate, _DIGITS)
        fault = {"fault": "flapping", "down": down, "up": up, "inner": fault}
    found = []
    at = begin
    while at < end:
        until = end if burst is None else min(end, at + burst)
        found.append({"from": at, "to": until, **fault})
        at = until + calm if burst is not None else end
    return found


def capacity_back(repair: float, seconds: float, first: int, workers: int, steps: int = 4) -> list[list[float]]:
    """Return the steps in which a service's workers come back after its repair.

    Args:
        repair: when the first of them work again, in seconds.
        seconds: how long it takes until all of them do; 0 for all at once.
        first: how many work at once after the repair.
        workers: how many there are in the end.
        steps: in how many equal steps the others come back.

    Example:
        >>> capacity_back(50, 40, 10, 30)
        [[50, 10], [60, 15], [70, 20], [80, 25], [90, 30]]
    """
    if seconds <= 0.0 or first >= workers:
        return [[repair, workers]]
    found: list[list[float]] = []
    for step in range(steps + 1):
        many = first + (workers - first) * step // steps
        if not found or many > found[-1][1]:
            found.append([round(repair + seconds * step / steps, _DIGITS), many])
    return [[int(at) if at == int(at) else at, many] for at, many in found]


def returning(
    function: str, rate: float, repair: float, seconds: float, end: float, least: float
) -> list[dict[str, Any]]:
    """Return the workload of callers who come back slowly after a repair.

    Args:
        function: whom they call.
        rate: calls a second before the repair, and in the end.
        repair: from when on they come back, in seconds.
        seconds: how long that takes; 0 for callers who are never fewer.
        end: the run's end.
        least: the part of the rate with which they begin.
    """
    if seconds <= 0.0:
        return [{"function": function, "rate": rate}]
    ramp = [[repair, rate * least], [min(end, repair + seconds), rate]]
    return [{"function": function, "rate": rate, "to": repair}, {"function": function, "ramp": ramp, "from": repair}]
