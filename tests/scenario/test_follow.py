"""One call followed through its layers, and what a breaker measures of all of them."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit import load_scenario
from labkit.errors import LabkitError
from labkit.scenario import Followed, Scenario, follow, run_scenario

BASE = load_scenario("""\
scenario: {title: Order, duration: 80, drain: 30, seed: 7}
services:
  parts_availability: {_type: parts_availability, latency: 0.05, faults: []}
middleware:
  retry: {_type: retry, attempts: 3, base_delay: 0.1, jitter: none}
  breaker: {_type: circuit_breaker, failure_threshold: 3, cooldown_period: 100}
  timeout: {_type: timeout, timeout: 2}
  fallback: {_type: fallback}
  bulkhead: {_type: bulkhead, max_concurrent: 2, max_queue: 1, max_wait: 1}
functions:
  parts_availability: {_type: parts_availability, middleware: []}
workload:
- {function: parts_availability, at: [0, 10, 20, 30, 40, 50, 60, 70]}
""")
LAYERS = ("retry", "breaker", "timeout", "fallback", "bulkhead")
FAULTS = ("hang", "error", "slow", "connection_error", "healthy")


def scenario(order: str, fault: str, **values: str) -> Scenario:
    """The layers in this order around a service that does this all the time."""
    paths = {name.replace("__", "."): value for name, value in values.items()}
    faults = "[]" if fault == "healthy" else f"[{{from: 0, to: 1000, fault: {fault}}}]"
    return BASE.with_values(
        {
            "functions.parts_availability.middleware": f"[{order}]",
            "services.parts_availability.faults": faults,
            **paths,
        }
    )


def way(followed: Followed) -> list[tuple[float, str, str, str]]:
    """When, where, whereto and what, of each step."""
    return [(round(step.at, 2), step.layer, step.direction, step.what) for step in followed.steps]


def test_a_time_out_inside_a_breaker() -> None:
    """The limit runs out, the cancellation ends the attempt, a TimeoutError travels outward, and the breaker counts."""
    assert way(follow(scenario("breaker, timeout", "hang"))) == [
        (0.0, "breaker", "in", "admitted"),
        (0.0, "timeout", "in", "clock starts"),
        (0.0, "parts_availability", "in", "reached"),
        (2.0, "timeout", "here", "limit runs out"),
        (2.0, "parts_availability", "out", "cancelled"),
        (2.0, "timeout", "out", "TimeoutError"),
        (2.0, "breaker", "out", "counts a failure"),
        (2.0, "caller", "out", "TimeoutError"),
    ]


def test_a_time_out_outside_a_breaker() -> None:
    """The same cancellation passes the breaker on its way out, which counts it neither way and stays closed."""
    followed = follow(scenario("timeout, breaker", "hang"), 8)
    assert [step[1:] for step in way(followed)][3:] == [
        ("timeout", "here", "limit runs out"),
        ("parts_availability", "out", "cancelled"),
        ("breaker", "out", "counts nothing"),
        ("timeout", "out", "TimeoutError"),
        ("caller", "out", "TimeoutError"),
    ]
    assert followed.measured[0].counted["cancelled"] == 8
    assert followed.measured[0].opened_at is None
    assert "stayed closed. It was told of 8 cancellations" in followed.measured[0].sentences[0]


@pytest.mark.parametrize(
    ("order", "unit", "attempts", "calls"),
    [("retry, breaker, timeout", "attempt", 3, 1), ("breaker, retry, timeout", "operation", 9, 3)],
)
@pytest.mark.parametrize("fault", ["hang", "error", "connection_error"])
def test_the_unit_that_a_breaker_measures(order: str, unit: str, attempts: int, calls: int, fault: str) -> None:
    """With the retry outside three attempts of one call open it; with the retry inside, nine of three calls."""
    measured = follow(scenario(order, fault)).measured[0]
    assert (measured.unit, measured.attempts, measured.calls) == (unit, attempts, calls)
    assert measured.counted["failed"] == 3
    assert measured.timeouts == (3 if fault == "hang" else 0)
    assert f"after {attempts} attempts of {calls} call" in measured.sentences[0]
    told = "3 time-outs" if fault == "hang" else "3 failures"
    assert measured.sentences[1] == f"Until then it was told of {told}."


def test_a_later_call_meets_an_open_breaker() -> None:
    """Of the fourth call nothing inside the breaker hears, and the retry does not repeat the rejection."""
    assert way(follow(scenario("retry, breaker, timeout", "hang"), 4)) == [
        (30.0, "retry", "in", "attempt 1"),
        (30.0, "breaker", "in", "rejected"),
        (30.0, "breaker", "out", "CircuitBreakerOpenError"),
        (30.0, "retry", "out", "gives up"),
        (30.0, "caller", "out", "CircuitBreakerOpenError"),
    ]


def test_a_retry_waits_and_sends_in_again() -> None:
    """Between two attempts stands a step with the wait, which is the time that passed."""
    steps = follow(scenario("retry", "error")).steps
    waits = [step.sentence for step in steps if step.direction == "here"]
    assert waits == [
        "retry waits 0.1 s, then sends in attempt 2 of at most 3.",
        "retry waits 0.2 s, then sends in attempt 3 of at most 3.",
    ]
    assert steps[-2].sentence == "retry gives up: all 3 attempts failed. It passes the DependencyError on."


def test_a_limit_that_ends_a_wait() -> None:
    """A limit around a retry may run out while it waits; then no further attempt is made."""
    followed = follow(scenario("timeout, retry", "error", middleware__timeout__timeout="0.3"))
    assert [step[1:] for step in way(followed)][-4:] == [
        ("timeout", "here", "limit runs out"),
        ("retry", "out", "cancelled"),
        ("timeout", "out", "TimeoutError"),
        ("caller", "out", "TimeoutError"),
    ]
    assert sum(step.what == "reached" for step in followed.steps) == 2


def test_a_fallback_inside_a_breaker() -> None:
    """What the fallback answers is a success to the breaker outside of it, which therefore stays closed."""
    followed = follow(scenario("breaker, fallback, timeout", "hang"))
    assert [step.what for step in followed.steps[-3:]] == ["answers instead", "counts a success", "unavailable"]
    assert "told of 8 successes, although not one attempt was answered." in followed.measured[0].sentences[0]


def test_a_bulkhead_without_a_place() -> None:
    """Behind two calls that hang the third waits for a place and is turned away; the fourth waits in turn."""
    order = scenario("bulkhead, breaker", "hang", workload__0__at="[0, 0.1, 0.2, 0.3]")
    assert way(follow(order, 2))[0] == (0.1, "bulkhead", "in", "admitted")
    assert way(follow(order, 3)) == [
        (0.2, "bulkhead", "in", "waits"),
        (1.2, "bulkhead", "in", "turned away"),
        (1.2, "bulkhead", "out", "BulkheadFullError"),
        (1.2, "caller", "out", "BulkheadFullError"),
    ]
    assert follow(order, 4).steps[0].sentence.endswith("all 2 places are taken. It is turned away.")


def test_a_place_that_comes_free() -> None:
    """A call that waited in the queue goes on when a place comes free."""
    order = scenario("bulkhead", "slow", workload__0__at="[0, 0.1, 2.5]")
    assert [step.sentence for step in follow(order, 3).steps][:2] == [
        "The call comes to bulkhead: all 2 places are taken, so it waits in the queue.",
        "After 0.5 s it gets a place of bulkhead.",
    ]


def test_a_call_that_never_ends() -> None:
    """Without a limit a call that hangs is still at the service when the run ends, and nobody has counted it."""
    followed = follow(scenario("retry, breaker", "hang"))
    last = followed.steps[-1]
    assert (last.layer, last.direction, last.at) == ("parts_availability", "here", followed.trace.until)
    assert "still in parts_availability" in last.sentence
    assert followed.told("breaker") == [""] * 8
    assert followed.measured[0].in_flight == 8


def test_a_caller_who_gives_up() -> None:
    """A cancellation that no layer turns into an error is the caller's own."""
    assert [step[1:] for step in way(follow(scenario("breaker", "hang", workload__0__patience="1")))][2:] == [
        ("caller", "here", "gives up"),
        ("parts_availability", "out", "cancelled"),
        ("breaker", "out", "counts nothing"),
        ("caller", "out", "CancelledError"),
    ]


