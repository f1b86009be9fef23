"""`circuit_breaker`: the async shell around the toolkit's machine, for single calls and for streams.

What the shell decides, the policy does not: what counts as an outcome. An `Exception` is a failure;
`asyncio.CancelledError` is neither success nor failure; a stream succeeds when it is read to its end; a stream that is
closed early counts neither way. `probe_timeout` bounds probes only, in a stream each wait for the next chunk.
"""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from labkit.errors import CircuitBreakerOpenError
from labkit.middleware._listeners import Listeners
from labkit.middleware.base import BoundMiddleware, CallNext, CallNextStream, FunctionMiddlewareContext, closing
from labkit.policies import BreakerSnapshot, CircuitBreakerPolicy, CircuitBreakerState, Permit, Rejection
from labkit.policies.circuit_breaker import Record
from labkit.timing import Clock, LoopClock

if TYPE_CHECKING:
    from labkit.config import CircuitBreakerMiddlewareConfig

__all__ = ["BreakerEvent", "CircuitBreakerMiddleware"]

_ORDINARY, _PROBE = Permit.ORDINARY, Permit.PROBE


class BreakerEvent(NamedTuple):
    """Something that a breaker did.

    Attributes:
        kind: admitted, rejected, succeeded, failed, cancelled, opened, half_opened or closed.
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


Listener = Callable[[BreakerEvent], object]

_CHANGES = {
    CircuitBreakerState.OPEN: "opened",
    CircuitBreakerState.HALF_OPEN: "half_opened",
    CircuitBreakerState.CLOSED: "closed",
}
_STATE_CHANGES = frozenset(_CHANGES.values())


class CircuitBreakerMiddleware(BoundMiddleware):
    """Isolates a failing dependency, by the rules of the toolkit's 1.9.0.

    State is kept in memory, per instance and per `context.name`; two functions of one name share it.

    Args:
        config: its fields.
        builder: taken and ignored, so that the toolkit's signature fits.
        clock: whose time; asyncio's by default.
    """

    def __init__(
        self, config: CircuitBreakerMiddlewareConfig, builder: Any = None, *, clock: Clock | None = None
    ) -> None:
        super().__init__()
        self._config = config
        self._clock: Clock = clock if clock is not None else LoopClock()
        self._policy = CircuitBreakerPolicy(
            config.failure_threshold, config.cooldown_period, config.half_open_success_threshold
        )
        self._listeners: Listeners[BreakerEvent] = Listeners("breaker")

    @property
    def config(self) -> CircuitBreakerMiddlewareConfig:
        """The fields it was made with."""
        return self._config

    @property
    def enabled(self) -> bool:
        """Whether it runs at all; read once, when a chain is built."""
        return self._config.enabled

    def snapshot(self, target: str) -> BreakerSnapshot:
        """All five read-outs at once, without waiting. labkit's own."""
        return self._policy.snapshot(target)

    def at_rest(self, target: str) -> bool:
        """Whether the target is closed and nothing is kept of it, so that a success changes nothing. labkit's own."""
        return target not in self._policy.entries

    def rejects(self, target: str, at: float) -> bool:
        """Whether a call that arrived at that time would be rejected for a cooldown that is not over. labkit's own."""
        entry = self._policy.entries.get(target)
        return isinstance(entry, Record) and self._policy.rest(entry, at) > 0.0

    def succeeded(self, target: str) -> None:
        """Count the success of an ordinary call that is accounted for elsewhere. labkit's own."""
        self._settle(target, _ORDINARY, "succeeded")

    # -- read-outs, as the toolkit has them; asking for a target does not create it

    async def get_state(self, target: str) -> CircuitBreakerState:
        """The state as stored: OPEN reads OPEN until a call arrives after the cooldown."""
        return self._policy.snapshot(target).state

    async def get_failure_count(self, target: str) -> int:
        """Consecutive failures."""
        return self._policy.snapshot(target).failures

    async def get_success_count(self, target: str) -> int:
        """Consecutive successful probes towards closing."""
        return self._policy.snapshot(target).successes

    async def get_last_state_change(self, target: str) -> float:
        """When the state last changed, in the clock's seconds; 0.0 for a target that is CLOSED."""
        return self._policy.snapshot(target).changed_at

    async def is_half_open_probing(self, target: str) -> bool:
        """Whether the probe's slot is taken."""
        return self._policy.snapshot(target).probing

    # -- events, labkit's

    def listen(self, listener: Listener, *, traffic: bool = True) -> Callable[[], None]:
        """Hear of everything that the breaker does from now on; gives a function that ends it.

        A listener is called synchronously and must not wait. One that raises is logged and does not disturb the call.

        Args:
            listener: takes a `BreakerEvent`.
            traffic: False to hear of changes of state, probes and rejections alone; ordinary traffic costs nothing.
        """
        return self._listeners.add(listener, traffic)

    def _tell(self, kind: str, at: float, target: str, probe: bool) -> None:
        now = self._policy.snapshot(target)
        event = BreakerEvent(kind, at, target, now.state, now.failures, now.successes, probe)
        self._listeners.tell(event, not (probe or kind == "rejected" or kind in _STATE_CHANGES))

    # -- the rule, once for both kinds of call

    def _admit(self, target: str, message: str) -> Permit:
        policy, heard = self._policy, bool(self._listeners)
        now = self._clock.now()
        before = policy.snapshot(target).state if heard else None
        permit = policy.admit(target, now)
        if isinstance(permit, Rejection):
            if heard:
                self._tell("rejected", now, target, False)
            raise CircuitBreakerOpenError(message, *permit)
        if heard:
            if before is CircuitBreakerState.OPEN:
                self._tell("half_opened", now, target, True)
            self._tell("admitted", now, target, permit is _PROBE)
        return permit

    def _settle(self, target: str, permit: Permit, kind: str) -> None:
        now = self._clock.now()
        policy, heard = self._policy, bool(self._listeners)
        before = policy.snapshot(target).state if heard else None
        if kind == "succeeded":
            policy.succeeded(target, permit)
        elif kind == "failed":
            policy.failed(target, permit, now)
        else:
            policy.cancelled(target)
        if heard:
            self._tell(kind, now, target, permit is _PROBE)
            after = policy.snapshot(target).state
            if after is not before:
                self._tell(_CHANGES[after], now, target, permit is _PROBE)

    def _rejection_text(self, target: str) -> str:
        text = f"Circuit breaker is OPEN for '{target}'. Tool is temporarily unavailable."
        extra = self._config.circuit_breaker_message
        return f"{text} {extra}" if extra else text

    # -- single calls

    def _single(self, call_next: CallNext, context: FunctionMiddlewareContext) -> CallNext:
        target = context.name
        policy, heard = self._policy, self._listeners
        listeners, quiet = heard.traffic, heard.quiet
        entries = policy.entries  # only a Record in there can mean "not closed": see the policy's contract
        rest, tolerates, succeeded, now = policy.rest, policy.tolerates, policy.succeeded, self._clock.now
        admit, settle = self._admit, self._settle
        message = self._rejection_text(target)
        timeout, limit = self._clock.timeout, self._config.probe_timeout

        async def watched(permit: Permit, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            try:
                if permit is _PROBE and limit is not None:
                    with timeout(limit):
                        result = await call_next(*args, **kwargs)
                else:
                    result = await call_next(*args, **kwargs)
            except Exception:
                settle(target, permit, "failed")
                raise
            except CancelledError:
                settle(target, permit, "cancelled")
                raise
            settle(target, permit, "succeeded")
            return result

        # The same as admit() and watched(), without what ordinary traffic and rejections do not need: a breaker is in
        # the way of every call, so this is the path that is measured (make bench).
        async def call(*args: Any, **kwargs: Any) -> Any:
            if listeners:
                return await watched(admit(target, message), args, kwargs)
            if target in entries:
                record = entries[target]
                if record.__class__ is Record:
                    retry_after = rest(record, now())
                    if retry_after > 0.0:  # made and raised in one: held in a variable, an error is a cycle
                        if quiet:
                            heard.tell(
                                BreakerEvent(
                                    "rejected", now(), target, record.state, record.failures, record.successes, False
                                ),
                                False,
                            )
                        raise CircuitBreakerOpenError(message, target, retry_after)
                    return await watched(admit(target, message), args, kwargs)
            try:
                result = await call_next(*args, **kwargs)
            except Exception:
                if listeners or not tolerates(target):
                    settle(target, _ORDINARY, "failed")
                raise
            except CancelledError:
                settle(target, _ORDINARY, "cancelled")
                raise
            if listeners:
                settle(target, _ORDINARY, "succeeded")
            elif target in entries:
                succeeded(target, _ORDINARY)
            return result

        return call

    # -- streams

    def _stream(self, call_next: CallNextStream, context: FunctionMiddlewareContext) -> CallNextStream:
        target = context.name
        admit, settle = self._admit, self._settle
        message = self._rejection_text(target)
        timeout, limit = self._clock.timeout, self._config.probe_timeout

        async def stream(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
            permit = admit(target, message)
            settled = False
            handed_over = False  # while the consumer has the floor, what ends the stream is not the dependency's doing
            try:
                async with closing(call_next(*args, **kwargs)) as chunks:
                    if permit is _PROBE and limit is not None:
                        while True:
                            try:
                                with timeout(limit):  # around the pull alone: the consumer's time is its own
                                    chunk = await anext(chunks)
                            except StopAsyncIteration:
                                break
                            handed_over = True
                            yield chunk
                            handed_over = False
                    else:
                        async for chunk in chunks:
                            handed_over = True
                            yield chunk
                            handed_over = False
            except CancelledError:
                settled = True
                settle(target, permit, "cancelled")
                raise
            except Exception:
                if not handed_over:
                    settled = True
                    settle(target, permit, "failed")
                raise
            else:
                settled = True
                settle(target, permit, "succeeded")
            finally:
                if not settled:  # closed early: a probe's slot is freed, nothing is counted
                    if permit is _PROBE:
                        settle(target, permit, "cancelled")
                    elif self._listeners.traffic:
                        self._tell("cancelled", self._clock.now(), target, False)

        return stream
