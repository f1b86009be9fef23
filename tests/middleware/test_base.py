"""Middleware of one's own, hooks, chains: what a learner writes here is what runs on the toolkit."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from labkit.config import CircuitBreakerMiddlewareConfig, TimeoutMiddlewareConfig
from labkit.errors import MiddlewareError
from labkit.middleware import (
    CircuitBreakerMiddleware,
    FunctionMiddleware,
    FunctionMiddlewareChain,
    FunctionMiddlewareContext,
    InvocationAction,
    InvocationContext,
    TimeoutMiddleware,
    validate_middleware,
)
from labkit.policies import CircuitBreakerState


class Diary(FunctionMiddleware):
    """A learner's own middleware that only uses the hooks, and writes down what it saw."""

    def __init__(self, name: str = "diary", seen: list[str] | None = None, **options: Any) -> None:
        super().__init__(**options)
        self.name = name
        self.seen: list[str] = seen if seen is not None else []

    async def pre_invoke(self, context: InvocationContext) -> None:
        """Write down what goes in."""
        self.seen.append(f"{self.name} before {context.modified_args}")

    async def post_invoke(self, context: InvocationContext) -> None:
        """Write down what comes out."""
        self.seen.append(f"{self.name} after {context.output}")


class Retry(FunctionMiddleware):
    """The learner's own retry: both entries overridden in the toolkit's way."""

    async def function_middleware_invoke(self, *args: Any, call_next: Any, context: Any, **kwargs: Any) -> Any:
        """Three attempts in all, without a wait."""
        for _ in range(2):
            try:
                return await call_next(*args, **kwargs)
            except OSError:
                continue
        return await call_next(*args, **kwargs)

    async def function_middleware_stream(
        self, *args: Any, call_next: Any, context: Any, **kwargs: Any
    ) -> AsyncIterator[Any]:
        """Say with each chunk which function it is from."""
        async for chunk in call_next(*args, **kwargs):
            yield f"{context.name}: {chunk}"


def test_ones_own_middleware_stands_anywhere(bench: Any) -> None:
    """A middleware that overrides the toolkit's two methods works around, between and inside labkit's own."""
    breaker = bench.breaker(failure_threshold=3)

    async def main() -> None:
        for order in ([Retry(), breaker], [breaker, Retry()], [bench.timeout(9.0), Retry(), breaker]):
            service = bench.script(OSError(), OSError(), "ok")
            assert await bench.single(*order, service=service)() == "ok"
        for order in ([Retry(), breaker], [breaker, Retry()], [bench.timeout(9.0), Retry(), breaker]):
            assert await bench.read(bench.stream(*order, service=bench.streams(("a", "b")))()) == [
                *("parts: a", "parts: b")
            ]

    bench.run(main())
    assert breaker.snapshot("parts").failures == 0


def test_the_breaker_sees_what_stands_inside_it(bench: Any) -> None:
    """The learner's retry inside the breaker hides two failures from it; outside it shows them."""
    inside, outside = bench.breaker(failure_threshold=2), bench.breaker(failure_threshold=2)

    async def main() -> None:
        assert await bench.single(inside, Retry(), service=bench.script(OSError(), OSError(), "ok"))() == "ok"
        call = bench.single(Retry(), outside, service=bench.script(OSError(), OSError(), "ok"))
        assert await bench.kind(call()) == "CircuitBreakerOpenError"

    bench.run(main())
    assert inside.snapshot("parts").state is CircuitBreakerState.CLOSED
    assert outside.snapshot("parts").state is CircuitBreakerState.OPEN


def test_hooks_run_in_the_order_of_the_list(bench: Any) -> None:
    """The first of a list sees a call first and its result last."""
    seen: list[str] = []
    a, b = Diary("a", seen), Diary("b", seen)

    async def main() -> None:
        await bench.single(a, b, service=bench.ok)(1)

    bench.run(main())
    assert seen == ["a before (1,)", "b before (1,)", "b after ok", "a after ok"]


def test_a_streams_hooks_run_once_and_for_each_chunk(bench: Any) -> None:
    """`pre_invoke` runs once, `post_invoke` for each chunk, also for one that is None and then dropped."""
    diary = Diary()

    async def main() -> list[Any]:
        return await bench.read(bench.stream(diary, service=bench.streams(("a", None, "b")))(7))

    assert bench.run(main()) == ["a", "b"]
    assert diary.seen == ["diary before (7,)", "diary after a", "diary after None", "diary after b"]


