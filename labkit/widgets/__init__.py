"""Explorers for a notebook: controls, a real breaker underneath, a picture and a sentence.

The only package that imports ipywidgets and anywidget, and only when an explorer is first asked for. It holds no rules:
it calls, and shows what came of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from labkit.widgets.stepper import StateStepper, state_stepper

__all__ = ["StateStepper", "state_stepper"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from labkit.widgets import stepper

        return getattr(stepper, name)
    raise AttributeError(f"module 'labkit.widgets' has no attribute {name!r}")
