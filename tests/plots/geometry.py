"""What holds for every picture: everything inside, no words on words."""

from __future__ import annotations

from itertools import combinations

from labkit.plots import Picture
from labkit.plots.draw.shapes import Area, Box, Disc, Line, Words
from labkit.plots.draw.style import width_of

SLACK = 0.75  # pixels


def words_of(picture: Picture) -> list[Words]:
    """Its lines of text."""
    return [shape for shape in picture.shapes if isinstance(shape, Words)]


def texts(picture: Picture) -> list[str]:
    """Its texts, each with its tail."""
    return [f"{shape.text} {shape.tail}".strip() for shape in words_of(picture)]


def place_of(words: Words) -> tuple[float, float, float, float]:
    """(left, top, right, bottom) that a line of text takes, in a font of middling width."""
    wide = width_of(words.text, words.size, bold=words.bold) * 0.92
    left = words.x - {"start": 0.0, "middle": wide / 2, "end": wide}[words.anchor]
    right = left + wide + (width_of(words.tail, words.size) * 0.92 + words.size * 0.5 if words.tail else 0.0)
    return left, words.y - words.size * 0.72, right, words.y + words.size * 0.2


def extent_of(shape: object) -> tuple[float, float, float, float]:
    """(left, top, right, bottom) of any shape."""
    if isinstance(shape, Words):
        return place_of(shape)
    if isinstance(shape, Box):
        return shape.x, shape.y, shape.x + shape.width, shape.y + shape.height
    if isinstance(shape, Disc):
        return shape.x - shape.radius, shape.y - shape.radius, shape.x + shape.radius, shape.y + shape.radius
    assert isinstance(shape, Line | Area)
    xs, ys = [x for x, _ in shape.points], [y for _, y in shape.points]
    return min(xs), min(ys), max(xs), max(ys)


def outside(picture: Picture) -> list[object]:
    """The shapes that leave the picture."""
    found = []
    for shape in picture.shapes:
        left, top, right, bottom = extent_of(shape)
        inside = left >= -SLACK and top >= -SLACK and right <= picture.width + SLACK
        if not (inside and bottom <= picture.height + SLACK):
            found.append(shape)
    return found


def overlapping(picture: Picture) -> list[tuple[str, str]]:
    """The pairs of texts that lie on each other."""
    found = []
    for one, other in combinations(words_of(picture), 2):
        a, b = place_of(one), place_of(other)
        if a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]:
            found.append((one.text, other.text))
    return found
