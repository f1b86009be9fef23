"""What the shells of all breakers are: the rule for calls and streams, the toolkit's read-outs, the events.

A shell decides what the policy does not: what counts as an outcome. A breaker of labkit's says what its own policy is,
what an error counts as, and what ordinary traffic needs not do; all else stands here, once.

What stands in each breaker on its own is the inner `call` of `_single`, with the same few lines in a different order
each time: it is in the way of every call and measured in nanoseconds, and each policy has a contract of its own on when
it need not be asked. Whatever is not ordinary traffic goes through `_watched`.
"""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from labkit.errors import CircuitBreakerOpenError, is_refusal
from labkit.middleware._listeners import Listeners
from labkit.middleware.base import BoundMiddleware, CallNext, CallNextStream, FunctionMiddlewareContext, closing
from labkit.policies import BreakerPolicy, CircuitBreakerState, Outcome, Permit, Rejection
from labkit.timing import Clock

if TYPE_CHECKING:
    from typing import Protocol

    from labkit.middleware.leases import HeldLease

    class BreakerConfig(Protocol):
        """The fields that every breaker has."""

        enabled: bool
        circuit_breaker_message: str | None
        probe_timeout: float | None

    class Held(Protocol):
        """What every breaker can say of a target."""

        @property
        def state(self) -> CircuitBreakerState: ...
        @property
        def failures(self) -> int: ...
        @property
        def successes(self) -> int: ...
        @property
        def changed_at(self) -> float: ...


__all__ = ["CHANGES", "BreakerEvent", "BreakerShell"]

C = TypeVar("C", bound="BreakerConfig")
M = TypeVar("M", bound=BreakerPolicy[Any])

# By name: looked up in its class, or hashed, a member of an enumeration takes a call of its own.
_ORDINARY, _PROBE, _OPEN = Permit.ORDINARY, Permit.PROBE, CircuitBreakerState.OPEN
_SUCCESS, _FAILURE, _CANCELLED = Outcome.SUCCESS, Outcome.FAILURE, Outcome.CANCELLED
CHANGES = {
    CircuitBreakerState.OPEN: "opened",
    CircuitBreakerState.HALF_OPEN: "half_opened",
    CircuitBreakerState.CLOSED: "closed",
}
"""The event of each new state."""


class BreakerEvent(NamedTuple):
    """Something that a breaker did.

    Attributes:
        kind: admitted, rejected, succeeded, failed, cancelled, opened, half_opened or closed; cancelled is every end
            that counts neither way: given up, left early, refused by a layer further in (by labkit's own breakers).
        at: the clock's seconds.
        target: whose breaker.
        state: the state after it.
        failures, successes: the counts after it.
        probe: whether it concerns a probe.
    """

    kind: str
    at: float
    target: str
    state: CircuitBreakerState
    failures: int
    successes: int
    probe: bool


