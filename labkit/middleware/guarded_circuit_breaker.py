"""`guarded_circuit_breaker`: the async shell around the toolkit's machine without its faults.

What counts as an outcome is as in `circuit_breaker`: an `Exception` is a failure; a cancellation, any other
`BaseException`, a coroutine that is closed and a stream that is left early count neither way. What differs:

- whatever ends a probe frees its slot, in `finally`, and only its own;
- a probe has a limit, `probe_timeout` or else `probe_hold`; in a stream it bounds each wait for the next chunk, and a
  stream that goes on for longer than `probe_hold` no longer keeps others out, and no longer decides if one came;
- a call of the same target from inside its probe is part of that probe;
- a refusal of a layer further in (an open breaker, a full bulkhead, a lease that lapsed) says nothing about the
  dependency, and counts neither way; a group counts neither way when it holds nothing else;
- with `left_early: success`, a stream that its reader leaves after a chunk or more is a success;
- an instance belongs to one event loop, and says so to a second one;
- with a `probe_lease`, a probe also needs a lease, so that a whole deployment probes one call at a time.

One fault of the toolkit's stays, since a middleware is told no more than a name: methods of different components that
share a name share a state.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop
from asyncio.events import _get_running_loop
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar, Token
from threading import Lock
from typing import TYPE_CHECKING, Any

from labkit.errors import CircuitBreakerOpenError, MiddlewareError, Refusal, is_refusal
from labkit.middleware._breaker import CHANGES, BreakerShell
from labkit.middleware.base import CallNext, FunctionMiddlewareContext
from labkit.policies import (
    CircuitBreakerState,
    GenerationPermit,
    GuardedBreakerSnapshot,
    GuardedCircuitBreakerPolicy,
    Outcome,
    Permit,
    Rejection,
)
from labkit.timing import Clock, LoopClock

if TYPE_CHECKING:
    from labkit.config import GuardedCircuitBreakerMiddlewareConfig
    from labkit.middleware.leases import HeldLease, ProbeLease

__all__ = ["GuardedCircuitBreakerMiddleware"]

_ORDINARY, _CLOSED = Permit.ORDINARY, CircuitBreakerState.CLOSED
_SUCCESS, _FAILURE, _CANCELLED = Outcome.SUCCESS, Outcome.FAILURE, Outcome.CANCELLED
#: The probes that the running code is part of: whose, and their permits' generations.
_probes: ContextVar[tuple[tuple[GuardedCircuitBreakerPolicy, int], ...]] = ContextVar("labkit_probes", default=())


class GuardedCircuitBreakerMiddleware(
    BreakerShell["GuardedCircuitBreakerMiddlewareConfig", GuardedCircuitBreakerPolicy]
):
    """Isolates a failing dependency, by the toolkit's rules without the toolkit's faults. labkit's own.

    State is kept in memory, per instance and per `context.name`; two functions of one name share it. Read-outs and
    `listen` are those of `CircuitBreakerMiddleware`. A probe that is refused for want of a lease is told as
    "lease_refused" and then "rejected".

    Args:
        config: its fields.
        builder: taken and ignored, so that the toolkit's signature fits.
        clock: whose time; asyncio's by default.
        lease: what a probe has to ask for; None where this process is alone.

    Raises:
        MiddlewareError: the configuration names a `probe_lease`, and none was given.
    """

    def __init__(
        self,
        config: GuardedCircuitBreakerMiddlewareConfig,
        builder: Any = None,
        *,
        clock: Clock | None = None,
        lease: ProbeLease | None = None,
    ) -> None:
        if config.probe_lease is not None and lease is None:
            raise MiddlewareError(
                f"the breaker's probes need the lease '{config.probe_lease}', and it was given none: a stack gives it "
                "what the section 'leases' defines"
            )
        policy = GuardedCircuitBreakerPolicy(
            config.failure_threshold,
            config.cooldown_period,
            config.half_open_success_threshold,
            probe_hold=config.probe_hold,
            idle_period=config.idle_period,
        )
        super().__init__(config, policy, clock)
        self._ask = self._ask_from_inside
        self._lease = lease
        # A virtual clock is a world of its own, whatever loop is running around it.
        self._on_a_loop = isinstance(self._clock, LoopClock)
        self._loop: AbstractEventLoop | None = None
        self._binding = Lock()

    def snapshot(self, target: str) -> GuardedBreakerSnapshot:
        """All read-outs at once, without waiting."""
        return self._policy.snapshot(target)

    # -- by hand

    def force_open(self, target: str) -> None:
        """Reject every call of the target until it is closed or reset by hand; what is in flight no longer counts."""
        self._by_hand(target, self._policy.force_open)

    def force_close(self, target: str) -> None:
        """Admit every call of the target and count none, until it is opened or reset by hand."""
        self._by_hand(target, self._policy.force_close)

    def reset(self, target: str) -> None:
        """Begin anew with the target: CLOSED, without counts, no longer forced; what is in flight does not count."""
        self._by_hand(target, self._policy.reset)

    def _by_hand(self, target: str, act: Callable[[str, float], None]) -> None:
        self._belong()
        now = self._clock.now()
        before = self._policy.state(target)
        act(target, now)
        after = self._policy.state(target)
        if after is not before and self._heard:
            self._tell(CHANGES[after], now, target, False)

    # -- one event loop

    def _belong(self) -> None:
        """Refuse a second event loop: what is here is not locked, and two loops would lose counts and wake-ups."""
        loop = _get_running_loop() if self._on_a_loop else None
        if loop is None or loop is self._loop:
            return
        with self._binding:
            if self._loop is None or self._loop.is_closed():
                self._loop = loop
            if self._loop is not loop:
                raise MiddlewareError(
                    "a guarded breaker belongs to the event loop that first called through it, and another loop is "
                    "calling now; make one instance for each loop, or for each thread"
                )

    # -- what this breaker does its own way

    def _ask_from_inside(self, target: str, now: float) -> GenerationPermit | Rejection:
        """Ask the policy, with the probes that the call is part of."""
        self._belong()
        policy = self._policy
        return policy.admit(target, now, [generation for whose, generation in _probes.get() if whose is policy])

    def _needs_lease(self) -> bool:
        return self._lease is not None

    async def _leased(self, target: str, permit: GenerationPermit, message: str) -> HeldLease | None:
        """Ask for the lease, with the slot taken, so that the callers here do not race for it."""
        if self._lease is None:
            return None
        policy, clock = self._policy, self._clock
        held: HeldLease | None = None
        try:
            held = await self._lease.acquire(target, self._config.probe_hold)
        finally:
            if held is None:
                policy.settle(target, permit, _CANCELLED, clock.now())
        # Forced meanwhile, or held up for longer than the hold or than the lease lasts.
        if held is not None and not (policy.holds(target, permit) and held.decides()):
            policy.settle(target, permit, _CANCELLED, clock.now())
            await held.give_back()
            held = None
        if held is None:
            self._tell("lease_refused", clock.now(), target, False)
            self._tell("rejected", clock.now(), target, False)
            raise CircuitBreakerOpenError(message, target, None)
        self._tell("admitted", clock.now(), target, True)
        return held

    def _inside(self, permit: GenerationPermit) -> _Inside:
        return _Inside(self._policy, permit.generation)

    def _limit(self) -> float:
        limit, hold = self._config.probe_timeout, self._config.probe_hold
        return hold if limit is None else min(limit, hold)

    def _left_early(self) -> Outcome | None:
        return _SUCCESS if self._config.left_early == "success" else None

    # -- single calls

    def _single(self, call_next: CallNext, context: FunctionMiddlewareContext) -> CallNext:
        target = context.name
        policy, listeners, quiet = self._policy, self._heard.traffic, self._heard.quiet
        entries, idle = policy.entries, policy.idle  # only a record that is not CLOSED can refuse: its contract
        forget, rest, now = policy.forget, policy.rest, self._clock.now
        admit, settle = self._admit, self._settle
        message = self._rejection_text(target)
        watched = self._watched(call_next, target, message)
        on_a_loop, running_loop, belong = self._on_a_loop, _get_running_loop, self._belong

        # The same as admit() and watched(), without what ordinary traffic and rejections do not need: a breaker is in
        # the way of every call.
        async def call(*args: Any, **kwargs: Any) -> Any:
            if on_a_loop and running_loop() is not self._loop:
                belong()
            if listeners:
                return await watched(admit(target, message), args, kwargs)
            if idle:
                forget(now())
            if target in entries:
                record = entries[target]
                if record.state is not _CLOSED:
                    retry_after = rest(record, now())
                    if retry_after > 0.0 and not quiet:
                        # Made and raised in one: held in a variable, an error is a cycle.
                        raise CircuitBreakerOpenError(message, target, retry_after)
                    return await watched(admit(target, message), args, kwargs)
            generation = policy.generation
            try:
                result = await call_next(*args, **kwargs)
            except Refusal:  # of a layer further in, perhaps in numbers
                if listeners:
                    settle(target, GenerationPermit(_ORDINARY, generation), _CANCELLED)
                raise
            except Exception as error:
                settle(target, GenerationPermit(_ORDINARY, generation), _CANCELLED if is_refusal(error) else _FAILURE)
                raise
            if listeners or (target in entries and entries[target].failures):  # without failures it changes nothing
                settle(target, GenerationPermit(_ORDINARY, generation), _SUCCESS)
            return result

        return call


class _Inside:
    """Marks the code that runs in here as part of a probe.

    A class, since contextlib's generators set an attribute on the error that passes, and not every error takes one.
    """

    __slots__ = ("_mark", "_token")

    def __init__(self, policy: GuardedCircuitBreakerPolicy, generation: int) -> None:
        self._mark = (policy, generation)

    def __enter__(self) -> None:
        self._token: Token[Any] = _probes.set((*_probes.get(), self._mark))

    def __exit__(self, *_: object) -> None:
        with suppress(ValueError):  # closed from elsewhere, whose context is another
            _probes.reset(self._token)
