"""The words that every policy's machine is told in."""

from __future__ import annotations

from enum import Enum, StrEnum
from typing import NamedTuple, Protocol, TypeVar

__all__ = ["BreakerPolicy", "CircuitBreakerState", "GenerationPermit", "Outcome", "Permit", "Rejection", "Transition"]


class CircuitBreakerState(StrEnum):
    """The three states, under the toolkit's names."""

    CLOSED = "CLOSED"
    OPEN = "OPEN"
    HALF_OPEN = "HALF_OPEN"


class Outcome(Enum):
    """How an admitted call ended, as a breaker sees it. CANCELLED is any end that says nothing about the dependency."""

    SUCCESS = "success"
    FAILURE = "failure"
    CANCELLED = "cancelled"


class Permit(Enum):
    """Leave to call the dependency: as ordinary traffic, or as a probe that decides whether it has recovered.

    Attributes:
        kind: itself; so that it can be asked like a `GenerationPermit`.
    """

    kind: Permit

    ORDINARY = "ordinary"
    PROBE = "probe"

    def __init__(self, _: str) -> None:
        self.kind = self  # kept, not computed: a shell asks it of every call that somebody listens to


class GenerationPermit(NamedTuple):
    """A permit that knows when it was given: an outcome that comes with an earlier generation's permit is dropped.

    Attributes:
        kind: as ordinary traffic or as a probe.
        generation: the period of the machine in which it was given; the machine counts one up at each change of state.
    """

    kind: Permit
    generation: int


class Rejection(NamedTuple):
    """No leave to call.

    Attributes:
        target: whom the call was meant for.
        retry_after: seconds until a call may be admitted as a probe, or None when that cannot be known.
    """

    target: str
    retry_after: float | None


class Transition(NamedTuple):
    """One row of a machine's table.

    Attributes:
        source: the state before.
        trigger: what happened.
        guard: the condition under which this row applies, "" for always.
        target: the state after; the same as `source` for a row that only counts.
        effect: what else changes.
        fault: the toolkit fault (by its id) without which this row could not be reached, or None for a sound row.
    """

    source: str
    trigger: str
    guard: str
    target: str
    effect: str
    fault: str | None = None


P = TypeVar("P", Permit, GenerationPermit)


class BreakerPolicy(Protocol[P]):
    """What every breaker's machine can be asked, and told. `now` and `at` are the clock's seconds.

    Asking changes nothing. `admit` and `settle` are what really happens; the other methods say beforehand what they
    would do.
    """

    @property
    def ordinary(self) -> P:
        """The permit of a call that is admitted as ordinary traffic now."""
        ...

    def admit(self, target: str, now: float) -> P | Rejection:
        """Decide whether a call may go to the target now."""
        ...

    def settle(self, target: str, permit: P, outcome: Outcome, now: float) -> None:
        """Account for the end of an admitted call."""
        ...

    def state(self, target: str) -> CircuitBreakerState:
        """The state as stored."""
        ...

    def would_reject(self, target: str, at: float) -> bool:
        """Whether a call that arrived at that time would be rejected, if nothing happens until then."""
        ...

    def at_rest(self, target: str) -> bool:
        """Whether a call would be admitted as ordinary traffic and its success would change nothing."""
        ...

    def timer_end(self, target: str) -> float:
        """When the cooldown of an OPEN target ends, give or take a rounding; infinite where no timer runs."""
        ...
