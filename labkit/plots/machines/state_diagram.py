"""A machine drawn from its table of transitions, with the state it is in and the row it just took lit.

A row that stays in its state is written into the state's card; a row that leaves it is an arrow (or, in `state_cards`,
a line with the next state's name). A row that only a fault of the toolkit makes possible is dashed. What happens alike
in every state, as when somebody forces a breaker open, is told once, in a card of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from labkit.plots.draw.picture import Picture
from labkit.plots.draw.shapes import Box, Line, Shape, Words, arrow, moved, wrap
from labkit.plots.draw.style import SIZE, SIZE_SMALL, STATES, state_style, width_of
from labkit.policies import Transition

__all__ = ["find_row", "state_cards", "state_diagram"]

_ROW = 17.0  # from one line of a card to the next
_HEAD = 38.0
_PAD = 13.0
_ANYWHERE = "ANY_STATE"


def find_row(
    table: Iterable[Transition], source: str, trigger: str, target: str, *, effect: str = "", guard: str = ""
) -> Transition | None:
    """Return the row of a table that was taken, or None.

    Args:
        table: where to look.
        source, trigger, target: as in `Transition`.
        effect, guard: words that the row's effect and guard begin with, where the first three leave a choice.
    """
    for row in table:
        if (row.source, row.trigger, row.target) == (source, trigger, target):
            if row.effect.startswith(effect) and row.guard.startswith(guard):
                return row
    return None


def state_diagram(
    table: Sequence[Transition],
    *,
    current: str | None = None,
    taken: Transition | None = None,
    faults: bool = False,
    title: str = "State diagram",
) -> Picture:
    """Return the diagram of a breaker: three states, the arrows between them, and what happens without a change.

    Args:
        table: a machine's rows. A machine of other states than CLOSED, OPEN and HALF_OPEN is drawn by `state_cards`.
        current: the state to light.
        taken: the row to light.
        faults: draw the rows that only a fault makes possible, too. The one in `taken` is drawn in any case.
        title: what the picture is called.
    """
    rows = _chosen(table, taken, faults)
    if {row.source for row in rows} | {row.target for row in rows} != set(STATES) or any(
        (row.source, row.target) == ("CLOSED", "HALF_OPEN") for row in rows
    ):
        return state_cards(table, current=current, taken=taken, faults=faults, title=title)
    everything = rows
    rows, anywhere = _anywhere(rows)
    width, side, middle = 860.0, 236.0, 324.0
    stay = {state: [row for row in rows if row.source == row.target == state] for state in STATES}
    go = {
        pair: [row for row in rows if (row.source, row.target) == pair]
        for pair in ((source, target) for source in STATES for target in STATES)
    }
    late = [
        (pair, [row for row in go[pair] if row.fault is not None or pair == ("OPEN", "CLOSED")])
        for pair in (("CLOSED", "OPEN"), ("OPEN", "CLOSED"))
    ]
    late = [(pair, them) for pair, them in late if them]
    over = go["CLOSED", "OPEN"] if not late else [row for row in go["CLOSED", "OPEN"] if row.fault is None]
    # There is room for the words of one row over the upper arrow, and for those of more above that.
    arch = 68.0 + (len(_label_lines(over, taken, width - 300.0)) - 3) * _ROW if len(over) > 1 else 68.0
    top = arch + 28.0 + 34.0 * len(late)
    heights = {state: _card_height(stay[state], middle if state == "HALF_OPEN" else side) for state in STATES}
    left = (width - middle) / 2
    right = left + middle
    # Under the outer cards there is room for the arrows to and from the middle one, and for their words.
    rooms = (width - right - 38.0, width - 52.0 - right, left - 50.0)
    sides = (go["OPEN", "HALF_OPEN"], go["HALF_OPEN", "OPEN"], go["HALF_OPEN", "CLOSED"])
    down, up, back = (len(_label_lines(rows, taken, room)) for rows, room in zip(sides, rooms, strict=True))
    heights["HALF_OPEN"] = max(
        heights["HALF_OPEN"],
        heights["OPEN"] + max(158.0, (max(down, 4) + up) * _ROW + 44.0),
        heights["CLOSED"] + max(112.0, back * _ROW + 40.0),
    )
    places = {"CLOSED": (10.0, top), "OPEN": (width - side - 10.0, top), "HALF_OPEN": (left, top)}
    closed_end, open_end = top + heights["CLOSED"] + 3.0, top + heights["OPEN"] + 3.0
    shapes: list[Shape] = []

    x0, x1 = 10.0 + side / 2, width - 10.0 - side / 2
    shapes += _edge(over, taken, _bend((x0, top - 3.0), (x0, arch), (x1, arch), (x1, top - 3.0)))
    shapes += _label(over, taken, width / 2, arch - 8.0, "above", width - 300.0)
    for index, ((source, _), them) in enumerate(late):
        y, inset = arch + 36.0 + 34.0 * index, 22.0 * (index + 1)
        path = _bend((x0 + inset, top - 3.0), (x0 + inset, y), (x1 - inset, y), (x1 - inset, top - 3.0))
        shapes += _edge(them, taken, path if source == "CLOSED" else path[::-1])
        shapes += _label(them, taken, width / 2, y - 7.0, "above", width - 300.0)

    x = right + 34.0
    y = open_end + 66.0
    shapes += _edge(sides[0], taken, _bend((x, open_end), (x, y), (right + 3.0, y)))
    shapes += _label(sides[0], taken, x + 12.0, open_end + 17.0, "right", width - x - 16.0)
    y = top + heights["HALF_OPEN"] - 10.0
    shapes += _edge(sides[1], taken, _bend((right + 3.0, y), (width - 24.0, y), (width - 24.0, open_end)))
    shapes += _label(sides[1], taken, right + 16.0, y - 8.0, "over", width - 36.0 - right - 16.0)
    shapes += _edge(sides[2], taken, _bend((left - 3.0, y), (24.0, y), (24.0, closed_end)))
    shapes += _label(sides[2], taken, 38.0, y - 8.0, "over", left - 50.0)
    height = top + heights["HALF_OPEN"] + 12.0
    for state, (x, y) in places.items():
        shapes += moved(
            _card(
                state, stay[state], middle if state == "HALF_OPEN" else side, heights[state], current == state, taken
            ),
            x,
            y,
        )
    if anywhere:
        high = _card_height(anywhere, width - 20.0)
        shapes += moved(_card(_ANYWHERE, anywhere, width - 20.0, high, False, taken), 10.0, height)
        height += high + 12.0
    return Picture(width, height, tuple(shapes), title, _alt(everything, current, taken))


def state_cards(
    table: Sequence[Transition],
    *,
    current: str | None = None,
    taken: Transition | None = None,
    faults: bool = False,
    title: str = "State diagram",
    width: float = 340.0,
) -> Picture:
    """Return any machine as a column of cards, one a state, each with all rows that start in it. For narrow places.

    Args:
        table, current, taken, faults, title: as for `state_diagram`.
        width: of the picture, in pixels.
    """
    everything = _chosen(table, taken, faults)
    rows, anywhere = _anywhere(everything)
    states = list(dict.fromkeys([row.source for row in rows] + [row.target for row in rows]))
    shapes: list[Shape] = []
    y = 10.0
    for state in states:
        mine = [row for row in rows if row.source == state]
        height = _card_height(mine, width - 20.0)
        shapes += moved(_card(state, mine, width - 20.0, height, current == state, taken), 10.0, y)
        y += height + 12.0
    if anywhere:
        height = _card_height(anywhere, width - 20.0)
        shapes += moved(_card(_ANYWHERE, anywhere, width - 20.0, height, False, taken), 10.0, y)
        y += height + 12.0
    return Picture(width, y, tuple(shapes), title, _alt(everything, current, taken))


# ---------------------------------------------------------------------------------------------------------------- cards


def _chosen(table: Sequence[Transition], taken: Transition | None, faults: bool) -> list[Transition]:
    return [row for row in table if faults or row.fault is None or row == taken]


def _anywhere(rows: Sequence[Transition]) -> tuple[list[Transition], list[Transition]]:
    """The rows of single states, and those that every state has alike: to one target, with one effect."""
    alike: dict[tuple[str, str, str, str], set[str]] = {}
    for row in rows:
        if row.fault is None:
            alike.setdefault((row.trigger, row.guard, row.target, row.effect), set()).add(row.source)
    states = {row.source for row in rows}
    common = {key for key, sources in alike.items() if len(states) > 2 and sources == states}
    single = [row for row in rows if (row.trigger, row.guard, row.target, row.effect) not in common]
    # The rows that change the state first: by them it is seen that an entry leads somewhere.
    return single, sorted((row for row in rows if row not in single), key=lambda row: row.source == row.target)


class _Entry(NamedTuple):
    """Lines of a card: rows that differ in nothing but their trigger are told together."""

    rows: tuple[Transition, ...]
    triggers: str
    effect: str
    guard: str


def _entries(rows: Sequence[Transition]) -> list[_Entry]:
    together: dict[tuple[str, str, str, str | None], list[Transition]] = {}
    for row in rows:
        together.setdefault((row.guard, row.target, row.effect, row.fault), []).append(row)
    entries = []
    for (guard, _, effect, _), same in together.items():
        triggers = ", ".join(dict.fromkeys(row.trigger for row in same))
        entries.append(_Entry(tuple(same), triggers, effect, _condition(guard)))
    return entries


def _condition(guard: str) -> str:
    """A guard as the end of a sentence: "if failures + 1 ≥ failure_threshold", "if it is the probe"."""
    if not guard:
        return ""
    return ("if it is " if guard.startswith(("the probe", "not the probe")) else "if ") + guard.replace(">=", "≥")


def _entry_lines(entry: _Entry, width: float) -> tuple[list[str], list[str], list[str], bool]:
    """The triggers' lines, the effect's and the guard's, and whether the effect stands beside the triggers."""
    effect = f"→ {entry.effect}"
    together = width_of(entry.triggers, SIZE_SMALL, bold=True) + 7.0 + width_of(effect, SIZE_SMALL)
    beside = together <= width
    triggers = wrap(entry.triggers, width, bold=True)
    effects = [effect] if beside else wrap(effect, width)
    guards = wrap(entry.guard, width, SIZE_SMALL - 0.5) if entry.guard else []
    return triggers, effects, guards, beside


