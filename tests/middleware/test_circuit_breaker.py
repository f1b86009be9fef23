"""The breaker around calls and streams, by the rules of the toolkit's 1.9.0."""

from __future__ import annotations

import asyncio
import gc
import pickle
import sys
import weakref
from collections.abc import AsyncIterator
from contextlib import aclosing, suppress
from typing import Any

import pytest

from labkit.config import CircuitBreakerMiddlewareConfig
from labkit.errors import CircuitBreakerOpenError
from labkit.middleware import CircuitBreakerMiddleware, FunctionMiddlewareContext
from labkit.policies import BreakerSnapshot, CircuitBreakerState

CLOSED, OPEN, HALF_OPEN = CircuitBreakerState.CLOSED, CircuitBreakerState.OPEN, CircuitBreakerState.HALF_OPEN
TEXT = "Circuit breaker is OPEN for 'parts'. Tool is temporarily unavailable."


async def readouts(breaker: CircuitBreakerMiddleware, target: str = "parts") -> tuple[Any, ...]:
    """The toolkit's five read-outs."""
    return (
        await breaker.get_state(target),
        await breaker.get_failure_count(target),
        await breaker.get_success_count(target),
        await breaker.is_half_open_probing(target),
        await breaker.get_last_state_change(target),
    )


def test_the_five_readouts_are_the_snapshot(bench: Any) -> None:
    """The asynchronous read-outs tell, one by one, what `snapshot` tells at once, through a whole life of a breaker."""
    breaker = bench.breaker(failure_threshold=2, half_open_success_threshold=2)

    async def main() -> None:
        seen = []

        async def look() -> None:
            assert await readouts(breaker) == tuple(breaker.snapshot("parts"))
            seen.append(await readouts(breaker))

        await look()
        await bench.sleep(1.0)
        await bench.get(bench.single(breaker, service=bench.fails)())
        await look()
        await bench.get(bench.single(breaker, service=bench.fails)())
        await look()
        await bench.sleep(10.0)
        await look()
        probe = bench.start(bench.single(breaker, service=bench.script("ok"))())
        await probe
        await look()
        hanging = bench.start(bench.single(breaker, service=bench.hangs)())
        await bench.settle()
        await look()
        hanging.cancel()
        await bench.settle()
        await bench.single(breaker, service=bench.ok)()
        await look()
        assert seen == [
            (CLOSED, 0, 0, False, 0.0),
            (CLOSED, 1, 0, False, 0.0),
            (OPEN, 2, 0, False, 1.0),
            (OPEN, 2, 0, False, 1.0),  # until a call arrives
            (HALF_OPEN, 2, 1, False, 11.0),
            (HALF_OPEN, 2, 1, True, 11.0),
            (CLOSED, 0, 0, False, 0.0),
        ]

    bench.run(main())


def test_a_rejected_call_never_reaches_the_service(bench: Any) -> None:
    """In OPEN, and in HALF_OPEN beside the probe, the service is not called and the text is the toolkit's."""
    breaker = bench.breaker()

    async def main() -> None:
        await bench.trip(breaker)
        call = bench.single(breaker, service=bench.hangs)
        bench.calls = 0
        await bench.sleep(4.0)
        error = await bench.get(call())
        assert (type(error), str(error), error.target, error.retry_after) == (
            CircuitBreakerOpenError,
            TEXT,
            "parts",
            6.0,
        )
        assert isinstance(error, RuntimeError)
        await bench.sleep(6.0)
        probe = bench.start(call())
        await bench.settle()
        error = await bench.get(call())
        assert (str(error), error.target, error.retry_after) == (TEXT, "parts", None)
        assert bench.calls == 1
        probe.cancel()

    bench.run(main())


@pytest.mark.parametrize(
    ("message", "text"), [(None, TEXT), ("", TEXT), ("Look it up by hand.", f"{TEXT} Look it up by hand.")]
)
def test_the_message_is_appended(bench: Any, message: str | None, text: str) -> None:
    """The configured words follow the text after a space; none, or an empty text, adds nothing."""
    breaker = bench.breaker(circuit_breaker_message=message)

    async def main() -> str:
        await bench.trip(breaker)
        return str(await bench.get(bench.single(breaker, service=bench.ok)()))

    assert bench.run(main()) == text


