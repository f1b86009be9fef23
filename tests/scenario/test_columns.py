"""A trace as arrays and as a frame: the same rows, with names for places."""

from __future__ import annotations

import sys
from dataclasses import fields
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from labkit.errors import ConfigError
from labkit.scenario import Trace, load_scenario, run_scenario
from labkit.scenario.run.trace import (
    ATTEMPT_OUTCOMES,
    CALL_OUTCOMES,
    PROBE_OUTCOMES,
    REJECTION_REASONS,
    STATES,
    TABLES,
    UNFINISHED,
)
from tests.plots.synthetic import MADE, trace

TRACES = {
    "decision": lambda: run_scenario(load_scenario("decision")),
    "documents": lambda: run_scenario(load_scenario("decision:documents")),
    "no breaker": lambda: run_scenario(load_scenario("decision:no-breaker")),
    "two breakers": MADE["two breakers"],
    "empty": MADE["empty"],
}
OUTCOMES = {"calls": CALL_OUTCOMES, "attempts": ATTEMPT_OUTCOMES, "probes": PROBE_OUTCOMES}


def named(made: Trace, table: str, column: str, value: Any) -> Any:
    """What a number of a column stands for, by the tables' documentation."""
    names = {
        "function": made.functions, "service": made.services, "breaker": made.breakers, "middleware": made.breakers,
        "target": made.targets, "state": STATES, "reason": REJECTION_REASONS,
        "outcome": (*OUTCOMES.get(table, ()), UNFINISHED),
    }  # fmt: skip
    return names[column][value] if column in names else bool(value) if column == "useful" else value


@pytest.mark.parametrize("name", TRACES)
def test_columns_are_the_trace_s_rows_with_names(name: str) -> None:
    """Every value of every table stands in its column, places as names, times in seconds, NaN for never."""
    made = TRACES[name]()
    columns = made.columns()
    assert tuple(columns) == TABLES
    for table, arrays in columns.items():
        plain = getattr(made, table)
        assert list(arrays) == [one.name for one in fields(plain)]
        for column, array in arrays.items():
            assert len(array) == len(plain)
            expected = [named(made, table, column, value) for value in getattr(plain, column)]
            assert [None if value != value else value for value in array.tolist()] == [
                None if value != value else value for value in expected
            ]


def test_columns_have_one_type_whatever_is_in_them() -> None:
    """An empty table has columns of the same kinds as a full one, and whole numbers are wide enough to calculate."""
    kinds = [
        {(table, name): array.dtype.kind for table, arrays in made.columns().items() for name, array in arrays.items()}
        for made in (MADE["two breakers"](), trace())
    ]
    assert kinds[0] == kinds[1]
    assert set(kinds[0].values()) == {"f", "i", "U", "b"}
    assert MADE["outage"]().columns()["calls"]["replica"].dtype == np.int64


def test_times_are_not_copied_and_cannot_be_changed() -> None:
    """An array of times is the trace's own memory, which nobody may write to."""
    made = MADE["one call"]()
    start = made.columns()["calls"]["start"]
    assert np.shares_memory(start, np.asarray(made.calls.start))
    with pytest.raises(ValueError, match="read-only"):
        start[0] = 2.0


def test_a_frame_has_a_table_s_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """`frame` hands a table's columns to pandas, calls if none is named."""
    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=dict))
    made = MADE["two breakers"]()
    for frame, table in ((made.frame(), "calls"), (made.frame("attempts"), "attempts")):
        assert list(frame) == list(made.columns()[table])
        for name, array in made.columns()[table].items():
            np.testing.assert_array_equal(frame[name], array)


def test_a_frame_of_pandas() -> None:
    """Where pandas is installed, a frame has a row an event, and counts by outcome are the trace's."""
    pandas = pytest.importorskip("pandas", reason="pandas is not installed; it does not come with labkit")
    made = MADE["outage"]()
    frame = made.frame()
    assert isinstance(frame, pandas.DataFrame)
    counts = frame.groupby("outcome").size().to_dict()
    assert counts == {name: n for code, name in enumerate(CALL_OUTCOMES) if (n := list(made.calls.outcome).count(code))}
    assert frame["start"].is_monotonic_increasing


@pytest.mark.parametrize(
    ("package", "ask", "said"),
    [
        (
            "numpy",
            lambda made: made.columns(),
            "numpy, which is not installed: pip install 'labkit-circuit-breakers[co",
        ),
        ("pandas", lambda made: made.frame(), "pandas, which is not installed: pip install pandas"),
    ],
)
def test_a_missing_package_is_one_sentence(package: str, ask: Any, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without numpy or pandas an ImportError names the package and the command that installs it."""
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=r"^[^\n]*$") as refused:
        ask(trace())
    assert said in str(refused.value)
    assert refused.value.name == package


def test_a_wrong_table_is_refused() -> None:
    """A frame of a table that no trace has is refused with the names of those that it has."""
    with pytest.raises(ConfigError, match="a trace has no table 'call'; its tables are calls, attempts, probes, rej"):
        trace().frame("call")
