"""labkit: the lab that teaches circuit breakers by running them.

The public names are handed on when they are first asked for, so that `import labkit` costs next to nothing and brings
neither matplotlib nor ipywidgets nor pydantic.
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing's own costs an import
if TYPE_CHECKING:
    from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "labkit.errors": (
        "BulkheadFullError",
        "BusinessRejection",
        "CircuitBreakerOpenError",
        "ConfigError",
        "DeadlockError",
        "DependencyError",
        "ForeignAwaitableError",
        "LabkitError",
        "Refusal",
    ),
    "labkit.timing": ("LoopClock", "VirtualClock", "VirtualLoop", "run_virtual"),
    "labkit.config": (
        "BulkheadMiddlewareConfig",
        "CircuitBreakerMiddlewareConfig",
        "FallbackMiddlewareConfig",
        "GuardedCircuitBreakerMiddlewareConfig",
        "RetryBudgetMiddlewareConfig",
        "RetryMiddlewareConfig",
        "TimeoutMiddlewareConfig",
        "WindowCircuitBreakerMiddlewareConfig",
        "load_stack_config",
    ),
    "labkit.policies": ("CircuitBreakerState",),
    "labkit.middleware": (
        "BreakerEvent",
        "BulkheadMiddleware",
        "CircuitBreakerMiddleware",
        "FallbackMiddleware",
        "FunctionMiddleware",
        "FunctionMiddlewareChain",
        "FunctionMiddlewareContext",
        "GuardedCircuitBreakerMiddleware",
        "RetryBudgetMiddleware",
        "RetryMiddleware",
        "Stack",
        "TimeoutMiddleware",
        "Unavailable",
        "WindowCircuitBreakerMiddleware",
    ),
    "labkit.services": ("PartsAdapter", "PartsAvailability"),
    "labkit.scenario": (
        "BreakerSession",
        "call_in_turn",
        "load_scenario",
        "metrics",
        "run_scenario",
        "scenario_names",
        "sweep",
    ),
    "labkit.plots": (
        "call_timeline",
        "comparison",
        "heat_map",
        "layers_of",
        "onion",
        "sweep_line",
        "trace_timeline",
    ),
    "labkit.widgets": (
        "adapter_explorer",
        "budget_explorer",
        "cancel_explorer",
        "fallback_explorer",
        "flow_view",
        "live_view",
        "order_explorer",
        "outage_explorer",
        "recovery_explorer",
        "scope_explorer",
        "state_stepper",
        "stream_explorer",
        "tradeoff_explorer",
        "window_explorer",
    ),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

# What needs the course's packages is not for `from labkit import *`, which has to work without them.
_COURSE = ("labkit.plots", "labkit.widgets")
__all__ = ["__version__", *(name for name, home in _HOME_OF.items() if home not in _COURSE)]


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'labkit' has no attribute {name!r}")
    from importlib import import_module

    try:
        module = import_module(home)
    except ModuleNotFoundError as error:
        if home not in _COURSE or (error.name or "").startswith("labkit"):
            raise
        raise ImportError(
            f"labkit.{name} needs {error.name}, which pip install 'labkit-circuit-breakers[course]' brings"
        ) from error
    value = getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *_HOME_OF})
