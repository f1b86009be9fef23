"""The guarded breaker beyond the toolkit's faults: by hand, what it tells, streams, its limits, memory."""

from __future__ import annotations

import gc
import tracemalloc
from asyncio import CancelledError
from collections.abc import AsyncIterator
from typing import Any

import pytest

from labkit.config import GuardedCircuitBreakerMiddlewareConfig
from labkit.errors import CircuitBreakerOpenError, DependencyError
from labkit.middleware import BreakerEvent, GuardedCircuitBreakerMiddleware


def guarded(bench: Any, **fields: Any) -> GuardedCircuitBreakerMiddleware:
    """A breaker; threshold 1 and cooldown 10 s unless told otherwise."""
    fields = {"failure_threshold": 1, "cooldown_period": 10.0, **fields}
    return GuardedCircuitBreakerMiddleware(GuardedCircuitBreakerMiddlewareConfig(**fields), clock=bench.clock)


def held(breaker: GuardedCircuitBreakerMiddleware, target: str = "parts") -> str:
    """State, counts, slot and hand in short."""
    now = breaker.snapshot(target)
    words = [str(now.state), str(now.failures), str(now.successes)]
    return " ".join([*words, *(["probing"] if now.probing else []), *(["forced"] if now.forced else [])])


def heard(breaker: GuardedCircuitBreakerMiddleware, **how: Any) -> list[BreakerEvent]:
    """A list that fills with what the breaker tells."""
    events: list[BreakerEvent] = []
    breaker.listen(events.append, **how)
    return events


# -- by hand -----------------------------------------------------------------------------------------------------------


def test_forced_open_rejects_until_it_is_reset(bench: Any) -> None:
    """Every call is rejected, however long one waits, without a time to try again; reset admits at once."""
    breaker = guarded(bench)
    call = bench.single(breaker, service=bench.ok)

    async def main() -> None:
        breaker.force_open("parts")
        await bench.sleep(1e6)
        with pytest.raises(CircuitBreakerOpenError) as refused:
            await call()
        assert refused.value.retry_after is None
        assert held(breaker) == "OPEN 0 0 forced"
        assert held(breaker, "documents") == "CLOSED 0 0"
        breaker.reset("parts")
        assert held(breaker) == "CLOSED 0 0"
        assert await call() == "ok"

    bench.run(main())
    assert bench.calls == 1


def test_forced_closed_counts_nothing(bench: Any) -> None:
    """An open breaker that is forced closed admits all and stays closed through failures; after a reset it trips."""
    breaker = guarded(bench)
    call = bench.single(breaker, service=bench.fails)

    async def main() -> None:
        await bench.get(call())
        breaker.force_close("parts")
        for _ in range(5):
            assert isinstance(await bench.get(call()), DependencyError)
        assert held(breaker) == "CLOSED 0 0 forced"
        breaker.reset("parts")
        await bench.get(call())
        assert held(breaker) == "OPEN 1 0"

    bench.run(main())


@pytest.mark.parametrize("act", ["force_open", "force_close", "reset"])
def test_what_is_in_flight_no_longer_counts(bench: Any, act: str) -> None:
    """Neither an ordinary call nor a probe that began before somebody took it in hand changes anything by its end."""
    breaker = guarded(bench)

    async def slow(error: Exception | None = None) -> str:
        await bench.sleep(50.0)
        if error is not None:
            raise error
        return "ok"

    call = bench.single(breaker, service=slow)

    async def main() -> None:
        stray = bench.start(bench.get(call(DependencyError("down"))))
        await bench.settle()
        await bench.half_open(breaker)
        probe = bench.start(bench.get(call()))
        await bench.settle()
        assert held(breaker) == "HALF_OPEN 1 0 probing"
        getattr(breaker, act)("parts")
        before = breaker.snapshot("parts")
        await stray
        assert await probe == "ok"
        assert breaker.snapshot("parts") == before
        assert not before.probing

    bench.run(main())


def test_what_is_done_by_hand_is_told(bench: Any) -> None:
    """A change of state by hand is told like any other, also to those who do not care for traffic; no change is not."""
    breaker = guarded(bench)
    events = heard(breaker, traffic=False)
    for act in ("force_open", "force_open", "force_close", "reset", "force_close", "force_open", "reset"):
        getattr(breaker, act)("parts")
    assert [event.kind for event in events] == ["opened", "closed", "opened", "closed"]


# -- what it tells -----------------------------------------------------------------------------------------------------


