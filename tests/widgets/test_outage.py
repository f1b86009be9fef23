"""The outage explorer without a front end: each control does what it says, and the words agree with the trace."""

from __future__ import annotations

from typing import Any

import pytest

from labkit.errors import LabkitError
from labkit.scenario import load_scenario, run_scenario
from labkit.widgets.explorers.outage import OutageModel

BEFORE = OutageModel()


def put(model: OutageModel, **values: Any) -> dict[str, Any]:
    """Set values as the page does; the view after it."""
    model.press({"do": "set", "values": values})
    return model.view()


def facts(model: OutageModel) -> dict[str, str]:
    """The facts by name."""
    return dict(model.shown.facts)


MOVES = {
    "failure_threshold": 12,
    "cooldown_period": 7.5,
    "half_open_success_threshold": 8,
    "probe_timeout": 0.5,
    "timeout": 4.0,
    "attempts": 1,
    "rate": 40.0,
    "outage": (20.0, 90.0),
    "fault": "error",
    "replicas": 3,
    "lease": True,
}


@pytest.mark.parametrize("key", list(OutageModel.defaults))
def test_every_control_changes_what_it_should(key: str) -> None:
    """Each control alone changes the run and the YAML, and what its YAML says is what was run."""
    model = OutageModel()
    view = put(model, **({"lease": True, "replicas": 4} if key == "lease" else {key: MOVES[key]}))
    assert view["trouble"] == {}
    assert model.runs[""].trace.to_dict() != BEFORE.runs[""].trace.to_dict()
    assert view["yaml"] != BEFORE.view()["yaml"]
    assert run_scenario(load_scenario(view["yaml"])).to_dict() == model.runs[""].trace.to_dict()
    again = eval(view["share"].partition("; ")[2], {"outage_explorer": OutageModel})
    assert again.settings == model.settings
    assert again.view() == view | {"changed": ""}


@pytest.mark.parametrize(
    "settings",
    [{}, {"replicas": 4}, {"replicas": 4, "lease": True}, {"timeout": None}, {"fault": "error_shaped_string"},
     {"attempts": 1}, {"probe_timeout": None, "fault": "slow"}, {"rate": 5, "cooldown_period": 60}],
)  # fmt: skip
def test_the_facts_are_those_of_the_trace(settings: dict[str, Any]) -> None:
    """Live answers, rejections, failures, attempts and probes are counted in the trace."""
    model = OutageModel(**settings)
    calls, told = model.runs[""].trace.calls, facts(model)
    by_outcome = model.runs[""].numbers
    assert told["live answers"] == f"{sum(calls.useful):,} of {len(calls):,}"
    assert told["rejected"] == f"{by_outcome['rejected']:,}"
    assert told["attempts"] == f"{len(model.runs[''].trace.attempts):,}"
    assert told["probes"].split()[0] == f"{len(model.runs[''].trace.probes):,}"
    assert ("unended" in told["failed"]) == bool(by_outcome["unfinished"])


def test_tells_what_happened_first() -> None:
    """The first sentence says when the breaker opened and after what, and the others tell the rest."""
    first, *others = BEFORE.shown.sentences
    assert first == "The breaker opened at 32 s, after 5 time-outs in a row; 161 attempts were in flight then."
    assert "The first probe was sent at 47 s; of 5 in all 3 succeeded and 2 failed." in others


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"timeout": None}, "Without a timeout nothing is raised while a call waits"),
        ({"fault": "error_shaped_string"}, "it saw only successes"),
        ({"replicas": 4, "lease": True}, "labkit's guarded breaker, which the toolkit has not"),
    ],
)
def test_says_why(settings: dict[str, Any], says: str) -> None:
    """What the trace alone cannot tell, since it is in the settings, is said right after the first sentence."""
    assert says in OutageModel(**settings).shown.sentences[1]


def test_a_lease_lets_one_probe_through_at_a_time() -> None:
    """Four replicas alone send four probes at once; with one lease for all, one."""
    alone, leased = OutageModel(replicas=4), OutageModel(replicas=4, lease=True)
    assert facts(alone)["probes"].endswith("(4 at once)")
    assert facts(leased)["probes"].endswith("(1 at once)")
    assert alone.view()["of_toolkit"] is False  # for its retry, which is labkit's
    assert "leases" in leased.view()["yaml"]


@pytest.mark.parametrize(
    ("settings", "moved", "asks", "true"),
    [
        ({}, {"cooldown_period": 60}, "When is full service back?", "within"),
        ({}, {"cooldown_period": 1}, "When is full service back?", "beyond"),
        ({}, {"cooldown_period": 2.5, "fault": "error"}, "When is full service back?", "soon"),
        ({}, {"outage": (30, 115)}, "When is full service back?", "not"),
        ({}, {"timeout": None}, "Will the breaker open", "no"),
        ({}, {"failure_threshold": 20}, "Will the breaker open", "yes"),
        ({}, {"fault": "error_shaped_string"}, "Will the breaker open", "no"),
        ({}, {"replicas": 4}, "how many probes", "each"),
        ({"replicas": 4}, {"lease": True}, "how many probes", "one"),
        ({"replicas": 4}, {"fault": "error_shaped_string"}, "how many probes", "none"),
    ],
)
def test_predict_first(settings: dict[str, Any], moved: dict[str, Any], asks: str, true: str) -> None:
    """The question fits the situation, its true answer is among the options, and any other is not taken for it."""
    for answer in (true, ""):
        model = OutageModel(predict=True, **settings)
        question = put(model, **moved)["question"]
        assert asks in question["text"]
        options = [value for value, _ in question["options"]]
        assert true in options
        chosen = answer or next(value for value in options if value != true)
        model.press({"do": "answer", "value": chosen})
        assert model.view()["verdict"]["right"] == (chosen == true)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"rate": 500}, "requests: found “500”; it is a number from 5 to 160 /s"),
        ({"outage": (70, 30)}, "it ends at 30 s, and must end after its begin at 70 s"),
        ({"fault": "fire"}, "meanwhile the service: found “fire”"),
        ({"cooldown": 5}, "outage_explorer has no setting 'cooldown'; did you mean 'cooldown_period'?"),
    ],
)
def test_refuses_nonsense(settings: dict[str, Any], says: str) -> None:
    """A setting out of range or unknown is one sentence, and no explorer."""
    with pytest.raises(LabkitError) as refused:
        OutageModel(**settings)
    assert says in str(refused.value)
