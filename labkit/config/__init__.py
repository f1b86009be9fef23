"""A stack's configuration: its models, its loader, and the sentences about what is wrong with it.

The names are handed on when they are first asked for; `Finding` and `nearest` bring neither pydantic nor a YAML parser.
"""

from __future__ import annotations

# `nearest` is a function and also the name of its module: only an eager import keeps the function in front.
from labkit.config.nearest import nearest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from labkit.config.breakers import BREAKERS as BREAKERS
    from labkit.config.checks import check_alternatives as check_alternatives
    from labkit.config.checks import check_budgets as check_budgets
    from labkit.config.checks import check_readers as check_readers
    from labkit.config.checks import check_stack as check_stack
    from labkit.config.findings import Finding as Finding
    from labkit.config.models.leases import LeaseConfig as LeaseConfig
    from labkit.config.models.leases import MemoryLeaseConfig as MemoryLeaseConfig
    from labkit.config.models.leases import RedisLeaseConfig as RedisLeaseConfig
    from labkit.config.models.leases import SqliteLeaseConfig as SqliteLeaseConfig
    from labkit.config.models.leases import lease_types as lease_types
    from labkit.config.models.middleware import AllowedComponentFunctions as AllowedComponentFunctions
    from labkit.config.models.middleware import BulkheadMiddlewareConfig as BulkheadMiddlewareConfig
    from labkit.config.models.middleware import CircuitBreakerMiddlewareConfig as CircuitBreakerMiddlewareConfig
    from labkit.config.models.middleware import FallbackMiddlewareConfig as FallbackMiddlewareConfig
    from labkit.config.models.middleware import (
        GuardedCircuitBreakerMiddlewareConfig as GuardedCircuitBreakerMiddlewareConfig,
    )
    from labkit.config.models.middleware import MiddlewareConfig as MiddlewareConfig
    from labkit.config.models.middleware import RegisteredMiddleware as RegisteredMiddleware
    from labkit.config.models.middleware import RetryBudgetMiddlewareConfig as RetryBudgetMiddlewareConfig
    from labkit.config.models.middleware import RetryMiddlewareConfig as RetryMiddlewareConfig
    from labkit.config.models.middleware import TimeoutMiddlewareConfig as TimeoutMiddlewareConfig
    from labkit.config.models.middleware import (
        WindowCircuitBreakerMiddlewareConfig as WindowCircuitBreakerMiddlewareConfig,
    )
    from labkit.config.models.middleware import middleware_types as middleware_types
    from labkit.config.models.middleware import register_middleware_config as register_middleware_config
    from labkit.config.models.stack import FunctionConfig as FunctionConfig
    from labkit.config.models.stack import StackConfig as StackConfig
    from labkit.config.yaml.loader import load_stack_config as load_stack_config

_HOME_OF = {
    "BREAKERS": "breakers",
    "AllowedComponentFunctions": "models.middleware",
    "BulkheadMiddlewareConfig": "models.middleware",
    "CircuitBreakerMiddlewareConfig": "models.middleware",
    "FallbackMiddlewareConfig": "models.middleware",
    "Finding": "findings",
    "FunctionConfig": "models.stack",
    "GuardedCircuitBreakerMiddlewareConfig": "models.middleware",
    "LeaseConfig": "models.leases",
    "MemoryLeaseConfig": "models.leases",
    "MiddlewareConfig": "models.middleware",
    "RedisLeaseConfig": "models.leases",
    "RegisteredMiddleware": "models.middleware",
    "RetryBudgetMiddlewareConfig": "models.middleware",
    "RetryMiddlewareConfig": "models.middleware",
    "SqliteLeaseConfig": "models.leases",
    "StackConfig": "models.stack",
    "TimeoutMiddlewareConfig": "models.middleware",
    "WindowCircuitBreakerMiddlewareConfig": "models.middleware",
    "check_alternatives": "checks",
    "check_budgets": "checks",
    "check_readers": "checks",
    "check_stack": "checks",
    "lease_types": "models.leases",
    "load_stack_config": "yaml.loader",
    "middleware_types": "models.middleware",
    "register_middleware_config": "models.middleware",
}

__all__ = [
    "BREAKERS",
    "AllowedComponentFunctions",
    "BulkheadMiddlewareConfig",
    "CircuitBreakerMiddlewareConfig",
    "FallbackMiddlewareConfig",
    "Finding",
    "FunctionConfig",
    "GuardedCircuitBreakerMiddlewareConfig",
    "LeaseConfig",
    "MemoryLeaseConfig",
    "MiddlewareConfig",
    "RedisLeaseConfig",
    "RegisteredMiddleware",
    "RetryBudgetMiddlewareConfig",
    "RetryMiddlewareConfig",
    "SqliteLeaseConfig",
    "StackConfig",
    "TimeoutMiddlewareConfig",
    "WindowCircuitBreakerMiddlewareConfig",
    "check_alternatives",
    "check_budgets",
    "check_readers",
    "check_stack",
    "lease_types",
    "load_stack_config",
    "middleware_types",
    "nearest",
    "register_middleware_config",
]


if not TYPE_CHECKING:  # a type checker is to say that a name is unknown

    def __getattr__(name: str) -> Any:
        home = _HOME_OF.get(name)
        if home is None:
            raise AttributeError(f"module 'labkit.config' has no attribute {name!r}")
        from importlib import import_module

        value = getattr(import_module(f"labkit.config.{home}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
