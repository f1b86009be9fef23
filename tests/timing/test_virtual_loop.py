"""asyncio's own code in virtual time: exact jumps, clear refusals, and no trace left in the world outside."""

from __future__ import annotations

import asyncio
import gc
import math
import signal
import socket
import sys
import threading
import warnings
import weakref
from asyncio import CancelledError
from collections.abc import Callable
from typing import Any

import pytest

from labkit.errors import ClockError, DeadlockError, VirtualLoopError
from labkit.timing import LoopClock, VirtualClock, VirtualLoop, run_virtual
from labkit.timing.loop_clock import _virtual_loops


def now() -> float:
    """Read the running loop's time."""
    return asyncio.get_running_loop().time()


async def later(seconds: float, value: Any = None) -> Any:
    """Give a value after some time."""
    await asyncio.sleep(seconds)
    return value


# ---------------------------------------------------------------------------------------------------------------- time


def test_time_begins_at_nought_and_jumps():
    """A day of sleep is over at once, and the loop's time says that it was a day."""

    async def main():
        begin = now()
        await asyncio.sleep(86_400)
        return begin, now()

    assert run_virtual(main()) == (0.0, 86_400.0)


def test_due_times_are_met_to_the_bit():
    """Time stands exactly where a callback was due: neither the jump nor the loop's resolution adds anything."""
    seen = []

    async def main():
        loop = asyncio.get_running_loop()
        expected = 0.0
        for step in (0.1, 0.1, 0.1, 1e-9, 1e9, 1 / 3, 5e-324):
            await asyncio.sleep(step)
            expected += step
            assert now() == expected
        for when in (1e9 + 7.25, 1e9 + 7.3, 1e9 + 9):
            loop.call_at(when, lambda when=when: seen.append((when, now())))
        await asyncio.sleep(10)

    run_virtual(main())
    assert [when for when, _ in seen] == [at for _, at in seen]
    assert len(seen) == 3


def test_nothing_runs_before_its_time():
    """Two callbacks a hair's breadth apart run at two times, not at one."""
    seen = []

    async def main():
        loop = asyncio.get_running_loop()
        first, second = 1.0, math.nextafter(1.0, 2.0)
        loop.call_at(second, lambda: seen.append(now()))
        loop.call_at(first, lambda: seen.append(now()))
        await asyncio.sleep(2)
        return [first, second]

    assert run_virtual(main()) == seen


def test_callbacks_that_are_due_together_run_in_the_order_in_which_they_were_scheduled():
    """Of a hundred timers for three moments, set in turn, each moment's run as they were set."""
    seen = []

    async def main():
        loop = asyncio.get_running_loop()
        for index in range(100):
            loop.call_at(float(index % 3 + 1), seen.append, (index % 3, index))
        await asyncio.sleep(4)

    run_virtual(main())
    assert seen == sorted(seen)
    assert len(seen) == 100


def test_timers_are_checked_as_asyncios_are():
    """A time that is none is refused, and so is a timer on a closed loop; a timer can be called off."""
    loop = VirtualLoop()
    for when in (None, math.nan):
        with pytest.raises(TypeError):
            loop.call_at(when, print)
    timer = loop.call_later(3, print)
    assert timer.when() == 3.0
    timer.cancel()
    assert timer.cancelled()
    loop.run_until_complete(asyncio.sleep(5))
    loop.close()
    with pytest.raises(RuntimeError, match="closed"):
        loop.call_at(1, print)


def test_many_sleepers_wake_in_the_order_of_their_due_times():
    """A thousand timers, set in no order, go off in order and exactly."""

    async def main():
        woken = []

        async def sleeper(seconds):
            await asyncio.sleep(seconds)
            woken.append((now(), float(seconds)))

        await asyncio.gather(*(sleeper(index * 7919 % 1000 + 1) for index in range(1000)))
        return woken

    woken = run_virtual(main())
    assert woken == [(float(second), float(second)) for second in range(1, 1001)]


