"""The breaker's table equals its code: every step that can be taken is a row, and every row is such a step."""

from __future__ import annotations

import copy
import math
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import pytest

from labkit.policies import BreakerSnapshot, CircuitBreakerPolicy, CircuitBreakerState, Outcome, Permit, Rejection
from labkit.policies.circuit_breaker import TRANSITIONS, Record, Transition

CLOSED, OPEN, HALF_OPEN = CircuitBreakerState.CLOSED, CircuitBreakerState.OPEN, CircuitBreakerState.HALF_OPEN
COOLDOWN = 10.0
CONFIGS = [(threshold, successes) for threshold in (1, 2, 3) for successes in (1, 2, 3)]


@dataclass
class World:
    """A breaker, the calls that are in flight through it, and what a careful observer knows about them."""

    policy: CircuitBreakerPolicy
    now: float = 0.0
    ordinary: int = 0
    probes: list[int] = field(default_factory=list)  # by number
    owner: int | None = None  # the probe that holds the slot
    admitted: int = 0
    faulty: bool = False  # whether a call's cancellation has freed another call's slot

    @property
    def held(self) -> BreakerSnapshot:
        """What the breaker holds."""
        return self.policy.snapshot("t")

    @property
    def over(self) -> bool:
        """Whether the cooldown is over."""
        return self.now - self.held.changed_at >= COOLDOWN

    def key(self) -> object:
        """What distinguishes this world from others, without absolute times."""
        held = self.held
        over = held.state is OPEN and self.over
        owned = tuple(probe == self.owner for probe in self.probes)
        return (*held[:4], over, self.ordinary, owned, self.faulty)

    def copy(self) -> World:
        """The same, free to go another way."""
        return replace(self, policy=copy.deepcopy(self.policy), probes=list(self.probes))


@dataclass(frozen=True)
class Step:
    """One trigger, with the world before and after it."""

    trigger: str
    probe: int | None  # which probe ended, None for an ordinary call or an arrival
    before: World
    after: World
    answer: Permit | Rejection | None = None


def steps(world: World) -> Iterator[Step]:
    """All that can happen next (time passing aside)."""
    after = world.copy()
    answer = after.policy.admit("t", after.now)
    if answer is Permit.PROBE:
        after.admitted += 1
        after.owner = after.admitted
        after.probes.append(after.admitted)
    elif answer is Permit.ORDINARY:
        after.ordinary += 1
    yield Step("call", None, world, after, answer)
    for outcome in Outcome:
        if world.ordinary:
            after = world.copy()
            after.ordinary -= 1
            after.policy.settle("t", Permit.ORDINARY, outcome, after.now)
            if outcome is Outcome.CANCELLED and world.held.probing:
                after.faulty, after.owner = True, None
            yield Step(outcome.value, None, world, after)
        for probe in world.probes:
            after = world.copy()
            after.probes.remove(probe)
            after.policy.settle("t", Permit.PROBE, outcome, after.now)
            if outcome is Outcome.CANCELLED and world.held.probing and probe != world.owner:
                after.faulty = True
            if not after.held.probing:
                after.owner = None
            trigger = "cancelled" if outcome is Outcome.CANCELLED else f"probe {outcome.value}"
            yield Step(trigger, probe, world, after)


def walk(threshold: int, successes: int, *, faults: bool = True) -> Iterator[Step]:
    """Every step from every world that can be reached with a few calls in flight."""
    start = World(CircuitBreakerPolicy(threshold, COOLDOWN, successes))
    seen, todo = {start.key()}, deque([start])
    while todo:
        world = todo.popleft()
        if world.held.state is OPEN and not world.over:
            later = world.copy()
            later.now = later.held.changed_at + COOLDOWN
            assert later.held == world.held, "time alone changes nothing"
            if later.key() not in seen:
                seen.add(later.key())
                todo.append(later)
        for step in steps(world):
            if step.after.faulty and not faults:
                continue
            yield step
            step.after.now += 1.0 if step.after.held.state is not OPEN or not step.after.over else 0.0
            if step.after.ordinary > 3 or len(step.after.probes) > 3 or step.after.key() in seen:
                continue
            seen.add(step.after.key())
            todo.append(step.after)


