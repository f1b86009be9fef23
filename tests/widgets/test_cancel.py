"""The cancellation explorer without a front end: what counts, what does not, and whose slot is freed."""

from __future__ import annotations

from typing import Any

import pytest

from labkit.errors import LabkitError
from labkit.scenario import load_scenario, metrics, run_scenario
from labkit.widgets import cancel_explorer
from labkit.widgets.explorers.cancel import CancelModel

TRIES = {label: {**CancelModel.defaults, **changes} for label, changes in CancelModel.tries}
BYSTANDER = TRIES["A cancelled bystander"]


def shown(**settings: Any) -> CancelModel:
    """The explorer with these settings, each set by hand."""
    model = CancelModel()
    model.press({"do": "set", "values": settings})
    assert model.view()["trouble"] == {}
    return model


def facts(model: CancelModel) -> dict[str, str]:
    """The facts of a view."""
    return dict(model.view()["facts"])


def test_cancellations_count_neither_way() -> None:
    """Where every caller gives up before the limit, a breaker of 5 sees 200 cut off attempts and stays closed."""
    model = shown()
    numbers = model.runs["toolkit"].numbers
    assert (numbers["cancelled"], numbers["opens"], numbers["rejected"]) == (200, 0, 0)
    assert model.view()["sentences"][0] == (
        "No breaker opened, although 200 of 600 attempts were cut off. 200 calls were given up by their callers; to a "
        "breaker a cancellation is neither success nor failure, so they never add up to an opening."
    )
    assert facts(model)["given up by callers"] == "200"


def test_a_limit_that_runs_out_first_counts() -> None:
    """With the limit inside the breaker and below the patience, nobody gives up, and the breaker opens after 5."""
    model = shown(**TRIES["The limit is the first to run out"])
    assert model.runs["toolkit"].numbers["cancelled"] == 0
    sentence = model.view()["sentences"][0]
    assert "after 5 time-outs in a row" in sentence
    assert "raises there, and so each one counts as a failure" in sentence


def test_a_limit_outside_never_counts() -> None:
    """Of a limit outside the breaker the breaker sees cancellations alone, and the sentence says so."""
    model = shown(**TRIES["Nobody gives up, the limit is outside"])
    numbers = model.runs["toolkit"].numbers
    assert (numbers["cancelled"], numbers["failed"], numbers["opens"]) == (0, 200, 0)
    assert "reaches the breaker as a cancellation" in model.view()["sentences"][0]


def test_those_who_wait_open_it() -> None:
    """The time-outs of the callers who wait count, however many others give up between them."""
    assert shown(share=0).runs["toolkit"].numbers["cancelled"] == 0
    half = shown(share=50).runs["toolkit"].numbers
    assert half["opens"] >= 1
    assert half["cancelled"] > 0


def test_a_bystander_frees_a_slot_of_the_toolkits() -> None:
    """On the same calls, cancelled bystanders let many probes go beside each other in the toolkit's breaker alone."""
    model = shown(**BYSTANDER)
    many = model.runs["toolkit"].numbers["concurrent_probes_peak"]
    assert many > 1
    assert model.runs["guarded"].numbers["concurrent_probes_peak"] == 1
    assert facts(model)["probes at once"] == f"{many} against 1"
    sentence = model.view()["sentences"][0]
    assert f"up to {many} probes were in flight at once, in the guarded one 1" in sentence
    assert "cancel-frees-foreign-probe" in sentence
    alone = shown(**{**BYSTANDER, "breaker": "toolkit"})
    assert f"up to {many} probes were in flight at once:" in alone.view()["sentences"][0]
    guarded = shown(**{**BYSTANDER, "breaker": "guarded"})
    assert list(guarded.runs) == ["guarded"]
    assert facts(guarded)["probes at once"] == "1"
    assert "cancel-frees" not in " ".join(guarded.view()["sentences"])


def test_both_are_told_by_name() -> None:
    """Side by side each breaker's own sentence is there once, and what both did alike is not told twice."""
    told = shown(**BYSTANDER).view()["sentences"]
    assert [one.split(" opened ")[0] for one in told[1:3]] == ["The toolkit’s breaker", "The guarded breaker"]
    alike = shown(breaker="both").view()["sentences"]
    assert sum("No breaker opened" in one for one in alike) == 1


