"""A run as journeys: what is played back is what the trace says, all of it or a fair sample."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

from labkit.errors import ConfigError
from labkit.scenario import Scenario, Trace, load_scenario, run_scenario, scenario_names
from labkit.scenario.read.journeys import (
    ANSWERED,
    ARRIVES,
    BEGINS,
    ENDS,
    ENDS_,
    FAILS,
    RUNS_OUT,
    SERVED,
    TURNED_AWAY,
    WAITS,
    Counted,
    Flow,
    Layer,
    flow,
    journey_of,
    limit_place,
)
from labkit.scenario.run.trace import STATES

OUTAGE = """\
scenario: {title: An outage, duration: 40, drain: 10, seed: 7, replicas: 4}
services:
  parts_availability:
    _type: parts_availability
    latency: {distribution: uniform, low: 0.03, high: 0.08}
    faults: [{from: 10, to: 20, fault: hang}]
middleware:
  again: {_type: retry, attempts: 3, base_delay: 0.5, jitter: none}
  breaker: {_type: circuit_breaker, failure_threshold: 5, cooldown_period: 6, probe_timeout: 1}
  limit: {_type: timeout, timeout: 2}
functions:
  parts_availability: {_type: parts_availability, middleware: [again, breaker, limit]}
workload:
- {function: parts_availability, rate: 40}
"""


@cache
def ran(name: str) -> tuple[Trace, Scenario]:
    """A scenario and its trace, made once."""
    scenario = load_scenario(OUTAGE if name == "outage" else name)
    return run_scenario(scenario), scenario


def flowing(name: str = "outage", **options: Any) -> tuple[Flow, Trace, Scenario]:
    """The flow of a scenario."""
    trace, scenario = ran(name)
    return flow(trace, scenario, **options), trace, scenario


@pytest.mark.parametrize("name", ["outage", *scenario_names()])
def test_all_that_happened_to_a_call_is_in_its_journey(name: str) -> None:
    """With every call shown, attempts, rejections, probes and ends are as many as in the trace, and as it says."""
    shown, trace, _ = flowing(name, most=100_000)
    mine = {journey.call for journey in shown.journeys}
    events = [(journey.call, event) for journey in shown.journeys for event in journey.events]
    rows = {number for number, each in enumerate(trace.services) if each in [one.name for one in shown.services]}
    attempts = [
        (call, start) for call, service, _, start, *_ in trace.attempts.rows() if call in mine and service in rows
    ]
    assert sorted((call, event.at) for call, event in events if event.code == ARRIVES) == sorted(attempts)
    rejections = sorted((call, at) for at, _, _, _, call, _ in trace.rejections.rows() if call in mine)
    assert sorted((call, event.at) for call, event in events if event.code == TURNED_AWAY) == rejections
    for journey in shown.journeys:
        first, last = journey.events[0], journey.events[-1]
        assert (first.code, first.at) == (BEGINS, trace.calls.start[journey.call])
        assert [event.at for event in journey.events] == sorted(event.at for event in journey.events)
        if trace.calls.end[journey.call] == trace.calls.end[journey.call]:
            assert (last.code, last.at) == (ENDS_, trace.calls.end[journey.call])
            useless = trace.calls.outcome[journey.call] == 0 and not trace.calls.useful[journey.call]
            assert last.place == (ENDS.index("not_useful") if useless else trace.calls.outcome[journey.call])
        else:
            assert last.code != ENDS_
    if name != "name-collision" and not shown.others and trace.replicas <= shown.rows and len(shown.services) == 1:
        probes = sum(event.code == ARRIVES and event.detail for _, event in events)
        assert probes == len(trace.probes)


@pytest.mark.parametrize("name", ["outage", "retry-budget", "decision"])
def test_a_sample_is_fair_and_says_what_it_leaves_out(name: str) -> None:
    """One call of each so many in a row is drawn, every replica has its part, and the sentence has the numbers."""
    shown, trace, _ = flowing(name, most=400)
    assert shown.every == -(-shown.total // 400)
    drawn = [row for row, each in enumerate(trace.calls.replica) if each < shown.rows]
    calls = {journey.call for journey in shown.journeys}
    for at in range(0, len(drawn), shown.every):
        assert calls & set(drawn[at : at + shown.every])
    many = -(-shown.total // shown.every)
    assert len(calls) == many + shown.probes
    assert f"{many:,} of {shown.total:,} calls, one drawn from each {shown.every:,} in a row" in shown.share()
    for replica in range(shown.rows):
        part = sum(journey.replica == replica for journey in shown.journeys) / len(shown.journeys)
        assert abs(part - 1 / shown.rows) < 0.1


def test_the_counters_count_what_a_sample_leaves_out() -> None:
    """However few calls are shown, every call, end and attempt of the run is counted, and by when it happened."""
    few, trace, _ = flowing(most=50)
    counts = {one.name: one for one in few.counts}
    assert counts["arrived"].total == len(trace.calls)
    assert sum(counts[name].total for name in counts if name in ENDS) == len(trace.calls)
    assert counts["probes"].total == len(trace.probes)
    for at in (0.0, 9.999, 12.5, 33.3, trace.until):
        assert counts["arrived"].by(at) == sum(start <= at for start in trace.calls.start)
        inside = sum(start <= at for start in trace.attempts.start) - sum(end <= at for end in trace.attempts.end)
        assert counts["parts_availability/arrived"].by(at) - counts["parts_availability/left"].by(at) == inside


def test_a_long_counter_is_told_in_strides() -> None:
    """Of many times only every so many-th is kept; the count is never more than that off, and right at the end."""
    trace, scenario = ran("decision")
    arrived = flow(trace, scenario).counts[0]
    assert arrived.every > 1
    for at in (10.0, 100.0, trace.until):
        assert abs(arrived.by(at) - sum(start <= at for start in trace.calls.start)) < arrived.every
    assert arrived.by(trace.until) == len(trace.calls)
    assert Counted("none", 1, (), 0).by(5.0) == 0


def test_every_probe_is_shown() -> None:
    """A probe is in the playback even where the sample would have left it out, and the sentence says so."""
    shown, trace, _ = flowing(most=20)
    probes = sum(event.code == ARRIVES and event.detail for journey in shown.journeys for event in journey.events)
    assert probes == len(trace.probes) > 0
    assert f"and {shown.probes} more that were probes" in shown.share()


def test_a_time_out_is_told_with_the_limit_that_struck() -> None:
    """Ordinary calls run out of time at the timeout, probes at the breaker's shorter limit; then the retry waits."""
    shown, _, _ = flowing(most=100_000)
    layers = [one.name for one in shown.layers]
    assert layers == ["again", "breaker", "limit"]
    probes, ordinary = set(), set()
    for journey in shown.journeys:
        probe = False
        for event in journey.events:
            probe = bool(event.detail) if event.code == ARRIVES else probe
            if event.code == RUNS_OUT:
                (probes if probe else ordinary).add(layers[event.place])
    assert (probes, ordinary) == ({"breaker"}, {"limit"})


