"""labkit: the lab that teaches circuit breakers by running them.

The public names are handed on when they are first asked for, so that `import labkit` costs next to nothing and brings
neither matplotlib nor ipywidgets nor pydantic.
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing's own costs an import
if TYPE_CHECKING:  # the same names again, for type checkers: a test holds the two lists equal
    from typing import Any

    from labkit.config import BulkheadMiddlewareConfig as BulkheadMiddlewareConfig
    from labkit.config import CircuitBreakerMiddlewareConfig as CircuitBreakerMiddlewareConfig
    from labkit.config import FallbackMiddlewareConfig as FallbackMiddlewareConfig
    from labkit.config import GuardedCircuitBreakerMiddlewareConfig as GuardedCircuitBreakerMiddlewareConfig
    from labkit.config import RetryBudgetMiddlewareConfig as RetryBudgetMiddlewareConfig
    from labkit.config import RetryMiddlewareConfig as RetryMiddlewareConfig
    from labkit.config import StackConfig as StackConfig
    from labkit.config import TimeoutMiddlewareConfig as TimeoutMiddlewareConfig
    from labkit.config import WindowCircuitBreakerMiddlewareConfig as WindowCircuitBreakerMiddlewareConfig
    from labkit.config import load_stack_config as load_stack_config
    from labkit.config import register_middleware_config as register_middleware_config
    from labkit.errors import BulkheadFullError as BulkheadFullError
    from labkit.errors import BusinessRejection as BusinessRejection
    from labkit.errors import CircuitBreakerOpenError as CircuitBreakerOpenError
    from labkit.errors import ClockError as ClockError
    from labkit.errors import ConfigError as ConfigError
    from labkit.errors import CourseError as CourseError
    from labkit.errors import DeadlockError as DeadlockError
    from labkit.errors import DependencyError as DependencyError
    from labkit.errors import ForeignAwaitableError as ForeignAwaitableError
    from labkit.errors import LabkitError as LabkitError
    from labkit.errors import LeaseError as LeaseError
    from labkit.errors import MiddlewareError as MiddlewareError
    from labkit.errors import OverloadedError as OverloadedError
    from labkit.errors import RateLimitedError as RateLimitedError
    from labkit.errors import Refusal as Refusal
    from labkit.errors import RunTooLargeError as RunTooLargeError
    from labkit.errors import ServiceError as ServiceError
    from labkit.errors import TraceFormatError as TraceFormatError
    from labkit.errors import VirtualLoopError as VirtualLoopError
    from labkit.middleware import BreakerEvent as BreakerEvent
    from labkit.middleware import BulkheadMiddleware as BulkheadMiddleware
    from labkit.middleware import CircuitBreakerMiddleware as CircuitBreakerMiddleware
    from labkit.middleware import FallbackMiddleware as FallbackMiddleware
    from labkit.middleware import FunctionMiddleware as FunctionMiddleware
    from labkit.middleware import FunctionMiddlewareChain as FunctionMiddlewareChain
    from labkit.middleware import FunctionMiddlewareContext as FunctionMiddlewareContext
    from labkit.middleware import GuardedCircuitBreakerMiddleware as GuardedCircuitBreakerMiddleware
    from labkit.middleware import RetryBudgetMiddleware as RetryBudgetMiddleware
    from labkit.middleware import RetryMiddleware as RetryMiddleware
    from labkit.middleware import Stack as Stack
    from labkit.middleware import TimeoutMiddleware as TimeoutMiddleware
    from labkit.middleware import Unavailable as Unavailable
    from labkit.middleware import WindowCircuitBreakerMiddleware as WindowCircuitBreakerMiddleware
    from labkit.middleware import register_middleware as register_middleware
    from labkit.plots import call_timeline as call_timeline
    from labkit.plots import comparison as comparison
    from labkit.plots import heat_map as heat_map
    from labkit.plots import layers_of as layers_of
    from labkit.plots import onion as onion
    from labkit.plots import state_diagram as state_diagram
    from labkit.plots import sweep_line as sweep_line
    from labkit.plots import trace_timeline as trace_timeline
    from labkit.policies import CircuitBreakerState as CircuitBreakerState
    from labkit.scenario import METRICS as METRICS
    from labkit.scenario import Scenario as Scenario
    from labkit.scenario import Trace as Trace
    from labkit.scenario import load_scenario as load_scenario
    from labkit.scenario import metrics as metrics
    from labkit.scenario import run_scenario as run_scenario
    from labkit.scenario import scenario_names as scenario_names
    from labkit.scenario import story as story
    from labkit.scenario import sweep as sweep
    from labkit.services import Fault as Fault
    from labkit.services import FaultPlan as FaultPlan
    from labkit.services import HttpService as HttpService
    from labkit.services import MaintenanceDocuments as MaintenanceDocuments
    from labkit.services import PartsAdapter as PartsAdapter
    from labkit.services import PartsAvailability as PartsAvailability
    from labkit.services import register_adapter as register_adapter
    from labkit.services import register_service as register_service
    from labkit.session import BreakerSession as BreakerSession
    from labkit.session import call_in_turn as call_in_turn
    from labkit.timing import LoopClock as LoopClock
    from labkit.timing import VirtualClock as VirtualClock
    from labkit.timing import VirtualLoop as VirtualLoop
    from labkit.timing import run_virtual as run_virtual
    from labkit.version import __version__ as __version__
    from labkit.widgets import adapter_explorer as adapter_explorer
    from labkit.widgets import budget_explorer as budget_explorer
    from labkit.widgets import cancel_explorer as cancel_explorer
    from labkit.widgets import fallback_explorer as fallback_explorer
    from labkit.widgets import flow_view as flow_view
    from labkit.widgets import live_view as live_view
    from labkit.widgets import order_explorer as order_explorer
    from labkit.widgets import outage_explorer as outage_explorer
    from labkit.widgets import recovery_explorer as recovery_explorer
    from labkit.widgets import scope_explorer as scope_explorer
    from labkit.widgets import state_stepper as state_stepper
    from labkit.widgets import stream_explorer as stream_explorer
    from labkit.widgets import tradeoff_explorer as tradeoff_explorer
    from labkit.widgets import window_explorer as window_explorer


_HOMES = {
    "labkit.version": ("__version__",),
    "labkit.errors": (
        "BulkheadFullError",
        "BusinessRejection",
        "CircuitBreakerOpenError",
        "ClockError",
        "ConfigError",
        "CourseError",
        "DeadlockError",
        "DependencyError",
        "ForeignAwaitableError",
        "LabkitError",
        "LeaseError",
        "MiddlewareError",
        "OverloadedError",
        "RateLimitedError",
        "Refusal",
        "RunTooLargeError",
        "ServiceError",
        "TraceFormatError",
        "VirtualLoopError",
    ),
    "labkit.timing": (
        "LoopClock",
        "VirtualClock",
        "VirtualLoop",
        "run_virtual",
    ),
    "labkit.config": (
        "BulkheadMiddlewareConfig",
        "CircuitBreakerMiddlewareConfig",
        "FallbackMiddlewareConfig",
        "GuardedCircuitBreakerMiddlewareConfig",
        "RetryBudgetMiddlewareConfig",
        "RetryMiddlewareConfig",
        "StackConfig",
        "TimeoutMiddlewareConfig",
        "WindowCircuitBreakerMiddlewareConfig",
        "load_stack_config",
        "register_middleware_config",
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
        "register_middleware",
    ),
    "labkit.services": (
        "Fault",
        "FaultPlan",
        "HttpService",
        "MaintenanceDocuments",
        "PartsAdapter",
        "PartsAvailability",
        "register_adapter",
        "register_service",
    ),
    "labkit.session": (
        "BreakerSession",
        "call_in_turn",
    ),
    "labkit.scenario": (
        "METRICS",
        "Scenario",
        "Trace",
        "load_scenario",
        "metrics",
        "run_scenario",
        "scenario_names",
        "story",
        "sweep",
    ),
    "labkit.plots": (
        "call_timeline",
        "comparison",
        "heat_map",
        "layers_of",
        "onion",
        "state_diagram",
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

# What needs an extra's packages is not for `from labkit import *`, which has to work without them.
_EXTRA_OF = {name: "course" for home in ("labkit.plots", "labkit.widgets") for name in _HOMES[home]}
_EXTRA_OF["HttpService"] = "http"
__all__ = [name for name in _HOME_OF if name not in _EXTRA_OF]

if not TYPE_CHECKING:  # a type checker is to say that a name is unknown

    def __getattr__(name: str) -> Any:
        home = _HOME_OF.get(name)
        if home is None:
            raise AttributeError(f"module 'labkit' has no attribute {name!r}")
        from importlib import import_module

        try:
            value = getattr(import_module(home), name)
        except ModuleNotFoundError as error:
            if name not in _EXTRA_OF or (error.name or "").startswith("labkit"):
                raise
            raise ImportError(
                f"labkit.{name} needs {error.name}, "
                f"which pip install 'labkit-circuit-breakers[{_EXTRA_OF[name]}]' brings"
            ) from error
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*__all__, *_HOME_OF})
