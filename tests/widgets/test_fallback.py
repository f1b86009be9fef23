"""The fallback explorer without a front end."""

from __future__ import annotations

from typing import Any

import pytest

from labkit.errors import LabkitError
from labkit.scenario import load_scenario, run_scenario
from labkit.widgets.explorers.fallback import FallbackModel


def moved(**values: Any) -> FallbackModel:
    """An explorer in which controls were moved."""
    model = FallbackModel()
    model.press({"do": "set", "values": values})
    assert model.view()["trouble"] == {}
    return model


def facts(model: FallbackModel) -> dict[str, str]:
    """Its facts by name."""
    return dict(model.view()["facts"])


def midst(model: FallbackModel) -> dict[str, Any]:
    """The card of who asked for stock in the midst of the outage."""
    cards = [card for card in model.view()["extra"]["answers"] if card["moment"] == "in its midst"]
    return dict(cards[0])


def test_it_opens_with_what_is_right() -> None:
    """Nothing is invented, the user reads why there is no count, and the documents answer everybody."""
    model = FallbackModel()
    assert facts(model) == {
        "live answers": "77",
        "told “unavailable”": "36",
        "invented": "0",
        "only an error": "0",
        "documents found in the outage": "45 of 45",
    }
    assert midst(model)["text"].startswith("HX-2040: availability unavailable (the parts service does not answer). MD-")
    assert midst(model)["badge"] == "says “unavailable”"
    assert model.view()["sentences"][0] == (
        "All 36 who asked for stock during the outage read “unavailable”. The documents were found for 45 of 45."
    )


@pytest.mark.parametrize(
    ("values", "kind", "part"),
    [
        ({"guess": True}, "invented", "HX-2040: 42 in stock"),
        ({"fallback": False}, "unavailable", "CircuitBreakerOpenError"),
        ({"fallback": False, "on_error": "raise"}, "error", "CircuitBreakerOpenError: Circuit breaker is OPEN"),
        ({"breaker": "assistant", "on_error": "raise"}, "unavailable", "unavailable: the assistant cannot answer now"),
        ({"breaker": "assistant", "on_error": "raise", "fallback": False}, "error", "OPEN for 'research_assistant'"),
        ({"breaker": "assistant"}, "unavailable", "DependencyError"),
        ({"fault": "error_shaped_string"}, "unavailable", "the tool answered with a text"),
    ],
)
def test_every_control_changes_what_a_user_reads(values: dict[str, Any], kind: str, part: str) -> None:
    """Breaker, fallback, error, guessing and fault: each leads to other words in the midst of the outage."""
    card = midst(moved(**values))
    assert card["kind"] == kind
    assert part in card["text"]


def test_what_is_invented_is_flagged_in_words_and_with_a_mark() -> None:
    """Sentence, fact and card name it, each with the count and its source; what is live has no flag."""
    model = moved(guess=True)
    assert model.view()["sentences"][0].startswith("All 36 who asked for stock during the outage read a count that no")
    assert "the right number of invented answers is 0" in model.view()["sentences"][1]
    assert facts(model)["invented"] == "▲ 36"
    cards = model.view()["extra"]["answers"]
    assert [bool(card["invented"]) for card in cards] == [card["kind"] == "invented" for card in cards]
    assert midst(model)["invented"] == ["HX-2040: 42 in stock: no live reply said so (last seen)"]


def test_a_breaker_around_the_assistant_takes_the_documents_with_it() -> None:
    """Those who ask about documents alone are turned away, which the sentences and facts say; the tool's is better."""
    tool, whole = FallbackModel(), moved(breaker="assistant", on_error="raise")
    assert facts(tool)["documents found in the outage"] == "45 of 45"
    found, needed = facts(whole)["documents found in the outage"].split(" of ")
    assert int(found) < int(needed) == 45
    assert "The breaker's target is the whole assistant" in whole.view()["sentences"][1]


def test_a_breaker_around_an_assistant_that_tells_never_opens() -> None:
    """An assistant that answers in place of its tool's error, or guesses, is a success to the breaker around it."""
    for values in ({"breaker": "assistant"}, {"breaker": "assistant", "on_error": "raise", "guess": True}):
        model = moved(**values)
        assert model.runs[""].numbers["opens"] == 0
        assert any("the breaker around it counts successes" in text for text in model.view()["sentences"])
    assert any("passes nothing on" in text for text in model.view()["sentences"])


def test_the_outage_is_where_it_was_put() -> None:
    """The cards are of before, within and after the outage that was set."""
    model = moved(outage=[20, 35])
    at = {card["moment"]: float(card["at"].removesuffix(" s")) for card in model.view()["extra"]["answers"]}
    assert at["before the outage"] < 20.0 <= at["the outage begins"] < at["in its midst"] < 35.0 <= at["just repaired"]


def test_the_share_line_rebuilds_it() -> None:
    """The line of code gives the same settings, the same cards and the same picture."""
    model = moved(breaker="assistant", guess=True, outage=[10, 20])
    again = eval(model.share(), {"fallback_explorer": lambda **settings: FallbackModel(**settings)})
    assert again.settings == model.settings
    assert again.view()["extra"] == model.view()["extra"]
    assert again.view()["svg"] == model.view()["svg"]


@pytest.mark.parametrize("values", [{}, {"breaker": "assistant", "fallback": False}, {"fault": "hang", "guess": True}])
def test_the_yaml_is_the_scenario(values: dict[str, Any]) -> None:
    """It loads and gives the same trace; it says that some of it is labkit's own."""
    model = moved(**values) if values else FallbackModel()
    view = model.view()
    assert run_scenario(load_scenario(view["yaml"])) == model.runs[""].trace
    assert view["of_toolkit"] is False


def test_nonsense_is_told_and_the_cards_stay() -> None:
    """An outage that ends before it begins is named beside its control; what was read stays."""
    model = FallbackModel()
    before = model.view()["extra"]
    model.press({"do": "set", "values": {"outage": [30, 12]}})
    assert "must end after its begin" in model.view()["trouble"]["outage"]
    assert model.view()["extra"] == before
    with pytest.raises(LabkitError, match="did you mean 'guess'"):
        FallbackModel(gues=True)


@pytest.mark.parametrize(("answer", "right"), [("invented", True), ("unavailable", False)])
def test_predict_first(answer: str, right: bool) -> None:
    """It asks what a user will read, shows nothing before, and tells whether it came true."""
    model = FallbackModel(predict=True)
    before = model.view()["extra"]
    model.press({"do": "set", "values": {"guess": True}})
    assert "in the midst of the outage" in model.view()["question"]["text"]
    assert model.view()["extra"] == before
    model.press({"do": "answer", "value": answer})
    assert model.view()["verdict"]["right"] is right
    assert midst(model)["kind"] == "invented"
