"""Names, signatures, defaults and rules of the toolkit's two: as stated of 1.9.0, and of the one installed."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import math
from typing import Any

import pytest
from pydantic import ValidationError

import labkit.middleware
from labkit.config import CircuitBreakerMiddlewareConfig, TimeoutMiddlewareConfig
from labkit.errors import CircuitBreakerOpenError
from labkit.middleware import (
    CircuitBreakerMiddleware,
    CircuitBreakerState,
    FunctionMiddleware,
    FunctionMiddlewareChain,
    FunctionMiddlewareContext,
    TimeoutMiddleware,
)

TOOLKIT = importlib.util.find_spec("nat") is not None and importlib.util.find_spec("nat.middleware") is not None

#: method -> its parameters and their kinds, without annotations.
ENTRIES = {
    "function_middleware_invoke": "(self, *args, call_next, context, **kwargs)",
    "function_middleware_stream": "(self, *args, call_next, context, **kwargs)",
    "middleware_invoke": "(self, *args, call_next, context, **kwargs)",
    "middleware_stream": "(self, *args, call_next, context, **kwargs)",
    "pre_invoke": "(self, context)",
    "post_invoke": "(self, context)",
}
READOUTS = {
    "get_state": "(self, target)",
    "get_failure_count": "(self, target)",
    "get_success_count": "(self, target)",
    "get_last_state_change": "(self, target)",
    "is_half_open_probing": "(self, target)",
}
BREAKER_FIELDS = {
    "failure_threshold": 3,
    "cooldown_period": 60.0,
    "half_open_success_threshold": 1,
    "probe_timeout": None,
    "circuit_breaker_message": None,
    "enabled": True,
}
#: field, what is given, and what it becomes; None where it is refused.
COERCED: list[tuple[str, Any, Any]] = [
    ("failure_threshold", "4", 4),
    ("failure_threshold", True, 1),
    ("failure_threshold", 3.0, 3),
    ("failure_threshold", 2.5, None),
    ("failure_threshold", 0, None),
    ("failure_threshold", -1, None),
    ("cooldown_period", "30", 30.0),
    ("cooldown_period", math.inf, math.inf),
    ("cooldown_period", math.nan, None),
    ("cooldown_period", "30s", None),
    ("cooldown_period", 0, None),
    ("half_open_success_threshold", 0, None),
    ("half_open_success_threshold", "2", 2),
    ("probe_timeout", 0.5, 0.5),
    ("probe_timeout", 0, None),
    ("probe_timeout", math.inf, math.inf),
    ("circuit_breaker_message", 3, None),
    ("enabled", "no", False),
]


def bare(function: Any) -> str:
    """A signature without annotations and defaults."""
    signature = inspect.signature(function)
    parameters = [one.replace(annotation=one.empty) for one in signature.parameters.values()]
    return str(signature.replace(parameters=parameters, return_annotation=signature.empty))


@pytest.mark.parametrize("kind", [CircuitBreakerMiddleware, TimeoutMiddleware, FunctionMiddleware])
def test_the_entries_have_the_toolkits_signatures(kind: type[Any]) -> None:
    """The toolkit's methods are there with its parameters."""
    assert {name: bare(getattr(kind, name)) for name in ENTRIES} == ENTRIES


def test_the_readouts_are_the_toolkits() -> None:
    """The five asynchronous read-outs are there with the toolkit's parameter."""
    assert {name: bare(getattr(CircuitBreakerMiddleware, name)) for name in READOUTS} == READOUTS
    assert all(inspect.iscoroutinefunction(getattr(CircuitBreakerMiddleware, name)) for name in READOUTS)


def test_the_names_are_the_toolkits() -> None:
    """The toolkit's names are handed out by `labkit.middleware`, and the states have its values."""
    for name in ("CircuitBreakerMiddleware", "CircuitBreakerOpenError", "CircuitBreakerState", "TimeoutMiddleware"):
        assert hasattr(labkit.middleware, name)
    assert [(state.name, state.value, str(state)) for state in CircuitBreakerState] == [
        (name, name, name) for name in ("CLOSED", "OPEN", "HALF_OPEN")
    ]
    assert issubclass(CircuitBreakerOpenError, RuntimeError)


@pytest.mark.parametrize("kind", [CircuitBreakerMiddleware, TimeoutMiddleware])
def test_the_constructors_take_the_toolkits_arguments(kind: type[Any]) -> None:
    """`(config, builder)` makes one, by place and by name."""
    config: Any = CircuitBreakerMiddlewareConfig()
    if kind is TimeoutMiddleware:
        config = TimeoutMiddlewareConfig(timeout=1.0)
    for one in (kind(config, object()), kind(config=config, builder=None)):
        assert one.config is config
        assert (one.enabled, one.is_final) == (True, False)


