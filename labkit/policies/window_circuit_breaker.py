"""A breaker that counts over time: failures per interval, or the failure rate of a sliding window. labkit's own.

The rules, and nothing else: `now` is an argument, nothing waits, nothing is locked. Source of the pattern: Azure
Architecture Center, Circuit Breaker pattern (a counter that is reset periodically, a limited number of requests while
half open, a time-out that may grow).

How time is cut. The clock's time is cut into buckets of equal length, from its zero on, alike for every target and
replica. A fixed interval is one bucket: failures at its end and at the next one's beginning do not meet. A sliding
window is ten, so an outcome leaves it when it is between nine tenths of the window and the whole window old, and what
a target takes does not grow with its traffic.

How it is stored. A target that was never counted has no record; only a target whose record is not CLOSED can be refused
or be given a probe, and any other is admitted with `ordinary`. The shell need not ask in that case, which is nearly
always. Each change of state begins a new generation, numbered for all targets together, so that a target without a
record needs no number of its own.
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple

from labkit.errors import ConfigError
from labkit.policies._machine import CircuitBreakerState, GenerationPermit, Outcome, Permit, Rejection, Transition

__all__ = ["BUCKETS", "MINIMUM_CALLS", "TRANSITIONS", "WindowBreakerSnapshot", "WindowCircuitBreakerPolicy"]

CLOSED, OPEN, HALF_OPEN = CircuitBreakerState.CLOSED, CircuitBreakerState.OPEN, CircuitBreakerState.HALF_OPEN
SUCCESS, FAILURE, CANCELLED = Outcome.SUCCESS, Outcome.FAILURE, Outcome.CANCELLED

#: Into how many parts a sliding window is cut.
BUCKETS = 10

#: Calls that a sliding window must hold before its rate counts, where nothing else is said.
MINIMUM_CALLS = 10

_MANY = 1000  # from how many targets on it pays to tidy up

_BELOW = "calls + 1 < minimum_calls, or the rate stays below failure_rate"
_REACHED = "calls + 1 >= minimum_calls and the rate reaches failure_rate"

#: What a machine answers to what happens. `call` is an arrival; `success`, `failure` and `cancelled` end a call; a
#: *late outcome* is any of them with a permit of an earlier generation. The rows of `time` change counts only.
TRANSITIONS: tuple[Transition, ...] = (
    Transition("CLOSED", "call", "", "CLOSED", "admitted"),
    Transition("CLOSED", "success", "failures per interval", "CLOSED", "not counted"),
    Transition("CLOSED", "success", _BELOW, "CLOSED", "calls + 1"),
    Transition("CLOSED", "success", _REACHED, "OPEN", "calls + 1, the timer starts"),
    Transition("CLOSED", "failure", "failures + 1 < failure_threshold", "CLOSED", "failures + 1"),
    Transition("CLOSED", "failure", "failures + 1 >= failure_threshold", "OPEN", "failures + 1, the timer starts"),
    Transition("CLOSED", "failure", _BELOW, "CLOSED", "calls + 1, failures + 1"),
    Transition("CLOSED", "failure", _REACHED, "OPEN", "calls + 1, failures + 1, the timer starts"),
    Transition("CLOSED", "cancelled", "", "CLOSED", "not counted"),
    Transition("CLOSED", "time", "the interval ends", "CLOSED", "failures = 0"),
    Transition("CLOSED", "time", "outcomes leave the window", "CLOSED", "no longer counted"),
    Transition("CLOSED", "late outcome", "", "CLOSED", "dropped"),
    Transition("OPEN", "call", "the timer runs", "OPEN", "rejected"),
    Transition("OPEN", "call", "the timer is over", "HALF_OPEN", "admitted as a probe, successes = 0"),
    Transition("OPEN", "late outcome", "", "OPEN", "dropped"),
    Transition("HALF_OPEN", "call", "probes in flight < half_open_requests", "HALF_OPEN", "admitted as a probe"),
    Transition("HALF_OPEN", "call", "probes in flight >= half_open_requests", "HALF_OPEN", "rejected"),
    Transition("HALF_OPEN", "probe success", "successes + 1 < half_open_successes", "HALF_OPEN", "successes + 1"),
    Transition(
        "HALF_OPEN",
        "probe success",
        "successes + 1 >= half_open_successes",
        "CLOSED",
        "counts set to 0, the next timer is open_duration",
    ),
    Transition(
        "HALF_OPEN",
        "probe failure",
        "",
        "OPEN",
        "the timer starts, longer by open_factor, at most max_open_duration",
    ),
    Transition("HALF_OPEN", "cancelled", "the probe", "HALF_OPEN", "slot freed, not counted"),
    Transition("HALF_OPEN", "late outcome", "", "HALF_OPEN", "dropped"),
)


class WindowBreakerSnapshot(NamedTuple):
    """What a breaker holds about one target.

    Attributes:
        state: the state as stored; an OPEN target whose timer is over still reads OPEN until a call arrives.
        failures: those in the present interval or window; while not CLOSED, those that opened it.
        calls: those in the window that ended, the failures included; 0 when failures per interval are counted.
        successes: consecutive successful probes towards closing.
        probes: how many are in flight.
        changed_at: when the state last changed, in the clock's seconds; 0.0 for a CLOSED target.
        open_duration: seconds of the timer that runs or has run last; while CLOSED, of the first one.
    """

    state: CircuitBreakerState
    failures: int
    calls: int
    successes: int
    probes: int
    changed_at: float
    open_duration: float

    @property
    def probing(self) -> bool:
        """Whether a probe is in flight."""
        return self.probes > 0


class Counter:
    """Calls and failures of the last few buckets of time."""

    __slots__ = ("_calls", "_failures", "_last", "_place", "calls", "failures")

    def __init__(self, buckets: int) -> None:
        self.calls = self.failures = 0
        self._calls, self._failures = [0] * buckets, [0] * buckets
        self._last, self._place = 0.0, 0  # number of the newest bucket, and where it stands

    def advance(self, bucket: float) -> None:
        """Forget the buckets that are too old at this one."""
        size = len(self._calls)
        gone = bucket - self._last
        if gone <= 0.0:
            return
        for step in range(1, int(min(gone, size)) + 1):
            place = int((self._last + step) % size)
            self.calls -= self._calls[place]
            self.failures -= self._failures[place]
            self._calls[place] = self._failures[place] = 0
        self._last, self._place = bucket, int(bucket % size)

    def count(self, bucket: float, failed: bool) -> None:
        """Count a call in this bucket."""
        if bucket != self._last:
            self.advance(bucket)
        self.calls += 1
        self._calls[self._place] += 1
        if failed:
            self.failures += 1
            self._failures[self._place] += 1


class Record:
    """What is kept of a target: its counts while it is CLOSED, its timer and probes while it is not."""

    __slots__ = ("calls", "changed_at", "counter", "failures", "open_for", "probes", "since", "state", "successes")

    def __init__(self, since: int, open_for: float, buckets: int) -> None:
        self.state = CLOSED
        self.since = since  # the generation in which its present state began
        self.counter = Counter(buckets)
        self.failures = self.calls = 0  # as they were when it opened
        self.successes = self.probes = 0
        self.changed_at = 0.0
        self.open_for = open_for


class WindowCircuitBreakerPolicy:
    """The machine, for any number of targets. It counts in one of two ways.

    Args:
        failure_threshold: failures within one interval that open it, above 0.
        interval: seconds of an interval, at the end of which the count is 0 again, above 0.
        failure_rate: the share of failures in the window that opens it, above 0 and at most 1.
        window: seconds of the sliding window, above 0.
        minimum_calls: how many calls the window must hold before the rate counts, above 0; None: 10.
        open_duration: seconds that OPEN lasts at least, above 0.
        open_factor: by which a failed probe makes the next timer longer, at least 1; closing undoes it.
        max_open_duration: seconds that no timer exceeds, or None.
        half_open_requests: probes that may be in flight at once, above 0.
        half_open_successes: consecutive successful probes that close it, above 0.

    Attributes:
        entries: the targets that have a record; see the module's words on the contract.
        ordinary: the permit of every call that is admitted as ordinary traffic now.

    Raises:
        ConfigError: neither way of counting is given, or both, or one of them in half.

    Example:
        >>> policy = WindowCircuitBreakerPolicy(failure_threshold=2, interval=60.0, open_duration=30.0)
        >>> for second in (1.0, 2.0):
        ...     policy.settle("parts", policy.admit("parts", second), Outcome.FAILURE, second)
        >>> policy.admit("parts", now=3.0)
        Rejection(target='parts', retry_after=29.0)
        >>> policy.admit("parts", now=32.0)
        GenerationPermit(kind=<Permit.PROBE: 'probe'>, generation=2)
    """

    __slots__ = (
        "_buckets",
        "_forgotten",
        "_generation",
        "_probe",
        "_tidy_at",
        "_width",
        "entries",
        "failure_rate",
        "failure_threshold",
        "half_open_requests",
        "half_open_successes",
        "max_open_duration",
        "minimum_calls",
        "open_duration",
        "open_factor",
        "ordinary",
    )

    def __init__(
        self,
        failure_threshold: int | None = None,
        interval: float | None = None,
        *,
        failure_rate: float | None = None,
        window: float | None = None,
        minimum_calls: int | None = None,
        open_duration: float = 60.0,
        open_factor: float = 1.0,
        max_open_duration: float | None = None,
        half_open_requests: int = 1,
        half_open_successes: int = 1,
    ) -> None:
        given = tuple(one is not None for one in (failure_threshold, interval, failure_rate, window))
        if given not in ((True, True, False, False), (False, False, True, True)):
            raise ConfigError(
                "a window breaker takes 'failure_threshold' and 'interval', or 'failure_rate' and 'window'"
            )
        self.failure_threshold = failure_threshold
        self.failure_rate = failure_rate
        self.minimum_calls = MINIMUM_CALLS if minimum_calls is None else minimum_calls
        self.open_duration = open_duration
        self.open_factor = open_factor
        self.max_open_duration = inf if max_open_duration is None else max_open_duration
        self.half_open_requests = half_open_requests
        self.half_open_successes = half_open_successes
        self.entries: dict[str, Record] = {}
        self._buckets = 1 if window is None else BUCKETS
        self._width = (interval if window is None else window / BUCKETS) or 0.0
        self._forgotten = 0  # the newest generation among the records that were tidied away
        self._tidy_at = _MANY
        self._begin(0)

    def admit(self, target: str, now: float) -> GenerationPermit | Rejection:
        """Decide whether a call may go to the target now."""
        record = self.entries.get(target)
        if record is None or record.state is CLOSED:
            return self.ordinary
        if record.state is OPEN:
            rest = self.rest(record, now)
            if rest > 0.0:
                return Rejection(target, rest)
            record.successes = 0
            self._change(record, HALF_OPEN, now)
        elif record.probes >= self.half_open_requests:
            return Rejection(target, None)
        record.probes += 1
        return self._probe

    def rest(self, record: Record, now: float) -> float:
        """Seconds of the timer that are still to go: above 0 while every call is rejected."""
        if record.state is OPEN:
            elapsed = now - record.changed_at
            if elapsed < record.open_for:
                return record.open_for - elapsed
        return 0.0

    # -- what would happen, without making it happen

    def state(self, target: str) -> CircuitBreakerState:
        """The state as stored: OPEN reads OPEN until a call arrives after the timer."""
        record = self.entries.get(target)
        return CLOSED if record is None else record.state

    def would_reject(self, target: str, at: float) -> bool:
        """Whether a call that arrived at that time would be rejected, if nothing happens until then."""
        record = self.entries.get(target)
        if record is None or record.state is CLOSED:
            return False
        return self.rest(record, at) > 0.0 or (record.state is HALF_OPEN and record.probes >= self.half_open_requests)

    def at_rest(self, target: str) -> bool:
        """Whether a call would be admitted as ordinary traffic and its success would change nothing.

        Never where a rate is watched: there a success is counted too.
        """
        return self.failure_rate is None and self.state(target) is CLOSED

    def timer_end(self, target: str) -> float:
        """When the timer of an OPEN target ends, in the clock's seconds; infinite for any other.

        A sum, which may be off by a rounding: `would_reject` is exact.
        """
        record = self.entries.get(target)
        if record is not None and record.state is OPEN:
            return record.changed_at + record.open_for
        return inf

    # -- the end of a call

    def settle(self, target: str, permit: GenerationPermit, outcome: Outcome, now: float) -> None:
        """Account for the end of an admitted call. Call it once for a permit.

        Args:
            target: whose state it is.
            permit: what admission gave the call.
            outcome: how it ended.
            now: seconds.
        """
        record = self.entries.get(target)
        if permit.generation < (self._forgotten if record is None else record.since):
            return  # of an earlier period: it says nothing about this one, and holds no slot in it
        if record is None or record.state is CLOSED:
            if outcome is not CANCELLED:
                self._count(target, record, outcome is FAILURE, now)
            return
        record.probes -= 1
        if outcome is FAILURE:
            record.open_for = min(record.open_for * self.open_factor, self.max_open_duration)
            self._change(record, OPEN, now)
        elif outcome is SUCCESS:
            record.successes += 1
            if record.successes >= self.half_open_successes:
                record.open_for = self._first_timer()
                record.counter = Counter(self._buckets)
                record.successes = 0
                self._change(record, CLOSED, now)

    def snapshot(self, target: str, now: float) -> WindowBreakerSnapshot:
        """What is held about a target; asking does not create it."""
        record = self.entries.get(target)
        if record is None:
            return WindowBreakerSnapshot(CLOSED, 0, 0, 0, 0, 0.0, self._first_timer())
        failures, calls, changed_at = record.failures, record.calls, record.changed_at
        if record.state is CLOSED:
            record.counter.advance(now // self._width)
            failures, calls, changed_at = record.counter.failures, record.counter.calls, 0.0
        if self.failure_rate is None:
            calls = 0
        return WindowBreakerSnapshot(
            record.state, failures, calls, record.successes, record.probes, changed_at, record.open_for
        )

    def _count(self, target: str, record: Record | None, failed: bool, now: float) -> None:
        rate = self.failure_rate
        if rate is None and not failed:
            return
        if record is None:
            if len(self.entries) >= self._tidy_at:
                self._tidy(now)
            record = self.entries[target] = Record(self._forgotten, self._first_timer(), self._buckets)
        counter = record.counter
        counter.count(now // self._width, failed)
        if rate is not None:
            reached = counter.calls >= self.minimum_calls and counter.failures / counter.calls >= rate
        else:
            reached = counter.failures >= (self.failure_threshold or 0)
        if reached:
            record.failures, record.calls = counter.failures, counter.calls
            self._change(record, OPEN, now)

    def _change(self, record: Record, state: CircuitBreakerState, now: float) -> None:
        record.state = state
        record.changed_at = now
        record.probes = 0  # those that are still in flight are late from now on
        self._begin(self._generation + 1)
        record.since = self._generation

    def _begin(self, generation: int) -> None:
        self._generation = generation
        self.ordinary = GenerationPermit(Permit.ORDINARY, generation)
        self._probe = GenerationPermit(Permit.PROBE, generation)

    def _first_timer(self) -> float:
        return min(self.open_duration, self.max_open_duration)

    def _tidy(self, now: float) -> None:
        """Forget the CLOSED targets of which nothing is counted any more: as good as never seen."""
        bucket = now // self._width
        for target, record in list(self.entries.items()):
            if record.state is CLOSED:
                record.counter.advance(bucket)
                if record.counter.calls == 0:
                    del self.entries[target]
                    self._forgotten = max(self._forgotten, record.since)
        self._tidy_at = max(_MANY, 2 * len(self.entries))
