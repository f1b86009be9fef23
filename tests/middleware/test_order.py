"""A list is outermost first, and the order decides what a breaker sees."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from labkit.policies import BreakerSnapshot, CircuitBreakerState


def test_the_breaker_outside_the_timeout_sees_the_timeouts(bench: Any) -> None:
    """Breaker, timeout around a hanging dependency: 5 TimeoutErrors, then 2 rejections; called 5 times; OPEN."""
    breaker = bench.breaker(failure_threshold=5, cooldown_period=30.0)
    call = bench.single(breaker, bench.timeout(2.0), service=bench.hangs)

    async def main() -> list[str]:
        return [await bench.kind(call()) for _ in range(7)]

    assert bench.run(main()) == ["TimeoutError"] * 5 + ["CircuitBreakerOpenError"] * 2
    assert bench.calls == 5
    assert breaker.snapshot("parts").state is CircuitBreakerState.OPEN
    assert bench.now() == 10.0


def test_the_breaker_inside_the_timeout_sees_cancellations(bench: Any) -> None:
    """Timeout, breaker: 7 TimeoutErrors; called 7 times; the breaker saw 7 cancellations and stays CLOSED."""
    breaker = bench.breaker(failure_threshold=5, cooldown_period=30.0)
    seen: list[str] = []
    breaker.listen(lambda event: seen.append(event.kind))
    call = bench.single(bench.timeout(2.0), breaker, service=bench.hangs)

    async def main() -> list[str]:
        return [await bench.kind(call()) for _ in range(7)]

    assert bench.run(main()) == ["TimeoutError"] * 7
    assert bench.calls == 7
    assert breaker.snapshot("parts") == BreakerSnapshot(CircuitBreakerState.CLOSED, 0, 0, False, 0.0)
    assert seen == ["admitted", "cancelled"] * 7


@pytest.mark.parametrize(("outside", "attempts", "logical"), [("retry", 3, 1), ("breaker", 9, 3)])
def test_retry_outside_and_inside(bench: Any, outside: str, attempts: int, logical: int) -> None:
    """Threshold 3, 3 attempts: retry outside opens after one call of 3 attempts, breaker outside after three, of 9."""
    breaker, retry = bench.breaker(failure_threshold=3, cooldown_period=1e6), bench.retry(3)
    order = [retry, breaker] if outside == "retry" else [breaker, retry]
    call = bench.single(*order, service=bench.fails)

    async def main() -> int:
        made = 0
        while breaker.snapshot("parts").state is CircuitBreakerState.CLOSED:
            made += 1
            await bench.get(call())
        return made

    assert bench.run(main()) == logical
    assert bench.calls == attempts


def test_a_retry_outside_an_open_breaker_gives_up_at_once(bench: Any) -> None:
    """A rejection is passed on without a wait, even if the configuration names every exception there is."""
    breaker = bench.breaker(cooldown_period=1e6)
    call = bench.single(bench.retry(5, retry_on=["Exception"]), breaker, service=bench.fails)

    async def main() -> list[str]:
        await bench.trip(breaker)
        return [await bench.kind(call()) for _ in range(3)]

    assert bench.run(main()) == ["CircuitBreakerOpenError"] * 3
    assert bench.now() == 0.0


def test_a_timeout_around_a_retry_bounds_the_operation(bench: Any) -> None:
    """Outside, the limit covers attempts and waits; inside, each attempt has its own."""
    whole = bench.single(bench.timeout(5.0), bench.retry(9), service=bench.fails)
    each = bench.single(bench.retry(2), bench.timeout(5.0), service=bench.hangs)

    async def main() -> None:
        assert await bench.kind(whole()) == "TimeoutError"
        assert (bench.now(), bench.calls) == (5.0, 3)  # at 0, 1 and 3 s; the next would have been at 7 s
        assert await bench.kind(each()) == "TimeoutError"
        assert (bench.now(), bench.calls) == (5.0 + 5.0 + 1.0 + 5.0, 5)

    bench.run(main())


def test_a_disabled_middleware_is_left_out(bench: Any) -> None:
    """`enabled: false` takes it out of the chain, whichever kind it is; it is read when the chain is built."""
    off = [
        bench.breaker(enabled=False),
        bench.retry(enabled=False),
        bench.fallback(enabled=False),
    ]
    limit = bench.timeout(1.0)
    limit.config.enabled = False

    async def slow() -> str:
        await bench.sleep(5.0)
        return await bench.fails()

    call = bench.single(*off, limit, service=slow)
    limit.config.enabled = True  # too late for that chain

    async def main() -> None:
        for _ in range(3):
            assert await bench.kind(call()) == "DependencyError"
        assert (bench.calls, bench.now()) == (3, 15.0)
        assert await bench.kind(bench.single(limit, service=slow)()) == "TimeoutError"

    bench.run(main())
    assert off[0].snapshot("parts").failures == 0


@pytest.mark.parametrize("mode", ["single", "stream"])
def test_an_instance_that_is_listed_twice_runs_once(bench: Any, mode: str, caplog: pytest.LogCaptureFixture) -> None:
    """It runs at its first place, and a warning says so."""
    breaker = bench.breaker(failure_threshold=4)
    with caplog.at_level(logging.WARNING):
        if mode == "single":
            call = bench.single(breaker, bench.timeout(2.0), breaker, service=bench.fails)
        else:
            stream = bench.stream(breaker, bench.timeout(2.0), breaker, service=bench.streams((OSError(),)))

            async def call() -> Any:
                return await bench.read(stream())

    assert "runs once, at its first place" in caplog.text
    bench.run(bench.get(call()))
    assert breaker.snapshot("parts").failures == 1


def test_one_instance_on_two_functions_keeps_two_states(bench: Any) -> None:
    """The same breaker around two functions, in different orders, keeps each function's state under its name."""
    breaker, limit = bench.breaker(failure_threshold=2), bench.timeout(1.0)
    parts = bench.single(breaker, limit, service=bench.hangs, name="parts")
    documents = bench.single(limit, breaker, service=bench.hangs, name="documents")

    async def main() -> None:
        for _ in range(3):
            await bench.get(parts())
            await bench.get(documents())

    bench.run(main())
    assert breaker.snapshot("parts").state is CircuitBreakerState.OPEN
    assert breaker.snapshot("documents").state is CircuitBreakerState.CLOSED
    assert bench.calls == 2 + 3
