"""The rules of trying again: how often, how long between, until when."""

from __future__ import annotations

import math
import random
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.errors import CircuitBreakerOpenError, OverloadedError, RateLimitedError
from labkit.policies import GiveUp, RetryPolicy, Wait
from labkit.policies.retry import TRANSITIONS


def policy(**fields: Any) -> RetryPolicy:
    """A policy that retries everything unless told otherwise."""
    return RetryPolicy(**{"retryable": lambda error: True, **fields})


def waits(of: RetryPolicy, count: int) -> list[float]:
    """What it waits after the first so many attempts."""
    found = []
    for attempt in range(1, count + 1):
        decision = of.decide(attempt, TimeoutError(), elapsed=0.0)
        assert isinstance(decision, Wait)
        found.append(decision.seconds)
    return found


def test_waits_grow_to_the_cap() -> None:
    """Without jitter the waits are base, base times factor, and so on, and none is above `max_delay`."""
    assert waits(policy(attempts=9, base_delay=0.5, factor=3.0, max_delay=20.0, jitter=False), 6) == [
        *(0.5, 1.5, 4.5, 13.5),
        *(20.0, 20.0),
    ]


def test_a_cap_below_the_base_counts() -> None:
    """The cap holds for the first wait too, and a factor of 1 waits alike each time."""
    assert waits(policy(attempts=9, base_delay=5.0, max_delay=2.0, jitter=False), 3) == [2.0, 2.0, 2.0]
    assert waits(policy(attempts=9, base_delay=0.2, factor=1.0, jitter=False), 3) == [0.2, 0.2, 0.2]


def test_many_attempts_do_not_overflow() -> None:
    """The power of a late attempt may leave a float's range; the wait is then the cap, or none if there was none."""
    assert policy(attempts=10**9, factor=10.0, max_delay=7.0, jitter=False).ceiling(10**6) == 7.0
    assert policy(attempts=10**9, base_delay=0.0, factor=10.0, jitter=False).ceiling(10**6) == 0.0


@given(st.integers(), st.floats(0.0, 100.0), st.floats(1.0, 10.0), st.floats(0.0, 100.0), st.integers(1, 60))
def test_full_jitter_stays_below_the_ceiling(seed: int, base: float, factor: float, cap: float, attempt: int) -> None:
    """A drawn wait is at least zero and at most the ceiling, whatever the numbers."""
    one = policy(attempts=100, base_delay=base, factor=factor, max_delay=cap, seed=seed)
    decision = one.decide(attempt, TimeoutError(), 0.0)
    assert isinstance(decision, Wait)
    assert 0.0 <= decision.seconds <= one.ceiling(attempt) <= cap


