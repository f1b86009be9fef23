"""A rule that is made in Python without settings has those of a YAML file that says nothing."""

from __future__ import annotations

from typing import Any

import pytest

from labkit.config import (
    BulkheadMiddlewareConfig,
    CircuitBreakerMiddlewareConfig,
    GuardedCircuitBreakerMiddlewareConfig,
    RetryBudgetMiddlewareConfig,
    RetryMiddlewareConfig,
    WindowCircuitBreakerMiddlewareConfig,
)
from labkit.policies import (
    BulkheadPolicy,
    CircuitBreakerPolicy,
    GuardedCircuitBreakerPolicy,
    RetryBudgetPolicy,
    RetryPolicy,
    WindowCircuitBreakerPolicy,
)

PAIRS: list[tuple[Any, Any, list[str]]] = [
    (
        CircuitBreakerPolicy(),
        CircuitBreakerMiddlewareConfig(),
        ["failure_threshold", "cooldown_period", "half_open_success_threshold"],
    ),
    (
        GuardedCircuitBreakerPolicy(),
        GuardedCircuitBreakerMiddlewareConfig(),
        ["failure_threshold", "cooldown_period", "half_open_success_threshold", "probe_hold", "idle_period"],
    ),
    (
        WindowCircuitBreakerPolicy(failure_rate=0.5, window=60.0),
        WindowCircuitBreakerMiddlewareConfig(failure_rate=0.5, window=60.0),
        ["open_duration", "open_factor", "half_open_requests", "half_open_successes"],
    ),
    (BulkheadPolicy(1), BulkheadMiddlewareConfig(max_concurrent=1), ["max_queue"]),
    (
        RetryPolicy(retryable=lambda _: True),
        RetryMiddlewareConfig(),
        ["attempts", "base_delay", "factor", "max_delay", "time_budget"],
    ),
]


@pytest.mark.parametrize(("policy", "config", "fields"), PAIRS)
def test_a_policy_has_the_defaults_of_its_configuration(policy: Any, config: Any, fields: list[str]) -> None:
    """Field by field; what a policy makes of null is its own affair."""
    assert {name: getattr(policy, name) for name in fields} == {name: getattr(config, name) for name in fields}


def test_a_budget_has_the_defaults_of_its_configuration() -> None:
    """A full bucket of as many tokens, of which each request brings back the same share."""
    config = RetryBudgetMiddlewareConfig()
    policy = RetryBudgetPolicy()
    assert policy.snapshot("t").tokens == config.max_tokens
    assert policy.spend("t")
    policy.earn("t")
    assert policy.snapshot("t").tokens == pytest.approx(config.max_tokens - 1.0 + config.ratio)
