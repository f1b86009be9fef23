"""The guarded breaker's table equals its code: every step that can be taken is a row, and every row is such a step."""

from __future__ import annotations

import copy
import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest

from labkit.policies import (
    CircuitBreakerState,
    GenerationPermit,
    GuardedBreakerSnapshot,
    GuardedCircuitBreakerPolicy,
    Outcome,
    Permit,
    Rejection,
)
from labkit.policies.guarded_circuit_breaker import TRANSITIONS, Transition

CLOSED, OPEN, HALF_OPEN = CircuitBreakerState.CLOSED, CircuitBreakerState.OPEN, CircuitBreakerState.HALF_OPEN
COOLDOWN, HOLD = 10.0, 30.0
FRESH = GuardedBreakerSnapshot(CLOSED, 0, 0, False, 0.0, False)
CONFIGS = [(threshold, successes) for threshold in (1, 2, 3) for successes in (1, 2)]


@dataclass
class World:
    """A breaker, the calls in flight through it, and what a careful observer knows about them."""

    policy: GuardedCircuitBreakerPolicy
    now: float = 0.0
    period: int = 0  # one up at each change of state
    flying: list[tuple[GenerationPermit, int]] = field(default_factory=list)  # and the period of their admission
    owner: GenerationPermit | None = None  # whose probe holds the slot
    held_since: float = 0.0

    @property
    def held(self) -> GuardedBreakerSnapshot:
        """What the breaker holds."""
        return self.policy.snapshot("t")

    def key(self) -> object:
        """What distinguishes this world from others, without absolute times and numbers."""
        held = self.held
        calls = sorted((permit.kind.value, self.fresh(permit, period)) for permit, period in self.flying)
        over = held.state is OPEN and self.now - held.changed_at >= COOLDOWN
        return (held[:4], held.forced, over, self.hold_over, tuple(calls))

    def fresh(self, permit: GenerationPermit, period: int) -> bool:
        """Whether its outcome may count."""
        return permit is self.owner if permit.kind is Permit.PROBE else period == self.period

    @property
    def hold_over(self) -> bool:
        """Whether the probe's hold has ended."""
        return self.owner is not None and self.now - self.held_since >= HOLD

    def copy(self) -> World:
        """The same, free to go another way."""
        return replace(self, policy=copy.deepcopy(self.policy), flying=list(self.flying))


@dataclass(frozen=True)
class Step:
    """One thing that happened, with the world before and after, and the rows of the table that say it."""

    trigger: str
    before: World
    after: World
    rows: list[Transition]


def rows(world: World, trigger: str) -> Iterator[Transition]:
    """The rows that apply."""
    held, policy = world.held, world.policy
    guards = {
        "": True,
        "forced": held.forced,
        "failures + 1 < failure_threshold": held.failures + 1 < policy.failure_threshold,
        "failures + 1 >= failure_threshold": held.failures + 1 >= policy.failure_threshold,
        "cooldown_period not over": world.now - held.changed_at < COOLDOWN,
        "cooldown_period over": world.now - held.changed_at >= COOLDOWN,
        "the slot is free": world.owner is None,
        "the slot is held": world.owner is not None and not world.hold_over,
        "the slot is held, probe_hold is over": world.hold_over,
        "from inside the probe that holds the slot": False,  # tested by itself
        "successes + 1 < half_open_success_threshold": held.successes + 1 < policy.half_open_success_threshold,
        "successes + 1 >= half_open_success_threshold": held.successes + 1 >= policy.half_open_success_threshold,
    }
    found = [row for row in TRANSITIONS if row.source == held.state and row.trigger == trigger and guards[row.guard]]
    forced = [row for row in found if row.guard == "forced"]
    yield from forced or found


