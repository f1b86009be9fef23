"""A small bench for middleware: a clock, chains on it, services that behave as told, and what a caller gets."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import aclosing
from typing import Any

import pytest

from labkit.config import (
    CircuitBreakerMiddlewareConfig,
    FallbackMiddlewareConfig,
    RetryMiddlewareConfig,
    TimeoutMiddlewareConfig,
)
from labkit.errors import DependencyError
from labkit.middleware import (
    CircuitBreakerMiddleware,
    FallbackMiddleware,
    FunctionMiddleware,
    FunctionMiddlewareChain,
    FunctionMiddlewareContext,
    RetryMiddleware,
    TimeoutMiddleware,
    validate_middleware,
)
from labkit.timing import VirtualClock


class Bench:
    """Middleware on one `VirtualClock`, around services that are made up on the spot."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.now = self.clock.now
        self.sleep = self.clock.sleep
        self.start = self.clock.start
        self.calls = 0  # of the services below

    def run(self, main: Coroutine[Any, Any, Any]) -> Any:
        """Run to the end, in no time."""
        return self.clock.run(main)

    def breaker(self, **fields: Any) -> CircuitBreakerMiddleware:
        """A breaker; threshold 1 and cooldown 10 s unless told otherwise."""
        fields = {"failure_threshold": 1, "cooldown_period": 10.0, **fields}
        return CircuitBreakerMiddleware(CircuitBreakerMiddlewareConfig(**fields), clock=self.clock)

    def timeout(self, seconds: float, message: str | None = None) -> TimeoutMiddleware:
        """A limit."""
        return TimeoutMiddleware(TimeoutMiddlewareConfig(timeout=seconds, timeout_message=message), clock=self.clock)

    def retry(self, attempts: int = 3, **fields: Any) -> RetryMiddleware:
        """A retry, with waits of exactly 1, 2, 4 ... seconds unless told otherwise."""
        fields = {"attempts": attempts, "base_delay": 1.0, "jitter": "none", **fields}
        return RetryMiddleware(RetryMiddlewareConfig(**fields), clock=self.clock)

    def fallback(self, *, alternative: Any = None, stream: Any = None, **fields: Any) -> FallbackMiddleware:
        """A fallback; `alternative` and `stream` are what it may ask instead."""
        if alternative is not None or stream is not None:
            fields = {"alternative": "spare", "approved": True, **fields}
        return FallbackMiddleware(
            FallbackMiddlewareConfig(**fields), clock=self.clock, alternative=alternative, alternative_stream=stream
        )

    def chain(self, *middleware: FunctionMiddleware, name: str = "parts") -> FunctionMiddlewareChain:
        """A chain, outermost first."""
        return FunctionMiddlewareChain(
            middleware=validate_middleware(middleware), context=FunctionMiddlewareContext(name=name)
        )

    def single(
        self, *middleware: FunctionMiddleware, service: Callable[..., Any], name: str = "parts"
    ) -> Callable[..., Awaitable[Any]]:
        """A function through a chain."""
        return self.chain(*middleware, name=name).build_single(service)

    def stream(
        self, *middleware: FunctionMiddleware, service: Callable[..., Any], name: str = "parts"
    ) -> Callable[..., AsyncIterator[Any]]:
        """A stream through a chain."""
        return self.chain(*middleware, name=name).build_stream(service)

    # -- services

    async def ok(self, *_: Any) -> str:
        """Answers at once."""
        self.calls += 1
        return "ok"

    async def fails(self, *_: Any) -> str:
        """Raises at once."""
        self.calls += 1
        raise DependencyError("the dependency failed")

    async def hangs(self, *_: Any) -> str:
        """Never answers in time."""
        self.calls += 1
        await self.sleep(1e9)
        return "late"

    def script(self, *answers: Any) -> Callable[..., Awaitable[Any]]:
        """Gives these answers one after the other: an exception is raised, anything else returned."""
        rest = iter(answers)

        async def service(*_: Any) -> Any:
            self.calls += 1
            answer = next(rest)
            if isinstance(answer, BaseException):
                raise answer
            return answer

        return service

    def streams(self, *scripts: tuple[Any, ...]) -> Callable[..., AsyncIterator[Any]]:
        """Each call plays the next script: a float is waited for, an exception raised, anything else a chunk."""
        rest = iter(scripts)

        async def service(*_: Any) -> AsyncIterator[Any]:
            self.calls += 1
            for one in next(rest):
                if isinstance(one, float):
                    await self.sleep(one)
                elif isinstance(one, BaseException):
                    raise one
                else:
                    yield one

        return service

    # -- callers

    async def get(self, call: Awaitable[Any]) -> Any:
        """The result, or the exception itself."""
        try:
            return await call
        except BaseException as error:
            return error

    async def kind(self, call: Awaitable[Any]) -> str:
        """The result as text, or the name of the exception's class."""
        got = await self.get(call)
        return type(got).__name__ if isinstance(got, BaseException) else str(got)

    async def read(self, stream: AsyncIterator[Any]) -> list[Any]:
        """All chunks, and the exception at the end if there was one."""
        got: list[Any] = []
        try:
            async with aclosing(stream) as chunks:  # type: ignore[type-var]
                async for chunk in chunks:
                    got.append(chunk)
        except BaseException as error:
            got.append(error)
        return got

    async def trip(self, breaker: CircuitBreakerMiddleware, name: str = "parts") -> None:
        """Let calls fail until the breaker is open."""
        call = self.single(breaker, service=self.fails, name=name)
        for _ in range(breaker.config.failure_threshold):
            await self.get(call())
        assert str(await breaker.get_state(name)) == "OPEN"

    async def half_open(self, breaker: CircuitBreakerMiddleware, name: str = "parts") -> None:
        """Trip it and let the cooldown pass: the next call is the probe."""
        await self.trip(breaker, name)
        await self.sleep(breaker.config.cooldown_period)

    async def settle(self) -> None:
        """Let everything run that is due."""
        for _ in range(20):
            await self.sleep(0)


@pytest.fixture
def bench() -> Bench:
    """A fresh bench."""
    return Bench()
