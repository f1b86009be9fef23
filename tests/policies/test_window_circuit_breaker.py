"""The breaker that counts over time: its table equals its code, and its counts equal those of a plain list."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest

from labkit.errors import ConfigError
from labkit.policies import (
    CircuitBreakerState,
    GenerationPermit,
    Outcome,
    Permit,
    Rejection,
    Transition,
    WindowBreakerSnapshot,
    WindowCircuitBreakerPolicy,
)
from labkit.policies.window_circuit_breaker import BUCKETS, TRANSITIONS

CLOSED, OPEN, HALF_OPEN = CircuitBreakerState.CLOSED, CircuitBreakerState.OPEN, CircuitBreakerState.HALF_OPEN
FRESH = WindowBreakerSnapshot(CLOSED, 0, 0, 0, 0, 0.0, 10.0)
CAP = 25.0
BY_INTERVAL: list[dict[str, Any]] = [
    {"failure_threshold": 1, "interval": 8.0},
    {"failure_threshold": 3, "interval": 4.0, "half_open_requests": 2, "half_open_successes": 3},
]
BY_RATE: list[dict[str, Any]] = [
    {"failure_rate": 0.5, "window": 10.0, "minimum_calls": 3, "half_open_requests": 3},
    {"failure_rate": 1.0, "window": 20.0, "minimum_calls": 2, "half_open_successes": 2},
]


def policy(**fields: Any) -> WindowCircuitBreakerPolicy:
    """A policy whose OPEN lasts 10 s, then 20 s, then 25 s."""
    return WindowCircuitBreakerPolicy(**{"open_duration": 10.0, "open_factor": 2.0, "max_open_duration": CAP, **fields})


def fail(breaker: WindowCircuitBreakerPolicy, now: float, times: int = 1, target: str = "t") -> None:
    """Let ordinary calls fail."""
    for _ in range(times):
        end(breaker, Outcome.FAILURE, now, target)


def end(breaker: WindowCircuitBreakerPolicy, outcome: Outcome, now: float, target: str = "t") -> None:
    """Let a call begin and end at once."""
    permit = breaker.admit(target, now)
    assert isinstance(permit, GenerationPermit)
    breaker.settle(target, permit, outcome, now)


# -- the table -------------------------------------------------------------------------------------------------------


class Observed(NamedTuple):
    """One step, as somebody saw it who keeps a list of everything."""

    config: dict[str, Any]
    trigger: str
    before: WindowBreakerSnapshot
    after: WindowBreakerSnapshot
    now: float
    timer_over: bool
    late: bool = False
    answer: GenerationPermit | Rejection | None = None
    failed: bool = False

    @property
    def by_rate(self) -> bool:
        return "failure_rate" in self.config

    @property
    def rate_reached(self) -> bool:
        calls, failures = self.before.calls + 1, self.before.failures + self.failed
        return calls >= self.config["minimum_calls"] and failures / calls >= self.config["failure_rate"]

    def setting(self, name: str) -> int:
        return int(self.config.get(name, 1))


GUARDS: dict[str, Callable[[Observed], bool]] = {
    "": lambda step: True,
    "failures per interval": lambda step: not step.by_rate,
    "calls + 1 < minimum_calls, or the rate stays below failure_rate": lambda step: (
        step.by_rate and not step.rate_reached
    ),
    "calls + 1 >= minimum_calls and the rate reaches failure_rate": lambda step: step.by_rate and step.rate_reached,
    "failures + 1 < failure_threshold": lambda step: (
        not step.by_rate and step.before.failures + 1 < step.setting("failure_threshold")
    ),
    "failures + 1 >= failure_threshold": lambda step: (
        not step.by_rate and step.before.failures + 1 >= step.setting("failure_threshold")
    ),
    "the interval ends": lambda step: not step.by_rate,
    "outcomes leave the window": lambda step: step.by_rate,
    "the timer runs": lambda step: not step.timer_over,
    "the timer is over": lambda step: step.timer_over,
    "probes in flight < half_open_requests": lambda step: step.before.probes < step.setting("half_open_requests"),
    "probes in flight >= half_open_requests": lambda step: step.before.probes >= step.setting("half_open_requests"),
    "successes + 1 < half_open_successes": lambda step: step.before.successes + 1 < step.setting("half_open_successes"),
    "successes + 1 >= half_open_successes": lambda step: (
        step.before.successes + 1 >= step.setting("half_open_successes")
    ),
    "the probe": lambda step: True,
}


def opened(step: Observed, failures: int, calls: int) -> WindowBreakerSnapshot:
    """What is held once it has opened from CLOSED."""
    return WindowBreakerSnapshot(OPEN, failures, calls, 0, 0, step.now, 10.0)


EFFECTS: dict[str, Callable[[WindowBreakerSnapshot, WindowBreakerSnapshot, Observed], bool]] = {
    "admitted": lambda old, new, step: kind(step) is Permit.ORDINARY and new == old,
    "rejected": lambda old, new, step: isinstance(step.answer, Rejection) and new == old,
    "not counted": lambda old, new, step: new == old,
    "dropped": lambda old, new, step: new == old,
    "calls + 1": lambda old, new, step: new == old._replace(calls=old.calls + 1),
    "calls + 1, the timer starts": lambda old, new, step: new == opened(step, old.failures, old.calls + 1),
    "failures + 1": lambda old, new, step: new == old._replace(failures=old.failures + 1),
    "failures + 1, the timer starts": lambda old, new, step: new == opened(step, old.failures + 1, 0),
    "calls + 1, failures + 1": lambda old, new, step: (
        new == old._replace(calls=old.calls + 1, failures=old.failures + 1)
    ),
    "calls + 1, failures + 1, the timer starts": lambda old, new, step: (
        new == opened(step, old.failures + 1, old.calls + 1)
    ),
    "failures = 0": lambda old, new, step: old.failures > 0 and new == old._replace(failures=0),
    "no longer counted": lambda old, new, step: (
        new.calls < old.calls and new == old._replace(calls=new.calls, failures=new.failures)
    ),
    "admitted as a probe, successes = 0": lambda old, new, step: (
        kind(step) is Permit.PROBE and new == old._replace(state=HALF_OPEN, probes=1, successes=0, changed_at=step.now)
    ),
    "admitted as a probe": lambda old, new, step: (
        kind(step) is Permit.PROBE and new == old._replace(probes=old.probes + 1)
    ),
    "successes + 1": lambda old, new, step: new == old._replace(successes=old.successes + 1, probes=old.probes - 1),
    "counts set to 0, the next timer is open_duration": lambda old, new, step: new == FRESH,
    "the timer starts, longer by open_factor, at most max_open_duration": lambda old, new, step: (
        new == old._replace(state=OPEN, probes=0, changed_at=step.now, open_duration=min(CAP, 2.0 * old.open_duration))
    ),
    "slot freed, not counted": lambda old, new, step: new == old._replace(probes=old.probes - 1),
}


def kind(step: Observed) -> Permit | None:
    """As what a call was admitted."""
    return step.answer.kind if isinstance(step.answer, GenerationPermit) else None


def row_of(step: Observed) -> Transition:
    """The one row that a step is."""
    found = [
        row
        for row in TRANSITIONS
        if (row.source, row.trigger) == (step.before.state, step.trigger) and GUARDS[row.guard](step)
    ]
    assert len(found) == 1, f"{step} is {len(found)} rows: {found}"
    return found[0]


@dataclass
class Walk:
    """A random history of one breaker, watched by somebody who keeps every outcome in a list."""

    config: dict[str, Any]
    seed: int

    def __iter__(self) -> Iterator[Observed]:
        draw = random.Random(self.seed)
        breaker = policy(**self.config)
        width = self.config["window"] / BUCKETS if "window" in self.config else self.config["interval"]
        kept = BUCKETS if "window" in self.config else 1
        outcomes: list[tuple[float, bool]] = []  # since it was last CLOSED anew
        flights: list[tuple[GenerationPermit, int]] = []  # with the period in which each was admitted
        now, period = 0.0, 0
        for _ in range(400):
            before = breaker.snapshot("t", now)
            over = before.state is OPEN and now - before.changed_at >= before.open_duration
            choice = draw.random()
            if choice < 0.4:
                answer = breaker.admit("t", now)
                after = breaker.snapshot("t", now)
                yield Observed(self.config, "call", before, after, now, over, answer=answer)
                period += after.state is not before.state
                if isinstance(answer, GenerationPermit):
                    flights.append((answer, period))
            elif choice < 0.75 and flights:
                permit, begun = flights.pop(draw.randrange(len(flights)))
                outcome = draw.choices(list(Outcome), weights=(4, 4, 1))[0]
                breaker.settle("t", permit, outcome, now)
                after = breaker.snapshot("t", now)
                late = begun != period
                probe = "probe " if permit.kind is Permit.PROBE and outcome is not Outcome.CANCELLED else ""
                trigger = "late outcome" if late else probe + outcome.value
                failed = outcome is Outcome.FAILURE
                yield Observed(self.config, trigger, before, after, now, over, late, failed=failed)
                if before.state is CLOSED and not late and outcome is not Outcome.CANCELLED:
                    outcomes.append((now, failed))
                if after.state is not before.state:
                    period += 1
                    outcomes = outcomes if after.state is not CLOSED else []
            else:
                now += draw.choice((0.5, 0.5, 1.0, 4.0, 12.5))
                after = breaker.snapshot("t", now)
                if after != before:
                    yield Observed(self.config, "time", before, after, now, over)
            if breaker.snapshot("t", now).state is CLOSED:  # the ring of buckets holds what the list does
                young = [failed for at, failed in outcomes if now // width - at // width < kept]
                held = breaker.snapshot("t", now)
                assert (held.failures, held.calls) == (sum(young), len(young) if kept > 1 else 0)


@pytest.mark.parametrize("config", [*BY_INTERVAL, *BY_RATE], ids=str)
def test_every_step_is_a_row(config: dict[str, Any]) -> None:
    """Whatever happens on a random history is exactly one row of the table, with its target and effect."""
    count = 0
    for seed in range(30):
        for step in Walk(config, seed):
            row = row_of(step)
            assert step.after.state == row.target, (row, step)
            assert EFFECTS[row.effect](step.before, step.after, step), (row, step)
            count += 1
    assert count > 5000


def test_every_row_is_a_step() -> None:
    """No row of the table is there in vain: random histories reach each of them."""
    walks = (Walk(config, seed) for config in (*BY_INTERVAL, *BY_RATE) for seed in range(30))
    assert set(TRANSITIONS) - {row_of(step) for walk in walks for step in walk} == set()
    assert len(set(TRANSITIONS)) == len(TRANSITIONS)


def test_every_text_is_used() -> None:
    """The guards and effects that this file can judge are those of the table, no more and no fewer."""
    assert set(GUARDS) == {row.guard for row in TRANSITIONS}
    assert set(EFFECTS) == {row.effect for row in TRANSITIONS}


# -- counting --------------------------------------------------------------------------------------------------------


def test_successes_between_failures_do_not_help() -> None:
    """Thirty failures within a minute open it, however many successes stand between them."""
    breaker = policy(failure_threshold=30, interval=60.0)
    for second in range(29):
        fail(breaker, float(second))
        end(breaker, Outcome.SUCCESS, second + 0.5)
    assert breaker.snapshot("t", 29.0).state is CLOSED
    fail(breaker, 29.0)
    assert breaker.snapshot("t", 29.0)[:3] == (OPEN, 30, 0)


def test_an_interval_begins_with_nothing() -> None:
    """Failures on the two sides of an interval's end do not meet, close as they may be."""
    breaker = policy(failure_threshold=3, interval=60.0)
    fail(breaker, 59.9, times=2)
    fail(breaker, 60.0, times=2)
    assert breaker.snapshot("t", 60.0)[:2] == (CLOSED, 2)
    fail(breaker, 119.9)
    assert breaker.snapshot("t", 119.9).state is OPEN


