"""The diagram is the table: every row is in it, and the row that was taken is the one that is lit."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from labkit.plots import Picture, find_row, state_cards, state_diagram
from labkit.plots.draw.shapes import Box, Line, Words
from labkit.plots.draw.style import STATES, width_of
from labkit.policies import (
    Transition,
    bulkhead,
    fallback,
    guarded_circuit_breaker,
    probe_lease,
    retry,
    retry_budget,
    timeout,
    window_circuit_breaker,
)
from labkit.policies.circuit_breaker import TRANSITIONS
from tests.plots.geometry import outside, overlapping

SOUND = [row for row in TRANSITIONS if row.fault is None]
FAULTY = [row for row in TRANSITIONS if row.fault is not None]
OTHERS = {
    "retry": retry.TRANSITIONS,
    "timeout": timeout.TRANSITIONS,
    "fallback": fallback.TRANSITIONS,
    "bulkhead": bulkhead.TRANSITIONS,
    "retry_budget": retry_budget.TRANSITIONS,
    "probe_lease": probe_lease.TRANSITIONS,
}
BREAKERS = {"window": window_circuit_breaker.TRANSITIONS, "guarded": guarded_circuit_breaker.TRANSITIONS}


def texts(picture: Picture) -> str:
    """All words of a picture, in the order in which they are drawn."""
    spaced = " ".join(f"{shape.text} {shape.tail}" for shape in picture.shapes if isinstance(shape, Words))
    return " ".join(spaced.split())


def boxes(picture: Picture) -> list[Box]:
    """The cards: the boxes that hold others."""
    return [shape for shape in picture.shapes if isinstance(shape, Box) and shape.radius == 9.0]


@pytest.mark.parametrize("draw", [state_diagram, state_cards])
@pytest.mark.parametrize("row", SOUND, ids=lambda row: f"{row.source}-{row.trigger}-{row.guard or 'always'}")
def test_every_row_is_drawn(draw: object, row: Transition) -> None:
    """Trigger, effect and guard of every sound row are written in the picture, wrapped or not."""
    words = texts(draw(TRANSITIONS))  # type: ignore[operator]
    assert row.trigger in words
    assert f"→ {row.effect}" in words
    assert row.guard.replace(">=", "≥") in words


@pytest.mark.parametrize("draw", [state_diagram, state_cards])
def test_rows_of_a_fault_are_drawn_on_demand(draw: object) -> None:
    """A row that only a fault makes possible is left out, unless asked for; then it is dashed."""
    assert callable(draw)
    plain, full = draw(TRANSITIONS), draw(TRANSITIONS, faults=True)
    assert "probe's slot freed" not in texts(plain)
    assert "probe's slot freed" in texts(full)
    assert not any(shape.dash for shape in plain.shapes if isinstance(shape, Box | Line))
    assert any(shape.dash for shape in full.shapes if isinstance(shape, Box))


@pytest.mark.parametrize("row", FAULTY, ids=lambda row: f"{row.source}-{row.trigger}-{row.guard or 'always'}")
def test_a_fault_that_happened_is_drawn_in_any_case(row: Transition) -> None:
    """When the row that was taken is a fault's, it is in the picture and in its words, with the fault's name."""
    made = state_diagram(TRANSITIONS, current=row.target, taken=row)
    assert row.trigger in texts(made)
    assert f"only by the fault {row.fault}" in made.alt


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("draw", [state_diagram, state_cards])
def test_the_current_state_is_lit(draw: object, state: str) -> None:
    """Exactly one card has its state's colour around it and the word "now", and the words say which."""
    assert callable(draw)
    made = draw(TRANSITIONS, current=state)
    assert [box.stroke for box in boxes(made) if box.line > 2.0] == [STATES[state].colour]
    assert texts(made).count(" now ") == 1
    assert made.alt.startswith(f"The state is {STATES[state].word}.")


@pytest.mark.parametrize("row", TRANSITIONS, ids=lambda row: f"{row.source}-{row.trigger}-{row.guard or 'always'}")
@pytest.mark.parametrize("draw", [state_diagram, state_cards])
def test_the_row_taken_is_framed(draw: object, row: Transition) -> None:
    """The row that was taken, and no other, stands in a frame; without one there is none."""
    assert callable(draw)
    frames = [
        [shape for shape in draw(TRANSITIONS, taken=taken).shapes if isinstance(shape, Box) and shape.stroke == "text"]
        for taken in (row, None)
    ]
    assert [len(each) for each in frames] == [1, 0]


