"""Real time, on asyncio: what an application uses. The only module of labkit that reads the wall clock."""

from __future__ import annotations

import asyncio
import time
from asyncio import AbstractEventLoop, CancelledError, Handle, TimerHandle, current_task, get_running_loop
from asyncio.events import _get_running_loop
from collections import deque
from collections.abc import Coroutine
from math import inf
from typing import Any, TypeVar
from weakref import WeakKeyDictionary, ref

from labkit.errors import ClockError

__all__ = ["LoopClock"]

T = TypeVar("T")
_monotonic = time.monotonic

# The VirtualLoops that are open, by id: while there is one, time may be other than the machine's.
_virtual_loops: dict[int, ref[AbstractEventLoop]] = {}


def _announce_virtual_loop(loop: AbstractEventLoop) -> None:
    key = id(loop)
    _virtual_loops[key] = ref(loop, lambda _: _virtual_loops.pop(key, None))


def _forget_virtual_loop(loop: AbstractEventLoop) -> None:
    _virtual_loops.pop(id(loop), None)


class LoopDeadline:
    """A limit on a block, on asyncio; `with` and `async with` both enter it.

    Does what `asyncio.timeout` does, for less: calls under one limit end in nearly the order in which they began, so
    they queue and one timer serves the whole queue, where asyncio pushes and cancels a timer for each call. One thing
    differs: a cancellation that is pending as the block begins stays one, where asyncio's takes it for its own.
    """

    __slots__ = ("_cancelling", "_clock", "_expired", "_line", "_message", "_seconds", "_task", "_when")
    _line: _Line | None

    def __init__(self, clock: LoopClock, seconds: float | None, message: str | None = None) -> None:
        self._clock = clock
        self._seconds = seconds
        self._message = message
        self._expired = False
        self._task: asyncio.Task[Any] | None = None
        self._line: _Line | None = None

    def expired(self) -> bool:
        """Whether the limit was passed and the block was cancelled for it."""
        return self._expired

    def __enter__(self) -> LoopDeadline:
        loop = _get_running_loop()
        task = None if loop is None else current_task(loop)
        if loop is None or task is None:
            raise ClockError("a timeout can only be entered by a task of a running event loop")
        self._task = task
        cancelling = task.cancelling()
        # One that is asked for and not yet told comes in the block: the limit must not be taken for it. (Only asyncio's
        # own tasks can say so, and all loops that are in use have those.)
        if cancelling and getattr(task, "_must_cancel", False):
            cancelling -= 1
        self._cancelling = cancelling
        seconds = self._seconds
        if seconds is not None:
            lines = self._clock._lines_of(loop)
            line = lines.get(seconds)
            if line is None:
                line = lines[seconds] = _Line(loop, lines, seconds)
            self._when = loop.time() + seconds
            self._line = line
            line.join(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        task = self._task
        self._task = None
        if self._line is not None:
            self._line.leave(self)
        if self._expired and task is not None and task.uncancel() <= self._cancelling and kind is not None:
            if issubclass(kind, CancelledError):
                raise (TimeoutError() if self._message is None else TimeoutError(self._message)) from error

    async def __aenter__(self) -> LoopDeadline:
        return self.__enter__()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self.__exit__(kind, error, trace)


class _Line:
    """The deadlines of one length on one loop, in the order in which they fall due."""

    __slots__ = ("_dead", "_deadlines", "_lines", "_loop", "_seconds", "_timer")

    def __init__(self, loop: AbstractEventLoop, lines: dict[float, _Line], seconds: float) -> None:
        self._loop = loop
        self._lines = lines
        self._seconds = seconds
        self._deadlines: deque[LoopDeadline] = deque()
        self._timer: TimerHandle | None = None
        self._dead = 0

    def join(self, deadline: LoopDeadline) -> None:
        self._deadlines.append(deadline)
        if self._timer is None:
            self._timer = self._loop.call_at(deadline._when, self._due)

    def leave(self, deadline: LoopDeadline) -> None:
        deadlines = self._deadlines
        if deadlines and deadlines[0] is deadline:
            deadlines.popleft()
            while deadlines and deadlines[0]._task is None:
                deadlines.popleft()
                self._dead -= 1
        elif not deadline._expired:
            self._dead += 1
            if self._dead > 64 and self._dead * 2 > len(deadlines):  # one that hangs must not hold those behind it
                self._deadlines = deque(waiting for waiting in deadlines if waiting._task is not None)
                self._dead = 0

    def _due(self) -> None:
        self._timer = None
        now = self._loop.time()
        deadlines = self._deadlines
        while deadlines:
            first = deadlines[0]
            if first._task is None:
                deadlines.popleft()
                self._dead -= 1
            elif first._when <= now:
                deadlines.popleft()
                first._expired = True
                first._task.cancel()
            else:
                self._timer = self._loop.call_at(first._when, self._due)
                return
        self._lines.pop(self._seconds, None)  # a length that is no longer used leaves nothing behind


class _TimedDeadline:
    """A limit with a timer of its own: for limits that end at a given time, of which no two are alike."""

    __slots__ = ("_deadline", "_timer", "_when")

    def __init__(self, clock: LoopClock, when: float, message: str | None) -> None:
        self._deadline = LoopDeadline(clock, None, message)
        self._when = when

    def expired(self) -> bool:
        """Whether the limit was passed and the block was cancelled for it."""
        return self._deadline._expired

    def __enter__(self) -> _TimedDeadline:
        self._deadline.__enter__()
        loop = get_running_loop()
        past = self._when <= loop.time()  # then before anything that the block may wait for, as asyncio.timeout does
        self._timer: Handle = loop.call_soon(self._due) if past else loop.call_at(self._when, self._due)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self._timer.cancel()
        self._deadline.__exit__(kind, error, trace)

    def _due(self) -> None:
        if self._deadline._task is not None:
            self._deadline._expired = True
            self._deadline._task.cancel()

    async def __aenter__(self) -> _TimedDeadline:
        return self.__enter__()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self.__exit__(kind, error, trace)


class LoopClock:
    """The running asyncio loop's time and tasks. Also runs on a `VirtualLoop`, unchanged.

    Args:
        follow_loop: read the running loop's own time even if no `VirtualLoop` is open. Only needed on another
            package's loop with a time of its own: asyncio's is the machine's monotonic time, and asking which loop runs
            costs more than the time itself.

    Nothing is bound when it is made, so one may be made at module level and shared; each use belongs to the loop that
    runs at that moment.

    In tests whose library freezes the time (freezegun with `real_asyncio=True`, say), `time.monotonic()` stands still
    while the loop's own `time()` goes on. Sleeps and limits end then, but `now()` has not moved: a breaker stays OPEN
    however long one sleeps. Either move the frozen time on by the cooldown (such a library's `tick` or `shift`), or
    give the middleware `LoopClock(follow_loop=True)`, for which the loop alone counts. Better than both is virtual
    time, where nothing has to be frozen and an hour costs nothing: `VirtualClock`, or
    `run_virtual` for code that is written against asyncio.
    """

    def __init__(self, *, follow_loop: bool = False) -> None:
        self._follow = follow_loop
        self._lines: WeakKeyDictionary[AbstractEventLoop, dict[float, _Line]] = WeakKeyDictionary()
        # The last loop and its lines as one value, so that a thread with another loop cannot come between the two.
        self._last: tuple[AbstractEventLoop | None, dict[float, _Line]] = (None, {})
        self._tasks: set[asyncio.Task[Any]] = set()  # the loop itself only keeps weak references

    def now(self) -> float:
        """The running loop's time in seconds; the machine's monotonic time where no loop runs."""
        if self._follow or _virtual_loops:
            loop = _get_running_loop()
            if loop is not None:
                return loop.time()
        return _monotonic()

    def sleep(self, seconds: float) -> Coroutine[Any, Any, None]:
        """Wait for so many seconds; zero or less gives way once.

        Raises:
            ClockError: `seconds` is NaN.
        """
        if seconds != seconds:
            raise ClockError("cannot sleep for NaN seconds")
        return asyncio.sleep(seconds)

    def timeout(self, seconds: float | None, message: str | None = None) -> LoopDeadline | _TimedDeadline:
        """A limit on a block; None is no limit. `message` is the text of the `TimeoutError`.

        Raises:
            ClockError: `seconds` is NaN.
        """
        if seconds is not None and not 0 < seconds < inf:
            if seconds != seconds:
                raise ClockError("a timeout of NaN seconds means nothing")
            if seconds <= 0:
                return _TimedDeadline(self, -inf, message)
            seconds = None  # a timer that is never due would stay with the loop
        return LoopDeadline(self, seconds, message)

    def timeout_at(self, when: float, message: str | None = None) -> _TimedDeadline:
        """A limit on a block by the loop's time at which it ends; for blocks that share one limit.

        Raises:
            ClockError: `when` is NaN.
        """
        if when != when:
            raise ClockError("a timeout at NaN seconds means nothing")
        return _TimedDeadline(self, when, message)

    def start(self, coro: Coroutine[Any, Any, T], *, name: str | None = None) -> asyncio.Task[T]:
        """Run a coroutine as a task of the running loop.

        Raises:
            ClockError: it is no coroutine, or no event loop runs.
        """
        if not hasattr(coro, "send"):
            raise ClockError(f"start() takes a coroutine, such as main(), and not {coro!r}")
        loop = _get_running_loop()
        if loop is None:
            coro.close()
            raise ClockError("start() needs a running event loop; call it inside asyncio.run(main())")
        task = loop.create_task(coro, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def event(self) -> asyncio.Event:
        """A new flag, down."""
        return asyncio.Event()

    def _lines_of(self, loop: AbstractEventLoop) -> dict[float, _Line]:
        last, lines = self._last
        if last is not loop:
            found = self._lines.get(loop)
            if found is None:
                for known in self._lines.keyrefs():
                    other = known()
                    if other is not None and other.is_closed():  # its timers are never due, and would keep it alive
                        self._lines.pop(other, None)
                found = self._lines[loop] = {}
            lines = found
            self._last = (loop, lines)
        return lines