def test_a_cancelled_timer_is_not_a_time_to_jump_to():
    """What was called off leaves no stop on the way."""

    async def main():
        asyncio.get_running_loop().call_later(5, print).cancel()
        async with asyncio.timeout(7):
            await asyncio.sleep(1)
        await asyncio.Event().wait()

    with pytest.raises(DeadlockError, match=r"at 1 s"):
        run_virtual(main())


# ------------------------------------------------------------------------------------------------- what asyncio offers


def test_a_timeout_ends_a_block():
    """`asyncio.timeout` strikes at its time."""

    async def main():
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(2.5):
                await asyncio.sleep(10)
        return now()

    assert run_virtual(main()) == 2.5


def test_wait_for_both_ways():
    """`asyncio.wait_for` gives the result in time, and TimeoutError after it."""

    async def main():
        result = await asyncio.wait_for(later(1, "in time"), 2)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(later(10), 2)
        return result, now()

    assert run_virtual(main()) == ("in time", 3.0)


def test_gather_and_as_completed():
    """Results come in the order of the arguments from gather, of their times from as_completed."""

    async def main():
        together = await asyncio.gather(later(3, "a"), later(1, "b"), later(2, "c"))
        assert now() == 3.0
        one_by_one = [(await done, now()) for done in asyncio.as_completed([later(3, "a"), later(1, "b")])]
        return together, one_by_one

    assert run_virtual(main()) == (["a", "b", "c"], [("b", 4.0), ("a", 6.0)])


def test_a_task_group_waits_for_all_and_fails_with_one():
    """`asyncio.TaskGroup` ends with its last task, and cancels the others when one fails."""
    log = []

    async def careful():
        try:
            await asyncio.sleep(100)
        except CancelledError:
            log.append(now())
            raise

    async def failing():
        await asyncio.sleep(1)
        raise ValueError("no")

    async def grouped():
        async with asyncio.TaskGroup() as group:
            group.create_task(careful())
            group.create_task(failing())

    async def main():
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(later(seconds, seconds)) for seconds in (2, 1)]
        assert [task.result() for task in tasks] == [2, 1]
        with pytest.raises(ExceptionGroup) as caught:
            await grouped()
        return [str(error) for error in caught.value.exceptions], now()

    assert run_virtual(main()) == (["no"], 3.0)
    assert log == [3.0]


def test_queue_condition_event_lock_and_semaphore():
    """What tasks wait for each other with works as ever, and takes the time that it says."""

    async def main():
        queue: asyncio.Queue[int] = asyncio.Queue(maxsize=1)
        condition, event = asyncio.Condition(), asyncio.Event()
        lock, semaphore = asyncio.Lock(), asyncio.Semaphore(2)
        log = []

        async def producer():
            for item in range(3):
                await asyncio.sleep(1)
                await queue.put(item)

        async def consumer():
            for _ in range(3):
                log.append((now(), "item", await queue.get()))
                await asyncio.sleep(2)
                queue.task_done()
            async with condition:
                condition.notify_all()

        async def waiter():
            async with condition:
                await condition.wait()
                log.append((now(), "condition"))
            event.set()

        async def worker(name):
            async with semaphore:
                await asyncio.sleep(10)
                async with lock:
                    log.append((now(), name))

        await asyncio.gather(producer(), consumer(), waiter(), event.wait(), *(worker(name) for name in "abc"))
        await queue.join()
        return log

    assert run_virtual(main()) == [
        (0.0, "item", 0),
        (3.0, "item", 1),
        (5.0, "item", 2),
        (7.0, "condition"),
        (10.0, "a"),
        (10.0, "b"),
        (20.0, "c"),
    ]


def test_a_shielded_task_outlives_its_awaiter():
    """`asyncio.shield` keeps the inner task going when the outer wait is called off."""

    async def main():
        inner = asyncio.create_task(later(5, "kept"))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(inner), 1)
        return await inner, now()

    assert run_virtual(main()) == ("kept", 5.0)