def test_full_jitter_fills_its_range() -> None:
    """The waits after a first attempt are spread evenly: the quarters of [0, 8) each get about a quarter of 2,000."""
    one = policy(base_delay=8.0, seed=11)
    counts = [0, 0, 0, 0]
    for _ in range(2000):
        decision = one.decide(1, TimeoutError(), 0.0)
        assert isinstance(decision, Wait)
        counts[int(decision.seconds // 2.0)] += 1
    assert all(430 <= count <= 570 for count in counts), counts


def test_a_seed_says_every_wait() -> None:
    """Two policies of one seed wait alike to the bit, two of different seeds do not, and nothing else is drawn from."""
    fields = {"attempts": 20, "base_delay": 1.0, "max_delay": 60.0}
    before = random.getstate()
    assert waits(policy(seed=5, **fields), 10) == waits(policy(seed=5, **fields), 10)
    assert waits(policy(seed=5, **fields), 10) != waits(policy(seed=6, **fields), 10)
    assert random.getstate() == before


def test_attempts_are_counted_in_total() -> None:
    """`attempts` includes the first; the last failure gives up, and the reason says how many there were."""
    one = policy(attempts=3, jitter=False)
    assert [type(one.decide(attempt, TimeoutError(), 0.0)) for attempt in (1, 2, 3)] == [Wait, Wait, GiveUp]
    assert one.decide(3, TimeoutError(), 0.0) == GiveUp("all 3 attempts failed")
    assert policy(attempts=1).decide(1, TimeoutError(), 0.0) == GiveUp("the only attempt failed")


def test_a_wait_that_would_pass_the_budget_is_not_begun() -> None:
    """It waits if it would end at the budget, and gives up if it would end after it."""
    one = policy(attempts=9, base_delay=2.0, jitter=False, time_budget=10.0)
    assert one.decide(1, TimeoutError(), elapsed=8.0) == Wait(2.0)
    assert one.decide(1, TimeoutError(), elapsed=8.001) == GiveUp("the next wait would pass the time budget of 10 s")


def test_what_is_not_retryable_is_given_up_at_once() -> None:
    """The question whether to retry comes first, even with attempts and budget left."""
    one = policy(attempts=9, retryable=lambda error: isinstance(error, ConnectionError))
    assert isinstance(one.decide(1, ConnectionResetError(), 0.0), Wait)
    assert one.decide(1, ValueError(), 0.0) == GiveUp("ValueError is not retried")


def test_without_a_seed_no_two_draw_alike() -> None:
    """Policies without a seed draw from the system's own randomness: each waits otherwise than all others."""
    fields = {"attempts": 20, "base_delay": 1.0, "max_delay": 60.0}
    assert len({tuple(waits(policy(**fields), 5)) for _ in range(20)}) == 20


# -- what the error says -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [RateLimitedError("too many", 30.0), OverloadedError("full", 30), TimeoutError()])
def test_no_attempt_before_the_error_says(error: Exception) -> None:
    """A 429 and a 503 say when; without jitter the longer of the two waits is waited, and no cap shortens it."""
    one = policy(attempts=9, base_delay=1.0, factor=10.0, max_delay=5.0, jitter=False)
    longer = policy(attempts=9, base_delay=1.0, factor=10.0, max_delay=100.0, jitter=False)
    told = getattr(error, "retry_after", None) is not None
    assert waits(one, 1) == [1.0]
    assert [one.decide(attempt, error, 0.0) for attempt in (1, 2)] == [Wait(30.0)] * 2 if told else [Wait(1), Wait(5)]
    assert longer.decide(3, error, 0.0) == Wait(100.0)


@given(st.integers(), st.floats(0.0, 100.0), st.floats(0.0, 80_000.0), st.integers(1, 9))
def test_jitter_comes_on_top_of_it(seed: int, base: float, after: float, attempt: int) -> None:
    """With full jitter the wait is what the error says and a draw below the ceiling: who is told alike spreads."""
    fields = {"attempts": 10, "base_delay": base, "seed": seed}
    told = policy(**fields).decide(attempt, RateLimitedError("too many", after), 0.0)
    untold = policy(**fields).decide(attempt, RateLimitedError("too many"), 0.0)
    assert isinstance(told, Wait)
    assert isinstance(untold, Wait)
    assert told.seconds == after + untold.seconds >= after


def test_a_time_budget_that_does_not_allow_it_ends_it_at_once() -> None:
    """Told to come back after the operation's time, it gives up now instead of waiting for nothing."""
    one = policy(attempts=9, base_delay=1.0, jitter=False, time_budget=40.0)
    late = RateLimitedError("too many", 30.0)
    assert one.decide(1, late, elapsed=10.0) == Wait(30.0)
    assert one.decide(1, late, elapsed=10.5) == GiveUp("the next wait would pass the time budget of 40 s")


@pytest.mark.parametrize(
    "value",
    [-1.0, -math.inf, math.nan, 0, 0.0, True, "30", b"30", "", [], (1,), {}, object(), 1j, Fraction(30), -(10**400)],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_number_of_seconds_says_nothing(value: Any) -> None:
    """A retry_after that is negative, not a number or of another type changes no wait."""
    one = policy(attempts=9, base_delay=1.0, jitter=False)
    assert one.decide(1, RateLimitedError("too many", value), 0.0) == Wait(1.0)


@pytest.mark.parametrize("value", [86_400.5, 1e300, math.inf, 10**400], ids=["over", "huge", "inf", "400 digits"])
def test_more_than_a_day_is_not_waited_for(value: float) -> None:
    """A day is waited for if nothing forbids it; more than that, to infinity, is given up and nothing is drawn."""
    one, other = policy(attempts=9, seed=3), policy(attempts=9, seed=3)
    late = RateLimitedError("too many", value)
    assert one.decide(1, late, 0.0) == GiveUp("the dependency asks not to be called for more than a day")
    assert waits(one, 3) == waits(other, 3)
    assert policy(jitter=False).decide(1, RateLimitedError("too many", 86_400), 0.0) == Wait(86_400.0)


def test_an_error_that_cannot_say_hides_nothing() -> None:
    """An error whose property raises is retried as one that says nothing."""

    class Broken(Exception):
        @property
        def retry_after(self) -> float:
            raise ZeroDivisionError

    assert policy(base_delay=1.0, jitter=False).decide(1, Broken(), 0.0) == Wait(1.0)


def test_a_group_says_what_its_members_say() -> None:
    """Of a group, nested as deep as one likes, the member that asks for most counts."""
    group: ExceptionGroup[Exception] = ExceptionGroup("", [OverloadedError("full", 7.0), ValueError()])
    for _ in range(5000):
        group = ExceptionGroup("", [group, RateLimitedError("too many", 3.0)])
    assert policy(jitter=False).decide(1, group, 0.0) == Wait(7.0)
    while isinstance(group, ExceptionGroup):  # taken apart from outside: Python's own way inward is too deep
        group = group.exceptions[0]  # type: ignore[assignment]


def test_an_open_breaker_is_asked_no_more_whatever_it_says() -> None:
    """A rejection has a retry_after too, and what is not retryable is not waited for."""
    one = policy(attempts=9, retryable=lambda error: not isinstance(error, CircuitBreakerOpenError))
    rejection = CircuitBreakerOpenError("open", "parts", 3.0)
    assert one.decide(1, rejection, 0.0) == GiveUp("CircuitBreakerOpenError is not retried")


def test_nothing_is_drawn_for_an_error_that_is_given_up() -> None:
    """A refusal does not move the generator, so that the waits of others stay what their seed says."""
    fields = {"attempts": 20, "seed": 3, "retryable": lambda error: isinstance(error, TimeoutError)}
    disturbed = policy(**fields)
    disturbed.decide(1, ValueError(), 0.0)
    disturbed.decide(20, TimeoutError(), 0.0)
    assert waits(disturbed, 5) == waits(policy(**fields), 5)


def decided(attempt: int, error: Exception, elapsed: float) -> str:
    """The row's target that a decision means."""
    one = policy(
        attempts=3,
        base_delay=1.0,
        factor=1.0,
        jitter=False,
        time_budget=5.0,
        retryable=lambda error: isinstance(error, (TimeoutError, RateLimitedError)),
    )
    return "WAITING" if isinstance(one.decide(attempt, error, elapsed), Wait) else "GAVE_UP"


def test_each_decision_is_a_row() -> None:
    """The rows of a failure that the policy alone decides say what it decides, for all their guards together."""
    targets = {row.guard: row.target for row in TRANSITIONS if (row.source, row.trigger) == ("ATTEMPTING", "failure")}
    for attempt in (1, 2, 3, 4):
        for error in (TimeoutError(), ValueError(), RateLimitedError("", 1e6)):
            for elapsed in (0.0, 4.0, 4.1):
                if isinstance(error, ValueError):
                    guard = "not retryable"
                elif attempt >= 3:
                    guard = "no attempts left"
                elif isinstance(error, RateLimitedError):
                    guard = "retry_after is more than a day"
                elif elapsed > 4.0:
                    guard = "the wait would pass time_budget"
                else:
                    guard = "retryable, attempts left, wait within the budget"
                assert decided(attempt, error, elapsed) == targets[guard]
