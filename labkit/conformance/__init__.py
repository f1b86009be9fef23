"""Recorded behaviour of the real toolkit, replayed through labkit."""

from __future__ import annotations

from labkit.conformance.replay import Difference, Report, load_traces, replay_file, replay_trace

__all__ = ["Difference", "Report", "load_traces", "replay_file", "replay_trace"]