class BreakerShell(BoundMiddleware[C], Generic[C, M]):
    """The base. A breaker gives `snapshot` and `_single`, and overrides what it does differently.

    Args:
        config: its fields.
        policy: its machine.
        clock: whose time; asyncio's by default.
    """

    def __init__(self, config: C, policy: M, clock: Clock | None) -> None:
        super().__init__(config, clock)
        self._policy = policy
        self._ask: Callable[[str, float], Any] = policy.admit  # a permit, or a rejection
        self._heard: Listeners[BreakerEvent] = Listeners("breaker")

    @property
    def policy(self) -> M:
        """The machine that decides, which can be asked what it would do. labkit's own."""
        return self._policy

    @property
    def foreseeable(self) -> bool:
        """Whether its policy tells all that it does to a call; what subclasses a breaker may do anything."""
        return BreakerShell in type(self).__bases__

    def rejects(self, target: str, at: float) -> bool:
        """Whether a call that arrived at that time would be rejected, if nothing happens until then. labkit's own."""
        return self._policy.would_reject(target, at)

    def at_rest(self, target: str) -> bool:
        """Whether a call would be admitted as ordinary traffic and its success would change nothing. labkit's own."""
        return self._policy.at_rest(target)

    def permit(self) -> Any:
        """What a call is admitted with as ordinary traffic now. labkit's own."""
        return self._policy.ordinary

    def succeeded(self, target: str, permit: Any) -> None:
        """Count the success of an ordinary call that is accounted for elsewhere. labkit's own."""
        self._settle(target, permit, _SUCCESS)

    def snapshot(self, target: str) -> Any:
        """All read-outs at once, without waiting; asking for a target does not create it. labkit's own."""
        raise NotImplementedError

    # -- read-outs, as the toolkit has them

    async def get_state(self, target: str) -> CircuitBreakerState:
        """The state as stored: OPEN reads OPEN until a call arrives after the cooldown."""
        state: CircuitBreakerState = self.snapshot(target).state
        return state

    async def get_failure_count(self, target: str) -> int:
        """The failures that count towards opening."""
        return int(self.snapshot(target).failures)

    async def get_success_count(self, target: str) -> int:
        """Consecutive successful probes towards closing."""
        return int(self.snapshot(target).successes)

    async def get_last_state_change(self, target: str) -> float:
        """When the state last changed, in the clock's seconds; 0.0 for a target that is CLOSED."""
        return float(self.snapshot(target).changed_at)

    async def is_half_open_probing(self, target: str) -> bool:
        """Whether a probe's slot is taken."""
        return bool(self.snapshot(target).probing)

    # -- events, labkit's

    def listen(self, listener: Callable[[BreakerEvent], object], *, traffic: bool = True) -> Callable[[], None]:
        """Hear of everything that the breaker does from now on; gives a function that ends it.

        A listener is called synchronously and must not wait. One that raises is logged and does not disturb the call.

        Args:
            listener: takes a `BreakerEvent`.
            traffic: False to hear of changes of state, probes and rejections alone; ordinary traffic costs nothing.
        """
        return self._heard.add(listener, traffic)

    # -- what a breaker may do differently

    def _outcome_of(self, error: Exception) -> Outcome:
        """What an error counts as: a layer further in that refuses says nothing about the dependency."""
        return _CANCELLED if is_refusal(error) else _FAILURE

    def _left_early(self) -> Outcome | None:
        """What it counts as that a reader leaves a stream after a chunk or more; None: see `_abandoned_stream`."""
        return None

    def _abandoned(self, target: str, permit: Any) -> None:
        """A call ended with no outcome: its coroutine was closed, or something else than an `Exception` passed."""
        self._settle(target, permit, _CANCELLED)

    def _abandoned_stream(self, target: str, permit: Any) -> None:
        """A stream ended with no outcome: its reader left it."""
        self._settle(target, permit, _CANCELLED)

    def _limit(self) -> float | None:
        """Seconds that a probe, or the wait for a probe's next chunk, may take."""
        return self._config.probe_timeout

    def _limited(self) -> Callable[[], AbstractContextManager[Any]]:
        limit = self._limit()
        return nullcontext if limit is None else partial(self._clock.timeout, limit)

    def _inside(self, permit: Any) -> AbstractContextManager[None]:
        """What surrounds the code that is part of a probe."""
        return nullcontext()

    def _needs_lease(self) -> bool:
        """Whether a probe that has the slot has to ask for a lease as well."""
        return False

    async def _leased(self, target: str, permit: Any, message: str) -> HeldLease | None:
        """Ask for the lease of a probe that has the slot, or raise."""
        return None

    # -- the rule, once for both kinds of call

    def _admit(self, target: str, message: str) -> Any:
        policy, now = self._policy, self._clock.now()
        heard = self._heard.traffic or self._heard.quiet
        before = policy.state(target) if heard else None
        permit = self._ask(target, now)
        if isinstance(permit, Rejection):
            if heard:
                self._tell("rejected", now, target, False)
            raise CircuitBreakerOpenError(message, *permit)
        if heard:
            if before is _OPEN:
                self._tell("half_opened", now, target, True)
            if permit.kind is _ORDINARY:
                self._tell("admitted", now, target, False, True)
            elif not self._needs_lease():
                self._tell("admitted", now, target, True)
        return permit

    def _settle(self, target: str, permit: Any, outcome: Outcome) -> None:
        policy, now = self._policy, self._clock.now()
        heard = self._heard.traffic or self._heard.quiet
        before = policy.state(target) if heard else None
        policy.settle(target, permit, outcome, now)
        if heard:
            probe = permit.kind is _PROBE
            kind = "succeeded" if outcome is _SUCCESS else "failed" if outcome is _FAILURE else "cancelled"
            self._tell(kind, now, target, probe, not probe)
            after = policy.state(target)
            if after is not before:
                self._tell(CHANGES[after], now, target, probe)

    def _watched(
        self, call_next: CallNext, target: str, message: str
    ) -> Callable[[Any, tuple[Any, ...], dict[str, Any]], Awaitable[Any]]:
        """A call that was admitted, as a function of its permit and arguments."""
        settle, abandoned, outcome_of = self._settle, self._abandoned, self._outcome_of
        leased, inside, limited = self._leased, self._inside, self._limited()

        async def watched(permit: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            probe = permit.kind is _PROBE
            held: HeldLease | None = await leased(target, permit, message) if probe else None
            outcome: Outcome | None = None
            try:
                if probe:
                    with inside(permit), limited():
                        if held is None:
                            result = await call_next(*args, **kwargs)
                        else:
                            result = await held.run(call_next, *args, **kwargs)
                else:
                    result = await call_next(*args, **kwargs)
                outcome = _SUCCESS
            except Exception as error:
                outcome = outcome_of(error)
                raise
            except CancelledError:
                outcome = _CANCELLED
                raise
            finally:
                if held is not None and not held.decides():
                    outcome = _CANCELLED
                if outcome is None:
                    abandoned(target, permit)
                else:
                    settle(target, permit, outcome)
                if held is not None:
                    if outcome is _SUCCESS or outcome is _FAILURE:
                        await held.give_back()
                    else:  # perhaps closed, and what is being closed cannot wait
                        held.drop()
            return result

        return watched

    def _stream(self, call_next: CallNextStream, context: FunctionMiddlewareContext) -> CallNextStream:
        target = context.name
        admit, settle, abandoned, outcome_of = self._admit, self._settle, self._abandoned_stream, self._outcome_of
        leased, inside = self._leased, self._inside
        message = self._rejection_text(target)
        limited, left_early = self._limited(), self._left_early()

        async def stream(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
            permit = admit(target, message)
            probe = permit.kind is _PROBE
            held: HeldLease | None = await leased(target, permit, message) if probe else None
            outcome: Outcome | None = None
            closed = False
            handed_over = False  # while the consumer has the floor, what ends the stream is not the dependency's doing
            try:
                if probe:
                    opened: Any
                    with inside(permit):
                        opened = (closing if held is None else held.stream)(call_next(*args, **kwargs))
                        source: Any = await opened.__aenter__()
                    pull = source.__anext__ if held is None else source
                    try:
                        while True:
                            try:
                                with inside(permit), limited():  # around the pull alone: the consumer's time is its own
                                    chunk = await pull()
                            except StopAsyncIteration:
                                break
                            handed_over = True
                            yield chunk
                            handed_over = False
                    finally:  # closed without the error, on which contextlib would set an attribute
                        await opened.__aexit__(None, None, None)
                else:
                    async with closing(call_next(*args, **kwargs)) as chunks:
                        async for chunk in chunks:
                            handed_over = True
                            yield chunk
                            handed_over = False
                outcome = _SUCCESS
            except GeneratorExit:
                closed = True
                if handed_over:
                    outcome = left_early
                raise
            except CancelledError:
                outcome = _CANCELLED
                raise
            except Exception as error:
                if not handed_over:
                    outcome = outcome_of(error)
                raise
            finally:
                if held is not None and not held.decides():
                    outcome = _CANCELLED
                if outcome is None:
                    abandoned(target, permit)
                else:
                    settle(target, permit, outcome)
                if held is not None:
                    if not closed and (outcome is _SUCCESS or outcome is _FAILURE):
                        await held.give_back()
                    else:
                        held.drop()

        return stream

    # -- words

    def _tell(self, kind: str, at: float, target: str, probe: bool, ordinary: bool = False) -> None:
        held: Held = self.snapshot(target)
        self._heard.tell(BreakerEvent(kind, at, target, held.state, held.failures, held.successes, probe), ordinary)

    def _rejection_text(self, target: str) -> str:
        text = f"Circuit breaker is OPEN for '{target}'. Tool is temporarily unavailable."
        extra = self._config.circuit_breaker_message
        return f"{text} {extra}" if extra else text
