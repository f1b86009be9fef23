"""One thin async shell a policy, the chain that folds them around a function, and the stack that YAML describes.

Names and signatures are the toolkit's where it has the thing (`CircuitBreakerMiddleware`, `TimeoutMiddleware`,
`FunctionMiddleware`, `FunctionMiddlewareContext`, `FunctionMiddlewareChain`); the others are labkit's own.
"""

from __future__ import annotations

from labkit.errors import BulkheadFullError, CircuitBreakerOpenError, Refusal
from labkit.middleware.base import (
    CallNext,
    CallNextStream,
    FunctionMiddleware,
    FunctionMiddlewareChain,
    FunctionMiddlewareContext,
    InvocationAction,
    InvocationContext,
    validate_middleware,
)
from labkit.middleware.bulkhead import BulkheadEvent, BulkheadMiddleware
from labkit.middleware.circuit_breaker import BreakerEvent, CircuitBreakerMiddleware
from labkit.middleware.fallback import FallbackMiddleware, Unavailable
from labkit.middleware.guarded_circuit_breaker import GuardedCircuitBreakerMiddleware
from labkit.middleware.leases import LeaseStore, MemoryLeaseStore, ProbeLease
from labkit.middleware.retry import RetryMiddleware, RetryReport
from labkit.middleware.retry_budget import RetryBudgetEvent, RetryBudgetMiddleware
from labkit.middleware.stack import Stack, register_middleware
from labkit.middleware.timeout import TimeoutMiddleware
from labkit.middleware.window_circuit_breaker import WindowCircuitBreakerMiddleware
from labkit.policies import CircuitBreakerState

__all__ = [
    "BreakerEvent",
    "BulkheadEvent",
    "BulkheadFullError",
    "BulkheadMiddleware",
    "CallNext",
    "CallNextStream",
    "CircuitBreakerMiddleware",
    "CircuitBreakerOpenError",
    "CircuitBreakerState",
    "FallbackMiddleware",
    "FunctionMiddleware",
    "FunctionMiddlewareChain",
    "FunctionMiddlewareContext",
    "GuardedCircuitBreakerMiddleware",
    "InvocationAction",
    "InvocationContext",
    "LeaseStore",
    "MemoryLeaseStore",
    "ProbeLease",
    "Refusal",
    "RetryBudgetEvent",
    "RetryBudgetMiddleware",
    "RetryMiddleware",
    "RetryReport",
    "Stack",
    "TimeoutMiddleware",
    "Unavailable",
    "WindowCircuitBreakerMiddleware",
    "register_middleware",
    "validate_middleware",
]
