"""`flow_view` without a front end: the data of its page, the call that is followed, and what shows without a kernel."""

from __future__ import annotations

import base64
import gc
import json
import weakref
from io import BytesIO
from typing import Any

import pytest
from PIL import Image

import labkit
from labkit.errors import LabkitError
from labkit.plots.draw.style import MARKS, STATES
from labkit.scenario import load_scenario, run_scenario
from labkit.scenario.read.journeys import ENDS, EVENTS
from labkit.widgets.flow.flow import FlowView, flow_page, flow_view
from labkit.widgets.flow.model import FlowModel

TEXT = """\
scenario: {title: A short outage, duration: 20, drain: 5, seed: 3}
services:
  parts_availability: {_type: parts_availability, latency: 0.05, faults: [{from: 5, to: 12, fault: error}]}
middleware:
  breaker: {_type: circuit_breaker, failure_threshold: 3, cooldown_period: 4}
functions:
  parts_availability: {_type: parts_availability, middleware: [breaker]}
workload:
- {function: parts_availability, rate: 10}
"""


@pytest.fixture
def model() -> FlowModel:
    """The playback of a short outage."""
    return FlowModel(TEXT)


def test_it_takes_a_trace_a_scenario_a_name_and_a_text() -> None:
    """All four give the same playback of the same run; a trace needs its scenario for the layers' settings."""
    scenario = load_scenario(TEXT)
    trace = run_scenario(scenario)
    flows = [FlowModel(each).flow for each in (TEXT, scenario)] + [FlowModel(trace, scenario=scenario).flow]
    assert flows[0] == flows[1] == flows[2]
    assert FlowModel(trace).flow.layers[0].cooldown is None
    assert flows[0].layers[0].cooldown == 4.0
    assert FlowModel("check-4-order:timeout-then-breaker").flow.total == 7


def test_the_page_s_data_is_plain_and_has_the_look(model: FlowModel) -> None:
    """What the page gets is JSON: journeys, counters, phrases for every event, and the look of every picture."""
    data = json.loads(json.dumps(model.data()))
    assert len(data["journeys"]) == 200
    assert data["look"]["states"]["OPEN"]["texture"] == STATES["OPEN"].texture
    assert set(data["look"]["marks"]) == set(MARKS)
    assert set(EVENTS) <= set(data["phrases"])
    assert len(data["phrases"]["why ends"]) == len(ENDS)
    assert data["share"] == "All 200 calls are shown."


def test_it_stands_shortly_before_the_first_thing_that_happens() -> None:
    """By default three seconds before the first fault; at the beginning where nothing happens; or as told."""
    assert FlowModel(TEXT).data()["begin"] == 2.0
    assert FlowModel(TEXT.replace(", faults: [{from: 5, to: 12, fault: error}]", "")).data()["begin"] == 0.0
    assert FlowModel(TEXT, begin=7.5).data()["begin"] == 7.5


def test_a_call_is_followed_by_its_number() -> None:
    """A call that the sample left out comes with its journey; asked for again it is handed over again."""
    model = FlowModel(TEXT, calls=10)
    left_out = next(call for call in range(200) if call not in {one.call for one in model.flow.journeys})
    assert model.view()["followed"] is None
    model.press({"do": "follow", "call": f" {left_out + 1:,} "})
    view = model.view()
    assert view["followed"][0] == left_out
    assert view["notice"] == ""
    model.press({"do": "follow", "call": str(left_out + 1)})
    assert model.view()["followed_again"] == view["followed_again"] + 1


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ("seven", "A call to follow: found “seven”; it is a whole number from 1 to 200."),
        ("", "A call to follow: found “”; it is a whole number from 1 to 200."),
        ("201", "There is no call 201; they are numbered from 1 to 200."),
        ("0", "There is no call 0; they are numbered from 1 to 200."),
    ],
)
def test_a_number_that_is_none_is_a_sentence(model: FlowModel, typed: str, says: str) -> None:
    """What was typed wrong is said, nothing is followed, and the next press takes the sentence away."""
    model.press({"do": "follow", "call": typed})
    assert (model.view()["notice"], model.view()["followed"]) == (says, None)
    model.press({"do": "narrow", "on": False})
    assert model.view()["notice"] == ""