def test_a_success_sets_the_count_to_zero(bench: Any) -> None:
    """The threshold counts consecutive failures: 290 failures of 300, every 30th a success, never open one of 30."""
    breaker = bench.breaker(failure_threshold=30)

    async def main() -> list[str]:
        failing, working = bench.single(breaker, service=bench.fails), bench.single(breaker, service=bench.ok)
        return [await bench.kind((working if number % 30 == 0 else failing)()) for number in range(1, 301)]

    got = bench.run(main())
    assert (got.count("DependencyError"), got.count("ok")) == (290, 10)
    assert breaker.snapshot("parts") == BreakerSnapshot(CLOSED, 0, 0, False, 0.0)


def test_of_a_thousand_callers_one_is_admitted(bench: Any) -> None:
    """1,000 callers arriving together after the cooldown: one is the probe, 999 are rejected."""
    breaker = bench.breaker()

    async def main() -> list[str]:
        await bench.half_open(breaker)
        bench.calls = 0

        async def slow() -> str:
            bench.calls += 1
            await bench.sleep(1.0)
            return "ok"

        call = bench.single(breaker, service=slow)
        tasks = [bench.start(bench.kind(call())) for _ in range(1000)]
        return [await task for task in tasks]

    got = bench.run(main())
    assert (got.count("ok"), got.count("CircuitBreakerOpenError"), bench.calls) == (1, 999, 1)
    assert breaker.snapshot("parts").state is CLOSED


def test_probes_go_one_after_the_other_without_a_cooldown(bench: Any) -> None:
    """With a success threshold of 3, three probes in a row close it in no time; a failed one opens it anew."""
    breaker = bench.breaker(half_open_success_threshold=3)

    async def main() -> None:
        await bench.half_open(breaker)
        call = bench.single(breaker, service=bench.script("ok", "ok", OSError(), "ok", "ok", "ok"))
        assert [await bench.kind(call()) for _ in range(4)] == ["ok", "ok", "OSError", "CircuitBreakerOpenError"]
        assert breaker.snapshot("parts") == BreakerSnapshot(OPEN, 1, 0, False, 10.0)
        await bench.sleep(10.0)
        assert [await bench.kind(call()) for _ in range(3)] == ["ok", "ok", "ok"]
        assert breaker.snapshot("parts").state is CLOSED
        assert bench.now() == 20.0

    bench.run(main())


def test_late_results_change_nothing(bench: Any) -> None:
    """A call that was admitted in CLOSED and ends while OPEN or HALF_OPEN is not counted, whatever it brings."""
    breaker = bench.breaker(half_open_success_threshold=2)

    async def main() -> None:
        def late(seconds: float, answer: Any) -> Any:
            async def service() -> Any:
                await bench.sleep(seconds)
                if isinstance(answer, Exception):
                    raise answer
                return answer

            return bench.start(bench.get(bench.single(breaker, service=service)()))

        tasks = [late(5.0, "ok"), late(6.0, OSError()), late(11.0, "ok"), late(12.0, OSError())]
        await bench.settle()
        await bench.half_open(breaker)
        assert breaker.snapshot("parts") == BreakerSnapshot(OPEN, 1, 0, False, 0.0)
        await bench.single(breaker, service=bench.ok)()
        held = BreakerSnapshot(HALF_OPEN, 1, 1, False, 10.0)
        assert breaker.snapshot("parts") == held
        for task in tasks:
            await task
        assert breaker.snapshot("parts") == held

    bench.run(main())


def test_a_cancelled_probe_counts_neither_way(bench: Any) -> None:
    """Cancelling the probe frees its slot and keeps the success count; the caller gets the cancellation."""
    breaker = bench.breaker(half_open_success_threshold=2)

    async def main() -> None:
        await bench.half_open(breaker)
        await bench.single(breaker, service=bench.ok)()
        probe = bench.start(bench.single(breaker, service=bench.hangs)())
        await bench.settle()
        assert breaker.snapshot("parts") == BreakerSnapshot(HALF_OPEN, 1, 1, True, 10.0)
        probe.cancel()
        await bench.settle()
        assert probe.cancelled()
        assert breaker.snapshot("parts") == BreakerSnapshot(HALF_OPEN, 1, 1, False, 10.0)

    bench.run(main())


def test_a_cancelled_ordinary_call_keeps_the_count(bench: Any) -> None:
    """A cancellation in CLOSED is neither a failure nor a success."""
    breaker = bench.breaker(failure_threshold=3)

    async def main() -> None:
        for _ in range(2):
            await bench.get(bench.single(breaker, service=bench.fails)())
        task = bench.start(bench.single(breaker, service=bench.hangs)())
        await bench.settle()
        task.cancel()
        await bench.settle()
        assert breaker.snapshot("parts").failures == 2

    bench.run(main())


