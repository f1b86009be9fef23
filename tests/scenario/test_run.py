"""What a run records, against what is known to have happened."""

from __future__ import annotations

import json
from array import array
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.errors import RunTooLargeError
from labkit.scenario import load_scenario, metrics, run_scenario
from labkit.scenario.run import columns as columns_module
from labkit.scenario.run import runner as run_module
from labkit.scenario.run.trace import CALL_OUTCOMES, PROBE_OUTCOMES, REJECTION_REASONS, STATES
from labkit.scenario.spec import arrivals as arrivals_module


def outcomes(trace: Any) -> list[str]:
    """How the calls ended, by name."""
    return [[*CALL_OUTCOMES, "unfinished"][code] for code in trace.calls.outcome]


def test_an_outage_call_by_call(small: Any) -> None:
    """Calls, attempts, rejections, transitions and probes of an outage are all there, at their times."""
    trace = run_scenario(small(workload__0="{function: parts_availability, at: [0, 6, 7, 8, 9, 13, 14]}"))
    assert outcomes(trace) == ["succeeded", "failed", "failed", "failed", "rejected", "succeeded", "succeeded"]
    assert [round(end, 6) for end in trace.calls.end] == [0.05, 6.05, 7.05, 8.05, 9.0, 13.05, 14.05]
    assert list(trace.attempts.call) == [0, 1, 2, 3, 5, 6]
    assert [(round(at, 6), STATES[state]) for at, _, _, _, state in trace.transitions.rows()] == [
        (8.05, "OPEN"),
        (13.0, "HALF_OPEN"),
        (13.05, "CLOSED"),
    ]
    assert [(at, call, REJECTION_REASONS[why]) for at, _, _, _, call, why in trace.rejections.rows()] == [
        (9.0, 4, "breaker")
    ]
    assert [(start, round(end, 6), PROBE_OUTCOMES[how]) for *_, start, end, how in trace.probes.rows()] == [
        (13.0, 13.05, "succeeded")
    ]
    assert trace.states("breaker", "parts_availability", 0)[0] == (0.0, "CLOSED")
    assert [(period.start, period.end, period.fault) for period in trace.faults] == [(5.0, 12.0, "error")]


def test_the_same_seed_gives_the_same_bytes(small: Any) -> None:
    """Two runs are equal to the byte, another seed gives another run."""
    one = small(
        workload__0__arrivals="poisson", services__parts_availability__latency="{distribution: lognormal, median: 0.05}"
    )
    first, again = (json.dumps(run_scenario(one).to_dict()) for _ in range(2))
    assert first == again
    assert first != json.dumps(run_scenario(one.with_values({"seed": 4})).to_dict())


def test_replicas_have_breakers_of_their_own(small: Any) -> None:
    """Calls go round the replicas, and each breaker counts its own failures."""
    trace = run_scenario(small(replicas=4))
    assert list(trace.calls.replica[:6]) == [0, 1, 2, 3, 0, 1]
    opened = {row[3] for row in trace.transitions.rows() if STATES[row[4]] == "OPEN"}
    assert opened == {0, 1, 2, 3}
    assert metrics(trace)["all"]["concurrent_probes_peak"] <= 4


def test_replicas_draw_differently(small: Any) -> None:
    """Retries of two replicas do not wait alike, though the file gives them one seed."""
    small()
    text = small.text.replace("  limit:", "  again: {_type: retry, attempts: 2, base_delay: 1}\n  limit:")
    text = text.replace("[breaker, limit]", "[again, limit]").replace("rate: 10", "at: [6, 6]")
    trace = run_scenario(load_scenario(text, values={"replicas": 2, "middleware.limit.timeout": 5}))
    by_call: dict[int, list[float]] = {}
    for call, start in zip(trace.attempts.call, trace.attempts.start, strict=True):
        by_call.setdefault(call, []).append(start)
    assert [len(times) for times in by_call.values()] == [2, 2]
    assert by_call[0][1] != by_call[1][1]


def test_a_caller_gives_up(small: Any) -> None:
    """A call that outlasts its caller's patience is cancelled then, and so is its attempt."""
    trace = run_scenario(
        small(
            workload__0="{function: parts_availability, at: [6], patience: 0.5}",
            services__parts_availability__faults="[{from: 5, to: 12, fault: hang}]",
        )
    )
    assert outcomes(trace) == ["cancelled"]
    assert (trace.calls.end[0], trace.attempts.end[0]) == (6.5, 6.5)


