"""Stretches of a run in which nothing can happen are written down instead of run. The trace is the same, to the byte.

Two kinds of stretch are known, and each ends before anything else may happen:

- the dependency is healthy and every breaker is at rest: a call reaches the service at once, is answered after its
  latency, and changes nothing;
- a breaker is open and its cooldown is not over, or its probes are in flight: a call is rejected at once, and changes
  nothing. A probe in flight may decide something with any turn of the clock, so that stretch ends before the next one.

What a breaker would do is asked of its policy, whichever breaker it is.

Whatever else a scenario has (a queue, budgets, windows, streams, an assistant) is run, call by call. That both
ways give the same trace is held by the tests for every scenario of the package, every variant and any scenario that
hypothesis finds; the rules stay with policies and services, which are asked here.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import islice, takewhile
from operator import add
from typing import Any

from labkit.errors import CircuitBreakerOpenError
from labkit.middleware import (
    FallbackMiddleware,
    FunctionMiddleware,
    RetryMiddleware,
    Stack,
    TimeoutMiddleware,
)
from labkit.middleware._breaker import BreakerShell
from labkit.scenario.run.columns import CallColumns, Recorder
from labkit.scenario.run.subjects import subjects_of
from labkit.scenario.run.trace import ATTEMPT_OUTCOMES, CALL_OUTCOMES, REJECTION_REASONS
from labkit.scenario.spec.model import Load, Scenario
from labkit.services import MaintenanceDocuments, PartsAvailability
from labkit.timing import VirtualClock

__all__ = ["SkipAhead"]

_WORTH_IT = 4  # calls
_MANY = 256
_AT_ONCE = 1 << 19  # calls that are written in one go, so that a run can tell how far it is
_KNOWN = (TimeoutMiddleware, RetryMiddleware, FallbackMiddleware)  # beside every breaker whose policy tells all
_SUCCEEDED, _UNAVAILABLE, _REJECTED = (CALL_OUTCOMES.index(one) for one in ("succeeded", "unavailable", "rejected"))
_UNFINISHED = len(CALL_OUTCOMES)
_ANSWERED, _SAID_NO = ATTEMPT_OUTCOMES.index("answered"), ATTEMPT_OUTCOMES.index("rejected")
_BREAKER = REJECTION_REASONS.index("breaker")


@dataclass(slots=True)
class _Way:
    """How the calls of one load go on one replica.

    Attributes:
        breakers: (name, breaker) of its list, outermost first.
        target: under which they keep its state.
        while_open: the outcome of a call that the outermost breaker rejects, or None if what is outside is not known.
        limit: seconds within which an answer passes every limit and every patience.
        earns: what a call that reaches the service does to the budgets of the retries on its way, one each.
        earns_open: what a call that is rejected does to them.
    """

    breakers: list[tuple[str, BreakerShell[Any, Any]]]
    target: str
    while_open: int | None
    limit: float
    earns: list[Callable[[str], object]]
    earns_open: list[Callable[[str], object]]

    def earn(self, earns: list[Callable[[str], object]], many: int) -> None:
        """Let so many calls do that."""
        for earn in earns:
            for _ in range(many):
                earn(self.target)


class _Draws:
    """A service's latencies, drawn in the same order, some of them ahead; and who is being answered when.

    Args:
        service: whose.
        now: the clock.
    """

    def __init__(self, service: Any, now: Callable[[], float]) -> None:
        self.service = service
        self._draw: Callable[[], float] = service.draw
        self._now = now
        self._ahead: deque[float] = deque()
        self._drawn: list[tuple[float, float]] = []  # when, and for how many seconds, by those who run
        self._left_behind: list[float] = []  # when those end that were written down and had not ended then
        service.draw = self

    def __call__(self) -> float:
        seconds = self._ahead.popleft() if self._ahead else self._draw()
        if len(self._drawn) > _MANY:
            self.flying(self._now())
        self._drawn.append((self._now(), seconds))
        return seconds

    def peek(self) -> float:
        """The next draw, which is not drawn by that."""
        if not self._ahead:
            self._ahead.append(self._draw())
        return self._ahead[0]

    def take(self) -> None:
        """Draw what was peeked at, for a call that is written down."""
        self._ahead.popleft()

    def peek_many(self, many: int) -> list[float]:
        """The next draws, which are not drawn by that."""
        ahead, draw = self._ahead, self._draw
        ahead.extend([draw() for _ in range(many - len(ahead))])
        return list(islice(ahead, many))

    def take_many(self, many: int) -> None:
        """Draw so many of what was peeked at."""
        self._ahead = deque(islice(self._ahead, many, None))

    def flying(self, now: float) -> list[tuple[float, float]]:
        """The draws of those who are still being answered."""
        self._drawn = [one for one in self._drawn if one[0] + one[1] > now]
        return self._drawn

    def ends(self, now: float) -> list[float]:
        """When those end who occupy a worker, as a heap."""
        self._left_behind = [end for end in self._left_behind if end > now]
        found = [at + seconds for at, seconds in self.flying(now)] + self._left_behind
        heapify(found)
        return found

    def leave_behind(self, clock: VirtualClock, at: float, written: list[tuple[float, int, _Way]]) -> None:
        """Those who were written down and end after a time occupy their workers until then, and then succeed.

        Args:
            clock: of the run.
            at: the time.
            written: the end, the number and the way of each call.
        """
        for end, number, way in written:
            if end > at:
                self._left_behind.append(end)
                self.service.occupy()
                permits = [(breaker, breaker.policy.ordinary) for _, breaker in reversed(way.breakers)]
                clock.start_at(end, self._end(way.target, permits), number)  # no two have one place

    async def _end(self, target: str, permits: list[tuple[Any, Any]]) -> None:
        for breaker, permit in permits:
            breaker.succeeded(target, permit)
        self.service.vacate()


def _extend(columns: list[array[Any]], values: tuple[Any, ...], many: int) -> None:
    """Append rows to columns; a single number stands in every row."""
    for column, one in zip(columns, values, strict=True):
        if isinstance(one, int):
            one = array(column.typecode, [one]) * many
        column.extend(one)


def _earning(layers: Iterable[FunctionMiddleware]) -> list[Callable[[str], object]]:
    """What a first attempt that comes through these layers does to the budgets of their retries: it earns once each."""
    budgets = dict.fromkeys(one.budget for one in layers if isinstance(one, RetryMiddleware))
    return [budget.earn for budget in budgets if budget is not None]


def _is_known(layer: FunctionMiddleware) -> bool:
    """Whether it is known what a layer does to a call: never of a subclass, which may do anything."""
    return layer.foreseeable if isinstance(layer, BreakerShell) else type(layer) in _KNOWN


class SkipAhead:
    """Finds such stretches for one run, and writes them.

    Args:
        scenario: what is run.
        clock: of the run.
        stacks: of the replicas.
        services: those that the replicas share, by name.
        columns: of the calls, which are written.
        recorder: of the run, whose columns are written.
    """

    def __init__(
        self,
        scenario: Scenario,
        clock: VirtualClock,
        stacks: Sequence[Stack],
        services: Mapping[str, Any],
        columns: CallColumns,
        recorder: Recorder,
    ) -> None:
        self._scenario = scenario
        self._clock = clock
        self._stacks = stacks
        self._shared = services
        self._columns = columns
        self._recorder = recorder
        self._now = clock.now
        self._services: list[Any] = []  # of each load
        self._ways: list[list[_Way | None]] = []  # by load and replica
        self._attempt_outcomes: list[tuple[int, ...] | None] = []  # of each load, by subject in turn
        for load in scenario.workload:
            service, ways, outcomes = self._of(load)
            self._services.append(service)
            self._ways.append(ways)
            self._attempt_outcomes.append(outcomes)
        self._draws: dict[int, _Draws] = {}
        for service in self._services:
            if service is not None and id(service) not in self._draws:
                self._draws[id(service)] = _Draws(service, self._now)
        known = [way for ways in self._ways for way in ways if way is not None]
        self._usable = bool(known)
        self._earns_open = any(way.earns_open for way in known)

    def _of(self, load: Load) -> tuple[Any, list[_Way | None], tuple[int, ...] | None]:
        scenario, stacks = self._scenario, self._stacks
        nothing: list[_Way | None] = [None] * len(stacks)
        if load.mode != "invoke" or load.retry_waits:
            return None, nothing, None
        service: Any = self._shared.get(scenario.service_of(load.function) or "")
        if type(service) not in (PartsAvailability, MaintenanceDocuments):
            return None, nothing, None
        adapter = scenario.stack.functions[load.function].settings.get("adapter", "none")
        outcomes: tuple[int, ...] | None = None
        if adapter in ("none", "in_process"):
            subjects = subjects_of(scenario, load)
            outcomes = tuple(_ANSWERED if service.knows(subject) else _SAID_NO for subject in subjects)
        ways = [self._way(load, stack) for stack in stacks]
        return service, ways, outcomes

    def _way(self, load: Load, stack: Stack) -> _Way | None:
        layers = stack.layers_of(load.function)
        if not all(_is_known(layer) for layer in layers.values()):
            return None
        if any(isinstance(one, FallbackMiddleware) and one.config.alternative is not None for one in layers.values()):
            return None
        breakers = [(name, one) for name, one in layers.items() if isinstance(one, BreakerShell)]
        limits = [one.config.timeout for one in layers.values() if isinstance(one, TimeoutMiddleware)]
        target = stack.target_of(load.function)
        while_open = None
        outside: list[FunctionMiddleware] = []
        if breakers:
            outside = list(takewhile(lambda one: one is not breakers[0][1], layers.values()))
            rejection = CircuitBreakerOpenError("", target, 1.0)
            said = [one for one in outside if isinstance(one, FallbackMiddleware) and one.answers(rejection)]
            while_open = _UNAVAILABLE if said else _REJECTED
        limit = min([load.patience or math.inf, *limits])
        return _Way(breakers, target, while_open, limit, _earning(layers.values()), _earning(outside))

    # ------------------------------------------------------------------------------------------------------ the search

    def ahead(self, number: int) -> int:
        """Write down as many calls as can be, from this one on; gives the first that has to be run."""
        if not self._usable:
            return number
        end = min(self._end(number), number + _AT_ONCE)
        if end - number < _WORTH_IT:
            return number
        return self._write(number, end)

    def _end(self, number: int) -> int:
        """The call at which the stretch ends at the latest."""
        probing = bool(self._recorder.flying)  # which may decide something
        until = math.inf
        self._modes: list[list[bool]] = []  # by load and replica: whether its breaker is open
        healthy: set[int] = set()  # loads
        for place, ways in enumerate(self._ways):
            modes = []
            for way in ways:
                if way is None:
                    return number
                rest = self._open_until(way)
                if rest is not None:
                    until = min(until, rest)
                elif self._at_rest(way) and not probing:
                    healthy.add(place)
                else:
                    return number
                modes.append(rest is not None)
            self._modes.append(modes)
        for place in healthy:
            if self._attempt_outcomes[place] is None:
                return number
            edge = self._services[place].steady_until()
            if edge is None:
                return number
            until = min(until, edge)
        if healthy and not self._all_sure(number, healthy):
            return number
        if probing or self._may_spend(number):
            until = min(until, self._clock.next_due())
        return bisect_left(self._columns.start, until, number)

    def _open_until(self, way: _Way) -> float | None:
        """Until when the outermost breaker rejects every call, if nothing happens; None if it does not now."""
        if way.while_open is None:
            return None
        policy = way.breakers[0][1].policy
        if not policy.would_reject(way.target, self._now()):
            return None
        end = policy.timer_end(way.target)
        return end if end < math.inf else self._clock.next_due()

    def _may_spend(self, number: int) -> bool:
        """Whether a call in flight may ask for a retry while those that are rejected earn tokens for it."""
        return self._earns_open and number > self._columns.many - self._columns.left[0]

    def _at_rest(self, way: _Way) -> bool:
        """Whether every breaker is closed and remembers nothing."""
        return all(breaker.policy.at_rest(way.target) for _, breaker in way.breakers)

    def _all_sure(self, number: int, healthy: set[int]) -> bool:
        """Whether every call in flight is at a healthy service that will answer it within every limit."""
        columns, now = self._columns, self._now()
        limit = min(way.limit for place in healthy for way in self._ways[place] if way is not None)
        at_services = 0
        for draws in self._draws.values():
            service = draws.service
            since = service.steady_since()
            flying = draws.flying(now)
            if service.queued or len(flying) != service.in_flight:
                return False
            if any(seconds >= limit or at < since for at, seconds in flying):
                return False
            at_services += service.in_flight
        return at_services == number - (columns.many - columns.left[0])

    # ----------------------------------------------------------------------------------------------------- the writing

    def _write(self, number: int, end: int) -> int:
        if len(self._ways) == 1:  # one load, and each of its calls goes the same way: all at once
            if all(self._modes[0]):
                return self._write_rejected(number, end)
            if not any(self._modes[0]) and self._services[0].capacity is None:
                return self._write_answered(number, end)
        return self._write_each(number, end)

    def _write_rejected(self, number: int, end: int) -> int:
        """Calls of one load, of which each is rejected by its replica's open breaker."""
        columns, recorder = self._columns, self._recorder
        start, replica_of = columns.start, columns.replica
        for replica, way in enumerate(self._ways[0]):
            assert way is not None
            would_reject, target = way.breakers[0][1].policy.would_reject, way.target
            cut = bisect_left(start, True, number, end, key=lambda at: not would_reject(target, at))
            while cut < end and replica_of[cut] != replica:
                cut += 1
            end = min(end, cut)
        many = end - number
        way = self._ways[0][0]
        assert way is not None
        ats = start[number:end]
        whose = recorder.middleware[way.breakers[0][0]], recorder.targets[way.target]
        values = (ats, *whose, replica_of[number:end], range(number, end), _BREAKER)
        _extend(recorder.rejection_columns, values, many)
        columns.end[number:end] = ats
        columns.outcome[number:end] = bytes([way.while_open or _REJECTED]) * many
        for replica, each in enumerate(self._ways[0]):
            if each is not None and each.earns_open:
                each.earn(each.earns_open, replica_of[number:end].count(replica))
        columns.ended(many)
        return end

    def _write_answered(self, number: int, end: int) -> int:
        """Calls of one load, of which each is answered by a service that is well and has room for all."""
        columns, service, outcomes = self._columns, self._services[0], self._attempt_outcomes[0]
        draws, edge, duration = self._draws[id(service)], service.steady_until(), self._scenario.duration
        way = self._ways[0][0]
        assert way is not None
        assert outcomes is not None
        limit = way.limit
        ats = columns.start[number:end]
        seconds = draws.peek_many(end - number)
        ends = array("d", map(add, ats, seconds))
        if ends and not (min(seconds) > 0.0 and max(seconds) < limit and max(ends) <= edge and max(ends) < duration):
            sound = (0.0 < one < limit and ended <= edge and ended < duration
                     for one, ended in zip(seconds, ends, strict=True))  # fmt: skip
            end = number + next((place for place, one in enumerate(sound) if not one), len(ends))
        many = end - number
        draws.take_many(many)
        ats, ends = ats[:many], ends[:many]
        place = next(n for n, name in enumerate(self._scenario.services) if self._shared.get(name) is service)
        if len(outcomes) > 1:
            said: Any = bytes(outcomes[one % len(outcomes)] for one in range(number, end))
        else:
            said = outcomes[0]
        _extend(self._recorder.attempt_columns, (range(number, end), place, ats, ats, ends, said), many)
        columns.end[number:end] = ends
        columns.outcome[number:end] = bytes([_SUCCEEDED]) * many
        columns.useful[number:end] = b"\1" * many
        stopped = columns.start[end] if end < columns.many else math.inf
        ways, replica_of = self._ways[0], columns.replica
        for replica, each in enumerate(ways):
            if each is not None and each.earns:
                each.earn(each.earns, replica_of[number:end].count(replica))
        left = [(ended, one, ways[replica_of[one]]) for one, ended in enumerate(ends, number) if ended > stopped]
        draws.leave_behind(self._clock, stopped, left)  # type: ignore[arg-type]
        columns.ended(many)
        return end

    def _write_each(self, number: int, end: int) -> int:
        """Calls of which some may be rejected and others answered, by several loads."""
        columns, recorder, now = self._columns, self._recorder, self._now()
        start, load_of, replica_of, duration = columns.start, columns.load_of, columns.replica, self._scenario.duration
        attempt = [column.append for column in recorder.attempt_columns]
        reject = [column.append for column in recorder.rejection_columns]
        middleware, targets = recorder.middleware, recorder.targets
        place_of = {
            id(self._shared[name]): place for place, name in enumerate(self._scenario.services) if name in self._shared
        }
        edges = [None if service is None else service.steady_until() for service in self._services]
        busy = {key: (draws.ends(now), draws.service.capacity) for key, draws in self._draws.items()}
        written: dict[int, list[tuple[float, int, _Way]]] = {key: [] for key in self._draws}
        one = number
        while one < end:
            load, replica, at = load_of[one], replica_of[one], start[one]
            way = self._ways[load][replica]
            assert way is not None
            if self._modes[load][replica]:
                name, breaker = way.breakers[0]
                if not breaker.policy.would_reject(way.target, at):
                    break
                reject[0](at)
                reject[1](middleware[name])
                reject[2](targets[way.target])
                reject[3](replica)
                reject[4](one)
                reject[5](_BREAKER)
                columns.end[one] = at
                columns.outcome[one] = way.while_open or _REJECTED
                if way.earns_open:
                    way.earn(way.earns_open, 1)
            else:
                key = id(self._services[load])
                draws, edge, outcomes = self._draws[key], edges[load], self._attempt_outcomes[load]
                assert edge is not None
                assert outcomes is not None
                seconds = draws.peek()
                ended = at + seconds
                if seconds <= 0.0 or seconds >= way.limit or ended > edge or ended >= duration:
                    break
                ends, capacity = busy[key]
                if capacity is not None:
                    while ends and ends[0] <= at:
                        heappop(ends)
                    if len(ends) >= capacity:
                        break
                    heappush(ends, ended)
                draws.take()
                written[key].append((ended, one, way))
                if len(written[key]) > _MANY:  # only the last of them may be left behind
                    written[key] = [call for call in written[key] if call[0] > at]
                attempt[0](one)
                attempt[1](place_of[key])
                attempt[2](at)
                attempt[3](at)
                attempt[4](ended)
                attempt[5](outcomes[one % len(outcomes)])
                columns.end[one] = ended
                columns.outcome[one] = _SUCCEEDED
                columns.useful[one] = 1
                if way.earns:
                    way.earn(way.earns, 1)
            one += 1
        stopped = start[one] if one < columns.many else math.inf
        for key, calls in written.items():
            self._draws[key].leave_behind(self._clock, stopped, calls)
        columns.ended(one - number)
        return one
