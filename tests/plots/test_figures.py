"""Figures for analysis: their lines are the table's and the traces' numbers, and nothing is told by colour alone."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from io import BytesIO
from itertools import pairwise
from math import ceil, isnan, nan
from statistics import median
from typing import Any

import matplotlib
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from PIL import Image

from labkit.errors import ConfigError
from labkit.plots import attempts_per_second, house_style, latency_ecdf, sweep_lines, sweep_map
from labkit.plots.draw.style import DARK, PAPER, RAMP, SERIES, contrast
from labkit.plots.figures import figure_bytes, rc_params, sweep_figure
from labkit.scenario.sweeps.sweep import SweepTable
from tests.plots.synthetic import MADE, outage, trace

ROWS = [
    {"threshold": n, "cooldown": c, "seed": s, "opens": 30 // n + c // 10 + s * s % 7, "late": None}
    for n in (1, 2, 5)
    for c in (10, 30)
    for s in range(11)
]
ONE = [row for row in ROWS if row["cooldown"] == 10]
TABLE = SweepTable("small", "A sweep", {"threshold": (1, 2, 5), "cooldown": (10, 30)}, tuple(range(11)), ROWS)
RUNS = {
    "with": outage(rate=20.0, duration=120.0, down=((30.0, 70.0),)),
    "without": outage(rate=20.0, duration=120.0, down=((30.0, 70.0),), breaker=False, tries=3),
}


def lines(ax: Axes) -> list[Any]:
    """The lines that carry data: not the marks for words, nor how a line goes on."""
    return [line for line in ax.lines if not str(line.get_label()).startswith(("_mark", "_on"))]


def words(ax: Axes) -> list[str]:
    """All words in an Axes."""
    return [text.get_text() for text in ax.texts]


def least(values: list[float], share: float) -> float:
    """The least of the values that at least so large a share of them does not pass, by counting."""
    return next(v for v in sorted(values) if sum(w <= v for w in values) >= share * len(values) - 1e-9)


def edges(ax: Axes, number: int = 0) -> dict[float, set[float]]:
    """Where a band's edges are, by x."""
    found: dict[float, set[float]] = {}
    for x, y in ax.collections[number].get_paths()[0].vertices:  # type: ignore[union-attr]
        found.setdefault(float(x), set()).add(float(y))
    return found


def test_a_line_is_the_medians_and_its_band_the_percentiles() -> None:
    """Each point is the median over the seeds, and the band goes from one percentile of them to the other."""
    ax = sweep_lines(ONE, x="threshold", metric="opens", band=(0.2, 0.8))
    by_x = {n: [float(row["opens"]) for row in ONE if row["threshold"] == n] for n in (1, 2, 5)}  # type: ignore[arg-type]
    (line,) = lines(ax)
    assert line.get_xdata().tolist() == [1.0, 2.0, 5.0]
    assert line.get_ydata().tolist() == [median(values) for values in by_x.values()]
    for x, values in by_x.items():
        low, high = least(values, 0.2), least(values, 0.8)
        assert {min(edges(ax)[x]), max(edges(ax)[x])} == {low, high}
        assert low <= median(values) <= high


def test_a_second_parameter_makes_a_line_a_value() -> None:
    """The other parameter of a sweep is a line each, named at its end, with dashes and marks of its own."""
    ax = sweep_lines(TABLE, x="threshold", metric="opens")
    assert len(lines(ax)) == 2
    assert len({line.get_marker() for line in lines(ax)}) == 2
    assert len({line.get_color() for line in lines(ax)}) == 2
    assert {"cooldown 30", "10"} <= set(words(ax))
    assert [line.get_ydata().tolist() for line in lines(ax)] == [
        [cell.median for cell in TABLE.cells("opens") if cell.values[1] == cooldown] for cooldown in (10, 30)
    ]


def test_one_seed_has_no_band() -> None:
    """From one seed there is a line and no band, and no words about seeds."""
    ax = sweep_lines([row for row in ONE if row["seed"] == 3], x="threshold", metric="opens")
    assert len(lines(ax)) == 1
    assert not ax.collections
    assert words(ax) == []


