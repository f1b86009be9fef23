"""Breakers side by side on one history: they part where their rules do, and stay manageable where they have parted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.errors import ClockError, ConfigError
from labkit.session import BreakerSession
from labkit.session.side_by_side import Action, BreakerSessions, Round, scripts, side_by_side

CONFIGS = [
    {"failure_threshold": 1, "cooldown_period": 30.0},
    {"failure_threshold": 2, "cooldown_period": 30.0, "half_open_success_threshold": 2},
    {"failure_threshold": 3, "half_open_success_threshold": 3},
]


def beside(**config: float) -> BreakerSessions:
    """The three breakers, which one failure opens for 30 s."""
    return BreakerSessions(side_by_side({"failure_threshold": 1, "cooldown_period": 30.0, **config}))


def call(id: str) -> Action:
    """A call arrives."""
    return Action("call", id)


def end(id: str, outcome: str) -> Action:
    """A call ends."""
    return Action("finish", id, outcome)


def played(sessions: BreakerSessions, name: str) -> Round:
    """The last round of a script."""
    config = sessions.sessions["toolkit"].config
    for action in next(script for script in scripts(config) if script.name == name).actions:
        made = sessions.do(action)
    return made


def faults(sessions: BreakerSessions) -> dict[str, set[str]]:
    """The faults that each breaker has shown."""
    return {
        name: {step.fault for step in session.history if step.fault is not None}
        for name, session in sessions.sessions.items()
    }


def test_one_configuration_for_three() -> None:
    """The three have the same thresholds and times, under the names that each has for them."""
    made = side_by_side({"failure_threshold": 4, "cooldown_period": 20.0, "probe_timeout": 2.0}, interval=45.0)
    assert list(made) == ["toolkit", "guarded", "window"]
    window = made["window"]
    assert window.type == "window_circuit_breaker"
    assert (window.failure_threshold, window.interval, window.open_duration) == (4, 45.0, 20.0)
    assert {one.probe_timeout for one in made.values()} == {2.0}


def test_a_guarded_configuration_is_kept() -> None:
    """What is given of the guarded breaker is used for it as it is, its own fields included."""
    made = side_by_side({"_type": "guarded_circuit_breaker", "failure_threshold": 2, "probe_hold": 5.0})
    guarded = made["guarded"]
    assert guarded.type == "guarded_circuit_breaker"
    assert (guarded.probe_hold, made["toolkit"].failure_threshold) == (5.0, 2)


def test_a_window_configuration_is_refused() -> None:
    """From the window breaker's fields the others' cannot be told, and that is said."""
    with pytest.raises(ConfigError, match="found a window_circuit_breaker"):
        side_by_side({"_type": "window_circuit_breaker", "failure_threshold": 2, "interval": 60.0})


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("fault", ["cancel-frees-foreign-probe", "stale-probe-decides", "no-generations"])
def test_a_script_shows_its_fault(fault: str, config: dict[str, float]) -> None:
    """Whatever the thresholds, a fault's script shows it in the toolkit's breaker, and no fault in the others."""
    sessions = BreakerSessions(side_by_side(config))
    played(sessions, fault)
    found = faults(sessions)
    assert fault in found["toolkit"]
    assert (found["guarded"], found["window"]) == (set(), set())


def test_what_the_scripts_end_in() -> None:
    """A cancelled bystander leads to two probes at once, a stale probe closes, an early failure opens: only there."""
    sessions = beside()
    last = played(sessions, "cancel-frees-foreign-probe")
    assert {name: step.admitted for name, step in last.steps.items() if step} == {
        "toolkit": True,
        "guarded": False,
        "window": False,
    }
    sessions = beside(half_open_success_threshold=2)
    last = played(sessions, "stale-probe-decides")
    assert last.states == {"toolkit": "CLOSED", "guarded": "HALF_OPEN", "window": "HALF_OPEN"}
    sessions = beside()
    last = played(sessions, "no-generations")
    assert last.states == {"toolkit": "OPEN", "guarded": "CLOSED", "window": "CLOSED"}


def test_a_probe_that_hangs() -> None:
    """A probe without a limit rejects for ever, except where it loses the slot; with a limit no script is needed."""
    last = played(beside(), "hung-probe")
    assert [step.admitted for step in last.steps.values() if step] == [False, True, False]
    limited = side_by_side({"probe_timeout": 2.0})["toolkit"]
    assert "hung-probe" not in [script.name for script in scripts(limited)]


def test_a_success_between_failures() -> None:
    """Failures with successes between them open only the breaker that counts within an interval."""
    last = played(beside(failure_threshold=2), "consecutive-or-window")
    assert last.states == {"toolkit": "CLOSED", "guarded": "CLOSED", "window": "OPEN"}


def test_a_call_that_only_one_admitted() -> None:
    """A call that is in flight in some breakers is listed with where, and its end happens to those alone."""
    sessions = beside()
    played(sessions, "cancel-frees-foreign-probe")
    flying = {flight.id: (flight.where, flight.probe) for flight in sessions.in_flight}
    everywhere = ("toolkit", "guarded", "window")
    assert flying == {"P": (everywhere, everywhere), "Q": (("toolkit",), ("toolkit",))}
    last = sessions.do(end("Q", "error"))
    assert [step is None for step in last.steps.values()] == [False, True, True]
    assert last.states == {"toolkit": "OPEN", "guarded": "HALF_OPEN", "window": "HALF_OPEN"}
    assert [flight.id for flight in sessions.in_flight] == ["P"]
    assert sessions.in_flight[0].late == {"toolkit": "admitted in a half-open period that is over"}


def test_undo_is_for_all() -> None:
    """Undo takes a round from those breakers that took part in it, and the clocks stay together."""
    sessions = beside()
    played(sessions, "cancel-frees-foreign-probe")
    before = [(session.now, len(session.history), session.in_flight) for session in sessions.sessions.values()]
    sessions.do(end("Q", "error"))
    sessions.undo()
    assert before == [(each.now, len(each.history), each.in_flight) for each in sessions.sessions.values()]
    for _ in range(20):
        sessions.undo()
    assert (sessions.history, sessions.in_flight, sessions.now) == ([], [], 0.0)


def test_names_go_on_where_they_were() -> None:
    """Calls without a name are c1, c2, ...: not one that is in flight anywhere, and the same again after an undo."""
    sessions = beside()
    assert [sessions.do(Action("call")).action.id for _ in range(2)] == ["c1", "c2"]
    sessions.undo()
    assert sessions.do(Action("call")).action.id == "c2"
    sessions.do(call("c3"))
    assert sessions.do(Action("call")).action.id == "c4"


def test_what_cannot_be_done() -> None:
    """A name that is in flight anywhere is taken, one that is in flight nowhere cannot end; nothing changes then."""
    sessions = beside()
    sessions.do(call("a"))
    with pytest.raises(ClockError, match="a call 'a' is in flight already"):
        sessions.do(call("a"))
    with pytest.raises(ClockError, match="no call 'b' is in flight; in flight: a"):
        sessions.do(end("b", "ok"))
    assert len(sessions.history) == 1


actions = st.lists(
    st.one_of(
        st.just(Action("call")),
        st.builds(end, st.sampled_from(["c1", "c2", "c3", "c4"]), st.sampled_from(["ok", "error", "cancel"])),
        st.builds(lambda seconds: Action("advance", seconds=seconds), st.sampled_from([0.1, 29.9, 30.0])),
        st.just(Action("undo")),
    ),
    max_size=25,
)


@given(actions, st.sampled_from(CONFIGS), st.sampled_from([None, 2.0]))
def test_each_does_as_it_would_alone(
    history: list[Action], config: dict[str, float], probe_timeout: float | None
) -> None:
    """Beside the others a breaker does exactly what it does alone on the steps that it takes part in."""
    configs = side_by_side({**config, "probe_timeout": probe_timeout})
    sessions = BreakerSessions(configs)
    for action in history:
        if action.op == "undo":
            sessions.undo()
        elif action.op != "finish" or action.id in [flight.id for flight in sessions.in_flight]:
            sessions.do(action)
    assert len({session.now for session in sessions.sessions.values()}) == 1
    for name, session in sessions.sessions.items():
        alone = BreakerSession(configs[name])
        for made in sessions.history:
            step = made.steps[name]
            if step is None:
                continue
            if step.op == "call":
                again = alone.call(made.action.id)
            elif step.op == "finish":
                again = alone.finish(str(made.action.id), str(made.action.outcome))
            else:
                again = alone.advance(made.action.seconds)
            assert again == step
        assert alone.history == session.history
        assert name == "toolkit" or not any(step.fault for step in session.history)
