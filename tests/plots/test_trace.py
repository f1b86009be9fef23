"""The timeline shows what is in the trace, in numbers that are the trace's, at a height that never changes."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from io import BytesIO
from itertools import pairwise
from math import ceil, floor, nan
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from labkit.plots import Picture, trace_timeline
from labkit.plots.draw.shapes import Area, Box, Line, Words
from labkit.plots.draw.style import LINES, MARKS, STATES
from labkit.plots.runs.binned import axis_of, binned, round_step
from labkit.scenario.run.trace import FaultPeriod, Trace
from tests.plots.geometry import outside, overlapping, texts, words_of
from tests.plots.synthetic import MADE, outage, trace

TRACES = {name: make() for name, make in MADE.items()}
WIDTHS = (860.0, 640.0, 480.0)


def lines(picture: Picture, ink: str) -> list[Line]:
    """Its open lines in that ink."""
    return [shape for shape in picture.shapes if isinstance(shape, Line) and shape.stroke == ink and not shape.closed]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", TRACES)
def test_everything_is_inside_and_no_words_lie_on_words(name: str, width: float) -> None:
    """Whatever the trace, and as narrow as a phone, nothing leaves the picture and every text can be read."""
    made = trace_timeline(TRACES[name], width=width)
    assert outside(made) == []
    assert overlapping(made) == []


@pytest.mark.parametrize("name", TRACES)
def test_the_height_never_changes(name: str) -> None:
    """A redrawn picture does not jump: its height depends on no data, and its width is the one asked for."""
    heights = {trace_timeline(TRACES[name], width=width).height for width in WIDTHS}
    assert heights == {trace_timeline(TRACES["outage"]).height}


@pytest.mark.parametrize("name", TRACES)
def test_the_same_trace_gives_the_same_picture(name: str) -> None:
    """Two drawings of one trace are equal shape by shape, and so are their bytes."""
    one, other = (trace_timeline(MADE[name]()) for _ in range(2))
    assert one.shapes == other.shapes
    assert one.alt == other.alt
    assert one.svg() == other.svg()


def test_the_same_bytes_in_another_process() -> None:
    """Nothing of one process, such as its hash seed, gets into a timeline."""
    code = (
        "import hashlib\nfrom labkit.plots import trace_timeline\nfrom tests.plots.synthetic import MADE\n"
        "made = trace_timeline(MADE['two breakers']())\n"
        "print(hashlib.sha256(made.svg().encode() + made.svg(themed=True).encode() + made.png(1.0)).hexdigest())"
    )
    root = str(Path(__file__).resolve().parents[2])
    runs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": root},
            capture_output=True,
            check=True,
            text=True,
            cwd=root,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(runs) == 1


@pytest.mark.parametrize("themed", [False, True])
@pytest.mark.parametrize("name", TRACES)
def test_its_svg_is_sound(name: str, themed: bool) -> None:
    """The SVG of every timeline is well-formed, and each pattern that it uses is defined in it."""
    text = trace_timeline(TRACES[name]).svg(themed=themed)
    known = {each.get("id") for each in ElementTree.fromstring(text).iter()}
    assert {part.split(")")[0] for part in text.split("url(#")[1:]} <= known


def test_its_svg_is_small() -> None:
    """24,000 calls make lines of some hundred points, not shapes by the thousand."""
    made = trace_timeline(TRACES["outage"])
    assert len(made.shapes) < 400
    assert len(made.svg()) < 80_000
    assert len(trace_timeline(TRACES["flapping"]).shapes) < 2000


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("outage", ["24,000 offered", "13,738 answered", "10,070 told unavailable", "192 timed out"]),
        ("many replicas", ["24,000 offered", "10,050 rejected"]),
        ("capacity", ["16 gave up"]),
        ("no breaker", ["9,280 timed out", "at most 240/s", "at most 480", "600 workers"]),
    ],
)
def test_numbers_stand_at_what_they_count(name: str, expected: list[str]) -> None:
    """What became of the calls, the peak of the attempts and the limit are written in the picture."""
    assert set(expected) <= set(texts(trace_timeline(TRACES[name])))


def test_the_counts_are_the_trace_s() -> None:
    """Every call is counted once, by how it ended, whether it fell into a bin or not."""
    made = TRACES["capacity"]
    data = binned(made, axis_of([made]))
    kinds = ("answered", "not_useful", "failed", "cancelled", "unavailable", "unfinished")
    assert sum(data.counts[kind] for kind in kinds) == data.counts["offered"] == len(made.calls)
    assert data.counts["answered"] == sum(made.calls.useful)
    assert data.counts["attempts"] == len(made.attempts)


def test_a_rate_is_events_a_second() -> None:
    """80 calls a second are 80 in every bin while they are offered, and attempts without a breaker three times that."""
    made = TRACES["no breaker"]
    data = binned(made, axis_of([made]))
    assert {round(rate, 6) for rate in data.offered} == {80.0}
    assert max(data.attempts["parts_availability"]) == 240.0
    assert data.attempts_peak["parts_availability"][0] == 240


def test_the_most_at_once_is_found_between_the_edges_of_bins() -> None:
    """Three attempts that share an instant are three at once, wherever the bins begin; one that ends then is not."""
    made = trace(
        attempts=[(-1, 0, 0, 0.31, 0.31, 0.42, 0), (-1, 0, 0, 0.42, 0.42, 0.49, 0), (-1, 0, 0, 0.45, 0.45, 0.46, 0),
                  (-1, 0, 0, 0.451, 0.451, nan, 10)],
    )  # fmt: skip
    data = binned(made, axis_of([made]))
    assert data.in_flight_peak["parts_availability"] == (3, 0.451)
    assert max(data.in_flight["parts_availability"]) == 3.0
    assert data.in_flight["parts_availability"][-1] == 1.0


def test_percentiles_are_values_of_the_trace() -> None:
    """p50 and p95 of a bin are the least latencies that so large a share does not pass; an empty bin has none."""
    calls = [(float(n) / 100, float(n) / 100 + 0.001 * (n + 1), 0, 0, 0, 1, 0) for n in range(20)]
    made = trace(duration=5.0, until=5.0, calls=calls)
    data = binned(made, axis_of([made]))
    assert data.latency == pytest.approx((0.010, 0.019))
    assert data.axis.step == pytest.approx(0.2)
    assert (data.median[0], data.p95[0]) == pytest.approx((0.010, 0.019), abs=0.002)
    assert data.median[5] != data.median[5]


times = st.one_of(st.floats(0.0, 14.0), st.integers(0, 12).map(float), st.sampled_from([0.1, 0.30000000000000004, 7.7]))


@given(
    st.lists(
        st.tuples(times, st.one_of(st.floats(0.0, 6.0), st.sampled_from([0.0, 2.0, nan])), st.integers(0, 6),
                  st.booleans(), st.integers(0, 1)),
        max_size=60,
    ),
    st.sampled_from([10.0, 9.3, 12.0]),
)  # fmt: skip
@settings(max_examples=150, deadline=None)
def test_bins_are_what_one_counts_call_by_call(rows: list[tuple[float, float, int, bool, int]], until: float) -> None:
    """Rates, levels, peaks and percentiles are those that a plain count over calls and attempts gives."""
    rows = sorted(rows, key=lambda row: row[0])
    made = trace(
        until=until,
        services=("one", "other"),
        calls=[(start, start + took, 0, 0, code, int(useful), 0) for start, took, code, useful, _ in rows],
        attempts=[
            (row, whose, 0, start, start, start + took, 0) for row, (start, took, _, _, whose) in enumerate(rows)
        ],
    )
    axis = axis_of([made])
    data = binned(made, axis)

    def bin_of(at: float) -> int | None:
        inside = 0.0 <= at <= axis.end  # not NaN
        return min(axis.bins - 1, floor(at / axis.step + 1e-7)) if inside else None

    over = [
        (start + took, (start + took) - start, code, useful) for start, took, code, useful, _ in rows if took == took
    ]
    wide = {place: min(axis.step, until - place * axis.step) for place in range(axis.bins)}
    for place in range(axis.bins):
        here = [one for one in over if bin_of(one[0]) == place]
        seconds = wide[place] if wide[place] > 0.25 * axis.step else axis.step
        assert data.ended["answered"][place] == pytest.approx(sum(useful for *_, useful in here) / seconds)
        assert sum(rates[place] for rates in data.ended.values()) == pytest.approx(len(here) / seconds)
        if data.offered[place] == data.offered[place]:
            assert data.offered[place] == pytest.approx(sum(bin_of(row[0]) == place for row in rows) / axis.step)
        if not here:
            assert data.p95[place] != data.p95[place]
            continue
        for line, share in ((data.median, 0.5), (data.p95, 0.95)):
            ranked = sorted(took for _, took, *_ in here)
            assert line[place] == pytest.approx(ranked[ceil(share * len(ranked) - 1e-9) - 1], abs=1e-9)
    for whose, name in enumerate(made.services):
        mine = [(start, start + took) for start, took, *_, service in rows if service == whose]
        if not mine:
            assert name not in data.attempts
            continue
        inside = [start for start, _ in mine if bin_of(start) is not None]
        assert data.attempts_peak[name][0] == max(Counter(floor(at + 1e-9) for at in inside).values(), default=0)
        levels = {
            row: sum(other <= at for other in inside[: row + 1]) - sum(end <= at for _, end in mine)
            for row, at in enumerate(inside)
        }
        assert data.in_flight_peak[name][0] == max([0, *levels.values()])
        for place in range(axis.bins):
            edge = place * axis.step
            least = sum(at < edge for at in inside) - sum(end <= edge for _, end in mine)
            here = [levels[row] for row, at in enumerate(inside) if bin_of(at) == place]
            assert data.in_flight[name][place] == max([0, least, *here])


def test_the_ribbon_has_a_row_a_replica_and_its_states_in_order() -> None:
    """Each replica's row is covered from zero to the end by states that touch, as the trace has them."""
    made = trace_timeline(TRACES["outage"])
    colours = {style.colour: name for name, style in STATES.items()}
    rows: dict[float, list[Box]] = {}
    for shape in made.shapes:
        if isinstance(shape, Box) and shape.fill in colours and shape.height > 15.0:
            rows.setdefault(shape.y, []).append(shape)
    assert len(rows) == 4
    for row in rows.values():
        assert row[0].x == 54.0
        assert row[-1].x + row[-1].width == pytest.approx(844.0, abs=0.02)
        for one, other in pairwise(row):
            assert one.x + one.width == pytest.approx(other.x, abs=0.02)
        states = [colours[box.fill] for box in row]
        assert states[:2] == ["CLOSED", "OPEN"]
        assert states[-1] == "CLOSED"
        assert all(box.texture == STATES[colours[box.fill]].texture for box in row)


