"""The bulkhead around calls and streams: who gets a place, who waits, who is turned away, and that none is lost."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from labkit.config import BulkheadMiddlewareConfig
from labkit.errors import BulkheadFullError
from labkit.middleware import (
    BulkheadEvent,
    BulkheadMiddleware,
    FunctionMiddlewareChain,
    FunctionMiddlewareContext,
    Stack,
)
from labkit.policies import BulkheadSnapshot
from labkit.timing import LoopClock, VirtualClock, VirtualTask, run_virtual


def bulkhead(clock: Any, places: int = 1, **fields: Any) -> BulkheadMiddleware:
    """A bulkhead of one place and no queue, unless told otherwise."""
    return BulkheadMiddleware(BulkheadMiddlewareConfig(max_concurrent=places, **fields), clock=clock)


class Desk:
    """Calls of one function, each of a second, and in which order they were served."""

    def __init__(self, bench: Any, one: BulkheadMiddleware) -> None:
        self.bench, self.served = bench, list[tuple[int, float]]()
        self.call = bench.single(one, service=self.service)

    async def service(self, number: int) -> str:
        """Take a second."""
        self.served.append((number, self.bench.now()))
        await self.bench.sleep(1.0)
        return "ok"

    def start(self, number: int) -> Any:
        """Begin a call."""
        return self.bench.start(self.bench.kind(self.call(number)))


def test_so_many_at_once(bench: Any) -> None:
    """Of five callers two get a place; the others are turned away before they reach the service."""
    desk = Desk(bench, bulkhead(bench.clock, 2))

    async def main() -> list[str]:
        tasks = [desk.start(number) for number in range(5)]
        return [await task for task in tasks]

    assert bench.run(main()) == ["ok", "ok"] + ["BulkheadFullError"] * 3
    assert [number for number, _ in desk.served] == [0, 1]


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({}, "The bulkhead of 'parts' is full: 1 at once."),
        ({"max_queue": 1}, "The bulkhead of 'parts' is full: 1 at once and 1 waiting."),
        ({"max_queue": 2, "max_wait": 0.5}, "The bulkhead of 'parts' had no place within 0.5 s."),
    ],
)
@pytest.mark.parametrize("mode", ["single", "stream"])
def test_the_error_says_why(bench: Any, fields: dict[str, Any], text: str, mode: str) -> None:
    """Full, or waited too long: a sentence with the numbers, and the target."""
    one = bulkhead(bench.clock, **fields)

    async def get() -> Any:
        if mode == "single":
            return await bench.get(bench.single(one, service=bench.hangs)())
        return (await bench.read(bench.stream(one, service=bench.streams((1e9,)))()))[0]

    async def main() -> Any:
        for _ in range(2):
            bench.start(get())
        await bench.settle()
        return await get()

    error = bench.run(main())
    assert (type(error), str(error), error.target) == (BulkheadFullError, text, "parts")
    assert isinstance(error, RuntimeError)
    assert error.__suppress_context__ is (fields.get("max_wait") is not None)


def test_the_queue_is_served_in_order(bench: Any) -> None:
    """Who waits is served first come, first served, each at the moment when a place comes free."""
    desk = Desk(bench, bulkhead(bench.clock, max_queue=3))

    async def main() -> list[str]:
        tasks = [desk.start(number) for number in range(5)]
        return [await task for task in tasks]

    assert bench.run(main()) == ["ok"] * 4 + ["BulkheadFullError"]
    assert desk.served == [(0, 0.0), (1, 1.0), (2, 2.0), (3, 3.0)]


def test_nobody_overtakes(bench: Any) -> None:
    """A caller who comes in the instant in which a place is handed over does not take it from who waited."""
    desk = Desk(bench, bulkhead(bench.clock, max_queue=1))

    async def late() -> str:
        await bench.sleep(1.0)
        return str(await bench.kind(desk.call(9)))

    async def main() -> list[str]:
        first, waits, comes = desk.start(0), desk.start(1), bench.start(late())
        return [await first, await waits, await comes]

    got = bench.run(main())
    assert [number for number, _ in desk.served][:2] == [0, 1]
    assert got[:2] == ["ok", "ok"]


def test_a_place_at_the_limit_is_taken(bench: Any) -> None:
    """A place that comes free in the same instant as `max_wait` is over goes to who waited, and none is lost."""
    one = bulkhead(bench.clock, max_queue=1, max_wait=1.0)
    desk = Desk(bench, one)

    async def main() -> list[str]:
        tasks = [desk.start(0), desk.start(1)]
        got = [await task for task in tasks]
        assert one.snapshot("parts") == BulkheadSnapshot(0, 0)
        return [*got, await desk.start(2)]

    assert bench.run(main()) == ["ok", "ok", "ok"]


@pytest.mark.parametrize("when", ["waiting", "handed over", "running"])
def test_a_cancellation_frees_the_place(bench: Any, when: str) -> None:
    """Cancelled in the queue, in the instant in which the place came, or while it ran: the next one is served."""
    one = bulkhead(bench.clock, max_queue=5)
    desk = Desk(bench, one)

    async def main() -> list[str]:
        first, second, third = (desk.start(number) for number in range(3))
        await bench.sleep({"waiting": 0.5, "handed over": 1.0, "running": 1.5}[when])
        if when == "handed over":
            assert first.done() or one.snapshot("parts").waiting == 2
            while one.snapshot("parts").waiting == 2:
                await bench.sleep(0)
        second.cancel()
        got = [await first, await second, await third]
        assert one.snapshot("parts") == BulkheadSnapshot(0, 0)
        return got

    assert bench.run(main()) == ["ok", "CancelledError", "ok"]
    assert desk.served[-1] == (2, 1.5 if when == "running" else 1.0)


def test_a_stream_holds_its_place_until_it_is_closed(bench: Any) -> None:
    """From the first pull, through the consumer's own pauses, to the end or the moment when it is left."""
    one = bulkhead(bench.clock)

    async def main() -> list[int]:
        chunks = bench.stream(one, service=bench.streams(("a", "b")))()
        seen = [one.snapshot("parts").running]
        await anext(chunks)
        seen.append(one.snapshot("parts").running)
        await bench.sleep(5.0)
        assert await bench.kind(bench.single(one, service=bench.ok)()) == "BulkheadFullError"
        await chunks.aclose()
        seen.append(one.snapshot("parts").running)
        assert await bench.read(bench.stream(one, service=bench.streams(("a", "b")))()) == ["a", "b"]
        assert isinstance((await bench.read(bench.stream(one, service=bench.streams((OSError(),)))()))[0], OSError)
        return [*seen, one.snapshot("parts").running]

    assert bench.run(main()) == [0, 1, 0, 0]


