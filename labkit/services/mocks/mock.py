"""What every mock dependency has in common: a fault plan, a latency, and a record of what it saw.

A `MockService` awaits nothing but its clock, so the same code runs in virtual time under a slider, in a test, and
behind real HTTP. What it answers is the business of a subclass: `_answer` gives one reply, `_chunks` a stream's.

An attempt goes: counted and logged, its fault chosen (by the manual switch, else by the plan), a worker taken or waited
for, the time that it takes waited for, then the answer or the failure. A dependency that is down cannot know anything:
faults come before answers. Two faults are met at the door and need no worker: a dropped connection and a rate limit.
"""

from __future__ import annotations

import logging
import math
import random
from collections import Counter, deque
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any, Generic, TypeVar

from labkit.config.numbers import in_range
from labkit.errors import DependencyError, OverloadedError, RateLimitedError, ServiceError
from labkit.services.checks import MANY, is_whole, shown
from labkit.services.faults.capacity import Workers, capacity_steps
from labkit.services.faults.latency import Latency, as_latency
from labkit.services.faults.plan import HEALTHY, Fault, FaultKind, FaultPlan, Period, as_fault, as_plan, momentary
from labkit.timing.clock import Clock

__all__ = ["ERROR_TEXT", "Attempt", "MockService"]

R = TypeVar("R")
_logger = logging.getLogger(__name__)

ERROR_TEXT = "Service error"
"""How an error-shaped string begins."""


class Attempt:
    """One request as the dependency saw it. Times are seconds since the service's start.

    Attributes:
        number: 1 for the first attempt since the start.
        kind: "call" or "stream".
        subject: what was asked for.
        fault: the name of the fault that the attempt met ("healthy" for none).
        started: when it arrived.
        served: when a worker took it up, the same as `started` unless it waited; None if none did.
        ended: when it ended; None while it is in flight.
        outcome: None while it is in flight; then "answered", "rejected" (a business rejection), "error",
            "connection_error", "error_shaped_string", "mid_stream_death", "rate_limited", "overloaded" (all workers
            were busy and the queue was full), "cancelled" or "abandoned" (the reader of a stream stopped early).
        chunks: how many chunks of a stream were handed out.
    """

    __slots__ = ("chunks", "ended", "fault", "kind", "number", "outcome", "served", "started", "subject")

    def __init__(self, number: int, kind: str, subject: object, fault: str, started: float) -> None:
        self.number = number
        self.kind = kind
        self.subject = subject
        self.fault = fault
        self.started = started
        self.served: float | None = None
        self.ended: float | None = None
        self.outcome: str | None = None
        self.chunks = 0

    def to_dict(self) -> dict[str, object]:
        """The attempt as plain data."""
        return {name: getattr(self, name) for name in sorted(self.__slots__)}

    def __repr__(self) -> str:
        end = "in flight" if self.ended is None else f"{self.outcome} at {self.ended:g} s"
        return f"<attempt {self.number}: {self.kind} {self.subject!r} at {self.started:g} s, {end}>"


