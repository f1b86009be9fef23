"""What middleware and mock services may ask of time, whichever clock runs them.

The same coroutines run on `LoopClock` (asyncio, real time), on `LoopClock` over a `VirtualLoop`, and on `VirtualClock`
(no event loop at all). They await nothing but what a `Clock` hands out; that is what makes a picture under a slider the
middleware itself and not a model of it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine, Generator
from typing import Any, Protocol, TypeVar, runtime_checkable

__all__ = ["Clock", "Deadline", "Event", "Task"]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Task(Protocol[T_co]):
    """A coroutine that runs on its own. Await it for its result; cancel it to end it early."""

    def cancel(self, msg: Any | None = None) -> bool:
        """Ask the task to end: `asyncio.CancelledError` is raised where it waits. False if it has ended already."""

    def cancelling(self) -> int:
        """How many requests to cancel the task are not taken back."""

    def uncancel(self) -> int:
        """Take back one request to cancel; gives how many remain. For code that turns a cancellation into an answer."""

    def done(self) -> bool:
        """Whether the task has ended, in whatever way."""

    def cancelled(self) -> bool:
        """Whether the task ended by being cancelled."""

    def result(self) -> T_co:
        """What the coroutine returned; raises what it raised."""

    def exception(self) -> BaseException | None:
        """What the coroutine raised, or None; raises `CancelledError` if it was cancelled."""

    def get_name(self) -> str:
        """The task's name."""

    def __await__(self) -> Generator[Any, None, T_co]: ...


class Event(Protocol):
    """A flag that tasks can wait for."""

    def set(self) -> None:
        """Raise the flag and wake all who wait, in the order in which they came."""

    def clear(self) -> None:
        """Lower the flag."""

    def is_set(self) -> bool:
        """Whether the flag is up."""

    async def wait(self) -> Any:
        """Return once the flag is up."""


class Deadline(Protocol):
    """A limit on the time that a block may take: `async with clock.timeout(2.0): ...` (plain `with` does the same).

    Leaving the block after the limit has cancelled it raises `TimeoutError`; a cancellation that came from outside, in
    the block or shortly before it, stays one.
    """

    def expired(self) -> bool:
        """Whether the limit was passed and the block was cancelled for it."""

    def __enter__(self) -> Any: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any, /) -> None: ...

    def __aenter__(self) -> Awaitable[Any]: ...

    def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: Any, /
    ) -> Awaitable[None]: ...


@runtime_checkable
class Clock(Protocol):
    """Time, in seconds, and the tasks that live in it."""

    def now(self) -> float:
        """Seconds since an arbitrary start; never goes back."""

    def sleep(self, seconds: float) -> Awaitable[None]:
        """Wait. Zero or less gives way once to everything else that is due now."""

    def timeout(self, seconds: float | None, message: str | None = None) -> Deadline:
        """A limit on a block; None is no limit. `message` is the text of the `TimeoutError`."""

    def timeout_at(self, when: float, message: str | None = None) -> Deadline:
        """A limit on a block by the time (as `now()` tells it) at which it ends; for blocks that share one limit."""

    def start(self, coro: Coroutine[Any, Any, T], *, name: str | None = None) -> Task[T]:
        """Run a coroutine beside the current one; it begins once the current one waits."""

    def event(self) -> Event:
        """A new flag, down."""