def test_what_is_left_is_cancelled_and_streams_are_closed():
    """As asyncio.run does it: at the end tasks are cancelled and async generators closed, in virtual time."""
    log = []

    async def stream():
        try:
            yield 1
        finally:
            await asyncio.sleep(5)
            log.append("stream")

    async def child():
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(5)
            log.append("child")

    held = stream()

    async def main():
        task = asyncio.create_task(child())
        await anext(held)
        await asyncio.sleep(0)
        return task.get_name()

    assert run_virtual(main())
    assert log == ["child", "stream"]


def test_errors_come_out_as_they_are():
    """What main raises is what run_virtual raises; Ctrl-C too."""

    async def main(error):
        await asyncio.sleep(1)
        raise error

    for error in (ValueError("no"), KeyboardInterrupt(), SystemExit(3)):
        with pytest.raises(type(error)):
            run_virtual(main(error))
    assert run_virtual(later(1, "again")) == "again"


def test_a_run_can_be_interrupted_by_a_signal():
    """Ctrl-C on a busy virtual loop ends the run with KeyboardInterrupt, and the handler is the caller's again."""
    before = signal.getsignal(signal.SIGINT)

    async def main():
        await asyncio.sleep(1)
        signal.raise_signal(signal.SIGINT)
        while True:
            await asyncio.sleep(1)

    with pytest.raises(KeyboardInterrupt):
        run_virtual(main())
    assert signal.getsignal(signal.SIGINT) is before


def test_run_virtual_takes_a_coroutine_and_nothing_else():
    """A function that was not called is refused with a sentence."""
    for thing in (later, None, 3):
        with pytest.raises(ClockError, match="takes a coroutine"):
            run_virtual(thing)


# ------------------------------------------------------------------------------------------------------------- deadlock


def test_an_idle_loop_raises_and_names_who_waits():
    """If nothing is due any more, the error tells the time and the tasks, where a real loop would hang."""

    async def main():
        asyncio.current_task().set_name("main")
        other = asyncio.create_task(asyncio.Event().wait(), name="reader")
        await asyncio.sleep(3)
        await other

    with pytest.raises(
        DeadlockError, match=r"at 3 s .*'main' in '.*main' \(line \d+\); 'reader' in 'Event.wait'"
    ) as caught:
        run_virtual(main())
    assert caught.value.waiting == ("main", "reader")


def test_an_endless_sleep_is_idle_too():
    """A callback that is due at no time is nothing to wait for."""

    async def main():
        await asyncio.sleep(math.inf)

    with pytest.raises(DeadlockError, match="at 0 s"):
        run_virtual(main())


def test_a_deadlock_lets_the_others_clean_up():
    """After the error, tasks are cancelled and end as in any run."""
    log = []

    async def child():
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(1)
            log.append("swept")

    async def main():
        task = asyncio.create_task(child())
        await task

    with pytest.raises(DeadlockError):
        run_virtual(main())
    assert log == ["swept"]
    assert not _virtual_loops


# ------------------------------------------------------------------------------------------------------------- refusals


class _Protocol(asyncio.Protocol):
    pass


def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()


REFUSED: dict[str, Callable[[], Any]] = {
    "open_connection": lambda: asyncio.open_connection("127.0.0.1", 9),
    "start_server": lambda: asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0),
    "create_connection": lambda: _loop().create_connection(_Protocol, "localhost", 9),
    "create_datagram_endpoint": lambda: _loop().create_datagram_endpoint(_Protocol, ("127.0.0.1", 0)),
    "open_unix_connection": lambda: asyncio.open_unix_connection("/nowhere"),
    "getaddrinfo": lambda: _loop().getaddrinfo("localhost", 80),
    "to_thread": lambda: asyncio.to_thread(print, "no"),
    "run_in_executor": lambda: _loop().run_in_executor(None, print),
    "create_subprocess_exec": lambda: asyncio.create_subprocess_exec(sys.executable, "-V"),
    "create_subprocess_shell": lambda: asyncio.create_subprocess_shell("true"),
    "add_signal_handler": lambda: _loop().add_signal_handler(signal.SIGTERM, print),
    "add_reader": lambda: _loop().add_reader(0, print),
    "connect_read_pipe": lambda: _loop().connect_read_pipe(_Protocol, sys.stdin),
}


