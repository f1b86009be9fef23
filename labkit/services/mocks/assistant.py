"""A small research assistant: rules, no model, no key; the same question is always answered alike.

It reads part numbers and a few words out of a question, asks the tools that the question needs, and words an answer.
Its tools are functions of a stack, so a breaker can stand around one of them or, wrongly, around the whole assistant.

What it says about stock is a list of claims, and each claim carries the reply from which it came. A claim without one
is invented. There is no other way by which a number can get into an answer's stock: a text that begins with "Service
error" is no reply, and neither is an explicit "unavailable".
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import lru_cache
from typing import Any, NamedTuple, Protocol
from zlib import crc32

from labkit.errors import ServiceError
from labkit.services.checks import hint, shown
from labkit.services.mocks.documents import SearchHit, SearchReply
from labkit.services.mocks.mock import Attempt, outcome_of
from labkit.services.mocks.parts import CATALOGUE, StockReply
from labkit.timing.clock import Clock, Task

__all__ = ["Answer", "Claim", "ResearchAssistant"]

ON_ERROR = ("tell", "raise")

_PART = re.compile(r"\b[A-Za-z]{2}-\d{4}\b")
_STOCK_WORDS = re.compile(
    r"\b(how (many|much)|stock|available|availability|quantity|count|left|inventory|in store|spares?)\b", re.IGNORECASE
)
_DOCUMENT_WORDS = re.compile(
    r"\b(how (?!many|much)|why|when|replac\w*|chang\w*|maint\w*|fit\w*|install\w*|repair\w*|greas\w*|clean\w*|test\w*"
    r"|check\w* (?!valve)|measur\w*|set\w*|leak\w*|manual|procedure|documents?|instructions?)",
    re.IGNORECASE,
)


class Claim(NamedTuple):
    """A stock count that an answer states.

    Attributes:
        part: the part's number.
        quantity: how many.
        source: the live reply from which it came; or, of an invented one, the text "last seen" or "memory".
    """

    part: str
    quantity: int
    source: StockReply | str

    @property
    def live(self) -> bool:
        """Whether a live reply gave just this count for just this part."""
        source = self.source
        return isinstance(source, StockReply) and source.part == self.part and source.quantity == self.quantity


class Answer(NamedTuple):
    """What the assistant says.

    Attributes:
        question: as asked.
        text: the whole in words.
        stock: the stock counts that it states.
        documents: passages that it found.
        unavailable: whether it says of a part that its availability is unavailable.
        documents_unavailable: whether it says that the documents are.
    """

    question: str
    text: str
    stock: tuple[Claim, ...] = ()
    documents: tuple[SearchHit, ...] = ()
    unavailable: bool = False
    documents_unavailable: bool = False

    @property
    def invented(self) -> int:
        """How many of its stock counts no live reply gave."""
        return sum(not claim.live for claim in self.stock)

    def to_dict(self) -> dict[str, object]:
        """The answer as plain data."""
        return {
            "question": self.question,
            "text": self.text,
            "stock": [
                {"part": claim.part, "quantity": claim.quantity, "source": _source(claim)} for claim in self.stock
            ],
            "documents": [hit._asdict() for hit in self.documents],
            "unavailable": self.unavailable,
            "documents_unavailable": self.documents_unavailable,
            "invented": self.invented,
        }

    def __str__(self) -> str:
        return self.text


def _source(claim: Claim) -> str:
    return claim.source if isinstance(claim.source, str) else "live"


class _Needs(NamedTuple):
    """What a question needs: the parts to ask for, and whether to search the documents."""

    parts: tuple[str, ...]
    documents: bool


@lru_cache(maxsize=1024)
def needs_of(question: str) -> _Needs:
    """Which tools a question needs. One that names neither stock nor work, such as a bare part number, needs both."""
    parts = dict.fromkeys(part.upper() for part in _PART.findall(question))
    if not parts:
        small = question.lower()
        parts = dict.fromkeys(part for part, (name, _) in CATALOGUE.items() if name.partition(",")[0] in small)
    stock = _STOCK_WORDS.search(question) is not None
    documents = _DOCUMENT_WORDS.search(question) is not None
    either = stock or documents
    return _Needs(tuple(parts) if stock or not either else (), documents or not either or not parts)


class ToolCall(Protocol):
    """How a tool is called: through a stack, by its function's name."""

    def __call__(self, function: str, argument: Any, /) -> Awaitable[Any]: ...


