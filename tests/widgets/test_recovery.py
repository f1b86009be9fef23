"""The recovery explorer without a front end: capacity and traffic after a repair, and whether it trips again."""

from __future__ import annotations

from typing import Any

import pytest

from labkit.errors import LabkitError
from labkit.scenario import load_scenario, run_scenario
from labkit.widgets.explorers.recovery import RecoveryModel


def test_restored_traffic_trips_it_again() -> None:
    """With a third of the workers back and all of the traffic, it trips again, and the sentence has the numbers."""
    model = RecoveryModel()
    assert model.runs[""].numbers["retrips"] == 1
    assert model.shown.sentences[0] == (
        "It trips again once: the breaker closes at 30.9 s, with 5 of 15 workers back, which can serve 20 calls a "
        "second, and 40 arrive. It closes for good at 45.0 s, with 7 workers."
    )
    closings = [at for at, *_, state in model.runs[""].trace.transitions.rows() if state == 0]
    assert [f"{at:.1f}" for at in closings] == ["30.9", "45.0"]
    assert dict(model.shown.facts)["trips again"] == "1"


@pytest.mark.parametrize(
    ("settings", "because"),
    [
        ({"cooldown_period": 40}, "That is enough."),
        ({"ramp": 40}, "That is enough."),
        ({"seconds": 0}, "That is enough."),
        ({"first": 15}, "That is enough."),
        ({"bulkhead": 10}, "The bulkhead turns away what they cannot serve"),
        ({"seconds": 10}, "More come back before five calls in a row have waited"),
    ],
)
def test_what_keeps_it_closed(settings: dict[str, Any], because: str) -> None:
    """A longer cooldown, traffic or capacity in step, or a bulkhead: it stays closed, and the sentence says why."""
    model = RecoveryModel(**settings)
    assert model.runs[""].numbers["retrips"] == 0
    assert model.shown.sentences[0].startswith("It does not trip again: the breaker closes at ")
    assert because in model.shown.sentences[0]


def test_more_successes_are_no_cure() -> None:
    """Forty probes take ten seconds and find a healthy service, and the traffic trips it all the same."""
    model = RecoveryModel(half_open_success_threshold=40)
    assert model.runs[""].numbers["retrips"] == 1
    assert "at 40.6 s, with 7 of 15 workers" in model.shown.sentences[0]


def test_it_may_trip_again_and_again() -> None:
    """Too few workers for good trip it until the run ends, and the sentence says how often."""
    model = RecoveryModel(workers=5, first=5)
    many = model.runs[""].numbers["retrips"]
    assert many > 2
    assert model.shown.sentences[0].startswith(f"It trips again {many} times: ")
    assert model.shown.sentences[0].endswith("When the run ends it is not closed.")
    told = [line for line in model.shown.sentences if line.startswith("Tripped again at ")]
    assert len(told) == many


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("workers", 25),
        ("first", 8),
        ("seconds", 20),
        ("rate", 55),
        ("ramp", 20),
        ("half_open_success_threshold", 9),
        ("cooldown_period", 17),
        ("bulkhead", 9),
    ],
)
def test_a_control_changes_run_picture_and_code(key: str, value: Any) -> None:
    """Moving a control changes the trace and the picture, and the line of code and the YAML give the same again."""
    model = RecoveryModel()
    trace, picture = model.runs[""].trace, model.shown.picture
    model.press({"do": "set", "values": {key: value}})
    assert model.view()["trouble"] == {}
    assert model.runs[""].trace != trace
    assert model.shown.picture != picture
    again = eval(model.share(), {"recovery_explorer": lambda **settings: RecoveryModel(**settings)})
    assert again.settings == model.settings
    assert run_scenario(load_scenario(model.yaml()[0])).to_dict() == model.runs[""].trace.to_dict()


def test_no_more_may_come_back_than_there_are() -> None:
    """More workers at the repair than in all is told beside the control, and the last good picture stays."""
    model = RecoveryModel()
    picture = model.shown.picture
    model.press({"do": "set", "values": {"first": 16}})
    sentence = "back at the repair: 16 of 15 workers cannot be; it is at most 15."
    assert model.view()["trouble"] == {"first": sentence}
    assert model.shown.picture == picture
    with pytest.raises(LabkitError, match="16 of 15 workers cannot be"):
        RecoveryModel(first=16)


@pytest.mark.parametrize(
    ("settings", "answer"),
    [({"cooldown_period": 40}, "no"), ({"rate": 38}, "once"), ({"seconds": 60, "first": 1}, "more")],
)
def test_the_prediction_is_read_off_the_run(settings: dict[str, Any], answer: str) -> None:
    """Whether it trips again is answered by the run; a wrong guess is set right in words."""
    for given in (answer, "once" if answer != "once" else "no"):
        model = RecoveryModel(predict=True)
        model.press({"do": "set", "values": settings})
        assert model.view()["question"]["text"] == "After the repair at 30 s, does the breaker trip again?"
        model.press({"do": "answer", "value": given})
        verdict = model.view()["verdict"]
        assert verdict["right"] is (given == answer)
        assert model.view()["tally"] == ("1 of 1 as predicted" if given == answer else "0 of 1 as predicted")