def test_a_window_slides() -> None:
    """The same failures do meet in a sliding window, until they are as old as the window."""
    breaker = policy(failure_rate=1.0, window=60.0, minimum_calls=4)
    fail(breaker, 59.9, times=2)
    fail(breaker, 60.0)
    assert breaker.snapshot("t", 113.9)[:3] == (CLOSED, 3, 3)
    assert breaker.snapshot("t", 114.0)[:3] == (CLOSED, 1, 1)  # the bucket from 54 s on has left
    assert breaker.snapshot("t", 120.0)[:3] == (CLOSED, 0, 0)
    fail(breaker, 170.0, times=4)
    assert breaker.snapshot("t", 170.0).state is OPEN


def test_a_rate_needs_enough_calls() -> None:
    """Nine failures of nine do not open a breaker that wants ten calls; the tenth call does, even a success."""
    breaker = policy(failure_rate=0.5, window=60.0)
    fail(breaker, 1.0, times=9)
    assert breaker.snapshot("t", 1.0).state is CLOSED
    end(breaker, Outcome.SUCCESS, 1.0)
    assert breaker.snapshot("t", 1.0)[:3] == (OPEN, 9, 10)


@pytest.mark.parametrize(("failures", "calls"), [(1, 10), (3, 30), (7, 70)])
def test_a_rate_that_is_just_reached_opens_it(failures: int, calls: int) -> None:
    """A tenth is a tenth: no rounding keeps 3 of 30 below a rate of 0.1, and one failure less is below it."""
    for failed, state in ((failures, OPEN), (failures - 1, CLOSED)):
        breaker = policy(failure_rate=0.1, window=60.0, minimum_calls=calls)
        for call in range(calls):
            end(breaker, Outcome.SUCCESS if call < calls - failed else Outcome.FAILURE, 1.0)
        assert breaker.snapshot("t", 1.0).state is state


