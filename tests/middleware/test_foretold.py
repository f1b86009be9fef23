"""What breakers and fallbacks say of calls that are not made: who writes quiet stretches down relies on it."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.config import CircuitBreakerMiddlewareConfig, GuardedCircuitBreakerMiddlewareConfig
from labkit.errors import CircuitBreakerOpenError, DependencyError
from labkit.middleware import (
    BreakerEvent,
    CircuitBreakerMiddleware,
    FunctionMiddlewareChain,
    FunctionMiddlewareContext,
    GuardedCircuitBreakerMiddleware,
)
from labkit.timing import VirtualClock

COOLDOWN, HOLD = 10.0, 25.0
MADE: dict[str, tuple[type[Any], Any]] = {
    "circuit_breaker": (
        CircuitBreakerMiddleware,
        CircuitBreakerMiddlewareConfig(failure_threshold=2, cooldown_period=COOLDOWN, half_open_success_threshold=2),
    ),
    "guarded_circuit_breaker": (
        GuardedCircuitBreakerMiddleware,
        GuardedCircuitBreakerMiddlewareConfig(
            failure_threshold=2, cooldown_period=COOLDOWN, half_open_success_threshold=2, probe_hold=HOLD
        ),
    ),
}


class World:
    """One breaker, to which a history has happened; its calls in flight are streams whose readers stall."""

    def __init__(self, kind: str) -> None:
        self.clock = VirtualClock()
        make, config = MADE[kind]
        self.breaker = make(config, clock=self.clock)
        self.chain = FunctionMiddlewareChain(middleware=[self.breaker], context=FunctionMiddlewareContext(name="parts"))
        self.flying: list[tuple[Any, list[BaseException]]] = []

    async def call(self, error: BaseException | None = None) -> Any:
        """What a call gets whose dependency answers at once."""

        async def service() -> str:
            if error is not None:
                raise error
            return "ok"

        try:
            return await self.chain.build_single(service)()
        except (Exception, CancelledError) as raised:
            return raised

    async def begin(self) -> None:
        """A stream of which somebody has the first chunk; how it ends is told later."""
        ends: list[BaseException] = []

        async def chunks() -> AsyncIterator[str]:
            yield "first"
            if ends:
                raise ends[0]

        stream = self.chain.build_stream(chunks)()
        try:
            await anext(stream)
        except CircuitBreakerOpenError:
            return
        self.flying.append((stream, ends))

    async def end(self, error: BaseException | None = None) -> None:
        """The oldest stream in flight ends."""
        if self.flying:
            stream, ends = self.flying.pop(0)
            if error is not None:
                ends.append(error)
            await anext(stream, None) if error is None else await self._raises(stream)

    async def _raises(self, stream: Any) -> None:
        with pytest.raises((DependencyError, CancelledError)):
            await anext(stream)

    async def do(self, step: str | float) -> None:
        """One step of a history."""
        if isinstance(step, float):
            await self.clock.sleep(step)
        elif step in ("force_open", "force_close", "reset"):
            getattr(self.breaker, step, lambda _: None)("parts")
        elif step == "begin":
            await self.begin()
        else:
            does, _, how = step.partition(" ")
            error = {"ok": None, "error": DependencyError("down"), "cancel": CancelledError()}[how]
            await (self.call(error) if does == "call" else self.end(error))

    async def close(self) -> None:
        """Leave nothing open."""
        for stream, _ in self.flying:
            await stream.aclose()


STEPS = st.one_of(
    st.sampled_from(["call ok", "call error", "call cancel", "begin", "end ok", "end error", "end cancel"]),
    st.sampled_from(["call error", "begin", "force_open", "force_close", "reset"]),
    st.sampled_from([1.0, COOLDOWN, HOLD]),
)


@pytest.mark.parametrize("kind", MADE)
@given(history=st.lists(STEPS, max_size=12), later=st.sampled_from([0.0, 1.0, COOLDOWN - 1.0, COOLDOWN, HOLD]))
def test_what_is_foretold_comes_true(kind: str, history: list[str | float], later: float) -> None:
    """After any history: a call is rejected when `rejects` said so, and a success changes nothing `at_rest`."""
    world = World(kind)

    async def main() -> None:
        for step in history:
            await world.do(step)
        rejected = world.breaker.rejects("parts", world.clock.now() + later)
        rests = world.breaker.at_rest("parts")
        before = world.breaker.snapshot("parts")
        await world.clock.sleep(later)
        assert isinstance(await world.call(), CircuitBreakerOpenError) == rejected
        if rests:
            assert not rejected
            assert world.breaker.snapshot("parts") == before
        elif not before.changed_at and not rejected and not getattr(before, "forced", False):
            assert (world.breaker.snapshot("parts") == before) == (not before.failures)
        await world.close()

    world.clock.run(main())


@pytest.mark.parametrize("kind", MADE)
def test_only_a_closed_target_without_failures_is_at_rest(kind: str) -> None:
    """Not one that has failed once, is open or is being probed; again once it is closed or the failure is forgiven."""
    world = World(kind)
    seen: list[bool] = []

    async def main() -> None:
        for step in ("call ok", "call error", "call ok", "call error", "call error", COOLDOWN, "call ok", "call ok"):
            await world.do(step)
            seen.append(world.breaker.at_rest("parts"))

    world.clock.run(main())
    assert seen == [True, False, True, False, False, False, False, True]


@pytest.mark.parametrize("by_hand", ["force_open", "force_close"])
def test_what_is_forced_is_not_at_rest(by_hand: str) -> None:
    """A guarded breaker that somebody has taken in hand is not at rest before it is reset; another target is."""
    world = World("guarded_circuit_breaker")
    getattr(world.breaker, by_hand)("parts")
    assert not world.breaker.at_rest("parts")
    assert world.breaker.at_rest("documents")
    world.breaker.reset("parts")
    assert world.breaker.at_rest("parts")


@pytest.mark.parametrize("kind", MADE)
def test_a_success_that_is_accounted_for_elsewhere_counts_like_any(kind: str) -> None:
    """With the permit of a breaker at rest it forgives failures, is told as ordinary traffic, and of its target."""
    world = World(kind)
    events: list[BreakerEvent] = []
    quiet: list[BreakerEvent] = []

    async def main() -> None:
        permit = world.breaker.permit()
        await world.do("call error")
        world.breaker.listen(events.append)
        world.breaker.listen(quiet.append, traffic=False)
        world.breaker.succeeded("documents", permit)
        assert world.breaker.snapshot("parts").failures == 1
        world.breaker.succeeded("parts", permit)
        assert world.breaker.snapshot("parts").failures == 0

    world.clock.run(main())
    assert [(event.kind, event.target, event.probe) for event in events] == [
        ("succeeded", "documents", False),
        ("succeeded", "parts", False),
    ]
    assert not quiet


def test_a_guarded_breakers_permit_is_of_its_time() -> None:
    """A success whose permit was given before somebody reset the target forgives nothing; one of afterwards does."""
    world = World("guarded_circuit_breaker")

    async def main() -> None:
        for when, failures in (("before", 1), ("after", 0)):
            early = world.breaker.permit()
            world.breaker.reset("parts")
            late = world.breaker.permit()
            await world.do("call error")
            world.breaker.succeeded("parts", early if when == "before" else late)
            assert world.breaker.snapshot("parts").failures == failures

    world.clock.run(main())
