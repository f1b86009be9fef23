"""`retry`: the middleware that the toolkit lacks.

Never retried, whatever the configuration says: an open breaker's rejection (it says *not now*, and waiting out a
back-off for it wastes the caller's time), a business rejection (the answer would be the same), a cancellation (nobody
waits any more). A stream is retried only before its first chunk: what was delivered cannot be taken back.

A retry that names a `budget` asks it before each wait, and gives up with the last error when it is used up.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from labkit.errors import BusinessRejection, CircuitBreakerOpenError, MiddlewareError, exception_named
from labkit.middleware.base import BoundMiddleware, CallNext, CallNextStream, FunctionMiddlewareContext, closing
from labkit.middleware.retry_budget import RetryBudgetMiddleware
from labkit.policies import GiveUp, RetryPolicy
from labkit.timing import Clock, LoopClock

if TYPE_CHECKING:
    from labkit.config import RetryMiddlewareConfig

__all__ = ["RetryMiddleware", "RetryReport"]

_NEVER = (CircuitBreakerOpenError, BusinessRejection)


@dataclass(frozen=True, slots=True)
class RetryReport:
    """What was tried before giving up; on the error as `error.retry_report`.

    A first error that is not retryable is passed on as it is, without a report: nothing was retried.

    Attributes:
        attempts: how many, the first included.
        waits: seconds waited between them, in order.
        reason: why it was given up, in words.
    """

    attempts: int
    waits: tuple[float, ...]
    reason: str


class RetryMiddleware(BoundMiddleware):
    """Tries a failed operation again, with exponential back-off and full jitter.

    Args:
        config: its fields.
        builder: taken and ignored, so that the signature is like the toolkit's others.
        clock: whose time; asyncio's by default.
        budget: the one that the configuration names; `Stack` fills it in.
    """

    def __init__(
        self,
        config: RetryMiddlewareConfig,
        builder: Any = None,
        *,
        clock: Clock | None = None,
        budget: RetryBudgetMiddleware | None = None,
    ) -> None:
        super().__init__()
        self._config = config
        self._shared = budget
        self._clock: Clock = clock if clock is not None else LoopClock()
        named = tuple(exception_named(name) for name in config.retry_on)
        self._policy = RetryPolicy(
            config.attempts,
            config.base_delay,
            config.factor,
            config.max_delay,
            jitter=config.jitter == "full",
            seed=config.seed,
            time_budget=config.time_budget,
            retryable=lambda error: isinstance(error, named) and not isinstance(error, _NEVER),
        )

    @property
    def config(self) -> RetryMiddlewareConfig:
        """The fields it was made with."""
        return self._config

    @property
    def enabled(self) -> bool:
        """Whether it runs at all; read once, when a chain is built."""
        return self._config.enabled

    def connect(self, budget: RetryBudgetMiddleware) -> None:
        """Say which budget it shares, before a chain is built."""
        self._shared = budget

    @property
    def budget(self) -> RetryBudgetMiddleware | None:
        """The budget that it heeds, or None: there is none, or it is switched off.

        Raises:
            MiddlewareError: it names one that nobody has connected.
        """
        name = self._config.budget
        if name is not None and self._shared is None:
            raise MiddlewareError(f"the retry's budget '{name}' is not there; a stack connects the two")
        return self._shared if self._shared is not None and self._shared.enabled else None

    async def _wait_or_raise(
        self,
        attempt: int,
        error: Exception,
        began: float,
        waits: list[float],
        target: str,
        budget: RetryBudgetMiddleware | None,
    ) -> None:
        """Wait before the next attempt, or raise the error with what was tried attached to it."""
        decision = self._policy.decide(attempt, error, self._clock.now() - began)
        if budget is not None and not isinstance(decision, GiveUp) and not budget.spend(target):
            decision = GiveUp(f"the retry budget of '{target}' is used up")
        if isinstance(decision, GiveUp):
            _attach(error, RetryReport(attempt, tuple(waits), decision.reason))
            try:
                raise error
            finally:
                del error  # the error refers to this frame: without this, a cycle for the garbage collector
        waits.append(decision.seconds)
        await self._clock.sleep(decision.seconds)

    def _single(self, call_next: CallNext, context: FunctionMiddlewareContext) -> CallNext:
        # Without a budget nobody needs to know when the operation began, and the common case reads no clock.
        now = self._clock.now if self._policy.time_budget is not None else None
        again, retryable = self._again, self._policy.retryable
        target, budget = context.name, self.budget

        async def call(*args: Any, **kwargs: Any) -> Any:
            began = now() if now is not None else 0.0
            try:
                return await call_next(*args, **kwargs)
            except _NEVER:  # an open breaker's rejections come this way in numbers: pass them on at once
                raise
            except Exception as error:
                if not retryable(error):
                    raise
                failed = [error]  # in a list that is emptied: an error held in its own frame is a cycle
            return await again(failed, began, call_next, args, kwargs, target, budget)

        if budget is None:
            return call
        earn = budget.earn

        async def earning(*args: Any, **kwargs: Any) -> Any:
            earn(target)
            return await call(*args, **kwargs)

        return earning

    async def _again(
        self,
        failed: list[Exception],
        began: float,
        call_next: CallNext,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        target: str,
        budget: RetryBudgetMiddleware | None,
    ) -> Any:
        attempt, waits = 1, list[float]()
        while True:
            await self._wait_or_raise(attempt, failed.pop(), began, waits, target, budget)
            attempt += 1
            try:
                return await call_next(*args, **kwargs)
            except Exception as error:
                failed.append(error)

    def _stream(self, call_next: CallNextStream, context: FunctionMiddlewareContext) -> CallNextStream:
        clock, retryable = self._clock, self._policy.retryable
        target, budget = context.name, self.budget

        async def stream(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
            began = clock.now()
            if budget is not None:
                budget.earn(target)
            attempt, waits = 1, list[float]()
            while True:
                delivered = False
                try:
                    async with closing(call_next(*args, **kwargs)) as chunks:
                        async for chunk in chunks:
                            delivered = True
                            yield chunk
                    return
                except Exception as latest:
                    if attempt == 1 and not retryable(latest):  # as with single calls
                        raise
                    if delivered:
                        _attach(latest, RetryReport(attempt, tuple(waits), "a chunk had been delivered"))
                        raise
                    error = latest
                try:
                    await self._wait_or_raise(attempt, error, began, waits, target, budget)
                finally:
                    del error
                attempt += 1

        return stream


def _attach(error: Exception, report: RetryReport) -> None:
    with suppress(AttributeError):  # an exception of a class without room for it is passed on as it is
        error.retry_report = report  # type: ignore[attr-defined]
        if report.attempts > 1:
            waits = ", ".join(f"{wait:.3g}" for wait in report.waits)
            error.add_note(f"given up after {report.attempts} attempts (waits: {waits} s): {report.reason}")
