"""A small kernel that drives coroutines from a heap of due times: no event loop, no waiting, the same every time.

How it works. A coroutine on this clock yields one of two things to the kernel: a float (wake me after so many seconds)
or `_PARKED` (somebody else will wake me). A heap holds what is due, ordered by time and then by the order in which it
was scheduled, so that simultaneous events have one order and two runs are equal. Anything else that a coroutine yields
comes from another world (asyncio's futures, for one) and ends the run with an error that names the coroutine.

Cancellation follows asyncio to the letter, since the middleware is written for both: `cancel()` throws
`asyncio.CancelledError` where the task waits, is passed on to a task that it awaits, and is counted, so that a deadline
can tell its own cancellation from one that came from outside.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import math
import os
import sys
import types
import weakref
from asyncio import CancelledError
from asyncio.events import _get_running_loop
from collections import deque
from collections.abc import AsyncGenerator, Coroutine, Generator, Iterable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from heapq import heapify, heappop, heappush, heapreplace
from itertools import count
from types import CoroutineType
from typing import Any, Generic, NoReturn, TypeVar, cast

from labkit.errors import ClockError, DeadlockError, ForeignAwaitableError
from labkit.timing.running import in_place_of_the_loop

__all__ = ["VirtualClock", "VirtualTask"]

T = TypeVar("T")
_logger = logging.getLogger(__name__)
_INF = math.inf
_SEND: Any = CoroutineType.send  # of the class: no task has to keep a bound method of its own
_LAST = 1 << 60  # in the order of what is due at one time
_MANY = 1000  # from how many on it pays to tidy up
_STUBBORN = 100  # how often a coroutine is told to close that waits instead
_ASYNCIO = os.path.join(os.path.dirname(asyncio.__file__), "")
_INSIDE = (_ASYNCIO, os.path.join(os.path.dirname(__file__), ""))  # where the caller is never to be found


# What stands on asyncio and may call it for somebody: it is the caller who should be named.
_ON_ASYNCIO = frozenset({"anyio", "sniffio", "httpx", "httpx2", "httpcore", "httpcore2"})


class _Parked:
    def __repr__(self) -> str:
        return "<parked>"


_PARKED = _Parked()


@types.coroutine
def _park() -> Generator[Any, None, None]:
    yield _PARKED


class _Nothing:
    """An awaitable that is done at once; lets `async with` be served by plain methods."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, None, None]:
        return iter(())  # type: ignore[return-value]


_NOTHING = _Nothing()


