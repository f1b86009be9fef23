"""The picture of what a service's workers did."""

from __future__ import annotations

from functools import lru_cache
from xml.etree import ElementTree

import pytest

from labkit.plots import Picture
from labkit.plots.draw.shapes import Area, Line
from labkit.plots.runs.workers import work_timeline
from labkit.scenario import Trace, run_scenario
from labkit.scenario.read.workers import work
from tests.plots import geometry
from tests.scenario.test_work import BASE

KINDS: dict[str, dict[str, str]] = {
    "storm": {},
    "budget": {"middleware.again.budget": "budget"},
    "healthy": {"services.parts_availability.faults": "[]"},
    "useful": {"services.parts_availability.workers": "8", "workload.0.rate": "12"},
    "crowd": {"workload.0.rate": "30", "middleware.again.attempts": "4"},
    "hopeless": {"middleware.limit.timeout": "0.1"},
}


@lru_cache
def traced(kind: str) -> Trace:
    """A run."""
    return run_scenario(BASE.with_values(KINDS[kind]))


def drawn(kind: str, width: float = 860.0) -> Picture:
    """Its picture."""
    return work_timeline(traced(kind), work(traced(kind)), width=width)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", [860.0, 480.0])
def test_nothing_lies_on_anything_or_outside(kind: str, width: float) -> None:
    """Everything is inside, no words lie on words, the height is always the same, and it is drawn in both ways."""
    made = drawn(kind, width)
    assert geometry.outside(made) == []
    assert geometry.overlapping(made) == []
    assert made.height == drawn("storm").height
    ElementTree.fromstring(made.svg(themed=True))
    assert made.png(1.0).startswith(b"\x89PNG")


def bar(made: Picture) -> list[float]:
    """How wide the parts of the bar are."""
    areas = [shape for shape in made.shapes if isinstance(shape, Area) and len(shape.points) == 4]
    return [area.points[1][0] - area.points[0][0] for area in areas if area.points[2][1] - area.points[0][1] == 30.0]


@pytest.mark.parametrize("kind", ["storm", "budget", "useful"])
def test_the_bar_is_split_as_the_work_was(kind: str) -> None:
    """Each part is as wide as its share, and says it in per cent where there is room."""
    made, done = drawn(kind), work(traced(kind))
    shares = [done.share(one) for one in ("first", "retried", "wasted")]
    wide = 860.0 - 16.0 - 10.0
    assert bar(made) == pytest.approx([share * wide for share in shares if share * wide > 0.2], abs=0.1)
    most = max(shares)
    assert f"{most * 100:.0f} %" in geometry.texts(made)


def test_the_limits_are_drawn_and_named() -> None:
    """What the service can answer and how many workers it has are dashed lines, with their words in the head."""
    made = drawn("storm")
    assert "25 a second can be answered" in geometry.texts(made)
    assert "5 workers" in geometry.texts(made)
    long = [s for s in made.shapes if isinstance(s, Line) and s.dash and s.points[1][0] - s.points[0][0] > 700.0]
    assert len(long) == 2


def test_without_an_answer_there_is_no_limit_to_draw() -> None:
    """Where nothing was answered, nobody knows what could have been."""
    made = drawn("hopeless")
    assert not any("can be answered" in text for text in geometry.texts(made))
    long = [s for s in made.shapes if isinstance(s, Line) and s.dash and s.points[1][0] - s.points[0][0] > 700.0]
    assert len(long) == 1


def test_it_says_what_it_shows() -> None:
    """The words that stand for it are those of the work."""
    assert drawn("storm").alt == " ".join(work(traced("storm")).told())
