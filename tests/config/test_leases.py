"""Leases in a configuration: what is read, and how breakers and leases fit together without YAML."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from labkit.config import (
    FunctionConfig,
    GuardedCircuitBreakerMiddlewareConfig,
    MemoryLeaseConfig,
    RedisLeaseConfig,
    SqliteLeaseConfig,
    StackConfig,
    check_stack,
    load_stack_config,
)
from labkit.config.models.leases import LeaseConfig, lease_types

YAML = """
middleware:
  breaker: {_type: guarded_circuit_breaker, probe_lease: shared}
functions:
  parts: {_type: parts, middleware: [breaker]}
leases:
  shared: {_type: redis, url: "${LEASES:-redis://127.0.0.1/0}", time_to_live: 5, when_unreachable: admit}
"""


def test_leases_are_read_with_the_rest() -> None:
    """A section `leases` gives models by name, with placeholders filled in and their places in the file."""
    stack = load_stack_config(YAML, environ={})
    assert stack.leases == {
        "shared": RedisLeaseConfig(url="redis://127.0.0.1/0", time_to_live=5.0, when_unreachable="admit")
    }
    assert stack.warnings == ()
    assert stack.position("leases", "shared", "time_to_live") is not None
    assert load_stack_config(YAML, environ={"LEASES": "rediss://cache/1"}).leases["shared"] == RedisLeaseConfig(
        url="rediss://cache/1", time_to_live=5.0, when_unreachable="admit"
    )


@pytest.mark.parametrize(
    "config", [MemoryLeaseConfig(), SqliteLeaseConfig(path="x"), RedisLeaseConfig(url="redis://x")], ids=lease_types()
)
def test_defaults_are_the_same_for_every_store(config: LeaseConfig) -> None:
    """Ten seconds to live, one for an answer, and no probe where the store cannot be asked."""
    assert (config.time_to_live, config.acquire_timeout, config.when_unreachable) == (10.0, 1.0, "refuse")


def test_no_rule_is_broken_from_python_either() -> None:
    """Values out of range, an empty path, a URL of something else, an unknown key are pydantic's ValidationError."""
    for make in (
        lambda: MemoryLeaseConfig(time_to_live=0),
        lambda: MemoryLeaseConfig(acquire_timeout=float("inf")),
        lambda: SqliteLeaseConfig(path=""),
        lambda: RedisLeaseConfig(url="http://x"),
        lambda: MemoryLeaseConfig(path="x"),
        lambda: GuardedCircuitBreakerMiddlewareConfig(probe_hold=0),
    ):
        with pytest.raises(ValidationError):
            make()


def test_names_are_judged_without_yaml() -> None:
    """A stack made in Python is told of a lease that is missing, with the nearest name, and of one nobody names."""
    stack = StackConfig(
        {"b": GuardedCircuitBreakerMiddlewareConfig(probe_lease="part")},
        {"f": FunctionConfig("s", ["b"])},
        leases={"parts": MemoryLeaseConfig(), "spare": MemoryLeaseConfig()},
    )
    found = [(finding.code, finding.key, finding.nearest, finding.severity) for finding in check_stack(stack)]
    assert found == [("undefined", "part", "parts", "error"), ("unused", "spare", None, "warning")]
