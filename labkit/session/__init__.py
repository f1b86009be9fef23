"""A breaker stepped by hand, alone or beside others, and a handful of calls in turn."""

from __future__ import annotations

from labkit.session.calls import Call, Calls, call_in_turn
from labkit.session.session import BreakerSession
from labkit.session.steps import Flight, Step

__all__ = ["BreakerSession", "Call", "Calls", "Flight", "Step", "call_in_turn"]
