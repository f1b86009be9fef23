"""A sweep as a picture: every number is written, and the colour only helps to find it."""

from __future__ import annotations

from random import Random
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.plots import Picture, heat_map, sweep_line
from labkit.plots.draw.shapes import Area, Box, Disc, Line
from labkit.plots.draw.style import contrast, ramp_colour
from tests.plots.geometry import outside, overlapping, texts, words_of

WIDTHS = (860.0, 480.0)
X, Y, VALUE = "failure_threshold", "cooldown_period", "recovery_s"


def rows(seeds: int = 5, columns: int = 10) -> list[dict[str, Any]]:
    """A sweep whose value at threshold a and cooldown b is a hundred times a, plus b."""
    random = Random(3)
    return [
        {X: a, Y: float(b), VALUE: 100.0 * a + b + random.uniform(-0.4, 0.4) * (seeds > 1), "seed": seed}
        for a in range(1, columns + 1)
        for b in (5, 15, 30, 60)
        for seed in range(seeds)
    ]


def cells(picture: Picture) -> list[Box]:
    """Its filled cells."""
    return [shape for shape in picture.shapes if isinstance(shape, Box) and shape.fill and shape.height > 14.0]


def outlined(picture: Picture) -> list[Box]:
    """The cells that have an outline."""
    return [shape for shape in picture.shapes if isinstance(shape, Box) and shape.stroke == "text"]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("draw", ["map", "line"])
@pytest.mark.parametrize("columns", [1, 3, 10, 60])
def test_everything_is_inside_and_no_words_lie_on_words(draw: str, columns: int, width: float) -> None:
    """However many values a parameter has, nothing leaves the picture and every text can be read."""
    table = rows(columns=columns)
    made = (
        heat_map(table, x=X, y=Y, value=VALUE, best="lowest", width=width)
        if draw == "map"
        else sweep_line([row for row in table if row[Y] == 5.0], x=X, value=VALUE, best="highest", width=width)
    )
    assert outside(made) == []
    assert overlapping(made) == []
    ElementTree.fromstring(made.svg())


def test_every_cell_carries_its_number() -> None:
    """Forty cells have forty numbers, in the order of the parameters' values, and the axes have their names."""
    made = heat_map(rows(seeds=1), x=X, y=Y, value=VALUE)
    assert len(cells(made)) == 40
    numbers = [shape.text for shape in words_of(made) if shape.anchor == "middle"][:10]
    assert numbers == [f"{100 * a + 5:,}" for a in range(1, 11)]
    assert {"failure threshold →", "cooldown period ↓"} <= set(texts(made))


def test_several_seeds_give_their_median() -> None:
    """Of 1, 2 and 50 the cell shows 2, and the head says how many runs a cell stands for."""
    table = [{"a": 1, "b": 1, "v": value} for value in (50.0, 1.0, 2.0)]
    made = heat_map(table, x="a", y="b", value="v")
    assert "2" in texts(made)
    assert words_of(made)[0].tail == "median of 3"
    assert "3 runs" in made.alt


@given(st.floats(0.0, 1.0))
def test_numbers_are_legible_on_every_cell(share: float) -> None:
    """Black or white stands out from any colour of the ramp by at least 4.5 to 1."""
    colour = ramp_colour(share)
    assert max(contrast("#000000", colour), contrast("#FFFFFF", colour)) >= 4.5


def test_each_number_has_the_ink_that_is_legible() -> None:
    """The ink of each number is the one of black and white that stands out more from its cell."""
    made = heat_map(rows(), x=X, y=Y, value=VALUE)
    for cell in cells(made):
        (number,) = (
            shape
            for shape in words_of(made)
            if cell.x < shape.x < cell.x + cell.width and cell.y < shape.y < cell.y + cell.height
        )
        assert contrast(number.ink, cell.fill) >= 4.5


