"""A real breaker, stepped by hand in virtual time: what a learner presses in the stepper, and what a replay plays.

Nothing is modelled: each call is a task on a `VirtualClock` inside the real middleware, whichever breaker it is, around
a service that waits until it is told how to end. `sentences.py` has the sentences.
"""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from labkit.errors import BusinessRejection, ClockError, ConfigError, DependencyError
from labkit.middleware import (
    BreakerEvent,
    CircuitBreakerOpenError,
    FunctionMiddlewareChain,
    FunctionMiddlewareContext,
    WindowCircuitBreakerMiddleware,
)
from labkit.middleware.stack import make_middleware
from labkit.policies import CircuitBreakerState
from labkit.session.sentences import CHANGES, Happened, fault_of, late_words, rules_of, tell
from labkit.session.steps import Flight, Step
from labkit.timing import VirtualClock, VirtualTask

if TYPE_CHECKING:
    from labkit.session.steps import BreakerConfig

__all__ = ["BreakerSession", "breaker_config"]

_OUTCOMES = ("ok", "error", "cancel")


def breaker_config(config: BreakerConfig | Mapping[str, Any] | None = None) -> BreakerConfig:
    """A breaker's fields as its configuration; `_type` says which breaker, the toolkit's by default.

    Raises:
        ConfigError: no breaker is of that type.
    """
    from labkit.config import BREAKERS, nearest

    if config is not None and not isinstance(config, Mapping):
        return config
    fields = dict(config or {})
    kind = str(fields.pop("_type", "circuit_breaker"))
    if kind not in BREAKERS:
        near = nearest(kind, BREAKERS)
        hint = f"did you mean '{near}'?" if near else f"there are {', '.join(BREAKERS)}."
        raise ConfigError(f"'{kind}' is not the _type of a breaker; {hint}")
    made: Any = _checked(kind, fields)
    return made  # type: ignore[no-any-return]


class _Call:
    __slots__ = ("error", "flight", "outcome", "reached", "release", "task")

    def __init__(self, clock: VirtualClock) -> None:
        self.release = clock.event()
        self.outcome = "ok"
        self.reached = False
        self.error: BaseException | None = None
        self.flight: Flight | None = None
        self.task: VirtualTask[None] | None = None


def _checked(kind: str, fields: Mapping[str, Any]) -> Any:
    """The configuration of these fields; what is wrong with them is said as it is of a file."""
    import json

    from labkit.config import load_stack_config

    try:
        text = json.dumps({"middleware": {"breaker": {"_type": kind, **fields}}})
    except (TypeError, ValueError):
        raise ConfigError("a breaker's fields are numbers and texts") from None
    try:
        return load_stack_config(text, name="breaker").middleware["breaker"]
    except ConfigError as error:
        said = "; ".join(line.removeprefix("breaker:1: ") for line in str(error).splitlines())
        raise ConfigError(said, error.findings) from None


class BreakerSession:
    """One breaker on a clock that moves only when told.

    Args:
        config: the breaker's fields, as a configuration or a mapping whose `_type` says which breaker; the toolkit's
            and its defaults where None.
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
        self, config: BreakerConfig | Mapping[str, Any] | None = None, target: str = "parts_availability"
    ) -> None:
        self.config = breaker_config(config)
        self.target = target
        self.history: list[Step] = []
        self._rules = rules_of(self.config)
        self._begin()

    def _begin(self) -> None:
        self._clock = VirtualClock()
        self._breaker = make_middleware("breaker", self.config, self._clock)
        self._events: list[BreakerEvent] = []
        self._breaker.listen(self._events.append)
        self._chains: dict[str, Any] = {}
        self._calls: dict[str, _Call] = {}
        self._count = 0
        self._changes: dict[str, list[str]] = {}  # how each target's state has changed, in order
        self._before: dict[str, tuple[int, bool]] = {}  # each target's failures and whether it was probing

    @property
    def now(self) -> float:
        """Virtual seconds."""
        return self._clock.now()

    @property
    def in_flight(self) -> list[Flight]:
        """The calls that were admitted and have not ended, in the order in which they came."""
        return [call.flight for call in self._calls.values() if call.flight is not None]

    def late(self, id: str) -> str:
        """That a call in flight was admitted in an earlier period, in words, or "": its result will be a late one."""
        call = self._calls.get(id)
        if call is None or call.flight is None:
            return ""
        return late_words(call.flight, self._changes.get(call.flight.target, ()))

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
            changed = sum(event.kind in CHANGES for event in self._events)
            call.flight = Flight(id, target, probe, self.now, len(self._changes.get(target, ())) + changed)
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
        return self._step("advance", ", ".join(ended) or None, self.target, None, None, error, seconds=seconds)

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
        for step in steps:
            if step.op == "call":
                self.call(step.id, step.target)
                self._count = max(self._count, _number(step.id))
            elif step.op == "finish":
                self.finish(step.id or "", step.outcome or "")
            else:
                self.advance(step.seconds)
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
        *,
        flight: Flight | None = None,
        seconds: float = 0.0,
    ) -> Step:
        events = tuple(self._events)
        self._events.clear()
        for event in events:
            if event.kind in CHANGES and not (flight is not None and event.target == target):
                self._changes.setdefault(event.target, []).append(event.kind)
        late = "" if flight is None else late_words(flight, self._changes.get(target, ()))
        if flight is not None:  # what a call's own end has changed does not make it late
            self._changes.setdefault(target, []).extend(event.kind for event in events if event.kind in CHANGES)
        now = self._breaker.snapshot(target)
        window = isinstance(self._breaker, WindowCircuitBreakerMiddleware)
        probes = now.probes if window else int(now.probing)
        cooldown: float = now.open_duration if window else self.config.cooldown_period  # type: ignore[union-attr]
        failures_before, probing_before = self._before.get(target, (0, False))
        what = Happened(
            op=op,
            id=id,
            outcome=outcome,
            admitted=admitted,
            events=events,
            now=self.now,
            flight=flight,
            late=late,
            others=tuple(one.id for one in self.in_flight if one.probe and one.target == target and one.id != id),
            state=now.state,
            failures=now.failures,
            successes=now.successes,
            calls=now.calls if window else 0,
            retry_after=max(0.0, now.changed_at + cooldown - self.now)
            if now.state is CircuitBreakerState.OPEN
            else None,
            failures_before=failures_before,
            probing_before=probing_before,
        )
        fault = fault_of(self._rules, what)
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
            probing=probes > 0,
            retry_after=what.retry_after,
            events=events,
            sentence=tell(self._rules, what, fault),
            fault=fault,
            late=late,
            seconds=seconds,
            cooldown=cooldown,
            probes=probes,
            calls=what.calls,
        )
        self._before[target] = now.failures, probes > 0
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
