"""A breaker's side of a lease: asked for before a probe, renewed while it runs, given back after it."""

from __future__ import annotations

import logging
import os
import secrets
from asyncio import CancelledError
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from itertools import count
from typing import Any, Literal, TypeVar

from labkit.errors import ClockError, LeaseError
from labkit.middleware.base import closing
from labkit.middleware.leases.store import LeaseStore
from labkit.policies import Lease
from labkit.timing import Clock, LoopClock
from labkit.timing.clock import Task

__all__ = ["HeldLease", "ProbeLease"]

T = TypeVar("T")

_logger = logging.getLogger(__name__)
_process = secrets.token_hex(8)  # for telling processes apart; no run depends on what it is
_numbers = count(1)


class ProbeLease:
    """Who a guarded breaker asks for leave to probe.

    Args:
        store: keeps the leases.
        name: the lease's name in the configuration; a target's key in the store is `name/target`.
        time_to_live: seconds after which the lease of a dead owner lapses.
        when_unreachable: what becomes of a probe when the store cannot be asked: "refuse" or "admit".
        acquire_timeout: seconds that the store has for an answer.
        clock: whose time; asyncio's by default.
    """

    def __init__(
        self,
        store: LeaseStore,
        *,
        name: str = "probe",
        time_to_live: float = 10.0,
        when_unreachable: Literal["refuse", "admit"] = "refuse",
        acquire_timeout: float = 1.0,
        clock: Clock | None = None,
    ) -> None:
        self.store = store
        self.name = name
        self.time_to_live = time_to_live
        self.when_unreachable = when_unreachable
        self.acquire_timeout = acquire_timeout
        self.clock: Clock = clock if clock is not None else LoopClock()

    async def acquire(self, target: str, hold: float) -> HeldLease | None:
        """Leave for one probe of at most `hold` seconds, or None where it is refused. Never raises for the store."""
        owner = f"{_process}-{os.getpid()}-{next(_numbers)}"
        asked = self.clock.now()
        try:
            lease = await self.ask(
                self.store.acquire(f"{self.name}/{target}", owner, self.time_to_live), self.acquire_timeout
            )
        except LeaseError as error:
            _logger.warning("%s; by when_unreachable the probe is %s", error, _DONE[self.when_unreachable])
            return HeldLease(self, None, asked, hold) if self.when_unreachable == "admit" else None
        return None if lease is None else HeldLease(self, lease, asked, hold)

    async def ask(self, request: Coroutine[Any, Any, T], limit: float) -> T:
        """The store's answer.

        Raises:
            LeaseError: there is none, for whatever reason.
        """
        try:
            with self.clock.timeout(limit):
                return await request
        except TimeoutError as error:
            raise LeaseError(f"the store of the lease '{self.name}' did not answer within {limit:g} s") from error
        except LeaseError:
            raise
        except Exception as error:
            raise LeaseError(f"the store of the lease '{self.name}' failed: {error}") from error


_DONE = {"refuse": "refused", "admit": "admitted without a lease"}


