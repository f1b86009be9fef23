"""`window_circuit_breaker`: the async shell around the breaker that counts over time, for single calls and for streams.

What counts as an outcome is as with `circuit_breaker`: an `Exception` is a failure; a cancellation, and a stream that
is closed early, is neither success nor failure; a stream succeeds when it is read to its end; `probe_timeout` bounds
probes only, in a stream each wait for the next chunk. A probe's slot is freed whatever ends the probe. What differs:

- a refusal of a layer further in (an open breaker, a full bulkhead) says nothing about the dependency, and counts
  neither way; a group counts neither way when it holds nothing else;
- with `left_early: success`, a stream that its reader leaves after a chunk or more is a success.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from labkit.errors import Refusal, is_refusal
from labkit.middleware._breaker import BreakerShell
from labkit.middleware.base import CallNext, FunctionMiddlewareContext
from labkit.policies import CircuitBreakerState, Outcome, WindowBreakerSnapshot, WindowCircuitBreakerPolicy
from labkit.timing import Clock

if TYPE_CHECKING:
    from labkit.config import WindowCircuitBreakerMiddlewareConfig

__all__ = ["WindowCircuitBreakerMiddleware"]

_CLOSED = CircuitBreakerState.CLOSED
_SUCCESS, _FAILURE, _CANCELLED = Outcome.SUCCESS, Outcome.FAILURE, Outcome.CANCELLED


class WindowCircuitBreakerMiddleware(BreakerShell["WindowCircuitBreakerMiddlewareConfig", WindowCircuitBreakerPolicy]):
    """Isolates a failing dependency, by failures per interval or by the failure rate in a sliding window.

    State is kept in memory, per instance and per `context.name`; two functions of one name share it.

    Args:
        config: its fields.
        builder: taken and ignored, so that the signature is like the toolkit's others.
        clock: whose time; asyncio's by default.
    """

    def __init__(
        self, config: WindowCircuitBreakerMiddlewareConfig, builder: Any = None, *, clock: Clock | None = None
    ) -> None:
        policy = WindowCircuitBreakerPolicy(
            config.failure_threshold,
            config.interval,
            failure_rate=config.failure_rate,
            window=config.window,
            minimum_calls=config.minimum_calls,
            open_duration=config.open_duration,
            open_factor=config.open_factor,
            max_open_duration=config.max_open_duration,
            half_open_requests=config.half_open_requests,
            half_open_successes=config.half_open_successes,
        )
        super().__init__(config, policy, clock)

    def snapshot(self, target: str) -> WindowBreakerSnapshot:
        """What is held about a target now; asking does not create it."""
        return self._policy.snapshot(target, self._clock.now())

    def _left_early(self) -> Outcome | None:
        return _SUCCESS if self._config.left_early == "success" else None

    # -- single calls

    def _single(self, call_next: CallNext, context: FunctionMiddlewareContext) -> CallNext:
        target = context.name
        policy, listeners = self._policy, self._heard.traffic
        entries = policy.entries  # only a record that is not CLOSED can refuse: the policy's contract
        by_rate = policy.failure_rate is not None  # else nothing but failures is counted
        admit, settle = self._admit, self._settle
        message = self._rejection_text(target)
        watched = self._watched(call_next, target, message)

        # The same as admit() and watched(), without what ordinary traffic does not need.
        async def call(*args: Any, **kwargs: Any) -> Any:
            if listeners or (target in entries and entries[target].state is not _CLOSED):
                return await watched(admit(target, message), args, kwargs)
            permit = policy.ordinary
            try:
                result = await call_next(*args, **kwargs)
            except Refusal:  # of a layer further in, perhaps in numbers
                if listeners:
                    settle(target, permit, _CANCELLED)
                raise
            except Exception as error:
                settle(target, permit, _CANCELLED if is_refusal(error) else _FAILURE)
                raise
            except BaseException:
                if listeners:
                    settle(target, permit, _CANCELLED)
                raise
            if by_rate or listeners:
                settle(target, permit, _SUCCESS)
            return result

        return call
