"""Runs a scenario: the real middleware of every replica, around shared services, in virtual time, into a `Trace`.

What is recorded costs little, since it is written into columns as it happens: arrivals are known before the run, a
call's end is one write, an attempt is heard of once, at its end, and of its breakers the run hears no ordinary traffic.
"""

from __future__ import annotations

import random
from array import array
from asyncio import CancelledError
from bisect import bisect_left
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import aclosing
from contextvars import ContextVar
from dataclasses import replace
from itertools import islice, pairwise
from math import nan
from operator import itemgetter, lt
from typing import Any, Protocol

from labkit.config import StackConfig
from labkit.errors import BulkheadFullError, CircuitBreakerOpenError, RunTooLargeError
from labkit.middleware import BulkheadMiddleware, RetryBudgetMiddleware, Stack, Unavailable
from labkit.middleware.base import CallNext
from labkit.scenario.run.skip import SkipAhead
from labkit.scenario.run.trace import (
    ATTEMPT_OUTCOMES,
    CALL_OUTCOMES,
    PROBE_OUTCOMES,
    REJECTION_REASONS,
    STATES,
    Attempts,
    Calls,
    FaultPeriod,
    Probes,
    Rejections,
    Trace,
    Transitions,
    column,
)
from labkit.scenario.spec.arrivals import arrivals, expected, merged
from labkit.scenario.spec.bounds import MOST
from labkit.scenario.spec.model import Load, Scenario
from labkit.scenario.spec.reader import service_of
from labkit.services import Attempt, StockReply, make_adapter, make_service
from labkit.timing import VirtualClock

__all__ = ["Callers", "current_call", "run_scenario"]

Progress = Callable[[float], object]

MOST_ROWS = 2 * MOST
"""Attempts, or rejections, of one run. `bounds` refuses before a run what may come to more, as far as can be known."""
MOST_UNDER_WAY = 500_000
"""So many calls may be under way at one time: each is a coroutine, of some 3 kB."""

_AT_ONCE = 24  # arrivals
_LOOK_EVERY = 4096  # attempts, or rejections, between two looks at how many there are
_BLOCK = 1 << 17  # rows that are put in order at a time
_ARRIVED, _PLAYED = 0.1, 0.9  # the share that is done once the arrivals are known, and once the last call has ended
_CALL: ContextVar[int] = ContextVar("labkit_scenario_call", default=-1)

SUCCEEDED, UNAVAILABLE, REJECTED, TIMEOUT, FAILED, CANCELLED = range(len(CALL_OUTCOMES))
_STATE_OF = {"closed": STATES.index("CLOSED"), "opened": STATES.index("OPEN"), "half_opened": STATES.index("HALF_OPEN")}
_PROBE_OUTCOME = {name: code for code, name in enumerate(PROBE_OUTCOMES)}
_ATTEMPT_OUTCOME = {name: code for code, name in enumerate(ATTEMPT_OUTCOMES)}
_REASONS: dict[type, str] = {BulkheadMiddleware: "bulkhead", RetryBudgetMiddleware: "budget"}
_SUBJECTS = {"parts_availability": ("HX-2040",), "maintenance_documents": ("replace the seal kit",)}
_ASSISTANT = "research_assistant"
_QUESTION = ("How many HX-2040 are in stock, and how is the seal replaced?",)


class Callers(Protocol):
    """What a run calls: a `Stack`, or what stands for it."""

    def caller(self, function: str) -> CallNext:
        """The function in its middleware, for one result."""

    def stream(self, function: str, /, *args: Any) -> AsyncIterator[Any]:
        """The same, for a stream of chunks."""


def current_call() -> int:
    """The row of the call in whose course this is asked, in the run that is going on; -1 outside of one."""
    return _CALL.get()


