"""The picture of one stream."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import pytest

from labkit.plots import Picture
from labkit.plots.draw.shapes import Area, Box, Disc, Line
from labkit.plots.draw.style import STATES
from labkit.plots.runs.streams import stream_timeline
from tests.plots import geometry
from tests.scenario.test_streams import followed, probed

SLOW = "{distribution: uniform, low: 2.5, high: 2.5}"
QUICK = "{distribution: uniform, low: 0.05, high: 0.1}"
KINDS: dict[str, tuple[Any, dict[str, str]]] = {
    "read": (followed, {}),
    "probe": (probed, {"workload__1__consumer_pause": "0.8"}),
    "left": (probed, {"workload__1__close_after": "2"}),
    "late": (probed, {"services__parts_availability__latency": SLOW}),
    "busy": (followed, {"workload__1__consumer_pause": "3.5"}),
    "quick": (followed, {"services__parts_availability__latency": QUICK, "middleware__breaker__probe_timeout": "null"}),
    "long": (probed, {"workload__1__consumer_pause": "8", "middleware__limit__timeout": "300"}),
}


def drawn(kind: str, width: float = 860.0) -> Picture:
    """The picture of the last stream."""
    make, values = KINDS[kind]
    return stream_timeline(make(**values).streams[-1], width=width)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", [860.0, 480.0, 360.0])
def test_nothing_lies_on_anything_or_outside(kind: str, width: float) -> None:
    """At every width everything is inside, no words lie on words, and the height is always the same."""
    made = drawn(kind, width)
    assert geometry.outside(made) == []
    assert geometry.overlapping(made) == []
    assert made.height == drawn("read").height
    ElementTree.fromstring(made.svg(themed=True))


def tops(made: Picture) -> list[list[tuple[float, float]]]:
    """What the clocks filled: the corners of each."""
    return [list(shape.points) for shape in made.shapes if isinstance(shape, Area) and shape.fade < 1.0]


def test_a_probes_clock_begins_anew_and_stands_still() -> None:
    """The whole stream's clock rises once, a probe's once a wait, with a dashed stretch for each pause between."""
    made = drawn("probe")
    whole, *waits = tops(made)
    assert len(waits) == 4
    assert waits[0][0][0] == whole[0][0]
    assert waits[1][0][0] > waits[0][1][0], "it begins only after the reader's pause"
    still = [shape for shape in made.shapes if isinstance(shape, Line) and shape.dash and shape.line == 3.0]
    assert len(still) == 4


def test_an_ordinary_call_has_no_probes_clock() -> None:
    """It says so in words, and draws nothing."""
    made = drawn("read")
    assert len(tops(made)) == 1
    assert "an ordinary call: its clock never runs" in geometry.texts(made)
    assert "no probe_timeout" in geometry.texts(drawn("quick"))


def test_what_ran_out_is_marked_where_it_did() -> None:
    """A limit that was reached has its mark on the limit's line; where the reader was busy, the toolkit is named."""
    late, busy = drawn("late"), drawn("busy")
    assert "ran out at 2 s" in geometry.texts(late)
    assert "ran out at 8 s: here toolkit 1.9.0 cancels the reader" in geometry.texts(busy)
    assert "ran out at 8 s" in geometry.texts(drawn("busy", 480.0))
    assert not any("1.9.0" in text for text in geometry.texts(late))


def test_every_chunk_is_there() -> None:
    """As many discs as chunks came, numbered where there is room for a number."""
    discs = [shape for shape in drawn("read").shapes if isinstance(shape, Disc) and shape.fill == "text"]
    assert len(discs) == 4
    quick = drawn("quick", 360.0)
    assert len([shape for shape in quick.shapes if isinstance(shape, Disc) and shape.fill == "text"]) == 4


def test_the_breaker_changes_at_the_end_of_the_stream() -> None:
    """Half-open while the probe is read, closed from its end on, in the states' own colours and textures."""
    made = drawn("probe")
    boxes = [shape for shape in made.shapes if isinstance(shape, Box) and shape.height == 22.0]
    assert [(box.fill, box.texture) for box in boxes] == [
        (STATES[state].colour, STATES[state].texture) for state in ("HALF_OPEN", "CLOSED")
    ]
