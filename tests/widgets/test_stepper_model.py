"""The stepper without a front end: what a learner presses, what the view says, and that it never gets lost."""

from __future__ import annotations

import json
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.policies.circuit_breaker import TRANSITIONS
from labkit.widgets.stepper.model import StepperModel, row_of

CONFIG = {"failure_threshold": 2, "cooldown_period": 30.0, "half_open_success_threshold": 2}
CALL = {"do": "call"}


def finish(id: str, outcome: str) -> dict[str, str]:
    """A press on one of the three endings."""
    return {"do": "finish", "id": id, "outcome": outcome}


def advance(seconds: object) -> dict[str, object]:
    """A press on "let time pass" with that in the field."""
    return {"do": "advance", "seconds": seconds}


def stepped(*presses: dict[str, Any], predict: bool = False, **config: Any) -> StepperModel:
    """A stepper after these presses."""
    model = StepperModel(CONFIG | config, predict=predict)
    for press in presses:
        model.press(press)
    return model


TRIP = (CALL, CALL, finish("c1", "error"), finish("c2", "error"))


def test_begins_with_what_to_do() -> None:
    """Before the first step the view says in which state the breaker is and how it is opened."""
    view = stepped().view()
    assert view["sentence"] == (
        "The breaker is closed and has seen nothing yet; 2 failures in a row open it. Let a call arrive."
    )
    assert (view["now"], view["state"], view["flights"], view["history"]) == ("0", "CLOSED", [], [])
    assert "1 failure opens it" in stepped(failure_threshold=1).view()["sentence"]


def test_a_press_is_a_step_of_the_real_breaker() -> None:
    """The view after a trip tells the session's state, counters, sentence and history."""
    model = stepped(*TRIP)
    view = model.view()
    assert view["state"] == "OPEN"
    assert view["sentence"] == model.session.history[-1].sentence
    assert [gauge["text"] for gauge in view["gauges"][:3]] == ["2 of 2", "0 of 2", "30 s to go"]
    assert view["to_cooldown_end"] == "30"
    assert [row["what"] for row in view["history"]] == ["c1 arrives", "c2 arrives", "c1: failure", "c2: failure"]
    assert [row["decision"] for row in view["history"]] == ["admitted", "admitted", "", ""]


def test_calls_in_flight_are_told_apart() -> None:
    """Every call in flight is listed with when it began, and the probe as one."""
    model = stepped(CALL, *TRIP[:0], CALL, CALL, finish("c1", "error"), finish("c2", "error"), advance("30"), CALL)
    assert model.view()["flights"] == [
        {"id": "c3", "kind": "call", "since": "0"},
        {"id": "c4", "kind": "probe", "since": "30"},
    ]


def test_a_late_result_counts_neither_way() -> None:
    """A call admitted before the trip can end after it, and the view says that it does not count."""
    model = stepped(CALL, CALL, CALL, finish("c1", "error"), finish("c2", "error"), finish("c3", "ok"))
    view = model.view()
    assert view["state"] == "OPEN"
    assert "counts neither way" in view["sentence"]


def test_the_cooldown_runs_and_ends() -> None:
    """The gauge of the cooldown fills with time, and its end is said to be leave to try."""
    model = stepped(*TRIP, advance("7.5"))
    gauge = model.view()["gauges"][2]
    assert (gauge["text"], gauge["share"], model.view()["to_cooldown_end"]) == ("22.5 s to go", 0.25, "22.5")
    model.press(advance(model.view()["to_cooldown_end"]))
    view = model.view()
    assert (view["state"], view["gauges"][2]["text"]) == ("OPEN", "over: the next call is a probe")
    assert view["to_cooldown_end"] == ""


def test_the_probe_takes_the_slot() -> None:
    """While a probe is in flight its slot is taken; once it is cancelled the slot is free and nothing was counted."""
    model = stepped(*TRIP, advance("30"), CALL)
    assert model.view()["gauges"][3]["text"] == "taken"
    model.press(finish("c3", "cancel"))
    view = model.view()
    assert (view["gauges"][3]["text"], view["state"], view["gauges"][1]["text"]) == ("free", "HALF_OPEN", "0 of 2")


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("", "nothing"),
        ("x", "“x”"),
        ("-1", "“-1”"),
        ("0", "“0”"),
        ("nan", "“nan”"),
        ("inf", "“inf”"),
        (None, "nothing"),
        ("1e7", "“1e7”"),
    ],
)
def test_seconds_that_are_none(typed: object, found: str) -> None:
    """What is no sensible number of seconds is refused in a sentence beside the field, and nothing passes."""
    model = stepped(*TRIP, advance(typed))
    view = model.view()
    assert view["trouble"] == f"Found {found}; seconds are a number above 0 and up to 1,000,000, such as 2.5."
    assert (view["now"], len(view["history"])) == ("0", 4)
    model.press(CALL)
    assert model.view()["trouble"] == ""


