"""Five minutes of traffic with an outage, in virtual time: labkit's clocks and loops beside simpy and looptime.

80 calls a second for 300 s through retry, breaker and timeout; the service answers after 50 ms, and hangs for every
call that arrives from 60 to 180 s. All variants but simpy's run the same coroutines. simpy's is a process a request,
written as one would for simpy: an attempt is `answer | limit`, the breaker is a small class with the same rules.
"""

from __future__ import annotations

import asyncio
import random
import selectors
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.measure import Bound, Effort, Section, interleave
from benchmarks.peers import missing
from labkit.config import CircuitBreakerMiddlewareConfig, RetryMiddlewareConfig, TimeoutMiddlewareConfig
from labkit.errors import CircuitBreakerOpenError
from labkit.middleware import (
    BreakerEvent,
    CircuitBreakerMiddleware,
    FunctionMiddlewareChain,
    FunctionMiddlewareContext,
    RetryMiddleware,
    TimeoutMiddleware,
)
from labkit.timing import Clock, LoopClock, VirtualClock, run_virtual

NAME = "virtual-time"
KERNEL = "VirtualClock"
SIMPY = "simpy, a process a request"
SIMPY_LEAN = "simpy, told beforehand which attempts hang"
VIRTUAL_LOOP = "LoopClock on VirtualLoop"
SELECTOR_LOOP = "LoopClock on a selector loop whose time jumps"
LOOPTIME = "LoopClock on looptime"


@dataclass(frozen=True)
class Traffic:
    """What is simulated. Times in seconds, `rate` in calls a second."""

    rate: float = 80.0
    seconds: float = 300.0
    outage: tuple[float, float] = (60.0, 180.0)
    latency: float = 0.05
    limit: float = 2.0
    threshold: int = 5
    cooldown: float = 30.0
    probes: int = 3
    attempts: int = 3
    base_delay: float = 0.1
    factor: float = 2.0
    max_delay: float = 10.0
    drain: float = 60.0

    @property
    def calls(self) -> int:
        return round(self.rate * self.seconds)


FIVE_MINUTES = Traffic()


@dataclass
class Counts:
    """What came of it. `opens` is None where nobody listened."""

    attempts: int = 0
    answered: int = 0
    rejected: int = 0
    failed: int = 0
    opens: int | None = None


# -- labkit, on any clock


def traffic_on(clock: Clock, traffic: Traffic, *, listen: bool = False) -> Callable[[], Any]:
    """The main coroutine function: the same for every clock."""
    counts = Counts()
    begin, end = traffic.outage
    latency, attempts = traffic.latency, traffic.attempts
    never = None
    start = 0.0

    async def service(number: int) -> int:
        counts.attempts += 1
        if begin <= clock.now() - start < end:
            await never.wait()
        else:
            await clock.sleep(latency)
        return number

    breaker = CircuitBreakerMiddleware(
        CircuitBreakerMiddlewareConfig(
            failure_threshold=traffic.threshold,
            cooldown_period=traffic.cooldown,
            half_open_success_threshold=traffic.probes,
        ),
        clock=clock,
    )
    retry = RetryMiddleware(
        RetryMiddlewareConfig(
            attempts=attempts,
            base_delay=traffic.base_delay,
            factor=traffic.factor,
            max_delay=traffic.max_delay,
            seed=0,
        ),
        clock=clock,
    )
    limit = TimeoutMiddleware(TimeoutMiddlewareConfig(timeout=traffic.limit), clock=clock)
    call = FunctionMiddlewareChain(
        middleware=[retry, breaker, limit], context=FunctionMiddlewareContext(name="parts")
    ).build_single(service)

    def opened(event: BreakerEvent) -> None:
        counts.opens += event.kind == "opened"

    async def request(number: int) -> None:
        try:
            await call(number)
        except CircuitBreakerOpenError:
            counts.rejected += 1
        except TimeoutError:
            counts.failed += 1
        else:
            counts.answered += 1

    async def main() -> Counts:
        nonlocal never, start
        never = clock.event()
        start = clock.now()
        if listen:
            counts.opens = 0
            breaker.listen(opened)
        for number in range(traffic.calls):
            clock.start(request(number))
            await clock.sleep(1 / traffic.rate)
        await clock.sleep(traffic.drain)
        return counts

    return main