class VirtualTask(Generic[T]):
    """A coroutine that runs on a `VirtualClock`; behaves as an `asyncio.Task` does where both have the method."""

    __slots__ = (
        "_awaiting",
        "_cancel_message",
        "_cancelling",
        "_clock",
        "_context",
        "_coro",
        "_done",
        "_error",
        "_must_cancel",
        "_name",
        "_result",
        "_retrieved",
        "_send",
        "_token",
        "_trace",
        "_waiters",
        "_woken",
    )
    _cancel_message: Any  # only there once a cancellation was asked for
    _trace: types.TracebackType | None  # only there with an error
    _result: Any  # only there once the coroutine has returned

    def __init__(self, clock: VirtualClock, coro: Coroutine[Any, Any, T], name: str | None) -> None:
        self._clock = clock
        self._coro = coro
        self._send = _SEND if coro.__class__ is CoroutineType else coro.__class__.send
        self._name = name
        self._context = copy_context()
        self._token = 0  # a heap entry with another token is stale
        self._woken = 0  # the token with which it has its turn already, in this instant; 0 is the turn to begin
        self._done = False
        self._error: BaseException | None = None
        self._retrieved = False
        self._cancelling = 0
        self._must_cancel = False
        self._awaiting: VirtualTask[Any] | None = None
        self._waiters: list[VirtualTask[Any]] | None = None

    def get_name(self) -> str:
        """The task's name: as given, else the coroutine's own."""
        return self._name or _name_of(self._coro)

    def cancel(self, msg: Any | None = None) -> bool:
        """Ask the task to end: `CancelledError` is raised where it waits. False if it has ended already."""
        if self._done:
            return False
        self._cancelling += 1
        awaited = self._awaiting
        if awaited is not None and awaited.cancel(msg):
            return True  # as in asyncio: who awaits a task cancels that task, and hears of it when it ends
        self._must_cancel = True
        self._cancel_message = msg
        clock = self._clock
        # Running: it is told when it next waits. Woken already: it is told in the turn that it has, as on asyncio.
        # Waiting: wake it, whatever it waits for.
        if clock._current is not self and self._woken != self._token:
            self._token += 1
            clock._wake(self)
            clock._stale += 1
            if clock._stale > _MANY:
                clock._sweep()
        return True

    def _cancellation(self) -> CancelledError:
        message = self._cancel_message
        return CancelledError() if message is None else CancelledError(message)

    def cancelling(self) -> int:
        """How many requests to cancel the task are not taken back."""
        return self._cancelling

    def uncancel(self) -> int:
        """Take back one request to cancel; gives how many remain."""
        if self._cancelling > 0:
            self._cancelling -= 1
            if self._cancelling == 0 and self._clock._current is self:
                self._must_cancel = False  # it cancelled itself and thought better of it (as asyncio does since 3.13)
        return self._cancelling

    def done(self) -> bool:
        """Whether the task has ended, in whatever way."""
        return self._done

    def cancelled(self) -> bool:
        """Whether the task ended by being cancelled."""
        return self._done and isinstance(self._error, CancelledError)

    def result(self) -> T:
        """What the coroutine returned; raises what it raised, and `ClockError` if it still runs.

        Raises:
            ClockError: it still runs.
            BaseException: what the coroutine raised.
        """
        if not self._done:
            raise ClockError(f"task '{self.get_name()}' has no result yet: it still runs")
        self._retrieved = True
        error = self._error
        if error is not None:
            try:
                raise error.with_traceback(self._trace)  # else each awaiter's frames would pile up on it
            finally:
                del self, error  # this frame is in the error's traceback: what it held would be held in a circle
        return cast(T, self._result)

    def exception(self) -> BaseException | None:
        """What the coroutine raised, or None; raises `CancelledError` if it was cancelled.

        Raises:
            ClockError: it still runs.
            CancelledError: it was cancelled.
        """
        if not self._done:
            raise ClockError(f"task '{self.get_name()}' has no result yet: it still runs")
        self._retrieved = True
        if isinstance(self._error, CancelledError):
            raise self._error.with_traceback(self._trace)
        return self._error

    def __await__(self) -> Generator[Any, None, T]:
        if not self._done:
            me = self._clock._current
            if me is None:
                self._clock._misused(f"await task '{self.get_name()}'")
            awaited: VirtualTask[Any] | None = self
            while awaited is not None:
                if awaited is me:
                    raise ClockError(
                        f"task '{me.get_name()}' cannot await task '{self.get_name()}', which waits for it in turn"
                        if me is not self
                        else f"task '{me.get_name()}' cannot await itself"
                    )
                awaited = awaited._awaiting
            if self._waiters is None:
                self._waiters = []
            self._waiters.append(me)
            me._awaiting = self
            try:
                yield _PARKED
            finally:
                me._awaiting = None
                if not self._done:
                    self._waiters.remove(me)
        try:
            return self.result()
        finally:
            del self  # as in result()

    def __repr__(self) -> str:
        how = "running"
        if self._done:
            how = "cancelled" if self.cancelled() else "done" if self._error is None else f"failed: {self._error!r}"
        return f"<VirtualTask {self.get_name()!r} {how}>"


class _Closer(VirtualTask[None]):
    """Closes an abandoned asynchronous generator; is not itself cancelled at the end of a run."""

    __slots__ = ()


def _timed_out(message: str | None) -> TimeoutError:
    return TimeoutError() if message is None else TimeoutError(message)


