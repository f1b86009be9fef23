"""The ways in which a mock dependency fails, and when.

A `Fault` is one way, a `Window` is a fault from one time to another, a `FaultPlan` is the windows of one service. Times
are seconds since the service's start. The fault that counts for a call is the one that holds when the call is taken up:
when it arrives, or later if it had to wait for a worker.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise
from typing import Any, NamedTuple

from labkit.config.numbers import in_range
from labkit.errors import ServiceError
from labkit.services.checks import LONGEST, MANY, hint, is_number, is_whole, shown
from labkit.services.faults.capacity import CapacityStep, capacity_steps

__all__ = ["HEALTHY", "Fault", "FaultKind", "FaultPlan", "Period", "Window"]

DEFAULT_SLOW_SECONDS = 3.0
"""How long an answer takes under `slow` when nothing else is said: longer than the course's limit of 2 s."""

DEFAULT_UP, DEFAULT_DOWN = 10.0, 5.0
"""How long a flapping dependency is up and down when nothing else is said."""


class FaultKind(StrEnum):
    """What a mock dependency may do. The values are the names under which faults are switched and planned."""

    HEALTHY = "healthy"
    ERROR = "error"
    CONNECTION_ERROR = "connection_error"
    HANG = "hang"
    SLOW = "slow"
    ERROR_SHAPED_STRING = "error_shaped_string"
    BUSINESS_REJECTION = "business_rejection"
    MID_STREAM_DEATH = "mid_stream_death"
    RATE_LIMIT = "rate_limit"
    FLAPPING = "flapping"

    @property
    def meaning(self) -> str:
        """What the dependency does, in a few words."""
        return _MEANINGS[self]


_MEANINGS = {
    FaultKind.HEALTHY: "answers after its usual latency",
    FaultKind.ERROR: "fails with a server error",
    FaultKind.CONNECTION_ERROR: "drops the connection before it answers",
    FaultKind.HANG: "takes the request and never answers",
    FaultKind.SLOW: "answers correctly, but late",
    FaultKind.ERROR_SHAPED_STRING: "answers with the text of an error, and as a success",
    FaultKind.BUSINESS_REJECTION: "works, and says that it does not know the part",
    FaultKind.MID_STREAM_DEATH: "begins a stream and breaks off; single calls are answered",
    FaultKind.RATE_LIMIT: "turns away what comes too often",
    FaultKind.FLAPPING: "goes down and up again and again",
}

_SLOW_RECOVERY = "slow_recovery"  # no way to fail: a window with a capacity, and healthy

_SETTINGS: dict[str, tuple[FaultKind, ...]] = {
    "seconds": tuple(
        kind for kind in FaultKind if kind not in (FaultKind.HANG, FaultKind.RATE_LIMIT, FaultKind.FLAPPING)
    ),
    "factor": tuple(
        kind for kind in FaultKind if kind not in (FaultKind.HANG, FaultKind.RATE_LIMIT, FaultKind.FLAPPING)
    ),
    "chunks": (FaultKind.MID_STREAM_DEATH,),
    "rate": tuple(kind for kind in FaultKind if kind is not FaultKind.FLAPPING),
    "delay": (FaultKind.RATE_LIMIT,),
    "per_second": (FaultKind.RATE_LIMIT,),
    "up": (FaultKind.FLAPPING,),
    "down": (FaultKind.FLAPPING,),
    "inner": (FaultKind.FLAPPING,),
}
"""Which setting belongs to which faults."""


def _number(
    what: str, value: float, least: float = 0.0, most: float = LONGEST, key: str = "", *, endless: bool = False
) -> float:
    """The value as a float, or one sentence about what is wrong with it."""
    if not is_number(value, least, most) and not (endless and value == math.inf):
        allowed = in_range("a number", least, most) + (", or .inf" if endless else "")
        raise ServiceError(f"{what} is {shown(value)}; it must be {allowed}", [key] if key else ())
    return float(value)


def parse_kind(value: object) -> FaultKind:
    """The kind of that name; hyphens, spaces and capitals do not matter.

    Raises:
        ServiceError: there is no such fault; names the nearest.
    """
    if isinstance(value, FaultKind):
        return value
    names = [kind.value for kind in FaultKind]
    if not isinstance(value, str):
        raise ServiceError(f"a fault is a name ({', '.join(names)}), and not {shown(value)}", ["fault"])
    wanted = value.strip().lower().replace("-", "_").replace(" ", "_")
    if wanted in names:
        return FaultKind(wanted)
    raise ServiceError(f"there is no fault {shown(value, 40)}{hint(wanted, names)}", ["fault"])