def test_memory_does_not_grow_with_traffic() -> None:
    """A million outcomes take what ten take."""
    breaker = policy(failure_rate=1.0, window=10.0, minimum_calls=10)
    sizes = []
    for count in (10, 100_000):
        for call in range(count):
            breaker.settle("t", breaker.ordinary, Outcome.SUCCESS, call / 100.0)
        counter = breaker.entries["t"].counter
        sizes.append((len(counter._calls), len(counter._failures), len(breaker.entries)))
    assert sizes == [(BUCKETS, BUCKETS, 1)] * 2


def test_targets_that_are_quiet_are_forgotten() -> None:
    """Targets of which nothing is counted any more leave memory; those that are OPEN or counted stay."""
    breaker = policy(failure_threshold=2, interval=10.0, open_duration=1e9, max_open_duration=None)
    fail(breaker, 0.0, times=2, target="open")
    for number in range(100_000):
        fail(breaker, number / 100.0, target=f"t{number}")
    assert len(breaker.entries) <= 4000  # a thousand a interval are young
    assert breaker.snapshot("open", 1000.0).state is OPEN
    assert breaker.snapshot("t99999", 999.99).failures == 1


def test_forgetting_others_changes_no_count_of_those_that_stay() -> None:
    """In the middle of a part of the window too: what leaves the window later leaves it then."""
    breaker = policy(failure_rate=1.0, window=10.0, minimum_calls=3)
    fail(breaker, 4.5, times=2)
    for number in range(1001):
        fail(breaker, 13.5, target=f"t{number}")
    assert breaker.snapshot("t", 13.5).failures == 2
    fail(breaker, 14.2)
    assert breaker.snapshot("t", 14.2).failures == 1


