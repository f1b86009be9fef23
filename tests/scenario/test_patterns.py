"""Fault plans made of a few numbers do what the numbers say."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from labkit.scenario import load_scenario, run_scenario
from labkit.scenario.spec.patterns import capacity_back, evenly, failing

TEXT = """\
scenario: {title: A pattern, duration: 60, seed: 1}
services: {parts_availability: {_type: parts_availability, latency: 0.01, faults: []}}
functions: {parts_availability: {_type: parts_availability}}
workload: [{function: parts_availability, rate: 5}]
"""


def outcomes(faults: object, rate: int) -> list[bool]:
    """Whether each call of a minute was answered."""
    values = {"services.parts_availability.faults": faults}
    values |= {f"workload.0.{key}": value for key, value in evenly(rate).items()}
    return [bool(useful) for useful in run_scenario(load_scenario(TEXT, values=values)).calls.useful]


@given(st.integers(1, 20), st.integers(2, 40))
def test_every_nth_call_succeeds(rate: int, every: int) -> None:
    """From the first failure on, of so many calls exactly the last is answered, at any rate."""
    seen = outcomes(failing(10, 50, rate=rate, every=every), rate)
    bad = seen[10 * rate : 50 * rate]
    assert bad == [(place + 1) % every == 0 for place in range(40 * rate)]
    assert all(seen[: 10 * rate] + seen[50 * rate :])


@given(st.integers(1, 20), st.integers(1, 15), st.integers(1, 15))
def test_bursts_take_turns_with_calm(rate: int, burst: int, calm: int) -> None:
    """A burst fails for its seconds, the calm between two is healthy, and the last burst ends with the pattern."""
    seen = outcomes(failing(5, 45, rate=rate, burst=burst, calm=calm), rate)
    for number, answered in enumerate(seen):
        second = number // rate
        bad = 5 <= second < 45 and (second - 5) % (burst + calm) < burst
        assert answered is not bad


def test_a_share_is_drawn() -> None:
    """With a share of 0.4 some 40 % of the calls fail, and no others than those in the pattern's time."""
    seen = outcomes(failing(0, 30, rate=20, share=0.4), 20)
    assert 0.3 < seen[:600].count(False) / 600 < 0.5
    assert all(seen[600:])


@given(st.integers(0, 60), st.integers(1, 40), st.integers(1, 40))
def test_capacity_comes_back_in_steps(seconds: int, first: int, workers: int) -> None:
    """The steps begin at the repair with the first workers, only go up, and end with all after the given time."""
    steps = capacity_back(50, seconds, first, workers)
    times, levels = zip(*steps, strict=True)
    assert times[0] == 50
    assert list(times) == sorted(set(times))
    assert list(levels) == sorted(set(levels))
    assert levels[-1] == workers
    if seconds and first < workers:
        assert levels[0] == first
        assert times[-1] == 50 + seconds
    else:
        assert len(steps) == 1