@pytest.mark.parametrize("row", TRANSITIONS, ids=lambda row: f"{row.source}-{row.trigger}-{row.guard or 'always'}")
def test_a_row_is_found_by_what_it_says(row: Transition) -> None:
    """A row's own texts lead to it and to no other row before it."""
    found = find_row(TRANSITIONS, row.source, row.trigger, row.target, effect=row.effect, guard=row.guard)
    assert found == row


def test_no_row_is_found_where_there_is_none() -> None:
    """What the table does not have is None, not the nearest."""
    assert find_row(TRANSITIONS, "OPEN", "failure", "CLOSED") is None
    assert find_row(TRANSITIONS, "HALF_OPEN", "call", "HALF_OPEN", effect="ignored") is None


@pytest.mark.parametrize("faults", [False, True])
@pytest.mark.parametrize("draw", [state_diagram, state_cards])
def test_everything_stays_inside(draw: object, faults: bool) -> None:
    """No word leaves the canvas, even in a wide font, and no card lies on another."""
    assert callable(draw)
    for taken in (None, *TRANSITIONS):
        made = draw(TRANSITIONS, current="OPEN", taken=taken, faults=faults)
        for shape in made.shapes:
            if isinstance(shape, Words):
                wide = width_of(shape.text, shape.size, bold=shape.bold)
                left = {"start": 0.0, "middle": wide / 2, "end": wide}[shape.anchor]
                assert shape.x - left >= 0.0
                assert shape.x - left + wide <= made.width
                assert 0.0 < shape.y < made.height
        cards = boxes(made)
        for index, one in enumerate(cards):
            assert 0 <= one.x < one.x + one.width <= made.width
            assert 0 <= one.y < one.y + one.height <= made.height
            for other in cards[index + 1 :]:
                apart = (
                    one.x + one.width <= other.x
                    or other.x + other.width <= one.x
                    or one.y + one.height <= other.y
                    or other.y + other.height <= one.y
                )
                assert apart


@pytest.mark.parametrize("name", OTHERS)
def test_other_machines_can_be_drawn(name: str) -> None:
    """The tables of what is no breaker have other states, and are drawn as cards with all their rows."""
    made = state_diagram(OTHERS[name], title=name)
    ElementTree.fromstring(made.svg())
    words = texts(made)
    for row in OTHERS[name]:
        assert row.trigger in words
        assert row.target.replace("_", " ").lower() in words


@pytest.mark.parametrize("draw", [state_diagram, state_cards])
@pytest.mark.parametrize("name", BREAKERS)
def test_every_row_of_every_breaker_is_drawn(name: str, draw: object) -> None:
    """A breaker that counts over time, and one that can be forced, have other rows; each is written in the picture."""
    assert callable(draw)
    words = texts(draw(BREAKERS[name]))
    for row in BREAKERS[name]:
        assert row.trigger in words
        assert f"→ {row.effect}" in words
        assert row.guard.replace(">=", "≥") in words


@pytest.mark.parametrize("draw", [state_diagram, state_cards])
@pytest.mark.parametrize("name", BREAKERS)
def test_every_breaker_shows_its_state_and_the_row_it_took(name: str, draw: object) -> None:
    """Whatever row was taken, one card is lit, one row is framed, and no word leaves the picture or lies on another."""
    assert callable(draw)
    for row in BREAKERS[name]:
        made = draw(BREAKERS[name], current=row.target, taken=row)
        assert [box.stroke for box in boxes(made) if box.line > 2.0] == [STATES[row.target].colour]
        assert sum(isinstance(shape, Box) and shape.stroke == "text" for shape in made.shapes) == 1
        assert outside(made) == []
        assert overlapping(made) == []


def test_what_happens_in_every_state_is_told_once() -> None:
    """A breaker that is forced open is forced in any state: one card says so, not three."""
    for draw in (state_diagram, state_cards):
        words = texts(draw(BREAKERS["guarded"]))
        assert words.count("force_open") == 1
        assert "any state" in words
        assert "any state" not in texts(draw(BREAKERS["window"]))


def test_a_condition_reads_as_a_sentence() -> None:
    """A guard that names a call begins with "if it is", one that says what is the case with "if"."""
    words = texts(state_diagram(BREAKERS["guarded"]))
    assert "if the slot is free" in words
    assert "if it is the slot" not in words
    assert "if it is the probe" in texts(state_diagram(TRANSITIONS))
