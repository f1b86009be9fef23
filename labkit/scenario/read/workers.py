"""What a service with workers did with their time: useful first attempts, useful retries, and work for nobody.

Read off a trace. An attempt was useful if the caller got its answer; the time of every other one was spent for nobody,
who had stopped waiting or was told an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, inf
from statistics import median

from labkit.errors import LabkitError
from labkit.scenario.read.recovery import FULL, RECOVERED, full_service
from labkit.scenario.run.trace import ATTEMPT_OUTCOMES, REJECTION_REASONS, Trace

__all__ = ["KINDS", "Work", "work"]

KINDS = ("first", "retried", "wasted")
"""Whose time it was: of useful first attempts, of useful retries, of attempts whose answer nobody got."""

_ANSWERED = ATTEMPT_OUTCOMES.index("answered")


@dataclass(frozen=True, slots=True)
class Work:
    """The workers' time of one service.

    Attributes:
        service: its name.
        workers: how many it usually has.
        servable: calls a second that so many workers can answer; None where none was answered.
        offered: calls a second that arrived, over the run.
        by_second: for each of `KINDS` the workers that were at work for it, on average, second by second.
        attempts: how many attempts each of `KINDS` had. One that no worker took up is wasted as well.
        dip: from when to when it had fewer workers; None if it always had all.
        retries: how many attempts were not the first of their call.
        refused: how many retries a budget refused.
        back: seconds from the end of the dip to full service (five seconds with 99 % live answers); None for never.
        stays: whether service was full in the last five seconds in which calls arrived.
        lately: of the calls that ended in those, how many had a live answer, and how many there were.
    """

    service: str
    workers: int
    servable: float | None
    offered: float
    by_second: dict[str, tuple[float, ...]]
    attempts: dict[str, int]
    dip: tuple[float, float] | None
    retries: int
    refused: int
    back: float | None
    stays: bool
    lately: tuple[int, int]

    def share(self, kind: str) -> float:
        """What part of all that the workers did was of this kind, from 0 to 1."""
        whole = sum(sum(seconds) for seconds in self.by_second.values())
        return sum(self.by_second[kind]) / whole if whole else 0.0

    def told(self) -> list[str]:
        """It in sentences: whether service comes back by itself, what the workers did, what came of the load."""
        return [self._recovery(), self._split(), self._load()]

    def _recovery(self) -> str:
        live, many = self.lately
        if self.dip is None:
            return f"The service had all of its workers; of {many} calls that ended last {live} had a live answer."
        if self.servable is not None and self.offered > self.servable:
            return (
                f"It cannot keep up, dip or not: {self.offered:.3g} calls a second arrive, and {self.servable:.3g} a "
                f"second can be answered; of {many} calls that ended in the last five seconds {live} had a live answer."
            )
        after = f"the dip that ended at {self.dip[1]:g} s"
        if self.stays:
            when = f"{self.back:.1f} s after" if self.back and self.back >= 0.05 else "at once after"
            return f"It recovers by itself: full service is back {when} {after}."
        return (
            f"It does not recover by itself from {after}: of {many} calls that ended in the last five seconds {live} "
            "had a live answer."
        )

    def _split(self) -> str:
        first, retried, wasted = (f"{self.share(kind):.0%}".replace("%", " %") for kind in KINDS)
        return (
            f"Of the workers' time {first} went into useful first attempts, {retried} into useful retries and {wasted} "
            "into answers that came too late."
        )

    def _load(self) -> str:
        seconds = len(self.by_second[KINDS[0]])
        attempts = sum(self.attempts.values())
        servable = "" if self.servable is None else f", where {self.servable:.3g} can be answered"
        budget = f" A budget refused {self.refused:,} more." if self.refused else ""
        rate = attempts / max(seconds, 1)
        return (
            f"{self.offered:.3g} calls a second became {rate:.3g} attempts a second{servable}; {self.retries:,} of "
            f"{attempts:,} attempts were retries.{budget}"
        )


def work(trace: Trace) -> Work:
    """Read off what the workers of a run's first service with workers did.

    Raises:
        LabkitError: no service of the run has a limited number of workers.
    """
    service = next((name for name in trace.services if name in trace.capacity), None)
    if service is None:
        raise LabkitError("no service of this run has a limited number of workers; give one 'workers'")
    bins = max(1, ceil(trace.duration - 1e-9))
    spent = {kind: [0.0] * bins for kind in KINDS}
    attempts = dict.fromkeys(KINDS, 0)
    took = []
    retries = 0
    for served, end, again, useful in _attempts(trace, trace.services.index(service)):
        kind = ("retried" if again else "first") if useful else "wasted"
        attempts[kind] += 1
        retries += again
        if served == served:
            until = end if end == end else trace.until
            if useful:
                took.append(until - served)
            for second in range(int(served), min(bins, ceil(until))):
                spent[kind][second] += min(until, second + 1.0) - max(served, second)
    dips = [one for one in trace.faults if one.service == service and one.is_capacity]
    dip = (min(one.start for one in dips), max(one.end for one in dips)) if dips else None
    back, lately = _full_service(trace, dip[1] if dip is not None else inf)
    return Work(
        service=service,
        workers=trace.capacity[service],
        servable=trace.capacity[service] / median(took) if took and median(took) > 0.0 else None,
        offered=len(trace.calls) / trace.duration,
        by_second={kind: tuple(seconds) for kind, seconds in spent.items()},
        attempts=attempts,
        dip=dip,
        retries=retries,
        refused=trace.rejections.reason.tolist().count(REJECTION_REASONS.index("budget")),
        back=back,
        stays=bool(lately[1]) and lately[0] >= FULL * lately[1],
        lately=lately,
    )


def _attempts(trace: Trace, service: int) -> Iterator[tuple[float, float, bool, bool]]:
    """Of each attempt: when a worker took it up, end, whether it was a retry, whether its answer was of use."""
    rows = trace.attempts
    begun: set[int] = set()
    answer = {call: row for row, call in enumerate(rows.call) if rows.outcome[row] == _ANSWERED}  # the last of each
    useful = trace.calls.useful
    for row, (call, whose) in enumerate(zip(rows.call, rows.service, strict=True)):
        if whose == service:
            good = call >= 0 and bool(useful[call]) and answer.get(call) == row
            yield rows.served[row], rows.end[row], call in begun, good
            begun.add(call)


def _full_service(trace: Trace, since: float) -> tuple[float | None, tuple[int, int]]:
    """How long after a moment service is full again, and how many of the calls that ended last had a live answer."""
    start, useful = trace.calls.start, trace.calls.useful
    # By their end: once no calls arrive any more, whoever still waits is served by workers that had no time before.
    until = trace.duration
    last = [good for at, good in zip(trace.calls.end, useful, strict=True) if until - RECOVERED <= at <= until]
    begin = full_service(start, bytes(useful), since, trace.duration)
    return None if begin is None else begin - since, (sum(last), len(last))
