"""A function's target and its layers have one home: who tells of a run tells of the state that its breakers kept."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from labkit import PartsAvailability, Stack, VirtualClock
from labkit.scenario import follow, load_scenario, metrics, run_scenario, story
from labkit.scenario.read.journeys import flow
from labkit.scenario.read.scopes import Scope, scopes_of
from labkit.scenario.run.trace import STATES
from labkit.scenario.watch.breaker_counts import run_counted
from labkit.scenario.watch.streams import follow_streams
from labkit.session import call_in_turn

BREAKERS = {
    "circuit_breaker": "failure_threshold: 3, cooldown_period: 100",
    "guarded_circuit_breaker": "failure_threshold: 3, cooldown_period: 100",
    "window_circuit_breaker": "failure_threshold: 3, interval: 100, open_duration: 100",
}

TWO_NAMES = """\
scenario: {title: Two names, duration: 20, seed: 3}
services:
  parts_availability: {_type: parts_availability, latency: 0.05, faults: [{from: 5, to: 20, fault: error}]}
  maintenance_documents: {_type: maintenance_documents, latency: 0.05}
middleware:
  breaker: {_type: circuit_breaker, failure_threshold: 3, cooldown_period: 4}
  switched_off: {_type: circuit_breaker, failure_threshold: 1, cooldown_period: 100, enabled: false}
functions:
  parts_availability:
    _type: parts_availability
    context_name: warehouse
    middleware: [switched_off, breaker, breaker]
  maintenance_documents: {_type: maintenance_documents, context_name: library, middleware: [breaker]}
workload:
- {function: maintenance_documents, rate: 1}
- {function: parts_availability, rate: 5}
"""


@pytest.mark.parametrize("context", ["null", "search"])
@pytest.mark.parametrize("kind", BREAKERS)
def test_calls_in_turn_are_told_with_the_breaker_s_state(kind: str, context: str) -> None:
    """Whichever breaker it is, and whatever its target, the table says that it is OPEN, and has what it did."""
    clock = VirtualClock()
    stack = Stack.load(
        f"middleware: {{breaker: {{_type: {kind}, {BREAKERS[kind]}}}, silent: {{_type: {kind}, {BREAKERS[kind]}, "
        f"enabled: false}}}}\nfunctions: {{parts_availability: {{_type: parts_availability, context_name: {context}, "
        "middleware: [silent, breaker]}}",
        services={"parts_availability": PartsAvailability(clock, plan="error")},
        clock=clock,
    )
    calls = call_in_turn(stack, "parts_availability", "EN-5096", times=4)
    assert calls.counts == {"rejected": 1, "failed": 3}
    assert calls.states == {"breaker": "OPEN"}
    assert repr(calls).endswith("breaker is OPEN.")
    assert [event.kind for event in calls.events] == [*["admitted", "failed"] * 3, "opened", "rejected"]


def test_a_breaker_that_is_switched_off_keeps_no_state() -> None:
    """Of two breakers in a list, one of them off, a scope is told of the one that acts, and once."""
    assert scopes_of(load_scenario(TWO_NAMES)) == [
        Scope("breaker", "warehouse", ("parts_availability",)),
        Scope("breaker", "library", ("maintenance_documents",)),
    ]


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("circuit_breaker", "failures in a row go from 3 to 0"),
        ("guarded_circuit_breaker", "failures in a row go from 3 to 0"),
        ("window_circuit_breaker", "those in its interval stay at 3"),
    ],
)
def test_a_stream_is_told_with_what_the_breaker_remembered(kind: str, told: str) -> None:
    """The failures that a stream's success sets back are those of its target, also where that has another name."""
    settings = BREAKERS[kind].replace("threshold: 3", "threshold: 4")
    scenario = load_scenario(f"""\
scenario: {{title: Streams, duration: 20, seed: 4}}
services:
  parts_availability: {{_type: parts_availability, latency: 1, faults: [{{from: 0, to: 5, fault: error}}]}}
middleware:
  breaker: {{_type: {kind}, {settings}}}
functions:
  parts_availability: {{_type: parts_availability, context_name: warehouse, middleware: [breaker]}}
workload:
- {{function: parts_availability, at: [0, 1, 2, 10], mode: stream}}
""")
    read = follow_streams(scenario).streams[-1]
    assert (read.counted, read.before) == ("succeeded", 3)
    assert told in read.told()[0]


