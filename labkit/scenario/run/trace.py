"""What happened in a run, frozen and in columns.

Each table is a set of columns of one length, a row an event. Columns are read-only memory views: they index, slice,
iterate and compare like lists of plain numbers, and numpy reads them without a copy. Names (of functions, services,
breakers, targets) stand once, and rows refer to them by their place. Times are seconds of the run's virtual time, zero
where the run begins. `Trace.columns` and `Trace.frame` give them with their names, for analysis.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

if TYPE_CHECKING:
    import numpy.typing as npt
    import pandas as pd

from labkit.errors import ConfigError

__all__ = [
    "ATTEMPT_OUTCOMES",
    "CALL_OUTCOMES",
    "PROBE_OUTCOMES",
    "REJECTION_REASONS",
    "STATES",
    "TABLES",
    "UNFINISHED",
    "Attempts",
    "Calls",
    "Column",
    "FaultPeriod",
    "Probes",
    "Rejections",
    "Table",
    "Trace",
    "Transitions",
]

_BLOCK = 1 << 14  # rows of a piece of JSON

Column = memoryview
"""A read-only column of numbers; NaN stands for "never" in a column of times."""

CALL_OUTCOMES = ("succeeded", "unavailable", "rejected", "timeout", "failed", "cancelled")
"""How a call ended, as its caller saw it.

- succeeded: it returned an answer, whatever that said (an unknown part is an answer, and so is a text "Service error");
- unavailable: it returned the explicit outcome of a fallback;
- rejected: a breaker or a bulkhead turned it away;
- timeout: a limit of the stack, or of the dependency, ran out (`TimeoutError`);
- failed: it raised anything else;
- cancelled: its caller gave up.
"""

ATTEMPT_OUTCOMES = (
    "answered",
    "rejected",
    "error",
    "connection_error",
    "error_shaped_string",
    "mid_stream_death",
    "rate_limited",
    "overloaded",
    "cancelled",
    "abandoned",
)
"""How an attempt ended, as the dependency saw it; see `labkit.services.Attempt`. "rejected" is the business that says
no, "overloaded" a queue that was full."""

PROBE_OUTCOMES = ("succeeded", "failed", "cancelled")
"""How a probe ended, as its breaker counted it."""

REJECTION_REASONS = ("breaker", "bulkhead", "lease", "budget")
"""Who turned a call away: an open or probing breaker, a full bulkhead, a probe lease that another replica holds, or (a
retry, that is) a budget of retries that is spent."""

STATES = ("CLOSED", "OPEN", "HALF_OPEN")
"""A breaker's states, in the order of their codes."""


UNFINISHED = "unfinished"
"""The outcome, in words, of what had not ended when the run did."""

TABLES = ("calls", "attempts", "probes", "rejections", "transitions")
"""The names of a trace's tables."""


@dataclass(frozen=True, slots=True)
class Table:
    """Columns of one length."""

    def __len__(self) -> int:
        return len(getattr(self, fields(self)[0].name))

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """The rows, in order, as plain tuples."""
        return zip(*(getattr(self, one.name) for one in fields(self)), strict=True)

    def to_dict(self) -> dict[str, list[Any]]:
        """The columns as lists; None for NaN."""
        return {
            one.name: [None if value != value else value for value in getattr(self, one.name)] for one in fields(self)
        }

    def _to_json(self) -> Iterator[str]:
        for number, one in enumerate(fields(self)):
            yield f'{", " if number else "{"}"{one.name}": ['
            values = getattr(self, one.name)
            for begin in range(0, len(values), _BLOCK):
                block = [None if value != value else value for value in values[begin : begin + _BLOCK]]
                yield (", " if begin else "") + json.dumps(block)[1:-1]
            yield "]"
        yield "}"


@dataclass(frozen=True, slots=True)
class Calls(Table):
    """What callers asked for, in the order of `start`.

    Attributes:
        start, end: seconds; `end` is NaN for a call that had not ended when the run did.
        function: place in `Trace.functions`.
        replica: which one took it, from 0.
        outcome: place in `CALL_OUTCOMES`; `len(CALL_OUTCOMES)` for a call that had not ended.
        useful: 1 if the caller got a live answer of the dependency (or of an approved alternative).
        invented: how many stock counts in its answer no live reply gave.
    """

    start: Column
    end: Column
    function: Column
    replica: Column
    outcome: Column
    useful: Column
    invented: Column


