"""`timeout`: the async shell of the limit.

Differs from the toolkit's 1.9.0 in two places, both in ARCHITECTURE.md's table: the limit of a stream is kept around
each pull and never around a yield, so that a slow consumer gets `TimeoutError` at its next pull instead of being
cancelled itself; and a `TimeoutError` of the dependency's own is passed on as it is.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from labkit.middleware.base import BoundMiddleware, CallNext, CallNextStream, FunctionMiddlewareContext, closing
from labkit.policies import TimeoutPolicy
from labkit.timing import Clock

if TYPE_CHECKING:
    from labkit.config import TimeoutMiddlewareConfig

__all__ = ["TimeoutMiddleware"]


class TimeoutMiddleware(BoundMiddleware["TimeoutMiddlewareConfig"]):
    """Bounds everything inside it: a single call, or a stream from its first pull to its last chunk.

    Args:
        config: its fields.
        builder: taken and ignored, so that the toolkit's signature fits.
        clock: whose time; asyncio's by default.
    """

    def __init__(self, config: TimeoutMiddlewareConfig, builder: Any = None, *, clock: Clock | None = None) -> None:
        super().__init__(config, clock)
        self._policy = TimeoutPolicy(config.timeout, config.timeout_message)

    def _single(self, call_next: CallNext, context: FunctionMiddlewareContext) -> CallNext:
        limit, seconds, message = self._clock.timeout, self._policy.timeout, self._policy.message

        async def call(*args: Any, **kwargs: Any) -> Any:
            with limit(seconds, message):
                return await call_next(*args, **kwargs)

        return call

    def _stream(self, call_next: CallNextStream, context: FunctionMiddlewareContext) -> CallNextStream:
        clock, policy = self._clock, self._policy

        async def stream(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
            end = policy.deadline(clock.now())
            async with closing(call_next(*args, **kwargs)) as chunks:
                while True:
                    if policy.expired(end, clock.now()):  # the consumer was busy past the end
                        raise TimeoutError(policy.message)
                    try:
                        with clock.timeout_at(end, policy.message):
                            chunk = await anext(chunks)
                    except StopAsyncIteration:
                        return
                    yield chunk

        return stream