def test_hooks_may_change_what_goes_in_and_comes_out(bench: Any) -> None:
    """Changed and other arguments reach the function, the originals are kept, a changed output reaches the caller."""

    class Doubles(FunctionMiddleware):
        async def pre_invoke(self, context: InvocationContext) -> InvocationContext:
            assert context.function_context.name == "parts"
            assert (context.original_args, context.original_kwargs) == ((3,), {"extra": 1, "more": 100})
            context.modified_args = (context.original_args[0] * 2,)
            context.modified_kwargs["extra"] = 10
            assert context.original_kwargs == {"extra": 1, "more": 100}
            return context

        async def post_invoke(self, context: InvocationContext) -> InvocationContext:
            context.output = f"<{context.output}>"
            return context

    async def add(number: int, extra: int, more: int) -> int:
        return number + extra + more

    async def count(number: int, extra: int, more: int) -> AsyncIterator[int]:
        yield number
        yield extra
        yield more

    async def main() -> None:
        assert await bench.single(Doubles(), service=add)(3, extra=1, more=100) == "<116>"
        chunks = bench.stream(Doubles(), service=count)(3, extra=1, more=100)
        assert await bench.read(chunks) == ["<6>", "<10>", "<100>"]

    bench.run(main())


def test_a_hook_may_skip_the_call(bench: Any) -> None:
    """SKIP gives None, or an empty stream, and the function is not called."""

    class Skips(FunctionMiddleware):
        async def pre_invoke(self, context: InvocationContext) -> InvocationContext:
            context.action = InvocationAction.SKIP
            return context

    async def main() -> None:
        assert await bench.single(Skips(), service=bench.ok)() is None
        assert await bench.read(bench.stream(Skips(), service=bench.streams(("a",)))()) == []

    bench.run(main())
    assert bench.calls == 0


def test_a_final_middleware_ends_the_chain(bench: Any) -> None:
    """Nothing after it runs: a call gives what its `pre_invoke` put out, a stream gives nothing."""

    class Answers(FunctionMiddleware):
        async def pre_invoke(self, context: InvocationContext) -> InvocationContext:
            context.output = "from the cache"
            return context

    final = Answers(is_final=True)

    async def main() -> None:
        assert await bench.single(bench.breaker(), final, service=bench.fails)() == "from the cache"
        assert await bench.read(bench.stream(final, service=bench.streams(("a",)))()) == []

    bench.run(main())
    assert bench.calls == 0


@pytest.mark.parametrize("kind", ["breaker", "timeout", "retry", "fallback"])
def test_a_subclass_may_add_hooks(bench: Any, kind: str) -> None:
    """Hooks on a subclass of labkit's own run inside its rule, for calls and streams, and see what passes."""
    made = getattr(bench, kind)(*(5.0,) if kind == "timeout" else ())

    class Hooked(type(made)):  # type: ignore[misc]
        seen: list[str] = []  # noqa: RUF012 - of this test

        async def pre_invoke(self, context: InvocationContext) -> None:
            self.seen.append(f"before {context.modified_args}")

        async def post_invoke(self, context: InvocationContext) -> InvocationContext:
            self.seen.append(f"after {context.output}")
            context.output = f"<{context.output}>"
            return context

    hooked = Hooked(made.config, clock=bench.clock)

    async def main() -> None:
        assert await bench.single(hooked, service=bench.ok)(1) == "<ok>"
        assert await bench.read(bench.stream(hooked, service=bench.streams(("a", "b")))(2)) == ["<a>", "<b>"]
        assert await bench.kind(bench.single(hooked, service=bench.script(KeyError()))()) == "KeyError"

    bench.run(main())
    assert Hooked.seen == ["before (1,)", "after ok", "before (2,)", "after a", "after b", "before ()"]


def test_a_hook_that_fails_counts_and_a_rejected_call_has_none(bench: Any) -> None:
    """On a breaker's subclass an error of `pre_invoke` is a failure, and a rejected call runs no hook."""

    class Fragile(CircuitBreakerMiddleware):
        runs = 0

        async def pre_invoke(self, context: InvocationContext) -> None:
            Fragile.runs += 1
            raise ValueError("hook")

    fragile = Fragile(CircuitBreakerMiddlewareConfig(failure_threshold=1), clock=bench.clock)

    async def main() -> list[str]:
        call = bench.single(fragile, service=bench.ok)
        return [await bench.kind(call()) for _ in range(2)]

    assert bench.run(main()) == ["ValueError", "CircuitBreakerOpenError"]
    assert (Fragile.runs, bench.calls) == (1, 0)


def test_a_limit_covers_its_subclass_hooks(bench: Any) -> None:
    """A hook that takes too long is within the limit."""

    class Slow(TimeoutMiddleware):
        async def pre_invoke(self, context: InvocationContext) -> None:
            await bench.sleep(5.0)

    slow = Slow(TimeoutMiddlewareConfig(timeout=1.0), clock=bench.clock)

    async def main() -> str:
        return await bench.kind(bench.single(slow, service=bench.ok)())

    assert bench.run(main()) == "TimeoutError"


