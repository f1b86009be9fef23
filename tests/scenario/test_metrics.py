"""Numbers read off traces that were made by hand, so that each is known beforehand."""

from __future__ import annotations

from math import nan
from typing import Any

import pytest

from labkit.scenario.read.metrics import METRICS, metrics
from labkit.scenario.run.trace import (
    ATTEMPT_OUTCOMES,
    CALL_OUTCOMES,
    PROBE_OUTCOMES,
    STATES,
    Attempts,
    Calls,
    FaultPeriod,
    Probes,
    Rejections,
    Trace,
    Transitions,
    column,
)

OUTAGE = FaultPeriod("parts", 10.0, 20.0, "hang", "hang")


def columns(codes: str, rows: list[tuple[Any, ...]]) -> list[Any]:
    """Columns of these rows."""
    return [column(code, [row[place] for row in rows]) for place, code in enumerate(codes)]


def trace(
    calls: list[tuple[Any, ...]] = (),  # type: ignore[assignment]
    attempts: list[tuple[Any, ...]] = (),  # type: ignore[assignment]
    probes: list[tuple[Any, ...]] = (),  # type: ignore[assignment]
    rejections: list[tuple[Any, ...]] = (),  # type: ignore[assignment]
    transitions: list[tuple[Any, ...]] = (),  # type: ignore[assignment]
    faults: tuple[FaultPeriod, ...] = (),
    **fields: Any,
) -> Trace:
    """A trace of two functions, from short rows.

    calls: start, end, outcome and, if need be, function, useful, invented; attempts: call, start, end; probes: replica,
    start, end; transitions: at, replica, state.
    """
    full_calls = []
    for start, end, outcome, *more in calls:
        function, useful, invented = [*more, *[0, int(outcome == "succeeded"), 0][len(more) :]]
        code = len(CALL_OUTCOMES) if outcome is None else CALL_OUTCOMES.index(outcome)
        full_calls.append((start, end, function, 0, code, useful, invented))
    answered = ATTEMPT_OUTCOMES.index("answered")
    return Trace(
        **{
            "title": "by hand",
            "seed": 0,
            "duration": 30.0,
            "until": 30.0,
            "replicas": 4,
            "functions": ("parts", "documents"),
            "services": ("parts",),
            "breakers": ("breaker",),
            "targets": ("parts",),
            "capacity": {},
            **fields,
        },
        faults=faults,
        calls=Calls(*columns("ddHHBBB", full_calls)),
        attempts=Attempts(
            *columns("iHHdddB", [(call, 0, 0, start, start, end, answered) for call, start, end in attempts])
        ),
        probes=Probes(*columns("HHHddB", [(0, 0, who, start, end, len(PROBE_OUTCOMES)) for who, start, end in probes])),
        rejections=Rejections(*columns("dHHHiB", list(rejections))),
        transitions=Transitions(
            *columns("dHHHB", [(at, 0, 0, who, STATES.index(state)) for at, who, state in transitions])
        ),
    )


def of(one: Trace, function: str | None = None) -> dict[str, Any]:
    """The numbers over everything, or over one function."""
    found = metrics(one)
    return found["all"] if function is None else found["functions"][function]  # type: ignore[no-any-return]


def test_an_empty_run_has_every_number() -> None:
    """Nothing happened: all counts are 0, what has no meaning is None, and no name is missing."""
    found = of(trace())
    assert set(found) == set(METRICS)
    assert {name for name, value in found.items() if value is None} == {
        "amplification",
        "latency_p50_s",
        "latency_p95_s",
        "latency_p99_s",
        "time_to_open_s",
        "recovery_s",
    }
    assert all(value in (0, None) for value in found.values())


