"""Runs of the real stack in virtual time: recorded traces replayed, and a breaker stepped by hand."""

from __future__ import annotations

from labkit.scenario.calls import Call, Calls, call_in_turn
from labkit.scenario.replay import Difference, Report, load_traces, replay_file, replay_trace
from labkit.scenario.session import BreakerSession, Flight, Step

__all__ = [
    "BreakerSession",
    "Call",
    "Calls",
    "Difference",
    "Flight",
    "Report",
    "Step",
    "call_in_turn",
    "load_traces",
    "replay_file",
    "replay_trace",
]