def run_scenario(
    scenario: Scenario,
    *,
    progress: Progress | None = None,
    skip: bool = True,
    watch: Callable[[Stack], Callers] | None = None,
) -> Trace:
    """Run it, from its seed: the same scenario gives the same trace, to the byte.

    Args:
        scenario: what to run.
        progress: told the share that is done, from 0 to 1, every few milliseconds. What it raises ends the run.
        skip: write down, instead of running, the calls of stretches in which every call goes the same known way: see
            `labkit.scenario.run.skip`. The trace is the same either way, to the byte.
        watch: given each replica's stack, gives what is called in its place, such as the same layers with somebody who
            looks on between them; every call is run then.

    Raises:
        MiddlewareError: the stack cannot be built.
        RunTooLargeError: more attempts and rejections came of the calls, or more calls were under way at one time, than
            a machine has memory for; it depends on the scenario alone, not on the machine.
    """
    return _Run(scenario, progress, skip, watch).run()


class _Run:
    def __init__(
        self,
        scenario: Scenario,
        progress: Progress | None,
        skip: bool,
        watch: Callable[[Stack], Callers] | None = None,
    ) -> None:
        self.scenario = scenario
        self.progress = progress
        self.clock = clock = VirtualClock()
        self.functions = tuple(scenario.stack.functions)
        self.service_names = tuple(scenario.services)
        self.recorder = _Recorder(clock, self.service_names, self._look)
        self.per_replica = [name for name, spec in scenario.services.items() if spec.type_ == _ASSISTANT]
        self.shared = {name: self._service(name, 0) for name in scenario.services if name not in self.per_replica}
        self.lease_stores: dict[str, Any] | None = None
        self.stacks = [self._stack(replica) for replica in range(scenario.replicas)]
        self.callers: list[Callers] = [watch(stack) for stack in self.stacks] if watch else [*self.stacks]
        self.start, self.load_of = self._arrivals()
        self.calls = len(self.start)
        function_of = [self.functions.index(load.function) for load in scenario.workload]
        self.function = array("H", map(function_of.__getitem__, self.load_of))
        replicas = array("H", range(scenario.replicas))
        self.replica = (replicas * (self.calls // len(replicas) + 1))[: self.calls]
        self.end = array("d", [nan]) * self.calls
        self.outcome = bytearray([len(CALL_OUTCOMES)]) * self.calls
        self.useful = bytearray(self.calls)
        self.invented = bytearray(self.calls)
        self.left = [self.calls]  # in a list, which a request may hold
        self.over = False
        self.begun = 0  # calls
        self.skip = SkipAhead(self) if skip and watch is None else None

    # ------------------------------------------------------------------------------------------------- what is built

    def _service(self, name: str, replica: int) -> Any:
        spec = self.scenario.services[name]
        whose = f"/{replica}" if name in self.per_replica else ""
        seed = _derived(self.scenario.seed, f"service/{name}{whose}")
        service = make_service(name, spec.type_, dict(spec.settings), self.clock, seed=seed)
        self.recorder.follow_service(service, self.service_names.index(name))
        return service

    def _stack(self, replica: int) -> Stack:
        scenario = self.scenario
        own = {name: self._service(name, replica) for name in self.per_replica}
        services = {**self.shared, **own}
        adapters: dict[tuple[str, str], Any] = {}
        behind: dict[str, Any] = {}
        for name, function in scenario.stack.functions.items():
            service = service_of(name, function, services)
            assert service is not None, "the loader checks it"
            key = (service, function.settings.get("adapter", "none"))
            if key not in adapters:  # one for all: so that a stack knows the same service under another name
                adapters[key] = make_adapter(key[1], services[service])
            behind[name] = adapters[key]
        config = _with_seeds(scenario.stack, scenario.seed, replica)
        stack = Stack(config, behind, self.clock, **self._leases())
        for name, assistant in own.items():
            settings = scenario.services[name].settings
            tools = {key: settings[key] for key in ("stock", "documents") if key in settings}
            assistant.connect(stack.call, **tools)
        for name, middleware in stack.middleware.items():
            if hasattr(middleware, "listen"):
                self.recorder.follow_middleware(name, middleware, replica)
        return stack

    def _leases(self) -> dict[str, Any]:
        """The stores of the probe leases: one for all replicas."""
        leases = getattr(self.scenario.stack, "leases", None)
        if not leases:
            return {}
        if self.lease_stores is None:
            from labkit.middleware.leases import make_lease_store

            self.lease_stores = {name: make_lease_store(config, self.clock) for name, config in leases.items()}
        return {"leases": self.lease_stores}

    def _arrivals(self) -> tuple[array[float], array[int]]:
        """When the calls arrive, and of which load each is."""
        workload, seed = self.scenario.workload, self.scenario.seed
        before, whole = 0, 2.0 * sum(map(expected, workload)) + 1.0  # each is made, and put in order

        def told(many: int) -> None:
            self._tell(0.0, _ARRIVED, (before + many) / whole)

        told(0)
        times = []
        for number, load in enumerate(workload):
            times.append(arrivals(load, f"{seed}/load/{number}", told))
            before += len(times[-1])
        return merged(times, told)

    # -------------------------------------------------------------------------------------------------- how far it is

    def _tell(self, begin: float, end: float, share: float) -> None:
        """Tell the share of the whole that is done, of a part that goes from one share of it to another."""
        if self.progress is not None:
            self.progress(begin + (end - begin) * min(1.0, share))

    def _look(self) -> None:
        """Tell how far the calls are, and end a run that grows beyond all bounds."""
        done, at = self.begun, f"by {self.clock.now():g} s"
        self._tell(_ARRIVED, _PLAYED, done / self.calls)
        for what, columns in (
            ("attempts", self.recorder.attempt_columns),
            ("rejections", self.recorder.rejection_columns),
        ):
            if len(columns[0]) > MOST_ROWS:
                self.clock.abort(
                    RunTooLargeError(
                        f"{at} there were {len(columns[0]):,} {what} of {done:,} calls, and a run has at most "
                        f"{MOST_ROWS:,}; fewer 'attempts' of a retry, a longer 'base_delay' or a lower 'rate'"
                    )
                )
        under_way = done - (self.calls - self.left[0])
        if under_way > MOST_UNDER_WAY:
            self.clock.abort(
                RunTooLargeError(
                    f"{at} there were {under_way:,} calls under way, and at one time there may be {MOST_UNDER_WAY:,}; "
                    "a 'timeout', a bulkhead, some 'patience' or a lower 'rate'"
                )
            )

    # ----------------------------------------------------------------------------------------------------- the calls

    def run(self) -> Trace:
        try:
            until = self.clock.run(self._main())
        finally:
            self.clock.close()
        trace = self._trace(until)
        self._tell(_PLAYED, 1.0, 1.0)
        return trace

    async def _main(self) -> float:
        clock, start, load_of, replica_of = self.clock, self.start, self.load_of, self.replica
        now, sleep, begin = clock.now, clock.sleep, clock.start_at
        self.done = clock.event()
        requests = [[self._request_of(load, stack) for stack in self.callers] for load in self.scenario.workload]
        calls, number, look_at = self.calls, 0, 0
        while number < calls:
            if self.skip is not None:
                number = self.begun = self.skip.ahead(number)
            # A few arrivals at a time, each at its very second; then the clock plays until shortly before the next.
            after = min(number + _AT_ONCE, calls)
            while after < calls and start[after] == start[after - 1]:
                after += 1
            for one in range(number, after):
                begin(start[one], requests[load_of[one]][replica_of[one]](one), one)
            number = self.begun = after
            if number < calls:
                await sleep((start[number - 1] + start[number]) / 2 - now())
            if number >= look_at:
                look_at = number + _LOOK_EVERY
                self._look()
        rest = self.scenario.duration - now()
        if rest > 0.0:
            await sleep(rest)
        if self.left[0]:
            with clock.timeout(self.scenario.drain) as limit:
                try:
                    await self.done.wait()
                except CancelledError:
                    if not limit.expired():
                        raise
        until = now()
        self.over = True  # what is still going on is ended now, and that is nobody's giving up
        self.recorder.cut_off()
        return until

    def _request_of(self, load: Load, stack: Callers) -> Callable[[int], Coroutine[Any, Any, None]]:
        """The coroutine function of one call of this load on one replica."""
        function = load.function
        subjects = self.subjects_of(load)
        if load.mode == "stream":
            return self._stream_of(load, stack, subjects)
        call = stack.caller(function)
        if load.retry_waits:
            call = _insistent(self.clock, call, load.retry_waits)
        if load.patience is not None:
            call = _patient(self.clock, call, load.patience)
        mark, now = _CALL.set, self.clock.now
        end, outcome, useful, left = self.end, self.outcome, self.useful, self.left
        answered, failed = self._answered, self._failed
        many = len(subjects)

        async def request(number: int) -> None:
            mark(number)
            try:
                reply = await call(subjects[number % many])
            except CircuitBreakerOpenError:  # in a rejection storm the most frequent of all
                outcome[number] = REJECTED
            except BaseException as error:
                if not failed(number, error):
                    raise
            else:
                if reply.__class__ is StockReply:
                    outcome[number] = SUCCEEDED
                    useful[number] = 1
                elif reply.__class__ is Unavailable:
                    outcome[number] = UNAVAILABLE
                else:
                    answered(number, reply)
            end[number] = now()
            left[0] -= 1
            if not left[0]:
                self.done.set()

        return request

    def _stream_of(
        self, load: Load, stack: Callers, subjects: tuple[str, ...]
    ) -> Callable[[int], Coroutine[Any, Any, None]]:
        clock, many = self.clock, len(subjects)

        async def read(subject: str, chunks: list[Any]) -> bool:
            """Whether it was read to its end."""
            async with aclosing(stack.stream(load.function, subject)) as stream:  # type: ignore[type-var]
                async for chunk in stream:
                    chunks.append(chunk)
                    if load.consumer_pause:
                        await clock.sleep(load.consumer_pause)
                    if len(chunks) == load.close_after:
                        return False
            return True

        reader = _patient(clock, read, load.patience) if load.patience is not None else read

        async def request(number: int) -> None:
            _CALL.set(number)
            chunks: list[Any] = []
            try:
                whole = await reader(subjects[number % many], chunks)
            except BaseException as error:
                if not self._failed(number, error):
                    raise
            else:
                self._answered(number, chunks[-1] if chunks else None)
                if not whole:
                    self.outcome[number], self.useful[number] = CANCELLED, 0
            self.end[number] = clock.now()
            self.left[0] -= 1
            if not self.left[0]:
                self.done.set()

        return request

    def service_behind(self, function: str) -> Any:
        """The service that a function calls; None for one that each replica has of its own."""
        config = self.scenario.stack.functions[function]
        return self.shared.get(service_of(function, config, self.scenario.services) or "")

    def subjects_of(self, load: Load) -> tuple[str, ...]:
        """What a load asks for, in turn."""
        return load.subjects or self._usual_subjects(load.function)

    def ended(self, many: int) -> None:
        """So many calls have ended, of which nobody else tells."""
        self.left[0] -= many
        if many and not self.left[0]:
            self.done.set()

    def _usual_subjects(self, function: str) -> tuple[str, ...]:
        config = self.scenario.stack.functions[function]
        service = service_of(function, config, self.scenario.services)
        type_ = self.scenario.services[service].type_ if service else ""
        return _QUESTION if type_ == _ASSISTANT else _SUBJECTS.get(type_, ("HX-2040",))

    def _answered(self, number: int, reply: Any) -> None:
        """Account for a call that returned."""
        if isinstance(reply, str):  # a text in place of an answer; the caller takes it for one
            self.outcome[number] = SUCCEEDED
            self.useful[number] = not reply.startswith("Service error")
            return
        unavailable = getattr(reply, "status", None) == "unavailable" or getattr(reply, "unavailable", False)
        self.outcome[number] = UNAVAILABLE if unavailable else SUCCEEDED
        self.invented[number] = invented = min(255, getattr(reply, "invented", 0))
        self.useful[number] = reply is not None and not unavailable and not invented

    def _failed(self, number: int, error: BaseException) -> bool:
        """Account for a call that raised; False if that must go on."""
        if isinstance(error, (CircuitBreakerOpenError, BulkheadFullError)):
            self.outcome[number] = REJECTED
        elif isinstance(error, TimeoutError):
            self.outcome[number] = TIMEOUT
        elif isinstance(error, _GaveUp):
            self.outcome[number] = CANCELLED
        elif isinstance(error, Exception):
            self.outcome[number] = FAILED
        elif isinstance(error, CancelledError) and not self.over:
            self.outcome[number] = CANCELLED
        else:
            return False
        return True

    # ----------------------------------------------------------------------------------------------------- the trace

    def _trace(self, until: float) -> Trace:
        scenario, recorder = self.scenario, self.recorder
        return Trace(
            title=scenario.title,
            seed=scenario.seed,
            duration=scenario.duration,
            until=until,
            replicas=scenario.replicas,
            functions=self.functions,
            services=self.service_names,
            breakers=tuple(recorder.middleware),
            targets=tuple(recorder.targets),
            capacity={name: one.workers for name, one in self.shared.items() if one.workers is not None},
            faults=self._faults(until),
            calls=Calls(
                column("d", self.start),
                column("d", self.end),
                column("H", self.function),
                column("H", self.replica),
                memoryview(bytes(self.outcome)),
                memoryview(bytes(self.useful)),
                memoryview(bytes(self.invented)),
            ),
            attempts=recorder.attempts(self.replica, until, lambda share: self._tell(_PLAYED, 0.97, share)),
            probes=recorder.probes(),
            rejections=recorder.rejections(lambda share: self._tell(0.97, 1.0, share)),
            transitions=recorder.transitions(),
            contexts=tuple(scenario.stack.target_of(name) for name in scenario.stack.functions),
            behind=tuple(
                service_of(name, function, scenario.services) or ""
                for name, function in scenario.stack.functions.items()
            ),
        )

    def _faults(self, until: float) -> tuple[FaultPeriod, ...]:
        found = []
        for name, service in self.shared.items():
            for period in service.plan.periods(until, service.workers):
                found.append(FaultPeriod(name, *period))
        return tuple(sorted(found, key=lambda period: (period.start, period.service)))


class _GaveUp(Exception):
    """A caller lost its patience."""


def _patient(
    clock: VirtualClock, call: Callable[..., Awaitable[Any]], patience: float
) -> Callable[..., Awaitable[Any]]:
    """The call of somebody who cancels it after so many seconds."""

    async def impatient(*args: Any) -> Any:
        limit = clock.timeout(patience)
        try:
            with limit:
                return await call(*args)
        except TimeoutError:
            if limit.expired():
                raise _GaveUp from None
            raise

    return impatient


def _insistent(
    clock: VirtualClock, call: Callable[..., Awaitable[Any]], waits: tuple[float, ...]
) -> Callable[..., Awaitable[Any]]:
    """The call of somebody who tries again after each of these waits, whatever the error was."""

    async def again(*args: Any) -> Any:
        for wait in waits:
            try:
                return await call(*args)
            except Exception:
                pass  # outside of it, so that nobody holds the error while it waits
            await clock.sleep(wait)
        return await call(*args)

    return again


def _derived(seed: int, what: str) -> int:
    return random.Random(f"{seed}/{what}").getrandbits(32)


def _with_seeds(config: StackConfig, seed: int, replica: int) -> StackConfig:
    """The same stack, with another seed for whatever draws on each replica."""
    changed = {
        name: one.model_copy(update={"seed": _derived(seed, f"{getattr(one, 'seed', None) or 0}/{replica}/{name}")})
        for name, one in config.middleware.items()
        if "seed" in type(one).model_fields
    }
    return replace(config, middleware={**config.middleware, **changed}) if changed else config


# -------------------------------------------------------------------------------------------------------- the recorder


class _Recorder:
    """Hears of attempts and of breakers, and writes them into columns.

    Args:
        clock: of the run.
        services: their names.
        look: called with every so many attempts or rejections.
    """

    def __init__(self, clock: VirtualClock, services: tuple[str, ...], look: Callable[[], object]) -> None:
        self._clock = clock
        self._look = look
        self.look_at = [_LOOK_EVERY, _LOOK_EVERY]  # rows of attempts, rows of rejections
        self.middleware: dict[str, int] = {}
        self.targets: dict[str, int] = {}
        self.attempt_columns: list[array[Any]] = [
            array(code) for code in "iHdddB"
        ]  # call, service, start, served, end, outcome
        self._probes: list[array[Any]] = [
            array(code) for code in "HHHddB"
        ]  # middleware, target, replica, start, end, outcome
        self.flying: dict[tuple[int, int, int, int], int] = {}  # middleware, target, replica, call: row
        self.rejection_columns: list[array[Any]] = [array(code) for code in "dHHHiB"]
        self._transitions: list[array[Any]] = [array(code) for code in "dHHHB"]
        self._whole = 0  # how many attempts had been heard of when the run was over

    def follow_service(self, service: Any, number: int) -> None:
        """Hear of each attempt at its end, in its own task."""
        call, place, start, served, end, outcome = (column.append for column in self.attempt_columns)
        whose, codes = _CALL.get, _ATTEMPT_OUTCOME
        rows, look_at, look = self.attempt_columns[0], self.look_at, self._look

        def record(attempt: Attempt) -> None:
            if len(rows) >= look_at[0]:
                look_at[0] = len(rows) + _LOOK_EVERY
                look()
            call(whose())
            place(number)
            start(attempt.started)
            served(nan if attempt.served is None else attempt.served)
            end(attempt.ended)
            outcome(codes[attempt.outcome])  # type: ignore[index]

        service.record = record

    def follow_middleware(self, name: str, middleware: Any, replica: int) -> None:
        """Hear of changes of state, probes and rejections."""
        number = self.middleware.setdefault(name, len(self.middleware))
        targets, whose = self.targets, _CALL.get
        reject = [column.append for column in self.rejection_columns]
        change = [column.append for column in self._transitions]
        probes, flying = self._probes, self.flying
        reason = REJECTION_REASONS.index(_REASONS.get(type(middleware), "breaker"))
        lease = REJECTION_REASONS.index("lease")
        refused: set[int] = set()
        rows, look_at, look = self.rejection_columns[0], self.look_at, self._look

        def hear(event: Any) -> None:
            kind = event.kind
            target = targets.get(event.target)
            if target is None:
                target = targets[event.target] = len(targets)
            if kind == "rejected":
                call = whose()
                why = reason
                if refused and call in refused:
                    refused.discard(call)
                    why = lease
                if len(rows) >= look_at[1]:
                    look_at[1] = len(rows) + _LOOK_EVERY
                    look()
                reject[0](event.at)  # in a storm of rejections this is what is done most often
                reject[1](number)
                reject[2](target)
                reject[3](replica)
                reject[4](call)
                reject[5](why)
            elif kind in _STATE_OF:
                for append, value in zip(change, (event.at, number, target, replica, _STATE_OF[kind]), strict=True):
                    append(value)
            elif kind == "lease_refused":
                refused.add(whose())
            elif not getattr(event, "probe", False):
                return
            elif kind == "admitted":
                flying[number, target, replica, whose()] = len(probes[0])
                values = (number, target, replica, event.at, nan, len(PROBE_OUTCOMES))
                for column, value in zip(probes, values, strict=True):
                    column.append(value)
            elif kind in _PROBE_OUTCOME:
                row = flying.pop((number, target, replica, whose()), None)
                if row is not None:
                    probes[4][row] = event.at
                    probes[5][row] = _PROBE_OUTCOME[kind]

        middleware.listen(hear, traffic=False)

    def cut_off(self) -> None:
        """The run is over: the attempts that are heard of from now on were ended by that alone."""
        self._whole = len(self.attempt_columns[0])

    def attempts(self, replica_of: array[int], until: float, told: Progress) -> Attempts:
        """The attempts, in the order in which they arrived.

        As the run is taken down, workers are handed on to those who wait and are to be ended as well. Nobody was served
        by that, and to whom it happens is a matter of the order in which tasks are cancelled.
        """
        times_served = self.attempt_columns[3]
        for row in range(self._whole, len(times_served)):
            if times_served[row] >= until:
                times_served[row] = nan
        call, place, start, served, end, outcome = _sorted(self.attempt_columns, 2, 0, told)
        if min(call, default=-1) >= 0:  # mostly
            replica = array("H", map(replica_of.__getitem__, call))
        else:
            replica = array("H", [replica_of[one] if one >= 0 else 0 for one in call])
        return Attempts(
            column("i", call),
            column("H", place),
            column("H", replica),
            column("d", start),
            column("d", served),
            column("d", end),
            column("B", outcome),
        )

    def probes(self) -> Probes:
        """The probes."""
        return Probes(*(column(one.typecode, one) for one in self._probes))

    def rejections(self, told: Progress) -> Rejections:
        """The rejections."""
        columns = _sorted(self.rejection_columns, 0, 4, told)
        return Rejections(*(column(one.typecode, one) for one in columns))

    def transitions(self) -> Transitions:
        """The changes of state."""
        return Transitions(*(column(one.typecode, one) for one in self._transitions))


def _sorted(columns: list[array[Any]], times: int, calls: int, told: Progress) -> list[array[Any]]:
    """The columns with their rows in the order of time, and at one instant in that of the calls.

    Rows are written as they end, so that none is far from its place: they are put in order a block at a time. Those
    that may still stand behind a row of a later block wait for it.

    Args:
        columns: of one length.
        times, calls: the places of those two columns.
        told: the share that is done.
    """
    at, many = columns[times], len(columns[times])
    if all(map(lt, at, islice(at, 1, None))):  # mostly they are
        return columns
    begins = range(0, many, _BLOCK)
    earliest = [min(at[begin : begin + _BLOCK]) for begin in begins]  # of each block, and those behind it
    for block in range(len(earliest) - 1, 0, -1):
        earliest[block - 1] = min(earliest[block - 1], earliest[block])
    found = [array(one.typecode) for one in columns]
    waiting: list[int] = []
    most = 0  # rows wait until there are twice as many as had to wait before, so that few are sorted often
    for block, begin in enumerate(begins):
        waiting.extend(range(begin, min(begin + _BLOCK, many)))
        last = block + 1 == len(begins)
        if not last and len(waiting) < 2 * most:
            continue
        waiting.sort(key=columns[calls].__getitem__)
        waiting.sort(key=at.__getitem__)
        ready = len(waiting) if last else bisect_left(waiting, earliest[block + 1], key=at.__getitem__)
        _append(found, columns, waiting[:ready])
        del waiting[:ready]
        most = len(waiting)
        told((block + 1) / len(begins))
    return found


def _append(found: list[array[Any]], columns: list[array[Any]], order: list[int]) -> None:
    """Append some rows of columns to others."""
    breaks = [place for place, (row, after) in enumerate(pairwise(order), 1) if after != row + 1]
    if len(breaks) * 8 > len(order):
        pick = itemgetter(*order)  # of two rows at least, since one is in order
        for whole, one in zip(found, columns, strict=True):
            whole.extend(pick(one))
        return
    pieces = [
        slice(order[begin], order[end - 1] + 1) for begin, end in pairwise([0, *breaks, len(order)]) if begin < end
    ]
    for whole, one in zip(found, columns, strict=True):
        for piece in pieces:
            whole.extend(one[piece])
