"""Draws pictures again and again, as under a slider: a PNG in a tenth of the time that `png.py` takes.

The image holds numbers of colours from the start, a byte a pixel. What is straight up, down or across is set onto whole
pixels and needs no smoothing; type, marks and slanted lines are drawn larger and averaged down to a few levels, each a
colour between the ink and what lies beneath. Their shapes are kept from one picture to the next, the colours are not:
the same picture gives the same bytes, whatever was drawn before.
"""

from __future__ import annotations

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
Ramp: TypeAlias = tuple[int, ...]

_FINER = 2
_LEVELS = 5  # from what lies beneath to the ink
_HALF: Ramp = (0, 0, 255, 255, 0, 0)  # where a texture is half there, and where it is wholly
_FULL: Ramp = (0, 0, 0, 0, 255, 255)
_KEPT = 8000  # shapes; more than a picture has, and little memory
_TEXTURES = 24  # each as large as the picture
_MOST = 256  # colours of a file


class Canvas:
    """Keeps what pictures have in common.

    Args:
        scale: pixels of the file for one of the picture.

    It is not safe to use one from two threads at once.
    """

    def __init__(self, scale: float = 2.0) -> None:
        self._scale = scale
        self._image: Any = None
        self._stamps: dict[Any, Any] = {}
        self._textures: dict[tuple[str, Ramp], PillowImage] = {}
        self._colours: dict[RGB, int] = {}
        self._rgb: list[RGB] = []
        self._mixtures: dict[tuple[RGB, int, float], int] = {}
        self._ramps: dict[tuple[RGB, RGB], Ramp] = {}

    def png(self, picture: Picture) -> bytes:
        """Return the picture as a PNG of at most 256 colours on white.

        The same picture gives the same bytes with the same version of pillow.
        """
        from PIL import Image, ImageDraw

        size = (round(picture.width * self._scale), round(picture.height * self._scale))
        if self._image is None or self._image.size != size:
            self._textures.clear()
        self._colours.clear()
        self._rgb.clear()
        self._mixtures.clear()
        self._ramps.clear()
        # To pillow it is shades of grey until it is drawn: those carry no palette from one piece to the next.
        self._image = Image.new("L", size, self._number(_rgb_of("paper")))
        self._pixels: Any = self._image.load()
        self._pen = ImageDraw.Draw(self._image)
        if len(self._stamps) > _KEPT:
            self._stamps.clear()
        if len(self._textures) > _TEXTURES:
            self._textures.clear()
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
        self._image.putpalette([channel for colour in self._rgb for channel in colour])
        out = BytesIO()
        self._image.save(out, "PNG", compress_level=1)
        return out.getvalue()

    # -- shapes

    def _box(self, box: Box) -> None:
        if (box.stroke and box.dash) or (box.radius and box.texture != "solid"):
            self._smooth(box)
            return
        scale = self._scale
        # A line lies half inside and half outside of the edge that it follows.
        half = box.line / 2 if box.stroke else 0.0
        x0, y0 = round((box.x - half) * scale), round((box.y - half) * scale)
        x1, y1 = round((box.x + box.width + half) * scale), round((box.y + box.height + half) * scale)
        if x1 <= x0 or y1 <= y0:
            return
        fill = self._number(_rgb_of(box.fill)) if box.fill else None
        stroke = self._number(_rgb_of(box.stroke)) if box.stroke else None
        edge = max(1, round(box.line * scale))
        if box.radius:
            corners = (x0, y0, x1 - 1, y1 - 1)
            self._pen.rounded_rectangle(corners, (box.radius + half) * scale, fill=fill, outline=stroke, width=edge)
            return
        if box.texture != "solid":
            ground = _rgb_of(box.fill or "paper")
            ramp = self._ramp(_rgb_of(box.ink), ground)
            self._image.paste(self._texture(box.texture, ramp).crop((x0, y0, x1, y1)), (x0, y0))
        elif fill is not None:
            self._image.paste(fill, (x0, y0, x1, y1))
        if stroke is not None and stroke != fill:
            self._pen.rectangle((x0, y0, x1 - 1, y1 - 1), outline=stroke, width=edge)

    def _area(self, area: Area) -> None:
        from PIL import Image, ImageChops, ImageDraw

        places = [(round(x * self._scale), round(y * self._scale)) for x, y in area.points]
        ink = _rgb_of(area.fill)
        if area.texture == "solid" and area.fade >= 1.0:
            self._pen.polygon(places, fill=self._number(ink))
            return
        columns, rows = [x for x, _ in places], [y for _, y in places]
        left, top = max(0, min(columns)), max(0, min(rows))
        right, bottom = min(self._image.width, max(columns) + 1), min(self._image.height, max(rows) + 1)
        if right <= left or bottom <= top:
            return
        mask = Image.new("L", (right - left, bottom - top))
        ImageDraw.Draw(mask).polygon([(x - left, y - top) for x, y in places], fill=255)
        beneath = self._image.crop((left, top, right, bottom))
        present = [number for _, number in beneath.getcolors(_MOST)]
        shares = [(area.fade, mask)]
        if area.texture != "solid":
            shares = []
            for share, among in ((0.5, _HALF), (1.0, _FULL)):
                texture = self._texture(f"fine {area.texture}", among).crop((left, top, right, bottom))
                shares.append((share, ImageChops.multiply(mask, texture)))
        for share, where in shares:
            turned = list(range(256))
            for number in present:
                turned[number] = self._mixed(ink, number, share)
            self._image.paste(beneath.point(turned), (left, top), where)

    def _line(self, line: Line) -> None:
        if not line.stroke:
            return
        ink, width = self._number(_rgb_of(line.stroke)), max(1, round(line.line * self._scale))
        places = [(round(x * self._scale), round(y * self._scale)) for x, y in line.points]
        if not line.dash:
            self._pen.line(places, ink, width)
            return
        on, off = round(5.0 * self._scale), round(4.0 * self._scale)
        for (x0, y0), (x1, y1) in pairwise(places):
            low, high = (min(x0, x1), max(x0, x1)) if y0 == y1 else (min(y0, y1), max(y0, y1))
            for start in range(low, high, on + off):
                end = min(high, start + on)
                ends = [(start, y0), (end, y0)] if y0 == y1 else [(x0, start), (x0, end)]
                self._pen.line(ends, ink, width)

    def _words(self, words: Words) -> None:
        from PIL import Image, ImageDraw

        scale = self._scale
        pixels = round(words.size * NARROWER * scale)
        at: float = round(words.x * scale)
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
                found = self._stamps[key] = (_levels(mask), left, top, font.getlength(text))
            stamp, left, top, wide = found
            start = at - {"start": 0.0, "middle": wide / 2, "end": wide}[anchor]
            x, y = round(start) + left, round(words.y * scale) + top
            # What lies beneath is seen where the line begins: before its first letter, at its foot.
            self._lay(key, stamp, _rgb_of(ink), x, y, (x - 1, y + stamp[0].height - 1))
            at = start + wide + words.size * scale * 0.5

    def _smooth(self, shape: Shape) -> None:
        """Anything else, drawn larger; the same shape elsewhere is the same stamp."""
        x0, y0, x1, y1 = _extent(shape)
        scale = self._scale
        # Moved by whole pixels, so that a mark looks alike wherever it stands.
        left, top = floor(x0 * scale) - 1, floor(y0 * scale) - 1
        key = _key(shape, left / scale, top / scale)
        parts = self._stamps.get(key)
        if parts is None:
            (home,) = moved([shape], -left / scale, -top / scale)
            size = (ceil((x1 - x0) * scale) + 3, ceil((y1 - y0) * scale) + 3)
            parts = self._stamps[key] = _stamps(_rounded(home), size, scale)
        for number, (ink, stamp) in enumerate(parts):
            self._lay((key, number), stamp, ink, left, top, (left + stamp[0].width // 2, top + stamp[0].height // 2))

    def _lay(self, key: Any, stamp: Any, ink: RGB, x: int, y: int, beneath: tuple[int, int]) -> None:
        levels, mask = stamp
        width, height = self._image.size
        pixel = (min(width - 1, max(0, beneath[0])), min(height - 1, max(0, beneath[1])))
        ramp = self._ramp(ink, self._rgb[self._pixels[pixel]])
        coloured = self._stamps.get((key, ramp))
        if coloured is None:
            coloured = self._stamps[key, ramp] = levels.point(_by_level(ramp))
        self._image.paste(coloured, (x, y), mask)

    # -- colours

    def _number(self, colour: RGB) -> int:
        """The colour's number in this picture; a colour more than fits is the nearest of those that are there."""
        found = self._colours.get(colour)
        if found is None:
            if len(self._rgb) < _MOST:
                found = len(self._rgb)
                self._rgb.append(colour)
            else:
                found = min(range(_MOST), key=lambda one: _apart(self._rgb[one], colour))
            self._colours[colour] = found
        return found

    def _mixed(self, ink: RGB, number: int, share: float) -> int:
        found = self._mixtures.get((ink, number, share))
        if found is None:
            found = self._mixtures[ink, number, share] = self._number(_mix(ink, self._rgb[number], share))
        return found

    def _ramp(self, ink: RGB, ground: RGB) -> Ramp:
        """The numbers of the colours from the ground to the ink, by level."""
        found = self._ramps.get((ink, ground))
        if found is None:
            shares = [level / _LEVELS for level in range(_LEVELS + 1)]
            found = self._ramps[ink, ground] = tuple(self._number(_mix(ink, ground, share)) for share in shares)
        return found

    def _texture(self, name: str, ramp: Ramp) -> PillowImage:
        """A texture in these numbers, as large as the picture."""
        from PIL import Image, ImageDraw

        found = self._textures.get((name, ramp))
        if found is None:
            levels = self._textures.get((name, ()))
            if levels is None:
                width, height = self._image.size
                large = Image.new("L", (width * _FINER, height * _FINER))
                draw_texture(ImageDraw.Draw(large), name, 255, self._scale * _FINER, (0, 0), large.size)
                levels = self._textures[name, ()] = _levels(large.reduce(_FINER))[0]
            found = self._textures[name, ramp] = levels.point(_by_level(ramp))
        return found


def _by_level(ramp: Ramp) -> list[int]:
    return [*ramp, *[ramp[-1]] * (256 - len(ramp))]


def _levels(mask: PillowImage) -> tuple[PillowImage, PillowImage]:
    """A mask in levels, and where they are not zero."""
    levels = mask.point([round(value / 255 * _LEVELS) for value in range(256)])
    return levels, levels.point([0] + [255] * 255)


def _stamps(shape: Shape, size: tuple[int, int], scale: float) -> list[tuple[RGB, Any]]:
    """The shape's fill, texture and edge, each as an ink and where it goes."""
    from PIL import Image

    assert not isinstance(shape, Words | Area)
    parts: list[tuple[str, Shape]] = []
    if shape.fill:
        parts.append((shape.fill, replace(shape, fill="#FFFFFF", stroke="", **_plain(shape))))
    if isinstance(shape, Box) and shape.texture != "solid":
        parts.append((shape.ink, replace(shape, fill="#000000", stroke="", ink="#FFFFFF")))
    if shape.stroke:
        parts.append((shape.stroke, replace(shape, fill="", stroke="#FFFFFF", **_plain(shape))))
    found = []
    for ink, part in parts:
        large = Image.new("L", (size[0] * _FINER, size[1] * _FINER))
        Pen(large, scale * _FINER).draw(part)
        found.append((_rgb_of(ink), _levels(large.reduce(_FINER))))
    return found


def _plain(shape: Shape) -> dict[str, Any]:
    return {"texture": "solid"} if isinstance(shape, Box) else {}


def _is_square(line: Line) -> bool:
    """Whether it goes nowhere but up, down and across; a line of many points is judged by its ends."""
    if line.closed:
        return False
    points = line.points if len(line.points) < 64 else (*line.points[:4], *line.points[-4:])
    return all(
        x0 == x1 or y0 == y1
        for at, ((x0, y0), (x1, y1)) in enumerate(pairwise(points))
        if points is line.points or at != 3
    )


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


def _key(shape: Shape, dx: float, dy: float) -> tuple[Any, ...]:
    """What tells a shape from others, wherever it stands."""
    if isinstance(shape, Line):
        places = tuple([(round(x - dx, 3), round(y - dy, 3)) for x, y in shape.points])
        return (places, shape.stroke, shape.line, shape.dash, shape.curved, shape.closed, shape.fill)
    return (_rounded(moved([shape], -dx, -dy)[0]),)


def _rounded(shape: Shape) -> Shape:
    """The shape without the last bits of its place, which differ after it has been moved."""
    if isinstance(shape, Line | Area):
        return replace(shape, points=tuple((round(x, 3), round(y, 3)) for x, y in shape.points))
    return replace(shape, x=round(shape.x, 3), y=round(shape.y, 3))


def _mix(ink: RGB, ground: RGB, share: float) -> RGB:
    red, green, blue = (round(a * share + b * (1.0 - share)) for a, b in zip(ink, ground, strict=True))
    return (red, green, blue)


def _apart(one: RGB, other: RGB) -> int:
    return sum((a - b) ** 2 for a, b in zip(one, other, strict=True))


_KNOWN: dict[str, RGB] = {}


def _rgb_of(name: str) -> RGB:
    if name not in _KNOWN:
        colour = ink_of(name) or PAPER["paper"]
        _KNOWN[name] = (int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16))
    return _KNOWN[name]
