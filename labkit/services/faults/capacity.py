"""How much a mock dependency can do at once: workers, a bounded queue before them, and steps in which both change.

An attempt that finds a worker free takes it at once, at the cost of an addition. One that finds none waits in line, and
one that finds the line full is turned away. A worker is busy until its attempt ends, in whatever way; it then goes to
the first in line. Lowering the number of workers interrupts nobody: work that runs is finished.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Protocol

from labkit.config.numbers import in_range
from labkit.errors import ServiceError
from labkit.services.checks import LONGEST, MANY, is_number, is_whole, shown
from labkit.timing.clock import Clock, Event, Task

__all__ = ["CapacityStep", "Workers", "capacity_steps"]

CapacityStep = tuple[float, int | None]
"""From so many seconds on there are so many workers; None: as many as usual."""


def capacity_steps(data: object) -> tuple[tuple[float, int], ...]:
    """Steps from plain data: a list of `[seconds, workers]`, in the order of time.

    Raises:
        ServiceError: a step is wrong; `path` names it.

    Example:
        >>> capacity_steps([[180, 20], [200, 60]])
        ((180.0, 20), (200.0, 60))
    """
    if isinstance(data, str) or not isinstance(data, Sequence):
        raise ServiceError(
            f"'capacity' is {shown(data)}; it must be a list of steps [seconds, workers] such as [[180, 20]]",
            ["capacity"],
        )
    steps: list[tuple[float, int]] = []
    for index, step in enumerate(data):
        if isinstance(step, str) or not isinstance(step, Sequence) or len(step) != 2:
            raise ServiceError(
                f"capacity[{index}] is {shown(step)}; it must be [seconds, workers], such as [180, 20]",
                ["capacity", index],
            )
        at, workers = step
        if not is_number(at, most=LONGEST):
            raise ServiceError(
                f"capacity[{index}] begins at {shown(at)}; it must be {in_range('a number of seconds', 0, LONGEST)}",
                ["capacity", index, 0],
            )
        if not is_whole(workers, 0, MANY):
            raise ServiceError(
                f"capacity[{index}] has {shown(workers)} workers; it must be {in_range('a whole number', 0, MANY)}",
                ["capacity", index, 1],
            )
        if steps and at <= steps[-1][0]:
            raise ServiceError(
                f"capacity[{index}] begins at {at:g} s and the step before it at {steps[-1][0]:g} s; "
                "steps stand in the order of time",
                ["capacity", index, 0],
            )
        steps.append((float(at), workers))
    return tuple(steps)


class InLine(Protocol):
    """What may wait for a worker; it is told when it was served."""

    served: float | None


class Workers:
    """The workers of a service and the line before them. Times are seconds since `start` of the clock's time.

    A caller takes a worker by itself, since this is done for every call:

        if at >= workers.change_at:
            workers.change(at)
        if workers.busy < workers.limit:
            workers.busy += 1
            attempt.served = at
        elif len(workers.line) < workers.places:
            await workers.wait(attempt)

    and whoever was served gives the worker back at its end:

        workers.busy -= 1
        if workers.line or at >= workers.change_at:
            workers.hand_on(at)

    Args:
        clock: for those who wait.
        workers: how many there usually are; None for no limit.
        queue: how many may wait at once.
        steps: when their number changes, in the order of time.
        start: the clock's time at second 0.

    Attributes:
        busy: how many work.
        limit: how many may, at the time of the last `change`.
        places: how many may wait.
        line: who waits, the first first.
        change_at: when `limit` changes next.
    """

    __slots__ = ("_clock", "_keeper", "_start", "_steps", "_usual", "busy", "change_at", "limit", "line", "places")

    def __init__(
        self,
        clock: Clock,
        workers: int | None = None,
        queue: int = 0,
        steps: Iterable[CapacityStep] = (),
        start: float = 0.0,
    ) -> None:
        self._clock = clock
        self._start = start
        self._usual: float = math.inf if workers is None else workers
        self._steps = list(steps)[::-1]  # the next one last
        self._keeper: Task[None] | None = None
        self.busy = 0
        self.limit = self._usual
        self.places = queue
        self.line: OrderedDict[InLine, Event] = OrderedDict()
        self.change_at = self._steps[-1][0] if self._steps else math.inf

    def change(self, at: float) -> None:
        """Take the steps that are due by then, and let in whom the new number admits."""
        steps = self._steps
        while steps and steps[-1][0] <= at:
            workers = steps.pop()[1]
            self.limit = self._usual if workers is None else workers
        self.change_at = steps[-1][0] if steps else math.inf
        if self.line:
            self.hand_on(at)

    async def wait(self, who: InLine) -> None:
        """Stand in line; returns with a worker, and `who.served` says since when."""
        event = self._clock.event()
        self.line[who] = event
        # While somebody waits, somebody has to look at the clock: nothing else may happen before capacity returns.
        if self.change_at != math.inf and (self._keeper is None or self._keeper.done()):
            self._keeper = self._clock.start(self._keep(), name="capacity")
        try:
            await event.wait()
        finally:
            self.line.pop(who, None)

    def hand_on(self, at: float) -> None:
        """Give the workers that are free to the first in line."""
        if at >= self.change_at:
            self.change(at)
        line = self.line
        while line and self.busy < self.limit:
            who, event = line.popitem(last=False)
            self.busy += 1
            who.served = at
            event.set()

    async def _keep(self) -> None:
        while self.line and self.change_at != math.inf:
            due = self.change_at
            await self._clock.sleep(due - (self._clock.now() - self._start))
            self.change(max(due, self._clock.now() - self._start))  # the sum of two times may fall short of it
