"""The words that every policy's machine is told in."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

__all__ = ["GenerationPermit", "Outcome", "Permit", "Rejection", "Transition"]


class Outcome(Enum):
    """How an admitted call ended, as a breaker sees it. CANCELLED is any end that says nothing about the dependency."""

    SUCCESS = "success"
    FAILURE = "failure"
    CANCELLED = "cancelled"


class Permit(Enum):
    """Leave to call the dependency: as ordinary traffic, or as a probe that decides whether it has recovered."""

    ORDINARY = "ordinary"
    PROBE = "probe"


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
