"""A trace counted into bins of time, for the pictures that draw it.

numpy reads the trace's columns where they lie. It, and what else is heavy, is imported when a trace is first counted:
whoever wants a state diagram should not pay for it. Counts are whole numbers, and percentiles are values of the trace
(to the nanosecond), so the same trace gives the same bins everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, isfinite, log10
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from labkit.scenario.trace import Trace

    Floats: TypeAlias = npt.NDArray[np.float64]

__all__ = ["Axis", "Binned", "Ribbon", "axis_of", "binned", "round_step"]

_FEW = 8  # calls a bin, below which a rate says more about the bins than about the traffic
_FEW_IN_LESS = 40  # the same for bins of less than a second, since rates are told by the second
_LEAST = 20  # bins, however few calls
_SERVICES = 3
_BITS = 48  # for nanoseconds: three days


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


def binned(trace: Trace, axis: Axis) -> Binned:
    """Count a trace into the bins of an axis. What lies outside of it is left out of the bins, not of the counts."""
    import numpy as np

    from labkit.scenario.trace import CALL_OUTCOMES, STATES

    calls = trace.calls
    start, end = _floats(calls.start), _floats(calls.end)
    over = (end == end) & (start == start)
    took, kinds = (end - start)[over].clip(0.0), _kinds(np.asarray(calls.outcome)[over], np.asarray(calls.useful)[over])
    in_all = np.bincount(kinds, minlength=len(_KINDS)).tolist()
    inside, ended_in = _bins(end[over], axis)
    wide = _wide(axis, trace.until)
    table = np.bincount(kinds[inside] * axis.bins + ended_in, minlength=len(_KINDS) * axis.bins).reshape(-1, axis.bins)
    ended = {name: table[row] / wide for row, name in enumerate(_KINDS)}
    arrived = _bins(start, axis)[1]
    offered = np.bincount(arrived, minlength=axis.bins) / _wide(axis, trace.duration)
    edges = np.arange(axis.bins) * axis.step
    offered[edges >= max(trace.duration, start.max(initial=0.0) + 1e-9) - 1e-9] = np.nan
    (median, p95), latency = _percentiles(took, inside, ended_in, axis.bins, (0.50, 0.95))
    counts = dict(zip(_KINDS, in_all, strict=True))
    ribbons = _ribbons(trace)
    opened = STATES.index("OPEN")
    seen = dict(zip(CALL_OUTCOMES, np.bincount(calls.outcome, minlength=len(CALL_OUTCOMES)), strict=False))
    counts |= {
        "offered": len(start),
        "unfinished": len(start) - int(over.sum()),
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


def _kinds(outcome: npt.NDArray[Any], useful: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Places in `_KINDS` by how a call ended."""
    import numpy as np

    from labkit.scenario.trace import CALL_OUTCOMES

    by_code: list[int] = [_KINDS.index(_KIND_OF.get(name, "failed")) for name in CALL_OUTCOMES]
    by_code += [_KINDS.index("failed")] * (256 - len(by_code))
    kinds: npt.NDArray[np.int64] = np.array(by_code)[outcome]
    kinds[useful > 0] = _KINDS.index("answered")
    return kinds


def _floats(column: Any) -> Floats:
    import numpy as np

    return np.asarray(column, dtype=np.float64)


def _bins(times: Floats, axis: Axis) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.int64]]:
    """Which of the times are on the axis, and the bins of those."""
    import numpy as np

    inside = (times >= 0.0) & (times <= axis.end)  # not NaN
    # What is due on an edge may come a rounding before it.
    places = np.floor(times[inside] / axis.step + 1e-7).astype(np.int64)
    return inside, np.minimum(places, axis.bins - 1)