def test_it_tells_what_it_does(bench: Any) -> None:
    """Ordinary calls, opening, rejections, the probe and closing are told in order, with the state after each."""
    breaker = guarded(bench, failure_threshold=2)
    every, quiet = heard(breaker), heard(breaker, traffic=False)

    async def main() -> None:
        await bench.get(bench.single(breaker, service=bench.ok)())
        await bench.half_open(breaker)
        breaker_call = bench.single(breaker, service=bench.ok)
        await breaker_call()

    bench.run(main())
    told = [(event.kind, str(event.state), event.probe) for event in every]
    assert told == [
        *[("admitted", "CLOSED", False), ("succeeded", "CLOSED", False)],
        *[("admitted", "CLOSED", False), ("failed", "CLOSED", False)],
        *[("admitted", "CLOSED", False), ("failed", "OPEN", False), ("opened", "OPEN", False)],
        *[("half_opened", "HALF_OPEN", True), ("admitted", "HALF_OPEN", True)],
        *[("succeeded", "CLOSED", True), ("closed", "CLOSED", True)],
    ]
    assert [event.kind for event in quiet] == ["opened", "half_opened", "admitted", "succeeded", "closed"]


def test_rejections_are_told_to_everybody(bench: Any) -> None:
    """While it is open, and while a probe is in flight, each rejection is told, with or without ordinary traffic."""
    breaker = guarded(bench)

    async def main() -> None:
        call = bench.single(breaker, service=bench.hangs)
        await bench.trip(breaker)
        quiet = heard(breaker, traffic=False)
        await bench.get(call())
        every = heard(breaker)
        await bench.get(call())
        await bench.sleep(10.0)
        bench.start(bench.get(call()))
        await bench.settle()
        await bench.get(call())
        assert [event.kind for event in quiet].count("rejected") == 3
        assert [event.kind for event in every].count("rejected") == 2

    bench.run(main())


@pytest.mark.parametrize("stream", [False, True])
def test_every_admitted_call_has_an_end(bench: Any, stream: bool) -> None:
    """However a call ends, what was told as admitted is told as succeeded, failed or cancelled, once."""

    class Odd(BaseException):
        pass

    for answer in ("ok", DependencyError("down"), CancelledError(), Odd()):
        breaker = guarded(bench, failure_threshold=9)
        events = heard(breaker)
        if stream:
            service = bench.streams((answer,))
            bench.clock.run(bench.read(bench.stream(breaker, service=service)()))
        else:
            bench.clock.run(got(bench.single(breaker, service=bench.script(answer))()))
        kinds = [event.kind for event in events]
        assert kinds[0] == "admitted"
        assert len(kinds) == 2
        expected = "succeeded" if answer == "ok" else "failed" if isinstance(answer, Exception) else "cancelled"
        assert kinds[1] == expected


async def got(call: Any) -> Any:
    """What the caller gets, or what it raises."""
    try:
        return await call
    except BaseException as error:
        return type(error)


# -- probes and streams ------------------------------------------------------------------------------------------------


BOUNDS: list[tuple[dict[str, float], float]] = [
    ({"probe_timeout": 2.0}, 2.0),
    ({"probe_hold": 7.0}, 7.0),
    ({"probe_timeout": 9.0, "probe_hold": 4.0}, 4.0),
    ({}, 60.0),
]


@pytest.mark.parametrize(("fields", "seconds"), BOUNDS)
@pytest.mark.parametrize("stream", [False, True])
def test_a_probe_is_bounded(bench: Any, fields: dict[str, float], seconds: float, stream: bool) -> None:
    """A probe that hangs is ended after `probe_timeout`, never later than after `probe_hold`, and counts as failed."""
    breaker = guarded(bench, **fields)

    async def main() -> None:
        await bench.half_open(breaker)
        began = bench.now()
        if stream:
            (error,) = await bench.read(bench.stream(breaker, service=bench.streams((1e9, "late")))())
        else:
            error = await bench.get(bench.single(breaker, service=bench.hangs)())
        assert isinstance(error, TimeoutError)
        assert bench.now() - began == seconds
        assert held(breaker) == "OPEN 1 0"

    bench.run(main())


def test_ordinary_traffic_is_not_bounded(bench: Any) -> None:
    """Neither limit touches an ordinary call."""
    breaker = guarded(bench, probe_timeout=1.0, probe_hold=2.0)

    async def slow() -> str:
        await bench.sleep(100.0)
        return "ok"

    assert bench.run(bench.single(breaker, service=slow)()) == "ok"