def test_a_probe() -> None:
    """After the cooldown the next call is let in as the probe, and its success closes the breaker."""
    healed = scenario("breaker", "error", middleware__breaker__cooldown_period="35").with_values(
        {"services.parts_availability.faults": "[{from: 0, to: 25, fault: error}]"}
    )
    steps = follow(healed, 7).steps
    assert steps[0].what == "probe"
    assert "counts a success, and is closed now" in steps[-2].sentence


def test_a_late_failure() -> None:
    """A failure of a call that was let in before the breaker opened is heard of, and said to change nothing."""
    order = scenario(
        "breaker, timeout", "hang", workload__0__at="[0, 0.5, 1]", middleware__breaker__failure_threshold="2"
    )
    assert "hears of a failure; it is open already" in follow(order, 3).steps[-2].sentence


def test_a_stream() -> None:
    """A stream that breaks off is followed to its end, with the chunks that came before."""
    steps = follow(scenario("breaker", "mid_stream_death", workload__0__mode="stream")).steps
    assert " s and 1 chunk: DependencyError (" in steps[2].sentence
    assert [step.what for step in steps] == [
        "admitted",
        "reached",
        "fails",
        "counts a failure",
        "DependencyError",
    ]


@pytest.mark.parametrize(
    ("settings", "counts"),
    [
        ("{_type: guarded_circuit_breaker, failure_threshold: 3}", "breaker counts a failure, 1 of the 3 in a row"),
        ("{_type: window_circuit_breaker, failure_threshold: 3, interval: 60}", "breaker counts a failure. It passes"),
    ],
)
def test_the_other_breakers(settings: str, counts: str) -> None:
    """A guarded breaker and one over time are followed as well, each by what it says of itself."""
    followed = follow(scenario("breaker", "error", middleware__breaker=settings))
    assert followed.steps[0].sentence == "The call comes to breaker, which is closed and admits it."
    assert followed.steps[3].sentence.startswith(counts)
    assert followed.measured[0].opened_at == pytest.approx(20.05)


