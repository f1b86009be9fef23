"""When calls arrive."""

from __future__ import annotations

from array import array
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.scenario.spec.arrivals import arrivals, expected, merged
from labkit.scenario.spec.model import Load


def load(**fields: object) -> Load:
    """A load of ten seconds."""
    return Load("parts", **{"begin": 0.0, "end": 10.0, **fields})  # type: ignore[arg-type]


def test_a_constant_rate_is_evenly_spaced() -> None:
    """80 calls a second for ten seconds are 800 calls, 12.5 ms apart, the first at once and none at the end."""
    found = arrivals(load(rate=80.0), "1")
    assert len(found) == 800
    assert list(found[:3]) == [0.0, 0.0125, 0.025]
    assert found[-1] < 10.0


def test_a_load_begins_and_ends_when_told() -> None:
    """`from` and `to` bound the arrivals of every kind of load."""
    for fields in ({"rate": 5.0}, {"rate": 5.0, "arrivals": "poisson"}, {"ramp": ((0.0, 1.0), (10.0, 9.0))}):
        found = arrivals(load(begin=2.0, end=4.0, **fields), "1")
        assert len(found) > 2
        assert 2.0 <= found[0] <= found[-1] < 4.0


def test_given_times_are_taken_as_they_are() -> None:
    """`at` says when each call arrives."""
    assert list(arrivals(load(at=(0.0, 1.5, 1.5)), "1")) == [0.0, 1.5, 1.5]


def test_random_arrivals_come_from_the_seed() -> None:
    """The same seed gives the same arrivals, another one others; their number is about the rate's."""
    first, again, other = (arrivals(load(rate=100.0, arrivals="poisson"), seed) for seed in ("1", "1", "2"))
    assert first == again
    assert first != other
    assert 850 < len(first) < 1150


def test_a_ramp_grows_as_drawn() -> None:
    """From 0 to 20 calls a second in ten seconds: 100 calls, a quarter of them in the first half."""
    found = arrivals(load(ramp=((0.0, 0.0), (10.0, 20.0))), "1")
    assert len(found) == 100
    assert sum(second < 5.0 for second in found) == pytest.approx(25, abs=1)
    gaps = [after - before for before, after in pairwise(found)]
    assert all(later < earlier for earlier, later in pairwise(gaps))


@given(
    st.lists(st.tuples(st.floats(0.0, 10.0), st.floats(0.0, 200.0)), min_size=2, max_size=6, unique_by=lambda p: p[0]),
    st.booleans(),
)
def test_any_ramp_is_in_order_and_as_many_as_expected(points: list[tuple[float, float]], poisson: bool) -> None:
    """Arrivals of any ramp are in order, within the load, and (evenly spaced) as many as the area under it."""
    one = load(ramp=tuple(sorted(points)), arrivals="poisson" if poisson else "constant")
    found = arrivals(one, "7")
    assert all(before <= after for before, after in pairwise(found))
    assert all(0.0 <= second <= 10.0 for second in found)
    if not poisson:
        assert abs(len(found) - expected(one)) <= 1.0


def test_loads_are_merged_in_order() -> None:
    """Two loads come in the order of time, and at one instant in the order in which they stand."""
    starts, loads = merged([array("d", [0.0, 2.0]), array("d", [0.0, 1.0])])
    assert list(zip(starts, loads, strict=True)) == [(0.0, 0), (0.0, 1), (1.0, 1), (2.0, 0)]
