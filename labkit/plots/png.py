"""Writes a picture as PNG with matplotlib: no display, no internet, the fonts that matplotlib brings."""

from __future__ import annotations

from io import BytesIO
from typing import Any

from labkit.plots.drawing import Box, Disc, Line, Picture, Shape, Words
from labkit.plots.style import INKS, PAPER

__all__ = ["to_png"]

_DPI = 100.0
_POINTS = 72.0 / _DPI  # matplotlib counts type and lines in points
_NARROWER = 0.9  # matplotlib's own font is wider than those of a page


def to_png(picture: Picture, *, scale: float = 2.0) -> bytes:
    """Return the picture as a PNG of few colours on white.

    The same picture gives the same bytes with the same versions of matplotlib and pillow.

    Args:
        picture: what to draw.
        scale: pixels of the file for one of the picture.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from PIL import Image

    figure = Figure(figsize=(picture.width / _DPI, picture.height / _DPI), dpi=_DPI * scale, facecolor="#FFFFFF")
    canvas: Any = FigureCanvasAgg(figure)
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_xlim(0.0, picture.width)
    axes.set_ylim(picture.height, 0.0)
    axes.set_axis_off()
    for order, shape in enumerate(picture.shapes):
        for artist in _artists(shape, axes):
            artist.set_zorder(order)
    canvas.draw()
    image: Any = Image.frombuffer("RGBA", canvas.get_width_height(), canvas.buffer_rgba())
    # Flat colours and smooth edges need no more than a palette, which makes a file a third of the size.
    image = image.convert("RGB").quantize(128, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    out = BytesIO()
    image.save(out, "PNG", optimize=True)
    return out.getvalue()


def _ink(name: str) -> str:
    if not name:
        return "none"
    return PAPER[name] if name in INKS else name


def _artists(shape: Shape, axes: Any) -> list[Any]:
    from matplotlib.patches import Circle

    if isinstance(shape, Box):
        return _box(shape, axes)
    if isinstance(shape, Disc):
        disc = Circle(
            (shape.x, shape.y),
            shape.radius,
            facecolor=_ink(shape.fill),
            edgecolor=_ink(shape.stroke),
            linewidth=shape.line * _POINTS if shape.stroke else 0.0,
        )
        return [axes.add_patch(disc)]
    if isinstance(shape, Line):
        return [axes.add_patch(_path(shape))]
    return [_words(shape, axes)]


def _box(shape: Box, axes: Any) -> list[Any]:
    from matplotlib.collections import LineCollection, PatchCollection
    from matplotlib.patches import Circle, FancyBboxPatch, Rectangle

    place = (shape.x, shape.y)
    look: dict[str, Any] = {
        "facecolor": _ink(shape.fill),
        "edgecolor": _ink(shape.stroke),
        "linewidth": shape.line * _POINTS if shape.stroke else 0.0,
        "linestyle": (0, (4, 3)) if shape.dash else "solid",
        "alpha": shape.opacity,
    }
    box: Any
    if shape.radius:
        style = f"round,pad=0,rounding_size={shape.radius}"
        box = FancyBboxPatch(place, shape.width, shape.height, boxstyle=style, mutation_aspect=1.0, **look)
    else:
        box = Rectangle(place, shape.width, shape.height, **look)
    axes.add_patch(box)
    if shape.texture == "solid":
        return [box]
    left, top, right, bottom = shape.x, shape.y, shape.x + shape.width, shape.y + shape.height
    texture: Any
    if shape.texture == "hatch":
        step, reach = 8.0 * 2**0.5, shape.height
        first = int((left - reach) // step)
        last = int((right + reach) // step) + 1
        lines = [((i * step, bottom), (i * step + reach, top)) for i in range(first, last)]
        texture = LineCollection(lines, colors=_ink(shape.ink), linewidths=3.0 * _POINTS)
    else:
        columns = range(int(left // 6), int(right // 6) + 1)
        rows = range(int(top // 6), int(bottom // 6) + 1)
        dots = [Circle((6.0 * i + 3.0, 6.0 * j + 3.0), 1.3) for i in columns for j in rows]
        texture = PatchCollection(dots, facecolors=_ink(shape.ink), linewidths=0.0)
    axes.add_collection(texture, autolim=False)
    texture.set_clip_path(box)
    return [box, texture]


def _path(shape: Line) -> Any:
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    codes: list[Any] = [Path.MOVETO, *[Path.CURVE4 if shape.curved else Path.LINETO] * (len(shape.points) - 1)]
    points = list(shape.points)
    if shape.closed:
        points.append(points[0])
        codes.append(Path.CLOSEPOLY)
    return PathPatch(
        Path(points, codes),
        facecolor=_ink(shape.fill),
        edgecolor=_ink(shape.stroke),
        linewidth=shape.line * _POINTS if shape.stroke else 0.0,
        linestyle=(0, (4, 3)) if shape.dash else "solid",
        capstyle="butt" if shape.dash else "round",
        joinstyle="round",
    )


def _words(shape: Words, axes: Any) -> Any:
    return axes.text(
        shape.x,
        shape.y,
        shape.text.replace("$", r"\$"),
        fontsize=shape.size * _POINTS * _NARROWER,
        family="DejaVu Sans Mono" if shape.mono else "DejaVu Sans",
        weight="bold" if shape.bold else "normal",
        style="italic" if shape.italic else "normal",
        color=_ink(shape.ink),
        ha={"start": "left", "middle": "center", "end": "right"}[shape.anchor],
        va="baseline",
    )
