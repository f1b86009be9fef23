"""Which row of a machine's table a step took: what the stepper's diagram lights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from labkit.plots import find_row
from labkit.policies import Transition
from labkit.policies.circuit_breaker import TRANSITIONS
from labkit.policies.guarded_circuit_breaker import TRANSITIONS as GUARDED
from labkit.policies.window_circuit_breaker import TRANSITIONS as WINDOW

if TYPE_CHECKING:
    from labkit.session.steps import Step

__all__ = ["TABLES", "row_of"]

#: A breaker's table, by its `_type`.
TABLES: Mapping[str, Sequence[Transition]] = {
    "circuit_breaker": TRANSITIONS,
    "guarded_circuit_breaker": GUARDED,
    "window_circuit_breaker": WINDOW,
}
_TRIGGERS = {"succeeded": "success", "failed": "failure", "cancelled": "cancelled"}


def row_of(step: Step, before: Step | None, kind: str = "circuit_breaker", by_rate: bool = False) -> Transition | None:
    """Return the row of the machine's table that a step took, or None where none was (time alone takes none).

    Args:
        step: the step.
        before: the step before it, or None where it is the first.
        kind: the `_type` of the breaker.
        by_rate: whether a window breaker counts a rate.
    """
    table = TABLES[kind]
    source = before.state if before is not None else "CLOSED"
    if step.op == "call":
        return find_row(table, source, "call", step.state, effect="admitted" if step.admitted else "rejected")
    ended = next((event for event in step.events if event.kind in _TRIGGERS), None)
    if ended is None:
        if before is not None and source == step.state == "CLOSED" and step.failures < before.failures:
            return find_row(table, "CLOSED", "time", "CLOSED", guard="outcomes" if by_rate else "the interval")
        return None
    trigger = _TRIGGERS[ended.kind]
    if step.late and kind != "circuit_breaker":
        return find_row(table, source, "late outcome", step.state)
    if kind == "window_circuit_breaker":
        if trigger == "cancelled":
            return find_row(table, source, trigger, step.state)
        if ended.probe:
            return find_row(table, source, f"probe {trigger}", step.state)
        reached = "calls + 1 >= " if step.state == "OPEN" else "calls + 1 < "
        alone = "failures per interval" if trigger == "success" else "failures + 1"
        return find_row(table, source, trigger, step.state, guard=reached if by_rate else alone)
    if trigger == "cancelled" and kind == "guarded_circuit_breaker":
        return find_row(table, source, "probe cancelled" if ended.probe else trigger, step.state)
    if trigger == "cancelled":
        if source != "HALF_OPEN":
            return find_row(table, source, trigger, step.state)
        probing = "a" if before is not None and before.probing else "no"
        guard = "the probe" if ended.probe else f"not the probe, {probing} probe"
        return find_row(table, source, trigger, step.state, guard=guard)
    if not ended.probe:
        return find_row(table, source, trigger, step.state)
    effect = "successes" if trigger == "success" and step.successes else "counts" if trigger == "success" else ""
    return find_row(table, source, f"probe {trigger}", step.state, effect=effect)
