"""How long a mock dependency takes to answer: named distributions, drawn from a seed."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass

from labkit.errors import ServiceError
from labkit.services.checks import hint, is_number, shown

__all__ = ["Latency"]

_PARAMETERS = {"constant": ("seconds",), "uniform": ("low", "high"), "lognormal": ("median", "sigma")}


@dataclass(frozen=True, slots=True)
class Latency:
    """A named distribution of seconds. Make one with `constant`, `uniform` or `lognormal`.

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
            if not is_number(value, most=1e9):
                raise ServiceError(
                    f"the latency's '{name}' ({self.name}) is {shown(value)}; it must be a number, 0 or more"
                )
        if self.name == "lognormal" and self.parameters[1] > 10:
            raise ServiceError(f"the latency's 'sigma' is {self.parameters[1]:g}; it must be a number from 0 to 10")
        if self.name == "uniform" and self.parameters[0] > self.parameters[1]:
            low, high = self.parameters
            raise ServiceError(f"the latency's 'low' ({low:g}) is above its 'high' ({high:g})")

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

    def sampler(self, generator: random.Random) -> Callable[[], float]:
        """A function that draws the next latency, in seconds, from the generator."""
        if self.name == "constant":
            seconds = float(self.parameters[0])
            return lambda: seconds
        first, second = self.parameters
        if self.name == "uniform":
            return lambda: generator.uniform(first, second)
        return lambda: first * math.exp(generator.gauss(0.0, second))

    def __str__(self) -> str:
        return f"{self.name}({', '.join(f'{value:g}' for value in self.parameters)})"


def as_latency(value: Latency | float) -> Latency:
    """The distribution itself, or a constant one of so many seconds."""
    return value if isinstance(value, Latency) else Latency.constant(value)
