"""The columns of a run while it is made: what becomes of the calls, and what services and breakers say of themselves.

The runner writes into them call by call, and `skip` whole stretches at a time.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from itertools import islice, pairwise
from math import nan
from operator import itemgetter, lt
from typing import Any

from labkit.middleware import BulkheadMiddleware, RetryBudgetMiddleware
from labkit.scenario.run.trace import (
    ATTEMPT_OUTCOMES,
    CALL_OUTCOMES,
    PROBE_OUTCOMES,
    REJECTION_REASONS,
    STATES,
    Attempts,
    Calls,
    Probes,
    Rejections,
    Transitions,
    column,
)
from labkit.services import Attempt
from labkit.timing import VirtualClock
from labkit.timing.clock import Event

__all__ = ["CALL", "LOOK_EVERY", "CallColumns", "Recorder"]

CALL: ContextVar[int] = ContextVar("labkit_scenario_call", default=-1)
"""The row of the call in whose course something happens; -1 outside of one."""

LOOK_EVERY = 4096
"""Attempts, or rejections, between two looks at how many there are."""

_BLOCK = 1 << 17  # rows that are put in order at a time
_STATE_OF = {"closed": STATES.index("CLOSED"), "opened": STATES.index("OPEN"), "half_opened": STATES.index("HALF_OPEN")}
_PROBE_OUTCOME = {name: code for code, name in enumerate(PROBE_OUTCOMES)}
_ATTEMPT_OUTCOME = {name: code for code, name in enumerate(ATTEMPT_OUTCOMES)}
_REASONS: dict[type, str] = {BulkheadMiddleware: "bulkhead", RetryBudgetMiddleware: "budget"}


class CallColumns:
    """What becomes of the calls, a row each in the order in which they arrive.

    Args:
        start: when each arrives, in seconds.
        load_of: of which load each is.
        function_of: the number of each load's function.
        replicas: how many there are; calls go to them in turn.

    Attributes:
        many: how many calls there are.
        start, load_of, function, replica: as above, by call.
        end, outcome, useful, invented: as in a trace's `Calls`; NaN and no outcome until a call has ended.
        left: how many have not ended, in a list, which a request may hold.
        done: set when the last has ended; the run makes it.
    """

    done: Event

    def __init__(self, start: array[float], load_of: array[int], function_of: Sequence[int], replicas: int) -> None:
        self.start = start
        self.load_of = load_of
        self.many = len(start)
        self.function = array("H", map(function_of.__getitem__, load_of))
        in_turn = array("H", range(replicas))
        self.replica = (in_turn * (self.many // replicas + 1))[: self.many]
        self.end = array("d", [nan]) * self.many
        self.outcome = bytearray([len(CALL_OUTCOMES)]) * self.many
        self.useful = bytearray(self.many)
        self.invented = bytearray(self.many)
        self.left = [self.many]

    def ended(self, many: int) -> None:
        """So many calls have ended, of which nobody else tells."""
        self.left[0] -= many
        if many and not self.left[0]:
            self.done.set()

    def calls(self) -> Calls:
        """The calls, as a trace holds them."""
        return Calls(
            column("d", self.start),
            column("d", self.end),
            column("H", self.function),
            column("H", self.replica),
            memoryview(bytes(self.outcome)),
            memoryview(bytes(self.useful)),
            memoryview(bytes(self.invented)),
        )


class Recorder:
    """Hears of attempts and of breakers, and writes them into columns.

    Args:
        clock: of the run.
        services: their names.
        look: called with every so many attempts or rejections.
    """

    def __init__(self, clock: VirtualClock, services: tuple[str, ...], look: Callable[[], object]) -> None:
        self._clock = clock
        self._look = look
        self.look_at = [LOOK_EVERY, LOOK_EVERY]  # rows of attempts, rows of rejections
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
        whose, codes = CALL.get, _ATTEMPT_OUTCOME
        rows, look_at, look = self.attempt_columns[0], self.look_at, self._look

        def record(attempt: Attempt) -> None:
            if len(rows) >= look_at[0]:
                look_at[0] = len(rows) + LOOK_EVERY
                look()
            call(whose())
            place(number)
            start(attempt.started)
            served(nan if attempt.served is None else attempt.served)
            end(attempt.ended)
            outcome(codes[attempt.outcome])  # type: ignore[index]

        service.record = record

    def follow_middleware(self, name: str, middleware: Any, replica: int) -> None:
        """Hear of changes of state, probes and rejections.

        Args:
            name: the middleware's, in the stack.
            middleware: whom to listen to.
            replica: whose stack it is, from 0.
        """
        number = self.middleware.setdefault(name, len(self.middleware))
        targets, whose = self.targets, CALL.get
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
                    look_at[1] = len(rows) + LOOK_EVERY
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

    def attempts(self, replica_of: array[int], until: float, told: Callable[[float], object]) -> Attempts:
        """The attempts, in the order in which they arrived.

        As the run is taken down, workers are handed on to those who wait and are to be ended as well. Nobody was served
        by that, and to whom it happens is a matter of the order in which tasks are cancelled.

        Args:
            replica_of: the replica of each call.
            until: the second at which the run was over.
            told: called with the share that is done.
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

    def rejections(self, told: Callable[[float], object]) -> Rejections:
        """The rejections."""
        columns = _sorted(self.rejection_columns, 0, 4, told)
        return Rejections(*(column(one.typecode, one) for one in columns))

    def transitions(self) -> Transitions:
        """The changes of state."""
        return Transitions(*(column(one.typecode, one) for one in self._transitions))


def _sorted(columns: list[array[Any]], times: int, calls: int, told: Callable[[float], object]) -> list[array[Any]]:
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
