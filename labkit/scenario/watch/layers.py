"""One call followed through its layers, step by step, and what a breaker made of all of them.

Between each two layers of the real stack stands somebody who looks on: what goes in, what comes out, and when. The
steps are told from what was seen there and from what breakers and bulkheads say of themselves; nothing here knows what
a layer would do.
"""

from __future__ import annotations

from asyncio import CancelledError
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from labkit.errors import LabkitError, is_refusal
from labkit.middleware import (
    FunctionMiddleware,
    FunctionMiddlewareChain,
    FunctionMiddlewareContext,
    Stack,
    Unavailable,
)
from labkit.middleware.base import CallNext, CallNextStream, closing
from labkit.scenario.run.runner import current_call, run_scenario
from labkit.scenario.run.trace import ATTEMPT_OUTCOMES, Trace
from labkit.scenario.spec.model import Scenario
from labkit.scenario.watch.sentences import Ending, FollowedStep, Note, Place, tell

__all__ = ["Followed", "FollowedStep", "Heard", "Measured", "follow"]


class Heard(NamedTuple):
    """Something that a layer said of itself.

    Attributes:
        call: in the course of which call, from 1.
        layer: the middleware's name.
        event: a `BreakerEvent`, a `BulkheadEvent` or their like.
    """

    call: int
    layer: str
    event: Any


@dataclass(frozen=True, slots=True)
class Measured:
    """What one breaker measured in a run, until it first opened or, if it did not, in all.

    Attributes:
        breaker: its name.
        who: what it is called in a sentence: "The breaker", or its name where there are several.
        unit: what one of its counts stands for: "attempt" (there is a retry outside it), "operation" (there is one
            inside it, with all of whose attempts it counts once) or "call" (there is no retry).
        counted: how often it was told succeeded, failed, cancelled; and rejected, in the whole run.
        timeouts: how many of the failures were time-outs.
        opened_at: seconds, or None.
        attempts: how many had ended at the dependency, and of how many `calls`.
        answered: how many of them were answered.
        in_flight: how many more had begun.
    """

    breaker: str
    who: str
    unit: str
    counted: Mapping[str, int]
    timeouts: int
    opened_at: float | None
    attempts: int
    calls: int
    answered: int
    in_flight: int

    @property
    def sentences(self) -> list[str]:
        """Its unit and what it came to, then what it was told."""
        name = self.who
        unit = {
            "attempt": f"{name} measures each physical attempt, because the retry stands outside it",
            "operation": f"{name} measures whole logical operations, because the retry and its attempts are inside it",
            "call": f"{name} measures calls, and without a retry a logical operation is one physical attempt",
        }[self.unit]
        made = f"{_many(self.attempts, 'attempt')} of {_many(self.calls, 'call')}"
        flying = f"{self.in_flight:,} in flight" if self.in_flight else ""
        if self.opened_at is not None:
            came = f"after {made}" if self.attempts else "before any attempt had ended"
            more = f", with {flying}" if flying else ""
            return [
                f"{unit}: it opened at {_s(self.opened_at)}, {came}{more}.",
                f"Until then it was told of {self._told}.",
            ]
        told = f"{unit}: it stayed closed. It was told of {self._told}"
        if self.counted["cancelled"]:
            told += ", and a cancellation counts neither way"
        if self.counted["succeeded"] > self.answered:
            told += f", although {self._answered}"
        reached = f"{made} ended at the service" if self.attempts else "No attempt ended at the service"
        return [f"{told}.", reached + (f", with {flying} at the end." if flying else ".")]

    @property
    def _answered(self) -> str:
        """How many attempts were answered, for a sentence."""
        if not self.answered:
            return "not one attempt was answered"
        return f"only {_many(self.answered, 'attempt')} {'was' if self.answered == 1 else 'were'} answered"

    @property
    def _told(self) -> str:
        words = {"failed": "failure", "succeeded": "success", "cancelled": "cancellation"}
        told = [_many(self.counted[kind], word) for kind, word in words.items() if self.counted[kind]]
        if self.timeouts and self.timeouts == self.counted["failed"]:
            told[0] = _many(self.timeouts, "time-out")
        elif self.timeouts:
            told[0] += f" ({_many(self.timeouts, 'time-out')} among them)"
        return " and ".join(told) or "nothing"