def test_forgetting_is_seldom_where_nothing_can_be_forgotten() -> None:
    """All targets are looked through when they have doubled in number, not at each new one."""

    class Counting(WindowCircuitBreakerPolicy):
        looked = 0

        def _tidy(self, now: float) -> None:
            Counting.looked += 1
            super()._tidy(now)

    breaker = Counting(failure_threshold=2, interval=10.0)
    for number in range(8000):
        fail(breaker, 1.0, target=f"t{number}")
    assert len(breaker.entries) == 8000
    assert Counting.looked <= 4


def test_a_forgotten_target_drops_what_began_before() -> None:
    """A call that began before its target opened, closed and was forgotten says nothing about the target now."""
    breaker = policy(failure_threshold=1, interval=10.0)
    old = breaker.admit("t", 0.0)
    assert isinstance(old, GenerationPermit)
    fail(breaker, 0.0)
    end(breaker, Outcome.SUCCESS, 10.0)
    for number in range(1001):
        breaker.settle(f"t{number}", breaker.ordinary, Outcome.FAILURE, 15.0)
    assert "t" not in breaker.entries
    breaker.settle("t", old, Outcome.FAILURE, 16.0)
    assert breaker.snapshot("t", 16.0).state is CLOSED


# -- the timer and the probes ----------------------------------------------------------------------------------------


