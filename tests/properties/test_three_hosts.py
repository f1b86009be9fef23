"""One history, three hosts: a real event loop, a virtual event loop and the virtual clock tell the same story."""

from __future__ import annotations

import asyncio
from asyncio import CancelledError
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import aclosing
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from labkit.config import (
    CircuitBreakerMiddlewareConfig,
    FallbackMiddlewareConfig,
    RetryMiddlewareConfig,
    TimeoutMiddlewareConfig,
)
from labkit.errors import BusinessRejection, CircuitBreakerOpenError, DependencyError
from labkit.middleware import (
    BreakerEvent,
    CircuitBreakerMiddleware,
    FallbackMiddleware,
    FunctionMiddleware,
    FunctionMiddlewareChain,
    FunctionMiddlewareContext,
    RetryMiddleware,
    TimeoutMiddleware,
)
from labkit.timing import Clock, LoopClock, VirtualClock, run_virtual

Main = Callable[[Clock], Coroutine[Any, Any, Any]]

TURNS = 12


def on_virtual_clock(main: Main) -> Any:
    """In virtual time, without an event loop."""
    clock = VirtualClock()
    return clock.run(main(clock))


def on_virtual_loop(main: Main) -> Any:
    """In virtual time, on asyncio."""
    return run_virtual(main(LoopClock()))


def on_real_loop(main: Main) -> Any:
    """In real time, on asyncio."""
    return asyncio.run(main(LoopClock()))


# -- one breaker, driven by hand ------------------------------------------------------------------------

#: An operation: which of the calls (modulo how many there are), and what happens: a new one, or an end.
OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from([0.0, 0.0, 0.5, 3.0, 9.5, 10.0, 10.5]),
        st.integers(0, 5),
        st.sampled_from(["single", "single", "stream", "ok", "error", "error", "cancel", "close"]),
        st.sampled_from(["parts", "documents"]),
    ),
    max_size=40,
)
SETTINGS = st.fixed_dictionaries(
    {
        "failure_threshold": st.integers(1, 3),
        "half_open_success_threshold": st.integers(1, 3),
        # Not a time at which anything else happens: which of two simultaneous things is first is for no host to say.
        "probe_timeout": st.sampled_from([None, 4.123, 25.123]),
    }
)


def drive(config: dict[str, Any], operations: list[tuple[float, int, str, str]]) -> Main:
    """A main coroutine that plays a history and gives the events that the breaker told, and what the callers got."""

    async def main(clock: Clock) -> tuple[list[BreakerEvent], list[str]]:
        breaker = CircuitBreakerMiddleware(CircuitBreakerMiddlewareConfig(**config), clock=clock)
        events: list[BreakerEvent] = []
        breaker.listen(events.append)
        calls: list[dict[str, Any]] = []
        got: list[str] = []

        async def single(call: dict[str, Any]) -> str:
            await call["end"].wait()
            if call["outcome"] == "error":
                raise DependencyError
            return "ok"

        async def stream(call: dict[str, Any]) -> AsyncIterator[str]:
            await call["end"].wait()
            yield "chunk"
            if call["outcome"] == "error":
                raise DependencyError

        async def caller(number: int, call: dict[str, Any], target: str, how: str) -> None:
            chain = FunctionMiddlewareChain(middleware=[breaker], context=FunctionMiddlewareContext(name=target))
            try:
                if how == "single":
                    got.append(f"{number} {await chain.build_single(single)(call)}")
                else:
                    async with aclosing(chain.build_stream(stream)(call)) as chunks:  # type: ignore[type-var]
                        async for chunk in chunks:
                            got.append(f"{number} {chunk}")
                            if call["outcome"] == "close":
                                break
            except (CircuitBreakerOpenError, DependencyError, TimeoutError, CancelledError) as error:
                got.append(f"{number} {type(error).__name__}")

        async def settle() -> None:
            for _ in range(TURNS):
                await clock.sleep(0)

        for seconds, which, what, target in operations:
            if seconds:
                await clock.sleep(seconds)
                await settle()
            flying = [call for call in calls if not call["task"].done()]
            if what in ("single", "stream"):
                call: dict[str, Any] = {"end": clock.event(), "outcome": "ok"}
                call["task"] = clock.start(caller(len(calls), call, target, what))
                calls.append(call)
            elif flying:
                call = flying[which % len(flying)]
                call["outcome"] = what
                call["end"].set()
                if what == "cancel":
                    call["task"].cancel()
            await settle()
        for call in calls:
            call["task"].cancel()
        await settle()
        return events, got

    return main


@given(config=SETTINGS, operations=OPERATIONS)
def test_a_timed_history_is_the_same_on_both_virtual_hosts(
    config: dict[str, Any], operations: list[tuple[float, int, str, str]]
) -> None:
    """The events, with their times and counts, and what each caller got are equal to the last bit."""
    main = drive({**config, "cooldown_period": 10.0}, operations)
    assert on_virtual_clock(main) == on_virtual_loop(main)


