"""Whose failures a breaker counts together: the states it keeps, and what each function and replica got for it."""

from __future__ import annotations

from typing import NamedTuple

from labkit.config import BREAKERS
from labkit.scenario.run.trace import CALL_OUTCOMES, STATES, Trace
from labkit.scenario.spec.model import Scenario

__all__ = ["Bill", "Scope", "bills", "closed_too_early", "scopes_of"]


class Scope(NamedTuple):
    """One state that is kept, on each replica.

    Attributes:
        breaker: the middleware that keeps it.
        target: the `context.name` under which it does.
        functions: those whose calls it counts together, in order.
    """

    breaker: str
    target: str
    functions: tuple[str, ...]


class Bill(NamedTuple):
    """What became of a function's calls on one replica.

    Attributes:
        function, replica: whose.
        offered: calls that arrived.
        succeeded, failed, rejected: how they ended; time-outs count as failed.
    """

    function: str
    replica: int
    offered: int
    succeeded: int
    failed: int
    rejected: int


def scopes_of(scenario: Scenario) -> list[Scope]:
    """The states that a scenario's breakers keep, in the order of their functions."""
    found: dict[tuple[str, str], list[str]] = {}
    for name in scenario.stack.functions:
        target = scenario.stack.target_of(name)
        for listed, layer in scenario.stack.layers_of(name).items():
            if layer.type_ in BREAKERS:
                found.setdefault((listed, target), []).append(name)
    return [Scope(breaker, target, tuple(functions)) for (breaker, target), functions in found.items()]


def bills(trace: Trace) -> list[Bill]:
    """What became of the calls, by function and then by replica."""
    succeeded, unavailable, rejected, timeout, failed, _ = range(len(CALL_OUTCOMES))
    counts: dict[tuple[int, int], list[int]] = {}
    for function, replica, outcome in zip(trace.calls.function, trace.calls.replica, trace.calls.outcome, strict=True):
        one = counts.setdefault((function, replica), [0, 0, 0, 0])
        one[0] += 1
        one[1] += outcome == succeeded
        one[2] += outcome in (failed, timeout)
        one[3] += outcome in (rejected, unavailable)
    return [
        Bill(trace.functions[function], replica, *counts[function, replica]) for function, replica in sorted(counts)
    ]


def closed_too_early(trace: Trace) -> int:
    """How often a breaker closed while a fault was in force, as when a probe went to another function than failed."""
    closed = STATES.index("CLOSED")
    faults = [one for one in trace.faults if not one.is_capacity]
    return sum(
        any(one.start <= at < one.end for one in faults)
        for at, *_, state in trace.transitions.rows()
        if state == closed
    )
