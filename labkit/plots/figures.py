"""Figures for what one analyses rather than watches: sweeps, latencies and attempts of several runs, with matplotlib.

Each is drawn into an `Axes` that one passes, and returns it, so that it stands in a layout of one's own; without one it
makes a figure in the house's style. Nothing here touches pyplot: there is no global figure, no window and no display.

    with house_style(dark=True):
        figure, (left, right) = plt.subplots(1, 2, layout="constrained")
        sweep_lines(table, x="failure_threshold", metric="goodput_per_s", ax=left)
        latency_ecdf({"with a breaker": one, "without": other}, ax=right)

A line is named where it ends rather than in a legend, and has dashes, a mark and, where it has a band, a texture of its
own: its colour is never alone. What cannot be drawn is a sentence in the Axes, not an error.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from itertools import pairwise
from math import ceil, floor, isfinite, nan
from typing import TYPE_CHECKING, Any, ParamSpec, TypeAlias

import matplotlib
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.rcsetup import cycler
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from labkit.config.nearest import nearest
from labkit.errors import ConfigError
from labkit.plots.draw.shapes import wrap
from labkit.plots.draw.style import (
    DARK,
    PAPER,
    SERIES,
    SIZE,
    SIZE_LABEL,
    SIZE_SMALL,
    SIZE_TICK,
    STATES,
    SeriesStyle,
    width_of,
)
from labkit.plots.runs.trace import fault_bands
from labkit.plots.sweeps.heat_map import shades
from labkit.plots.sweeps.table import bare_name, cells_of, median, name_words, value_words, words_for
from labkit.scenario.read.counting import rank

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from labkit.scenario.run.trace import Trace
    from labkit.scenario.sweeps.sweep import SweepTable

__all__ = [
    "attempts_per_second",
    "figure_bytes",
    "house_style",
    "latency_ecdf",
    "rc_params",
    "sweep_figure",
    "sweep_lines",
    "sweep_map",
]

_POINT = 0.75  # points of a pixel, at 96 pixels an inch
_SALT = "labkit"  # of the ids in an SVG file; who has it draws in the house's style
_MARKS = {"dot": "o", "square": "s", "triangle": "^", "diamond": "D", "cross": "X", "bar": "P"}
_HATCHES = {"solid": "", "hatch": "////", "dots": "...", "back hatch": "\\\\\\\\"}
_BAND = 0.13  # how opaque an outage's band is, as on a page
_SPREAD = 0.2
_APART = SIZE_LABEL * _POINT * 1.25  # points between two labels' baselines

Rows = Iterable[Mapping[str, Any]]


# ----------------------------------------------------------------------------------------------------- the house style


def rc_params(*, dark: bool = False) -> Any:
    """Return the house's look as matplotlib's parameters, all of it from `labkit.plots.draw.style`.

    The ground is transparent. `house_style` draws with it; `matplotlib.rcParams.update(rc_params())` has it for good.

    Args:
        dark: for a dark page.
    """
    inks = DARK if dark else PAPER
    cycle = cycler(color=[series.colour for series in SERIES], linestyle=[_dashes(series) for series in SERIES])
    return {
        "axes.axisbelow": True,
        "axes.edgecolor": inks["line"],
        "axes.facecolor": "none",
        "axes.grid": False,
        "axes.labelcolor": inks["muted"],
        "axes.labelsize": SIZE_SMALL * _POINT,
        "axes.linewidth": 1.2 * _POINT,
        "axes.prop_cycle": cycle,
        "axes.spines.right": False,
        "axes.spines.top": False,
        "axes.titlecolor": inks["text"],
        "axes.titlesize": SIZE * _POINT,
        "axes.titleweight": "bold",
        "figure.constrained_layout.use": True,
        "figure.dpi": 96,
        "figure.edgecolor": "none",
        "figure.facecolor": "none",
        "font.family": ["DejaVu Sans"],
        "font.size": SIZE_SMALL * _POINT,
        "grid.color": inks["grid"],
        "grid.linewidth": 1.0 * _POINT,
        "hatch.linewidth": 0.7,
        "legend.frameon": False,
        "lines.linewidth": 2.2 * _POINT,
        "lines.markersize": 6.0 * _POINT,
        "patch.edgecolor": inks["line"],
        "pdf.fonttype": 42,
        "savefig.edgecolor": "none",
        "savefig.facecolor": "none",
        "savefig.transparent": True,
        "svg.hashsalt": _SALT,
        "text.color": inks["text"],
        "xtick.color": inks["line"],
        "xtick.labelcolor": inks["muted"],
        "xtick.labelsize": SIZE_TICK * _POINT,
        "ytick.color": inks["line"],
        "ytick.labelcolor": inks["muted"],
        "ytick.labelsize": SIZE_TICK * _POINT,
    }


@contextmanager
def house_style(*, dark: bool = False) -> Iterator[None]:
    """Draw in the house's style inside of a `with`; after it everything is as it was.

    Args:
        dark: for a dark page.

    >>> with house_style(dark=True):
    ...     matplotlib.rcParams["text.color"]
    '#ECEFF4'
    """
    with rc_context(rc_params(dark=dark)):
        yield


Draw = ParamSpec("Draw")


def _in_a_style(draw: Callable[Draw, Axes]) -> Callable[Draw, Axes]:
    """Draw an Axes that one passes in whatever style is in force, and one's own figure in the house's."""

    @wraps(draw)
    def drawn(*args: Draw.args, **more: Draw.kwargs) -> Axes:
        if more.get("ax") is not None or matplotlib.rcParams["svg.hashsalt"] == _SALT:
            return draw(*args, **more)
        with house_style():
            return draw(*args, **more)

    return drawn


# -------------------------------------------------------------------------------------------------------------- a sweep


@_in_a_style
def sweep_lines(
    table: SweepTable | Rows,
    *,
    x: str,
    metric: str,
    by: str = "",
    band: tuple[float, float] = (0.10, 0.90),
    ax: Axes | None = None,
) -> Axes:
    """Draw a metric over a parameter: a line of medians over the seeds, and a band between two of their percentiles.

    Take away: where a line turns, how far seeds alone move it, and whether two lines differ by more than that.

    Numbers on the axis are where they belong; if the parameter has other values, they stand at equal distances. Where
    no seed has a number (a recovery that never came) the line is broken, and a note says so.

    Args:
        table: a sweep, or its rows: parameters and metrics by name.
        x: the parameter along the axis.
        metric: what is measured.
        by: a second parameter: a line for each of its values. In a sweep over two it is the other one by itself.
        band: the percentiles between which the band lies, as shares; each is a value of one of the runs.
        ax: what to draw into.

    Returns:
        The Axes.

    Raises:
        ConfigError: there is no such parameter or metric; the sweep has a further parameter; or the band is none.

    >>> rows = [{"threshold": n, "seed": s, "opens": 12 // n + s} for n in (1, 2, 3) for s in (0, 1, 2)]
    >>> axes = sweep_lines(rows, x="threshold", metric="opens")
    >>> axes.lines[0].get_ydata().tolist()
    [13.0, 7.0, 5.0]
    """
    low, high = band
    if not 0.0 <= low <= high <= 1.0:
        raise ConfigError(f"a band lies between two shares from 0 to 1, and ({low:g}, {high:g}) is none")
    rows, by = _read(table, x, by, metric)
    ax = _axes(ax, 6.4, 3.6)
    cells, columns, lines, seeds = cells_of(rows, x, by or None, metric)
    ax.set_xlabel(name_words(x), loc="left", parse_math=False)
    _head(ax, name_words(metric))
    if not any(cells.values()):
        return _sentence(ax, _why_none(rows, metric))
    places, ticks = _places(columns)
    ends: list[tuple[float, float, str, SeriesStyle]] = []
    for number, line in enumerate(lines):
        style = SERIES[number % len(SERIES)]
        found = [sorted(cells.get((column, line), ())) for column in columns]
        middles = [median(numbers) if numbers else nan for numbers in found]
        ax.plot(
            places, middles, color=style.colour, linestyle=_dashes(style), marker=_MARKS[style.shape], zorder=3.0
        )  # fmt: skip
        edges = [[numbers[rank(share, len(numbers))] if numbers else nan for numbers in found] for share in (low, high)]
        if any(under < over for under, over in zip(*edges, strict=True)):
            ax.fill_between(
                places,
                edges[0],
                edges[1],
                facecolor=(style.colour, _SPREAD),
                edgecolor=(style.colour, 2.0 * _SPREAD),
                hatch=_HATCHES[style.texture],
                linewidth=0.0,
                zorder=2.0,
            )
        known = [at for at, middle in enumerate(middles) if middle == middle]
        if known:
            ends.append((places[known[-1]], middles[known[-1]], value_words(line), style))
    _limits(ax, places, ticks, [number for numbers in cells.values() for number in numbers])
    _figures_alike(ax)
    ax.grid(axis="y")
    if by:
        _at_the_ends(ax, ends, bare_name(by))
    notes = []
    if seeds > 1:
        notes.append(f"median of {seeds} seeds, {low * 100:g} % to {high * 100:g} % as a band")
    empty = len(columns) * len(lines) - sum(1 for numbers in cells.values() if numbers)
    if empty:
        notes.append(f"no number for {empty:,} of {len(columns) * len(lines):,}")
    return _note(ax, "; ".join(notes))


@_in_a_style
def sweep_map(table: SweepTable | Rows, *, x: str, y: str, metric: str, ax: Axes | None = None) -> Axes:
    """Draw a metric over two parameters as a heat map, each cell with its number: the median over the seeds.

    Take away: where along both parameters a metric is good, and how sharp the edge of that region is. A cell without a
    number is hatched.

    Args:
        table: a sweep, or its rows: parameters and metrics by name.
        x, y: the parameters across and down.
        metric: what is measured.
        ax: what to draw into.

    Returns:
        The Axes.

    Raises:
        ConfigError: there is no such parameter or metric, or the sweep has a further parameter.

    >>> rows = [{"a": a, "b": b, "m": a * b} for a in (1, 2) for b in (3, 4)]
    >>> [text.get_text() for text in sweep_map(rows, x="a", y="b", metric="m").texts]
    ['3', '6', '4', '8']
    """
    rows, _ = _read(table, x, y, metric)
    cells, columns, lines, seeds = cells_of(rows, x, y, metric)
    ax = _axes(ax, max(3.6, min(9.0, 1.4 + 0.62 * len(columns))), max(2.2, min(7.0, 1.1 + 0.36 * len(lines))))
    ax.set_xlabel(f"{name_words(x)} →", loc="left", parse_math=False)
    _head(ax, f"{name_words(metric)}, by {name_words(y)} ↓")
    if not any(cells.values()):
        return _sentence(ax, _why_none(rows, metric))
    order = [(column, line) for line in lines for column in columns]
    numbers = [median(cells[place]) if cells.get(place) else None for place in order]
    text_of = words_for([number for number in numbers if number is not None])
    texts = ["" if number is None else text_of(number) for number in numbers]
    size = _fitting(ax, max(map(len, texts)), len(columns), len(lines))
    for index, (number, (ground, ink)) in enumerate(zip(numbers, shades(numbers), strict=True)):
        down, across = divmod(index, len(columns))
        cell = Rectangle((across - 0.485, down - 0.47), 0.97, 0.94, linewidth=0.0, facecolor=ground or "none")
        if number is None:
            cell.set(hatch=_HATCHES["hatch"], edgecolor=matplotlib.rcParams["axes.edgecolor"])
        ax.add_patch(cell)
        if number is not None and size:
            ax.text(across, down, texts[index], color=ink, fontsize=size, ha="center", va="center")
    ax.set_xlim(-0.5, len(columns) - 0.5)
    ax.set_ylim(len(lines) - 0.5, -0.5)
    ax.set_xticks(range(len(columns)), [value_words(column) for column in columns], parse_math=False)
    ax.set_yticks(range(len(lines)), [value_words(line) for line in lines], parse_math=False)
    ax.tick_params(length=0)
    for spine in ax.spines.values():
        spine.set_visible(False)
    return _note(ax, f"median of {seeds}" if seeds > 1 else "")


def sweep_figure(table: SweepTable, metric: str) -> Figure:
    """Return the figure that suits a sweep: lines over one parameter, a heat map over two.

    Raises:
        ConfigError: there is no such metric, or more than two parameters vary.
    """
    if len(table.parameters) > 2:
        raise ConfigError(f"a figure shows one varied value or two, and {len(table.parameters)} vary")
    with house_style():
        if len(table.parameters) == 1:
            ax = sweep_lines(table, x=table.parameters[0], metric=metric)
        else:
            down, across = table.parameters
            ax = sweep_map(table, x=across, y=down, metric=metric)
        figure = ax.figure
        assert isinstance(figure, Figure)
        words = wrap(table.title, figure.get_figwidth() * 72.0 / _POINT - 24.0, SIZE, bold=True)
        figure.suptitle(
            "\n".join(words), x=0.01, ha="left", fontsize=SIZE * _POINT, fontweight="bold", parse_math=False
        )
    return figure


# ----------------------------------------------------------------------------------------------------------------- runs


@_in_a_style
def latency_ecdf(runs: Mapping[str, Trace], *, ax: Axes | None = None) -> Axes:
    """Draw which share of a run's calls took at most how long, a line of steps for each of several runs.

    Take away: a median hides what a tail costs; read off where each line passes 95 %, and how much is at once (an open
    breaker, or a fallback) or only at a limit. Calls count however they ended; those that never did are named.

    Seconds are logarithmic. What took no time has no place on such an axis: a line begins at the share of it.

    Args:
        runs: traces, by what to call them.
        ax: what to draw into.

    Returns:
        The Axes.
    """
    ax = _axes(ax, 6.4, 3.6)
    ax.set_xlabel("seconds, as callers saw it", loc="left", parse_math=False)
    _head(ax, "share of the calls that took no longer")
    took = {name: _latencies(trace) for name, trace in runs.items()}
    drawn = {name: seconds for name, seconds in took.items() if seconds}
    if not drawn:
        return _sentence(ax, "No run was given." if not runs else "No call ended, so there is no latency to show.")
    above = [seconds[-1] for seconds in drawn.values() if seconds[-1] > 0.0]
    least = min([at for seconds in drawn.values() for at in seconds if at > 0.0], default=0.1)
    most = max(above, default=least)
    left, right = max(least, most / 1e5) / 1.6, most * 1.6
    steps = {name: _steps(seconds, left) for name, seconds in drawn.items()}
    for number, (name, (xs, ys)) in enumerate(steps.items()):
        style = SERIES[number % len(SERIES)]
        ax.plot(xs, ys, drawstyle="steps-post", color=style.colour, linestyle=_dashes(style), label=name)
        # Beyond its last value a line stays where it is.
        ax.plot([xs[-1], right], [1.0, 1.0], color=style.colour, linestyle=_dashes(style), label="_on")
    ax.set_xscale("log")
    ax.set_xlim(left, right)
    ax.set_ylim(0.0, 1.03)
    ax.xaxis.set_major_formatter(FuncFormatter(lambda at, _: f"{at:g}"))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_locator(FixedLocator([0.0, 0.25, 0.5, 0.75, 0.95]))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda at, _: f"{at * 100:g} %"))
    ax.grid(axis="y")
    _on_the_lines(ax, steps)
    unfinished = [
        f"{len(trace.calls) - len(took[name]):,} of {name} never ended"
        for name, trace in runs.items()
        if len(trace.calls) > len(took[name])
    ]
    return _note(ax, "; ".join(unfinished))


@_in_a_style
def attempts_per_second(runs: Mapping[str, Trace], *, service: str = "", ax: Axes | None = None) -> Axes:
    """Draw how many attempts reached the dependency in each second of several runs.

    Take away: what retries multiply, what a breaker keeps away, and how high traffic stands when a dependency comes
    back. The highest second of each run is marked with its number. Outages are bands where all runs have the same.

    Args:
        runs: traces, by what to call them.
        service: the service whose attempts these are; all of them when left out.
        ax: what to draw into.

    Returns:
        The Axes.

    Raises:
        ConfigError: no run has such a service.
    """
    known = list(dict.fromkeys(name for trace in runs.values() for name in trace.services))
    if service and service not in known and runs:
        raise ConfigError(_no_such("service", service, known))
    ax = _axes(ax, 6.4, 3.2)
    ax.set_xlabel("seconds", loc="left", parse_math=False)
    _head(ax, "attempts per second" + (f" at {service}" if service else ""), 6.0 + 1.4 * _APART)
    counts = {name: _by_second(trace, service) for name, trace in runs.items()}
    if not any(sum(seconds) for seconds in counts.values()):
        return _sentence(ax, "No run was given." if not runs else "No attempt reached the dependency.")
    most = max(max(seconds) for seconds in counts.values())
    end = max(len(seconds) for seconds in counts.values())
    _bands(ax, list(runs.values()))
    told = {}
    for number, (name, seconds) in enumerate(counts.items()):
        style = SERIES[number % len(SERIES)]
        ax.stairs(
            seconds, range(len(seconds) + 1), color=style.colour, linestyle=_dashes(style), baseline=None,
            linewidth=matplotlib.rcParams["lines.linewidth"], label=name,
        )  # fmt: skip
        told[name] = f"{name}: at most {max(seconds):,}/s" if any(seconds) else f"{name}: none"
    ax.set_xlim(0.0, float(end))
    ax.set_ylim(0.0, most * 1.15)
    ax.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    _figures_alike(ax)
    ax.grid(axis="y")
    _at_the_peaks(ax, counts, told)
    return ax


# ------------------------------------------------------------------------------------------------------------- as files


def figure_bytes(figure: Figure, ending: str) -> bytes:
    """Return a figure as a file: the same bytes for the same figure with the same matplotlib.

    Args:
        figure: what to write; `ax.figure` of what was drawn.
        ending: "png", "svg" or "pdf".
    """
    from io import BytesIO

    without = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None, "Producer": None}}
    out = BytesIO()
    with rc_context({"svg.hashsalt": _SALT, "pdf.fonttype": 42}):
        figure.savefig(
            out, format=ending, metadata=without[ending], transparent=True, dpi=200 if ending == "png" else "figure"
        )
    return out.getvalue()


# ------------------------------------------------------------------------------------------------------ what is in them


def _read(table: SweepTable | Rows, x: str, by: str, metric: str) -> tuple[list[Mapping[str, Any]], str]:
    """The rows, and the second parameter."""
    from labkit.scenario.sweeps.sweep import SweepTable, check_metrics

    if isinstance(table, SweepTable):
        others = [name for name in table.parameters if name != x]
        for name in (x, by):
            if name and name not in table.parameters:
                raise ConfigError(_no_such("parameter", name, table.parameters))
        if not by and others:
            by = others[0]
        if more := [name for name in others if name != by]:
            raise ConfigError(f"the sweep varies '{more[0]}' as well; draw the rows of one of its values")
        rows = list(table.rows)
        if rows:
            check_metrics([metric], table.metrics)
        return rows, by
    rows = list(table)
    names = list(dict.fromkeys(name for row in rows for name in row))
    for name in (x, by, metric):
        if name and rows and name not in names:
            raise ConfigError(_no_such("column", name, names))
    return rows, by


def _no_such(what: str, name: str, known: Sequence[str]) -> str:
    near = nearest(name, known)
    return f"there is no {what} '{name}'" + (f"; did you mean '{near}'?" if near else f"; there are {', '.join(known)}")


def _why_none(rows: Sequence[object], metric: str) -> str:
    return f"No run has a number for {name_words(metric)}." if rows else "Nothing to draw: the table has no rows."


def _places(columns: Sequence[Any]) -> tuple[list[float], list[str]]:
    """Where the values stand along the axis; words for them where that is not their own place."""
    if all(isinstance(column, int | float) and not isinstance(column, bool) for column in columns):
        return [float(column) for column in columns], []
    return [float(at) for at in range(len(columns))], [value_words(column) for column in columns]


def _latencies(trace: Trace) -> list[float]:
    calls = trace.calls
    found = [end - start for start, end in zip(calls.start, calls.end, strict=True)]
    return sorted(max(0.0, seconds) for seconds in found if seconds == seconds)


def _steps(seconds: Sequence[float], left: float) -> tuple[list[float], list[float]]:
    """The distinct values and the share of values up to each; it begins at the axis, at the share that is zero."""
    many = len(seconds)
    xs, ys = [left], [0.0]
    for row, value in enumerate(seconds):
        if value > xs[-1]:
            xs.append(value)
            ys.append(ys[-1])
        ys[-1] = (row + 1) / many
    return xs, ys


def _by_second(trace: Trace, service: str) -> list[int]:
    """How many attempts arrived in each second of the clock, until the run ends."""
    attempts = trace.attempts
    times = [at for at in attempts.start if at == at]
    if service:
        if service not in trace.services:
            return [0]
        mine = trace.services.index(service)
        times = [at for at, whose in zip(attempts.start, attempts.service, strict=True) if whose == mine and at == at]
    known = [at for at in (trace.duration, trace.until, *(floor(at) + 1.0 for at in times[-1:])) if isfinite(at)]
    seconds = [0] * max(1, ceil(max(known, default=1.0) - 1e-9))
    for at in times:
        seconds[min(len(seconds) - 1, max(0, floor(at + 1e-9)))] += 1
    return seconds


# ------------------------------------------------------------------------------------------------------ how they look


def _axes(ax: Axes | None, wide: float, high: float) -> Axes:
    """The Axes that was given, or one of a figure of its own."""
    if ax is not None:
        for side in ("top", "right"):
            ax.spines[side].set_visible(False)
        return ax
    return Figure((wide, high)).add_subplot()


def _dashes(style: SeriesStyle) -> Any:
    return (0.0, style.dashes) if style.dashes else "-"


def _head(ax: Axes, words: str, room: float = 6.0) -> None:
    """What is measured, level and above the axis, where it is read first: the title at the left."""
    ax.set_title(
        words, loc="left", fontsize=SIZE_SMALL * _POINT, fontweight="normal", pad=room, parse_math=False,
        color=matplotlib.rcParams["axes.labelcolor"],
    )  # fmt: skip


def _sentence(ax: Axes, words: str) -> Axes:
    """Words instead of a figure."""
    ax.set_xticks([])
    ax.set_yticks([])
    ax.text(
        0.5, 0.5, words, transform=ax.transAxes, ha="center", va="center", style="italic", wrap=True, parse_math=False
    )
    return ax


def _note(ax: Axes, words: str) -> Axes:
    """What one should know of the figure: right of the axis' name, or below that where both have no room."""
    points = 72.0 / ax.figure.dpi
    both = width_of(words, SIZE_TICK * _POINT) + width_of(ax.get_xlabel(), SIZE_SMALL * _POINT) + 12.0
    lines = 2.4 if both <= ax.get_window_extent().width * points else 3.5
    if words:
        ax.annotate(
            words, (1.0, 0.0), xycoords="axes fraction", xytext=(0.0, -lines * _APART), textcoords="offset points",
            ha="right", va="baseline", fontsize=SIZE_TICK * _POINT, color=matplotlib.rcParams["axes.labelcolor"],
            parse_math=False,
        )  # fmt: skip
    return ax


def _limits(ax: Axes, places: Sequence[float], words: Sequence[str], numbers: Sequence[float]) -> None:
    """Both axes: marks where the parameter's values are, and zero in sight unless all numbers are far from it."""
    low, high = min(numbers), max(numbers)
    if low <= 0.4 * high:
        low = min(0.0, low)
    room = (high - low or abs(high) or 1.0) * 0.08
    ax.set_ylim(low - room if low else 0.0, high + room)
    first, last = min(places), max(places)
    gaps = [after - before for before, after in pairwise(places)]
    if not words and first > 0.0 and last >= 20.0 * first and max(gaps) > 5.0 * min(gaps):
        ax.set_xscale("log")
        ax.set_xlim(first / 1.15, last * 1.15)
    else:
        beside = (last - first) * 0.05 or 0.5
        ax.set_xlim(first - beside, last + beside)
    ax.xaxis.set_minor_locator(NullLocator())
    if words or len(places) <= 12:
        ax.set_xticks(places, words or [value_words(at) for at in places], parse_math=False)
    else:
        ax.xaxis.set_major_formatter(FuncFormatter(lambda at, _: value_words(at)))


def _figures_alike(ax: Axes) -> None:
    """The vertical axis' numbers, with commas and with as many places as the longest of them."""

    def words(at: float, _: object) -> str:
        places = max(len(f"{round(tick, 10):.10g}".partition(".")[2]) for tick in ax.get_yticks())
        return f"{at:,.{places}f}"

    ax.yaxis.set_major_formatter(FuncFormatter(words))


def _fitting(ax: Axes, letters: int, columns: int, lines: int) -> float:
    """The size of the numbers in a map's cells; 0.0 where none fits."""
    box = ax.get_window_extent()
    points = 72.0 / ax.figure.dpi
    wide, high = 0.9 * box.width * points / columns, 0.9 * box.height * points / lines
    for size in (SIZE_SMALL * _POINT, SIZE_TICK * _POINT, 6.5):
        if letters * size * 0.64 <= wide and size * 1.2 <= high:
            return size
    return 0.0


# -- words at what they name, clear of each other; measured in points

Box: TypeAlias = tuple[float, float, float, float]  # left, bottom, right, top


def _settle(ax: Axes) -> None:
    """Lay the figure out, so that what is measured lies where it will be drawn."""
    figure = ax.get_figure(root=True)
    assert figure is not None
    figure.draw_without_rendering()


def _spot(ax: Axes, x: float, y: float) -> tuple[float, float]:
    across, up = ax.transData.transform((x, y))
    return float(across) * 72.0 / ax.figure.dpi, float(up) * 72.0 / ax.figure.dpi


def _label(ax: Axes, x: float, y: float, words: str, dx: float, dy: float, ha: str, va: str) -> None:
    ax.annotate(
        words, (x, y), xytext=(dx, dy), textcoords="offset points", ha=ha, va=va, fontsize=SIZE_LABEL * _POINT,
        annotation_clip=False, parse_math=False, zorder=5.0,
    )  # fmt: skip


def _touch(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _wide(words: str) -> float:
    return width_of(words, SIZE_LABEL * _POINT)


def _at_the_ends(ax: Axes, ends: Sequence[tuple[float, float, str, SeriesStyle]], name: str) -> None:
    """Each line's value right of its end, the uppermost with the parameter's name, moved apart if they would touch."""
    _settle(ax)
    order = sorted(ends, key=lambda end: -round(_spot(ax, end[0], end[1])[1]))
    wanted = [_spot(ax, x, y)[1] for x, y, _, _ in order]
    heights: list[float] = []
    for want in wanted:
        heights.append(min(want, heights[-1] - _APART) if heights else want)
    floor_ = _spot(ax, ends[0][0], ax.get_ylim()[0])[1] + _APART / 2
    for at in reversed(range(len(heights))):
        # None stands below the axis.
        least = heights[at + 1] + _APART if at + 1 < len(heights) else floor_
        heights[at] = max(least, heights[at])
    for row, ((x, y, words, _), height, want) in enumerate(zip(order, heights, wanted, strict=True)):
        _label(ax, x, y, f"{name} {words}" if row == 0 else words, 9.0, height - want, "left", "center")


def _on_the_lines(ax: Axes, steps: Mapping[str, tuple[Sequence[float], Sequence[float]]]) -> None:
    """A mark on each line and its name beside it, below or above, where it is clear of the others."""

    _settle(ax)

    def across(name: str, level: float) -> float:
        xs, ys = steps[name]
        return _spot(ax, xs[min(len(xs) - 1, bisect_left(ys, level))], level)[0]

    right = _spot(ax, ax.get_xlim()[1], 0.0)[0]
    unit = _spot(ax, ax.get_xlim()[0], 1.0)[1] - _spot(ax, ax.get_xlim()[0], 0.0)[1]
    taken: list[Box] = []
    for number, name in enumerate(steps):
        wide, high = _wide(name), _APART
        best: tuple[float, float, bool, Box] | None = None
        for percent in range(8, 97, 4):
            level = percent / 100.0
            x, y = across(name, level), _spot(ax, ax.get_xlim()[0], level)[1]
            for below in (True, False):
                box = (x + 6.0, y - high - 2.0, x + wide + 6.0, y - 2.0)
                if not below:
                    box = (x - wide - 6.0, y + 2.0, x - 6.0, y + high + 2.0)
                least, most = level + (box[1] - y) / unit, level + (box[3] - y) / unit
                hits = sum(_touch(box, other) for other in taken)
                hits += 2 * (box[2] > right) + 2 * (box[0] < _spot(ax, ax.get_xlim()[0], 0.0)[0]) + 2 * (least < 0.0)
                for other in steps:
                    if other != name and across(other, least) - 3.0 < box[2] and across(other, most) + 3.0 > box[0]:
                        hits += 1
                score = hits * 10.0 + abs(level - 0.6) + (0.0 if below else 0.1)
                if best is None or score < best[0]:
                    best = (score, level, below, box)
        assert best is not None
        _, level, below, box = best
        taken.append(box)
        xs, ys = steps[name]
        style = SERIES[number % len(SERIES)]
        x = xs[min(len(xs) - 1, bisect_left(ys, level))]
        ax.plot(
            [x], [level], color=style.colour, marker=_MARKS[style.shape], linestyle="none", zorder=4.0, label="_mark"
        )
        if below:
            _label(ax, x, level, name, 6.0, -3.0, "left", "top")
        else:
            _label(ax, x, level, name, -6.0, 3.0, "right", "bottom")


def _at_the_peaks(ax: Axes, counts: Mapping[str, Sequence[int]], told: Mapping[str, str]) -> None:
    """A mark on each run's highest second and its words above it; a key beside the Axes where they have no room."""
    _settle(ax)
    taken: list[Box] = []
    found: list[tuple[float, float, str, float, str]] = []
    right = _spot(ax, ax.get_xlim()[1], 0.0)[0]
    first, second = _spot(ax, 0.0, 0.0)[0], _spot(ax, 1.0, 0.0)[0]
    for number, seconds in enumerate(counts.values()):
        style = SERIES[number % len(SERIES)]
        peak = max(seconds)
        ax.plot(
            [seconds.index(peak) + 0.5], [peak], color=style.colour, marker=_MARKS[style.shape], linestyle="none",
            zorder=4.0, label="_mark",
        )  # fmt: skip
    for number, (name, seconds) in enumerate(counts.items()):
        peak = max(seconds)
        places = [at for at, count in enumerate(seconds) if count == peak]
        wide = _wide(told[name])
        for at in places[:: max(1, len(places) // 40)]:
            across, up = _spot(ax, at + 0.5, float(peak))
            for side, start in (("left", across - 3.0), ("right", across + 3.0 - wide)):
                box = (start, up + 4.0, start + wide, up + 4.0 + _APART)
                if box[0] < first - 4.0 or box[2] > right or any(_touch(box, other) for other in taken):
                    continue
                span = slice(
                    max(0, int((box[0] - first) / (second - first))), int((box[2] - first) / (second - first)) + 1
                )
                lines = [other[span] for other in counts.values() if other[span]]
                if any(
                    _spot(ax, 0.0, max(line))[1] > box[1] - 2.0 and _spot(ax, 0.0, min(line))[1] < box[3]
                    for line in lines
                ):
                    continue
                taken.append(box)
                found.append((at + 0.5, float(peak), told[name], -3.0 if side == "left" else 3.0, side))
                break
            if len(found) > number:
                break
        if len(found) <= number:
            styles = [SERIES[row % len(SERIES)] for row in range(len(told))]
            ax.legend(
                [Line2D([], [], color=one.colour, linestyle=_dashes(one), marker=_MARKS[one.shape]) for one in styles],
                list(told.values()),
                loc="upper left",
                bbox_to_anchor=(1.0, 1.0),
                fontsize=SIZE_LABEL * _POINT,
                frameon=False,
                handlelength=3.2,
            )
            break
    else:
        for x, y, words, dx, side in found:
            _label(ax, x, y, words, dx, 4.0, side, "bottom")


def _bands(ax: Axes, traces: Sequence[Trace]) -> None:
    """What the dependency was told to do, as bands with words above them, where it is the same in all runs."""
    told = [fault_bands(trace) for trace in traces]
    if any(other != told[0] for other in told):
        return
    free = 0.0
    for fault in told[0]:
        ax.axvspan(fault.start, fault.end, facecolor=(STATES["OPEN"].colour, _BAND), edgecolor="none", zorder=0.5)
        if fault.words and fault.start >= free:
            ax.annotate(
                fault.words, (fault.start, 1.0), xycoords=ax.get_xaxis_transform(), xytext=(0.0, 3.0),
                textcoords="offset points", fontsize=SIZE_LABEL * _POINT, annotation_clip=False, parse_math=False,
            )  # fmt: skip
            free = fault.end
