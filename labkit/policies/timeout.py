"""A limit on how long an operation may take: a single call with all that is inside it, a stream to its last chunk."""

from __future__ import annotations

from labkit.policies._machine import Transition

__all__ = ["TRANSITIONS", "TimeoutPolicy"]

TRANSITIONS: tuple[Transition, ...] = (
    Transition("RUNNING", "result", "before the deadline", "FINISHED", "passed on"),
    Transition("RUNNING", "error", "before the deadline", "FINISHED", "passed on, as it is"),
    Transition("RUNNING", "deadline", "", "EXPIRED", "what is inside is cancelled, TimeoutError is raised"),
    Transition("RUNNING", "cancelled", "", "FINISHED", "passed on: it is not this limit's doing"),
    Transition("RUNNING", "next pull", "after the deadline", "EXPIRED", "the stream is closed, TimeoutError is raised"),
)


class TimeoutPolicy:
    """The rule of the limit.

    Args:
        timeout: seconds, above 0.
        message: words appended to the error's, or None.

    Example:
        >>> policy = TimeoutPolicy(2.0)
        >>> policy.deadline(now=10.0)
        12.0
        >>> policy.expired(deadline=12.0, now=12.0)
        True
        >>> policy.message
        'Execution exceeded the configured timeout of 2.0s.'
    """

    __slots__ = ("message", "timeout")

    def __init__(self, timeout: float, message: str | None = None) -> None:
        self.timeout = timeout
        text = f"Execution exceeded the configured timeout of {timeout}s."
        self.message = f"{text} {message}" if message else text

    def deadline(self, now: float) -> float:
        """The time at which an operation that begins now must be over."""
        return now + self.timeout

    @staticmethod
    def expired(deadline: float, now: float) -> bool:
        """Whether the time is up."""
        return now >= deadline
