"""At most so many calls at once, a short queue for the next ones, and a plain no for the rest. labkit's own.

A place that comes free is handed to the first in the queue at once, so nobody who comes later can take it from them,
and a place is always either taken, handed over or free: none is lost. Source of the pattern: Azure Architecture Center,
Bulkhead pattern.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from labkit.policies._machine import Transition

__all__ = ["TRANSITIONS", "BulkheadPolicy", "BulkheadSnapshot", "Ticket"]

#: FREE: places are left. BUSY: all are taken, nobody waits. QUEUED: all are taken and somebody waits.
TRANSITIONS: tuple[Transition, ...] = (
    Transition("FREE", "call", "running + 1 < max_concurrent", "FREE", "admitted, running + 1"),
    Transition("FREE", "call", "running + 1 >= max_concurrent", "BUSY", "admitted, running + 1"),
    Transition("FREE", "end", "", "FREE", "running - 1"),
    Transition("BUSY", "call", "max_queue is 0", "BUSY", "rejected"),
    Transition("BUSY", "call", "max_queue is above 0", "QUEUED", "waits, waiting + 1"),
    Transition("BUSY", "end", "", "FREE", "running - 1"),
    Transition("QUEUED", "call", "waiting >= max_queue", "QUEUED", "rejected"),
    Transition("QUEUED", "call", "waiting < max_queue", "QUEUED", "waits, waiting + 1"),
    Transition("QUEUED", "end", "waiting > 1", "QUEUED", "the first in the queue is admitted, waiting - 1"),
    Transition("QUEUED", "end", "waiting = 1", "BUSY", "the first in the queue is admitted, waiting - 1"),
    Transition("QUEUED", "max_wait over", "waiting > 1", "QUEUED", "rejected, waiting - 1"),
    Transition("QUEUED", "max_wait over", "waiting = 1", "BUSY", "rejected, waiting - 1"),
    Transition("QUEUED", "cancelled", "waiting > 1", "QUEUED", "waiting - 1"),
    Transition("QUEUED", "cancelled", "waiting = 1", "BUSY", "waiting - 1"),
)


class BulkheadSnapshot(NamedTuple):
    """What a bulkhead holds about one target.

    Attributes:
        running: calls that have a place.
        waiting: calls in the queue.
    """

    running: int
    waiting: int


class Ticket:
    """Somebody's turn in a queue.

    Attributes:
        admitted: whether the place has been handed over.
        wake: what the shell calls to tell who waits.
    """

    __slots__ = ("admitted", "wake")

    def __init__(self, wake: Callable[[], object]) -> None:
        self.admitted = False
        self.wake = wake


class BulkheadPolicy:
    """Places and queues, for any number of targets. Targets that nobody calls take no memory.

    Args:
        max_concurrent: calls of one target at once, above 0.
        max_queue: calls of one target that may wait for a place, 0 or more.

    Example:
        >>> policy = BulkheadPolicy(max_concurrent=1, max_queue=1)
        >>> policy.enter("parts"), policy.enter("parts")
        (True, False)
        >>> ticket = policy.queue("parts", wake=lambda: None)
        >>> policy.queue("parts", wake=lambda: None) is None
        True
        >>> policy.leave("parts") is ticket, ticket.admitted, policy.snapshot("parts")
        (True, True, BulkheadSnapshot(running=1, waiting=0))
    """

    __slots__ = ("_queues", "_running", "max_concurrent", "max_queue")

    def __init__(self, max_concurrent: int, max_queue: int = 0) -> None:
        self.max_concurrent = max_concurrent
        self.max_queue = max_queue
        self._running: dict[str, int] = {}
        self._queues: dict[str, deque[Ticket]] = {}

    def enter(self, target: str) -> bool:
        """Take a place if one is free. Where somebody waits none is: places are handed over, not put back."""
        running = self._running.get(target, 0)
        if running >= self.max_concurrent:
            return False
        self._running[target] = running + 1
        return True

    def queue(self, target: str, wake: Callable[[], object]) -> Ticket | None:
        """Stand in the queue after `enter` said no; None when the queue is full."""
        queue = self._queues.get(target)
        if len(queue or ()) >= self.max_queue:
            return None
        if queue is None:
            queue = self._queues[target] = deque()
        ticket = Ticket(wake)
        queue.append(ticket)
        return ticket

    def leave(self, target: str) -> Ticket | None:
        """Give a place up. It is handed to the first in the queue, whose ticket is returned for the shell to wake."""
        queue = self._queues.get(target)
        if queue is not None:
            ticket = queue.popleft()
            ticket.admitted = True
            if not queue:
                del self._queues[target]
            return ticket
        running = self._running[target] - 1
        if running:
            self._running[target] = running
        else:
            del self._running[target]
        return None

    def abandon(self, target: str, ticket: Ticket) -> bool:
        """Leave the queue. False for a ticket that has been handed a place, which its owner then has to give up."""
        if ticket.admitted:
            return False
        queue = self._queues[target]
        queue.remove(ticket)
        if not queue:
            del self._queues[target]
        return True

    def snapshot(self, target: str) -> BulkheadSnapshot:
        """What is held about a target; asking does not create it."""
        return BulkheadSnapshot(self._running.get(target, 0), len(self._queues.get(target, ())))
