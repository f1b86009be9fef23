"""The consecutive-failures breaker of NeMo Agent Toolkit 1.9.0, its faults included: this is what a learner meets.

The rules, and nothing else: `now` is an argument, nothing waits, nothing is locked. Source: observed on
nvidia-nat-core 1.9.0; the recorded traces in tests/conformance are reproduced without a difference.

How it is stored. Most targets are CLOSED without failures most of the time. Those are not kept at all; a CLOSED target
with failures is kept as their number; only a target that is not CLOSED (or holds a late probe's success) has a record.
That is the registry's contract with the async shell: only a target with a `Record` in `entries` can be refused or be
given a probe; any other is admitted as ordinary traffic, and if it is not in `entries` its success changes nothing. The
shell need not ask in these cases, which are nearly all.
"""

from __future__ import annotations

from math import inf
from typing import Final, NamedTuple

from labkit.policies._machine import CircuitBreakerState, Outcome, Permit, Rejection, Transition

__all__ = ["TRANSITIONS", "BreakerSnapshot", "CircuitBreakerPolicy", "CircuitBreakerState"]


CLOSED, OPEN, HALF_OPEN = CircuitBreakerState.CLOSED, CircuitBreakerState.OPEN, CircuitBreakerState.HALF_OPEN
SUCCESS, FAILURE = Outcome.SUCCESS, Outcome.FAILURE
ORDINARY, PROBE = Permit.ORDINARY, Permit.PROBE

#: What a machine answers to what happens. `call` is an arrival; `success` and `failure` end an ordinary call;
#: `probe success` and `probe failure` end a probe, and a *late* probe is one that ends after its half-open period.
TRANSITIONS: tuple[Transition, ...] = (
    Transition("CLOSED", "call", "", "CLOSED", "admitted"),
    Transition("CLOSED", "success", "", "CLOSED", "failures = 0"),
    Transition("CLOSED", "failure", "failures + 1 < failure_threshold", "CLOSED", "failures + 1"),
    Transition("CLOSED", "failure", "failures + 1 >= failure_threshold", "OPEN", "failures + 1, cooldown starts"),
    Transition("CLOSED", "cancelled", "", "CLOSED", "not counted"),
    Transition("OPEN", "call", "cooldown_period not over", "OPEN", "rejected"),
    Transition("OPEN", "call", "cooldown_period over", "HALF_OPEN", "admitted as the probe, successes = 0"),
    Transition("OPEN", "success", "", "OPEN", "not counted"),
    Transition("OPEN", "failure", "", "OPEN", "not counted"),
    Transition("OPEN", "cancelled", "", "OPEN", "not counted"),
    Transition("HALF_OPEN", "call", "a probe is in flight", "HALF_OPEN", "rejected"),
    Transition("HALF_OPEN", "call", "no probe is in flight", "HALF_OPEN", "admitted as the probe"),
    Transition(
        "HALF_OPEN", "probe success", "successes + 1 < half_open_success_threshold", "HALF_OPEN", "successes + 1"
    ),
    Transition(
        "HALF_OPEN", "probe success", "successes + 1 >= half_open_success_threshold", "CLOSED", "counts set to 0"
    ),
    Transition("HALF_OPEN", "probe failure", "", "OPEN", "failures = failure_threshold, cooldown starts"),
    Transition("HALF_OPEN", "success", "", "HALF_OPEN", "not counted"),
    Transition("HALF_OPEN", "failure", "", "HALF_OPEN", "not counted"),
    Transition("HALF_OPEN", "cancelled", "the probe", "HALF_OPEN", "slot freed, not counted"),
    Transition("HALF_OPEN", "cancelled", "not the probe, no probe is in flight", "HALF_OPEN", "not counted"),
    Transition(
        "HALF_OPEN",
        "cancelled",
        "not the probe, a probe is in flight",
        "HALF_OPEN",
        "the probe's slot freed",
        "cancel-frees-foreign-probe",
    ),
    Transition(
        "OPEN",
        "probe success",
        "successes + 1 < half_open_success_threshold",
        "OPEN",
        "successes + 1",
        "stale-probe-decides",
    ),
    Transition(
        "OPEN",
        "probe success",
        "successes + 1 >= half_open_success_threshold",
        "CLOSED",
        "counts set to 0",
        "stale-probe-decides",
    ),
    Transition("OPEN", "probe failure", "", "OPEN", "cooldown starts again", "stale-probe-decides"),
    Transition(
        "CLOSED",
        "probe success",
        "successes + 1 < half_open_success_threshold",
        "CLOSED",
        "successes + 1",
        "stale-probe-decides",
    ),
    Transition(
        "CLOSED",
        "probe success",
        "successes + 1 >= half_open_success_threshold",
        "CLOSED",
        "counts set to 0",
        "stale-probe-decides",
    ),
    Transition("CLOSED", "probe failure", "", "OPEN", "cooldown starts", "stale-probe-decides"),
)