def test_the_chain_and_context_are_made_as_the_toolkits() -> None:
    """Both take keywords only, and the context all of the toolkit's."""
    context = FunctionMiddlewareContext(
        name="parts",
        config=None,
        description=None,
        input_schema=None,
        single_output_schema=type(None),
        stream_output_schema=type(None),
    )
    FunctionMiddlewareChain(middleware=[], context=context)
    with pytest.raises(TypeError):
        FunctionMiddlewareContext("parts")  # type: ignore[misc]
    with pytest.raises(TypeError):
        FunctionMiddlewareChain([], context)  # type: ignore[misc]


def test_the_defaults_are_the_toolkits() -> None:
    """Every field of the breaker has the stated default, and `timeout` has none."""
    config = CircuitBreakerMiddlewareConfig()
    assert {name: getattr(config, name) for name in BREAKER_FIELDS} == BREAKER_FIELDS
    assert TimeoutMiddlewareConfig(timeout=2).timeout_message is None
    with pytest.raises(ValidationError):
        TimeoutMiddlewareConfig()


@pytest.mark.parametrize(("field", "given", "becomes"), COERCED)
def test_values_are_coerced_and_refused_as_stated(field: str, given: Any, becomes: Any) -> None:
    """What is coerced becomes the stated value, what is out of range or no number is refused."""
    if becomes is None:
        with pytest.raises(ValidationError):
            CircuitBreakerMiddlewareConfig(**{field: given})
    else:
        value = getattr(CircuitBreakerMiddlewareConfig(**{field: given}), field)
        assert (value, type(value)) == (becomes, type(becomes))


@pytest.mark.skipif(not TOOLKIT, reason="nvidia-nat-core is not installed here")
def test_what_is_stated_here_is_the_toolkits() -> None:
    """Signatures, defaults, coercions and names above are those of the installed toolkit."""
    package = "nat.middleware.circuit_breaker.circuit_breaker_middleware"
    module, settings = importlib.import_module(package), importlib.import_module(f"{package}_config")
    functions = importlib.import_module("nat.middleware.function_middleware")
    breaker, config = module.CircuitBreakerMiddleware, settings.CircuitBreakerMiddlewareConfig
    assert {name: bare(getattr(breaker, name)) for name in {**ENTRIES, **READOUTS}} == {**ENTRIES, **READOUTS}
    made = config()
    assert {name: getattr(made, name) for name in BREAKER_FIELDS} == BREAKER_FIELDS
    for field, given, becomes in COERCED:
        try:
            value = getattr(config(**{field: given}), field)
        except ValidationError:
            value = None
        assert value == becomes, (field, given)
    assert [(state.name, state.value) for state in module.CircuitBreakerState] == [
        (state.name, state.value) for state in CircuitBreakerState
    ]
    assert bare(functions.FunctionMiddlewareChain) == bare(FunctionMiddlewareChain)
    assert set(inspect.signature(functions.FunctionMiddlewareContext).parameters) == set(
        inspect.signature(FunctionMiddlewareContext).parameters
    )
    theirs = {name for name in set(config.model_fields) | set(dir(breaker)) if not name.startswith("_")}
    assert set(config.model_fields) == set(CircuitBreakerMiddlewareConfig.model_fields)
    assert {"reset", "force_open", "listen", "retry_after"} & theirs == set()  # labkit's own, or nobody's


@pytest.mark.parametrize("kind", ["circuit_breaker", "guarded_circuit_breaker", "window_circuit_breaker"])
def test_every_breaker_has_the_read_outs(kind: str) -> None:
    """All breakers answer what the toolkit's does: state, counts, last change, and whether a probe is in flight."""
    from labkit.middleware import Stack
    from labkit.timing import VirtualClock

    clock = VirtualClock()
    opens = ", interval: 60, open_duration: 10" if kind.startswith("window") else ", cooldown_period: 10"
    text = f"middleware: {{b: {{_type: {kind}, failure_threshold: 2{opens}}}}}\n"
    text += "functions: {parts: {_type: parts, middleware: [b]}}"

    async def service(outcome: str) -> str:
        await clock.sleep(1.0)
        if outcome == "error":
            raise OSError
        return "ok"

    stack = Stack.load(text, services={"parts": service}, clock=clock)
    breaker: Any = stack.middleware["b"]

    async def read() -> tuple[Any, ...]:
        return (
            str(await breaker.get_state("parts")),
            await breaker.get_failure_count("parts"),
            await breaker.get_success_count("parts"),
            await breaker.get_last_state_change("parts"),
            await breaker.is_half_open_probing("parts"),
        )

    async def main() -> list[tuple[Any, ...]]:
        seen = [await read()]
        for _ in range(2):
            with pytest.raises(OSError):
                await stack.call("parts", "error")
            seen.append(await read())
        await clock.sleep(10.0)
        probe = clock.start(stack.call("parts", "ok"))  # type: ignore[arg-type]
        await clock.sleep(0.5)
        seen.append(await read())
        await probe
        seen.append(await read())
        return seen

    assert clock.run(main()) == [
        ("CLOSED", 0, 0, 0.0, False),
        ("CLOSED", 1, 0, 0.0, False),
        ("OPEN", 2, 0, 2.0, False),
        ("HALF_OPEN", 2, 0, 12.0, True),
        ("CLOSED", 0, 0, 0.0, False),
    ]
