"""Numbers read off a trace, and off nothing else. All times in seconds; None where a number has no meaning."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from math import inf
from typing import Any

from labkit.scenario.read.counting import levels, most_in_a_second, rank
from labkit.scenario.read.recovery import full_service, repair_of
from labkit.scenario.run.trace import ATTEMPT_OUTCOMES, CALL_OUTCOMES, STATES, FaultPeriod, Trace

__all__ = ["METRICS", "metrics"]

METRICS: dict[str, str] = {
    "offered": "calls that arrived",
    "admitted": "calls that reached the dependency at least once",
    "rejected": "calls that a breaker or a bulkhead turned away, and whose caller heard of it as an error",
    "succeeded": "calls that returned an answer, whatever it said",
    "failed": "calls that raised an error, time-outs included",
    "cancelled": "calls whose caller gave up, or left a stream early",
    "unavailable": "calls answered by a fallback, with an explicit outcome",
    "unfinished": "calls that had not ended when the run did",
    "timeouts": "failed calls that were time-outs",
    "attempts": "requests that the dependency saw",
    "attempts_per_s_peak": "the most of them within one second of the clock",
    "amplification": "attempts a call that reached the dependency",
    "in_flight_peak": "the most attempts at the dependency at one time, queued ones included",
    "latency_p50_s": "half of the calls that ended took no longer",
    "latency_p95_s": "95 % of the calls that ended took no longer",
    "latency_p99_s": "99 % of the calls that ended took no longer",
    "goodput_per_s": "calls with a live answer, a second of the run's duration",
    "time_to_open_s": "from the first fault to the first breaker that opened after it",
    "opens": "how often breakers opened",
    "false_opens": "how often one opened while no fault was in force and none had been before",
    "probes": "calls that breakers let through to find out whether the dependency has recovered",
    "concurrent_probes_peak": "the most probes of one target in flight at one time, over all replicas",
    "recovery_s": "from the repair of the last fault to full service: five seconds with 99 % live answers",
    "retrips": "how often a closed breaker opened again after a repair, on attempts that began after it",
    "invented_answers": "stock counts in answers that no live reply gave",
    "rejections": "how often a breaker or a bulkhead turned a call or an attempt away, unheard ones included",
}
"""Every metric's name, and what it counts."""

_BLOCK = 1 << 19  # numbers that are put in order at a time
_STEPS = 7  # of a scope
_UNFINISHED = len(CALL_OUTCOMES)
_OVERLOADED = ATTEMPT_OUTCOMES.index("overloaded")
_OPEN, _CLOSED = STATES.index("OPEN"), STATES.index("CLOSED")


def metrics(trace: Trace, *, progress: Callable[[float], object] | None = None) -> dict[str, Any]:
    """All numbers of a run: `all` over everything, `functions` by function, each with the keys of `METRICS`.

    Args:
        trace: the run.
        progress: told the share that is done, from 0 to 1, now and then. What it raises ends the counting.
    """
    scopes = (None,) if len(trace.functions) == 1 else (None, *trace.functions)
    steps = 0

    def step() -> None:
        nonlocal steps
        steps += 1
        if progress is not None:
            progress(min(1.0, steps / (len(scopes) * _STEPS)))

    whole, *apart = [_Scope(trace, name, step).numbers() for name in scopes]
    if progress is not None:
        progress(1.0)
    return {"all": whole, "functions": dict(zip(trace.functions, apart or [dict(whole)], strict=True))}


