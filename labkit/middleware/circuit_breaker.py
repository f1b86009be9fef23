"""`circuit_breaker`: the async shell around the toolkit's machine, for single calls and for streams.

What the shell decides, the policy does not: what counts as an outcome. An `Exception` is a failure;
`asyncio.CancelledError` is neither success nor failure; a stream succeeds when it is read to its end; a stream that is
closed early counts neither way. `probe_timeout` bounds probes only, in a stream each wait for the next chunk.
"""

from __future__ import annotations

from asyncio import CancelledError
from typing import TYPE_CHECKING, Any

from labkit.errors import CircuitBreakerOpenError
from labkit.middleware._breaker import BreakerEvent, BreakerShell
from labkit.middleware.base import CallNext, FunctionMiddlewareContext
from labkit.policies import BreakerSnapshot, CircuitBreakerPolicy, Outcome, Permit
from labkit.policies.circuit_breaker import Record
from labkit.timing import Clock

if TYPE_CHECKING:
    from labkit.config import CircuitBreakerMiddlewareConfig

__all__ = ["BreakerEvent", "CircuitBreakerMiddleware"]

_ORDINARY, _PROBE = Permit.ORDINARY, Permit.PROBE


class CircuitBreakerMiddleware(BreakerShell["CircuitBreakerMiddlewareConfig", CircuitBreakerPolicy]):
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
        policy = CircuitBreakerPolicy(
            config.failure_threshold, config.cooldown_period, config.half_open_success_threshold
        )
        super().__init__(config, policy, clock)

    def snapshot(self, target: str) -> BreakerSnapshot:
        """All five read-outs at once, without waiting. labkit's own."""
        return self._policy.snapshot(target)

    # -- what the toolkit does its own way

    def _outcome_of(self, error: Exception) -> Outcome:
        return Outcome.FAILURE  # whatever it is, a refusal of a layer further in too

    def _abandoned(self, target: str, permit: Permit) -> None:
        """Nobody is told: a probe that ends in this way keeps its slot."""

    def _abandoned_stream(self, target: str, permit: Permit) -> None:
        """A probe's slot is freed, nothing is counted."""
        if permit is _PROBE:
            self._settle(target, permit, Outcome.CANCELLED)
        elif self._heard.traffic:
            self._tell("cancelled", self._clock.now(), target, False, ordinary=True)

    # -- single calls

    def _single(self, call_next: CallNext, context: FunctionMiddlewareContext) -> CallNext:
        target = context.name
        policy, heard = self._policy, self._heard
        listeners, quiet = heard.traffic, heard.quiet
        entries = policy.entries  # only a Record in there can mean "not closed": see the policy's contract
        rest, tolerates, succeeded, now = policy.rest, policy.tolerates, policy.succeeded, self._clock.now
        admit, settle = self._admit, self._settle
        message = self._rejection_text(target)
        watched = self._watched(call_next, target, message)

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
                    settle(target, _ORDINARY, Outcome.FAILURE)
                raise
            except CancelledError:
                settle(target, _ORDINARY, Outcome.CANCELLED)
                raise
            if listeners:
                settle(target, _ORDINARY, Outcome.SUCCESS)
            elif target in entries:
                succeeded(target, _ORDINARY)
            return result

        return call
