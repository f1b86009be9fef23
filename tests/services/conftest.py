"""The three worlds in which the same suite runs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any

import pytest

from labkit.timing import Clock, LoopClock, VirtualClock, run_virtual


@dataclass(frozen=True)
class World:
    """A clock, a way to run a coroutine on it, and how long one unit of a test's time takes on it."""

    name: str
    make: Callable[[], Clock]
    run_on: Callable[[Clock, Coroutine[Any, Any, Any]], Any]
    unit: float

    @property
    def exact(self) -> bool:
        """Whether time is virtual, so that it may be compared for equality."""
        return self.name != "real loop"

    def run(self, main: Callable[[Clock], Coroutine[Any, Any, Any]]) -> Any:
        """Run `main(clock)` on a new clock; the clock is made where it will run, as an application does it."""
        if self.name == "virtual clock":
            clock = self.make()
            return self.run_on(clock, main(clock))

        async def inside() -> Any:
            return await main(self.make())

        return self.run_on(LoopClock(), inside())


WORLDS = (
    World("virtual clock", VirtualClock, lambda clock, coro: clock.run(coro), 1.0),  # type: ignore[attr-defined]
    World("virtual loop", LoopClock, lambda clock, coro: run_virtual(coro), 1.0),
    World("real loop", LoopClock, lambda clock, coro: asyncio.run(asyncio.wait_for(coro, 20)), 0.002),
)


@pytest.fixture(params=WORLDS, ids=lambda world: world.name)
def world(request: pytest.FixtureRequest) -> World:
    """Each of the three worlds in turn."""
    return request.param


@pytest.fixture
def clock() -> VirtualClock:
    """A new virtual clock, for tests in which times are exact."""
    return VirtualClock()


@pytest.fixture
def until() -> Callable[..., Awaitable[None]]:
    """Wait until a condition holds that the world outside brings about; fail after so many seconds."""

    async def waiting(condition: Callable[[], object], limit: float = 10.0) -> None:
        async with asyncio.timeout(limit):
            while not condition():
                await asyncio.sleep(0.002)

    return waiting
