"""How long a mock dependency takes to answer: named distributions, drawn from a seed."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import repeat

from labkit.config.numbers import in_range, in_words
from labkit.errors import ServiceError
from labkit.services.checks import LONGEST, hint, is_number, shown

__all__ = ["Latency"]

_PARAMETERS: dict[str, tuple[str, ...]] = {
    "constant": ("seconds",),
    "uniform": ("low", "high"),
    "lognormal": ("median", "sigma"),
    "exponential": ("mean",),
    "pareto": ("least", "alpha"),
}
_DEFAULTS = {"sigma": 0.5}


@dataclass(frozen=True, slots=True)
class Latency:
    """A named distribution of seconds. Make one with the method of its name, or from plain data with `from_data`.

    Attributes:
        name: the distribution's name.
        parameters: its parameters, in the order in which the constructor takes them.

    Example:
        >>> draw = Latency.uniform(0.02, 0.08).sampler(random.Random(1))
        >>> 0.02 <= draw() <= 0.08
        True
    """

    name: str
    parameters: tuple[float, ...]

    def __post_init__(self) -> None:
        if self.name not in _PARAMETERS:
            raise ServiceError(f"there is no latency {shown(self.name)}{hint(self.name, _PARAMETERS)}")
        names = _PARAMETERS[self.name]
        if len(self.parameters) != len(names):
            raise ServiceError(
                f"the latency '{self.name}' takes {' and '.join(names)}, and not {shown(self.parameters)}"
            )
        for name, value in zip(names, self.parameters, strict=True):
            if not is_number(value, most=LONGEST):
                raise ServiceError(
                    f"the latency's '{name}' ({self.name}) is {shown(value)}; it must be "
                    + in_range("a number", 0, LONGEST),
                    [name],
                )
        if self.name == "lognormal" and self.parameters[1] > 10:
            raise ServiceError(
                f"the latency's 'sigma' is {self.parameters[1]:g}; it must be a number from 0 to 10", ["sigma"]
            )
        if self.name == "pareto" and self.parameters[1] <= 1:
            raise ServiceError(
                f"the latency's 'alpha' is {self.parameters[1]:g}; it must be a number above 1 "
                f"(else there is no mean), at most {in_words(LONGEST)}",
                ["alpha"],
            )
        if self.name == "uniform" and self.parameters[0] > self.parameters[1]:
            low, high = self.parameters
            raise ServiceError(f"the latency's 'low' ({low:g}) is above its 'high' ({high:g})", ["low"])

    @property
    def most(self) -> float:
        """The longest that it can be, in seconds; infinite for a distribution with a tail."""
        if self.name in ("constant", "uniform"):
            return self.parameters[-1]
        return self.parameters[0] if self.name == "lognormal" and self.parameters[1] == 0.0 else math.inf

    @classmethod
    def constant(cls, seconds: float) -> Latency:
        """Always the same."""
        return cls("constant", (seconds,))

    @classmethod
    def uniform(cls, low: float, high: float) -> Latency:
        """Anything from `low` to `high` seconds, all equally likely."""
        return cls("uniform", (low, high))

    @classmethod
    def lognormal(cls, median: float, sigma: float = 0.5) -> Latency:
        """Half of the answers below `median` seconds, a long tail above; `sigma` is the spread of the logarithm."""
        return cls("lognormal", (median, sigma))

    @classmethod
    def exponential(cls, mean: float) -> Latency:
        """Short answers are the likeliest, the mean is `mean` seconds: what queueing theory reckons with."""
        return cls("exponential", (mean,))

    @classmethod
    def pareto(cls, least: float, alpha: float) -> Latency:
        """At least `least` seconds, with a very long tail: the smaller `alpha` (above 1), the longer."""
        return cls("pareto", (least, alpha))

    @classmethod
    def from_data(cls, data: object) -> Latency:
        """From plain data: a number of seconds, or `{"distribution": "lognormal", "median": 0.05, "sigma": 0.3}`.

        Raises:
            ServiceError: a key or a value is wrong; names the nearest key.

        Example:
            >>> print(Latency.from_data(0.05), Latency.from_data({"distribution": "exponential", "mean": 2}))
            constant(0.05) exponential(2)
        """
        if not isinstance(data, Mapping):
            if not is_number(data, most=LONGEST):
                raise ServiceError(
                    f"the latency is {shown(data)}; it must be {in_range('a number of seconds', 0, LONGEST)}, or a "
                    "mapping such as {distribution: lognormal, median: 0.05, sigma: 0.3}"
                )
            return cls.constant(float(data))
        if "distribution" not in data:
            raise ServiceError(f"the latency has no 'distribution' (known: {', '.join(_PARAMETERS)})")
        name = data["distribution"]
        if not isinstance(name, str) or name not in _PARAMETERS:
            raise ServiceError(f"there is no latency {shown(name, 40)}{hint(name, _PARAMETERS)}", ["distribution"])
        names = _PARAMETERS[name]
        for key in data:
            if key != "distribution" and key not in names:
                raise ServiceError(
                    f"the latency '{name}' has no setting {shown(str(key), 40)}{hint(key, names)}", [key]
                )
        for key in names:
            if key not in data and key not in _DEFAULTS:
                raise ServiceError(f"the latency '{name}' needs '{key}'")
        return cls(name, tuple(data[key] if key in data else _DEFAULTS[key] for key in names))

    @property
    def mean(self) -> float:
        """The expected seconds."""
        if self.name == "uniform":
            return sum(self.parameters) / 2
        if self.name == "lognormal":
            median, sigma = self.parameters
            return median * math.exp(sigma * sigma / 2)
        if self.name == "pareto":
            least, alpha = self.parameters
            return least * alpha / (alpha - 1)
        return self.parameters[0]

    def sampler(self, generator: random.Random) -> Callable[[], float]:
        """A function that draws the next latency, in seconds, from the generator."""
        # The next value of an iterator costs a fraction of what a function costs that is called for it.
        if self.name == "constant":
            return repeat(float(self.parameters[0])).__next__
        if self.name == "lognormal":
            return _lognormal(generator.random, *self.parameters).__next__
        if self.name == "exponential":
            return _exponential(generator.random, *self.parameters).__next__
        if self.name == "pareto":
            return _pareto(generator.random, *self.parameters).__next__
        first, second = self.parameters
        return lambda: generator.uniform(first, second)

    def __str__(self) -> str:
        return f"{self.name}({', '.join(f'{value:g}' for value in self.parameters)})"


def _lognormal(chance: Callable[[], float], median: float, sigma: float) -> Iterator[float]:
    # Two numbers from 0 to 1 give two independent normal ones (Box and Muller).
    cos, sin, sqrt, log, exp, turn = math.cos, math.sin, math.sqrt, math.log, math.exp, math.tau
    while True:
        angle = chance() * turn
        radius = sqrt(-2.0 * log(1.0 - chance())) * sigma
        yield median * exp(cos(angle) * radius)
        yield median * exp(sin(angle) * radius)


def _exponential(chance: Callable[[], float], mean: float) -> Iterator[float]:
    log = math.log
    while True:
        yield -mean * log(1.0 - chance())


def _pareto(chance: Callable[[], float], least: float, alpha: float) -> Iterator[float]:
    power = -1.0 / alpha
    while True:
        yield least * (1.0 - chance()) ** power


def as_latency(value: Latency | float) -> Latency:
    """The distribution itself, or a constant one of so many seconds."""
    return value if isinstance(value, Latency) else Latency.constant(value)
