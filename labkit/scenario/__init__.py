"""Runs of the real stack in virtual time: recorded traces replayed, and a breaker stepped by hand."""

from __future__ import annotations

from labkit.scenario.replay import Difference, Report, load_traces, replay_file, replay_trace
from labkit.scenario.session import BreakerSession, Flight, Step

__all__ = [
    "BreakerSession",
    "Difference",
    "Flight",
    "Report",
    "Step",
    "load_traces",
    "replay_file",
    "replay_trace",
]