def test_the_probe_timeout_bounds_probes_only(bench: Any) -> None:
    """An ordinary call may take longer than `probe_timeout`; a probe fails with `TimeoutError` and reopens."""
    breaker = bench.breaker(probe_timeout=3.0)

    async def slow() -> str:
        await bench.sleep(5.0)
        return "ok"

    async def main() -> None:
        call = bench.single(breaker, service=slow)
        assert await call() == "ok"
        await bench.half_open(breaker)
        began = bench.now()
        assert isinstance(await bench.get(call()), TimeoutError)
        assert bench.now() == began + 3.0
        assert breaker.snapshot("parts") == BreakerSnapshot(OPEN, 1, 0, False, began + 3.0)

    bench.run(main())


def test_state_is_kept_by_name_and_instance(bench: Any) -> None:
    """Two functions of one name share a state, two names or two instances do not."""
    one, other = bench.breaker(), bench.breaker()

    async def main() -> None:
        await bench.trip(one, "parts")
        assert await bench.kind(bench.single(one, service=bench.ok, name="parts")()) == "CircuitBreakerOpenError"
        assert await bench.kind(bench.single(one, service=bench.ok, name="documents")()) == "ok"
        assert await bench.kind(bench.single(other, service=bench.ok, name="parts")()) == "ok"

    bench.run(main())


def test_results_and_arguments_pass_through(bench: Any) -> None:
    """Whatever goes in and comes out is passed on as it is, also results that are false."""
    breaker = bench.breaker()
    given = object()

    async def echo(*args: Any, **kwargs: Any) -> Any:
        return args, kwargs

    async def main() -> None:
        assert await bench.single(breaker, service=echo)(given, 2, key=given) == ((given, 2), {"key": given})
        for value in (None, 0, "", False, [], StopIteration):
            assert await bench.single(breaker, service=bench.script(value))() is value

    bench.run(main())


def test_the_services_own_error_is_passed_on(bench: Any) -> None:
    """The caller gets the very exception that the service raised, and it has no cause but its own."""
    error = OSError("down")

    async def main() -> None:
        got = await bench.get(bench.single(bench.breaker(), service=bench.script(error))())
        assert got is error
        assert (got.__cause__, got.__context__) == (None, None)

    bench.run(main())


def test_an_error_shaped_result_is_a_success(bench: Any) -> None:
    """The trap of tools that return their error as text: 20 of them under a threshold of 3, and it stays CLOSED."""
    breaker = bench.breaker(failure_threshold=3)

    async def main() -> None:
        call = bench.single(breaker, service=bench.script(*["error: connection refused"] * 20))
        for _ in range(20):
            assert await call() == "error: connection refused"

    bench.run(main())
    assert breaker.snapshot("parts").state is CLOSED


def test_an_outer_breaker_counts_an_inner_ones_rejections(bench: Any) -> None:
    """Threshold 3 inside and 5 outside: three real failures and two rejections open both."""
    outer, inner = bench.breaker(failure_threshold=5), bench.breaker(failure_threshold=3)

    async def main() -> list[str]:
        call = bench.single(outer, inner, service=bench.fails)
        return [await bench.kind(call()) for _ in range(6)]

    assert bench.run(main()) == ["DependencyError"] * 3 + ["CircuitBreakerOpenError"] * 3
    assert (bench.calls, outer.snapshot("parts").state, inner.snapshot("parts").state) == (3, OPEN, OPEN)


# -- streams -----------------------------------------------------------------------------------------------------------


def test_a_stream_succeeds_when_it_is_read_to_its_end(bench: Any) -> None:
    """A stream sets the count to zero at its end, not at its first chunk."""
    breaker = bench.breaker(failure_threshold=3)

    async def main() -> None:
        await bench.get(bench.single(breaker, service=bench.fails)())
        chunks = bench.stream(breaker, service=bench.streams(("a", "b")))()
        assert await anext(chunks) == "a"
        assert await anext(chunks) == "b"
        assert breaker.snapshot("parts").failures == 1
        with pytest.raises(StopAsyncIteration):
            await anext(chunks)
        assert breaker.snapshot("parts").failures == 0

    bench.run(main())


def test_a_stream_that_dies_is_a_failure(bench: Any) -> None:
    """An exception after some chunks counts like any other, and the chunks before it were delivered."""
    breaker = bench.breaker()

    async def main() -> list[Any]:
        return await bench.read(bench.stream(breaker, service=bench.streams(("a", "b", OSError("cut"))))())

    got = bench.run(main())
    assert (got[:2], type(got[2])) == (["a", "b"], OSError)
    assert breaker.snapshot("parts").state is OPEN


