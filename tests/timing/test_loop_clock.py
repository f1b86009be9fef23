"""What is LoopClock's own: one timer for a queue of limits, nothing kept, no loop bound, readable errors."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import weakref
from typing import Any

import pytest

from labkit.config import CircuitBreakerMiddlewareConfig
from labkit.errors import CircuitBreakerOpenError, ClockError
from labkit.middleware import CircuitBreakerMiddleware, FunctionMiddlewareChain, FunctionMiddlewareContext
from labkit.timing import LoopClock, loop_clock, run_virtual


def timers() -> list[Any]:
    """Give the timers of the running loop that were not called off."""
    return [handle for handle in asyncio.get_running_loop()._scheduled if not handle.cancelled()]


def lines(clock: LoopClock) -> dict[float, Any]:
    """Give the queues of limits on the running loop."""
    return clock._lines_of(asyncio.get_running_loop())


def test_limits_of_one_length_share_one_timer():
    """A thousand calls under one limit cost one timer, and none once they and it are over."""
    clock = LoopClock()

    async def call():
        async with clock.timeout(5):
            await gate.wait()

    async def main():
        tasks = [clock.start(call()) for _ in range(1000)]
        await clock.sleep(0)
        assert len(timers()) == 1
        assert list(lines(clock)) == [5]
        gate.set()
        for task in tasks:
            await task
        assert len(timers()) == 1
        assert not lines(clock)[5]._deadlines
        await clock.sleep(5)
        await clock.sleep(0)
        assert timers() == []
        assert lines(clock) == {}

    gate = asyncio.Event()
    run_virtual(main())


@pytest.mark.parametrize("ending", ["in time", "expired", "cancelled"])
def test_an_idle_loop_holds_no_limits(ending):
    """However the blocks ended, queues and timers are gone once the last limit would have been due."""
    clock = LoopClock()

    async def call(seconds):
        try:
            async with clock.timeout(seconds):
                await clock.sleep(1000 if ending != "in time" else 0)
        except TimeoutError:
            pass

    async def main():
        tasks = [clock.start(call(seconds)) for seconds in (1, 2, 2, 3)]
        await clock.sleep(0.5)
        if ending == "cancelled":
            for task in tasks:
                task.cancel()
        await clock.sleep(10)
        assert all(task.done() for task in tasks)
        assert timers() == []
        assert lines(clock) == {}
        assert not clock._tasks

    run_virtual(main())


def test_a_hung_call_does_not_hold_the_limits_behind_it():
    """Blocks that were left in time are let go of, though the first of their queue still waits."""
    clock = LoopClock()

    async def hang():
        async with clock.timeout(1e6):
            await clock.event().wait()

    async def main():
        hung = clock.start(hang())
        await clock.sleep(0)
        for _ in range(2000):
            async with clock.timeout(1e6):
                await clock.sleep(1)
        assert len(lines(clock)[1e6]._deadlines) < 200
        assert len(timers()) == 1
        hung.cancel()
        await clock.sleep(0)
        await clock.sleep(0)
        assert not lines(clock)[1e6]._deadlines

    run_virtual(main())


def test_a_hung_call_is_still_ended_after_its_queue_was_tidied():
    """Letting go of the dead does not lose the living, nor their order."""
    clock = LoopClock()
    ends = []

    async def hang(begin):
        await clock.sleep(begin)
        with pytest.raises(TimeoutError):
            async with clock.timeout(1000):
                await clock.event().wait()
        ends.append(clock.now())

    async def main():
        tasks = [clock.start(hang(begin)) for begin in (0, 200.5, 400.5)]
        for _ in range(600):
            async with clock.timeout(1000):
                await clock.sleep(1)
        for task in tasks:
            await task

    run_virtual(main())
    assert ends == [1000.0, 1200.5, 1400.5]


def test_limits_by_time_and_of_no_length_have_timers_of_their_own_and_take_them_along():
    """timeout_at, timeout(0) and timeout(inf) leave no queue and no timer."""
    clock = LoopClock()

    async def main():
        for deadline in (clock.timeout_at(50), clock.timeout(0), clock.timeout(-1), clock.timeout(float("inf"))):
            async with deadline:
                pass
        assert timers() == []
        assert lines(clock) == {}

    run_virtual(main())


def test_one_clock_serves_many_loops_and_keeps_none_of_them():
    """A clock at module level may be used by run after run; loops that are over are let go of, but for the last."""
    clock = LoopClock()
    loops = []

    async def main():
        loops.append(weakref.ref(asyncio.get_running_loop()))
        async with clock.timeout(1000):
            await clock.sleep(0)

    for _ in range(5):
        run_virtual(main())
        asyncio.run(main())
    gc.collect()
    assert sum(loop() is not None for loop in loops) <= 1


def test_one_clock_serves_two_threads_at_once():
    """Each thread's loop has its own queues: limits of one do not end blocks of the other."""
    clock = LoopClock()
    barrier = threading.Barrier(2, timeout=20)
    ends: dict[str, Any] = {}

    async def main(name, seconds):
        barrier.wait()
        for _ in range(50):
            with pytest.raises(TimeoutError):
                async with clock.timeout(seconds):
                    await clock.event().wait()
        ends[name] = clock.now()

    threads = [
        threading.Thread(target=lambda name=name, seconds=seconds: run_virtual(main(name, seconds)))
        for name, seconds in (("a", 1.0), ("b", 2.0))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert ends == {"a": 50.0, "b": 100.0}


def test_now_is_the_machines_monotonic_time():
    """With and without a running loop, now() tells the time that asyncio's loops tell."""
    clock = LoopClock()

    async def main():
        return asyncio.get_running_loop().time(), clock.now(), asyncio.get_running_loop().time()

    before, between, after = asyncio.run(main())
    assert before <= between <= after
    assert time.monotonic() <= clock.now() <= time.monotonic()


def test_follow_loop_reads_the_time_of_whatever_loop_runs():
    """On a loop with a time of its own that is not labkit's, follow_loop tells that loop's time."""

    class Strange(asyncio.SelectorEventLoop):
        def time(self) -> float:
            return super().time() + 1e9

    async def main():
        return LoopClock().now(), LoopClock(follow_loop=True).now()

    with asyncio.Runner(loop_factory=Strange) as runner:
        plain, following = runner.run(main())
    assert following - plain == pytest.approx(1e9, abs=60)
    assert LoopClock(follow_loop=True).now() < 1e9 + plain


@pytest.mark.parametrize(
    ("follow", "frozen_moves_by", "opens_again"), [(False, 0.0, False), (False, 60.0, True), (True, 0.0, True)]
)
def test_with_frozen_time_one_clock_has_to_move(monkeypatch, follow, frozen_moves_by, opens_again):
    """Time frozen, the loop's not: a cooldown ends once the frozen time is moved on, or where the loop is followed."""
    frozen = [1e6]
    for module, name in ((time, "monotonic"), (loop_clock, "_monotonic")):  # such a library replaces both
        monkeypatch.setattr(module, name, lambda: frozen[0])

    class Live(asyncio.SelectorEventLoop):
        passed = 5e6

        def time(self) -> float:
            return self.passed

    breaker = CircuitBreakerMiddleware(
        CircuitBreakerMiddlewareConfig(failure_threshold=1, cooldown_period=60.0), clock=LoopClock(follow_loop=follow)
    )
    answers = [ConnectionError("down"), "ok"]

    async def service():
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    chain = FunctionMiddlewareChain(middleware=[breaker], context=FunctionMiddlewareContext(name="parts"))
    call = chain.build_single(service)

    async def main():
        with pytest.raises(ConnectionError):
            await call()
        asyncio.get_running_loop().passed += 60.0
        frozen[0] += frozen_moves_by
        try:
            return await call() == "ok"
        except CircuitBreakerOpenError:
            return False

    with asyncio.Runner(loop_factory=Live) as runner:
        assert runner.run(main()) is opens_again


def test_outside_a_loop_the_errors_are_sentences():
    """start() and a limit need a running loop, and say so; no coroutine is left unawaited."""
    clock = LoopClock()

    async def nothing():
        pass

    with pytest.raises(ClockError, match=r"start\(\) needs a running event loop"):
        clock.start(nothing())
    with pytest.raises(ClockError, match="running event loop"):
        clock.timeout(1).__enter__()
    with pytest.raises(ClockError, match="running event loop"):
        clock.timeout_at(1).__enter__()


def test_a_limit_needs_a_task():
    """A callback of the loop is no task that could be cancelled, and is told so."""
    clock = LoopClock()
    told = []

    def callback():
        try:
            clock.timeout(1).__enter__()
        except ClockError as error:
            told.append(str(error))

    async def main():
        asyncio.get_running_loop().call_soon(callback)
        await clock.sleep(0)

    run_virtual(main())
    assert told == ["a timeout can only be entered by a task of a running event loop"]


def test_a_started_task_is_held_until_it_ends():
    """asyncio keeps only weak references to tasks; the clock keeps its own, until they are over."""
    clock = LoopClock()
    done = []

    async def child():
        await clock.sleep(1)
        done.append(True)

    async def main():
        clock.start(child())
        gc.collect()
        await clock.sleep(2)
        assert not clock._tasks

    run_virtual(main())
    assert done == [True]
