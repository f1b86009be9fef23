"""Prose and tables for a terminal.

What is printed may come from a file that anybody wrote: `put` and `complain` are the one way to a terminal, and no
escape, direction mark or half character passes them. Files of results keep what they were given.
"""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
from collections.abc import Sequence
from typing import TextIO

from labkit.config.findings import printable
from labkit.errors import LabkitError

__all__ = ["complain", "number", "prose", "put", "shown", "table"]

_LONG = re.compile(r"\S{300,}")  # a word that no sentence has of its own
WIDEST = 100  # signs of a line of prose; longer ones are hard to read


def put(text: str) -> None:
    """Print, with escapes for what is not printable and for what the terminal's encoding has no sign for.

    Raises:
        LabkitError: it cannot be printed, to a full disk for one.
        BrokenPipeError: the reader went away.
    """
    if sys.stdout is None:  # closed by who called: nobody wants to read it
        return
    try:
        print(shown(text, sys.stdout), flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        forget(sys.stdout)
        raise LabkitError(f"the output cannot be written: {(error.strerror or str(error)).lower()}") from None


def complain(text: str) -> None:
    """Say a sentence on stderr, in labkit's name."""
    if sys.stderr is None:
        return
    try:
        print(shown(f"labkit: {_LONG.sub(_shortened, text)}", sys.stderr), file=sys.stderr, flush=True)
    except OSError:  # there is nobody left to say it to
        forget(sys.stderr)


def _shortened(word: re.Match[str]) -> str:
    return f"{word[0][:100]}...{word[0][-20:]}"


def shown(text: str, stream: TextIO) -> str:
    """The text as a stream can show it: line by line printable, in the stream's encoding."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    lines = "\n".join(map(printable, text.split("\n")))
    return lines.encode(encoding, "backslashreplace").decode(encoding)


def forget(stream: TextIO) -> None:
    """Let the interpreter flush into nothing when it ends, instead of failing once more."""
    import os
    from contextlib import suppress

    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def prose(text: str) -> str:
    """A paragraph, broken at the terminal's width."""
    width = min(WIDEST, shutil.get_terminal_size((WIDEST, 24)).columns)
    return textwrap.fill(" ".join(text.split()), max(20, width), break_long_words=False, break_on_hyphens=False)


def number(value: float | None, *, sign: bool = False) -> str:
    """A number for a table: whole ones in full, others with four digits that count; "-" for none.

    Example:
        >>> number(24000), number(0.0512345), number(180.26), number(None), number(-2, sign=True)
        ('24,000', '0.05123', '180.3', '-', '-2')
    """
    if value is None:
        return "-"
    plus = "+" if sign and value > 0 else ""
    if isinstance(value, int):
        return f"{plus}{value:,}"
    if value == 0.0:
        return "0"
    return f"{plus}{float(f'{value:.4g}'):,.10g}"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], *, left: Sequence[int] = (0,)) -> str:
    """Columns, aligned to the right but for those named in `left`; each cell is made printable, so on one line.

    Args:
        heads: a head for each column.
        rows: the cells, a list for each row.
        left: the numbers of the columns that are aligned to the left.
    """
    heads, rows = [*map(printable, heads)], [[*map(printable, row)] for row in rows]
    widths = [max(len(row[place]) for row in (heads, *rows)) for place in range(len(heads))]
    lines = []
    for row in (heads, *rows):
        cells = [
            cell.ljust(width) if place in left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
