"""The small differences of ARCHITECTURE.md's table that no other file shows."""

from __future__ import annotations

from labkit import CircuitBreakerMiddleware, CircuitBreakerMiddlewareConfig, VirtualClock
from labkit.middleware import FunctionMiddlewareChain, FunctionMiddlewareContext


def chain_of(breaker):
    """A chain of one breaker around a function named "parts"."""
    return FunctionMiddlewareChain(middleware=[breaker], context=FunctionMiddlewareContext(name="parts"))


def test_a_chunk_that_is_none_is_handed_on():
    """The toolkit drops a chunk that is None on its way through a breaker or timeout; labkit's hand it on."""
    clock = VirtualClock()
    breaker = CircuitBreakerMiddleware(CircuitBreakerMiddlewareConfig(), clock=clock)

    async def chunks():
        for chunk in (1, None, 2):
            yield chunk

    async def main():
        return [chunk async for chunk in chain_of(breaker).build_stream(chunks)()]

    assert clock.run(main()) == [1, None, 2]


def test_a_closed_target_has_no_time_of_its_last_change():
    """The toolkit keeps when a target was first seen or closed; labkit forgets a closed target, and reads 0.0."""
    clock = VirtualClock(start=100.0)
    breaker = CircuitBreakerMiddleware(
        CircuitBreakerMiddlewareConfig(failure_threshold=1, cooldown_period=5.0), clock=clock
    )
    works = False

    async def service():
        if not works:
            raise ConnectionError

    async def main():
        nonlocal works
        call = chain_of(breaker).build_single(service)
        times = [await breaker.get_last_state_change("parts")]
        try:
            await call()
        except ConnectionError:
            times.append(await breaker.get_last_state_change("parts"))
        works = True
        await clock.sleep(5.0)
        await call()
        return [*times, await breaker.get_last_state_change("parts")]

    assert clock.run(main()) == [0.0, 100.0, 0.0]
