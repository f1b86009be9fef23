"""The tradeoff explorer without a front end: its map is a sweep, made bit by bit; its cells are runs."""

from __future__ import annotations

from typing import Any

import pytest

from labkit.errors import LabkitError
from labkit.scenario import load_scenario, metrics, run_scenario, sweep
from labkit.widgets.explorer.explorer import Explorer
from labkit.widgets.explorers.tradeoff import COOLDOWNS, MEASURES, THRESHOLDS, TradeoffModel

MANY = len(THRESHOLDS) * len(COOLDOWNS)


def extra(model: TradeoffModel) -> dict[str, Any]:
    """The map as the page gets it."""
    found: dict[str, Any] = model.view()["extra"]
    return found


def more(model: TradeoffModel) -> None:
    """Ask for all of the map, as the page does."""
    for _ in range(MANY):
        if extra(model)["done"] == MANY:
            return
        model.press({"do": "more"})
    raise AssertionError("the map is never whole")


def put(model: TradeoffModel, **values: Any) -> None:
    """Set values as the page does."""
    model.press({"do": "set", "values": values})


@pytest.fixture(scope="module")
def whole() -> TradeoffModel:
    """A map of which all has been made; tests leave it as it is."""
    model = TradeoffModel()
    more(model)
    return model


def test_the_map_is_the_sweep(whole: TradeoffModel) -> None:
    """Every cell says what a sweep over both parameters finds for it, in each of the metrics."""
    vary = {"failure_threshold": THRESHOLDS, "cooldown_period": COOLDOWNS}
    table = sweep(whole.runs[""].scenario, vary, jobs=1)
    again = TradeoffModel()
    again._table = whole._table
    for metric, measure in MEASURES.items():
        put(again, metric=metric)
        found = [cell.median for cell in table.cells(metric)]
        assert [cell["words"] for cell in extra(again)["cells"]] == [
            "never" if number is None else measure.words(number) for number in found
        ]


def test_it_comes_bit_by_bit() -> None:
    """A message makes a few runs and no more, nothing is made unasked, and at the end there is nothing left to ask."""
    model = TradeoffModel()
    assert extra(model)["done"] == 0
    seen = []
    for _ in range(MANY):
        model.press({"do": "more"})
        seen.append(extra(model)["done"])
    assert all(0 < after - before <= 6 for before, after in zip([0, *seen], seen, strict=False) if before < MANY)
    assert seen[-1] == MANY
    named = [cell["name"] for cell in extra(model)["cells"]]
    assert len(set(named)) == MANY
    assert not any("not run yet" in name for name in named)


def test_a_cell_is_a_run(whole: TradeoffModel) -> None:
    """The chosen cell's numbers are those of its run, and its YAML loads and gives the same."""
    model = TradeoffModel(failure_threshold=2, cooldown_period=20)
    model._table = whole._table
    cell = next(one for one in extra(model)["cells"] if (one["threshold"], one["cooldown"]) == ("2", "20"))
    facts = dict(model.shown.facts)
    assert facts["live answers"] == f"{cell['words']}/s"
    trace = run_scenario(load_scenario(model.view()["yaml"]))
    assert trace.to_dict() == model.runs[""].trace.to_dict()
    assert f"{metrics(trace)['all']['goodput_per_s']:.1f}" == cell["words"]


def test_choosing_a_cell_runs_it_and_keeps_the_map(whole: TradeoffModel) -> None:
    """Another cell is another run in the same map; another metric is neither."""
    model = TradeoffModel()
    model._table = dict(whole._table)
    before = model.runs[""]
    put(model, failure_threshold="1", cooldown_period="40")
    assert extra(model)["done"] == MANY
    assert extra(model)["chosen"] == ["1", "40"]
    assert model.runs[""] is not before
    assert any("failure_threshold 1 and cooldown_period 40 s" in one for one in model.shown.sentences)
    after = model.runs[""]
    put(model, metric="probes")
    assert model.runs[""] is after


@pytest.mark.parametrize("value", [{"fault": "error"}, {"outage": 20}, {"tail": "0.9"}])
def test_another_situation_is_another_map(whole: TradeoffModel, value: dict[str, Any]) -> None:
    """What changes every run empties the map, and it fills with other numbers."""
    model = TradeoffModel()
    model._table = dict(whole._table)
    put(model, **value)
    assert extra(model)["done"] == 0
    more(model)
    words = [[cell["words"] for cell in extra(one)["cells"]] for one in (model, whole)]
    assert words[0] != words[1]


def test_says_where_it_is_best(whole: TradeoffModel) -> None:
    """The sentence names the best and the worst as they stand in the map; what is best is marked there."""
    model = TradeoffModel(metric="probes")
    model._table = whole._table
    model.press({"do": "narrow", "on": False})
    cells = extra(model)["cells"]
    best = [cell["words"] for cell in cells if cell["best"]]
    assert best
    assert set(best) == {str(min(int(cell["words"]) for cell in cells))}
    first = model.shown.sentences[0]
    assert first.startswith(f"Best in “probes sent” is {best[0]}, at failure_threshold ")
    assert extra(model)["label"] == "probes sent; lowest is best"


def test_predict_first_waits_for_the_whole_map() -> None:
    """It asks before anything of the map is made; the verdict comes with the last run, and is read off it."""
    model = TradeoffModel(predict=True)
    assert model.view()["question"] is not None
    model.press({"do": "more"})
    assert extra(model)["done"] == 0
    model.press({"do": "answer", "value": "few-long"})
    assert model.view()["verdict"] is None
    more(model)
    view = model.view()
    assert view["verdict"] == {
        "right": False, "text": "Not as you said: many failures open it, a short cooldown."
    }  # fmt: skip
    assert view["tally"] == "0 of 1 as predicted"
    put(model, failure_threshold="20")
    assert model.view()["question"] is None
    put(model, fault="error")
    assert model.view()["question"] is not None
    assert extra(model)["done"] == 0
    model.press({"do": "skip"})
    more(model)
    assert model.view()["tally"] == "0 of 1 as predicted"


def test_the_line_to_share_rebuilds_it() -> None:
    """Settings and the chosen cell are in the line, as numbers."""
    model = TradeoffModel()
    put(model, failure_threshold="1", cooldown_period="40", metric="probes", outage="20")
    line = model.share()
    assert line == "tradeoff_explorer(metric='probes', outage=20.0, failure_threshold=1, cooldown_period=40)"
    assert eval(line, {"tradeoff_explorer": TradeoffModel}).settings == model.settings


def test_refuses_what_is_not_in_the_map() -> None:
    """A cell that is not there is refused in a sentence that lists what is."""
    with pytest.raises(LabkitError, match=r"failure_threshold: found “4”; it is one of 1, 2, 3, 5, 10, 20\."):
        TradeoffModel(failure_threshold=4)


def test_closed_it_makes_no_more_runs() -> None:
    """After closing, nothing of the map is made, whoever still asks."""
    shown = Explorer(TradeoffModel())
    model = shown._model
    assert isinstance(model, TradeoffModel)
    shown.close()
    shown.press({"do": "more"})
    model.press({"do": "more"})
    assert model._table == {}


def test_the_still_picture_is_the_map_once_it_is_whole(whole: TradeoffModel) -> None:
    """Before that it is the chosen cell's run."""
    assert "live answers a second" in whole.still().title
    assert "live answers" not in TradeoffModel().still().title
