"""Who wraps whom, and what happened when."""

from __future__ import annotations

from itertools import pairwise
from xml.etree import ElementTree

import pytest

from labkit import PartsAvailability, Stack, VirtualClock, call_in_turn, call_timeline, load_stack_config
from labkit.plots import Layer, Period, Picture, Span, layers_of, onion, timeline
from labkit.plots.draw.shapes import Box, Disc, Line, Words
from labkit.plots.draw.style import MARKS, STATES
from tests.plots import geometry

BREAKER = Layer("availability_breaker", "circuit_breaker", {"failure_threshold": 5})
TIMEOUT = Layer("availability_timeout", "timeout", {"timeout": 2.0})
RETRY = Layer("availability_retry", "retry", {"attempts": 3})

YAML = """
middleware:
  availability_breaker: {_type: circuit_breaker, failure_threshold: 2, cooldown_period: 30.0}
  availability_timeout: {_type: timeout, timeout: 2.0}
  switched_off: {_type: timeout, timeout: 9.0, enabled: false}
functions:
  parts_availability:
    _type: parts_availability
    middleware: [availability_breaker, switched_off, availability_timeout]
"""


def boxes(picture: Picture, radius: float) -> list[Box]:
    """Its boxes with such corners."""
    return [shape for shape in picture.shapes if isinstance(shape, Box) and shape.radius == radius]


def test_layers_come_from_a_configuration() -> None:
    """A function's list is read outermost first, and what is switched off is not in it."""
    layers = layers_of(load_stack_config(YAML), "parts_availability")
    assert [(layer.name, layer.type_) for layer in layers] == [
        ("availability_breaker", "circuit_breaker"),
        ("availability_timeout", "timeout"),
    ]
    assert layers[1].settings["timeout"] == 2.0


def test_an_outer_layer_holds_the_inner_ones() -> None:
    """Each layer's box lies inside the one before it, and the dependency inside all."""
    made = onion([BREAKER, RETRY, TIMEOUT], "parts_availability")
    *layers, core = [*boxes(made, 10.0), *boxes(made, 8.0)]
    assert len(layers) == 3
    for outer, inner in zip(layers, [*layers[1:], core], strict=True):
        assert outer.x < inner.x
        assert outer.y < inner.y
        assert inner.x + inner.width < outer.x + outer.width
        assert inner.y + inner.height < outer.y + outer.height


def test_the_order_decides_what_a_breaker_counts() -> None:
    """With the timeout inside, a time-out counts; with the timeout outside, it is a cancellation that does not."""
    inside, outside = (onion(layers, "parts").alt for layers in ([BREAKER, TIMEOUT], [TIMEOUT, BREAKER]))
    assert "reaches it as an error, and counts" in inside
    assert "cancellation counts neither way" in outside


def test_the_order_decides_what_a_failure_is() -> None:
    """With the retry inside, a breaker counts whole operations; with the retry outside, single attempts."""
    inside, outside = (onion(layers, "parts").alt for layers in ([BREAKER, RETRY], [RETRY, BREAKER]))
    assert "Counts whole operations" in inside
    assert "Counts single attempts" in outside


def test_the_order_decides_what_a_limit_covers() -> None:
    """A timeout around a retry limits all attempts together; one inside limits each."""
    assert "all attempts and waits inside share" in onion([TIMEOUT, RETRY], "parts").alt
    assert "everything inside has" in onion([RETRY, TIMEOUT], "parts").alt


def test_every_breaker_says_what_opens_it() -> None:
    """A breaker over time counts within its interval, or a rate in its window; a guarded one, failures in a row."""
    interval = Layer("b", "window_circuit_breaker", {"failure_threshold": 30, "interval": 60.0, "failure_rate": None})
    rate = Layer("b", "window_circuit_breaker", {"failure_rate": 0.5, "window": 30.0, "minimum_calls": None})
    guarded = Layer("b", "guarded_circuit_breaker", {"failure_threshold": 5, "probe_lease": "parts_probe"})
    said = [
        onion([layer, TIMEOUT], "parts").alt.replace("\N{NO-BREAK SPACE}", " ") for layer in (interval, rate, guarded)
    ]
    assert "Counts single attempts; 30 failures within 60 s open it. A time-out inside" in said[0]
    assert "50% failures within the last 30 s open it, from 10 calls on." in said[1]
    assert "5 failures in a row open it. A time-out inside" in said[2]
    assert "Its probes need the lease 'parts_probe'." in said[2]


def test_the_order_decides_what_a_bulkhead_and_a_fallback_are_to_a_breaker() -> None:
    """Inside a breaker, a full bulkhead is a failure and a fallback's answer a success; outside, neither is seen."""
    room = Layer("room", "bulkhead", {"max_concurrent": 8, "max_queue": 4, "max_wait": 0.5})
    instead = Layer("instead", "fallback", {})
    inside, outside = (onion(layers, "parts").alt for layers in ([BREAKER, instead, room], [room, instead, BREAKER]))
    assert "A call that the bulkhead inside turns away counts as a failure." in inside
    assert "What the fallback inside answers is a success to it." in inside
    assert "takes its answers for successes" in inside
    assert "the bulkhead inside" not in outside
    assert "nothing inside hears of it" in outside


def test_the_order_decides_what_a_wait_for_a_place_is_part_of() -> None:
    """A limit outside of a bulkhead covers the wait for a place; a retry outside needs a place for every attempt."""
    room = Layer("room", "bulkhead", {"max_concurrent": 1, "max_queue": 4, "max_wait": None})
    said = onion([RETRY, TIMEOUT, room], "parts").alt
    assert "the wait for a place included" in said
    assert "At most 1 call inside at once; 4 more may wait. Others are turned away. Every attempt needs" in said
    assert "the wait for a place" not in onion([room, TIMEOUT], "parts").alt