def test_what_has_not_ended_when_the_run_does(small: Any) -> None:
    """A hang that nothing bounds is unfinished after the drain: no end, no outcome."""
    trace = run_scenario(
        small(
            workload__0="{function: parts_availability, at: [6]}",
            functions__parts_availability__middleware="[breaker]",
            services__parts_availability__faults="[{from: 5, to: 12, fault: hang}]",
            drain=5,
        )
    )
    assert outcomes(trace) == ["unfinished"]
    assert trace.calls.end[0] != trace.calls.end[0]
    assert trace.until == 25.0
    assert metrics(trace)["all"]["unfinished"] == 1


def test_the_run_ends_with_the_last_call(small: Any) -> None:
    """The drain is a limit, not a wait: the run ends when all calls have."""
    trace = run_scenario(small(workload__0="{function: parts_availability, at: [19.99]}", drain=1000))
    assert trace.until == pytest.approx(20.04)


def test_streams(small: Any) -> None:
    """A stream that is read to its end succeeds; one whose reader leaves early is cancelled, and abandoned below."""
    for extra, outcome in (("", "succeeded"), (", close_after: 2, consumer_pause: 0.5", "cancelled")):
        trace = run_scenario(small(workload__0=f"{{function: parts_availability, at: [0], mode: stream{extra}}}"))
        assert outcomes(trace) == [outcome]
    assert trace.calls.end[0] == pytest.approx(0.05 + 0.5 + 0.05 + 0.5)


def test_a_swallowed_error_is_a_success_of_no_use(small: Any) -> None:
    """Behind an adapter that swallows exceptions calls succeed, no breaker opens, and nobody gets a live answer."""
    trace = run_scenario(
        small(
            functions__parts_availability__adapter="swallowing",
            workload__0="{function: parts_availability, at: [6, 7, 8, 9, 10]}",
        )
    )
    found = metrics(trace)["all"]
    assert (found["succeeded"], found["opens"], found["goodput_per_s"]) == (5, 0, 0.0)


def test_a_fallback_says_unavailable(small: Any) -> None:
    """A call that a fallback answers is neither a success nor a failure, and nothing is invented."""
    small()
    text = small.text.replace("  limit:", "  plainly: {_type: fallback}\n  limit:")
    text = text.replace("[breaker, limit]", "[plainly, breaker, limit]")
    found = metrics(run_scenario(load_scenario(text)))["all"]
    assert found["failed"] == found["rejected"] == found["invented_answers"] == 0
    assert found["unavailable"] == found["offered"] - found["succeeded"] > 0
    assert found["rejections"] > 0


def test_progress_goes_from_nothing_to_one(small: Any) -> None:
    """Progress is told in order, and ends with 1."""
    told: list[float] = []
    run_scenario(small(), progress=told.append)
    assert told[0] == 0.0
    assert told[-1] == 1.0
    assert all(before <= after for before, after in pairwise(told))


def test_progress_is_told_in_every_part(small: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """While arrivals are made, while calls are run and while the trace and its numbers are put together."""
    small()
    monkeypatch.setattr(arrivals_module, "_BLOCK", 20)
    monkeypatch.setattr(run_module, "LOOK_EVERY", 20)
    monkeypatch.setattr(columns_module, "LOOK_EVERY", 20)
    monkeypatch.setattr(columns_module, "_BLOCK", 5)
    told: list[float] = []
    text = small.text.replace("latency: 0.05", "latency: {distribution: uniform, low: 0.01, high: 0.9}")
    trace = run_scenario(load_scenario(text), skip=False, progress=told.append)
    for begin, end in ((0.0, 0.1), (0.1, 0.9), (0.9, 1.0)):
        assert len({share for share in told if begin < share < end}) >= 5, (begin, end)
    counted: list[float] = []
    assert metrics(trace, progress=counted.append) == metrics(trace)
    assert all(before <= after for before, after in pairwise(counted))
    assert len(set(counted)) >= 5
    assert counted[-1] == 1.0


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 3)), max_size=60), st.integers(1, 9))
def test_rows_are_put_in_order_a_block_at_a_time(rows: list[tuple[int, int]], block: int) -> None:
    """Whatever the blocks are, the rows stand in the order of their time, then of their call, then as they came."""
    times, calls = array("d", [time for time, _ in rows]), array("i", [call for _, call in rows])
    columns: list[Any] = [times, calls, array("i", range(len(rows)))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns_module, "_BLOCK", block)
        found = columns_module._sorted(columns, 0, 1, lambda share: None)
    assert list(zip(*found, strict=True)) == sorted(zip(*columns, strict=True))


