"""Which middleware are breakers. (Apart from the models, so that whoever only asks this need not load pydantic.)"""

from __future__ import annotations

__all__ = ["BREAKERS"]

BREAKERS = ("circuit_breaker", "window_circuit_breaker", "guarded_circuit_breaker")
"""The `_type`s that keep a state."""
