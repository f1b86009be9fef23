"""What leaves an adapter and what a breaker then counts, drawn."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from labkit.plots.draw.shapes import Box, Disc, Words
from labkit.plots.draw.style import STATES
from labkit.plots.machines.boundary import Passage, boundary
from tests.plots import geometry

ROWS = [
    Passage("in_process", "raises", "DependencyError", "a text", ["failure"] * 3 + ["rejection"] * 17, "OPEN", "3, 17"),
    Passage("none", "hands on", "", "Service error: not available", ["success"] * 20, "CLOSED", "20 successes"),
]


@pytest.mark.parametrize("width", [860.0, 480.0])
def test_a_row_an_adapter(width: float) -> None:
    """Each row says value or exception, shows twenty marks, and has the state as a word and a texture."""
    made = boundary("200, a text", ROWS, lit="none", width=width)
    said = geometry.texts(made)
    assert said.count("value") == said.count("exception") == 1
    assert "DependencyError" in said
    assert {"open", "closed"} <= set(said)
    assert sum(isinstance(shape, Disc) for shape in made.shapes) == 20
    states = [shape.texture for shape in made.shapes if isinstance(shape, Box) and shape.fill == STATES["OPEN"].colour]
    assert states == ["hatch", "solid"]
    ElementTree.fromstring(made.svg())


LONG = Passage(
    "raise_business",
    "takes only a reply for an answer, and raises on anything else, whatever it says",
    "BusinessRejection",
    "1 chunk, then: the stream of parts_availability broke off after 1 chunk, and nobody knows why it did that",
    ["timeout"] * 20,
    "HALF_OPEN",
    "counts 20 successes; 20 live answers",
)


@pytest.mark.parametrize("width", [860.0, 480.0])
def test_long_words_have_room(width: float) -> None:
    """However long the words are, nothing leaves the picture, and no words lie on others."""
    made = boundary("200, the text “Service error”", [LONG] * 4, lit="none", width=width)
    assert geometry.outside(made) == []
    assert geometry.overlapping(made) == []


def test_the_chosen_row_is_framed() -> None:
    """The chosen adapter has the one thick frame."""
    made = boundary("200, a text", ROWS, lit="none")
    thick = [shape for shape in made.shapes if isinstance(shape, Box) and shape.line > 3.0]
    names = [shape for shape in made.shapes if isinstance(shape, Words) and shape.text == "none"]
    assert [box.y < names[0].y < box.y + box.height for box in thick] == [True]


def test_it_is_told_in_words() -> None:
    """For who cannot see it, each row is a sentence."""
    alt = boundary("200, a text", ROWS, lit="none").alt
    assert "in_process: the exception DependencyError leaves; the breaker is open, 3, 17." in alt
    assert "none (chosen): a value, Service error: not available leaves; the breaker is closed, 20 successes." in alt