# What the texts of the table say, one by one: a text that is not here, or that the code does not bear out, fails.
GUARDS: dict[str, Callable[[Step, int, int], bool]] = {
    "": lambda step, threshold, successes: True,
    "failures + 1 < failure_threshold": lambda step, threshold, successes: step.before.held.failures + 1 < threshold,
    "failures + 1 >= failure_threshold": lambda step, threshold, successes: step.before.held.failures + 1 >= threshold,
    "cooldown_period not over": lambda step, threshold, successes: not step.before.over,
    "cooldown_period over": lambda step, threshold, successes: step.before.over,
    "a probe is in flight": lambda step, threshold, successes: step.before.held.probing,
    "no probe is in flight": lambda step, threshold, successes: not step.before.held.probing,
    "successes + 1 < half_open_success_threshold": lambda step, threshold, successes: (
        step.before.held.successes + 1 < successes
    ),
    "successes + 1 >= half_open_success_threshold": lambda step, threshold, successes: (
        step.before.held.successes + 1 >= successes
    ),
    "the probe": lambda step, threshold, successes: step.probe is not None and step.probe == step.before.owner,
    "not the probe, no probe is in flight": lambda step, threshold, successes: (
        (step.probe != step.before.owner or step.probe is None) and not step.before.held.probing
    ),
    "not the probe, a probe is in flight": lambda step, threshold, successes: (
        (step.probe != step.before.owner or step.probe is None) and step.before.held.probing
    ),
}

EFFECTS: dict[str, Callable[[BreakerSnapshot, BreakerSnapshot, Step, int], bool]] = {
    "admitted": lambda old, new, step, threshold: step.answer is Permit.ORDINARY and new == old,
    "rejected": lambda old, new, step, threshold: isinstance(step.answer, Rejection) and new == old,
    "not counted": lambda old, new, step, threshold: new == old,
    "failures = 0": lambda old, new, step, threshold: new == old._replace(failures=0),
    "failures + 1": lambda old, new, step, threshold: new == old._replace(failures=old.failures + 1),
    "failures + 1, cooldown starts": lambda old, new, step, threshold: (
        new == BreakerSnapshot(OPEN, old.failures + 1, old.successes, old.probing, step.before.now)
    ),
    "admitted as the probe": lambda old, new, step, threshold: (
        step.answer is Permit.PROBE and new == old._replace(probing=True)
    ),
    "admitted as the probe, successes = 0": lambda old, new, step, threshold: (
        step.answer is Permit.PROBE and new == BreakerSnapshot(HALF_OPEN, old.failures, 0, True, step.before.now)
    ),
    "successes + 1": lambda old, new, step, threshold: new == old._replace(successes=old.successes + 1, probing=False),
    "counts set to 0": lambda old, new, step, threshold: new == BreakerSnapshot(CLOSED, 0, 0, False, 0.0),
    "failures = failure_threshold, cooldown starts": lambda old, new, step, threshold: (
        new == BreakerSnapshot(OPEN, threshold, 0, False, step.before.now)
    ),
    "slot freed, not counted": lambda old, new, step, threshold: old.probing and new == old._replace(probing=False),
    "the probe's slot freed": lambda old, new, step, threshold: old.probing and new == old._replace(probing=False),
}
EFFECTS["cooldown starts"] = EFFECTS["cooldown starts again"] = EFFECTS["failures = failure_threshold, cooldown starts"]


def row_of(step: Step, threshold: int, successes: int) -> Transition:
    """The one row that a step is."""
    found = [
        row
        for row in TRANSITIONS
        if (row.source, row.trigger) == (step.before.held.state, step.trigger)
        and GUARDS[row.guard](step, threshold, successes)
    ]
    assert len(found) == 1, f"{step.trigger} in {step.before.held} is {len(found)} rows: {found}"
    return found[0]


@pytest.mark.parametrize(("threshold", "successes"), CONFIGS)
def test_every_step_is_a_row(threshold: int, successes: int) -> None:
    """Whatever happens in any state that can be reached is exactly one row of the table, with its target and effect."""
    count = 0
    for step in walk(threshold, successes):
        row = row_of(step, threshold, successes)
        old, new = step.before.held, step.after.held
        assert new.state == row.target, (row, old, new)
        assert EFFECTS[row.effect](old, new, step, threshold), (row, old, new)
        count += 1
    assert count > 200


def test_every_row_is_a_step() -> None:
    """No row of the table is there in vain: small configurations reach each of them."""
    reached = {row_of(step, *config) for config in CONFIGS for step in walk(*config)}
    assert set(TRANSITIONS) - reached == set()
    assert len(set(TRANSITIONS)) == len(TRANSITIONS)


def test_every_text_is_used() -> None:
    """The guards and effects that this file can judge are those of the table, no more and no fewer."""
    assert set(GUARDS) == {row.guard for row in TRANSITIONS}
    assert set(EFFECTS) == {row.effect for row in TRANSITIONS}


@pytest.mark.parametrize(("threshold", "successes"), CONFIGS)
def test_rows_of_a_fault_take_the_fault(threshold: int, successes: int) -> None:
    """While no call's cancellation frees another call's slot, no row that is marked with a fault is ever taken."""
    rows = Counter(row_of(step, threshold, successes).fault for step in walk(threshold, successes, faults=False))
    assert set(rows) == {None}


