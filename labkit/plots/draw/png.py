"""Writes shapes as PNG with pillow: no display, no internet, half the time that a figure takes.

Shapes are drawn at twice the size and averaged down, which smooths their edges. The type is DejaVu, whose files
matplotlib brings along (matplotlib itself is not imported: that takes longer than the picture).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from importlib.util import find_spec
from io import BytesIO
from itertools import pairwise
from math import ceil, floor, hypot
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from labkit.plots.draw.shapes import Area, Box, Disc, Line, Shape, Words
from labkit.plots.draw.style import INKS, PAPER, TEXTURES

if TYPE_CHECKING:
    from PIL.Image import Image as PillowImage
    from PIL.ImageFont import FreeTypeFont

__all__ = ["to_png"]

Point: TypeAlias = tuple[float, float]

_MOST = 256  # colours of a file
_FINER = 2  # drawn so many times larger, and averaged down
_NARROWER = 0.9  # DejaVu is wider than the type of most pages
_CURVE = 12  # straight pieces of a Bézier curve


def to_png(shapes: Sequence[Shape], width: float, height: float, *, scale: float = 2.0) -> bytes:
    """Return shapes as a PNG of few colours on white.

    The same shapes give the same bytes with the same version of pillow.

    Args:
        shapes: what to draw, from the back to the front.
        width, height: pixels of the picture.
        scale: pixels of the file for one of the picture.
    """
    from PIL import Image

    size = (round(width * scale), round(height * scale))
    image = Image.new("RGB", (size[0] * _FINER, size[1] * _FINER), "#FFFFFF")
    pen = _Pen(image, scale * _FINER)
    for shape in shapes:
        pen.draw(shape)
    small = image.reduce(_FINER)
    # Flat colours and smooth edges need no more than a palette, which makes a file a third of the size.
    few = small.quantize(palette=_palette(small, shapes), dither=Image.Dither.NONE)
    out = BytesIO()
    few.save(out, "PNG", compress_level=6)
    return out.getvalue()


def _palette(image: PillowImage, shapes: Sequence[Shape]) -> PillowImage:
    """The colours that shapes have, each as it is, and the mixtures at their edges that are seen most."""
    from PIL import Image

    inks = {"#FFFFFF": None}
    for shape in shapes:
        if isinstance(shape, Words):
            used: tuple[str, ...] = (shape.ink, shape.tail_ink)
        elif isinstance(shape, Area):
            used = (shape.fill,)
        else:
            used = (shape.fill, shape.stroke, shape.ink if isinstance(shape, Box) else "")
        inks.update(dict.fromkeys(_ink_of(ink) for ink in used if ink))
    colours = [(int(ink[1:3], 16), int(ink[3:5], 16), int(ink[5:7], 16)) for ink in inks]
    # A mixture that is nearly another colour would only take its place.
    taken = {(red >> 3, green >> 3, blue >> 3) for red, green, blue in colours}
    found: Any = image.getcolors(image.width * image.height)
    for _, (red, green, blue) in sorted(found, key=lambda one: (-one[0], one[1])):
        if (place := (red >> 3, green >> 3, blue >> 3)) not in taken:
            taken.add(place)
            colours.append((red, green, blue))
            if len(colours) >= _MOST:
                break
    palette = Image.new("P", (1, 1))
    palette.putpalette([channel for colour in colours[:_MOST] for channel in colour])
    return palette


class _Pen:
    """Draws shapes onto an image, in the picture's own units."""

    def __init__(self, image: Any, scale: float) -> None:
        from PIL import ImageDraw

        self._image = image
        self._scale = scale
        self._pen = ImageDraw.Draw(image)

    def draw(self, shape: Shape) -> None:
        """Draw one shape over what is there."""
        if isinstance(shape, Box):
            self._box(shape)
        elif isinstance(shape, Disc):
            self._disc(shape)
        elif isinstance(shape, Line):
            self._line(shape)
        elif isinstance(shape, Area):
            self._area(shape)
        else:
            self._words(shape)

    def _at(self, x: float, y: float) -> Point:
        return (x * self._scale, y * self._scale)

    def _box(self, box: Box) -> None:
        from PIL import Image, ImageDraw

        # A line lies half inside and half outside of the edge that it follows.
        half = box.line / 2 if box.stroke else 0.0
        outer = (*self._at(box.x - half, box.y - half), *self._at(box.x + box.width + half, box.y + box.height + half))
        radius = (box.radius + half) * self._scale if box.radius else 0.0
        if box.texture != "solid":
            place = tuple(round(value) for value in outer)
            size = (place[2] - place[0], place[3] - place[1])
            mask = Image.new("1", size)
            ImageDraw.Draw(mask).rounded_rectangle((0, 0, size[0] - 1, size[1] - 1), radius, fill=1)
            patch = Image.new("RGB", size, _ink_of(box.fill) or "#FFFFFF")
            _draw_texture(ImageDraw.Draw(patch), box.texture, _ink_of(box.ink), self._scale, place[:2], size)
            self._image.paste(patch, place[:2], mask)
        elif box.fill:
            self._pen.rounded_rectangle(outer, radius, fill=_ink_of(box.fill))
        if not box.stroke:
            return
        if box.dash:
            self._dashes(_corners(box), box.stroke, box.line)
        else:
            self._pen.rounded_rectangle(outer, radius, outline=_ink_of(box.stroke), width=self._width(box.line))

    def _area(self, area: Area) -> None:
        from PIL import Image, ImageChops, ImageDraw

        places = [self._at(*point) for point in area.points]
        left, top = floor(min(x for x, _ in places)), floor(min(y for _, y in places))
        size = (ceil(max(x for x, _ in places)) - left + 1, ceil(max(y for _, y in places)) - top + 1)
        mask = Image.new("L", size)
        opaque = round(255 * area.fade) if area.texture == "solid" else 255
        ImageDraw.Draw(mask).polygon([(x - left, y - top) for x, y in places], fill=opaque)
        if area.texture != "solid":
            texture = Image.new("L", size)
            _draw_texture(ImageDraw.Draw(texture), f"fine {area.texture}", 255, self._scale, (left, top), size)
            mask = ImageChops.multiply(mask, texture)
        self._image.paste(_ink_of(area.fill), (left, top), mask)

    def _disc(self, disc: Disc) -> None:
        reach = disc.radius + (disc.line / 2 if disc.stroke else 0.0)
        box = (*self._at(disc.x - reach, disc.y - reach), *self._at(disc.x + reach, disc.y + reach))
        outline = _ink_of(disc.stroke) or None
        self._pen.ellipse(box, fill=_ink_of(disc.fill) or None, outline=outline, width=self._width(disc.line))

    def _line(self, line: Line) -> None:
        points = _flat(line.points) if line.curved else list(line.points)
        if line.closed:
            points.append(points[0])
        if line.fill:
            self._pen.polygon([self._at(*point) for point in points], fill=_ink_of(line.fill))
        if not line.stroke:
            return
        if line.dash:
            self._dashes(points, line.stroke, line.line)
        else:
            self._stroke(points, line.stroke, line.line)

    def _stroke(self, points: list[Point], ink: str, width: float, *, ends: bool = True) -> None:
        # pillow's own wide lines lean to one side and grow at their joints, by a pixel each; these do not.
        places = [self._at(*point) for point in points]
        fill, half = _ink_of(ink), width * self._scale / 2
        for (x0, y0), (x1, y1) in pairwise(places):
            length = hypot(x1 - x0, y1 - y0)
            if length:
                dx, dy = (y1 - y0) / length * half, (x0 - x1) / length * half
                corners = ((x0 + dx, y0 + dy), (x1 + dx, y1 + dy), (x1 - dx, y1 - dy), (x0 - dx, y0 - dy))
                self._pen.polygon(corners, fill=fill)
        for x, y in places if ends else places[1:-1]:
            self._pen.ellipse((x - half, y - half, x + half, y + half), fill=fill)

    def _dashes(self, points: list[Point], ink: str, width: float, on: float = 5.0, off: float = 4.0) -> None:
        dash = [points[0]]
        left, drawing = on, True
        for (x0, y0), (x1, y1) in pairwise(points):
            length, gone = hypot(x1 - x0, y1 - y0), 0.0
            while length - gone > left:
                gone += left
                point = (x0 + (x1 - x0) * gone / length, y0 + (y1 - y0) * gone / length)
                if drawing:
                    self._stroke([*dash, point], ink, width, ends=False)
                dash, drawing = [point], not drawing
                left = on if drawing else off
            left -= length - gone
            dash.append((x1, y1))
        if drawing and len(dash) > 1:
            self._stroke(dash, ink, width, ends=False)

    def _words(self, words: Words) -> None:
        anchor = {"start": "ls", "middle": "ms", "end": "rs"}[words.anchor]
        pixels = words.size * _NARROWER * self._scale
        font = _font_of(words.mono, words.bold, words.italic, round(pixels))
        place = self._at(words.x, words.y)
        self._pen.text(place, words.text, fill=_ink_of(words.ink), font=font, anchor=anchor)
        if words.tail:
            after = place[0] + font.getlength(words.text) + words.size * self._scale * 0.5
            font = _font_of(words.mono, False, words.italic, round(pixels))
            self._pen.text((after, place[1]), words.tail, fill=_ink_of(words.tail_ink), font=font, anchor="ls")

    def _width(self, width: float) -> int:
        return max(1, round(width * self._scale))


