"""Pictures of machines, stacks and runs: one geometry, one style, written as SVG (text) or PNG (matplotlib)."""

from __future__ import annotations

from labkit.plots.calls import call_timeline
from labkit.plots.drawing import Picture, beside
from labkit.plots.onion import Layer, layers_of, onion
from labkit.plots.state_diagram import find_row, state_cards, state_diagram
from labkit.plots.timeline import Period, Span, timeline

__all__ = [
    "Layer",
    "Period",
    "Picture",
    "Span",
    "beside",
    "call_timeline",
    "find_row",
    "layers_of",
    "onion",
    "state_cards",
    "state_diagram",
    "timeline",
]
