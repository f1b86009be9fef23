"""`retry`: the middleware that the toolkit lacks.

Never retried, whatever the configuration says: an open breaker's rejection (it says *not now*, and waiting out a
back-off for it wastes the caller's time), a business rejection (the answer would be the same), a cancellation (nobody
waits any more). An `ExceptionGroup` is what its members are: retried where each of them would be, and never with one
among them that never is. A stream is retried only before its first chunk: what was delivered cannot be taken back.

Where the error says in its `retry_after` when to come back, no attempt is made before that; `labkit.policies.retry` has
the rule.

A retry that names a `budget` asks it before each wait, and gives up with the last error when it is used up. A request
earns once for a budget, however many retries of its chain name it, and however often an outer retry lets an inner one
begin anew: the inner one's calls are attempts of the outer one, and not requests.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

from labkit.errors import (
    BusinessRejection,
    CircuitBreakerOpenError,
    MiddlewareError,
    annotate,
    exception_named,
    is_any,
    is_wholly,
)
from labkit.middleware.base import BoundMiddleware, CallNext, CallNextStream, FunctionMiddlewareContext, closing
from labkit.middleware.retry_budget import RetryBudgetMiddleware
from labkit.policies import GiveUp, RetryPolicy
from labkit.timing import Clock, in_virtual_time

if TYPE_CHECKING:
    from labkit.config import RetryMiddlewareConfig

__all__ = ["RetryMiddleware", "RetryReport"]

_NEVER = (CircuitBreakerOpenError, BusinessRejection)
_VIRTUAL_SEED = 0  # of a retry without a seed, in virtual time
_numbers = count(1)  # of the instances, to tell their notes on an error apart


class _Request:
    """A request on its way through a chain, as its retries see it.

    Attributes:
        context: the chain's; None once the request is over (a task that it started may still carry it).
        first: the retry that met it first. If it meets one again that it knows, that is a further request: the function
            calls itself.
        earned: the budgets that were earned for; None where that is past, since attempts are being repeated.
    """

    __slots__ = ("context", "earned", "first")

    def __init__(
        self,
        context: FunctionMiddlewareContext,
        first: RetryMiddleware,
        earned: set[RetryBudgetMiddleware] | None,
    ) -> None:
        self.context: FunctionMiddlewareContext | None = context
        self.first = first
        self.earned = earned


_request: ContextVar[_Request | None] = ContextVar("labkit_retried_request", default=None)


class _Within:
    """Tells the retries further inside which request this is; None: they know, or none of them needs to.

    A class, and no generator: contextlib's would set `__traceback__` on an error that lets nobody set anything.
    """

    __slots__ = ("_request", "_token")

    def __init__(self, request: _Request | None) -> None:
        self._request = request

    def __enter__(self) -> None:
        if self._request is not None:
            self._token = _request.set(self._request)

    def __exit__(self, *_: object) -> None:
        if self._request is not None:
            with suppress(ValueError):  # closed from elsewhere, whose context is another
                _request.reset(self._token)


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


class RetryMiddleware(BoundMiddleware["RetryMiddlewareConfig"]):
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
        super().__init__(config, clock)
        self._shared = budget
        self._number = next(_numbers)
        named = tuple(exception_named(name) for name in config.retry_on)
        self._policy = RetryPolicy(
            config.attempts,
            config.base_delay,
            config.factor,
            config.max_delay,
            jitter=config.jitter == "full",
            seed=config.seed,
            time_budget=config.time_budget,
            retryable=lambda error: is_wholly(error, named) and not is_any(error, _NEVER),
        )
        self._seeded = config.seed is not None

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
        if not self._seeded:  # not when it is made: which time it will live in shows once it runs
            self._seeded = True
            if in_virtual_time():
                self._policy.draw_from(_VIRTUAL_SEED)
        decision = self._policy.decide(attempt, error, self._clock.now() - began)
        if budget is not None and not isinstance(decision, GiveUp) and not budget.spend(target):
            decision = GiveUp(f"the retry budget of '{target}' is used up")
        if isinstance(decision, GiveUp):
            _attach(error, RetryReport(attempt, tuple(waits), decision.reason), self._number)
            try:
                raise error
            finally:
                del error  # the error refers to this frame: without this, a cycle for the garbage collector
        waits.append(decision.seconds)
        await self._clock.sleep(decision.seconds)

    def _entered(
        self, context: FunctionMiddlewareContext, target: str, budget: RetryBudgetMiddleware
    ) -> _Request | None:
        """Earn for the budget, once a request; gives the request if it is this retry that met it first."""
        known = _request.get()
        if known is None or known.context is not context or known.first is self:
            budget.earn(target)
            return _Request(context, self, {budget})
        if known.earned is not None and budget not in known.earned:
            known.earned.add(budget)
            budget.earn(target)
        return None

    def _repeated(self, context: FunctionMiddlewareContext) -> _Request | None:
        """The request whose attempts are now repeated, if nobody further outside has told of it."""
        known = _request.get()
        return _Request(context, self, None) if known is None or known.context is not context else None

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
            return await again(failed, began, call_next, args, kwargs, context, budget)

        if budget is None:
            return call
        entered = self._entered

        async def earning(*args: Any, **kwargs: Any) -> Any:
            request = entered(context, target, budget)
            if request is None:
                return await call(*args, **kwargs)
            try:
                with _Within(request):
                    return await call(*args, **kwargs)
            finally:
                request.context = None

        return earning

    async def _again(
        self,
        failed: list[Exception],
        began: float,
        call_next: CallNext,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        context: FunctionMiddlewareContext,
        budget: RetryBudgetMiddleware | None,
    ) -> Any:
        attempt, waits = 1, list[float]()
        request = self._repeated(context)
        try:
            with _Within(request):
                while True:
                    await self._wait_or_raise(attempt, failed.pop(), began, waits, context.name, budget)
                    attempt += 1
                    try:
                        return await call_next(*args, **kwargs)
                    except Exception as error:
                        failed.append(error)
        finally:
            if request is not None:
                request.context = None

    def _stream(self, call_next: CallNextStream, context: FunctionMiddlewareContext) -> CallNextStream:
        clock, retryable, number = self._clock, self._policy.retryable, self._number
        target, budget = context.name, self.budget

        async def stream(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
            began = clock.now()
            request = None if budget is None else self._entered(context, target, budget)
            attempt, waits = 1, list[float]()
            try:
                while True:
                    delivered = False
                    try:
                        async with closing(call_next(*args, **kwargs)) as chunks:
                            try:
                                with _Within(request):  # until the first chunk; from then on nothing is begun anew
                                    chunk = await anext(chunks)
                            except StopAsyncIteration:
                                return
                            delivered = True
                            yield chunk
                            async for chunk in chunks:
                                yield chunk
                        return
                    except Exception as latest:
                        if attempt == 1 and not retryable(latest):  # as with single calls
                            raise
                        if delivered:
                            _attach(latest, RetryReport(attempt, tuple(waits), "a chunk had been delivered"), number)
                            raise
                        error = latest
                    try:
                        await self._wait_or_raise(attempt, error, began, waits, target, budget)
                    finally:
                        del error
                    attempt += 1
                    request = request or self._repeated(context)
            finally:
                if request is not None:
                    request.context = None

        return stream


def _attach(error: Exception, report: RetryReport, number: int) -> None:
    with suppress(Exception):  # an exception that takes no attribute is passed on as it is
        error.retry_report = report  # type: ignore[attr-defined]
    if report.attempts > 1:
        waits = ", ".join(f"{wait:.3g}" for wait in report.waits)
        text = f"given up after {report.attempts} attempts (waits: {waits} s): {report.reason}"
        annotate(error, text, by=number)
