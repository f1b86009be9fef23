"""What a middleware is, and how a list of them is folded around a function, under the toolkit's names and signatures.

A list is outermost first. A middleware of a learner's own overrides `function_middleware_invoke` and
`function_middleware_stream` (or the two hooks), exactly as with the toolkit, so that what is written here runs there.
labkit's own middleware is bound once, when the chain is built, to what follows it: the call itself then finds all it
needs in a closure, which is why it costs little more than a function that does nothing.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from labkit.errors import MiddlewareError
from labkit.timing import Clock, LoopClock

if TYPE_CHECKING:
    from typing import Protocol

    class LayerConfig(Protocol):
        """The field that the configuration of every layer has."""

        enabled: bool


__all__ = [
    "CallNext",
    "CallNextStream",
    "FunctionMiddleware",
    "FunctionMiddlewareChain",
    "FunctionMiddlewareContext",
    "InvocationAction",
    "InvocationContext",
    "validate_middleware",
]

_logger = logging.getLogger(__name__)

#: What a middleware calls to go on: the next one, or the function itself.
CallNext = Callable[..., Awaitable[Any]]
#: The same for a stream: gives an asynchronous iterator of chunks.
CallNextStream = Callable[..., AsyncIterator[Any]]

ConfigT = TypeVar("ConfigT", bound="LayerConfig")


@dataclass(frozen=True, kw_only=True)
class FunctionMiddlewareContext:
    """What a middleware may know about the function it wraps; the same for every call. (Source: the toolkit's.)

    Attributes:
        name: the function's name, under which a breaker keeps its state.
        config: the function's configuration.
        description: what it does, in words, or None.
        input_schema, single_output_schema, stream_output_schema: pydantic models of what goes in and out, or None.
    """

    name: str
    config: Any = None
    description: str | None = None
    input_schema: type[Any] | None = None
    single_output_schema: type[Any] | None = None
    stream_output_schema: type[Any] | None = None


class InvocationAction(Enum):
    """What `pre_invoke` may ask for by setting `context.action`."""

    SKIP = "skip"


@dataclass(slots=True)
class InvocationContext:
    """One call, as the two hooks see it. `modified_args` and `modified_kwargs` go in, `output` comes out."""

    function_context: FunctionMiddlewareContext
    original_args: tuple[Any, ...]
    original_kwargs: dict[str, Any]
    modified_args: tuple[Any, ...] = ()
    modified_kwargs: dict[str, Any] = field(default_factory=dict)
    output: Any = None
    action: InvocationAction | None = None


class FunctionMiddleware:
    """The base of every middleware: passes calls on, with a hook before and one after.

    Override the hooks, or `function_middleware_invoke` and `function_middleware_stream` for full control.
    """

    def __init__(self, *, is_final: bool = False) -> None:
        self._is_final = is_final

    @property
    def enabled(self) -> bool:
        """Whether it runs at all; read once, when a chain is built."""
        return True

    @property
    def is_final(self) -> bool:
        """Whether it ends the chain: nothing after it runs unless it calls it itself."""
        return getattr(self, "_is_final", False)

    async def pre_invoke(self, context: InvocationContext) -> InvocationContext | None:
        """Look at, or change, what goes in. None leaves it as it is."""
        return None

    async def post_invoke(self, context: InvocationContext) -> InvocationContext | None:
        """Look at, or change, what comes out (of a stream: each chunk). None leaves it as it is."""
        return None

    async def function_middleware_invoke(
        self, *args: Any, call_next: CallNext, context: FunctionMiddlewareContext, **kwargs: Any
    ) -> Any:
        """Run a single call: `pre_invoke`, what follows, `post_invoke`."""
        call = InvocationContext(context, args, dict(kwargs), args, dict(kwargs))
        call = await self.pre_invoke(call) or call
        if call.action is InvocationAction.SKIP:
            return None
        if not self.is_final:
            call.output = await call_next(*call.modified_args, **call.modified_kwargs)
            call = await self.post_invoke(call) or call
        return call.output

    async def function_middleware_stream(
        self, *args: Any, call_next: CallNextStream, context: FunctionMiddlewareContext, **kwargs: Any
    ) -> AsyncIterator[Any]:
        """Run a stream: `pre_invoke` once, `post_invoke` on each chunk; a chunk that becomes None is dropped."""
        call = InvocationContext(context, args, dict(kwargs), args, dict(kwargs))
        call = await self.pre_invoke(call) or call
        if call.action is InvocationAction.SKIP or self.is_final:
            return
        async with closing(call_next(*call.modified_args, **call.modified_kwargs)) as chunks:
            async for chunk in chunks:
                call.output = chunk
                call = await self.post_invoke(call) or call
                if call.output is not None:
                    yield call.output

    async def middleware_invoke(
        self, *args: Any, call_next: CallNext, context: FunctionMiddlewareContext, **kwargs: Any
    ) -> Any:
        """The toolkit's general entry; the same as `function_middleware_invoke`."""
        return await self.function_middleware_invoke(*args, call_next=call_next, context=context, **kwargs)

    async def middleware_stream(
        self, *args: Any, call_next: CallNextStream, context: FunctionMiddlewareContext, **kwargs: Any
    ) -> AsyncIterator[Any]:
        """The toolkit's general entry; the same as `function_middleware_stream`."""
        stream = self.function_middleware_stream(*args, call_next=call_next, context=context, **kwargs)
        async with closing(stream) as chunks:
            async for chunk in chunks:
                yield chunk

    # labkit's middleware answers these two with a closure; None means: call me through the methods above.

    def _bind_single(self, call_next: CallNext, context: FunctionMiddlewareContext) -> CallNext | None:
        return None

    def _bind_stream(self, call_next: CallNextStream, context: FunctionMiddlewareContext) -> CallNextStream | None:
        return None


class BoundMiddleware(FunctionMiddleware, Generic[ConfigT]):
    """The base of labkit's own: the two entries are written once, as closures over what follows.

    A subclass of one of them may still override the toolkit's methods or hooks; the chain then calls those.

    Args:
        config: its fields.
        clock: whose time; asyncio's by default.
    """

    def __init__(self, config: ConfigT, clock: Clock | None = None) -> None:
        super().__init__()
        self._config = config
        self._clock: Clock = clock if clock is not None else LoopClock()

    @property
    def config(self) -> ConfigT:
        """The fields it was made with."""
        return self._config

    @property
    def enabled(self) -> bool:
        """Whether it runs at all; read once, when a chain is built."""
        return self._config.enabled

    def _single(self, call_next: CallNext, context: FunctionMiddlewareContext) -> CallNext:
        raise NotImplementedError

    def _stream(self, call_next: CallNextStream, context: FunctionMiddlewareContext) -> CallNextStream:
        raise NotImplementedError

    async def function_middleware_invoke(
        self, *args: Any, call_next: CallNext, context: FunctionMiddlewareContext, **kwargs: Any
    ) -> Any:
        """Run a single call under this middleware's rule."""
        return await self._single(self._hooked(call_next, context), context)(*args, **kwargs)

    async def function_middleware_stream(
        self, *args: Any, call_next: CallNextStream, context: FunctionMiddlewareContext, **kwargs: Any
    ) -> AsyncIterator[Any]:
        """Run a stream under this middleware's rule."""
        stream = self._stream(self._hooked_stream(call_next, context), context)(*args, **kwargs)
        async with closing(stream) as chunks:
            async for chunk in chunks:
                yield chunk

    def _bind_single(self, call_next: CallNext, context: FunctionMiddlewareContext) -> CallNext | None:
        kind = type(self)
        if (
            kind.function_middleware_invoke is BoundMiddleware.function_middleware_invoke
            and kind.middleware_invoke is FunctionMiddleware.middleware_invoke
        ):
            return self._single(self._hooked(call_next, context), context)
        return None

    def _bind_stream(self, call_next: CallNextStream, context: FunctionMiddlewareContext) -> CallNextStream | None:
        kind = type(self)
        if (
            kind.function_middleware_stream is BoundMiddleware.function_middleware_stream
            and kind.middleware_stream is FunctionMiddleware.middleware_stream
        ):
            return self._stream(self._hooked_stream(call_next, context), context)
        return None

    def _has_hooks(self) -> bool:
        kind = type(self)
        return (
            kind.pre_invoke is not FunctionMiddleware.pre_invoke
            or kind.post_invoke is not FunctionMiddleware.post_invoke
        )

    def _hooked(self, call_next: CallNext, context: FunctionMiddlewareContext) -> CallNext:
        if not self._has_hooks():
            return call_next

        async def call(*args: Any, **kwargs: Any) -> Any:
            return await FunctionMiddleware.function_middleware_invoke(
                self, *args, call_next=call_next, context=context, **kwargs
            )

        return call

    def _hooked_stream(self, call_next: CallNextStream, context: FunctionMiddlewareContext) -> CallNextStream:
        if not self._has_hooks():
            return call_next

        def stream(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
            return FunctionMiddleware.function_middleware_stream(
                self, *args, call_next=call_next, context=context, **kwargs
            )

        return stream


class FunctionMiddlewareChain:
    """Folds a list of middleware, outermost first, around a function. (Source: the toolkit's class of this name.)

    Args:
        middleware: the list; one whose `enabled` is false is left out.
        context: what the middleware may know about the function.
    """

    def __init__(self, *, middleware: Sequence[FunctionMiddleware], context: FunctionMiddlewareContext) -> None:
        self._middleware = tuple(middleware)
        self._context = context

    def build_single(self, final_call: CallNext) -> CallNext:
        """Wrap a function that is awaited for one result."""
        call = final_call
        for middleware in reversed(self._middleware):
            if middleware.enabled:
                call = middleware._bind_single(call, self._context) or _through_invoke(middleware, call, self._context)
        return call

    def build_stream(self, final_call: CallNextStream) -> CallNextStream:
        """Wrap a function that gives an asynchronous iterator of chunks."""
        call = final_call
        for middleware in reversed(self._middleware):
            if middleware.enabled:
                call = middleware._bind_stream(call, self._context) or _through_stream(middleware, call, self._context)
        return call


def _through_invoke(
    middleware: FunctionMiddleware, call_next: CallNext, context: FunctionMiddlewareContext
) -> CallNext:
    invoke = middleware.middleware_invoke

    async def call(*args: Any, **kwargs: Any) -> Any:
        return await invoke(*args, call_next=call_next, context=context, **kwargs)

    return call


def _through_stream(
    middleware: FunctionMiddleware, call_next: CallNextStream, context: FunctionMiddlewareContext
) -> CallNextStream:
    invoke = middleware.middleware_stream

    def stream(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        return invoke(*args, call_next=call_next, context=context, **kwargs)

    return stream


def validate_middleware(middleware: Sequence[FunctionMiddleware] | None) -> tuple[FunctionMiddleware, ...]:
    """Check a list: an instance that stands in it twice runs once, at its first place; a final one must be the last.

    Raises:
        TypeError: something in the list is not a middleware.
        MiddlewareError: more than one is final, or one that is not the last.
    """
    kept: list[FunctionMiddleware] = []
    for one in middleware or ():
        if not isinstance(one, FunctionMiddleware):
            raise TypeError(f"a middleware list holds middleware only, and {one!r} is not one")
        if any(one is other for other in kept):
            _logger.warning(
                "%s stands in the list more than once; it runs once, at its first place", type(one).__name__
            )
        else:
            kept.append(one)
    final = [one for one in kept if one.is_final]
    if len(final) > 1:
        raise MiddlewareError(f"one middleware at most may be final, and {len(final)} are")
    if final and kept[-1] is not final[0]:
        raise MiddlewareError(
            f"{type(final[0]).__name__} is final but not the last of its list: nothing after it would run"
        )
    return tuple(kept)


class _Open:
    """An asynchronous iterator that cannot be closed, entered as if it could."""

    __slots__ = ("_chunks",)

    def __init__(self, chunks: AsyncIterator[Any]) -> None:
        self._chunks = chunks

    async def __aenter__(self) -> AsyncIterator[Any]:
        return self._chunks

    async def __aexit__(self, *_: object) -> None:
        return None


def closing(stream: AsyncIterable[Any]) -> Any:
    """`contextlib.aclosing` for whatever gives chunks: a stream that is left early is closed at once, if it can be."""
    chunks = aiter(stream)
    return aclosing(chunks) if hasattr(chunks, "aclose") else _Open(chunks)
