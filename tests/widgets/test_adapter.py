"""The adapter explorer without a front end: what leaves each adapter, and what the breaker counts."""

from __future__ import annotations

from typing import Any

import pytest

from labkit import adapter_explorer, load_scenario, run_scenario
from labkit.errors import LabkitError
from labkit.widgets.explorers.adapter import AdapterModel

ADAPTERS = ("in_process", "swallowing", "raise_business", "none")
VALUE = ""


def moved(model: AdapterModel, **values: Any) -> dict[str, Any]:
    """The view after these controls were set."""
    model.press({"do": "set", "values": values})
    return model.view()


@pytest.mark.parametrize(
    ("reply", "leaves"),
    [
        ("stock", (VALUE, VALUE, VALUE, VALUE)),
        ("unknown", (VALUE, VALUE, "BusinessRejection", VALUE)),
        ("refused", ("ConnectionError", VALUE, "ConnectionError", "ConnectionError")),
        ("late", ("TimeoutError",) * 4),
        ("error", ("DependencyError", VALUE, "DependencyError", "DependencyError")),
        ("rate_limit", ("RateLimitedError", VALUE, "RateLimitedError", "RateLimitedError")),
        ("text", ("DependencyError", VALUE, "DependencyError", VALUE)),
        ("broken", ("DependencyError", VALUE, "DependencyError", "DependencyError")),
    ],
)
def test_what_leaves_and_what_is_counted(reply: str, leaves: tuple[str, ...]) -> None:
    """An exception that leaves is a failure, and three open the breaker; a value is a success, whatever it says."""
    model = AdapterModel()
    for adapter, error in zip(ADAPTERS, leaves, strict=True):
        view = moved(model, reply=reply, adapter=adapter)
        facts = dict(view["facts"])
        assert facts["leaves the adapter"] == (error or "a value")
        counts = (facts["counted as success"], facts["counted as failure"], facts["rejected"])
        assert counts == (("0", "3", "17") if error else ("20", "0", "0"))
        assert ("stays closed" in view["sentences"][0]) is not bool(error)
        useful = not error and reply in ("stock", "unknown")
        assert facts["live answers"] == f"{20 * useful} of 20"
        assert ("An error in the shape of an answer" in view["sentences"][0]) is (not error and not useful)


def test_a_service_that_works_is_shut() -> None:
    """Raised, the business's no opens the breaker of a service that works, and the sentence says so."""
    view = moved(AdapterModel(), reply="unknown", adapter="raise_business")
    assert view["sentences"][0].endswith("rejects 17 calls, although the service works.")


def test_no_threshold_mends_it() -> None:
    """With an error-shaped text the breaker stays closed at any threshold."""
    model = AdapterModel()
    for threshold in (1, 2, 30):
        assert dict(moved(model, failure_threshold=threshold)["facts"])["counted as success"] == "20"
    view = moved(model, failure_threshold=30, adapter="in_process")
    assert view["sentences"][0].endswith("the breaker counts 20 failures and stays closed.")


def test_a_limit_cannot_be_swallowed() -> None:
    """A time-out of the limit outside is no adapter's to swallow, and the story says so."""
    view = moved(AdapterModel(), reply="late", adapter="swallowing")
    assert "before the limit outside of it raises TimeoutError" in view["sentences"][0]
    assert any("no adapter can swallow" in one for one in view["sentences"])


def test_all_adapters_are_told() -> None:
    """The chosen adapter comes first, then the other three, each in a sentence; the picture has a row of each."""
    model = AdapterModel(adapter="swallowing")
    told = [one.removeprefix("The adapter ").split()[0] for one in model.view()["sentences"][:4]]
    assert told == ["swallowing", "in_process", "raise_business", "none"]
    assert all(name in model.shown.picture.alt for name in ADAPTERS)
    assert "swallowing (chosen)" in model.shown.picture.alt


def test_the_yaml_is_the_run() -> None:
    """The YAML is that of the chosen adapter, loads, and gives the same trace."""
    model = AdapterModel(reply="broken", adapter="swallowing")
    text, of_toolkit = model.yaml()
    assert "adapter: swallowing" in text
    assert run_scenario(load_scenario(text)).to_dict() == model.runs["swallowing"].trace.to_dict()
    assert of_toolkit


def test_the_line_of_code_rebuilds_it() -> None:
    """The shared line makes an explorer with the same settings."""
    model = AdapterModel(reply="error", failure_threshold=7)
    assert model.share() == "adapter_explorer(reply='error', failure_threshold=7)"
    again = eval(model.share(), {"adapter_explorer": lambda **settings: AdapterModel(**settings)})
    assert again.settings == model.settings


def test_nonsense_is_told() -> None:
    """What is no reply or out of range is refused in a sentence, and the picture stays."""
    model = AdapterModel()
    before = model.view()["svg"]
    assert "it is one of in_process, swallowing" in moved(model, adapter="catching")["trouble"]["adapter"]
    assert "from 1 to 30" in moved(model, failure_threshold=0)["trouble"]["failure_threshold"]
    assert model.view()["svg"] == before
    with pytest.raises(LabkitError, match="did you mean 'reply'"):
        AdapterModel(repl="error")


@pytest.mark.parametrize(
    ("values", "true"),
    [
        ({"reply": "error", "adapter": "in_process"}, "open"),
        ({"reply": "text", "adapter": "swallowing"}, "closed"),
        ({"reply": "error", "adapter": "in_process", "failure_threshold": 21}, "few"),
    ],
)
def test_predict_first(values: dict[str, Any], true: str) -> None:
    """It asks whether the breaker opens, names what was set, and takes the answer from the run."""
    for said, right in ((true, 1), ("open" if true != "open" else "closed", 0)):
        model = AdapterModel(predict=True)
        view = moved(model, **values)
        assert values["adapter"] in view["question"]["text"]
        model.press({"do": "answer", "value": said})
        assert (model.asked, model.right) == (1, right)


def test_the_widget() -> None:
    """The widget says in words what the picture shows."""
    made = adapter_explorer(reply="stock", adapter="in_process")
    assert repr(made).startswith("Adapter explorer. The adapter in_process lets a value out")
    made.close()