class BreakerSnapshot(NamedTuple):
    """What a breaker holds about one target.

    Attributes:
        state: the state as stored; an OPEN target whose cooldown is over still reads OPEN until a call arrives.
        failures: consecutive failures while CLOSED (the threshold after a failed probe).
        successes: consecutive successful probes towards closing.
        probing: whether the probe's slot is taken.
        changed_at: when the state last changed, in the clock's seconds; 0.0 for a CLOSED target.
    """

    state: CircuitBreakerState
    failures: int
    successes: int
    probing: bool
    changed_at: float


FRESH = BreakerSnapshot(CLOSED, 0, 0, False, 0.0)


class Record:
    """What is kept of a target that is not plainly CLOSED."""

    __slots__ = ("changed_at", "failures", "probing", "state", "successes")

    def __init__(self, state: CircuitBreakerState, failures: int, successes: int, changed_at: float) -> None:
        self.state = state
        self.failures = failures
        self.successes = successes
        self.probing = False
        self.changed_at = changed_at


class CircuitBreakerPolicy:
    """The machine, for any number of targets.

    Args:
        failure_threshold: consecutive failures that open it, above 0.
        cooldown_period: seconds that OPEN lasts at least, above 0.
        half_open_success_threshold: consecutive successful probes that close it, above 0.

    Attributes:
        entries: the targets that differ from a fresh one; see the module's words on the contract.
        ordinary: the permit of every call that is admitted as ordinary traffic.

    Example:
        >>> policy = CircuitBreakerPolicy(failure_threshold=1, cooldown_period=30.0)
        >>> policy.admit("parts", now=0.0)
        <Permit.ORDINARY: 'ordinary'>
        >>> policy.settle("parts", Permit.ORDINARY, Outcome.FAILURE, now=1.0)
        >>> policy.admit("parts", now=2.0)
        Rejection(target='parts', retry_after=29.0)
        >>> policy.admit("parts", now=31.0)
        <Permit.PROBE: 'probe'>
    """

    __slots__ = ("cooldown_period", "entries", "failure_threshold", "half_open_success_threshold")

    ordinary: Final = ORDINARY

    def __init__(
        self, failure_threshold: int = 3, cooldown_period: float = 60.0, half_open_success_threshold: int = 1
    ) -> None:
        self.failure_threshold = failure_threshold
        self.cooldown_period = cooldown_period
        self.half_open_success_threshold = half_open_success_threshold
        self.entries: dict[str, int | Record] = {}

    def admit(self, target: str, now: float) -> Permit | Rejection:
        """Decide whether a call may go to the target now."""
        entry = self.entries.get(target)
        if not isinstance(entry, Record) or entry.state is CLOSED:
            return ORDINARY
        if entry.state is OPEN:
            rest = self.rest(entry, now)
            if rest > 0.0:
                return Rejection(target, rest)
            entry.state = HALF_OPEN
            entry.changed_at = now
            entry.successes = 0
        elif entry.probing:
            return Rejection(target, None)
        entry.probing = True
        return PROBE

    def rest(self, record: Record, now: float) -> float:
        """Seconds of the cooldown that are still to go: above 0 while every call is rejected."""
        if record.state is OPEN:
            elapsed = now - record.changed_at  # elapsed time is what the toolkit compares; a sum would round otherwise
            if elapsed < self.cooldown_period:
                return self.cooldown_period - elapsed
        return 0.0

    # -- what would happen, without making it happen

    def state(self, target: str) -> CircuitBreakerState:
        """The state as stored: OPEN reads OPEN until a call arrives after the cooldown."""
        entry = self.entries.get(target)
        return entry.state if isinstance(entry, Record) else CLOSED

    def would_reject(self, target: str, at: float) -> bool:
        """Whether a call that arrived at that time would be rejected, if nothing happens until then."""
        entry = self.entries.get(target)
        if not isinstance(entry, Record):
            return False
        return self.rest(entry, at) > 0.0 or (entry.state is HALF_OPEN and entry.probing)

    def at_rest(self, target: str) -> bool:
        """Whether a call would be admitted as ordinary traffic and its success would change nothing."""
        entry = self.entries.get(target)
        return entry is None or (isinstance(entry, Record) and entry.state is CLOSED and not entry.failures)

    def timer_end(self, target: str) -> float:
        """When the cooldown of an OPEN target ends, in the clock's seconds; infinite for any other.

        A sum, which may be off by a rounding: `would_reject` is exact.
        """
        entry = self.entries.get(target)
        if isinstance(entry, Record) and entry.state is OPEN:
            return entry.changed_at + self.cooldown_period
        return inf

    # -- the end of a call

    def settle(self, target: str, permit: Permit, outcome: Outcome, now: float) -> None:
        """Account for the end of an admitted call. Call it once for a permit.

        Args:
            target: whose state it is.
            permit: what admission gave the call.
            outcome: how it ended.
            now: seconds.
        """
        if outcome is SUCCESS:
            self.succeeded(target, permit)
        elif outcome is FAILURE:
            self.failed(target, permit, now)
        else:
            self.cancelled(target)

    def succeeded(self, target: str, permit: Permit) -> None:
        """A call returned (a stream: was read to its end)."""
        entries = self.entries
        if permit is PROBE:
            record = self._record(target)
            record.successes += 1
            record.probing = False
            if record.successes >= self.half_open_success_threshold:
                del entries[target]  # CLOSED without failures: as good as never seen
        else:
            entry = entries.get(target)
            if entry.__class__ is int:
                del entries[target]
            elif isinstance(entry, Record) and entry.state is CLOSED:
                entry.failures = 0

    def tolerates(self, target: str) -> bool:
        """Count a failure of an ordinary call if it does not open the breaker, and say whether it was counted.

        The same as `failed` for the failures that change no state, which therefore need no time; False means that
        nothing was done and `failed` has to be asked.
        """
        failures = self.entries.get(target, 0)
        if failures.__class__ is int:
            failures += 1
            if failures < self.failure_threshold:
                self.entries[target] = failures
                return True
        return False

    def failed(self, target: str, permit: Permit, now: float) -> None:
        """A call raised an `Exception`.

        Args:
            target: whose state it is.
            permit: what admission gave the call.
            now: seconds.
        """
        entries = self.entries
        if permit is PROBE:
            record = self._record(target)
            record.state = OPEN
            record.changed_at = now
            record.probing = False
            record.failures = self.failure_threshold
            record.successes = 0
            return
        entry = entries.get(target, 0)
        if entry.__class__ is int:
            failures: int = entry + 1
            if failures >= self.failure_threshold:
                entries[target] = Record(OPEN, failures, 0, now)
            else:
                entries[target] = failures
        elif isinstance(entry, Record) and entry.state is CLOSED:
            entry.failures += 1
            if entry.failures >= self.failure_threshold:
                entry.state = OPEN
                entry.changed_at = now

    def cancelled(self, target: str) -> None:
        """A call was cancelled, or its stream was closed early: counts as neither.

        Whoever was cancelled, the probe's slot is freed; that is the fault `cancel-frees-foreign-probe`.
        """
        entry = self.entries.get(target)
        if isinstance(entry, Record):
            entry.probing = False

    def snapshot(self, target: str) -> BreakerSnapshot:
        """What is held about a target; asking does not create it."""
        entry = self.entries.get(target)
        if entry is None:
            return FRESH
        if isinstance(entry, int):
            return BreakerSnapshot(CLOSED, entry, 0, False, 0.0)
        return BreakerSnapshot(entry.state, entry.failures, entry.successes, entry.probing, entry.changed_at)

    def _record(self, target: str) -> Record:
        # A late probe may find its target closed again, and so forgotten or reduced to a number.
        entry = self.entries.get(target, 0)
        if isinstance(entry, int):
            entry = self.entries[target] = Record(CLOSED, entry, 0, 0.0)  # 0.0: as a CLOSED target reads
        return entry