@dataclass(frozen=True, slots=True)
class Fault:
    """One way to fail.

    Args:
        kind: a `FaultKind` or its name.
        seconds: how long the dependency takes to answer or fail, in place of its latency. For `slow` the default is
            3.0 unless `factor` is given.
        factor: what the latency is multiplied with.
        chunks: for `mid_stream_death`: how many chunks come before the stream breaks off.
        rate: the share of calls that meet the fault, drawn from the service's seed; the others are healthy.
        delay: for `rate_limit`: seconds until a call is turned away; 0 unless given.
        per_second: for `rate_limit`: how many calls a second pass, one second's worth of them at once; 0 unless
            given, so that none does.
        up, down: for `flapping`: seconds for which it is healthy and seconds for which `inner` holds, in turns; it
            begins down. 10 and 5 unless given.
        inner: for `flapping`: the fault while it is down; `error` unless given.

    Raises:
        ServiceError: a setting is out of range or does not belong to this kind.
    """

    kind: FaultKind
    seconds: float | None = None
    factor: float | None = None
    chunks: int | None = None
    rate: float = 1.0
    delay: float | None = None
    per_second: float | None = None
    up: float | None = None
    down: float | None = None
    inner: Fault | None = None

    def __init__(
        self,
        kind: FaultKind | str,
        *,
        seconds: float | None = None,
        factor: float | None = None,
        chunks: int | None = None,
        rate: float = 1.0,
        delay: float | None = None,
        per_second: float | None = None,
        up: float | None = None,
        down: float | None = None,
        inner: Fault | FaultKind | str | None = None,
    ) -> None:
        kind = parse_kind(kind)
        given = {
            "seconds": seconds,
            "factor": factor,
            "chunks": chunks,
            "delay": delay,
            "per_second": per_second,
            "up": up,
            "down": down,
            "inner": inner,
            "rate": None if rate == 1.0 else rate,
        }
        for name, value in given.items():
            if value is not None and kind not in _SETTINGS[name]:
                raise ServiceError(_misplaced(kind, name), [name])
        if seconds is not None:
            seconds = _setting(kind, "seconds", seconds)
        if factor is not None:
            factor = _setting(kind, "factor", factor)
        if seconds is not None and factor is not None:
            raise ServiceError(f"the fault '{kind}' has both 'seconds' and 'factor'; give one of them", ["factor"])
        within: Fault | None = None
        if kind is FaultKind.SLOW and seconds is None and factor is None:
            seconds = DEFAULT_SLOW_SECONDS
        elif kind is FaultKind.MID_STREAM_DEATH:
            chunks = 1 if chunks is None else chunks
            if not is_whole(chunks, most=MANY):
                raise ServiceError(
                    f"the fault's setting 'chunks' is {shown(chunks)}; it must be "
                    + in_range("a whole number", 0, MANY),
                    ["chunks"],
                )
        elif kind is FaultKind.RATE_LIMIT:
            delay = _setting(kind, "delay", 0.0 if delay is None else delay)
            per_second = _setting(kind, "per_second", 0.0 if per_second is None else per_second)
        elif kind is FaultKind.FLAPPING:
            up = _setting(kind, "up", DEFAULT_UP if up is None else up, 0.001)
            down = _setting(kind, "down", DEFAULT_DOWN if down is None else down, 0.001)
            try:
                within = as_fault(FaultKind.ERROR if inner is None else inner)
            except ServiceError as error:
                raise ServiceError(f"the fault's setting 'inner' (flapping): {error}", ["inner", *error.path]) from None
            if within.kind is FaultKind.FLAPPING:
                raise ServiceError("the fault's setting 'inner' (flapping) cannot be flapping itself", ["inner"])
        for name, value in (
            ("kind", kind),
            ("seconds", seconds),
            ("factor", factor),
            ("chunks", chunks),
            ("rate", _setting(kind, "rate", rate, most=1.0)),
            ("delay", delay),
            ("per_second", per_second),
            ("up", up),
            ("down", down),
            ("inner", within),
        ):
            object.__setattr__(self, name, value)

    def to_dict(self) -> dict[str, object]:
        """The fault as plain data: `{"fault": name}` and the settings that are not the default."""
        data: dict[str, object] = {"fault": self.kind.value}
        for name in ("seconds", "factor", "chunks", "delay", "per_second", "up", "down"):
            value = getattr(self, name)
            if value is not None:
                data[name] = value
        if self.inner is not None:
            data["inner"] = self.inner.to_dict()
        if self.rate != 1.0:
            data["rate"] = self.rate
        return data

    @classmethod
    def from_dict(cls, data: object) -> Fault:
        """The reverse of `to_dict`; a bare name does as well.

        Raises:
            ServiceError: a key or a value is wrong; names the nearest key.
        """
        if not isinstance(data, Mapping):
            return cls(parse_kind(data))
        settings = dict(data)
        if "fault" not in settings:
            raise ServiceError("a fault needs a name: the key 'fault' is missing")
        kind = parse_kind(settings.pop("fault"))
        for key in settings:
            if key not in _SETTINGS:
                known = [name for name, kinds in _SETTINGS.items() if kind in kinds]
                raise ServiceError(f"a fault has no setting {shown(str(key), 40)}{hint(key, known)}", [key])
        return cls(kind, **settings)

    @property
    def words(self) -> str:
        """What it does, in a few words, for a label."""
        name = self.kind.value.replace("_", " ")
        share = "" if self.rate == 1.0 else f"{self.rate * 100:g} % of calls: "
        if self.kind is FaultKind.FLAPPING:
            assert self.inner is not None
            name = f"flapping: {self.inner.words} for {self.down:g} s, then healthy for {self.up:g} s"
        elif self.kind is FaultKind.RATE_LIMIT:
            name = f"rate limit {self.per_second:g} a second" if self.per_second else "rate limit, none passes"
        elif self.kind is FaultKind.MID_STREAM_DEATH:
            name = f"streams die after {'1 chunk' if self.chunks == 1 else f'{self.chunks} chunks'}"
        elif self.seconds is not None:
            name += f", {self.seconds:g} s"
        elif self.factor is not None:
            name += f", {self.factor:g} times the latency"
        return share + name

    def __str__(self) -> str:
        return self.kind.value


