"""What the shells of all breakers have in common: the toolkit's read-outs, the events, the words of a rejection."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from labkit.middleware._listeners import Listeners
from labkit.middleware.base import BoundMiddleware
from labkit.policies import CircuitBreakerState
from labkit.timing import Clock, LoopClock

if TYPE_CHECKING:
    from typing import Protocol

    class BreakerConfig(Protocol):
        """The fields that every breaker has."""

        enabled: bool
        circuit_breaker_message: str | None

    class Held(Protocol):
        """What every breaker can say of a target."""

        @property
        def state(self) -> CircuitBreakerState: ...
        @property
        def failures(self) -> int: ...
        @property
        def successes(self) -> int: ...
        @property
        def changed_at(self) -> float: ...


__all__ = ["CHANGES", "BreakerEvent", "BreakerShell"]

C = TypeVar("C", bound="BreakerConfig")

CHANGES = {
    CircuitBreakerState.OPEN: "opened",
    CircuitBreakerState.HALF_OPEN: "half_opened",
    CircuitBreakerState.CLOSED: "closed",
}
"""The event of each new state."""


class BreakerEvent(NamedTuple):
    """Something that a breaker did.

    Attributes:
        kind: admitted, rejected, succeeded, failed, cancelled, opened, half_opened or closed; cancelled is every end
            that counts neither way: given up, left early, refused by a layer further in (by labkit's own breakers).
        at: the clock's seconds.
        target: whose breaker.
        state: the state after it.
        failures, successes: the counts after it.
        probe: whether it concerns a probe.
    """

    kind: str
    at: float
    target: str
    state: CircuitBreakerState
    failures: int
    successes: int
    probe: bool


class BreakerShell(BoundMiddleware, Generic[C]):
    """The base. A breaker gives `snapshot`, and says by itself what is admitted and what counts.

    Args:
        config: its fields.
        clock: whose time; asyncio's by default.
    """

    def __init__(self, config: C, clock: Clock | None) -> None:
        super().__init__()
        self._config = config
        self._clock: Clock = clock if clock is not None else LoopClock()
        self._heard: Listeners[BreakerEvent] = Listeners("breaker")

    @property
    def config(self) -> C:
        """The fields it was made with."""
        return self._config

    @property
    def enabled(self) -> bool:
        """Whether it runs at all; read once, when a chain is built."""
        return self._config.enabled

    def snapshot(self, target: str) -> Any:
        """All read-outs at once, without waiting; asking for a target does not create it. labkit's own."""
        raise NotImplementedError

    # -- read-outs, as the toolkit has them

    async def get_state(self, target: str) -> CircuitBreakerState:
        """The state as stored: OPEN reads OPEN until a call arrives after the cooldown."""
        state: CircuitBreakerState = self.snapshot(target).state
        return state

    async def get_failure_count(self, target: str) -> int:
        """The failures that count towards opening."""
        return int(self.snapshot(target).failures)

    async def get_success_count(self, target: str) -> int:
        """Consecutive successful probes towards closing."""
        return int(self.snapshot(target).successes)

    async def get_last_state_change(self, target: str) -> float:
        """When the state last changed, in the clock's seconds; 0.0 for a target that is CLOSED."""
        return float(self.snapshot(target).changed_at)

    async def is_half_open_probing(self, target: str) -> bool:
        """Whether a probe's slot is taken."""
        return bool(self.snapshot(target).probing)

    # -- events, labkit's

    def listen(self, listener: Callable[[BreakerEvent], object], *, traffic: bool = True) -> Callable[[], None]:
        """Hear of everything that the breaker does from now on; gives a function that ends it.

        A listener is called synchronously and must not wait. One that raises is logged and does not disturb the call.

        Args:
            listener: takes a `BreakerEvent`.
            traffic: False to hear of changes of state, probes and rejections alone; ordinary traffic costs nothing.
        """
        return self._heard.add(listener, traffic)

    def _tell(self, kind: str, at: float, target: str, probe: bool, ordinary: bool = False) -> None:
        held: Held = self.snapshot(target)
        self._heard.tell(BreakerEvent(kind, at, target, held.state, held.failures, held.successes, probe), ordinary)

    def _rejection_text(self, target: str) -> str:
        text = f"Circuit breaker is OPEN for '{target}'. Tool is temporarily unavailable."
        extra = self._config.circuit_breaker_message
        return f"{text} {extra}" if extra else text
