"""Every explorer runs, draws and tells whatever its own controls allow, or says in a sentence what cannot be run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import import_module
from random import Random
from typing import Any

import pytest

import labkit.widgets
from labkit.errors import LabkitError
from labkit.widgets.explorer.model import ExplorerModel
from labkit.widgets.explorers.scope import ScopeModel
from labkit.widgets.flow.model import FlowModel
from labkit.widgets.live.model import _CONTROLS, LiveModel
from tests.widgets.legal import legal_settings, legal_value

MANY = 16  # settings of each explorer; a search tries more


def _models() -> Iterator[type[ExplorerModel]]:
    """The model of every explorer that labkit hands on."""
    for name in labkit.widgets.__all__:
        if name.endswith("_explorer"):
            home = import_module(getattr(labkit.widgets, name).__module__)
            yield next(one for one in vars(home).values() if getattr(one, "name", "") == name)


MODELS = list(_models())


def made_with(model: type[ExplorerModel], settings: dict[str, Any]) -> ExplorerModel | str:
    """The explorer, or the words of its refusal."""
    try:
        return model(**settings)
    except LabkitError as error:
        return str(error)


def looked_at(model: ExplorerModel) -> dict[str, Any]:
    """All that a page or a plain text shows of it, as plain data that JSON can hold."""
    view = model.view()
    json.dumps(view, allow_nan=False)
    for one in (*view["sentences"], *(value for _, value in view["facts"])):
        assert one == one.strip() != ""
        assert not {"nan", "inf"} & set(one.split())
    assert model.still().svg()
    assert model.words().startswith(model.title)
    return view


def sentence(text: str, model: type[ExplorerModel]) -> bool:
    """Whether it is a sentence about one of the explorer's own controls, not of the scenario behind them."""
    return "\n" not in text and text.endswith(".") and text.startswith(tuple(one.label for one in model.controls))


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_any_legal_settings_are_a_run_or_a_sentence(model: type[ExplorerModel]) -> None:
    """With random legal settings, edges included, it is shown whole, wide and narrow, or refused in a sentence."""
    shown = 0
    for number in range(MANY):
        draw = Random(f"{model.name}/{number}")
        settings = legal_settings(model, draw)
        made = made_with(model, settings)
        if isinstance(made, str):
            assert sentence(made, model)
            continue
        shown += 1
        looked_at(made)
        made.press({"do": "narrow", "on": True, "width": draw.randint(300, 700)})
        looked_at(made)
    assert shown > MANY // 3


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_any_legal_settings_can_be_predicted_and_set_by_hand(model: type[ExplorerModel]) -> None:
    """Set one after the other, with and without a prediction, they show what an explorer made with them shows."""
    moved = model(predict=True)
    for number in range(MANY, MANY + 4):
        draw = Random(f"{model.name}/{number}")
        settings = {**model.defaults, **legal_settings(model, draw)}
        moved.press({"do": "set", "values": settings})
        waiting = moved.view()["question"]
        if waiting is not None:
            moved.press({"do": "answer", "value": draw.choice(waiting["options"])[0]})
        trouble = moved.view()["trouble"]
        assert all(sentence(one, model) for one in trouble.values())
        if not trouble:
            assert moved.settings == settings
            assert looked_at(moved)["facts"] == looked_at(model(**settings))["facts"]


def test_searches_that_never_fail_hide_failures_from_a_guarded_breaker_too() -> None:
    """The scope explorer counts what a guarded breaker has in a row, as it does with the toolkit's."""
    (toolkit, guarded) = (ScopeModel(lease=lease, documents=40).shown.sentences[0] for lease in (False, True))
    assert "it never got past 4 of 5." in toolkit
    assert guarded == toolkit


def test_any_legal_run_is_played_back() -> None:
    """The playback shows the run of any explorer with any legal settings, of each function, and follows any call."""
    for number, model in enumerate([*MODELS, *MODELS]):
        draw = Random(f"playback/{number}")
        made = made_with(model, legal_settings(model, draw))
        if isinstance(made, str):
            continue
        scenario = draw.choice(list(made.runs.values())).scenario
        function = draw.choice([None, *scenario.stack.functions])
        played = FlowModel(scenario, calls=draw.choice([1, 300]), rows=draw.randint(1, 4), function=function)
        for call in (0, 1, draw.randint(1, len(played.trace.calls) + 1)):
            played.press({"do": "follow", "call": call})
            json.dumps(played.view(), allow_nan=False)
        json.dumps(played.data(), allow_nan=False)


def test_any_legal_live_view_can_be_made() -> None:
    """A live view of any legal settings has a stack that loads, its data, its still picture and its words."""
    for number in range(40):
        draw = Random(f"live/{number}")
        made = LiveModel(**{one.key: legal_value(one, draw) for one in _CONTROLS if draw.random() < 0.6})
        json.dumps({**made.data(), **made.view()}, allow_nan=False)
        assert made.still().svg()
        assert made.words()