def _setting(kind: FaultKind, name: str, value: Any, least: float = 0.0, most: float = LONGEST) -> float:
    return _number(f"the fault's setting '{name}' ({kind})", value, least, most, name)


def _misplaced(kind: FaultKind, name: str) -> str:
    if kind is FaultKind.HANG and name in ("seconds", "factor"):
        return "the fault 'hang' never answers, so it takes neither 'seconds' nor 'factor'; 'slow' does"
    if kind is FaultKind.FLAPPING:
        return f"the fault 'flapping' takes no '{name}'; give it to 'inner', such as {{fault: slow, seconds: 5}}"
    if name in ("seconds", "factor"):
        return f"the fault '{kind}' takes no '{name}'"
    return f"the fault '{kind}' takes no '{name}'; only '{_SETTINGS[name][0]}' does"


HEALTHY = Fault(FaultKind.HEALTHY)
"""Not a fault at all."""


def as_fault(value: Fault | FaultKind | str) -> Fault:
    """The fault itself, or the one of that name with its default settings."""
    return value if isinstance(value, Fault) else Fault.from_dict(value)


@dataclass(frozen=True, slots=True)
class Window:
    """A fault from `start` (included) to `end` (not included), in seconds since the service's start.

    Args:
        start, end: seconds; `end` may be infinite.
        fault: what holds.
        capacity: steps `(seconds, workers)` within the window: from then on the service has so many workers, until
            the next step or the window's end.

    Raises:
        ServiceError: a time is not a number, is negative, or the end does not come after the start; a step is wrong.
    """

    start: float
    end: float
    fault: Fault
    capacity: tuple[tuple[float, int], ...] = ()

    def __init__(
        self,
        start: float,
        end: float,
        fault: Fault | FaultKind | str,
        capacity: Sequence[Sequence[float]] = (),
    ) -> None:
        begin = _number("a window's start", start, key="from")
        finish = _number("a window's end", end, key="to", endless=True)
        if finish <= begin:
            raise ServiceError(
                f"a window from {begin:g} s to {finish:g} s holds no time; its end must come after its start", ["to"]
            )
        steps = capacity_steps(capacity)
        for index, (at, _) in enumerate(steps):
            if not begin <= at < finish:
                raise ServiceError(
                    f"capacity[{index}] begins at {at:g} s, which is not within the window from {begin:g} s to "
                    f"{finish:g} s",
                    ["capacity", index, 0],
                )
        object.__setattr__(self, "start", begin)
        object.__setattr__(self, "end", finish)
        what = as_fault(fault)
        object.__setattr__(self, "fault", HEALTHY if what == HEALTHY else what)  # the service knows it by identity
        object.__setattr__(self, "capacity", steps)


