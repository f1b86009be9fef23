"""`state_stepper`: a breaker, pressed step by step, alone or beside others on the same history."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from labkit.widgets.pages import compose
from labkit.widgets.stage import Stage
from labkit.widgets.stepper.model import StepperModel

if TYPE_CHECKING:
    from labkit.session.steps import BreakerConfig

__all__ = ["StateStepper", "state_stepper"]


class StateStepper(Stage):
    """The stepper on a page; make it with `state_stepper`."""

    _esm, _css = compose("stage", "stepper/compare", "stepper/stepper", build="stepper")


def state_stepper(
    config: BreakerConfig | Mapping[str, Any] | None = None,
    *,
    predict: bool = True,
    compare: bool = False,
    interval: float = 60.0,
) -> StateStepper:
    """Step a circuit breaker by hand: let calls arrive, end them, let time pass, and see what the breaker makes of it.

    Underneath is the real middleware on a clock that moves only when told.

    Args:
        config: the breaker's fields, for example `{"failure_threshold": 2, "cooldown_period": 30.0}`; defaults where
            None. A `_type` says which breaker, the toolkit's where there is none.
        predict: ask what will happen before it is shown. The learner can switch it.
        compare: show the toolkit's breaker, the guarded one and the window one side by side, with the same thresholds
            and times, on the same history. The learner can switch it.
        interval: seconds in which the window breaker counts its failures, beside the others.

    Raises:
        ConfigError: no breaker has that `_type`; or `compare`, and the fields are those of the window breaker.
    """
    return StateStepper(StepperModel(config, predict=predict, compare=compare, interval=interval))
