"""What holds of a breaker on every history: any number of targets and calls, in any order, ended in any way."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule

from labkit.config import CircuitBreakerMiddlewareConfig
from labkit.errors import CircuitBreakerOpenError
from labkit.middleware import (
    BreakerEvent,
    CircuitBreakerMiddleware,
    FunctionMiddlewareChain,
    FunctionMiddlewareContext,
)
from labkit.policies import BreakerSnapshot, CircuitBreakerState
from labkit.timing import VirtualClock, VirtualTask

CLOSED, OPEN, HALF_OPEN = CircuitBreakerState.CLOSED, CircuitBreakerState.OPEN, CircuitBreakerState.HALF_OPEN
TARGETS = ("parts", "documents", "prices")


class Wedge(BaseException):
    """Neither an `Exception` nor a cancellation: what wedges a probe's slot."""


class Call:
    """A call in flight: one in the breaker of all targets, or its twin in the breaker of its target alone."""

    def __init__(self, clock: VirtualClock, breaker: CircuitBreakerMiddleware, target: str, stream: bool) -> None:
        self.target = target
        self.stream = stream
        self.reached = False
        self.probe = False
        self.error: BaseException | None = None
        self.outcome = "ok"
        self.chunk = clock.event()
        self.end = clock.event()
        chain = FunctionMiddlewareChain(middleware=[breaker], context=FunctionMiddlewareContext(name=target))
        body = self._read(chain.build_stream(self._stream)()) if stream else chain.build_single(self._single)()
        self.task: VirtualTask[Any] = clock.start(self._watch(body))

    async def _single(self) -> str:
        self.reached = True
        await self.end.wait()
        return self._ended()

    async def _stream(self) -> AsyncIterator[str]:
        self.reached = True
        await self.chunk.wait()
        yield "chunk"
        await self.end.wait()
        self._ended()

    async def _read(self, stream: Any) -> None:
        async with aclosing(stream) as chunks:
            async for _ in chunks:
                if self.outcome == "close":
                    return

    def _ended(self) -> str:
        if self.outcome == "error":
            raise ValueError
        if self.outcome == "wedge":
            raise Wedge
        return "ok"

    async def _watch(self, body: Any) -> None:
        try:
            await body
        except (ValueError, CircuitBreakerOpenError, TimeoutError, CancelledError, Wedge) as error:
            self.error = error

    def finish(self, outcome: str) -> None:
        """Let it end."""
        self.outcome = outcome
        if outcome == "cancel":
            self.task.cancel()
        else:
            self.chunk.set()
            self.end.set()


