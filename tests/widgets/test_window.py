"""The window explorer without a front end: every control does its work, and what is said is what the breakers did."""

from __future__ import annotations

from typing import Any

import pytest

from labkit.errors import LabkitError
from labkit.scenario import load_scenario, run_scenario
from labkit.widgets.explorers.window import WindowModel

BREAKERS = ("in_a_row", "per_interval", "by_rate")


def opened(model: WindowModel) -> dict[str, float | None]:
    """When each breaker first opened, off its trace."""
    found: dict[str, float | None] = {}
    for name in BREAKERS:
        table = model.runs[name].trace.transitions
        found[name] = next((at for at, *_, state in table.rows() if state == 1), None)
    return found


def rebuilt(model: WindowModel) -> WindowModel:
    """The explorer that the line of code builds."""
    made = eval(model.share(), {"window_explorer": lambda **settings: WindowModel(**settings)})
    assert isinstance(made, WindowModel)
    return made


def test_it_opens_with_the_lesson() -> None:
    """A success every thirtieth call keeps the count in a row closed for ever, and neither of the other two."""
    model = WindowModel()
    found = opened(model)
    assert found["in_a_row"] is None
    assert found["per_interval"] == pytest.approx(16.15)
    assert found["by_rate"] == pytest.approx(20.35)
    assert model.shown.sentences[0] == (
        "Without a breaker 484 of 600 calls fail. Counting per interval opens at 16.2 s, counting by rate opens at "
        "20.4 s, and counting in a row never does."
    )
    assert "at most 29 failures came in a row, and it takes 30" in model.shown.sentences[1]
    assert [value for _, value in model.shown.facts] == ["never", "at 16.2 s", "at 20.4 s", "484", "33", "53"]


@pytest.mark.parametrize(
    ("key", "value", "changed"),
    [
        ("share", 50, ("in_a_row", "per_interval", "by_rate", "without")),
        ("every", None, ("in_a_row", "per_interval", "by_rate", "without")),
        ("burst", 7, ("in_a_row", "per_interval", "by_rate", "without")),
        ("rate", 8, ("in_a_row", "per_interval", "by_rate", "without")),
        ("failure_threshold", 20, ("in_a_row",)),
        ("interval_threshold", 10, ("per_interval",)),
        ("interval", 5, ("per_interval",)),
        ("failure_rate", 80, ("by_rate",)),
        ("window", 10, ("by_rate",)),
        ("minimum_calls", 150, ("by_rate",)),
        ("open_duration", 20, ("per_interval", "by_rate")),
        ("open_factor", 2, ("per_interval", "by_rate")),
    ],
)
def test_a_control_changes_what_it_is_about(key: str, value: Any, changed: tuple[str, ...]) -> None:
    """Moving one control changes the runs that it is about, and no other, and the picture follows."""
    model = WindowModel()
    before = {name: run.trace for name, run in model.runs.items()}
    picture = model.shown.picture
    model.press({"do": "set", "values": {key: value}})
    assert model.view()["trouble"] == {}
    assert {name for name, run in model.runs.items() if run.trace != before[name]} == set(changed)
    assert model.shown.picture != picture


def test_the_calm_matters_between_bursts() -> None:
    """How long it is healthy between two bursts changes the traffic once there are bursts."""
    model = WindowModel(burst=5)
    before = model.runs["without"].numbers["failed"]
    model.press({"do": "set", "values": {"calm": 2}})
    assert model.runs["without"].numbers["failed"] > before


def test_all_see_the_same_traffic() -> None:
    """The calls arrive at the same times in every run, and fail alike until a breaker steps in."""
    model = WindowModel(share=60, every=7)
    without = model.runs["without"].trace
    for name, at in opened(model).items():
        trace = model.runs[name].trace
        assert trace.calls.start == without.calls.start
        until = sum(end < (at or 1e9) for end in trace.calls.end)
        assert trace.calls.outcome[:until] == without.calls.outcome[:until]


def test_the_yaml_is_all_four_runs() -> None:
    """The YAML loads; it and its variants give the traces that were shown."""
    model = WindowModel(rate=7, burst=9, open_factor=2)
    text, of_toolkit = model.yaml()
    assert not of_toolkit
    scenario = load_scenario(text)
    assert run_scenario(scenario).to_dict() == model.runs["in_a_row"].trace.to_dict()
    for name in ("per_interval", "by_rate", "without"):
        again = run_scenario(scenario.variant(name))
        assert again.transitions == model.runs[name].trace.transitions
        assert again.calls == model.runs[name].trace.calls


def test_the_line_of_code_rebuilds_it() -> None:
    """What differs from the defaults stands in one line of code, which gives the same settings and sentences."""
    model = WindowModel(burst=7, every=None, failure_rate=80)
    assert rebuilt(model).settings == model.settings
    assert rebuilt(model).shown.sentences == model.shown.sentences


def test_nonsense_is_told_beside_its_control() -> None:
    """A value out of range is a sentence and keeps the picture; a wrong setting names the nearest."""
    model = WindowModel()
    picture = model.shown.picture
    model.press({"do": "set", "values": {"failure_rate": 0, "window": "wide"}})
    trouble = model.view()["trouble"]
    assert trouble["failure_rate"] == "failure rate: found “0”; it is a whole number from 5 to 100 %."
    assert "sliding window" in trouble["window"]
    assert model.shown.picture == picture
    with pytest.raises(LabkitError, match="did you mean 'interval'"):
        WindowModel(intervall=5)


@pytest.mark.parametrize(
    ("settings", "answer"),
    [
        ({"every": 40}, "in_a_row"),
        ({}, "per_interval"),
        ({"interval_threshold": 90, "window": 5}, "by_rate"),
        ({"every": None}, "together"),
        ({"interval_threshold": 100, "interval": 5, "failure_rate": 100}, "none"),
    ],
)
def test_the_prediction_is_read_off_the_run(settings: dict[str, Any], answer: str) -> None:
    """Each answer can come true; the right one is told so, another one is set right, and the tally is kept."""
    if answer == "in_a_row":
        settings = {**settings, "interval_threshold": 60, "failure_rate": 90}
    model = WindowModel(predict=True, calm=11)
    for given in (answer, "none" if answer != "none" else "together"):
        model.press({"do": "set", "values": {"calm": 11, **model.defaults}})
        model.press({"do": "skip"})
        model.press({"do": "set", "values": {**settings, "calm": 12}})
        assert model.view()["question"]["text"] == "Which breaker opens first?"
        model.press({"do": "answer", "value": given})
        assert model.view()["verdict"]["right"] is (given == answer)
    assert model.view()["tally"] == "1 of 2 as predicted"
