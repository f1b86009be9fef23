"""The pictures of the explorers of windows, scopes and recovery: everything inside, every text readable, and true."""

from __future__ import annotations

from typing import Any

import pytest

from labkit.plots import Picture
from labkit.plots.draw.shapes import Box, Disc, Line
from labkit.plots.draw.style import LINES, STATES
from labkit.widgets.explorers.recovery import RecoveryModel
from labkit.widgets.explorers.scope import ScopeModel
from labkit.widgets.explorers.window import WindowModel
from tests.plots.geometry import outside, overlapping, texts

SETTINGS: list[tuple[type[Any], dict[str, Any]]] = [
    (WindowModel, {}),
    (WindowModel, {"failure_threshold": 5, "open_duration": 5, "burst": 4, "calm": 3}),
    (WindowModel, {"share": 5, "every": None, "rate": 1, "minimum_calls": 200, "interval": 5}),
    (WindowModel, {"failure_rate": 100, "interval_threshold": 1, "failure_threshold": 100, "rate": 20}),
    (ScopeModel, {}),
    (ScopeModel, {"names": "own", "replicas": 4}),
    (ScopeModel, {"breakers": "two", "replicas": 3, "lease": True}),
    (ScopeModel, {"parts": 1, "documents": 40, "failure_threshold": 30, "outage": (0, 60)}),
    (RecoveryModel, {}),
    (RecoveryModel, {"workers": 1, "first": 1, "rate": 80}),
    (RecoveryModel, {"bulkhead": 3, "ramp": 30, "seconds": 60}),
    (RecoveryModel, {"cooldown_period": 1, "rate": 60, "workers": 40}),
]


def pictures(model: type[Any], settings: dict[str, Any]) -> list[Picture]:
    """The picture for a wide and for a narrow page."""
    made = model(**settings)
    made.press({"do": "narrow", "on": True})
    return [made.shown.picture, made.shown.narrow]


@pytest.mark.parametrize(("model", "settings"), SETTINGS)
def test_everything_is_inside_and_no_words_lie_on_words(model: type[Any], settings: dict[str, Any]) -> None:
    """Whatever is set, and in a narrow panel too, nothing leaves the picture and every text can be read."""
    for picture in pictures(model, settings):
        assert outside(picture) == []
        assert overlapping(picture) == []


def heights(model: type[Any], **settings: Any) -> tuple[float, ...]:
    """How high the two pictures are."""
    return tuple(picture.height for picture in pictures(model, settings))


def test_a_picture_does_not_jump_under_a_slider() -> None:
    """Numbers change no picture's height; only who shares what, and how many replicas there are, does."""
    assert heights(WindowModel) == heights(WindowModel, failure_threshold=3, rate=9, burst=5)
    assert heights(RecoveryModel) == heights(RecoveryModel, workers=30, first=30, rate=10)
    assert heights(ScopeModel)[0] == heights(ScopeModel, parts=40, failure_threshold=1)[0]


def test_a_dot_marks_each_opening_from_closed() -> None:
    """The count of each breaker ends in a dot on the threshold where it opens, and has none where it does not."""
    colour = STATES["OPEN"].colour

    def dots(**settings: Any) -> int:
        return sum(isinstance(one, Disc) and one.fill == colour for one in pictures(WindowModel, settings)[0].shapes)

    assert dots() == 2  # by interval and by rate; the failures in a row stay below
    assert dots(share=5, every=None, failure_threshold=100, interval_threshold=100) == 0


def test_each_count_says_at_what_it_opens() -> None:
    """The thresholds stand in the picture, with what they are held against."""
    said = texts(pictures(WindowModel, {"interval_threshold": 12, "interval": 20})[0])
    assert "opens at 30" in said
    assert "opens at 12 within 20 s" in said
    assert "opens at 50 %, of at least 20 calls in 30 s" in said
    assert "484 failures reached the callers" in said


def test_a_shared_state_is_one_ribbon_between_two_rows() -> None:
    """Functions that share a state lie around one ribbon; with states of their own there are two."""

    def ribbons(**settings: Any) -> set[float]:
        blue = STATES["CLOSED"].colour
        shapes = pictures(ScopeModel, settings)[0].shapes
        return {one.y for one in shapes if isinstance(one, Box) and one.fill == blue and one.height == 17.0}

    assert len(ribbons()) == 1
    assert len(ribbons(names="own")) == 2
    assert len(ribbons(breakers="two")) == 2
    assert len(ribbons(replicas=4)) == 4
    assert "one state, “search”" in texts(pictures(ScopeModel, {})[0])


def test_the_line_of_capacity_is_the_workers() -> None:
    """Every step in which workers come back is a step of the dashed line, and its number stands at it."""
    picture = pictures(RecoveryModel, {})[0]
    colour = LINES["capacity"].colour
    stairs = [one for one in picture.shapes if isinstance(one, Line) and one.dash and one.stroke == colour]
    assert max(len({y for _, y in line.points}) for line in stairs) == 5  # 5, 7, 10, 12 and 15 workers
    assert [text for text in texts(picture) if text in ("5", "7", "10", "12", "15")] == [
        "15",
        "5",
        "7",
        "10",
        "12",
        "15",
    ]
    assert "Workers: 15, 5 from 30 s, then 7 from 40 s, then 10 from 50 s, then 12 from 60 s" in picture.alt
