"""`bulkhead`: at most so many calls at once, so that one dependency cannot take all that there is of its caller.

A call that finds every place taken waits in the queue, first come, first served, or is turned away with
`BulkheadFullError`. A stream holds its place from its first pull until it has ended or is closed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from labkit.errors import BulkheadFullError
from labkit.middleware._listeners import Listeners
from labkit.middleware.base import BoundMiddleware, CallNext, CallNextStream, FunctionMiddlewareContext, closing
from labkit.policies import BulkheadPolicy, BulkheadSnapshot
from labkit.timing import Clock

if TYPE_CHECKING:
    from labkit.config import BulkheadMiddlewareConfig

__all__ = ["BulkheadEvent", "BulkheadMiddleware"]


class BulkheadEvent(NamedTuple):
    """Something that a bulkhead did.

    Attributes:
        kind: admitted, queued, rejected, cancelled (while it waited) or left (the call has ended, its place is free).
        at: the clock's seconds.
        target: whose places.
        running, waiting: the counts after it.
    """

    kind: str
    at: float
    target: str
    running: int
    waiting: int


class BulkheadMiddleware(BoundMiddleware["BulkheadMiddlewareConfig"]):
    """Bounds how many calls of a function run at once, and how many wait for it.

    Places are kept per instance and per `context.name`; two functions of one name share them.

    Args:
        config: its fields.
        builder: taken and ignored, so that the signature is like the toolkit's others.
        clock: whose time and events; asyncio's by default.
    """

    def __init__(self, config: BulkheadMiddlewareConfig, builder: Any = None, *, clock: Clock | None = None) -> None:
        super().__init__(config, clock)
        self._policy = BulkheadPolicy(config.max_concurrent, config.max_queue)
        self._heard: Listeners[BulkheadEvent] = Listeners("bulkhead")

    def snapshot(self, target: str) -> BulkheadSnapshot:
        """How many run and how many wait now."""
        return self._policy.snapshot(target)

    def listen(self, listener: Callable[[BulkheadEvent], object], *, traffic: bool = True) -> Callable[[], None]:
        """Hear of everything that the bulkhead does from now on; gives a function that ends it.

        A listener is called synchronously and must not wait. One that raises is logged and does not disturb the call.

        Args:
            listener: takes a `BulkheadEvent`.
            traffic: False to hear of rejections alone; whoever gets a place then costs nothing.
        """
        return self._heard.add(listener, traffic)

    # -- the rule, once for both kinds of call

    def _tell(self, kind: str, target: str) -> None:
        ordinary = kind != "rejected"
        if self._heard.traffic or not ordinary:
            self._heard.tell(BulkheadEvent(kind, self._clock.now(), target, *self._policy.snapshot(target)), ordinary)

    async def _wait(self, target: str) -> None:
        """Wait for a place, or raise; returning means to have one."""
        config = self._config
        event = self._clock.event()
        ticket = self._policy.queue(target, event.set)
        if ticket is None:
            self._tell("rejected", target)
            waiting = f" and {config.max_queue} waiting" if config.max_queue else ""
            raise BulkheadFullError(
                f"The bulkhead of '{target}' is full: {config.max_concurrent} at once{waiting}.", target
            )
        self._tell("queued", target)
        try:
            with self._clock.timeout(config.max_wait):
                await event.wait()
        except TimeoutError:
            if self._policy.abandon(target, ticket):
                self._tell("rejected", target)
                text = f"The bulkhead of '{target}' had no place within {config.max_wait:g} s."
                raise BulkheadFullError(text, target) from None
            # the place came in the same instant: take it
        except BaseException:
            if self._policy.abandon(target, ticket):
                self._tell("cancelled", target)
            else:
                self._tell("admitted", target)
                self._leave(target)
            raise

    def _leave(self, target: str) -> None:
        ticket = self._policy.leave(target)
        if self._heard.traffic:
            self._tell("left", target)
        if ticket is not None:
            ticket.wake()

    # -- single calls

    def _single(self, call_next: CallNext, context: FunctionMiddlewareContext) -> CallNext:
        target = context.name
        enter, wait, leave, tell = self._policy.enter, self._wait, self._leave, self._tell
        listeners = self._heard.traffic

        async def call(*args: Any, **kwargs: Any) -> Any:
            if not enter(target):
                await wait(target)
            try:
                if listeners:
                    tell("admitted", target)
                return await call_next(*args, **kwargs)
            finally:
                leave(target)

        return call

    # -- streams

    def _stream(self, call_next: CallNextStream, context: FunctionMiddlewareContext) -> CallNextStream:
        target = context.name
        enter, wait, leave, tell = self._policy.enter, self._wait, self._leave, self._tell

        async def stream(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
            if not enter(target):
                await wait(target)
            try:
                tell("admitted", target)
                async with closing(call_next(*args, **kwargs)) as chunks:
                    async for chunk in chunks:
                        yield chunk
            finally:
                leave(target)

        return stream
