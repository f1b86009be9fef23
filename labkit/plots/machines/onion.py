"""Who wraps whom: a function's middleware as nested boxes, the first of the list outermost.

Each layer says the one thing that its place in the list decides: where a timeout's clock starts, what a breaker gets to
count, what a retry repeats.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from labkit.config import BREAKERS
from labkit.plots.draw.picture import Picture
from labkit.plots.draw.shapes import Box, Disc, Line, Shape, Words, arrow, mark, wrap
from labkit.plots.draw.style import MARKS, SIZE, SIZE_SMALL, STATES, width_of
from labkit.policies.window_circuit_breaker import MINIMUM_CALLS

__all__ = ["Layer", "Lit", "layers_of", "onion"]

_ROW = 17.0


class Layer(NamedTuple):
    """One middleware of a list.

    Attributes:
        name: its name in the configuration.
        type_: its `_type`.
        settings: its fields by name, where the picture has something to say about them.
    """

    name: str
    type_: str
    settings: dict[str, Any]


class Lit(NamedTuple):
    """Where a call is on its way, to be lit in the picture.

    Attributes:
        place: 0 for the outermost layer, the number of layers for the dependency, -1 for the caller.
        direction: "in" (on its way to the dependency), "out" (on its way back) or "here".
        kind: what travels back, a key of `style.MARKS`; "" for the call itself.
        words: what happens, in a few words.
        deepest: how far in the call has been.
    """

    place: int
    direction: str
    kind: str = ""
    words: str = ""
    deepest: int = -1


def layers_of(config: Any, function: str) -> list[Layer]:
    """Return the layers of a function of a loaded configuration (`labkit.config.StackConfig`), outermost first."""
    return [Layer(name, one.type_, one.model_dump()) for name, one in config.layers_of(function).items()]


def onion(
    layers: Iterable[Layer],
    target: str,
    *,
    notes: bool = True,
    width: float = 860.0,
    title: str = "",
    lit: Lit | None = None,
) -> Picture:
    """Return the picture of a list of middleware around a function.

    Args:
        layers: outermost first.
        target: the function's name.
        notes: say in words what each place in the list decides; not where a learner is still to predict it.
        width: of the picture, in pixels.
        title: what the picture is called; the list itself by default.
        lit: a place on the way of one call to light, with what travels there.
    """
    layers = list(layers)
    title = title or f"Who wraps whom: {', '.join(layer.type_ for layer in layers) or 'nothing'} around {target}"
    words = [_note(layers, index) if notes else "" for index in range(len(layers))]
    shapes: list[Shape] = []
    begin = 76.0
    left, top, inner = begin, 8.0, width - begin - 8.0
    boxes: list[tuple[float, float, float, list[str]]] = []
    for note in words:
        lines = wrap(note, inner - 28.0) if note else []
        boxes.append((left, top, inner, lines))
        left += 26.0
        top += 34.0 + len(lines) * _ROW + 8.0
        inner -= 40.0
    core = 54.0 if lit is None else 84.0
    height = top + core + 14.0 * len(boxes) + 8.0
    for index, ((x, y, wide, lines), layer) in enumerate(zip(boxes, layers, strict=True)):
        high = height - 8.0 - 14.0 * index - y
        colour = _colour(layer)
        shapes.append(Box(x, y, wide, high, 10.0, fill="panel" if index % 2 == 0 else "paper", stroke=colour, line=2.2))
        type_ = layer.type_ if layer.type_ != layer.name else ""
        shapes.append(Words(x + 14.0, y + 24.0, layer.name, SIZE, bold=True, tail=type_))
        if lit is not None and lit.place == index:
            shapes += _light(x, y, wide, high, 10.0, lit)
            shapes += _plaque(
                x + wide - 12.0, y, wide - 40.0 - width_of(f"{layer.name}  {type_}", SIZE, bold=True), lit
            )
        for row, text in enumerate(lines):
            shapes.append(Words(x + 14.0, y + 44.0 + row * _ROW, text, SIZE_SMALL, ink="muted"))
    shapes.append(Box(left, top, inner, core, 8.0, fill="paper", stroke="text", line=1.6))
    shapes.append(Words(left + inner / 2, top + core / 2 - 3.0, target, SIZE, "middle", bold=True))
    shapes.append(Words(left + inner / 2, top + core / 2 + 15.0, "the dependency", SIZE_SMALL, "middle", ink="muted"))
    middle = top + (core / 2 if lit is None else 24.0)
    shapes.append(Words(8.0, middle - 10.0, "a call", SIZE_SMALL, bold=True))
    edges = [*(box[0] for box in boxes), left]
    if lit is None:
        shapes += arrow(((8.0, middle), (left - 2.0, middle)), stroke="text", line=2.0, head=10.0)
    else:
        if lit.place == len(boxes):
            shapes += _light(left, top, inner, core, 8.0, lit)
        shapes += _way(edges, middle, lit)
    for (x, _, _, _), layer in zip(boxes, layers, strict=True):
        if layer.type_ == "timeout":
            shapes += _clock(x, middle)
        elif layer.type_ in BREAKERS:
            shapes += _gate(x, middle)
        elif layer.type_ == "bulkhead":
            shapes += _places(x, middle)
        else:
            shapes.append(Disc(x, middle, 5.0, fill="paper", stroke="text", line=2.0))
    if lit is not None:
        shapes += _traveller(edges, middle, lit)
    return Picture(width, height, tuple(shapes), title, _alt(layers, words, target))


_BACK = 40.0  # from the way in down to the way out


def _light(x: float, y: float, wide: float, high: float, radius: float, lit: Lit) -> list[Shape]:
    """A frame around the place where the call is: thick, in the text's own ink."""
    return [Box(x - 3.0, y - 3.0, wide + 6.0, high + 6.0, radius + 2.0, stroke=_ink(lit), line=4.0)]


