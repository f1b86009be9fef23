"""The dependency of the course: how many of a part are in stock, and at which site.

The parts, the sites and the numbers are invented.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Coroutine, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from labkit.errors import ServiceError
from labkit.services.checks import shown
from labkit.services.mocks.mock import MockService

__all__ = ["CATALOGUE", "SITES", "UNKNOWN_PART", "PartsAvailability", "StockReply"]

UNKNOWN_PART = "unknown part"
"""The status of a business rejection: the service works and does not know the part."""

SITES = ("North depot", "Harbour works", "Hill plant")

CATALOGUE = MappingProxyType(
    {
        # part: (what it is, how many at each of SITES)
        "HX-2040": ("hydraulic seal kit", (14, 3, 25)),
        "PM-7315": ("pump motor, 7.5 kW", (2, 0, 1)),
        "BR-1180": ("spindle bearing", (40, 18, 7)),
        "CV-0427": ("check valve, 40 mm", (9, 9, 0)),
        "FL-3302": ("oil filter element", (120, 65, 88)),
        "EN-5096": ("rotary encoder", (0, 0, 0)),
        "GB-8801": ("planetary gearbox", (1, 0, 2)),
        "CB-6123": ("servo cable, 10 m", (31, 12, 16)),
    }
)
"""Part number to name and stock. One part is out of stock everywhere: zero is an answer, "unavailable" is not."""

_new = tuple.__new__
_STOCK = {part: (sum(stock), tuple(zip(SITES, stock, strict=True))) for part, (_, stock) in CATALOGUE.items()}


def check_part(part: object) -> None:
    """Refuse what cannot be a part's number.

    Raises:
        ServiceError: it is not a text, or an empty one.
    """
    if not isinstance(part, str) or not part:
        raise ServiceError(f"a part is a text such as 'HX-2040', and not {shown(part)}")


class StockReply(NamedTuple):
    """What the service says about a part.

    Attributes:
        status: "ok" or "unknown part".
        part: the part's number, as asked.
        quantity: how many are in stock, at `site` or in all; None for an unknown part.
        site: the site that `quantity` is about; None for all of them together.
        sites: quantity by site, as pairs; empty where the reply is about one site or the part is unknown.
        as_of: when this was true, in seconds since the service's start.
    """

    status: str
    part: str
    quantity: int | None = None
    site: str | None = None
    sites: tuple[tuple[str, int], ...] = ()
    as_of: float | None = None

    @property
    def known(self) -> bool:
        """Whether the service knows the part."""
        return self.status == "ok"

    def to_dict(self) -> dict[str, object]:
        """The reply as plain data, `sites` as a mapping."""
        return {**self._asdict(), "sites": dict(self.sites)}

    def __str__(self) -> str:
        if not self.known:
            return f"{self.part}: {self.status}"
        return f"{self.part}: {self.quantity} in stock" + (f" at {self.site}" if self.site is not None else "")


class PartsAvailability(MockService[StockReply]):
    """The mock service `parts_availability`. See `MockService` for its clock, fault plan, latency and counters.

    Hand it to a `Stack` as it is, or behind an adapter that classifies what it does (`InProcessAdapter`).

    Example:
        >>> from labkit.timing import VirtualClock
        >>> clock = VirtualClock()
        >>> service = PartsAvailability(clock, plan="healthy")
        >>> print(clock.run(service.call("HX-2040")))
        HX-2040: 42 in stock
        >>> service.attempts, clock.now()
        (1, 0.05)
    """

    name = "parts_availability"

    def call(self, part: str) -> Coroutine[Any, Any, StockReply | str]:
        """How many of the part are in stock, in all and by site.

        An unknown part is an answer (`status` is "unknown part"), not an error. Under `error_shaped_string` the answer
        is a text, as from a client that swallows exceptions.

        Raises:
            DependencyError: the service fails (`error`).
            ConnectionError: the connection is dropped (`connection_error`).
            ServiceError: the part is not a text.
        """
        return self._call(part)  # not awaited here: a coroutine less on every call's way

    async def stream(self, part: str) -> AsyncGenerator[StockReply | str, None]:
        """The same, one chunk a site and then the total. Each chunk takes a latency.

        Raises:
            DependencyError: the service fails before the first chunk (`error`) or after some (`mid_stream_death`).
            ConnectionError: the connection is dropped (`connection_error`).
            ServiceError: the part is not a text.
        """
        chunks = self._stream(part)
        try:
            async for chunk in chunks:
                yield chunk
        finally:
            # A reader that stops early must not leave the service waiting for the garbage collector.
            await chunks.aclose()

    _check = staticmethod(check_part)

    def _answer(self, subject: str, at: float) -> StockReply | None:
        found = _STOCK.get(subject)
        # Past the named tuple's own constructor, which takes three times as long.
        return None if found is None else _new(StockReply, ("ok", subject, found[0], None, found[1], at))

    def _chunks(self, subject: str, at: float) -> Sequence[StockReply] | None:
        total = self._answer(subject, at)
        if total is None:
            return None
        return [*(StockReply("ok", subject, many, site, (), at) for site, many in total.sites), total]

    def _rejection(self, subject: str, at: float) -> StockReply:
        return StockReply(UNKNOWN_PART, subject, as_of=at)
