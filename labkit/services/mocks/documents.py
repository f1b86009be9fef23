"""The healthy tool of the course: a search in maintenance documents, ranked by the words that a passage shares.

The documents are invented, and are about the parts of `labkit.services.mocks.parts`.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Coroutine, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from labkit.errors import ServiceError
from labkit.services.checks import shown
from labkit.services.mocks.mock import MockService

__all__ = ["DOCUMENTS", "NOTHING_FOUND", "MaintenanceDocuments", "SearchHit", "SearchReply"]

NOTHING_FOUND = "nothing found"
"""The status of a search without a hit: the service works, and there is no such passage."""

MOST_HITS = 3

DOCUMENTS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    # id: (title, passages)
    "MD-01": (
        "Replacing the hydraulic seal kit HX-2040",
        (
            "Relieve the pressure and wait until the gauge reads zero before a cover is opened.",
            "Replace all seals of the kit together; a new seal beside an old one leaks within weeks.",
            "Wet the new seals with the oil that the circuit holds and press them in by hand, never with a blade.",
        ),
    ),
    "MD-02": (
        "Pump motor PM-7315: yearly check",
        (
            "Lock the supply, then measure the insulation of each winding against the frame.",
            "A pump motor that hums and does not turn has lost a phase: look at the fuses first.",
            "Clean the cooling fins; a coat of dust raises the winding's temperature by a third.",
        ),
    ),
    "MD-03": (
        "Spindle bearing BR-1180: grease and noise",
        (
            "Grease the spindle bearing every 2,000 hours of operation, with the spindle turning slowly.",
            "A dry whistle asks for grease; a rough growl means that the bearing has to be replaced.",
            "Warm a new bearing to 80 degrees before it is slid onto the shaft; do not hammer it.",
        ),
    ),
    "MD-04": (
        "Check valve CV-0427: fitting and tests",
        (
            "The arrow on the body of the check valve points with the flow.",
            "Test a fitted valve backwards at half the working pressure for ten minutes; no drop may be seen.",
        ),
    ),
    "MD-05": (
        "Oil filter element FL-3302: when to change it",
        (
            "Change the filter element when the pointer stands in the red field, or after a year.",
            "Never wash a filter element; what it has held comes loose and goes into the pump.",
        ),
    ),
    "MD-06": (
        "Rotary encoder EN-5096: setting the zero",
        (
            "After an encoder was replaced, drive the axis to its mark and set the zero anew.",
            "Counts that jump point to a loose coupling of the encoder, more often than to the encoder itself.",
        ),
    ),
    "MD-07": (
        "Planetary gearbox GB-8801: oil and play",
        (
            "Change the oil of the gearbox while it is warm, so that the wear runs out with it.",
            "Measure the play at the output shaft; above a quarter of a degree the gearbox is overhauled.",
        ),
    ),
    "MD-08": (
        "Servo cable CB-6123: routing",
        (
            "Keep the servo cable a hand's width from power lines, and cross them at right angles.",
            "Bend the cable no tighter than ten times its diameter; a broken screen shows as a drive that trips.",
        ),
    ),
    "MD-09": (
        "Before any maintenance: lock and tag",
        (
            "Switch off, lock the switch, hang your own tag on it and try to start the machine: it must stay still.",
            "Whoever hung a tag takes it off, and nobody else.",
        ),
    ),
}
"""The documents by their number."""

_WORD = re.compile(r"[a-z]{2}-\d{4}|[a-z]{3,}|\d{2,}")
_COMMON = frozenset(
    re.findall(
        r"\w+",
        "about after all and any are before can does for from has have how into its many may much must never not our "
        "out over should tell than that the them then there they this was what when where which while who why will "
        "with you your",
    )
)


def words_of(text: str) -> frozenset[str]:
    """The words of a text that say something, in small letters and without the plural's s."""
    return frozenset(
        word.removesuffix("s") if len(word) > 3 else word for word in _WORD.findall(text.lower()) if word not in _COMMON
    )


