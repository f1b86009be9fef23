"""A bar on a terminal for what takes longer than a third of a second, erased when it is over."""

from __future__ import annotations

import os
import shutil
import sys
from types import TracebackType
from typing import TextIO

from labkit.cli.text import shown
from labkit.timing import Clock, LoopClock

__all__ = ["Progress"]

PATIENCE = 0.3  # seconds without a bar
EVERY = 0.1  # seconds between two drawings
WIDTH = 30  # signs


class Progress:
    """The bar. Use it in a `with`, which erases it at the end, also on Ctrl-C.

    Args:
        label: what stands before it; shortened, and left out, where the terminal is narrow.
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
        self._label = " ".join(label.split())
        self._counts = counts
        self._stream = sys.stderr if stream is None else stream
        self._clock = LoopClock() if clock is None else clock
        self._shown = self._stream is not None and self._stream.isatty() and os.environ.get("TERM") != "dumb"
        self._began = self._clock.now()
        self._next = self._began + PATIENCE
        self._first: float | None = None
        self._drawn = False

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.erase()

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
        bar = "#" * int(min(1.0, share) * WIDTH)
        self._drawn = True
        self._write(f"\r{self._line(f'[{bar:<{WIDTH}}]', ', '.join(words))}\033[K")

    def erase(self) -> None:
        """Leave an empty line, where a bar was drawn."""
        if self._drawn:
            self._drawn = False
            self._write("\r\033[K")

    def say(self, sentence: str) -> None:
        """Say something below the bar, which goes on under it. A signal's handler may call this at any time."""
        before, after = ("\r\033[K" if self._drawn else ""), "\n"
        if self._stream is not None:
            text = before + shown(f"labkit: {sentence}", self._stream) + after
            try:  # past the buffer, in the middle of whose writing this may come
                os.write(self._stream.fileno(), text.encode(getattr(self._stream, "encoding", None) or "utf-8"))
            except (OSError, ValueError):
                self._write(text)

    def _line(self, bar: str, words: str) -> str:
        """As much as fits into one line of the terminal."""
        room = shutil.get_terminal_size((80, 24)).columns - 1
        label = shown(self._label, self._stream)
        left = room - len(bar) - len(words) - 4
        if left >= min(8, len(label)):
            return f"{label if len(label) <= left else label[: left - 3] + '...'}  {bar}  {words}"
        return f"{bar}  {words}" if left >= -2 else words[: max(0, room)]

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):  # the terminal is gone; the work goes on
            self._shown = self._drawn = False


def _duration(seconds: float) -> str:
    whole = max(1, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s" if whole < 600 else f"{whole // 60} min"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