@pytest.mark.parametrize(
    ("typed", "now"), [("2.5", "2.5"), (" 2,5 ", "2.5"), ("10 s", "10"), ("10s", "10"), ("1e3", "1000"), (4, "4")]
)
def test_seconds_as_people_type_them(typed: object, now: str) -> None:
    """A decimal comma, blanks and the unit are understood."""
    assert stepped(advance(typed)).view()["now"] == now


def test_ending_what_does_not_fly() -> None:
    """A press on a call that has ended meanwhile does nothing, and says so."""
    model = stepped(CALL, finish("c1", "ok"), finish("c1", "ok"))
    assert model.view()["notice"] == "No call is in flight; let one arrive."
    assert len(model.session.history) == 2
    model = stepped(CALL, finish("c9", "ok"))
    assert model.view()["notice"] == "No such call is in flight any more."


def test_undo_takes_one_step_back() -> None:
    """Undo gives the view of the step before; at the beginning it says that there is nothing to take back."""
    model = stepped(*TRIP)
    before = stepped(*TRIP[:-1]).view()
    model.press({"do": "undo"})
    assert model.view() | {"notice": ""} == before
    for _ in range(5):
        model.press({"do": "undo"})
    view = model.view()
    assert (view["history"], view["notice"]) == ([], "There is no step to take back.")


def test_reset_keeps_the_tally() -> None:
    """Reset begins again with the breaker, not with the learner."""
    model = stepped(CALL, {"do": "answer", "state": "CLOSED", "admitted": "yes"}, {"do": "reset"}, predict=True)
    view = model.view()
    assert (view["history"], view["tally"]) == ([], "1 of 1 as predicted")


# -- predict first


def test_a_press_asks_first() -> None:
    """With predictions on, a press shows no result: it asks about the state, and for a call about admission."""
    model = stepped(CALL, predict=True)
    view = model.view()
    assert view["question"] == {"text": "A call arrives.", "about_admission": True, "do": "call"}
    assert (view["history"], view["verdict"]) == ([], None)
    model = stepped(CALL, {"do": "skip"}, finish("c1", "cancel"), predict=True)
    assert model.view()["question"] == {
        "text": "c1 ends with a cancellation.",
        "about_admission": False,
        "do": "finish",
    }
    model = stepped(advance("1.5"), predict=True)
    assert model.view()["question"] == {"text": "1.5 s pass.", "about_admission": False, "do": "advance"}


def test_a_right_answer_counts() -> None:
    """An answer that comes true is said to be so, and counted."""
    view = stepped(CALL, {"do": "answer", "state": "CLOSED", "admitted": "yes"}, predict=True).view()
    assert view["verdict"] == {"right": True, "text": "As you said."}
    assert (view["tally"], len(view["history"]), view["question"]) == ("1 of 1 as predicted", 1, None)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ({"state": "OPEN", "admitted": "yes"}, "Not as you said: the breaker is closed."),
        ({"state": "CLOSED", "admitted": "no"}, "Not as you said: the call was admitted."),
        ({"state": "HALF_OPEN", "admitted": "no"}, "Not as you said: the call was admitted and the breaker is closed."),
    ],
)
def test_a_wrong_answer_says_what_is_so(answer: dict[str, str], text: str) -> None:
    """An answer that does not come true counts as asked, and the view says what happened instead."""
    view = stepped(CALL, {"do": "answer", **answer}, predict=True).view()
    assert view["verdict"] == {"right": False, "text": text}
    assert view["tally"] == "0 of 1 as predicted"


@pytest.mark.parametrize(
    ("answer", "notice"),
    [
        ({}, "Choose whether the call gets through and the state first."),
        ({"admitted": "yes"}, "Choose the state first."),
        ({"state": "CLOSED"}, "Choose whether the call gets through first."),
        ({"state": "closed", "admitted": "maybe"}, "Choose whether the call gets through and the state first."),
    ],
)
def test_half_an_answer_is_none(answer: dict[str, str], notice: str) -> None:
    """Without all choices nothing is shown yet; the question stays and says what is missing."""
    view = stepped(CALL, {"do": "answer", **answer}, predict=True).view()
    assert (view["notice"], view["history"], view["tally"]) == (notice, [], "")
    assert view["question"] is not None