EFFECTS = {
    "admitted": (0, 0),
    "rejected": (0, 0),
    "not counted": (0, 0),
    "dropped": (0, 0),
    "admitted as the probe": (0, 0),
    "admitted as the probe, successes = 0": (0, "zero"),
    "slot freed, not counted": (0, 0),
    "failures = 0": ("zero", 0),
    "failures + 1": (1, 0),
    "failures + 1, cooldown starts": (1, 0),
    "successes + 1": (0, 1),
    "counts set to 0": ("zero", "zero"),
    "failures = failure_threshold, cooldown starts": ("threshold", "zero"),
    "forced: every call rejected": (0, "zero"),
    "forced: nothing counted": ("zero", "zero"),
    "counts set to 0, no longer forced": ("zero", "zero"),
}


def expected(row: Transition, before: GuardedBreakerSnapshot, threshold: int) -> tuple[str, int, int]:
    """State and counts that a row leads to."""

    def count(effect: object, value: int) -> int:
        return value + effect if isinstance(effect, int) else {"zero": 0, "threshold": threshold}[str(effect)]

    failures, successes = EFFECTS[row.effect]
    return row.target, count(failures, before.failures), count(successes, before.successes)


def steps(world: World) -> Iterator[Step]:
    """All that can happen next, time passing aside."""
    after = world.copy()
    answer = after.policy.admit("t", after.now)
    found = list(rows(world, "call"))
    if isinstance(answer, GenerationPermit):
        if answer.kind is Permit.PROBE:
            after.owner, after.held_since = answer, after.now
        after.period += after.held.state is not world.held.state
        after.flying.append((answer, after.period))
    assert [("rejected" in row.effect, "probe" in row.effect) for row in found] == [
        (isinstance(answer, Rejection), isinstance(answer, GenerationPermit) and answer.kind is Permit.PROBE)
    ]
    yield Step("call", world, after, found)
    for index, (permit, period) in enumerate(world.flying):
        for outcome in Outcome:
            after = world.copy()
            del after.flying[index]
            after.policy.settle("t", permit, outcome, after.now)
            trigger = "late outcome"
            if world.fresh(permit, period):
                trigger = outcome.value if permit.kind is Permit.ORDINARY else f"probe {outcome.value}"
                if permit.kind is Permit.PROBE:
                    after.owner = None
            if world.held.forced and trigger in ("success", "failure"):
                trigger = "failure"  # a forced target's row says it for both: nothing counts
            after.period += after.held.state is not world.held.state
            yield Step(trigger, world, after, list(rows(world, trigger)))
    for trigger in ("force_open", "force_close", "reset"):
        after = world.copy()
        getattr(after.policy, trigger)("t", after.now)
        after.owner, after.period = None, after.period + 1
        yield Step(trigger, world, after, list(rows(world, trigger)))


def walk(threshold: int, successes: int) -> Iterator[Step]:
    """Every step from every world that can be reached with a few calls in flight."""
    policy = GuardedCircuitBreakerPolicy(threshold, COOLDOWN, successes, probe_hold=HOLD, idle_period=1e9)
    start = World(policy)
    seen, todo = {start.key()}, deque([start])
    while todo:
        world = todo.popleft()
        found = list(steps(world))
        following = [step.after for step in found]
        yield from found
        for seconds in (COOLDOWN, HOLD):
            later = world.copy()
            later.now += seconds
            assert later.held == world.held, "time alone changes nothing"
            following.append(later)
        for after in following:
            if len(after.flying) <= 2 and after.key() not in seen:
                seen.add(after.key())
                todo.append(after)


@pytest.mark.parametrize(("threshold", "successes"), CONFIGS)
def test_the_table_equals_the_code(threshold: int, successes: int) -> None:
    """Each step is exactly one row, leads to that row's state and counts, and holds the slot as it should."""
    for step in walk(threshold, successes):
        assert len(step.rows) == 1, (step.trigger, step.before.held, step.rows)
        after = step.after.held
        assert (str(after.state), after.failures, after.successes) == expected(
            step.rows[0], step.before.held, threshold
        ), (step.trigger, step.before.held)
        assert after.probing == (step.after.owner is not None)
        assert after.forced == (
            step.before.held.forced
            if step.trigger not in ("force_open", "force_close", "reset")
            else step.trigger != "reset"
        )