@pytest.mark.parametrize(("threshold", "successes"), CONFIGS)
def test_without_the_fault_there_is_one_probe_at_most(threshold: int, successes: int) -> None:
    """Two probes at once, and probes outside of HALF_OPEN, take the fault cancel-frees-foreign-probe."""
    for step in walk(threshold, successes, faults=False):
        held, probes = step.after.held, step.after.probes
        assert len(probes) == (1 if held.probing else 0)
        assert held.probing is False or held.state is HALF_OPEN
    assert any(len(step.after.probes) == 2 for step in walk(threshold, successes))


@pytest.mark.parametrize(("threshold", "successes"), CONFIGS)
def test_counts_stay_in_range(threshold: int, successes: int) -> None:
    """Counts are never negative, CLOSED never probes, and CLOSED without any count leaves nothing in `entries`."""
    for step in walk(threshold, successes):
        held = step.after.held
        assert 0 <= held.failures <= threshold
        assert 0 <= held.successes < successes
        assert not (held.state is CLOSED and held.probing)
        assert not (held.state is CLOSED and held.failures >= threshold)
        if held == BreakerSnapshot(CLOSED, 0, 0, False, 0.0) and not step.after.faulty:
            assert step.after.policy.entries == {}


def test_what_is_kept_of_a_target() -> None:
    """CLOSED without failures: nothing; with some: their number alone; otherwise a record."""
    policy = CircuitBreakerPolicy(3, COOLDOWN)
    for target in ("never failed", "failed and recovered", "failed twice", "open"):
        assert policy.admit(target, 0.0) is Permit.ORDINARY
    policy.succeeded("never failed", Permit.ORDINARY)
    policy.failed("failed and recovered", Permit.ORDINARY, 0.0)
    policy.succeeded("failed and recovered", Permit.ORDINARY)
    for _ in range(2):
        policy.failed("failed twice", Permit.ORDINARY, 0.0)
    for _ in range(3):
        policy.failed("open", Permit.ORDINARY, 0.0)
    assert {target: type(entry) for target, entry in policy.entries.items()} == {"failed twice": int, "open": Record}
    assert policy.entries["failed twice"] == 2


def test_asking_creates_nothing() -> None:
    """Reading an unknown target, and being told of its cancellation or success, leaves no trace of it."""
    policy = CircuitBreakerPolicy()
    assert policy.snapshot("t") == BreakerSnapshot(CLOSED, 0, 0, False, 0.0)
    assert policy.admit("t", 1.0) is Permit.ORDINARY
    policy.cancelled("t")
    policy.succeeded("t", Permit.ORDINARY)
    assert policy.entries == {}


def test_tolerates_is_failed_without_a_time() -> None:
    """`tolerates` counts the failures that open nothing exactly as `failed` does, and leaves the others alone."""
    for threshold, successes in CONFIGS:
        for step in walk(threshold, successes):
            one, other = step.after.copy().policy, step.after.copy().policy
            before = one.snapshot("t")
            if one.tolerates("t"):
                other.failed("t", Permit.ORDINARY, step.after.now)
                assert one.snapshot("t") == other.snapshot("t")
                assert one.snapshot("t").state is CLOSED
            else:
                assert one.snapshot("t") == before


def test_a_rejection_says_when_to_come_back() -> None:
    """In OPEN `retry_after` is what is left of the cooldown; in HALF_OPEN nobody can know."""
    policy = CircuitBreakerPolicy(1, COOLDOWN)
    policy.failed("t", Permit.ORDINARY, 100.0)
    assert policy.admit("t", 103.5) == Rejection("t", 6.5)
    assert policy.admit("t", 110.0) is Permit.PROBE
    assert policy.admit("t", 110.0) == Rejection("t", None)


@pytest.mark.parametrize("opened", [0.1, 0.7, 1.1, 7.1000000000000005, 33.3, 1e9 + 0.1])
@pytest.mark.parametrize("cooldown", [0.1, 0.3, 0.7, 30.0])
def test_the_cooldown_is_over_to_the_bit(opened: float, cooldown: float) -> None:
    """The first float at which the elapsed time is not below the cooldown admits the probe; the one before does not."""
    then = opened + cooldown
    while then - opened >= cooldown:
        then = math.nextafter(then, 0.0)
    while then - opened < cooldown:
        before, then = then, math.nextafter(then, math.inf)
    policy = CircuitBreakerPolicy(1, cooldown)
    policy.failed("t", Permit.ORDINARY, opened)
    rejection = policy.admit("t", before)
    assert isinstance(rejection, Rejection)
    assert rejection.retry_after is not None
    assert rejection.retry_after > 0.0
    assert policy.admit("t", then) is Permit.PROBE


def test_a_cooldown_without_end() -> None:
    """An infinite cooldown never admits again, and its rejections say so."""
    policy = CircuitBreakerPolicy(1, math.inf)
    policy.failed("t", Permit.ORDINARY, 0.0)
    assert policy.admit("t", 1e300) == Rejection("t", math.inf)