@dataclass(frozen=True, slots=True)
class Followed:
    """A run in which one call was followed.

    Attributes:
        scenario: what was run.
        trace: what happened, to all calls.
        call: which one was followed, from 1.
        function: what it called.
        layers: the names of the middleware around it, outermost first.
        steps: its way, in order.
        heard: what the layers said of themselves in the course of all calls of the same replica, in order.
        measured: by breaker, in the order of the layers.
        left: how each call of the same replica came out of the dependency (or its adapter), last attempt; by call.
    """

    scenario: Scenario
    trace: Trace
    call: int
    function: str
    layers: tuple[str, ...]
    steps: tuple[FollowedStep, ...]
    heard: tuple[Heard, ...]
    measured: tuple[Measured, ...]
    left: Mapping[int, Ending]

    def told(self, breaker: str) -> list[str]:
        """What a breaker made of each call in the end: succeeded, failed, cancelled, rejected, or "" for nothing."""
        last = {one.call: one.event.kind for one in self.heard if one.layer == breaker and one.event.kind in _VERDICTS}
        return [last.get(call, "") for call in range(1, len(self.trace.calls) + 1)]

    def __repr__(self) -> str:
        return "\n".join(f"{step.at:>8.2f} s  {step.layer:<20}  {step.sentence}" for step in self.steps)


def follow(scenario: Scenario, call: int = 1) -> Followed:
    """Run a scenario, every call of it, and follow one through the layers.

    Args:
        scenario: what to run: the stack, how its services behave, who calls when.
        call: which call to follow, 1 for the first that arrives. Notes of all calls are kept until then, so this is
            for runs of some hundred calls.

    Raises:
        LabkitError: there is no such call, or the stack cannot be built.

    Example:
        >>> from labkit import load_scenario
        >>> print(follow(load_scenario("order-breaker-timeout"), call=1).steps[0].sentence)
        The call comes to breaker, which is closed and admits it.
    """
    watcher = _Watcher()
    trace = run_scenario(scenario, watch=watcher.watch)
    many = len(trace.calls)
    if not 1 <= call <= many:
        raise LabkitError(f"there is no call {call} to follow; the scenario makes {many:,}, the first is 1")
    row = call - 1
    function = trace.functions[trace.calls.function[row]]
    config = scenario.stack
    layers = config.layers_of(function)
    names = tuple(layers)
    replica = trace.calls.replica
    mine = replica[row]

    def cut_off(number: int, at: float) -> bool:
        """Whether it is only the run's end that ended it."""
        end = trace.calls.end[number]
        return end != end and at >= trace.until

    heard = tuple(
        one
        for one in watcher.heard
        if one.call > 0 and replica[one.call - 1] == mine and not cut_off(one.call - 1, one.event.at)
    )
    places = [Place(*layer) for layer in layers.items()]
    notes = {
        number: [note for note in found if not cut_off(number, note.at)] for number, found in watcher.notes.items()
    }
    ended = trace.calls.end[row]
    until = None if ended == ended else trace.until
    steps = tell(notes.get(row, []), places, function, trace, until=until)
    return Followed(
        scenario,
        trace,
        call,
        function,
        names,
        tuple(steps),
        heard,
        tuple(_measured(scenario, trace, row, names, name, heard, notes) for name in names if _counts(heard, name)),
        {one + 1: ending for one, ending in watcher.left.items() if replica[one] == mine},
    )


class _Watcher:
    """Notes what passes between the layers of every stack of a run, by call."""

    def __init__(self) -> None:
        self.notes: dict[int, list[Note]] = {}
        self.heard: list[Heard] = []
        self.left: dict[int, Ending] = {}

    def watch(self, stack: Stack) -> _Watched:
        return _Watched(stack, self)

    def note(self, note: Note) -> None:
        self.notes.setdefault(current_call(), []).append(note)


class _Watched:
    """A stack's functions, with somebody who looks on before, between and behind the layers."""

    def __init__(self, stack: Stack, watcher: _Watcher) -> None:
        self._stack = stack
        self._watcher = watcher
        self._single: dict[str, CallNext] = {}
        self._streams: dict[str, CallNextStream] = {}
        for name, middleware in stack.middleware.items():
            if hasattr(middleware, "listen"):
                middleware.listen(self._hearing(name))

    def _hearing(self, name: str) -> Callable[[Any], None]:
        def hear(event: Any) -> None:
            self._watcher.heard.append(Heard(current_call() + 1, name, event))
            self._watcher.note(Note(event.at, name, "event", None, event))

        return hear

    def _chain(self, function: str) -> FunctionMiddlewareChain:
        stack, watcher = self._stack, self._watcher
        now = stack.clock.now
        layers: list[FunctionMiddleware] = []
        for name, middleware in stack.layers_of(function).items():
            layers += [_Between(name, now, watcher), middleware]
        layers.append(_Between("", now, watcher))
        return FunctionMiddlewareChain(middleware=layers, context=stack.context_of(function))

    def caller(self, function: str) -> CallNext:
        if function not in self._single:
            self._single[function] = self._chain(function).build_single(self._stack.services[function].call)
        return self._single[function]

    def stream(self, function: str, /, *args: Any) -> AsyncIterator[Any]:
        if function not in self._streams:
            self._streams[function] = self._chain(function).build_stream(self._stack.services[function].stream)
        return self._streams[function](*args)