class VirtualDeadline:
    """A limit on a block in virtual time; `with` and `async with` both enter it."""

    __slots__ = ("_armed", "_cancelling", "_line", "_message", "_order", "_task", "_when")
    _task: VirtualTask[Any]

    def __init__(self, line: _Line, message: str | None) -> None:
        self._line = line
        self._message = message
        self._armed: bool | None = False  # None: it was passed

    def expired(self) -> bool:
        """Whether the limit was passed and the block was cancelled for it."""
        return self._armed is None

    def __enter__(self) -> VirtualDeadline:
        line = self._line
        clock = line.clock
        task = clock._current
        if task is None:
            clock._misused("enter a timeout")
        self._task = task
        self._cancelling = task._cancelling - 1 if task._must_cancel else task._cancelling  # as in LoopDeadline
        seconds = line.seconds
        if seconds is not None:
            self._armed = True
            self._when = clock._now + seconds
            self._order = next(clock._order)
            line.deadlines.append(self)
            if not line.pending:
                line.pending = True
                heappush(clock._heap, (self._when, self._order, None, line))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if self._armed:
            self._armed = False
            line = self._line
            deadlines = line.deadlines
            if deadlines[0] is self:
                deadlines.popleft()
                while deadlines and not deadlines[0]._armed:
                    deadlines.popleft()
                    line.dead -= 1
            else:
                line.dead += 1
                if line.dead > 64 and line.dead * 2 > len(deadlines):  # one that hangs must not hold those behind it
                    line.drop_the_dead()
        elif self._armed is None and self._task.uncancel() <= self._cancelling and kind is not None:
            if issubclass(kind, CancelledError):
                raise _timed_out(self._message) from error

    def __aenter__(self) -> Any:
        self.__enter__()
        return _Ready(self)

    def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> Any:
        self.__exit__(kind, error, trace)
        return _NOTHING


class _TimedDeadline(VirtualDeadline):
    """A limit that ends at a given time."""

    __slots__ = ("_until",)

    def __init__(self, clock: VirtualClock, when: float, message: str | None) -> None:
        super().__init__(clock._unlimited, message)
        self._until = when

    def __enter__(self) -> VirtualDeadline:
        super().__enter__()
        if self._until != _INF:
            clock = self._line.clock
            line = self._line = _Line(clock, None)
            line.deadlines.append(self)
            line.pending = True
            self._armed = True
            self._when = max(self._until, clock._now)
            self._order = next(clock._order)
            heappush(clock._heap, (self._when, self._order, None, line))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if self._armed:  # its place in the heap is its own
            clock = self._line.clock
            clock._stale += 1
            if clock._stale > _MANY:
                clock._sweep()
        super().__exit__(kind, error, trace)


class _Line:
    """Deadlines of one length, which fall due in the order in which they began: only the first needs to be in the heap.

    Most calls end in time, so that most deadlines never cost a heap more than a queue does.
    """

    __slots__ = ("clock", "dead", "deadlines", "key", "pending", "seconds")

    def __init__(self, clock: VirtualClock, seconds: float | None, key: float | None = None) -> None:
        self.clock = clock
        self.seconds = seconds  # None: no limit, or one whose end is told otherwise
        self.key = key  # under which the clock knows it; None: it belongs to one deadline alone
        self.deadlines: deque[VirtualDeadline] = deque()
        self.pending = False  # whether the heap holds an entry for this line
        self.dead = 0  # how many of the queue were left in time, behind one that was not

    def drop_the_dead(self) -> None:
        self.deadlines = deque(deadline for deadline in self.deadlines if deadline._armed)
        self.dead = 0

    def _due(self, at: float) -> None:
        clock = self.clock
        deadlines = self.deadlines
        while deadlines:
            first = deadlines[0]
            if not first._armed:
                deadlines.popleft()
                self.dead -= 1
            elif first._when <= at and (not clock._heap or first._order < clock._heap[0][1] or at < clock._heap[0][0]):
                deadlines.popleft()
                first._armed = None
                clock._now = at
                first._task.cancel()
            else:  # under its own place in the order, as if it had been there all along
                heappush(clock._heap, (first._when, first._order, None, self))
                return
        self.pending = False
        if self.key is not None:
            clock._lines.pop(self.key, None)


class _Ready:
    """An awaitable that gives its value at once."""

    __slots__ = ("_value",)

    def __init__(self, value: object) -> None:
        self._value = value

    def __await__(self) -> Generator[Any, None, Any]:
        yield from ()
        return self._value


class VirtualEvent:
    """A flag on a `VirtualClock`; waiters wake in the order in which they came."""

    __slots__ = ("_clock", "_set", "_waiters")

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self._set = False
        self._waiters: list[VirtualTask[Any]] = []

    def is_set(self) -> bool:
        """Whether the flag is up."""
        return self._set

    def set(self) -> None:
        """Raise the flag and wake all who wait."""
        self._set = True
        waiters, self._waiters = self._waiters, []
        for task in waiters:
            self._clock._wake(task)

    def clear(self) -> None:
        """Lower the flag."""
        self._set = False

    async def wait(self) -> bool:
        """Return True once the flag is up."""
        if not self._set:
            task = self._clock._current
            if task is None:
                self._clock._misused("wait for an event")
            self._waiters.append(task)
            try:
                await _park()
            except BaseException:
                if task in self._waiters:
                    self._waiters.remove(task)
                raise
        return True