MOVES: dict[str, Any] = {
    "patience": 3.0,
    "share": 40,
    "rate": 21.0,
    "fault": "slow",
    "slow": 1.5,
    "breaker": "guarded",
    "failure_threshold": 2,
    "cooldown_period": 4.0,
    "timeout": 0.5,
    "where": "outside",
}


@pytest.mark.parametrize("key", list(CancelModel.defaults))
def test_every_control_does_something(key: str) -> None:
    """Moving any control changes the YAML, and the scenario that is run."""
    begin: dict[str, Any] = {"fault": "slow"} if key == "slow" else {}
    before = shown(**begin)
    after = shown(**begin, **{key: MOVES[key]})
    assert after.yaml()[0] != before.yaml()[0]
    assert after.settings == {**before.settings, key: MOVES[key]}
    assert list(after.defaults) == list(MOVES)


@pytest.mark.parametrize("values", [{}, *TRIES.values()])
def test_the_yaml_is_what_was_run(values: dict[str, Any]) -> None:
    """The YAML of the controls loads as a scenario, and gives the numbers that are shown."""
    model = shown(**values)
    text, of_toolkit = model.yaml()
    again = load_scenario(text)
    assert metrics(run_scenario(again))["all"] == next(iter(model.runs.values())).numbers
    assert of_toolkit


def test_the_guarded_breaker_is_not_the_toolkits() -> None:
    """The YAML of the guarded breaker does not load in the toolkit, and that is said."""
    assert shown(breaker="guarded").yaml()[1] is False


@pytest.mark.parametrize("values", TRIES.values())
def test_the_line_to_share_rebuilds_it(values: dict[str, Any]) -> None:
    """The line of code makes an explorer with the same settings and the same view, but for what was changed last."""
    model = shown(**values)
    again = eval(model.share(), {"cancel_explorer": CancelModel})
    assert again.settings == model.settings
    assert again.view() | {"changed": ""} == model.view() | {"changed": ""}


def test_every_try_is_sound() -> None:
    """What the page offers to try can be set as it is, and differs from one to the next."""
    tries = CancelModel().view()["extra"]["tries"]
    assert [label for label, _ in tries] == list(TRIES)
    views = [shown(**values).view()["sentences"][0] for _, values in tries]
    assert len(set(views)) == len(tries)


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ({"patience": "0"}, "patience: found “0”; it is a number from 0.5 to 20 s."),
        ({"share": "half"}, "with that patience: found “half”; it is a whole number from 0 to 100 %."),
        ({"fault": "melts"}, "the service: found “melts”; it is one of hangs until 25 s"),
    ],
)
def test_nonsense_is_refused(typed: dict[str, str], words: str) -> None:
    """What is no value of a control is told beside it, and the last good picture stays."""
    model = CancelModel()
    before = model.view()["svg"]
    model.press({"do": "set", "values": typed})
    view = model.view()
    assert view["trouble"][next(iter(typed))].startswith(words)
    assert view["svg"] == before


def test_an_unknown_setting() -> None:
    """A setting that there is not is refused with the nearest one that there is."""
    with pytest.raises(LabkitError, match="did you mean 'patience'"):
        cancel_explorer(patence=1.0)


@pytest.mark.parametrize(
    ("values", "true", "false"),
    [
        (TRIES["The limit is the first to run out"], "opens", "stays"),
        (TRIES["Nobody gives up, the limit is outside"], "stays", "opens"),
        (BYSTANDER, "several", "one"),
        ({**BYSTANDER, "breaker": "guarded"}, "opens", "stays"),
    ],
)
def test_predict_first(values: dict[str, Any], true: str, false: str) -> None:
    """A press asks first; what is answered is compared with the run and counted."""
    for answer, right in ((true, True), (false, False)):
        model = CancelModel(predict=True)
        before = model.view()["svg"]
        model.press({"do": "set", "values": values})
        view = model.view()
        assert view["svg"] == before
        assert answer in [value for value, _ in view["question"]["options"]]
        model.press({"do": "answer", "value": answer})
        view = model.view()
        assert (view["verdict"]["right"], view["tally"]) == (right, f"{int(right)} of 1 as predicted")


def test_a_narrow_page_has_a_picture_of_its_own() -> None:
    """On a narrow page both pictures, of one breaker and of two, are drawn for it."""
    for values in ({}, BYSTANDER):
        model = shown(**values)
        model.press({"do": "narrow", "on": True})
        view = model.view()
        assert view["narrow"] not in (None, "", view["svg"])
