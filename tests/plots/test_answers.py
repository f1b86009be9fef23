"""The picture of what users were told."""

from __future__ import annotations

from functools import lru_cache
from xml.etree import ElementTree

import pytest

from labkit.plots import Picture
from labkit.plots.draw.shapes import Box, Disc, Line
from labkit.plots.draw.style import MARKS
from labkit.plots.runs.answers import answers_timeline
from labkit.scenario.watch.answers import Answers, ask
from labkit.widgets.explorers.fallback import FallbackModel
from tests.plots import geometry

KINDS = {
    "unavailable": {},
    "invented": {"guess": True},
    "error": {"fallback": False, "on_error": "raise"},
    "dark": {"breaker": "assistant", "on_error": "raise"},
    "hang": {"fault": "hang"},
    "text": {"fault": "error_shaped_string"},
}


@lru_cache
def heard(kind: str) -> Answers:
    """The answers of a run of the explorer."""
    return ask(FallbackModel(**KINDS[kind]).runs[""].scenario)


def drawn(kind: str, width: float = 860.0) -> Picture:
    """Their picture."""
    return answers_timeline(heard(kind), service="parts_availability", width=width)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", [860.0, 480.0])
def test_nothing_lies_on_anything_or_outside(kind: str, width: float) -> None:
    """Everything is inside, no words lie on words, and the height is always the same."""
    made = drawn(kind, width)
    assert geometry.outside(made) == []
    assert geometry.overlapping(made) == []
    assert made.height == drawn("unavailable").height
    ElementTree.fromstring(made.svg(themed=True))


def counted(made: Picture) -> dict[str, int]:
    """How many marks of each kind there are, those of the legend left out."""
    bottom = made.height - 20.0
    squares = [
        s for s in made.shapes if isinstance(s, Box) and s.stroke == MARKS["unavailable"].colour and s.y < bottom
    ]
    dots = [s for s in made.shapes if isinstance(s, Disc) and s.fill == MARKS["success"].colour and s.y < bottom]
    triangles = [
        s for s in made.shapes if isinstance(s, Line) and s.closed and len(s.points) == 3
        and s.stroke == MARKS["not_useful"].colour and s.points[0][1] < bottom
    ]  # fmt: skip
    return {"unavailable": len(squares), "dots": len(dots), "invented": len(triangles)}


@pytest.mark.parametrize("kind", ["unavailable", "invented", "error", "dark"])
def test_every_question_has_its_mark(kind: str) -> None:
    """As many marks of a kind as answers of it; what was answered by the service has its own below."""
    counts, marks = heard(kind).counts(), counted(drawn(kind))
    trace = heard(kind).trace
    answered = sum(
        outcome == 0 and trace.services[service] == "parts_availability"
        for service, outcome in zip(trace.attempts.service, trace.attempts.outcome, strict=True)
    )
    assert marks["unavailable"] == counts["unavailable"]
    assert marks["invented"] == counts["invented"]
    assert marks["dots"] == counts["live"] + answered


def test_it_says_in_words_what_is_invented() -> None:
    """The lane's head and the words that stand for the picture give the number of invented answers."""
    made = drawn("invented")
    many = heard("invented").counts("stock")["invented"]
    assert many > 0
    assert any(f"{many} invented" in text for text in geometry.texts(made))
    assert f"{many} invented" in made.alt
    assert "invented" not in drawn("unavailable").alt


def test_a_breaker_that_never_opened_is_closed_all_along() -> None:
    """Its row is one box, and says so."""
    made = drawn("text")
    assert "closed" in geometry.texts(made)
    assert "it never opened" in geometry.texts(made)
