"""The date and time of day, for the name of a file and nothing else.

No rule and no measurement depends on it. It stands alone here so that everything else can be held to reading no clock
but the one it is given.
"""

from __future__ import annotations

from datetime import datetime

__all__ = ["stamp"]


def stamp() -> str:
    """Return the local date and time as `YYYY-MM-DD-HHMMSS`."""
    return datetime.now().strftime("%Y-%m-%d-%H%M%S")