def _draw_texture(
    pen: Any, texture: str, ink: str | int, scale: float, origin: tuple[int, ...], size: tuple[int, int]
) -> None:
    """Draw a texture onto an image of that size, whose corner lies at `origin` of the whole, in pixels of the file."""
    apart, thick = TEXTURES[texture]
    if texture.endswith("hatch"):
        step, width = apart * 2**0.5 * scale, max(1, round(thick * scale))
        # Phases follow the picture, not the box, so that neighbours match.
        at = -size[1] - (origin[0] + origin[1]) % step - step
        while at < size[0] + step:
            pen.line(((at, size[1]), (at + size[1], 0)), ink, width)
            at += step
        return
    step, radius = apart * scale, thick * scale
    y = step / 2 - origin[1] % step
    while y < size[1] + step:
        x = step / 2 - origin[0] % step
        while x < size[0] + step:
            pen.ellipse((x - radius, y - radius, x + radius, y + radius), fill=ink)
            x += step
        y += step


def _ink_of(name: str) -> str:
    """Return the colour of an ink in a file, or the colour itself."""
    return PAPER[name] if name in INKS else name


def _corners(box: Box) -> list[Point]:
    """A box's edge as points, its round corners as curves."""
    x0, y0, x1, y1, r = box.x, box.y, box.x + box.width, box.y + box.height, box.radius
    points = [(x0 + r, y0), (x1 - r, y0), (x1, y0), (x1, y0), (x1, y0 + r), (x1, y1 - r), (x1, y1), (x1, y1)]
    points += [(x1 - r, y1), (x0 + r, y1), (x0, y1), (x0, y1), (x0, y1 - r), (x0, y0 + r), (x0, y0), (x0, y0)]
    flat: list[Point] = []
    for start in range(1, 16, 4):
        curve = [points[start], *points[start + 1 : start + 3], points[(start + 3) % 16]]
        flat += _flat(tuple(curve))
    return [*flat, flat[0]]


