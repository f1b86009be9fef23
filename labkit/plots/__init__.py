"""Pictures of machines, stacks and runs: one geometry, one style, written as SVG (text) or PNG (pillow).

Beside them figures for analysis, drawn by matplotlib into an Axes that one passes (`labkit.plots.figures`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from labkit.plots.calls.call_timeline import call_timeline
from labkit.plots.calls.timeline import Period, Span, timeline
from labkit.plots.draw.picture import Picture, beside
from labkit.plots.machines.onion import Layer, layers_of, onion
from labkit.plots.machines.state_diagram import find_row, state_cards, state_diagram
from labkit.plots.runs.compare import comparison
from labkit.plots.runs.trace import trace_timeline
from labkit.plots.sweeps.heat_map import heat_map, sweep_line

if TYPE_CHECKING:
    from labkit.plots.figures import attempts_per_second, house_style, latency_ecdf, sweep_lines, sweep_map

__all__ = [
    "Layer",
    "Period",
    "Picture",
    "Span",
    "attempts_per_second",
    "beside",
    "call_timeline",
    "comparison",
    "find_row",
    "heat_map",
    "house_style",
    "latency_ecdf",
    "layers_of",
    "onion",
    "state_cards",
    "state_diagram",
    "sweep_line",
    "sweep_lines",
    "sweep_map",
    "timeline",
    "trace_timeline",
]

_FIGURES = ("attempts_per_second", "house_style", "latency_ecdf", "sweep_lines", "sweep_map")


def __getattr__(name: str) -> Any:
    """The figures, of which the first brings matplotlib."""
    if name not in _FIGURES:
        raise AttributeError(f"module 'labkit.plots' has no attribute {name!r}")
    from labkit.plots import figures

    return getattr(figures, name)
