"""A breaker stepped by hand says which of the toolkit's faults a step has shown, and is silent about them otherwise."""

from __future__ import annotations

import pytest

from labkit.errors import ConfigError
from labkit.session import BreakerSession, Step


def played(script: str, **config: float) -> Step:
    """The last step of a script such as "S F F! 30 P P+": a call, its end (+ ok, ! error, x cancel), seconds."""
    return play(BreakerSession({"failure_threshold": 1, "cooldown_period": 30.0, **config}), script)


@pytest.mark.parametrize(
    ("script", "fault", "words"),
    [
        ("S F F! 30 P P+ S!", "no-generations", ["earlier closed period", "the breaker opens"]),
        ("S F F! 30 P Sx", "cancel-frees-foreign-probe", ["it was not the probe", "frees the slot of P"]),
        ("S F F! 30 P Sx Q", "cancel-frees-foreign-probe", ["one more probe while P is in flight"]),
        ("S F F! 30 P Sx Q Q! P+", "stale-probe-decides", ["earlier half-open period", "the breaker closes"]),
    ],
)
def test_a_fault_is_named(script: str, fault: str, words: list[str]) -> None:
    """A step that the toolkit gets wrong is told with the fault's id, and with what it does in spite of the rule."""
    step = played(script)
    assert step.fault == fault
    for word in [fault, *words]:
        assert word in step.sentence


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("S F F! S!", "it counts neither way"),
        ("S F F! S+", "it counts neither way"),
        ("S F F! Sx", "a cancellation counts neither way."),
        ("S F F! 30 P Px", "the probe's slot is free again"),
        ("S F F! 30 P Px Sx", "a cancellation counts neither way."),
        ("S F F! 30 P S!", "it counts neither way"),
        ("F F! 30 P P+", "1 successful probe was asked for"),
        ("F F! 30 P P!", "one failed probe is enough"),
        ("S S+", "the count of failures in a row is 0"),
    ],
)
def test_what_is_as_it_should_be_names_no_fault(script: str, words: str) -> None:
    """A step that keeps the rule has no fault, and says what counts."""
    step = played(script)
    assert step.fault is None
    assert words in step.sentence


# -- any breaker

GUARDED = {"_type": "guarded_circuit_breaker"}
WINDOW = {"_type": "window_circuit_breaker", "failure_threshold": 2, "interval": 60.0, "open_duration": 30.0}
RATE = {"_type": "window_circuit_breaker", "failure_rate": 0.5, "window": 10.0, "minimum_calls": 2}


def session_of(config: dict[str, object]) -> BreakerSession:
    """A session of any breaker, which one failure in a row opens where it counts in a row."""
    in_a_row = {"failure_threshold": 1, "cooldown_period": 30.0} if config is GUARDED else {}
    return BreakerSession({**in_a_row, **config})


def play(session: BreakerSession, script: str) -> Step:
    """The last step of a script, as for `played`."""
    for word in script.split():
        if word.isdecimal():
            session.advance(float(word))
        elif word[-1] in "+!x":
            session.finish(word[:-1], {"+": "ok", "!": "error", "x": "cancel"}[word[-1]])
        else:
            session.call(word)
    return session.history[-1]


@pytest.mark.parametrize(
    ("script", "state", "words"),
    [
        ("S F F! 30 P P+ S!", "CLOSED", "it was admitted before the breaker opened, so it is dropped"),
        ("S F F! 30 P Sx", "HALF_OPEN", "the slot stays with P"),
        ("S F F! 30 P Sx Q", "HALF_OPEN", "Q is rejected: the breaker is half-open and its one probe is in flight"),
        ("F F! 30 P 60", "OPEN", "P has held the slot for 60 s, its probe_hold, and is ended"),
        ("F F! 30 P Px", "HALF_OPEN", "the probe's slot is free again"),
    ],
)
def test_the_guarded_breaker_keeps_the_rule(script: str, state: str, words: str) -> None:
    """What the toolkit gets wrong, the guarded breaker gets right, and no step of it is called a fault."""
    session = session_of(GUARDED)
    step = play(session, script)
    assert (step.state, step.fault) == (state, None)
    assert words in step.sentence
    assert all(one.fault is None for one in session.history)


