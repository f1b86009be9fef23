"""What may be set in an explorer: sound values are read, anything else is one sentence, and all of it is plain data."""

from __future__ import annotations

import json
from typing import Any

import pytest

from labkit.widgets.explorer.controls import Choice, Control, Order, Range, Span, Switch

WHOLE = Range("threshold", "failure_threshold", least=1, most=30, whole=True)
SECONDS = Range("limit", "timeout", least=0.5, most=10, step=0.5, unit="s", none="none")
OUTAGE = Span("outage", "outage", least=0, most=115)
FAULT = Choice("fault", "the service", options=(("hang", "hangs"), ("error", "fails at once")))
LEASE = Switch("lease", "one lease")
LAYERS = Order("order", "the layers", items=(("again", "retry"), ("breaker", "breaker"), ("limit", "timeout")))


@pytest.mark.parametrize(
    ("control", "typed", "value"),
    [
        (WHOLE, 5, 5),
        (WHOLE, 5.0, 5),
        (WHOLE, " 30 ", 30),
        (SECONDS, "2,5 s", 2.5),
        (SECONDS, "2.5s", 2.5),
        (SECONDS, 10, 10.0),
        (SECONDS, None, None),
        (OUTAGE, (0, 115), (0.0, 115.0)),
        (OUTAGE, ["30 s", "70"], (30.0, 70.0)),
        (FAULT, "error", "error"),
        (LEASE, True, True),
        (LAYERS, ["limit", "breaker"], ("limit", "breaker")),
        (LAYERS, (), ()),
    ],
)
def test_reads_what_is_sound(control: Control, typed: object, value: object) -> None:
    """Numbers as they are typed, with their unit or without, pairs, words and lists become values of one kind."""
    assert control.read(typed) == (value, "")
    assert type(control.read(typed)[0]) is type(value)


@pytest.mark.parametrize(
    ("control", "typed", "says"),
    [
        (WHOLE, 0, "failure_threshold: found “0”; it is a whole number from 1 to 30."),
        (WHOLE, 2.5, "failure_threshold: found “2.5”; it is a whole number from 1 to 30."),
        (WHOLE, "", "failure_threshold: found nothing; it is a whole number from 1 to 30."),
        (WHOLE, True, "failure_threshold: found “True”; it is a whole number from 1 to 30."),
        (WHOLE, None, "failure_threshold: found “None”; it is a whole number from 1 to 30."),
        (SECONDS, "never", "timeout: found “never”; it is a number from 0.5 to 10 s."),
        (SECONDS, "nan", "timeout: found “nan”; it is a number from 0.5 to 10 s."),
        (SECONDS, "inf", "timeout: found “inf”; it is a number from 0.5 to 10 s."),
        (SECONDS, [2], "timeout: found “[2]”; it is a number from 0.5 to 10 s."),
        (SECONDS, "x" * 500, f"timeout: found “{'x' * 20}”; it is a number from 0.5 to 10 s."),
        (OUTAGE, (70, 30), "outage: it ends at 30 s, and must end after its begin at 70 s."),
        (OUTAGE, (30, 30), "outage: it ends at 30 s, and must end after its begin at 30 s."),
        (OUTAGE, (0, 116), "outage: a begin and an end are numbers from 0 to 115 s."),
        (OUTAGE, "30", "outage: a begin and an end are numbers from 0 to 115 s."),
        (OUTAGE, (30,), "outage: a begin and an end are numbers from 0 to 115 s."),
        (OUTAGE, ("soon", "later"), "outage: a begin and an end are numbers from 0 to 115 s."),
        (OUTAGE, (None, 3), "outage: a begin and an end are numbers from 0 to 115 s."),
        (FAULT, "explode", "the service: found “explode”; it is one of hangs, fails at once."),
        (FAULT, 3, "the service: found “3”; it is one of hangs, fails at once."),
        (FAULT, ["hang"], "the service: found “['hang']”; it is one of hangs, fails at once."),
        (LEASE, 1, "one lease: found “1”; it is on or off."),
        (LEASE, "on", "one lease: found “on”; it is on or off."),
        (LAYERS, ["again", "again"], "the layers: it is a list of again, breaker, limit, each at most once."),
        (LAYERS, ["onion"], "the layers: it is a list of again, breaker, limit, each at most once."),
        (LAYERS, "again", "the layers: it is a list of again, breaker, limit, each at most once."),
        (LAYERS, [["again"]], "the layers: it is a list of again, breaker, limit, each at most once."),
    ],
)
def test_says_what_is_wrong(control: Control, typed: object, says: str) -> None:
    """Anything else is no value and one sentence: what was found, and what may be."""
    assert control.read(typed) == (None, says)


@pytest.mark.parametrize(
    ("control", "value", "yaml"),
    [
        (WHOLE, 5, "5"),
        (SECONDS, 2.5, "2.5"),
        (SECONDS, None, "null"),
        (LEASE, True, "true"),
        (LEASE, False, "false"),
        (FAULT, "hang", "hang"),
        (LAYERS, ("again", "limit"), "[again, limit]"),
        (LAYERS, (), "[]"),
    ],
)
def test_as_yaml(control: Control, value: object, yaml: str) -> None:
    """A value as it stands in a scenario."""
    assert control.yaml(value) == yaml


@pytest.mark.parametrize(
    ("control", "value"),
    [(WHOLE, 5), (SECONDS, None), (OUTAGE, (30.0, 70.0)), (FAULT, "hang"), (LEASE, True), (LAYERS, ("limit",))],
)
def test_as_plain_data(control: Control, value: Any) -> None:
    """What the page gets survives JSON, names the control and carries a value that reads back as itself."""
    shown = control.shown(value)
    assert json.loads(json.dumps(shown)) == shown
    assert (shown["key"], shown["label"]) == (control.key, control.label)
    assert control.read(shown["value"]) == (value, "")