@dataclass(frozen=True, slots=True)
class Attempts(Table):
    """What reached a dependency, in the order of `start`.

    Attributes:
        call: row of the call in whose course it was made, -1 for none.
        service: place in `Trace.services`.
        replica: whose it was.
        start: when it arrived.
        served: when a worker took it up; NaN if none did. The time from `start` to here was spent in the queue.
        end: when it ended; NaN if it had not when the run ended.
        outcome: place in `ATTEMPT_OUTCOMES`; `len(ATTEMPT_OUTCOMES)` for one that had not ended.
    """

    call: Column
    service: Column
    replica: Column
    start: Column
    served: Column
    end: Column
    outcome: Column


@dataclass(frozen=True, slots=True)
class Probes(Table):
    """Calls that a breaker let through to find out whether its target has recovered, in the order of `start`.

    Attributes:
        breaker, target: places in `Trace.breakers` and `Trace.targets`.
        replica: whose instance of the breaker.
        start, end: seconds; `end` is NaN for one that had not ended.
        outcome: place in `PROBE_OUTCOMES`; `len(PROBE_OUTCOMES)` for one that had not ended.
    """

    breaker: Column
    target: Column
    replica: Column
    start: Column
    end: Column
    outcome: Column


@dataclass(frozen=True, slots=True)
class Rejections(Table):
    """Calls, or attempts of a retry, that were turned away before they reached the dependency, in the order of `at`.

    Attributes:
        at: seconds.
        middleware: place in `Trace.breakers` (bulkheads stand there too).
        target: place in `Trace.targets`.
        replica: whose.
        call: row of the call, -1 for none.
        reason: place in `REJECTION_REASONS`.
    """

    at: Column
    middleware: Column
    target: Column
    replica: Column
    call: Column
    reason: Column


@dataclass(frozen=True, slots=True)
class Transitions(Table):
    """Changes of a breaker's state, in the order of `at`. Every breaker begins CLOSED.

    Attributes:
        at: seconds.
        breaker, target: places in `Trace.breakers` and `Trace.targets`.
        replica: whose instance.
        state: the state after it, place in `STATES`.
    """

    at: Column
    breaker: Column
    target: Column
    replica: Column
    state: Column


class FaultPeriod(NamedTuple):
    """Something that a service was told to do, from `start` to `end` (seconds; `end` may be the run's end).

    While a service is healthy and has as many workers as usual there is none.

    Attributes:
        service: its name.
        start, end: seconds.
        fault: the fault's name, such as "hang", or "capacity" for a capacity below the usual.
        words: what it does, in a few words, for a label.
        workers: how many there are, for a capacity below the usual; else None.
    """

    service: str
    start: float
    end: float
    fault: str
    words: str
    workers: int | None = None

    @property
    def is_capacity(self) -> bool:
        """Whether the service only has fewer workers than usual, and does not fail."""
        return self.fault == "capacity"


