"""Who hears what a middleware does: one list for all of it, one for those who do not care for ordinary traffic."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["Listeners"]

E = TypeVar("E")
_logger = logging.getLogger(__name__)


class Listeners(Generic[E]):
    """The listeners of one middleware.

    Args:
        whose: what the middleware is called in the log.

    Attributes:
        traffic: those who hear everything. The list itself stays the same, so a hot path may hold it.
        quiet: those who hear of no ordinary traffic.
    """

    __slots__ = ("quiet", "traffic", "whose")

    def __init__(self, whose: str) -> None:
        self.whose = whose
        self.traffic: list[Callable[[E], object]] = []
        self.quiet: list[Callable[[E], object]] = []

    def __bool__(self) -> bool:
        return bool(self.traffic or self.quiet)

    def add(self, listener: Callable[[E], object], traffic: bool) -> Callable[[], None]:
        """Let one more hear; gives a function that ends it."""
        heard = self.traffic if traffic else self.quiet
        heard.append(listener)

        def unsubscribe() -> None:
            if listener in heard:
                heard.remove(listener)

        return unsubscribe

    def tell(self, event: E, ordinary: bool) -> None:
        """Tell everybody, or of ordinary traffic those who want it. One that raises is logged and disturbs nobody."""
        for listener in tuple(self.traffic) if ordinary else (*self.traffic, *self.quiet):
            try:
                listener(event)
            except Exception:
                _logger.exception("a listener of the %s failed on %s", self.whose, event)
