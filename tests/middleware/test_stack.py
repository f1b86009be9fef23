"""A stack: one instance a middleware, a chain a function, and services of four shapes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable
from functools import partial, wraps
from operator import itemgetter
from typing import Any
from unittest.mock import AsyncMock, MagicMock, create_autospec

import pytest

from labkit.config import (
    CircuitBreakerMiddlewareConfig,
    FallbackMiddlewareConfig,
    FunctionConfig,
    RetryMiddlewareConfig,
    StackConfig,
    TimeoutMiddlewareConfig,
)
from labkit.errors import ConfigError, MiddlewareError
from labkit.middleware import FunctionMiddleware, InvocationContext, Stack, Unavailable
from labkit.middleware.stack import _TYPES
from labkit.policies import CircuitBreakerState
from labkit.timing import VirtualClock


def lesson(**functions: list[str]) -> StackConfig:
    """The lesson's middleware, and these functions with their lists."""
    return StackConfig(
        middleware={
            "breaker": CircuitBreakerMiddlewareConfig(failure_threshold=5, cooldown_period=30.0, probe_timeout=2.0),
            "limit": TimeoutMiddlewareConfig(timeout=2.0),
            "again": RetryMiddlewareConfig(),
        },
        functions={name: FunctionConfig("service", listed) for name, listed in functions.items()},
    )


class Both:
    """A service that can be called and streamed."""

    async def call(self, *args: Any) -> Any:
        """Answers with its arguments."""
        return args

    async def stream(self, *args: Any) -> AsyncIterator[Any]:
        """Streams its arguments."""
        for one in args:
            yield one


async def only_call(*args: Any) -> Any:
    """A service as a function."""
    return ("function", *args)


async def only_stream(*args: Any) -> AsyncIterator[Any]:
    """A service as an asynchronous generator function."""
    for one in args:
        yield ("generator", one)


async def read(stream: AsyncIterator[Any]) -> list[Any]:
    """All chunks."""
    return [chunk async for chunk in stream]


def test_the_lessons_stack_runs(bench: Any) -> None:
    """The lesson's list around a hanging service: 5 TimeoutErrors, 2 rejections, and the breaker can be looked at."""
    stack = Stack(lesson(parts=["breaker", "limit"]), {"service": bench.hangs}, bench.clock)

    async def main() -> list[str]:
        return [await bench.kind(stack.call("parts")) for _ in range(7)]

    assert bench.run(main()) == ["TimeoutError"] * 5 + ["CircuitBreakerOpenError"] * 2
    assert bench.calls == 5
    breaker: Any = stack.middleware["breaker"]
    assert breaker.snapshot("parts").state is CircuitBreakerState.OPEN


def test_one_name_is_one_instance(bench: Any) -> None:
    """A breaker that two functions list is one object with a state for each."""
    stack = Stack(lesson(parts=["breaker"], documents=["breaker"]), {"service": bench.fails}, bench.clock)

    async def main() -> None:
        for _ in range(5):
            await bench.get(stack.call("parts"))
        assert await bench.kind(stack.call("parts")) == "CircuitBreakerOpenError"
        assert await bench.kind(stack.call("documents")) == "DependencyError"

    bench.run(main())
    breaker: Any = stack.middleware["breaker"]
    assert (breaker.snapshot("parts").failures, breaker.snapshot("documents").failures) == (5, 1)


def test_a_stack_says_which_layers_act_and_under_which_name(bench: Any) -> None:
    """What is off is no layer, and what is listed twice is one, at its first place."""
    config = lesson(parts=["limit", "breaker", "again", "breaker"])
    config.functions["parts"].settings["context_name"] = "warehouse"
    config.middleware["limit"].enabled = False
    stack = Stack(config, {"service": only_call}, bench.clock)
    assert list(stack.layers_of("parts")) == list(config.layers_of("parts")) == ["breaker", "again"]
    assert list(stack.breakers_of("parts")) == ["breaker"]
    assert stack.target_of("parts") == stack.context_of("parts").name == "warehouse"


