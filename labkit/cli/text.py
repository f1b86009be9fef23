"""Prose and tables for a terminal."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Sequence

__all__ = ["number", "prose", "put", "table"]

WIDEST = 100  # signs of a line of prose; longer ones are hard to read


def put(text: str) -> None:
    """Print, with escapes for what the terminal's encoding has no sign for."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    print(text.encode(encoding, "backslashreplace").decode(encoding))


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
    """Columns, aligned to the right but for those named in `left`."""
    widths = [max(len(row[place]) for row in (heads, *rows)) for place in range(len(heads))]
    lines = []
    for row in (heads, *rows):
        cells = [
            cell.ljust(width) if place in left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
