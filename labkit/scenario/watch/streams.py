"""The streams of a run, chunk by chunk: when a reader asked, when a chunk came, which limit's clock ran meanwhile.

A trace knows of a stream when it began and how it ended. Here the same run is made with somebody who listens between
the readers and the stack; what happens is the same.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, NamedTuple

from labkit.config import BREAKERS, TimeoutMiddlewareConfig
from labkit.middleware import BreakerEvent, Stack
from labkit.scenario.run.runner import current_call, run_scenario
from labkit.scenario.run.trace import Trace
from labkit.scenario.spec.model import Scenario

__all__ = ["Followed", "LimitClock", "StreamRead", "Ticking", "Wait", "follow_streams"]

_SETTLED = ("succeeded", "failed", "cancelled")
_CHANGED = ("half_opened", "closed", "opened")
_STATE = {"CLOSED": "closed", "OPEN": "open", "HALF_OPEN": "half-open"}
_WITHIN = {"row": "a row", "interval": "its interval", "window": "its window"}


class Wait(NamedTuple):
    """A reader waits for the next chunk.

    Attributes:
        asked, ended: seconds. What follows until the next wait is the reader's own time.
        chunk: whether a chunk came; else the stream ended, or failed.
    """

    asked: float
    ended: float
    chunk: bool


class Ticking(NamedTuple):
    """A limit's clock runs.

    Attributes:
        begin, end: seconds.
        due: when the limit is reached. Past it only a reader can be that has not come back to hear of it.
    """

    begin: float
    end: float
    due: float


class LimitClock(NamedTuple):
    """A limit of the stack, and when its clock ran in one stream.

    Attributes:
        setting: "timeout" or "probe_timeout".
        seconds: the limit.
        runs: when it ran: once from the first wait to the end, or anew in each wait.
    """

    setting: str
    seconds: float
    runs: tuple[Ticking, ...]


@dataclass(frozen=True, slots=True)
class StreamRead:
    """One stream as its reader saw it.

    Attributes:
        call: its row in the trace's calls.
        start, end: seconds.
        waits: every wait for a chunk, in order.
        how: "read" to its end, "left" early, "failed", or "cancelled" from outside.
        error_type: the name of the error's class, or "".
        error: the error in words, or "".
        probe: whether a breaker let it through as its probe.
        clocks: of the limits of the function's list; `probe_timeout` runs for a probe alone.
        before: failures that the breaker remembered when it came, or just before it counted it.
        states: from when on the breaker was in which state: first when the stream came, then each change in its course.
        events: what the function's breaker, of several the outermost, did in its course.
        span: within what the breaker counts failures: "row" (one after the other), "interval" or "window".
    """

    call: int
    start: float
    end: float
    waits: tuple[Wait, ...]
    how: str
    error_type: str
    error: str
    probe: bool
    clocks: tuple[LimitClock, ...]
    before: int
    states: tuple[tuple[float, str], ...]
    events: tuple[BreakerEvent, ...]
    span: str = "row"

    @property
    def chunks(self) -> int:
        """How many came."""
        return sum(wait.chunk for wait in self.waits)

    @property
    def took(self) -> float:
        """Seconds from the first wait to the end."""
        return self.end - self.start

    @property
    def longest(self) -> float:
        """Seconds of the longest wait; 0 where there was none."""
        return max((wait.ended - wait.asked for wait in self.waits), default=0.0)

    @property
    def reading(self) -> float:
        """Seconds that the reader took for itself."""
        return self.took - sum(wait.ended - wait.asked for wait in self.waits)

    @property
    def counted(self) -> str:
        """How the breaker counted it: succeeded, failed or cancelled (which is neither); "" without a breaker."""
        return next((event.kind for event in self.events if event.kind in _SETTLED), "")

    @property
    def struck(self) -> LimitClock | None:
        """The limit that ended it, if one did: of several, the one that was due first."""
        if self.how != "failed":
            return None
        over = [clock for clock in self.clocks if clock.runs and clock.runs[-1].due <= self.end + 1e-9]
        return min(over, key=lambda clock: clock.runs[-1].due, default=None)

    @property
    def kept_waiting(self) -> bool:
        """Whether the limit was reached while the reader was busy, so that it heard of it only at its next pull."""
        struck = self.struck
        return struck is not None and struck.runs[-1].due < self.waits[-1].asked - 1e-9

    def told(self) -> list[str]:
        """It in sentences: what ended it, what the breaker counted, and whose time the limits took."""
        told = [f"{self._ended()} {self._counting()}".strip()]
        struck = self.struck
        if struck is not None and self.kept_waiting:
            told.append(
                f"NeMo Agent Toolkit 1.9.0 differs: it cancels the reader's own task at "
                f"{_s(struck.runs[-1].due - self.start)}, and its breaker counts neither way."
            )
        return [*told, *self._clocks()]

    def _ended(self) -> str:
        chunks, took = _many(self.chunks, "chunk"), _s(self.took)
        if self.how == "read":
            return f"Read to its end: {chunks} in {took}."
        if self.how == "left":
            return f"The reader left after {chunks}, at {took}."
        struck = self.struck
        if struck is None:
            return f"The stream failed at {took} after {chunks} ({self.error_type})."
        limit, due = f"{struck.setting} ({_s(struck.seconds)})", _s(struck.runs[-1].due - self.start)
        if self.kept_waiting:
            return (
                f"{limit} ran out at {due}, while the reader was busy with chunk {self.chunks}: "
                f"TimeoutError at its next pull, at {took}."
            )
        return f"{limit} ran out at {due}, in the wait for chunk {self.chunks + 1}: TimeoutError."

    def _counting(self) -> str:
        settled = next((event for event in self.events if event.kind in _SETTLED), None)
        if settled is None:
            return ""
        changed = {event.kind for event in self.events[self.events.index(settled) :]}
        if settled.kind == "succeeded":
            if self.probe:
                then = "this probe closes it" if "closed" in changed else "one more of the probes that close it"
                return f"The breaker counts a success; {then}."
            if settled.state.value != "CLOSED":
                return f"It came too late for the breaker, which is {_STATE[settled.state.value]} meanwhile."
            if self.span == "row":
                return f"The breaker counts a success: failures in a row go from {self.before} to 0."
            if self.span == "interval":
                return f"The breaker counts failures alone: those in its interval stay at {settled.failures}."
            return f"The breaker counts a success: {_many(settled.failures, 'failure')} in its window."
        if settled.kind == "failed":
            if self.probe:
                return "The breaker counts a failure: one failed probe opens it again."
            if settled.state.value != "CLOSED" and "opened" not in changed:
                return f"It came too late for the breaker, which is {_STATE[settled.state.value]} meanwhile."
            then = ", and it opens" if "opened" in changed else ""
            return f"The breaker counts a failure: {settled.failures} in {_WITHIN[self.span]}{then}."
        if self.probe:
            return "The breaker counts neither way: the probe's slot is free again, and it stays half-open."
        return f"The breaker counts neither way: failures in {_WITHIN[self.span]} stay at {settled.failures}."

    def _clocks(self) -> list[str]:
        told = []
        clocks = {clock.setting: clock for clock in self.clocks}
        paused = self.reading > 1e-9
        if "timeout" in clocks:
            own = f", the reader's own {_s(self.reading)} included" if paused else ""
            told.append(f"The clock of timeout runs from the first request to the last chunk{own}.")
        probing = clocks.get("probe_timeout")
        if probing is not None and self.probe:
            still = " and stands still while the reader is busy" if paused else ""
            told.append(
                f"The clock of probe_timeout begins anew with each wait{still}; the longest wait took "
                f"{_s(self.longest)}. (1.9.0's documentation says per stream; it is per chunk.)"
            )
        elif probing is not None:
            told.append("probe_timeout bounds probes alone; this is an ordinary call, and its clock never ran.")
        return told


@dataclass(frozen=True, slots=True)
class Followed:
    """A run and its streams, in the order of their calls."""

    trace: Trace
    streams: tuple[StreamRead, ...]


def follow_streams(scenario: Scenario) -> Followed:
    """Run a scenario and hear of each stream's chunks.

    Returns:
        `trace`, the same as that of `run_scenario`, and `streams`, in the order of their calls.

    Raises:
        MiddlewareError: the stack cannot be built.
    """
    read: dict[int, StreamRead] = {}
    trace = run_scenario(scenario, watch=lambda stack: _Reader(stack, read))
    return Followed(trace, tuple(read[call] for call in sorted(read)))


class _Reader:
    """Stands between readers and a stack, and writes down who waited when."""

    def __init__(self, stack: Stack, read: dict[int, StreamRead]) -> None:
        self._stack = stack
        self._read = read
        self._heard: dict[int, list[tuple[str, int, BreakerEvent]]] = {}  # breaker, its failures before, event
        self._failures: dict[tuple[str, str], int] = {}  # by breaker and target
        self.caller = stack.caller
        for name in dict.fromkeys(name for function in stack.config.functions for name in stack.breakers_of(function)):
            stack.middleware[name].listen(self._hearing(name))  # type: ignore[attr-defined]

    def _hearing(self, name: str) -> Callable[[BreakerEvent], None]:
        def hear(event: BreakerEvent) -> None:
            before = self._failures.get((name, event.target), 0)
            self._failures[name, event.target] = event.failures
            self._heard.setdefault(current_call(), []).append((name, before, event))

        return hear

    async def stream(self, function: str, /, *args: Any) -> AsyncIterator[Any]:
        """The stack's stream."""
        now = self._stack.clock.now
        start, waits, how = now(), list[Wait](), "cancelled"
        error_type = error = ""
        target = self._stack.target_of(function)
        name, breaker = next(iter(self._stack.breakers_of(function).items()), ("", None))
        found = breaker.snapshot(target) if breaker is not None else None
        before, came = (found.failures, found.state.value) if found is not None else (0, "CLOSED")
        try:
            async with aclosing(self._stack.stream(function, *args)) as chunks:  # type: ignore[type-var]
                while True:
                    asked = now()
                    try:
                        chunk = await anext(chunks)
                    except StopAsyncIteration:
                        waits.append(Wait(asked, now(), False))
                        how = "read"
                        return
                    except Exception as failure:
                        waits.append(Wait(asked, now(), False))
                        how, error_type = "failed", type(failure).__name__
                        error = f"{error_type}: {failure}"
                        raise
                    waits.append(Wait(asked, now(), True))
                    try:
                        yield chunk
                    except GeneratorExit:
                        how = "left"
                        raise
        finally:
            call = current_call()
            heard = [one for one in self._heard.pop(call, ()) if one[0] == name and one[2].target == target]
            before = next((known for _, known, event in heard if event.kind in _SETTLED), before)
            events = tuple(event for _, _, event in heard)
            probe = any(event.kind == "admitted" and event.probe for event in events)
            clocks = _clocks_of(self._stack, function, probe, waits, now())
            changes = [(event.at, event.state.value) for event in events if event.kind in _CHANGED]
            self._read[call] = StreamRead(
                call,
                start,
                now(),
                tuple(waits),
                how,
                error_type,
                error,
                probe,
                clocks,
                before,
                ((start, came), *changes),
                events,
                _span_of(breaker.config) if breaker is not None else "row",
            )


def _span_of(config: Any) -> str:
    """Within what a breaker counts failures."""
    if getattr(config, "window", None) is not None:
        return "window"
    return "interval" if getattr(config, "interval", None) is not None else "row"


def _clocks_of(stack: Stack, function: str, probe: bool, waits: list[Wait], end: float) -> tuple[LimitClock, ...]:
    """The limits of a function's list, and when their clocks ran; who stands further out comes first."""
    clocks = []
    layers: Any = stack.config.layers_of(function)
    for config in layers.values():
        if isinstance(config, TimeoutMiddlewareConfig) and waits:
            begin = waits[0].asked
            clocks.append(LimitClock("timeout", config.timeout, (Ticking(begin, end, begin + config.timeout),)))
        elif config.type_ in BREAKERS and config.probe_timeout is not None:
            limit = config.probe_timeout
            runs = [Ticking(wait.asked, wait.ended, wait.asked + limit) for wait in waits if probe]
            clocks.append(LimitClock("probe_timeout", limit, tuple(runs)))
    return tuple(clocks)


def _s(seconds: float) -> str:
    return f"{round(seconds, 2):g} s"


def _many(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
