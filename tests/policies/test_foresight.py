"""What a breaker's machine says it would do is what it then does, and asking changes nothing."""

from __future__ import annotations

from copy import deepcopy
from math import inf, isfinite
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.policies import (
    BreakerPolicy,
    CircuitBreakerPolicy,
    CircuitBreakerState,
    GuardedCircuitBreakerPolicy,
    Outcome,
    Permit,
    Rejection,
    WindowCircuitBreakerPolicy,
)

TARGETS = ("parts", "documents")
SOON = (0.0, 0.25, 0.5, 1.0, 2.0, 3.5, 8.0)  # seconds from now

COUNTS, SECONDS = st.integers(1, 3), st.sampled_from([0.5, 1.0, 3.0])
MACHINES = {
    "toolkit's": st.builds(CircuitBreakerPolicy, COUNTS, SECONDS, COUNTS),
    "guarded": st.builds(GuardedCircuitBreakerPolicy, COUNTS, SECONDS, COUNTS, probe_hold=SECONDS, idle_period=SECONDS),
    "by interval": st.builds(
        WindowCircuitBreakerPolicy,
        COUNTS,
        SECONDS,
        open_duration=SECONDS,
        open_factor=st.sampled_from([1.0, 2.0]),
        half_open_requests=COUNTS,
        half_open_successes=COUNTS,
    ),
    "by rate": st.builds(
        WindowCircuitBreakerPolicy,
        failure_rate=st.sampled_from([0.5, 1.0]),
        window=SECONDS,
        minimum_calls=COUNTS,
        open_duration=SECONDS,
        half_open_requests=COUNTS,
        half_open_successes=COUNTS,
    ),
}
STEP = st.tuples(
    st.sampled_from(["call", "call", "call", "end", "end", "end", "by hand"]),
    st.sampled_from(TARGETS),
    st.sampled_from([0.0, 0.0, 0.25, 1.0, 3.0]),  # seconds that pass before it
    st.sampled_from([Outcome.FAILURE, Outcome.FAILURE, Outcome.SUCCESS, Outcome.CANCELLED]),
    st.integers(0, 9),  # which call ends, or what is done by hand
)


def held(thing: Any) -> Any:
    """All that a machine holds, as plain values to compare."""
    if isinstance(thing, dict):
        return [(key, held(value)) for key, value in thing.items()]
    if isinstance(thing, list):
        return [held(value) for value in thing]
    if hasattr(type(thing), "__slots__") and not isinstance(thing, tuple):
        return {name: held(getattr(thing, name)) for name in type(thing).__slots__}
    return thing


def play(machine: Any, step: tuple[str, str, float, Outcome, int], now: float, flying: list[tuple[str, Any]]) -> None:
    """Let a call arrive, or one in flight end, or a person act."""
    what, target, _, outcome, place = step
    if what == "call":
        permit = machine.admit(target, now)
        if not isinstance(permit, Rejection):
            flying.append((target, permit))
    elif what == "end" and flying:
        target, permit = flying.pop(place % len(flying))
        machine.settle(target, permit, outcome, now)
    elif what == "by hand" and isinstance(machine, GuardedCircuitBreakerPolicy):
        (machine.force_open, machine.force_close, machine.reset)[place % 3](target, now)


def hold_to_its_word(machine: BreakerPolicy[Any], target: str, now: float) -> None:
    """Compare what it says of this target with what a copy of it does."""
    before = held(machine)
    foreseen = [(now + seconds, machine.would_reject(target, now + seconds)) for seconds in SOON]
    at_rest, ordinary, end = machine.at_rest(target), machine.ordinary, machine.timer_end(target)
    state = machine.state(target)
    assert held(machine) == before, "asking changed it"

    for at, rejected in foreseen:
        assert isinstance(deepcopy(machine).admit(target, at), Rejection) is rejected

    copy = deepcopy(machine)
    if isinstance(copy, GuardedCircuitBreakerPolicy):
        copy.idle_period = inf  # what time makes it forget is not the success's doing
        before = held(copy)
    permit = copy.admit(target, now)
    is_ordinary = not isinstance(permit, Rejection) and permit.kind is Permit.ORDINARY
    if is_ordinary:
        assert permit == ordinary
        copy.settle(target, permit, Outcome.SUCCESS, now)
    forced = isinstance(copy, GuardedCircuitBreakerPolicy) and copy.snapshot(target).forced
    assert at_rest is (is_ordinary and held(copy) == before and not forced)

    if isfinite(end):
        assert state is CircuitBreakerState.OPEN
        assert machine.would_reject(target, end - 0.01)
        assert not machine.would_reject(target, end + 0.01)
    else:
        assert len({rejected for at, rejected in foreseen}) == 1 or state is CircuitBreakerState.HALF_OPEN


@pytest.mark.parametrize("kind", MACHINES)
def test_what_a_machine_foresees_is_what_it_does(kind: str) -> None:
    """After any history: who would be rejected when, whether it is at rest, the ordinary permit, the timer's end."""

    @settings(max_examples=100)
    @given(MACHINES[kind], st.lists(STEP, max_size=25))
    def any_history(machine: Any, steps: list[tuple[str, str, float, Outcome, int]]) -> None:
        now, flying = 0.0, list[tuple[str, Any]]()
        for step in steps:
            now += step[2]
            play(machine, step, now, flying)
            for target in TARGETS:
                hold_to_its_word(machine, target, now)

    any_history()


def test_a_permit_that_knows_only_its_kind_is_its_own_kind() -> None:
    """A shell asks every breaker's permits in the same way."""
    assert [permit.kind for permit in Permit] == [Permit.ORDINARY, Permit.PROBE]