def test_what_is_told(bench: Any) -> None:
    """Everything in order to who wants it, and rejections alone to who does not care for traffic."""
    one = bulkhead(bench.clock, max_queue=2, max_wait=1.5)
    told: list[BulkheadEvent] = []
    quiet: list[BulkheadEvent] = []
    leave = one.listen(told.append)
    one.listen(quiet.append, traffic=False)
    desk = Desk(bench, one)

    async def main() -> None:
        tasks = [desk.start(number) for number in range(4)]
        await bench.sleep(0.5)
        tasks[1].cancel()
        tasks.append(desk.start(4))
        for task in tasks:
            await task
        leave()
        await desk.start(5)

    bench.run(main())
    assert [tuple(event) for event in told] == [
        ("admitted", 0.0, "parts", 1, 0),
        ("queued", 0.0, "parts", 1, 1),
        ("queued", 0.0, "parts", 1, 2),
        ("rejected", 0.0, "parts", 1, 2),
        ("cancelled", 0.5, "parts", 1, 1),
        ("queued", 0.5, "parts", 1, 2),
        ("left", 1.0, "parts", 1, 1),
        ("admitted", 1.0, "parts", 1, 1),
        ("left", 2.0, "parts", 1, 0),
        ("admitted", 2.0, "parts", 1, 0),
        ("left", 3.0, "parts", 0, 0),
    ]
    assert quiet == [event for event in told if event.kind == "rejected"]


class Flight:
    """A call or a stream that ends when and how it is told."""

    def __init__(self, clock: VirtualClock, one: BulkheadMiddleware, stream: bool) -> None:
        self.running = False
        self.outcome = "ok"
        self.error: BaseException | None = None
        self.end = clock.event()
        chain = FunctionMiddlewareChain(middleware=[one], context=FunctionMiddlewareContext(name="parts"))
        single, chunks = chain.build_single(self._single), chain.build_stream(self._stream)
        self.task: VirtualTask[Any] = clock.start(self._watch(lambda: self._read(chunks()) if stream else single()))

    async def _single(self) -> None:
        self.running = True
        try:
            await self.end.wait()
            if self.outcome == "error":
                raise ValueError
        finally:
            self.running = False

    async def _stream(self) -> AsyncIterator[str]:
        self.running = True
        try:
            yield "chunk"
            await self._single()
        finally:
            self.running = False

    async def _read(self, stream: Any) -> None:
        async with aclosing(stream) as chunks:
            async for _ in chunks:
                await self.end.wait()
                if self.outcome == "close":
                    return

    async def _watch(self, begin: Any) -> None:
        try:
            await begin()
        except (ValueError, BulkheadFullError, CancelledError) as error:
            self.error = error

    def finish(self, outcome: str) -> None:
        """Let it end; one that still waits ends as soon as it has its place."""
        self.outcome = outcome
        if outcome == "cancel":
            self.task.cancel()
        else:
            self.end.set()


