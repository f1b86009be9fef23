"""The breaker that counts over time, around calls and streams."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule

from labkit.config import WindowCircuitBreakerMiddlewareConfig
from labkit.errors import BulkheadFullError, CircuitBreakerOpenError, LeaseError, Refusal
from labkit.middleware import (
    BreakerEvent,
    FunctionMiddlewareChain,
    FunctionMiddlewareContext,
    Stack,
    WindowCircuitBreakerMiddleware,
)
from labkit.policies import CircuitBreakerState
from labkit.timing import LoopClock, VirtualClock, VirtualTask, run_virtual

CLOSED, OPEN, HALF_OPEN = CircuitBreakerState.CLOSED, CircuitBreakerState.OPEN, CircuitBreakerState.HALF_OPEN
BY_INTERVAL = {"failure_threshold": 2, "interval": 60.0}
BY_RATE = {"failure_rate": 0.5, "window": 60.0, "minimum_calls": 4}
MODES = ("single", "stream")


class Wedge(BaseException):
    """Neither an `Exception` nor a cancellation."""


def window(clock: Any, **fields: Any) -> WindowCircuitBreakerMiddleware:
    """A breaker that two failures a minute open for 10 s, unless told otherwise."""
    ways = {} if "failure_rate" in fields else BY_INTERVAL
    config = WindowCircuitBreakerMiddlewareConfig(**{"open_duration": 10.0, **ways, **fields})
    return WindowCircuitBreakerMiddleware(config, clock=clock)


async def outcome(bench: Any, breaker: Any, mode: str, *answers: Any) -> str:
    """One call or stream through it: its last word, or the name of its error."""
    if mode == "single":
        return str(await bench.kind(bench.single(breaker, service=bench.script(*answers))()))
    last = (await bench.read(bench.stream(breaker, service=bench.streams(answers))()))[-1]
    return type(last).__name__ if isinstance(last, BaseException) else str(last)


# -- counting ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_failures_within_an_interval_open_it(bench: Any, mode: str) -> None:
    """Two failures within a minute open it though a success stands between them, and the interval's end forgets one."""
    breaker = window(bench.clock)

    async def main() -> list[str]:
        got = [await outcome(bench, breaker, mode, OSError())]
        await bench.sleep(60.0)
        for answer in (OSError(), "ok", OSError(), "ok"):
            got.append(await outcome(bench, breaker, mode, answer))
        return got

    assert bench.run(main()) == ["OSError", "OSError", "ok", "OSError", "CircuitBreakerOpenError"]
    assert breaker.snapshot("parts")[:2] == (OPEN, 2)


@pytest.mark.parametrize("mode", MODES)
def test_a_failure_rate_opens_it(bench: Any, mode: str) -> None:
    """Half of the calls in the window open it, once there are enough of them."""
    breaker = window(bench.clock, **BY_RATE)

    async def main() -> list[str]:
        return [
            await outcome(bench, breaker, mode, answer) for answer in (OSError(), OSError(), "ok", "ok", "not reached")
        ]

    assert bench.run(main()) == ["OSError", "OSError", "ok", "ok", "CircuitBreakerOpenError"]
    assert breaker.snapshot("parts")[:3] == (OPEN, 2, 4)


@pytest.mark.parametrize("mode", MODES)
def test_a_rejection_says_whom_and_how_long(bench: Any, mode: str) -> None:
    """It has the text of `circuit_breaker`, the target, and the seconds until a probe may be admitted."""
    breaker = window(bench.clock, circuit_breaker_message="Ask again later.")

    async def main() -> Any:
        for _ in range(2):
            await outcome(bench, breaker, mode, OSError())
        await bench.sleep(4.0)
        if mode == "single":
            return await bench.get(bench.single(breaker, service=bench.ok)())
        return (await bench.read(bench.stream(breaker, service=bench.streams(("never",)))()))[0]

    error = bench.run(main())
    assert str(error) == "Circuit breaker is OPEN for 'parts'. Tool is temporarily unavailable. Ask again later."
    assert (type(error), error.target, error.retry_after) == (CircuitBreakerOpenError, "parts", 6.0)
    assert bench.calls == 2


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("way", [BY_INTERVAL, BY_RATE], ids=["interval", "rate"])
def test_a_cancellation_counts_neither_way(bench: Any, mode: str, way: dict[str, Any]) -> None:
    """Callers that give up, and streams that are left early, are not counted."""
    breaker = window(bench.clock, **way)

    async def main() -> None:
        for _ in range(9):
            if mode == "single":
                task = bench.start(bench.single(breaker, service=bench.hangs)())
                await bench.settle()
                task.cancel()
                assert isinstance(await bench.get(task), CancelledError)
            else:
                chunks = bench.stream(breaker, service=bench.streams(("a", "b")))()
                await anext(chunks)
                await chunks.aclose()

    bench.run(main())
    assert breaker.snapshot("parts")[:3] == (CLOSED, 0, 0)


