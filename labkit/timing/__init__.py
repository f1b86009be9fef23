"""One idea carries the rest: the same coroutines on two clocks.

`LoopClock` is asyncio and real time; `VirtualClock` drives the same coroutines from a heap of due times, with no event
loop and no waiting; `VirtualLoop` is an asyncio event loop whose time jumps, for code that is written against asyncio.
"""

from __future__ import annotations

from labkit.timing.clock import Clock, Deadline, Event, Task
from labkit.timing.loop_clock import LoopClock
from labkit.timing.virtual_clock import VirtualClock, VirtualTask
from labkit.timing.virtual_loop import VirtualLoop, run_virtual
from labkit.timing.virtual_time import in_virtual_time

__all__ = [
    "Clock",
    "Deadline",
    "Event",
    "LoopClock",
    "Task",
    "VirtualClock",
    "VirtualLoop",
    "VirtualTask",
    "in_virtual_time",
    "run_virtual",
]
