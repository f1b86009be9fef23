"""`state_stepper`: a breaker, pressed step by step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from labkit.widgets.stage import Stage, page
from labkit.widgets.stepper_model import StepperModel

if TYPE_CHECKING:
    from labkit.config import CircuitBreakerMiddlewareConfig

__all__ = ["StateStepper", "state_stepper"]


class StateStepper(Stage):
    """The stepper on a page; make it with `state_stepper`."""

    _esm, _css = page("stepper")


def state_stepper(
    config: CircuitBreakerMiddlewareConfig | Mapping[str, Any] | None = None, *, predict: bool = True
) -> StateStepper:
    """Step a circuit breaker by hand: let calls arrive, end them, let time pass, and see what the breaker makes of it.

    Underneath is the real middleware on a clock that moves only when told.

    Args:
        config: the breaker's fields, for example `{"failure_threshold": 2, "cooldown_period": 30.0}`; defaults where
            None.
        predict: ask what will happen before it is shown. The learner can switch it.
    """
    return StateStepper(StepperModel(config, predict=predict))
