"""What happened in a run, in a few sentences that any trace can tell: nothing is known here but the trace."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from math import inf
from typing import Any

from labkit.scenario.run.trace import (
    ATTEMPT_OUTCOMES,
    CALL_OUTCOMES,
    PROBE_OUTCOMES,
    REJECTION_REASONS,
    STATES,
    FaultPeriod,
    Trace,
)

__all__ = ["story"]

_CLOSED, _OPEN, _HALF_OPEN = range(len(STATES))
_WELL = {ATTEMPT_OUTCOMES.index(name) for name in ("answered", "rejected")}
_CUT_OFF = ATTEMPT_OUTCOMES.index("cancelled")
_LEFT = ATTEMPT_OUTCOMES.index("abandoned")
_GAVE_UP = CALL_OUTCOMES.index("cancelled")
_LEFT_EARLY = PROBE_OUTCOMES.index("cancelled")
_UNFINISHED = len(ATTEMPT_OUTCOMES)
_ENDED = {
    "succeeded": ("succeeded", "succeeded"),
    "unavailable": ('was answered "unavailable"', 'were answered "unavailable"'),
    "rejected": ("was rejected", "were rejected"),
    "timeout": ("timed out", "timed out"),
    "failed": ("failed", "failed"),
    "cancelled": ("was given up by its caller", "were given up by their callers"),
}


def story(trace: Trace, measured: Mapping[str, Any]) -> list[str]:
    """Tell a run.

    Args:
        trace: the run.
        measured: what `metrics` found in it.

    Returns:
        Sentences, in the order of what they tell. A run without breakers has fewer.
    """
    numbers = measured["all"]
    told = [_arrivals(trace), *_faults(trace)]
    told += _openings(trace)
    told += _turned_away(trace)
    told += _probes(trace, numbers["concurrent_probes_peak"])
    told += _afterwards(trace, numbers)
    told += _callers(trace, numbers)
    return told


def _arrivals(trace: Trace) -> str:
    many = len(trace.calls)
    by_function = [(trace.calls.function.tolist().count(place), name) for place, name in enumerate(trace.functions)]
    called = [f"{count:,} to {name}" for count, name in by_function if count]
    apart = f" ({_listed(called)})" if len(called) > 1 else ""
    dealt = f", dealt to {trace.replicas} replicas" if trace.replicas > 1 else ""
    return f"{_many(many, 'call')} arrived within {trace.duration:g} s{apart}{dealt}."


# --------------------------------------------------------------------------------------------------------- the services


def _faults(trace: Trace) -> list[str]:
    told = []
    by_kind: dict[tuple[str, str, str], list[FaultPeriod]] = {}
    for one in trace.faults:
        by_kind.setdefault((one.service, one.fault, "" if one.is_capacity else one.words), []).append(one)
    for key, listed in by_kind.items():
        first, last = listed[0], listed[-1]
        if first.is_capacity:
            steps = ", then ".join(_workers(one, trace) for one in listed)
            told.append(f"{first.service} had fewer workers {_span(first.start, last.end, trace)}: {steps}.")
        elif len(listed) == 1:
            told.append(f"The fault of {first.service} ({key[2]}) lasted {_span(first.start, first.end, trace)}.")
        else:
            told.append(
                f"The fault of {first.service} ({key[2]}) came {_times(len(listed))}, "
                f"{_span(first.start, first.end, trace)} for the first time and until {_s(last.end)} for the last."
            )
    return told


def _workers(period: FaultPeriod, trace: Trace) -> str:
    usual = trace.capacity.get(period.service)
    return f"{period.workers}" if usual is None else f"{period.workers} of {usual}"


def _span(start: float, end: float, trace: Trace) -> str:
    if end >= trace.duration:
        return "all the while" if start <= 0.0 else f"from {_s(start)} to the end"
    return f"from {start:g} to {_s(end)}"


# --------------------------------------------------------------------------------------------------------- the breakers


def _openings(trace: Trace) -> list[str]:
    if not trace.breakers:
        return []
    first: dict[tuple[int, int], dict[int, float]] = {}
    for at, breaker, target, replica, state in trace.transitions.rows():
        if state == _OPEN:
            first.setdefault((breaker, target), {}).setdefault(replica, at)
    if not first:
        return [f"No breaker opened{_although(trace)}."]
    told = []
    for (breaker, target), by_replica in first.items():
        name = "" if len(first) == 1 else f" {trace.breakers[breaker]} for {trace.targets[target]}"
        times = sorted(by_replica.values())
        if trace.replicas == 1:
            who = f"The breaker{name}"
        elif len(times) == 1:
            who = f"The breaker{name} of one replica"
        else:
            who = f"The breakers{name} of {len(times)} replicas"
        told.append(f"{who} opened {_when(times)}{_after(trace, target, by_replica)}{_in_flight(trace, times[0])}.")
    return told


def _although(trace: Trace) -> str:
    cut_off = trace.attempts.outcome.tolist().count(_CUT_OFF)
    failed = sum(code not in _WELL and code not in (_CUT_OFF, _UNFINISHED) for code in trace.attempts.outcome)
    if not cut_off and not failed:
        return ""
    how = "failed" if not cut_off else "were cut off" if not failed else "failed or were cut off"
    return f", although {cut_off + failed:,} of {_many(len(trace.attempts), 'attempt')} {how}"


def _after(trace: Trace, target: int, by_replica: Mapping[int, float]) -> str:
    """After how many failed attempts in a row, where the trace can tell."""
    attempts, calls, contexts = trace.attempts, trace.calls, trace.target_of
    functions = [number for number, context in enumerate(contexts) if context == trace.targets[target]]
    called = {(trace.behind or trace.functions)[number] for number in functions}
    if len(functions) != 1 or not called <= set(trace.services):
        return ""
    service = trace.services.index(called.pop())
    mine = [row for row, one in enumerate(attempts.service) if one == service]
    if {calls.function[attempts.call[row]] if attempts.call[row] >= 0 else -1 for row in mine} != set(functions):
        return ""  # others call the same service, and the breaker does not hear of them
    found: set[int] = set()
    kinds: set[int] = set()
    for replica, opened in by_replica.items():
        # A stream that was left and a call that its caller gave up count neither way.
        ended = sorted(
            (attempts.end[row], attempts.outcome[row])
            for row in mine
            if attempts.replica[row] == replica
            and attempts.end[row] <= opened
            and attempts.outcome[row] != _LEFT
            and (attempts.call[row] < 0 or calls.outcome[attempts.call[row]] != _GAVE_UP)
        )
        if len(ended) > 1 and ended[-2][0] == ended[-1][0]:
            return ""  # several at one instant: which of them was the last to count is not in the trace
        rows = [list(same) for well, same in groupby((one for _, one in ended), key=_WELL.__contains__) if not well]
        if not rows or ended[-1][1] in _WELL or any(len(row) >= len(rows[-1]) for row in rows[:-1]):
            return ""  # as many in a row had not opened it before, so it is not their number that did now
        found.add(len(rows[-1]))
        kinds.update(rows[-1])
    if len(found) != 1 or found == {1}:
        return ""
    what = "time-outs" if kinds == {_CUT_OFF} else "failed attempts"
    each = " each" if len(by_replica) > 1 else ""
    return f", after {found.pop()} {what} in a row{each}"


def _in_flight(trace: Trace, at: float) -> str:
    begun = bisect_right(trace.attempts.start, at)
    still = sum(not end <= at for end in trace.attempts.end[:begun])
    if not still:
        return ""
    return f"; {_many(still, 'attempt')} {'was' if still == 1 else 'were'} in flight then"


def _turned_away(trace: Trace) -> list[str]:
    reasons = trace.rejections.reason.tolist()
    who = {
        "breaker": "Breakers" if trace.replicas > 1 or len(trace.breakers) > 1 else "The breaker",
        "bulkhead": "A full bulkhead",
        "lease": "The lease of the probes",
    }
    found = [(name, reasons.count(code)) for code, name in enumerate(REJECTION_REASONS)]
    told = [f"{who[name]} turned callers away {_times(many)}." for name, many in found if many and name in who]
    refused = dict(found)["budget"]
    return told + ([f"A spent budget refused a retry {_times(refused)}."] if refused else [])


def _probes(trace: Trace, at_once: int) -> list[str]:
    probes = trace.probes
    many = len(probes)
    if not many:
        return []
    ended = {name: probes.outcome.tolist().count(code) for code, name in enumerate(PROBE_OUTCOMES)}
    cancelled = "was cancelled" if ended["cancelled"] == 1 else "were cancelled"
    words = [f"{'none' if not ended['succeeded'] else ended['succeeded']} succeeded"]
    words += [f"{ended['failed']} failed"] if ended["failed"] else []
    words += [f"{ended['cancelled']} {cancelled}"] if ended["cancelled"] else []
    first: dict[int, float] = {}
    for replica, start in zip(probes.replica, probes.start, strict=True):
        first.setdefault(replica, start)
    times = sorted(first.values())
    if many == 1:
        ways = {"succeeded": "succeeded", "failed": "failed", "cancelled": cancelled}
        how = next((way for kind, way in ways.items() if ended[kind]), "had not ended")
        return [f"One probe was sent, at {_s(times[0])}, and {how}."]
    who = "The first probe was" if len(times) == 1 else f"{len(times)} replicas sent their first probes"
    sent = f"{who} sent {_when(times)}" if len(times) == 1 else f"{who} {_when(times)}"
    peak = f"; at most {at_once} {'was' if at_once == 1 else 'were'} in flight at once" if trace.replicas > 1 else ""
    return [f"{sent}; of {many:,} in all {_listed(words)}{peak}."]


def _afterwards(trace: Trace, numbers: Mapping[str, Any]) -> list[str]:
    told = []
    last: dict[tuple[int, int, int], tuple[float, int]] = {}
    again = 0
    for at, breaker, target, replica, state in trace.transitions.rows():
        before = last.get((breaker, target, replica), (0.0, _CLOSED))[1]
        again += state == _OPEN and before == _HALF_OPEN
        last[breaker, target, replica] = at, state
    if again:
        which = "breakers" if len(last) > 1 else "the breaker"
        told.append(
            f"A failed probe opened {which.replace('breakers', 'a breaker')} again."
            if again == 1
            else f"Failed probes opened {which} again {_times(again)}."
        )
    if numbers["retrips"]:
        told.append(
            f"Closed breakers opened again {_times(numbers['retrips'])} on attempts that began after the repair."
        )
    if numbers["false_opens"]:
        told.append(f"Breakers opened {_times(numbers['false_opens'])} although no fault had been in force.")
    shut = [at for at, state in last.values() if state == _CLOSED]
    if shut and len(shut) == len(last):
        who = "The breaker" if len(last) == 1 else "All breakers"
        told.append(f"{who} closed for good {_when(sorted(shut))}.")
    elif last:
        left = len(last) - len(shut)
        told.append(
            "The breaker had not closed when the run ended."
            if len(last) == 1
            else f"{left} of {len(last)} breakers that had opened had not closed when the run ended."
        )
        told += _latched(trace, last)
    if numbers["recovery_s"] is not None:
        took = numbers["recovery_s"]
        told.append(f"Full service was back {_s(took) + ' after' if took >= 0.005 else 'at once with'} the repair.")
    elif any(one.fault not in ("healthy", "capacity") for one in trace.faults) and all(
        one.end < trace.duration for one in trace.faults if one.fault not in ("healthy", "capacity")
    ):
        told.append("Full service, five seconds of it, was not back before the end.")
    return told


def _latched(trace: Trace, last: Mapping[tuple[int, int, int], tuple[float, int]]) -> list[str]:
    """Breakers that stayed half-open because not one of their probes was waited for to its end."""
    since = {whose: at for whose, (at, state) in last.items() if state == _HALF_OPEN}
    ended: dict[tuple[int, int, int], list[int]] = {}
    for breaker, target, replica, start, end, outcome in trace.probes.rows():
        whose = (breaker, target, replica)
        if start >= since.get(whose, inf) and end < trace.until:  # else only the end of the run ended it
            ended.setdefault(whose, []).append(outcome)
    stuck = {whose: len(outcomes) for whose, outcomes in ended.items() if set(outcomes) == {_LEFT_EARLY}}
    if not stuck:
        return []
    who = f"{len(stuck)} breakers were" if len(stuck) > 1 else "The breaker was" if len(last) == 1 else "A breaker was"
    many = sum(stuck.values())
    begun = _s(min(since[one] for one in stuck))
    probes = {1: "its probe was", 2: "both probes were"}.get(many, f"all {many:,} probes since {begun} were")
    return [
        f"{who} still half-open at the end, and may stay so: {probes} left early, by a reader, a caller or a limit "
        "outside the breaker, and that counts neither way. Only a probe that comes to its end can close it or open it "
        "again."
    ]


# ---------------------------------------------------------------------------------------------------------- the callers


def _callers(trace: Trace, numbers: Mapping[str, Any]) -> list[str]:
    outcome = bytes(trace.calls.outcome)
    if not outcome:
        return []
    words = []
    for code, name in enumerate(CALL_OUTCOMES):
        many = outcome.count(code)
        if many:
            words.append(f"{many:,} {_ENDED[name][many != 1]}")
    hollow = outcome.count(CALL_OUTCOMES.index("succeeded")) - sum(trace.calls.useful)
    if hollow > 0:
        words[0] += f" ({hollow:,} of them without a live answer)"
    open_ = outcome.count(len(CALL_OUTCOMES))
    if open_:
        words.append(f"{open_:,} had not ended")
    told = [f"Of {_many(len(outcome), 'call')} {_listed(words)}."]
    if numbers["attempts"]:
        where = "the dependency" if len(trace.services) == 1 else "the dependencies"
        peak = numbers["in_flight_peak"]
        together = f", and at most {peak:,} {'was' if peak == 1 else 'were'} in flight" if peak else ""
        told.append(
            f"Within one second of the clock at most {_many(numbers['attempts_per_s_peak'], 'attempt')} reached "
            f"{where}{together}."
        )
    if numbers["invented_answers"]:
        told.append(
            f"{_many(numbers['invented_answers'], 'stock count')} in answers came from no live reply: invented."
        )
    return told


# ------------------------------------------------------------------------------------------------------------ the words


def _when(times: Sequence[float]) -> str:
    first, last = _s(times[0]), _s(times[-1])
    return f"at {first}" if first == last else f"from {first.removesuffix(' s')} to {last}"


def _s(seconds: float) -> str:
    """Seconds for a sentence: two places below ten, else one."""
    return f"{round(seconds, 2 if abs(seconds) < 10 else 1):g} s"


def _many(number: int, word: str) -> str:
    return f"{number:,} {word}" if number == 1 else f"{number:,} {word}s"


def _times(number: int) -> str:
    return {1: "once", 2: "twice"}.get(number, f"{number:,} times")


def _listed(words: Iterable[str]) -> str:
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last
