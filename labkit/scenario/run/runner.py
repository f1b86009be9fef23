"""Runs a scenario: the real middleware of every replica, around shared services, in virtual time, into a `Trace`.

What is recorded costs little, since it is written into columns as it happens: arrivals are known before the run, a
call's end is one write, an attempt is heard of once, at its end, and of its breakers the run hears no ordinary traffic.
"""

from __future__ import annotations

import random
from array import array
from asyncio import CancelledError
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Protocol

from labkit.config import StackConfig
from labkit.errors import CircuitBreakerOpenError, RunTooLargeError, is_refusal
from labkit.middleware import Stack, Unavailable
from labkit.middleware.base import CallNext
from labkit.scenario.run.columns import CALL, LOOK_EVERY, CallColumns, Recorder
from labkit.scenario.run.skip import SkipAhead
from labkit.scenario.run.subjects import ASSISTANT, subjects_of
from labkit.scenario.run.trace import CALL_OUTCOMES, FaultPeriod, Trace
from labkit.scenario.spec.arrivals import arrivals, expected, merged
from labkit.scenario.spec.bounds import MOST
from labkit.scenario.spec.model import Load, Scenario, service_of
from labkit.services import StockReply, make_adapter, make_service
from labkit.timing import VirtualClock

__all__ = ["Callers", "current_call", "run_scenario"]

Progress = Callable[[float], object]

MOST_ROWS = 2 * MOST
"""Attempts, or rejections, of one run. `bounds` refuses before a run what may come to more, as far as can be known."""
MOST_UNDER_WAY = 500_000
"""So many calls may be under way at one time: each is a coroutine, of some 3 kB."""

_AT_ONCE = 24  # arrivals
_ARRIVED, _PLAYED = 0.1, 0.9  # the share that is done once the arrivals are known, and once the last call has ended

SUCCEEDED, UNAVAILABLE, REJECTED, TIMEOUT, FAILED, CANCELLED = range(len(CALL_OUTCOMES))


class Callers(Protocol):
    """What a run calls: a `Stack`, or what stands for it."""

    def caller(self, function: str) -> CallNext:
        """The function in its middleware, for one result."""

    def stream(self, function: str, /, *args: Any) -> AsyncIterator[Any]:
        """The same, for a stream of chunks."""


def current_call() -> int:
    """The row of the call in whose course this is asked, in the run that is going on; -1 outside of one."""
    return CALL.get()


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
        self.recorder = Recorder(clock, self.service_names, self._look)
        self.per_replica = [name for name, spec in scenario.services.items() if spec.type_ == ASSISTANT]
        self.shared = {name: self._service(name, 0) for name in scenario.services if name not in self.per_replica}
        self.lease_stores: dict[str, Any] | None = None
        self.stacks = [self._stack(replica) for replica in range(scenario.replicas)]
        self.callers: list[Callers] = [watch(stack) for stack in self.stacks] if watch else [*self.stacks]
        function_of = [self.functions.index(load.function) for load in scenario.workload]
        self.columns = CallColumns(*self._arrivals(), function_of, scenario.replicas)
        self.over = False
        self.begun = 0  # calls
        self.skip: SkipAhead | None = None
        if skip and watch is None:
            self.skip = SkipAhead(scenario, clock, self.stacks, self.shared, self.columns, self.recorder)

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
        self._tell(_ARRIVED, _PLAYED, done / self.columns.many)
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
        under_way = done - (self.columns.many - self.columns.left[0])
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
        clock, columns = self.clock, self.columns
        start, load_of, replica_of = columns.start, columns.load_of, columns.replica
        now, sleep, begin = clock.now, clock.sleep, clock.start_at
        columns.done = clock.event()
        requests = [[self._request_of(load, stack) for stack in self.callers] for load in self.scenario.workload]
        calls, number, look_at = columns.many, 0, 0
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
                look_at = number + LOOK_EVERY
                self._look()
        rest = self.scenario.duration - now()
        if rest > 0.0:
            await sleep(rest)
        if columns.left[0]:
            with clock.timeout(self.scenario.drain) as limit:
                try:
                    await columns.done.wait()
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
        subjects = subjects_of(self.scenario, load)
        if load.mode == "stream":
            return self._stream_of(load, stack, subjects)
        call = stack.caller(function)
        if load.retry_waits:
            call = _insistent(self.clock, call, load.retry_waits)
        if load.patience is not None:
            call = _patient(self.clock, call, load.patience)
        mark, now = CALL.set, self.clock.now
        columns = self.columns
        end, outcome, useful, left = columns.end, columns.outcome, columns.useful, columns.left
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
                columns.done.set()

        return request

    def _stream_of(
        self, load: Load, stack: Callers, subjects: tuple[str, ...]
    ) -> Callable[[int], Coroutine[Any, Any, None]]:
        clock, columns, many = self.clock, self.columns, len(subjects)

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
            CALL.set(number)
            chunks: list[Any] = []
            try:
                whole = await reader(subjects[number % many], chunks)
            except BaseException as error:
                if not self._failed(number, error):
                    raise
            else:
                self._answered(number, chunks[-1] if chunks else None)
                if not whole:
                    columns.outcome[number], columns.useful[number] = CANCELLED, 0
            columns.end[number] = clock.now()
            columns.ended(1)

        return request

    def _answered(self, number: int, reply: Any) -> None:
        """Account for a call that returned."""
        columns = self.columns
        if isinstance(reply, str):  # a text in place of an answer; the caller takes it for one
            columns.outcome[number] = SUCCEEDED
            columns.useful[number] = not reply.startswith("Service error")
            return
        unavailable = getattr(reply, "status", None) == "unavailable" or getattr(reply, "unavailable", False)
        columns.outcome[number] = UNAVAILABLE if unavailable else SUCCEEDED
        columns.invented[number] = invented = min(255, getattr(reply, "invented", 0))
        columns.useful[number] = reply is not None and not unavailable and not invented

    def _failed(self, number: int, error: BaseException) -> bool:
        """Account for a call that raised; False if that must go on."""
        outcome = self.columns.outcome
        if is_refusal(error):
            outcome[number] = REJECTED
        elif isinstance(error, TimeoutError):
            outcome[number] = TIMEOUT
        elif isinstance(error, _GaveUp):
            outcome[number] = CANCELLED
        elif isinstance(error, Exception):
            outcome[number] = FAILED
        elif isinstance(error, CancelledError) and not self.over:
            outcome[number] = CANCELLED
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
            calls=self.columns.calls(),
            attempts=recorder.attempts(self.columns.replica, until, lambda share: self._tell(_PLAYED, 0.97, share)),
            probes=recorder.probes(),
            rejections=recorder.rejections(lambda share: self._tell(0.97, 1.0, share)),
            transitions=recorder.transitions(),
            contexts=tuple(scenario.stack.target_of(name) for name in scenario.stack.functions),
            behind=tuple(scenario.service_of(name) or "" for name in scenario.stack.functions),
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
