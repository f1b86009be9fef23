"""A handful of calls through a real stack: what the callers got, what the breaker did and what the dependency saw.

For a lesson's few calls. Traffic (rates, replicas, metrics) is the business of scenarios.
"""

from __future__ import annotations

from asyncio import CancelledError
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from labkit.errors import BusinessRejection, CircuitBreakerOpenError, ClockError
from labkit.middleware import BreakerEvent, Stack, Unavailable
from labkit.services import Attempt
from labkit.timing import VirtualClock

__all__ = ["Call", "Calls", "call_in_turn"]

_OUTCOMES = ("ok", "unavailable", "timed out", "rejected", "failed", "refused")


@dataclass(frozen=True, slots=True)
class Call:
    """One call, as its caller saw it.

    Attributes:
        number: 1 for the first.
        started_at, ended_at: seconds.
        outcome: "ok", "unavailable" (an explicit outcome), "timed out", "rejected" (by an open breaker), "failed", or
            "refused" (the dependency works and says no).
        said: the answer, or the error's words.
        reached: how many times the dependency was called for it.
    """

    number: int
    started_at: float
    ended_at: float
    outcome: str
    said: str
    reached: int


class Calls(Sequence[Call]):
    """The calls, with what the breakers on the way told. Prints as a table.

    Attributes:
        function: what was called.
        attempts: the calls as the dependency saw them, in order, where it is one of `labkit.services`.
        events: what the function's breakers did, in order.
        reached: how many times the dependency was called in all.
        states: the state in which each of the function's breakers was left, by the breaker's name.
    """

    def __init__(
        self,
        function: str,
        calls: Sequence[Call],
        events: Sequence[BreakerEvent],
        attempts: Sequence[Attempt],
        states: dict[str, str],
    ) -> None:
        self.function = function
        self.attempts = tuple(attempts)
        self.events = tuple(events)
        self.states = states
        self.reached = sum(call.reached for call in calls)
        self._calls = tuple(calls)

    def __getitem__(self, index: Any) -> Any:
        return self._calls[index]

    def __len__(self) -> int:
        return len(self._calls)

    def __iter__(self) -> Iterator[Call]:
        return iter(self._calls)

    @property
    def counts(self) -> dict[str, int]:
        """How many calls had each outcome; only those that occurred."""
        found = Counter(call.outcome for call in self._calls)
        return {outcome: found[outcome] for outcome in _OUTCOMES if found[outcome]}

    def __repr__(self) -> str:
        lines = [f"{'call':>4}  {'began':>8}  {'took':>8}  {'outcome':<11}  dependency called"]
        lines += [
            f"{call.number:>4}  {call.started_at:>6.2f} s  {call.ended_at - call.started_at:>6.2f} s  "
            f"{call.outcome:<11}  {_times(call.reached)}"
            for call in self._calls
        ]
        return "\n".join([*lines, self.sentence])

    @property
    def sentence(self) -> str:
        """The whole in a sentence."""
        counts = ", ".join(f"{count} {outcome}" for outcome, count in self.counts.items())
        left = ", ".join(f"{name} is {state}" for name, state in self.states.items())
        return f"In all: {counts}; the dependency was called {_times(self.reached)}" + (f"; {left}." if left else ".")


def call_in_turn(
    stack: Stack, function: str, *args: Any, times: int = 1, pause: float = 0.0, until: str | None = None
) -> Calls:
    """Call a function of a stack so many times, one after the other, in virtual time.

    Args:
        stack: built on a `VirtualClock`.
        function: the function's name.
        args: handed on to it.
        times: how many calls.
        pause: seconds between the end of one call and the next.
        until: stop after the first call with this outcome.

    Raises:
        ClockError: the stack lives on another kind of clock.

    Example:
        >>> from labkit import PartsAvailability, Stack, VirtualClock
        >>> clock = VirtualClock()
        >>> stack = Stack.load(
        ...     "functions: {parts_availability: {_type: parts_availability}}",
        ...     services={"parts_availability": PartsAvailability(clock, plan="error")},
        ...     clock=clock,
        ... )
        >>> call_in_turn(stack, "parts_availability", "EN-5096", times=2).counts
        {'failed': 2}
    """
    clock = stack.clock
    if not isinstance(clock, VirtualClock):
        raise ClockError("call_in_turn() needs a stack on a VirtualClock: Stack.load(..., clock=VirtualClock())")
    breakers, target = stack.breakers_of(function), stack.target_of(function)
    events: list[BreakerEvent] = []
    attempts: list[Attempt] = []

    async def one(number: int) -> Call:
        started = clock.now()
        before = len(attempts)
        try:
            answer = await stack.call(function, *args)
        except CircuitBreakerOpenError as error:
            outcome, said = "rejected", str(error)
        except TimeoutError as error:
            outcome, said = "timed out", str(error) or "TimeoutError"
        except BusinessRejection as error:
            outcome, said = "refused", str(error)
        except CancelledError:
            raise
        except Exception as error:
            outcome, said = "failed", f"{type(error).__name__}: {error}"
        else:
            outcome, said = ("unavailable" if isinstance(answer, Unavailable) else "ok"), str(answer)
        return Call(number, started, clock.now(), outcome, said, len(attempts) - before)

    async def main() -> list[Call]:
        done: list[Call] = []
        for number in range(1, times + 1):
            if number > 1:
                await clock.sleep(pause)
            done.append(await one(number))
            if done[-1].outcome == until:
                break
        return done

    forget = [breaker.listen(events.append) for breaker in breakers.values()]
    forget.append(_count_attempts(stack.services[function], attempts))
    try:
        calls = clock.run(main())
    finally:
        for end in forget:
            end()
    left = {name: str(one.snapshot(target).state) for name, one in breakers.items()}
    return Calls(function, calls, events, attempts, left)


def _count_attempts(service: Any, attempts: list[Attempt]) -> Callable[[], None]:
    """Collect the service's attempts as they begin, each once; gives a function that ends it."""
    on_attempt = getattr(service, "on_attempt", None)
    if on_attempt is None:
        return lambda: None

    def hear(attempt: Attempt) -> None:
        if attempt.ended is None:
            attempts.append(attempt)

    end: Callable[[], None] = on_attempt(hear)
    return end


def _times(count: int) -> str:
    return {0: "not", 1: "once", 2: "twice"}.get(count, f"{count} times")
