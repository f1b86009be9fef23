"""One call through a chain `[breaker]` that was built once, with nobody listening to its events."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from benchmarks.measure import Bound, Effort, Section, interleave_async
from benchmarks.peers import BREAKERS, TOOLKIT, Breaker, Call, make_all, missing, toolkit_guarded
from labkit.config import CircuitBreakerMiddlewareConfig
from labkit.errors import CircuitBreakerOpenError
from labkit.middleware import CircuitBreakerMiddleware, FunctionMiddlewareChain, FunctionMiddlewareContext

NAME = "breaker"
OUT_OF_REACH = 10**9
WRAPPER = "wrapper that does nothing"


async def service(value: int) -> int:
    return value


async def down(value: int) -> int:
    raise ConnectionError("down")


async def raises(*args: Any, **kwargs: Any) -> Any:
    raise RuntimeError("down")


def wrapped(function: Call) -> Call:
    """What every decorator of a coroutine function has to be at least."""

    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        return await function(*args, **kwargs)

    return wrapper


def labkit_guarded(function: Call, threshold: int) -> Breaker:
    breaker = CircuitBreakerMiddleware(CircuitBreakerMiddlewareConfig(failure_threshold=threshold))
    chain = FunctionMiddlewareChain(middleware=[breaker], context=FunctionMiddlewareContext(name="parts"))
    return Breaker(chain.build_single(function), lambda: breaker.get_failure_count("parts"), CircuitBreakerOpenError)


def all_breakers(function: Call, threshold: int, notes: list[str] | None = None) -> dict[str, Breaker]:
    """The same function behind labkit's breaker, every peer's and, where it is installed, the toolkit's."""
    made = {"labkit": labkit_guarded(function, threshold)}
    made |= make_all(BREAKERS, function, threshold, notes=notes)
    try:
        made[TOOLKIT] = toolkit_guarded(function, threshold)
    except ImportError as problem:
        if notes is not None:
            notes.append(missing(TOOLKIT, problem))
    return made


# -- what a case must really do; asked before it is timed


async def check_success(name: str, breaker: Breaker) -> None:
    assert await breaker.call(7) == 7, f"{name} does not hand on the result"
    assert await breaker.failures() == 0, f"{name} counted a success as a failure"


async def check_failure(name: str, breaker: Breaker) -> None:
    before = await breaker.failures()
    for _ in range(3):
        try:
            await breaker.call(7)
        except ConnectionError:
            continue
        raise AssertionError(f"{name} does not hand on the error")
    assert await breaker.failures() == before + 3, f"{name} did not count three failures"


async def open_up(name: str, breaker: Breaker, calls: list[int]) -> None:
    """One failure opens it (the threshold is 1); from then on the service is not called."""
    with suppress(Exception):  # some raise what the service raised, some their own error that it has just opened
        await breaker.call(7)
    before = len(calls)
    for _ in range(3):
        try:
            await breaker.call(7)
        except breaker.rejection:
            continue
        raise AssertionError(f"{name} did not reject")
    assert len(calls) == before == 1, f"{name} called the service although it was open"


# -- blocks of calls


def passing(call: Call) -> Callable[[int], Awaitable[None]]:
    async def block(count: int) -> None:
        for _ in range(count):
            await call(1)

    return block


def failing(call: Call, error: type[BaseException]) -> Callable[[int], Awaitable[None]]:
    async def block(count: int) -> None:
        for _ in range(count):
            try:  # noqa: SIM105 - suppress() would be timed as well
                await call(1)
            except error:
                pass

    return block


async def measure(effort: Effort) -> Section:
    section = Section(
        NAME,
        "one call through a chain [breaker], built once, nobody listening",
        ("ns a call", "median", "least", "spread", "ratio"),
    )

    section.heading("success (ratio to the wrapper)")
    breakers = all_breakers(service, OUT_OF_REACH, section.notes)
    for name, breaker in breakers.items():
        await check_success(name, breaker)
    cases = {WRAPPER: passing(wrapped(service))} | {name: passing(one.call) for name, one in breakers.items()}
    samples = await interleave_async(cases, effort)
    for name, breaker in breakers.items():
        assert await breaker.failures() == 0, f"{name} counted failures where there were none"
    section.take(samples, 1e9, reference=WRAPPER)
    section.bounds.append(Bound("success, times the wrapper", samples.ratio("labkit", WRAPPER), 1.4))
    peers = [name for name in BREAKERS if name in breakers]
    if peers:
        fastest = min(peers, key=samples.median)
        section.bounds.append(
            Bound(f"success, times the fastest peer's ({fastest})", samples.ratio("labkit", fastest), 1.0)
        )

    section.heading("counted failure (ratio to the wrapper, raising)")
    breakers = all_breakers(down, OUT_OF_REACH)
    for name, breaker in breakers.items():
        await check_failure(name, breaker)
    cases = {WRAPPER: failing(wrapped(down), ConnectionError)}
    cases |= {name: failing(one.call, ConnectionError) for name, one in breakers.items()}
    before = await breakers["labkit"].failures()
    samples = await interleave_async(cases, effort)
    assert await breakers["labkit"].failures() > before + effort.rounds, "labkit's breaker did not count"
    section.take(samples, 1e9, reference=WRAPPER)
    section.bounds.append(Bound("counted failure, times the wrapper raising", samples.ratio("labkit", WRAPPER), 1.8))

    section.heading("rejection (ratio to a bare coroutine that raises)")
    calls: dict[str, list[int]] = {}
    breakers = {}
    for name in ["labkit", *peers, TOOLKIT]:
        called = calls[name] = []

        async def counting(value: int, called: list[int] = called) -> int:
            called.append(value)
            raise ConnectionError("down")

        maker = {"labkit": labkit_guarded, TOOLKIT: toolkit_guarded} | BREAKERS
        try:
            breakers[name] = maker[name](counting, 1)
        except ImportError:
            continue
        await open_up(name, breakers[name], called)
    bare = "bare coroutine that raises"
    cases = {bare: failing(raises, RuntimeError)}
    cases |= {name: failing(one.call, one.rejection) for name, one in breakers.items()}
    samples = await interleave_async(cases, effort)
    for name in breakers:
        assert len(calls[name]) == 1, f"{name} let a call through while it was open"
    section.take(samples, 1e9, reference=bare)
    section.bounds.append(Bound("rejection, times the bare coroutine", samples.ratio("labkit", bare), 1.8))
    if "pybreaker" in breakers:
        section.notes.append(
            "pybreaker runs coroutines through tornado (`__pybreaker_call_async`), its only way for async functions."
        )
    return section


def run(effort: Effort) -> Section:
    return asyncio.run(measure(effort))
