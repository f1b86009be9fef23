"""Draws pictures again and again, as under a slider: a PNG in a tenth of the time that `png.py` takes.

What is straight up, down or across is set onto whole pixels, where it needs no smoothing, and only the rest is drawn
larger and averaged down. Type, marks and textures are kept from one picture to the next, and the colours of the file
are chosen from what the picture says it uses rather than by counting pixels. None of that changes what comes out: the
same picture gives the same bytes, whatever was drawn before.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from io import BytesIO
from itertools import pairwise
from math import ceil, floor
from typing import TYPE_CHECKING, Any, TypeAlias

from labkit.plots.drawing import Area, Box, Disc, Line, Picture, Shape, Words, moved
from labkit.plots.png import NARROWER, Pen, draw_texture, font_of, ink_of
from labkit.plots.style import PAPER

if TYPE_CHECKING:
    from PIL.Image import Image as PillowImage

__all__ = ["Canvas"]

RGB: TypeAlias = tuple[int, int, int]

_FINER = 2
_KEPT = 4000  # stamps; more than a picture has, and little memory
_SHADES = 6  # steps from an ink to the paper, for smooth edges
_COLOURS = 255


class Canvas:
    """Keeps what pictures have in common.

    Args:
        scale: pixels of the file for one of the picture.

    It is not safe to use one from two threads at once.
    """

    def __init__(self, scale: float = 2.0) -> None:
        self._scale = scale
        self._stamps: dict[Any, Any] = {}
        self._textures: dict[str, PillowImage] = {}
        self._palettes: dict[tuple[RGB, ...], PillowImage] = {}

    def png(self, picture: Picture) -> bytes:
        """Return the picture as a PNG of few colours on white.

        The same picture gives the same bytes with the same version of pillow.
        """
        from PIL import Image, ImageDraw

        size = (round(picture.width * self._scale), round(picture.height * self._scale))
        self._image = Image.new("RGB", size, PAPER["paper"])
        self._pen = ImageDraw.Draw(self._image)
        if len(self._stamps) > _KEPT:
            self._stamps.clear()
        for shape in picture.shapes:
            if isinstance(shape, Words):
                self._words(shape)
            elif isinstance(shape, Box):
                self._box(shape)
            elif isinstance(shape, Area):
                self._area(shape)
            elif isinstance(shape, Line) and not shape.curved and not shape.fill and _is_square(shape):
                self._line(shape)
            else:
                self._smooth(shape)
        few = self._image.quantize(palette=self._palette(picture.shapes), dither=Image.Dither.NONE)
        out = BytesIO()
        few.save(out, "PNG", compress_level=1)
        return out.getvalue()

    # -- shapes

    def _box(self, box: Box) -> None:
        if (box.stroke and box.dash) or (box.radius and box.texture != "solid"):
            self._smooth(box)
            return
        scale = self._scale
        x0, y0 = round(box.x * scale), round(box.y * scale)
        x1, y1 = round((box.x + box.width) * scale) - 1, round((box.y + box.height) * scale) - 1
        if x1 < x0 or y1 < y0:
            return
        fill, stroke = _rgb(box.fill), _rgb(box.stroke)
        if box.radius:
            line = max(1, round(box.line * scale))
            self._pen.rounded_rectangle((x0, y0, x1, y1), box.radius * scale, fill=fill, outline=stroke, width=line)
            return
        if fill is not None:
            self._pen.rectangle((x0, y0, x1, y1), fill=fill)
        if box.texture != "solid":
            mask = self._texture(box.texture).crop((x0, y0, x1 + 1, y1 + 1))
            self._image.paste(_rgb(box.ink) or (0, 0, 0), (x0, y0), mask)
        if stroke is not None and stroke != fill:
            self._pen.rectangle((x0, y0, x1, y1), outline=stroke, width=max(1, round(box.line * scale)))

    def _area(self, area: Area) -> None:
        from PIL import Image, ImageChops, ImageDraw

        places = [(round(x * self._scale), round(y * self._scale)) for x, y in area.points]
        columns, rows = [x for x, _ in places], [y for _, y in places]
        left, top, right, bottom = min(columns), min(rows), max(columns) + 1, max(rows) + 1
        mask = Image.new("L", (right - left, bottom - top))
        opaque = round(255 * area.fade) if area.texture == "solid" else 255
        ImageDraw.Draw(mask).polygon([(x - left, y - top) for x, y in places], fill=opaque)
        if area.texture != "solid":
            texture = self._texture(f"fine {area.texture}").crop((left, top, right, bottom))
            mask = ImageChops.multiply(mask, texture)
        self._image.paste(_rgb(area.fill) or (0, 0, 0), (left, top), mask)

    def _line(self, line: Line) -> None:
        if not line.stroke:
            return
        ink, width = _rgb(line.stroke), max(1, round(line.line * self._scale))
        places = [(round(x * self._scale), round(y * self._scale)) for x, y in line.points]
        if not line.dash:
            if line.closed:
                places.append(places[0])
            self._pen.line(places, ink, width)
            return
        on, off = round(5.0 * self._scale), round(4.0 * self._scale)
        for (x0, y0), (x1, y1) in pairwise(places):
            for start in range(0, abs(x1 - x0) + abs(y1 - y0), on + off):
                if y0 == y1:
                    ends = min(x0, x1) + start, min(max(x0, x1), min(x0, x1) + start + on)
                    self._pen.line([(ends[0], y0), (ends[1], y0)], ink, width)
                else:
                    ends = min(y0, y1) + start, min(max(y0, y1), min(y0, y1) + start + on)
                    self._pen.line([(x0, ends[0]), (x0, ends[1])], ink, width)

    def _words(self, words: Words) -> None:
        from PIL import Image, ImageDraw

        scale = self._scale
        pixels = round(words.size * NARROWER * scale)
        at = round(words.x * scale)
        parts = [(words.text, words.ink, words.bold, words.anchor)]
        if words.tail:
            parts.append((words.tail, words.tail_ink, False, "start"))
        for text, ink, bold, anchor in parts:
            key = (text, words.mono, bold, words.italic, pixels)
            found = self._stamps.get(key)
            if found is None:
                font = font_of(words.mono, bold, words.italic, pixels)
                left, top, right, bottom = (round(edge) for edge in font.getbbox(text, anchor="ls"))
                mask = Image.new("L", (max(1, right - left), max(1, bottom - top)))
                ImageDraw.Draw(mask).text((-left, -top), text, fill=255, font=font, anchor="ls")
                found = self._stamps[key] = (mask, left, top, font.getlength(text))
            mask, left, top, wide = found
            start = at - {"start": 0.0, "middle": wide / 2, "end": wide}[anchor]
            self._image.paste(_rgb(ink) or (0, 0, 0), (round(start) + left, round(words.y * scale) + top), mask)
            at = round(start + wide + words.size * scale * 0.5)

    def _smooth(self, shape: Shape) -> None:
        """Anything else, drawn larger; the same shape elsewhere is the same stamp."""
        x0, y0, x1, y1 = _extent(shape)
        scale = self._scale
        left, top = floor(x0 * scale) - 1, floor(y0 * scale) - 1
        # Whole pixels, so that a mark looks alike wherever it stands.
        (home,) = moved([shape], -left / scale, -top / scale)
        key = _rounded(home)
        stamp = self._stamps.get(key)
        if stamp is None:
            size = (ceil((x1 - x0) * scale) + 3, ceil((y1 - y0) * scale) + 3)
            stamp = self._stamps[key] = _stamp(home, size, scale)
        for ink, mask in stamp:
            self._image.paste(ink, (left, top), mask)

    # -- colours

    def _texture(self, name: str) -> PillowImage:
        """A mask of the whole picture's size."""
        from PIL import Image, ImageDraw

        found = self._textures.get(name)
        if found is None or found.size != self._image.size:
            size = self._image.size
            large = Image.new("L", (size[0] * _FINER, size[1] * _FINER))
            draw_texture(ImageDraw.Draw(large), name, 255, self._scale * _FINER, (0, 0), large.size)
            found = self._textures[name] = large.reduce(_FINER)
        return found

    def _palette(self, shapes: Iterable[Shape]) -> PillowImage:
        from PIL import Image

        grounds: dict[RGB, None] = {_paper(): None}
        inks: dict[RGB, None] = {}
        faded: dict[tuple[RGB, float], None] = {}
        for shape in shapes:
            if isinstance(shape, Words):
                names = [shape.ink, shape.tail_ink] if shape.tail else [shape.ink]
            elif isinstance(shape, Area):
                names = [shape.fill]
                if shape.texture == "solid":
                    faded[_rgb(shape.fill) or _paper(), shape.fade] = None
            elif isinstance(shape, Box):
                names = [shape.stroke, shape.ink]
                grounds[_rgb(shape.fill) or _paper()] = None
            else:
                names = [shape.stroke, shape.fill]
            for name in names:
                if name:
                    inks[_rgb(name) or _paper()] = None
        pale = [ground for ground in grounds if min(ground) > 200]
        colours = [*grounds, *(_mix(ink, ground, fade) for ink, fade in faded for ground in pale)]
        shades = max(1, min(_SHADES, (_COLOURS - len(colours)) // max(1, len(inks) + len(grounds))))
        for ink in (ink for ink in {**inks, **grounds} if min(ink) <= 200):
            colours += [_mix(ink, _paper(), step / shades) for step in range(shades, 0, -1)]
        key = tuple(dict.fromkeys(colours))[:_COLOURS]
        found = self._palettes.get(key)
        if found is None:
            if len(self._palettes) > 100:
                self._palettes.clear()
            found = self._palettes[key] = Image.new("P", (1, 1))
            found.putpalette([channel for colour in key for channel in colour])
        return found


def _stamp(shape: Shape, size: tuple[int, int], scale: float) -> list[tuple[RGB, PillowImage]]:
    """The shape's fill and its edge, each as an ink and where it goes."""
    from PIL import Image

    assert not isinstance(shape, Words | Area)
    parts: list[tuple[str, Shape]] = []
    if shape.fill:
        parts.append((shape.fill, replace(shape, fill="#FFFFFF", stroke="")))
    if isinstance(shape, Box) and shape.texture != "solid":
        parts.append((shape.ink, replace(shape, fill="#000000", stroke="", ink="#FFFFFF")))
    if shape.stroke:
        parts.append((shape.stroke, replace(shape, fill="", stroke="#FFFFFF", **_plain(shape))))
    stamp = []
    for ink, part in parts:
        large = Image.new("L", (size[0] * _FINER, size[1] * _FINER))
        Pen(large, scale * _FINER).draw(part)
        stamp.append((_rgb(ink) or _paper(), large.reduce(_FINER)))
    return stamp


def _plain(shape: Shape) -> dict[str, Any]:
    return {"texture": "solid"} if isinstance(shape, Box) else {}


def _is_square(line: Line) -> bool:
    """Whether it goes nowhere but up, down and across."""
    points = line.points
    if line.closed:
        return False
    return all(x0 == x1 or y0 == y1 for (x0, y0), (x1, y1) in pairwise(points))


def _extent(shape: Shape) -> tuple[float, float, float, float]:
    assert not isinstance(shape, Words | Area)
    reach = shape.line if shape.stroke else 0.5
    if isinstance(shape, Disc):
        reach += shape.radius
        return (shape.x - reach, shape.y - reach, shape.x + reach, shape.y + reach)
    if isinstance(shape, Box):
        return (shape.x - reach, shape.y - reach, shape.x + shape.width + reach, shape.y + shape.height + reach)
    columns, rows = [x for x, _ in shape.points], [y for _, y in shape.points]
    return (min(columns) - reach, min(rows) - reach, max(columns) + reach, max(rows) + reach)


def _rounded(shape: Shape) -> Shape:
    """The shape without the last bits of its place, which differ after it has been moved."""
    if isinstance(shape, Line | Area):
        return replace(shape, points=tuple((round(x, 3), round(y, 3)) for x, y in shape.points))
    return replace(shape, x=round(shape.x, 3), y=round(shape.y, 3))


def _mix(ink: RGB, ground: RGB, share: float) -> RGB:
    red, green, blue = (round(a * share + b * (1.0 - share)) for a, b in zip(ink, ground, strict=True))
    return (red, green, blue)


_INKS: dict[str, RGB | None] = {"": None}


def _rgb(name: str) -> RGB | None:
    if name not in _INKS:
        colour = ink_of(name)
        _INKS[name] = (int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16))
    return _INKS[name]


def _paper() -> RGB:
    return _rgb("paper") or (255, 255, 255)