def test_times_of_transitions_are_written_where_there_is_room() -> None:
    """When a breaker opened and closed stands in its row."""
    made = trace(
        duration=100.0,
        until=100.0,
        transitions=[(20.04, 0, 0, 0, 1), (60.0, 0, 0, 0, 2), (60.5, 0, 0, 0, 0)],
        probes=[(0, 0, 0, 60.0, 60.5, 0)],
    )
    written = texts(trace_timeline(made))
    assert {"closed", "opened 20.0 s", "closed 60.5 s"} <= set(written)


def test_probes_are_diamonds_filled_when_they_succeeded() -> None:
    """A probe that succeeded and one that failed differ in more than their colour."""
    made = trace_timeline(
        trace(
            transitions=[(2.0, 0, 0, 0, 1), (5.0, 0, 0, 0, 2)],
            probes=[(0, 0, 0, 5.0, 5.5, 0), (0, 0, 0, 8.0, 9.0, 1)],
        )
    )
    diamonds = [s for s in made.shapes if isinstance(s, Line) and s.closed and s.stroke == MARKS["probe"].colour]
    in_row = sorted(diamonds, key=lambda shape: shape.points[0][1])[-2:]
    assert [shape.fill for shape in sorted(in_row, key=lambda shape: shape.points[0][0])] == [
        MARKS["probe"].colour,
        "#FFFFFF",
    ]
    assert {"probe", "failed probe"} <= set(texts(made))


