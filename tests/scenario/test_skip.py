"""What is written down instead of run is what would have been run: the two traces are equal to the byte."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from labkit.scenario import Scenario, Trace, load_scenario, run_scenario, scenario_names
from labkit.scenario.run.skip import SkipAhead
from labkit.scenario.run.trace import REJECTION_REASONS

EVERY = [
    name if variant is None else f"{name}:{variant}"
    for name in scenario_names()
    for variant in (None, *load_scenario(name).variants)
]


def both_ways(scenario: Scenario) -> tuple[str, str]:
    """The trace with stretches written down, and that of a run of every call."""
    fast, slow = (run_scenario(scenario, skip=skip) for skip in (True, False))
    return json.dumps(fast.to_dict()), json.dumps(slow.to_dict())


@pytest.mark.parametrize("name", EVERY)
def test_every_scenario_of_the_package(name: str) -> None:
    """Each scenario that comes with labkit, and each variant, has one trace, whichever way it is run."""
    fast, slow = both_ways(load_scenario(name))
    assert fast == slow


def written(scenario: Scenario, monkeypatch: pytest.MonkeyPatch) -> tuple[int, Trace]:
    """How many calls of a run are written down instead of run, and its trace."""
    many = 0
    ahead = SkipAhead.ahead

    def counted(self: SkipAhead, number: int) -> int:
        nonlocal many
        after = ahead(self, number)
        many += after - number
        return after

    with monkeypatch.context() as patch:
        patch.setattr(SkipAhead, "ahead", counted)
        trace = run_scenario(scenario)
    return many, trace


@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("decision", 23_600),
        ("decision:documents", 28_700),
        ("decision:shared-lease", 22_700),
        ("check-3-replicas", 2_900),
        ("cancellation-storm:limit-first", 500),
        ("name-collision", 1_200),
        ("open-breaker-retries:retry-in-the-stack", 270),
        ("retrip", 6_200),
        ("retry-budget", 1_390),
        ("retry-budget:budget", 3_650),
        ("retry-budget:no-retry", 3_650),
        ("thundering-probe:four-replicas", 990),
        ("trap-one-instance-is-deployment:right", 210),
    ],
)
def test_stretches_are_found(name: str, least: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each of these runs so many calls at least are written down: a run is the same every time, and so is that."""
    assert written(load_scenario(name), monkeypatch)[0] >= least


AROUND_A_BREAKER = [
    "[breaker]",
    "[limit, breaker, again]",
    "[again, breaker, limit]",
    "[gone, silent, breaker, openly]",
    "[silent, openly, gone, breaker, breaker]",
    "[spending, breaker, limit]",
    "[breaker, spending, limit]",
    "[openly, spending, guarded, gone]",
    "[guarded, spending, again]",
    "[interval]",
    "[openly, spending, interval, gone]",
]


