"""Ctrl-C in a long command: the first is noted, and what it asks for is done; the second ends everything at once."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread

__all__ = ["heeding"]


@contextmanager
def heeding(first: Callable[[], object]) -> Iterator[Callable[[], bool]]:
    """Inside, Ctrl-C calls `first`, and another one raises KeyboardInterrupt, wherever it comes.

    An interrupt that comes while Python runs a callback of its own, such as a destructor, is lost; a note is not: what
    this gives tells whether there was one, to whoever looks from time to time.
    """
    noted: list[int] = []

    def note(number: int, frame: object) -> None:
        noted.append(number)
        if len(noted) > 1:
            raise KeyboardInterrupt
        first()

    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler or current_thread() is not main_thread():
        yield lambda: bool(noted)
        return
    signal.signal(signal.SIGINT, note)
    try:
        yield lambda: bool(noted)
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