def test_a_budget_of_retries() -> None:
    """A budget in the list says when it gives a token and when it has none left."""
    order = scenario(
        "budget, retry", "error", middleware__budget="{_type: retry_budget, ratio: 0.001, initial_tokens: 1}",
        middleware__retry__budget="budget",
    )  # fmt: skip
    said = [step.sentence for step in follow(order).steps if step.layer == "budget" and step.direction == "here"]
    assert said == ["budget gives a token for another attempt.", "budget has no token left for another attempt."]


def test_what_left_the_adapter() -> None:
    """What is seen just outside the adapter is kept by call: here a text in the place of an exception."""
    swallowed = scenario("breaker", "error", functions__parts_availability__adapter="swallowing")
    left = follow(swallowed).left
    assert {ending.kind for ending in left.values()} == {"success"}
    assert left[8].text.startswith("Service error: ")


def test_a_call_that_there_is_not() -> None:
    """A call beyond the last is refused in a sentence."""
    with pytest.raises(LabkitError, match=r"no call 9 to follow; the scenario makes 8, the first is 1"):
        follow(scenario("retry", "error"), 9)


@given(
    st.permutations(LAYERS).flatmap(lambda all_: st.integers(0, 5).map(lambda many: all_[:many])),
    st.sampled_from(FAULTS),
    st.integers(1, 8),
    st.sampled_from(["[0, 10, 20, 30, 40, 50, 60, 70]", "[0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5]"]),
)
def test_whoever_looks_on_changes_nothing(order: list[str], fault: str, call: int, at: str) -> None:
    """In any order the trace is the one of a run unwatched, and the steps are in order, one place at a time."""
    made = scenario(", ".join(order), fault, workload__0__at=at)
    followed = follow(made, call)
    assert followed.trace.to_dict() == run_scenario(made).to_dict()
    steps = followed.steps
    assert [step.at for step in steps] == sorted(step.at for step in steps)
    assert {step.layer for step in steps} <= {*order, "parts_availability", "caller"}
    assert all(step.sentence.endswith(".") and len(step.sentence) < 160 for step in steps)
    number = call - 1
    attempts = sum(step.what == "reached" for step in steps)
    assert attempts == sum(one == number for one in followed.trace.attempts.call)
    ended = followed.trace.calls.end[number]
    assert (steps[-1].layer == "caller") is (ended == ended)
    for before, after in pairwise(steps):
        assert abs(before.place - after.place) <= 1 or "limit runs out" in (before.what, after.what)