def test_a_line_is_broken_where_there_is_no_number() -> None:
    """None and NaN leave a gap, and a note says for how many combinations there is no number."""
    rows = [{"x": x, "m": m} for x, m in ((1, 4.0), (2, None), (3, nan), (4, 5.0))]
    ax = sweep_lines(rows, x="x", metric="m")
    found = lines(ax)[0].get_ydata().tolist()
    assert [isnan(value) for value in found] == [False, True, True, False]
    assert words(ax) == ["no number for 2 of 4"]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([], "Nothing to draw: the table has no rows."),
        ([{"x": 1, "m": None}, {"x": 2, "m": nan}], "No run has a number for m."),
    ],
)
def test_what_cannot_be_drawn_is_a_sentence(rows: list[dict[str, Any]], said: str) -> None:
    """A table without rows or without numbers gives an Axes that says so."""
    assert words(sweep_lines(rows, x="x", metric="m")) == [said]
    assert words(sweep_map([row | {"y": 1} for row in rows], x="x", y="y", metric="m")) == [said]


def test_runs_without_anything_are_a_sentence() -> None:
    """No runs, no call that ended, and no attempt are each said in the figure."""
    nothing = {"a run": trace()}
    assert words(latency_ecdf({})) == words(attempts_per_second({})) == ["No run was given."]
    assert words(latency_ecdf(nothing)) == ["No call ended, so there is no latency to show."]
    assert words(attempts_per_second(nothing)) == ["No attempt reached the dependency."]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"x": "treshold"}, "there is no parameter 'treshold'; did you mean 'threshold'?"),
        ({"metric": "open"}, "did you mean 'opens'?"),
        ({"band": (0.9, 0.1)}, "a band lies between two shares from 0 to 1, and (0.9, 0.1) is none"),
    ],
)
def test_a_wrong_name_is_one_sentence(wrong: dict[str, Any], said: str) -> None:
    """A parameter, metric or band that is none is refused with what is known."""
    with pytest.raises(ConfigError, match=r"^[^\n]*$") as refused:
        sweep_lines(TABLE, **{"x": "threshold", "metric": "opens", **wrong})
    assert said in str(refused.value)


def test_a_third_parameter_is_not_mixed_in() -> None:
    """A sweep over more parameters than the figure shows is refused, not averaged."""
    wide = SweepTable("s", "t", {**TABLE.vary, "limit": (1,)}, TABLE.seeds, [row | {"limit": 1} for row in ROWS])
    with pytest.raises(ConfigError, match="the sweep varies 'limit' as well"):
        sweep_map(wide, x="threshold", y="cooldown", metric="opens")
    with pytest.raises(ConfigError, match="3 vary"):
        sweep_figure(wide, "opens")
    with pytest.raises(ConfigError, match="there is no column 'opns'; did you mean 'opens'"):
        sweep_lines(ROWS, x="threshold", metric="opns")
    with pytest.raises(ConfigError, match="there is no service 'parts'"):
        attempts_per_second(RUNS, service="parts")


def test_words_stand_at_equal_distances() -> None:
    """A parameter of words, or of words and numbers, is drawn in order, each with its word below."""
    ax = sweep_lines([{"x": x, "m": len(x)} for x in ("poisson", "constant")], x="x", metric="m")
    assert lines(ax)[0].get_xdata().tolist() == [0.0, 1.0]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["constant", "poisson"]


