"""The limit on a call with all that is inside it, and on a stream to its last chunk."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest

from labkit.policies.timeout import TRANSITIONS

TEXT = "Execution exceeded the configured timeout of 2.0s."


@pytest.mark.parametrize(("message", "text"), [(None, TEXT), ("", TEXT), ("Try later.", f"{TEXT} Try later.")])
@pytest.mark.parametrize("mode", ["single", "stream"])
def test_the_text_is_the_toolkits(bench: Any, mode: str, message: str | None, text: str) -> None:
    """A call and a stream that take too long raise `TimeoutError` with the toolkit's text, at the limit."""
    limit = bench.timeout(2.0, message)

    async def main() -> None:
        if mode == "single":
            error = await bench.get(bench.single(limit, service=bench.hangs)())
        else:
            *chunks, error = await bench.read(bench.stream(limit, service=bench.streams(("a", 9.0, "b")))())
            assert chunks == ["a"]
        assert (type(error), str(error)) == (TimeoutError, text)
        assert bench.now() == 2.0

    bench.run(main())


def test_what_ends_in_time_is_passed_on(bench: Any) -> None:
    """A result and an error before the limit are passed on as they are."""
    error = OSError("down")

    async def main() -> None:
        call = bench.single(bench.timeout(2.0), service=bench.script(None, error))
        assert await call() is None
        assert await bench.get(call()) is error

    bench.run(main())


def test_the_inside_may_clean_up(bench: Any) -> None:
    """What is inside is cancelled, gets to finish its clean-up, and the error comes after it."""
    seen: list[Any] = []

    async def service() -> None:
        try:
            await bench.sleep(99.0)
        except CancelledError:
            seen.append(bench.now())
            await bench.sleep(3.0)
            seen.append(bench.now())
            raise

    async def main() -> str:
        return await bench.kind(bench.single(bench.timeout(2.0), service=service)())

    assert bench.run(main()) == "TimeoutError"
    assert seen == [2.0, 5.0]


def test_what_the_inside_makes_of_its_cancellation_counts(bench: Any) -> None:
    """A service that answers its cancellation with a result or an error of its own gives that, as on the toolkit."""

    async def main() -> None:
        for answer in ("partial", OSError("closed")):

            async def service(answer: Any = answer) -> Any:
                try:
                    await bench.sleep(99.0)
                except CancelledError:
                    if isinstance(answer, Exception):
                        raise answer from None
                    return answer

            assert await bench.get(bench.single(bench.timeout(2.0), service=service)()) is answer

    bench.run(main())


def test_a_cancellation_from_outside_stays_one(bench: Any) -> None:
    """Cancelling the caller is not turned into a TimeoutError, also while the inside cleans up after the limit."""

    async def stubborn() -> None:
        try:
            await bench.sleep(99.0)
        finally:
            await bench.sleep(5.0)

    async def main() -> None:
        for service, seconds in ((bench.hangs, 1.0), (stubborn, 3.0)):
            task = bench.start(bench.single(bench.timeout(2.0), service=service)())
            await bench.sleep(seconds)
            task.cancel()
            assert isinstance(await bench.get(task), CancelledError)

    bench.run(main())


def test_nested_limits_raise_their_own(bench: Any) -> None:
    """The shorter one fires, wherever it stands; of two that fall on one instant the outer one speaks."""

    async def main() -> None:
        for outer, inner, speaks in ((1.0, 2.0, 1.0), (2.0, 1.0, 1.0)):
            error = await bench.get(bench.single(bench.timeout(outer), bench.timeout(inner), service=bench.hangs)())
            assert str(error) == f"Execution exceeded the configured timeout of {speaks}s."
        both = bench.single(bench.timeout(2.0, "outer"), bench.timeout(2.0, "inner"), service=bench.hangs)
        error = await bench.get(both())
        assert str(error) == f"{TEXT} outer"

    bench.run(main())


def test_a_stream_has_one_limit_for_all(bench: Any) -> None:
    """Chunks that each come in time do not extend the limit: it counts from the first pull."""

    async def main() -> None:
        chunks = bench.stream(bench.timeout(2.0), service=bench.streams((0.75, "a", 0.75, "b", 0.75, "c")))()
        await bench.sleep(50.0)  # nobody has pulled yet
        *got, error = await bench.read(chunks)
        assert (got, type(error), bench.now()) == (["a", "b"], TimeoutError, 52.0)

    bench.run(main())


def test_a_slow_consumer_is_told_at_its_next_pull(bench: Any) -> None:
    """A consumer that is busy past the limit is not cancelled; its next pull raises, and the service is closed."""
    closed: list[float] = []

    async def service() -> AsyncIterator[str]:
        try:
            yield "a"
            yield "b"
        finally:
            closed.append(bench.now())

    async def main() -> None:
        async with aclosing(bench.stream(bench.timeout(2.0), service=service)()) as chunks:
            assert await anext(chunks) == "a"
            await bench.sleep(5.0)
            with pytest.raises(TimeoutError, match=r"exceeded the configured timeout of 2\.0s"):
                await anext(chunks)

    bench.run(main())
    assert closed == [5.0]


def test_closing_a_stream_early_closes_the_service(bench: Any) -> None:
    """Leaving early is no timeout: the service's generator is closed at once, and no limit is left behind."""
    closed: list[str] = []

    async def service() -> AsyncIterator[str]:
        try:
            yield "a"
            await bench.sleep(99.0)
        finally:
            closed.append("closed")

    async def main() -> None:
        chunks = bench.stream(bench.timeout(2.0), service=service)()
        await anext(chunks)
        await chunks.aclose()
        assert closed == ["closed"]
        await bench.sleep(10.0)

    bench.run(main())


@pytest.mark.parametrize("seconds", [1e-9, float("inf")])
def test_extreme_limits(bench: Any, seconds: float) -> None:
    """A tiny limit lets through what needs no time, an infinite one never fires."""

    async def main() -> None:
        assert await bench.single(bench.timeout(seconds), service=bench.ok)() == "ok"
        assert await bench.read(bench.stream(bench.timeout(seconds), service=bench.streams(("a", "b")))()) == ["a", "b"]

    bench.run(main())


def test_each_row_of_the_table_happens(bench: Any) -> None:
    """The table's rows are these five, each played."""

    async def cancelled() -> str:
        task = bench.start(bench.single(bench.timeout(2.0), service=bench.hangs)())
        await bench.sleep(1.0)
        task.cancel()
        return await bench.kind(task)

    async def next_pull() -> str:
        chunks = bench.stream(bench.timeout(2.0), service=bench.streams(("a", "b")))()
        await anext(chunks)
        await bench.sleep(2.0)
        return await bench.kind(anext(chunks))

    def call(service: Any) -> Any:
        return bench.kind(bench.single(bench.timeout(2.0), service=service)())

    async def main() -> dict[tuple[str, str], str]:
        return {
            ("RUNNING", "result"): await call(bench.ok),
            ("RUNNING", "error"): await call(bench.fails),
            ("RUNNING", "deadline"): await call(bench.hangs),
            ("RUNNING", "cancelled"): await cancelled(),
            ("RUNNING", "next pull"): await next_pull(),
        }

    played = bench.run(main())
    assert set(played) == {(row.source, row.trigger) for row in TRANSITIONS}
    for row in TRANSITIONS:
        assert (played[row.source, row.trigger] == "TimeoutError") is (row.target == "EXPIRED")
