"""The rules of a limit, and of what may stand in for an answer."""

from __future__ import annotations

import pytest

from labkit.policies import FallbackDecision, FallbackPolicy, TimeoutPolicy
from labkit.policies.fallback import TRANSITIONS


@pytest.mark.parametrize(
    ("timeout", "message", "text"),
    [
        (2.0, None, "Execution exceeded the configured timeout of 2.0s."),
        (2.0, "", "Execution exceeded the configured timeout of 2.0s."),
        (0.25, "Ask again later.", "Execution exceeded the configured timeout of 0.25s. Ask again later."),
        (1e-09, None, "Execution exceeded the configured timeout of 1e-09s."),
    ],
)
def test_the_text_is_the_toolkits(timeout: float, message: str | None, text: str) -> None:
    """The error's text is that of 1.9.0, with the configured words after a space."""
    assert TimeoutPolicy(timeout, message).message == text


def test_a_limit_is_reached_at_its_time() -> None:
    """It expires at the deadline itself, not before and not only after."""
    policy = TimeoutPolicy(2.0)
    end = policy.deadline(now=10.0)
    assert [policy.expired(end, now) for now in (11.999, 12.0, 13.0)] == [False, True, True]


def test_each_decision_is_a_row() -> None:
    """Named or not, with an alternative or without, from the primary or from it: the policy decides as its rows say."""
    says = {
        FallbackDecision.PASS_ON: "FAILED",
        FallbackDecision.SAY_UNAVAILABLE: "UNAVAILABLE",
        FallbackDecision.ASK_ALTERNATIVE: "ALTERNATIVE",
    }
    rows = {(row.source, row.guard): row.target for row in TRANSITIONS if row.trigger == "failure"}
    for has_alternative in (False, True):
        policy = FallbackPolicy((TimeoutError, ConnectionError), has_alternative=has_alternative)
        which = "an approved alternative" if has_alternative else "no alternative"
        for error in (TimeoutError(), ConnectionResetError()):
            assert says[policy.decide(error)] == rows["PRIMARY", f"named, {which}"]
            assert says[policy.decide(error, from_alternative=True)] == rows["ALTERNATIVE", "named"]
        for other in (ValueError(), RuntimeError()):
            assert says[policy.decide(other)] == rows["PRIMARY", "not named"]
            assert says[policy.decide(other, from_alternative=True)] == rows["ALTERNATIVE", "not named"]


def test_a_fallback_without_errors_passes_all_on() -> None:
    """An empty list of errors answers nothing."""
    assert FallbackPolicy((), has_alternative=True).decide(TimeoutError()) is FallbackDecision.PASS_ON
