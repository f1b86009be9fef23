"""Explorers for a notebook: controls, the real middleware underneath, a picture and a sentence.

The only package that imports ipywidgets and anywidget, and only when an explorer is first asked for. It holds no rules:
it calls, and shows what came of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from labkit.widgets.explorers.adapter import adapter_explorer
    from labkit.widgets.explorers.budget import budget_explorer
    from labkit.widgets.explorers.cancel import cancel_explorer
    from labkit.widgets.explorers.fallback import fallback_explorer
    from labkit.widgets.explorers.order import order_explorer
    from labkit.widgets.explorers.outage import outage_explorer
    from labkit.widgets.explorers.recovery import recovery_explorer
    from labkit.widgets.explorers.scope import scope_explorer
    from labkit.widgets.explorers.stream import stream_explorer
    from labkit.widgets.explorers.tradeoff import tradeoff_explorer
    from labkit.widgets.explorers.window import window_explorer
    from labkit.widgets.flow.flow import FlowView, flow_view
    from labkit.widgets.live.live import LiveView, live_view
    from labkit.widgets.stepper.stepper import StateStepper, state_stepper

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
    "FlowView": "flow.flow",
    "LiveView": "live.live",
    "StateStepper": "stepper.stepper",
    "adapter_explorer": "explorers.adapter",
    "budget_explorer": "explorers.budget",
    "cancel_explorer": "explorers.cancel",
    "fallback_explorer": "explorers.fallback",
    "flow_view": "flow.flow",
    "live_view": "live.live",
    "order_explorer": "explorers.order",
    "outage_explorer": "explorers.outage",
    "recovery_explorer": "explorers.recovery",
    "scope_explorer": "explorers.scope",
    "state_stepper": "stepper.stepper",
    "stream_explorer": "explorers.stream",
    "tradeoff_explorer": "explorers.tradeoff",
    "window_explorer": "explorers.window",
}


if not TYPE_CHECKING:  # a type checker is to say that a name is unknown

    def __getattr__(name: str) -> Any:
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module 'labkit.widgets' has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module(f"labkit.widgets.{home}"), name)
