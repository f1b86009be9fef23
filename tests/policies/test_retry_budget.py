"""The retry budget: what is earned, what is spent, and what can never be exceeded."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.policies import RetryBudgetPolicy
from labkit.policies.retry_budget import TRANSITIONS

RATIOS = st.integers(1, 1000).map(lambda thousandths: thousandths / 1000)
STEPS = st.lists(st.sampled_from(["first attempt", "retry"]), max_size=200)


def test_it_starts_full() -> None:
    """A target that was never heard of has all the tokens of a bucket."""
    budget = RetryBudgetPolicy(ratio=0.1, max_tokens=3)
    assert [budget.spend("t") for _ in range(5)] == [True, True, True, False, False]


def test_it_may_start_with_less() -> None:
    """`initial_tokens` is what there is at first; `max_tokens` is still what can be saved up."""
    budget = RetryBudgetPolicy(ratio=1.0, max_tokens=3, initial_tokens=1)
    assert [budget.spend("t"), budget.spend("t")] == [True, False]
    for _ in range(9):
        budget.earn("t")
    assert budget.snapshot("t").tokens == 3.0


def test_ten_tenths_are_one() -> None:
    """Nine first attempts at a tenth each allow no retry and ten allow one: nothing is lost to rounding."""
    budget = RetryBudgetPolicy(ratio=0.1, max_tokens=10, initial_tokens=0)
    for _ in range(9):
        budget.earn("t")
    assert not budget.spend("t")
    budget.earn("t")
    assert budget.spend("t")
    assert budget.snapshot("t").tokens == 0.0


def test_targets_have_budgets_of_their_own() -> None:
    """What one target has spent no other lacks."""
    budget = RetryBudgetPolicy(max_tokens=1)
    assert budget.spend("parts")
    assert not budget.spend("parts")
    assert budget.spend("documents")


@pytest.mark.parametrize("initial", [None, 0, 2])
def test_a_bucket_like_a_fresh_one_takes_no_memory(initial: float | None) -> None:
    """A target whose bucket is as it was at first is not kept, and reading creates none."""
    budget = RetryBudgetPolicy(ratio=1.0, max_tokens=2, initial_tokens=initial)
    budget.snapshot("t")
    assert budget.entries == {}
    budget.earn("t")
    if budget.spend("t"):
        budget.earn("t")
        budget.spend("t")
    fresh = budget.snapshot("other").tokens
    assert ("t" in budget.entries) is (budget.snapshot("t").tokens != fresh)


@pytest.mark.parametrize("initial", [None, 0.5])
def test_names_that_are_used_once_do_not_pile_up(initial: float | None) -> None:
    """Of a hundred thousand targets the budget keeps ten thousand, the last ones, whether they earned or spent."""
    budget = RetryBudgetPolicy(initial_tokens=initial)
    for number in range(100_000):
        budget.earn(f"target {number}")
        budget.spend(f"target {number}")
    assert list(budget.entries) == [f"target {number}" for number in range(90_000, 100_000)]


@given(
    st.lists(st.tuples(st.sampled_from("abcd"), st.booleans()), max_size=80),
    st.sampled_from([None, 0, 1]),
    st.integers(1, 4),
)
def test_the_least_recently_used_is_forgotten(
    steps: list[tuple[str, bool]], initial: float | None, max_targets: int
) -> None:
    """As long as no more targets are used than are kept, nothing is forgotten; of more, the last ones never are."""
    whole = RetryBudgetPolicy(0.5, 2, initial)
    bounded = RetryBudgetPolicy(0.5, 2, initial, max_targets=max_targets)
    recent: list[str] = []
    left: dict[str, float] = {}
    for target, retry in steps:
        if retry:
            whole.spend(target)
            if not bounded.spend(target):
                continue
        else:
            whole.earn(target)
            bounded.earn(target)
        recent = [target, *(one for one in recent if one != target)]
        left[target] = bounded.snapshot(target).tokens
        assert len(bounded.entries) <= max_targets
        assert all(bounded.snapshot(one).tokens == left[one] for one in recent[:max_targets])
        if len(recent) <= max_targets:
            assert bounded.entries == whole.entries


@given(ratio=RATIOS, cap=st.integers(1, 5), share=st.floats(0, 1), steps=STEPS)
def test_retries_are_a_share_of_requests(ratio: float, cap: int, share: float, steps: list[str]) -> None:
    """In any stretch of any history the retries are at most the cap and `ratio` times the first attempts."""
    budget = RetryBudgetPolicy(ratio, cap, round(cap * share, 3))
    history = []
    for step in steps:
        if step == "first attempt":
            budget.earn("t")
            history.append(Fraction(-round(ratio * 1000), 1000))
        else:
            history.append(Fraction(int(budget.spend("t"))))
    worst = run = Fraction(0)
    for change in history:  # the largest sum of any stretch
        run = max(Fraction(0), run + change)
        worst = max(worst, run)
    assert worst <= cap


GUARDS: dict[str, Callable[[Fraction, Fraction], bool]] = {
    "": lambda tokens, ratio: True,
    "tokens >= 2": lambda tokens, ratio: tokens >= 2,
    "tokens < 2": lambda tokens, ratio: tokens < 2,
    "tokens + ratio < 1": lambda tokens, ratio: tokens + ratio < 1,
    "tokens + ratio >= 1": lambda tokens, ratio: tokens + ratio >= 1,
}
EFFECTS: dict[str, Callable[[Fraction, Fraction, int], Fraction]] = {
    "tokens + ratio, at most max_tokens": lambda tokens, ratio, cap: min(Fraction(cap), tokens + ratio),
    "allowed, tokens - 1": lambda tokens, ratio, cap: tokens - 1,
    "refused": lambda tokens, ratio, cap: tokens,
}


def play(ratio: float, cap: int, steps: list[str]) -> set[tuple[str, ...]]:
    """Walk through the table beside a budget that begins empty; return the rows that were taken."""
    budget, exact, tokens = RetryBudgetPolicy(ratio, cap, 0), Fraction(round(ratio * 1000), 1000), Fraction(0)
    taken = set()
    for step in steps:
        state = "FUNDED" if tokens >= 1 else "EMPTY"
        rows = [row for row in TRANSITIONS if (row.source, row.trigger) == (state, step)]
        (row,) = (row for row in rows if GUARDS[row.guard](tokens, exact))
        allowed = budget.spend("t") if step == "retry" else budget.earn("t")
        assert allowed is {"refused": False, "allowed, tokens - 1": True}.get(row.effect)
        tokens = EFFECTS[row.effect](tokens, exact, cap)
        assert budget.snapshot("t").tokens == float(tokens)
        assert row.target == ("FUNDED" if tokens >= 1 else "EMPTY")
        taken.add(tuple(map(str, row)))
    return taken


@given(ratio=RATIOS, cap=st.integers(1, 4), steps=STEPS)
def test_every_step_is_a_row(ratio: float, cap: int, steps: list[str]) -> None:
    """Whatever is earned and spent is exactly one row of the table, with its target and effect."""
    play(ratio, cap, steps)


def test_every_row_is_a_step() -> None:
    """No row of the table is there in vain, and this file judges every text in it."""
    earn, spend = ["first attempt"], ["retry"]
    assert play(0.5, 3, spend + earn * 9 + spend * 4) == {tuple(map(str, row)) for row in TRANSITIONS}
    assert set(GUARDS) == {row.guard for row in TRANSITIONS}
    assert set(EFFECTS) == {row.effect for row in TRANSITIONS}