@dataclass(frozen=True, slots=True)
class Trace:
    """One run.

    Attributes:
        title: what was run.
        seed: of everything random.
        duration: seconds during which calls arrived.
        until: when the run ended, in seconds; at least `duration`.
        replicas: how many there were.
        functions, services, breakers, targets: the names to which rows refer. A breaker's name is its middleware's.
        capacity: workers by service, for those whose number is limited.
        faults: what the services were told to do, in the order of `start`.
        calls, attempts, probes, rejections, transitions: the tables.
        contexts: the target of each function, under which breakers keep its state; its own name unless it was given
            another.
        behind: the service that each function calls.
    """

    FORMAT: ClassVar[int] = 1

    title: str
    seed: int
    duration: float
    until: float
    replicas: int
    functions: tuple[str, ...]
    services: tuple[str, ...]
    breakers: tuple[str, ...]
    targets: tuple[str, ...]
    capacity: Mapping[str, int]
    faults: tuple[FaultPeriod, ...]
    calls: Calls
    attempts: Attempts
    probes: Probes
    rejections: Rejections
    transitions: Transitions
    contexts: tuple[str, ...] = ()
    behind: tuple[str, ...] = ()

    @property
    def target_of(self) -> tuple[str, ...]:
        """The target of each function, in their order: its own name where it was given no other."""
        return self.contexts or self.functions

    @property
    def nbytes(self) -> int:
        """How much memory the tables take."""
        tables = [getattr(self, name) for name in TABLES]
        return sum(getattr(table, one.name).nbytes for table in tables for one in fields(table))

    def states(self, breaker: str, target: str, replica: int) -> list[tuple[float, str]]:
        """From when on one breaker was in which state: (0.0, "CLOSED") first, then each transition.

        Args:
            breaker: its name in the stack.
            target: the target whose state it is.
            replica: the replica's number, from 0.

        Raises:
            ValueError: the breaker or the target is not in the trace.
        """
        names = (self.breakers.index(breaker), self.targets.index(target), replica)
        found = [(0.0, STATES[0])]
        for at, *whose, state in self.transitions.rows():
            if tuple(whose) == names:
                found.append((at, STATES[state]))
        return found

    def to_json(self) -> Iterator[str]:
        """What `to_dict` gives, as JSON in pieces: a long run's lists would take many times the trace's memory."""
        yield f'{{"format": {self.FORMAT}'
        for one in fields(self):
            value = getattr(self, one.name)
            yield f', "{one.name}": '
            if isinstance(value, Table):
                yield from value._to_json()
            else:
                yield json.dumps(self._plain(one.name))
        yield "}"

    def columns(self) -> dict[str, dict[str, npt.NDArray[Any]]]:
        """The tables as numpy arrays, for analysis: `trace.columns()["calls"]["start"]`.

        Times are seconds, NaN for "never". What a table holds as a place in a list of names stands here as the name: of
        the function, service, breaker, target, outcome (or "unfinished"), state or reason. `useful` is a bool, other
        numbers are 64 bits wide, so that one may calculate with them, and times are read-only views of the trace.

        Returns:
            The columns of each table, by its name and theirs.

        Raises:
            ImportError: numpy is not installed.
        """
        return {name: self._arrays(name) for name in TABLES}

    def frame(self, table: str = "calls") -> pd.DataFrame:
        """One of the tables as a pandas DataFrame, with the columns of `columns()` and a row an event.

        Args:
            table: its name: "calls", "attempts", "probes", "rejections" or "transitions".

        Raises:
            ConfigError: there is no such table.
            ImportError: pandas is not installed; it does not come with labkit.
        """
        if table not in TABLES:
            raise ConfigError(f"a trace has no table '{table}'; its tables are {', '.join(TABLES)}")
        try:
            import pandas
        except ImportError:
            raise ImportError(
                "a frame needs pandas, which is not installed: pip install pandas", name="pandas"
            ) from None
        return pandas.DataFrame(self._arrays(table))

    def _arrays(self, table: str) -> dict[str, npt.NDArray[Any]]:
        try:
            import numpy
        except ImportError:
            raise ImportError(
                "arrays need numpy, which is not installed: pip install 'labkit-circuit-breakers[course]'",
                name="numpy",
            ) from None
        found: dict[str, npt.NDArray[Any]] = {}
        for one in fields(getattr(self, table)):
            numbers = numpy.asarray(getattr(getattr(self, table), one.name))
            names = self._names(table, one.name)
            if names is not None:
                numbers = numpy.array(names, dtype=str)[numbers]
            elif one.name == "useful":
                numbers = numbers > 0
            elif numbers.dtype.kind != "f":
                numbers = numbers.astype(numpy.int64)
            found[one.name] = numbers
        return found

    def _names(self, table: str, column: str) -> tuple[str, ...] | None:
        """The names to which a column's numbers refer; None for plain numbers."""
        outcomes = {"calls": CALL_OUTCOMES, "attempts": ATTEMPT_OUTCOMES, "probes": PROBE_OUTCOMES}
        return {
            "function": self.functions,
            "service": self.services,
            "breaker": self.breakers,
            "middleware": self.breakers,
            "target": self.targets,
            "outcome": (*outcomes.get(table, ()), UNFINISHED),
            "state": STATES,
            "reason": REJECTION_REASONS,
        }.get(column)

    def to_dict(self) -> dict[str, Any]:
        """The whole trace as plain data, ready for JSON."""
        plain: dict[str, Any] = {"format": self.FORMAT}
        for one in fields(self):
            plain[one.name] = self._plain(one.name)
        return plain

    def _plain(self, name: str) -> Any:
        value = getattr(self, name)
        if isinstance(value, Table):
            return value.to_dict()
        if name == "faults":
            # Format 1 has the workers in the words alone.
            return [{key: one for key, one in period._asdict().items() if key != "workers"} for period in value]
        if isinstance(value, Mapping):
            return dict(value)
        return list(value) if isinstance(value, tuple) else value


def column(code: str, values: Sequence[float] | array[Any] = ()) -> Column:
    """A read-only column: `d` seconds, `i` rows, `H` small numbers, `B` places in a list of names.

    An array of that code is taken over, not copied: nobody may change it afterwards.
    """
    own = values if isinstance(values, array) and values.typecode == code else array(code, values)
    return memoryview(own).toreadonly()