def _plaque(right: float, y: float, room: float, lit: Lit) -> list[Shape]:
    """What happens, at the right of a layer's title, where there is room for it."""
    wide = width_of(lit.words, SIZE_SMALL, bold=True) + 20.0
    if not lit.words or wide > room:
        return []
    return [
        Box(right - wide, y + 9.0, wide, 22.0, 11.0, fill="paper", stroke=_ink(lit), line=1.8),
        Words(right - wide / 2, y + 24.5, lit.words, SIZE_SMALL, "middle", bold=True),
    ]


def _ink(lit: Lit) -> str:
    return MARKS[lit.kind].colour if lit.kind else "text"


def _way(edges: Sequence[float], y: float, lit: Lit) -> list[Shape]:
    """The way in as far as the call has been, the rest of it faint, and the way back."""
    deepest = max(lit.deepest, lit.place, 0)
    reached = edges[deepest] - 2.0 if lit.direction != "in" or lit.place < 0 else edges[max(lit.place, 0)] - 2.0
    shapes: list[Shape] = [Line(((8.0, y), (edges[-1] - 2.0, y)), "faint", 2.0, dash=True)]
    shapes += arrow(((8.0, y), (reached, y)), stroke="text", line=2.4, head=10.0)
    if lit.direction == "out":
        back = y + _BACK
        end = 8.0 if lit.place < 0 else edges[lit.place] - 22.0
        shapes += arrow(((edges[deepest], back), (end, back)), stroke=_ink(lit), line=2.4, head=10.0)
    return shapes


def _traveller(edges: Sequence[float], y: float, lit: Lit) -> list[Shape]:
    """The call itself, or the mark of what comes back."""
    if lit.direction == "out" and lit.kind:
        x = 26.0 if lit.place < 0 else edges[lit.place]
        return [
            Disc(x, y + _BACK, 11.0, fill="paper", stroke=_ink(lit), line=1.6),
            *mark(lit.kind, x, y + _BACK, size=6.0),
        ]
    if lit.place == len(edges) - 1:
        return []  # the dependency has its frame
    x = 26.0 if lit.place < 0 else edges[lit.place]
    return [Disc(x, y, 12.0, fill="", stroke=_ink(lit), line=3.0)]


def _colour(layer: Layer) -> str:
    return STATES["CLOSED"].colour if layer.type_ in BREAKERS else "line"


def _clock(x: float, y: float) -> list[Shape]:
    return [
        Disc(x, y, 9.0, fill="paper", stroke="text", line=2.0),
        Line(((x, y - 5.5), (x, y), (x + 4.0, y + 2.5)), "text", 1.8),
    ]


