"""What a breaker keeps, by tracemalloc. Names and contexts exist before: only what stays in the breaker is counted."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from benchmarks.measure import Bound, Effort, Row, Section
from benchmarks.peers import TOOLKIT, missing, toolkit_breaker, toolkit_context
from labkit.config import CircuitBreakerMiddlewareConfig
from labkit.errors import CircuitBreakerOpenError
from labkit.middleware import CircuitBreakerMiddleware, FunctionMiddlewareChain, FunctionMiddlewareContext

NAME = "memory"
FLAT = 4096  # bytes: what a run may differ by for reasons that are not the breaker's


async def service(value: int) -> int:
    return value


async def down(value: int) -> int:
    raise ConnectionError("down")


def labkit_breaker(threshold: int = 3) -> Any:
    return CircuitBreakerMiddleware(CircuitBreakerMiddlewareConfig(failure_threshold=threshold))


def labkit_context(name: str) -> Any:
    return FunctionMiddlewareContext(name=name)


async def bytes_a_target(make: Callable[[], Any], context: Callable[[str], Any], targets: int, fails: bool) -> float:
    """Traced bytes that a breaker has gained, for a target, after one call for each of so many."""
    contexts = [context(f"parts_{number}") for number in range(targets)]
    breaker = make()
    function = down if fails else service
    await breaker.function_middleware_invoke(1, call_next=service, context=context("warm_up"))
    tracemalloc.start()
    try:
        gc.collect()
        before, _ = tracemalloc.get_traced_memory()
        for one in contexts:
            with suppress(ConnectionError):
                await breaker.function_middleware_invoke(1, call_next=function, context=one)
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert await breaker.get_failure_count("parts_0") == (1 if fails else 0), "the failure was not counted"
    assert await breaker.get_failure_count(f"parts_{targets - 1}") == (1 if fails else 0), "the failure was not counted"
    return (after - before) / targets


async def growth_over_rejections(rejections: int) -> tuple[int, int]:
    """(bytes gained, most at any time) from the first thousand rejections to the last, nothing collected by hand."""
    breaker = labkit_breaker(threshold=1)
    call = FunctionMiddlewareChain(middleware=[breaker], context=labkit_context("parts")).build_single(down)
    with suppress(ConnectionError):
        await call(1)

    async def reject(count: int) -> int:
        rejected = 0
        for _ in range(count):
            try:
                await call(1)
            except CircuitBreakerOpenError:
                rejected += 1
        return rejected

    tracemalloc.start()
    try:
        assert await reject(1000) == 1000, "a call was let through"
        gc.collect()
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        assert await reject(rejections) == rejections, "a call was let through"
        after, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return after - before, most - before


async def measure(effort: Effort) -> Section:
    section = Section(
        NAME,
        f"what a breaker keeps of {effort.targets:,} targets (tracemalloc)",
        ("bytes a target", "CLOSED, no failures", "one failure"),
    )
    ours = [await bytes_a_target(labkit_breaker, labkit_context, effort.targets, fails) for fails in (False, True)]
    section.rows.append(Row("labkit", tuple(f"{found:.1f}" for found in ours), {"bytes": ours}))
    try:
        toolkit_breaker()
    except ImportError as problem:
        section.notes.append(missing(TOOLKIT, problem))
    else:
        theirs = [await bytes_a_target(toolkit_breaker, toolkit_context, effort.targets, x) for x in (False, True)]
        section.rows.append(Row(TOOLKIT, tuple(f"{found:.1f}" for found in theirs), {"bytes": theirs}))
    grown, most = await growth_over_rejections(effort.rejections)
    section.notes.append(
        f"Over {effort.rejections:,} rejections the traced memory changed by {grown:,} bytes and never stood more than "
        f"{most:,} above where it began; up to {FLAT:,} counts as flat."
    )
    section.bounds += [
        # Less than a byte a target: a handful of bytes in all that the run itself leaves, and nothing for a target.
        Bound("bytes kept for a CLOSED target without failures", (round(ours[0], 1),), 0.0, places=1),
        Bound("bytes kept for a target with a failure", (ours[1],), 160.0, places=1),
        Bound(f"bytes gained over {effort.rejections:,} rejections", (float(grown), float(most)), FLAT, places=0),
    ]
    return section


def run(effort: Effort) -> Section:
    return asyncio.run(measure(effort))