def test_every_row_is_reached() -> None:
    """No row of the table is there for nothing; the one for a call from inside a probe is tested by itself."""
    reached = {id(row) for config in CONFIGS for step in walk(*config) for row in step.rows}
    assert {row.guard for row in TRANSITIONS if id(row) not in reached} == {"from inside the probe that holds the slot"}


def breaker(**fields: float) -> GuardedCircuitBreakerPolicy:
    """A breaker with threshold 1, cooldown 10 s, hold 30 s."""
    return GuardedCircuitBreakerPolicy(1, COOLDOWN, probe_hold=HOLD, **fields)


def half_open(policy: GuardedCircuitBreakerPolicy) -> GenerationPermit:
    """Trip it at 0 s; at 10 s its probe is admitted."""
    ordinary = policy.admit("t", 0.0)
    assert isinstance(ordinary, GenerationPermit)
    policy.settle("t", ordinary, Outcome.FAILURE, 0.0)
    probe = policy.admit("t", COOLDOWN)
    assert isinstance(probe, GenerationPermit)
    assert probe.kind is Permit.PROBE
    return probe


def test_a_call_from_inside_the_probe_is_part_of_it() -> None:
    """It is admitted past the taken slot and past the hold, its own outcome counts for nothing; the probe decides."""
    policy = breaker()
    probe = half_open(policy)
    for now in (COOLDOWN, COOLDOWN + 2 * HOLD):
        inner = policy.admit("t", now, {probe.generation})
        assert isinstance(inner, GenerationPermit)
        assert inner.kind is Permit.ORDINARY
        before = policy.snapshot("t")
        policy.settle("t", inner, Outcome.FAILURE, now)
        assert policy.snapshot("t") == before
    assert isinstance(policy.admit("t", COOLDOWN, {probe.generation + 1}), Rejection)
    late_inner = policy.admit("t", COOLDOWN, {probe.generation})
    policy.settle("t", probe, Outcome.SUCCESS, COOLDOWN)
    assert isinstance(late_inner, GenerationPermit)
    policy.settle("t", late_inner, Outcome.FAILURE, COOLDOWN)  # outlives the probe: of the period before
    assert policy.snapshot("t") == FRESH


def test_a_late_owner_decides_only_while_nobody_has_taken_its_place() -> None:
    """After the hold the slot can be taken, and the late outcome is dropped; if nobody came, it still counts."""
    policy = breaker()
    late = half_open(policy)
    assert isinstance(policy.admit("t", COOLDOWN + HOLD - 0.001), Rejection)
    second = policy.admit("t", COOLDOWN + HOLD)
    assert isinstance(second, GenerationPermit)
    for outcome in Outcome:
        policy.settle("t", late, outcome, COOLDOWN + HOLD + 1.0)
        assert policy.holds("t", second)
        assert policy.snapshot("t").state is HALF_OPEN
    policy.settle("t", second, Outcome.SUCCESS, COOLDOWN + HOLD + 2.0)
    assert policy.snapshot("t") == FRESH

    policy = breaker()
    alone = half_open(policy)
    policy.settle("t", alone, Outcome.SUCCESS, COOLDOWN + 10 * HOLD)
    assert policy.snapshot("t") == FRESH


# -- memory ------------------------------------------------------------------------------------------------------------


def test_the_cooldown_lasts_to_its_last_moment() -> None:
    """Just before its end a call is rejected, with what is left of it; at its end one is admitted as the probe."""
    policy = breaker()
    policy.settle("t", GenerationPermit(Permit.ORDINARY, 0), Outcome.FAILURE, 0.0)
    last = math.nextafter(COOLDOWN, 0.0)
    assert policy.admit("t", last) == Rejection("t", COOLDOWN - last)
    permit = policy.admit("t", COOLDOWN)
    assert isinstance(permit, GenerationPermit)
    assert permit.kind is Permit.PROBE
    assert policy.admit("t", COOLDOWN) == Rejection("t", None)


