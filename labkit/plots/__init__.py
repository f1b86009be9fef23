"""Pictures of machines, stacks and runs: one geometry, one style, written as SVG (text) or PNG (pillow)."""

from __future__ import annotations

from labkit.plots.calls import call_timeline
from labkit.plots.compare import comparison
from labkit.plots.drawing import Picture, beside
from labkit.plots.heat_map import heat_map, sweep_line
from labkit.plots.onion import Layer, layers_of, onion
from labkit.plots.state_diagram import find_row, state_cards, state_diagram
from labkit.plots.timeline import Period, Span, timeline
from labkit.plots.trace import trace_timeline

__all__ = [
    "Layer",
    "Period",
    "Picture",
    "Span",
    "beside",
    "call_timeline",
    "comparison",
    "find_row",
    "heat_map",
    "layers_of",
    "onion",
    "state_cards",
    "state_diagram",
    "sweep_line",
    "timeline",
    "trace_timeline",
]
