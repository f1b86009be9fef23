"""A leased probe of a stream runs in one task, and nobody else probes before it has really ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from contextvars import ContextVar
from typing import Any

import pytest

from labkit.errors import CircuitBreakerOpenError, DependencyError
from labkit.middleware import Stack
from labkit.timing import LoopClock, run_virtual

TEXT = """
leases:
  probe: {_type: memory, time_to_live: 10}
middleware:
  breaker: {_type: guarded_circuit_breaker, failure_threshold: 1, cooldown_period: 5, probe_lease: probe}
functions:
  parts: {_type: parts, middleware: [breaker]}
"""
KEPT: ContextVar[int] = ContextVar("kept", default=0)


class Parts:
    """A service that fails once and then streams, or takes a call, as it is told."""

    def __init__(self, source: Callable[[], Any]) -> None:
        self.source = source
        self.failing = True

    async def stream(self, _: Any) -> AsyncIterator[Any]:
        """Chunks."""
        if self.failing:
            raise DependencyError("down")
        async with aclosing(self.source()) as chunks:
            async for chunk in chunks:
                yield chunk

    async def call(self, _: Any) -> Any:
        """One result."""
        if self.failing:
            raise DependencyError("down")
        return await self.source()


def probed(source: Callable[[], Any], main: Callable[[Stack], Awaitable[Any]]) -> Any:
    """What `main` gives on a stack whose breaker has opened and whose cooldown is over."""

    async def run() -> Any:
        parts = Parts(source)
        stack = Stack.load(TEXT, services={"parts": parts}, clock=LoopClock())
        with pytest.raises(DependencyError):
            await stack.call("parts", 0)
        parts.failing = False
        await LoopClock().sleep(5.0)
        return await main(stack)

    return run_virtual(run())


async def all_of(stack: Stack) -> tuple[Any, str]:
    """All chunks, or the error, and the breaker's state."""
    breaker: Any = stack.middleware["breaker"]
    try:
        found: Any = [chunk async for chunk in stack.stream("parts", 0)]
    except Exception as error:
        found = type(error).__name__
    return found, str(await breaker.get_state("parts"))


async def keeps() -> AsyncIterator[int]:
    """A stream that keeps something in its context from chunk to chunk."""
    token = KEPT.set(1)
    try:
        yield 1
        yield KEPT.get()
    finally:
        KEPT.reset(token)


async def limits() -> AsyncIterator[int]:
    """A stream with a limit of its own, which it passes."""
    async with asyncio.timeout(0.2):
        yield 1
        await LoopClock().sleep(1.0)
        yield 2


def test_a_stream_keeps_its_context() -> None:
    """What a stream sets in a context variable is there at its next chunk and can be reset at its end."""
    assert probed(keeps, all_of) == ([1, 1], "CLOSED")


def test_a_limit_of_the_streams_own_works() -> None:
    """A limit that a stream has entered ends it, and the probe has failed."""
    assert probed(limits, all_of) == ("TimeoutError", "OPEN")


def test_a_reader_that_leaves_frees_slot_and_lease() -> None:
    """After a reader has left the stream early, the next one probes and closes the breaker."""

    async def main(stack: Stack) -> Any:
        async for _ in (stream := stack.stream("parts", 0)):
            break
        await stream.aclose()  # type: ignore[attr-defined]
        await LoopClock().sleep(0.1)  # the lease is given back beside it
        return await all_of(stack)

    assert probed(keeps, main) == ([1, 1], "CLOSED")


@pytest.mark.parametrize("how", ["call", "stream"])
def test_a_probe_that_resists_keeps_its_lease(how: str) -> None:
    """A probe whose caller cancels it twice, and which goes on all the same, keeps others out until it has ended."""
    clock = LoopClock()
    running = 0
    most = 0

    async def stubborn() -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        until = clock.now() + 2.0
        while clock.now() < until:
            try:
                await clock.sleep(0.5)
            except asyncio.CancelledError:
                continue
        running -= 1
        return "late"

    async def chunks() -> AsyncIterator[str]:
        yield await stubborn()

    async def main(stack: Stack) -> list[str]:
        first = asyncio.ensure_future(all_of(stack) if how == "stream" else stack.call("parts", 0))
        await clock.sleep(0.1)
        first.cancel()
        await clock.sleep(0.02)
        first.cancel()
        await clock.sleep(0.02)
        seen = []
        try:
            await stack.call("parts", 0)
            seen.append("admitted")
        except CircuitBreakerOpenError:
            seen.append("rejected")
        await clock.sleep(3.0)
        await asyncio.gather(first, return_exceptions=True)
        return seen

    assert probed(chunks if how == "stream" else stubborn, main) == ["rejected"]
    assert most == 1
