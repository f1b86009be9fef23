"""What a step of a `BreakerSession` is told in: which rule decided it, and which of the toolkit's faults it showed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from labkit.middleware import BreakerEvent
from labkit.policies import CircuitBreakerState
from labkit.policies.window_circuit_breaker import MINIMUM_CALLS

if TYPE_CHECKING:
    from labkit.session.steps import BreakerConfig, Flight

__all__ = ["CHANGES", "Happened", "Rules", "fault_of", "late_words", "rules_of", "tell"]

CHANGES = ("opened", "half_opened", "closed")
_CLOSED, _OPEN, _HALF_OPEN = CircuitBreakerState.CLOSED, CircuitBreakerState.OPEN, CircuitBreakerState.HALF_OPEN
_HOW = {"ok": "succeeded", "error": "failed", "cancel": "was cancelled"}


class Rules(NamedTuple):
    """What distinguishes one breaker's words from another's.

    Attributes:
        toolkit: whether it is the toolkit's machine, and so has its faults.
        wait: what OPEN waits for, the cooldown or the timer.
        threshold: failures that open it, or None where it is a rate.
        counted: where failures count, as the end of "2 failures ...".
        rate, minimum: the share of failures that opens it and the calls from which it counts; None and 0 without one.
        successes: successful probes that close it.
        probes: how many may be in flight at once.
        hold: seconds that a probe may take where no `probe_timeout` is set, or None.
        idle: seconds after which an untouched count is forgotten, or None.
    """

    toolkit: bool
    wait: str
    threshold: int | None
    counted: str
    rate: float | None
    minimum: int
    successes: int
    probes: int
    hold: float | None
    idle: float | None


class Happened(NamedTuple):
    """A step, before it is told.

    Attributes:
        op, id, outcome, admitted, events: as in `Step`.
        now: seconds.
        flight: the call that ended, if one did.
        late: that it was admitted in an earlier period, in words, or "".
        others: the other probes of the target that are in flight.
        state, failures, successes, calls, retry_after: of the target, after the step.
        failures_before: the failures that were counted before the step.
        probing_before: whether a probe's slot was taken before the step.
    """

    op: str
    id: str | None
    outcome: str | None
    admitted: bool | None
    events: tuple[BreakerEvent, ...]
    now: float
    flight: Flight | None
    late: str
    others: tuple[str, ...]
    state: CircuitBreakerState
    failures: int
    successes: int
    calls: int
    retry_after: float | None
    failures_before: int
    probing_before: bool


def rules_of(config: BreakerConfig) -> Rules:
    """The words of a breaker with this configuration."""
    if config.type == "window_circuit_breaker":
        by_rate = config.failure_rate is not None
        counted = f"in the last {config.window:g} s" if by_rate else f"in this interval of {config.interval:g} s"
        minimum = config.minimum_calls if config.minimum_calls is not None else MINIMUM_CALLS
        return Rules(False, "timer", config.failure_threshold, counted, config.failure_rate, minimum,
                     config.half_open_successes, config.half_open_requests, None, None)  # fmt: skip
    hold = idle = None
    if config.type == "guarded_circuit_breaker":
        hold = config.probe_hold if config.probe_timeout is None else None
        idle = config.idle_period
    return Rules(config.type == "circuit_breaker", "cooldown", config.failure_threshold, "in a row", None, 0,
                 config.half_open_success_threshold, 1, hold, idle)  # fmt: skip


def late_words(flight: Flight, changes: Sequence[str]) -> str:
    """That a call was admitted in a period that is over, in words, or "".

    Args:
        flight: the call.
        changes: the kinds of its target's changes of state so far.
    """
    if flight.period >= len(changes):
        return ""
    return "admitted in a half-open period that is over" if flight.probe else "admitted before the breaker opened"


def fault_of(rules: Rules, what: Happened) -> str | None:
    """Which of the toolkit's faults a step has shown, if any."""
    if not rules.toolkit:
        return None
    if what.op == "call":
        second = what.admitted and what.others and what.events and what.events[-1].probe
        return "cancel-frees-foreign-probe" if second else None
    if what.flight is None or not what.late:
        return None
    if what.outcome == "cancel":
        freed = what.probing_before and what.others and not what.flight.probe
        return "cancel-frees-foreign-probe" if freed else None
    if what.flight.probe:
        return "stale-probe-decides"
    event = next((event for event in what.events if event.kind in ("succeeded", "failed")), None)
    if event is not None and (event.state is _CLOSED or "opened" in [one.kind for one in what.events]):
        return "no-generations" if what.outcome == "error" else None
    return None


def tell(rules: Rules, what: Happened, fault: str | None) -> str:
    """A step in a sentence.

    Args:
        rules: what the breaker goes by.
        what: what happened in the step.
        fault: the toolkit's fault that it shows, or None.
    """
    if fault is not None:
        return _faulty(fault, what)
    if what.op == "call":
        return _arrival(rules, what)
    if what.op == "advance":
        return _passing(rules, what)
    return _ending(rules, what)


def _arrival(rules: Rules, what: Happened) -> str:
    id, last = what.id, what.events[-1] if what.events else None
    the = "the" if rules.probes == 1 else "a"
    if what.admitted and "half_opened" in _kinds(what):
        return f"{id} is admitted as {the} probe: the {rules.wait} is over, and this call turns the breaker half-open."
    if what.admitted and last is not None and last.probe:
        others = len(what.others)
        flying = "no probe is" if not others else f"{others} of {rules.probes} probes {'is' if others == 1 else 'are'}"
        return f"{id} is admitted as {the} probe: the breaker is half-open and {flying} in flight."
    if what.admitted:
        forgot = ""
        if rules.idle is not None and what.failures < what.failures_before:
            forgot = f", and its count of failures was forgotten after {rules.idle:g} s without a call"
        return f"{id} is admitted: the breaker is closed{forgot}."
    if what.state is _HALF_OPEN:
        its = "its one probe is" if rules.probes == 1 else f"its {rules.probes} probes are"
        return f"{id} is rejected: the breaker is half-open and {its} in flight."
    return f"{id} is rejected: the breaker is open, and {_probe_at(what)}."