@pytest.mark.parametrize("name", REFUSED)
def test_the_world_outside_is_refused_with_a_sentence(name):
    """Sockets, threads, processes and signals do not live in virtual time; asking says what was asked for, and why."""

    async def main():
        await asyncio.sleep(1)
        result = REFUSED[name]()
        if hasattr(result, "__await__"):
            await result

    with pytest.raises(
        VirtualLoopError, match=r"\w+\(\) needs (a|the) \w+.*, which does not live in virtual time; use"
    ):
        run_virtual(main())


@pytest.mark.parametrize("name", ["sock_accept", "sock_connect", "sock_recv", "sock_sendall"])
def test_socket_methods_are_refused_before_they_touch_the_socket(name):
    """The loop's own socket calls are refused as well, and the socket stays as it was."""

    async def main():
        with socket.socket() as endpoint:
            endpoint.setblocking(False)
            await getattr(_loop(), name)(endpoint, b"")

    with pytest.raises(VirtualLoopError, match=rf"{name}\(\) needs a socket"):
        run_virtual(main())


def test_a_refusal_can_be_handled_and_the_run_goes_on():
    """Unlike a foreign awaitable on the kernel, a refusal is an error like any other."""

    async def main():
        with pytest.raises(VirtualLoopError):
            await asyncio.to_thread(print)
        await asyncio.sleep(1)
        return now()

    assert run_virtual(main()) == 1.0


def test_asyncio_run_inside_is_asyncios_own_error():
    """A learner's `asyncio.run` in a coroutine is refused as on any running loop, in a sentence that names it."""

    async def main():
        inner = later(1)
        try:
            asyncio.run(inner)
        finally:
            inner.close()

    with pytest.raises(RuntimeError, match=r"asyncio\.run\(\) cannot be called from a running event loop"):
        run_virtual(main())


def test_run_virtual_inside_run_virtual_has_a_time_of_its_own():
    """Nested runs are allowed; each begins at nought and the outer time stands still."""

    async def main():
        await asyncio.sleep(5)
        inner = run_virtual(later(100, "inner"))
        return inner, now()

    assert run_virtual(main()) == ("inner", 5.0)


# ---------------------------------------------------------------------------------------------------------------- hosts


@pytest.mark.parametrize("ending", ["result", "error", "deadlock", "refused"])
def test_inside_a_running_loop_everything_is_restored(ending):
    """In a notebook's cell the outer loop, its task and its hooks are the same after the run, and go on."""

    async def main():
        await asyncio.sleep(1)
        if ending == "error":
            raise ValueError
        if ending == "deadlock":
            await asyncio.Event().wait()
        if ending == "refused":
            await asyncio.to_thread(print)
        return now()

    async def notebook():
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        hooks, ticks = sys.get_asyncgen_hooks(), []
        beside = asyncio.create_task(later(0.001, "beside"))
        await asyncio.sleep(0)
        for _ in range(2):
            if ending == "result":
                assert run_virtual(main()) == 1.0
            else:
                with pytest.raises((ValueError, DeadlockError, VirtualLoopError)):
                    run_virtual(main())
            assert asyncio.get_running_loop() is loop
            assert asyncio.get_event_loop() is loop
            assert asyncio.current_task() is task
            assert sys.get_asyncgen_hooks() == hooks
            await asyncio.sleep(0)
            ticks.append(1)
        return await beside, len(ticks)

    assert asyncio.run(notebook()) == ("beside", 2)
    with pytest.raises(RuntimeError):
        asyncio.get_running_loop()


