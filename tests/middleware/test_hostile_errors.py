"""Errors that let nobody touch them come out of every layer as they are."""

from __future__ import annotations

import pickle
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from labkit.config import load_stack_config
from labkit.errors import annotate
from labkit.middleware import Stack
from labkit.timing import LoopClock, VirtualClock, run_virtual


class TakesNoNote(ConnectionError):
    """Refuses notes."""

    def add_note(self, note: str, /) -> None:
        raise TypeError("no notes")


class TakesNothing(ConnectionError):
    """Refuses every attribute, whoever sets it."""

    def __setattr__(self, name: str, value: object) -> None:
        raise TypeError("no attributes")


class HasATuple(ConnectionError):
    """Came with notes of its own, which are no list."""

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        self.__dict__["__notes__"] = ("its own",)


class Frozen(HasATuple):
    """All of it at once."""

    __slots__ = ()

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(name)

    def add_note(self, note: str, /) -> None:
        raise SystemError("no notes")


HOSTILE = [TakesNoNote, TakesNothing, HasATuple, Frozen]

STACK = """
middleware:
  breaker: {_type: circuit_breaker, failure_threshold: 1, cooldown_period: 1, probe_timeout: 5}
  guarded: {_type: guarded_circuit_breaker, failure_threshold: 1, cooldown_period: 1, probe_timeout: 5}
  leased: {_type: guarded_circuit_breaker, failure_threshold: 1, cooldown_period: 1, probe_lease: lease}
  window: {_type: window_circuit_breaker, failure_threshold: 1, interval: 9, open_duration: 1, probe_timeout: 5}
  limit: {_type: timeout, timeout: 50}
  again: {_type: retry, attempts: 3, base_delay: 2, jitter: none, time_budget: 50}
  places: {_type: bulkhead, max_concurrent: 1}
  spare: {_type: fallback, errors: [KeyError]}
leases:
  lease: {_type: memory}
functions:
  parts: {_type: parts, middleware: [%s]}
"""
LISTS = [
    *("breaker", "guarded", "leased", "window", "limit", "again", "places", "spare"),
    "again, breaker",
    "again, guarded, limit",
    "again, leased, places",
    "again, window",
]


class Failing:
    """A service with one error, raised again and again."""

    def __init__(self, error: Exception, chunks: int = 0) -> None:
        self.error, self.chunks = error, chunks

    async def call(self) -> None:
        """Fails."""
        raise self.error

    async def stream(self) -> AsyncIterator[int]:
        """Fails after some chunks."""
        for number in range(self.chunks):
            yield number
        raise self.error


async def raised(call: Awaitable[Any] | AsyncIterator[Any]) -> Exception | None:
    """What it raises."""
    try:
        if isinstance(call, AsyncIterator):
            async for _ in call:
                pass
        else:
            await call
    except Exception as error:
        return error
    return None


@pytest.mark.parametrize("chunks", [None, 0, 1])
@pytest.mark.parametrize("listed", LISTS)
@pytest.mark.parametrize("kind", HOSTILE)
def test_the_error_itself_comes_out(kind: Callable[..., Exception], listed: str, chunks: int | None) -> None:
    """Through every layer, as an ordinary call and as a probe, single and streamed, on both clocks."""

    async def main(clock: Any) -> None:
        error = kind("down")
        stack = Stack(load_stack_config(STACK % listed), {"parts": Failing(error, chunks or 0)}, clock)
        for _ in range(3):
            call = stack.call("parts") if chunks is None else stack.stream("parts")
            assert await raised(call) is error
            await clock.sleep(2.0)

    virtual = VirtualClock()
    virtual.run(main(virtual))
    run_virtual(main(LoopClock()))


def test_a_shared_error_gathers_one_note(bench: Any) -> None:
    """One instance that is raised a hundred times, with another reason in between, has the latest note and no other."""
    error = ConnectionError("down")
    error.add_note("its own")
    call = bench.single(bench.retry(2, time_budget=5.0), service=Failing(error).call)

    async def late(*_: Any) -> None:
        await bench.sleep(4.5)
        raise error

    slow = bench.single(bench.retry(2, time_budget=5.0), service=late)

    async def main() -> None:
        for _ in range(100):
            assert await bench.get(call()) is error
        await bench.get(slow())

    bench.run(main())
    assert error.__notes__ == ["its own", "given up after 2 attempts (waits: 1 s): all 2 attempts failed"]
    assert error.retry_report.attempts == 1  # type: ignore[attr-defined]


def test_two_retries_of_one_chain_leave_a_note_each(bench: Any) -> None:
    """An inner and an outer retry that give up on one instance are both told of, once each."""
    error = ConnectionError("down")
    call = bench.single(bench.retry(2), bench.retry(3), service=Failing(error).call)

    async def main() -> None:
        for _ in range(10):
            assert await bench.get(call()) is error

    bench.run(main())
    assert sorted(note.partition(" (")[0] for note in error.__notes__) == [
        "given up after 2 attempts",
        "given up after 3 attempts",
    ]


def test_a_note_is_replaced_and_travels() -> None:
    """A hand's second note replaces its first, another hand's is added, and a copy by pickle has both."""
    error = TimeoutError("slow")
    annotate(error, "one", by=1)
    annotate(error, "other", by=2)
    annotate(error, "two", by=1)
    copy = pickle.loads(pickle.dumps(error))
    annotate(copy, "three", by=1)
    assert (error.__notes__, copy.__notes__) == (["two", "other"], ["three", "other"])