def _entry_height(entry: _Entry, width: float) -> float:
    triggers, effects, guards, beside = _entry_lines(entry, width)
    moves = entry.rows[0].target != entry.rows[0].source
    return _ROW * (len(triggers) + (0 if beside else len(effects)) + len(guards) + moves) + 7.0


def _card_height(rows: Sequence[Transition], width: float) -> float:
    inner = width - 2 * _PAD
    return _HEAD + sum(_entry_height(entry, inner) for entry in _entries(rows)) + (12.0 if rows else 0.0)


def _card(
    state: str, rows: Sequence[Transition], width: float, height: float, lit: bool, taken: Transition | None
) -> list[Shape]:
    style = state_style(state)
    shapes: list[Shape] = [
        Box(0, 0, width, height, 9.0, fill="panel", stroke=style.colour if lit else "line", line=3.0 if lit else 1.2)
    ]
    shapes += _head(state, width, lit)
    inner = width - 2 * _PAD
    y = _HEAD + 10.0
    for entry in _entries(rows):
        high = _entry_height(entry, inner)
        triggers, effects, guards, beside = _entry_lines(entry, inner)
        if taken in entry.rows:
            shapes.append(Box(6.0, y - 4.0, width - 12.0, high - 2.5, 4.0, fill="paper", stroke="text", line=1.6))
        elif entry.rows[0].fault is not None:
            shapes.append(Box(6.0, y - 4.0, width - 12.0, high - 2.5, 4.0, stroke="line", line=1.0, dash=True))
        at = y + 12.0
        for index, text in enumerate(triggers):
            tail = effects[0] if beside else ""
            shapes.append(Words(_PAD, at + index * _ROW, text, SIZE_SMALL, bold=True, tail=tail))
        at += (len(triggers) - 1) * _ROW
        if not beside:
            for text in effects:
                at += _ROW
                shapes.append(Words(_PAD, at, text, SIZE_SMALL, ink="muted"))
        for text in guards:
            at += _ROW
            shapes.append(Words(_PAD, at, text, SIZE_SMALL - 0.5, ink="muted", italic=True))
        if entry.rows[0].target != state:
            at += _ROW
            shapes += _chip(entry.rows[0].target, _PAD, at)
        y += high
    return shapes