def test_a_stream_is_admitted_when_it_is_first_pulled(bench: Any) -> None:
    """Making a stream asks nothing of the breaker; the first pull does, and is where a rejection is raised."""
    breaker = bench.breaker()

    async def main() -> None:
        await bench.half_open(breaker)
        chunks = bench.stream(breaker, service=bench.streams(("a",)))()
        assert breaker.snapshot("parts").state is OPEN
        await chunks.aclose()
        assert breaker.snapshot("parts").state is OPEN
        tripped = bench.breaker()
        await bench.trip(tripped)
        (error,) = await bench.read(bench.stream(tripped, service=bench.streams())())
        assert isinstance(error, CircuitBreakerOpenError)

    bench.run(main())


def test_the_probe_timeout_of_a_stream_is_per_chunk(bench: Any) -> None:
    """Each wait for a chunk has the limit; their sum, and the consumer's own time, may be longer."""
    breaker = bench.breaker(probe_timeout=3.0)

    async def main() -> None:
        await bench.half_open(breaker)
        async with aclosing(bench.stream(breaker, service=bench.streams((2.0, "a", 2.0, "b", 2.0)))()) as chunks:
            async for _ in chunks:
                await bench.sleep(50.0)
        assert breaker.snapshot("parts").state is CLOSED
        await bench.half_open(breaker)
        got = await bench.read(bench.stream(breaker, service=bench.streams(("a", 3.5, "b")))())
        assert (got[0], type(got[1])) == ("a", TimeoutError)
        assert breaker.snapshot("parts").state is OPEN

    bench.run(main())


def test_a_consumer_that_stops_early_counts_neither_way(bench: Any) -> None:
    """Closing a probe's stream frees its slot at once; closing an ordinary one records nothing."""
    breaker = bench.breaker(failure_threshold=2, half_open_success_threshold=2)

    async def main() -> None:
        await bench.get(bench.single(breaker, service=bench.fails)())
        chunks = bench.stream(breaker, service=bench.streams(("a", "b")))()
        await anext(chunks)
        await chunks.aclose()
        assert breaker.snapshot("parts") == BreakerSnapshot(CLOSED, 1, 0, False, 0.0)
        await bench.get(bench.single(breaker, service=bench.fails)())
        await bench.sleep(10.0)
        chunks = bench.stream(breaker, service=bench.streams(("a", "b")))()
        await anext(chunks)
        assert breaker.snapshot("parts") == BreakerSnapshot(HALF_OPEN, 2, 0, True, 10.0)
        await chunks.aclose()
        assert breaker.snapshot("parts") == BreakerSnapshot(HALF_OPEN, 2, 0, False, 10.0)

    bench.run(main())


@pytest.mark.parametrize("probe", [False, True])
@pytest.mark.parametrize("limit", [None, 5.0])
def test_an_error_while_the_stream_is_closed_early_is_not_the_dependencys(
    bench: Any, probe: bool, limit: float | None
) -> None:
    """A service that raises while it cleans up after a consumer left is not counted; whoever closes hears of it."""
    breaker = bench.breaker(probe_timeout=limit)

    async def service() -> AsyncIterator[str]:
        try:
            yield "a"
        finally:
            raise ValueError("in cleaning up")

    async def main() -> None:
        if probe:
            await bench.half_open(breaker)
        chunks = bench.stream(breaker, service=service)()
        await anext(chunks)
        with pytest.raises(ValueError, match="in cleaning up"):
            await chunks.aclose()
        expected = BreakerSnapshot(HALF_OPEN, 1, 0, False, 10.0) if probe else BreakerSnapshot(CLOSED, 0, 0, False, 0.0)
        assert breaker.snapshot("parts") == expected

    bench.run(main())


def test_whatever_can_be_iterated_is_a_stream(bench: Any) -> None:
    """An iterator without `aclose`, and an object that only has `__aiter__`, stream as a generator does."""

    class Iterator:
        def __init__(self) -> None:
            self.left = 2

        def __aiter__(self) -> Iterator:
            return self

        async def __anext__(self) -> int:
            if not self.left:
                raise StopAsyncIteration
            self.left -= 1
            return self.left

    class Iterable:
        def __aiter__(self) -> Iterator:
            return Iterator()

    async def main() -> None:
        for make in (Iterator, Iterable):
            for middleware in (bench.breaker(), bench.timeout(1.0), bench.retry(), bench.fallback()):
                assert await bench.read(bench.stream(middleware, service=make)()) == [1, 0]
            breaker = bench.breaker(probe_timeout=1.0)
            await bench.half_open(breaker)
            assert await bench.read(bench.stream(breaker, service=make)()) == [1, 0]
            assert breaker.snapshot("parts").state is CLOSED

    bench.run(main())