def test_a_stream_hears_what_became_of_the_count_meanwhile() -> None:
    """Failures of others while a stream is read are among those that its success sets back."""
    scenario = load_scenario("""\
scenario: {title: Streams, duration: 20, seed: 4}
services:
  parts_availability:
    _type: parts_availability
    latency: 1
    faults: [{from: 1, to: 3, fault: error, seconds: 0.1}]
middleware:
  breaker: {_type: circuit_breaker, failure_threshold: 9}
functions:
  parts_availability: {_type: parts_availability, middleware: [breaker]}
workload:
- {function: parts_availability, at: [0, 1.5, 2], mode: stream}
""")
    first = follow_streams(scenario).streams[0]
    assert first.before == 2
    assert "failures in a row go from 2 to 0" in first.told()[0]


def test_a_followed_call_runs_each_layer_once(caplog: pytest.LogCaptureFixture) -> None:
    """A layer that is listed twice is passed once, one that is off not at all, and the count is that of its target."""
    caplog.set_level(logging.ERROR)
    scenario = load_scenario(TWO_NAMES)
    call = next(row for row, one in enumerate(run_scenario(scenario).calls.function, 1) if one == 0)
    followed = follow(scenario, call)
    assert followed.layers == ("breaker",)
    assert followed.trace == run_scenario(scenario)
    (measured,) = followed.measured
    told = story(followed.trace, metrics(followed.trace))
    assert any(line.startswith(f"The breaker opened at {measured.opened_at:g} s, after 3 failed") for line in told)
    parts = sum(one == 0 and at <= measured.opened_at for one, at in zip(*_calls(followed.trace), strict=True))
    assert 0 < measured.attempts + measured.in_flight <= parts


def _calls(trace: Any) -> tuple[Any, Any]:
    return trace.calls.function, trace.calls.start


@pytest.mark.parametrize("function", ["parts_availability", "maintenance_documents"])
def test_a_playback_shows_the_states_of_the_function_s_target(function: str) -> None:
    """The one breaker of two functions is drawn in the state that it keeps for the function that is shown."""
    scenario = load_scenario(TWO_NAMES)
    trace = run_scenario(scenario)
    moved = [(at, STATES.index(state)) for at, state in trace.states("breaker", "warehouse", 0)]
    states = {"parts_availability": tuple(moved), "maintenance_documents": ((0.0, STATES.index("CLOSED")),)}
    assert len(moved) > 2
    (breaker,) = flow(trace, scenario, function=function).breakers
    assert breaker.states == states[function]


def test_a_trace_alone_shows_the_states_of_the_function_s_target() -> None:
    """Without its scenario a trace still knows the target of a function, whatever the target is called."""
    trace = run_scenario(load_scenario(TWO_NAMES))
    (breaker,) = flow(trace, function="parts_availability").breakers
    assert [at for at, _ in breaker.states] == [at for at, _ in trace.states("breaker", "warehouse", 0)]


