"""What a run may come to is known before it is run, and too much of it is refused."""

from __future__ import annotations

from itertools import product

import pytest

import labkit.scenario.spec.reader as loader
from labkit.errors import ConfigError
from labkit.scenario import load_scenario, run_scenario, scenario_names
from labkit.scenario.spec.bounds import CHUNKS, MOST, Bound, most_of
from labkit.services import make_service
from labkit.timing import VirtualClock

FILE = """\
scenario:
  duration: {duration}
  drain: {drain}
services:
  parts: {{_type: parts_availability, latency: 0, faults: [{{from: 0, fault: error}}]}}
middleware:
  again:
    _type: retry
    attempts: {attempts}
    base_delay: {base_delay}
    factor: {factor}
    jitter: {jitter}
    time_budget: {time_budget}
    budget: {budget}
  more: {{_type: retry, attempts: {more}, base_delay: 0}}
  limit: {{_type: timeout, timeout: {limit}}}
  tokens: {{_type: retry_budget, ratio: 0.1, max_tokens: 5}}
functions:
  parts: {{_type: parts, middleware: [{layers}]}}
workload:
- function: parts
  rate: {rate}
  {load}
"""
USUAL = {
    "duration": 10,
    "drain": 10,
    "attempts": 3,
    "base_delay": 0.1,
    "factor": 2.0,
    "jitter": "none",
    "rate": 1,
    "time_budget": "null",
    "budget": "null",
    "more": 2,
    "limit": 100,
    "layers": "again",
    "load": "",
}


def text(**changes: object) -> bytes:
    """A scenario whose service always fails at once."""
    return FILE.format(**{**USUAL, **changes}).encode()


def refusal(**changes: object) -> str:
    """The one sentence about a scenario that comes to too much."""
    with pytest.raises(ConfigError) as caught:
        load_scenario(text(**changes))
    (line,) = str(caught.value).splitlines()
    return line


def bound(monkeypatch: pytest.MonkeyPatch, scenario: bytes | str, variant: str | None = None) -> float:
    """What a scenario may come to."""
    found: list[Bound] = []
    with monkeypatch.context() as patch:
        patch.setattr(loader, "most_of", lambda *args: found.append(most_of(*args)) or found[-1])  # type: ignore[func-returns-value]
        load_scenario(scenario)
        if variant is not None:
            found.clear()
            load_scenario(scenario, variant)
    return sum(one.attempts for one in found)


def test_too_many_calls_name_the_rate() -> None:
    """Calls alone beyond the limit are refused at the load's rate, with the limit and what to lower."""
    said = "<text>:22: the run may come to 19,900,000 attempts; allowed: at most 5,000,000; "
    assert refusal(rate=199_000, duration=100, layers="") == said + "a lower 'rate' or a shorter 'duration'"


def test_a_retry_without_waits_is_counted_in_full() -> None:
    """Every attempt that a retry without waits may make counts, and its `attempts` is the key to lower."""
    said = refusal(attempts=1_000_000, base_delay=0, rate=40)
    assert said == (
        "<text>:9: the run may come to 400,000,000 attempts (400 calls, and up to 1,000,000 for one of them); allowed: "
        "at most 5,000,000; lower 'attempts' of middleware 'again', a 'time_budget' for it, a lower 'rate' or a "
        "shorter 'duration'"
    )


def test_retries_inside_retries_multiply() -> None:
    """Two retries of one chain multiply, and the larger one is named, wherever it stands."""
    assert "'attempts' of middleware 'more'" in refusal(layers="again, more", attempts=1000, more=60_000, base_delay=0)
    assert "up to 60,000,000 for one" in refusal(layers="more, again", attempts=1000, more=60_000, base_delay=0)


def test_callers_that_try_again_multiply_too() -> None:
    """The waits of a load's callers count as further tries, and are named where they are what there is to lower."""
    waits = ", ".join(["0"] * 2000)
    assert "fewer 'retry_waits'" in refusal(layers="", rate=1000, load=f"retry_waits: [{waits}]")


@pytest.mark.parametrize(
    "changes",
    [
        {"base_delay": 0.1},  # the waits grow to 10 s
        {"base_delay": 1, "factor": 1.0},
        {"base_delay": 0.1, "jitter": "full"},
        {"base_delay": 0.001, "time_budget": 1},
        {"layers": "limit, again", "limit": 0.1, "base_delay": 0.001, "factor": 1.0},
        {"base_delay": 0.001, "factor": 1.0, "load": "patience: 0.5"},
        {"base_delay": 0, "budget": "tokens"},
        {"base_delay": 0, "rate": 0.1},
        {"layers": "again", "attempts": 10**300, "base_delay": 1},
    ],
    ids=str,
)
def test_time_and_budgets_bound_what_may_come(changes: dict[str, object]) -> None:
    """A retry of a million attempts is not refused where its waits, a limit or a budget leave few of them."""
    load_scenario(text(**{"attempts": 1_000_000, "rate": 10, **changes}))


def test_no_run_comes_to_more_than_was_reckoned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where everything fails at once, the attempts of a run are as many as the bound says, or fewer."""
    for attempts, base, jitter, layers, budget, load in product(
        (2, 40),
        (0, 0.05, 3),
        ("none", "full"),
        ("again", "more, again", "limit, again, more"),
        ("null", "tokens"),
        ("", "retry_waits: [0, 1, 30]", "patience: 2", "mode: stream"),
    ):
        made = text(
            attempts=attempts,
            base_delay=base,
            jitter=jitter,
            layers=layers,
            budget=budget,
            load=load,
            limit=4,
            rate=0.5,
        )
        most = bound(monkeypatch, made)
        assert len(run_scenario(load_scenario(made)).attempts) <= most


def test_the_library_is_far_below_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every scenario of the library and each variant may come to a twentieth of the limit at most."""
    for name in scenario_names():
        for variant in (None, *load_scenario(name).variants):
            assert 0 < bound(monkeypatch, name, variant) < MOST / 20


def test_no_stream_has_more_chunks_than_are_reckoned_with() -> None:
    """The streams of every service stay within the number of chunks that the bound takes."""

    async def longest(type_: str, subjects: list[str]) -> int:
        service = make_service("x", type_, {"latency": 0}, clock)
        return max([len([chunk async for chunk in service.stream(subject)]) for subject in subjects])

    clock = VirtualClock()
    subjects = ["HX-2040", "EN-5096", "FL-1180", "ZZ-0001", "gearbox play heat exchanger seal bearing"]
    for type_ in ("parts_availability", "maintenance_documents"):
        assert 1 <= clock.run(longest(type_, subjects)) <= CHUNKS