def test_calls_are_counted_by_how_they_ended() -> None:
    """Each outcome has its count, time-outs are failures as well, and together they are what was offered."""
    rows: list[tuple[Any, ...]] = [
        (0.0, 1.0, "succeeded"),
        (0.0, 1.0, "unavailable"),
        (0.0, 0.0, "rejected"),
        (0.0, 2.0, "timeout"),
        (0.0, 1.0, "failed"),
        (0.0, 1.0, "cancelled"),
        (0.0, nan, None),
    ]
    found = of(trace(rows))
    assert (found["offered"], found["failed"], found["timeouts"], found["unfinished"]) == (7, 2, 1, 1)
    kinds = ("succeeded", "unavailable", "rejected", "failed", "cancelled", "unfinished")
    assert sum(found[kind] for kind in kinds) == found["offered"]


def test_functions_have_their_own_numbers() -> None:
    """Calls and attempts are counted for the function whose they are."""
    one = trace(
        [(0.0, 1.0, "succeeded"), (0.5, 1.0, "failed", 1), (0.6, 1.0, "succeeded", 1)],
        [(0, 0.0, 1.0), (1, 0.5, 0.7), (1, 0.7, 1.0), (2, 0.6, 1.0)],
    )
    assert (of(one, "parts")["offered"], of(one, "parts")["attempts"], of(one, "parts")["admitted"]) == (1, 1, 1)
    documents = of(one, "documents")
    assert (documents["offered"], documents["attempts"], documents["amplification"]) == (2, 3, 1.5)
    assert (of(one)["offered"], of(one)["attempts"]) == (3, 4)


def test_latency_is_that_of_calls_that_ended() -> None:
    """Percentiles by nearest rank; a call that had not ended is left out."""
    rows: list[tuple[Any, ...]] = [(0.0, float(n), "succeeded") for n in range(1, 101)]
    found = of(trace([*rows, (0.0, nan, None)]))
    assert (found["latency_p50_s"], found["latency_p95_s"], found["latency_p99_s"]) == (50.0, 95.0, 99.0)


def test_peaks_of_attempts() -> None:
    """The most attempts in a second of the clock, and the most at once; an end makes room for a begin."""
    found = of(
        trace(
            [(0.0, 1.0, "succeeded")],
            [(0, 0.9, 1.1), (0, 1.0, 1.2), (0, 1.1, 1.5), (0, 1.99, nan), (0, 2.0, 2.1)],
        )
    )
    assert found["attempts_per_s_peak"] == 3
    assert found["in_flight_peak"] == 2


def test_goodput_is_of_live_answers() -> None:
    """An answer that is of no use is a success, and no goodput."""
    found = of(trace([(0.0, 1.0, "succeeded"), (0.0, 1.0, "succeeded", 0, 0, 2)], duration=2.0))
    assert (found["succeeded"], found["goodput_per_s"], found["invented_answers"]) == (2, 0.5, 2)


def test_the_first_opening_after_the_fault() -> None:
    """Time to open runs from the fault to the first breaker that opens; with no fault there is none."""
    opened: list[tuple[Any, ...]] = [(11.6, 0, "OPEN"), (12.0, 1, "OPEN")]
    assert of(trace(transitions=opened, faults=(OUTAGE,)))["time_to_open_s"] == pytest.approx(1.6)
    assert of(trace(transitions=opened))["time_to_open_s"] is None


@pytest.mark.parametrize(
    ("at", "began", "kind"),
    [
        (5.0, 4.0, "false_opens"),  # before any fault
        (11.6, 10.0, None),  # during it
        (21.0, 19.5, None),  # after it, on an attempt that began in it
        (25.0, 24.0, "retrips"),  # after it, on one that began after it
    ],
)
def test_openings_are_told_apart(at: float, began: float, kind: str | None) -> None:
    """An opening is false, true or a trip anew by when the attempt began that decided it."""
    found = of(trace([(began, at, "failed")], [(0, began, at)], transitions=[(at, 0, "OPEN")], faults=(OUTAGE,)))
    assert found["opens"] == 1
    assert {name for name in ("false_opens", "retrips") if found[name]} == ({kind} if kind else set())