# -- without a chain, in memory, over a wire ---------------------------------------------------------------------------


def test_the_toolkits_entries_work_without_a_chain(bench: Any) -> None:
    """`function_middleware_invoke` and `_stream` (and the general two) may be called directly, as on the toolkit."""
    breaker = bench.breaker()
    context = FunctionMiddlewareContext(name="parts")

    async def echo(*args: Any, **kwargs: Any) -> Any:
        return args, kwargs

    async def main() -> None:
        for invoke in (breaker.function_middleware_invoke, breaker.middleware_invoke):
            assert await invoke(1, call_next=echo, context=context, key=2) == ((1,), {"key": 2})
        for stream in (breaker.function_middleware_stream, breaker.middleware_stream):
            service = bench.streams(("a", "b"))
            assert await bench.read(stream(1, call_next=service, context=context)) == ["a", "b"]
        assert isinstance(
            await bench.get(breaker.function_middleware_invoke(call_next=bench.fails, context=context)), Exception
        )
        assert await breaker.get_state("parts") is OPEN

    bench.run(main())


def test_a_hundred_thousand_rejections_leave_nothing(bench: Any) -> None:
    """Rejections make no reference cycles and keep no memory, and the registry stays at one target."""
    breaker = bench.breaker()

    async def storm(call: Any, count: int) -> None:
        for _ in range(count):
            with suppress(CircuitBreakerOpenError):
                await call()

    async def main() -> None:
        await bench.trip(breaker)
        call = bench.single(breaker, service=bench.ok)
        await storm(call, 1000)
        gc.collect()
        gc.disable()
        try:
            before = sys.getallocatedblocks()
            await storm(call, 100_000)
            assert sys.getallocatedblocks() - before < 100
            assert gc.collect() == 0
        finally:
            gc.enable()
        assert list(breaker._policy.entries) == ["parts"]

    bench.run(main())


def test_a_hundred_thousand_targets_leave_nothing(bench: Any) -> None:
    """Targets that succeed, also after a failure, are not kept (the toolkit keeps each for ever)."""
    breaker = bench.breaker(failure_threshold=3)
    context = [FunctionMiddlewareContext(name=f"target {number}") for number in range(100_000)]

    async def main() -> None:
        for number, one in enumerate(context):
            if number % 100 == 0:
                await bench.get(breaker.function_middleware_invoke(call_next=bench.fails, context=one))
            await breaker.function_middleware_invoke(call_next=bench.ok, context=one)

    bench.run(main())
    assert breaker._policy.entries == {}


def test_a_breaker_and_its_chain_die_without_the_collector(bench: Any) -> None:
    """When a chain and its breaker are dropped, counting references is enough to free what they held."""
    gc.collect()
    gc.disable()
    try:
        payload = bench.breaker()
        call = bench.single(payload, service=bench.ok)
        bench.run(call())
        ref = weakref.ref(call)
        del call
        assert ref() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("retry_after", [None, 12.5])
def test_the_rejection_can_be_pickled(retry_after: float | None) -> None:
    """A rejection survives a trip to another process with its text, target and time, and with what was added to it."""
    error = CircuitBreakerOpenError(TEXT, "parts", retry_after)
    error.add_note("seen by the agent")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is CircuitBreakerOpenError
    assert (str(copy), copy.target, copy.retry_after) == (TEXT, "parts", retry_after)
    assert copy.__notes__ == ["seen by the agent"]
    bare = pickle.loads(pickle.dumps(CircuitBreakerOpenError("by hand")))
    assert (str(bare), bare.target, bare.retry_after) == ("by hand", None, None)


def test_the_default_clock_is_asyncios() -> None:
    """Without a clock, as an application makes it, the breaker lives in the running loop's time."""
    breaker = CircuitBreakerMiddleware(CircuitBreakerMiddlewareConfig(failure_threshold=1), None)

    async def down() -> None:
        raise OSError

    async def main() -> float:
        with pytest.raises(OSError):
            await breaker.function_middleware_invoke(call_next=down, context=FunctionMiddlewareContext(name="parts"))
        return asyncio.get_running_loop().time() - await breaker.get_last_state_change("parts")

    assert 0.0 <= asyncio.run(main()) < 5.0
    assert breaker.snapshot("parts").state is OPEN
