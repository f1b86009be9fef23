"""A picture is a list of shapes; the same list gives SVG and PNG, and the same bytes every time."""

from __future__ import annotations

import base64
import subprocess
import sys
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from labkit.plots import Picture, beside
from labkit.plots.draw.shapes import Area, Box, Disc, Line, Words, arrow, mark, moved, wrap
from labkit.plots.draw.style import MARKS, PAPER, ramp_colour, width_of

SVG = "{http://www.w3.org/2000/svg}"
ORANGE = (0xC2, 0x4E, 0x00)


def picture(*shapes: object, width: float = 100.0, height: float = 60.0) -> Picture:
    """A picture of these shapes."""
    return Picture(width, height, tuple(shapes), "A title", "What it shows.")


def pixels(made: Picture, scale: float = 2.0) -> Image.Image:
    """What its PNG shows."""
    return Image.open(BytesIO(made.png(scale))).convert("RGB")


EVERYTHING = picture(
    Box(5, 5, 40, 20, 6, fill="panel", stroke="line"),
    Box(50, 5, 40, 20, 6, fill="#C24E00", texture="hatch", ink="#FFFFFF", stroke="#C24E00", dash=True),
    Box(50, 30, 40, 20, fill="paper", texture="dots", ink="#A66900"),
    Line(((5, 40), (20, 40), (20, 50)), dash=True),
    Line(((5, 55), (10, 30), (30, 60), (40, 35)), curved=True),
    Disc(30, 45, 4, fill="#009E73", stroke="text"),
    Words(5, 58, "words", tail="and more", bold=True),
    Words(95, 58, "mono", anchor="end", mono=True, italic=True),
)


@pytest.mark.parametrize("themed", [False, True])
def test_svg_is_one_sound_element(themed: bool) -> None:
    """What the writer writes is well-formed XML with the picture's size, as an image with a name."""
    root = ElementTree.fromstring(EVERYTHING.svg(themed=themed))
    assert root.tag == f"{SVG}svg"
    assert (root.get("viewBox"), root.get("role")) == ("0 0 100 60", "img")
    name = root.get("aria-label") or " ".join(
        each.text or "" for each in root if each.tag in (f"{SVG}title", f"{SVG}desc")
    )
    assert "A title" in name
    assert "What it shows." in name


def test_a_themed_svg_takes_the_colours_of_its_page() -> None:
    """In a page's own SVG no ink has a fixed colour, and there is no ground; in a file's no variable is left."""
    themed, filed = EVERYTHING.svg(themed=True), EVERYTHING.svg()
    assert not any(colour in themed for colour in PAPER.values() if colour not in ("#FFFFFF", PAPER["line"]))
    assert "var(" not in filed
    assert '<rect width="100" height="60" fill="#FFFFFF"/>' in filed


def test_words_cannot_break_out_of_the_svg() -> None:
    """Whatever a text says stays text."""
    hostile = "</text><script>alert('&')</script>"
    made = replace(picture(Words(0, 10, hostile, tail=hostile)), title=hostile, alt=f'"{hostile}')
    for themed in (False, True):
        root = ElementTree.fromstring(made.svg(themed=themed))
        assert not list(root.iter(f"{SVG}script"))
        assert hostile in [each.text for each in root.iter(f"{SVG}text")]


def test_ids_of_two_pictures_do_not_meet() -> None:
    """Two pictures with patterns can stand on one page: neither paints with the other's."""
    other = replace(EVERYTHING, title="Another title")
    ids = [
        {each.get("id") for each in ElementTree.fromstring(made.svg(themed=True)).iter() if each.get("id")}
        for made in (EVERYTHING, other)
    ]
    assert ids[0]
    assert not ids[0] & ids[1]


def test_every_reference_is_defined() -> None:
    """Each pattern and each name that an SVG refers to is in it."""
    text = EVERYTHING.svg()
    known = {each.get("id") for each in ElementTree.fromstring(text).iter()}
    used = {part.split(")")[0] for part in text.split("url(#")[1:]}
    used |= set(ElementTree.fromstring(text).get("aria-labelledby", "").split())
    assert used
    assert used <= known


def test_the_same_bytes_every_time() -> None:
    """Drawing a picture twice gives the same SVG and the same PNG to the byte."""
    assert EVERYTHING.svg() == EVERYTHING.svg()
    assert EVERYTHING.png() == EVERYTHING.png()