def on_virtual_clock(traffic: Traffic, *, listen: bool = False) -> Counts:
    clock = VirtualClock()
    return clock.run(traffic_on(clock, traffic, listen=listen)())


def on_virtual_loop(traffic: Traffic) -> Counts:
    return run_virtual(traffic_on(LoopClock(), traffic)())


class JumpingLoop(asyncio.SelectorEventLoop):
    """An ordinary selector loop that, instead of waiting, moves its time on: what one would write in a test suite."""

    def __init__(self) -> None:
        self._virtual_now = 0.0
        super().__init__(_JumpingSelector(self))

    def time(self) -> float:
        return self._virtual_now


class _JumpingSelector(selectors.DefaultSelector):
    def __init__(self, loop: JumpingLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[Any]:
        events = super().select(0)
        if not events and timeout is not None and timeout > 0:
            self._loop._virtual_now += timeout
        return events


def on_selector_loop(traffic: Traffic) -> Counts:
    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        return runner.run(traffic_on(LoopClock(follow_loop=True), traffic)())


def on_looptime(traffic: Traffic) -> Counts:
    import looptime

    with asyncio.Runner(loop_factory=lambda: looptime.new_event_loop(start=0)) as runner:
        return runner.run(traffic_on(LoopClock(follow_loop=True), traffic)())


# -- simpy


class PlainBreaker:
    """The same rules, as one would write them for a simulation."""

    def __init__(self, traffic: Traffic, counts: Counts) -> None:
        self.traffic = traffic
        self.counts = counts
        self.state = "closed"
        self.failures = 0
        self.successes = 0
        self.probing = False
        self.opened_at = 0.0

    def admit(self, now: float) -> str | None:
        if self.state == "closed":
            return "ordinary"
        if self.state == "open":
            if now - self.opened_at < self.traffic.cooldown:
                return None
            self.state = "half open"
            self.successes = 0
        elif self.probing:
            return None
        self.probing = True
        return "probe"

    def succeeded(self, permit: str) -> None:
        if permit == "probe":
            self.probing = False
            self.successes += 1
            if self.successes >= self.traffic.probes:
                self.state = "closed"
                self.failures = 0
        elif self.state == "closed":
            self.failures = 0

    def failed(self, permit: str, now: float) -> None:
        if permit == "probe":
            self.probing = False
            self.open(now)
        elif self.state == "closed":
            self.failures += 1
            if self.failures >= self.traffic.threshold:
                self.open(now)

    def open(self, now: float) -> None:
        self.state = "open"
        self.opened_at = now
        self.counts.opens += 1


def on_simpy(traffic: Traffic, *, lean: bool = False) -> Counts:
    """`lean` leaves out the race between answer and limit, which a model can when it knows what hangs."""
    import simpy

    env = simpy.Environment()
    counts = Counts(opens=0)
    breaker = PlainBreaker(traffic, counts)
    draw = random.Random(0).random
    begin, end = traffic.outage

    def service() -> Any:
        counts.attempts += 1
        if begin <= env.now < end:
            return env.event()
        return env.timeout(traffic.latency)

    def request() -> Any:
        attempt = 1
        while True:
            permit = breaker.admit(env.now)
            if permit is None:
                counts.rejected += 1
                return
            if lean:
                hangs = begin <= env.now < end
                answer = service()
                yield env.timeout(traffic.limit) if hangs else answer
            else:
                answer = service()
                yield answer | env.timeout(traffic.limit)
            if answer.processed:
                breaker.succeeded(permit)
                counts.answered += 1
                return
            breaker.failed(permit, env.now)
            if attempt >= traffic.attempts:
                counts.failed += 1
                return
            ceiling = min(traffic.max_delay, traffic.base_delay * traffic.factor ** (attempt - 1))
            yield env.timeout(ceiling * draw())
            attempt += 1

    def source() -> Any:
        for _ in range(traffic.calls):
            env.process(request())
            yield env.timeout(1 / traffic.rate)
        yield env.timeout(traffic.drain)

    env.run(env.process(source()))
    return counts


# -- the section


def slack(name: str, truth: Counts) -> int:
    """By how many calls a variant may differ.

    A selector loop runs early what is due within a tick of its clock, and looptime rounds its time to microseconds.
    That moves a few calls to the other side of a limit. What has exact times has no excuse.
    """
    return max(5, truth.attempts // 1000) if name in (SELECTOR_LOOP, LOOPTIME) else 0


def alike(one: Counts, other: Counts, most: int = 0) -> bool:
    """Whether no count differs by more than `most` calls; `opens` is compared only where both know it."""
    pairs = [
        (one.attempts, other.attempts),
        (one.answered, other.answered),
        (one.rejected, other.rejected),
        (one.failed, other.failed),
    ]
    if one.opens is not None and other.opens is not None:
        pairs.append((one.opens, other.opens))
    return all(abs(mine - theirs) <= most for mine, theirs in pairs)


def variants(notes: list[str] | None = None) -> dict[str, Callable[[Traffic], Counts]]:
    found: dict[str, Callable[[Traffic], Counts]] = {
        KERNEL: on_virtual_clock,
        SIMPY: on_simpy,
        SIMPY_LEAN: lambda traffic: on_simpy(traffic, lean=True),
        VIRTUAL_LOOP: on_virtual_loop,
        SELECTOR_LOOP: on_selector_loop,
        LOOPTIME: on_looptime,
    }
    for package, names in {"simpy": (SIMPY, SIMPY_LEAN), "looptime": (LOOPTIME,)}.items():
        try:
            __import__(package)
        except ImportError as problem:
            if notes is not None:
                notes.append(missing(package, problem))
            for name in names:
                del found[name]
    return found


def run(effort: Effort, traffic: Traffic = FIVE_MINUTES) -> Section:
    section = Section(
        NAME,
        "80 calls/s for 300 s, the service hanging from 60 to 180 s, through retry, breaker and timeout",
        ("ms a run", "median", "least", "spread", "ratio"),
    )
    cases = variants(section.notes)
    truth = on_virtual_clock(traffic, listen=True)
    assert truth.opens, "the outage did not open the breaker"
    assert truth.answered + truth.rejected + truth.failed == traffic.calls, "calls were lost"
    for name, simulate in cases.items():
        counts = simulate(traffic)
        assert alike(truth, counts, slack(name, truth)), f"{name} gives {counts}, and VirtualClock {truth}"
    section.notes.append(
        f"All agree on {truth.attempts:,} attempts, {truth.answered:,} answers, {truth.rejected:,} rejections and "
        f"{truth.opens} openings (the selector loop and looptime to {slack(SELECTOR_LOOP, truth)} calls: their times "
        "are not exact)."
    )
    samples = interleave({name: _run_of(simulate, traffic) for name, simulate in cases.items()}, effort.runs)
    section.take(samples, 1e3, reference=KERNEL)
    if SIMPY in cases:
        section.bounds.append(Bound("VirtualClock, times simpy's time", samples.ratio(KERNEL, SIMPY), 1.0))
    section.bounds.append(
        Bound(
            "the selector loop's time, times VirtualClock's", samples.ratio(SELECTOR_LOOP, KERNEL), 5.0, at_least=True
        )
    )
    return section


def _run_of(simulate: Callable[[Traffic], Counts], traffic: Traffic) -> Callable[[], Counts]:
    return lambda: simulate(traffic)
