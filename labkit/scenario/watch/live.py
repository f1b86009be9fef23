"""A stack that runs now: real middleware on `LoopClock` against a real HTTP service, in a thread of its own.

`LiveRun` owns what it starts: the thread with its event loop, the service's thread and socket, the client's
connections, every task. When `stop` returns, or when the time is over, nothing of it is left. What happens is handed
over in batches, about ten a second, and nobody who starts, steers or stops it ever waits for a request.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import threading
from asyncio import CancelledError
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import ContextVar
from typing import Any

from labkit.config import StackConfig
from labkit.errors import LabkitError, RateLimitedError, is_refusal
from labkit.middleware import Stack, Unavailable
from labkit.scenario.read.journeys import (
    ANSWERED,
    ARRIVES,
    BEGINS,
    ENDS,
    ENDS_,
    FAILS,
    RUNS_OUT,
    TURNED_AWAY,
    WAITS,
    Layer,
    limit_place,
)
from labkit.scenario.run.trace import ATTEMPT_OUTCOMES, REJECTION_REASONS, STATES
from labkit.services import HttpServiceThread, PartsAdapter
from labkit.timing import LoopClock
from labkit.timing.clock import Clock, Task

__all__ = ["LiveRun"]

_logger = logging.getLogger(__name__)
_PART = "HX-2040"
_EACH = 0.1  # seconds between two batches
_LATE = 0.5  # seconds of calls that are made up for after a pause
_CALL: ContextVar[tuple[int, float]] = ContextVar("labkit_live_call", default=(-1, 0.0))

Tell = Callable[[dict[str, Any]], bool]


class LiveRun:
    """One run. It can be started once.

    Args:
        config: the stack, with a function `parts_availability`.
        layers: of this function, outermost first.
        replicas: how many stacks share the service; calls go to them in turn.
        rate: calls a second.
        fault: what the service does at first.
        latency: seconds that it takes to answer.
        seconds: after how long it ends by itself.
        tell: hears batches, in the run's own thread, and must not wait; False asks for the same again with the next.

    Attributes:
        ended: "" while it runs, then why it does no more: "stopped", "time", or a sentence about what went wrong.
        function: whose calls it makes.
    """

    function = "parts_availability"

    def __init__(
        self,
        config: StackConfig,
        layers: Sequence[Layer],
        *,
        replicas: int,
        rate: float,
        fault: str,
        latency: float,
        seconds: float,
        tell: Tell,
    ) -> None:
        self.ended = ""
        self._config = config
        self._layers = tuple(layers)
        self._replicas = replicas
        self._rate = rate
        self._fault = fault
        self._latency = latency
        self._seconds = seconds
        self._tell = tell
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._server: HttpServiceThread | None = None
        self._asked_to_stop = threading.Event()
        self._clock: Clock = LoopClock()
        self._began = 0.0
        self._calls = 0
        self._flying: set[Task[None]] = set()
        self._batch: dict[str, list[Any]] = {"events": [], "states": [], "faults": []}
        self._counts: Counter[str] = Counter()
        self._probing: set[int] = set()
        self._attempts: dict[int, int] = {}
        self._ending = False

    @property
    def running(self) -> bool:
        """Whether its thread lives."""
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> None:
        """Begin; returns at once.

        Raises:
            LabkitError: it was started before.
        """
        if self._thread is not None:
            raise LabkitError("a LiveRun can be started once; make a new one")
        self._thread = threading.Thread(target=self._run, name="labkit-live", daemon=True)
        atexit.register(self.stop)
        self._thread.start()

    def stop(self) -> None:
        """End it; when this returns, no task, socket or thread of it is left. Any thread may call it, and again."""
        self._asked_to_stop.set()
        self._inside(lambda: self._end.set())
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(15.0)

    def set_rate(self, rate: float) -> None:
        """Send so many calls a second from now on."""
        self._rate = rate
        self._inside(lambda: self._hurry.set())

    def set_fault(self, fault: str) -> None:
        """Let the service fail in another way, or none ("healthy"), from now on."""
        self._fault = fault
        self._inside(self._switch)

    # ---------------------------------------------------------------------------------- all below is the run's thread

    def _inside(self, act: Callable[[], object]) -> None:
        """Do it in the run's loop, soon; nothing where it does not run (any more)."""
        loop = self._loop
        if loop is not None:
            with suppress(RuntimeError):  # the loop was closed meanwhile
                loop.call_soon_threadsafe(act)

    def _run(self) -> None:
        self._began = self._clock.now()
        try:
            with HttpServiceThread(fault=self._fault, latency=self._latency) as self._server:
                asyncio.run(self._main(self._server))
        except LabkitError as error:
            self.ended = str(error)
        except Exception:
            _logger.exception("the live run failed")
            self.ended = "The run has failed; start it again."
        finally:
            self._loop = self._server = None
            self.ended = self.ended or "stopped"
            atexit.unregister(self.stop)
            self._hand_over(last=True)

    async def _main(self, server: HttpServiceThread) -> None:
        clock = self._clock
        self._end, self._hurry = clock.event(), clock.event()
        self._loop = asyncio.get_running_loop()
        if self._asked_to_stop.is_set():
            return
        self._switch()
        async with PartsAdapter(server.url) as adapter:
            service = _Watched(self, adapter)
            stacks = [Stack(self._config, {self.function: service}, clock) for _ in range(self._replicas)]
            for replica, stack in enumerate(stacks):
                self._listen(stack, replica)
            own = [clock.start(self._traffic(stacks), name="labkit-live-traffic"),
                   clock.start(self._deliver(), name="labkit-live-deliver")]  # fmt: skip
            try:
                with clock.timeout(self._seconds):
                    await self._end.wait()
            except TimeoutError:
                self.ended = "time"
            finally:
                self._ending = True
                tasks = [*own, *self._flying]
                for task in tasks:
                    task.cancel()
                for task in tasks:
                    with suppress(CancelledError):
                        await task

    def _switch(self) -> None:
        if self._server is not None:
            fault = self._server.set_fault(self._fault)
            self._batch["faults"].append([self._now(), str(fault.kind)])

    def _now(self) -> float:
        return round(self._clock.now() - self._began, 4)

    def _note(self, call: int, code: int, place: int = 0, detail: int = 0) -> None:
        self._batch["events"].append([call, call % self._replicas, self._now(), code, place, detail])

    async def _deliver(self) -> None:
        while True:
            await self._clock.sleep(_EACH)
            self._hand_over()

    def _hand_over(self, last: bool = False) -> None:
        batch = {**self._batch, "now": self._now(), "counts": dict(self._counts), "rate": self._rate}
        if last:
            batch["ended"] = self.ended
        while not self._tell(batch):
            # Whoever stops it holds what the page is told with, and tells it by himself.
            if not last or self._asked_to_stop.wait(0.01):
                return
        self._batch = {name: [] for name in self._batch}

    # ------------------------------------------------------------------------------------------------------ the calls

    async def _traffic(self, stacks: Sequence[Stack]) -> None:
        """Calls at the rate that holds; a new rate counts from the last call on."""
        due = self._clock.now()
        while True:
            number = self._calls
            self._calls += 1
            task = self._clock.start(self._request(number, stacks[number % len(stacks)]), name="labkit-live-call")
            self._flying.add(task)
            task.add_done_callback(self._flying.discard)  # type: ignore[attr-defined]
            begun = due
            hurried = True
            while hurried:
                due = begun + 1.0 / self._rate
                self._hurry.clear()
                hurried = False
                with suppress(TimeoutError), self._clock.timeout(due - self._clock.now()):
                    await self._hurry.wait()
                    hurried = True
            due = max(due, self._clock.now() - _LATE)

    async def _request(self, number: int, stack: Stack) -> None:
        _CALL.set((number, self._clock.now()))
        self._counts["arrived"] += 1
        self._note(number, BEGINS)
        try:
            reply = await stack.call(self.function, _PART)
        except TimeoutError:
            how = "timeout"
        except CancelledError:
            if self._ending:
                raise
            how = "cancelled"
        except Exception as error:
            how = "rejected" if is_refusal(error) else "failed"
        else:
            how = "unavailable" if isinstance(reply, Unavailable) else "succeeded"
        finally:
            self._attempts.pop(number, None)
        self._counts[how] += 1
        self._note(number, ENDS_, ENDS.index(how))

    # ------------------------------------------------------------------------------------------------- what it hears

    def _listen(self, stack: Stack, replica: int) -> None:
        for place, layer in enumerate(self._layers):
            if layer.is_breaker:
                stack.middleware[layer.name].listen(self._hearer(place, replica))  # type: ignore[attr-defined]

    def _hearer(self, place: int, replica: int) -> Callable[[Any], None]:
        known: list[Any] = []

        def hear(event: Any) -> None:
            call = _CALL.get()[0]
            if event.kind == "rejected":
                self._note(call, TURNED_AWAY, place, REJECTION_REASONS.index("breaker"))
            elif event.kind == "admitted" and event.probe:
                self._probing.add(call)
                self._counts["probes"] += 1
            now = [STATES.index(event.state.name), event.failures, event.successes]
            if now != known:
                known[:] = now
                self._batch["states"].append([self._now(), replica, place, *now])

        return hear

    def arrives(self) -> tuple[int, float, bool]:
        """An attempt sets out; gives its call, when it was, and whether it is a probe."""
        call, _ = _CALL.get()
        probe = call in self._probing
        self._probing.discard(call)
        self._attempts[call] = self._attempts.get(call, 0) + 1
        self._note(call, ARRIVES, 0, int(probe))
        return call, self._clock.now(), probe

    def leaves(self, attempt: tuple[int, float, bool], outcome: str) -> None:
        """An attempt has ended: "answered", an outcome of an attempt, or "cancelled" by a limit."""
        call, since, probe = attempt
        if outcome == "answered":
            self._note(call, ANSWERED)
            return
        if outcome == "cancelled":
            if self._ending:
                return
            now, begun = self._clock.now(), _CALL.get()[1]
            self._note(call, RUNS_OUT, limit_place(self._layers, now - since, now - begun, probe))
        else:
            self._note(call, FAILS, 0, ATTEMPT_OUTCOMES.index(outcome))
        retry = next((place for place, one in enumerate(self._layers) if one.type_ == "retry"), -1)
        if retry >= 0 and self._attempts.get(call, 0) < self._config.middleware[self._layers[retry].name].attempts:  # type: ignore[attr-defined]
            self._note(call, WAITS, retry)


class _Watched:
    """The adapter, and what comes and goes through it."""

    def __init__(self, run: LiveRun, adapter: PartsAdapter) -> None:
        self._run = run
        self._adapter = adapter

    async def call(self, part: str) -> Any:
        attempt = self._run.arrives()
        outcome = "cancelled"
        try:
            reply = await self._adapter.call(part)
            outcome = "answered"
            return reply
        except ConnectionError:
            outcome = "connection_error"
            raise
        except RateLimitedError:
            outcome = "rate_limited"
            raise
        except Exception:
            outcome = "error"
            raise
        finally:
            self._run.leaves(attempt, outcome)