def test_the_same_bytes_in_another_process() -> None:
    """Nothing of one process, such as its hash seed, gets into a picture."""
    code = (
        "import hashlib\nfrom labkit.plots import state_diagram\n"
        "from labkit.policies.circuit_breaker import TRANSITIONS\n"
        "made = state_diagram(TRANSITIONS)\n"
        "print(hashlib.sha256(made.svg().encode() + made.svg(themed=True).encode() + made.png(1.0)).hexdigest())"
    )
    runs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(Path(__file__).resolve().parents[2])},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(runs) == 1


@pytest.mark.parametrize("scale", [1.0, 2.0, 1.5])
def test_png_has_the_picture_s_size(scale: float) -> None:
    """A PNG has `scale` pixels for one of the picture."""
    assert pixels(EVERYTHING, scale).size == (round(100 * scale), round(60 * scale))


def test_png_shows_what_is_drawn() -> None:
    """A filled box is its colour inside and white around; its textured neighbour shows both colours."""
    made = pixels(
        picture(
            Box(10, 10, 20, 20, fill="#C24E00"), Box(60, 10, 20, 20, fill="#C24E00", texture="hatch", ink="#FFFFFF")
        )
    )
    assert _near(made.getpixel((40, 40)), ORANGE)
    assert _near(made.getpixel((10, 10)), (255, 255, 255))
    hatched = {made.getpixel((x, y)) for x in range(124, 156) for y in range(24, 56)}
    assert any(_near(each, ORANGE) for each in hatched)
    assert any(_near(each, (255, 255, 255)) for each in hatched)


def test_png_keeps_every_colour() -> None:
    """A hundred flat colours, however pale and however small their share, are each as they were named."""
    cells = [Box(x * 8, y * 8, 8, 8, fill=ramp_colour((x * 10 + y) / 99)) for x in range(10) for y in range(10)]
    made = pixels(picture(Box(0, 0, 90, 90, fill="panel"), *cells, Box(80, 80, 2, 2, fill="#A8497E"), width=90.0))
    for cell in cells:
        colour = tuple(int(cell.fill[at : at + 2], 16) for at in (1, 3, 5))
        if cell.y < 50:
            assert _near(made.getpixel((int(cell.x * 2) + 8, int(cell.y * 2) + 8)), colour, 6)  # type: ignore[arg-type]
    assert made.getpixel((175, 50)) == (0xF5, 0xF6, 0xF8)


def test_png_shows_what_is_behind_a_faded_area() -> None:
    """A colour at three tenths lies over the paper and over a box, each of which is seen through it."""
    box = Box(0, 0, 50, 60, fill="#0072B2")
    made = pixels(picture(box, Area(((0, 0), (100, 0), (100, 60), (0, 60)), "#C24E00", fade=0.3)))
    assert _near(made.getpixel((50, 60)), (58, 103, 125), 3)
    assert _near(made.getpixel((150, 60)), (237, 202, 178), 3)


def test_png_cuts_off_what_is_outside() -> None:
    """What leaves the picture is drawn as far as it is inside, and is no error."""
    beyond = [
        Box(-10, -10, 30, 30, fill="#C24E00"),
        Area(((-9, 50), (120, 50), (120, 90), (-9, 90)), "#009E73", fade=0.5),
        Area(((200, 9), (210, 9), (210, 20)), "#009E73", "dots"),
        Words(-20, 70, "outside"),
        Disc(100, 60, 9, fill="text"),
    ]
    assert pixels(picture(*beyond)).getpixel((10, 10)) == ORANGE


@pytest.mark.parametrize("shape", EVERYTHING.shapes, ids=lambda shape: type(shape).__name__)
def test_every_shape_leaves_its_mark(shape: object) -> None:
    """No kind of shape is forgotten: each alone gives a file that is not blank."""
    assert len(pixels(picture(shape)).getcolors() or []) > 1


def test_png_keeps_the_tail_apart() -> None:
    """A text's tail begins after the text, with a gap, whatever the font's widths."""
    short, long = (
        pixels(picture(Words(2, 30, text, 20.0, ink="#000000", tail="x", tail_ink="#C24E00"), width=300.0))
        for text in ("i", "mmmm")
    )
    for made in (short, long):
        columns = [
            x for x in range(made.width) if any(_near(made.getpixel((x, y)), ORANGE, 60) for y in range(made.height))
        ]
        blacks = [
            x for x in range(made.width) if any(_near(made.getpixel((x, y)), (0, 0, 0), 60) for y in range(made.height))
        ]
        assert min(columns) > max(blacks) + 8


