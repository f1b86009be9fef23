"""Workers over time, and what breakers make of a repair, are read off the trace."""

from __future__ import annotations

from typing import Any

import pytest

from labkit.scenario import load_scenario, run_scenario
from labkit.scenario.read.recovery import repair_of, turns_after, workers_over_time

STEPS = [
    {"from": 5, "to": 12, "fault": "error"},
    {"from": 12, "to": 16, "fault": "healthy", "capacity": [[12, 1], [14, 3]]},
]


def test_workers_come_back_as_the_plan_says(small: Any) -> None:
    """Each step of the plan is a level, the usual number stands before and after; without a limit there is none."""
    limited = small(
        services__parts_availability__workers=4,
        services__parts_availability__queue=50,
        services__parts_availability__faults=STEPS,
    )
    levels = [(0.0, 4), (12.0, 1), (14.0, 3), (16.0, 4)]
    assert workers_over_time(run_scenario(limited), "parts_availability") == levels
    assert workers_over_time(run_scenario(small()), "parts_availability") == []


def test_the_repair_is_the_end_of_the_last_fault(small: Any) -> None:
    """Capacity that is still missing is no fault; a fault to the end has no repair."""
    assert repair_of(run_scenario(small())) == 12.0
    for_ever = small(services__parts_availability__faults=[{"from": 5, "to": 20, "fault": "error"}])
    assert repair_of(run_scenario(for_ever)) is None
    assert turns_after(run_scenario(for_ever), "parts_availability", 0.05) == []


def test_turns_are_the_closings_and_the_retrips() -> None:
    """The library's retrip closes and opens by turns after its repair, with the workers that were back each time."""
    trace = run_scenario(load_scenario("retrip"))
    turns = turns_after(trace, "parts_availability", 0.25)
    assert [turn.state for turn in turns] == ["CLOSED", "OPEN"] * (len(turns) // 2) + ["CLOSED"] * (len(turns) % 2)
    assert all(turn.at >= 50.0 for turn in turns)
    assert {turn.workers for turn in turns if turn.at < 80.0} == {10}
    assert turns[0].can_serve == pytest.approx(40.0)
    assert turns[0].arriving == 80
