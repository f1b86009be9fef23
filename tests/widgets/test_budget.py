"""The retry budget explorer without a front end."""

from __future__ import annotations

from typing import Any

import pytest

from labkit.errors import LabkitError
from labkit.scenario import load_scenario, run_scenario
from labkit.widgets.explorers.budget import BudgetModel


def moved(**values: Any) -> BudgetModel:
    """An explorer in which controls were moved."""
    model = BudgetModel()
    model.press({"do": "set", "values": values})
    assert model.view()["trouble"] == {}
    return model


def facts(model: BudgetModel) -> dict[str, str]:
    """Its facts by name."""
    return dict(model.view()["facts"])


def recovers(model: BudgetModel) -> bool:
    """What its first sentence says."""
    return bool(model.view()["sentences"][0].startswith("It recovers by itself"))


def test_it_opens_with_an_outage_that_outlives_its_cause() -> None:
    """Three attempts after a dip of four seconds: it does not recover, and nearly nobody is answered."""
    model = BudgetModel()
    assert not recovers(model)
    assert facts(model)["in the last 5 s"].startswith("0 of ")
    assert facts(model)["refused retries"] == "0"
    attempts = len(model.runs[""].trace.attempts)
    assert f"of {attempts:,} attempts were retries" in model.view()["sentences"][2]


@pytest.mark.parametrize(
    ("values", "recovery"),
    [
        ({"ratio": 0.1}, True),
        ({"attempts": 1}, True),
        ({"attempts": 4}, False),
        ({"rate": 9.0}, True),
        ({"workers": 8}, True),
        ({"base_delay": 3.0}, False),
        ({"dip": [10, 10.5]}, True),
        ({"ratio": 1.0}, False),
        ({"rate": 24.0, "ratio": 0.1}, False),
    ],
)
def test_every_control_decides_whether_it_recovers(values: dict[str, Any], recovery: bool) -> None:
    """Attempts, budget, rate, workers and dip: the sentence follows each, and agrees with the run's last seconds."""
    model = moved(**values)
    assert recovers(model) is recovery
    trace = model.runs[""].trace
    last = [good for end, good in zip(trace.calls.end, trace.calls.useful, strict=True) if 31.0 <= end <= 36.0]
    assert facts(model)["in the last 5 s"] == f"{sum(last)} of {len(last)}"
    assert recovery is (sum(last) >= 0.99 * len(last))


def test_a_longer_wait_spreads_the_retries() -> None:
    """The back-off changes what reaches the service within a second, and how many are answered."""
    short, long = moved(base_delay=0.0), moved(base_delay=4.0)
    assert short.runs[""].trace != long.runs[""].trace
    assert long.runs[""].numbers["succeeded"] > short.runs[""].numbers["succeeded"]


def test_the_share_line_rebuilds_it() -> None:
    """The line of code gives the same settings and the same picture."""
    model = moved(ratio=0.2, attempts=4, dip=[8, 12])
    again = eval(model.share(), {"budget_explorer": lambda **settings: BudgetModel(**settings)})
    assert again.settings == model.settings
    assert again.view()["svg"] == model.view()["svg"]


@pytest.mark.parametrize("values", [{}, {"ratio": 0.1}])
def test_the_yaml_is_the_scenario(values: dict[str, Any]) -> None:
    """It loads and gives the same trace; retry and budget are labkit's own, and it says so."""
    model = moved(**values) if values else BudgetModel()
    view = model.view()
    assert run_scenario(load_scenario(view["yaml"])) == model.runs[""].trace
    assert view["of_toolkit"] is False


def test_nonsense_is_told_and_the_picture_stays() -> None:
    """Values out of range are named beside their controls; an unknown setting names the nearest."""
    model = BudgetModel()
    before = model.view()["svg"]
    model.press({"do": "set", "values": {"attempts": 2.5, "ratio": 3, "dip": [20, 10]}})
    view = model.view()
    assert set(view["trouble"]) == {"attempts", "ratio", "dip"}
    assert view["svg"] == before
    with pytest.raises(LabkitError, match="did you mean 'ratio'"):
        BudgetModel(ration=0.1)


@pytest.mark.parametrize(("answer", "right"), [("yes", True), ("no", False)])
def test_predict_first(answer: str, right: bool) -> None:
    """It asks whether the service recovers by itself, shows nothing before, and tells whether it came true."""
    model = BudgetModel(predict=True)
    before = model.view()["svg"]
    model.press({"do": "set", "values": {"ratio": 0.1}})
    assert "recover by itself" in model.view()["question"]["text"]
    assert model.view()["svg"] == before
    model.press({"do": "answer", "value": answer})
    assert model.view()["verdict"]["right"] is right
    assert recovers(model)
