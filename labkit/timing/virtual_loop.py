"""An asyncio event loop whose time jumps to the next due callback.

For code that is written against asyncio itself (`asyncio.sleep`, `timeout`, `gather`, `Event`, `Queue`), a learner's
own or the real toolkit's. Slower than `VirtualClock`, which serves wherever only a `Clock` is awaited. The world
outside (sockets, threads, processes, signals) does not live in virtual time: asking for it is an error that says so.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine
from contextvars import Context
from heapq import heappush
from itertools import count
from typing import Any, NoReturn, TypeVar, TypeVarTuple

from labkit.errors import ClockError, DeadlockError, VirtualLoopError
from labkit.timing.loop_clock import _announce_virtual_loop, _forget_virtual_loop
from labkit.timing.running import in_place_of_the_loop
from labkit.timing.virtual_clock import waits_at

__all__ = ["VirtualLoop", "run_virtual"]

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class _Jump:
    """Stands where a loop has its selector: instead of waiting it moves the loop's time to what is due next."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[Any]:
        """Jump, if there is nothing to do now; refuse to wait for ever."""
        if timeout is None:
            self._loop._idle()
        elif timeout > 0:
            self._loop._jump()
        return []

    def close(self) -> None:
        """There is nothing to close."""


class _Timer(asyncio.TimerHandle):
    """A timer that keeps its place among those that are due at the same time.

    asyncio's own come out of their heap in no order when they are due together. With a real clock they hardly ever are;
    here they are all the time.
    """

    __slots__ = ("_place",)

    def __init__(
        self,
        when: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: VirtualLoop,
        context: Context | None,
        place: int,
    ) -> None:
        super().__init__(when, callback, args, loop, context)
        self._place = place

    def __lt__(self, other: object) -> bool:
        if isinstance(other, _Timer):
            return self._when < other._when or (self._when == other._when and self._place < other._place)  # type: ignore[attr-defined]
        return NotImplemented


class VirtualLoop(asyncio.BaseEventLoop):
    """An asyncio event loop in virtual time, which begins at 0.0 seconds.

    Callbacks that are due together run in the order in which they were scheduled.

    Raises:
        DeadlockError: nothing is due any more and the loop has not been stopped; names the waiting tasks.
        VirtualLoopError: a socket, thread, process or signal was asked for.
    """

    def __init__(self) -> None:
        super().__init__()
        self._virtual_now = 0.0
        self._places = count()
        self._selector = _Jump(self)
        _announce_virtual_loop(self)

    @property
    def _clock_resolution(self) -> float:
        # asyncio runs what is due before now plus this, for the sake of coarse real clocks. Here the smallest step that
        # a float can make: what is due now runs now, and nothing runs before its time.
        return math.ulp(self._virtual_now)

    @_clock_resolution.setter
    def _clock_resolution(self, value: float) -> None:
        """The base class sets the real clock's; it does not matter here."""

    def close(self) -> None:
        """Close the loop, as asyncio's are."""
        super().close()
        _forget_virtual_loop(self)

    def time(self) -> float:
        """Virtual seconds."""
        return self._virtual_now

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Call back at a time of this loop, after everything that was scheduled earlier for the same time.

        Args:
            when: seconds, in this loop's time.
            callback: what to call.
            args: its arguments.
            context: the context in which it is called; the current one where none is given.

        Raises:
            TypeError: `when` is None or NaN.
        """
        if when is None or when != when:
            raise TypeError(f"when cannot be {when!r}")
        self._check_closed()  # type: ignore[attr-defined]
        if self.get_debug():
            self._check_thread()  # type: ignore[attr-defined]
            self._check_callback(callback, "call_at")  # type: ignore[attr-defined]
        timer = _Timer(when, callback, args, self, context, next(self._places))
        heappush(self._scheduled, timer)  # type: ignore[attr-defined]
        timer._scheduled = True  # type: ignore[attr-defined]
        return timer

    def _jump(self) -> None:
        due = self._scheduled[0]._when  # type: ignore[attr-defined]
        if due == math.inf:
            self._idle()
        self._virtual_now = max(self._virtual_now, due)

    def _idle(self) -> NoReturn:
        tasks = sorted(asyncio.all_tasks(self), key=lambda task: task.get_name())
        raise DeadlockError(
            f"nothing is due any more at {self._virtual_now:g} s and the loop is not done; waiting: "
            + ("; ".join(f"'{task.get_name()}' {waits_at(task.get_coro())}" for task in tasks) or "no task"),
            waiting=[task.get_name() for task in tasks],
        )

    def _process_events(self, event_list: list[Any]) -> None:
        """No events come from outside."""

    def _write_to_self(self) -> None:
        """Nobody sleeps who would have to be woken."""


def _refusal(name: str, what: str) -> Callable[..., NoReturn]:
    def refuse(self: VirtualLoop, *args: Any, **kwargs: Any) -> NoReturn:
        for value in args:
            if asyncio.iscoroutine(value):
                value.close()
        raise VirtualLoopError(
            f"{name}() needs {what}, which does not live in virtual time; "
            "use a mock service, or a real loop with LoopClock"
        )

    refuse.__name__ = name
    refuse.__doc__ = f"Refused: it needs {what}."
    return refuse


for _name, _what in {
    "run_in_executor": "a thread",
    "getaddrinfo": "the network",
    "getnameinfo": "the network",
    "create_connection": "a socket",
    "create_server": "a socket",
    "create_unix_connection": "a socket",
    "create_unix_server": "a socket",
    "create_datagram_endpoint": "a socket",
    "connect_accepted_socket": "a socket",
    "start_tls": "a socket",
    "sock_accept": "a socket",
    "sock_connect": "a socket",
    "sock_recv": "a socket",
    "sock_recv_into": "a socket",
    "sock_recvfrom": "a socket",
    "sock_recvfrom_into": "a socket",
    "sock_sendall": "a socket",
    "sock_sendto": "a socket",
    "sock_sendfile": "a socket",
    "sendfile": "a socket",
    "add_reader": "a file descriptor",
    "remove_reader": "a file descriptor",
    "add_writer": "a file descriptor",
    "remove_writer": "a file descriptor",
    "connect_read_pipe": "a pipe",
    "connect_write_pipe": "a pipe",
    "subprocess_exec": "a process",
    "subprocess_shell": "a process",
    "add_signal_handler": "a signal",
    "remove_signal_handler": "a signal",
}.items():
    setattr(VirtualLoop, _name, _refusal(_name, _what))


def _first(group: BaseExceptionGroup[Any]) -> BaseException:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def run_virtual(main: Coroutine[Any, Any, T]) -> T:
    """Run an asyncio coroutine in virtual time and give its result; also inside a running (notebook's) loop.

    Raises:
        DeadlockError: nothing is due any more and `main` still waits.
        VirtualLoopError: a socket, thread, process or signal was asked for.

    Example:
        >>> import asyncio
        >>> async def main():
        ...     await asyncio.sleep(86_400)
        ...     return asyncio.get_running_loop().time()
        >>> run_virtual(main())
        86400.0
    """
    if not asyncio.iscoroutine(main):
        raise ClockError(f"run_virtual() takes a coroutine, such as main(), and not {main!r}")
    with in_place_of_the_loop():  # a notebook's loop stands still meanwhile, as it does for any synchronous call
        try:
            with asyncio.Runner(loop_factory=VirtualLoop) as runner:
                return runner.run(main)
        except BaseExceptionGroup as group:  # a library's task group wraps what the loop refused
            refused = group.subgroup(VirtualLoopError)
            if refused is None:
                raise
            raise _first(refused) from group
