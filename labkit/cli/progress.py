"""A bar on a terminal for what takes longer than a second, erased when it is over."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TextIO

from labkit.timing import Clock, LoopClock

__all__ = ["Progress"]

PATIENCE = 1.0  # seconds without a bar
EVERY = 0.1  # seconds between two drawings
WIDTH = 30  # signs


class Progress:
    """The bar. Use it in a `with`, which erases it at the end, also on Ctrl-C.

    Args:
        label: what stands before it.
        counts: show how many of how many are done; else the share.
        stream: where; stderr if left out. Nothing is drawn where that is no terminal.
        clock: tells how long it has taken.

    Example:
        >>> with Progress("sweep") as progress:
        ...     progress(3, 10)
    """

    def __init__(
        self, label: str, *, counts: bool = True, stream: TextIO | None = None, clock: Clock | None = None
    ) -> None:
        self._label = label
        self._counts = counts
        self._stream = sys.stderr if stream is None else stream
        self._clock = LoopClock() if clock is None else clock
        self._shown = self._stream is not None and self._stream.isatty()
        self._began = self._clock.now()
        self._next = self._began + PATIENCE
        self._first: float | None = None
        self._drawn = False

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if self._drawn:
            self._write("\r\033[K")

    def __call__(self, done: float, of: float = 1.0) -> None:
        """So much is done, of so much in all."""
        if not self._shown:
            return
        if self._first is None:
            self._first = done  # what an earlier run had done says nothing about how fast this one is
        now = self._clock.now()
        if now < self._next:
            return
        self._next = now + EVERY
        share = done / of if of else 1.0
        words = [f"{done:,.0f}/{of:,.0f}" if self._counts else f"{share:.0%}"]
        new = done - self._first
        if new > 0 and done < of:
            words.append(f"{_duration((now - self._began) * (of - done) / new)} left")
        bar = "#" * int(share * WIDTH)
        self._write(f"\r{self._label}  [{bar:<{WIDTH}}]  {', '.join(words)}\033[K")
        self._drawn = True

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


def _duration(seconds: float) -> str:
    whole = max(1, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s" if whole < 600 else f"{whole // 60} min"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