def test_the_timer_grows_until_it_closes() -> None:
    """Each failed probe makes OPEN longer up to the cap; once it has closed, it begins anew."""
    breaker = policy(failure_threshold=1, interval=60.0)
    now, lasted = 0.0, []
    for outcome in (Outcome.FAILURE,) * 4 + (Outcome.SUCCESS, Outcome.FAILURE, Outcome.FAILURE):
        end(breaker, outcome, now)
        answer = breaker.admit("t", now) if outcome is Outcome.FAILURE else None
        if isinstance(answer, Rejection):
            assert answer.retry_after is not None
            lasted.append(answer.retry_after)
            now += answer.retry_after
    assert lasted == [10.0, 20.0, 25.0, 25.0, 10.0, 20.0]


def test_a_timer_may_grow_for_ever() -> None:
    """Without a cap hundreds of failed probes make the timer endless, and no error."""
    breaker = policy(failure_threshold=1, interval=60.0, open_factor=10.0, max_open_duration=None)
    fail(breaker, 0.0)
    now = 0.0
    for _ in range(400):
        now += 3.0 * breaker.snapshot("t", now).open_duration
        probe = breaker.admit("t", now)
        assert isinstance(probe, GenerationPermit)
        breaker.settle("t", probe, Outcome.FAILURE, now)
    assert (breaker.snapshot("t", now).state, breaker.snapshot("t", now).open_duration) == (OPEN, math.inf)


def test_probes_in_flight_are_limited() -> None:
    """Of ten calls at the end of the timer three are probes and seven are rejected, without a time to come back."""
    breaker = policy(failure_threshold=1, interval=60.0, half_open_requests=3)
    fail(breaker, 0.0)
    answers = [breaker.admit("t", 10.0) for _ in range(10)]
    assert [answer.kind for answer in answers if isinstance(answer, GenerationPermit)] == [Permit.PROBE] * 3
    assert answers[3:] == [Rejection("t", None)] * 7


def test_an_outcome_of_an_earlier_period_is_dropped() -> None:
    """A probe of the last half-open period neither decides this one nor frees a slot in it."""
    breaker = policy(failure_threshold=1, interval=60.0, half_open_requests=2)
    fail(breaker, 0.0)
    first, second = (breaker.admit("t", 10.0) for _ in range(2))
    assert isinstance(first, GenerationPermit)
    assert isinstance(second, GenerationPermit)
    breaker.settle("t", first, Outcome.FAILURE, 11.0)
    assert isinstance(breaker.admit("t", 31.0), GenerationPermit)
    held = breaker.snapshot("t", 31.0)
    for outcome in Outcome:
        breaker.settle("t", second, outcome, 32.0)
        assert breaker.snapshot("t", 32.0) == held


def test_an_ordinary_call_frees_no_probe() -> None:
    """A call of the time before it opened, cancelled while a probe is in flight, leaves the probe its slot."""
    breaker = policy(failure_threshold=1, interval=60.0)
    old = breaker.admit("t", 0.0)
    assert isinstance(old, GenerationPermit)
    fail(breaker, 0.0)
    breaker.admit("t", 10.0)
    breaker.settle("t", old, Outcome.CANCELLED, 11.0)
    assert breaker.admit("t", 11.0) == Rejection("t", None)


def test_targets_do_not_mix() -> None:
    """What one target does changes nothing for another, nor for its calls in flight."""
    breaker = policy(failure_threshold=1, interval=60.0)
    mine = breaker.admit("mine", 0.0)
    assert isinstance(mine, GenerationPermit)
    fail(breaker, 1.0, target="other")
    breaker.settle("mine", mine, Outcome.FAILURE, 2.0)
    assert breaker.snapshot("mine", 2.0).state is OPEN


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"failure_threshold": 3},
        {"interval": 60.0},
        {"failure_rate": 0.5},
        {"failure_threshold": 3, "interval": 60.0, "failure_rate": 0.5, "window": 60.0},
    ],
    ids=str,
)
def test_it_counts_in_one_way(fields: dict[str, Any]) -> None:
    """Neither way, both, or half of one is refused in a sentence that names the two."""
    with pytest.raises(ConfigError, match="'failure_threshold' and 'interval', or 'failure_rate' and 'window'"):
        policy(**fields)
