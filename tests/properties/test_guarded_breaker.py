"""What holds of guarded breakers on every history: two replicas, two targets, calls that end in any way, one lease."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule

from labkit.config import GuardedCircuitBreakerMiddlewareConfig
from labkit.errors import BulkheadFullError, CircuitBreakerOpenError, LeaseError, Refusal
from labkit.middleware import (
    BreakerEvent,
    FunctionMiddlewareChain,
    FunctionMiddlewareContext,
    GuardedCircuitBreakerMiddleware,
    MemoryLeaseStore,
    ProbeLease,
)
from labkit.policies import CircuitBreakerState, Lease
from labkit.timing import VirtualClock, VirtualTask

CLOSED, OPEN, HALF_OPEN = CircuitBreakerState.CLOSED, CircuitBreakerState.OPEN, CircuitBreakerState.HALF_OPEN
TARGETS = ("parts", "documents")
COOLDOWN, HOLD = 10.0, 25.0
REFUSED: dict[str, Exception] = {
    "refused": BulkheadFullError("full"),
    "rejected": CircuitBreakerOpenError("open"),
    "refusals": ExceptionGroup("all", [LeaseError("lapsed"), ExceptionGroup("deep", [BulkheadFullError("full")])]),
}
FAILED: dict[str, Exception] = {
    "error": ValueError(),
    "mixed": ExceptionGroup("some", [BulkheadFullError("full"), ExceptionGroup("deep", [ValueError()])]),
}
RAISED = {**REFUSED, **FAILED}
OUTCOMES = ["ok", *FAILED, "error", "cancel", "close", "odd", *REFUSED]


class Odd(BaseException):
    """Neither an `Exception` nor a cancellation."""


class Shaky(MemoryLeaseStore):
    """A store that can be cut off."""

    cut_off = False

    def _ask(self) -> None:
        if self.cut_off:
            raise LeaseError("cut off")

    async def acquire(self, *args: Any) -> Lease | None:
        self._ask()
        return await super().acquire(*args)

    async def renew(self, lease: Lease) -> Lease | None:
        self._ask()
        return await super().renew(lease)

    async def release(self, lease: Lease) -> bool:
        self._ask()
        return await super().release(lease)


class Call:
    """A call in flight through one replica's breaker."""

    def __init__(self, world: Any, replica: int, target: str, stream: bool) -> None:
        self.world, self.replica, self.target, self.stream = world, replica, target, stream
        self.inside = False  # the dependency
        self.probe = False
        self.began = 0.0
        self.outcome = "ok"
        self.error: BaseException | None = None
        self.end = world.clock.event()
        self.read_on = world.clock.event()  # until then the reader of a stream stalls after the first chunk
        chain = FunctionMiddlewareChain(
            middleware=[world.breakers[replica]], context=FunctionMiddlewareContext(name=target)
        )
        body = self._read(chain.build_stream(self._stream)()) if stream else chain.build_single(self._single)()
        self.task: VirtualTask[Any] = world.clock.start(self._watch(body))

    async def _single(self) -> str:
        self.inside = True
        if not self.stream:
            self.began = self.world.clock.now()
            self.probe = self.world.breakers[self.replica].snapshot(self.target).state is HALF_OPEN
        try:
            await self.end.wait()
            if self.outcome in RAISED:
                raise RAISED[self.outcome]
            if self.outcome == "odd":
                raise Odd
            return "ok"
        finally:
            self.inside = False

    async def _stream(self) -> AsyncIterator[str]:
        self.began = self.world.clock.now()
        self.probe = self.world.breakers[self.replica].snapshot(self.target).state is HALF_OPEN
        yield "first"
        yield await self._single()

    async def _read(self, stream: Any) -> None:
        async with aclosing(stream) as chunks:
            async for _ in chunks:
                await self.read_on.wait()
                if self.outcome == "close":
                    return

    async def _watch(self, body: Any) -> None:
        try:
            await body
        except (ValueError, ExceptionGroup, Refusal, TimeoutError, CancelledError, Odd) as error:
            self.error = error

    def finish(self, outcome: str) -> None:
        """Let it end."""
        self.outcome = outcome
        if outcome == "cancel":
            self.task.cancel()
        else:
            self.end.set()
            self.read_on.set()


