"""Writes shapes as SVG: text, the same bytes every time, no library needed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from html import escape as escape_html

from labkit.plots.draw.shapes import Area, Box, Disc, Line, Shape
from labkit.plots.draw.style import FONT_FAMILY, INKS, MONO_FAMILY, PAPER, TEXTURES, THEMED

__all__ = ["to_svg"]

_FILE_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, Helvetica, Arial, 'DejaVu Sans', sans-serif"
_FILE_MONO = "ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace"

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def to_svg(shapes: Sequence[Shape], width: float, height: float, *, title: str, alt: str, themed: bool = False) -> str:
    """Return shapes as one `<svg>` element.

    Args:
        shapes: what to draw, from the back to the front.
        width, height: pixels.
        title: what they are a picture of, in a few words.
        alt: what they show, in whole sentences.
        themed: take the colours and the type of the page that it is put into, on a transparent ground; otherwise a
            file's colours on white.
    """
    inks = THEMED if themed else PAPER
    # Two pictures on one page must not share a pattern's id: a browser paints with the first, even a hidden one.
    key = sha256(f"<picture: {title}>{tuple(shapes)!r}".encode() + bytes([themed])).hexdigest()[:8]
    patterns: dict[tuple[str, str], str] = {}
    body = [_shape(shape, inks, patterns, key, themed) for shape in shapes]
    title_id, description_id = f"labkit-{key}-title", f"labkit-{key}-desc"
    ground = "" if themed else f'<rect width="{_n(width)}" height="{_n(height)}" fill="#FFFFFF"/>'
    # An element whose id is taken twice is an error on a page with two views of one picture, so a themed one is named
    # without ids.
    name = (
        f'aria-label="{escape(title)}. {escape(alt)}"' if themed else f'aria-labelledby="{title_id} {description_id}"'
    )
    head = "" if themed else (
        f'<title id="{title_id}">{escape(title)}</title><desc id="{description_id}">{escape(alt)}</desc>'
    )  # fmt: skip
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_n(width)} {_n(height)}" '
        f'width="{_n(width)}" height="{_n(height)}" role="img" {name} '
        f'font-family="{escape(FONT_FAMILY if themed else _FILE_FONT)}">'
        f"{head}{_defs(patterns, inks)}{ground}{''.join(body)}</svg>"
    )


def escape(text: str) -> str:
    """The text as XML; a character that XML does not have is the replacement character."""
    return escape_html(text) if text.isprintable() else escape_html(_NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text))


@lru_cache(maxsize=1 << 14)
def _n(value: float) -> str:
    # The same places come again and again: lines of one picture share their bins, and pictures under a slider most of
    # theirs. Zero is added since -0.0 and 0.0 are one key.
    return f"{round(value, 2) + 0.0:g}"


def _ink(name: str, inks: Mapping[str, str]) -> str:
    return inks[name] if name in INKS else name


def _paint(attribute: str, name: str, inks: Mapping[str, str]) -> str:
    if not name:
        return f' {attribute}="none"'
    ink = _ink(name, inks)
    # A presentation attribute does not take var(); a style does.
    return f' style="{attribute}:{ink}"' if ink.startswith("var(") else f' {attribute}="{ink}"'


def _paints(fill: str, stroke: str, inks: Mapping[str, str]) -> str:
    both = _paint("fill", fill, inks) + _paint("stroke", stroke, inks)
    return both.replace('" style="', ";") if both.count(" style=") == 2 else both


def _line(line: float, dash: bool, stroke: str) -> str:
    if not stroke:
        return ""
    return f' stroke-width="{_n(line)}"' + (' stroke-dasharray="5 4"' if dash else "")


def _shape(shape: Shape, inks: Mapping[str, str], patterns: dict[tuple[str, str], str], key: str, themed: bool) -> str:
    if isinstance(shape, Box):
        where = f'x="{_n(shape.x)}" y="{_n(shape.y)}" width="{_n(shape.width)}" height="{_n(shape.height)}"'
        if shape.radius:
            where += f' rx="{_n(shape.radius)}"'
        look = _paints(shape.fill, shape.stroke, inks) + _line(shape.line, shape.dash, shape.stroke)
        plain = f"<rect {where}{look}/>"
        if shape.texture == "solid":
            return plain
        name = patterns.setdefault((shape.texture, shape.ink), f"labkit-{key}-{len(patterns)}")
        return f'{plain}<rect {where} fill="url(#{name})"/>'
    if isinstance(shape, Disc):
        look = _paints(shape.fill, shape.stroke, inks) + _line(shape.line, False, shape.stroke)
        return f'<circle cx="{_n(shape.x)}" cy="{_n(shape.y)}" r="{_n(shape.radius)}"{look}/>'
    if isinstance(shape, Line):
        return _path(shape, inks)
    if isinstance(shape, Area):
        return _area(shape, inks, patterns, key)
    look = _paint("fill", shape.ink, inks)
    if shape.mono:
        look += f' font-family="{escape(MONO_FAMILY if themed else _FILE_MONO)}"'
    if shape.bold:
        look += ' font-weight="600"'
    if shape.italic:
        look += ' font-style="italic"'
    if shape.anchor != "start":
        look += f' text-anchor="{shape.anchor}"'
    text = escape(shape.text)
    if shape.tail:
        tail = _paint("fill", shape.tail_ink, inks)
        text += f'<tspan dx="{_n(shape.size * 0.5)}" font-weight="400"{tail}>{escape(shape.tail)}</tspan>'
    return f'<text x="{_n(shape.x)}" y="{_n(shape.y)}" font-size="{_n(shape.size)}"{look}>{text}</text>'


def _area(shape: Area, inks: Mapping[str, str], patterns: dict[tuple[str, str], str], key: str) -> str:
    data = "L".join([f"{_n(x)} {_n(y)}" for x, y in shape.points])
    if shape.texture == "solid":
        faded = f' fill-opacity="{_n(shape.fade)}"' if shape.fade < 1.0 else ""
        return f'<path d="M{data}Z"{_paint("fill", shape.fill, inks)}{faded}/>'
    name = patterns.setdefault((f"fine {shape.texture}", shape.fill), f"labkit-{key}-{len(patterns)}")
    return f'<path d="M{data}Z" fill="url(#{name})"/>'


def _path(shape: Line, inks: Mapping[str, str]) -> str:
    pairs = [f"{_n(x)} {_n(y)}" for x, y in shape.points]
    if shape.curved:
        data = f"M{pairs[0]}" + "".join(f"C{' '.join(pairs[i : i + 3])}" for i in range(1, len(pairs), 3))
    else:
        data = "M" + "L".join(pairs)
    look = _paints(shape.fill, shape.stroke, inks) + _line(shape.line, shape.dash, shape.stroke)
    ends = ' stroke-linecap="round" stroke-linejoin="round"' if shape.stroke and not shape.dash else ""
    return f'<path d="{data}{"Z" if shape.closed else ""}"{look}{ends}/>'


def _defs(patterns: Mapping[tuple[str, str], str], inks: Mapping[str, str]) -> str:
    if not patterns:
        return ""
    parts = []
    for (texture, ink), name in patterns.items():
        side, thick = TEXTURES[texture]
        if texture.endswith("hatch"):
            inside = f'<path d="M0 0V{_n(side)}"{_paint("stroke", ink, inks)} stroke-width="{_n(thick)}"/>'
            turn = ' patternTransform="rotate(45)"'
        else:
            inside = f'<circle cx="{_n(side / 2)}" cy="{_n(side / 2)}" r="{_n(thick)}"{_paint("fill", ink, inks)}/>'
            turn = ""
        parts.append(
            f'<pattern id="{name}" width="{_n(side)}" height="{_n(side)}" patternUnits="userSpaceOnUse"{turn}>'
            f"{inside}</pattern>"
        )
    return f"<defs>{''.join(parts)}</defs>"
