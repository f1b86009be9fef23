"""The three hosts on which one and the same suite runs."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from labkit.timing import Clock, LoopClock, VirtualClock, run_virtual


@dataclass(frozen=True)
class Host:
    """A clock, and how a coroutine runs on it.

    Attributes:
        name: for the test's id.
        unit: how many seconds stand for one unit of a test's time; tiny where time is real.
    """

    name: str
    unit: float

    @property
    def exact(self) -> bool:
        """Whether time is virtual, so that it may be compared for equality."""
        return self.name != "real loop"

    def run(self, main: Callable[[Clock], Coroutine[Any, Any, Any]]) -> Any:
        """Run `main(clock)` on a new clock and give its result."""
        if self.name == "virtual clock":
            clock = VirtualClock()
            return clock.run(main(clock))
        return (asyncio.run if self.name == "real loop" else run_virtual)(main(LoopClock()))


@pytest.fixture(
    params=[Host("virtual clock", 1.0), Host("virtual loop", 1.0), Host("real loop", 0.002)], ids=lambda host: host.name
)
def host(request: pytest.FixtureRequest) -> Host:
    """Each of the three hosts in turn."""
    return request.param


@pytest.fixture
def clock() -> VirtualClock:
    """A new virtual clock, for tests in which times are exact."""
    return VirtualClock()


@pytest.fixture(autouse=True)
def swept() -> Iterator[None]:
    """Collect what a test dropped while it is still that test's fault: a warning out of it is an error."""
    yield
    gc.collect(1)
