"""A breaker stepped by hand says which of the toolkit's faults a step has shown, and is silent about them otherwise."""

from __future__ import annotations

import pytest

from labkit.scenario import BreakerSession, Step


def played(script: str, **config: float) -> Step:
    """The last step of a script such as "S F F! 30 P P+": a call, its end (+ ok, ! error, x cancel), seconds."""
    session = BreakerSession({"failure_threshold": 1, "cooldown_period": 30.0, **config})
    for word in script.split():
        if word.isdecimal():
            session.advance(float(word))
        elif word[-1] in "+!x":
            session.finish(word[:-1], {"+": "ok", "!": "error", "x": "cancel"}[word[-1]])
        else:
            session.call(word)
    return session.history[-1]


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