@pytest.mark.parametrize("entry", ["function_middleware", "middleware"])
def test_a_subclass_may_override_the_toolkits_methods(bench: Any, entry: str) -> None:
    """A subclass of labkit's own that overrides an entry is called through it, and may go on with `super()`.

    Its hooks run too, and arguments of both kinds arrive.
    """

    async def invoke(self: Any, *args: Any, call_next: Any, context: Any, **kwargs: Any) -> Any:
        inner = getattr(super(Wrapped, self), f"{entry}_invoke")
        return f"<{await inner(*args, call_next=call_next, context=context, **kwargs)}>"

    async def stream(self: Any, *args: Any, call_next: Any, context: Any, **kwargs: Any) -> AsyncIterator[Any]:
        inner = getattr(super(Wrapped, self), f"{entry}_stream")
        async for chunk in inner(*args, call_next=call_next, context=context, **kwargs):
            yield f"<{chunk}>"

    async def echo(*args: Any, **kwargs: Any) -> str:
        return f"{args} {kwargs}"

    async def echoes(*args: Any, **kwargs: Any) -> AsyncIterator[str]:
        yield f"{args} {kwargs}"

    async def hook(self: Any, context: Any) -> None:
        assert context.function_context.name == "parts"

    fields = {f"{entry}_invoke": invoke, f"{entry}_stream": stream, "pre_invoke": hook}
    Wrapped = type("Wrapped", (CircuitBreakerMiddleware,), fields)
    wrapped = Wrapped(CircuitBreakerMiddlewareConfig(failure_threshold=1), clock=bench.clock)

    async def main() -> None:
        assert await bench.single(wrapped, service=echo)(1, a=2) == "<(1,) {'a': 2}>"
        assert await bench.read(bench.stream(wrapped, service=echoes)(1, a=2)) == ["<(1,) {'a': 2}>"]
        await bench.get(bench.single(wrapped, service=bench.fails)())
        assert await bench.kind(bench.single(wrapped, service=bench.ok)()) == "CircuitBreakerOpenError"

    bench.run(main())


def test_leaving_a_stream_closes_all_of_the_chain(bench: Any) -> None:
    """A consumer that stops closes every middleware and the service at once, innermost first."""
    closed: list[str] = []

    class Closes(FunctionMiddleware):
        async def function_middleware_stream(
            self, *args: Any, call_next: Any, context: Any, **kwargs: Any
        ) -> AsyncIterator[Any]:
            chunks = call_next(*args, **kwargs)
            try:
                async for chunk in chunks:
                    yield chunk
            finally:
                await chunks.aclose()
                closed.append("own")

    async def service() -> AsyncIterator[str]:
        try:
            yield "a"
            yield "b"
        finally:
            closed.append("service")

    middleware = [bench.fallback(), Diary(), bench.retry(), Closes(), bench.breaker(), bench.timeout(9.0)]

    async def main() -> None:
        chunks = bench.stream(*middleware, service=service)()
        assert await anext(chunks) == "a"
        await chunks.aclose()
        assert closed == ["service", "own"]

    bench.run(main())


def test_an_empty_chain_is_the_function_itself(bench: Any) -> None:
    """Without middleware nothing stands between the caller and the function."""
    chain = FunctionMiddlewareChain(middleware=[], context=FunctionMiddlewareContext(name="parts"))
    assert chain.build_single(bench.ok) is bench.ok or chain.build_single(bench.ok) == bench.ok


def test_a_chain_may_be_built_many_times(bench: Any) -> None:
    """Two functions built from one chain share the breaker's state under the context's name."""
    breaker = bench.breaker()
    chain = bench.chain(breaker)

    async def main() -> None:
        await bench.get(chain.build_single(bench.fails)())
        assert await bench.kind(chain.build_single(bench.ok)()) == "CircuitBreakerOpenError"
        (error,) = await bench.read(chain.build_stream(bench.streams(("a",)))())
        assert type(error).__name__ == "CircuitBreakerOpenError"

    bench.run(main())


def test_a_list_is_checked() -> None:
    """What is no middleware, two final ones, and a final one that is not last are refused; None is an empty list."""
    assert validate_middleware(None) == ()
    one = Diary()
    assert validate_middleware([one]) == (one,)
    with pytest.raises(TypeError, match="'timeout' is not one"):
        validate_middleware(["timeout"])  # type: ignore[list-item]
    final, other = Diary(is_final=True), Diary(is_final=True)
    assert validate_middleware([one, final]) == (one, final)
    with pytest.raises(MiddlewareError, match="one middleware at most may be final, and 2 are"):
        validate_middleware([final, other])
    with pytest.raises(MiddlewareError, match="Diary is final but not the last of its list"):
        validate_middleware([final, one])


def test_the_defaults_of_a_middleware() -> None:
    """A bare middleware is enabled, not final, and passes everything on."""
    bare = FunctionMiddleware()
    assert (bare.enabled, bare.is_final) == (True, False)
    context = FunctionMiddlewareContext(name="parts")
    assert (context.config, context.description, context.input_schema) == (None, None, None)
    with pytest.raises(AttributeError):
        context.name = "other"  # type: ignore[misc]