@given(config=SETTINGS, operations=OPERATIONS, never=st.booleans())
def test_an_untimed_history_is_the_same_on_all_three(
    config: dict[str, Any], operations: list[tuple[float, int, str, str]], never: bool
) -> None:
    """Where a cooldown is over at once, or never, nothing depends on time: a real loop tells the same events too."""
    config = {**config, "probe_timeout": None, "cooldown_period": 1e6 if never else 1e-12}
    real = on_real_loop(drive(config, [(0.0, *rest) for _, *rest in operations]))
    virtual = drive(config, [(1.0, *rest) for _, *rest in operations])
    for host in (on_virtual_clock, on_virtual_loop):
        events, got = host(virtual)
        assert [event._replace(at=0.0) for event in events] == [event._replace(at=0.0) for event in real[0]]
        assert got == real[1]


# -- all four middleware around a service that does as it is told -----------------------------------------------

ERRORS = {"error": DependencyError, "reset": ConnectionResetError, "no": BusinessRejection, "bug": KeyError}
#: What the service does with each attempt: how long it takes, and how it ends.
SCRIPT = st.lists(
    st.tuples(st.sampled_from([0.0, 0.11, 0.73, 1.9, 4.7]), st.sampled_from(["ok", "ok", *ERRORS])),
    min_size=1,
    max_size=12,
)
CALLS = st.lists(
    st.tuples(
        st.sampled_from([0.01, 0.37, 1.3, 6.1]),
        st.sampled_from(["single", "stream"]),
        st.sampled_from([None, None, 0.17, 2.51]),
    ),
    min_size=1,
    max_size=10,
)
ORDER = st.permutations(["fallback", "retry", "breaker", "timeout"])


def through_all(order: list[str], script: list[Any], calls: list[Any], seed: int) -> Main:
    """A main coroutine that makes the calls through a chain in this order and gives what came of each, and when."""

    async def main(clock: Clock) -> list[Any]:
        made: dict[str, FunctionMiddleware] = {
            "fallback": FallbackMiddleware(FallbackMiddlewareConfig(), clock=clock),
            "retry": RetryMiddleware(RetryMiddlewareConfig(seed=seed, base_delay=0.7, time_budget=9.0), clock=clock),
            "breaker": CircuitBreakerMiddleware(
                CircuitBreakerMiddlewareConfig(failure_threshold=2, cooldown_period=3.3, probe_timeout=1.01),
                clock=clock,
            ),
            "timeout": TimeoutMiddleware(TimeoutMiddlewareConfig(timeout=1.57), clock=clock),
        }
        chain = FunctionMiddlewareChain(
            middleware=[made[name] for name in order], context=FunctionMiddlewareContext(name="parts")
        )
        attempts = iter(script * 100)
        told: list[Any] = []

        async def single() -> str:
            seconds, how = next(attempts)
            told.append((clock.now(), "service", how))
            await clock.sleep(seconds)
            if how in ERRORS:
                raise ERRORS[how]
            return "ok"

        async def stream() -> AsyncIterator[str]:
            seconds, how = next(attempts)
            told.append((clock.now(), "service", how))
            await clock.sleep(seconds)
            if how == "reset":
                raise ConnectionResetError
            yield "first"
            await clock.sleep(seconds)
            if how in ERRORS:
                raise ERRORS[how]

        call_it, stream_it = chain.build_single(single), chain.build_stream(stream)

        async def caller(number: int, how: str) -> None:
            try:
                if how == "single":
                    told.append((clock.now(), number, repr(await call_it())))
                else:
                    async with aclosing(stream_it()) as chunks:  # type: ignore[type-var]
                        async for chunk in chunks:
                            told.append((clock.now(), number, repr(chunk)))
            except (Exception, CancelledError) as error:
                report = getattr(error, "retry_report", None)
                told.append((clock.now(), number, f"{type(error).__name__}: {error} {report}"))

        tasks = []
        for number, (pause, how, cancelled_after) in enumerate(calls):
            await clock.sleep(pause + number / 1024)  # so that no two things happen at one instant
            tasks.append(clock.start(caller(number, how)))
            if cancelled_after is not None:
                await clock.sleep(cancelled_after)
                tasks[-1].cancel()
        for task in tasks:
            await task
        return told

    return main


@given(order=ORDER, script=SCRIPT, calls=CALLS, seed=st.integers(0, 9))
def test_all_middleware_in_any_order_is_the_same_on_both_virtual_hosts(
    order: list[str], script: list[Any], calls: list[Any], seed: int
) -> None:
    """What reached the service, when, and what each caller got and when, is equal to the last bit."""
    main = through_all(order, script, calls, seed)
    assert on_virtual_clock(main) == on_virtual_loop(main)
