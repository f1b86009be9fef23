"""`circuit_breaker`: the async shell around the toolkit's machine, for single calls and for streams.

What the shell decides, the policy does not: what counts as an outcome. An `Exception` is a failure;
`asyncio.CancelledError` is neither success nor failure; a stream succeeds when it is read to its end; a stream that is
closed early counts neither way. `probe_timeout` bounds probes only, in a stream each wait for the next chunk.
"""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from labkit.errors import CircuitBreakerOpenError
from labkit.middleware._breaker import CHANGES, BreakerEvent, BreakerShell
from labkit.middleware.base import CallNext, CallNextStream, FunctionMiddlewareContext, closing
from labkit.policies import BreakerSnapshot, CircuitBreakerPolicy, CircuitBreakerState, Permit, Rejection
from labkit.policies.circuit_breaker import Record
from labkit.timing import Clock

if TYPE_CHECKING:
    from labkit.config import CircuitBreakerMiddlewareConfig

__all__ = ["BreakerEvent", "CircuitBreakerMiddleware"]

_ORDINARY, _PROBE = Permit.ORDINARY, Permit.PROBE
_HALF_OPEN = CircuitBreakerState.HALF_OPEN


class CircuitBreakerMiddleware(BreakerShell["CircuitBreakerMiddlewareConfig"]):
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
        super().__init__(config, clock)
        self._policy = CircuitBreakerPolicy(
            config.failure_threshold, config.cooldown_period, config.half_open_success_threshold
        )

    def snapshot(self, target: str) -> BreakerSnapshot:
        """All five read-outs at once, without waiting. labkit's own."""
        return self._policy.snapshot(target)

    def at_rest(self, target: str) -> bool:
        """Whether the target is closed and nothing is kept of it, so that a success changes nothing. labkit's own."""
        return target not in self._policy.entries

    def rejects(self, target: str, at: float) -> bool:
        """Whether a call that arrived at that time would be rejected, if nothing happens until then. labkit's own."""
        entry = self._policy.entries.get(target)
        if not isinstance(entry, Record):
            return False
        return self._policy.rest(entry, at) > 0.0 or (entry.state is _HALF_OPEN and entry.probing)

    def permit(self) -> Permit:
        """What a call is admitted with while the breaker is at rest. labkit's own."""
        return _ORDINARY

    def succeeded(self, target: str, permit: Permit) -> None:
        """Count the success of an ordinary call that is accounted for elsewhere. labkit's own."""
        self._settle(target, permit, "succeeded")

    # -- the rule, once for both kinds of call

    def _admit(self, target: str, message: str) -> Permit:
        policy, heard = self._policy, bool(self._heard)
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
            self._tell("admitted", now, target, permit is _PROBE, permit is not _PROBE)
        return permit

    def _settle(self, target: str, permit: Permit, kind: str) -> None:
        now = self._clock.now()
        policy, heard = self._policy, bool(self._heard)
        before = policy.snapshot(target).state if heard else None
        if kind == "succeeded":
            policy.succeeded(target, permit)
        elif kind == "failed":
            policy.failed(target, permit, now)
        else:
            policy.cancelled(target)
        if heard:
            self._tell(kind, now, target, permit is _PROBE, permit is not _PROBE)
            after = policy.snapshot(target).state
            if after is not before:
                self._tell(CHANGES[after], now, target, permit is _PROBE)

    # -- single calls

    def _single(self, call_next: CallNext, context: FunctionMiddlewareContext) -> CallNext:
        target = context.name
        policy, heard = self._policy, self._heard
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
                    elif self._heard.traffic:
                        self._tell("cancelled", self._clock.now(), target, False, ordinary=True)

        return stream