class ResearchAssistant:
    """The service `research_assistant`. Connect it to its tools before it is asked.

    Args:
        clock: whose time it lives in.
        guess: told to guess: where no live reply says how many of a part there are, it states the number that it saw
            last, or else one that it believes to remember. Every such count is invented.
        on_error: what it does when a tool raises: "tell" says that the tool is unavailable, "raise" passes it on.
        together: ask all tools at once and not one after the other.
        stock: the function that is asked for a part's stock.
        documents: the function that searches the documents.
        seed: of what it believes to remember.
        name: what it is called, in place of `research_assistant`.

    Raises:
        ServiceError: a setting cannot be used.

    Attributes:
        attempts, in_flight, in_flight_peak, outcomes, record: as of a `MockService`.

    Example:
        >>> from labkit.services import PartsAvailability
        >>> from labkit.timing import VirtualClock
        >>> clock = VirtualClock()
        >>> parts = PartsAvailability(clock)
        >>> assistant = ResearchAssistant(clock)
        >>> assistant.connect(lambda function, argument: parts.call(argument))
        >>> print(clock.run(assistant.call("How many HX-2040 are in stock?")))
        HX-2040: 42 in stock.
    """

    name = "research_assistant"

    def __init__(
        self,
        clock: Clock,
        *,
        guess: bool = False,
        on_error: str = "tell",
        together: bool = False,
        stock: str = "parts_availability",
        documents: str = "maintenance_documents",
        seed: int = 0,
        name: str | None = None,
    ) -> None:
        if not isinstance(clock, Clock):
            raise ServiceError(
                f"an assistant needs a clock, such as VirtualClock() or LoopClock(), and not {shown(clock)}"
            )
        for key, value in (("guess", guess), ("together", together)):
            if not isinstance(value, bool):
                raise ServiceError(f"'{key}' is {shown(value)}; it must be true or false", [key])
        if on_error not in ON_ERROR:
            raise ServiceError(f"'on_error' cannot be {shown(on_error, 40)}{hint(on_error, ON_ERROR)}", ["on_error"])
        if name is not None:
            self.name = name
        self._clock = clock
        self._now = clock.now
        self._started_at = clock.now()
        self._guess = guess
        self._raises = on_error == "raise"
        self._together = together
        self._stock = _function("stock", stock)
        self._documents = _function("documents", documents)
        self._seed = seed
        self._call: ToolCall | None = None
        self._seen: dict[str, int] = {}
        self.record: Callable[[Attempt], object] | None = None
        self.attempts = 0
        self.in_flight = 0
        self.in_flight_peak = 0
        self.outcomes: Counter[str] = Counter()

    def connect(self, call: ToolCall, stock: str | None = None, documents: str | None = None) -> None:
        """Say how tools are called, for example by `stack.call`, and, if need be, under which names.

        Args:
            call: awaits a tool by name, such as `stack.call`.
            stock: the name of the function that counts stock, where it is not the usual one.
            documents: the name of the function that searches the documents, likewise.

        Raises:
            ServiceError: a name is no text.
        """
        self._call = call
        if stock is not None:
            self._stock = _function("stock", stock)
        if documents is not None:
            self._documents = _function("documents", documents)

    async def call(self, question: str) -> Answer:
        """Answer a question.

        Raises:
            ServiceError: the question is not a text, or the assistant is not connected.
            Exception: what a tool raised, where it was told so (`on_error`).
        """
        if not isinstance(question, str) or not question:
            raise ServiceError(f"a question is a text such as 'How many HX-2040 are there?', and not {shown(question)}")
        if self._call is None:
            raise ServiceError("the assistant has no tools yet; connect it first, for example with connect(stack.call)")
        at = self._now() - self._started_at
        self.attempts += 1
        self.in_flight = flying = self.in_flight + 1
        if flying > self.in_flight_peak:
            self.in_flight_peak = flying
        attempt = Attempt(self.attempts, "call", question, "healthy", at)
        attempt.served = at
        outcome = "cancelled"
        try:
            needs = needs_of(question)
            calls = [(self._stock, part) for part in needs.parts]
            if needs.documents:
                calls.append((self._documents, question))
            if self._together and len(calls) > 1:
                results = await self._ask_together(calls)
            else:
                results = [await self._ask(function, argument) for function, argument in calls]
            answer = self._word(question, needs, results)
            outcome = "answered"
            return answer
        except Exception as error:
            outcome = outcome_of(error)
            raise
        finally:
            attempt.ended = self._now() - self._started_at
            attempt.outcome = outcome
            self.in_flight -= 1
            self.outcomes[outcome] += 1
            if self.record is not None:
                self.record(attempt)

    async def stream(self, question: str) -> AsyncGenerator[Answer, None]:
        """The whole answer as one chunk: it is worded when all tools have replied."""
        yield await self.call(question)

    async def _ask(self, function: str, argument: str) -> Any:
        """What the tool says; of one that raised, the reason in words, if that is not to be passed on."""
        assert self._call is not None
        try:
            return await self._call(function, argument)
        except Exception as error:
            if self._raises and not (self._guess and function == self._stock):
                raise
            name, text = type(error).__name__, str(error)
            return _Failed(f"{name}: {text}" if text and _has_no_number(text) else name)

    async def _ask_together(self, calls: list[tuple[str, str]]) -> list[Any]:
        tasks: list[Task[Any]] = [self._clock.start(self._ask(function, argument)) for function, argument in calls]
        try:
            return [await task for task in tasks]
        finally:
            for task in tasks:
                # Those that still run when one has raised, or when nobody waits any more, end; what others raised
                # beside it is heard, so that no clock reports it as unheard.
                if not task.cancel() and not task.cancelled():
                    task.exception()

    def _word(self, question: str, needs: _Needs, results: list[Any]) -> Answer:
        """Word an answer of what the tools said."""
        sentences: list[str] = []
        claims: list[Claim] = []
        unavailable = documents_unavailable = False
        for part, said in zip(needs.parts, results, strict=False):
            if isinstance(said, StockReply) and said.part == part:
                if said.quantity is None:
                    sentences.append(f"{part}: {said.status}.")
                    continue
                self._seen[part] = said.quantity
                claims.append(Claim(part, said.quantity, said))
            elif self._guess:
                seen = self._seen.get(part)
                if seen is None:
                    claims.append(Claim(part, crc32(f"{self._seed}/{part}".encode()) % 40 + 1, "memory"))
                else:
                    claims.append(Claim(part, seen, "last seen"))
            else:
                unavailable = True
                sentences.append(f"{part}: availability unavailable ({_reason(said)}).")
                continue
            claim = claims[-1]
            at_site = f" at {said.site}" if claim.live and isinstance(said, StockReply) and said.site else ""
            seen_last = ", as seen last" if claim.source == "last seen" else ""
            sentences.append(f"{part}: {claim.quantity} in stock{at_site}{seen_last}.")
        hits: tuple[SearchHit, ...] = ()
        if needs.documents:
            said = results[-1]
            if not isinstance(said, SearchReply):
                documents_unavailable = True
                sentences.append(f"The maintenance documents are unavailable ({_reason(said)}).")
            elif said.hits:
                hits = said.hits
                sentences.append(f"{hits[0].document}, {hits[0].title}: {hits[0].passage}")
            else:
                sentences.append("The maintenance documents say nothing about it.")
        return Answer(question, " ".join(sentences), tuple(claims), hits, unavailable, documents_unavailable)


class _Failed(NamedTuple):
    """Stands for the reply of a tool that raised."""

    reason: str
    status: str = "unavailable"


def _reason(said: object) -> str:
    """Why there is no reply, in words. A text that holds a number is not repeated: it would be taken for a count."""
    # The explicit outcome of a fallback is known by its status; this floor does not know the class.
    if getattr(said, "status", None) == "unavailable":
        reason = str(getattr(said, "reason", ""))
        return reason if reason and _has_no_number(reason) else "the tool says that it is unavailable"
    if isinstance(said, str):
        return f"the tool answered with a text{f', {shown(said)}' if _has_no_number(said) else ''}"
    return f"the tool answered with {type(said).__name__}"


def _has_no_number(text: str) -> bool:
    return not any(sign.isnumeric() for sign in text)


def _function(key: str, value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ServiceError(f"'{key}' is {shown(value)}; it must be the name of a function", [key])
    return value