def test_the_guarded_breaker_says_what_it_forgot() -> None:
    """A count that the guarded breaker has forgotten for want of calls is said to be, at the call that finds it so."""
    session = BreakerSession({**GUARDED, "failure_threshold": 2})
    assert play(session, "F F! 600 A").sentence == (
        "A is admitted: the breaker is closed, and its count of failures was forgotten after 600 s without a call."
    )
    assert play(BreakerSession({"failure_threshold": 2}), "F F! 600 A").failures == 1


@pytest.mark.parametrize(
    ("config", "script", "state", "words"),
    [
        (WINDOW, "F F! S S+", "CLOSED", "a success changes nothing; 1 failure in this interval of 60 s"),
        (WINDOW, "F F! S S+ G G!", "OPEN", "2 failures in this interval of 60 s reach the threshold of 2"),
        (WINDOW, "F F! 60", "CLOSED", "an interval has ended, so the count of failures is 0 again"),
        (WINDOW, "F F! G G! 30", "OPEN", "the timer is over, but the breaker stays open until a call arrives"),
        (WINDOW, "S F F! G G! 30 P Sx", "HALF_OPEN", "the slot stays with P"),
        (RATE, "F F!", "CLOSED", "1 of 1 calls in the last 10 s failed; from 2 calls on, 50% opens the breaker"),
        (RATE, "S S+ F F!", "OPEN", "1 of 2 calls in the last 10 s failed, which reaches 50%"),
        (RATE, "F F! 11", "CLOSED", "outcomes have left the window; none is left in it"),
        ({**WINDOW, "half_open_requests": 2}, "F F! G G! 30 P Q", "HALF_OPEN", "1 of 2 probes is in flight"),
        ({**WINDOW, "half_open_requests": 2}, "F F! G G! 30 P Q R", "HALF_OPEN", "its 2 probes are in flight"),
        ({**WINDOW, "half_open_requests": 2}, "F F! G G! 30 P Q P! Q+", "OPEN", "a half-open period that is over"),
    ],
)
def test_the_window_breaker_counts_over_time(config: dict[str, object], script: str, state: str, words: str) -> None:
    """A step of the breaker that counts over time is told by its own rule: an interval or a rate, a timer, probes."""
    step = play(session_of(config), script)
    assert (step.state, step.fault) == (state, None)
    assert words in step.sentence


def test_the_timer_that_grows_is_told() -> None:
    """A step says how long OPEN lasts by now, and when a probe may go at last."""
    session = session_of({**WINDOW, "open_factor": 2.0})
    assert play(session, "F F! G G!").cooldown == 30.0
    step = play(session, "30 P P!")
    assert (step.cooldown, step.retry_after) == (60.0, 60.0)


def test_late_is_said_while_it_flies() -> None:
    """A call in flight is late from the moment in which its period ends, and its end says so."""
    session = BreakerSession({"failure_threshold": 1})
    play(session, "S F")
    assert session.late("S") == ""
    play(session, "F!")
    assert session.late("S") == "admitted before the breaker opened"
    assert (session.late("F"), session.history[-1].late) == ("", "")
    assert play(session, "S+").late == "admitted before the breaker opened"


def test_undo_gives_the_same_times() -> None:
    """Playing a history again lets the same seconds pass, however they add up."""
    session = BreakerSession()
    for _ in range(7):
        session.advance(0.1)
    before = [step.at for step in session.history[:-1]]
    session.undo()
    assert [step.at for step in session.history] == before


def test_no_breaker_of_that_type() -> None:
    """What is no breaker is refused in a sentence with the nearest one that is."""
    with pytest.raises(ConfigError, match="'guarded_breaker' is not the _type of a breaker; did you mean 'guarded_ci"):
        BreakerSession({"_type": "guarded_breaker"})


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"failure_treshold": 2}, "did you mean 'failure_threshold'?"),
        ({"failure_threshold": 0}, "is 0; allowed: a whole number greater than 0"),
        ({"failure_threshold": object()}, "numbers and texts"),
        ({"_type": "guarded_breaker"}, "did you mean 'guarded_circuit_breaker'?"),
    ],
)
def test_fields_that_a_breaker_has_not(fields: dict[str, object], words: str) -> None:
    """A wrong field or value is one sentence, as it is in a file."""
    with pytest.raises(ConfigError) as caught:
        BreakerSession(fields)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