class HeldLease:
    """A lease while its probe runs.

    It is renewed from half of its time on, until the probe ends or its hold is over. One that cannot be renewed in time
    has lapsed: somebody else may probe now, so what still runs of this probe is ended, and its outcome means nothing.
    That also holds where nobody here could notice in time, since something blocked the event loop: whoever settles the
    probe asks `decides`, which compares the time.

    Attributes:
        lapsed: whether what ran of the probe was ended for it.
    """

    def __init__(self, owner: ProbeLease, lease: Lease | None, asked: float, hold: float) -> None:
        self.lapsed = False
        self._released = False
        self._owner = owner
        self._lease = lease
        self._ends = asked + owner.time_to_live  # as seen from here it lasts no longer than from when it was asked for
        self._running: Task[Any] | None = None
        self._keeper: Task[None] | None = None
        if lease is not None:
            self._keeper = owner.clock.start(self._keep(lease, owner.clock.now() + hold), name=f"lease {owner.name}")

    def decides(self) -> bool:
        """Whether the lease is held at this moment, so that nobody else can be probing and the outcome counts."""
        if self._lease is None:
            return True
        return not self.lapsed and not self._released and self._owner.clock.now() < self._ends

    async def _keep(self, lease: Lease, until: float) -> None:
        clock, life = self._owner.clock, self._owner.time_to_live
        pause = life / 2
        while True:
            await clock.sleep(min(pause, self._ends - clock.now()))
            now = clock.now()
            if now >= until:
                self._released = True
                return await self._release(lease)
            if now >= self._ends:
                return self._lapse()
            try:
                renewed = await self._owner.ask(self._owner.store.renew(lease), self._ends - now)
            except LeaseError:
                pause = life / 8
                continue
            if renewed is None:
                return self._lapse()
            self._ends = now + life
            pause = life / 2

    def _lapse(self) -> None:
        self.lapsed = True
        if self._running is not None:
            self._running.cancel()

    async def run(self, call: Callable[..., Awaitable[T]], *args: Any, **kwargs: Any) -> T:
        """Await a call of the probe's, which ends with the lease.

        It runs in a task of its own, since only that can be ended from beside it.

        Raises:
            LeaseError: the lease has lapsed.
        """
        if self._lease is None:
            return await call(*args, **kwargs)
        ended = self._owner.clock.event()
        begun = False

        async def body() -> T:
            nonlocal begun
            begun = True
            try:
                if self.lapsed:
                    raise self._lapsed_error()
                return await call(*args, **kwargs)
            finally:
                ended.set()

        task: Task[T] = self._owner.clock.start(body())
        self._running = task
        try:
            await ended.wait()
        except CancelledError:  # from outside: what runs inside ends first, however often one cancels
            task.cancel()
            while begun and not ended.is_set():
                try:
                    await ended.wait()
                except CancelledError:
                    task.cancel()
            if begun:
                _ = task.cancelled() or task.exception()  # nobody is left to hear of it
            raise
        finally:
            self._running = None
            task.cancel()
        if task.cancelled() and self.lapsed:
            raise self._lapsed_error()
        return task.result()

    @asynccontextmanager
    async def stream(self, chunks: AsyncIterator[T]) -> AsyncIterator[Callable[[], Awaitable[T]]]:
        """Read a stream of the probe's, which ends with the lease: gives a function that pulls the next chunk.

        All of the stream, its closing included, runs in one task of its own: what it keeps in context variables or in a
        limit of its own stays with it from chunk to chunk.

        Raises:
            LeaseError: the lease has lapsed.
        """
        if self._lease is None:
            async with closing(chunks) as source:
                yield source.__anext__
            return
        clock = self._owner.clock
        asked, told = clock.event(), clock.event()
        found: list[tuple[T | None, BaseException | None]] = []
        begun = False

        async def body() -> None:
            nonlocal begun
            begun = True
            async with closing(chunks) as source:
                while True:
                    await asked.wait()
                    asked.clear()
                    try:
                        found.append((await anext(source), None))
                    except (Exception, CancelledError) as error:
                        found.append((None, error))
                        break
                    finally:
                        told.set()

        task = clock.start(body())

        async def pull() -> T:
            if self.lapsed:
                raise self._lapsed_error()
            told.clear()
            asked.set()
            self._running = task
            try:
                await told.wait()
            except CancelledError:  # from outside: what runs inside ends first, however often one cancels
                task.cancel()
                while begun and not told.is_set():
                    try:
                        await told.wait()
                    except CancelledError:
                        task.cancel()
                raise
            finally:
                self._running = None
            chunk, error = found.pop()
            if error is None:
                return chunk  # type: ignore[return-value]
            try:
                raise self._as_known(error)
            finally:
                del error

        try:
            yield pull
        finally:
            task.cancel()  # it waits to be asked, or has ended
            with suppress(CancelledError):
                await task

    def _as_known(self, error: BaseException) -> BaseException:
        """What a probe's end means: a cancellation of a probe whose lease has lapsed is that lapse."""
        return self._lapsed_error() if self.lapsed and isinstance(error, CancelledError) else error

    def _lapsed_error(self) -> LeaseError:
        return LeaseError(
            f"the lease '{self._owner.name}' lapsed while its probe was running, which was ended: "
            "another process may be probing now"
        )

    async def give_back(self) -> None:
        """Let others probe. Where the store cannot be reached the lease lapses by itself."""
        if self._keeper is not None and self._lease is not None:
            self._keeper.cancel()
            await self._release(self._lease)

    def drop(self) -> None:
        """The same for whoever cannot wait: a cancelled or closed probe."""
        if self._keeper is not None and self._lease is not None:
            self._keeper.cancel()
            with suppress(ClockError):  # nothing runs here any more
                self._owner.clock.start(self._release(self._lease), name=f"lease {self._owner.name}")

    async def _release(self, lease: Lease) -> None:
        with suppress(LeaseError):
            await self._owner.ask(self._owner.store.release(lease), self._owner.acquire_timeout)