# -- probes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_a_limited_number_of_probes(bench: Any, mode: str) -> None:
    """Of ten callers at the end of the timer three reach the service and seven are told to come back."""
    breaker = window(bench.clock, half_open_requests=3, half_open_successes=3)

    async def slow() -> str:
        bench.calls += 1
        await bench.sleep(1.0)
        return "ok"

    async def slow_stream() -> AsyncIterator[str]:
        yield await slow()

    async def one() -> str:
        if mode == "single":
            return str(await bench.kind(bench.single(breaker, service=slow)()))
        (got,) = await bench.read(bench.stream(breaker, service=slow_stream)())
        return type(got).__name__ if isinstance(got, BaseException) else str(got)

    async def main() -> list[str]:
        for _ in range(2):
            await outcome(bench, breaker, mode, OSError())
        await bench.sleep(10.0)
        bench.calls = 0
        tasks = [bench.start(one()) for _ in range(10)]
        return [await task for task in tasks]

    assert bench.run(main()) == ["ok"] * 3 + ["CircuitBreakerOpenError"] * 7
    assert (bench.calls, breaker.snapshot("parts").state) == (3, CLOSED)


@pytest.mark.parametrize("mode", MODES)
def test_the_probe_timeout_bounds_probes_alone(bench: Any, mode: str) -> None:
    """An ordinary call may take its time; a probe that takes too long is a failure, and OPEN lasts longer."""
    breaker = window(bench.clock, probe_timeout=2.0, open_factor=3.0)

    async def slow() -> str:
        await bench.sleep(5.0)
        return "ok"

    async def one() -> Any:
        if mode == "single":
            return await bench.kind(bench.single(breaker, service=slow)())
        last = (await bench.read(bench.stream(breaker, service=bench.streams((5.0, "ok")))()))[-1]
        return type(last).__name__ if isinstance(last, BaseException) else last

    async def main() -> list[Any]:
        got = [await one()]
        for _ in range(2):
            await outcome(bench, breaker, mode, OSError())
        await bench.sleep(10.0)
        began = bench.now()
        return [*got, await one(), bench.now() - began]

    assert bench.run(main()) == ["ok", "TimeoutError", 2.0]
    assert breaker.snapshot("parts").open_duration == 30.0


@pytest.mark.parametrize("how", ["cancelled", "left", "wedged"])
def test_a_slot_is_freed_whatever_ends_the_probe(bench: Any, how: str) -> None:
    """A probe that is cancelled, left by its consumer or ended by a `BaseException` leaves room for the next."""
    breaker = window(bench.clock)

    async def wedges() -> str:
        raise Wedge

    async def main() -> str:
        for _ in range(2):
            await outcome(bench, breaker, "single", OSError())
        await bench.sleep(10.0)
        if how == "cancelled":
            task = bench.start(bench.single(breaker, service=bench.hangs)())
            await bench.settle()
            task.cancel()
            await bench.get(task)
        elif how == "left":
            chunks = bench.stream(breaker, service=bench.streams(("a", "b")))()
            await anext(chunks)
            await chunks.aclose()
        else:
            await bench.get(bench.single(breaker, service=wedges)())
        assert breaker.snapshot("parts")[:1] == (HALF_OPEN,)
        assert breaker.snapshot("parts").probes == 0
        return await outcome(bench, breaker, "single", "ok")

    assert bench.run(main()) == "ok"
    assert breaker.snapshot("parts").state is CLOSED


