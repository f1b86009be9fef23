"""A sweep's results: a heat map over two parameters, a line with its spread over one.

Every cell carries its number, so that the colour, a single hue from pale to dark, only helps to find it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import floor
from typing import Any

from labkit.plots.draw.picture import Picture
from labkit.plots.draw.shapes import Area, Box, Disc, Line, Shape, Words
from labkit.plots.draw.style import RAMP, SIZE, SIZE_SMALL, SIZE_TICK, contrast, ramp_colour, width_of
from labkit.plots.runs.binned import round_step
from labkit.plots.sweeps.table import Cells, bare_name, cells_of, median, name_words, value_words, words_for

__all__ = ["heat_map", "shades", "sweep_line"]

_EDGE = 10.0
_TOP = 34.0
_LEAST_CELL = 24.0
_INKS = ("#000000", "#FFFFFF")


def heat_map(
    table: Iterable[Mapping[str, Any]],
    *,
    x: str,
    y: str,
    value: str,
    best: str = "",
    width: float = 860.0,
    title: str = "",
) -> Picture:
    """Return the heat map of a sweep over two parameters.

    Several rows for one cell (as from several seeds) give their median. A cell without a number is hatched.

    Args:
        table: rows of parameters and metrics by name.
        x, y: the parameters across and down.
        value: the metric.
        best: "lowest" or "highest" to outline the cells that have it; "" for none.
        width: of the picture, in pixels.
        title: what it is called.

    Raises:
        ValueError: `best` is something else.
    """
    _check(best)
    cells, columns, rows, seeds = cells_of(table, x, y, value)
    numbers = {place: median(found) for place, found in cells.items() if found}
    title = title or f"{bare_name(value)} by {bare_name(x)} and {bare_name(y)}"
    if not columns:
        return _empty(title, width)
    labels = [value_words(row) for row in rows]
    left = max(_EDGE + max(width_of(label, SIZE_SMALL) for label in labels) + 10.0, 54.0)
    left = min(left, width * 0.4)
    wide = max(_LEAST_CELL, min(116.0, (width - left - 16.0) / len(columns)))
    wide = min(wide, (width - left - 16.0) / len(columns))
    high = 36.0 if len(rows) <= 16 else max(12.0, 560.0 / len(rows))
    top = _TOP + 30.0
    shapes: list[Shape] = [_head(title, width, seeds)]
    shapes.append(Words(_EDGE, top - 10.0, f"{_cut(name_words(y), width - 50.0)} ↓", SIZE_SMALL, ink="muted"))
    low, most = min(numbers.values(), default=0.0), max(numbers.values(), default=0.0)
    text_of = words_for(list(numbers.values()))
    size = _fitting([text_of(number) for number in numbers.values()], wide, high)
    aim = {"lowest": low, "highest": most}.get(best)
    outlined = []
    for down, row in enumerate(rows):
        y0 = round(top + down * high, 2)
        if high >= 12.0 and (high >= 16.0 or down % 2 == 0):
            label = _cut(labels[down], left - _EDGE - 8.0)
            shapes.append(Words(left - 8.0, round(y0 + high / 2 + 4.5, 2), label, SIZE_SMALL, "end"))
        for across, column in enumerate(columns):
            x0 = round(left + across * wide, 2)
            inner = (round(wide - 2.0, 2), round(high - 2.0, 2))
            number = numbers.get((column, row))
            if number is None:
                corners = ((x0, y0), (x0 + inner[0], y0), (x0 + inner[0], y0 + inner[1]), (x0, y0 + inner[1]))
                shapes.append(Area(corners, "line", "hatch"))
                continue
            colour = ramp_colour((number - low) / (most - low) if most > low else 0.5)
            shapes.append(Box(x0, y0, inner[0], inner[1], fill=colour))
            ink = max(_INKS, key=lambda one, ground=colour: contrast(one, ground))  # type: ignore[misc]
            if size:
                middle = (round(x0 + inner[0] / 2, 2), round(y0 + inner[1] / 2 + size * 0.36, 2))
                shapes.append(Words(*middle, text_of(number), size, "middle", ink=ink, bold=number == aim))
            if number == aim:
                # Dark inside of the page's own ink: one of the two is seen in either theme.
                outlined.append(
                    Box(x0 + 1.0, y0 + 1.0, round(wide - 4.0, 2), round(high - 4.0, 2), stroke="#000000", line=1.5)
                )
                outlined.append(Box(x0 - 1.0, y0 - 1.0, round(wide, 2), round(high, 2), stroke="text", line=2.5))
    shapes += outlined
    bottom = round(top + len(rows) * high, 2)
    names = [_cut(value_words(column), max(wide, 90.0) - 8.0) for column in columns]
    every = max(1, -(-int(max(width_of(text, SIZE_SMALL) for text in names) + 8.0) // max(1, int(wide))))
    for across, text in enumerate(names):
        if across % every == 0:
            half = width_of(text, SIZE_SMALL) / 2
            place = round(min(left + across * wide + (wide - 2.0) / 2, width - half - 1.0), 2)
            shapes.append(Words(place, bottom + 17.0, text, SIZE_SMALL, "middle"))
    name = _cut(name_words(x), width - left - 40.0)
    shapes.append(Words(left, bottom + 38.0, f"{name} →", SIZE_SMALL, ink="muted"))
    shapes += _scale(text_of(low), text_of(most), numbers, left, width - 16.0, bottom + 38.0, name)
    said = _said(cells, numbers, x, y, value, best, aim, text_of, len(columns) * len(rows))
    return Picture(width, bottom + 50.0, tuple(shapes), title, said)


def shades(numbers: Sequence[float | None]) -> list[tuple[str, str]]:
    """Return ground and ink of the cells of a heat map, from pale for the least to dark for the most.

    A cell without a number has ("", "").

    >>> shades([1.0, None, 3.0])
    [('#DCEBF5', '#000000'), ('', ''), ('#063A5C', '#FFFFFF')]
    """
    known = [number for number in numbers if number is not None]
    low, most = min(known, default=0.0), max(known, default=0.0)
    found = []
    for number in numbers:
        if number is None:
            found.append(("", ""))
            continue
        colour = ramp_colour((number - low) / (most - low) if most > low else 0.5)
        found.append((colour, max(_INKS, key=lambda ink, ground=colour: contrast(ink, ground))))  # type: ignore[misc]
    return found


def sweep_line(
    table: Iterable[Mapping[str, Any]], *, x: str, value: str, best: str = "", width: float = 860.0, title: str = ""
) -> Picture:
    """Return the picture of a sweep over one parameter: the medians as a line, least to most as a band.

    The values of the parameter stand at equal distances, in their order; a number stands at each.

    Args:
        table: the sweep's rows.
        x: the parameter that varies.
        value: the metric.
        best: "lowest" or "highest" to mark the values that have it; "" for none.
        width: pixels.
        title: of the picture; made from the names where it is empty.

    Raises:
        ValueError: `best` is unknown.
    """
    _check(best)
    cells, columns, _, seeds = cells_of(table, x, None, value)
    title = title or f"{bare_name(value)} by {bare_name(x)}"
    found = [(at, sorted(cells[column, None])) for at, column in enumerate(columns) if cells.get((column, None))]
    if not columns:
        return _empty(title, width)
    left, right, top, high = 62.0, width - 24.0, _TOP + 22.0, 190.0
    every = [number for _, numbers in found for number in numbers]
    low, most = min(every, default=0.0), max(every, default=1.0)
    floor_, ceiling = (min(0.0, low), max(most, 0.0)) if low <= 0.4 * abs(most) or low < 0.0 else (low, most)
    if ceiling <= floor_:
        floor_, ceiling = floor_ - (abs(floor_) or 1.0) * 0.5, ceiling + (abs(ceiling) or 1.0) * 0.5
    span = (ceiling - floor_) * 1.16
    base = floor_ if floor_ >= 0.0 and floor_ == 0.0 else floor_ - (ceiling - floor_) * 0.08

    def up(number: float) -> float:
        return round(top + high - (number - base) / span * high, 2)

    step = (right - left - 40.0) / max(1, len(columns) - 1)

    def along(at: int) -> float:
        return round(left + 20.0 + at * step, 2) if len(columns) > 1 else round((left + right) / 2, 2)

    shapes: list[Shape] = [_head(title, width, seeds), Box(left, top, right - left, high, fill="panel")]
    distance = round_step(span / 5.0)
    mark = -floor(-base / distance) * distance
    while mark <= base + span:
        shapes.append(Line(((left, up(mark)), (right, up(mark))), "grid", 1.0))
        shapes.append(Words(left - 6.0, up(mark) + 4.0, f"{round(mark, 10):,.10g}", SIZE_TICK, "end", ink="muted"))
        mark += distance
    text_of = words_for([median(numbers) for _, numbers in found])
    upper = tuple((along(at), up(numbers[-1])) for at, numbers in found)
    lower = tuple((along(at), up(numbers[0])) for at, numbers in reversed(found))
    if len(found) > 1 and any(numbers[0] < numbers[-1] for _, numbers in found):
        shapes.append(Area((*upper, *lower), RAMP[1], fade=0.25))
    middles = [(along(at), up(median(numbers)), median(numbers)) for at, numbers in found]
    if len(middles) > 1:
        shapes.append(Line(tuple((across, over) for across, over, _ in middles), RAMP[1], 2.2))
    values = [number for _, _, number in middles]
    aim = {"lowest": min(values, default=None), "highest": max(values, default=None)}.get(best)
    # The best one's number is always written.
    shown = [
        (across - 4.0 * len(text_of(number)) - 4.0, across + 4.0 * len(text_of(number)) + 4.0)
        for across, _, number in middles
        if number == aim
    ]
    for (across, over, number), (_, numbers) in zip(middles, found, strict=True):
        shapes.append(Line(((across, up(numbers[0])), (across, up(numbers[-1]))), RAMP[1], 1.2))
        shapes.append(
            Disc(
                across,
                over,
                6.0 if number == aim else 4.0,
                fill=RAMP[1],
                stroke="text" if number == aim else "",
                line=2.0,
            )
        )
        half = width_of(text_of(number), SIZE_SMALL, bold=number == aim) / 2
        if number == aim or all(across - half > end + 4.0 or across + half < start - 4.0 for start, end in shown):
            words = Words(across, up(numbers[-1]) - 10.0, text_of(number), SIZE_SMALL, "middle", bold=number == aim)
            shapes.append(words)
            shown.append((across - half, across + half))
    shapes.append(Line(((left, top + high), (right, top + high)), "line", 1.2))
    names = [_cut(value_words(column), (right - left) / 3.0) for column in columns]
    widest = max(width_of(one, SIZE_SMALL) for one in names) + 8.0
    skip = max(1, -(-int(widest) // max(1, int(step))))
    for at, text in enumerate(names):
        if at % skip == 0:
            half = width_of(text, SIZE_SMALL) / 2
            place = max(half, min(along(at), width - half - 1.0))
            shapes.append(Words(round(place, 2), top + high + 18.0, text, SIZE_SMALL, "middle"))
    name = _cut(name_words(x), width - left - 40.0)
    shapes.append(Words(left, top + high + 40.0, f"{name} →", SIZE_SMALL, ink="muted"))
    shapes.append(Words(_EDGE, top - 9.0, _cut(name_words(value), width / 2 - 20.0), SIZE_SMALL, ink="muted"))
    if any(len(numbers) > 1 for _, numbers in found):
        shapes.append(Words(right, top - 9.0, "median, and from the least to the most", SIZE_SMALL, "end", ink="muted"))
    medians = {(columns[at], None): median(numbers) for at, numbers in found}
    said = _said(cells, medians, x, None, value, best, aim, text_of, len(columns))
    return Picture(width, top + high + 52.0, tuple(shapes), title, said)


def _check(best: str) -> None:
    if best not in ("", "lowest", "highest"):
        raise ValueError(f"the best cell is the 'lowest' or the 'highest', and '{best}' is neither")


# -- words


def _fitting(texts: Sequence[str], wide: float, high: float) -> float:
    """The size in which all the texts fit into their cells; 0 where none does."""
    for size in (SIZE, SIZE_SMALL, SIZE_TICK, 9.5):
        if size <= high - 4.0 and all(width_of(text, size, bold=True) <= wide - 4.0 for text in texts):
            return size
    return 0.0


def _cut(text: str, room: float) -> str:
    while len(text) > 1 and width_of(text, SIZE_SMALL) > room:
        text = text[:-2].rstrip() + "…"
    return text


def _head(title: str, width: float, seeds: int) -> Words:
    shown = title
    while len(shown) > 2 and width_of(shown, SIZE, bold=True) > width - 20.0:
        shown = shown[:-2].rstrip() + "…"
    more = f"median of {seeds}" if seeds > 1 else ""
    fits = width_of(shown, SIZE, bold=True) + width_of(more, SIZE) + 30.0 <= width
    return Words(_EDGE, 20.0, shown, SIZE, bold=True, tail=more if fits else "")


def _scale(
    low: str, most: str, numbers: Mapping[Any, float], left: float, right: float, y: float, name: str
) -> list[Shape]:
    """The ramp from the least number to the most, where there is room beside the axis' name."""
    if len(set(numbers.values())) < 2:
        return []
    steps, step = 24, 5.0
    x = right - width_of(most, SIZE_SMALL) - 6.0 - steps * step
    if x - width_of(low, SIZE_SMALL) - 6.0 < left + width_of(f"{name} →", SIZE_SMALL) + 16.0:
        return []
    shapes: list[Shape] = [
        Box(round(x + index * step, 2), y - 10.0, step, 12.0, fill=ramp_colour(index / (steps - 1)))
        for index in range(steps)
    ]
    shapes.append(Words(round(x - 6.0, 2), y, low, SIZE_SMALL, "end", ink="muted"))
    shapes.append(Words(right, y, most, SIZE_SMALL, "end", ink="muted"))
    return shapes


