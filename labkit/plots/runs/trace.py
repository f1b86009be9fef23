"""The timeline of a whole run: callers, breakers, dependency and latency over one axis of seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from labkit.plots.draw.picture import Picture
from labkit.plots.draw.shapes import Shape, Words
from labkit.plots.draw.style import SIZE, STATES, width_of
from labkit.plots.runs.binned import Binned, axis_of, binned
from labkit.plots.runs.panels import (
    GAP,
    HEAD,
    HEIGHTS,
    STRIP,
    Fault,
    Frame,
    draw_axis,
    draw_panels,
    draw_strip,
    scales_of,
    seconds_words,
)

if TYPE_CHECKING:
    from labkit.scenario.run.trace import Trace

__all__ = ["describe", "fault_bands", "trace_timeline"]

GUTTER, MARGIN = 54.0, 16.0
TITLE = 28.0
PANELS = sum(HEIGHTS.values()) + (HEAD + GAP) * len(HEIGHTS)
_NARROWEST = 3.0  # pixels of a bin


def trace_timeline(trace: Trace, *, width: float = 860.0, title: str = "") -> Picture:
    """Return the picture of a run.

    From top to bottom, as a request travels: what became of the callers' calls, by second; each breaker's state, a row
    a replica, with its probes; what the dependency saw, by second and at once; how long callers waited. What the
    dependency was told to do is a band through all of it. The height is the same for every run.

    Args:
        trace: the run.
        width: of the picture, in pixels.
        title: what it is called; the trace's own title by default.
    """
    title = title or trace.title
    frame = Frame(GUTTER, max(width - MARGIN, GUTTER + 60.0), axis_of([trace], most=bins_in(width - GUTTER - MARGIN)))
    frame.capacity = trace.capacity
    data = binned(trace, frame.axis)
    faults = fault_bands(trace)
    shapes: list[Shape] = [_head(trace, title, width)]
    shapes += draw_strip(frame, faults, TITLE)
    panels, _ = draw_panels(data, frame, scales_of([data], [trace.capacity]), faults, TITLE + STRIP)
    shapes += panels
    bottom = TITLE + STRIP + PANELS
    shapes += draw_axis(frame, bottom)
    return Picture(width, bottom + 28.0, tuple(shapes), title, describe(trace, data))


def bins_in(pixels: float) -> int:
    """Return how many bins so many pixels can show."""
    return max(20, min(200, int(pixels / _NARROWEST)))


def _head(trace: Trace, title: str, width: float) -> Words:
    more = f"{trace.replicas} replicas, seed {trace.seed}" if trace.replicas != 1 else f"seed {trace.seed}"
    while title and width_of(title, SIZE, bold=True) > width - 20.0:
        title = title[:-2].rstrip() + "…"
    room = width - 20.0 - width_of(title, SIZE, bold=True) - 12.0
    return Words(10.0, 20.0, title, SIZE, bold=True, tail=more if width_of(more, SIZE) <= room else "")


def fault_bands(trace: Trace) -> list[Fault]:
    """Return the trace's faults with their labels; the same fault again and again is told once, with how often."""
    several = len({period.service for period in trace.faults}) > 1
    periods = trace.faults
    again: dict[tuple[str, str], int] = {}
    for one in periods:
        again[one.service, one.words] = again.get((one.service, one.words), 0) + 1
    told = set()
    bands = []
    for one in periods:
        key = (one.service, one.words)
        words = ""
        if key not in told:
            told.add(key)
            words = f"{one.service}: {one.words}" if several else one.words
            words += f" ({again[key]} times)" if again[key] > 1 else ""
        bands.append(
            Fault(one.start, min(one.end, trace.until), words, int(one.service != periods[0].service), one.is_capacity)
        )
    return bands


def describe(trace: Trace, data: Binned) -> str:
    """Return what happened, in a few sentences with numbers."""
    counts = data.counts
    if not counts["offered"]:
        sentences = [f"No calls arrived in {trace.duration:g} s."]
    else:
        words = {"answered": "answered", "not_useful": "answered to no use", "failed": data.failing,
                 "cancelled": "given up", "unavailable": data.turned_away, "unfinished": "unfinished"}  # fmt: skip
        ways = [f"{counts[kind]:,} {word}" for kind, word in words.items() if counts[kind]]
        noun = "call" if counts["offered"] == 1 else "calls"
        sentences = [f"{counts['offered']:,} {noun} in {trace.duration:g} s: {', '.join(ways)}."]
    for fault in fault_bands(trace):
        if fault.words:
            sentences.append(f"From {fault.start:g} to {fault.end:g} s: {fault.words}.")
    opened = [at for ribbon in data.ribbons for at, state in ribbon.states if state == "OPEN"]
    if opened:
        last = [STATES[ribbon.states[-1][1]].word for ribbon in data.ribbons]
        end = ", ".join(f"{last.count(word)} {word}" for word in dict.fromkeys(last))
        times = "once" if len(opened) == 1 else f"{len(opened):,} times"
        probes = {0: "", 1: ", and sent 1 probe"}.get(counts["probes"], f", and sent {counts['probes']:,} probes")
        sentences.append(f"Breakers opened {times}, first at {min(opened):.1f} s{probes}; at the end: {end}.")
    elif trace.breakers:
        sentences.append("No breaker opened.")
    for name, (peak, _) in data.attempts_peak.items():
        most = data.in_flight_peak[name][0]
        attempts = "attempt" if peak == 1 else "attempts"
        sentences.append(f"{name} saw at most {peak:,} {attempts} a second and {most:,} at once.")
    half, tail = data.latency
    if half is not None and tail is not None:
        sentences.append(f"Half of the calls took up to {seconds_words(half)}, 95 % up to {seconds_words(tail)}.")
    return " ".join(sentences)