def _gate(x: float, y: float) -> list[Shape]:
    blue = STATES["CLOSED"].colour
    return [
        Box(x - 5.0, y - 11.0, 10.0, 22.0, 3.0, fill="paper", stroke=blue, line=2.2),
        Line(((x, y - 5.0), (x, y + 5.0)), blue, 2.2),
    ]


def _places(x: float, y: float) -> list[Shape]:
    """A few places, one of them taken."""
    return [
        Box(x - 6.0, y - 14.0, 12.0, 28.0, 3.0, fill="paper", stroke="text", line=1.8),
        *(
            Disc(x, y + down, 2.6, fill="text" if down < 0 else "", stroke="text", line=1.4)
            for down in (-8.0, 0.0, 8.0)
        ),
    ]


def _seconds(value: float) -> str:
    return f"{value:g}\N{NO-BREAK SPACE}s"


def _note(layers: Sequence[Layer], index: int) -> str:
    """What the layer's place decides, as one sentence."""
    layer = layers[index]
    outer = [one.type_ for one in layers[:index]]
    inner = [one.type_ for one in layers[index + 1 :]]
    settings = layer.settings
    if layer.type_ == "timeout":
        limit = _seconds(settings["timeout"])
        waiting = ", the wait for a place included" if "bulkhead" in inner else ""
        if "retry" in inner:
            return f"Its clock starts here: all attempts and waits inside share {limit}{waiting}."
        return f"Its clock starts here: everything inside has {limit}{waiting}."
    if layer.type_ == "retry":
        repeats = f"Repeats everything inside, up to {settings['attempts']} attempts in all"
        budget = settings.get("budget")
        return f"{repeats}, as long as the budget '{budget}' has a token for each retry." if budget else f"{repeats}."
    if layer.type_ == "retry_budget":
        return "Earns a token's share with every first attempt; a retry that names it spends one."
    if layer.type_ == "bulkhead":
        return _bulkhead_note(settings, outer)
    if layer.type_ == "fallback":
        if any(type_ in BREAKERS for type_ in outer):
            return "Answers in place of the errors that it names; the breaker outside takes its answers for successes."
        return "Answers in place of the errors that it names; nothing inside hears of it."
    if layer.type_ in BREAKERS:
        what = "whole operations, with all their attempts" if "retry" in inner else "single attempts"
        counted = f"Counts {what}; {_opens(layer)}."
        if "fallback" in inner:
            counted += " What the fallback inside answers is a success to it."
        if "bulkhead" in inner:
            counted += " A call that the bulkhead inside turns away counts as a failure."
        if "timeout" in inner:
            counted += " A time-out inside reaches it as an error, and counts."
        elif "timeout" in outer:
            counted += " A time-out outside cancels it, and a cancellation counts neither way."
        if settings.get("probe_lease"):
            counted += f" Its probes need the lease '{settings['probe_lease']}'."
        return counted
    return "Sees what goes in and what comes out."


def _opens(layer: Layer) -> str:
    """What opens a breaker, as the end of a sentence."""
    settings = layer.settings
    if layer.type_ != "window_circuit_breaker":
        return f"{settings['failure_threshold']} failures in a row open it"
    if settings.get("failure_rate") is None:
        return f"{settings['failure_threshold']} failures within {_seconds(settings['interval'])} open it"
    rate, window = settings["failure_rate"], _seconds(settings["window"])
    from_on = settings.get("minimum_calls") or MINIMUM_CALLS
    return f"{rate:.0%} failures within the last {window} open it, from {from_on} calls on"


def _bulkhead_note(settings: dict[str, Any], outer: Sequence[str]) -> str:
    places, queue = settings["max_concurrent"], settings.get("max_queue", 0)
    note = f"At most {places} {'call' if places == 1 else 'calls'} inside at once"
    if queue:
        wait = settings.get("max_wait")
        note += f"; {queue} more may wait" + (f", {_seconds(wait)} at most" if wait is not None else "")
    note += ". Others are turned away."
    if "retry" in outer:
        note += " Every attempt needs a place anew."
    return note


def _alt(layers: Sequence[Layer], notes: Sequence[str], target: str) -> str:
    if not layers:
        return f"A call reaches {target} directly."
    names = [f"{layer.name} ({layer.type_})" for layer in layers]
    order = f"From the outside in: {', then '.join(names)}, then {target}."
    return " ".join([order, *(f"{layer.name}: {note}" for layer, note in zip(layers, notes, strict=True) if note)])