def _passing(rules: Rules, what: Happened) -> str:
    told, id = f"It is {what.now:g} s", what.id
    if "opened" in _kinds(what):
        if rules.hold is not None:
            return (
                f"{told}: the probe {id} has held the slot for {rules.hold:g} s, its probe_hold, and is ended, so the "
                f"breaker opened again; {_probe_at(what)}."
            )
        return f"{told}: the probe {id} timed out on the way, so the breaker opened again; {_probe_at(what)}."
    if id is not None:
        return f"{told}: {id} timed out on the way."
    if what.state is _OPEN and what.retry_after == 0.0:
        return f"{told}: the {rules.wait} is over, but the breaker stays open until a call arrives."
    if what.state is _OPEN:
        return f"{told}: the breaker is open, and {_probe_at(what)}."
    if what.state is _CLOSED and what.failures < what.failures_before:
        if rules.rate is not None:
            left = f"{what.failures} of {what.calls} calls in it failed" if what.calls else "none is left in it"
            return f"{told}: outcomes have left the window; {left}."
        return f"{told}: an interval has ended, so the count of failures is 0 again."
    return f"{told}: time alone changes nothing."


def _ending(rules: Rules, what: Happened) -> str:
    outcome, kinds, state = what.outcome or "ok", _kinds(what), what.state
    was_probe = what.flight is not None and what.flight.probe
    said = f"{'the probe ' if was_probe else ''}{what.id} {_HOW[outcome]}"
    if what.late and not rules.toolkit:
        stays = f"; the slot stays with {_listed(what.others)}" if outcome == "cancel" and what.others else ""
        return f"{said}; it was {what.late}, so it is dropped and counts neither way{stays}."
    event = next((event for event in what.events if event.kind in ("succeeded", "failed", "cancelled")), None)
    failures = event.failures if event is not None else 0
    successes = event.successes if event is not None else 0
    if outcome == "cancel":
        freed = "; the probe's slot is free again" if was_probe and state is _HALF_OPEN else ""
        return f"{said}: a cancellation counts neither way{freed}."
    if "closed" in kinds:
        reached = _plural(rules.successes, "successful probe")
        asked = "was" if rules.successes == 1 else "in a row were"
        return f"{said}: {reached} {asked} asked for, so the breaker closes."
    if "opened" in kinds and was_probe:
        return f"{said}: one failed probe is enough, so the breaker opens again; {_probe_at(what)}."
    if "opened" in kinds:
        if rules.rate is not None:
            why = f"{failures} of {what.calls} calls {rules.counted} failed, which reaches {rules.rate:.0%}"
        else:
            reaches = "reaches" if failures == 1 else "reach"
            why = f"{_plural(failures, 'failure')} {rules.counted} {reaches} the threshold of {rules.threshold}"
        return f"{said}: {why}, so the breaker opens; {_probe_at(what)}."
    if was_probe and state is _HALF_OPEN:
        return f"{said}: {successes} of the {rules.successes} successes that close the breaker."
    if state is _CLOSED and rules.rate is not None:
        return (
            f"{said}: {failures} of {what.calls} calls {rules.counted} failed; from {rules.minimum} calls on, "
            f"{rules.rate:.0%} opens the breaker."
        )
    if state is _CLOSED and outcome == "error":
        return f"{said}: {_plural(failures, 'failure')} {rules.counted}, of {rules.threshold} that open the breaker."
    if state is _CLOSED and rules.wait == "timer":
        return f"{said}: a success changes nothing; {_plural(failures, 'failure')} {rules.counted}."
    if state is _CLOSED:
        return f"{said}: the count of failures in a row is 0."
    word = "open" if state is _OPEN else "half-open"
    return f"{said}, but it is not a probe and the breaker is {word}: it counts neither way."


def _faulty(fault: str, what: Happened) -> str:
    named = f"a fault of the toolkit's 1.9.0, {fault}"
    id, outcome, others, kinds = what.id, what.outcome, _listed(what.others), _kinds(what)
    after: Mapping[CircuitBreakerState, str] = {_CLOSED: "closed", _OPEN: "open", _HALF_OPEN: "half-open"}
    if fault == "cancel-frees-foreign-probe" and outcome is None:
        return (
            f"{id} is admitted as one more probe while {others} is in flight: its slot was freed too early ({named})."
        )
    if fault == "cancel-frees-foreign-probe":
        return (
            f"{id} was cancelled; it was not the probe, yet it frees the slot of {others}, still in flight ({named})."
        )
    how = _HOW[outcome or "ok"]
    if fault == "stale-probe-decides":
        turn = next((kind for kind in kinds if kind in CHANGES), "")
        does = {"closed": "the breaker closes", "opened": "the breaker opens again"}.get(
            turn, f"it is {after[what.state]}"
        )
        return f"{id} {how}; it was the probe of an earlier half-open period, and yet it counts: {does} ({named})."
    does = "the breaker opens" if "opened" in kinds else f"{_plural(what.failures, 'failure')} in a row"
    return f"{id} failed; it was admitted in an earlier closed period, and yet it counts: {does} ({named})."


def _kinds(what: Happened) -> list[str]:
    return [event.kind for event in what.events]


def _probe_at(what: Happened) -> str:
    return f"a probe may go at {what.now + (what.retry_after or 0.0):g} s"


def _plural(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def _listed(names: Sequence[str]) -> str:
    return " and ".join(names)