def test_a_map_has_a_cell_and_a_number_for_each_combination() -> None:
    """A cell's colour goes with its median along the house's ramp, its number is legible, an empty one hatched."""
    rows = [*ROWS, {"threshold": 9, "cooldown": 10, "opens": None}]
    ax = sweep_map(rows, x="threshold", y="cooldown", metric="opens")
    cells = {(round(p.get_x() + 0.485), round(p.get_y() + 0.47)): p for p in ax.patches}  # type: ignore[attr-defined]
    assert len(cells) == 8
    numbers = {(n, c): median(r["opens"] for r in ROWS if (r["threshold"], r["cooldown"]) == (n, c))  # type: ignore[type-var, misc]
               for n in (1, 2, 5) for c in (10, 30)}  # fmt: skip
    by_place = {((1, 2, 5).index(n), (10, 30).index(c)): value for (n, c), value in numbers.items()}
    lowest, highest = min(by_place, key=by_place.__getitem__), max(by_place, key=by_place.__getitem__)  # type: ignore[arg-type]
    assert to_hex(cells[lowest].get_facecolor()).upper() == RAMP[0]
    assert to_hex(cells[highest].get_facecolor()).upper() == RAMP[2]
    assert {place for place, cell in cells.items() if cell.get_hatch()} == {(3, 0), (3, 1)}
    shown = [text for text in ax.texts if text.get_position() in by_place]
    assert {text.get_position(): float(text.get_text()) for text in shown} == by_place
    for text in shown:
        ground = to_hex(cells[text.get_position()].get_facecolor())  # type: ignore[index]
        assert contrast(to_hex(text.get_color()).upper(), ground.upper()) >= 4.5
    assert ax.get_ylim()[0] > ax.get_ylim()[1]  # as in the other heat map, downwards


@given(st.lists(st.one_of(st.floats(0.0, 100.0), st.just(0.0), st.just(nan)), max_size=60))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_an_ecdf_rises_to_one(took: list[float]) -> None:
    """Whatever calls took, a line never falls, ends at 1, and is at each place the share that took no longer."""
    made = trace(calls=[(float(n), n + seconds, 0, 0, 0, 1, 0) for n, seconds in enumerate(took)])
    known = [end - start for start, end in zip(made.calls.start, made.calls.end, strict=True) if end == end]
    ax = latency_ecdf({"run": made})
    if not known:
        assert lines(ax) == []
        return
    (line,) = lines(ax)
    xs, ys = line.get_xdata().tolist(), line.get_ydata().tolist()
    assert xs == sorted(set(xs))
    assert ys == sorted(ys)
    assert ys[-1] == 1.0
    for x, y in zip(xs, ys, strict=True):
        assert y == pytest.approx(sum(seconds <= x for seconds in known) / len(known))
    if len(known) < len(took):
        assert words(ax)[-1] == f"{len(took) - len(known)} of run never ended"


def test_attempts_sum_to_the_trace_s() -> None:
    """Each second's height is the attempts that began in it, and all together are all attempts."""
    ax = attempts_per_second(RUNS)
    stairs = [patch for patch in ax.patches if patch.get_label() in RUNS]
    assert [patch.get_label() for patch in stairs] == list(RUNS)
    for made, patch in zip(RUNS.values(), stairs, strict=True):
        values = patch.get_data().values.tolist()  # type: ignore[attr-defined]
        assert sum(values) == len(made.attempts)
        counted = Counter(int(at + 1e-9) for at in made.attempts.start)
        assert {second: value for second, value in enumerate(values) if value} == dict(counted)
        assert len(values) == ceil(made.until)
        assert f"{patch.get_label()}: at most {max(counted.values())}/s" in words(ax)


def test_attempts_are_those_of_a_service() -> None:
    """With `service` only its attempts are counted, and a run that does not have it has none."""
    both = MADE["two breakers"]()
    names = Counter(both.services[place] for place in both.attempts.service)
    for name in both.services:
        ax = attempts_per_second({"a": both, "b": RUNS["with"]}, service=name)
        stairs = {patch.get_label(): patch.get_data().values.sum() for patch in ax.patches if patch.get_label() in "ab"}  # type: ignore[attr-defined, operator]
        assert stairs["a"] == names[name]


def test_an_outage_is_a_band_with_its_words() -> None:
    """What the dependency was told to do is a band where it is the same in all runs, and none where it is not."""
    ax = attempts_per_second(RUNS)
    assert "hangs" in words(ax)
    other = outage(rate=20.0, duration=120.0, down=((40.0, 50.0),))
    assert "hangs" not in words(attempts_per_second({**RUNS, "other": other}))


def test_lines_that_lie_on_each_other_get_a_key() -> None:
    """Where no place is free for a run's words, all runs are named beside the Axes, with line and mark."""
    same = {f"run {n}, with a long name": RUNS["with"] for n in range(9)}
    ax = attempts_per_second(same)
    key = ax.get_legend()
    assert key is not None
    assert [text.get_text() for text in key.get_texts()] == [f"{name}: at most 20/s" for name in same]


