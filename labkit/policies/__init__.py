"""The rules, sans-IO: `now` is an argument, nothing waits, nothing is locked, nothing is read or written.

Each module holds one machine and its table of transitions, from which the diagrams are drawn.
"""

from __future__ import annotations

from labkit.policies._machine import (
    BreakerPolicy,
    CircuitBreakerState,
    GenerationPermit,
    Outcome,
    Permit,
    Rejection,
    Transition,
)
from labkit.policies.bulkhead import BulkheadPolicy, BulkheadSnapshot
from labkit.policies.circuit_breaker import BreakerSnapshot, CircuitBreakerPolicy
from labkit.policies.fallback import FallbackDecision, FallbackPolicy
from labkit.policies.guarded_circuit_breaker import GuardedBreakerSnapshot, GuardedCircuitBreakerPolicy
from labkit.policies.probe_lease import Lease
from labkit.policies.retry import GiveUp, RetryPolicy, Wait
from labkit.policies.retry_budget import RetryBudgetPolicy, RetryBudgetSnapshot
from labkit.policies.timeout import TimeoutPolicy
from labkit.policies.window_circuit_breaker import WindowBreakerSnapshot, WindowCircuitBreakerPolicy

__all__ = [
    "BreakerPolicy",
    "BreakerSnapshot",
    "BulkheadPolicy",
    "BulkheadSnapshot",
    "CircuitBreakerPolicy",
    "CircuitBreakerState",
    "FallbackDecision",
    "FallbackPolicy",
    "GenerationPermit",
    "GiveUp",
    "GuardedBreakerSnapshot",
    "GuardedCircuitBreakerPolicy",
    "Lease",
    "Outcome",
    "Permit",
    "Rejection",
    "RetryBudgetPolicy",
    "RetryBudgetSnapshot",
    "RetryPolicy",
    "TimeoutPolicy",
    "Transition",
    "Wait",
    "WindowBreakerSnapshot",
    "WindowCircuitBreakerPolicy",
]