def test_a_retry_names_its_budget() -> None:
    """A retry with a budget says that it needs a token; without one, nothing is said."""
    budgeted = Layer("again", "retry", {"attempts": 3, "budget": "shared"})
    assert "as long as the budget 'shared' has a token" in onion([budgeted], "parts").alt
    assert "budget" not in onion([RETRY], "parts").alt
    assert "Earns a token" in onion([Layer("shared", "retry_budget", {})], "parts").alt


def test_what_stands_on_the_way_in_has_a_sign_of_its_own() -> None:
    """A breaker of any kind is a gate in the breakers' blue, a bulkhead a row of places, all inside the picture."""
    kinds = ("circuit_breaker", "window_circuit_breaker", "guarded_circuit_breaker")
    settings = {"failure_threshold": 5, "interval": 60.0, "max_concurrent": 8}
    for kind in kinds:
        made = onion([Layer("room", "bulkhead", settings), Layer("b", kind, settings)], "parts", width=480.0)
        assert [box.stroke for box in boxes(made, 3.0)] == ["text", STATES["CLOSED"].colour]
        assert geometry.outside(made) == []
        assert geometry.overlapping(made) == []


def test_nothing_around_is_a_picture_too() -> None:
    """A function without middleware, and one with a kind that nobody has words for, can be drawn."""
    assert onion([], "parts").alt == "A call reaches parts directly."
    assert "own: Sees what goes in" in onion([Layer("own", "my_own", {})], "parts").alt


def test_words_stay_in_their_boxes() -> None:
    """In a narrow picture notes are wrapped and nothing leaves the canvas."""
    made = onion([BREAKER, TIMEOUT, RETRY], "parts_availability", width=420.0)
    ElementTree.fromstring(made.svg(themed=True))
    assert all(0 <= shape.y <= made.height for shape in made.shapes if isinstance(shape, Words))


def test_the_ribbon_tells_the_states_in_their_order() -> None:
    """The ribbon is closed until the first change, and each period begins where the one before it ends."""
    made = timeline([], [Period(10.0, "OPEN"), Period(40.0, "HALF_OPEN"), Period(41.0, "CLOSED")], [], until=50.0)
    ribbon = [box for box in boxes(made, 0.0) if box.texture in ("solid", "hatch", "dots") and box.height > 30]
    assert [box.fill for box in ribbon] == [STATES[state].colour for state in ("CLOSED", "OPEN", "HALF_OPEN", "CLOSED")]
    for one, other in pairwise(ribbon):
        assert one.x + one.width == pytest.approx(other.x)


def test_time_runs_from_left_to_right_in_proportion() -> None:
    """A span's line is as long as it took, in the same scale everywhere."""
    made = timeline([Span(0.0, 2.0, "success"), Span(2.0, 6.0, "failure")], [], [], until=10.0)
    lines = [shape for shape in made.shapes if isinstance(shape, Line) and shape.line == 2.0 and not shape.closed]
    lengths = sorted(
        abs(line.points[1][0] - line.points[0][0]) for line in lines if line.points[0][1] == line.points[1][1]
    )
    assert lengths[-1] == pytest.approx(2 * lengths[-2])


def test_calls_at_once_do_not_lie_on_each_other() -> None:
    """Overlapping calls get lanes of their own; calls in turn share one."""
    together = timeline([Span(0.0, 5.0, "success"), Span(1.0, 4.0, "failure")], [], [], until=6.0)
    in_turn = timeline([Span(0.0, 1.0, "success"), Span(1.0, 4.0, "failure")], [], [], until=6.0)
    assert together.height > in_turn.height


def test_a_storm_of_calls_stays_a_picture() -> None:
    """A thousand calls at once do not make a picture a thousand lanes high."""
    made = timeline([Span(0.0, 5.0, "success")] * 1000, [], [])
    assert made.height < 400.0


def test_what_goes_on_has_no_mark() -> None:
    """A call that has not ended is a dashed line to the end of the axis, and the words say so."""
    made = timeline([Span(1.0, None, "")], [], [], until=4.0)
    assert any(isinstance(shape, Line) and shape.dash for shape in made.shapes)
    assert "1 × still going on" in made.alt


def test_nothing_happened() -> None:
    """A run without calls is an axis and a closed breaker, not an error."""
    made = timeline([], [], [])
    assert made.alt == "Callers: nothing. The dependency saw nothing. The breaker stays closed."


def test_calls_of_a_real_stack() -> None:
    """The picture of calls in turn tells what they told: two time-outs, a rejection, and when the breaker opened."""
    clock = VirtualClock()
    service = PartsAvailability(clock, plan="hang")
    stack = Stack.load(YAML, services={"parts_availability": service}, clock=clock)
    made = call_timeline(call_in_turn(stack, "parts_availability", "HX-2040", times=3, pause=1.0))
    assert made.alt == (
        "Callers: 2 × time-out, 1 × rejection. The dependency saw 2 × cancelled. The breaker: closed, open from 5 s."
    )


def test_rejections_do_not_hide_each_other() -> None:
    """Two rejections at the time of the time-out before them stand beside it, each to be seen."""
    spans = [Span(0.0, 2.0, "timeout"), Span(2.0, 2.0, "rejection"), Span(2.0, 2.0, "rejection")]
    made = timeline(spans, [], [], until=10.0)
    bars = [
        shape.points[0][0]
        for shape in made.shapes
        if isinstance(shape, Line)
        and shape.stroke == MARKS["rejection"].colour
        and len({x for x, _ in shape.points}) == 1
    ]
    ring = next(shape.x for shape in made.shapes if isinstance(shape, Disc))
    first, second = sorted(bars)[-2:]
    assert ring + 10.0 < first < second - 10.0