def test_it_runs_in_a_thread():
    """A widget's callback runs in a subshell's thread, where signals cannot be handled; nothing else is different."""
    results = []
    thread = threading.Thread(target=lambda: results.append(run_virtual(later(60, "done"))))
    thread.start()
    thread.join(20)
    assert results == ["done"]


def test_the_policy_keeps_its_loop():
    """A loop that the caller has set for later stays set."""

    def work():
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        try:
            run_virtual(later(1))
            results.append(asyncio.get_event_loop() is loop)
        finally:
            asyncio.set_event_loop(None)
            loop.close()

    results = []
    thread = threading.Thread(target=work)
    thread.start()
    thread.join(20)
    assert results == [True]


def test_a_virtual_clock_inside():
    """A kernel run from a coroutine on the loop has its own time."""
    clock = VirtualClock()

    async def inner():
        await clock.sleep(3)
        return clock.now()

    async def main():
        await asyncio.sleep(1)
        return clock.run(inner()), now()

    assert run_virtual(main()) == (3.0, 1.0)


def test_loop_clock_reads_the_virtual_loops_time():
    """LoopClock tells the loop's time while it runs on one, also one that was made before the loop was."""
    clock = LoopClock()

    async def main():
        begin = clock.now()
        await clock.sleep(12.5)
        return begin, clock.now()

    assert run_virtual(main()) == (0.0, 12.5)
    assert clock.now() not in (0.0, 12.5)


def test_debug_mode_works(monkeypatch, caplog):
    """With asyncio's debug mode on, a run is the same, and virtual hours are not reported as slow callbacks."""
    monkeypatch.setenv("PYTHONASYNCIODEBUG", "1")

    async def main():
        assert asyncio.get_running_loop().get_debug()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3600):
                await asyncio.sleep(7200)
        with pytest.raises(VirtualLoopError):
            await asyncio.to_thread(print)
        return now()

    assert run_virtual(main()) == 3600.0
    assert "took" not in caplog.text


def test_a_loop_made_by_hand_can_be_used_and_closed():
    """VirtualLoop is a loop like another: run_until_complete, stop, and a close that may be repeated."""
    loop = VirtualLoop()
    assert loop.run_until_complete(later(2, "a")) == "a"
    loop.call_later(3, loop.stop)
    loop.run_forever()
    assert loop.time() == 5.0
    loop.close()
    loop.close()
    assert loop.is_closed()
    with pytest.raises(RuntimeError, match="closed"):
        loop.call_soon(print)


def test_loops_leave_nothing_behind():
    """A loop that is over is freed, and LoopClock no longer looks for one."""
    seen = []

    async def main():
        seen.append(weakref.ref(asyncio.get_running_loop()))
        async with LoopClock().timeout(1000):
            await asyncio.sleep(1)

    run_virtual(main())
    gc.collect()
    assert seen[0]() is None
    assert not _virtual_loops


def test_a_loop_that_was_not_closed_is_forgotten_all_the_same():
    """Dropping a loop warns, as asyncio's do, and leaves nothing in the register."""
    loop = VirtualLoop()
    assert len(_virtual_loops) == 1
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        del loop
        gc.collect()
    assert any("unclosed event loop" in str(warning.message) for warning in told)
    assert not _virtual_loops


def test_what_a_task_group_wraps_is_told_as_it_is():
    """A refusal inside a library's task group comes out as itself, with the group as its cause."""

    async def connect():
        await asyncio.get_running_loop().create_connection(asyncio.Protocol, "127.0.0.1", 1)

    async def main():
        async with asyncio.TaskGroup() as group:
            group.create_task(connect())

    with pytest.raises(VirtualLoopError, match="create_connection") as caught:
        run_virtual(main())
    assert isinstance(caught.value.__cause__, BaseExceptionGroup)
