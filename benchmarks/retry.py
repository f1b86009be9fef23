"""What a retry costs when nothing has to be retried."""

from __future__ import annotations

import asyncio

from benchmarks.breaker import passing, service
from benchmarks.measure import Bound, Effort, Section, interleave_async
from benchmarks.peers import RETRIES, Call, make_all
from labkit.config import RetryMiddlewareConfig
from labkit.middleware import FunctionMiddlewareChain, FunctionMiddlewareContext, RetryMiddleware

NAME = "retry"
BARE = "bare function"


def labkit_retry(function: Call) -> Call:
    retry = RetryMiddleware(RetryMiddlewareConfig(attempts=3, base_delay=0.001))
    return FunctionMiddlewareChain(middleware=[retry], context=FunctionMiddlewareContext(name="parts")).build_single(
        function
    )


def all_retries(function: Call, notes: list[str] | None = None) -> dict[str, Call]:
    """The same function behind labkit's retry and every peer's."""
    return {"labkit": labkit_retry(function)} | make_all(RETRIES, function, notes=notes)


async def check(names: list[str]) -> None:
    """Each one really retries: a function that fails twice is called three times and answers."""
    for name in names:
        calls: list[int] = []

        async def fails_twice(value: int, calls: list[int] = calls) -> int:
            calls.append(value)
            if len(calls) < 3:
                raise ConnectionError("not yet")
            return value

        maker = {"labkit": labkit_retry} | RETRIES
        assert await maker[name](fails_twice)(7) == 7, f"{name} does not hand on the result"
        assert len(calls) == 3, f"{name} made {len(calls)} attempts where 3 were due"


async def measure(effort: Effort) -> Section:
    section = Section(
        NAME,
        "retry around a function that succeeds",
        ("ns a call", "median", "least", "spread", "adds"),
    )
    calls = all_retries(service, section.notes)
    await check(list(calls))
    cases = {BARE: passing(service)} | {name: passing(call) for name, call in calls.items()}
    samples = await interleave_async(cases, effort)
    section.take(samples, 1e9, less=BARE)
    peers = [name for name in calls if name != "labkit"]
    if peers:
        fastest = min(peers, key=samples.median)
        ratio = samples.ratio("labkit", fastest, less=BARE)
        section.bounds.append(Bound(f"what it adds, times what the fastest peer adds ({fastest})", ratio, 0.25))
    return section


def run(effort: Effort) -> Section:
    return asyncio.run(measure(effort))
