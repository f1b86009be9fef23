"""A real breaker, stepped by hand in virtual time: what a learner presses in the stepper, and what a replay plays.

Nothing is modelled: each call is a task on a `VirtualClock` inside the real `CircuitBreakerMiddleware`, around a
service that waits until it is told how to end.
"""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from labkit.errors import BusinessRejection, ClockError, DependencyError
from labkit.middleware import (
    BreakerEvent,
    CircuitBreakerMiddleware,
    CircuitBreakerOpenError,
    FunctionMiddlewareChain,
    FunctionMiddlewareContext,
)
from labkit.policies import CircuitBreakerState
from labkit.timing import VirtualClock, VirtualTask

if TYPE_CHECKING:
    from labkit.config import CircuitBreakerMiddlewareConfig

__all__ = ["BreakerSession", "Flight", "Step"]

_OUTCOMES = ("ok", "error", "cancel")
_CHANGES = ("opened", "half_opened", "closed")


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


class _Call:
    __slots__ = ("error", "flight", "outcome", "reached", "release", "task")

    def __init__(self, clock: VirtualClock) -> None:
        self.release = clock.event()
        self.outcome = "ok"
        self.reached = False
        self.error: BaseException | None = None
        self.flight: Flight | None = None
        self.task: VirtualTask[None] | None = None


