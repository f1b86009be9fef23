"""`fallback`: an explicit "unavailable", or an approved alternative; never an invented answer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, NamedTuple

from labkit.errors import CircuitBreakerOpenError, MiddlewareError, exception_named, members
from labkit.middleware.base import BoundMiddleware, CallNext, CallNextStream, FunctionMiddlewareContext, closing
from labkit.policies import FallbackDecision, FallbackPolicy

if TYPE_CHECKING:
    from labkit.config import FallbackMiddlewareConfig
    from labkit.timing import Clock

__all__ = ["FallbackMiddleware", "Unavailable"]

_MOST = 3  # reasons of a group that are told


class Unavailable(NamedTuple):
    """What a caller is told instead of an answer that nobody has.

    Attributes:
        reason: why, in words.
        target: what is unavailable.
        retry_after: seconds until it may be asked again, or None where no breaker knows.
        status: always "unavailable".
    """

    reason: str
    target: str
    retry_after: float | None = None
    status: str = "unavailable"

    def to_dict(self) -> dict[str, Any]:
        """The same as a dictionary, for a tool's JSON."""
        return self._asdict()


class FallbackMiddleware(BoundMiddleware["FallbackMiddlewareConfig"]):
    """Turns the named errors into an explicit outcome, or asks an approved alternative.

    Without names of its own it answers what tells of a dependency that is not there, and every refusal of a layer's
    (an open breaker, a full bulkhead). A group of errors is answered where each of its members would be.

    Args:
        config: its fields.
        builder: taken and ignored, so that the signature is like the toolkit's others.
        clock: taken so that every middleware is made alike; this one needs no time.
        alternative: what to ask, when the configuration names one; `Stack` fills it in.
        alternative_stream: the same for streams.
    """

    def __init__(
        self,
        config: FallbackMiddlewareConfig,
        builder: Any = None,
        *,
        clock: Clock | None = None,
        alternative: CallNext | None = None,
        alternative_stream: CallNextStream | None = None,
    ) -> None:
        super().__init__(config, clock)
        self._reason = config.reason
        self._alternative = alternative
        self._alternative_stream = alternative_stream
        if config.alternative is not None and not config.approved:
            raise MiddlewareError(
                f"the alternative '{config.alternative}' is not approved; "
                "an alternative changes what an answer means, so it takes 'approved: true'"
            )
        self._policy = FallbackPolicy(
            tuple(exception_named(name) for name in config.errors), has_alternative=config.alternative is not None
        )

    def answers(self, error: Exception) -> bool:
        """Whether this error would be answered with an explicit outcome."""
        return self._policy.decide(error) is FallbackDecision.SAY_UNAVAILABLE

    def connect(self, alternative: CallNext | None, alternative_stream: CallNextStream | None) -> None:
        """Say what the alternative is, once the whole stack is known."""
        self._alternative = alternative
        self._alternative_stream = alternative_stream

    def _unavailable(self, error: Exception, target: str) -> Unavailable:
        if not isinstance(error, ExceptionGroup):
            return Unavailable(self._reason or _reason(error), target, getattr(error, "retry_after", None))
        found = list(members(error))
        reasons = list(dict.fromkeys(_reason(one) for one in found))
        more = f" and {len(reasons) - _MOST} more" if len(reasons) > _MOST else ""
        waits = [wait for one in found if (wait := getattr(one, "retry_after", None)) is not None]
        until = max(waits, default=None)  # each member has to be there again
        return Unavailable(self._reason or "; ".join(reasons[:_MOST]) + more, target, until)

    def _single(self, call_next: CallNext, context: FunctionMiddlewareContext) -> CallNext:
        target = context.name
        decide = self._policy.decide

        async def call(*args: Any, **kwargs: Any) -> Any:
            try:
                return await call_next(*args, **kwargs)
            except Exception as error:
                decision = decide(error)
                if decision is FallbackDecision.PASS_ON:
                    raise
                if decision is FallbackDecision.SAY_UNAVAILABLE:
                    return self._unavailable(error, target)
            try:
                return await self._the_alternative(self._alternative)(*args, **kwargs)
            except Exception as error:
                if decide(error, from_alternative=True) is FallbackDecision.PASS_ON:
                    raise
                return self._unavailable(error, target)

        return call

    def _stream(self, call_next: CallNextStream, context: FunctionMiddlewareContext) -> CallNextStream:
        target = context.name
        decide = self._policy.decide

        async def stream(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
            delivered = False
            outcome: Unavailable | None = None
            try:
                async with closing(call_next(*args, **kwargs)) as chunks:
                    async for chunk in chunks:
                        delivered = True
                        yield chunk
                return
            except Exception as error:
                decision = decide(error)
                if delivered or decision is FallbackDecision.PASS_ON:
                    raise
                outcome = self._unavailable(error, target)
            if decision is FallbackDecision.ASK_ALTERNATIVE:
                try:
                    async with closing(self._the_alternative(self._alternative_stream)(*args, **kwargs)) as chunks:
                        async for chunk in chunks:
                            delivered = True
                            yield chunk
                    return
                except Exception as error:
                    if delivered or decide(error, from_alternative=True) is FallbackDecision.PASS_ON:
                        raise
                    outcome = self._unavailable(error, target)
            yield outcome

        return stream

    def _the_alternative(self, alternative: Any) -> Any:
        if alternative is None:
            raise MiddlewareError(f"the alternative '{self._config.alternative}' is not there for this kind of call")
        return alternative


def _reason(error: BaseException) -> str:
    if isinstance(error, CircuitBreakerOpenError):
        return "the circuit breaker is open"
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