class SearchHit(NamedTuple):
    """A passage that was found.

    Attributes:
        document: the document's number, such as "MD-01".
        title: its title.
        passage: the passage's text.
        score: how many of the query's words it shares, as a share of the most it could: a word in the passage counts
            twice, one in the title once. Above 0, at most 1.
    """

    document: str
    title: str
    passage: str
    score: float


class SearchReply(NamedTuple):
    """What the search says.

    Attributes:
        status: "ok" or "nothing found".
        query: as asked.
        hits: the best first.
    """

    status: str
    query: str
    hits: tuple[SearchHit, ...] = ()

    @property
    def found(self) -> bool:
        """Whether there is a hit."""
        return bool(self.hits)

    def to_dict(self) -> dict[str, object]:
        """The reply as plain data."""
        return {**self._asdict(), "hits": [hit._asdict() for hit in self.hits]}

    def __str__(self) -> str:
        if not self.hits:
            return f"{shown(self.query)}: {self.status}"
        return "; ".join(f"{hit.document} {hit.title}: {hit.passage}" for hit in self.hits)


_INDEX = [
    (number, title, passage, words_of(title), words_of(passage))
    for number, (title, passages) in DOCUMENTS.items()
    for passage in passages
]


@lru_cache(maxsize=1024)
def search(query: str) -> SearchReply:
    """The passages that share most words with the query; of two that share as many, the one that stands first."""
    asked = words_of(query)
    hits: list[SearchHit] = []
    for number, title, passage, in_title, in_passage in _INDEX:
        shared = len(asked & in_title) + 2 * len(asked & in_passage)
        if shared:
            hits.append(SearchHit(number, title, passage, round(shared / (3 * len(asked)), 4)))
    best = sorted(hits, key=lambda hit: -hit.score)[:MOST_HITS]  # sorting keeps the order of equals
    return SearchReply("ok" if best else NOTHING_FOUND, query, tuple(best))


class MaintenanceDocuments(MockService[SearchReply]):
    """The mock service `maintenance_documents`. See `MockService` for its clock, workers, fault plan and counters.

    Example:
        >>> from labkit.timing import VirtualClock
        >>> clock = VirtualClock()
        >>> reply = clock.run(MaintenanceDocuments(clock).call("How do I grease a spindle bearing?"))
        >>> reply.status, reply.hits[0].document
        ('ok', 'MD-03')
    """

    name = "maintenance_documents"

    def call(self, query: str) -> Coroutine[Any, Any, SearchReply | str]:
        """The passages that fit, the best first. "Nothing found" is an answer.

        Raises:
            DependencyError, ConnectionError: the service's failure, as for `PartsAvailability.call`.
            ServiceError: the query is not a text.
        """
        return self._call(query)

    async def stream(self, query: str) -> AsyncGenerator[SearchReply | str, None]:
        """The same, one hit a chunk; a search that finds nothing is one chunk that says so.

        Raises:
            DependencyError, ConnectionError: the service's failure, as for `PartsAvailability.stream`.
            ServiceError: the query is not a text.
        """
        chunks = self._stream(query)
        try:
            async for chunk in chunks:
                yield chunk
        finally:
            await chunks.aclose()

    def _check(self, subject: object) -> None:
        if not isinstance(subject, str) or not subject:
            raise ServiceError(f"a query is a text such as 'grease a bearing', and not {shown(subject)}")

    def _answer(self, subject: str, at: float) -> SearchReply | None:
        return search(subject)

    def _chunks(self, subject: str, at: float) -> Sequence[SearchReply] | None:
        reply = search(subject)
        return [SearchReply("ok", subject, (hit,)) for hit in reply.hits] or [reply]

    def _rejection(self, subject: str, at: float) -> SearchReply:
        return SearchReply(NOTHING_FOUND, subject)