class Period(NamedTuple):
    """Something that a service was told to do, for a picture.

    Attributes:
        start, end: seconds.
        fault: the fault's name, or "capacity".
        words: what it does, in a few words.
        workers: how many there are, for a capacity; else None.
    """

    start: float
    end: float
    fault: str
    words: str
    workers: int | None = None


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """What a service does when: windows that do not overlap, and what holds outside them.

    Attributes:
        windows: in the order of time.
        otherwise: what holds outside them.
        capacity: steps `(seconds, workers)` of all windows, in the order of time; None for as many as usual.

    Raises:
        ServiceError: two windows overlap, or something is not a window.

    Example:
        >>> plan = FaultPlan([Window(60, 180, "error")])
        >>> [str(plan.at(second)) for second in (0, 60, 179.9, 180)]
        ['healthy', 'error', 'error', 'healthy']
    """

    windows: tuple[Window, ...]
    otherwise: Fault
    capacity: tuple[CapacityStep, ...]
    _edges: tuple[float, ...] = field(repr=False, compare=False)
    _faults: tuple[Fault, ...] = field(repr=False, compare=False)
    _starts: tuple[float, ...] = field(repr=False, compare=False)

    def __init__(self, windows: Iterable[Window] = (), otherwise: Fault | FaultKind | str = HEALTHY) -> None:
        given = tuple(windows)
        for window in given:
            if not isinstance(window, Window):
                raise ServiceError(f"a fault plan is made of Window(start, end, fault), and not of {shown(window)}")
        ordered = tuple(sorted(given, key=lambda window: window.start))
        rest = as_fault(otherwise)
        edges: list[float] = []
        faults = [rest]
        starts = [0.0]
        capacity: dict[float, int | None] = {}
        for window in ordered:
            if edges and window.start < edges[-1]:
                raise ServiceError(
                    f"two windows overlap: one ends at {edges[-1]:g} s and the next ('{window.fault}') starts at "
                    f"{window.start:g} s"
                )
            if edges and window.start == edges[-1]:
                faults[-1] = window.fault
            else:
                edges.append(window.start)
                faults.append(window.fault)
                starts.append(window.start)
            edges.append(window.end)
            faults.append(rest)
            starts.append(window.end)
            capacity.update(window.capacity)
            if window.capacity and window.end != math.inf:
                capacity[window.end] = None
        object.__setattr__(self, "windows", ordered)
        object.__setattr__(self, "otherwise", rest)
        object.__setattr__(self, "capacity", tuple(capacity.items()))
        object.__setattr__(self, "_edges", tuple(edges))
        object.__setattr__(self, "_faults", tuple(faults))
        object.__setattr__(self, "_starts", tuple(starts))

    @classmethod
    def from_list(cls, data: object) -> FaultPlan:
        """A plan from plain data: a list of `{"from": 60, "to": 180, "fault": "hang"}`, with the fault's settings.

        `to` may be left out: for ever. Any window may have a `capacity`, a list of steps `[seconds, workers]` in
        seconds since the start; with one, `fault` may be left out or be `slow_recovery`, and the window is healthy.

        Raises:
            ServiceError: what is wrong, and in which window; `path` leads there.

        Example:
            >>> plan = FaultPlan.from_list([{"from": 60, "to": 180, "fault": "hang"}])
            >>> plan.at(100).kind.value, plan.at(200).kind.value
            ('hang', 'healthy')
        """
        if isinstance(data, str | Mapping) or not isinstance(data, Sequence):
            raise ServiceError(
                f"'faults' is {shown(data)}; it must be a list of windows such as {{from: 60, to: 180, fault: hang}}"
            )
        windows: list[Window] = []
        for index, one in enumerate(data):
            try:
                windows.append(_window(one))
            except ServiceError as error:
                raise ServiceError(f"faults[{index}]: {error}", [index, *error.path]) from None
        order = sorted(range(len(windows)), key=lambda index: windows[index].start)
        for before, after in pairwise(order):
            if windows[after].start < windows[before].end:
                later = max(before, after)
                raise ServiceError(
                    f"faults[{later}]: two windows overlap, faults[{before}] ends at {windows[before].end:g} s and "
                    f"faults[{after}] ('{windows[after].fault}') starts at {windows[after].start:g} s",
                    [later, "from"],
                )
        return cls(windows)

    def at(self, elapsed: float) -> Fault:
        """The fault that holds so many seconds after the service's start; `flapping` as the fault of that moment."""
        place = bisect_right(self._edges, elapsed)
        fault = self._faults[place]
        return fault if fault.inner is None else momentary(fault, elapsed - self._starts[place])

    def healthy_at(self, elapsed: float) -> bool:
        """Whether no window holds then, not even one that is in a good moment, and what holds elsewhere is no fault."""
        return self._faults[bisect_right(self._edges, elapsed)] == HEALTHY

    def next_edge(self, elapsed: float) -> float:
        """When the fault or the capacity changes next, in seconds since the start; infinite if never."""
        place = bisect_right(self._edges, elapsed)
        edges = [self._edges[place]] if place < len(self._edges) else []
        return min([*edges, *(at for at, _ in self.capacity if at > elapsed)], default=math.inf)

    def last_edge(self, elapsed: float) -> float:
        """When the fault or the capacity changed last, in seconds since the start; minus infinity if never."""
        place = bisect_right(self._edges, elapsed)
        edges = [self._edges[place - 1]] if place else []
        return max([*edges, *(at for at, _ in self.capacity if at <= elapsed)], default=-math.inf)

    def periods(self, until: float, workers: int | None = None) -> list[Period]:
        """What there is to mark in a picture that ends at `until` seconds, in the order of `start`.

        Args:
            until: seconds; what begins later is left out, what lasts longer is cut.
            workers: how many the service usually has, to say how few there are.
        """
        found: list[Period] = []
        edges = (0.0, *self._edges, math.inf)
        for index, fault in enumerate(self._faults):
            if fault.kind is not FaultKind.HEALTHY and edges[index] < min(edges[index + 1], until):
                found.append(Period(edges[index], min(edges[index + 1], until), fault.kind._value_, fault.words))
        usual = "" if workers is None else f" of {workers}"
        ends = [at for at, _ in self.capacity[1:]]
        for (start, many), end in zip(self.capacity, [*ends, math.inf], strict=False):
            if many is not None and many != workers and start < until:
                found.append(Period(start, min(end, until), "capacity", f"capacity {many}{usual}", many))
        return sorted(found, key=lambda period: period.start)


