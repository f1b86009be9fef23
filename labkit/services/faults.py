"""The ways in which a mock dependency fails, and when.

A `Fault` is one way, a `Window` is a fault from one time to another, a `FaultPlan` is the windows of one service. Times
are seconds since the service's start. The fault that counts for a call is the one that holds when the call arrives.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from labkit.errors import ServiceError
from labkit.services.checks import hint, is_number, is_whole, shown

__all__ = ["HEALTHY", "Fault", "FaultKind", "FaultPlan", "Window"]

DEFAULT_SLOW_SECONDS = 3.0
"""How long an answer takes under `slow` when nothing else is said: longer than the course's limit of 2 s."""


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
}


def _number(what: str, value: float, least: float = 0.0, most: float = math.inf) -> float:
    """The value as a float, or one sentence about what is wrong with it."""
    if not is_number(value, least, most):
        allowed = f"a number from {least:g} to {most:g}" if most < math.inf else f"a number, {least:g} or more"
        raise ServiceError(f"{what} is {shown(value)}; it must be {allowed}")
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
        raise ServiceError(f"a fault is a name ({', '.join(names)}), and not {shown(value)}")
    wanted = value.strip().lower().replace("-", "_").replace(" ", "_")
    if wanted in names:
        return FaultKind(wanted)
    raise ServiceError(f"there is no fault {shown(value, 40)}{hint(wanted, names)}")


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

    Raises:
        ServiceError: a setting is out of range or does not belong to this kind.
    """

    kind: FaultKind
    seconds: float | None = None
    factor: float | None = None
    chunks: int | None = None
    rate: float = 1.0

    def __init__(
        self,
        kind: FaultKind | str,
        *,
        seconds: float | None = None,
        factor: float | None = None,
        chunks: int | None = None,
        rate: float = 1.0,
    ) -> None:
        kind = parse_kind(kind)
        if seconds is not None:
            seconds = _number(f"the fault's setting 'seconds' ({kind})", seconds, most=1e9)
        if factor is not None:
            factor = _number(f"the fault's setting 'factor' ({kind})", factor, most=1e9)
        if seconds is not None and factor is not None:
            raise ServiceError(f"the fault '{kind}' has both 'seconds' and 'factor'; give one of them")
        if kind is FaultKind.HANG and (seconds is not None or factor is not None):
            raise ServiceError(
                "the fault 'hang' never answers, so it takes neither 'seconds' nor 'factor'; 'slow' does"
            )
        if kind is FaultKind.SLOW and seconds is None and factor is None:
            seconds = DEFAULT_SLOW_SECONDS
        if kind is FaultKind.MID_STREAM_DEATH:
            chunks = 1 if chunks is None else chunks
            if not is_whole(chunks):
                raise ServiceError(
                    f"the fault's setting 'chunks' is {shown(chunks)}; it must be a whole number, 0 or more"
                )
        elif chunks is not None:
            raise ServiceError(f"the fault '{kind}' takes no 'chunks'; only 'mid_stream_death' does")
        for name, value in (
            ("kind", kind),
            ("seconds", seconds),
            ("factor", factor),
            ("chunks", chunks),
            ("rate", _number(f"the fault's setting 'rate' ({kind})", rate, most=1.0)),
        ):
            object.__setattr__(self, name, value)

    def to_dict(self) -> dict[str, object]:
        """The fault as plain data: `{"fault": name}` and the settings that are not the default."""
        data: dict[str, object] = {"fault": self.kind.value}
        for name in ("seconds", "factor", "chunks"):
            value = getattr(self, name)
            if value is not None:
                data[name] = value
        if self.rate != 1.0:
            data["rate"] = self.rate
        return data

    @classmethod
    def from_dict(cls, data: object) -> Fault:
        """The reverse of `to_dict`; a bare name does as well.

        Raises:
            ServiceError: a key or a value is wrong; names the nearest key.
        """
        if not isinstance(data, dict):
            return cls(parse_kind(data))
        settings = dict(data)
        if "fault" not in settings:
            raise ServiceError("a fault needs a name: the key 'fault' is missing")
        kind = parse_kind(settings.pop("fault"))
        known = ("seconds", "factor", "chunks", "rate")
        for key in settings:
            if key not in known:
                raise ServiceError(f"a fault has no setting {shown(str(key), 40)}{hint(key, known)}")
        return cls(kind, **settings)

    def __str__(self) -> str:
        return self.kind.value


HEALTHY = Fault(FaultKind.HEALTHY)
"""Not a fault at all."""


def as_fault(value: Fault | FaultKind | str) -> Fault:
    """The fault itself, or the one of that name with its default settings."""
    return value if isinstance(value, Fault) else Fault.from_dict(value)


@dataclass(frozen=True, slots=True)
class Window:
    """A fault from `start` (included) to `end` (not included), in seconds since the service's start.

    Raises:
        ServiceError: a time is not a number, is negative, or the end does not come after the start.
    """

    start: float
    end: float
    fault: Fault

    def __init__(self, start: float, end: float, fault: Fault | FaultKind | str) -> None:
        begin = _number("a window's start", start)
        finish = _number("a window's end", end)
        if begin == math.inf or finish <= begin:
            raise ServiceError(
                f"a window from {begin:g} s to {finish:g} s holds no time; its end must come after its start"
            )
        object.__setattr__(self, "start", begin)
        object.__setattr__(self, "end", finish)
        object.__setattr__(self, "fault", as_fault(fault))


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """What a service does when: windows that do not overlap, and what holds outside them.

    Raises:
        ServiceError: two windows overlap, or something is not a window.

    Example:
        >>> plan = FaultPlan([Window(60, 180, "error")])
        >>> [str(plan.at(second)) for second in (0, 60, 179.9, 180)]
        ['healthy', 'error', 'error', 'healthy']
    """

    windows: tuple[Window, ...]
    otherwise: Fault
    _edges: tuple[float, ...] = field(repr=False, compare=False)
    _faults: tuple[Fault, ...] = field(repr=False, compare=False)

    def __init__(self, windows: Iterable[Window] = (), otherwise: Fault | FaultKind | str = HEALTHY) -> None:
        given = tuple(windows)
        for window in given:
            if not isinstance(window, Window):
                raise ServiceError(f"a fault plan is made of Window(start, end, fault), and not of {shown(window)}")
        ordered = tuple(sorted(given, key=lambda window: window.start))
        rest = as_fault(otherwise)
        edges: list[float] = []
        faults = [rest]
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
            edges.append(window.end)
            faults.append(rest)
        object.__setattr__(self, "windows", ordered)
        object.__setattr__(self, "otherwise", rest)
        object.__setattr__(self, "_edges", tuple(edges))
        object.__setattr__(self, "_faults", tuple(faults))

    def at(self, elapsed: float) -> Fault:
        """The fault that holds so many seconds after the service's start."""
        return self._faults[bisect_right(self._edges, elapsed)]


def as_plan(value: FaultPlan | Fault | FaultKind | str | None) -> FaultPlan:
    """The plan itself, or one in which the given fault (or none) holds at all times."""
    if isinstance(value, FaultPlan):
        return value
    return FaultPlan(otherwise=HEALTHY if value is None else as_fault(value))