def _head(state: str, width: float, lit: bool) -> list[Shape]:
    """The state's swatch and word; lit, a band in its colour with the word in a plaque, and "now"."""
    style = state_style(state)
    shapes: list[Shape] = []
    if not lit:
        shapes.append(_swatch(state, _PAD, 11.0, 22.0, 16.0))
        shapes.append(Words(_PAD + 31.0, 24.5, style.word, SIZE + 1.0, bold=True))
        shapes.append(Line(((1.0, _HEAD), (width - 1.0, _HEAD)), "faint", 1.0))
        return shapes
    texture = style.texture
    shapes.append(Box(1.0, 1.0, width - 2.0, _HEAD, 8.0, fill=style.colour, texture=texture, ink="#FFFFFF"))
    plaque = width_of(style.word, SIZE + 1.0, bold=True) + 20.0
    if texture != "solid":
        shapes.append(Box(_PAD - 5.0, 7.0, plaque, 26.0, 6.0, fill=style.colour))
    shapes.append(Words(_PAD + 4.0, 25.5, style.word, SIZE + 1.0, ink="#FFFFFF", bold=True))
    shapes.append(Box(width - 64.0, 8.0, 55.0, 24.0, 12.0, fill="#FFFFFF"))
    shapes.append(
        Line(
            ((width - 55.0, 15.0), (width - 55.0, 25.0), (width - 47.0, 20.0)), "", 0.0, closed=True, fill=style.colour
        )
    )
    shapes.append(Words(width - 43.0, 24.5, "now", SIZE_SMALL, ink=style.colour, bold=True))
    return shapes


