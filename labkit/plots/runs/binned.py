"""A trace counted into bins of time, for the pictures that draw it.

Plain Python, so that what draws needs no library. Counts are whole numbers, and percentiles are values of the trace (to
the nanosecond), so the same trace gives the same bins everywhere. A column is sorted once and cut where its bins begin;
nothing else is done call by call where a built-in can do it for the whole column.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import compress, pairwise, product
from math import floor, inf, isfinite, isnan, log10, nan, nextafter
from operator import sub
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from labkit.scenario.run.trace import Calls, Trace

__all__ = ["Axis", "Binned", "Floats", "Ribbon", "axis_of", "binned", "highest", "round_step"]

Floats: TypeAlias = Sequence[float]
"""A number by bin; NaN where there is none."""

_FEW = 8  # calls a bin, below which a rate says more about the bins than about the traffic
_FEW_IN_LESS = 40  # the same for bins of less than a second, since rates are told by the second
_LEAST = 20  # bins, however few calls
_SERVICES = 3
_MOST = 2.0**48 - 1.0  # nanoseconds of a latency in a bin: three days


class Axis(NamedTuple):
    """Seconds cut into bins of one width, from zero.

    Attributes:
        step: seconds of a bin.
        bins: how many there are.
    """

    step: float
    bins: int

    @property
    def end(self) -> float:
        """Where the axis ends, in seconds."""
        return self.step * self.bins


class Ribbon(NamedTuple):
    """One breaker's states.

    Attributes:
        breaker, target: their names.
        replica: whose instance.
        states: (seconds, state) in order, from (0.0, "CLOSED").
        probes: (seconds, whether it succeeded; None if it did not end by itself) in order.
    """

    breaker: str
    target: str
    replica: int
    states: list[tuple[float, str]]
    probes: list[tuple[float, bool | None]]


@dataclass(frozen=True, slots=True)
class Binned:
    """What happened, by bins. Rates are events a second.

    Attributes:
        axis: the bins.
        offered: calls that arrived; NaN after the last could.
        ended: calls that ended, by how they did: a key of `style.LINES`.
        attempts: attempts that arrived, by service; at most three services, those that saw most.
        in_flight: the most attempts that were there at once, queued ones included, by service.
        median, p95: latency of the calls that ended, in seconds; NaN where none did.
        ribbons: the breakers that did anything.
        counts: calls by how they ended, "offered", "attempts", "opens", "probes" and "unfinished", in all.
        attempts_peak: by service, (the most attempts within one second of the clock, when that second begins).
        in_flight_peak: by service, (the most at once, when).
        latency: p50 and p95 of all calls that ended, in seconds; None where none did.
        failing: how most calls that count as "failed" failed: "failed" or "timed out".
        quiet: what to say of the breakers where there are no ribbons.
        turned_away: what those were told that count as "unavailable": "told unavailable" or "rejected".
    """

    axis: Axis
    offered: Floats
    ended: dict[str, Floats]
    attempts: dict[str, Floats]
    in_flight: dict[str, Floats]
    median: Floats
    p95: Floats
    ribbons: list[Ribbon]
    counts: dict[str, int]
    attempts_peak: dict[str, tuple[int, float]]
    in_flight_peak: dict[str, tuple[int, float]]
    latency: tuple[float | None, float | None]
    failing: str
    quiet: str
    turned_away: str


def round_step(least: float) -> float:
    """Return the smallest of ..., 0.1, 0.2, 0.5, 1, 2, 5, ... that is not below `least`.

    >>> round_step(1.6), round_step(0.2), round_step(21.0)
    (2.0, 0.2, 50.0)
    """
    power = floor(log10(least))
    for exponent in (power, power + 1):
        for factor in (1, 2, 5):
            step = factor * 10.0**exponent if exponent >= 0 else factor / 10.0**-exponent
            if step >= least * (1.0 - 1e-9):
                return step
    return 10.0 ** (power + 2)


def axis_of(traces: Sequence[Trace], *, most: int = 200) -> Axis:
    """Return an axis that all the traces fit on, with at most so many bins, and fewer where calls are few."""
    until = max([_end_of(trace) for trace in traces])
    step = round_step(until / most)
    calls = max((len(trace.calls) for trace in traces), default=0)
    while calls * step / until < (_FEW if step >= 1.0 or until < _LEAST else _FEW_IN_LESS):
        wider = round_step(step * 1.5)
        if until / wider < _LEAST:
            break
        step = wider
    # A tail of less than half a bin is left out: a rate over it would be a dip or a spike that nobody made.
    return Axis(step, max(1, floor(until / step + 0.5)))


def _end_of(trace: Trace) -> float:
    known = [at for at in (trace.duration, trace.until) if isfinite(at) and at > 0.0]
    return max(known, default=1.0)


def highest(line: Floats) -> float:
    """Return the highest of the numbers, NaN left out; 0.0 where there is none.

    >>> highest([1.0, float("nan"), 2.5]), highest([])
    (2.5, 0.0)
    """
    return max([value for value in line if value == value], default=0.0)


def binned(trace: Trace, axis: Axis) -> Binned:
    """Count a trace into the bins of an axis. What lies outside of it is left out of the bins, not of the counts."""
    from labkit.scenario.run.trace import CALL_OUTCOMES, STATES

    calls = trace.calls
    start: list[float] = [*calls.start]
    end: list[float] = [*calls.end]
    kinds = _kinds(calls)
    arrived = sorted(_known(start))
    if len(arrived) < len(start) or len(_known(end)) < len(end):
        over = [at == at and since == since for at, since in zip(end, start, strict=True)]
        start, end, kinds = list(compress(start, over)), list(compress(end, over)), bytes(compress(kinds, over))
    counts = {name: kinds.count(row) for row, name in enumerate(_KINDS)}
    # From here on in the order in which they ended, which is that of their bins.
    order = sorted(range(len(end)), key=end.__getitem__)
    took = list(map(sub, end, start))
    took, end, kinds = [took[row] for row in order], [end[row] for row in order], bytes([kinds[row] for row in order])
    cuts = _cuts(end, axis)
    wide = _wide(axis, trace.until)
    ended = {
        name: _rates([kinds.count(row, first, last) for first, last in pairwise(cuts)], wide)
        if counts[name]
        else [0.0] * axis.bins
        for row, name in enumerate(_KINDS)
    }
    offered = _rates([last - first for first, last in pairwise(_cuts(arrived, axis))], _wide(axis, trace.duration))
    until = max(trace.duration, max([0.0, *arrived[-1:]]) + 1e-9) - 1e-9
    offered = [rate if place * axis.step < until else nan for place, rate in enumerate(offered)]
    (median, p95), latency = _percentiles(took, cuts, (0.50, 0.95))
    ribbons = _ribbons(trace)
    opened = STATES.index("OPEN")
    outcomes = calls.outcome.tobytes()
    seen = {name: outcomes.count(code) for code, name in enumerate(CALL_OUTCOMES)}
    counts |= {
        "offered": len(calls),
        "unfinished": len(calls) - len(end),
        "attempts": len(trace.attempts),
        "opens": sum(1 for state in trace.transitions.state if state == opened),
        "probes": len(trace.probes),
    }
    attempts, in_flight, attempts_peak, in_flight_peak = _services(trace, axis, wide)
    return Binned(
        axis,
        offered,
        ended,
        attempts,
        in_flight,
        median,
        p95,
        ribbons,
        counts,
        attempts_peak,
        in_flight_peak,
        (latency[0], latency[1]),
        "timed out" if seen["timeout"] > seen["failed"] else "failed",
        "no breaker changed its state" if trace.breakers else "no breaker",
        "rejected" if seen["rejected"] > seen["unavailable"] else "told unavailable",
    )


_KIND_OF = {
    "succeeded": "not_useful",
    "unavailable": "unavailable",
    "rejected": "unavailable",
    "cancelled": "cancelled",
}
_KINDS = ("answered", "not_useful", "failed", "cancelled", "unavailable")


def _kinds(calls: Calls) -> bytes:
    """Places in `_KINDS` by how a call ended."""
    outcome, useful = calls.outcome.tobytes(), calls.useful.tobytes()
    # As one large number each, so that all calls are combined at once: a code's upper bit says that it was useful.
    flags = useful.translate(bytes([0, *[128] * 255]))
    both = int.from_bytes(outcome) | int.from_bytes(flags)
    return both.to_bytes(len(outcome)).translate(_places())


@lru_cache(maxsize=1)
def _places() -> bytes:
    """The place in `_KINDS` of each code of an outcome, and of each with the upper bit set."""
    from labkit.scenario.run.trace import CALL_OUTCOMES

    by_code = [_KINDS.index(_KIND_OF.get(name, "failed")) for name in CALL_OUTCOMES]
    by_code += [_KINDS.index("failed")] * (128 - len(by_code))
    return bytes([*by_code, *[_KINDS.index("answered")] * 128])


def _known(times: list[float]) -> list[float]:
    """The times without NaN, of which most columns have none."""
    return [at for at in times if at == at] if isnan(sum(times)) else times


@lru_cache(maxsize=64)
def _edges(axis: Axis) -> tuple[float, ...]:
    """The least time that counts into each bin; what is due on an edge may come a rounding before it."""
    edges = [0.0]
    for place in range(1, axis.bins):
        edge = (place - 1e-7) * axis.step
        while edge / axis.step + 1e-7 >= place:
            edge = nextafter(edge, -inf)
        while edge / axis.step + 1e-7 < place:
            edge = nextafter(edge, inf)
        edges.append(edge)
    return tuple(edges)


def _cuts(times: Floats, axis: Axis) -> list[int]:
    """Where the times of each bin begin in a sorted list, and where those of the last one end."""
    cuts = []
    at = 0
    for edge in _edges(axis):
        at = bisect_left(times, edge, at)
        cuts.append(at)
    return [*cuts, bisect_right(times, axis.end, at)]


def _rates(counts: Sequence[int], wide: Floats) -> Floats:
    return [count / seconds for count, seconds in zip(counts, wide, strict=True)]


def _wide(axis: Axis, until: float) -> Floats:
    """Seconds of each bin; the one in which the run ends is counted as far as the run goes."""
    wide = [axis.step] * axis.bins
    last = floor(until / axis.step + 1e-7) if isfinite(until) and until > 0.0 else axis.bins
    if last < axis.bins and until - last * axis.step > 0.25 * axis.step:
        wide[last] = until - last * axis.step
    return wide


def _percentiles(
    values: Floats, cuts: Sequence[int], shares: Sequence[float]
) -> tuple[list[Floats], list[float | None]]:
    """The least value that so large a share of the values does not pass: by bin (NaN where there is none), and of all.

    None is less than zero.

    The values lie in the order of their bins, which begin at `cuts`; those before the first and after the last are in
    none.
    """
    from labkit.scenario.read.counting import rank

    lines: list[list[float]] = [[] for _ in shares]
    ranked = sorted(values[: cuts[0]])
    for first, last in pairwise(cuts):
        inside = sorted(values[first:last])
        for line, share in zip(lines, shares, strict=True):
            line.append(_to_nanoseconds(inside[rank(share, last - first)]) if inside else nan)
        ranked += inside
    ranked += values[cuts[-1] :]
    ranked.sort()  # of runs that are sorted already
    return [*lines], [max(0.0, ranked[rank(share, len(ranked))]) if ranked else None for share in shares]


def _to_nanoseconds(seconds: float) -> float:
    return round(min(max(0.0, seconds) * 1e9, _MOST)) / 1e9


_Peaks: TypeAlias = dict[str, tuple[int, float]]


def _services(trace: Trace, axis: Axis, wide: Floats) -> tuple[dict[str, Floats], dict[str, Floats], _Peaks, _Peaks]:
    from labkit.scenario.read.counting import levels, most_in_a_second

    attempts = trace.attempts
    services = list(attempts.service)
    all_starts: list[float] = [*attempts.start]
    all_ends: list[float] = [*attempts.end]
    count = [services.count(place) for place in range(len(trace.services))]
    busiest = sorted(range(len(trace.services)), key=lambda place: (-count[place], place))[:_SERVICES]
    rates: dict[str, Floats] = {}
    tops: dict[str, Floats] = {}
    rate_peaks, level_peaks = {}, {}
    steps = [place * axis.step for place in range(axis.bins)]
    for place in sorted(busiest):
        if not count[place]:
            continue
        name = trace.services[place]
        starts, ends = all_starts, all_ends
        if count[place] < len(services):
            mine = [service == place for service in services]
            starts, ends = list(compress(starts, mine)), list(compress(ends, mine))
        starts, ends = sorted(_known(starts)), sorted(_known(ends))
        cuts = _cuts(starts, axis)
        rates[name] = _rates([last - first for first, last in pairwise(cuts)], wide)
        rate_peaks[name] = most_in_a_second(starts[cuts[0] : cuts[-1]])
        tops[name], level_peaks[name] = levels(starts, [*ends, inf], cuts, steps)
    return rates, tops, rate_peaks, level_peaks


def _ribbons(trace: Trace) -> list[Ribbon]:
    """The breakers of which anything is known, each replica's."""
    from labkit.scenario.run.trace import REJECTION_REASONS, STATES

    states: dict[tuple[int, int, int], list[tuple[float, str]]] = {}
    probes: dict[tuple[int, int, int], list[tuple[float, bool | None]]] = {}
    for at, breaker, target, replica, state in trace.transitions.rows():
        if state < len(STATES):
            states.setdefault((breaker, target, replica), []).append((at, STATES[state]))
    for breaker, target, replica, at, _, outcome in trace.probes.rows():
        good = {0: True, 1: False}.get(outcome)
        probes.setdefault((breaker, target, replica), []).append((at, good))
    known = {key[:2] for key in (*states, *probes)}
    turned = trace.rejections
    bulkhead = REJECTION_REASONS.index("bulkhead")
    if not known.issuperset(product(range(len(trace.breakers)), range(len(trace.targets)))):
        kinds = set(zip(turned.middleware, turned.target, turned.reason, strict=True))
        known |= {(breaker, target) for breaker, target, reason in kinds if reason != bulkhead}
    ribbons = []
    for breaker, target in sorted(known):
        if breaker >= len(trace.breakers) or target >= len(trace.targets):
            continue
        for replica in range(max(1, trace.replicas)):
            key = (breaker, target, replica)
            ribbons.append(
                Ribbon(
                    trace.breakers[breaker],
                    trace.targets[target],
                    replica,
                    [(0.0, STATES[0]), *states.get(key, ())],
                    probes.get(key, []),
                )
            )
    return ribbons