@given(st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_more_is_darker(one: float, other: float) -> None:
    """The ramp goes one way: the greater of two values is never the paler."""
    low, high = sorted((one, other))
    assert contrast(ramp_colour(low), "#FFFFFF") <= contrast(ramp_colour(high), "#FFFFFF") + 0.1


def test_a_missing_cell_is_hatched() -> None:
    """A cell without rows, and one whose rows have no number, are hatched, not coloured, and counted in the words."""
    table = [row for row in rows() if not (row[X] == 7 and row[Y] == 30.0)]
    table = [{**row, VALUE: None} if (row[X], row[Y]) == (2, 5.0) else row for row in table]
    made = heat_map(table, x=X, y=Y, value=VALUE)
    assert sum(isinstance(shape, Area) and shape.texture == "hatch" for shape in made.shapes) == 2
    assert len(cells(made)) == 38
    assert "2 cells have no number." in made.alt


@pytest.mark.parametrize(("best", "at"), [("lowest", (1, "5")), ("highest", (10, "60"))])
def test_the_best_cell_is_outlined(best: str, at: tuple[int, str]) -> None:
    """Exactly the best cell has an outline, and the words say where it is."""
    made = heat_map(rows(), x=X, y=Y, value=VALUE, best=best)
    assert len(outlined(made)) == 1
    assert f"The {best} is at failure threshold {at[0]} and cooldown period {at[1]}." in made.alt
    assert outlined(heat_map(rows(), x=X, y=Y, value=VALUE)) == []


def test_equal_cells_are_all_best() -> None:
    """Where several cells are equally good, each is outlined."""
    table = [{"a": a, "b": b, "v": min(a, 3)} for a in range(1, 6) for b in (1, 2)]
    assert len(outlined(heat_map(table, x="a", y="b", value="v", best="highest"))) == 6


def test_another_best_is_refused() -> None:
    """What is neither the lowest nor the highest is one sentence."""
    with pytest.raises(ValueError, match="the best cell is the 'lowest' or the 'highest', and 'nicest' is neither"):
        heat_map(rows(), x=X, y=Y, value=VALUE, best="nicest")


@pytest.mark.parametrize("table", [[], [{"other": 1}], [{"a": 1, "b": 2, "v": float("nan")}]])
def test_nothing_to_show_is_a_picture_too(table: list[dict[str, Any]]) -> None:
    """A table without rows, without the parameters, or without a number is drawn, not refused."""
    for made in (heat_map(table, x="a", y="b", value="v", best="lowest"), sweep_line(table, x="a", value="v")):
        assert outside(made) == []
        ElementTree.fromstring(made.svg())


def test_a_line_has_the_medians_and_the_spread() -> None:
    """Over one parameter the line goes through the medians, and the band from the least to the most."""
    table = [{"a": a, "v": float(v)} for a, values in ((1, (1, 2, 9)), (2, (4, 6, 8))) for v in values]
    made = sweep_line(table, x="a", value="v", best="highest")
    (band,) = (shape for shape in made.shapes if isinstance(shape, Area))
    dots = [shape for shape in made.shapes if isinstance(shape, Disc)]
    (line,) = (shape for shape in made.shapes if isinstance(shape, Line) and shape.line == 2.2)
    assert [(dot.x, dot.y) for dot in dots] == list(line.points)
    assert {"2", "6"} <= set(texts(made))
    heights = [y for _, y in band.points]
    scale = (line.points[0][1] - line.points[1][1]) / 4.0
    assert max(heights) - min(heights) == pytest.approx(8.0 * scale, abs=0.05)
    assert [dot.stroke for dot in dots] == ["", "text"]


def test_parameters_of_any_kind_are_put_in_order() -> None:
    """Numbers stand by size before words and before null, each as it is written in YAML."""
    table = [{"a": a, "b": 1, "v": 1.0} for a in (10, "poisson", None, 2.5, 9, True)]
    written = [shape.text for shape in words_of(heat_map(table, x="a", y="b", value="v")) if shape.anchor == "middle"]
    assert written[-6:] == ["yes", "2.5", "9", "10", "poisson", "none"]


values = st.none() | st.integers(-5, 5) | st.floats() | st.text(max_size=30) | st.booleans() | st.lists(st.none())
TABLES = st.lists(st.fixed_dictionaries({}, optional={"a": values, "b": values, "v": values}), max_size=25)


@given(TABLES, st.sampled_from(["", "lowest", "highest"]), st.sampled_from([860.0, 300.0]))
def test_any_table_draws(table: list[dict[str, Any]], best: str, width: float) -> None:
    """Whatever is in the rows, there are pictures from which nothing sticks out, and sound SVG."""
    for made in (
        heat_map(table, x="a", y="b", value="v", best=best, width=width),
        sweep_line(table, x="a", value="v", best=best, width=width),
    ):
        assert outside(made) == []
        ElementTree.fromstring(made.svg(themed=True))
