"""retry, breaker and timeout around a service that suspends, on asyncio."""

from __future__ import annotations

import asyncio
from typing import Any

from benchmarks.breaker import OUT_OF_REACH, passing
from benchmarks.measure import Bound, Effort, Section, interleave_async
from benchmarks.peers import TOOLKIT, Call, missing, toolkit_breaker, toolkit_chain, toolkit_timeout
from labkit.config import CircuitBreakerMiddlewareConfig, RetryMiddlewareConfig, TimeoutMiddlewareConfig
from labkit.middleware import (
    CircuitBreakerMiddleware,
    FunctionMiddlewareChain,
    FunctionMiddlewareContext,
    RetryMiddleware,
    TimeoutMiddleware,
)
from labkit.timing import LoopClock

NAME = "stack"
BARE = "bare service"
OURS = "labkit: retry, breaker, timeout"
PAIR = "labkit: breaker, timeout"
THEIRS = "toolkit: breaker, timeout"
THEIRS_TENACITY = "tenacity around the toolkit's two"
PLAIN = "asyncio.timeout alone"
PLAIN_TENACITY = "tenacity around asyncio.timeout"
LIMIT = 2.0


async def suspends(value: int) -> int:
    await asyncio.sleep(0)
    return value


def labkit_chain(function: Call, *, retry: bool = True, limit: float = LIMIT, threshold: int = 3) -> Call:
    clock = LoopClock()
    middleware: list[Any] = [
        CircuitBreakerMiddleware(CircuitBreakerMiddlewareConfig(failure_threshold=threshold), clock=clock),
        TimeoutMiddleware(TimeoutMiddlewareConfig(timeout=limit), clock=clock),
    ]
    if retry:
        middleware.insert(0, RetryMiddleware(RetryMiddlewareConfig(attempts=3, base_delay=0.001), clock=clock))
    return FunctionMiddlewareChain(middleware=middleware, context=FunctionMiddlewareContext(name="parts")).build_single(
        function
    )


def theirs(function: Call, *, limit: float = LIMIT, threshold: int = 3) -> Call:
    return toolkit_chain(function, toolkit_breaker(threshold), toolkit_timeout(limit))


def tenacity_around(function: Call) -> Call:
    import tenacity

    return tenacity.retry(
        stop=tenacity.stop_after_attempt(3),
        wait=tenacity.wait_random_exponential(multiplier=0.001, max=0.01),
        reraise=True,
    )(function)


def limited(function: Call) -> Call:
    async def call(*args: Any, **kwargs: Any) -> Any:
        async with asyncio.timeout(LIMIT):
            return await function(*args, **kwargs)

    return call


async def check_stack(name: str, build: Any, attempts: int) -> None:
    """Each one limits, counts and (where it retries) retries: a service that hangs is cut off so many times."""
    calls: list[int] = []

    async def hangs(value: int) -> int:
        calls.append(value)
        await asyncio.Event().wait()
        return value

    call = build(hangs, limit=0.01, threshold=attempts)
    try:
        await call(7)
    except TimeoutError:
        pass
    else:
        raise AssertionError(f"{name} has no limit")
    assert len(calls) == attempts, f"{name} made {len(calls)} attempts where {attempts} were due"
    try:
        await call(7)
    except TimeoutError:
        raise AssertionError(f"{name} did not open") from None
    except RuntimeError:
        pass  # both open errors are RuntimeErrors
    assert len(calls) == attempts, f"{name} called the service although it was open"


async def measure(effort: Effort) -> Section:
    section = Section(
        NAME,
        "retry, breaker and timeout around a service that suspends once (asyncio.sleep(0)), on LoopClock",
        ("ns a call", "median", "least", "spread", "adds"),
    )
    await check_stack("labkit", labkit_chain, 3)
    cases: dict[str, Call] = {
        BARE: suspends,
        OURS: labkit_chain(suspends, threshold=OUT_OF_REACH),
        PAIR: labkit_chain(suspends, retry=False, threshold=OUT_OF_REACH),
        PLAIN: limited(suspends),
    }
    try:
        await check_stack(TOOLKIT, theirs, 1)
        cases[THEIRS] = theirs(suspends, threshold=OUT_OF_REACH)
    except ImportError as problem:
        section.notes.append(missing(TOOLKIT, problem) + " The two bounds are against it, so they are not judged here.")
    try:
        cases[PLAIN_TENACITY] = tenacity_around(cases[PLAIN])
        if THEIRS in cases:
            cases[THEIRS_TENACITY] = tenacity_around(cases[THEIRS])
    except ImportError as problem:
        section.notes.append(missing("tenacity", problem))
    for name, call in cases.items():
        assert await call(7) == 7, f"{name} does not hand on the result"
    samples = await interleave_async({name: passing(call) for name, call in cases.items()}, effort)
    section.take(samples, 1e9, less=BARE)
    for label, other, limit in (
        ("what the toolkit's breaker and timeout add, times what labkit's three add", THEIRS, 4.5),
        ("what tenacity around those adds, times what labkit's three add", THEIRS_TENACITY, 10.0),
    ):
        if other in cases:
            section.bounds.append(Bound(label, samples.ratio(other, OURS, less=BARE), limit, at_least=True))
    return section


def run(effort: Effort) -> Section:
    return asyncio.run(measure(effort))