def test_a_failed_probe_is_no_trip_anew() -> None:
    """A breaker that goes back from half-open to open after the repair was not tripped by restored traffic."""
    states: list[tuple[Any, ...]] = [(11.0, 0, "OPEN"), (25.0, 0, "HALF_OPEN"), (26.0, 0, "OPEN")]
    found = of(trace(transitions=states, faults=(OUTAGE,)))
    assert (found["opens"], found["retrips"], found["false_opens"]) == (2, 0, 0)


def test_probes_at_once_are_those_of_the_deployment() -> None:
    """Probes of different replicas count together, those that follow one another do not."""
    found = of(trace(probes=[(0, 1.0, 2.0), (1, 1.5, 3.0), (2, 2.0, 2.5), (3, 5.0, nan)]))
    assert (found["probes"], found["concurrent_probes_peak"]) == (4, 2)


def test_recovery_is_full_service_for_a_while() -> None:
    """It is over with the first call after the repair from which on five seconds are answered."""
    rows: list[tuple[Any, ...]] = [(n / 2, n / 2, "rejected" if 20 <= n < 46 else "succeeded") for n in range(60)]
    assert of(trace(rows, faults=(OUTAGE,)))["recovery_s"] == pytest.approx(3.0)


def test_recovery_that_the_run_does_not_see() -> None:
    """None when the run ends before full service has lasted, or the repair never comes."""
    rows: list[tuple[Any, ...]] = [(n / 2, n / 2, "rejected" if n < 54 else "succeeded") for n in range(60)]
    assert of(trace(rows, faults=(OUTAGE,)))["recovery_s"] is None
    assert of(trace(rows, faults=(OUTAGE._replace(end=30.0),)))["recovery_s"] is None


def test_what_takes_no_time_has_its_instant() -> None:
    """Intervals without length count at their instant, beside what runs then and what else takes no time."""
    found = of(trace([(0.0, 1.0, "succeeded")], [(0, 1.0, 1.0), (0, 1.0, 1.0), (0, 0.5, 1.0), (0, 0.9, 2.0)]))
    assert found["in_flight_peak"] == 3
    assert of(trace(probes=[(0, 1.0, 1.0), (1, 1.0, 1.0)]))["concurrent_probes_peak"] == 2


def test_functions_that_share_a_target_share_its_breaker() -> None:
    """Openings of a target count for each function that has it; a rejection counts for the function that was called."""
    one = trace(
        [(0.0, 0.0, "rejected"), (1.0, 1.0, "rejected", 1)],
        transitions=[(0.5, 0, "OPEN")],
        rejections=[(0.0, 0, 0, 0, 0, 0), (1.0, 0, 0, 0, 1, 0)],
        targets=("search",),
        contexts=("search", "search"),
    )
    assert [of(one, name)["opens"] for name in one.functions] == [1, 1]
    assert [of(one, name)["rejections"] for name in one.functions] == [1, 1]


def test_a_tool_that_only_an_assistant_calls() -> None:
    """Of a function that no load calls, the attempts are those that its service saw."""
    one = trace([(0.0, 1.0, "succeeded")], [(0, 0.0, 0.5), (0, 0.5, 1.0)], behind=("", "parts"))
    assert (of(one, "documents")["offered"], of(one, "documents")["attempts"]) == (0, 2)


def test_too_few_workers_are_a_fault_too() -> None:
    """An opening while capacity is short is no false one; after a repair it is a trip anew."""
    scarce = FaultPeriod("parts", 10.0, 20.0, "capacity", "capacity 1 of 9")
    opened: list[tuple[Any, ...]] = [(15.0, 0, "OPEN")]
    rows: list[tuple[Any, ...]] = [(14.0, 15.0, "failed")]
    first = of(trace(rows, [(0, 14.0, 15.0)], transitions=opened, faults=(scarce,)))
    assert (first["false_opens"], first["retrips"], first["time_to_open_s"]) == (0, 0, 5.0)
    repaired = FaultPeriod("parts", 2.0, 5.0, "hang", "hang")
    again = of(trace(rows, [(0, 14.0, 15.0)], transitions=opened, faults=(repaired, scarce)))
    assert (again["false_opens"], again["retrips"]) == (0, 1)
