"""What the users of a run's assistant are told, word for word.

A trace counts answers; here the same run is made with somebody who listens at the assistant's door. What is an
invented count is the assistant's own bookkeeping: a claim that no live reply gave.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from labkit.middleware import Stack, Unavailable
from labkit.scenario.run.runner import current_call, run_scenario
from labkit.scenario.run.trace import Trace
from labkit.scenario.spec.model import Scenario
from labkit.services.mocks.assistant import Answer, needs_of

__all__ = ["KINDS", "Answers", "Sample", "Told", "ask"]

KINDS = ("live", "unavailable", "invented", "error")
"""What a user may be told: an answer whose every count is live, that something is unavailable, a count that no live
reply gave, or nothing but an error."""


class Told(NamedTuple):
    """A question, and what its user was told.

    Attributes:
        call: its row in the trace's calls.
        asked, told: seconds.
        question: as asked.
        text: what the user reads, word for word.
        kind: one of `KINDS`.
        about: "stock" if it needs the stock of a part, else "documents".
        passage: whether it brings a passage of the documents; None if the question needs none.
        invented: the counts in it that no live reply gave, such as "HX-2040: 42", each with whence it came.
    """

    call: int
    asked: float
    told: float
    question: str
    text: str
    kind: str
    about: str
    passage: bool | None
    invented: tuple[tuple[str, str], ...] = ()


class Sample(NamedTuple):
    """One answer, and which moment of the run it is of, in words."""

    moment: str
    told: Told


@dataclass(frozen=True, slots=True)
class Answers:
    """A run, and all that was told in it.

    Attributes:
        trace: the run.
        told: every question, in the order in which they were asked.
    """

    trace: Trace
    told: tuple[Told, ...]

    def counts(self, about: str | None = None, *, outage: bool = False) -> dict[str, int]:
        """How many questions were answered in which way; of one kind of question, or asked during the fault alone."""
        begin, end = self.fault if outage else (0.0, float("inf"))
        found = Counter(one.kind for one in self.told if about in (None, one.about) and begin <= one.asked < end)
        return {kind: found[kind] for kind in KINDS}

    def passages(self, *, outage: bool = False) -> tuple[int, int]:
        """How many answers brought a passage of the documents, of how many whose question needed one."""
        begin, end = self.fault if outage else (0.0, float("inf"))
        needed = [one.passage for one in self.told if one.passage is not None and begin <= one.asked < end]
        return sum(needed), len(needed)

    @property
    def fault(self) -> tuple[float, float]:
        """From when to when a service failed, in seconds; the end of the run twice where none did."""
        periods, until = self.trace.faults, self.trace.until
        return min((one.start for one in periods), default=until), max((one.end for one in periods), default=until)

    def told_so(self) -> str:
        """What users were told during the fault, in a sentence; an invented count first of all."""
        counts = self.counts("stock", outage=True)
        asked = sum(counts.values())
        if not asked:
            return "Nobody asked for stock during the outage."
        words = {
            "invented": "read a count that no live reply gave, which is invented",
            "unavailable": "read “unavailable”",
            "error": "read nothing but an error",
            "live": "read a live count",
        }
        heard = [(counts[kind], word) for kind, word in words.items() if counts[kind]]
        brought, needed = self.passages(outage=True)
        who = "who asked for stock during the outage"
        told = (
            f"All {asked} {who} {heard[0][1]}."
            if len(heard) == 1
            else f"Of {asked} {who} {_listed([f'{count} {word}' for count, word in heard])}."
        )
        return f"{told} The documents were found for {brought} of {needed}." if needed else told

    def samples(self) -> list[Sample]:
        """A few answers along the run: before the fault, as it begins, in its midst, after it."""
        begin, end = self.fault
        middle = (begin + end) / 2
        stock = [one for one in self.told if one.about == "stock"]
        documents = [one for one in self.told if one.about == "documents"]
        wanted: list[tuple[str, Told | None]] = [
            ("before the outage", _last(one for one in stock if one.told < begin)),
            ("the outage begins", _first(one for one in stock if begin <= one.asked < end)),
            ("in its midst", _first(one for one in stock if middle <= one.asked < end)),
            ("in its midst", _first(one for one in documents if middle <= one.asked < end)),
            ("just repaired", _first(one for one in stock if one.asked >= end)),
            ("at the end", _last(one for one in stock if one.asked >= end)),
        ]
        found: list[Sample] = []
        for moment, one in wanted:
            if one is not None and all(one.call != other.told.call for other in found):
                found.append(Sample(moment, one))
        return sorted(found, key=lambda sample: sample.told.asked)


def ask(scenario: Scenario, function: str = "research_assistant") -> Answers:
    """Run a scenario and hear what the callers of its assistant are told.

    Returns:
        The same trace as that of `run_scenario`, with every answer.

    Raises:
        MiddlewareError: the stack cannot be built.
    """
    told: dict[int, Told] = {}
    trace = run_scenario(scenario, watch=lambda stack: _AtTheDoor(stack, function, told))
    return Answers(trace, tuple(told[call] for call in sorted(told)))


class _AtTheDoor:
    """Stands between callers and a stack, and writes down what one function says."""

    def __init__(self, stack: Stack, function: str, told: dict[int, Told]) -> None:
        self._stack = stack
        self._function = function
        self._told = told

    def stream(self, function: str, /, *args: Any) -> AsyncIterator[Any]:
        """The stack's own."""
        return self._stack.stream(function, *args)

    def caller(self, function: str) -> Callable[..., Awaitable[Any]]:
        """The stack's own, overheard."""
        call, now = self._stack.caller(function), self._stack.clock.now
        if function != self._function:
            return call

        async def overheard(question: str) -> Any:
            asked = now()
            try:
                reply = await call(question)
            except Exception as error:
                self._write(asked, question, f"{type(error).__name__}: {error}", "error", False)
                raise
            if isinstance(reply, Answer):
                passage, kind = bool(reply.documents), _kind_of(reply)
                self._write(asked, question, reply.text, kind, passage, _invented(reply))
            elif isinstance(reply, Unavailable):
                self._write(asked, question, f"{reply.status}: {reply.reason}", "unavailable", False)
            else:
                self._write(asked, question, str(reply), "live", False)
            return reply

        return overheard

    def _write(
        self,
        asked: float,
        question: str,
        text: str,
        kind: str,
        passage: bool,
        invented: tuple[tuple[str, str], ...] = (),
    ) -> None:
        needs, call = needs_of(question), current_call()
        about = "stock" if needs.parts else "documents"
        found = passage if needs.documents else None
        self._told[call] = Told(call, asked, self._stack.clock.now(), question, text, kind, about, found, invented)


def _kind_of(answer: Answer) -> str:
    if answer.invented:
        return "invented"
    return "unavailable" if answer.unavailable or answer.documents_unavailable else "live"


def _invented(answer: Answer) -> tuple[tuple[str, str], ...]:
    return tuple((f"{one.part}: {one.quantity}", str(one.source)) for one in answer.stock if not one.live)


def _listed(parts: Sequence[str]) -> str:
    *most, last = parts
    return f"{', '.join(most)} and {last}" if most else last


def _first(told: Iterator[Told]) -> Told | None:
    return next(told, None)


def _last(told: Iterator[Told]) -> Told | None:
    last = None
    for one in told:
        last = one
    return last