def test_a_journey_in_words() -> None:
    """The first call of the outage: it hangs, runs out of time, waits, tries again and is turned away, in sentences."""
    shown, trace, _ = flowing(most=100_000)
    first = next(row for row, start in enumerate(trace.calls.start) if start > 10.0)
    told = shown.told(shown.journeys[first])
    number = f"call {first + 1}"
    assert told[0] == f"10.03 s: {number} leaves its caller."
    assert told[1] == f"10.03 s: {number} reaches parts_availability."
    assert told[2] == f"12.03 s: {number} runs out of time at limit."
    assert told[3] == f"12.03 s: {number} waits at again."
    assert "turned away at breaker" in told[-2] or "attempt 2" in told[4]
    assert told[-1].endswith(("is turned away.", "a time-out."))


def test_a_queue_is_part_of_the_journey() -> None:
    """A call that waited for a worker arrives and is served later."""
    shown, _, _ = flowing("retry-budget", most=100_000)
    journey = next(one for one in shown.journeys if any(event.code == SERVED for event in one.events))
    arrives = next(event for event in journey.events if event.code == ARRIVES)
    served = next(event for event in journey.events if event.code == SERVED)
    assert served.at > arrives.at
    assert shown.services[0].workers == 10


def test_breakers_have_the_states_of_the_trace() -> None:
    """Each breaker that is drawn changes its state when the trace says."""
    shown, trace, _ = flowing()
    assert len(shown.breakers) == 4
    for one in shown.breakers:
        states = trace.states("breaker", "parts_availability", one.replica)
        assert [(at, STATES[state]) for at, state in one.states] == states


def test_more_than_four_replicas_are_said_and_not_drawn() -> None:
    """Calls of replicas that are not drawn do not travel, but are counted."""
    trace, scenario = ran("check-3-replicas")
    shown = flow(trace, scenario, rows=2)
    assert {journey.replica for journey in shown.journeys} == {0, 1}
    assert f"Of {trace.replicas} replicas the first 2 are drawn." in shown.share()
    assert shown.counts[0].total == len(trace.calls) > shown.total


