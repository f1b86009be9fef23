"""What it costs to redraw the timeline of a run with changed data: to SVG, as under a slider, and to a PNG.

Each redraw is of another run than the one before: two minutes' outage of 24,000 requests, drawn in turn from runs of
different seeds. Beside it stand matplotlib's ways: a figure of the same panels made anew, and one that is kept, whose
lines take new data and are drawn onto a stored ground. What those draw is less: no words at the lines, no breakers but
as blocks, no bands.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from io import BytesIO
from itertools import cycle, pairwise
from typing import Any

from benchmarks.measure import Bound, Effort, Section, interleave
from benchmarks.peers import missing
from labkit.plots import trace_timeline
from labkit.plots.runs.binned import Binned, axis_of, binned
from labkit.scenario.run.trace import Trace
from tests.plots.synthetic import outage

NAME = "pictures"
REDRAW = "labkit: trace to PNG"
FINE = "labkit: trace to PNG, scale 2"
SVG = "labkit: trace to SVG"
FIGURE = "matplotlib: a figure anew"
MOVED = "matplotlib: artists moved"
LIMITS = {SVG: 20.0, REDRAW: 150.0}  # ms: what follows a hand, and what is drawn when a file is asked for
SCALE = 1.5  # pixels of the file for one of the picture, for all but one
CALLS = 24_000
PNG = b"\x89PNG\r\n\x1a\n"


@lru_cache(maxsize=4)
def runs(rate: float = 80.0, seconds: float = 300.0) -> tuple[Trace, ...]:
    """Four runs that differ in their seed, when the dependency fails and for how long."""
    downs = [((seconds * (0.2 + 0.02 * seed), seconds * 0.6),) for seed in range(4)]
    return tuple(
        outage(seed=seed, rate=rate, duration=seconds, down=down, workers=400) for seed, down in enumerate(downs)
    )


def redraws(traces: tuple[Trace, ...], draw: Callable[[Trace], bytes | str]) -> Callable[[], bytes | str]:
    """A case: the next run, drawn."""
    turn = cycle(traces)
    return lambda: draw(next(turn))


def figure(data: Binned) -> tuple[Any, list[Any]]:
    """A figure of the same panels, and its lines."""
    from matplotlib.figure import Figure

    made = Figure(figsize=(8.6, 6.53), dpi=100 * SCALE)
    panels = made.subplots(5, 1, sharex=True)
    for panel, name in zip(panels, ("callers", "breaker", "attempts", "in flight", "latency"), strict=True):
        panel.set_ylabel(name)
    panels[0].set_ylim(0, 400)
    panels[2].set_ylim(0, 400)
    panels[3].set_ylim(0, 500)
    panels[4].set_ylim(0, 10)
    lines = []
    for panel, line in series(data):
        found = panels[panel].step([at * data.axis.step for at in range(data.axis.bins)], line, where="post")
        lines += found
    for ribbon in data.ribbons:
        times = [at for at, _ in ribbon.states] + [data.axis.end]
        spans = [(one, other - one) for one, other in pairwise(times)]
        panels[1].broken_barh(spans, (ribbon.replica, 0.8))
    return made, lines


def series(data: Binned) -> list[tuple[int, Any]]:
    """(panel, values) of each line."""
    found: list[tuple[int, Any]] = [(0, data.offered), *((0, line) for line in data.ended.values())]
    found += [(2, line) for line in data.attempts.values()] + [(3, line) for line in data.in_flight.values()]
    return [*found, (4, data.median), (4, data.p95)]


def matplotlib_figure(trace: Trace) -> bytes:
    made, _ = figure(binned(trace, axis_of([trace])))
    out = BytesIO()
    made.savefig(out, format="png")
    return out.getvalue()


def matplotlib_moved(trace: Trace) -> Callable[[Trace], bytes]:
    """A figure that is kept: its lines take new data, and only they are drawn again."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from PIL import Image

    made, lines = figure(binned(trace, axis_of([trace])))
    canvas = FigureCanvasAgg(made)
    for line in lines:
        line.set_animated(True)
    canvas.draw()
    ground = canvas.copy_from_bbox(made.bbox)

    def move(other: Trace) -> bytes:
        canvas.restore_region(ground)
        for line, (_, values) in zip(lines, series(binned(other, axis_of([other]))), strict=False):
            line.set_ydata(values)
            line.axes.draw_artist(line)
        out = BytesIO()
        size = canvas.get_width_height(physical=True)
        Image.frombuffer("RGBA", size, canvas.buffer_rgba(), "raw", "RGBA", 0, 1).convert("RGB").save(out, "JPEG")
        return out.getvalue()

    return move


def check(traces: tuple[Trace, ...], calls: int = CALLS) -> None:
    """What is timed is what is claimed."""
    files = [trace_timeline(trace).png(SCALE) for trace in traces]
    for trace, file in zip(traces, files, strict=True):
        assert len(trace.calls) == calls, f"a run has {len(trace.calls)} calls where {calls} were due"
        assert file.startswith(PNG), "a redraw did not give a PNG"
        assert file == trace_timeline(trace).png(SCALE), "a picture drawn again is another"
    assert len(set(files)) == len(files), "two redraws gave the same picture"


def run(effort: Effort, traces: tuple[Trace, ...] = (), calls: int = CALLS) -> Section:
    traces = traces or runs()
    check(traces, calls)
    section = Section(
        NAME,
        f"redrawing the timeline of {calls:,} requests with changed data, 860 × {trace_timeline(traces[0]).height:.0f} "
        f"pixels at a scale of {SCALE:g}",
        ("µs a picture", "median", "least", "spread", f"/ {FIGURE.split(':')[0]}"),
    )
    cases: dict[str, Callable[[], object]] = {
        REDRAW: redraws(traces, lambda trace: trace_timeline(trace).png(SCALE)),
        FINE: redraws(traces, lambda trace: trace_timeline(trace).png(2.0)),
        SVG: redraws(traces, lambda trace: trace_timeline(trace).svg(themed=True)),
    }
    try:
        cases |= {FIGURE: redraws(traces, matplotlib_figure), MOVED: redraws(traces, matplotlib_moved(traces[0]))}
    except ImportError as problem:
        section.notes.append(missing("matplotlib", problem))
    samples = interleave(cases, effort.runs * 2)
    section.take(samples, 1e6, reference=FIGURE if FIGURE in cases else None)
    section.notes.append(
        "labkit's pictures begin with the trace: its columns are counted into bins each time. matplotlib's draw the "
        "same bins, without words at the lines; the figure that is kept gives JPEG."
    )
    section.bounds += [
        Bound(f"milliseconds to redraw a timeline, {name}", (samples.median(name) * 1e3,), limit, places=1)
        for name, limit in LIMITS.items()
    ]
    return section