@pytest.mark.parametrize("probe", [False, True])
def test_what_a_consumer_throws_in_does_not_count(bench: Any, probe: bool) -> None:
    """An exception thrown into a stream is the consumer's own: it ends the stream, counts neither way, frees a slot."""
    breaker = window(bench.clock, failure_threshold=1)

    async def main() -> None:
        if probe:
            await outcome(bench, breaker, "single", OSError())
            await bench.sleep(10.0)
        chunks = bench.stream(breaker, service=bench.streams(("a", "b")))()
        await anext(chunks)
        held = breaker.snapshot("parts")
        assert isinstance(await bench.get(chunks.athrow(ValueError())), ValueError)
        assert breaker.snapshot("parts") == held._replace(probes=0)

    bench.run(main())
    assert breaker.snapshot("parts").state is (HALF_OPEN if probe else CLOSED)


# -- events ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_a_whole_life_is_told(bench: Any, mode: str) -> None:
    """Kinds, times, states and counts of a breaker that trips, rejects, probes, opens anew, and closes."""
    breaker = window(bench.clock, half_open_successes=2)
    told: list[BreakerEvent] = []
    breaker.listen(told.append)

    async def main() -> None:
        answers = (OSError(), OSError(), "rejected", OSError(), "ok", "ok")
        for wait, answer in zip((1.0, 1.0, 1.0, 9.0, 10.0, 0.0), answers, strict=True):
            await bench.sleep(wait)
            await outcome(bench, breaker, mode, answer)

    bench.run(main())
    assert [tuple(event) for event in told] == [
        ("admitted", 1.0, "parts", CLOSED, 0, 0, False),
        ("failed", 1.0, "parts", CLOSED, 1, 0, False),
        ("admitted", 2.0, "parts", CLOSED, 1, 0, False),
        ("failed", 2.0, "parts", OPEN, 2, 0, False),
        ("opened", 2.0, "parts", OPEN, 2, 0, False),
        ("rejected", 3.0, "parts", OPEN, 2, 0, False),
        ("half_opened", 12.0, "parts", HALF_OPEN, 2, 0, True),
        ("admitted", 12.0, "parts", HALF_OPEN, 2, 0, True),
        ("failed", 12.0, "parts", OPEN, 2, 0, True),
        ("opened", 12.0, "parts", OPEN, 2, 0, True),
        ("half_opened", 22.0, "parts", HALF_OPEN, 2, 0, True),
        ("admitted", 22.0, "parts", HALF_OPEN, 2, 0, True),
        ("succeeded", 22.0, "parts", HALF_OPEN, 2, 1, True),
        ("admitted", 22.0, "parts", HALF_OPEN, 2, 1, True),
        ("succeeded", 22.0, "parts", CLOSED, 0, 0, True),
        ("closed", 22.0, "parts", CLOSED, 0, 0, True),
    ]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("way", [BY_INTERVAL, BY_RATE], ids=["interval", "rate"])
def test_without_traffic_the_rest_is_told(bench: Any, mode: str, way: dict[str, Any]) -> None:
    """Who does not care for traffic hears what the others hear, without the ordinary calls."""
    breaker = window(bench.clock, **way)
    everything: list[BreakerEvent] = []
    quiet: list[BreakerEvent] = []

    async def play() -> None:
        answers = ("ok", "ok", OSError(), OSError(), "rejected", OSError(), "ok", "ok")
        for wait, answer in zip((0.0, 0.0, 0.0, 0.0, 0.0, 10.0, 10.0, 0.0), answers, strict=True):
            await bench.sleep(wait)
            await outcome(bench, breaker, mode, answer)

    async def main() -> None:
        leave = breaker.listen(quiet.append, traffic=False)
        await play()
        leave()
        await bench.sleep(60.0)
        breaker.listen(everything.append)
        await play()

    bench.run(main())
    ordinary = ("admitted", "succeeded", "failed", "cancelled")
    rest = [event for event in everything if event.probe or event.kind not in ordinary]
    assert [event._replace(at=0.0) for event in quiet] == [event._replace(at=0.0) for event in rest]
    assert [event.kind for event in quiet] == [
        *("opened", "rejected", "half_opened", "admitted", "failed", "opened"),
        *("half_opened", "admitted", "succeeded", "closed"),
    ]