def test_a_registered_type_that_is_switched_off_does_not_run(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """`enabled: false` holds for every type: one of somebody's own need not look at it."""

    class Refusing(FunctionMiddleware):
        """It would be noticed."""

        async def pre_invoke(self, context: InvocationContext) -> None:
            """Refuses every call."""
            raise AssertionError("it is switched off")

    monkeypatch.setitem(_TYPES, "timeout", lambda config, *, clock: Refusing())
    config = lesson(parts=["limit"])
    config.middleware["limit"].enabled = False
    stack = Stack(config, {"service": only_call}, bench.clock)
    assert bench.run(stack.call("parts", 1)) == ("function", 1)


@pytest.mark.parametrize("listed", [[], ["breaker", "limit", "again"]])
def test_services_of_four_shapes(listed: list[str]) -> None:
    """A function, a generator function, and an object with either or both; arguments go through."""
    clock = VirtualClock()
    functions = {"both": Both(), "one": only_call, "many": only_stream}
    stack = Stack(lesson(**dict.fromkeys(functions, listed)), functions, clock)

    async def main() -> None:
        assert await stack.call("both", 1, 2) == (1, 2)
        assert await read(stack.stream("both", 1, 2)) == [1, 2]
        assert await stack.call("one", 3) == ("function", 3)
        assert await read(stack.stream("many", 4)) == [("generator", 4)]

    clock.run(main())
    with pytest.raises(MiddlewareError, match="the service behind 'one' cannot be streamed"):
        stack.stream("one")
    with pytest.raises(MiddlewareError, match="the service behind 'many' cannot be called for one result"):
        stack.call("many")


def test_a_service_is_found_by_name_before_type(bench: Any) -> None:
    """A service under the function's name goes before one under its `_type`."""
    stack = Stack(lesson(parts=[], documents=[]), {"service": bench.ok, "documents": only_call}, bench.clock)

    async def main() -> list[Any]:
        return [await stack.call("parts"), await stack.call("documents")]

    assert bench.run(main()) == ["ok", ("function",)]


def test_what_cannot_be_built_is_a_sentence(bench: Any) -> None:
    """No service, a list that names nothing, and a service that is none are told with the nearest name."""
    with pytest.raises(
        MiddlewareError, match=r"no service was given for the function 'parts' \(of the type 'service'\)"
    ):
        Stack(lesson(parts=[]), {"docs": bench.ok}, bench.clock)
    with pytest.raises(MiddlewareError, match=r"\(of the type 'service'\)$"):
        Stack(lesson(parts=[]), {"nothing like it": bench.ok}, bench.clock)
    with pytest.raises(MiddlewareError, match="did you mean 'part'"):
        Stack(lesson(parts=[]), {"part": bench.ok}, bench.clock)
    with pytest.raises(
        MiddlewareError,
        match="function 'parts' lists the middleware 'braker', which is not defined; did you mean 'breaker'",
    ):
        Stack(lesson(parts=["braker"]), {"service": bench.ok}, bench.clock)
    with pytest.raises(MiddlewareError, match="7 has neither"):
        Stack(lesson(parts=[]), {"service": 7}, bench.clock)


def test_a_stack_is_loaded_strictly_unless_told_otherwise(bench: Any) -> None:
    """A key that nobody knows is refused; with `lenient` it is left out, and the stack runs."""
    text = "{middleware: {limit: {_type: retry, atempts: 1}}, functions: {parts: {_type: a, middleware: [limit]}}}"
    with pytest.raises(ConfigError, match="atempts"):
        Stack.load(text, services={"parts": only_call}, clock=bench.clock)
    stack = Stack.load(text, services={"parts": only_call}, clock=bench.clock, lenient=True)
    assert bench.run(stack.call("parts", 1)) == ("function", 1)


class Plain:
    """A service written as if nothing were asynchronous, in every place."""

    def __call__(self, *_: Any) -> None:
        """Would run at each call."""

    def call(self, *_: Any) -> None:
        """Would run at each call."""

    def stream(self, *_: Any) -> Any:
        """Would run at each call."""
        yield 1


class PlainStream(Both):
    """Sound but for its stream."""

    def stream(self, *_: Any) -> Any:
        """A plain generator."""
        yield 1


class OneForMany(Both):
    """Sound but for its stream."""

    async def stream(self, *_: Any) -> Any:
        """One result."""


class ManyForOne(Both):
    """Sound but for its call."""

    async def call(self, *_: Any) -> Any:
        """A stream."""
        yield 1


class PlainCall:
    """An object that is called plainly."""

    def __call__(self, *_: Any) -> None:
        """Would run at each call."""


ran: list[str] = []


def plain(*_: Any) -> str:
    """A plain function with a side effect."""
    ran.append("plain")
    return "ok"


def plain_generator(*_: Any) -> Any:
    """A plain generator function."""
    yield 1


def made_within() -> Any:
    """A plain function that another one made."""

    def within(*_: Any) -> None:
        """Would run at each call."""

    return within


REFUSED: list[tuple[Any, str]] = [
    (
        plain,
        "the service behind 'parts' is 'plain', a plain function, and what it returns cannot be awaited; "
        "write 'async def', or say '-> Awaitable[...]' if it can",
    ),
    (made_within(), "the service behind 'parts' is 'within', a plain function"),
    (itemgetter(1), "the service behind 'parts' is 'itemgetter', a plain function"),
    (partial(plain, 1), "is 'plain', a plain function"),
    (partial(partial(plain)), "is 'plain', a plain function"),
    (lambda *_: only_call(), "is '<lambda>', a plain function"),
    (len, "is 'len', a plain function"),
    (plain_generator, "is 'plain_generator', a plain generator function"),
    (PlainCall(), "is 'PlainCall.__call__', a plain function"),
    (PlainCall().__call__, "is 'PlainCall.__call__', a plain function"),
    (PlainCall, "is 'PlainCall', a class"),
    (Plain(), "'call' of the service behind 'parts' is 'Plain.call', a plain function"),
    (PlainStream(), "'stream' of the service behind 'parts' is 'PlainStream.stream', a plain generator function"),
    (
        OneForMany(),
        "'stream' of the service behind 'parts' is 'OneForMany.stream', which gives one result to await; "
        "a stream is an async function with 'yield'",
    ),
    (
        ManyForOne(),
        "'call' of the service behind 'parts' is 'ManyForOne.call', which gives a stream; "
        "one result is what an async function without 'yield' returns",
    ),
    (Both, "the service behind 'parts' is the class Both, whose 'call' needs an instance; give one: Both(...)"),
    (None, "None has neither"),
]


@pytest.mark.parametrize(("service", "sentence"), REFUSED)
def test_what_cannot_be_awaited_is_refused_when_the_stack_is_built(service: Any, sentence: str) -> None:
    """A service that would run at each call and give nothing to await is one sentence, and never runs."""
    with pytest.raises(MiddlewareError) as refused:
        Stack(lesson(parts=["breaker"]), {"parts": service})
    assert sentence in str(refused.value)
    if sentence.startswith(("the service", "'")):
        assert str(refused.value).startswith(sentence)
    assert "\n" not in str(refused.value)
    assert not ran


class AsyncCall:
    """An object that is awaited when it is called."""

    async def __call__(self, *args: Any) -> Any:
        return ("object", *args)


class Proxy:
    """Hands on whatever it is asked for."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class Namespace:
    """A class that is not made an object of."""

    @staticmethod
    async def call(*args: Any) -> Any:
        """Answers."""
        return ("static", *args)


class HalfOfIt(Both):
    """Its `stream` is something else altogether."""

    stream = 7  # type: ignore[assignment]


def promised(*args: Any) -> Awaitable[Any]:
    """A plain function that says what it returns."""
    return only_call(*args)


@wraps(only_call)
def wrapped(*args: Any) -> Any:
    """A plain function around an async one."""
    return only_call(*args)


ACCEPTED: list[tuple[Any, Any]] = [
    (only_call, ("function", 1)),
    (partial(only_call, 0), ("function", 0, 1)),
    (promised, ("function", 1)),
    (wrapped, ("function", 1)),
    (AsyncCall(), ("object", 1)),
    (partial(AsyncCall(), 0), ("object", 0, 1)),
    (Both().call, (1,)),
    (Both(), (1,)),
    (Proxy(Both()), (1,)),
    (Namespace, ("static", 1)),
    (HalfOfIt(), (1,)),
    (AsyncMock(return_value="mock"), "mock"),
    (partial(AsyncMock(return_value="mock")), "mock"),
    (MagicMock(spec=Both(), call=AsyncMock(return_value="mock")), "mock"),
    (create_autospec(only_call, return_value="mock"), "mock"),
]


@pytest.mark.parametrize(("service", "answer"), ACCEPTED)
def test_whatever_can_be_awaited_is_a_service(service: Any, answer: Any, bench: Any) -> None:
    """Partials, objects with an async `__call__`, mocks, proxies, plain functions that promise an awaitable."""
    config = StackConfig(
        middleware={"spare": FallbackMiddlewareConfig(alternative="other", approved=True)},
        functions={"parts": FunctionConfig("a", ["spare"]), "other": FunctionConfig("b")},
    )
    stack = Stack(config, {"parts": service, "other": AsyncMock()}, bench.clock)
    assert bench.run(stack.call("parts", 1)) == answer


def test_a_stack_can_stand_behind_another(bench: Any) -> None:
    """`call` and `stream` of a stack say what they return, so they may be a service of a further one."""
    inner = Stack(lesson(parts=[]), {"parts": Both()}, bench.clock)
    services = {"one": partial(inner.call, "parts"), "many": partial(inner.stream, "parts")}
    outer = Stack(lesson(one=["breaker"], many=["breaker"]), services, bench.clock)

    async def main() -> None:
        assert await outer.call("one", 1) == (1,)
        assert await read(outer.stream("many", 1, 2)) == [1, 2]

    bench.run(main())


def test_an_unknown_function_is_a_sentence(bench: Any) -> None:
    """Calling what is not there names the nearest one."""
    stack = Stack(lesson(parts=[]), {"service": bench.ok}, bench.clock)
    for ask in (stack.call, stack.stream):
        with pytest.raises(MiddlewareError, match="there is no function 'part' in the stack"):
            ask("part")
    with pytest.raises(MiddlewareError, match="did you mean 'parts'"):
        stack.call("part")


# -- alternatives ------------------------------------------------------------------------------------------------------


def with_fallback(alternative: str, approved: bool = True, **more: Any) -> StackConfig:
    """A function `parts` behind a fallback, and a catalogue."""
    return StackConfig(
        middleware={"spare": FallbackMiddlewareConfig(alternative=alternative, approved=approved), **more},
        functions={
            "parts": FunctionConfig("parts_service", ["spare"]),
            "catalogue": FunctionConfig("catalogue_service"),
        },
    )


def test_an_approved_alternative_answers(bench: Any) -> None:
    """The fallback asks the other function, through its own chain, with the same arguments."""
    stack = Stack(with_fallback("catalogue"), {"parts": bench.fails, "catalogue": only_call}, bench.clock)

    async def main() -> Any:
        return await stack.call("parts", "bolt")

    assert bench.run(main()) == ("function", "bolt")


def test_an_alternatives_stream_answers(bench: Any) -> None:
    """The same for streams."""

    async def dead(*_: Any) -> AsyncIterator[Any]:
        raise TimeoutError
        yield

    stack = Stack(with_fallback("catalogue"), {"parts": dead, "catalogue": only_stream}, bench.clock)

    async def main() -> Any:
        return await read(stack.stream("parts", "bolt"))

    assert bench.run(main()) == [("generator", "bolt")]


def test_an_alternatives_own_breaker_is_told(bench: Any) -> None:
    """An alternative whose breaker is open makes the outcome unavailable, with that breaker's time."""
    config = with_fallback("catalogue", breaker=CircuitBreakerMiddlewareConfig(failure_threshold=1))
    config.functions["catalogue"].middleware.append("breaker")
    stack = Stack(config, {"parts": bench.fails, "catalogue": bench.script(OSError("no disk"))}, bench.clock)

    async def main() -> list[Any]:
        first = await bench.kind(stack.call("parts"))  # of a kind that the fallback does not answer
        await bench.sleep(10.0)
        return [first, await stack.call("parts")]

    assert bench.run(main()) == [
        "OSError",
        Unavailable("the circuit breaker is open", "parts", 50.0),
    ]


def test_an_alternative_that_leads_back_is_refused(bench: Any) -> None:
    """Itself, the same service by another name, a cycle, an unknown name: refused when the stack is built."""
    services = {"parts": bench.fails, "catalogue": only_call}
    for alternative in ("parts", "stock"):
        with pytest.raises(MiddlewareError, match=f"'{alternative}'"):
            Stack(with_fallback(alternative), services, bench.clock)
    with pytest.raises(MiddlewareError, match="approved"):
        Stack(with_fallback("catalogue", approved=False), services, bench.clock)
    cycle = with_fallback("catalogue", back=FallbackMiddlewareConfig(alternative="parts", approved=True))
    cycle.functions["catalogue"].middleware.append("back")
    with pytest.raises(MiddlewareError, match="leads back"):
        Stack(cycle, services, bench.clock)
    same_type = with_fallback("catalogue")
    same_type.functions["catalogue"].type_ = "parts_service"
    with pytest.raises(MiddlewareError, match="same service"):
        Stack(same_type, services, bench.clock)


@pytest.mark.parametrize("shape", ["object", "function", "method"])
def test_the_same_service_under_two_names_is_refused(bench: Any, shape: str) -> None:
    """Two functions of different types that are given one service are one service, however it is handed over."""
    one = Both()
    pairs: dict[str, tuple[Any, Any]] = {
        "object": (one, one),
        "function": (bench.ok, bench.ok),  # a method is made anew each time it is looked up
        "method": (one, one.call),
    }
    first, second = pairs[shape]
    with pytest.raises(MiddlewareError, match="the same service under another name"):
        Stack(with_fallback("catalogue"), {"parts": first, "catalogue": second}, bench.clock)
    Stack(with_fallback("catalogue"), {"parts": Both(), "catalogue": Both()}, bench.clock)