@pytest.mark.parametrize("context", ["null", "search"])
@pytest.mark.parametrize("listed", AROUND_A_BREAKER)
def test_nothing_is_run_that_could_be_written_down(listed: str, context: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All calls before the fault are written down, and all that an open breaker rejects, but for the 24 begun at once.

    Whatever else is in the list: layers that are switched off, budgets, another target.
    """
    text = f"""
scenario: {{duration: 60, seed: 1}}
services:
  parts_availability: {{_type: parts_availability, latency: 0.25, faults: [{{from: 30, to: 60, fault: error}}]}}
middleware:
  breaker: {{_type: circuit_breaker, failure_threshold: 1, cooldown_period: 100}}
  guarded: {{_type: guarded_circuit_breaker, failure_threshold: 1, cooldown_period: 100}}
  interval: {{_type: window_circuit_breaker, failure_threshold: 1, interval: 60, open_duration: 100}}
  limit: {{_type: timeout, timeout: 5}}
  again: {{_type: retry, attempts: 2, base_delay: 0.3}}
  spending: {{_type: retry, attempts: 3, base_delay: 0.4, budget: shared}}
  shared: {{_type: retry_budget, ratio: 0.1, initial_tokens: 0}}
  openly: {{_type: fallback, errors: [CircuitBreakerOpenError]}}
  gone: {{_type: timeout, timeout: 0.1, enabled: false}}
  silent: {{_type: fallback, enabled: false}}
functions:
  stock: {{_type: parts_availability, context_name: {context}, middleware: {listed}}}
workload:
  - {{function: stock, rate: 16}}
"""
    many, trace = written(load_scenario(text), monkeypatch)
    before = sum(at < 29.75 for at in trace.calls.start)
    assert before == 476
    rejected = list(trace.rejections.reason).count(REJECTION_REASONS.index("breaker"))
    assert rejected > 400
    assert many >= before + rejected - 24


FAULTS = ["error", "hang", "slow", "connection_error", "error_shaped_string", "business_rejection", "flapping"]
LATENCIES = ["0.05", "0.5", "{distribution: uniform, low: 0.01, high: 0.4}", "{distribution: lognormal, median: 0.2}"]
NAMES = ["breaker", "second", "limit", "again", "more", "spending", "saving", "plainly", "openly", "holding", "guarded",
         "leased", "interval", "rated"]  # fmt: skip
LISTS = [
    "[]",
    "[breaker]",
    "[breaker, limit]",
    "[limit, breaker]",
    "[again, breaker, limit]",
    "[breaker, again, limit]",
    "[plainly, again, breaker, limit]",
    "[breaker, plainly]",
    "[breaker, second, limit]",
    "[holding, breaker]",
    "[guarded]",
    "[again, guarded, limit]",
    "[plainly, leased, limit]",
    "[again, leased]",
    "[leased, breaker, limit]",
    "[limit, again, breaker, openly]",
    "[openly, spending, breaker, limit]",
    "[breaker, spending, limit]",
    "[spending, guarded, saving]",
    "[spending, breaker, more]",
    "[interval]",
    "[again, interval, limit]",
    "[openly, spending, interval, breaker]",
    "[rated]",
    "[again, rated, limit]",
]
ANY_LIST = st.sampled_from(LISTS) | st.lists(st.sampled_from(NAMES), max_size=5).map(
    lambda names: f"[{', '.join(names)}]"
)


@example(  # when the run is over, a hanging call holds the one worker, and others wait for it
    replicas=2, threshold=2, cooldown=0.5, probes=2, hold=60.0, fault="hang", rate=0.3, window=(6, 1),
    latency="{distribution: lognormal, median: 0.2}", workers=1, lists=("[again, guarded, limit]", "[leased]"),
    off=frozenset(), budget=(0.1, 1, "0"), arrivals="poisson", patience=None, context="null", adapter="none", seed=0,
)  # fmt: skip
@settings(max_examples=150)
@given(
    replicas=st.integers(1, 3),
    threshold=st.integers(1, 4),
    cooldown=st.sampled_from([0.5, 1.0, 3.0]),
    probes=st.integers(1, 2),
    hold=st.sampled_from([0.3, 1.0, 60.0]),
    fault=st.sampled_from(FAULTS),
    rate=st.sampled_from([0.3, 1.0]),
    window=st.tuples(st.integers(0, 8), st.integers(1, 6)),
    latency=st.sampled_from(LATENCIES),
    workers=st.sampled_from([None, 1, 3, 40]),
    lists=st.tuples(ANY_LIST, ANY_LIST),
    off=st.just(frozenset()) | st.frozensets(st.sampled_from([*NAMES, "shared"]), max_size=4),
    budget=st.tuples(
        st.sampled_from([0.1, 0.3, 1.0]), st.sampled_from([1, 3, 20]), st.sampled_from(["0", "0.5", "null"])
    ),
    arrivals=st.sampled_from(["constant", "poisson"]),
    patience=st.sampled_from([None, 0.1, 2.0]),
    context=st.sampled_from(["null", "search", "warehouse"]),
    adapter=st.sampled_from(["none", "in_process", "swallowing", "raise_business"]),
    seed=st.integers(0, 5),
)
def test_any_scenario(
    replicas: int,
    threshold: int,
    cooldown: float,
    probes: int,
    hold: float,
    fault: str,
    rate: float,
    window: tuple[int, int],
    latency: str,
    workers: int | None,
    lists: tuple[str, str],
    off: frozenset[str],
    budget: tuple[float, int, str],
    arrivals: str,
    patience: float | None,
    context: str,
    adapter: str,
    seed: int,
) -> None:
    """Two functions with any lists, some of them switched off, around one service with any fault: one trace."""
    begin, length = window
    inner = ", up: 0.4, down: 0.6, inner: {fault: error}" if fault == "flapping" else f", rate: {rate}"
    capacity = "" if workers is None else f"workers: {workers}, queue: 4, "
    text = f"""
scenario: {{duration: 12, drain: 2, seed: {seed}, replicas: {replicas}}}
services:
  parts_availability: {{_type: parts_availability, {capacity}latency: {latency},
    faults: [{{from: {begin}, to: {begin + length}, fault: {fault}{inner}}}]}}
  maintenance_documents: {{_type: maintenance_documents, latency: 0.1}}
middleware:
  breaker: {{_type: circuit_breaker, failure_threshold: {threshold}, cooldown_period: {cooldown},
    half_open_success_threshold: {probes}}}
  second: {{_type: circuit_breaker, failure_threshold: 2, cooldown_period: 0.7}}
  limit: {{_type: timeout, timeout: 0.6}}
  again: {{_type: retry, attempts: 2, base_delay: 0.3}}
  spending: {{_type: retry, attempts: 3, base_delay: 0.4, budget: shared}}
  more: {{_type: retry, attempts: 2, base_delay: 0.2, budget: shared}}
  saving: {{_type: retry, attempts: 3, base_delay: 0.1, budget: second_budget}}
  shared: {{_type: retry_budget, ratio: {budget[0]}, max_tokens: {budget[1]}, initial_tokens: {budget[2]}}}
  second_budget: {{_type: retry_budget, ratio: 0.2, max_tokens: 4, initial_tokens: 0}}
  plainly: {{_type: fallback}}
  openly: {{_type: fallback, errors: [CircuitBreakerOpenError]}}
  holding: {{_type: bulkhead, max_concurrent: 5}}
  guarded: {{_type: guarded_circuit_breaker, failure_threshold: {threshold}, cooldown_period: {cooldown},
    half_open_success_threshold: {probes}, probe_hold: {hold}, idle_period: 1.5, probe_timeout: 0.5}}
  leased: {{_type: guarded_circuit_breaker, failure_threshold: {threshold}, cooldown_period: {cooldown},
    half_open_success_threshold: {probes}, probe_hold: {hold}, probe_lease: whole}}
  interval: {{_type: window_circuit_breaker, failure_threshold: {threshold}, interval: 2, open_duration: {cooldown},
    open_factor: 1.5, half_open_requests: {probes}, half_open_successes: {probes}}}
  rated: {{_type: window_circuit_breaker, failure_rate: 0.5, window: 3, minimum_calls: 4, open_duration: {cooldown},
    half_open_requests: {probes}}}
leases:
  whole: {{_type: memory, time_to_live: 0.8}}
functions:
  stock: {{_type: parts_availability, adapter: {adapter}, context_name: {context}, middleware: {lists[0]}}}
  search: {{_type: parts_availability, middleware: {lists[1]}}}
  documents: {{_type: maintenance_documents, middleware: [breaker]}}
workload:
  - {{function: stock, rate: 9, arrivals: {arrivals}, patience: {patience or "null"}, subjects: [HX-2040, unknown]}}
  - {{function: search, rate: 4, arrivals: {arrivals}, from: 1}}
  - {{function: documents, rate: 2}}
"""
    switched = {f"middleware.{name}.enabled": False for name in off}
    fast, slow = both_ways(load_scenario(text, values=switched))
    assert fast == slow


def test_two_calls_that_begin_and_end_together() -> None:
    """Two loads whose calls come and are answered at the same instants, as the fault cuts in, are no confusion."""
    text = """
scenario: {duration: 12, seed: 4, replicas: 2}
services:
  parts_availability: {_type: parts_availability, latency: 0.5, faults: [{from: 3.2, to: 5, fault: error, rate: 0.3}]}
middleware:
  breaker: {_type: circuit_breaker, failure_threshold: 2, cooldown_period: 1}
functions:
  stock: {_type: parts_availability, middleware: [breaker]}
  search: {_type: parts_availability, middleware: []}
workload:
  - {function: stock, rate: 8}
  - {function: search, rate: 4}
"""
    fast, slow = both_ways(load_scenario(text))
    assert fast == slow