class VirtualClock:
    """Virtual time, in seconds. See `labkit.timing.Clock` for what it offers to the coroutines that run on it.

    Args:
        start: what `now()` reads at first.

    Example:
        >>> clock = VirtualClock()
        >>> async def main():
        ...     await clock.sleep(3600)
        ...     return clock.now()
        >>> clock.run(main())
        3600.0
    """

    def __init__(self, start: float = 0.0) -> None:
        self._now = float(start)
        if not math.isfinite(self._now):
            raise ClockError(f"a clock starts at a finite number of seconds, and {start!r} is not one")
        self._heap: list[tuple[float, int, VirtualTask[Any] | None, Any]] = []
        self._order = count()
        self._current: VirtualTask[Any] | None = None
        self._tasks: dict[VirtualTask[Any], None] = {}  # alive, in the order in which they were started
        self._unheard: list[VirtualTask[Any]] = []  # ended in an error that nobody has asked for
        self._unheard_limit = _MANY
        self._stale = 0  # about how many places in the heap belong to nobody any more
        self._generators: dict[int, weakref.ref[AsyncGenerator[Any, Any]]] = {}
        self._lines: dict[float | None, _Line] = {}
        self._unlimited = _Line(self, None)
        self._fatal: BaseException | None = None
        self._driving = False
        self._dropping = False

    # -- what coroutines ask ---------------------------------------------------------------------------------------

    def now(self) -> float:
        """Virtual seconds; goes forward only, and only when everything due before has run."""
        return self._now

    @types.coroutine
    def sleep(self, seconds: float) -> Generator[Any, None, None]:
        """Wait for so many virtual seconds; zero or less gives way once to what is due now."""
        if self._current is None:
            self._misused("sleep")
        if seconds.__class__ is not float:
            seconds = _seconds("sleep", seconds)
        yield seconds  # nothing more here: of all that can be awaited, a bare generator costs least

    def timeout(self, seconds: float | None, message: str | None = None) -> VirtualDeadline:
        """A limit on a block; None is no limit. `message` is the text of the `TimeoutError`."""
        line = self._lines.get(seconds)
        return VirtualDeadline(self._line_of(seconds) if line is None else line, message)

    def _line_of(self, seconds: float | None) -> _Line:
        if seconds is None or seconds == _INF:
            return self._unlimited
        seconds = _seconds("timeout", seconds)
        if seconds != seconds:
            raise ClockError("a timeout of NaN seconds means nothing")
        line = self._lines[seconds] = _Line(self, max(0.0, seconds), seconds)
        return line

    def timeout_at(self, when: float, message: str | None = None) -> VirtualDeadline:
        """A limit on a block by the time at which it ends, for several blocks that share one limit.

        Raises:
            ClockError: `when` is no number, or NaN.
        """
        when = _seconds("timeout_at", when)
        if when != when:
            raise ClockError("a timeout at NaN seconds means nothing")
        return _TimedDeadline(self, when, message)

    def start(self, coro: Coroutine[Any, Any, T], *, name: str | None = None) -> VirtualTask[T]:
        """Run a coroutine beside the current one; it begins once the current one waits, or at the next `advance`.

        Raises:
            ClockError: it is no coroutine.
        """
        try:
            task: VirtualTask[T] = VirtualTask(self, coro, name)
        except AttributeError:
            raise ClockError(f"start() takes a coroutine, such as main(), and not {coro!r}") from None
        self._tasks[task] = None
        heappush(self._heap, (self._now, next(self._order), task, 0))
        return task

    def start_at(self, when: float, coro: Coroutine[Any, Any, T], place: int) -> VirtualTask[T]:
        """Start a coroutine at a time to come, exactly, and there after everything else that is due then.

        Args:
            when: seconds, not before now.
            coro: what to run.
            place: its order among those that begin at one time; a whole number, 0 or more.
        """
        task: VirtualTask[T] = VirtualTask(self, coro, None)
        self._tasks[task] = None
        heappush(self._heap, (max(when, self._now), _LAST + place, task, 0))
        return task

    def next_due(self) -> float:
        """When anything but the current task has its turn, at the earliest; infinite where nothing is due."""
        return min([entry[0] for entry in self._heap[1:3]], default=_INF)  # the current task keeps the first place

    def abort(self, error: BaseException) -> None:
        """End the run with this error as soon as the current task waits; no task can catch it."""
        self._fatal = self._fatal or error

    def event(self) -> VirtualEvent:
        """A new flag, down."""
        return VirtualEvent(self)

    # -- what drives them ------------------------------------------------------------------------------------------

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end and give its result; time jumps over every wait.

        What still runs when it ends is cancelled and may clean up (in virtual time), and abandoned asynchronous
        generators are closed. May be called inside a running asyncio loop (a notebook's) and in any thread, since it
        needs neither.

        Raises:
            DeadlockError: nothing is due any more and `main` still waits; names the waiting tasks.
            ForeignAwaitableError: something was awaited that is not this clock's; names the coroutine.
            ClockError: the clock is running already.
        """
        if not hasattr(main, "send"):
            raise ClockError(f"run() takes a coroutine, such as main(), and not {main!r}")
        if self._driving:
            main.close()
            raise ClockError("this VirtualClock runs already; await the coroutine, or start() it")
        with self._drive():
            task = self.start(main)
            self._play(_INF, task)
            if not task._done:
                self._deadlock(f"'{task.get_name()}' has not ended")
            task._retrieved = True
            try:
                self._end_the_rest()
            except ClockError as error:
                raise error from task._error  # if main failed as well, both are told
        return task.result()

    def advance(self, seconds: float) -> None:
        """Play everything that is due within so many seconds, then stand at that time. For stepping by hand.

        Raises:
            ClockError: `seconds` is negative, infinite or no number.
        """
        seconds = _seconds("advance", seconds)
        if not (seconds >= 0 and seconds != _INF):
            raise ClockError(f"time only goes forward by a finite number of seconds, and {seconds!r} is not one")
        target = self._now + seconds
        with self._drive():
            self._play(target, None)
            self._now = target

    def settle(self) -> None:
        """Play everything that is due now."""
        with self._drive():
            self._play(self._now, None)

    def close(self) -> None:
        """End whatever still runs on this clock: cancel it, let it clean up, close its asynchronous generators.

        `run()` does it by itself; who steps by hand does it at the end. The clock can be used again afterwards.
        """
        with self._drive():
            self._end_the_rest()

    # -- the kernel ------------------------------------------------------------------------------------------------

    def _play(self, until: float, stop: VirtualTask[Any] | None) -> None:
        heap, tasks = self._heap, self._tasks
        parked, last = _PARKED, _LAST
        inf = _INF
        pop, replace, order = heappop, heapreplace, self._order
        while heap:  # per turn every name counts that is not a local one
            # A task keeps its place while it runs, and nothing can come before it: what it schedules is due now or
            # later, and comes later in the order. If it sleeps, one operation takes its old place and gives a new one.
            due, place, task, token = heap[0]
            if due > until:
                break
            if place >= last:  # its turn has come: among what it schedules, it has to be the first
                replace(heap, (due, next(order), task, token))
                continue
            if task is None:
                pop(heap)
                token._due(due)
                continue
            if task._token != token or task._done:
                pop(heap)
                continue
            self._now = due
            self._current = task
            try:
                if task._must_cancel:
                    task._must_cancel = False
                    command = task._context.run(task._coro.throw, task._cancellation())
                else:
                    command = task._context.run(task._send, task._coro, None)
            except StopIteration as stopped:
                self._current = None
                pop(heap)
                task._result = stopped.value
                if task._waiters is None and not task._must_cancel:
                    task._done = True
                    del tasks[task]
                else:  # cancelled in its last step counts as cancelled, as on asyncio
                    self._finish(task, task._cancellation() if task._must_cancel else None)
                if self._fatal is not None or task is stop:
                    break
                continue
            except BaseException as error:
                self._current = None
                pop(heap)
                self._finish(task, error)
                if isinstance(error, (KeyboardInterrupt, SystemExit)):
                    _force(task._coro)  # an interrupt may have come before the coroutine had its turn
                    self._fatal = error
                if self._fatal is not None or task is stop:
                    break
                continue
            self._current = None
            task._token = token = token + 1
            if command.__class__ is float and 0.0 < command < inf and not task._must_cancel:
                replace(heap, (due + command, next(order), task, token))
            else:
                pop(heap)
                if command is not parked:
                    self._sleep_or_foreign(task, command)
                elif task._must_cancel:
                    self._told_to_cancel(task)
            if self._fatal is not None:
                break
        if self._fatal is not None:
            self._abort()

    def _sleep_or_foreign(self, task: VirtualTask[Any], command: Any) -> None:
        if command.__class__ is not float:
            self._fatal = self._fatal or self._foreign(task, command)
            return
        if task._must_cancel or command <= 0:
            self._wake(task)
        elif command != command:
            self._fatal = self._fatal or ClockError(f"task '{task.get_name()}' cannot sleep for NaN seconds")
        elif command != _INF:
            heappush(self._heap, (self._now + command, next(self._order), task, task._token))

    def _told_to_cancel(self, task: VirtualTask[Any]) -> None:
        # It was cancelled while it ran, and now waits: for a task, which is cancelled in its stead, or for anything.
        awaited = task._awaiting
        if awaited is not None and awaited.cancel(task._cancel_message):
            task._must_cancel = False
        else:
            self._wake(task)

    def _wake(self, task: VirtualTask[Any]) -> None:
        task._woken = task._token
        heappush(self._heap, (self._now, next(self._order), task, task._token))

    def _finish(self, task: VirtualTask[Any], error: BaseException | None) -> None:
        task._done = True
        self._tasks.pop(task, None)
        if error is not None:
            trace = error.__traceback__
            task._trace = trace and trace.tb_next  # without the kernel's own frame
            task._error = error.with_traceback(task._trace)
            if not isinstance(error, CancelledError):
                self._unheard.append(task)
                if len(self._unheard) > self._unheard_limit:  # keep those that may still turn out to be unheard
                    self._unheard = [task for task in self._unheard if not task._retrieved]
                    self._unheard_limit = max(_MANY, 2 * len(self._unheard))
        waiters = task._waiters
        if waiters:
            task._waiters = None
            for waiter in waiters:
                self._wake(waiter)

    def _sweep(self) -> None:
        """Forget the places in the heap of sleeps and limits that were cut short; they may be far in the future."""
        heap = self._heap
        if self._stale * 2 > len(heap):
            heap[:] = [
                entry
                for entry in heap
                if (
                    entry[3].key is not None or entry[3].deadlines
                    if (task := entry[2]) is None
                    else task._token == entry[3] and not task._done
                )
            ]
            heapify(heap)
            self._stale = 0

    def _end_the_rest(self) -> None:
        while True:
            if not self._tasks:
                for agen in self._open_generators():
                    self._close_generator(agen)
                if not self._tasks:
                    break
            leftover = list(self._tasks)
            for task in leftover:
                if not isinstance(task, _Closer):
                    task.cancel()
            self._play(_INF, None)
            if all(task in self._tasks for task in leftover):
                self._deadlock("tasks refuse to end when cancelled")
        self._heap.clear()  # only the places of limits that were left in time
        self._lines.clear()
        self._stale = 0
        self._report_unheard()

    def _close_generator(self, agen: AsyncGenerator[Any, Any]) -> None:
        task = _Closer(self, agen.aclose(), f"close {_name_of(agen)}")
        self._tasks[task] = None
        self._wake(task)

    def _open_generators(self) -> list[AsyncGenerator[Any, Any]]:
        found = [agen for ref in self._generators.values() if (agen := ref()) is not None]
        self._generators.clear()
        return found

    def _report_unheard(self) -> None:
        unheard, self._unheard = self._unheard, []
        for task in unheard:
            if not task._retrieved:
                _logger.error("task '%s' failed and nobody asked for its result", task.get_name(), exc_info=task._error)

    def _deadlock(self, what: str) -> NoReturn:
        waiting = [task.get_name() for task in self._tasks]
        places = "; ".join(f"'{task.get_name()}' {waits_at(task._coro)}" for task in self._tasks)
        self._fatal = DeadlockError(
            f"nothing is due any more at {self._now:g} s and {what}; waiting: {places}", waiting=waiting
        )
        self._abort()

    def _abort(self) -> NoReturn:
        fatal, self._fatal = self._fatal, None
        assert fatal is not None
        self._drop_everything()
        raise fatal

    def _drop_everything(self) -> None:
        """After an aborted run: close every coroutine and generator by force, so that the clock can be used again."""
        self._current = None
        self._dropping = True
        try:
            while self._tasks or self._generators:
                while self._tasks:
                    task, _ = self._tasks.popitem()  # the last that was started first
                    task._done = True
                    task._error, task._trace = CancelledError(), None
                    _force(task._coro)
                for agen in self._open_generators():
                    _force_generator(agen)
        finally:
            self._dropping = False
            self._fatal = None
            self._stale = 0
            self._heap.clear()
            self._lines.clear()
            self._unheard.clear()

    def _misused(self, wish: str) -> NoReturn:
        """Refuse what only this clock's own running task may do; if another clock runs, its run ends with it."""
        loop: object = _get_running_loop()
        if isinstance(loop, _NoLoop):
            loop._refuse(f"tried to {wish}", "of another VirtualClock", "use the clock on which it runs")
        raise ClockError(f"only a task that runs on this VirtualClock can {wish}; use run() or start()")

    def _foreign(self, task: VirtualTask[Any], what: object) -> ForeignAwaitableError:
        inner = _innermost(task._coro)
        shown = "a bare yield (asyncio.sleep(0), perhaps)" if what is None else repr(what)
        return ForeignAwaitableError(
            f"coroutine '{_name_of(inner)}'{_line_of(inner)} in task '{task.get_name()}' awaited {shown}, "
            "which is not this VirtualClock's; await clock.sleep, clock.timeout or clock.event, "
            "or run asyncio code with run_virtual()"
        )

    @contextmanager
    def _drive(self) -> Iterator[None]:
        if self._driving:
            raise ClockError("this VirtualClock runs already; from inside a task, await or start() instead")
        self._driving = True
        no_loop = _NoLoop(self)  # asyncio called from inside is an error that names the caller
        with in_place_of_the_loop(no_loop, _NoTask(no_loop)) as outer:
            clock_outside = outer._clock if isinstance(outer, _NoLoop) else None
            if clock_outside is not None:  # no task of it runs while this one does
                waiting, clock_outside._current = clock_outside._current, None
            hooks = sys.get_asyncgen_hooks()
            sys.set_asyncgen_hooks(firstiter=self._generator_begins, finalizer=self._generator_dropped)
            try:
                yield
            except BaseException:
                self._drop_everything()  # an interrupt, say, must not leave half a run behind for the next one
                raise
            finally:
                if clock_outside is not None:
                    clock_outside._current = waiting
                sys.set_asyncgen_hooks(*hooks)
                self._driving = False

    def _generator_begins(self, agen: AsyncGenerator[Any, Any]) -> None:
        key = id(agen)
        generators = self._generators
        generators[key] = weakref.ref(agen, lambda _, key=key: generators.pop(key, None))  # type: ignore[misc]

    def _generator_dropped(self, agen: AsyncGenerator[Any, Any]) -> None:
        # As asyncio does: whoever dropped it without closing it gets it closed, one turn later.
        self._generators.pop(id(agen), None)
        if self._dropping:
            _force_generator(agen)
        else:
            self._close_generator(agen)


class _NoLoop:
    """Stands where asyncio looks for its running loop: whatever asyncio wants of it ends the run with a clear error."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock

    def create_task(self, coro: Any, **_: Any) -> NoReturn:
        """Close the coroutine (nobody will ever await it), then refuse."""
        _close_unstarted([coro])
        self._refuse_asyncio("create_task of an event loop")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        self._refuse_asyncio(f"{name} of an event loop")

    def __hash__(self) -> int:
        # asyncio.timeout, TaskGroup and the like ask no more of a loop than its current task, which is looked up by it.
        # Others may look (logging does): they find none.
        asking = sys._getframe(1)
        # (anyio, and with it httpx2, asks by itself, and does not expect to find none.)
        if asking.f_code.co_name == "current_task" and asking.f_back is not None:  # is Python's own up to 3.11
            asking = asking.f_back
        if _is_inside(asking):
            self._refuse_asyncio("the current task of an event loop")
        return id(self)

    def _refuse_asyncio(self, what: str) -> NoReturn:
        self._refuse(
            "used asyncio",
            f"({what})",
            "use clock.sleep, clock.timeout, clock.start or clock.event, or run it with run_virtual()",
        )

    def _refuse(self, deed: str, what: str, instead: str) -> NoReturn:
        clock = self._clock
        task = clock._current
        frame = sys._getframe(1)
        while frame.f_back is not None and _is_inside(frame):
            if frame.f_code.co_filename.startswith(_ASYNCIO):
                _close_unstarted(frame.f_locals.values())
            frame = frame.f_back
        where = f"'{frame.f_code.co_qualname}' (line {frame.f_lineno})"
        error = ForeignAwaitableError(
            f"coroutine {where} in task '{task.get_name() if task else '?'}' {deed} {what}, "
            f"but it runs on a VirtualClock; {instead}"
        )
        if task is not None:
            clock._fatal = clock._fatal or error  # the run ends with it even if the coroutine swallows it
        raise error


class _NoTask:
    """Stands where asyncio looks for its current task since Python 3.14, which no longer asks for it by the loop."""

    def __init__(self, loop: _NoLoop) -> None:
        self._loop = loop

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("__"):
            self._asked(sys._getframe(1))
        raise AttributeError(name)  # others may look (logging does): they find nothing

    def __hash__(self) -> int:
        self._asked(sys._getframe(1))
        return id(self)

    def _asked(self, asking: types.FrameType | None) -> None:
        while asking is not None and asking.f_globals.get("__name__") in ("weakref", "_weakrefset"):
            asking = asking.f_back  # anyio keeps what it knows of a task in a dictionary of weak references
        if asking is not None and _is_inside(asking):
            self._loop._refuse_asyncio("the current task of an event loop")


def _close_unstarted(values: Iterable[Any]) -> None:
    """Close coroutines that were handed to asyncio and will never begin, so that nobody is warned of them."""
    for value in values:
        if isinstance(value, types.CoroutineType):
            if inspect.getcoroutinestate(value) == inspect.CORO_CREATED:
                value.close()
        elif isinstance(value, (list, tuple, set, frozenset)):
            _close_unstarted(value)


def _force(coro: Any) -> None:
    """Close a coroutine, even one that waits in its `finally`."""
    for _ in range(_STUBBORN):
        try:
            coro.close()
        except (Exception, CancelledError, GeneratorExit) as error:
            _logger.debug("'%s' did not close quietly: %r", _name_of(coro), error)
        else:
            return


def _force_generator(agen: AsyncGenerator[Any, Any]) -> None:
    closing: Any = agen.aclose()
    try:
        closing.send(None)
    except (Exception, CancelledError, GeneratorExit) as error:
        if not isinstance(error, StopIteration):
            _logger.debug("'%s' did not close quietly: %r", _name_of(agen), error)
    else:
        _force(closing)


_INNER = ("cr_await", "ag_await", "gi_yieldfrom")


def _innermost(coro: Any) -> Any:
    """The coroutine or generator that waits, at the end of the chain of awaits; asyncio's own and ours do not count."""
    while True:
        inner = next((x for name in _INNER if (x := getattr(coro, name, None)) is not None), None)
        frame = _frame_of(inner)
        if inner is None or frame is None or _is_inside(frame):  # a future's iterator has no frame
            return coro
        coro = inner


def _is_inside(frame: types.FrameType) -> bool:
    if frame.f_code.co_filename.startswith(_INSIDE):
        return True
    return str(frame.f_globals.get("__name__")).partition(".")[0] in _ON_ASYNCIO


def _seconds(what: str, seconds: Any) -> float:
    """A number of seconds, or an error that says what was given instead."""
    if isinstance(seconds, (str, bytes)) or not hasattr(type(seconds), "__float__"):
        if not hasattr(type(seconds), "__index__"):
            raise ClockError(f"{what}() takes a number of seconds, and {seconds!r} is none")
    return float(seconds)


def _frame_of(coro: Any) -> types.FrameType | None:
    return getattr(coro, "cr_frame", None) or getattr(coro, "ag_frame", None) or getattr(coro, "gi_frame", None)


def _name_of(coro: Any) -> str:
    return getattr(coro, "__qualname__", None) or type(coro).__name__


def _line_of(coro: Any) -> str:
    frame = _frame_of(coro)
    return f" (line {frame.f_lineno})" if frame is not None else ""


def waits_at(coro: Any) -> str:
    """Where a coroutine waits, in words."""
    inner = _innermost(coro)
    return f"in '{_name_of(inner)}'{_line_of(inner)}"
