"""Runs of the real stack in virtual time.

Whole scenarios into traces and numbers, recorded traces replayed, and a breaker stepped by hand.
"""

from __future__ import annotations

from labkit.scenario.calls import Call, Calls, call_in_turn
from labkit.scenario.follow import Followed, FollowedStep, Measured, follow
from labkit.scenario.metrics import METRICS, metrics
from labkit.scenario.replay import Difference, Report, load_traces, replay_file, replay_trace
from labkit.scenario.run import run_scenario
from labkit.scenario.scenario import Load, Scenario, ServiceSpec, Variant, load_scenario, scenario_names
from labkit.scenario.session import BreakerSession, Flight, Step
from labkit.scenario.story import story
from labkit.scenario.sweep import Cell, SweepTable, sweep
from labkit.scenario.trace import Trace

__all__ = [
    "METRICS",
    "BreakerSession",
    "Call",
    "Calls",
    "Cell",
    "Difference",
    "Flight",
    "Followed",
    "FollowedStep",
    "Load",
    "Measured",
    "Report",
    "Scenario",
    "ServiceSpec",
    "Step",
    "SweepTable",
    "Trace",
    "Variant",
    "call_in_turn",
    "follow",
    "load_scenario",
    "load_traces",
    "metrics",
    "replay_file",
    "replay_trace",
    "run_scenario",
    "scenario_names",
    "story",
    "sweep",
]
