"""What a breaker counts while a scenario runs, read off the breaker itself: a trace holds what it did, not why."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any, NamedTuple

from labkit.middleware import Stack, WindowCircuitBreakerMiddleware
from labkit.policies.window_circuit_breaker import BUCKETS, MINIMUM_CALLS
from labkit.scenario.run.runner import run_scenario
from labkit.scenario.run.trace import Trace
from labkit.scenario.spec.model import Scenario
from labkit.timing import Clock

__all__ = ["Count", "Counted", "run_counted"]

_A_MOMENT = 1e-6  # seconds after an edge of time, where both sides of it would do by rounding
_WAYS = {"row": "in a row", "interval": "in an interval", "rate": "in the window"}


class Count(NamedTuple):
    """What a breaker held about its target.

    Attributes:
        at: seconds.
        failures: in a row, in the present interval or in the window; while it is not closed, those that opened it.
        calls: in the window, the failures included; 0 where only failures are counted.
        state: "CLOSED", "OPEN" or "HALF_OPEN".
    """

    at: float
    failures: int
    calls: int
    state: str


@dataclass(frozen=True, slots=True)
class Counted:
    """One breaker's counts over a run, for one target on one replica.

    Attributes:
        breaker, target, replica: whose.
        way: how it counts: "row" (failures in a row), "interval" (failures in a fixed interval) or "rate" (their share
            of the calls in a sliding window).
        threshold: failures, or for "rate" a share from 0 to 1.
        span: seconds of the interval or window; 0 for a row.
        minimum: calls that the window must hold; 0 where it does not matter.
        rows: each change, from (0.0, 0, 0, "CLOSED") on.
    """

    breaker: str
    target: str
    replica: int
    way: str
    threshold: float
    span: float
    minimum: int
    rows: tuple[Count, ...]

    def level(self, count: Count) -> float:
        """What is held against the threshold: failures, or their share."""
        if self.way != "rate":
            return float(count.failures)
        return count.failures / count.calls if count.calls else 0.0

    def judged(self, count: Count) -> bool:
        """Whether it is held against it already: a rate of too few calls is not."""
        return self.way != "rate" or count.calls >= self.minimum

    @property
    def opened(self) -> Count | None:
        """When it first opened, with the counts that did it."""
        return next((row for row in self.rows if row.state == "OPEN"), None)

    @property
    def opens(self) -> int:
        """How often it opened, failed probes included."""
        return sum(1 for before, row in self._pairs() if row.state == "OPEN" and before.state != "OPEN")

    @property
    def peak(self) -> Count:
        """The most that was held against the threshold while it was closed; if a rate never was, the most calls."""
        closed = [row for row in self.rows if row.state == "CLOSED"]
        judged = [row for row in closed if self.judged(row)]
        return max(judged, key=self.level) if judged else max(closed, key=lambda row: row.calls)

    def _pairs(self) -> Iterator[tuple[Count, Count]]:
        return pairwise(self.rows)

    def why(self) -> str:
        """Why it opened when it did, or why it did not; a sentence's end, after its name."""
        first = self.opened
        if first is not None:
            again = {1: "", 2: ", and once more later", 3: ", and twice more later"}.get(
                self.opens, f", and {self.opens - 1} times more later"
            )
            return f"opened at {_seconds(first.at)}, {self._reached(first)}{again}"
        peak = self.peak
        if self.way == "rate" and not self.judged(peak):
            return (
                f"stayed closed: its window of {self.span:g} s never held more than {_many(peak.calls, 'call')}, "
                f"and below {self.minimum} it does not judge"
            )
        if self.way == "rate":
            return (
                f"stayed closed: at most {_share(self.level(peak))} of the calls in its window failed "
                f"({peak.failures} of {peak.calls}), and {_share(self.threshold)} would open it"
            )
        within = _WAYS[self.way] + (f" of {self.span:g} s" if self.span else "")
        if not peak.failures:
            return f"stayed closed: no call failed, and {self.threshold:g} {within} would open it"
        return (
            f"stayed closed: at most {_many(peak.failures, 'failure')} came {within}, and it takes {self.threshold:g}"
        )

    def _reached(self, first: Count) -> str:
        if self.way == "rate":
            return (
                f"when {first.failures} of the last {_many(first.calls, 'call')} in its window had failed, "
                f"{_share(self.level(first))}"
            )
        if self.way == "interval":
            begin = first.at // self.span * self.span
            return f"at the {_th(first.failures)} failure in the interval from {begin:g} to {begin + self.span:g} s"
        return f"at the {_th(first.failures)} failure in a row"