def test_nothing_else_happens_before_the_answer() -> None:
    """While a question is open another press does nothing, so that the answer is to what was asked."""
    model = stepped(CALL, advance("5"), CALL, predict=True)
    view = model.view()
    assert view["question"]["do"] == "call"
    assert view["notice"] == "First say what you expect, or choose to see it without."
    model.press({"do": "skip"})
    assert (model.view()["now"], len(model.session.history)) == ("0", 1)


def test_a_question_can_be_left() -> None:
    """A question can be skipped (the step is shown and not counted) or taken back (nothing happens)."""
    shown = stepped(CALL, {"do": "skip"}, predict=True).view()
    assert (len(shown["history"]), shown["tally"], shown["question"]) == (1, "", None)
    back = stepped(CALL, {"do": "back"}, predict=True).view()
    assert (back["history"], back["tally"], back["question"]) == ([], "", None)


def test_predictions_can_be_switched() -> None:
    """With predictions off a press shows its result at once; switching drops a question that was open."""
    model = stepped(CALL, {"do": "predict", "on": False}, predict=True)
    assert model.view()["question"] is None
    model.press(CALL)
    assert len(model.session.history) == 1
    model.press({"do": "predict", "on": True})
    model.press(CALL)
    assert model.view()["question"] is not None


def test_an_old_verdict_is_not_left_standing() -> None:
    """What was said about one step is gone with the next, with an undo, and with a reset."""
    answer = {"do": "answer", "state": "CLOSED", "admitted": "yes"}
    for after in ([CALL, {"do": "skip"}], [{"do": "undo"}], [{"do": "reset"}]):
        assert stepped(CALL, answer, *after, predict=True).view()["verdict"] is None


# -- the picture


def test_the_picture_follows() -> None:
    """Both pictures of a view are sound SVG, and their words name the state and the row that was taken."""
    view = stepped(*TRIP).view()
    for name in ("wide", "narrow"):
        label = ElementTree.fromstring(view[name]).get("aria-label") or ""
        assert "The state is open." in label
        assert "closed to open on failure if failures + 1 ≥ failure_threshold" in label


def test_the_still_says_what_it_stands_for() -> None:
    """Where no kernel runs, the picture has the diagram's words and the text has the sentence."""
    model = stepped(*TRIP)
    assert "The state is open." in model.still().alt
    assert model.words().startswith("State stepper of a circuit breaker at 0 s. c2 failed:")


# -- any history

steps = st.lists(
    st.one_of(
        st.just(CALL),
        st.builds(finish, st.sampled_from(["c1", "c2", "c3", "c4", "c5"]), st.sampled_from(["ok", "error", "cancel"])),
        st.builds(advance, st.sampled_from(["1", "29.5", "30"])),
        st.just({"do": "undo"}),
    ),
    max_size=25,
)


@given(steps, st.sampled_from([None, 2.0]))
def test_every_step_takes_a_row_of_the_table(presses: list[dict[str, Any]], probe_timeout: float | None) -> None:
    """Whatever is pressed, each step that is no mere passing of time took a row that the table has, and it is lit."""
    model = stepped(*presses, failure_threshold=1, probe_timeout=probe_timeout)
    before = None
    for step in model.session.history:
        row = row_of(step, before)
        if step.op == "advance" and step.id is None:
            assert row is None
        else:
            assert row in TRANSITIONS
            assert (row.source, row.target) == (before.state if before else "CLOSED", step.state)
        before = step
    json.dumps(model.view())


messages = st.dictionaries(
    st.sampled_from(["do", "id", "outcome", "seconds", "state", "admitted", "on"]),
    st.one_of(
        st.none(),
        st.booleans(),
        st.floats(),
        st.text(max_size=8),
        st.sampled_from(
            [
                "call",
                "finish",
                "advance",
                "answer",
                "skip",
                "back",
                "undo",
                "reset",
                "predict",
                "c1",
                "ok",
                "OPEN",
                "yes",
                "10",
            ]
        ),
        st.lists(st.integers(), max_size=2),
        st.dictionaries(st.text(max_size=2), st.integers(), max_size=1),
    ),
)


@given(st.lists(messages, max_size=12), st.booleans())
def test_no_message_breaks_it(received: list[dict[str, Any]], predict: bool) -> None:
    """Any message at all leaves a stepper that still shows a view, and that still steps."""
    model = stepped(*received, predict=predict)
    json.dumps(model.view())
    model.press({"do": "predict", "on": False})
    many = len(model.session.history)
    model.press(CALL)
    assert len(model.session.history) == many + 1
