"""`retry_budget`: what all retries of a function share, so that together they cannot bring down what has just failed.

It is defined among the middleware and named by a retry, not listed by a function:

    middleware:
      shared: {_type: retry_budget, ratio: 0.1}
      again: {_type: retry, attempts: 3, budget: shared}

Why so. The retry alone knows which attempt it makes, and it has to ask before it waits: a middleware further inside
could recognise a second attempt only by a mark left in the context, would come after the back-off had been waited for
nothing, and would take the first call of another function that is made within a retried one for a retry of its own.

A request earns once, with its first attempt. Two retries of one function that name one budget share what it earns, and
an outer retry's further attempts earn nothing anew for an inner one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from labkit.middleware._listeners import Listeners
from labkit.middleware.base import BoundMiddleware, CallNext, CallNextStream, FunctionMiddlewareContext
from labkit.policies import RetryBudgetPolicy, RetryBudgetSnapshot
from labkit.timing import Clock

if TYPE_CHECKING:
    from labkit.config import RetryBudgetMiddlewareConfig

__all__ = ["RetryBudgetEvent", "RetryBudgetMiddleware"]


class RetryBudgetEvent(NamedTuple):
    """A retry that was asked for.

    Attributes:
        kind: admitted (a token was spent) or rejected (there was none).
        at: the clock's seconds.
        target: whose budget.
        tokens: what is left.
    """

    kind: str
    at: float
    target: str
    tokens: float


class RetryBudgetMiddleware(BoundMiddleware["RetryBudgetMiddlewareConfig"]):
    """Allows retries up to a share of the requests. Listed by a function, it passes every call on.
    Switched off (`enabled: false`), it is heeded by no retry.

    Tokens are kept per instance and per `context.name` of the retry that asks; of the targets whose bucket differs from
    a fresh one, for the ten thousand that were used last.

    Args:
        config: its fields.
        builder: taken and ignored, so that the signature is like the toolkit's others.
        clock: whose time its events have; asyncio's by default.
    """

    def __init__(self, config: RetryBudgetMiddlewareConfig, builder: Any = None, *, clock: Clock | None = None) -> None:
        super().__init__(config, clock)
        self._policy = RetryBudgetPolicy(config.ratio, config.max_tokens, config.initial_tokens)
        self._heard: Listeners[RetryBudgetEvent] = Listeners("retry budget")

    def snapshot(self, target: str) -> RetryBudgetSnapshot:
        """How many tokens there are."""
        return self._policy.snapshot(target)

    def listen(self, listener: Callable[[RetryBudgetEvent], object], *, traffic: bool = True) -> Callable[[], None]:
        """Hear of every retry that is asked for from now on; gives a function that ends it.

        A listener is called synchronously and must not wait. One that raises is logged and does not disturb the call.

        Args:
            listener: takes a `RetryBudgetEvent`.
            traffic: False to hear of rejections alone.
        """
        return self._heard.add(listener, traffic)

    def earn(self, target: str) -> None:
        """A request is made; once for each, however many retries of its chain name this budget."""
        self._policy.earn(target)

    def spend(self, target: str) -> bool:
        """Ask for a retry: whether it may be made."""
        allowed = self._policy.spend(target)
        if self._heard.traffic if allowed else self._heard:
            kind, tokens = "admitted" if allowed else "rejected", self._policy.snapshot(target).tokens
            self._heard.tell(RetryBudgetEvent(kind, self._clock.now(), target, tokens), allowed)
        return allowed

    def _single(self, call_next: CallNext, context: FunctionMiddlewareContext) -> CallNext:
        return call_next

    def _stream(self, call_next: CallNextStream, context: FunctionMiddlewareContext) -> CallNextStream:
        return call_next