def test_many_breakers_are_drawn_as_how_many_are_in_which_state() -> None:
    """Thirty replicas have no row each, but areas whose textures are the states'."""
    made = trace_timeline(TRACES["many replicas"])
    textures = {(shape.fill, shape.texture) for shape in made.shapes if isinstance(shape, Area)}
    assert {(style.colour, style.texture) for style in STATES.values()} <= textures


def test_a_fault_is_a_band_through_every_panel() -> None:
    """An outage from 60 to 180 s lies behind all five panels at the same place, and is told in words above them."""
    made = trace_timeline(TRACES["outage"])
    bands = [shape for shape in made.shapes if isinstance(shape, Box) and shape.fill == "band"]
    assert len(bands) == 5
    assert {(band.x, band.width) for band in bands} == {(212.0, 315.0)}
    assert "hangs" in texts(made)


def test_a_fault_that_comes_again_is_told_once() -> None:
    """Many periods of the same fault are bands without words but for the first, which says how many."""
    assert texts(trace_timeline(TRACES["flapping"])).count("hangs (26 times)") == 1


def test_two_services_have_a_line_and_a_limit_each() -> None:
    """Each service's attempts have a line of their own thickness, and each limit is named after its service."""
    made = trace_timeline(TRACES["two breakers"])
    thick = {line.line for line in lines(made, LINES["attempts"].colour)}
    assert len(thick) >= 2
    written = " ".join(texts(made))
    for service, workers in TRACES["two breakers"].capacity.items():
        assert f"{service}: {workers} workers" in written
    assert {"availability_breaker", "documents_breaker"} <= set(texts(made))