def momentary(fault: Fault, since: float) -> Fault:
    """What a fault is so many seconds after it began: itself, and of a flapping one the half that holds."""
    if fault.inner is None:
        return fault
    assert fault.up is not None
    assert fault.down is not None
    return fault.inner if since % (fault.up + fault.down) < fault.down else HEALTHY


def _window(data: object) -> Window:
    if not isinstance(data, Mapping):
        raise ServiceError(
            f"a window is {shown(data)}; it must be a mapping such as {{from: 60, to: 180, fault: hang}}"
        )
    settings = dict(data)
    if "from" not in settings:
        raise ServiceError(f"a window needs the second at which it begins: 'from' is missing{_meant('from', settings)}")
    start = settings.pop("from")
    end = settings.pop("to", math.inf)
    steps = settings.pop("capacity", None)
    name = settings.get("fault", None if steps is None else _SLOW_RECOVERY)
    if name is None:
        raise ServiceError(
            f"a window needs a fault, a capacity, or both: 'fault' is missing{_meant('fault', settings)}"
        )
    if isinstance(name, str) and name.strip().lower().replace("-", "_").replace(" ", "_") == _SLOW_RECOVERY:
        if steps is None:
            raise ServiceError("'slow_recovery' needs 'capacity', such as [[180, 20], [200, 60]]")
        name = FaultKind.HEALTHY
    kind = parse_kind(name)
    settings.pop("fault", None)
    for key in settings:
        known = ["from", "to", "fault", "capacity", *(name for name, kinds in _SETTINGS.items() if kind in kinds)]
        if key not in _SETTINGS:
            raise ServiceError(f"a window ({kind}) has no setting {shown(str(key), 40)}{hint(key, known)}", [str(key)])
    capacity = () if steps is None else capacity_steps(steps)
    if steps is not None and not capacity:
        raise ServiceError("'capacity' has no step; it must have at least one, such as [180, 20]", ["capacity"])
    return Window(start, end, Fault(kind, **settings), capacity)


def _meant(key: str, settings: Mapping[Any, Any]) -> str:
    """The end of a sentence about a key that is missing: which of those given may be its misspelling."""
    near = next((str(one) for one in settings if one not in _SETTINGS and hint(one, [key]).startswith("; did")), None)
    return "" if near is None else f"; is {shown(near, 40)} meant to be it?"


def as_plan(value: FaultPlan | Fault | FaultKind | str | None) -> FaultPlan:
    """The plan itself, or one in which the given fault (or none) holds at all times."""
    if isinstance(value, FaultPlan):
        return value
    return FaultPlan(otherwise=HEALTHY if value is None else as_fault(value))
