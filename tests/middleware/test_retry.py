"""Trying again: what is retried, when, until when, and what the caller is told in the end."""

from __future__ import annotations

import asyncio
import gc
from asyncio import CancelledError
from collections.abc import AsyncIterator
from typing import Any

import pytest

from labkit.config import RetryBudgetMiddlewareConfig, RetryMiddlewareConfig
from labkit.errors import (
    BusinessRejection,
    CircuitBreakerOpenError,
    DependencyError,
    OverloadedError,
    RateLimitedError,
)
from labkit.middleware import FunctionMiddlewareContext, RetryBudgetMiddleware, RetryMiddleware, RetryReport, Stack
from labkit.policies.retry import TRANSITIONS
from labkit.timing import LoopClock, VirtualClock, run_virtual


def down() -> DependencyError:
    """A failure that is worth another attempt."""
    return DependencyError("down")


def test_it_tries_until_it_succeeds(bench: Any) -> None:
    """Two failures and a success: three attempts, waits of 1 and 2 seconds, and the caller sees the success alone."""

    async def main() -> str:
        return await bench.single(bench.retry(5), service=bench.script(down(), down(), "ok"))()

    assert bench.run(main()) == "ok"
    assert (bench.calls, bench.now()) == (3, 3.0)


def test_the_last_error_comes_with_a_report(bench: Any) -> None:
    """On giving up it raises the last error itself, with attempts, waits and the reason on it, and a note."""
    last = down()

    async def main() -> Any:
        return await bench.get(bench.single(bench.retry(3), service=bench.script(down(), down(), last))())

    error = bench.run(main())
    assert error is last
    assert error.retry_report == RetryReport(3, (1.0, 2.0), "all 3 attempts failed")
    assert error.__notes__ == ["given up after 3 attempts (waits: 1, 2 s): all 3 attempts failed"]
    assert (error.__cause__, error.__context__) == (None, None)


def test_an_error_without_room_is_passed_on(bench: Any) -> None:
    """An exception of a class that takes no attributes is raised all the same."""

    class Tight(ConnectionError):
        __slots__ = ()

        def __setattr__(self, name: str, value: object) -> None:
            raise AttributeError(name)

    last = Tight("full")

    async def main() -> Any:
        return await bench.get(bench.single(bench.retry(2), service=bench.script(last, last))())

    assert bench.run(main()) is last
    assert bench.calls == 2


NEVER = [
    CircuitBreakerOpenError("open", "parts", 3.0),
    BusinessRejection("unknown part"),
]