def test_idle_closed_targets_are_forgotten() -> None:
    """Of 100,000 targets that each fail once, a second apart, no more stay than fit into the idle period."""
    policy = GuardedCircuitBreakerPolicy(3, COOLDOWN, idle_period=100.0)
    most = 0
    for number in range(100_000):
        permit = policy.admit(f"target {number}", float(number))
        assert isinstance(permit, GenerationPermit)
        policy.settle(f"target {number}", permit, Outcome.FAILURE, float(number))
        most = max(most, len(policy.entries))
    assert most <= 102
    assert len(policy.idle) == len(policy.entries)


def test_open_half_open_and_forced_targets_stay() -> None:
    """Nothing but a CLOSED target that nobody forced is forgotten, however long nobody calls it."""
    policy = breaker(idle_period=100.0)
    half_open(policy)
    for name, act in (("open", policy.force_open), ("shut", policy.force_close), ("again", policy.reset)):
        act(name, 0.0)
    other = policy.admit("u", 0.0)
    assert isinstance(other, GenerationPermit)
    policy.settle("u", other, Outcome.FAILURE, 0.0)
    for number in range(10):
        policy.admit(f"call {number}", 1e6)
    assert set(policy.entries) == {"t", "u", "open", "shut"}
    assert policy.snapshot("t").state is HALF_OPEN
    assert policy.snapshot("u").state is OPEN


def test_a_target_that_failed_before_it_opened_or_was_forced_stays() -> None:
    """That it would once have been forgotten as CLOSED and idle no longer holds of a target that is not."""
    policy = GuardedCircuitBreakerPolicy(2, COOLDOWN, idle_period=100.0)

    def fail(name: str) -> None:
        permit = policy.admit(name, 0.0)
        assert isinstance(permit, GenerationPermit)
        policy.settle(name, permit, Outcome.FAILURE, 0.0)

    acts = {"tripped": fail, "open": lambda name: policy.force_open(name, 1.0)}
    for name, act in {**acts, "shut": lambda name: policy.force_close(name, 1.0)}.items():
        fail(name)
        act(name)
    for _ in range(10):
        policy.admit("another", 1e6)
    assert set(policy.entries) == {"tripped", "open", "shut"}
    assert policy.admit("open", 1e6) == Rejection("open", None)


def test_work_for_forgetting_is_bounded() -> None:
    """However many are overdue, one call forgets two of them at most."""
    policy = GuardedCircuitBreakerPolicy(3, COOLDOWN, idle_period=100.0)
    for number in range(1000):
        permit = policy.admit(f"target {number}", 0.0)
        assert isinstance(permit, GenerationPermit)
        policy.settle(f"target {number}", permit, Outcome.FAILURE, 0.0)
    assert len(policy.entries) == 1000
    for calls in range(1, 400):
        policy.admit("another", 100.0)
        assert len(policy.entries) == 1000 - 2 * calls


def test_what_is_touched_again_stays_longer() -> None:
    """The idle period runs from the last failure, not from the first."""
    policy = GuardedCircuitBreakerPolicy(3, COOLDOWN, idle_period=100.0)
    for now in (0.0, 99.0):
        permit = policy.admit("t", now)
        assert isinstance(permit, GenerationPermit)
        policy.settle("t", permit, Outcome.FAILURE, now)
    policy.admit("u", 198.9)
    assert policy.snapshot("t").failures == 2
    policy.admit("u", 199.0)
    assert policy.snapshot("t") == FRESH


def test_an_outcome_older_than_a_forgotten_period_is_dropped() -> None:
    """A call admitted before a trip does not count after the recovered target was forgotten; a younger one does."""
    policy = breaker(idle_period=100.0)
    stray = policy.admit("t", 0.0)
    policy.settle("t", half_open(policy), Outcome.SUCCESS, COOLDOWN)
    policy.admit("u", COOLDOWN + 100.0)
    assert not policy.entries
    young = policy.admit("t", COOLDOWN + 100.0)
    assert isinstance(stray, GenerationPermit)
    assert isinstance(young, GenerationPermit)
    policy.settle("t", stray, Outcome.FAILURE, COOLDOWN + 101.0)
    assert policy.snapshot("t") == FRESH
    policy.settle("t", young, Outcome.FAILURE, COOLDOWN + 101.0)
    assert policy.snapshot("t").state is OPEN
