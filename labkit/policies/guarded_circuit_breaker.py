"""The toolkit's consecutive-failures breaker with its faults mended: what to run where 1.9.0's would let one down.

The rules, and nothing else: `now` is an argument, nothing waits, nothing is locked. The states, thresholds and times
are those of `circuit_breaker`; what differs is who may speak:

- a permit knows when it was given, so that an outcome of an earlier period is dropped;
- the probe's slot belongs to one permit, and only its outcome decides or frees it;
- the slot is held for `probe_hold` seconds at most: after that another probe may take it, and then the late owner's
  outcome is dropped like any other late one;
- a call that comes from inside the probe that holds the slot is part of it: admitted, and not counted by itself;
- a person may force a target open or closed, and reset it.

How it is stored. A target that has not failed is not kept. One that has failed or was open has a record, and only one
whose record is not CLOSED can be refused or be given a probe; any other is admitted as ordinary traffic, with the
number in `generation`. A CLOSED record that nothing has touched for `idle_period` seconds is forgotten, two of them a
call at most, so that names which never come back do not stay; OPEN, HALF_OPEN and forced ones always stay. One number
outlives them: an outcome of a call that is older than a forgotten record's last change of state, and so has taken
longer than `idle_period`, is dropped.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection
from math import inf
from typing import NamedTuple

from labkit.policies._machine import CircuitBreakerState, GenerationPermit, Outcome, Permit, Rejection, Transition

__all__ = ["TRANSITIONS", "GuardedBreakerSnapshot", "GuardedCircuitBreakerPolicy"]

CLOSED, OPEN, HALF_OPEN = CircuitBreakerState.CLOSED, CircuitBreakerState.OPEN, CircuitBreakerState.HALF_OPEN
SUCCESS, FAILURE = Outcome.SUCCESS, Outcome.FAILURE
ORDINARY, PROBE = Permit.ORDINARY, Permit.PROBE

_FORGET = 2  # records that one call may forget: more than it can add, so that they cannot pile up

#: What a machine answers to what happens. `call` is an arrival; `success`, `failure` and `cancelled` end an ordinary
#: call of this period; `probe ...` ends the probe that holds the slot; a *late outcome* is any other: of an ordinary
#: call that was admitted in an earlier period, of a probe that no longer holds the slot. `forced` targets have rows of
#: their own.
TRANSITIONS: tuple[Transition, ...] = (
    Transition("CLOSED", "call", "", "CLOSED", "admitted"),
    Transition("CLOSED", "success", "", "CLOSED", "failures = 0"),
    Transition("CLOSED", "failure", "failures + 1 < failure_threshold", "CLOSED", "failures + 1"),
    Transition("CLOSED", "failure", "failures + 1 >= failure_threshold", "OPEN", "failures + 1, cooldown starts"),
    Transition("CLOSED", "cancelled", "", "CLOSED", "not counted"),
    Transition("CLOSED", "late outcome", "", "CLOSED", "dropped"),
    Transition("OPEN", "call", "cooldown_period not over", "OPEN", "rejected"),
    Transition("OPEN", "call", "cooldown_period over", "HALF_OPEN", "admitted as the probe, successes = 0"),
    Transition("OPEN", "late outcome", "", "OPEN", "dropped"),
    Transition("HALF_OPEN", "call", "the slot is free", "HALF_OPEN", "admitted as the probe"),
    Transition("HALF_OPEN", "call", "from inside the probe that holds the slot", "HALF_OPEN", "admitted, not counted"),
    Transition("HALF_OPEN", "call", "the slot is held", "HALF_OPEN", "rejected"),
    Transition("HALF_OPEN", "call", "the slot is held, probe_hold is over", "HALF_OPEN", "admitted as the probe"),
    Transition(
        "HALF_OPEN", "probe success", "successes + 1 < half_open_success_threshold", "HALF_OPEN", "successes + 1"
    ),
    Transition(
        "HALF_OPEN", "probe success", "successes + 1 >= half_open_success_threshold", "CLOSED", "counts set to 0"
    ),
    Transition("HALF_OPEN", "probe failure", "", "OPEN", "failures = failure_threshold, cooldown starts"),
    Transition("HALF_OPEN", "probe cancelled", "", "HALF_OPEN", "slot freed, not counted"),
    Transition("HALF_OPEN", "late outcome", "", "HALF_OPEN", "dropped"),
    *(
        Transition(state.value, "force_open", "", "OPEN", "forced: every call rejected")
        for state in CircuitBreakerState
    ),
    *(Transition(state.value, "force_close", "", "CLOSED", "forced: nothing counted") for state in CircuitBreakerState),
    *(
        Transition(state.value, "reset", "", "CLOSED", "counts set to 0, no longer forced")
        for state in CircuitBreakerState
    ),
    Transition("OPEN", "call", "forced", "OPEN", "rejected"),
    Transition("CLOSED", "failure", "forced", "CLOSED", "not counted"),
)


class GuardedBreakerSnapshot(NamedTuple):
    """What a guarded breaker holds about one target.

    Attributes:
        state: the state as stored; an OPEN target whose cooldown is over still reads OPEN until a call arrives.
        failures: consecutive failures while CLOSED (the threshold after a failed probe).
        successes: consecutive successful probes towards closing.
        probing: whether the probe's slot is taken; it reads so past `probe_hold`, until another probe takes it.
        changed_at: when the state last changed, in the clock's seconds; 0.0 for a CLOSED target.
        forced: whether a person holds it in this state.
    """

    state: CircuitBreakerState
    failures: int
    successes: int
    probing: bool
    changed_at: float
    forced: bool


FRESH = GuardedBreakerSnapshot(CLOSED, 0, 0, False, 0.0, False)


class Record:
    """What is kept of a target that has failed or was open.

    Attributes:
        since: the generation that its last change of state began; 0 while it was never other than CLOSED.
        owner: the permit's generation that holds the probe's slot; 0 while it is free.
        until: when the hold ends, in the clock's seconds.
    """

    __slots__ = ("changed_at", "failures", "forced", "owner", "since", "state", "successes", "until")

    def __init__(self) -> None:
        self.state = CLOSED
        self.failures = 0
        self.successes = 0
        self.changed_at = 0.0
        self.since = 0
        self.owner = 0
        self.until = 0.0
        self.forced = False


class GuardedCircuitBreakerPolicy:
    """The machine, for any number of targets.

    Args:
        failure_threshold: consecutive failures that open it, above 0.
        cooldown_period: seconds that OPEN lasts at least, above 0.
        half_open_success_threshold: consecutive successful probes that close it, above 0.
        probe_hold: seconds that a probe may hold the slot, above 0.
        idle_period: seconds after which a CLOSED target that nothing has touched is forgotten, above 0.

    Attributes:
        entries: the targets that are kept; see the module's words on it.
        idle: the CLOSED ones among them, longest untouched first, with when they were last touched.
        generation: the number that an ordinary permit carries.

    Example:
        >>> policy = GuardedCircuitBreakerPolicy(failure_threshold=1, cooldown_period=30.0)
        >>> early = policy.admit("parts", now=0.0)
        >>> policy.settle("parts", policy.admit("parts", now=0.0), Outcome.FAILURE, now=1.0)
        >>> policy.admit("parts", now=2.0)
        Rejection(target='parts', retry_after=29.0)
        >>> probe = policy.admit("parts", now=31.0)
        >>> policy.settle("parts", probe, Outcome.SUCCESS, now=31.5)
        >>> policy.settle("parts", early, Outcome.FAILURE, now=32.0)  # of the period before: dropped
        >>> policy.snapshot("parts").state.value, policy.snapshot("parts").failures
        ('CLOSED', 0)
    """

    __slots__ = (
        "_forgotten",
        "cooldown_period",
        "entries",
        "failure_threshold",
        "generation",
        "half_open_success_threshold",
        "idle",
        "idle_period",
        "probe_hold",
    )

    def __init__(
        self,
        failure_threshold: int = 3,
        cooldown_period: float = 60.0,
        half_open_success_threshold: int = 1,
        *,
        probe_hold: float = 60.0,
        idle_period: float = 600.0,
    ) -> None:
        self.failure_threshold = failure_threshold
        self.cooldown_period = cooldown_period
        self.half_open_success_threshold = half_open_success_threshold
        self.probe_hold = probe_hold
        self.idle_period = idle_period
        self.entries: dict[str, Record] = {}
        self.idle: OrderedDict[str, float] = OrderedDict()
        self.generation = 0
        self._forgotten = 0  # the latest `since` of the records that are forgotten

    def admit(self, target: str, now: float, inside: Collection[int] = ()) -> GenerationPermit | Rejection:
        """Decide whether a call may go to the target now.

        Args:
            target: whom it is meant for.
            now: the clock's seconds.
            inside: the generations of the probes that the call comes from.
        """
        self.forget(now)
        record = self.entries.get(target)
        if record is None or record.state is CLOSED:
            return self.ordinary
        if record.forced:
            return Rejection(target, None)
        if record.state is OPEN:
            rest = self.rest(record, now)
            if rest > 0.0:
                return Rejection(target, rest)
            self._change(target, record, HALF_OPEN, now)
        elif record.owner in inside:
            return self.ordinary
        elif record.owner and now < record.until:
            return Rejection(target, None)
        self.generation += 1
        record.owner = self.generation
        record.until = now + self.probe_hold
        return GenerationPermit(PROBE, record.owner)

    def rest(self, record: Record, now: float) -> float:
        """Seconds of the cooldown that are still to go: above 0 while every call is rejected."""
        if record.state is OPEN and not record.forced:
            elapsed = now - record.changed_at  # elapsed time is what the toolkit compares; a sum would round otherwise
            if elapsed < self.cooldown_period:
                return self.cooldown_period - elapsed
        return 0.0

    # -- what would happen, without making it happen

    @property
    def ordinary(self) -> GenerationPermit:
        """The permit of a call that is admitted as ordinary traffic now."""
        return GenerationPermit(ORDINARY, self.generation)

    def state(self, target: str) -> CircuitBreakerState:
        """The state as stored: OPEN reads OPEN until a call arrives after the cooldown."""
        record = self.entries.get(target)
        return CLOSED if record is None else record.state

    def would_reject(self, target: str, at: float) -> bool:
        """Whether a call that arrived at that time would be rejected, if nothing happens until then.

        A call from inside the probe that holds the slot is admitted all the same.
        """
        record = self.entries.get(target)
        if record is None or record.state is CLOSED:
            return False
        held = record.state is HALF_OPEN and bool(record.owner) and at < record.until
        return held or record.forced or self.rest(record, at) > 0.0

    def at_rest(self, target: str) -> bool:
        """Whether a call would be admitted as ordinary traffic and its success would change nothing.

        Never while a person holds it in a state: then not even a failure would.
        """
        record = self.entries.get(target)
        return record is None or (record.state is CLOSED and not record.failures and not record.forced)

    def timer_end(self, target: str) -> float:
        """When the cooldown of an OPEN target ends, in the clock's seconds; infinite for any other, a forced one too.

        A sum, which may be off by a rounding: `would_reject` is exact.
        """
        record = self.entries.get(target)
        if record is not None and record.state is OPEN and not record.forced:
            return record.changed_at + self.cooldown_period
        return inf

    # -- the end of a call

    def holds(self, target: str, permit: GenerationPermit) -> bool:
        """Whether a probe's permit still has the slot: then its outcome decides."""
        record = self.entries.get(target)
        return record is not None and permit.kind is PROBE and record.owner == permit.generation

    def settle(self, target: str, permit: GenerationPermit, outcome: Outcome, now: float) -> None:
        """Account for the end of an admitted call; whatever comes late, or a second time from a probe, is dropped.

        Args:
            target: whose state it is.
            permit: what admission gave the call.
            outcome: how it ended.
            now: seconds.
        """
        if permit.kind is PROBE:
            if self.holds(target, permit):
                self._settle_probe(target, outcome, now)
        elif outcome is SUCCESS:
            self._succeeded(target, permit)
        elif outcome is FAILURE:
            self._failed(target, permit, now)
        self.forget(now)

    def _settle_probe(self, target: str, outcome: Outcome, now: float) -> None:
        record = self.entries[target]
        record.owner = 0
        if outcome is SUCCESS:
            record.successes += 1
            if record.successes >= self.half_open_success_threshold:
                self._change(target, record, CLOSED, now)
        elif outcome is FAILURE:
            self._change(target, record, OPEN, now)
            record.failures = self.failure_threshold

    def _succeeded(self, target: str, permit: GenerationPermit) -> None:
        record = self.entries.get(target)
        if record is not None and self._counts(record, permit):
            if record.since:
                record.failures = 0
            else:  # CLOSED since ever, without failures: as good as never seen
                del self.entries[target], self.idle[target]

    def _failed(self, target: str, permit: GenerationPermit, now: float) -> None:
        record = self.entries.get(target)
        if record is None:
            if permit.generation < self._forgotten:
                return
            record = self.entries[target] = Record()
        elif not self._counts(record, permit):
            return
        record.failures += 1
        if record.failures >= self.failure_threshold:
            self._change(target, record, OPEN, now)
        else:
            self._touch(target, now)

    def _counts(self, record: Record, permit: GenerationPermit) -> bool:
        return record.state is CLOSED and not record.forced and permit.generation >= record.since

    def _change(self, target: str, record: Record, state: CircuitBreakerState, now: float) -> None:
        self.generation += 1
        record.since = self.generation
        record.state = state
        record.changed_at = now
        record.successes = record.owner = 0
        if state is CLOSED:
            record.failures = 0
            self._touch(target, now)
        else:
            self.idle.pop(target, None)

    # -- by hand

    def force_open(self, target: str, now: float) -> None:
        """Reject every call until somebody closes or resets the target; whatever is in flight no longer counts."""
        record = self._record(target)
        self._change(target, record, OPEN, now)
        record.forced = True

    def force_close(self, target: str, now: float) -> None:
        """Admit every call and count none, until somebody opens or resets the target."""
        record = self._record(target)
        self._change(target, record, CLOSED, now)
        record.forced = True
        del self.idle[target]  # a decision of a person's is not forgotten

    def reset(self, target: str, now: float) -> None:
        """Begin anew: CLOSED, without counts, not forced; whatever is in flight no longer counts."""
        record = self._record(target)
        record.forced = False
        self._change(target, record, CLOSED, now)

    def _record(self, target: str) -> Record:
        record = self.entries.get(target)
        if record is None:
            record = self.entries[target] = Record()
        return record

    # -- memory

    def _touch(self, target: str, now: float) -> None:
        self.idle[target] = now
        self.idle.move_to_end(target)

    def forget(self, now: float) -> None:
        """Forget a few CLOSED targets that nothing has touched for `idle_period` seconds."""
        idle = self.idle
        for _ in range(_FORGET):
            if not idle:
                return
            target = next(iter(idle))
            if now - idle[target] < self.idle_period:
                return
            del idle[target]
            self._forgotten = max(self._forgotten, self.entries.pop(target).since)

    def snapshot(self, target: str) -> GuardedBreakerSnapshot:
        """What is held about a target; asking does not create it."""
        record = self.entries.get(target)
        if record is None:
            return FRESH
        return GuardedBreakerSnapshot(
            record.state,
            record.failures,
            record.successes,
            bool(record.owner),
            0.0 if record.state is CLOSED else record.changed_at,
            record.forced,
        )
