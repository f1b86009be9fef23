"""The bulkhead's places: never too many taken, none lost, first come first served."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from labkit.policies import BulkheadPolicy, BulkheadSnapshot, Transition
from labkit.policies.bulkhead import TRANSITIONS, Ticket


def nobody() -> None:
    """Wakes nobody."""


REACHED: set[Transition] = set()

GUARDS: dict[str, Callable[[Any], bool]] = {
    "": lambda world: True,
    "running + 1 < max_concurrent": lambda world: len(world.running) + 1 < world.places,
    "running + 1 >= max_concurrent": lambda world: len(world.running) + 1 >= world.places,
    "max_queue is 0": lambda world: world.limit == 0,
    "max_queue is above 0": lambda world: world.limit > 0,
    "waiting >= max_queue": lambda world: len(world.waiting) >= world.limit,
    "waiting < max_queue": lambda world: len(world.waiting) < world.limit,
    "waiting > 1": lambda world: len(world.waiting) > 1,
    "waiting = 1": lambda world: len(world.waiting) == 1,
}

#: What an effect does to the numbers of running and waiting calls.
EFFECTS = {
    "admitted, running + 1": (1, 0),
    "running - 1": (-1, 0),
    "rejected": (0, 0),
    "waits, waiting + 1": (0, 1),
    "the first in the queue is admitted, waiting - 1": (0, -1),
    "rejected, waiting - 1": (0, -1),
    "waiting - 1": (0, -1),
}


class Places(RuleBasedStateMachine):
    """One target's places, beside a plain list of who runs and who waits."""

    @initialize(places=st.integers(1, 3), limit=st.integers(0, 3))
    def begin(self, places: int, limit: int) -> None:
        """Draw the settings."""
        self.places, self.limit = places, limit
        self.policy = BulkheadPolicy(places, limit)
        self.running: list[Ticket | None] = []
        self.waiting: deque[Ticket] = deque()

    def step(self, trigger: str) -> Transition:
        """The one row that is about to be taken."""
        found = [row for row in TRANSITIONS if (row.source, row.trigger) == (self.state, trigger)]
        found = [row for row in found if GUARDS[row.guard](self)]
        assert len(found) == 1, (self.state, trigger, found)
        REACHED.add(found[0])
        self.expected = tuple(
            count + change
            for count, change in zip((len(self.running), len(self.waiting)), EFFECTS[found[0].effect], strict=True)
        )
        return found[0]

    @property
    def state(self) -> str:
        """The state's name in the table."""
        return "QUEUED" if self.waiting else "FREE" if len(self.running) < self.places else "BUSY"

    def took(self, row: Transition) -> None:
        """Hold that the row told the truth."""
        assert self.policy.snapshot("t") == self.expected
        assert self.state == row.target

    @rule()
    def call(self) -> None:
        """Somebody calls."""
        row = self.step("call")
        if self.policy.enter("t"):
            assert row.effect.startswith("admitted")
            self.running.append(None)
        else:
            ticket = self.policy.queue("t", nobody)
            assert (ticket is None) is (row.effect == "rejected")
            if ticket is not None:
                self.waiting.append(ticket)
        self.took(row)

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        """Somebody who runs ends."""
        row = self.step("end")
        self.running.pop(data.draw(st.integers(0, len(self.running) - 1)))
        ticket = self.policy.leave("t")
        if self.waiting:
            first = self.waiting.popleft()
            assert ticket is first
            assert first.admitted
            self.running.append(first)
        else:
            assert ticket is None
        self.took(row)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data(), trigger=st.sampled_from(["cancelled", "max_wait over"]))
    def give_up(self, data: st.DataObject, trigger: str) -> None:
        """Somebody who waits gives up."""
        row = self.step(trigger)
        ticket = self.waiting[data.draw(st.integers(0, len(self.waiting) - 1))]
        self.waiting.remove(ticket)
        assert self.policy.abandon("t", ticket)
        self.took(row)

    @precondition(lambda self: any(self.running))
    @rule()
    def too_late(self) -> None:
        """Whoever has been handed a place cannot abandon the queue any more, and loses nothing by asking."""
        ticket = next(one for one in self.running if one is not None)
        held = self.policy.snapshot("t")
        assert not self.policy.abandon("t", ticket)
        assert self.policy.snapshot("t") == held

    @invariant()
    def bounded(self) -> None:
        """Never more running or waiting than allowed, nobody waits beside a free place, and an idle target is gone."""
        if not hasattr(self, "policy"):
            return
        running, waiting = self.policy.snapshot("t")
        assert running <= self.places
        assert waiting <= self.limit
        assert running == self.places or not waiting
        if not running:
            assert (self.policy._running, self.policy._queues) == ({}, {})


class TestPlaces(Places.TestCase):  # type: ignore[name-defined, misc]
    """Random histories of one target."""

    def runTest(self) -> None:
        """Every step of every history is one row of the table, and together they are all of it."""
        super().runTest()
        assert set(TRANSITIONS) - REACHED == set()


def test_every_text_is_used() -> None:
    """The guards and effects that this file can judge are those of the table, no more and no fewer."""
    assert set(GUARDS) == {row.guard for row in TRANSITIONS}
    assert set(EFFECTS) == {row.effect for row in TRANSITIONS}


def test_targets_have_places_of_their_own() -> None:
    """A target that is full turns nobody away from another."""
    policy = BulkheadPolicy(1)
    assert policy.enter("parts")
    assert not policy.enter("parts")
    assert policy.enter("documents")
    assert policy.snapshot("documents") == BulkheadSnapshot(1, 0)


def test_nobody_overtakes_the_queue() -> None:
    """A place that comes free while somebody waits is theirs at once: who comes in between finds none."""
    policy = BulkheadPolicy(1, 2)
    policy.enter("t")
    first, second = policy.queue("t", nobody), policy.queue("t", nobody)
    assert policy.leave("t") is first
    assert not policy.enter("t")
    assert policy.leave("t") is second
    assert not policy.enter("t")
    assert policy.leave("t") is None
    assert policy.enter("t")
