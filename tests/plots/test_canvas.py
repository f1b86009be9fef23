"""A canvas draws what the slower writer draws, in a fraction of the time, and remembers nothing that could be seen."""

from __future__ import annotations

from io import BytesIO

import pytest
from PIL import Image, ImageChops

from labkit.plots import Canvas, Picture, state_diagram, trace_timeline
from labkit.plots.drawing import Area, Box, Disc, Line, Words, mark
from labkit.plots.png import to_png
from labkit.plots.style import MARKS
from labkit.policies.circuit_breaker import TRANSITIONS
from tests.plots.synthetic import MADE

ORANGE = (0xC2, 0x4E, 0x00)
EVERYTHING = (
    Box(5, 5, 40, 20, 6, fill="panel", stroke="line"),
    Box(50, 5, 40, 20, 6, fill="#C24E00", texture="hatch", ink="#FFFFFF", stroke="#C24E00", dash=True),
    Box(50, 30, 40, 20, fill="paper", texture="dots", ink="#A66900"),
    Box(5, 30, 20, 20, fill="#C24E00", texture="hatch", ink="#FFFFFF"),
    Line(((5, 40), (20, 40), (20, 50)), dash=True),
    Line(((5, 55), (10, 30), (30, 60), (40, 35)), curved=True),
    Line(((30, 30), (40, 50))),
    Area(((60, 10), (90, 10), (90, 50), (60, 50)), "#009E73", fade=0.3),
    Area(((60, 10), (90, 10), (90, 50)), "#6B7280", "hatch"),
    Area(((60, 30), (90, 30), (90, 55), (70, 55)), "#C24E00", "dots"),
    Disc(30, 45, 4, fill="#009E73", stroke="text"),
    *(shape for at, kind in enumerate(MARKS) for shape in mark(kind, 8.0 + 11.0 * at, 52.0)),
    Words(5, 58, "words", tail="and more", bold=True),
    Words(95, 58, "mono", anchor="end", mono=True, italic=True),
)


def picture(*shapes: object, width: float = 100.0, height: float = 60.0) -> Picture:
    """A picture of these shapes."""
    return Picture(width, height, tuple(shapes), "A title", "What it shows.")  # type: ignore[arg-type]


def shown(png: bytes) -> Image.Image:
    """What a PNG shows."""
    return Image.open(BytesIO(png)).convert("RGB")


def darkness(image: Image.Image) -> float:
    """How much ink there is."""
    return sum((255 - value) * count for value, count in enumerate(image.convert("L").histogram()))


@pytest.mark.parametrize("scale", [1.0, 1.5, 2.0])
@pytest.mark.parametrize("shape", EVERYTHING, ids=lambda shape: type(shape).__name__)
def test_it_draws_what_the_other_writer_draws(shape: object, scale: float) -> None:
    """Each shape has about as much ink as in the other writer's file, and in the same place."""
    made = picture(shape)
    one, other = (shown(png) for png in (Canvas(scale).png(made), to_png(made, scale=scale)))
    assert one.size == other.size
    assert darkness(one) == pytest.approx(darkness(other), rel=0.35)
    boxes = [ImageChops.invert(each).getbbox() for each in (one, other)]
    assert all(box is not None for box in boxes)
    assert all(abs(a - b) <= 3.0 * scale for a, b in zip(*boxes, strict=True))


@pytest.mark.parametrize("shape", EVERYTHING, ids=lambda shape: type(shape).__name__)
def test_every_shape_leaves_its_mark(shape: object) -> None:
    """No kind of shape is forgotten: each alone gives a file that is not blank."""
    assert len(shown(Canvas().png(picture(shape))).getcolors() or []) > 1


def test_what_was_drawn_before_does_not_matter() -> None:
    """A canvas that has drawn other pictures, of other sizes too, gives the bytes that a new one gives."""
    used = Canvas()
    pictures = [
        trace_timeline(MADE["two breakers"]()),
        state_diagram(TRANSITIONS, current="OPEN"),
        trace_timeline(MADE["one second"](), width=480.0),
        picture(*EVERYTHING),
    ]
    for made in [*pictures, *reversed(pictures)]:
        assert used.png(made) == Canvas().png(made)


def test_what_is_straight_is_not_blurred() -> None:
    """A box's edge lies on a pixel: its own colour inside, the paper's outside, and none between."""
    made = shown(Canvas(2.0).png(picture(Box(10.2, 10.1, 20.0, 20.0, fill="#C24E00"))))
    assert {colour for _, colour in made.getcolors() or []} == {ORANGE, (255, 255, 255)}


def test_a_slanted_line_is_smooth() -> None:
    """A line that is neither upright nor level has steps between its ink and the paper."""
    made = shown(Canvas(1.0).png(picture(Line(((10.0, 10.0), (90.0, 40.0)), "#C24E00"))))
    assert len(made.getcolors() or []) > 3


def test_a_faded_area_shows_what_is_behind() -> None:
    """A colour at three tenths lies over the paper and over a box, each of which is seen through it."""
    box = Box(0, 0, 50, 60, fill="#0072B2")
    made = shown(Canvas(1.0).png(picture(box, Area(((0, 0), (100, 0), (100, 60), (0, 60)), "#C24E00", fade=0.3))))
    assert made.getpixel((25, 30)) == (58, 103, 125)
    assert made.getpixel((75, 30)) == (237, 202, 178)


def test_more_colours_than_fit_are_the_nearest() -> None:
    """A picture of a thousand colours is drawn with 256, each cell close to its own."""
    cells = [Box(x, y, 1, 1, fill=f"#{x * 6:02X}{y * 8:02X}80") for x in range(40) for y in range(30)]
    made = shown(Canvas(1.0).png(picture(*cells, width=40.0, height=30.0)))
    assert len(made.getcolors() or []) <= 256
    for x, y in ((0, 0), (5, 3), (0, 29)):
        pixel = made.getpixel((x, y))
        assert isinstance(pixel, tuple)
        assert sum(abs(a - b) for a, b in zip(pixel, (x * 6, y * 8, 128), strict=True)) < 60


def test_shapes_outside_are_cut_off() -> None:
    """What leaves the picture is drawn as far as it is inside, and is no error."""
    beyond = [
        Box(-10, -10, 30, 30, fill="#C24E00"),
        Area(((-9, 50), (120, 50), (120, 90), (-9, 90)), "#009E73", fade=0.5),
        Area(((200, 9), (210, 9), (210, 20)), "#009E73", "dots"),
        Words(-20, 70, "outside"),
        Disc(100, 60, 9, fill="text"),
    ]
    made = shown(Canvas(2.0).png(picture(*beyond)))
    assert made.getpixel((10, 10)) == ORANGE
