"""What a `BreakerSession` is made of: calls in flight, steps, the configurations of the breakers that it takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from labkit.middleware import BreakerEvent
from labkit.policies import CircuitBreakerState

if TYPE_CHECKING:
    from labkit.config import (
        CircuitBreakerMiddlewareConfig,
        GuardedCircuitBreakerMiddlewareConfig,
        WindowCircuitBreakerMiddlewareConfig,
    )

    BreakerConfig: TypeAlias = (
        CircuitBreakerMiddlewareConfig | GuardedCircuitBreakerMiddlewareConfig | WindowCircuitBreakerMiddlewareConfig
    )

__all__ = ["Flight", "Step"]


@dataclass(frozen=True, slots=True)
class Flight:
    """A call that was admitted and has not ended.

    Attributes:
        id: its name.
        target: whom it called.
        probe: whether it was admitted as a probe.
        started_at: seconds.
        period: how often the target's breaker had changed its state by then.
    """

    id: str
    target: str
    probe: bool
    started_at: float
    period: int = 0


@dataclass(frozen=True, slots=True)
class Step:
    """What one step did.

    Attributes:
        at: seconds, after the step.
        op: "call", "finish" or "advance".
        id, target: which call, and whom it is for (for "advance": None, and the session's target).
        outcome: "ok", "error" or "cancel" for "finish", else None.
        admitted: for "call", whether it was let through; else None.
        error: the name of the exception that the caller got, or None.
        state, failures, successes, probing: of the target, after the step.
        retry_after: seconds until a probe may be admitted, where the breaker knows; else None.
        events: what the breaker told its listeners.
        sentence: what happened and why.
        fault: the toolkit's fault (by its id) that showed itself, or None.
        late: for "finish", that the call was admitted in an earlier period, in words; else "".
        seconds: for "advance", how many passed; else 0.
        cooldown: how long OPEN lasts now, in seconds.
        probes: how many hold a probe's slot.
        calls: how many outcomes the window holds; 0 where none counts them.
    """

    at: float
    op: str
    id: str | None
    target: str
    outcome: str | None
    admitted: bool | None
    error: str | None
    state: CircuitBreakerState
    failures: int
    successes: int
    probing: bool
    retry_after: float | None
    events: tuple[BreakerEvent, ...]
    sentence: str
    fault: str | None = None
    late: str = ""
    seconds: float = 0.0
    cooldown: float = 0.0
    probes: int = 0
    calls: int = 0