def _wide(axis: Axis, until: float) -> Floats:
    """Seconds of each bin; the one in which the run ends is counted as far as the run goes."""
    import numpy as np

    wide = np.full(axis.bins, axis.step)
    last = floor(until / axis.step + 1e-7) if isfinite(until) and until > 0.0 else axis.bins
    if last < axis.bins and until - last * axis.step > 0.25 * axis.step:
        wide[last] = until - last * axis.step
    return wide


def _percentiles(
    values: Floats, inside: npt.NDArray[np.bool_], bins: npt.NDArray[np.int64], count: int, shares: Sequence[float]
) -> tuple[list[Floats], list[float | None]]:
    """The least value that so large a share of the values does not pass: by bin (NaN where there is none), and of all.

    `inside` says which of the values are in bins, and `bins` in which.
    """
    import numpy as np

    ranks = [max(0, ceil(share * values.size - 1e-9) - 1) for share in shares]
    whole: list[float | None] = [None] * len(ranks)
    if values.size:
        whole = [float(np.partition(values, rank)[rank]) for rank in ranks]
    # Sorted as whole numbers, a bin in the upper bits and nanoseconds in the lower: faster than by two keys.
    keys = (bins << _BITS) + np.minimum(values[inside] * 1e9, 2.0**_BITS - 1.0).round().astype(np.int64)
    keys.sort()
    ranked = (keys & ((1 << _BITS) - 1)) / 1e9
    many = np.bincount(bins, minlength=count)
    first = np.cumsum(many) - many
    found = []
    for share in shares:
        place = np.maximum(np.ceil(share * many - 1e-9).astype(np.int64) - 1, 0) + first
        line = np.full(count, np.nan)
        line[many > 0] = ranked[place[many > 0]]
        found.append(line)
    return found, whole


def _services(trace: Trace, axis: Axis, wide: Floats) -> tuple[Any, Any, Any, Any]:
    import numpy as np

    attempts = trace.attempts
    service, starts, ends = np.asarray(attempts.service), _floats(attempts.start), _floats(attempts.end)
    many = np.bincount(service, minlength=len(trace.services))
    busiest = sorted(range(len(trace.services)), key=lambda one: (-many[one], one))[:_SERVICES]
    rates, levels, rate_peaks, level_peaks = {}, {}, {}, {}
    for one in sorted(busiest):
        if not many[one]:
            continue
        name = trace.services[one]
        mine = service == one
        inside, bins = _bins(starts[mine], axis)
        begun = np.sort(starts[mine][inside])
        over = np.sort(ends[mine & (ends == ends)])
        bins.sort()
        rates[name] = np.bincount(bins, minlength=axis.bins) / wide
        seconds = np.bincount(np.floor(begun + 1e-9).astype(np.int64)) if begun.size else np.zeros(1, np.int64)
        rate_peaks[name] = (int(seconds.max()), float(seconds.argmax()))
        # The level is highest right after an arrival, or at the edge of a bin.
        level = np.arange(1, begun.size + 1) - np.searchsorted(over, begun, side="right")
        edges = np.arange(axis.bins) * axis.step
        most = (np.searchsorted(begun, edges) - np.searchsorted(over, edges, side="right")).clip(0)
        np.maximum.at(most, bins, level)
        levels[name] = most.astype(np.float64)
        top = int(level.argmax()) if level.size else 0
        level_peaks[name] = (int(level[top]), float(begun[top])) if level.size else (0, 0.0)
    return rates, levels, rate_peaks, level_peaks


def _ribbons(trace: Trace) -> list[Ribbon]:
    """The breakers of which anything is known, each replica's."""
    import numpy as np

    from labkit.scenario.trace import REJECTION_REASONS, STATES

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
    told = np.asarray(turned.reason) != REJECTION_REASONS.index("bulkhead")
    width = len(trace.targets) + 1
    pairs = (np.asarray(turned.middleware, np.int64) * width + np.asarray(turned.target))[told]
    known |= {divmod(pair, width) for pair in np.flatnonzero(np.bincount(pairs)).tolist()}
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
