"""Say plainly that something is unavailable, or ask an approved alternative: never invent an answer. labkit's own."""

from __future__ import annotations

from enum import Enum

from labkit.errors import is_wholly
from labkit.policies._machine import Transition

__all__ = ["TRANSITIONS", "FallbackDecision", "FallbackPolicy"]

TRANSITIONS: tuple[Transition, ...] = (
    Transition("PRIMARY", "success", "", "ANSWERED", "the result is passed on"),
    Transition("PRIMARY", "failure", "named, no alternative", "UNAVAILABLE", "an explicit outcome is returned"),
    Transition("PRIMARY", "failure", "named, an approved alternative", "ALTERNATIVE", "the alternative is called"),
    Transition("PRIMARY", "failure", "not named", "FAILED", "the error is passed on"),
    Transition("PRIMARY", "failure", "a chunk was delivered", "FAILED", "a half answer must not look whole"),
    Transition("PRIMARY", "cancelled", "", "FAILED", "the cancellation is passed on"),
    Transition("ALTERNATIVE", "success", "", "ANSWERED", "the result is passed on"),
    Transition("ALTERNATIVE", "failure", "named", "UNAVAILABLE", "an explicit outcome is returned"),
    Transition("ALTERNATIVE", "failure", "not named", "FAILED", "the error is passed on"),
)


class FallbackDecision(Enum):
    """What to do about an error."""

    PASS_ON = "pass on"
    SAY_UNAVAILABLE = "say unavailable"
    ASK_ALTERNATIVE = "ask the alternative"


class FallbackPolicy:
    """Decides what follows an error.

    Args:
        errors: the classes that are answered; others are passed on. A group is answered where each of its members is.
        has_alternative: whether there is an approved alternative.

    Example:
        >>> policy = FallbackPolicy((TimeoutError,), has_alternative=False)
        >>> policy.decide(TimeoutError()), policy.decide(KeyError())
        (<FallbackDecision.SAY_UNAVAILABLE: 'say unavailable'>, <FallbackDecision.PASS_ON: 'pass on'>)
    """

    __slots__ = ("errors", "has_alternative")

    def __init__(self, errors: tuple[type[Exception], ...], *, has_alternative: bool) -> None:
        self.errors = errors
        self.has_alternative = has_alternative

    def decide(self, error: Exception, *, from_alternative: bool = False) -> FallbackDecision:
        """What to do about an error of the primary, or of the alternative when it has been asked."""
        if not is_wholly(error, self.errors):
            return FallbackDecision.PASS_ON
        if self.has_alternative and not from_alternative:
            return FallbackDecision.ASK_ALTERNATIVE
        return FallbackDecision.SAY_UNAVAILABLE
