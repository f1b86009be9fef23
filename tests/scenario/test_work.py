"""What a service's workers did, read off a trace."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.errors import LabkitError
from labkit.scenario import load_scenario, run_scenario
from labkit.scenario.read.workers import KINDS, Work, work

STORM = """\
scenario: {title: Retries, duration: 30, drain: 10, seed: 1}
services:
  parts_availability:
    _type: parts_availability
    latency: 0.2
    workers: 5
    queue: 100
    faults: [{from: 6, to: 10, fault: healthy, capacity: [[6, 1]]}]
middleware:
  budget: {_type: retry_budget, ratio: 0.1}
  again: {_type: retry, attempts: 3, base_delay: 0.1}
  limit: {_type: timeout, timeout: 1}
functions:
  parts_availability: {_type: parts_availability, middleware: [again, limit]}
workload:
- {function: parts_availability, rate: 17}
"""
BASE = load_scenario(STORM)


def worked(**values: str) -> Work:
    """The work of the scenario above, with values set; "__" stands for a dot."""
    return work(run_scenario(BASE.with_values({key.replace("__", "."): value for key, value in values.items()})))


def test_a_healthy_service_works_for_its_callers_alone() -> None:
    """Each attempt takes a worker for its latency, and all of it is useful first attempts."""
    done = worked(services__parts_availability__faults="[]")
    assert done.attempts == {"first": 510, "retried": 0, "wasted": 0}
    assert [done.share(kind) for kind in KINDS] == [1.0, 0.0, 0.0]
    assert sum(done.by_second["first"]) == pytest.approx(510 * 0.2 - 0.2 * 17 * 0.5, abs=2.0)
    assert (done.workers, done.offered, done.dip) == (5, 17.0, None)
    assert done.servable == pytest.approx(25.0)


def test_retries_keep_a_service_overloaded() -> None:
    """After a dip nearly all of the work is for nobody, with all workers back, and it does not recover."""
    done = worked()
    assert done.dip == (6.0, 10.0)
    assert (done.stays, done.back) == (False, None)
    assert done.lately[0] == 0
    assert done.share("wasted") > 0.6
    assert done.by_second["wasted"][-1] == pytest.approx(5.0, abs=0.3)
    assert done.told()[0].startswith("It does not recover by itself from the dip that ended at 10 s: of ")


def test_a_budget_lets_it_recover() -> None:
    """With a budget most retries are refused, hardly any work is wasted and service is full again."""
    done = worked(middleware__again__budget="budget")
    assert done.stays
    assert done.back is not None
    assert done.back < 1.0
    assert done.share("first") > 0.9
    assert done.refused > done.retries
    assert done.told()[0].startswith("It recovers by itself: full service is back ")
    assert f"A budget refused {done.refused:,} more." in done.told()[2]


def test_a_retry_that_helps_is_useful() -> None:
    """Where there is room for them, retries that bring an answer are told apart from first attempts and from waste."""
    done = worked(services__parts_availability__workers="8", workload__0__rate="12")
    assert done.stays
    assert 0 < done.attempts["retried"] < done.retries
    assert done.share("retried") > 0.0


def test_more_calls_than_can_be_answered_are_told_as_such() -> None:
    """No budget helps a service that is asked for more than it can do, and the sentence says so."""
    done = worked(workload__0__rate="30", middleware__again__attempts="1")
    assert not done.stays
    assert done.told()[0].startswith(
        "It cannot keep up, dip or not: 30 calls a second arrive, and 25 a second can be answered; of "
    )


def test_a_run_without_workers_has_no_work_to_tell() -> None:
    """One sentence says what is missing."""
    with pytest.raises(LabkitError, match="has a limited number of workers"):
        work(run_scenario(load_scenario("stream-early-break")))


@settings(max_examples=20)
@given(
    attempts=st.integers(1, 4), rate=st.integers(3, 20), workers=st.integers(2, 8), budget=st.booleans(),
    delay=st.sampled_from(("0", "0.1", "1.5")),
)  # fmt: skip
def test_nothing_is_lost_or_counted_twice(attempts: int, rate: int, workers: int, budget: bool, delay: str) -> None:
    """Every attempt is of one kind, as many useful ones as useful calls, and workers never work more than they are."""
    values = {
        "scenario.duration": "12",
        "services.parts_availability.workers": f"{workers}",
        "middleware.again.attempts": f"{attempts}",
        "middleware.again.base_delay": delay,
        "workload.0.rate": f"{rate}",
        "middleware.again.budget": "budget" if budget else "null",
        "services.parts_availability.faults": "[{from: 3, to: 5, fault: healthy, capacity: [[3, 1]]}]",
    }
    trace = run_scenario(BASE.with_values(values))
    done = work(trace)
    assert sum(done.attempts.values()) == len(trace.attempts)
    assert done.attempts["first"] + done.attempts["retried"] == sum(trace.calls.useful)
    assert done.retries == len(trace.attempts) - len(trace.calls)
    for second in range(12):
        busy = sum(done.by_second[kind][second] for kind in KINDS)
        assert -1e-9 <= busy <= workers + 1e-9
    assert sum(done.share(kind) for kind in KINDS) == pytest.approx(1.0)
