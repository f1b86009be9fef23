"""Runs of the real stack in virtual time.

Whole scenarios into traces, and traces into numbers, stories and journeys.
"""

from __future__ import annotations

from labkit.scenario.read.metrics import METRICS, metrics
from labkit.scenario.read.story import story
from labkit.scenario.run.runner import run_scenario
from labkit.scenario.run.trace import Trace
from labkit.scenario.spec.library import load_scenario, scenario_names
from labkit.scenario.spec.model import Load, Scenario, ServiceSpec, Variant
from labkit.scenario.sweeps.sweep import Cell, SweepTable, sweep
from labkit.scenario.watch.layers import Followed, FollowedStep, Measured, follow

__all__ = [
    "METRICS",
    "Cell",
    "Followed",
    "FollowedStep",
    "Load",
    "Measured",
    "Scenario",
    "ServiceSpec",
    "SweepTable",
    "Trace",
    "Variant",
    "follow",
    "load_scenario",
    "metrics",
    "run_scenario",
    "scenario_names",
    "story",
    "sweep",
]