def test_probes_are_those_of_the_breaker_that_is_listed() -> None:
    """Two functions of one name and one service, each with a breaker of its own: a probe is an attempt of its own."""
    scenario = load_scenario("""\
scenario: {title: Two breakers, duration: 30, seed: 3}
services:
  parts_availability: {_type: parts_availability, latency: 0.05, faults: [{from: 5, to: 9, fault: error}]}
middleware:
  breaker: {_type: circuit_breaker, failure_threshold: 1, cooldown_period: 6}
  unmoved: {_type: circuit_breaker, failure_threshold: 1000}
functions:
  stock: {_type: parts_availability, context_name: search, middleware: [breaker]}
  quick: {_type: parts_availability, context_name: search, middleware: [unmoved]}
workload:
- {function: stock, rate: 4}
- {function: quick, rate: 30}
""")
    trace = run_scenario(scenario)
    assert len(trace.probes) == 1
    of_stock = flow(trace, scenario, function="stock")
    of_quick = flow(trace, scenario, function="quick")
    assert (of_stock.probes, of_quick.probes) == (0, 0)  # none had to be added to the sample
    probes = {name: sum(code == 2 and detail for one in shown.journeys for _, code, _, detail in one.events)
              for name, shown in (("stock", of_stock), ("quick", of_quick))}  # fmt: skip
    assert probes == {"stock": 1, "quick": 0}


def test_the_counts_of_a_guarded_breaker_are_read_as_well(small: Any) -> None:
    """A guarded breaker has the same count in a row as the toolkit's, and the same reason for opening."""
    made = [run_counted(small(middleware__breaker={"_type": kind, "failure_threshold": 3, "cooldown_period": 4}))[1]
            for kind in ("circuit_breaker", "guarded_circuit_breaker")]  # fmt: skip
    (toolkit,), (guarded,) = made
    assert guarded.why() == toolkit.why()
    assert guarded.rows == toolkit.rows


def test_an_opening_is_told_with_its_failures_under_any_name(small: Any) -> None:
    """How many failures in a row opened the breaker is told as well where the target is not called as the service."""
    trace = run_scenario(small(functions__parts_availability__context_name="warehouse"))
    assert story(trace, metrics(trace))[2] == "The breaker opened at 5.25 s, after 3 failed attempts in a row."


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("circuit_breaker", "failure_threshold: 3, cooldown_period: 5"),
        ("guarded_circuit_breaker", "failure_threshold: 3, cooldown_period: 5"),
        ("window_circuit_breaker", "failure_rate: 0.5, window: 10, minimum_calls: 3, open_duration: 5"),
    ],
)
def test_a_breaker_whose_probes_are_all_left_is_told_to_stay_half_open(kind: str, settings: str) -> None:
    """Readers that take one chunk and leave hold it half-open, and the story says so; one who reads on ends it."""
    text = f"""\
scenario: {{title: Readers, duration: 40, seed: 1}}
services:
  parts_availability: {{_type: parts_availability, latency: 0.2, faults: [{{from: 5, to: 10, fault: error}}]}}
middleware:
  breaker: {{_type: {kind}, {settings}}}
functions:
  parts_availability: {{_type: parts_availability, middleware: [breaker]}}
workload:
- {{function: parts_availability, rate: 2, mode: stream, close_after: 1}}
"""
    trace = run_scenario(load_scenario(text))
    (told,) = [line for line in story(trace, metrics(trace)) if "half-open" in line]
    assert told == (
        f"The breaker was still half-open at the end, and may stay so: all {len(trace.probes)} probes since 11.5 s "
        "were left early, by a reader, a caller or a limit outside the breaker, and that counts neither way. Only a "
        "probe that comes to its end can close it or open it again."
    )
    read = run_scenario(load_scenario(f"{text}- {{function: parts_availability, at: [20.25], mode: stream}}\n"))
    assert not any("half-open" in line for line in story(read, metrics(read)))


def test_a_probe_that_only_the_run_s_end_ended_was_not_left(small: Any) -> None:
    """A breaker is not said to be held half-open where its one probe was in flight as the run ended."""
    hang = small(
        services__parts_availability__faults=[
            {"from": 5, "to": 6, "fault": "error"},
            {"from": 6, "to": 100, "fault": "hang"},
        ],
        functions__parts_availability__middleware="[breaker]",
        middleware__breaker__failure_threshold=1,
        middleware__breaker__probe_timeout=None,
    )
    trace = run_scenario(hang)
    assert len(trace.probes) == 1
    assert trace.states("breaker", "parts_availability", 0)[-1][1] == "HALF_OPEN"
    assert not any("half-open" in line for line in story(trace, metrics(trace)))
