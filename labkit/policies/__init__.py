"""The rules, sans-IO: `now` is an argument, nothing waits, nothing is locked, nothing is read or written.

Each module holds one machine and its table of transitions, from which the diagrams are drawn.
"""

from __future__ import annotations

from labkit.policies._machine import Outcome, Permit, Rejection, Transition
from labkit.policies.circuit_breaker import BreakerSnapshot, CircuitBreakerPolicy, CircuitBreakerState
from labkit.policies.fallback import FallbackDecision, FallbackPolicy
from labkit.policies.retry import GiveUp, RetryPolicy, Wait
from labkit.policies.timeout import TimeoutPolicy

__all__ = [
    "BreakerSnapshot",
    "CircuitBreakerPolicy",
    "CircuitBreakerState",
    "FallbackDecision",
    "FallbackPolicy",
    "GiveUp",
    "Outcome",
    "Permit",
    "Rejection",
    "RetryPolicy",
    "TimeoutPolicy",
    "Transition",
    "Wait",
]
