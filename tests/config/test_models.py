"""The models against what the real toolkit was seen to do, and what labkit adds to them."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, Literal

import pytest
import yaml
from pydantic import Field, ValidationError

import labkit.config.models.middleware as models
from labkit.config import (
    CircuitBreakerMiddlewareConfig,
    FallbackMiddlewareConfig,
    MiddlewareConfig,
    RetryMiddlewareConfig,
    TimeoutMiddlewareConfig,
    load_stack_config,
    middleware_types,
    register_middleware_config,
)
from labkit.errors import ConfigError

RECORDED: dict[str, Any] = json.loads((Path(__file__).parent / "toolkit_values.json").read_text(encoding="utf-8"))
MODELS: dict[str, type[MiddlewareConfig]] = {
    "circuit_breaker": CircuitBreakerMiddlewareConfig,
    "timeout": TimeoutMiddlewareConfig,
}
GROUPS = {field: group for group in RECORDED["values"] for field in group["fields"]}


def needed(type_: str, field: str) -> dict[str, Any]:
    """Return what else a model of this type needs to be made."""
    return {"timeout": 1} if type_ == "timeout" and field != "timeout" else {}


@pytest.fixture
def register(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A register that forgets after the test what the test registers."""
    monkeypatch.setattr(models, "_REGISTER", dict(models._REGISTER))
    return register_middleware_config


@pytest.mark.parametrize(("type_", "model"), MODELS.items())
def test_fields_and_defaults_are_the_toolkits(type_: str, model: type[MiddlewareConfig]) -> None:
    """A model has the toolkit's fields, no more and no fewer, with the toolkit's defaults."""
    defaults = {
        f"{type_}.{name}": "required" if info.is_required() else repr(info.default)
        for name, info in model.model_fields.items()
        if name not in ("type", "allowed_component_functions")
    }
    assert defaults == {name: default for name, default in RECORDED["defaults"].items() if name.startswith(f"{type_}.")}


def test_the_recording_covers_what_the_lessons_say() -> None:
    """The conversions that lessons speak of are in the recording, so that the tests below hold them."""
    threshold, cooldown = GROUPS["circuit_breaker.failure_threshold"], GROUPS["circuit_breaker.cooldown_period"]
    assert (threshold["accepted"]['"4"'], threshold["accepted"]["true"], cooldown["accepted"][".inf"]) == (
        "4",
        "1",
        "inf",
    )
    assert {"0", "-1", "2.5"} <= set(threshold["refused"])
    assert {"0", "-1", ".nan", '"30s"', "30s"} <= set(cooldown["refused"])


@pytest.mark.parametrize("field", GROUPS)
def test_accepts_converts_and_refuses_as_the_toolkit(field: str) -> None:
    """What the toolkit accepts becomes the same value of the same type; what it refuses is an error of that field."""
    type_, _, name = field.partition(".")
    for text, as_repr in GROUPS[field]["accepted"].items():
        made = MODELS[type_](**{**needed(type_, name), name: yaml.safe_load(text)})
        assert repr(getattr(made, name)) == as_repr, text
    for text in GROUPS[field]["refused"]:
        with pytest.raises(ValidationError) as refused:
            MODELS[type_](**{**needed(type_, name), name: yaml.safe_load(text)})
        assert {error["loc"][0] for error in refused.value.errors()} == {name}, text


@pytest.mark.parametrize("group", RECORDED["values"], ids=lambda group: group["fields"][0])
def test_a_file_gives_the_same_values(group: dict[str, Any]) -> None:
    """Through a file a recorded value ends as through the constructor: as that value, or as a finding in its line."""
    type_, _, name = group["fields"][-1].partition(".")
    also = "".join(f"    {key}: {value}\n" for key, value in needed(type_, name).items())
    for text in (*group["accepted"], *group["refused"]):
        block = f"middleware:\n  m:\n    _type: {type_}\n    {name}: {text}\n{also}"
        file = block + "functions: {f: {_type: f, middleware: [m]}}"
        if text in group["accepted"]:
            made = load_stack_config(file, environ={}).middleware["m"]
            assert repr(getattr(made, name)) == group["accepted"][text]
            continue
        with pytest.raises(ConfigError) as refused:
            load_stack_config(file, environ={})
        (finding,) = refused.value.findings
        entry = text.startswith("[") and name == "workflow_functions"  # the entry is to blame, not the list
        assert (finding.line, finding.column, finding.key) == (4, 5 + (len(f"{name}: [") if entry else 0), name)
        assert finding.code in ("wrong-type", "out-of-range")
        assert finding.allowed in finding.message


def test_python_needs_no_yaml() -> None:
    """A configuration made in Python has its own values and the defaults of the rest."""
    config = CircuitBreakerMiddlewareConfig(failure_threshold=5)
    assert (config.type, config.type_, config.failure_threshold, config.cooldown_period) == (
        "circuit_breaker",
        "circuit_breaker",
        5,
        60.0,
    )


@pytest.mark.parametrize("model", [entry.model for entry in middleware_types().values()])
def test_an_unknown_key_is_refused(model: type[MiddlewareConfig]) -> None:
    """Where the toolkit ignores an unknown key in silence, a model of labkit refuses it."""
    with pytest.raises(ValidationError, match="coooldown_period"):
        model(**{**needed(model.static_type(), ""), "coooldown_period": 30})