class _Between(FunctionMiddleware):
    """Looks on just outside a layer, or, under the name "", just outside the dependency; changes nothing."""

    def __init__(self, layer: str, now: Callable[[], float], watcher: _Watcher) -> None:
        super().__init__()
        self._layer = layer
        self._now = now
        self._watcher = watcher

    def _note(self, kind: str, ending: Ending | None = None) -> None:
        self._watcher.note(Note(self._now(), self._layer, kind, ending, None))
        if ending is not None and not self._layer:
            self._watcher.left[current_call()] = ending

    async def function_middleware_invoke(
        self, *args: Any, call_next: CallNext, context: FunctionMiddlewareContext, **kwargs: Any
    ) -> Any:
        """One call."""
        self._note("in")
        try:
            answer = await call_next(*args, **kwargs)
        except BaseException as error:
            self._note("out", _raised(error))
            raise
        self._note("out", _returned(answer))
        return answer

    async def function_middleware_stream(
        self, *args: Any, call_next: CallNextStream, context: FunctionMiddlewareContext, **kwargs: Any
    ) -> AsyncIterator[Any]:
        """A stream; its ending knows how many chunks came before."""
        self._note("in")
        chunks, last = 0, None
        try:
            async with closing(call_next(*args, **kwargs)) as stream:
                async for chunk in stream:
                    chunks, last = chunks + 1, chunk
                    yield chunk
        except GeneratorExit:
            self._note("out", Ending("cancelled", "GeneratorExit", "its reader left", chunks))
            raise
        except BaseException as error:
            self._note("out", _raised(error)._replace(chunks=chunks))
            raise
        self._note("out", _returned(last)._replace(chunks=chunks))


def _returned(answer: Any) -> Ending:
    if isinstance(answer, Unavailable):
        return Ending("unavailable", "", answer.reason)
    return Ending("success", "", str(answer))


def _raised(error: BaseException) -> Ending:
    kind = "failure"
    if isinstance(error, CancelledError):
        kind = "cancelled"
    elif isinstance(error, TimeoutError):
        kind = "timeout"
    elif is_refusal(error):
        kind = "rejection"
    report = getattr(error, "retry_report", None)
    return Ending(kind, type(error).__name__, str(error), 0, report.reason if report is not None else "")


def _counts(heard: Sequence[Heard], name: str) -> bool:
    """Whether this layer is a breaker that said something: an event that knows a state."""
    return any(one.layer == name and hasattr(one.event, "state") for one in heard)


def _measured(
    scenario: Scenario,
    trace: Trace,
    row: int,
    names: Sequence[str],
    breaker: str,
    heard: Sequence[Heard],
    notes: Mapping[int, Sequence[Note]],
) -> Measured:
    config, function = scenario.stack, trace.functions[trace.calls.function[row]]
    target = config.target_of(function)
    events = [one.event for one in heard if one.layer == breaker and one.event.target == target]
    opened = next((event.at for event in events if event.kind == "opened"), None)
    until = trace.until if opened is None else opened
    kinds = Counter(event.kind for event in events if event.at <= until)
    kinds["rejected"] = sum(event.kind == "rejected" for event in events)
    together = {
        number
        for number, name in enumerate(trace.functions)
        if config.target_of(name) == target and breaker in config.layers_of(name)
    }
    whose = zip(trace.calls.function, trace.calls.replica, strict=True)
    mine = trace.calls.replica[row]
    same = {one for one, (number, replica) in enumerate(whose) if number in together and replica == mine}
    attempts = trace.attempts
    began = [
        (call, end, outcome)
        for call, start, end, outcome in zip(attempts.call, attempts.start, attempts.end, attempts.outcome, strict=True)
        if call in same and start <= until
    ]
    done = [
        (call, outcome) for call, end, outcome in began if end <= until and (end < trace.until or _ended(trace, call))
    ]
    outs = [note for one in sorted(same) for note in notes.get(one, ()) if note.layer == breaker and note.ending]
    types = [config.middleware[name].type_ for name in names]
    place = names.index(breaker)
    return Measured(
        breaker,
        "The breaker" if sum(_counts(heard, name) for name in names) == 1 else breaker,
        "operation" if "retry" in types[place + 1 :] else "attempt" if "retry" in types[:place] else "call",
        {kind: kinds[kind] for kind in ("succeeded", "failed", "cancelled", "rejected")},
        sum(note.ending is not None and note.ending.kind == "timeout" and note.at <= until for note in outs),
        opened,
        len(done),
        len({call for call, _ in done}),
        sum(outcome == _ANSWERED for _, outcome in done),
        len(began) - len(done),
    )


def _ended(trace: Trace, call: int) -> bool:
    return trace.calls.end[call] == trace.calls.end[call]


_VERDICTS = ("succeeded", "failed", "cancelled", "rejected")
_ANSWERED = ATTEMPT_OUTCOMES.index("answered")


def _s(seconds: float) -> str:
    return f"{round(seconds, 2):g} s"


def _many(number: int, word: str) -> str:
    plural = f"{word}es" if word.endswith("s") else f"{word}s"
    return f"{number:,} {word if number == 1 else plural}"
