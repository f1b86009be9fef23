"""The stream explorer without a front end."""

from __future__ import annotations

from typing import Any

import pytest

from labkit.errors import LabkitError
from labkit.scenario import load_scenario, run_scenario
from labkit.widgets.explorers.stream import StreamModel


def facts(model: StreamModel) -> dict[str, str]:
    """Its facts by name."""
    return dict(model.view()["facts"])


def moved(**values: Any) -> StreamModel:
    """An explorer in which controls were moved."""
    model = StreamModel()
    model.press({"do": "set", "values": values})
    assert model.view()["trouble"] == {}
    return model


def test_it_opens_with_a_probe_that_closes_the_breaker() -> None:
    """Its 10 s are more than probe_timeout's 2 s, and it succeeds: the limit is for each wait."""
    model = StreamModel()
    assert model.view()["sentences"][0] == (
        "Read to its end: 4 chunks in 10 s. The breaker counts a success; this probe closes it."
    )
    assert facts(model) == {
        "chunks": "4 of 4",
        "the stream took": "10.0 s",
        "longest wait": "1.5 s",
        "reader busy": "4.0 s",
        "counted as": "a success",
        "the breaker then": "closed",
    }


@pytest.mark.parametrize(
    ("values", "counted", "then"),
    [
        ({"chunk_delay": 2.5}, "a failure", "open"),
        ({"uneven": 2.0}, "a failure", "open"),
        ({"consumer_pause": 3.0}, "a failure", "open"),
        ({"consumer_pause": 3.0, "timeout": None}, "a success", "closed"),
        ({"close_after": 2}, "neither way", "half-open"),
        ({"probe_timeout": 1.0}, "a failure", "open"),
        ({"probe_timeout": None, "chunk_delay": 2.5, "timeout": 30.0}, "a success", "closed"),
        ({"timeout": 5.0}, "a failure", "open"),
        ({"call": "ordinary", "chunk_delay": 2.5, "timeout": 30.0}, "a success", "closed"),
        ({"call": "ordinary", "timeout": 5.0}, "a failure", "open"),
        ({"call": "ordinary", "close_after": 4}, "neither way", "closed"),
    ],
)
def test_every_control_changes_what_it_should(values: dict[str, Any], counted: str, then: str) -> None:
    """What the breaker counts, and its state afterwards, follow each of the seven controls."""
    model = moved(**values)
    assert (facts(model)["counted as"], facts(model)["the breaker then"]) == (counted, then)
    calls = model.runs[""].trace.calls
    assert facts(model)["the stream took"] == f"{calls.end[-1] - calls.start[-1]:.1f} s"


def test_a_busy_reader_is_told_apart_from_a_late_chunk() -> None:
    """A limit that runs out while the reader is busy names the toolkit's other way; a late chunk does not."""
    busy, late = moved(consumer_pause=5.0, timeout=6.0), moved(chunk_delay=2.5)
    assert "cancels the reader's own task at 6 s" in busy.view()["sentences"][1]
    assert not any("cancels the reader" in text for text in late.view()["sentences"])


def test_the_share_line_rebuilds_it() -> None:
    """The line of code is a call with what differs from the defaults, and gives the same settings and picture."""
    model = moved(call="ordinary", timeout=None, close_after=3, uneven=0.5)
    line = model.share()
    assert line.startswith("stream_explorer(")
    again = eval(line, {"stream_explorer": lambda **settings: StreamModel(**settings)})
    assert again.settings == model.settings
    assert again.view()["svg"] == model.view()["svg"]
    assert StreamModel().share() == "stream_explorer()"


@pytest.mark.parametrize("values", [{}, {"timeout": None, "call": "ordinary"}, {"consumer_pause": 2.5, "uneven": 1.0}])
def test_the_yaml_is_the_scenario(values: dict[str, Any]) -> None:
    """It loads and gives the same trace; of its middleware the toolkit has all."""
    model = moved(**values) if values else StreamModel()
    view = model.view()
    assert run_scenario(load_scenario(view["yaml"])) == model.runs[""].trace
    assert view["of_toolkit"] is True


def test_nonsense_is_told_and_the_picture_stays() -> None:
    """A value out of range is named beside its control; an unknown setting names the nearest."""
    model = StreamModel()
    before = model.view()["svg"]
    model.press({"do": "set", "values": {"chunk_delay": "soon", "close_after": 5, "call": "both"}})
    view = model.view()
    assert set(view["trouble"]) == {"chunk_delay", "close_after", "call"}
    assert "found “soon”; it is a number from 0.1 to 6 s" in view["trouble"]["chunk_delay"]
    assert view["svg"] == before
    with pytest.raises(LabkitError, match="did you mean 'timeout'"):
        StreamModel(timout=3.0)


@pytest.mark.parametrize(("answer", "right"), [("failed", True), ("succeeded", False)])
def test_predict_first(answer: str, right: bool) -> None:
    """It asks before it shows, and says and counts whether what was foretold came true."""
    model = StreamModel(predict=True)
    before = model.view()["svg"]
    model.press({"do": "set", "values": {"chunk_delay": 2.5}})
    view = model.view()
    assert view["question"]["text"] == "How will this stream end for the breaker?"
    assert view["svg"] == before
    model.press({"do": "answer", "value": answer})
    view = model.view()
    assert view["verdict"]["right"] is right
    assert view["tally"] == f"{int(right)} of 1 as predicted"
    assert view["svg"] != before


def test_a_narrow_page_gets_a_narrow_picture() -> None:
    """Narrow, the picture has 480 pixels, and the same words for those who do not see it."""
    model = StreamModel()
    wide = model.shown.picture
    model.press({"do": "narrow", "on": True})
    assert 'viewBox="0 0 480 ' in model.view()["narrow"]
    assert model.shown.narrow is not None
    assert model.shown.narrow.alt == wide.alt


def test_a_chunk_delay_of_many_places_is_a_run() -> None:
    """A delay that was typed with more places than a slider has is run, with the longest chunk no shorter than it."""
    assert facts(StreamModel(chunk_delay=0.12344, uneven=0.0))["chunks"] == "4 of 4"
