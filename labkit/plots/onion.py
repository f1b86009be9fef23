"""Who wraps whom: a function's middleware as nested boxes, the first of the list outermost.

Each layer says the one thing that its place in the list decides: where a timeout's clock starts, what a breaker gets to
count, what a retry repeats.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from labkit.plots.drawing import Box, Disc, Line, Picture, Shape, Words, arrow, wrap
from labkit.plots.style import SIZE, SIZE_SMALL, STATES

__all__ = ["Layer", "layers_of", "onion"]

_ROW = 17.0
_BREAKERS = ("circuit_breaker", "window_circuit_breaker", "guarded_circuit_breaker")


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


def layers_of(config: Any, function: str) -> list[Layer]:
    """Return the layers of a function of a loaded configuration (`labkit.config.StackConfig`), outermost first."""
    layers = []
    for name in config.functions[function].middleware:
        one = config.middleware[name]
        if one.enabled:
            layers.append(Layer(name, one.type_, one.model_dump()))
    return layers


def onion(
    layers: Iterable[Layer], target: str, *, notes: bool = True, width: float = 860.0, title: str = ""
) -> Picture:
    """Return the picture of a list of middleware around a function.

    Args:
        layers: outermost first.
        target: the function's name.
        notes: say in words what each place in the list decides; not where a learner is still to predict it.
        width: of the picture, in pixels.
        title: what the picture is called; the list itself by default.
    """
    layers = list(layers)
    title = title or f"Who wraps whom: {', '.join(layer.type_ for layer in layers) or 'nothing'} around {target}"
    words = [_note(layers, index) if notes else "" for index in range(len(layers))]
    shapes: list[Shape] = []
    left, top, inner = 76.0, 8.0, width - 76.0 - 8.0
    boxes: list[tuple[float, float, float, list[str]]] = []
    for note in words:
        lines = wrap(note, inner - 28.0) if note else []
        boxes.append((left, top, inner, lines))
        left += 26.0
        top += 34.0 + len(lines) * _ROW + 8.0
        inner -= 40.0
    core = 54.0
    height = top + core + 14.0 * len(boxes) + 8.0
    for index, ((x, y, wide, lines), layer) in enumerate(zip(boxes, layers, strict=True)):
        high = height - 8.0 - 14.0 * index - y
        colour = _colour(layer)
        shapes.append(Box(x, y, wide, high, 10.0, fill="panel" if index % 2 == 0 else "paper", stroke=colour, line=2.2))
        shapes.append(Words(x + 14.0, y + 24.0, layer.name, SIZE, bold=True, tail=layer.type_))
        for row, text in enumerate(lines):
            shapes.append(Words(x + 14.0, y + 44.0 + row * _ROW, text, SIZE_SMALL, ink="muted"))
    shapes.append(Box(left, top, inner, core, 8.0, fill="paper", stroke="text", line=1.6))
    shapes.append(Words(left + inner / 2, top + 24.0, target, SIZE, "middle", bold=True))
    shapes.append(Words(left + inner / 2, top + 42.0, "the dependency", SIZE_SMALL, "middle", ink="muted"))
    middle = top + core / 2
    shapes.append(Words(8.0, middle - 10.0, "a call", SIZE_SMALL, bold=True))
    shapes += arrow(((8.0, middle), (left - 2.0, middle)), stroke="text", line=2.0, head=10.0)
    for (x, _, _, _), layer in zip(boxes, layers, strict=True):
        if layer.type_ == "timeout":
            shapes += _clock(x, middle)
        elif layer.type_ in _BREAKERS:
            shapes += _gate(x, middle)
        elif layer.type_ == "bulkhead":
            shapes += _places(x, middle)
        else:
            shapes.append(Disc(x, middle, 5.0, fill="paper", stroke="text", line=2.0))
    return Picture(width, height, tuple(shapes), title, _alt(layers, words, target))


def _colour(layer: Layer) -> str:
    return STATES["CLOSED"].colour if layer.type_ in _BREAKERS else "line"


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
        if any(type_ in _BREAKERS for type_ in outer):
            return "Answers in place of the errors that it names; the breaker outside takes its answers for successes."
        return "Answers in place of the errors that it names; nothing inside hears of it."
    if layer.type_ in _BREAKERS:
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
    from_on = settings.get("minimum_calls") or 10
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
