"""The stepper of other breakers than the toolkit's, and of three side by side, without a front end."""

from __future__ import annotations

import json
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.errors import ConfigError
from labkit.widgets.stepper.model import StepperModel
from labkit.widgets.stepper.rows import TABLES, row_of

CONFIG = {"failure_threshold": 1, "cooldown_period": 30.0}
WINDOW = {"_type": "window_circuit_breaker", "failure_threshold": 2, "interval": 60.0, "open_duration": 30.0}
RATE = {
    "_type": "window_circuit_breaker",
    "failure_rate": 0.5,
    "window": 10.0,
    "minimum_calls": 2,
    "open_duration": 5.0,
}
GUARDED = {"_type": "guarded_circuit_breaker", "failure_threshold": 1, "cooldown_period": 30.0}
CALL = {"do": "call"}


def finish(id: str, outcome: str) -> dict[str, str]:
    """A press on one of the three endings."""
    return {"do": "finish", "id": id, "outcome": outcome}


def attempt(name: str) -> dict[str, str]:
    """A press on one of the histories that are worth a try."""
    return {"do": "try", "name": name}


def beside(*presses: dict[str, Any], predict: bool = False, **config: Any) -> StepperModel:
    """A stepper of three breakers after these presses."""
    model = StepperModel(CONFIG | config, predict=predict, compare=True)
    for press in presses:
        model.press(press)
    return model


def columns(model: StepperModel) -> dict[str, dict[str, Any]]:
    """The columns of a view, by breaker."""
    return {column["name"]: column for column in model.view()["compare"]["columns"]}


def test_three_columns_on_one_history() -> None:
    """Side by side there is a column for each breaker with its state, counters, decision and sentence."""
    model = beside(CALL, finish("c1", "error"), CALL)
    shown = columns(model)
    assert list(shown) == ["toolkit", "guarded", "window"]
    for name, column in shown.items():
        assert (column["state"], column["decision"], column["differs"]) == ("OPEN", "rejected", [])
        assert column["sentence"] == model.sessions.sessions[name].history[-1].sentence
        assert column["gauges"][0]["text"] == "1 of 1"
    assert model.view()["sentence"] == "c2 arrives. All reject it. All are open."


def test_where_they_part_is_said() -> None:
    """Of three, the odd one out is marked at what differs, and the sentence says who decided how."""
    model = beside(attempt("cancel-frees-foreign-probe"))
    shown = columns(model)
    assert shown["toolkit"]["differs"] == ["decision"]
    assert (shown["guarded"]["differs"], shown["window"]["differs"]) == ([], [])
    assert (shown["toolkit"]["decision"], shown["guarded"]["decision"]) == ("probe", "rejected")
    assert shown["toolkit"]["fault"] == "cancel-frees-foreign-probe"
    assert model.view()["sentence"] == (
        "Q arrives. Toolkit lets it through; guarded and window reject it. A fault of 1.9.0 shows (toolkit): "
        "cancel-frees-foreign-probe. All are half-open."
    )


def test_states_that_part() -> None:
    """Where the states part, the sentence groups the breakers by state, and each differing gauge is marked."""
    model = beside(attempt("no-generations"))
    assert model.view()["sentence"].endswith("They differ: toolkit open; guarded and window closed.")
    assert columns(model)["toolkit"]["differs"] == ["state", 0, 2]
    assert "They part" in model.still().alt


def test_a_call_that_only_one_admitted_can_be_ended() -> None:
    """The list of calls in flight says in which breakers; the others say that it is not theirs."""
    model = beside(attempt("cancel-frees-foreign-probe"))
    assert model.view()["flights"] == [
        {"id": "P", "kind": "probe", "since": "30", "where": ""},
        {"id": "Q", "kind": "probe", "since": "30", "where": "in flight in: toolkit"},
    ]
    model.press(finish("Q", "error"))
    view = model.view()
    assert view["late"] == {"P": "admitted in a half-open period that is over"}
    assert view["sentence"] == "Q fails in: toolkit. They differ: toolkit open; guarded and window half-open."
    assert columns(model)["guarded"]["sentence"] == "Q is not in flight here: it was rejected, or has ended."
    assert view["history"][-1] == {
        "at": "30",
        "what": "Q: failure",
        "cells": ["open", "not here, half-open", "not here, half-open"],
    }