class _Scope:
    """A trace, or the part of it that belongs to one function."""

    def __init__(self, trace: Trace, function: str | None, step: Callable[[], object]) -> None:
        self.trace = trace
        self.step = step
        calls, attempts = trace.calls, trace.attempts
        self.target = None
        if function is None:
            self.start: Sequence[float] = calls.start
            self.end: Sequence[float] = calls.end
            self.outcome = bytes(calls.outcome)
            self.useful = bytes(calls.useful)
            self.invented = sum(calls.invented)
            self.began: Sequence[float] = attempts.start
            self.ended: Sequence[float] = attempts.end
            self.ends: Sequence[int] = attempts.outcome
            self.admitted = _different(attempts.call, len(calls))
            return
        number = trace.functions.index(function)
        rows = [row for row, one in enumerate(calls.function) if one == number]
        mine = set(rows)
        self.start = [calls.start[row] for row in rows]
        self.end = [calls.end[row] for row in rows]
        self.outcome = bytes(calls.outcome[row] for row in rows)
        self.useful = bytes(calls.useful[row] for row in rows)
        self.invented = sum(calls.invented[row] for row in rows)
        those = [row for row, call in enumerate(attempts.call) if call in mine]
        self.admitted = _different([attempts.call[row] for row in those], len(calls))
        context = trace.target_of[number]
        self.target = trace.targets.index(context) if context in trace.targets else -1
        self.rows = mine
        if not rows and trace.behind:  # nobody calls it but an assistant: what its service saw is what was asked of it
            service = trace.behind[number]
            those = [row for row, one in enumerate(attempts.service) if trace.services[one] == service]
        self.began = [attempts.start[row] for row in those]
        self.ended = [attempts.end[row] for row in those]
        self.ends = [attempts.outcome[row] for row in those]

    def numbers(self) -> dict[str, Any]:
        trace, outcome = self.trace, self.outcome
        self.step()
        half, most, nearly_all = self._latencies()
        counts = {name: outcome.count(code) for code, name in enumerate(CALL_OUTCOMES)}
        attempts = len(self.began)
        opens = self._opens()
        self.step()
        probes = self._probes()
        found = {
            "offered": len(self.start),
            "admitted": self.admitted,
            "rejected": counts["rejected"],
            "succeeded": counts["succeeded"],
            "failed": counts["failed"] + counts["timeout"],
            "cancelled": counts["cancelled"],
            "unavailable": counts["unavailable"],
            "unfinished": outcome.count(_UNFINISHED),
            "timeouts": counts["timeout"],
            "attempts": attempts,
            "attempts_per_s_peak": most_in_a_second(self.began)[0],
            "amplification": attempts / self.admitted if self.admitted else None,
            "in_flight_peak": self._in_flight(),
            "latency_p50_s": half,
            "latency_p95_s": most,
            "latency_p99_s": nearly_all,
            "goodput_per_s": self.useful.count(1) / trace.duration,
            "time_to_open_s": self._time_to_open(opens),
            "opens": len(opens),
            "false_opens": sum(kind == "false" for _, kind in opens),
            "probes": sum(len(starts) for starts, _ in probes),
            "concurrent_probes_peak": max((_most_at_once(*one) for one in probes), default=0),
            "recovery_s": self._recovery(),
            "retrips": sum(kind == "retrip" for _, kind in opens),
            "invented_answers": self.invented,
            "rejections": self._rejections(),
        }
        # Times are sums of seconds, and their last digits are noise.
        return {name: round(value, 9) if isinstance(value, float) else value for name, value in found.items()}

    def _latencies(self) -> tuple[float | None, float | None, float | None]:
        took = [end - start for start, end in zip(self.start, self.end, strict=True) if end == end]
        self.step()
        took = _in_order(took, self.step)
        self.step()
        if not took:
            return None, None, None
        half, most, nearly_all = (took[rank(share, len(took))] for share in (0.50, 0.95, 0.99))
        return half, most, nearly_all

    def _in_flight(self) -> int:
        began, ended = self.began, self.ended
        if _OVERLOADED in self.ends:  # turned away at the door: it was never in
            kept = [row for row, outcome in enumerate(self.ends) if outcome != _OVERLOADED]
            began, ended = [began[row] for row in kept], [ended[row] for row in kept]
        return _most_at_once(began, ended, self.step)

    def _opens(self) -> list[tuple[float, str]]:
        """When breakers opened, each with its kind: "true", "false", "retrip", or "probe" for a probe that failed."""
        trace = self.trace
        table = trace.transitions
        wanted = {at for at, *_, state in table.rows() if state == _OPEN}
        decisive: dict[tuple[float, int], float] = {}
        if wanted:
            for start, end, replica in zip(
                trace.attempts.start, trace.attempts.end, trace.attempts.replica, strict=True
            ):
                if end in wanted:
                    decisive[end, replica] = max(start, decisive.get((end, replica), start))
        state: dict[tuple[int, int, int], int] = {}
        found = []
        for at, breaker, target, replica, now in table.rows():
            before = state.get((breaker, target, replica), _CLOSED)
            state[breaker, target, replica] = now
            if now != _OPEN or (self.target is not None and target != self.target):
                continue
            kind = "probe" if before != _CLOSED else _kind(trace.faults, decisive.get((at, replica), at), at)
            found.append((at, kind))
        return found

    def _time_to_open(self, opens: Iterable[tuple[float, str]]) -> float | None:
        begin = min((period.start for period in self.trace.faults), default=None)
        if begin is None:
            return None
        return min((at - begin for at, _ in opens if at >= begin), default=None)

    def _probes(self) -> list[tuple[list[float], list[float]]]:
        """Begins and ends of the probes, by target."""
        by_target: dict[int, tuple[list[float], list[float]]] = {}
        for _, target, _, start, end, _ in self.trace.probes.rows():
            if self.target is None or target == self.target:
                starts, ends = by_target.setdefault(target, ([], []))
                starts.append(start)
                ends.append(end)
        return list(by_target.values())

    def _rejections(self) -> int:
        rejections = self.trace.rejections
        if self.target is None:
            return len(rejections)
        if not self.rows:
            return rejections.target.tolist().count(self.target)
        return sum(call in self.rows for call in rejections.call)

    def _recovery(self) -> float | None:
        trace = self.trace
        repaired = repair_of(trace)
        if repaired is None:
            return None
        begin = full_service(self.start, self.useful, repaired, trace.duration)
        return None if begin is None else begin - repaired