class BreakerSession:
    """One breaker on a clock that moves only when told.

    Args:
        config: the breaker's fields, as a configuration or a mapping; defaults where None.
        target: the function that calls are for when no other is named.

    Example:
        >>> session = BreakerSession({"failure_threshold": 1, "cooldown_period": 30.0})
        >>> _ = session.call("a")
        >>> session.finish("a", "error").sentence
        'a failed: 1 failure in a row reaches the threshold of 1, so the breaker opens; a probe may go at 30 s.'
        >>> session.call("b").admitted
        False
        >>> session.advance(30.0).state
        <CircuitBreakerState.OPEN: 'OPEN'>
        >>> session.call("c").state
        <CircuitBreakerState.HALF_OPEN: 'HALF_OPEN'>
    """

    def __init__(
        self,
        config: CircuitBreakerMiddlewareConfig | Mapping[str, Any] | None = None,
        target: str = "parts_availability",
    ) -> None:
        from labkit.config import CircuitBreakerMiddlewareConfig

        if config is None or isinstance(config, Mapping):
            fields = {key: value for key, value in (config or {}).items() if key != "_type"}
            config = CircuitBreakerMiddlewareConfig(**fields)
        self.config = config
        self.target = target
        self.history: list[Step] = []
        self._begin()

    def _begin(self) -> None:
        self._clock = VirtualClock()
        self._breaker = CircuitBreakerMiddleware(self.config, clock=self._clock)
        self._events: list[BreakerEvent] = []
        self._breaker.listen(self._events.append)
        self._chains: dict[str, Any] = {}
        self._calls: dict[str, _Call] = {}
        self._count = 0
        self._opened_at: dict[str, float] = {}
        self._periods: dict[str, int] = {}  # how often each target's state has changed
        self._probing: dict[str, bool] = {}  # whether the probe's slot was taken before the step

    @property
    def now(self) -> float:
        """Virtual seconds."""
        return self._clock.now()

    @property
    def in_flight(self) -> list[Flight]:
        """The calls that were admitted and have not ended, in the order in which they came."""
        return [call.flight for call in self._calls.values() if call.flight is not None]

    def call(self, id: str | None = None, target: str | None = None) -> Step:
        """Let a call arrive. `id` defaults to the next of c1, c2, ...

        Raises:
            ClockError: a call of this name is in flight already.
        """
        if id is None:
            self._count += 1
            while f"c{self._count}" in self._calls:
                self._count += 1
            id = f"c{self._count}"
        if id in self._calls:
            raise ClockError(f"a call '{id}' is in flight already; give another name")
        target = target or self.target
        call = _Call(self._clock)
        call.task = self._clock.start(self._run(call, target), name=id)
        self._calls[id] = call
        self._clock.settle()
        if call.reached:
            probe = any(event.kind == "admitted" and event.probe for event in self._events)
            changed = sum(event.kind in _CHANGES for event in self._events)
            call.flight = Flight(id, target, probe, self.now, self._periods.get(target, 0) + changed)
        else:
            del self._calls[id]
        return self._step("call", id, target, None, call.reached, call.error)

    def finish(self, id: str, outcome: str) -> Step:
        """End a call that is in flight: it returns ("ok"), raises ("error"), or its task is cancelled ("cancel").

        Raises:
            ClockError: no such call is in flight, or the outcome is none of the three.
        """
        if outcome not in _OUTCOMES:
            raise ClockError(f"a call ends with one of {', '.join(_OUTCOMES)}, and '{outcome}' is none of them")
        call = self._calls.pop(id, None)
        if call is None or call.flight is None or call.task is None:
            flying = ", ".join(self._calls) or "none"
            raise ClockError(f"no call '{id}' is in flight; in flight: {flying}")
        if outcome == "cancel":
            call.task.cancel()
        else:
            call.outcome = outcome
            call.release.set()
        self._clock.settle()
        return self._step("finish", id, call.flight.target, outcome, None, call.error, flight=call.flight)

    def advance(self, seconds: float) -> Step:
        """Let time pass. A probe whose `probe_timeout` runs out on the way ends with `TimeoutError`.

        Raises:
            ClockError: not a finite number of seconds, or a negative one.
        """
        self._clock.advance(seconds)
        ended = [id for id, call in self._calls.items() if call.task is not None and call.task.done()]
        error = None
        for id in ended:
            error = self._calls.pop(id).error
        return self._step("advance", ", ".join(ended) or None, self.target, None, None, error)

    def undo(self) -> Step | None:
        """Take the last step back, by playing the others again. Gives the step that is now the last, or None."""
        return self._replay(self.history[:-1])

    def reset(self) -> None:
        """Begin again, without a history."""
        self._replay([])

    def close(self) -> None:
        """End the calls that are still in flight."""
        self._clock.close()
        self._calls.clear()

    def _replay(self, steps: list[Step]) -> Step | None:
        self.close()
        self.history = []
        self._begin()
        before = 0.0
        for step in steps:
            if step.op == "call":
                self.call(step.id, step.target)
                self._count = max(self._count, _number(step.id))
            elif step.op == "finish":
                self.finish(step.id or "", step.outcome or "")
            else:
                self.advance(step.at - before)
            before = step.at
        return self.history[-1] if self.history else None

    async def _run(self, call: _Call, target: str) -> None:
        if target not in self._chains:
            chain = FunctionMiddlewareChain(middleware=[self._breaker], context=FunctionMiddlewareContext(name=target))
            self._chains[target] = chain.build_single(_service)
        try:
            await self._chains[target](call)
        except (CircuitBreakerOpenError, DependencyError, BusinessRejection, TimeoutError) as error:
            call.error = error
        except CancelledError as error:
            call.error = error
            raise

    def _step(
        self,
        op: str,
        id: str | None,
        target: str,
        outcome: str | None,
        admitted: bool | None,
        error: BaseException | None,
        flight: Flight | None = None,
    ) -> Step:
        events = tuple(self._events)
        self._events.clear()
        period = self._periods.get(target, 0)
        for event in events:
            if event.kind == "opened":
                self._opened_at[event.target] = event.at
            if event.kind in _CHANGES:
                self._periods[event.target] = self._periods.get(event.target, 0) + 1
        probes = [one for one in self.in_flight if one.probe and one.target == target and one.id != id]
        fault = _fault(op, outcome, admitted, flight, period, self._probing, probes, events)
        now = self._breaker.snapshot(target)
        retry_after = None
        if now.state is CircuitBreakerState.OPEN:
            retry_after = max(0.0, now.changed_at + self.config.cooldown_period - self.now)
        step = Step(
            at=self.now,
            op=op,
            id=id,
            target=target,
            outcome=outcome,
            admitted=admitted,
            error=type(error).__name__ if error is not None else None,
            state=now.state,
            failures=now.failures,
            successes=now.successes,
            probing=now.probing,
            retry_after=retry_after,
            events=events,
            sentence=_sentence(
                self, op, id, outcome, admitted, events, now.state, retry_after, flight is not None and flight.probe
            )
            if fault is None
            else _faulty_sentence(fault, id, outcome, probes, events, now.failures, now.state),
            fault=fault,
        )
        self._probing[target] = now.probing
        self.history.append(step)
        return step


async def _service(call: _Call) -> str:
    call.reached = True
    await call.release.wait()
    if call.outcome == "error":
        raise DependencyError("the dependency failed")
    return "ok"


def _number(id: str | None) -> int:
    return int(id[1:]) if id and id[0] == "c" and id[1:].isdigit() else 0