def test_names_at_the_ends_do_not_touch() -> None:
    """Lines that end at one place have their names one above the other, all above the axis."""
    rows = [{"x": x, "by": by, "m": 5.0} for x in (1, 2) for by in range(6)] + [{"x": 1, "by": 0, "m": 50.0}]
    ax = sweep_lines(rows, x="x", by="by", metric="m")
    assert isinstance(ax.figure, Figure)
    ax.figure.draw_without_rendering()
    boxes = sorted((text.get_window_extent() for text in ax.texts[:6]), key=lambda box: float(box.y0))
    assert all(under.y1 <= over.y0 + 1.5 for under, over in pairwise(boxes))
    assert boxes[0].y0 >= ax.get_window_extent().y0 - 1.0


@pytest.mark.parametrize("dark", [False, True])
def test_the_style_is_the_house_s(dark: bool) -> None:
    """A figure has the house's colours and type and a transparent ground, and leaves nothing behind."""
    inks = DARK if dark else PAPER
    before = dict(matplotlib.rcParams)
    with house_style(dark=dark):
        ax = sweep_lines(TABLE, x="threshold", metric="opens")
        assert [to_hex(line.get_color()).upper() for line in lines(ax)] == [one.colour for one in SERIES[:2]]
        assert to_hex(ax.texts[0].get_color()).upper() == inks["text"]
        assert to_hex(ax.spines["left"].get_edgecolor()).upper() == inks["line"]
        assert to_hex(ax.xaxis.label.get_color()).upper() == inks["muted"]
        content = figure_bytes(ax.figure, "png")  # type: ignore[arg-type]
    assert dict(matplotlib.rcParams) == before
    assert Image.open(BytesIO(content)).convert("RGBA").getpixel((1, 1))[3] == 0  # type: ignore[index]
    named = {value.upper() for value in rc_params(dark=dark).values() if str(value).startswith("#")}
    assert named <= set(inks.values())


def test_an_axes_that_one_passes_is_drawn_into() -> None:
    """A figure goes into the Axes that it is given, in the style in force, and returns it."""
    with matplotlib.rc_context({"text.color": "#123456"}):
        left, right = Figure((9.0, 3.0)).subplots(1, 2)
        assert sweep_lines(TABLE, x="threshold", metric="opens", ax=left) is left
        assert latency_ecdf(RUNS, ax=right) is right
        assert to_hex(left.texts[0].get_color()) == "#123456"
    assert left.figure is right.figure


def test_names_are_words_and_no_formulas() -> None:
    """A name with dollar signs or braces is written as it is, and drawing it is no error."""
    ax = latency_ecdf({"$1 and $x_": RUNS["with"], r"\frac{": RUNS["without"]})
    assert figure_bytes(ax.figure, "svg").startswith(b"<?xml")  # type: ignore[arg-type]
    ax = sweep_lines([{"$a$": "$^", "$m_": 1.0}, {"$a$": "b$", "$m_": 2.0}], x="$a$", metric="$m_")
    assert figure_bytes(ax.figure, "png").startswith(b"\x89PNG")  # type: ignore[arg-type]


def test_the_same_figure_is_the_same_bytes() -> None:
    """Drawn in two processes with other hash seeds, a figure's files are the same, and pyplot has no part in it."""
    code = (
        "import sys; from hashlib import sha256; from labkit.plots.figures import *\n"
        "rows = [{'a': a, 'b': b, 'm': a * b + s, 'seed': s} for a in (1, 2, 3) for b in (1, 4) for s in (0, 1, 2)]\n"
        "for ending in ('png', 'svg', 'pdf'):\n"
        "    made = figure_bytes(sweep_lines(rows, x='a', by='b', metric='m').figure, ending)\n"
        "    print(len(made) > 2000, sha256(made).hexdigest())\n"
        "print('matplotlib.pyplot' in sys.modules)"
    )
    told = [
        subprocess.run(
            [sys.executable, "-c", code], check=True, capture_output=True, text=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout.split()
        for seed in ("1", "2")
    ]  # fmt: skip
    assert told[0] == told[1]
    assert told[0][::2] == ["True", "True", "True", "False"]