class AnyHistory(RuleBasedStateMachine):
    """Callers that come, wait, run, give up and end in any order, also several in one instant."""

    flights: Bundle[Flight] = Bundle("flights")

    @initialize(places=st.integers(1, 3), queue=st.integers(0, 3), wait=st.sampled_from([None, 1.0]))
    def begin(self, places: int, queue: int, wait: float | None) -> None:
        """One bulkhead."""
        self.clock = VirtualClock()
        self.places, self.queue = places, queue
        self.bulkhead = bulkhead(self.clock, places, max_queue=queue, max_wait=wait)
        self.all: list[Flight] = []

    @rule(stream=st.booleans(), target=flights)
    def call(self, stream: bool) -> Flight:
        """A call arrives."""
        flight = Flight(self.clock, self.bulkhead, stream)
        self.all.append(flight)
        return flight

    @rule(flight=consumes(flights), outcome=st.sampled_from(["ok", "error", "cancel", "close"]))
    def finish(self, flight: Flight, outcome: str) -> None:
        """A call is told to end; what is due is played later, so that several end in one instant."""
        flight.finish(outcome)

    @rule(seconds=st.sampled_from([0.0, 0.5, 1.0]))
    def play(self, seconds: float) -> None:
        """Time passes."""
        self.clock.advance(seconds)
        self.clock.settle()
        running, waiting = self.bulkhead.snapshot("parts")
        alive = [flight for flight in self.all if not flight.task.done()]
        assert running == sum(flight.running for flight in alive)
        assert running + waiting == len(alive)

    @invariant()
    def bounded(self) -> None:
        """Never more at once than there are places, never more waiting than the queue holds."""
        if not hasattr(self, "bulkhead"):
            return
        assert sum(flight.running for flight in self.all) <= self.places
        held = self.bulkhead.snapshot("parts")
        assert held.running <= self.places
        assert held.waiting <= self.queue

    def teardown(self) -> None:
        """When all have ended every place is free, and can be taken."""
        if not hasattr(self, "bulkhead"):
            return
        for flight in self.all:
            flight.finish("cancel")
        self.clock.settle()
        assert self.bulkhead.snapshot("parts") == BulkheadSnapshot(0, 0)
        last = [Flight(self.clock, self.bulkhead, False) for _ in range(self.places)]
        self.clock.settle()
        assert all(flight.running for flight in last)
        self.clock.close()


TestAnyHistory = AnyHistory.TestCase


def test_it_runs_on_asyncio() -> None:
    """On an event loop too: two places, a queue in order, a cancellation that loses nothing, a limit on the wait."""
    clock = LoopClock()
    one = bulkhead(clock, max_queue=2, max_wait=1.5)
    served: list[tuple[int, float]] = []

    async def service(number: int) -> int:
        served.append((number, clock.now() - began))
        await clock.sleep(1.0)
        return number

    call = FunctionMiddlewareChain(middleware=[one], context=FunctionMiddlewareContext(name="parts")).build_single(
        service
    )

    async def kind(number: int) -> str:
        try:
            return str(await call(number))
        except (BulkheadFullError, CancelledError) as error:
            return type(error).__name__

    async def main() -> list[str]:
        nonlocal began
        began = clock.now()
        tasks = [clock.start(kind(number)) for number in range(3)]
        await clock.sleep(0.5)
        tasks[1].cancel()
        tasks += [clock.start(kind(number)) for number in (3, 4)]
        return [await task for task in tasks]

    began = 0.0
    assert run_virtual(main()) == ["0", "CancelledError", "2", "3", "BulkheadFullError"]
    assert served == [(0, 0.0), (2, 1.0), (3, 2.0)]


def test_it_comes_from_yaml(bench: Any) -> None:
    """A stack builds it from its `_type`; functions that list it have places of their own."""
    stack = Stack.load(
        """
        middleware:
          few: {_type: bulkhead, max_concurrent: 1}
        functions:
          parts: {_type: parts, middleware: [few]}
          documents: {_type: documents, middleware: [few]}
        """,
        services={"parts": bench.hangs, "documents": bench.ok},
        clock=bench.clock,
    )

    async def main() -> list[str]:
        bench.start(bench.get(stack.call("parts")))
        await bench.settle()
        return [await bench.kind(stack.call(name)) for name in ("parts", "documents")]

    assert bench.run(main()) == ["BulkheadFullError", "ok"]