def _flat(points: tuple[Point, ...]) -> list[Point]:
    """A Bézier curve (a start, then three points a piece) as straight pieces."""
    flat = [points[0]]
    for start in range(0, len(points) - 1, 3):
        p0, p1, p2, p3 = points[start : start + 4]
        if all(abs((x - p0[0]) * (p3[1] - p0[1]) - (y - p0[1]) * (p3[0] - p0[0])) < 1e-6 for x, y in (p1, p2)):
            flat.append(p3)
            continue
        for index in range(1, _CURVE + 1):
            t = index / _CURVE
            a, b, c, d = (1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3
            flat.append((a * p0[0] + b * p1[0] + c * p2[0] + d * p3[0], a * p0[1] + b * p1[1] + c * p2[1] + d * p3[1]))
    return flat


@lru_cache(maxsize=64)
def _font_of(mono: bool, bold: bool, italic: bool, size: int) -> FreeTypeFont:
    """Return the type of that many pixels."""
    from PIL import ImageFont

    name = "DejaVuSansMono" if mono else "DejaVuSans"
    style = {(False, False): "", (True, False): "-Bold", (False, True): "-Oblique", (True, True): "-BoldOblique"}
    spec = find_spec("matplotlib")
    assert spec is not None
    assert spec.origin is not None
    path = Path(spec.origin).parent / "mpl-data" / "fonts" / "ttf" / f"{name}{style[bold, italic]}.ttf"
    return ImageFont.truetype(str(path), size, layout_engine=ImageFont.Layout.BASIC)
