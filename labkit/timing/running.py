"""Taking the place of asyncio's running loop for a while, and giving it back as it was."""

from __future__ import annotations

import asyncio.tasks
import sys
from asyncio.events import _get_running_loop, _set_running_loop
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

__all__ = ["ONE_TASK_A_THREAD", "in_place_of_the_loop"]

# Up to Python 3.13 asyncio looks the current task up by its loop. Since then its C half keeps one a thread, so who
# takes the loop's place takes the task's as well: else the outer loop's task would be taken for the inner one's.
ONE_TASK_A_THREAD = sys.version_info >= (3, 14) and asyncio.tasks.current_task is not getattr(
    asyncio.tasks, "_py_current_task", None
)


@contextmanager
def in_place_of_the_loop(loop: object = None, task: object = None) -> Iterator[object]:
    """Let asyncio take `loop` for its running loop inside the block.

    Args:
        loop: what asyncio finds; None for no loop at all.
        task: what asyncio finds as its current task where there is one a thread; None for no task.

    Returns:
        The loop outside, or None.
    """
    outer: Any = _get_running_loop()
    inner = cast(Any, loop)
    if not ONE_TASK_A_THREAD:
        _set_running_loop(inner)
        try:
            yield outer
        finally:
            _set_running_loop(outer)
        return
    enter, leave = asyncio.tasks._enter_task, asyncio.tasks._leave_task
    resting = None if outer is None else asyncio.tasks.current_task()
    if resting is not None:
        leave(outer, resting)
    try:
        _set_running_loop(inner)
        try:
            if task is not None:
                enter(inner, cast(Any, task))
            try:
                yield outer
            finally:
                if task is not None:
                    leave(inner, cast(Any, task))
        finally:
            _set_running_loop(outer)
    finally:
        if resting is not None:
            enter(outer, resting)
