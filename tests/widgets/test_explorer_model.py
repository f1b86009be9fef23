"""An explorer without a front end, on a tiny one: settings, trouble, predict-first, the YAML and the line to share."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from labkit.errors import LabkitError
from labkit.scenario import load_scenario, run_scenario
from labkit.widgets.explorer.model import ExplorerModel
from tests.widgets.tiny import Tiny


def put(model: ExplorerModel, **values: Any) -> dict[str, Any]:
    """Set values as the page does; the view after it."""
    model.press({"do": "set", "values": values})
    return model.view()


def of(view: Mapping[str, Any]) -> dict[str, Any]:
    """The values that the controls show."""
    return {control["key"]: control["value"] for control in view["controls"]}


def shows(view: Mapping[str, Any]) -> tuple[Any, ...]:
    """What a view shows of its run."""
    return tuple(view[key] for key in ("sentences", "facts", "svg", "yaml", "share", "extra"))


def test_a_view_is_plain_data() -> None:
    """All that goes to the page survives JSON as it is."""
    view = Tiny().view()
    assert json.loads(json.dumps(view)) == view
    assert view["svg"].startswith("<svg")
    assert view["sentences"][0].startswith("The breaker opened at 5.")


def test_a_control_changes_the_run() -> None:
    """What was set is what is run, drawn, told and written down."""
    model = Tiny()
    before = model.view()
    view = put(model, threshold="6", cooldown="4,5 s")
    assert of(view) == {"threshold": 6, "cooldown": 4.5, "guarded": False}
    assert view["sentences"] != before["sentences"]
    assert view["svg"] != before["svg"]
    scenario = load_scenario(view["yaml"])
    assert run_scenario(scenario).to_dict() == model.runs[""].trace.to_dict()


def test_what_is_as_before_is_not_run_again() -> None:
    """A position that is there already costs no run."""
    model = Tiny()
    put(model, threshold=3)
    put(model, threshold=3.0)
    assert model.ran == 1


def test_nonsense_is_told_beside_its_control() -> None:
    """What cannot be read is said at its control; the last good picture stays, and nothing is run."""
    model = Tiny()
    before = model.view()
    view = put(model, threshold="many")
    assert view["trouble"] == {
        "threshold": "failure_threshold: found “many”; it is a whole number from 1 to 30."
    }  # fmt: skip
    assert shows(view) == shows(before)
    assert model.ran == 1
    assert put(model, threshold=4)["trouble"] == {}


def test_one_bad_value_does_not_hold_back_the_others() -> None:
    """Of several values that came together the sound ones are run, and the wrong one is told beside its control."""
    view = put(Tiny(), threshold=5, cooldown="x")
    assert of(view)["threshold"] == 5
    assert list(view["trouble"]) == ["cooldown"]


def test_what_was_changed_is_told_with_what_became_of_it() -> None:
    """The sentence names the control, its value before and after, and the numbers that are others now."""
    model = Tiny()
    before = dict(model.view()["facts"])
    view = put(model, threshold=7)
    after = dict(view["facts"])
    assert "3 → 7" in view["changed"]
    for name, value in after.items():
        assert (f"{name} {before[name]} → {value}" in view["changed"]) == (value != before[name])
    assert put(model, threshold=7)["changed"] == view["changed"]


def test_a_prediction_counts_whatever_was_wrong_beside_it() -> None:
    """Nonsense typed while a question is open does not swallow the answer to it."""
    model = Tiny(predict=True)
    assert put(model, threshold=7)["question"] is not None
    assert "cooldown" in put(model, cooldown="x")["trouble"]
    model.press({"do": "answer", "value": model.view()["question"]["options"][0][0]})
    view = model.view()
    assert view["verdict"] is not None
    assert view["tally"].endswith("of 1 as predicted")


def test_reset_resets_without_asking() -> None:
    """Reset shows the first settings at once, with predict-first and with a question open as well."""
    model = Tiny(predict=True)
    first = model.view()
    put(model, threshold=7)
    model.press({"do": "reset"})
    view = model.view()
    assert view["question"] is None
    assert shows(view) == shows(first)
    assert view["notice"] == "Everything is as at the beginning. The tally stays."


def test_an_impossible_combination_is_told() -> None:
    """Values that are each in range but not together are refused in a sentence, until they fit."""
    model = Tiny(guarded=True)
    before = model.view()
    view = put(model, threshold=21)
    assert view["trouble"] == {"threshold": "With the guarded one 20 is enough."}
    assert shows(view) == shows(before)
    assert of(put(model, threshold=21, guarded=False))["threshold"] == 21


@pytest.mark.parametrize(("cooldown", "says"), [(13, "Thirteen cannot be run."), (17, "Seventeen cannot be drawn.")])
def test_what_fails_on_the_way_leaves_everything_as_it_was(cooldown: int, says: str) -> None:
    """A run or a picture that cannot be made is said, and settings, run and picture still belong together."""
    model = Tiny()
    before = model.view()
    view = put(model, cooldown=cooldown)
    assert view["trouble"] == {"": says}
    assert (of(view), shows(view)) == (of(before), shows(before))
    assert put(model, cooldown=5)["trouble"] == {}


def test_an_unknown_setting_names_the_nearest() -> None:
    """A setting that does not exist is refused with the nearest that does, and so is a value out of range."""
    with pytest.raises(LabkitError, match=r"tiny_explorer has no setting 'treshold'; did you mean 'threshold'\?"):
        Tiny(treshold=4)
    with pytest.raises(LabkitError, match="found “99”; it is a whole number from 1 to 30"):
        Tiny(threshold=99)
    with pytest.raises(LabkitError, match="With the guarded one"):
        Tiny(threshold=25, guarded=True)


def test_the_line_to_share_rebuilds_it() -> None:
    """The line of code names what differs from the defaults, and gives the same settings and picture."""
    model = Tiny()
    assert model.share() == "tiny_explorer()"
    assert Tiny(predict=True).line() == "from labkit import tiny_explorer; tiny_explorer(predict=True)"
    view = put(model, threshold=7, guarded=True)
    assert view["share"] == "from labkit import tiny_explorer; tiny_explorer(threshold=7, guarded=True)"
    again = eval(view["share"].partition("; ")[2], {"tiny_explorer": Tiny})
    assert again.settings == model.settings
    assert shows(again.view()) == shows(view)


def test_says_whether_the_toolkit_has_it() -> None:
    """The YAML of the toolkit's own middleware is said to load there; that of labkit's own is not."""
    model = Tiny()
    assert model.view()["of_toolkit"] is True
    assert put(model, guarded=True)["of_toolkit"] is False


def test_reset_goes_back_to_the_beginning() -> None:
    """Reset gives the defaults, whatever it was made with, and says so."""
    model = Tiny(threshold=9)
    put(model, cooldown=40)
    model.press({"do": "reset"})
    view = model.view()
    assert of(view) == Tiny.defaults
    assert "as at the beginning" in view["notice"]
    assert put(model, threshold=2)["notice"] == ""


def test_predict_first() -> None:
    """It asks before it runs; the answer is read off the run, and the tally is kept over reset and switching off."""
    model = Tiny(predict=True)
    before = model.view()
    assert before["question"] is None
    view = put(model, threshold=4)
    assert view["question"] == {
        "text": "Does it open?", "options": [["yes", "it opens"], ["no", "it stays closed"]]
    }  # fmt: skip
    assert (of(view)["threshold"], shows(view)) == (4, shows(before))

    model.press({"do": "answer", "value": "yes"})
    view = model.view()
    assert (view["question"], view["verdict"]) == (None, {"right": True, "text": "As you said."})
    assert view["tally"] == "1 of 1 as predicted"
    assert "failure_threshold: 4" in view["yaml"]

    put(model, threshold=30)
    model.press({"do": "answer", "value": "yes"})
    view = model.view()
    assert view["verdict"] == {"right": False, "text": "Not as you said: it stays closed."}
    assert view["tally"] == "1 of 2 as predicted"

    model.press({"do": "predict", "on": False})
    model.press({"do": "reset"})
    view = model.view()
    assert (of(view), view["verdict"], view["tally"]) == (Tiny.defaults, None, "1 of 2 as predicted")


def test_a_question_stays_while_the_hand_moves_on() -> None:
    """Moving again while it asks changes what is asked about, and nothing is run before the answer."""
    model = Tiny(predict=True)
    for threshold in (4, 5, 6):
        view = put(model, threshold=threshold)
    assert view["question"] is not None
    assert (of(view)["threshold"], model.ran) == (6, 1)
    model.press({"do": "answer", "value": "no"})
    assert (model.settings["threshold"], model.asked) == (6, 1)


def test_going_back_takes_the_question_away() -> None:
    """Moved back to where it was, there is nothing to predict."""
    model = Tiny(predict=True)
    put(model, threshold=4)
    assert put(model, threshold=3)["question"] is None


def test_no_answer_is_no_answer() -> None:
    """Nothing chosen, or something that is no option, is not counted; it asks on."""
    model = Tiny(predict=True)
    put(model, threshold=4)
    for value in (None, "maybe", ""):
        model.press({"do": "answer", "value": value})
        view = model.view()
        assert (view["notice"], view["tally"]) == ("Choose an answer first.", "")
        assert view["question"] is not None


def test_shows_it_without_an_answer() -> None:
    """A question may be passed over, by its button or by switching predict-first off; neither is counted."""
    for press in ({"do": "skip"}, {"do": "predict", "on": False}):
        model = Tiny(predict=True)
        put(model, threshold=4)
        model.press(press)
        assert (model.settings["threshold"], model.asked, model.view()["question"]) == (4, 0, None)


def test_a_question_about_what_cannot_be_run() -> None:
    """If the run fails after the answer, that is said, and the prediction is not counted."""
    model = Tiny(predict=True)
    put(model, cooldown=13)
    model.press({"do": "answer", "value": "yes"})
    view = model.view()
    assert (view["trouble"], view["tally"], view["question"]) == ({"": "Thirteen cannot be run."}, "", None)


def test_a_narrow_picture_is_drawn_once_it_is_asked_for() -> None:
    """Both pictures are there as long as a narrow page wants its own; a wide page beside it keeps the wide one."""
    model = Tiny()
    wide = model.view()
    assert wide["narrow"] is None
    model.press({"do": "narrow", "on": True})
    both = model.view()
    assert both["svg"] == wide["svg"]
    assert both["narrow"] != wide["svg"]
    assert put(model, threshold=5)["narrow"] != both["narrow"]
    model.press({"do": "narrow", "on": False})
    assert model.view()["narrow"] is None
    assert model.ran == 2


@pytest.mark.parametrize(
    "message",
    [{"do": "dance"}, {}, {"do": "set"}, {"do": "set", "values": 5}, {"do": "answer", "value": "yes"}, {"do": "skip"}],
)
def test_what_means_nothing_does_nothing(message: Mapping[str, Any]) -> None:
    """Unknown words, empty messages and answers without a question change nothing."""
    model = Tiny()
    before = model.view()
    model.press(message)
    assert model.view() == before


def test_the_still_picture_has_its_sentence() -> None:
    """Where no kernel runs, the picture holds its first sentence in words, below what it shows otherwise."""
    model = Tiny()
    still = model.still()
    assert still.height > model.shown.picture.height
    drawn = " ".join(shape.text for shape in still.shapes if hasattr(shape, "text"))
    assert model.shown.sentences[0] in drawn
    assert "run this cell" in drawn
    assert model.words().startswith("Tiny explorer. The breaker opened at 5.")


def test_closed_it_keeps_no_run() -> None:
    """What is large is let go of at once."""
    model = Tiny()
    model.close()
    assert model.runs == {}
    assert model.view()["yaml"] == ""
