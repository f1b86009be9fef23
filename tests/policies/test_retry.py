"""The rules of trying again: how often, how long between, until when."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

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
        retryable=lambda error: isinstance(error, TimeoutError),
    )
    return "WAITING" if isinstance(one.decide(attempt, error, elapsed), Wait) else "GAVE_UP"


def test_each_decision_is_a_row() -> None:
    """The rows of a failure that the policy alone decides say what it decides, for all their guards together."""
    targets = {row.guard: row.target for row in TRANSITIONS if (row.source, row.trigger) == ("ATTEMPTING", "failure")}
    for attempt in (1, 2, 3, 4):
        for error in (TimeoutError(), ValueError()):
            for elapsed in (0.0, 4.0, 4.1):
                if not isinstance(error, TimeoutError):
                    guard = "not retryable"
                elif attempt >= 3:
                    guard = "no attempts left"
                elif elapsed > 4.0:
                    guard = "the wait would pass time_budget"
                else:
                    guard = "retryable, attempts left, wait within the budget"
                assert decided(attempt, error, elapsed) == targets[guard]
