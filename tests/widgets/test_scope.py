"""The scope explorer without a front end: who shares a state, who pays, and what replicas and a lease make of it."""

from __future__ import annotations

from typing import Any

import pytest

from labkit.scenario import load_scenario, run_scenario
from labkit.widgets.explorers.scope import ScopeModel

DOCUMENTS, PARTS = "maintenance_documents", "parts_availability"


def facts(model: ScopeModel) -> dict[str, str]:
    """The facts by name."""
    return dict(model.shown.facts)


@pytest.mark.parametrize(
    ("settings", "pays", "because"),
    [
        ({}, True, "Here it is one instance and one name"),
        ({"names": "own"}, False, "The instance is the same, but each function has a name of its own"),
        ({"breakers": "two"}, False, "The name is the same, but each function lists an instance of its own"),
        ({"names": "own", "breakers": "two"}, False, "Here both the instances and the names differ"),
    ],
)
def test_who_shares_a_state_pays(settings: dict[str, Any], pays: bool, because: str) -> None:
    """The healthy documents are turned away only where instance and name are both the same, and the why says so."""
    model = ScopeModel(**settings)
    documents = model.runs[""].functions[DOCUMENTS]
    assert documents["failed"] == 0
    assert (documents["rejected"] > 0) is pays
    assert model.shown.sentences[0].startswith("The documents pay" if pays else "Nobody pays for the other")
    assert model.shown.sentences[1].startswith(because)
    assert "NeMo Agent Toolkit 1.9.0" in model.shown.sentences[1]
    assert facts(model)["documents turned away"] == f"{documents['rejected']} of {documents['offered']}"
    assert facts(model)["states kept"] == ("1" if pays else "2")


def test_documents_may_hide_the_outage() -> None:
    """Where searches of the documents come between the failures nothing opens; the sentence says how near it was."""
    model = ScopeModel(parts=1, documents=40)
    assert model.runs[""].numbers["opens"] == 0
    failed = model.runs[""].functions[PARTS]["failed"]
    assert model.shown.sentences[0] == (
        f"The parts hide behind the documents: the parts failed {failed} times, and nothing opened. Each answer of the "
        f"documents set the count in a row back; it never got past 1 of 5."
    )


def test_a_search_may_be_the_probe() -> None:
    """A probe that asks the documents closes the state of the parts that still fail, and that is told."""
    model = ScopeModel(replicas=4, lease=True)
    early = [line for line in model.shown.sentences if line.startswith("A search of the documents was the probe")]
    assert early == [
        "A search of the documents was the probe, and closed the state while the parts still failed: twice."
    ]
    apart = ScopeModel(replicas=4, names="own", lease=True)
    assert not any("was the probe" in line for line in apart.shown.sentences)


def test_each_replica_counts_for_itself() -> None:
    """More replicas are more states and more failures until all are open; each opens in its own time."""
    one, four = ScopeModel(names="own"), ScopeModel(names="own", replicas=4)
    assert facts(four)["states kept"] == "8"
    assert four.runs[""].functions[PARTS]["failed"] > 2 * one.runs[""].functions[PARTS]["failed"]
    assert {replica for *_, replica, state in four.runs[""].trace.transitions.rows() if state == 1} == {0, 1, 2, 3}
    assert any(line.startswith("4 replicas count for themselves") for line in four.shown.sentences)


def test_a_lease_bounds_the_probes_of_all() -> None:
    """Without a lease several replicas probe at once; with one for all at most one does, by labkit's own breaker."""
    without, leased = ScopeModel(replicas=4), ScopeModel(replicas=4, lease=True)
    assert without.runs[""].numbers["concurrent_probes_peak"] > 1
    assert leased.runs[""].numbers["concurrent_probes_peak"] == 1
    assert "At most 1 probe was in flight at once: one probe lease for all of them." in leased.shown.sentences
    assert without.yaml()[1] is True
    assert leased.yaml()[1] is False


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("failure_threshold", 3),
        ("cooldown_period", 4),
        ("parts", 31),
        ("documents", 5),
        ("outage", [10, 30]),
        ("replicas", 2),
    ],
)
def test_a_control_changes_run_picture_and_code(key: str, value: Any) -> None:
    """Moving a control changes the trace and the picture, and the line of code and the YAML give the same again."""
    model = ScopeModel(breakers="two")
    trace, picture = model.runs[""].trace, model.shown.picture
    model.press({"do": "set", "values": {key: value}})
    assert model.view()["trouble"] == {}
    assert model.runs[""].trace != trace
    assert model.shown.picture != picture
    again = eval(model.share(), {"scope_explorer": lambda **settings: ScopeModel(**settings)})
    assert again.settings == model.settings
    assert run_scenario(load_scenario(model.yaml()[0])).to_dict() == model.runs[""].trace.to_dict()


def test_nonsense_keeps_the_picture() -> None:
    """An outage that ends before it begins, and a choice that there is not, are told beside their controls."""
    model = ScopeModel()
    picture = model.shown.picture
    model.press({"do": "set", "values": {"outage": [30, 10], "names": "mine"}})
    trouble = model.view()["trouble"]
    assert "must end after its begin" in trouble["outage"]
    assert trouble["names"].startswith("context.name: found “mine”")
    assert model.shown.picture == picture


@pytest.mark.parametrize(
    ("settings", "answer"),
    [
        ({"failure_threshold": 4}, "pay"),
        ({"names": "own"}, "free"),
        ({"parts": 1, "documents": 40}, "hidden"),
        ({"replicas": 4, "lease": True}, "1"),
        ({"replicas": 4, "parts": 40}, "4"),
    ],
)
def test_the_prediction_is_read_off_the_run(settings: dict[str, Any], answer: str) -> None:
    """The question fits what is set; the right answer is told so, and any other is not."""
    for given in (answer, None):
        model = ScopeModel(predict=True)
        model.press({"do": "set", "values": settings})
        question = model.view()["question"]
        values = [value for value, _ in question["options"]]
        assert answer in values
        assert ("probes" in question["text"]) is ("replicas" in settings)
        model.press({"do": "answer", "value": given or next(value for value in values if value != answer)})
        assert model.view()["verdict"]["right"] is (given is not None)