def test_an_assistant_s_tools_are_on_the_way() -> None:
    """The layers of an assistant's tools follow its own, and what goes beside some of them is said."""
    shown, _, _ = flowing("check-5-unavailable")
    assert shown.function == "research_assistant"
    assert [one.name for one in shown.services] == ["parts_availability", "maintenance_documents"]
    assert "availability_breaker" in [one.name for one in shown.layers]
    assert "What goes to maintenance_documents does not pass say_unavailable" in shown.share()
    codes = {event.code for journey in shown.journeys for event in journey.events}
    assert {BEGINS, WAITS, ARRIVES, ANSWERED, FAILS, TURNED_AWAY, ENDS_} <= codes


def test_a_trace_alone_knows_who_turned_calls_away() -> None:
    """Without the scenario the layers are those that did anything, by name."""
    trace, _ = ran("outage")
    shown = flow(trace)
    assert [one.name for one in shown.layers] == ["breaker"]
    assert len(shown.breakers) == 4


def test_plain_data_says_the_same() -> None:
    """The data for the page is JSON, and its tenths of a millisecond add up to the journeys' times."""
    shown, _, _ = flowing(most=100)
    data = json.loads(json.dumps(shown.to_dict()))
    for flat, journey in zip(data["journeys"], shown.journeys, strict=True):
        assert flat[:2] == [journey.call, journey.replica]
        steps = [flat[at : at + 4] for at in range(2, len(flat), 4)]
        now = 0
        for (step, code, place, detail), event in zip(steps, journey.events, strict=True):
            now += step
            assert now / 10_000 == pytest.approx(event.at, abs=6e-5)
            assert (code, place, detail) == event[1:]
    assert sum(data["counts"]["arrived"]["times"]) / 10_000 == pytest.approx(shown.counts[0].times[-1], abs=1e-4)


@pytest.mark.parametrize(
    ("name", "type_", "breaker", "kind"),
    [
        ("availability_breaker", "circuit_breaker", True, "breaker"),
        ("guard", "guarded_circuit_breaker", True, "guarded breaker"),
        ("by_rate", "window_circuit_breaker", True, "window breaker"),
        ("retry_budget", "retry_budget", False, ""),
        ("savings", "retry_budget", False, "retry budget"),
    ],
)
def test_a_page_is_told_which_layers_are_breakers(name: str, type_: str, breaker: bool, kind: str) -> None:
    """What a layer is travels with it, so that a page needs no list of its own."""
    plain = Layer(name, type_).plain()
    assert (plain["name"], plain["breaker"], plain["kind"]) == (name, breaker, kind)


def test_the_same_run_gives_the_same_sample() -> None:
    """Two flows of one trace are equal."""
    trace, scenario = ran("outage")
    assert flow(trace, scenario, most=60) == flow(trace, scenario, most=60)


def test_any_call_can_be_followed() -> None:
    """A call that the sample left out has the journey that it has where all are shown."""
    trace, scenario = ran("outage")
    few, every = flow(trace, scenario, most=20), flow(trace, scenario, most=100_000)
    left_out = next(one for one in every.journeys if one.call not in {each.call for each in few.journeys})
    assert journey_of(trace, few, left_out.call, scenario) == left_out


@pytest.mark.parametrize(
    ("name", "options", "call", "says"),
    [
        ("outage", {"most": 20}, 5_000_000, "numbered from 1 to 1,600"),
        ("outage", {"rows": 2}, 3, "went to replica 4"),
        ("name-collision", {"function": "parts_availability"}, None, "is one of maintenance_documents"),
    ],
)
def test_a_call_that_is_not_there_is_a_sentence(
    name: str, options: dict[str, Any], call: int | None, says: str
) -> None:
    """Who wants to follow a call that is not drawn hears why."""
    shown, trace, scenario = flowing(name, **options)
    if call is None:
        other = trace.functions.index("maintenance_documents")
        call = next(row for row, each in enumerate(trace.calls.function) if each == other)
    with pytest.raises(ConfigError, match=says):
        journey_of(trace, shown, call, scenario)


def test_an_unknown_function_is_a_sentence() -> None:
    """The nearest known name is offered."""
    with pytest.raises(ConfigError, match="did you mean 'parts_availability'"):
        flowing(function="part_availability")


LAYERS = (
    Layer("outer", "timeout", limit=5.0),
    Layer("breaker", "circuit_breaker", limit=1.0),
    Layer("inner", "timeout", limit=2.0),
)


@pytest.mark.parametrize(
    ("waited", "total", "probe", "place"),
    [(2.0, 2.0, False, 2), (1.0, 1.0, True, 1), (1.0, 5.0, False, 0), (2.0, 4.5, True, 2), (0.4, 5.0, True, 0)],
)
def test_which_limit_ended_an_attempt(waited: float, total: float, probe: bool, place: int) -> None:
    """It is the one whose seconds had passed since the attempt or the call began; a breaker's bounds probes only."""
    assert limit_place(LAYERS, waited, total, probe) == place
    assert limit_place((), waited, total, probe) == -1
