"""Two runs beside each other share their axes, and their main numbers stand between them."""

from __future__ import annotations

from itertools import permutations
from xml.etree import ElementTree

import pytest

from labkit.plots import Picture, comparison, trace_timeline
from labkit.plots.draw.shapes import Box, Line
from labkit.plots.draw.style import LINES
from tests.plots.geometry import outside, overlapping, texts, words_of
from tests.plots.synthetic import MADE, outage

TRACES = {name: make() for name, make in MADE.items()}
BEFORE = TRACES["no breaker"]
AFTER = outage(title="With a breaker", tries=3, workers=600)
WIDTHS = (860.0, 720.0, 480.0)


def panels(picture: Picture) -> list[Box]:
    """The grounds of its panels."""
    return [shape for shape in picture.shapes if isinstance(shape, Box) and shape.fill == "panel"]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("pair", list(permutations(("outage", "no breaker", "empty", "flapping", "many replicas"), 2)))
def test_everything_is_inside_and_no_words_lie_on_words(pair: tuple[str, str], width: float) -> None:
    """Whichever two runs, beside or above each other, nothing leaves the picture and every text can be read."""
    made = comparison(TRACES[pair[0]], TRACES[pair[1]], width=width)
    assert outside(made) == []
    assert overlapping(made) == []
    ElementTree.fromstring(made.svg())


def test_side_by_side_they_stand_at_one_height_and_are_equally_wide() -> None:
    """Five panels left and five right: each pair begins at one height and has one size."""
    found = panels(comparison(BEFORE, AFTER))
    left, right = found[:5], found[5:]
    assert [(box.y, box.width, box.height) for box in left] == [(box.y, box.width, box.height) for box in right]
    assert left[0].x + left[0].width < right[0].x


def test_where_it_is_narrow_they_stand_one_above_the_other() -> None:
    """At 480 pixels all ten panels begin at the same place, below each other."""
    found = panels(comparison(BEFORE, AFTER, width=480.0))
    assert len({box.x for box in found}) == 1
    assert [box.y for box in found] == sorted({box.y for box in found})


def test_the_same_rate_lies_at_the_same_height() -> None:
    """Both runs are offered 80 calls a second, so both lines lie at one height, though the runs' own peaks differ."""
    made = comparison(BEFORE, AFTER)
    top, bottom = panels(made)[0].y, panels(made)[0].y + panels(made)[0].height
    ink, thick = LINES["offered"].colour, LINES["offered"].line
    heights = [
        shape.points[0][1]
        for shape in made.shapes
        if isinstance(shape, Line)
        and (shape.stroke, shape.line) == (ink, thick)
        and top < shape.points[0][1] < bottom
        and shape.points[-1][0] - shape.points[0][0] > 200.0
    ]
    assert len(heights) == 2
    assert len(set(heights)) == 1


def test_a_shorter_run_keeps_the_longer_one_s_axis() -> None:
    """Runs of 120 and of 300 s are drawn over one axis, which ends where the longer does."""
    made = comparison(TRACES["two breakers"], TRACES["outage"])
    assert sum(text in ("300 s", "300") for text in texts(made)) == 2
    assert "120 s" not in texts(made)


def test_the_numbers_stand_between_them() -> None:
    """Each difference is written once, between the two panels that it belongs to, with both numbers."""
    made = comparison(BEFORE, AFTER)
    found = panels(made)
    middle = (found[0].x + found[0].width + found[5].x) / 2
    between = {shape.text for shape in words_of(made) if shape.anchor == "middle" and abs(shape.x - middle) < 1.0}
    assert {"14,720 → 13,738", "43,040 → 13,946", "240/s → 80/s", "480 → 176", "0 → 16", "6.0 s → 89 ms"} <= between


def test_what_is_the_same_is_said_so() -> None:
    """Two equal runs have equal numbers, and the words say that nothing differs."""
    made = comparison(BEFORE, BEFORE, names=("one", "other"))
    assert "43,040 in both" in texts(made)
    assert "→" not in " ".join(texts(made))
    assert made.alt.endswith("Their main numbers are the same.")


def test_the_words_tell_both_runs_and_the_difference() -> None:
    """The alternative text has each run's own words under its name, and the numbers that differ."""
    made = comparison(BEFORE, AFTER, names=("no breaker", "a breaker"))
    assert made.title == "no breaker and a breaker"
    assert f"no breaker: {trace_timeline(BEFORE).alt.split(' From')[0]}" in made.alt
    assert "attempts 43,040 against 13,946" in made.alt


def test_names_are_cut_where_there_is_no_room() -> None:
    """A long name ends in an ellipsis and not on the other run."""
    made = comparison(BEFORE, AFTER, names=("a name " * 20, "another"))
    assert overlapping(made) == []
    assert any(text.startswith("a name") and text.endswith("…") for text in texts(made))