def test_a_late_end_is_told_and_changes_nothing(bench: Any) -> None:
    """A call that outlives its period is told to have ended, with the state as it is."""
    breaker = window(bench.clock)
    told: list[tuple[str, CircuitBreakerState]] = []

    async def late() -> None:
        await bench.sleep(5.0)
        raise OSError

    async def main() -> None:
        task = bench.start(bench.single(breaker, service=late)())
        await bench.settle()
        for _ in range(2):
            await outcome(bench, breaker, "single", OSError())
        breaker.listen(lambda event: told.append((event.kind, event.state)))
        held = breaker.snapshot("parts")
        await bench.get(task)
        assert breaker.snapshot("parts") == held

    bench.run(main())
    assert told == [("failed", OPEN)]


# -- any history -------------------------------------------------------------------------------------------------------


REFUSED: dict[str, Exception] = {
    "refused": BulkheadFullError("full"),
    "refusals": ExceptionGroup("all", [LeaseError("lapsed"), ExceptionGroup("deep", [BulkheadFullError("full")])]),
}
RAISED: dict[str, Exception] = {
    **REFUSED,
    "error": ValueError(),
    "mixed": ExceptionGroup("some", [BulkheadFullError("full"), ExceptionGroup("deep", [ValueError()])]),
}
OUTCOMES = ["ok", "ok", "ok", "error", "cancel", "close", "close", "wedge", *RAISED]


class Flight:
    """A call or a stream that ends when and how it is told."""

    def __init__(self, clock: VirtualClock, breaker: WindowCircuitBreakerMiddleware, stream: bool) -> None:
        self.reached = self.ended = False
        self.stream = stream
        self.probe = False
        self.outcome = "ok"
        self.end = clock.event()
        chain = FunctionMiddlewareChain(middleware=[breaker], context=FunctionMiddlewareContext(name="parts"))
        single, chunks = chain.build_single(self._single), chain.build_stream(self._stream)
        self.task: VirtualTask[Any] = clock.start(self._watch(lambda: self._read(chunks()) if stream else single()))

    async def _single(self) -> None:
        self.reached = True
        try:
            await self.end.wait()
            if self.outcome in RAISED:
                raise RAISED[self.outcome]
            if self.outcome == "wedge":
                raise Wedge
        finally:
            self.ended = True

    async def _stream(self) -> AsyncIterator[str]:
        await self._single()
        yield "chunk"

    async def _read(self, stream: Any) -> None:
        async with aclosing(stream) as chunks:
            async for _ in chunks:
                if self.outcome == "close":
                    return

    async def _watch(self, begin: Any) -> None:
        try:
            await begin()
        except (ValueError, ExceptionGroup, Refusal, TimeoutError, CancelledError, Wedge):
            return

    def finish(self, outcome: str) -> None:
        """Let it end."""
        self.outcome = outcome
        if outcome == "cancel":
            self.task.cancel()
        else:
            self.end.set()