def test_no_breaker_is_said_so() -> None:
    """A run without a breaker, and one whose breakers did nothing, say which of the two it was."""
    assert "no breaker" in texts(trace_timeline(TRACES["no breaker"]))
    assert "no breaker changed its state" in texts(trace_timeline(TRACES["healthy"]))


def test_a_bulkhead_is_not_drawn_as_a_breaker() -> None:
    """What turned calls away without ever changing its state gets no row of states."""
    made = trace(breakers=("room",), calls=[(1.0, 1.0, 0, 0, 2, 0, 0)], rejections=[(1.0, 0, 0, 0, 0, 1)])
    assert "no breaker changed its state" in texts(trace_timeline(made))


def test_an_answer_of_no_use_is_not_drawn_as_an_answer() -> None:
    """A call that returned a text about an error has a texture and words of its own."""
    calls = [(n / 10, n / 10 + 0.05, 0, 0, 0, int(n < 50), 0) for n in range(100)]
    made = trace_timeline(trace(calls=calls))
    assert {"50 answered", "50 answered, of no use"} <= set(texts(made))
    assert LINES["not_useful"].texture != LINES["answered"].texture


def test_the_words_tell_what_the_picture_shows() -> None:
    """The alternative text has the calls, the fault, the breakers and the peaks, with their numbers."""
    assert trace_timeline(TRACES["outage"]).alt == (
        "24,000 calls in 300 s: 13,738 answered, 192 timed out, 10,070 told unavailable. From 60 to 180 s: hangs. "
        "Breakers opened 16 times, first at 62.2 s, and sent 24 probes; at the end: 4 closed. parts_availability saw "
        "at most 80 attempts a second and 160 at once. Half of the calls took up to 32 ms, 95 % up to 89 ms."
    )
    assert trace_timeline(TRACES["empty"]).alt == "No calls arrived in 10 s. No breaker opened."


def test_bins_are_round_and_few_calls_have_wide_ones() -> None:
    """300 s have bins of 2 s; where a bin would hold a call or none, bins are wider."""
    assert axis_of([TRACES["outage"]]) == (2.0, 150)
    assert axis_of([TRACES["outage"]], most=100).step == 5.0
    assert axis_of([TRACES["one second"]]).step == pytest.approx(0.05)
    assert axis_of([trace(duration=20.0, until=20.0, calls=[(1.0, 2.0, 0, 0, 0, 1, 0)] * 7)]) == (1.0, 20)
    assert [round_step(least) for least in (0.3, 1.0, 1.01, 7.0, 40.0)] == [0.5, 1.0, 2.0, 10.0, 50.0]