def test_a_call_that_will_be_late_is_marked() -> None:
    """In the list of calls in flight, one of an earlier period is marked, alone as well as side by side."""
    for compare in (False, True):
        model = StepperModel(CONFIG, predict=False, compare=compare)
        for press in (CALL, CALL, finish("c2", "error")):
            model.press(press)
        assert model.view()["late"] == {"c1": "admitted before the breaker opened"}


def test_every_history_worth_a_try_can_be_played() -> None:
    """Each of the list is one press, begins from the beginning, and says what was played."""
    model = beside(CALL, failure_threshold=2)
    for name, label in model.view()["compare"]["tries"]:
        model.press(attempt(name))
        view = model.view()
        assert view["notice"] == f"{len(view['history'])} steps were played: {label}."
        assert len({column["sentence"] for column in view["compare"]["columns"]}) > 1
    many = len(model.sessions.history)
    model.press(attempt("no-such"))
    assert len(model.sessions.history) == many


def test_undo_and_reset_are_for_all() -> None:
    """Undo takes the last step from all three, and reset begins again with all."""
    model = beside(CALL, CALL)
    before = model.view()
    model.press(finish("c1", "error"))
    model.press({"do": "undo"})
    assert model.view() | {"notice": ""} == before
    model.press({"do": "reset"})
    assert (model.view()["history"], model.view()["flights"]) == ([], [])


def test_the_switch_takes_the_history_along() -> None:
    """Switching plays what has happened through the others; switching back leaves out what only they had in flight."""
    model = StepperModel(CONFIG, predict=False)
    for press in (CALL, finish("c1", "error")):
        model.press(press)
    alone = model.view()
    assert alone["compare"] is None
    model.press({"do": "compare", "on": True})
    assert [column["state"] for column in columns(model).values()] == ["OPEN"] * 3
    model.press({"do": "compare", "on": False})
    assert model.view() == alone
    model.press(attempt("hung-probe"))
    model.press(finish("Q", "ok"))
    assert columns(model)["guarded"]["state"] == "CLOSED"
    model.press({"do": "compare", "on": False})
    assert len(model.view()["history"]) == len(model.session.history) == 7


def test_the_window_breaker_stands_alone() -> None:
    """From the window breaker's fields the others' cannot be told: no switch, and a refusal to begin with."""
    model = StepperModel(WINDOW, predict=False)
    assert model.view()["can_compare"] is False
    model.press({"do": "compare", "on": True})
    assert model.view()["compare"] is None
    with pytest.raises(ConfigError, match="found a window_circuit_breaker"):
        StepperModel(WINDOW, compare=True)


def test_the_diagram_of_each() -> None:
    """Any of the three diagrams can be chosen, each drawn from its own table; an unknown name changes nothing."""
    model = beside(attempt("no-generations"))
    drawn = {}
    for name in ("toolkit", "guarded", "window", "other"):
        model.press({"do": "diagram", "of": name})
        view = model.view()
        drawn[name] = ElementTree.fromstring(view["wide"]).get("aria-label") or ""
    assert "The state is open." in drawn["toolkit"]
    assert "stays closed on late outcome" in drawn["guarded"]
    assert drawn["other"] == drawn["window"]


# -- predict first


def test_what_is_asked_of_three() -> None:
    """A script stops before its last step and asks who lets the call through, and whether the three agree then."""
    model = beside(attempt("cancel-frees-foreign-probe"), predict=True)
    view = model.view()
    assert view["question"]["text"] == "Q arrives."
    assert [name for name, _, _ in view["question"]["fields"]] == ["admitted", "state"]
    assert view["notice"] == "6 of 7 steps were played: a cancelled bystander."
    model.press({"do": "answer", "admitted": "some", "state": "alike"})
    assert model.view()["verdict"] == {"right": True, "text": "As you said."}


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ({"admitted": "all", "state": "alike"}, "Not as you said: not all let it through."),
        ({"admitted": "some", "state": "apart"}, "Not as you said: they are in one state."),
        ({"admitted": "none", "state": "apart"},
         "Not as you said: not all let it through and they are in one state."),
    ],
)  # fmt: skip
def test_a_wrong_answer_about_three(answer: dict[str, str], text: str) -> None:
    """An answer that does not come true says what is so instead."""
    model = beside(attempt("cancel-frees-foreign-probe"), {"do": "answer", **answer}, predict=True)
    assert model.view()["verdict"] == {"right": False, "text": text}
    assert model.view()["tally"] == "0 of 1 as predicted"


