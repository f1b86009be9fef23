"""The settings of the window breaker, the bulkhead and the retry budget, and what is said of them in a stack."""

from __future__ import annotations

import math
from typing import Any

import pytest
from pydantic import ValidationError

from labkit.config import (
    BulkheadMiddlewareConfig,
    Finding,
    MiddlewareConfig,
    RetryBudgetMiddlewareConfig,
    RetryMiddlewareConfig,
    WindowCircuitBreakerMiddlewareConfig,
    load_stack_config,
    middleware_types,
)
from labkit.errors import ConfigError
from labkit.policies.window_circuit_breaker import MINIMUM_CALLS

BY_INTERVAL = {"failure_threshold": 5, "interval": 60}
BY_RATE = {"failure_rate": 0.5, "window": 60}
FILE = "middleware:\n  m:\n    _type: %s\n%sfunctions: {f: {_type: f, middleware: [m]}}"


def test_the_models_words_give_the_policys_default() -> None:
    """What the description of `minimum_calls` says of null is what the policy does where nothing is said."""
    described = WindowCircuitBreakerMiddlewareConfig.model_fields["minimum_calls"].description or ""
    assert described.endswith(f"null: {MINIMUM_CALLS}.")


def findings(type_: str, **fields: Any) -> tuple[Finding, ...]:
    """What the loader says of a block with these keys, one a line from line 4 on."""
    block = "".join(f"    {key}: {value}\n" for key, value in fields.items())
    try:
        return load_stack_config(FILE % (type_, block), environ={}).warnings
    except ConfigError as error:
        return error.findings  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("model", "needed", "setting", "accepted", "refused"),
    [
        (WindowCircuitBreakerMiddlewareConfig, BY_RATE, "failure_rate", [0.001, 1, "0.5"], [0, -1, 1.01, math.nan]),
        (WindowCircuitBreakerMiddlewareConfig, BY_RATE, "window", [0.001, 60], [0, 0.0001, math.inf, math.nan]),
        (WindowCircuitBreakerMiddlewareConfig, BY_RATE, "minimum_calls", [1, "7", None], [0, 1.5]),
        (WindowCircuitBreakerMiddlewareConfig, BY_INTERVAL, "failure_threshold", [1, "7"], [0, -1, 1.5]),
        (WindowCircuitBreakerMiddlewareConfig, BY_INTERVAL, "interval", [0.001, 60], [0, -1, math.inf, math.nan]),
        (WindowCircuitBreakerMiddlewareConfig, BY_INTERVAL, "open_duration", [0.1, math.inf], [0, -1, math.nan]),
        (WindowCircuitBreakerMiddlewareConfig, BY_INTERVAL, "open_factor", [1, 2.5], [0.9, 0, math.inf, math.nan]),
        (WindowCircuitBreakerMiddlewareConfig, BY_INTERVAL, "max_open_duration", [60, None, math.inf], [0, 59.9]),
        (WindowCircuitBreakerMiddlewareConfig, BY_INTERVAL, "half_open_requests", [1, 9], [0, -1, 1.5, None]),
        (WindowCircuitBreakerMiddlewareConfig, BY_INTERVAL, "half_open_successes", [1, 9], [0, -1, 1.5, None]),
        (WindowCircuitBreakerMiddlewareConfig, BY_INTERVAL, "probe_timeout", [0.1, None], [0, -1, math.nan]),
        (BulkheadMiddlewareConfig, {}, "max_concurrent", [1, "7"], [0, -1, 1.5, None]),
        (BulkheadMiddlewareConfig, {"max_concurrent": 1}, "max_queue", [0, 7], [-1, 1.5, None]),
        (BulkheadMiddlewareConfig, {"max_concurrent": 1}, "max_wait", [0.1, None, math.inf], [0, -1, math.nan]),
        (RetryBudgetMiddlewareConfig, {}, "ratio", [0.001, 1], [0, 0.0001, 10, math.nan, None]),
        (RetryBudgetMiddlewareConfig, {}, "max_tokens", [1, 2.5], [0, 0.9, math.inf, None]),
        (RetryBudgetMiddlewareConfig, {}, "initial_tokens", [0, 10, None], [-1, 10.1, math.nan]),
        (RetryMiddlewareConfig, {}, "budget", [None, "shared"], [1, ["shared"]]),
    ],
)
def test_settings_have_ranges(
    model: type[MiddlewareConfig], needed: dict[str, Any], setting: str, accepted: list[Any], refused: list[Any]
) -> None:
    """Each setting takes what its range allows and refuses the rest."""
    for value in accepted:
        model(**{**needed, setting: value})
    for value in refused:
        with pytest.raises(ValidationError):
            model(**{**needed, setting: value})