def _swatch(state: str, x: float, y: float, width: float, height: float) -> Box:
    style = state_style(state)
    if style.texture == "solid":
        return Box(x, y, width, height, 3.0, fill=style.colour, stroke=style.colour, line=1.5)
    return Box(
        x, y, width, height, 3.0, fill="paper", stroke=style.colour, line=1.5, texture=style.texture, ink=style.colour
    )


def _chip(state: str, x: float, baseline: float) -> list[Shape]:
    style = state_style(state)
    return [
        *arrow(((x, baseline - 4.0), (x + 20.0, baseline - 4.0)), stroke="text", head=7.0),
        _swatch(state, x + 27.0, baseline - 11.0, 16.0, 12.0),
        Words(x + 49.0, baseline, style.word, SIZE_SMALL, bold=True),
    ]


# --------------------------------------------------------------------------------------------------------------- arrows


def _edge(rows: Sequence[Transition], taken: Transition | None, points: tuple[tuple[float, float], ...]) -> list[Shape]:
    if not rows:
        return []
    lit = taken in rows
    dash = all(row.fault is not None for row in rows)
    ink = "text" if lit else "line"
    return arrow(points, stroke=ink, line=3.5 if lit else 1.6, dash=dash, curved=True, head=13.0 if lit else 9.0)


def _bend(*corners: tuple[float, float], radius: float = 12.0) -> tuple[tuple[float, float], ...]:
    """A way along straight lines with rounded corners, as a Bézier curve."""
    points = [corners[0]]
    for before, corner, after in zip(corners, corners[1:], corners[2:], strict=False):
        into, out = _towards(corner, before, radius), _towards(corner, after, radius)
        points += [*_straight(points[-1], into), corner, corner, out]
    points += _straight(points[-1], corners[-1])
    return tuple(points)


def _towards(point: tuple[float, float], other: tuple[float, float], distance: float) -> tuple[float, float]:
    length = max(((other[0] - point[0]) ** 2 + (other[1] - point[1]) ** 2) ** 0.5, 1e-9)
    share = min(1.0, distance / length)
    return (point[0] + (other[0] - point[0]) * share, point[1] + (other[1] - point[1]) * share)