@pytest.mark.parametrize(
    ("limit", "value", "middleware", "fault", "said"),
    [
        ("MOST_ROWS", 5000, "{_type: retry, attempts: 1000, base_delay: 0}", "error", "attempts of "),
        ("MOST_UNDER_WAY", 10, "{_type: timeout, timeout: 100}", "hang", "calls under way"),
    ],
)
def test_a_run_that_grows_beyond_all_bounds_is_ended(
    small: Any, limit: str, value: int, middleware: str, fault: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attempts without end and calls without answer end the run with a sentence, which is the same each time."""
    small()
    text = small.text.replace("{_type: timeout, timeout: 2}", middleware).replace("fault: error", f"fault: {fault}")
    text = text.replace("[breaker, limit]", "[limit]")
    monkeypatch.setattr(run_module, limit, value)
    monkeypatch.setattr(run_module, "LOOK_EVERY", 10)
    monkeypatch.setattr(columns_module, "LOOK_EVERY", 10)
    sentences = set()
    for _ in range(2):
        with pytest.raises(RunTooLargeError) as refused:
            run_scenario(load_scenario(text))
        sentences.add(str(refused.value))
    (sentence,) = sentences
    assert said in sentence


def test_a_trace_is_the_same_json_in_pieces(small: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pieces that are written are what the whole would be."""
    monkeypatch.setattr("labkit.scenario.run.trace._BLOCK", 7)
    trace = run_scenario(small())
    assert "".join(trace.to_json()) == json.dumps(trace.to_dict())


@settings(max_examples=25)
@given(
    st.integers(1, 4),
    st.integers(1, 6),
    st.floats(0.2, 8.0),
    st.sampled_from(["error", "hang", "slow", "error_shaped_string", "business_rejection", "connection_error"]),
    st.sampled_from(["[breaker, limit]", "[limit, breaker]", "[breaker]", "[]", "[again, breaker, limit]"]),
    st.sampled_from([None, 0.5]),
    st.sampled_from([(None, 0), (2, 0), (3, 5)]),
)
def test_every_run_adds_up(
    replicas: int,
    threshold: int,
    cooldown: float,
    fault: str,
    middleware: str,
    patience: float | None,
    capacity: tuple[int | None, int],
) -> None:
    """In any run every call has one outcome, no rejected call without an attempt reached the service, and times fit."""
    workers, queue = capacity
    text = f"""
scenario: {{duration: 12, seed: 1, replicas: {replicas}, drain: 3}}
services:
  parts_availability:
    _type: parts_availability
    workers: {workers or "null"}
    queue: {queue}
    faults: [{{from: 3, to: 7, fault: {fault}}}]
middleware:
  breaker: {{_type: circuit_breaker, failure_threshold: {threshold}, cooldown_period: {cooldown}}}
  limit: {{_type: timeout, timeout: 1}}
  again: {{_type: retry, attempts: 2}}
functions:
  parts_availability: {{_type: parts_availability, middleware: {middleware}}}
workload:
  - {{function: parts_availability, rate: 12, arrivals: poisson, patience: {patience or "null"}}}
"""
    trace = run_scenario(load_scenario(text))
    found = metrics(trace)["all"]
    kinds = ("succeeded", "unavailable", "rejected", "failed", "cancelled", "unfinished")
    assert sum(found[kind] for kind in kinds) == found["offered"] == len(trace.calls)
    reached = set(trace.attempts.call)
    for row, (start, end, _, _, outcome, useful, _) in enumerate(trace.calls.rows()):
        assert not end < start
        assert not useful or CALL_OUTCOMES[outcome] == "succeeded"
        if [*CALL_OUTCOMES, ""][outcome] == "rejected" and "again" not in middleware:
            assert row not in reached
    for _, _, _, start, served, end, _ in trace.attempts.rows():
        assert not served < start
        assert not end < start
    if workers is not None:
        busy = [(served, 1) for served in trace.attempts.served if served == served]
        assert found["in_flight_peak"] <= workers + queue
        assert len(busy) <= len(trace.attempts)
    if middleware == "[breaker, limit]" and fault in ("error", "hang", "connection_error"):
        assert found["concurrent_probes_peak"] <= replicas