class AnyHistory(RuleBasedStateMachine):
    """Calls that come, overlap and end in any order and way, over any time."""

    flights: Bundle[Flight] = Bundle("flights")

    @initialize(
        way=st.sampled_from(
            [{"failure_threshold": 2, "interval": 8.0}, {"failure_rate": 0.5, "window": 10.0, "minimum_calls": 3}]
        ),
        requests=st.integers(1, 3),
        successes=st.integers(1, 3),
        probe_timeout=st.sampled_from([None, 4.0]),
        traffic=st.booleans(),
        left_early=st.sampled_from(["neither", "success"]),
    )
    def begin(
        self,
        way: dict[str, Any],
        requests: int,
        successes: int,
        probe_timeout: float | None,
        traffic: bool,
        left_early: str,
    ) -> None:
        """One breaker, and a listener."""
        self.clock = VirtualClock()
        self.requests = requests
        self.breaker = window(
            self.clock,
            **way,
            half_open_requests=requests,
            half_open_successes=successes,
            probe_timeout=probe_timeout,
            open_factor=2.0,
            max_open_duration=30.0,
            left_early=left_early,
        )
        self.left_early = left_early
        self.events: list[BreakerEvent] = []
        self.breaker.listen(self.events.append, traffic=traffic)
        self.all: list[Flight] = []

    @rule(stream=st.booleans(), target=flights)
    def call(self, stream: bool) -> Any:
        """A call arrives: the state before it says whether it reaches the service."""
        before, count, now = self.breaker.snapshot("parts"), len(self.events), self.clock.now()
        flight = Flight(self.clock, self.breaker, stream)
        self.clock.settle()
        kinds = [event.kind for event in self.events[count:]]
        if before.state is OPEN:
            expected = now - before.changed_at >= before.open_duration
        else:
            expected = before.state is CLOSED or before.probes < self.requests
        assert flight.reached is expected
        assert ("rejected" in kinds) is not expected
        if not flight.reached:
            return multiple()
        flight.probe = before.state is not CLOSED
        self.all.append(flight)
        return flight

    @rule(
        flight=consumes(flights),
        outcome=st.sampled_from(OUTCOMES),
    )
    def finish(self, flight: Flight, outcome: str) -> None:
        """A call ends. What says nothing about the dependency changes nothing but the slot."""
        before = self.breaker.snapshot("parts")
        flight.finish(outcome)
        self.clock.settle()
        after = self.breaker.snapshot("parts")
        is_left = outcome == "close" and flight.stream and self.left_early == "success"
        if not is_left and outcome in (*REFUSED, "cancel", "wedge", *(["close"] if flight.stream else [])):
            assert after._replace(probes=0) == before._replace(probes=0)
        elif outcome in ("ok", "close"):
            assert after.failures <= before.failures

    @rule(seconds=st.sampled_from([0.5, 3.0, 9.5, 10.0, 30.0]))
    def wait(self, seconds: float) -> None:
        """Time passes."""
        self.clock.advance(seconds)
        self.clock.settle()

    @invariant()
    def probes_are_limited(self) -> None:
        """The slots that are taken are those of the half-open period's own probes, and never too many."""
        if not hasattr(self, "breaker"):
            return
        held = self.breaker.snapshot("parts")
        assert 0 <= held.probes <= self.requests
        probing = sum(flight.probe and not flight.ended for flight in self.all)
        assert held.probes <= probing
        assert held.state is HALF_OPEN or held.probes == 0

    def teardown(self) -> None:
        """Once everything has ended and time has passed, no slot is lost: all probes are admitted."""
        if not hasattr(self, "breaker"):
            return
        for flight in self.all:
            flight.finish("cancel")
        self.clock.settle()
        self.clock.advance(31.0)
        assert self.breaker.snapshot("parts").probes == 0
        late = [Flight(self.clock, self.breaker, False) for _ in range(self.requests)]
        self.clock.settle()
        assert all(flight.reached for flight in late)
        self.clock.close()


TestAnyHistory = AnyHistory.TestCase


# -- elsewhere ---------------------------------------------------------------------------------------------------------


def test_it_runs_on_asyncio() -> None:
    """The same breaker on an event loop: opens, rejects, probes, closes."""
    clock = LoopClock()
    breaker = window(clock)
    answers = iter([OSError(), OSError(), "ok"])

    async def service() -> str:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return str(answer)

    call = FunctionMiddlewareChain(middleware=[breaker], context=FunctionMiddlewareContext(name="parts")).build_single(
        service
    )

    async def main() -> list[str]:
        got = []
        for wait in (0.0, 0.0, 0.0, 10.0):
            await clock.sleep(wait)
            try:
                got.append(str(await call()))
            except (OSError, CircuitBreakerOpenError) as error:
                got.append(type(error).__name__)
        return got

    assert run_virtual(main()) == ["OSError", "OSError", "CircuitBreakerOpenError", "ok"]


def test_it_comes_from_yaml(bench: Any) -> None:
    """A stack builds it from its `_type`, and a retry outside it does not repeat a rejection."""
    stack = Stack.load(
        """
        middleware:
          again: {_type: retry, attempts: 5, base_delay: 1, jitter: none, retry_on: [Exception]}
          window: {_type: window_circuit_breaker, failure_threshold: 3, interval: 60}
        functions:
          parts: {_type: parts, middleware: [again, window]}
        """,
        services={"parts": bench.fails},
        clock=bench.clock,
    )
    error = bench.run(bench.get(stack.call("parts")))
    assert isinstance(error, CircuitBreakerOpenError)
    assert (bench.calls, bench.now()) == (3, 7.0)