def _straight(start: tuple[float, float], end: tuple[float, float]) -> list[tuple[float, float]]:
    (x0, y0), (x1, y1) = start, end
    return [(x0 + (x1 - x0) / 3, y0 + (y1 - y0) / 3), (x0 + (x1 - x0) * 2 / 3, y0 + (y1 - y0) * 2 / 3), end]


def _label(
    rows: Sequence[Transition], taken: Transition | None, x: float, y: float, where: str, width: float
) -> list[Shape]:
    """The words of an arrow: the first line at y and to the right ("right"), or the last one at y ("above", centred,
    and "over", from x on).
    """
    if not rows:
        return []
    lit = taken in rows
    lines = _label_lines(rows, taken, width)
    if where != "right":
        y -= (len(lines) - 1) * _ROW
    anchor = "middle" if where == "above" else "start"
    shapes: list[Shape] = []
    if lit and len(rows) > 1:
        # Of several rows at one arrow, the one that was taken is framed.
        shapes += _frame_of(rows, taken, lines, x, y, anchor)
    elif lit:
        wide = max(width_of(one.text, SIZE_SMALL, bold=one.bold) for one in lines) + 12.0
        start = x - wide / 2 if anchor == "middle" else x - 6.0
        shapes.append(Box(start, y - 14.0, wide, len(lines) * _ROW + 3.0, 5.0, fill="paper", stroke="text", line=1.6))
    shapes += [replace(one, x=x, y=y + index * _ROW, anchor=anchor) for index, one in enumerate(lines)]
    return shapes


def _label_lines(rows: Sequence[Transition], taken: Transition | None, width: float) -> list[Words]:
    """The lines of an arrow's words: of all its rows; of one where the others are possible by faults only."""
    sound = [row for row in rows if row.fault is None]
    lines: list[Words] = []
    if not rows:
        return lines
    chosen = sound if len(sound) > 1 else [taken if taken is not None and taken in rows else rows[0]]
    for row in chosen:
        lines += _row_lines(row, width)
    return lines


def _row_lines(row: Transition, width: float) -> list[Words]:
    if row.fault is not None:
        return [Words(0, 0, f"{row.trigger} (only by the fault {row.fault})", SIZE_SMALL, italic=True)]
    lines = [Words(0, 0, row.trigger, SIZE_SMALL, bold=True)]
    condition = _condition(row.guard)
    lines += [Words(0, 0, text, SIZE_SMALL - 0.5, ink="muted", italic=True)
              for text in (wrap(condition, width, SIZE_SMALL - 0.5) if condition else ())]  # fmt: skip
    lines += [Words(0, 0, text, SIZE_SMALL, ink="muted") for text in wrap(f"→ {row.effect}", width)]
    return lines


def _frame_of(
    rows: Sequence[Transition], taken: Transition | None, lines: Sequence[Words], x: float, y: float, anchor: str
) -> list[Shape]:
    before = 0
    for row in rows:
        count = len(_row_lines(row, 10_000.0))
        if row == taken:
            mine = lines[before : before + count]
            wide = max(width_of(one.text, SIZE_SMALL, bold=one.bold) for one in mine) + 12.0
            start = x - wide / 2 if anchor == "middle" else x - 6.0
            top = y - 14.0 + before * _ROW
            return [Box(start, top, wide, count * _ROW + 3.0, 5.0, fill="paper", stroke="text", line=1.6)]
        before += count
    return []


# ---------------------------------------------------------------------------------------------------------------- words


def _alt(rows: Sequence[Transition], current: str | None, taken: Transition | None) -> str:
    sentences = []
    if current is not None:
        sentences.append(f"The state is {state_style(current).word}.")
    if taken is not None:
        sentences.append(f"The last step took the row: {_row_words(taken)}.")
    moves = [row for row in rows if row.source != row.target]
    sentences.append(f"Arrows: {'; '.join(_row_words(row) for row in moves)}.")
    return " ".join(sentences)


def _row_words(row: Transition) -> str:
    guard = f" {_condition(row.guard)}" if row.guard else ""
    source, target = state_style(row.source).word, state_style(row.target).word
    where = f"{source} to {target}" if row.source != row.target else f"stays {source}"
    fault = f" (only by the fault {row.fault})" if row.fault is not None else ""
    return f"{where} on {row.trigger}{guard}{fault}"