def test_another_types_name_is_refused() -> None:
    """A model is not made from settings that are tagged as another type's."""
    with pytest.raises(ValidationError):
        CircuitBreakerMiddlewareConfig(_type="timeout")


def test_a_value_assigned_later_is_judged_too() -> None:
    """Assigning a value outside the range raises and leaves the old one in force."""
    config = CircuitBreakerMiddlewareConfig()
    with pytest.raises(ValidationError):
        config.failure_threshold = 0
    assert config.failure_threshold == 3


def test_the_tag_is_written_as_yaml_has_it() -> None:
    """Dumped by alias, a model can be read back as a block of YAML."""
    dumped = RetryMiddlewareConfig(attempts=2).model_dump(by_alias=True)
    assert dumped["_type"] == "retry"
    assert RetryMiddlewareConfig(**dumped) == RetryMiddlewareConfig(attempts=2)


def test_repr_shows_what_labkit_acts_on() -> None:
    """The repr, which notebooks store, leaves out the keys that labkit only reads."""
    assert (
        repr(TimeoutMiddlewareConfig(timeout=2))
        == "TimeoutMiddlewareConfig(enabled=True, timeout=2.0, timeout_message=None)"
    )


@pytest.mark.parametrize(
    ("setting", "accepted", "refused"),
    [
        ("attempts", [1, "2", 7], [0, -1, 1.5, None]),
        ("base_delay", [0, 0.5, "0.1"], [-0.1, math.inf, math.nan]),
        ("factor", [1, 2.5], [0.9, 0, math.inf, math.nan]),
        ("max_delay", [0, 60], [-1, math.inf, math.nan]),
        ("jitter", ["full", "none"], ["half", True, None]),
        ("seed", [0, -3, 2**70, None], [1.5, "x"]),
        ("time_budget", [0.1, 5, None, math.inf], [0, -1, math.nan]),
        ("retry_on", [[], ["OSError"]], ["OSError", None, [1]]),
    ],
)
def test_retry_has_ranges(setting: str, accepted: list[Any], refused: list[Any]) -> None:
    """Each setting of a retry takes what its range allows and refuses what no wait could be computed from."""
    for value in accepted:
        RetryMiddlewareConfig(**{setting: value})
    for value in refused:
        with pytest.raises(ValidationError):
            RetryMiddlewareConfig(**{setting: value})


def test_own_types_have_the_contracts_defaults() -> None:
    """Retry and fallback start from the defaults that the lessons and the policies count on."""
    retry, fallback = RetryMiddlewareConfig(), FallbackMiddlewareConfig()
    assert retry.model_dump(exclude={"type"}) == {
        "enabled": True,
        "attempts": 3,
        "base_delay": 0.1,
        "factor": 2.0,
        "max_delay": 10.0,
        "jitter": "full",
        "seed": None,
        "time_budget": None,
        "retry_on": ["ConnectionError", "TimeoutError", "DependencyError"],
        "budget": None,
    }
    assert fallback.model_dump(exclude={"type"}) == {
        "enabled": True,
        "errors": ["Refusal", "TimeoutError", "ConnectionError", "DependencyError"],
        "reason": None,
        "alternative": None,
        "approved": False,
    }


def test_defaults_are_not_shared() -> None:
    """Changing one configuration's list changes no other's."""
    RetryMiddlewareConfig().retry_on.append("OSError")
    assert "OSError" not in RetryMiddlewareConfig().retry_on


def test_types_say_whose_they_are() -> None:
    """The register tells the toolkit's types from labkit's own."""
    whose = {name: entry.toolkit for name, entry in middleware_types().items()}
    toolkits = {name for name, is_theirs in whose.items() if is_theirs}
    assert toolkits == {"circuit_breaker", "timeout"}
    assert {"retry", "fallback", "window_circuit_breaker", "bulkhead", "retry_budget"} <= set(whose)


def test_a_new_type_is_known_to_the_loader(register: Any) -> None:
    """A model that is registered is read from YAML, keys checked, like those that were there before."""

    @register
    class Throttle(MiddlewareConfig):
        type: Literal["throttle"] = Field("throttle", alias="_type")
        permits: int = Field(8, gt=0)

    text = "middleware: {b: {_type: throttle, %s}}\nfunctions: {f: {_type: f, middleware: [b]}}"
    assert load_stack_config(text % "permits: 2").middleware["b"] == Throttle(permits=2)
    with pytest.raises(
        ConfigError, match=r"'permit' in middleware 'b' .throttle.; allowed: permits, enabled; did you mean 'permits'"
    ):
        load_stack_config(text % "permit: 2")
    assert middleware_types()["throttle"].toolkit is False


def test_a_taken_type_is_not_replaced(register: Any) -> None:
    """Neither a registered type nor one of the toolkit's that labkit does not run can be taken by another model."""

    class Other(MiddlewareConfig):
        type: Literal["retry"] = Field("retry", alias="_type")

    class Cache(MiddlewareConfig):
        type: Literal["cache"] = Field("cache", alias="_type")

    for model in (Other, Cache):
        with pytest.raises(ValueError, match="taken"):
            register(model)
    assert register(RetryMiddlewareConfig) is RetryMiddlewareConfig


def test_only_a_named_model_is_registered(register: Any) -> None:
    """What is no middleware's model, or has no `_type`, is refused when it is registered and not later."""

    class Nameless(MiddlewareConfig):
        pass

    for model in (Nameless, dict, "retry"):
        with pytest.raises(TypeError):
            register(model)
