"""Try again, but not always, not at once and not for ever. labkit's own: the toolkit has no retry middleware.

Exponential back-off with a cap and full jitter: before attempt n + 1 it waits a random time between zero and
`base_delay * factor ** (n - 1)`, at most `max_delay`. Source of the pattern: Azure Architecture Center, Retry pattern;
full jitter: "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.

Where the error says when to come back (a number in its `retry_after`, as a 429 or a 503 has it), no attempt is made
before that. `max_delay` does not shorten it: it caps what the caller makes up, and this is the dependency's own word.
With full jitter the drawn wait comes on top, so that callers who were told the same do not all come at that moment;
without jitter the longer of the two is waited. What may end it is `time_budget`: an operation that would not get its
next attempt in time is given up at once, and so is one that was told to come back after more than a day.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import NamedTuple

from labkit.errors import members
from labkit.policies._machine import Transition

__all__ = ["TRANSITIONS", "GiveUp", "RetryPolicy", "Wait"]

TRANSITIONS: tuple[Transition, ...] = (
    Transition("ATTEMPTING", "success", "", "SUCCEEDED", "the result is passed on"),
    Transition("ATTEMPTING", "failure", "retryable, attempts left, wait within the budget", "WAITING", "attempt + 1"),
    Transition("ATTEMPTING", "failure", "not retryable", "GAVE_UP", "the error is passed on"),
    Transition("ATTEMPTING", "failure", "no attempts left", "GAVE_UP", "the last error is passed on"),
    Transition("ATTEMPTING", "failure", "the wait would pass time_budget", "GAVE_UP", "the last error is passed on"),
    Transition("ATTEMPTING", "failure", "retry_after is more than a day", "GAVE_UP", "the last error is passed on"),
    Transition("ATTEMPTING", "failure", "the retry budget is used up", "GAVE_UP", "the last error is passed on"),
    Transition("ATTEMPTING", "failure", "a chunk was delivered", "GAVE_UP", "a stream is not begun twice"),
    Transition("ATTEMPTING", "cancelled", "", "GAVE_UP", "the cancellation is passed on"),
    Transition("WAITING", "wait over", "", "ATTEMPTING", "the dependency is called again"),
    Transition("WAITING", "cancelled", "", "GAVE_UP", "the cancellation is passed on"),
)


_DAY = 86_400.0


class Wait(NamedTuple):
    """Try again after so many seconds."""

    seconds: float


class GiveUp(NamedTuple):
    """Stop trying.

    Attributes:
        reason: why, in words.
    """

    reason: str


class RetryPolicy:
    """Decides what follows a failed attempt.

    Args:
        attempts: in total, the first included; above 0.
        base_delay: seconds, the ceiling of the first wait.
        factor: by which the ceiling grows with each wait, at least 1.
        max_delay: seconds, the cap on the ceiling; an error's `retry_after` is not cut by it.
        jitter: whether to draw the wait from [0, ceiling) (full jitter) or to wait the ceiling itself.
        seed: of the draws; two policies of one seed wait alike, so give replicas different ones. None: drawn from the
            system's own randomness, differently each time, in a process that was forked too.
        time_budget: seconds for one operation with its attempts and waits, or None.
        retryable: tells whether an error may be retried.

    Example:
        >>> from labkit.errors import RateLimitedError
        >>> policy = RetryPolicy(attempts=3, base_delay=1.0, jitter=False, retryable=lambda error: True)
        >>> policy.decide(1, TimeoutError(), elapsed=2.0), policy.decide(2, TimeoutError(), elapsed=5.0)
        (Wait(seconds=1.0), Wait(seconds=2.0))
        >>> policy.decide(3, TimeoutError(), elapsed=9.0)
        GiveUp(reason='all 3 attempts failed')
        >>> policy.decide(1, RateLimitedError("too many calls", 30.0), elapsed=0.0)
        Wait(seconds=30.0)
    """

    __slots__ = ("_draw", "attempts", "base_delay", "factor", "jitter", "max_delay", "retryable", "time_budget")

    def __init__(
        self,
        attempts: int = 3,
        base_delay: float = 0.1,
        factor: float = 2.0,
        max_delay: float = 10.0,
        *,
        jitter: bool = True,
        seed: int | None = None,
        time_budget: float | None = None,
        retryable: Callable[[Exception], bool],
    ) -> None:
        self.attempts = attempts
        self.base_delay = base_delay
        self.factor = factor
        self.max_delay = max_delay
        self.jitter = jitter
        self.time_budget = time_budget
        self.retryable = retryable
        self.draw_from(seed)

    def draw_from(self, seed: int | None) -> None:
        """Begin the draws anew, from a seed or from the system's own randomness."""
        self._draw = random.SystemRandom().random if seed is None else random.Random(seed).random

    def ceiling(self, attempt: int) -> float:
        """The longest wait after this attempt (1 is the first), in seconds."""
        try:
            return min(self.max_delay, self.base_delay * self.factor ** (attempt - 1))
        except OverflowError:
            return self.max_delay if self.base_delay > 0.0 else 0.0

    def decide(self, attempt: int, error: Exception, elapsed: float) -> Wait | GiveUp:
        """What to do after attempt number `attempt` (1 is the first) failed, `elapsed` seconds into the operation.

        Args:
            attempt: which one failed; 1 is the first.
            error: what it raised.
            elapsed: seconds since the operation began.
        """
        if not self.retryable(error):
            return GiveUp(f"{type(error).__name__} is not retried")
        if attempt >= self.attempts:
            return GiveUp("the only attempt failed" if self.attempts == 1 else f"all {self.attempts} attempts failed")
        earliest = _not_before(error)
        if earliest > _DAY:
            return GiveUp("the dependency asks not to be called for more than a day")
        wait = self.ceiling(attempt)
        wait = earliest + wait * self._draw() if self.jitter else max(earliest, wait)
        if self.time_budget is not None and elapsed + wait > self.time_budget:
            return GiveUp(f"the next wait would pass the time budget of {self.time_budget:g} s")
        return Wait(wait)


def _not_before(error: BaseException) -> float:
    """Seconds before which the error asks for no further attempt; 0.0 where it says nothing, or nothing sensible.

    A group is what its members are: the one that asks for most counts.
    """
    if isinstance(error, BaseExceptionGroup):
        return max(map(_not_before, members(error)))
    try:
        seconds = getattr(error, "retry_after", None)
        if not isinstance(seconds, (int, float)) or isinstance(seconds, bool) or not seconds > 0:
            return 0.0
        return float(seconds)
    except OverflowError:
        return math.inf
    except Exception:  # a property of somebody else's that fails must not hide the error
        return 0.0