def _kind(faults: Iterable[FaultPeriod], began: float, at: float) -> str:
    """What kind of opening it is, by the faults in force while the attempt ran that decided it."""
    past = scarce = False
    for period in faults:
        in_force = period.start <= at and period.end > began
        if period.is_capacity:  # restored traffic that meets too few workers trips anew
            scarce = scarce or in_force
        elif in_force:
            return "true"
        else:
            past = past or period.end <= began
    return "retrip" if past else "true" if scarce else "false"


def _different(calls: Iterable[int], many: int) -> int:
    """How many different ones there are; -1 is none. (A set of them all would be larger than the trace.)"""
    seen = bytearray(many + 1)
    for call in calls:
        seen[call] = 1
    return seen.count(1, 0, many)


def _in_order(values: list[float], step: Callable[[], object]) -> list[float]:
    """The values sorted, with a word between the pieces where there are very many."""
    if len(values) <= _BLOCK:
        values.sort()
        return values
    found: list[float] = []
    for begin in range(0, len(values), _BLOCK):
        found += sorted(values[begin : begin + _BLOCK])
        step()
    found.sort()  # which finds the pieces sorted, and merges them
    return found


def _most_at_once(starts: Sequence[float], ends: Sequence[float], step: Callable[[], object] = lambda: None) -> int:
    """The most intervals that share an instant; they are in the order of their starts.

    One that ends when another begins does not share it; one that takes no time shares its instant.
    """
    begun = array("d")
    over: list[float] = []
    instants: Counter[float] = Counter()
    for start, end in zip(starts, ends, strict=True):
        if end == start:
            instants[start] += 1
            continue
        begun.append(start)
        if end == end:
            over.append(end)
    step()
    over = _in_order(over, step)
    step()
    over.append(inf)
    _, (most, _) = levels(begun, over, (0, len(begun)), (-inf,))
    beside = (bisect_right(begun, at) - bisect_right(over, at) + many for at, many in instants.items())
    return max([most, *beside])
