"""One thin async shell a policy, the chain that folds them around a function, and the stack that YAML describes.

Names and signatures are the toolkit's where it has the thing (`CircuitBreakerMiddleware`, `TimeoutMiddleware`,
`FunctionMiddleware`, `FunctionMiddlewareContext`, `FunctionMiddlewareChain`); `RetryMiddleware` and
`FallbackMiddleware` are labkit's own.
"""

from __future__ import annotations

from labkit.errors import CircuitBreakerOpenError
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
from labkit.middleware.circuit_breaker import BreakerEvent, CircuitBreakerMiddleware
from labkit.middleware.fallback import FallbackMiddleware, Unavailable
from labkit.middleware.retry import RetryMiddleware, RetryReport
from labkit.middleware.stack import Stack, register_middleware
from labkit.middleware.timeout import TimeoutMiddleware
from labkit.policies import CircuitBreakerState

__all__ = [
    "BreakerEvent",
    "CallNext",
    "CallNextStream",
    "CircuitBreakerMiddleware",
    "CircuitBreakerOpenError",
    "CircuitBreakerState",
    "FallbackMiddleware",
    "FunctionMiddleware",
    "FunctionMiddlewareChain",
    "FunctionMiddlewareContext",
    "InvocationAction",
    "InvocationContext",
    "RetryMiddleware",
    "RetryReport",
    "Stack",
    "TimeoutMiddleware",
    "Unavailable",
    "register_middleware",
    "validate_middleware",
]
