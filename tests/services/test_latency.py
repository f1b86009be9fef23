from __future__ import annotations

import random
import statistics

import pytest

from labkit.errors import ServiceError
from labkit.services import Latency


def drawn(latency, count=4000, seed=7):
    """So many draws from a seed."""
    sample = latency.sampler(random.Random(seed))
    return [sample() for _ in range(count)]


def test_distributions_are_what_they_are_called():
    """Constant is constant, uniform stays between its ends, lognormal has its median and a tail to the right."""
    assert set(drawn(Latency.constant(0.05), 10)) == {0.05}
    flat = drawn(Latency.uniform(0.1, 0.3))
    assert min(flat) >= 0.1
    assert max(flat) <= 0.3
    assert statistics.mean(flat) == pytest.approx(0.2, rel=0.05)
    long = drawn(Latency.lognormal(0.2, 0.8))
    assert statistics.median(long) == pytest.approx(0.2, rel=0.1)
    assert statistics.mean(long) > 1.2 * statistics.median(long)


def test_a_seed_decides():
    """The same seed draws the same latencies, another seed others."""
    latency = Latency.lognormal(0.2, 0.8)
    assert drawn(latency, seed=1) == drawn(latency, seed=1)
    assert drawn(latency, seed=1) != drawn(latency, seed=2)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Latency.constant(-1),
        lambda: Latency.constant(float("nan")),
        lambda: Latency.constant(float("inf")),
        lambda: Latency.constant(True),
        lambda: Latency.constant("0.1"),
        lambda: Latency.uniform(0.3, 0.1),
        lambda: Latency.lognormal(0.1, 99),
        lambda: Latency("constant", (1.0, 2.0)),
        lambda: Latency("unifrom", (1.0, 2.0)),
    ],
)
def test_bad_latencies_are_one_sentence(make):
    """A parameter out of range or an unknown distribution is refused in one sentence."""
    with pytest.raises(ServiceError) as caught:
        make()
    assert "latency" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_misspelt_distribution_names_the_nearest():
    """The nearest distribution is named."""
    with pytest.raises(ServiceError, match="did you mean 'uniform'"):
        Latency("unifrom", (1.0, 2.0))