def _near(one: object, other: tuple[int, int, int], by: int = 12) -> bool:
    assert isinstance(one, tuple)
    return all(abs(a - b) <= by for a, b in zip(one, other, strict=True))


def test_a_notebook_shows_a_png_with_its_words() -> None:
    """The bundle for a notebook has a PNG at its size and the words; no type that needs a kernel or trust."""
    data, metadata = EVERYTHING._repr_mimebundle_()
    assert set(data) == {"image/png", "text/plain"}
    assert Image.open(BytesIO(base64.b64decode(data["image/png"]))).size == (200, 120)
    assert data["text/plain"] == "A title. What it shows."
    assert metadata["image/png"] == {"width": 100, "height": 60, "alt": "A title. What it shows."}


@pytest.mark.parametrize(("name", "begins"), [("a.svg", b"<svg"), ("a.PNG", b"\x89PNG")])
def test_saves_as_the_name_says(tmp_path: Path, name: str, begins: bytes) -> None:
    """The file's ending chooses the format."""
    EVERYTHING.save(str(tmp_path / name))
    assert (tmp_path / name).read_bytes().startswith(begins)


def test_refuses_other_formats(tmp_path: Path) -> None:
    """An ending that is neither is one sentence, and no file."""
    with pytest.raises(ValueError, match=r"saved as \.svg or \.png, and '.*a\.gif' is neither"):
        EVERYTHING.save(str(tmp_path / "a.gif"))
    assert list(tmp_path.iterdir()) == []


def test_moves_everything() -> None:
    """Shapes that are moved and moved back are where they were."""
    assert tuple(moved(moved(EVERYTHING.shapes, 3.0, 4.0), -3.0, -4.0)) == EVERYTHING.shapes


def test_pictures_side_by_side() -> None:
    """Two pictures beside each other are as wide as both and the gap, as high as the higher, and keep their words."""
    wide = picture(Box(0, 0, 10, 10), width=50.0, height=90.0)
    both = beside([EVERYTHING, wide], gap=10.0)
    assert (both.width, both.height) == (160.0, 90.0)
    assert both.shapes[-1] == Box(110.0, 0.0, 10, 10)
    assert both.alt.count("What it shows.") == 2


def test_an_arrow_points_where_it_ends() -> None:
    """The tip of an arrow's head is the last point, and its shaft stops short of it."""
    shaft, head = arrow(((0.0, 0.0), (50.0, 0.0)), head=10.0)
    assert isinstance(head, Line)
    assert isinstance(shaft, Line)
    assert head.points[0] == (50.0, 0.0)
    assert 40.0 < shaft.points[-1][0] < 50.0


@pytest.mark.parametrize("kind", MARKS)
def test_a_mark_is_centred(kind: str) -> None:
    """The mark of each kind lies around the point that it marks."""
    made = pixels(picture(*mark(kind, 50.0, 30.0, size=10.0)))
    dark = [(x, y) for x in range(200) for y in range(120) if sum(made.getpixel((x, y))) < 600]  # type: ignore[arg-type]
    assert abs((min(x for x, _ in dark) + max(x for x, _ in dark)) / 2 - 99.5) <= 1.5
    assert abs((min(y for _, y in dark) + max(y for _, y in dark)) / 2 - 59.5) <= 1.5


@given(st.text(st.sampled_from("ab WM.,_"), max_size=60), st.floats(20.0, 300.0))
def test_wrapping_keeps_every_word(text: str, width: float) -> None:
    """Wrapped lines are the text again when joined, and none is too wide unless it is a single word."""
    lines = wrap(text, width, 12.0)
    assert " ".join(lines) == text
    assert all(width_of(line, 12.0) <= width or " " not in line for line in lines)


def test_importing_pictures_is_light() -> None:
    """labkit.plots brings neither matplotlib nor pillow nor pydantic nor ipywidgets until something is drawn."""
    heavy = ("matplotlib", "PIL", "numpy", "pydantic", "ipywidgets")
    code = f"import sys, labkit.plots\nprint(*sorted({set(heavy)} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, text=True, cwd=Path(__file__).parents[2]
    )
    assert done.stdout.split() == []