@pytest.mark.parametrize("error", NEVER, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("mode", ["single", "stream"])
def test_what_is_never_retried(bench: Any, error: Exception, mode: str) -> None:
    """A rejection by a breaker and a no of the business pass at once, even when every exception is to be retried."""
    retry = bench.retry(5, retry_on=["Exception"])

    async def main() -> Any:
        if mode == "single":
            return await bench.get(bench.single(retry, service=bench.script(error))())
        return (await bench.read(bench.stream(retry, service=bench.streams((error,)))()))[0]

    got = bench.run(main())
    assert got is error
    assert (bench.calls, bench.now()) == (1, 0.0)
    assert not hasattr(got, "retry_report")  # nothing was given up: there was nothing to try


def test_only_what_is_named_is_retried(bench: Any) -> None:
    """The names of `retry_on` count with their subclasses; anything else is passed on."""

    async def main() -> list[str]:
        retry = bench.retry(2, retry_on=["ConnectionError", "json.JSONDecodeError"])
        import json

        errors = [ConnectionResetError(), json.JSONDecodeError("no", "", 0), ValueError(), TimeoutError()]
        return [await bench.kind(bench.single(retry, service=bench.script(error, "ok"))()) for error in errors]

    assert bench.run(main()) == ["ok", "ok", "ValueError", "TimeoutError"]


def test_an_error_that_is_not_retried_after_one_that_is(bench: Any) -> None:
    """The second attempt's error decides; the report says how many there were."""

    async def main() -> Any:
        return await bench.get(bench.single(bench.retry(5), service=bench.script(down(), KeyError("x")))())

    error = bench.run(main())
    assert error.retry_report == RetryReport(2, (1.0,), "KeyError is not retried")


@pytest.mark.parametrize("where", ["attempt", "wait"])
def test_a_cancellation_ends_it(bench: Any, where: str) -> None:
    """Cancelling the caller during an attempt or during a wait ends it there: no further attempt is made."""

    async def main() -> None:
        service = bench.hangs if where == "attempt" else bench.fails
        task = bench.start(bench.single(bench.retry(9), service=service)())
        await bench.sleep(0.5)
        task.cancel()
        assert isinstance(await bench.get(task), CancelledError)
        await bench.sleep(100.0)
        assert bench.calls == 1

    bench.run(main())


def test_a_budget_ends_it_before_the_wait(bench: Any) -> None:
    """The operation's budget covers attempts and waits, and no wait begins that would pass it."""

    async def slow() -> None:
        bench.calls += 1
        await bench.sleep(2.0)
        raise down()

    async def main() -> Any:
        await bench.sleep(1000.0)  # the budget counts from the call
        return await bench.get(bench.single(bench.retry(99, factor=1.0, time_budget=8.0), service=slow)())

    error = bench.run(main())
    # Attempts end at 2, 5 and 8 s; after 8 s another second would pass the budget.
    assert error.retry_report == RetryReport(3, (1.0, 1.0), "the next wait would pass the time budget of 8 s")
    assert bench.now() == 1008.0


def test_one_attempt_is_no_retry(bench: Any) -> None:
    """`attempts: 1` calls once and passes the error on, with a report but without a note."""

    async def main() -> Any:
        return await bench.get(bench.single(bench.retry(1), service=bench.fails)())

    error = bench.run(main())
    assert bench.calls == 1
    assert error.retry_report == RetryReport(1, (), "the only attempt failed")
    assert not hasattr(error, "__notes__")


def test_a_seed_decides_the_waits(bench: Any) -> None:
    """With full jitter two retries of one seed wait alike, and one of another seed does not."""

    async def waits(seed: int) -> tuple[float, ...]:
        retry = bench.retry(6, jitter="full", seed=seed, base_delay=1.0)
        error = await bench.get(bench.single(retry, service=bench.fails)())
        found: tuple[float, ...] = error.retry_report.waits
        return found

    async def main() -> None:
        one, two, three = await waits(7), await waits(7), await waits(8)
        assert one == two != three
        assert all(0.0 <= wait < 2.0**number for number, wait in enumerate(one))

    bench.run(main())


AGAIN = """
middleware: {again: {_type: retry, attempts: 6, base_delay: 1}}
functions: {parts: {_type: parts, middleware: [again]}}
"""


@pytest.mark.parametrize("host", ["virtual clock", "virtual loop"])
def test_without_a_seed_virtual_time_is_the_same_each_time(host: str) -> None:
    """A retry without a seed waits alike in every run in virtual time, as with the seed 0."""

    async def fails() -> None:
        raise down()

    async def main(stack: Stack) -> tuple[float, ...]:
        try:
            await stack.call("parts")
        except DependencyError as error:
            return error.retry_report.waits  # type: ignore[attr-defined,no-any-return]
        return ()

    def waits(text: str) -> tuple[float, ...]:
        clock = VirtualClock() if host == "virtual clock" else LoopClock()
        coroutine = main(Stack.load(text, services={"parts": fails}, clock=clock))
        return clock.run(coroutine) if isinstance(clock, VirtualClock) else run_virtual(coroutine)

    assert waits(AGAIN) == waits(AGAIN) == waits(AGAIN.replace("attempts", "seed: 0, attempts"))
    assert waits(AGAIN) != waits(AGAIN.replace("attempts", "seed: 1, attempts"))


def test_without_a_seed_replicas_do_not_wait_in_step() -> None:
    """In real time each retry without a seed waits otherwise than all others; with a seed, as the seed says."""

    async def waits(seed: int | None) -> tuple[float, ...]:
        retry = RetryMiddleware(RetryMiddlewareConfig(attempts=5, base_delay=1e-9, seed=seed))
        call = retry._single(fails, FunctionMiddlewareContext(name="parts"))
        try:
            await call()
        except DependencyError as error:
            return error.retry_report.waits  # type: ignore[attr-defined,no-any-return]
        return ()

    async def fails() -> None:
        raise down()

    async def main() -> None:
        assert len({await waits(None) for _ in range(10)}) == 10
        assert len({await waits(0) for _ in range(10)}) == 1

    asyncio.run(main())


@pytest.mark.parametrize("mode", ["single", "stream"])
def test_it_comes_back_when_it_was_told_to(bench: Any, mode: str) -> None:
    """After a 429 that says 30 seconds the second attempt is made at 30, a stream's too."""
    retry, late = bench.retry(3), RateLimitedError("too many calls", 30.0)

    async def main() -> Any:
        if mode == "single":
            return await bench.single(retry, service=bench.script(late, down(), "ok"))()
        return (await bench.read(bench.stream(retry, service=bench.streams((late,), (down(),), ("ok",)))()))[0]

    assert bench.run(main()) == "ok"
    assert (bench.calls, bench.now()) == (3, 32.0)


def test_it_gives_up_at_once_where_that_is_too_late(bench: Any) -> None:
    """A time budget of 10 seconds does not wait for 30: the error is passed on now, with the reason."""
    late = RateLimitedError("too many calls", 30.0)

    async def main() -> Any:
        return await bench.get(bench.single(bench.retry(3, time_budget=10.0), service=bench.script(late))())

    error = bench.run(main())
    assert (error is late, bench.now()) == (True, 0.0)
    assert error.retry_report == RetryReport(1, (), "the next wait would pass the time budget of 10 s")


# -- streams -----------------------------------------------------------------------------------------------------------


def test_a_stream_is_retried_before_its_first_chunk(bench: Any) -> None:
    """A stream that fails before it delivered anything is begun again."""
    service = bench.streams((down(),), (0.5, down()), ("a", "b"))

    async def main() -> list[Any]:
        return await bench.read(bench.stream(bench.retry(5), service=service)())

    assert bench.run(main()) == ["a", "b"]
    assert (bench.calls, bench.now()) == (3, 3.5)


def test_a_stream_is_not_begun_twice(bench: Any) -> None:
    """After the first chunk the error is passed on: what was delivered cannot be taken back."""

    async def main() -> list[Any]:
        return await bench.read(bench.stream(bench.retry(5), service=bench.streams((down(),), ("a", down())))())

    chunk, error = bench.run(main())
    assert chunk == "a"
    assert error.retry_report == RetryReport(2, (1.0,), "a chunk had been delivered")
    assert bench.calls == 2


def test_a_stream_that_is_given_up_has_a_report(bench: Any) -> None:
    """A stream that never delivers anything ends as a call does."""

    async def main() -> list[Any]:
        return await bench.read(bench.stream(bench.retry(2), service=bench.streams((down(),), (down(),)))())

    (error,) = bench.run(main())
    assert error.retry_report == RetryReport(2, (1.0,), "all 2 attempts failed")


def test_each_failed_stream_is_closed_before_the_next(bench: Any) -> None:
    """An attempt's generator has cleaned up before the wait begins, and a consumer that leaves closes the last one."""
    seen: list[str] = []

    async def service() -> AsyncIterator[str]:
        bench.calls += 1
        attempt = bench.calls
        try:
            if attempt < 3:
                raise down()
            yield "a"
            yield "b"
        finally:
            seen.append(f"{attempt} closed at {bench.now():g}")

    async def main() -> None:
        chunks = bench.stream(bench.retry(5), service=service)()
        assert await anext(chunks) == "a"
        await chunks.aclose()

    bench.run(main())
    assert seen == ["1 closed at 0", "2 closed at 1", "3 closed at 3"]


def test_an_empty_stream_is_a_success(bench: Any) -> None:
    """A stream that ends without a chunk is not a failure."""

    async def main() -> list[Any]:
        return await bench.read(bench.stream(bench.retry(5), service=bench.streams(()))())

    assert bench.run(main()) == []
    assert bench.calls == 1


# -- memory, and the table ---------------------------------------------------------------------------------------------


def test_failures_make_no_cycles(bench: Any) -> None:
    """Operations that are given up, and that succeed after failures, leave nothing for the collector."""
    retry = bench.retry(3, base_delay=0.0)

    async def recovers() -> str:  # raises what it keeps no reference to, which would be a cycle of its own
        bench.calls += 1
        if bench.calls % 2:
            raise down()
        return "ok"

    async def dies() -> AsyncIterator[str]:
        raise down()
        yield "never"

    failing, recovering = bench.single(retry, service=bench.fails), bench.single(retry, service=recovers)
    chunks = bench.stream(retry, service=dies)

    async def lose(call: Any) -> None:
        try:
            await call
        except DependencyError:
            return

    async def read(stream: Any) -> None:
        try:
            async for _ in stream:
                pass
        except DependencyError:
            return

    async def main() -> int:
        gc.collect()
        gc.disable()
        try:
            for _ in range(1000):
                await lose(failing())
                bench.calls = 0
                await recovering()
                await read(chunks())
            return gc.collect()
        finally:
            gc.enable()

    assert bench.run(main()) == 0


def test_each_row_of_the_table_happens(bench: Any) -> None:
    """Each row of the table is played, and ends as it says."""

    async def cancelled(service: Any) -> str:
        task = bench.start(bench.single(bench.retry(3), service=service)())
        await bench.sleep(0.5)
        task.cancel()
        return await bench.kind(task)

    def call(retry: Any, *answers: Any) -> Any:
        return bench.kind(bench.single(retry, service=bench.script(*answers))())

    def penniless() -> Any:
        retry = bench.retry(3, budget="shared")
        retry.connect(RetryBudgetMiddleware(RetryBudgetMiddlewareConfig(initial_tokens=0), clock=bench.clock))
        return retry

    async def after_a_chunk() -> str:
        return type(
            (await bench.read(bench.stream(bench.retry(3), service=bench.streams(("a", down())))()))[1]
        ).__name__

    async def main() -> dict[tuple[str, str, str], tuple[str, int]]:
        async def count(outcome: Any) -> tuple[str, int]:
            bench.calls = 0
            return await outcome, bench.calls

        again = await count(call(bench.retry(3), down(), "ok"))
        return {
            ("ATTEMPTING", "success", ""): await count(call(bench.retry(3), "ok")),
            ("ATTEMPTING", "failure", "retryable, attempts left, wait within the budget"): again,
            ("WAITING", "wait over", ""): again,
            ("ATTEMPTING", "failure", "not retryable"): await count(call(bench.retry(3), KeyError())),
            ("ATTEMPTING", "failure", "no attempts left"): await count(call(bench.retry(2), down(), down())),
            ("ATTEMPTING", "failure", "the wait would pass time_budget"): await count(
                call(bench.retry(3, time_budget=0.5), down())
            ),
            ("ATTEMPTING", "failure", "retry_after is more than a day"): await count(
                call(bench.retry(3), OverloadedError("full", 1e6))
            ),
            ("ATTEMPTING", "failure", "the retry budget is used up"): await count(call(penniless(), down())),
            ("ATTEMPTING", "failure", "a chunk was delivered"): await count(after_a_chunk()),
            ("ATTEMPTING", "cancelled", ""): await count(cancelled(bench.hangs)),
            ("WAITING", "cancelled", ""): await count(cancelled(bench.fails)),
        }

    played = bench.run(main())
    assert set(played) == {(row.source, row.trigger, row.guard) for row in TRANSITIONS}
    assert list(played.values()) == [
        ("ok", 1),
        ("ok", 2),
        ("ok", 2),
        ("KeyError", 1),
        ("DependencyError", 2),
        ("DependencyError", 1),
        ("OverloadedError", 1),
        ("DependencyError", 1),
        ("DependencyError", 1),
        ("CancelledError", 1),
        ("CancelledError", 1),
    ]