class Breaker(RuleBasedStateMachine):
    """Any history of one breaker over three targets, beside three breakers of one target each."""

    calls: Bundle[tuple[Call, Call]] = Bundle("calls")

    @initialize(
        threshold=st.integers(1, 3),
        successes=st.integers(1, 3),
        probe_timeout=st.sampled_from([None, 4.0, 25.0]),
    )
    def begin(self, threshold: int, successes: int, probe_timeout: float | None) -> None:
        """One breaker for all targets, and one for each of them."""
        self.config = CircuitBreakerMiddlewareConfig(
            failure_threshold=threshold,
            cooldown_period=10.0,
            half_open_success_threshold=successes,
            probe_timeout=probe_timeout,
        )
        self.clock = VirtualClock()
        self.breaker = CircuitBreakerMiddleware(self.config, clock=self.clock)
        self.alone = {target: CircuitBreakerMiddleware(self.config, clock=self.clock) for target in TARGETS}
        self.events: list[BreakerEvent] = []
        self.breaker.listen(self.events.append)
        self.flying: dict[str, list[Call]] = {target: [] for target in TARGETS}
        self.faults: dict[str, set[str]] = {target: set() for target in TARGETS}
        self.untold = dict.fromkeys(
            TARGETS, 0
        )  # calls whose end no event tells: a BaseException is none of its business

    def settle(self) -> None:
        """Play what is due, and take out the calls that have ended."""
        self.clock.settle()
        for target in TARGETS:
            self.flying[target] = [call for call in self.flying[target] if not call.task.done()]

    @rule(whom=st.sampled_from(TARGETS), stream=st.booleans(), target=calls)
    def call(self, whom: str, stream: bool) -> Any:
        """A call arrives: what lets it in, and what does not, is the state before it."""
        before = self.breaker.snapshot(whom)
        count = len(self.events)
        one = Call(self.clock, self.breaker, whom, stream)
        twin = Call(self.clock, self.alone[whom], whom, stream)
        self.settle()
        kinds = [event.kind for event in self.events[count:]]
        over = self.clock.now() - before.changed_at >= 10.0
        if before.state is CLOSED:
            assert kinds == ["admitted"]
        elif before.state is OPEN:
            assert kinds == (["half_opened", "admitted"] if over else ["rejected"])
        else:
            assert kinds == (["rejected"] if before.probing else ["admitted"])
        assert one.reached is ("admitted" in kinds)
        assert twin.reached is one.reached
        if not one.reached:
            assert isinstance(one.error, CircuitBreakerOpenError)
            assert one.error.target == whom
            left = 10.0 - (self.clock.now() - before.changed_at)
            assert one.error.retry_after == (left if before.state is OPEN else None)
            return multiple()
        one.probe = self.events[-1].probe
        assert one.probe is (before.state is not CLOSED)
        self.flying[whom].append(one)
        return one, twin

    @rule(pair=consumes(calls), outcome=st.sampled_from(["ok", "ok", "error", "error", "cancel", "close", "wedge"]))
    def finish(self, pair: tuple[Call, Call], outcome: str) -> None:
        """A call ends. The faults that this may exercise are written down before."""
        one, twin = pair
        held = self.breaker.snapshot(one.target)
        if not one.task.done():
            others = [call for call in self.flying[one.target] if call.probe and call is not one]
            # Whatever slot there is is freed by a cancellation, and by a probe's stream that ends before its end.
            frees = outcome == "cancel" or (one.stream and one.probe and outcome in ("close", "wedge"))
            if frees and held.probing and others:
                self.faults[one.target].add("cancel-frees-foreign-probe")
            if outcome == "wedge" and not one.stream:
                self.untold[one.target] += 1
                if one.probe:
                    self.faults[one.target].add("wedged-by-baseexception")
        one.finish(outcome)
        twin.finish(outcome)
        self.settle()

    @rule(seconds=st.sampled_from([0.0, 0.5, 3.0, 9.5, 10.0, 10.5, 30.0]))
    def wait(self, seconds: float) -> None:
        """Time passes; only a probe whose limit is reached may change something."""
        before = {target: self.breaker.snapshot(target) for target in TARGETS}
        self.clock.advance(seconds)
        count = {target: sum(call.probe for call in self.flying[target]) for target in TARGETS}
        self.settle()
        for target in TARGETS:
            if self.config.probe_timeout is None or not count[target]:
                assert self.breaker.snapshot(target) == before[target]

    @invariant()
    def one_probe_at_most(self) -> None:
        """One call at a time is a probe, unless the fault was exercised that frees a foreign slot."""
        for target in TARGETS:
            probes = [call for call in self.flying[target] if call.probe]
            held = self.breaker.snapshot(target)
            if not self.faults[target]:
                assert len(probes) == held.probing
            if len(probes) > 1:
                assert "cancel-frees-foreign-probe" in self.faults[target]

    @invariant()
    def counts_are_sound(self) -> None:
        """Counts are in their range, and CLOSED has no probe's slot to be taken."""
        for target in TARGETS:
            held = self.breaker.snapshot(target)
            assert 0 <= held.failures <= self.config.failure_threshold
            assert 0 <= held.successes < self.config.half_open_success_threshold
            assert not (held.state is CLOSED and held.probing)
            assert not (held.state is OPEN and held.failures == 0)

    @invariant()
    def what_is_closed_is_forgotten(self) -> None:
        """A target that is CLOSED without counts leaves nothing behind, unless a late probe came by."""
        fresh = BreakerSnapshot(CLOSED, 0, 0, False, 0.0)
        for target in TARGETS:
            if self.breaker.snapshot(target) == fresh and not self.faults[target]:
                assert target not in self.breaker._policy.entries

    @invariant()
    def targets_do_not_touch(self) -> None:
        """Each target stands as if it were the only one."""
        for target in TARGETS:
            assert self.breaker.snapshot(target) == self.alone[target].snapshot(target)
            assert set(self.alone[target]._policy.entries) <= {target}

    def teardown(self) -> None:
        """At the end of each history."""
        if hasattr(self, "clock"):
            self.settle()
            self.events_tell_the_story()
            self.clock.close()

    def events_tell_the_story(self) -> None:
        """The last event of a target has its state and counts, and the events of change alternate as the states do."""
        for target in TARGETS:
            told = [event for event in self.events if event.target == target]
            if not told:
                continue
            held = self.breaker.snapshot(target)
            assert (told[-1].state, told[-1].failures, told[-1].successes) == held[:3]
            assert [event.at for event in told] == sorted(event.at for event in told)
            state = CLOSED
            for event in told:
                if event.kind in ("opened", "half_opened", "closed"):
                    assert event.state is not state
                    state = event.state
            assert state is held.state
            ended = sum(event.kind in ("succeeded", "failed", "cancelled") for event in told)
            admitted = sum(event.kind == "admitted" for event in told)
            assert admitted - ended == len(self.flying[target]) + self.untold[target]


TestBreaker = Breaker.TestCase
TestBreaker.settings = settings(stateful_step_count=50)
TestBreaker.__doc__ = "Every rule and invariant of the machine above, on random histories."
