"""What a breaker tells its listeners: everything that it does, in order, and at no cost when nobody listens."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from labkit.config import (
    BulkheadMiddlewareConfig,
    CircuitBreakerMiddlewareConfig,
    GuardedCircuitBreakerMiddlewareConfig,
    RetryBudgetMiddlewareConfig,
    WindowCircuitBreakerMiddlewareConfig,
)
from labkit.middleware import (
    BreakerEvent,
    BulkheadMiddleware,
    CircuitBreakerMiddleware,
    FunctionMiddlewareChain,
    FunctionMiddlewareContext,
    GuardedCircuitBreakerMiddleware,
    RetryBudgetMiddleware,
    WindowCircuitBreakerMiddleware,
)
from labkit.policies import CircuitBreakerState

CLOSED, OPEN, HALF_OPEN = CircuitBreakerState.CLOSED, CircuitBreakerState.OPEN, CircuitBreakerState.HALF_OPEN


def test_a_whole_life_is_told(bench: Any) -> None:
    """Kinds, times, states and counts of a breaker that trips, rejects, probes, opens anew, and closes."""
    breaker = bench.breaker(failure_threshold=2, half_open_success_threshold=2)
    told: list[BreakerEvent] = []
    breaker.listen(told.append)

    async def main() -> None:
        call = bench.single(breaker, service=bench.script("ok", OSError(), OSError(), "ok", OSError(), "ok", "ok"))
        for wait in (1.0, 1.0, 1.0, 1.0, 9.0, 0.0, 10.0, 0.0):
            await bench.sleep(wait)
            await bench.get(call())

    bench.run(main())
    assert [tuple(event) for event in told] == [
        ("admitted", 1.0, "parts", CLOSED, 0, 0, False),
        ("succeeded", 1.0, "parts", CLOSED, 0, 0, False),
        ("admitted", 2.0, "parts", CLOSED, 0, 0, False),
        ("failed", 2.0, "parts", CLOSED, 1, 0, False),
        ("admitted", 3.0, "parts", CLOSED, 1, 0, False),
        ("failed", 3.0, "parts", OPEN, 2, 0, False),
        ("opened", 3.0, "parts", OPEN, 2, 0, False),
        ("rejected", 4.0, "parts", OPEN, 2, 0, False),
        ("half_opened", 13.0, "parts", HALF_OPEN, 2, 0, True),
        ("admitted", 13.0, "parts", HALF_OPEN, 2, 0, True),
        ("succeeded", 13.0, "parts", HALF_OPEN, 2, 1, True),
        ("admitted", 13.0, "parts", HALF_OPEN, 2, 1, True),
        ("failed", 13.0, "parts", OPEN, 2, 0, True),
        ("opened", 13.0, "parts", OPEN, 2, 0, True),
        ("half_opened", 23.0, "parts", HALF_OPEN, 2, 0, True),
        ("admitted", 23.0, "parts", HALF_OPEN, 2, 0, True),
        ("succeeded", 23.0, "parts", HALF_OPEN, 2, 1, True),
        ("admitted", 23.0, "parts", HALF_OPEN, 2, 1, True),
        ("succeeded", 23.0, "parts", CLOSED, 0, 0, True),
        ("closed", 23.0, "parts", CLOSED, 0, 0, True),
    ]


def test_the_rejection_beside_a_probe_is_told(bench: Any) -> None:
    """A call that is turned away in HALF_OPEN is told as rejected, in that state."""
    breaker = bench.breaker()
    told: list[BreakerEvent] = []

    async def main() -> None:
        await bench.half_open(breaker)
        breaker.listen(told.append)
        probe = bench.start(bench.single(breaker, service=bench.hangs)())
        await bench.settle()
        await bench.get(bench.single(breaker, service=bench.ok)())
        probe.cancel()
        await bench.settle()

    bench.run(main())
    assert [(event.kind, event.state, event.probe) for event in told] == [
        ("half_opened", HALF_OPEN, True),
        ("admitted", HALF_OPEN, True),
        ("rejected", HALF_OPEN, False),
        ("cancelled", HALF_OPEN, True),
    ]


@pytest.mark.parametrize("probe", [False, True])
def test_a_stream_that_is_left_is_told_as_cancelled(bench: Any, probe: bool) -> None:
    """Whoever was admitted is told to have ended, also a stream whose consumer leaves."""
    breaker = bench.breaker()
    told: list[BreakerEvent] = []

    async def main() -> None:
        if probe:
            await bench.half_open(breaker)
        breaker.listen(told.append)
        chunks = bench.stream(breaker, service=bench.streams(("a", "b")))()
        await anext(chunks)
        await chunks.aclose()

    bench.run(main())
    assert [event.kind for event in told if event.kind != "half_opened"] == ["admitted", "cancelled"]
    assert {event.probe for event in told} == {probe}


def test_a_stream_tells_what_a_call_tells(bench: Any) -> None:
    """The same failures and successes give the same events for streams as for calls."""
    kinds: dict[str, list[str]] = {}

    async def main(mode: str) -> None:
        breaker = bench.breaker(failure_threshold=2)
        heard = kinds[mode] = []
        breaker.listen(lambda event: heard.append(event.kind))
        single = bench.single(breaker, service=bench.script("ok", OSError(), OSError(), "ok"))
        stream = bench.stream(breaker, service=bench.streams(("ok",), (OSError(),), (OSError(),), ("ok",)))
        for wait in (0.0, 0.0, 0.0, 10.0):
            await bench.sleep(wait)
            await (bench.get(single()) if mode == "single" else bench.read(stream()))

    for mode in ("single", "stream"):
        bench.run(main(mode))
    assert kinds["single"] == kinds["stream"]
    assert kinds["single"][-2:] == ["succeeded", "closed"]


def test_a_listener_that_raises_disturbs_nobody(bench: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Its error is logged; the call goes on, the other listeners hear, the breaker counts."""
    breaker = bench.breaker()
    told: list[str] = []

    def broken(event: BreakerEvent) -> None:
        raise ValueError("no room on the screen")

    breaker.listen(broken)
    breaker.listen(lambda event: told.append(event.kind))

    async def main() -> list[str]:
        call = bench.single(breaker, service=bench.script("ok", OSError()))
        return [await bench.kind(call()) for _ in range(3)]

    with caplog.at_level(logging.ERROR):
        assert bench.run(main()) == ["ok", "OSError", "CircuitBreakerOpenError"]
    assert told == ["admitted", "succeeded", "admitted", "failed", "opened", "rejected"]
    assert [record.exc_info[1].args for record in caplog.records if record.exc_info] == [("no room on the screen",)] * 6
    assert breaker.snapshot("parts").state is OPEN