def test_a_narrow_page_gets_a_narrow_timeline(model: FlowModel) -> None:
    """The timeline is drawn anew for its width, and the cursor's line with it."""
    wide = model.view()
    model.press({"do": "narrow", "on": True})
    narrow = model.view()
    assert (wide["line"]["width"], narrow["line"]["width"]) == (860.0, 480.0)
    assert 'viewBox="0 0 480 ' in narrow["svg"]
    for view in (wide, narrow):
        assert 0 < view["line"]["left"] < view["line"]["right"] < view["line"]["width"]


def test_the_cursor_s_line_is_the_timeline_s(model: FlowModel) -> None:
    """A moment lies on the page where the timeline draws it: the outage's band begins and ends there."""
    view = model.view()
    line = view["line"]
    at = [line["left"] + (line["right"] - line["left"]) * seconds / line["end"] for seconds in (5.0, 12.0)]
    bands = [shape for shape in model.still().shapes if getattr(shape, "fill", "") == "band"]
    assert bands[0].x == pytest.approx(at[0], abs=0.01)  # type: ignore[union-attr]
    assert bands[0].x + bands[0].width == pytest.approx(at[1], abs=1.01)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"calls": 0}, "calls: found 0"),
        ({"calls": True}, "calls: found True"),
        ({"rows": 5}, "rows: found 5; it is a whole number from 1 to 4"),
        ({"begin": -1.0}, "begin: found -1.0"),
        ({"function": "parts"}, "no function 'parts'"),
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, Any], says: str) -> None:
    """One sentence says what was found and what is allowed."""
    with pytest.raises(LabkitError, match=says):
        flow_view(TEXT, **options)


def test_it_shows_a_picture_and_words_where_no_kernel_runs() -> None:
    """The output has the timeline as a picture and the story as words, the same in every run."""
    shown, again = flow_view(TEXT), flow_view(TEXT)
    data, metadata = shown._repr_mimebundle_()  # type: ignore[misc]
    wide, high = Image.open(BytesIO(base64.b64decode(data["image/png"]))).size
    size = metadata["image/png"]
    assert wide / high == pytest.approx(size["width"] / size["height"], rel=0.01)
    assert size["width"] >= 860
    assert "The breaker opened" in data["text/plain"]
    assert (repr(shown), data["image/png"]) == (repr(again), again._repr_mimebundle_()[0]["image/png"])  # type: ignore[index]


def test_the_run_goes_to_the_page_once() -> None:
    """A press changes the small view and leaves the run's data alone."""
    shown = flow_view(TEXT)
    changed: list[str] = []
    shown.observe(lambda change: changed.append(change["name"]), ["flow", "view"])
    shown.press({"do": "follow", "call": "7"})
    assert changed == ["view"]
    assert shown.view["followed"][0] == 6


def test_a_closed_playback_lets_go() -> None:
    """Closing frees the run's data and the model; a late press does nothing."""
    shown = flow_view(TEXT)
    gone = weakref.ref(shown._model)
    assert shown.flow["journeys"]
    shown.close()
    shown.press({"do": "follow", "call": "7"})
    gc.collect()
    assert (shown.view, shown.flow, gone()) == ({}, {}, None)


def test_labkit_hands_it_on_with_its_files() -> None:
    """`from labkit import flow_view` works, and its page has the stage's script before its own."""
    assert labkit.flow_view is flow_view
    script, style = flow_page("flow/flow_page", "flowPage")
    assert script.index("function stage(") < script.index("function theatre(") < script.index("function flowPage(")
    assert FlowView._esm
    assert ".labkit-stage" in style