def _plural(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def _failures(count: int) -> str:
    return f"{_plural(count, 'failure')} in a row"


def _fault(
    op: str,
    outcome: str | None,
    admitted: bool | None,
    flight: Flight | None,
    period: int,
    probing: Mapping[str, bool],
    probes: list[Flight],
    events: tuple[BreakerEvent, ...],
) -> str | None:
    """Which of the toolkit's faults a step has shown, if any."""
    if op == "call":
        second = admitted and probes and events and events[-1].probe
        return "cancel-frees-foreign-probe" if second else None
    if flight is None or flight.period == period:
        return None
    if outcome == "cancel":
        freed = probing.get(flight.target) and probes and not flight.probe
        return "cancel-frees-foreign-probe" if freed else None
    if flight.probe:
        return "stale-probe-decides"
    event = next((event for event in events if event.kind in ("succeeded", "failed")), None)
    if event is not None and (event.state is CircuitBreakerState.CLOSED or "opened" in [one.kind for one in events]):
        return "no-generations" if outcome == "error" else None
    return None


def _faulty_sentence(
    fault: str,
    id: str | None,
    outcome: str | None,
    probes: list[Flight],
    events: tuple[BreakerEvent, ...],
    failures: int,
    state: CircuitBreakerState,
) -> str:
    named = f"a fault of the toolkit's 1.9.0, {fault}"
    others = " and ".join(probe.id for probe in probes)
    kinds = [event.kind for event in events]
    after = {CircuitBreakerState.CLOSED: "closed", CircuitBreakerState.OPEN: "open"}.get(state, "half-open")
    if fault == "cancel-frees-foreign-probe" and outcome is None:
        return (
            f"{id} is admitted as one more probe while {others} is in flight: its slot was freed too early ({named})."
        )
    if fault == "cancel-frees-foreign-probe":
        return (
            f"{id} was cancelled; it was not the probe, yet it frees the slot of {others}, still in flight ({named})."
        )
    how = "succeeded" if outcome == "ok" else "failed"
    if fault == "stale-probe-decides":
        turn = next((kind for kind in kinds if kind in _CHANGES), None)
        does = {"closed": "the breaker closes", "opened": "the breaker opens again"}.get(turn or "", f"it is {after}")
        return f"{id} {how}; it was the probe of an earlier half-open period, and yet it counts: {does} ({named})."
    does = "the breaker opens" if "opened" in kinds else f"{_failures(failures)}"
    return f"{id} failed; it was admitted in an earlier closed period, and yet it counts: {does} ({named})."


def _sentence(
    session: BreakerSession,
    op: str,
    id: str | None,
    outcome: str | None,
    admitted: bool | None,
    events: tuple[BreakerEvent, ...],
    state: CircuitBreakerState,
    retry_after: float | None,
    was_probe: bool,
) -> str:
    config, now = session.config, session.now
    kinds = [event.kind for event in events]
    last = events[-1] if events else None
    probe_at = f"a probe may go at {now + retry_after:g} s" if retry_after is not None else ""
    if op == "call":
        if admitted and "half_opened" in kinds:
            return f"{id} is admitted as the probe: the cooldown is over, and this call turns the breaker half-open."
        if admitted and last is not None and last.probe:
            return f"{id} is admitted as the probe: the breaker is half-open and no probe is in flight."
        if admitted:
            return f"{id} is admitted: the breaker is closed."
        if state is CircuitBreakerState.HALF_OPEN:
            return f"{id} is rejected: the breaker is half-open and its one probe is in flight."
        return f"{id} is rejected: the breaker is open, and {probe_at}."
    if op == "advance":
        told = f"It is {now:g} s"
        if "opened" in kinds:
            return f"{told}: the probe {id} timed out on the way, so the breaker opened again; {probe_at}."
        if id is not None:
            return f"{told}: {id} timed out on the way."
        if state is CircuitBreakerState.OPEN and retry_after == 0.0:
            return f"{told}: the cooldown is over, but the breaker stays open until a call arrives."
        if state is CircuitBreakerState.OPEN:
            return f"{told}: the breaker is open, and {probe_at}."
        return f"{told}: time alone changes nothing."
    event = next((event for event in events if event.kind in ("succeeded", "failed", "cancelled")), None)
    failures = event.failures if event is not None else 0
    successes = event.successes if event is not None else 0
    how = {"ok": "succeeded", "error": "failed", "cancel": "was cancelled"}[outcome or "ok"]
    what = f"{'the probe ' if was_probe else ''}{id} {how}"
    if outcome == "cancel":
        freed = "; the probe's slot is free again" if was_probe and state is CircuitBreakerState.HALF_OPEN else ""
        return f"{what}: a cancellation counts neither way{freed}."
    if "closed" in kinds:
        reached = _plural(config.half_open_success_threshold, "successful probe")
        asked = "was" if config.half_open_success_threshold == 1 else "in a row were"
        return f"{what}: {reached} {asked} asked for, so the breaker closes."
    if "opened" in kinds and was_probe:
        return f"{what}: one failed probe is enough, so the breaker opens again; {probe_at}."
    if "opened" in kinds:
        reached = f"{_failures(failures)} {'reaches' if failures == 1 else 'reach'} the threshold of"
        return f"{what}: {reached} {config.failure_threshold}, so the breaker opens; {probe_at}."
    if was_probe and state is CircuitBreakerState.HALF_OPEN:
        return f"{what}: {successes} of the {config.half_open_success_threshold} successes that close the breaker."
    if state is CircuitBreakerState.CLOSED and outcome == "error":
        return f"{what}: {_failures(failures)}, of {config.failure_threshold} that open the breaker."
    if state is CircuitBreakerState.CLOSED:
        return f"{what}: the count of failures in a row is 0."
    word = "open" if state is CircuitBreakerState.OPEN else "half-open"
    return f"{what}, but it is not a probe and the breaker is {word}: it counts neither way."