def run_counted(scenario: Scenario) -> tuple[Trace, list[Counted]]:
    """Run a scenario, every call of it, and read each breaker's counts on the way.

    Args:
        scenario: what to run; its trace is the same as `run_scenario` gives.

    Returns:
        The trace, and the counts of each breaker that was asked about a target, in the order in which they were.

    Raises:
        MiddlewareError: the stack cannot be built.
    """
    watcher = _Watcher()
    trace = run_scenario(scenario, watch=watcher.watch)
    return trace, [_counted(*key, made[0], made[1]) for key, made in watcher.counted.items()]


class _Watcher:
    """Reads the breakers of every stack of a run whenever they say something, and at the edges of their time."""

    def __init__(self) -> None:
        self.counted: dict[tuple[str, str, int], tuple[Any, list[Count]]] = {}
        self._widths: set[float] = set()
        self._stacks = 0

    def watch(self, stack: Stack) -> Stack:
        """Listen to a replica's breakers; its calls go to the stack itself."""
        replica, self._stacks = self._stacks, self._stacks + 1
        of_functions = [stack.breakers_of(function).items() for function in stack.config.functions]
        for name, breaker in dict(chain.from_iterable(of_functions)).items():
            breaker.listen(self._hearing(name, breaker, replica, stack.clock.now))
            width = _bucket(breaker)
            if width and width not in self._widths:
                self._widths.add(width)
                stack.clock.start(self._at_each_edge(width, stack.clock), name="counts")
        return stack

    def _hearing(self, name: str, middleware: Any, replica: int, now: Callable[[], float]) -> Callable[[Any], None]:
        def hear(event: Any) -> None:
            key = (name, event.target, replica)
            if key not in self.counted:
                self.counted[key] = (middleware, [Count(0.0, 0, 0, "CLOSED")])
            _read(now(), event.target, *self.counted[key])

        return hear

    async def _at_each_edge(self, width: float, clock: Clock) -> None:
        """Read what time alone changes: at an interval's end, and when calls leave a window."""
        edge = 1
        while True:
            await clock.sleep(max(0.0, edge * width + _A_MOMENT - clock.now()))
            edge += 1
            for (_, target, _), (middleware, rows) in self.counted.items():
                if _bucket(middleware) == width:
                    _read(clock.now(), target, middleware, rows)


def _read(at: float, target: str, middleware: Any, rows: list[Count]) -> None:
    held = middleware.snapshot(target)
    now = Count(at, held.failures, getattr(held, "calls", 0), held.state.value)
    if now[1:] != rows[-1][1:]:
        rows.append(now)


def _bucket(middleware: Any) -> float:
    """Seconds between two edges at which a breaker forgets; 0 for one that does not by time."""
    if not isinstance(middleware, WindowCircuitBreakerMiddleware):
        return 0.0
    config = middleware.config
    return config.interval if config.window is None else config.window / BUCKETS  # type: ignore[return-value]


def _counted(breaker: str, target: str, replica: int, middleware: Any, rows: list[Count]) -> Counted:
    config = middleware.config
    if not isinstance(middleware, WindowCircuitBreakerMiddleware):  # the toolkit's, or the guarded one
        way, threshold, span, minimum = "row", float(config.failure_threshold), 0.0, 0
    elif config.window is None:
        way, threshold, span, minimum = "interval", float(config.failure_threshold), config.interval, 0
    else:
        way, threshold, span = "rate", config.failure_rate, config.window
        minimum = MINIMUM_CALLS if config.minimum_calls is None else config.minimum_calls
    return Counted(breaker, target, replica, way, threshold, span, minimum, tuple(rows))


def _seconds(seconds: float) -> str:
    return f"{round(seconds, 2 if seconds < 10 else 1):g} s"


def _share(share: float) -> str:
    return f"{share * 100:.3g} %"


def _many(number: int, word: str) -> str:
    return f"{number:,} {word}" if number == 1 else f"{number:,} {word}s"


def _th(number: int) -> str:
    """The ordinal of a number.

    >>> _th(1), _th(12), _th(23)
    ('1st', '12th', '23rd')
    """
    if number % 100 in (11, 12, 13):
        return f"{number}th"
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th') }"
