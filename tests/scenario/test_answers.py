"""What the users of an assistant are told, beside the trace of the same run."""

from __future__ import annotations

import pytest

from labkit.scenario import load_scenario, metrics, run_scenario
from labkit.scenario.watch.answers import KINDS, ask

CHECK_5 = load_scenario("check-5-unavailable")
SCOPE = load_scenario("scope-tool-or-assistant")
SCENARIOS = [CHECK_5, SCOPE, *(CHECK_5.variant(name) for name in CHECK_5.variants), *(
    SCOPE.variant(name) for name in SCOPE.variants
)]  # fmt: skip


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: one.name)
def test_listening_changes_nothing(scenario: object) -> None:
    """The trace is the same as without a listener, every question is there, and the counts are those of the metrics."""
    heard = ask(scenario)  # type: ignore[arg-type]
    assert heard.trace == run_scenario(scenario)  # type: ignore[arg-type]
    numbers = metrics(heard.trace)["functions"]["research_assistant"]
    counts = heard.counts()
    assert tuple(counts) == KINDS
    assert sum(counts.values()) == numbers["offered"] == len(heard.told)
    assert counts["error"] == numbers["failed"] + numbers["rejected"]
    assert sum(len(one.invented) for one in heard.told) == numbers["invented_answers"]
    assert counts["live"] == sum(heard.trace.calls.useful[one.call] for one in heard.told)


def test_what_is_read_word_for_word() -> None:
    """An explicit outcome is worded as unavailable, and the passage of the documents follows it."""
    during = next(one for one in ask(CHECK_5).told if one.asked > 20.0)
    assert (during.kind, during.about, during.passage) == ("unavailable", "stock", True)
    assert during.text.startswith("HX-2040: availability unavailable (availability unavailable). MD-")


def test_what_is_invented_names_its_source() -> None:
    """A count that was seen last is told with its number and whence it came, in each answer of the outage."""
    heard = ask(CHECK_5.variant("cached-counts"))
    during = [one for one in heard.told if 20.0 < one.asked < 49.0]
    assert {one.kind for one in during} == {"invented"}
    assert {one.invented for one in during} == {(("HX-2040: 42", "last seen"),)}


def test_an_error_is_told_as_such() -> None:
    """A rejection that is passed on is what the user reads, and the question about documents stays unanswered."""
    heard = ask(CHECK_5.variant("retry-at-once"))
    during = next(one for one in heard.told if one.asked > 20.0)
    assert during.kind == "error"
    assert during.text.startswith("CircuitBreakerOpenError: Circuit breaker is OPEN for 'parts_availability'")
    assert during.passage is False
    assert heard.passages(outage=True)[0] < heard.passages(outage=True)[1]


def test_a_fallback_around_the_assistant() -> None:
    """What it says in the assistant's place is told as unavailable, in its own words."""
    scenario = SCOPE.variant("around-the-assistant").with_values(
        {
            "middleware.say": "{_type: fallback, reason: not now}",
            "functions.research_assistant.middleware": "[say, breaker]",
        }
    )
    told = {one.text for one in ask(scenario).told if one.kind == "unavailable"}
    assert told == {"unavailable: not now"}


def test_the_samples_follow_the_run() -> None:
    """One before the outage, one as it begins, two in its midst, two afterwards, each with its moment."""
    heard = ask(SCOPE)
    assert heard.fault == (10.0, 40.0)
    samples = heard.samples()
    assert [sample.moment for sample in samples] == [
        "before the outage",
        "the outage begins",
        "in its midst",
        "in its midst",
        "just repaired",
        "at the end",
    ]
    assert [sample.told.about for sample in samples] == ["stock", "stock", "stock", "documents", "stock", "stock"]
    assert [sample.told.kind for sample in samples] == [
        "live", "unavailable", "unavailable", "live", "unavailable", "live",
    ]  # fmt: skip


def test_the_sentence_puts_what_is_invented_first() -> None:
    """It tells of those who asked during the outage, invented counts first, and of the documents."""
    said = ask(CHECK_5.variant("cached-counts")).told_so()
    assert said.startswith("All 160 who asked for stock during the outage read a count that no live reply gave")
    assert said.endswith("The documents were found for 160 of 160.")
    mixed = ask(CHECK_5.with_values({"services.parts_availability.faults.0.rate": "0.5"})).told_so()
    assert " read “unavailable” and " in mixed
    assert mixed.startswith("Of 160 who asked for stock during the outage ")


def test_without_a_fault_there_is_no_outage() -> None:
    """Where nothing fails, nobody asked during an outage, and the samples are of before it."""
    heard = ask(SCOPE.with_values({"services.parts_availability.faults": "[]"}))
    assert heard.told_so() == "Nobody asked for stock during the outage."
    assert [sample.moment for sample in heard.samples()] == ["before the outage"]