def test_a_stream_that_goes_on_past_its_hold_is_read_to_its_end(bench: Any) -> None:
    """Chunks that keep coming are never cut off: the slot is given up after the hold, and nothing else happens."""
    breaker = guarded(bench, probe_hold=5.0)
    stream = bench.stream(breaker, service=bench.streams(tuple(x for n in range(20) for x in (1.0, str(n)))))

    async def main() -> None:
        await bench.half_open(breaker)
        task = bench.start(bench.read(stream()))
        await bench.sleep(4.9)
        assert isinstance(await bench.get(bench.single(breaker, service=bench.ok)()), CircuitBreakerOpenError)
        await bench.sleep(0.2)
        assert await bench.get(bench.single(breaker, service=bench.ok)()) == "ok"
        assert held(breaker) == "CLOSED 0 0"
        assert await task == [str(n) for n in range(20)]
        assert held(breaker) == "CLOSED 0 0"

    bench.run(main())


def test_the_consumer_of_a_probes_stream_is_outside_of_it(bench: Any) -> None:
    """What the consumer does between two chunks is no part of the probe; what the dependency does is."""
    breaker = guarded(bench)
    call = bench.single(breaker, service=bench.ok)
    inner: list[Any] = []

    async def service() -> AsyncIterator[str]:
        inner.append(await bench.get(call()))
        yield "a"
        inner.append(await bench.get(call()))
        yield "b"

    async def main() -> None:
        await bench.half_open(breaker)
        async for _ in bench.stream(breaker, service=service)():
            assert isinstance(await bench.get(call()), CircuitBreakerOpenError)
        assert inner == ["ok", "ok"]
        assert held(breaker) == "CLOSED 0 0"

    bench.run(main())


def test_a_probe_of_another_target_is_no_part_of_this_one(bench: Any) -> None:
    """Inside a probe of one target, another target that is being probed still rejects."""
    breaker = guarded(bench)

    async def main() -> None:
        for name in ("parts", "documents"):
            await bench.trip(breaker, name)
        await bench.sleep(10.0)
        documents = bench.single(breaker, service=bench.hangs, name="documents")
        bench.start(bench.get(documents()))
        await bench.settle()

        async def asks_both() -> list[Any]:
            parts = bench.single(breaker, service=bench.ok)
            return [await bench.get(parts()), await bench.get(documents())]

        answers = await bench.single(breaker, service=asks_both)()
        assert answers[0] == "ok"
        assert isinstance(answers[1], CircuitBreakerOpenError)

    bench.run(main())


def test_an_error_of_the_consumers_is_not_the_dependencys(bench: Any) -> None:
    """An exception thrown into a probe's stream is passed on, frees the slot and counts neither way."""
    breaker = guarded(bench)

    async def main() -> None:
        await bench.half_open(breaker)
        stream: Any = bench.stream(breaker, service=bench.streams(("a", "b")))()
        assert await anext(stream) == "a"
        with pytest.raises(ValueError, match="mine"):
            await stream.athrow(ValueError("mine"))
        assert held(breaker) == "HALF_OPEN 1 0"

    bench.run(main())


# -- memory ------------------------------------------------------------------------------------------------------------


def test_many_targets_leave_memory_flat(bench: Any) -> None:
    """Thousands of names that each fail once, a second apart, leave no more behind than the last six hundred did."""
    breaker = guarded(bench, failure_threshold=3, idle_period=600.0)

    async def calls(first: int, last: int) -> None:
        for number in range(first, last):
            await bench.get(bench.single(breaker, service=bench.fails, name=f"target {number}")())
            await bench.sleep(1.0)

    tracemalloc.start()
    try:
        bench.run(calls(0, 1500))
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        bench.run(calls(1500, 6000))
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert grown < 60_000  # a record and its name are some 300 bytes
    bench.run(calls(6000, 12_000))
    assert len(breaker._policy.entries) <= 602


def test_a_healthy_target_leaves_nothing(bench: Any) -> None:
    """Names that never fail are not kept at all."""
    breaker = guarded(bench)

    async def main() -> None:
        for number in range(1000):
            await bench.single(breaker, service=bench.ok, name=f"target {number}")()

    bench.run(main())
    assert not breaker._policy.entries


def test_healthy_traffic_alone_clears_up(bench: Any) -> None:
    """What failed once and never came back is forgotten while other targets are called, without a further failure."""
    breaker = guarded(bench, failure_threshold=3, idle_period=60.0)

    async def main() -> None:
        for number in range(100):
            await bench.get(bench.single(breaker, service=bench.fails, name=f"target {number}")())
        call = bench.single(breaker, service=bench.ok, name="healthy")
        await bench.sleep(60.0)
        for _ in range(50):
            await call()

    bench.run(main())
    assert not breaker._policy.entries
