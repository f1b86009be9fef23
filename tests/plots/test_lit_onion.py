"""The onion with the place lit in which a call is."""

from __future__ import annotations

import pytest

from labkit.plots import Layer, Picture, onion
from labkit.plots.draw.shapes import Box, Disc, Line, Words
from labkit.plots.draw.style import MARKS
from labkit.plots.machines.onion import Lit
from tests.plots import geometry

LAYERS = [
    Layer("retry", "retry", {"attempts": 3}),
    Layer("breaker", "circuit_breaker", {"failure_threshold": 5}),
    Layer("timeout", "timeout", {"timeout": 2.0}),
]


def frames(picture: Picture) -> list[Box]:
    """The thick frames in it."""
    return [shape for shape in picture.shapes if isinstance(shape, Box) and shape.line == 4.0]


def box_of(picture: Picture, place: int) -> Box:
    """The box of a layer, or, one further, of the dependency."""
    boxes = [shape for shape in picture.shapes if isinstance(shape, Box) and shape.radius in (8.0, 10.0)]
    return boxes[place]


@pytest.mark.parametrize("place", [0, 1, 2, 3])
def test_one_place_is_framed(place: int) -> None:
    """The frame stands around the layer, or the dependency, in which the call is, and around nothing else."""
    made = onion(LAYERS, "parts", lit=Lit(place, "in"))
    assert geometry.outside(made) == []
    assert geometry.overlapping(made) == []
    (frame,) = frames(made)
    inside = box_of(made, place)
    assert (frame.x, frame.y, frame.width) == (inside.x - 3.0, inside.y - 3.0, inside.width + 6.0)


def test_nothing_is_framed_at_the_caller() -> None:
    """What has come back to the caller is in no layer."""
    assert frames(onion(LAYERS, "parts", lit=Lit(-1, "out", "success"))) == []


@pytest.mark.parametrize("kind", ["success", "failure", "timeout", "rejection", "cancelled", "unavailable"])
def test_what_comes_back_has_its_mark(kind: str) -> None:
    """On the way back the mark of what travels stands below the way in, at the layer that it leaves."""
    made = onion(LAYERS, "parts", lit=Lit(1, "out", kind, deepest=3))
    assert frames(made)[0].stroke == MARKS[kind].colour
    discs = [shape for shape in made.shapes if isinstance(shape, Disc) and shape.radius == 11.0]
    assert [disc.x for disc in discs] == [box_of(made, 1).x]
    assert discs[0].y > max(shape.y for shape in made.shapes if isinstance(shape, Disc) and shape.radius == 5.0)


def test_the_way_in_ends_where_the_call_is() -> None:
    """The way that was gone is drawn through, the rest of it dashed."""
    made = onion(LAYERS, "parts", lit=Lit(1, "in", deepest=1))
    whole, gone = [
        shape
        for shape in made.shapes
        if isinstance(shape, Line) and shape.points[0][0] == 8.0 and len(shape.points) == 2
    ]
    assert whole.dash
    assert not gone.dash
    assert gone.points[-1][0] < box_of(made, 1).x < whole.points[-1][0]


def test_words_where_there_is_room() -> None:
    """What happens stands in the title's line of the layer, and is left out where it would cover the name."""
    lit = Lit(2, "out", "timeout", "an event with rather many words")

    def said(width: float) -> bool:
        made = onion(LAYERS, "parts", width=width, lit=lit)
        return any(isinstance(shape, Words) and shape.text == lit.words for shape in made.shapes)

    assert said(860.0)
    assert not said(380.0)


def test_a_name_that_is_its_type_stands_once() -> None:
    """A layer that is called as its type does not say it twice."""
    tails = {
        shape.text: shape.tail for shape in onion(LAYERS, "parts").shapes if isinstance(shape, Words) and shape.bold
    }
    assert tails["retry"] == ""
    assert tails["breaker"] == "circuit_breaker"