def test_defaults() -> None:
    """What is not said is as lessons and policies count on."""
    assert WindowCircuitBreakerMiddlewareConfig(**BY_RATE).model_dump(exclude={"type"}) == {
        "enabled": True,
        "failure_threshold": None,
        "interval": None,
        "failure_rate": 0.5,
        "window": 60.0,
        "minimum_calls": None,
        "open_duration": 60.0,
        "open_factor": 1.0,
        "max_open_duration": None,
        "half_open_requests": 1,
        "half_open_successes": 1,
        "probe_timeout": None,
        "circuit_breaker_message": None,
        "left_early": "neither",
    }
    assert BulkheadMiddlewareConfig(max_concurrent=4).model_dump(exclude={"type"}) == {
        "enabled": True,
        "max_concurrent": 4,
        "max_queue": 0,
        "max_wait": None,
    }
    assert RetryBudgetMiddlewareConfig().model_dump(exclude={"type"}) == {
        "enabled": True,
        "ratio": 0.1,
        "max_tokens": 10.0,
        "initial_tokens": None,
    }


def test_they_are_labkits_own() -> None:
    """None of the three is said to be the toolkit's."""
    types = middleware_types()
    assert [types[name].toolkit for name in ("window_circuit_breaker", "bulkhead", "retry_budget")] == [False] * 3


@pytest.mark.parametrize(
    ("fields", "line", "found"),
    [
        ({}, 2, "it is not said what opens it"),
        ({"failure_threshold": 5}, 4, "'failure_threshold' is set without 'interval'"),
        ({"interval": 60}, 4, "'interval' is set without 'failure_threshold'"),
        ({"failure_rate": 0.5}, 4, "'failure_rate' is set without 'window'"),
        ({"window": 60}, 4, "'window' is set without 'failure_rate'"),
        ({"minimum_calls": 9}, 4, "'minimum_calls' is set without 'failure_rate'"),
        ({**BY_INTERVAL, **BY_RATE}, 6, "'failure_rate' is set beside 'failure_threshold'"),
        ({**BY_INTERVAL, "minimum_calls": 9}, 6, "'minimum_calls' is set beside 'failure_threshold'"),
        ({**BY_RATE, "interval": 60}, 4, "'failure_rate' is set beside 'interval'"),
    ],
)
def test_a_window_breaker_counts_in_one_way(fields: dict[str, Any], line: int, found: str) -> None:
    """Neither way, both, or half of one is one sentence, in the line of the key to blame."""
    (finding,) = findings("window_circuit_breaker", **fields)
    assert finding.message == (
        f"<text>:{line}: middleware 'm' (window_circuit_breaker): {found}; allowed: either 'failure_threshold' with "
        "'interval', or 'failure_rate' with 'window'"
    )
    assert (finding.code, finding.severity) == ("at-odds", "error")


def test_a_misspelt_key_is_one_fault() -> None:
    """A key that was meant for what is now missing is named, and the lack is not told as well."""
    (finding,) = findings("window_circuit_breaker", failure_treshold=5, interval=60)
    assert (finding.code, finding.nearest) == ("unknown-key", "failure_threshold")


@pytest.mark.parametrize(
    ("type_", "fields", "sentence"),
    [
        (
            "window_circuit_breaker",
            {**BY_INTERVAL, "max_open_duration": 30},
            "'max_open_duration' is less than 'open_duration', 60 s; allowed: that or more, or null",
        ),
        (
            "retry_budget",
            {"initial_tokens": 50},
            "'initial_tokens' is more than 'max_tokens', 10; allowed: that or less, or null",
        ),
    ],
)
def test_two_settings_at_odds(type_: str, fields: dict[str, Any], sentence: str) -> None:
    """Settings that are sound alone and not together are one sentence in the line of the one to blame."""
    (finding,) = findings(type_, **fields)
    assert finding.message == f"<text>:{3 + len(fields)}: middleware 'm' ({type_}): {sentence}"
    assert finding.key == [*fields][-1]


