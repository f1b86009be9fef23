"""`window_circuit_breaker`: the async shell around the breaker that counts over time, for single calls and for streams.

What counts as an outcome is as with `circuit_breaker`: an `Exception` is a failure; a cancellation, and a stream that
is closed early, is neither success nor failure; a stream succeeds when it is read to its end; `probe_timeout` bounds
probes only, in a stream each wait for the next chunk. A probe's slot is freed whatever ends the probe. What differs:

- a refusal of a layer further in (an open breaker, a full bulkhead) says nothing about the dependency, and counts
  neither way; a group counts neither way when it holds nothing else;
- with `left_early: success`, a stream that its reader leaves after a chunk or more is a success.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from labkit.errors import CircuitBreakerOpenError, Refusal, is_refusal
from labkit.middleware._breaker import CHANGES, BreakerShell
from labkit.middleware.base import CallNext, CallNextStream, FunctionMiddlewareContext, closing
from labkit.policies import (
    CircuitBreakerState,
    GenerationPermit,
    Outcome,
    Permit,
    Rejection,
    WindowBreakerSnapshot,
    WindowCircuitBreakerPolicy,
)
from labkit.timing import Clock

if TYPE_CHECKING:
    from labkit.config import WindowCircuitBreakerMiddlewareConfig

__all__ = ["WindowCircuitBreakerMiddleware"]

_CLOSED, _PROBE = CircuitBreakerState.CLOSED, Permit.PROBE
_KINDS = {Outcome.SUCCESS: "succeeded", Outcome.FAILURE: "failed", Outcome.CANCELLED: "cancelled"}


class WindowCircuitBreakerMiddleware(BreakerShell["WindowCircuitBreakerMiddlewareConfig"]):
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
        super().__init__(config, clock)
        self._policy = WindowCircuitBreakerPolicy(
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
        # Of ordinary calls, the outcomes that may change anything: in an interval nothing but failures is counted.
        by_interval = config.failure_rate is None
        self._counted = (Outcome.FAILURE,) if by_interval else (Outcome.SUCCESS, Outcome.FAILURE)

    def snapshot(self, target: str) -> WindowBreakerSnapshot:
        """What is held about a target now; asking does not create it."""
        return self._policy.snapshot(target, self._clock.now())

    # -- the rule, once for both kinds of call

    def _state(self, target: str) -> CircuitBreakerState:
        record = self._policy.entries.get(target)
        return _CLOSED if record is None else record.state

    def _admit(self, target: str, message: str) -> GenerationPermit:
        if not self._heard.traffic and self._state(target) is _CLOSED:
            return self._policy.ordinary
        now = self._clock.now()
        before = self._state(target)
        permit = self._policy.admit(target, now)
        if isinstance(permit, Rejection):
            if self._heard:
                self._tell("rejected", now, target, False)
            raise CircuitBreakerOpenError(message, *permit)
        if self._heard:
            probe = permit.kind is _PROBE
            if self._state(target) is not before:
                self._tell("half_opened", now, target, True)
            self._tell("admitted", now, target, probe, not probe)
        return permit

    def _settle(self, target: str, permit: GenerationPermit, outcome: Outcome) -> None:
        probe = permit.kind is _PROBE
        if not probe and not self._heard.traffic and outcome not in self._counted:
            return
        now = self._clock.now()
        before = self._state(target)
        self._policy.settle(target, permit, outcome, now)
        if self._heard:
            after = self._state(target)
            if probe or self._heard.traffic:
                self._tell(_KINDS[outcome], now, target, probe, not probe)
            if after is not before:
                self._tell(CHANGES[after], now, target, probe)

    # -- single calls

    def _single(self, call_next: CallNext, context: FunctionMiddlewareContext) -> CallNext:
        target = context.name
        admit, settle = self._admit, self._settle
        message = self._rejection_text(target)
        timeout, limit = self._clock.timeout, self._config.probe_timeout

        async def call(*args: Any, **kwargs: Any) -> Any:
            permit = admit(target, message)
            try:
                if limit is not None and permit.kind is _PROBE:
                    with timeout(limit):
                        result = await call_next(*args, **kwargs)
                else:
                    result = await call_next(*args, **kwargs)
            except Refusal:  # of a layer further in
                settle(target, permit, Outcome.CANCELLED)
                raise
            except Exception as error:
                settle(target, permit, Outcome.CANCELLED if is_refusal(error) else Outcome.FAILURE)
                raise
            except BaseException:
                settle(target, permit, Outcome.CANCELLED)
                raise
            settle(target, permit, Outcome.SUCCESS)
            return result

        return call

    # -- streams

    def _stream(self, call_next: CallNextStream, context: FunctionMiddlewareContext) -> CallNextStream:
        target = context.name
        admit, settle = self._admit, self._settle
        message = self._rejection_text(target)
        timeout, limit = self._clock.timeout, self._config.probe_timeout
        left_early = Outcome.SUCCESS if self._config.left_early == "success" else Outcome.CANCELLED

        async def stream(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
            permit = admit(target, message)
            outcome = Outcome.CANCELLED
            handed_over = False  # while the consumer has the floor, what ends the stream is not the dependency's doing
            try:
                async with closing(call_next(*args, **kwargs)) as chunks:
                    while True:
                        try:
                            if limit is not None and permit.kind is _PROBE:
                                with timeout(limit):  # around the pull alone: the consumer's time is its own
                                    chunk = await anext(chunks)
                            else:
                                chunk = await anext(chunks)
                        except StopAsyncIteration:
                            break
                        handed_over = True
                        yield chunk
                        handed_over = False
                outcome = Outcome.SUCCESS
            except GeneratorExit:
                if handed_over:
                    outcome = left_early
                raise
            except Exception as error:
                if not handed_over and not is_refusal(error):
                    outcome = Outcome.FAILURE
                raise
            finally:
                settle(target, permit, outcome)

        return stream
