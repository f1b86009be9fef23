"""Whether the running code lives in virtual time, whichever clock it was given."""

from __future__ import annotations

from asyncio.events import _get_running_loop

from labkit.timing.virtual_clock import _NoLoop
from labkit.timing.virtual_loop import VirtualLoop

__all__ = ["in_virtual_time"]


def in_virtual_time() -> bool:
    """Whether a `VirtualClock` or a `VirtualLoop` drives whoever asks.

    It decides what has no seed of its own: in virtual time two runs are equal to the byte, so it draws from a fixed
    seed there; in real time replicas must not do the same at the same moment, so it draws anew in each process.

    >>> from labkit.timing import VirtualClock
    >>> async def ask():
    ...     return in_virtual_time()
    >>> VirtualClock().run(ask()), in_virtual_time()
    (True, False)
    """
    return isinstance(_get_running_loop(), (_NoLoop, VirtualLoop))