TELLERS: list[tuple[type[Any], Any, str]] = [
    (CircuitBreakerMiddleware, CircuitBreakerMiddlewareConfig(), "breaker"),
    (GuardedCircuitBreakerMiddleware, GuardedCircuitBreakerMiddlewareConfig(), "breaker"),
    (
        WindowCircuitBreakerMiddleware,
        WindowCircuitBreakerMiddlewareConfig(failure_threshold=3, interval=60.0),
        "breaker",
    ),
    (BulkheadMiddleware, BulkheadMiddlewareConfig(max_concurrent=1), "bulkhead"),
    (RetryBudgetMiddleware, RetryBudgetMiddlewareConfig(), "retry budget"),
]


@pytest.mark.parametrize(("kind", "config", "name"), TELLERS)
def test_whoever_is_given_no_clock_tells_in_asyncios_time(
    kind: type[Any], config: Any, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Of every kind that tells anything; and a listener that fails is logged with whose it is and what it heard."""
    told: list[Any] = []
    middleware = kind(config)

    def broken(event: Any) -> None:
        told.append(event)
        raise ValueError("no room on the screen")

    async def service() -> str:
        return "ok"

    async def main() -> tuple[float, float]:
        now = asyncio.get_running_loop().time
        began = now()
        context = FunctionMiddlewareContext(name="parts")
        if isinstance(middleware, RetryBudgetMiddleware):
            assert middleware.spend("parts")
        else:
            call = FunctionMiddlewareChain(middleware=[middleware], context=context).build_single(service)
            assert await call() == "ok"
        return began, now()

    middleware.listen(broken)
    with caplog.at_level(logging.ERROR):
        began, ended = asyncio.run(main())
    assert told
    assert all(began <= event.at <= ended for event in told)
    assert [record.getMessage() for record in caplog.records] == [
        f"a listener of the {name} failed on {event}" for event in told
    ]


def test_listeners_may_leave_at_any_time(bench: Any) -> None:
    """Leaving takes effect with the next event, twice does no harm, and leaving while being told skips nobody."""
    breaker = bench.breaker(failure_threshold=9)
    told: list[str] = []

    def once(event: BreakerEvent) -> None:
        told.append(f"once {event.kind}")
        leave_once()
        leave_once()

    leave_once = breaker.listen(once)
    leave = breaker.listen(lambda event: told.append(event.kind))

    async def main() -> None:
        call = bench.single(breaker, service=bench.fails)
        await bench.get(call())
        leave()
        await bench.get(call())

    bench.run(main())
    assert told == ["once admitted", "admitted", "failed"]
    assert breaker.snapshot("parts").failures == 2


def test_one_listener_twice_leaves_one_at_a_time(bench: Any) -> None:
    """The same function may listen twice; each leave takes one of them away."""
    breaker = bench.breaker()
    told: list[str] = []

    def hear(event: BreakerEvent) -> None:
        told.append(event.kind)

    leave, _ = breaker.listen(hear), breaker.listen(hear)

    async def main() -> None:
        call = bench.single(breaker, service=bench.ok)
        await call()
        leave()
        await call()

    bench.run(main())
    assert told == ["admitted"] * 2 + ["succeeded"] * 2 + ["admitted", "succeeded"]


def test_listening_may_begin_in_the_middle(bench: Any) -> None:
    """Chains that were built before hear too, and a call in flight is told to have ended."""
    breaker = bench.breaker()
    told: list[str] = []

    async def main() -> None:
        call = bench.single(breaker, service=bench.script(OSError("down")))
        slow = bench.single(breaker, service=bench.hangs)
        task = bench.start(slow())
        await bench.settle()
        breaker.listen(lambda event: told.append(event.kind))
        await bench.get(call())
        task.cancel()
        await bench.settle()

    bench.run(main())
    assert told == ["admitted", "failed", "opened", "cancelled"]


def test_listening_changes_no_decision(bench: Any) -> None:
    """A breaker that is listened to decides, counts and stores as one that is not."""

    async def play(listening: bool) -> list[Any]:
        breaker = bench.breaker(failure_threshold=2, half_open_success_threshold=2)
        if listening:
            breaker.listen(lambda event: None)
        seen: list[Any] = []
        answers = ("ok", OSError(), OSError(), OSError(), "ok", "ok", OSError(), OSError(), "ok")
        call = bench.single(breaker, service=bench.script(*answers))
        began = bench.now()
        for wait in (0, 0, 0, 0, 10, 0, 3, 7, 0, 0, 0, 0):
            await bench.sleep(wait)
            got = await bench.kind(call())
            held = breaker.snapshot("parts")
            since = held.changed_at - began if held.changed_at else 0.0
            kept = type(breaker._policy.entries.get("parts"))
            seen.append((got, held._replace(changed_at=since), kept))
        return seen

    async def main() -> None:
        await bench.sleep(1.0)
        heard, unheard = await play(True), await play(False)
        assert heard == unheard
        assert {held.state for _, held, _ in heard} == {CLOSED, OPEN, HALF_OPEN}

    bench.run(main())


def test_who_does_not_care_for_traffic_hears_the_rest(bench: Any) -> None:
    """With traffic=False, what is told is what is told otherwise, without ordinary admissions and outcomes."""
    breaker = bench.breaker(failure_threshold=2, half_open_success_threshold=2)
    everything: list[BreakerEvent] = []
    told: list[BreakerEvent] = []
    breaker.listen(everything.append)
    breaker.listen(told.append, traffic=False)
    script = ("ok", OSError(), OSError(), "ok", OSError(), "ok", "ok")

    async def main() -> None:
        call = bench.single(breaker, service=bench.script(*script))
        for wait in (1.0, 1.0, 1.0, 1.0, 9.0, 0.0, 10.0, 0.0):
            await bench.sleep(wait)
            await bench.get(call())

    bench.run(main())
    quiet_kinds = {"rejected", "opened", "half_opened", "closed"}
    assert told == [event for event in everything if event.probe or event.kind in quiet_kinds]
    assert {event.kind for event in told} == quiet_kinds | {"admitted", "succeeded", "failed"}


@pytest.mark.parametrize("stream", [False, True])
def test_alone_it_hears_the_same(bench: Any, stream: bool) -> None:
    """A listener without traffic hears the same whether or not another hears everything, in calls and in streams."""
    new_bench = type(bench)

    def told_by(both: bool) -> list[BreakerEvent]:
        bench = new_bench()
        breaker = bench.breaker(failure_threshold=1)
        told: list[BreakerEvent] = []
        breaker.listen(told.append, traffic=False)
        if both:
            breaker.listen(lambda event: None)

        async def main() -> None:
            service = bench.script("ok", OSError(), "ok", "ok", OSError())
            call = bench.single(breaker, service=service)
            for wait in (1.0, 1.0, 1.0, 10.0, 0.0, 1.0, 1.0):
                await bench.sleep(wait)
                await bench.get(call())

        async def streams() -> None:
            outcomes = iter([None, OSError(), None, None, OSError()])

            async def chunks() -> Any:
                yield 1
                if (error := next(outcomes)) is not None:
                    raise error

            stream = bench.stream(breaker, service=chunks)
            for wait in (1.0, 1.0, 1.0, 10.0, 0.0, 1.0, 1.0):
                await bench.sleep(wait)
                await bench.get(bench.read(stream()))

        bench.run(streams() if stream else main())
        return told

    alone = told_by(False)
    assert [event.kind for event in alone][:3] == ["opened", "rejected", "half_opened"]
    assert alone == told_by(True)
