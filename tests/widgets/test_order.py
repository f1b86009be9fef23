"""The order explorer without a front end: its controls, the steps of a call, the unit that the breaker measures."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from labkit import load_scenario, order_explorer, run_scenario
from labkit.errors import LabkitError
from labkit.plots.draw.shapes import Words
from labkit.widgets.explorers.order import OrderModel


def moved(model: OrderModel, **values: Any) -> dict[str, Any]:
    """The view after these controls were set."""
    model.press({"do": "set", "values": values})
    return model.view()


def test_the_order_decides_the_unit() -> None:
    """Retry outside: the breaker measures attempts and opens after 3; retry inside: operations, and after 9."""
    model = OrderModel()
    assert "measures each physical attempt" in model.view()["sentences"][0]
    assert "after 3 attempts of 1 call" in model.view()["sentences"][0]
    view = moved(model, order=["breaker", "retry", "timeout"])
    assert "measures whole logical operations" in view["sentences"][0]
    assert "after 9 attempts of 3 calls" in view["sentences"][0]
    assert view["extra"]["steps"][0][1] == "breaker"


def test_time_outs_count_and_cancellations_do_not() -> None:
    """With the timeout outside of the breaker eight cancellations leave it closed."""
    view = moved(OrderModel(), order=["timeout", "breaker"])
    assert (
        "stayed closed. It was told of 8 cancellations, and a cancellation counts neither way" in view["sentences"][0]
    )
    assert ["cancellations", "8"] in view["facts"]


@pytest.mark.parametrize(
    ("moves", "fact"),
    [
        ({"fault": "healthy"}, ["the caller gets", "answer"]),
        ({"fault": "error"}, ["the caller gets", "DependencyError"]),
        ({"failure_threshold": 2}, ["attempts until then", "2"]),
        ({"attempts": 5}, ["the caller gets", "CircuitBreakerOpenError"]),
        ({"timeout": 1}, ["it opened", "at 3.3 s"]),
        ({"order": ["bulkhead", "breaker"], "max_concurrent": 1, "call": 2}, ["the caller gets", "BulkheadFullError"]),
        ({"order": ["retry", "breaker", "timeout"], "every": 1}, ["attempts of call 1", "2"]),
        ({"call": 4}, ["the caller gets", "CircuitBreakerOpenError"]),
        ({"order": ["fallback", "breaker", "timeout"]}, ["the caller gets", "unavailable"]),
    ],
)
def test_every_control_does_something(moves: dict[str, Any], fact: list[str]) -> None:
    """Each control moved changes what happens to the call that is followed, or when the breaker opens."""
    model = OrderModel()
    assert fact not in model.view()["facts"]
    assert fact in moved(model, **moves)["facts"]


def test_steps_forward_and_back() -> None:
    """A step lights the next place in the picture; there is nothing before the first and behind the last."""
    model = OrderModel()
    steps = model.view()["extra"]["steps"]
    assert len(steps) == 26
    pictures = []
    for number in range(len(steps)):
        model.press({"do": "step", "to": number})
        assert model.view()["extra"]["at"] == number
        pictures.append(model.view()["svg"])
        words = [shape.text for shape in model.shown.picture.shapes if isinstance(shape, Words)]
        assert steps[number][2] in words or steps[number][1] in ("parts_availability", "caller")
    assert all(before != after for before, after in pairwise(pictures))
    model.press({"do": "step", "to": 99})
    assert model.view()["extra"]["at"] == 25
    model.press({"do": "step", "to": -1})
    assert model.view()["extra"]["at"] == 0


def test_a_new_run_begins_at_the_first_step() -> None:
    """Whoever changes the order follows the call from its beginning."""
    model = OrderModel()
    model.press({"do": "step", "to": 7})
    assert moved(model, order=["breaker"])["extra"]["at"] == 0
    model.press({"do": "step", "to": "3"})
    assert model.view()["extra"]["at"] == 0


def test_an_empty_list() -> None:
    """Without any layer the call reaches the service, and the sentence says that nothing stops it."""
    view = moved(OrderModel(), order=[], fault="error")
    assert view["sentences"][0] == "No breaker is in the list, so nothing stops a call early."
    assert [step[1] for step in view["extra"]["steps"]] == ["parts_availability", "parts_availability", "caller"]


def test_the_yaml_is_the_run() -> None:
    """The YAML of the controls loads, and gives the same trace."""
    model = OrderModel(order=("bulkhead", "breaker", "retry"), fault="error", call=3)
    text, of_toolkit = model.yaml()
    assert run_scenario(load_scenario(text)).to_dict() == model.runs[""].trace.to_dict()
    assert not of_toolkit


def test_the_line_of_code_rebuilds_it() -> None:
    """The shared line has the settings that differ, and makes the same explorer."""
    model = OrderModel(order=("timeout", "breaker"), fault="slow", call=2, every=3.0)
    line = model.share()
    assert line == "order_explorer(order=('timeout', 'breaker'), fault='slow', every=3.0, call=2)"
    again = eval(line, {"order_explorer": lambda **settings: OrderModel(**settings)})
    assert again.settings == model.settings


def test_nonsense_is_told() -> None:
    """A layer that there is not, or one twice, is refused in a sentence, and the picture stays."""
    model = OrderModel()
    before = model.view()["svg"]
    assert "each at most once" in moved(model, order=["retry", "retry"])["trouble"]["order"]
    assert "from 1 to 8" in moved(model, call=9)["trouble"]["call"]
    assert model.view()["svg"] == before
    with pytest.raises(LabkitError, match="did you mean 'order'"):
        OrderModel(ordre=())


@pytest.mark.parametrize(
    ("order", "fault", "true"),
    [
        (["breaker", "timeout"], "hang", "same"),
        (["breaker", "retry", "timeout"], "hang", "more"),
        (["timeout", "breaker"], "hang", "never"),
        (["breaker", "bulkhead"], "hang", "fewer"),
    ],
)
def test_predict_first(order: list[str], fault: str, true: str) -> None:
    """It asks after how many attempts the breaker opens; the answer is read off the run."""
    for said, right in ((true, 1), ("same" if true != "same" else "more", 0)):
        model = OrderModel(predict=True, fault=fault, order=("breaker",))
        view = moved(model, order=order)
        assert "how many attempts" in view["question"]["text"]
        model.press({"do": "answer", "value": said})
        assert (model.asked, model.right) == (1, right)


def test_nothing_to_predict_without_a_breaker() -> None:
    """Without a breaker in the list it does not ask."""
    model = OrderModel(predict=True)
    assert moved(model, order=["retry"])["question"] is None


def test_a_narrow_page_has_its_own_picture() -> None:
    """A narrow page gets a narrower picture, which follows the steps as well."""
    model = OrderModel()
    assert model.view()["narrow"] is None
    model.press({"do": "narrow", "on": True})
    first = model.view()
    assert 'width="480"' in first["narrow"]
    assert 'width="480"' not in first["svg"]
    model.press({"do": "step", "to": 4})
    assert model.view()["narrow"] != first["narrow"]
    assert model.view()["svg"] != first["svg"]


def test_the_widget() -> None:
    """The widget has its own script, and words and a picture for where no kernel runs."""
    made = order_explorer()
    assert "Follow one call" in str(made._esm)
    assert repr(made).startswith("Order explorer. The breaker measures")
    made.close()
