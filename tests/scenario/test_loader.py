"""Scenarios from YAML: what can be said, and a sentence with its line for what cannot be run."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from labkit.errors import ConfigError
from labkit.scenario import load_scenario


def sentence(text: str) -> str:
    """What is said about a text that cannot be run."""
    with pytest.raises(ConfigError) as caught:
        load_scenario(text)
    return str(caught.value)


def test_a_sound_one_is_read(small: Any) -> None:
    """Everything that stands in the file is there."""
    found = small()
    assert (found.title, found.duration, found.seed, found.replicas) == ("Twenty seconds", 20.0, 3, 1)
    assert found.services["parts_availability"].settings["latency"] == 0.05
    assert [(load.function, load.rate, load.end) for load in found.workload] == [("parts_availability", 10.0, 20.0)]
    assert found.stack.middleware["breaker"].failure_threshold == 3


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("rate: 10", "rate: -1", 19, ["'rate'", "-1", "above 0"]),
        ("rate: 10", "rte: 10", 19, ["'rte'", "did you mean 'rate'"]),
        ("rate: 10", "rate: 10, at: [1]", 19, ["'rate' and 'at'", "exactly one"]),
        ("rate: 10", "at: [1, 30]", 19, ["'at'", "duration, 20"]),
        ("rate: 10", "rate: 10, from: 9, to: 8", 19, ["'to'", "after 'from'"]),
        ("rate: 10", "rate: 10, arrivals: posson", 19, ["'posson'", "did you mean 'poisson'"]),
        ("rate: 10", "rate: 10, close_after: 2", 19, ["'close_after'", "mode: stream"]),
        ("rate: 10", "ramp: [[0, 1]]", 19, ["'ramp'", "[[0, 10], [60, 80]]"]),
        ("rate: 10", "rate: 10, subjects: []", 19, ["'subjects'", "HX-2040"]),
        ("rate: 10}", "rate: 1.0e+6}\n  - {function: parts_availability, rate: 10}", 19, ["at most 5,000,000"]),
        ("function: parts_availability, rate", "function: parts_availablity, rate", 19, ["did you mean"]),
        ("from: 5, to: 12", "from: 25, to: 26", 10, ["begins at 25 s", "duration is 20 s"]),
        ("from: 5, to: 12", "from: 12, to: 5", 10, ["faults[0]"]),
        ("fault: error", "fault: eror", 10, ["eror", "did you mean 'error'"]),
        ("latency: 0.05", "latncy: 0.05", 8, ["latncy", "latency"]),
        ("duration: 20", "duration: 0", 3, ["'duration'", "above 0"]),
        ("duration: 20", "duraton: 20", 3, ["'duraton'", "did you mean 'duration'"]),
        ("seed: 3", "seed: -3", 4, ["'seed'", "whole number"]),
        ("seed: 3", "seed: 3\n  replicas: 0", 5, ["'replicas'", "1 to 1,000"]),
        ("_type: parts_availability\n    latency", "_type: parts_avail\n    latency", 7, ["parts_avail"]),
        ("middleware: [breaker, limit]", "middleware: [braker, limit]", 17, ["braker", "did you mean 'breaker'"]),
        ("cooldown_period", "coooldown_period", 12, ["did you mean 'cooldown_period'"]),
        ("    middleware: [", "    service: prts\n    middleware: [", 17, ["prts"]),
        ("    middleware: [", "    adapter: swallow\n    middleware: [", 17, ["swallow", "swallowing"]),
        ("title: Twenty seconds", "title: [1]", 2, ["'title'", "a text"]),
    ],
)
def test_what_cannot_be_run_is_a_sentence(small: Any, old: str, new: str, line: int, words: list[str]) -> None:
    """A slip gives one sentence with its line, what was found, and what is allowed or was meant."""
    small()
    assert small.text.count(old) == 1
    said = sentence(small.text.replace(old, new))
    assert said.startswith(f"<text>:{line}: "), said
    assert "\n" not in said
    for word in words:
        assert word in said


@pytest.mark.parametrize("section", ["scenario", "services", "workload"])
def test_a_section_is_missing(small: Any, section: str) -> None:
    """A file without one of the sections that a run needs says which."""
    small()
    lines = small.text.splitlines(keepends=True)
    begin = lines.index(f"{section}:\n")
    end = next((n for n in range(begin + 1, len(lines)) if not lines[n].startswith(" ")), len(lines))
    assert f"'{section}'" in sentence("".join(lines[:begin] + lines[end:]))


def test_all_faults_are_told_at_once(small: Any) -> None:
    """Faults in several sections are told together, in the order of lines."""
    small()
    text = small.text.replace("rate: 10", "rate: 0").replace("cooldown_period: 4", "cooldown_period: 0")
    said = sentence(text.replace("seed: 3", "seed: x")).splitlines()
    assert [line.split(":")[1] for line in said] == ["4", "12", "19"]


def test_values_by_their_path(small: Any) -> None:
    """A value is set by its whole path, by a place in a list, or by a single word where it is clear."""
    changed = small().with_values(
        {"middleware.breaker.failure_threshold": 7, "workload.0.rate": "20", "cooldown_period": 9.5, "replicas": 2}
    )
    assert changed.stack.middleware["breaker"].failure_threshold == 7
    assert changed.stack.middleware["breaker"].cooldown_period == 9.5
    assert (changed.workload[0].rate, changed.replicas) == (20.0, 2)
    assert small().replicas == 1


def test_a_pickled_scenario_takes_values(small: Any) -> None:
    """A scenario that was sent to another process can still be read anew with values set by their path."""
    sent = pickle.loads(pickle.dumps(small()))
    assert sent == small()
    assert sent.with_values({"duration": 7}) == small().with_values({"duration": 7})


def test_a_value_may_be_new_or_a_whole_list(small: Any) -> None:
    """A key that the file leaves out can be set, and a list can be replaced."""
    changed = small().with_values(
        {"probe_timeout": 2, "functions.parts_availability.middleware": "[limit]", "patience": "1"}
    )
    assert changed.stack.middleware["breaker"].probe_timeout == 2.0
    assert changed.stack.functions["parts_availability"].middleware == ["limit"]
    assert changed.workload[0].patience == 1.0


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("middleware.braker.failure_threshold", "3", ["braker", "did you mean 'breaker'"]),
        ("failure_treshold", "3", ["failure_treshold", "did you mean 'failure_threshold'"]),
        ("workload.4.rate", "3", ["a list of 1", "4"]),
        ("scenario.duration.x", "3", ["single value"]),
        ("seed", "[", ["not a YAML value"]),
    ],
)
def test_a_value_that_cannot_be_set(small: Any, path: str, value: str, words: list[str]) -> None:
    """A path that leads nowhere, or a value that is none, is one sentence."""
    with pytest.raises(ConfigError) as caught:
        small().with_values({path: value})
    assert str(caught.value).startswith(f"--set {path}={value}: ")
    for word in words:
        assert word in str(caught.value)


def test_a_value_out_of_range_is_told_as_in_the_file(small: Any) -> None:
    """A value that is set and not allowed is told with the line of what it replaces."""
    with pytest.raises(ConfigError, match=r"^<text>:12: .*'failure_threshold' of .* is 0; allowed"):
        small().with_values({"failure_threshold": 0})


def test_one_word_for_two_places(small: Any) -> None:
    """A word that may mean two places is refused, and both are named."""
    small()
    text = small.text.replace("  limit:", "  other: {_type: circuit_breaker}\n  limit:")
    text = text.replace("[breaker, limit]", "[breaker, other, limit]")
    with pytest.raises(ConfigError, match=r"middleware\.breaker\.probe_timeout or middleware\.other\.probe_timeout"):
        load_scenario(text, values={"probe_timeout": 1})


def test_variants(small: Any, tmp_path: Path) -> None:
    """A variant is the scenario with its values; it has a name of its own, and one that is not there is refused."""
    small()
    file = tmp_path / "outage.yaml"
    file.write_text(
        small.text
        + "variants:\n  many: {title: Many, set: {replicas: 4, functions.parts_availability.middleware: []}}\n"
    )
    many = load_scenario(f"{file}:many")
    assert (many.name, many.title, many.replicas) == ("outage:many", "Many", 4)
    assert many.stack.functions["parts_availability"].middleware == []
    assert load_scenario(file, values={"seed": 9}).seed == 9
    with pytest.raises(ConfigError, match="did you mean 'outage:many'"):
        load_scenario(file, "mny")


def test_a_name_that_is_not_there() -> None:
    """A name without a scenario is one sentence."""
    with pytest.raises(ConfigError, match="there is no scenario 'no-such-thing'"):
        load_scenario("no-such-thing")
    with pytest.raises(ConfigError, match="there is no such file"):
        load_scenario("./no-such-thing.yaml")


def test_a_changed_scenario_can_be_written_down(small: Any) -> None:
    """The text of a scenario with values set loads again as the same scenario; its stack's part loads as a stack."""
    from labkit.config import load_stack_config

    changed = small().with_values({"failure_threshold": 7, "workload.0.rate": 20})
    again = load_scenario(changed.text())
    assert (again.stack.middleware, again.workload) == (changed.stack.middleware, changed.workload)
    assert load_stack_config(changed.text(["middleware", "functions"])).middleware["breaker"].failure_threshold == 7


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("workload.0.rate", "", "none of 'rate', 'ramp' and 'at'"),
        ("workload", "{a: &x [*x]}", "inside its own anchor"),
        ("scenario.title", "!!python/object:os.system x", "the tag"),
    ],
)
def test_yaml_that_nobody_means(small: Any, path: str, value: str, words: str) -> None:
    """Nothing at all, a value inside itself and a foreign tag are a sentence each."""
    with pytest.raises(ConfigError) as caught:
        small().with_values({path: value})
    assert words in str(caught.value)


def test_an_empty_list_of_arrivals(small: Any) -> None:
    """A load whose list of arrivals is empty has none."""
    small()
    assert "none of 'rate', 'ramp' and 'at'" in sentence(small.text.replace("rate: 10", "at: []"))