def test_a_value_assigned_later_is_judged_with_the_others() -> None:
    """Assigning a value that is at odds with another raises and leaves the old one in force."""
    config = WindowCircuitBreakerMiddlewareConfig(**BY_INTERVAL)
    for key, value in (("interval", None), ("failure_rate", 0.5), ("max_open_duration", 1.0)):
        before = config.model_dump()
        with pytest.raises(ValidationError):
            setattr(config, key, value)
        assert config.model_dump() == before
    config.max_open_duration = 600.0
    assert config.max_open_duration == 600.0


@pytest.mark.parametrize(
    ("type_", "fields", "key"),
    [
        ("window_circuit_breaker", {**BY_INTERVAL, "open_duration": ".inf"}, "open_duration"),
        ("window_circuit_breaker", {**BY_INTERVAL, "max_open_duration": ".inf"}, "max_open_duration"),
        ("window_circuit_breaker", {**BY_INTERVAL, "probe_timeout": ".inf"}, "probe_timeout"),
        ("bulkhead", {"max_concurrent": 1, "max_wait": ".inf"}, "max_wait"),
    ],
)
def test_what_never_ends_is_a_warning(type_: str, fields: dict[str, Any], key: str) -> None:
    """An endless time is accepted, and what it means is said."""
    (finding,) = findings(type_, **fields)
    assert (finding.code, finding.severity, finding.key) == ("endless", "warning", key)


# -- budgets between the parts of a stack ------------------------------------------------------------------------------


def said(middleware: str, listed: str) -> list[tuple[str, str]]:
    """Severity and sentence of each finding of a stack of these parts."""
    text = f"middleware: {{{middleware}}}\nfunctions: {{f: {{_type: f, middleware: [{listed}]}}}}"
    try:
        found: Any = load_stack_config(text, environ={}).warnings
    except ConfigError as error:
        found = error.findings
    return [(finding.severity, finding.message.partition(": ")[2].removeprefix("warning: ")) for finding in found]


def test_a_budget_that_a_retry_names_is_used() -> None:
    """Nothing is said of a budget that no function lists and a retry names."""
    assert said("b: {_type: retry_budget}, r: {_type: retry, budget: b}", "r") == []


@pytest.mark.parametrize(
    ("budget", "end"),
    [
        ("shard", "names 'shard', which is no retry_budget; allowed: shared, or null; did you mean 'shared'?"),
        ("r", "names 'r', which is no retry_budget; allowed: shared, or null"),
    ],
)
def test_a_budget_that_is_none_is_refused(budget: str, end: str) -> None:
    """A name that leads nowhere, or to something else, is an error that names the budgets there are."""
    got = said(
        f"shared: {{_type: retry_budget}}, s: {{_type: retry, budget: shared}}, r: {{_type: retry, budget: {budget}}}",
        "r, s",
    )
    assert got == [("error", f"'budget' of middleware 'r' (retry) {end}")]


def test_a_budget_with_a_fault_is_one_fault() -> None:
    """A retry that names a budget which could not be read is not blamed for it."""
    ((severity, sentence),) = said("b: {_type: retry_budget, ratio: 10}, r: {_type: retry, budget: b}", "r")
    assert (severity, sentence.partition(";")[0]) == ("error", "'ratio' of middleware 'b' (retry_budget) is 10")


def test_a_budget_in_a_list_does_nothing() -> None:
    """Who lists a budget is told to name it in a retry, and who does neither that it is unused."""
    assert said("b: {_type: retry_budget}", "b") == [
        (
            "warning",
            "function 'f' lists the retry budget 'b', which does nothing in a list: name it as the 'budget' of a retry",
        )
    ]
    assert said("b: {_type: retry_budget}, r: {_type: retry}", "r") == [
        ("warning", "middleware 'b' is defined and no retry names it as its 'budget'")
    ]
