"""Explorers for a notebook: controls, the real middleware underneath, a picture and a sentence.

The only package that imports ipywidgets and anywidget, and only when an explorer is first asked for. It holds no rules:
it calls, and shows what came of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from labkit.widgets.adapter import adapter_explorer
    from labkit.widgets.budget import budget_explorer
    from labkit.widgets.cancel import cancel_explorer
    from labkit.widgets.fallback import fallback_explorer
    from labkit.widgets.flow import FlowView, flow_view
    from labkit.widgets.live import LiveView, live_view
    from labkit.widgets.order import order_explorer
    from labkit.widgets.outage import outage_explorer
    from labkit.widgets.recovery import recovery_explorer
    from labkit.widgets.scope import scope_explorer
    from labkit.widgets.stepper import StateStepper, state_stepper
    from labkit.widgets.stream import stream_explorer
    from labkit.widgets.tradeoff import tradeoff_explorer
    from labkit.widgets.window import window_explorer

__all__ = [
    "FlowView",
    "LiveView",
    "StateStepper",
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
]

_HOMES = {
    "FlowView": "flow",
    "LiveView": "live",
    "StateStepper": "stepper",
    "adapter_explorer": "adapter",
    "budget_explorer": "budget",
    "cancel_explorer": "cancel",
    "fallback_explorer": "fallback",
    "flow_view": "flow",
    "live_view": "live",
    "order_explorer": "order",
    "outage_explorer": "outage",
    "recovery_explorer": "recovery",
    "scope_explorer": "scope",
    "state_stepper": "stepper",
    "stream_explorer": "stream",
    "tradeoff_explorer": "tradeoff",
    "window_explorer": "window",
}


if not TYPE_CHECKING:  # a type checker is to say that a name is unknown

    def __getattr__(name: str) -> Any:
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module 'labkit.widgets' has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module(f"labkit.widgets.{home}"), name)
