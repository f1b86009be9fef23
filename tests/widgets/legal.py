"""Random legal settings, drawn from what an explorer's own controls allow."""

from __future__ import annotations

from random import Random
from typing import Any

from labkit.widgets.explorer.controls import Choice, Control, Order, Range, Span, Switch
from labkit.widgets.explorer.model import ExplorerModel

__all__ = ["legal_settings", "legal_value"]


def legal_value(control: Control, draw: Random) -> Any:
    """A value that the control allows: every third time one at an edge of its range."""
    if isinstance(control, Switch):
        return draw.random() < 0.5
    if isinstance(control, Choice):
        return draw.choice(control.options)[0]
    if isinstance(control, Order):
        names = [name for name, _ in control.items]
        return tuple(draw.sample(names, draw.randint(0, len(names))))
    if isinstance(control, Span):
        begin, end = sorted(draw.sample([_number(control, draw) for _ in range(3)], 2))
        return (begin, end) if begin < end else (control.least, control.most)
    assert isinstance(control, Range)
    if control.none and draw.random() < 0.25:
        return None
    value = _number(control, draw)
    return round(value) if control.whole else value


def _number(control: Range | Span, draw: Random) -> float:
    """An edge of the range, a step of the slider, or any number that can be typed."""
    kind = draw.randrange(3)
    if kind == 0:
        return draw.choice((control.least, control.most))
    if kind == 1:
        steps = round((control.most - control.least) / control.step)
        return min(control.most, round(control.least + draw.randint(0, steps) * control.step, 9))
    return max(control.least, round(draw.uniform(control.least, control.most), draw.randint(1, 6)))


def legal_settings(model: type[ExplorerModel], draw: Random) -> dict[str, Any]:
    """A value for some of an explorer's controls, or for all."""
    share = draw.choice((0.3, 0.7, 1.0))
    return {control.key: legal_value(control, draw) for control in model.controls if draw.random() < share}