def test_its_png_has_the_colours_of_the_look() -> None:
    """The file's panels, bands and states have exactly the colours that the style gives them."""
    made = Image.open(BytesIO(trace_timeline(TRACES["outage"]).png(1.0))).convert("RGB")
    seen = {colour for _, colour in made.getcolors(1 << 24) or []}
    assert {(0xF5, 0xF6, 0xF8), (0xFB, 0xED, 0xE2), (255, 255, 255), (0x00, 0x72, 0xB2), (0xC2, 0x4E, 0x00)} <= seen


times = st.floats(-1.0, 30.0) | st.just(nan)
small = st.integers(0, 3)
CALLS = st.lists(st.tuples(times, times, small, small, st.integers(0, 6), st.integers(0, 1), small), max_size=30)
ATTEMPTS = st.lists(
    st.tuples(st.integers(-1, 5), st.integers(0, 2), small, st.floats(-1.0, 30.0), times, times, st.integers(0, 10)),
    max_size=30,
)
PROBES = st.lists(
    st.tuples(st.integers(0, 1), st.integers(0, 1), small, st.floats(0.0, 30.0), times, small), max_size=20
)
REJECTIONS = st.lists(
    st.tuples(st.floats(0.0, 30.0), st.integers(0, 1), st.integers(0, 1), small, st.integers(-1, 5), st.integers(0, 2)),
    max_size=20,
)
TRANSITIONS = st.lists(
    st.tuples(st.floats(0.0, 30.0), st.integers(0, 1), st.integers(0, 1), small, st.integers(0, 2)), max_size=40
)
FAULTS = st.lists(
    st.builds(
        FaultPeriod,
        st.sampled_from(["parts", "documents"]),
        st.floats(0.0, 20.0),
        st.floats(0.0, 40.0),
        st.sampled_from(["hang", "healthy", "capacity"]),
        st.text(st.sampled_from("ab <&"), max_size=60),
    ),
    max_size=5,
)


@st.composite
def any_trace(draw: st.DrawFn) -> Trace:
    """A trace of anything, sensible or not."""
    duration = draw(st.sampled_from([0.0, 0.003, 1.0, 20.0, 5000.0]))
    return trace(
        title=draw(st.text(max_size=80)),
        duration=duration,
        until=duration + draw(st.sampled_from([0.0, 0.5, 60.0])),
        replicas=draw(st.integers(0, 40)),
        functions=("parts", "documents", "assistant", "more"),
        services=("parts", "documents", "a_service_with_a_very_long_name_indeed"),
        breakers=("one", "other") if draw(st.booleans()) else (),
        targets=("parts", "documents"),
        capacity=draw(st.dictionaries(st.sampled_from(["parts", "documents"]), st.integers(1, 100_000))),
        faults=tuple(draw(FAULTS)),
        calls=sorted(draw(CALLS), key=str),
        attempts=draw(ATTEMPTS),
        probes=draw(PROBES),
        rejections=draw(REJECTIONS),
        transitions=sorted(draw(TRANSITIONS)),
    )


@settings(max_examples=60)
@given(any_trace(), st.sampled_from([860.0, 480.0, 300.0]))
def test_any_trace_draws(made: Trace, width: float) -> None:
    """Whatever is in the columns, there is a picture in which nothing leaves the canvas, and its SVG is sound."""
    picture = trace_timeline(made, width=width)
    assert outside(picture) == []
    assert overlapping(picture) == []
    assert all(value == value for shape in words_of(picture) for value in (shape.x, shape.y))
    ElementTree.fromstring(picture.svg(themed=True))


def test_words_are_text_whatever_they_say() -> None:
    """A title and a fault's words that look like SVG stay text."""
    hostile = "</text><script>alert(1)</script>"
    made = trace(title=hostile, faults=(FaultPeriod("parts", 1.0, 9.0, "hang", hostile),))
    root = ElementTree.fromstring(trace_timeline(made).svg())
    assert not [each for each in root.iter() if each.tag.endswith("script")]


def test_labels_are_written_in_an_ink_of_the_page() -> None:
    """No text takes a colour that only one theme can show, but for white on a state's own colour."""
    inks = {shape.ink for shape in trace_timeline(outage(rate=20.0)).shapes if isinstance(shape, Words)}
    assert inks <= {"text", "muted", "#FFFFFF"}
