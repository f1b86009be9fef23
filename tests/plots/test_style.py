"""One look for every picture, legible to everybody."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from labkit.plots.draw.style import (
    DARK,
    INKS,
    LINES,
    MARKS,
    PAPER,
    SERIES,
    STATES,
    TEXTURES,
    THEMED,
    contrast,
    state_style,
    width_of,
)

PAGE = "#1E1E1E"


@pytest.mark.parametrize("style", [*STATES.values(), *MARKS.values()], ids=lambda style: style.word)
def test_a_colour_serves_both_themes(style: object) -> None:
    """Every colour of a state or a mark stands out from white and from a dark page by at least 3 to 1."""
    assert contrast(style.colour, "#FFFFFF") >= 3.0
    assert contrast(style.colour, PAGE) >= 3.0


@pytest.mark.parametrize("style", LINES.values(), ids=lambda style: style.word)
def test_a_quantity_is_seen_in_both_themes(style: object) -> None:
    """What is drawn over time has an ink of the page, or a colour that stands out from white and from a dark page."""
    if style.colour not in INKS:
        assert contrast(style.colour, "#FFFFFF") >= 3.0
        assert contrast(style.colour, PAGE) >= 3.0
        assert contrast(style.colour, PAPER["band"]) >= 2.9


def test_what_became_of_calls_is_not_told_by_colour_alone() -> None:
    """Of the quantities that are stacked no two share texture and thickness, and all have words of their own."""
    stacked = [LINES[name] for name in ("answered", "not_useful", "failed", "cancelled", "unavailable")]
    assert len({(style.texture, style.line) for style in stacked}) == len(stacked)
    assert len({style.word for style in LINES.values()}) == len(LINES)
    assert all(
        not style.texture or style.texture == "solid" or f"fine {style.texture}" in TEXTURES for style in stacked
    )


@pytest.mark.parametrize("state", STATES)
def test_a_state_can_carry_white_words(state: str) -> None:
    """The word in a lit state's band is white on its colour, and legible there."""
    assert contrast("#FFFFFF", STATES[state].colour) >= 4.5


@pytest.mark.parametrize("ink", ["text", "muted"])
@pytest.mark.parametrize("ground", ["paper", "panel", "band"])
def test_words_in_a_file_are_legible(ink: str, ground: str) -> None:
    """Text stands out from every ground of a file by at least 4.5 to 1."""
    assert contrast(PAPER[ink], PAPER[ground]) >= 4.5


def test_nothing_is_told_by_colour_alone() -> None:
    """No two states share a texture or a word, and no two marks share a shape or a word."""
    assert len({style.texture for style in STATES.values()}) == len({style.word for style in STATES.values()}) == 3
    assert len({style.shape for style in MARKS.values()}) == len({style.word for style in MARKS.values()}) == len(MARKS)


def test_both_palettes_know_every_ink() -> None:
    """A drawing may name any ink and find it in a file's colours, light and dark, and in a theme's."""
    assert set(PAPER) == set(DARK) == set(THEMED) == set(INKS)


@pytest.mark.parametrize(("inks", "which"), [(PAPER, 0), (DARK, 1)])
def test_the_pages_have_the_same_inks(inks: dict[str, str], which: int) -> None:
    """What the explorers' style sheet calls text, muted, line and so on is what a file calls so, light and dark."""
    sheet = Path(__file__).parents[2].joinpath("labkit", "widgets", "stage.css").read_text("utf-8")
    for name in ("text", "muted", "line", "faint", "panel", "paper"):
        assert re.findall(rf"--labkit-{name}: (#\w+);", sheet)[which].upper() == inks[name]


@pytest.mark.parametrize("ground", ["#FFFFFF", PAGE, DARK["paper"]])
def test_a_series_is_seen_in_both_themes(ground: str) -> None:
    """A line that stands for one of several runs stands out by at least 3 to 1, and no two share dashes or marks."""
    assert all(contrast(series.colour, ground) >= 3.0 for series in SERIES)
    assert len({series.dashes for series in SERIES}) == len({series.shape for series in SERIES}) == len(SERIES)
    assert len({series.colour for series in SERIES}) == len(SERIES)


@pytest.mark.parametrize("ink", ["text", "muted"])
def test_words_on_a_dark_page_are_legible(ink: str) -> None:
    """Text stands out from every dark ground by at least 4.5 to 1."""
    assert all(contrast(DARK[ink], DARK[ground]) >= 4.5 for ground in ("paper", "panel", "band"))


def test_a_state_of_another_machine_gets_its_own_name() -> None:
    """A state that no breaker has is shown in words and in the neutral look, not refused."""
    style = state_style("GAVE_UP")
    assert (style.word, style.colour) == ("gave up", MARKS["rejection"].colour)


def test_contrast_is_symmetric() -> None:
    """It does not matter which of two colours is the ground."""
    assert contrast("#0072B2", PAGE) == contrast(PAGE, "#0072B2")


def test_bold_and_longer_text_is_wider() -> None:
    """The guess at a width grows with the text and its weight, and is linear in the size."""
    assert width_of("open", 12.0) < width_of("open", 12.0, bold=True) < width_of("opened", 12.0, bold=True)
    assert width_of("open", 24.0) == pytest.approx(2 * width_of("open", 12.0))