class Guarded(RuleBasedStateMachine):
    """Any history of two replicas that share a lease, or have none."""

    calls: Bundle[Call] = Bundle("calls")

    @initialize(
        leased=st.booleans(),
        successes=st.integers(1, 2),
        probe_timeout=st.sampled_from([None, 4.0, HOLD + 1.0]),
        left_early=st.sampled_from(["neither", "success"]),
    )
    def begin(self, leased: bool, successes: int, probe_timeout: float | None, left_early: Any) -> None:
        """Two breakers."""
        self.clock = VirtualClock()
        self.store = Shaky(self.clock)
        self.leased = leased
        self.left_early = left_early
        config = GuardedCircuitBreakerMiddlewareConfig(
            failure_threshold=1,
            cooldown_period=COOLDOWN,
            half_open_success_threshold=successes,
            probe_timeout=probe_timeout,
            probe_hold=HOLD,
            idle_period=40.0,
            left_early=left_early,
        )
        self.breakers, self.events = [], []
        for _ in range(2):
            lease = ProbeLease(self.store, time_to_live=6.0, clock=self.clock) if leased else None
            breaker = GuardedCircuitBreakerMiddleware(config, clock=self.clock, lease=lease)
            told: list[BreakerEvent] = []
            breaker.listen(told.append)
            self.breakers.append(breaker)
            self.events.append(told)
        self.flying: list[Call] = []

    @rule(target=calls, replica=st.integers(0, 1), name=st.sampled_from(TARGETS), stream=st.booleans())
    def call(self, replica: int, name: str, stream: bool) -> Call:
        """Somebody calls."""
        call = Call(self, replica, name, stream)
        self.flying.append(call)
        self.clock.settle()
        return call

    @rule(name=st.sampled_from(TARGETS))
    def outage(self, name: str) -> None:
        """The dependency fails for everybody, and the cooldown passes: the next calls are probes."""
        for replica in range(2):
            call = Call(self, replica, name, False)
            self.flying.append(call)
            call.finish("error")
        self.clock.settle()
        self.clock.advance(COOLDOWN)

    @rule(
        target=calls,
        name=st.sampled_from(TARGETS),
        streams=st.tuples(st.booleans(), st.booleans()),
    )
    def both(self, name: str, streams: tuple[bool, bool]) -> Any:
        """Both replicas are called at the same moment."""
        made = [Call(self, replica, name, stream) for replica, stream in enumerate(streams)]
        self.flying += made
        self.clock.settle()
        return multiple(*made)

    @rule(call=consumes(calls), outcome=st.sampled_from(OUTCOMES))
    def finish(self, call: Call, outcome: str) -> None:
        """A call ends. What says nothing about the dependency changes nothing but the slot."""
        flying = not call.task.done()
        before = self.breakers[call.replica].snapshot(call.target)
        call.finish(outcome)
        self.clock.settle()
        after = self.breakers[call.replica].snapshot(call.target)
        if flying and outcome in RAISED and not isinstance(call.error, LeaseError):
            assert call.error is RAISED[outcome]
        # A reader who is cancelled while it is busy with a chunk leaves early as well.
        is_left = outcome in ("cancel", "close") and call.stream and self.left_early == "success"
        if not is_left and outcome in (*REFUSED, "cancel", "odd", *(["close"] if call.stream else [])):
            assert (after.state, after.failures, after.successes) == (before.state, before.failures, before.successes)
        elif outcome not in FAILED:
            assert after.failures <= before.failures

    @rule(call=calls)
    def resume(self, call: Call) -> None:
        """A stream's reader goes on."""
        call.read_on.set()
        self.clock.settle()

    @rule(seconds=st.sampled_from([0.5, 3.0, COOLDOWN, HOLD, 50.0]))
    def wait(self, seconds: float) -> None:
        """Time passes."""
        self.clock.advance(seconds)

    @rule(seconds=st.sampled_from([0.0, 2.0, 7.0, 7.0]))
    def cut_off(self, seconds: float) -> None:
        """The store is cut off for a while, and somebody calls meanwhile."""
        self.store.cut_off = True
        self.flying += [Call(self, replica, "parts", False) for replica in range(2)]
        self.clock.settle()
        self.clock.advance(seconds)
        self.store.cut_off = False

    @rule(replica=st.integers(0, 1), name=st.sampled_from(TARGETS), act=st.sampled_from(["force_open", "reset"]))
    def by_hand(self, replica: int, name: str, act: str) -> None:
        """Somebody takes a target in hand."""
        for call in self.flying:  # a probe whose slot was taken away by hand may run on beside another
            if (call.replica, call.target) == (replica, name):
                call.probe = False
        getattr(self.breakers[replica], act)(name)

    @invariant()
    def one_probe_at_a_time(self) -> None:
        """No two probes of a target are in the dependency at once: in a replica, and with a lease in all of them."""
        for target in TARGETS:
            probes = [call for call in self.flying if call.inside and call.probe and call.target == target]
            # A stream may run on past its hold, as ordinary traffic, at its own reader's pace.
            probes = [call for call in probes if not call.stream or self.clock.now() - call.began < HOLD]
            replicas = [call.replica for call in probes]
            assert len(replicas) == len(set(replicas))
            if self.leased:
                assert len(probes) <= 1

    @invariant()
    def no_slot_is_taken_for_ever(self) -> None:
        """Where no call is in flight no slot is taken."""
        self.flying = [call for call in self.flying if not call.task.done()]
        for replica, breaker in enumerate(self.breakers):
            for target in TARGETS:
                if not any((call.replica, call.target) == (replica, target) for call in self.flying):
                    assert not breaker.snapshot(target).probing

    @invariant()
    def what_is_admitted_has_an_end(self) -> None:
        """Each admission has one end, unless it is still in flight."""
        for replica, told in enumerate(self.events):
            begun = sum(event.kind == "admitted" for event in told)
            ended = sum(event.kind in ("succeeded", "failed", "cancelled") for event in told)
            inside = sum(call.replica == replica for call in self.flying if not call.task.done())
            assert begun - ended == inside

    def teardown(self) -> None:
        """All end; with a healthy dependency and store every target recovers."""
        if not hasattr(self, "clock"):
            return
        for call in self.flying:
            call.finish("ok")
        self.clock.settle()
        for replica in range(2):
            for target in TARGETS:
                self.breakers[replica].force_open(target)
                self.breakers[replica].reset(target)
                for _ in range(2):
                    call = Call(self, replica, target, False)
                    call.finish("ok")
                    self.clock.settle()
                    assert call.error is None
        self.clock.close()


class Recovery(Guarded):
    """The same, and at the end nobody helps: the targets recover by themselves."""

    @rule()
    def by_hand(self) -> None:
        """Nobody takes anything in hand."""

    def teardown(self) -> None:
        """After the longest of all times, two probes close any target."""
        if hasattr(self, "clock"):
            for call in self.flying:
                if not call.stream:  # readers who stall for good hold nobody up
                    call.finish("ok")
            self.clock.advance(COOLDOWN + HOLD + 6.0)
            for breaker in range(2):
                for target in TARGETS:
                    for _ in range(2):
                        call = Call(self, breaker, target, False)
                        call.finish("ok")
                        self.clock.settle()
                        assert call.error is None
                    assert self.breakers[breaker].snapshot(target).state is CLOSED
            self.clock.close()


TestGuarded = Guarded.TestCase
TestGuarded.__doc__ = "One probe at a time, no slot for ever, an end for every admission: on every history."
TestGuarded.settings = settings(max_examples=70, stateful_step_count=40)
TestRecovery = Recovery.TestCase
TestRecovery.__doc__ = "On every history that nobody interferes with, a healthy dependency is found out to be one."
TestRecovery.settings = settings(max_examples=70, stateful_step_count=40)
