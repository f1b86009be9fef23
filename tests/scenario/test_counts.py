"""Counts are read off the breakers that run, and tell why they opened or did not."""

from __future__ import annotations

from typing import Any

import pytest

from labkit.scenario import load_scenario, run_scenario
from labkit.scenario.watch.breaker_counts import Counted, run_counted

WINDOW = {"_type": "window_circuit_breaker", "open_duration": 4}
INTERVAL = {**WINDOW, "failure_threshold": 6, "interval": 8}
RATE = {**WINDOW, "failure_rate": 0.5, "window": 5, "minimum_calls": 10}


def counted(scenario: Any) -> Counted:
    """The one breaker's counts."""
    (only,) = run_counted(scenario)[1]
    return only


@pytest.mark.parametrize("breaker", [None, INTERVAL, RATE])
def test_looking_on_changes_nothing(small: Any, breaker: Any) -> None:
    """The trace of a run whose counts are read is the same as that of one that nobody looks at."""
    scenario = small(middleware__breaker=breaker) if breaker else small()
    assert run_counted(scenario)[0].to_dict() == run_scenario(scenario).to_dict()


def test_a_row_is_counted_up_to_the_opening(small: Any) -> None:
    """Failures count up one by one to the threshold, and the sentence names the one that opened the breaker."""
    made = counted(small())
    closed = [row.failures for row in made.rows if row.at < 5.3]
    assert closed == [0, 1, 2, 3]
    assert made.opened is not None
    assert made.opened.at == pytest.approx(5.25)
    assert made.why() == "opened at 5.25 s, at the 3rd failure in a row, and once more later"
    assert made.opens == 2


def test_an_interval_ends_with_its_count(small: Any) -> None:
    """At the end of an interval the count is nothing, although no call came to say so."""
    scenario = small(
        middleware__breaker={**INTERVAL, "failure_threshold": 40}, workload__0__rate=None, workload__0__at=[5.5, 6, 7]
    )
    made = counted(scenario)
    assert [(round(row.at, 3), row.failures) for row in made.rows] == [(0, 0), (5.55, 1), (6.05, 2), (7.05, 3), (8, 0)]
    assert made.why() == "stayed closed: at most 3 failures came in an interval of 8 s, and it takes 40"


def test_an_interval_says_which(small: Any) -> None:
    """A breaker that counts by interval names the interval in which it opened."""
    assert (
        counted(small(middleware__breaker=INTERVAL))
        .why()
        .startswith("opened at 5.55 s, at the 6th failure in the interval from 0 to 8 s")
    )


def test_a_rate_is_judged_from_its_minimum_on(small: Any) -> None:
    """A rate names the calls in its window, those that failed, and their share; too few calls are said to be so."""
    made = counted(small(middleware__breaker=RATE))
    assert made.opened is not None
    assert made.opened.failures / made.opened.calls >= 0.5
    told = f"when {made.opened.failures} of the last {made.opened.calls} calls in its window had failed"
    assert told in made.why()
    few = counted(small(middleware__breaker={**RATE, "minimum_calls": 60}))
    assert not few.judged(few.peak)
    assert few.why() == (
        f"stayed closed: its window of 5 s never held more than {few.peak.calls} calls, and below 60 it does not judge"
    )
    healthy = small(middleware__breaker=RATE, services__parts_availability__faults=[])
    assert counted(healthy).why() == (
        "stayed closed: at most 0 % of the calls in its window failed (0 of 10), and 50 % would open it"
    )


def test_successes_between_set_a_row_back() -> None:
    """The lesson's 290 failures of 300: at most 29 in a row are seen, and that is what the sentence says."""
    assert counted(load_scenario("consecutive-or-window")).why() == (
        "stayed closed: at most 29 failures came in a row, and it takes 30"
    )


def test_each_replica_and_each_target_has_counts_of_its_own(small: Any) -> None:
    """A breaker on two replicas is counted twice, each in its own right."""
    both = run_counted(small(scenario__replicas=2))[1]
    assert [one.replica for one in both] == [0, 1]
    assert all(one.peak.failures <= 3 for one in both)