class MockService(Generic[R]):
    """A dependency that fails on request. Abstract: a subclass says what it answers.

    Args:
        clock: the only thing that it ever waits for.
        plan: when it fails how: a `FaultPlan`, or one fault (or its name) for all times.
        latency: seconds until an answer, and between the chunks of a stream: a number or a `Latency`.
        workers: how many requests it works on at once; None for no limit. A hang occupies a worker until its caller
            goes away.
        queue: how many requests may wait for a worker, first come first served; one more is refused at once.
        capacity: steps `(seconds, workers)`, from when on there are how many workers; in place of the plan's own.
        seed: of everything random (latencies and `rate`s).
        log_size: how many of the last attempts `log` keeps; 0 for none.
        name: what it is called, in place of its class's name.

    Raises:
        ServiceError: a value is out of range or a name is unknown.

    Attributes:
        attempts: how many requests have arrived.
        in_flight: how many of them have not ended.
        in_flight_peak: the most there have been at once.
        outcomes: how many attempts ended in each outcome (see `Attempt`).
        log: the last attempts, oldest first.
        draw: gives the seconds of the next latency.
        record: None, or what is called with each attempt once it has ended, before its caller goes on and in the task
            that made it. What it raises is not caught: it is for a run's own book-keeping, listeners are for others.
    """

    name: str = "mock"

    def __init__(
        self,
        clock: Clock,
        *,
        plan: FaultPlan | Fault | FaultKind | str | None = None,
        latency: Latency | float = 0.05,
        workers: int | None = None,
        queue: int = 0,
        capacity: Sequence[Sequence[float]] | None = None,
        seed: int = 0,
        log_size: int = 1000,
        name: str | None = None,
    ) -> None:
        if not isinstance(clock, Clock):
            raise ServiceError(
                f"a service needs a clock, such as VirtualClock() or LoopClock(), and not {shown(clock)}"
            )
        if not is_whole(seed, most=2**63 - 1):
            raise ServiceError(
                f"the seed is {shown(seed)}; it must be {in_range('a whole number', 0, 2**63 - 1)}", ["seed"]
            )
        if not is_whole(log_size, most=10_000_000):
            raise ServiceError(f"log_size is {shown(log_size)}; it must be a whole number from 0 to 10,000,000")
        if workers is not None and not is_whole(workers, 1, MANY):
            raise ServiceError(
                f"'workers' is {shown(workers)}; it must be {in_range('a whole number', 1, MANY)}, or null for no "
                "limit",
                ["workers"],
            )
        if not is_whole(queue, 0, MANY):
            raise ServiceError(
                f"'queue' is {shown(queue)}; it must be {in_range('a whole number', 0, MANY)}", ["queue"]
            )
        if queue and workers is None:
            raise ServiceError("'queue' means nothing without 'workers': nobody ever waits", ["queue"])
        if name is not None:
            self.name = name
        self._clock = clock
        self._now = clock.now
        self._sleep = clock.sleep
        self._plan = as_plan(plan)
        self._latency = as_latency(latency)
        # Two streams of randomness, so that a changed fault plan leaves the latencies as they were.
        self.draw = self._latency.sampler(random.Random(f"{seed}/latency"))
        self._chance = random.Random(f"{seed}/faults").random
        self._manual: Fault | None = None
        self._manual_since = 0.0
        self._steady = self._holds_always()
        self._started_at = clock.now()
        steps = self._plan.capacity if capacity is None else capacity_steps(capacity)
        if steps and workers is None:
            raise ServiceError("'capacity' means nothing without 'workers', the usual number", ["workers"])
        for at, many in steps:
            if many is not None and workers is not None and many > workers:
                raise ServiceError(
                    f"the capacity from {at:g} s on is {many}, which is more than the service's {workers} workers",
                    ["workers"],
                )
        self._usual_workers = workers
        self._workers = Workers(clock, workers, queue, steps, self._started_at)
        self._passes_at: float | None = None  # of a rate limit
        self._listeners: list[Callable[[Attempt], object]] = []
        self.record: Callable[[Attempt], object] | None = None
        self.log: deque[Attempt] = deque(maxlen=log_size)
        self._logs = log_size > 0
        self.attempts = 0
        self.in_flight = 0
        self.in_flight_peak = 0
        self.outcomes: Counter[str] = Counter()

    # -- the switch --------------------------------------------------------------------------------------------------

    @property
    def plan(self) -> FaultPlan:
        """When the service fails how, unless it is switched by hand."""
        return self._plan

    @property
    def latency(self) -> Latency:
        """How long it takes to answer."""
        return self._latency

    @property
    def elapsed(self) -> float:
        """Seconds since the service's start."""
        return self._now() - self._started_at

    @property
    def fault(self) -> Fault:
        """What a request that arrived now would meet; a flapping fault that is set by hand or for all times as such."""
        return self._manual or (self._plan.at(self.elapsed) if self._plan.windows else self._plan.otherwise)

    @property
    def workers(self) -> int | None:
        """How many workers there usually are; None for no limit."""
        return self._usual_workers

    @property
    def capacity(self) -> int | None:
        """How many workers there are now; None for no limit."""
        workers = self._workers
        if self.elapsed >= workers.change_at:
            workers.change(self.elapsed)
        return None if workers.limit == math.inf else int(workers.limit)

    @property
    def busy(self) -> int:
        """How many workers work; after a step down they may be more than `capacity`."""
        return self._workers.busy

    @property
    def queued(self) -> int:
        """How many requests wait for a worker."""
        return len(self._workers.line)

    def knows(self, subject: Any) -> bool:
        """Whether the business has an answer to this, and does not say no."""
        return self._answer(subject, 0.0) is not None

    def occupy(self) -> None:
        """Take a worker for a request that is accounted for elsewhere; `vacate` gives it back."""
        self._workers.busy += 1

    def vacate(self) -> None:
        """Give that worker back."""
        self._workers.busy -= 1
        self._workers.hand_on(self.elapsed)

    def steady_until(self) -> float | None:
        """Until when every request meets a healthy service that has as many workers as now; None if it does not now.

        In seconds of the clock; infinite if nothing is planned.
        """
        elapsed = self.elapsed
        workers = self._workers
        if elapsed >= workers.change_at:
            workers.change(elapsed)
        if self._manual is not None or not self._plan.healthy_at(elapsed):
            return None
        return min(self._plan.next_edge(elapsed), workers.change_at) + self._started_at

    def steady_since(self) -> float:
        """Since when the plan has held what it holds now, the number of workers included; in seconds of the clock."""
        return self._plan.last_edge(self.elapsed) + self._started_at

    def periods(self, until: float) -> list[Period]:
        """What the plan holds to mark in a picture that ends at `until` seconds; see `FaultPlan.periods`."""
        return self._plan.periods(until, self._usual_workers)

    @property
    def switched(self) -> bool:
        """Whether the fault is set by hand, which overrides the plan."""
        return self._manual is not None

    def set_fault(self, fault: Fault | FaultKind | str, **settings: Any) -> Fault:
        """Switch by hand, from the next request on; what is in flight goes on as it began. Overrides the plan.

        Args:
            fault: a `Fault`, or a name with the settings of `Fault` (`set_fault("slow", seconds=5)`).

        Raises:
            ServiceError: there is no such fault or setting; names the nearest.
        """
        if settings:
            if isinstance(fault, Fault):
                raise ServiceError("give set_fault either a Fault or a name with settings, not both")
            fault = Fault.from_dict({"fault": fault, **settings})
        self._manual = as_fault(fault)
        self._manual_since = self.elapsed
        self._passes_at = None
        self._steady = None if self._manual.inner is not None else self._manual
        return self._manual

    def clear(self) -> None:
        """Take the manual switch back: the plan holds again."""
        self._manual = None
        self._passes_at = None
        self._steady = self._holds_always()

    def _holds_always(self) -> Fault | None:
        """The fault that every call meets, or None where that depends on the time."""
        return None if self._plan.windows or self._plan.otherwise.inner is not None else self._plan.otherwise

    def _met(self, elapsed: float) -> Fault:
        """The fault of a request that arrives, or is taken up, at that time."""
        fault = self._steady
        if fault is None:
            manual = self._manual
            fault = self._plan.at(elapsed) if manual is None else momentary(manual, elapsed - self._manual_since)
        return HEALTHY if fault.rate != 1.0 and self._chance() >= fault.rate else fault

    # -- what the dependency saw -------------------------------------------------------------------------------------

    def on_attempt(self, listener: Callable[[Attempt], object]) -> Callable[[], None]:
        """Be told of every attempt, twice: when it arrives (`ended` is None) and when it has ended.

        A listener that fails is reported in the log and disturbs nobody.

        Returns:
            A function that stops it.
        """
        self._listeners.append(listener)

        def unsubscribe() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return unsubscribe

    def _tell(self, attempt: Attempt) -> None:
        for listener in tuple(self._listeners):
            try:
                listener(attempt)
            except Exception:
                _logger.exception("a listener of the service '%s' failed", self.name)

    def _begin(self, kind: str, subject: object) -> tuple[Attempt, Fault]:
        elapsed = self._now() - self._started_at
        fault = self._steady
        if fault is None or fault.rate != 1.0:
            fault = self._met(elapsed)
        self.attempts = number = self.attempts + 1
        self.in_flight = flying = self.in_flight + 1
        if flying > self.in_flight_peak:  # not max(), which takes longer than the rest of this
            self.in_flight_peak = flying
        attempt = Attempt(number, kind, subject, fault.kind._value_, elapsed)
        if self._logs:
            self.log.append(attempt)
        if self._listeners:
            self._tell(attempt)
        return attempt, fault

    def _end(self, attempt: Attempt, outcome: str, at: float | None = None) -> None:
        if at is None:
            at = self._now() - self._started_at
        attempt.ended = at
        attempt.outcome = outcome
        self.in_flight -= 1
        self.outcomes[outcome] += 1
        if attempt.served is not None:
            workers = self._workers
            workers.busy -= 1
            if workers.line or at >= workers.change_at:
                workers.hand_on(at)
        if self._listeners:
            self._tell(attempt)
        if self.record is not None:
            self.record(attempt)

    async def _take_up(self, attempt: Attempt, fault: Fault) -> Fault:
        """Get a worker for the attempt, unless its fault is met at the door; gives the fault that it meets."""
        if fault.kind is FaultKind.CONNECTION_ERROR:
            return fault
        if fault.kind is FaultKind.RATE_LIMIT:
            await self._limit_rate(fault)
            fault = HEALTHY
        workers = self._workers
        at = self._now() - self._started_at
        if at >= workers.change_at:
            workers.change(at)
        if workers.busy < workers.limit:
            workers.busy += 1
            attempt.served = at
            return fault
        if len(workers.line) >= workers.places:
            raise OverloadedError(f"{self.name} is overloaded: all of its workers are busy and its queue is full")
        await workers.wait(attempt)
        # That of the moment at which a worker took it up. A rate limit stands at the door, and it has passed that.
        fault = self._met(self._now() - self._started_at)
        attempt.fault = fault.kind._value_
        return fault

    # -- what it answers ---------------------------------------------------------------------------------------------

    def _check(self, subject: object, /) -> None:
        """Refuse what cannot be asked at all, before anything is counted."""

    def _answer(self, subject: Any, at: float) -> R | None:
        """The reply at that time (seconds since the start), or None: the business says no."""
        raise NotImplementedError

    def _chunks(self, subject: Any, at: float) -> Sequence[R] | None:
        """A stream's chunks, or None: the business says no."""
        raise NotImplementedError

    def _rejection(self, subject: Any, at: float) -> R:
        """How the business says no."""
        raise NotImplementedError

    async def _call(self, subject: object) -> R | str:
        # Scenarios spend much of their time here: `_begin` and `_end` are written out, since calling them costs more
        # than what they do.
        self._check(subject)
        now, zero, workers = self._now, self._started_at, self._workers
        started = now() - zero
        fault = self._steady
        if fault is None or fault.rate != 1.0:
            fault = self._met(started)
        self.attempts = number = self.attempts + 1
        self.in_flight = flying = self.in_flight + 1
        if flying > self.in_flight_peak:  # not max(), which takes longer than the rest of this
            self.in_flight_peak = flying
        attempt = Attempt(number, "call", subject, fault.kind._value_, started)
        if self._logs:
            self.log.append(attempt)
        if self._listeners:
            self._tell(attempt)
        outcome = "cancelled"  # whatever else ends it was not the service's doing
        at = None
        try:
            if fault is HEALTHY and workers.busy < workers.limit and started < workers.change_at:
                workers.busy += 1
                attempt.served = started
            else:
                fault = await self._take_up(attempt, fault)
            if fault is HEALTHY:
                await self._sleep(self.draw())
                at = now() - zero
                reply = self._answer(subject, at)
            else:
                await self._suffer(fault)
                if fault.kind is FaultKind.ERROR_SHAPED_STRING:
                    outcome = "error_shaped_string"
                    return f"{ERROR_TEXT}: {self.name} is not available"
                rejected = fault.kind is FaultKind.BUSINESS_REJECTION
                reply = None if rejected else self._answer(subject, self.elapsed)
            if reply is None:
                outcome = "rejected"
                return self._rejection(subject, self.elapsed)
            outcome = "answered"
            return reply
        except Exception as error:
            outcome = outcome_of(error)
            raise
        finally:
            attempt.ended = at = now() - zero if at is None else at
            attempt.outcome = outcome
            self.in_flight -= 1
            self.outcomes[outcome] += 1
            if attempt.served is not None:
                workers.busy -= 1
                if workers.line or at >= workers.change_at:
                    workers.hand_on(at)
            if self._listeners:
                self._tell(attempt)
            if self.record is not None:
                self.record(attempt)

    async def _stream(self, subject: object) -> AsyncGenerator[R | str, None]:
        self._check(subject)
        attempt, fault = self._begin("stream", subject)
        outcome = "cancelled"
        try:
            fault = await self._take_up(attempt, fault)
            await self._suffer(fault)
            if fault.kind is FaultKind.ERROR_SHAPED_STRING:
                attempt.chunks = 1
                yield f"{ERROR_TEXT}: {self.name} is not available"
                outcome = "error_shaped_string"
                return
            rejected = fault.kind is FaultKind.BUSINESS_REJECTION
            chunks = None if rejected else self._chunks(subject, self.elapsed)
            for index, chunk in enumerate([self._rejection(subject, self.elapsed)] if chunks is None else chunks):
                if index:
                    await self._sleep(self._time_of(fault))
                if index == fault.chunks:
                    break
                attempt.chunks += 1
                yield chunk
            if fault.kind is FaultKind.MID_STREAM_DEATH:
                many = "1 chunk" if attempt.chunks == 1 else f"{attempt.chunks} chunks"
                outcome = "mid_stream_death"
                raise DependencyError(f"the stream of {self.name} broke off after {many}")
            outcome = "rejected" if chunks is None else "answered"
        except GeneratorExit:
            outcome = "abandoned"
            raise
        except Exception as error:
            if outcome == "cancelled":
                outcome = outcome_of(error)
            raise
        finally:
            self._end(attempt, outcome)

    def _time_of(self, fault: Fault) -> float:
        if fault.seconds is not None:
            return fault.seconds
        seconds = self.draw()
        return seconds if fault.factor is None else seconds * fault.factor

    async def _suffer(self, fault: Fault) -> None:
        """Wait as long as the fault takes, then fail if it is one that fails at once."""
        kind = fault.kind
        if kind is FaultKind.HANG:
            while True:  # nobody holds the event, so nobody can end this but by cancelling
                await self._clock.event().wait()
        if kind is FaultKind.CONNECTION_ERROR:
            await self._sleep(fault.seconds or 0.0)  # a refused connection does not take the time of an answer
            raise ConnectionError(f"the connection to {self.name} was dropped")
        await self._sleep(self._time_of(fault))
        if kind is FaultKind.ERROR:
            raise DependencyError(f"{self.name} failed with a server error")

    async def _limit_rate(self, fault: Fault) -> None:
        """Let a call pass, or turn it away: one passes every 1 / `per_second` s, and one second's worth at once."""
        at = self.elapsed
        retry_after: float | None = None
        if fault.per_second:
            due = at if self._passes_at is None else max(at, self._passes_at)
            retry_after = due - at - max(0.0, 1.0 - 1.0 / fault.per_second)
            if retry_after <= 1e-9:
                self._passes_at = due + 1.0 / fault.per_second
                return
        if fault.delay:
            await self._sleep(fault.delay)
        raise RateLimitedError(f"{self.name} has had enough calls for now", retry_after)


def outcome_of(error: Exception) -> str:
    """The outcome of an attempt that ended in this error."""
    if isinstance(error, OverloadedError):
        return "overloaded"
    if isinstance(error, RateLimitedError):
        return "rate_limited"
    return "connection_error" if isinstance(error, ConnectionError) else "error"