def _empty(title: str, width: float) -> Picture:
    shapes = (_head(title, width, 0), Words(_EDGE, 48.0, "nothing to show", SIZE_SMALL, ink="muted", italic=True))
    return Picture(width, 66.0, shapes, title, "The table has no rows.")


def _said(
    cells: Cells,
    numbers: Mapping[tuple[Any, Any], float],
    x: str,
    y: str | None,
    value: str,
    best: str,
    aim: float | None,
    text_of: Any,
    places: int,
) -> str:
    """What the picture shows."""
    runs = sum(len(found) for found in cells.values())
    by = f"{name_words(x)} and {name_words(y)}" if y is not None else name_words(x)
    sentences = [f"{name_words(value)} of {runs:,} {'run' if runs == 1 else 'runs'}, by {by}."]

    def where(place: tuple[Any, Any]) -> str:
        across = f"{name_words(x)} {value_words(place[0])}"
        return across if y is None else f"{across} and {name_words(y)} {value_words(place[1])}"

    if numbers:
        least, most = min(numbers, key=lambda place: numbers[place]), max(numbers, key=lambda place: numbers[place])
        sentences.append(
            f"It goes from {text_of(numbers[least])} at {where(least)} to {text_of(numbers[most])} at {where(most)}."
        )
    winners = [place for place, number in numbers.items() if number == aim]
    if best and winners:
        sentences.append(f"The {best} is at {', '.join(where(place) for place in winners[:3])}"
                         + (f" and {len(winners) - 3} more." if len(winners) > 3 else "."))  # fmt: skip
    missing = places - len(numbers)
    if missing:
        sentences.append("1 cell has no number." if missing == 1 else f"{missing:,} cells have no number.")
    return " ".join(sentences)