def test_half_an_answer_about_three_is_none() -> None:
    """The words that one breaker's question takes are none for three's."""
    model = beside(CALL, {"do": "answer", "admitted": "yes", "state": "CLOSED"}, predict=True)
    assert model.view()["notice"] == "Choose whether the call gets through and the state first."


# -- other breakers alone


def test_the_guarded_breaker_alone() -> None:
    """The stepper of a guarded breaker draws its own table and lights the row of a late outcome."""
    model = StepperModel(GUARDED, predict=False)
    for press in (CALL, CALL, finish("c2", "error"), finish("c1", "error")):
        model.press(press)
    label = ElementTree.fromstring(model.view()["wide"]).get("aria-label") or ""
    assert "The last step took the row: stays open on late outcome." in label


@pytest.mark.parametrize(("config", "first"), [(WINDOW, "1 of 2"), (RATE, "1 of 1 calls")])
def test_the_window_breaker_counts_its_way(config: dict[str, Any], first: str) -> None:
    """The stepper of a window breaker shows its own counters and says at first what opens it."""
    model = StepperModel(config, predict=False)
    assert "it. Let a call arrive." in model.view()["sentence"]
    model.press(CALL)
    model.press(finish("c1", "error"))
    assert model.view()["gauges"][0]["text"] == first
    assert model.view()["gauges"][2]["name"] == "Timer"


def test_a_window_breakers_slots() -> None:
    """Where several probes may be in flight at once, the gauge says how many are."""
    model = StepperModel({**WINDOW, "half_open_requests": 3}, predict=False)
    for press in (CALL, CALL, finish("c1", "error"), finish("c2", "error"), {"do": "advance", "seconds": "30"}, CALL):
        model.press(press)
    assert model.view()["gauges"][3]["text"] == "1 of 3 taken"


# -- any history

ids = [*(f"c{number}" for number in range(1, 6)), "S", "F", "P", "Q", "P1"]
presses = st.lists(
    st.one_of(
        st.just(CALL),
        st.builds(finish, st.sampled_from(ids), st.sampled_from(["ok", "error", "cancel"])),
        st.builds(lambda seconds: {"do": "advance", "seconds": seconds}, st.sampled_from(["1", "9", "30", "600"])),
        st.just({"do": "undo"}),
        st.builds(attempt, st.sampled_from(["cancel-frees-foreign-probe", "stale-probe-decides", "hung-probe"])),
        st.builds(lambda on: {"do": "compare", "on": on}, st.booleans()),
        st.builds(lambda on: {"do": "predict", "on": on}, st.booleans()),
        st.just({"do": "skip"}),
    ),
    max_size=20,
)


@given(presses, st.sampled_from([CONFIG, GUARDED, WINDOW, RATE, {**WINDOW, "half_open_requests": 2}]))
def test_every_step_takes_a_row_of_its_table(pressed: list[dict[str, Any]], config: dict[str, Any]) -> None:
    """Whatever is pressed, each step of each breaker but mere time took a row of that breaker's table."""
    model = StepperModel(config, predict=False)
    for press in pressed:
        model.press(press)
    for session in model.sessions.sessions.values():
        kind = session.config.type
        before = None
        for step in session.history:
            row = row_of(step, before, kind, getattr(session.config, "failure_rate", None) is not None)
            if step.op == "advance" and step.id is None:
                assert row is None or row.trigger == "time"
            else:
                assert row in TABLES[kind]
                assert (row.source, row.target) == (before.state if before else "CLOSED", step.state)
            before = step
    json.dumps(model.view())
    ElementTree.fromstring(model.still().svg())
