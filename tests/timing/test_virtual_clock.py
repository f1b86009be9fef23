"""The kernel by itself: exact times and orders, errors that say who did what, and a clock that outlives all of them."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import math
import sys
import threading
import tracemalloc
from asyncio import CancelledError
from collections.abc import Callable, Coroutine
from decimal import Decimal
from typing import Any

import pytest

from labkit.errors import ClockError, DeadlockError, ForeignAwaitableError
from labkit.timing import LoopClock, VirtualClock, run_virtual


async def nothing() -> None:
    """Do nothing."""


# --------------------------------------------------------------------------------------------------------- run and time


def test_run_gives_the_result_and_the_clock_stands_where_it_ended(clock):
    """run() returns what main returns; time goes on from there in the next run."""

    async def main(seconds):
        await clock.sleep(seconds)
        return clock.now()

    assert clock.run(main(2.5)) == 2.5
    assert clock.now() == 2.5
    assert clock.run(main(1)) == 3.5


def test_time_begins_where_it_is_told():
    """The first reading is the start; a start that is no finite number is refused."""
    assert VirtualClock(100).now() == 100.0
    for start in (math.nan, math.inf, -math.inf):
        with pytest.raises(ClockError, match="finite"):
            VirtualClock(start)


def test_long_waits_cost_nothing(clock):
    """A year passes at once."""

    async def main():
        await clock.sleep(365 * 86_400)
        return clock.now()

    assert clock.run(main()) == 31_536_000.0


def test_run_takes_a_coroutine_and_nothing_else(clock):
    """A function that was not called, or its result, is refused with a sentence."""
    for thing in (nothing, None, 3):
        with pytest.raises(ClockError, match="takes a coroutine"):
            clock.run(thing)


def test_simultaneous_events_run_in_the_order_in_which_they_were_scheduled(clock):
    """Sleeps, starts, wakes and limits that are due together keep the order in which they were asked for."""
    log = []

    async def sleeper(name, seconds):
        await clock.sleep(seconds)
        log.append(name)

    async def limited(name, seconds):
        with pytest.raises(TimeoutError):
            async with clock.timeout(seconds):
                await clock.event().wait()
        log.append(name)

    async def main():
        for name, begin, kind in (
            ("a", 0, sleeper),
            ("b", 0, limited),
            ("c", 1, sleeper),
            ("d", 1, limited),
            ("e", 2, limited),
            ("f", 2, sleeper),
        ):
            await clock.sleep(begin - clock.now())
            clock.start(kind(name, 10 - clock.now()))
        await clock.sleep(20)

    clock.run(main())
    # A sleeper speaks in the very turn that was scheduled; a limit cancels in its turn, and its block speaks after it.
    assert log == ["a", "c", "f", "b", "d", "e"]


def test_limits_of_one_length_keep_their_place_among_other_events(clock):
    """Deadlines that share a queue are not played in one go when something else was scheduled between them."""
    log = []

    async def watch(name, deadline):
        try:
            async with deadline:
                await clock.event().wait()
        except TimeoutError:
            pass

    async def main():
        deadlines = [clock.timeout(5) for _ in range(3)]

        async def look(name):
            await clock.sleep(5)
            log.append((name, [deadline.expired() for deadline in deadlines]))

        for index, deadline in enumerate(deadlines):
            clock.start(watch(index, deadline))
            clock.start(look(index))
        await clock.sleep(6)

    clock.run(main())
    assert log == [(0, [True, False, False]), (1, [True, True, False]), (2, [True, True, True])]


def test_a_limit_scheduled_before_a_sleep_of_the_same_end_wins(clock):
    """`timeout(1)` around `sleep(1)` ends in TimeoutError: the limit was there first."""

    async def main():
        async with clock.timeout(1):
            await clock.sleep(1)

    with pytest.raises(TimeoutError):
        clock.run(main())


def test_time_never_goes_back(clock):
    """Negative sleeps, limits in the past and dead limits of other lengths leave the time alone."""
    seen = []

    async def main():
        for seconds in (3, -5, 0, -math.inf, 1e-9, 2):
            async with clock.timeout(1000), clock.timeout_at(clock.now() + 500):
                await clock.sleep(seconds)
            seen.append(clock.now())

    clock.run(main())
    assert seen == sorted(seen)
    assert seen[:4] == [3.0] * 4
    assert clock.now() == pytest.approx(5.0)


@pytest.mark.parametrize("seconds", [2, 2.0, True])
def test_whole_seconds_are_seconds(clock, seconds):
    """An int is as good a length as a float, and now() is a float in any case."""

    async def main():
        await clock.sleep(seconds)
        return clock.now()

    now = clock.run(main())
    assert (now, type(now)) == (float(seconds), float)


def test_a_number_that_is_not_pythons_own_is_a_length(clock):
    """What can be made a float, such as an array's number or a Decimal, can be slept for."""

    class Small:
        def __float__(self) -> float:
            return 0.25

    async def main():
        for seconds in (Small(), Decimal("0.5")):
            await clock.sleep(seconds)
        return clock.now()

    assert clock.run(main()) == 0.75


def test_a_sleep_of_nan_ends_the_run_even_if_it_is_swallowed(clock):
    """NaN is a bug of the caller's and is not passed over; the sentence names the task."""

    async def main():
        while True:
            with contextlib.suppress(Exception):
                await clock.sleep(math.nan)

    with pytest.raises(ClockError, match=r"'.*main'.*NaN"):
        clock.run(main())


def test_a_task_may_take_back_its_own_cancellation_before_it_waits(clock):
    """As on asyncio from 3.13: cancel() and uncancel() in one step come to nothing."""

    async def child(me):
        me[0].cancel()
        me[0].uncancel()
        await clock.sleep(1)
        return "went on"

    async def main():
        me = []
        me.append(clock.start(child(me)))
        return await me[0]

    assert clock.run(main()) == "went on"


def test_a_task_cancelled_in_its_last_step_counts_as_cancelled(clock):
    """As on asyncio: whoever asks in time is told that it was."""

    async def child(me):
        me[0].cancel("late")
        return "result"

    async def main():
        me = []
        me.append(clock.start(child(me)))
        with pytest.raises(CancelledError, match="late"):
            await me[0]
        return me[0].cancelled()

    assert clock.run(main()) is True


def test_names_and_looks_of_tasks(clock):
    """A task without a name has its coroutine's; its repr tells how it fares."""

    async def failing():
        raise ValueError("no")

    async def main():
        tasks = [clock.start(nothing()), clock.start(failing()), clock.start(clock.event().wait(), name="third")]
        looks = [repr(task) for task in tasks]
        await clock.sleep(0)
        tasks[2].cancel()
        await clock.sleep(0)
        tasks[1].exception()
        return [task.get_name() for task in tasks], looks + [repr(task) for task in tasks]

    names, looks = clock.run(main())
    assert names[0] == "nothing"
    assert names[1].endswith("failing")
    assert names[2] == "third"
    for look, word in zip(looks, ["running"] * 3 + ["done", "failed: ValueError('no')", "cancelled"], strict=True):
        assert look.startswith("<VirtualTask '")
        assert look.endswith(f" {word}>")


# ------------------------------------------------------------------------------------------------------------- deadlock


def test_a_deadlock_names_every_task_that_waits_and_where(clock):
    """If nothing is due and main still waits, the error tells the time, the tasks and the coroutines they stand in."""

    async def hang(event):
        await event.wait()

    async def main():
        await clock.sleep(7)
        clock.start(hang(clock.event()), name="reader")
        clock.start(clock.sleep(math.inf), name="sleeper")
        await hang(clock.event())

    with pytest.raises(DeadlockError) as caught:
        clock.run(main())
    text = str(caught.value)
    assert "7 s" in text
    assert "'reader'" in text
    assert "'sleeper'" in text
    assert "hang' (line " in text
    assert caught.value.waiting[1:] == ("reader", "sleeper")
    assert caught.value.waiting[0].endswith("main")


def test_the_dead_limits_of_others_do_not_move_time_before_a_deadlock(clock):
    """Limits that were left in time are no events: the deadlock is found where the last thing happened."""

    async def main():
        async with clock.timeout(100):
            await clock.sleep(1)
        async with clock.timeout_at(50):
            await clock.sleep(1)
        await clock.event().wait()

    with pytest.raises(DeadlockError, match="2 s"):
        clock.run(main())


def test_a_task_cannot_await_itself_nor_one_that_waits_for_it(clock):
    """A circle of awaits is refused by the one who would close it, with both names."""

    async def child(me, others):
        await clock.sleep(0)
        await others[me]

    async def main(circle):
        others = {}
        for me, other in circle.items():
            others[me] = clock.start(child(other, others), name=me)
        for task in others.values():
            try:
                await task
            except ClockError as error:
                return str(error)

    assert clock.run(main({"a": "a"})) == "task 'a' cannot await itself"
    text = clock.run(main({"a": "b", "b": "c", "c": "a"}))
    assert text == "task 'c' cannot await task 'a', which waits for it in turn"


def test_tasks_that_will_not_end_are_named(clock):
    """If cancelling what is left ends nothing, the run says which tasks refuse instead of hanging."""

    async def stubborn():
        while True:
            with contextlib.suppress(CancelledError):
                await clock.event().wait()

    async def main():
        clock.start(stubborn(), name="mule")
        await clock.sleep(1)

    with pytest.raises(DeadlockError, match=r"refuse.*'mule'"):
        clock.run(main())


def test_a_failed_main_is_told_together_with_what_refuses_to_end(clock):
    """When both happen, the error of main is the cause and is not lost."""

    async def stubborn():
        try:
            await clock.event().wait()
        except CancelledError:
            await clock.event().wait()

    async def main():
        clock.start(stubborn())
        await clock.sleep(1)
        raise ValueError("first")

    with pytest.raises(DeadlockError) as caught:
        clock.run(main())
    assert str(caught.value.__cause__) == "first"


# ---------------------------------------------------------------------------------------------------------- foreigners


async def _sleep_zero() -> None:
    await asyncio.sleep(0)


async def _sleep() -> None:
    await asyncio.sleep(1)


async def _event() -> None:
    await asyncio.Event().wait()


async def _timeout() -> None:
    async with asyncio.timeout(1):
        raise AssertionError("entered")


async def _wait_for() -> None:
    await asyncio.wait_for(nothing(), 1)


async def _gather() -> None:
    await asyncio.gather(nothing(), nothing(), nothing())


async def _create_task() -> None:
    await asyncio.create_task(nothing())


async def _task_group() -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(nothing())


async def _wait() -> None:
    await asyncio.shield(nothing())


async def _as_completed() -> None:
    for done in asyncio.as_completed([nothing(), nothing()]):
        await done


async def _future() -> None:
    await asyncio.Future()


async def _loops_future() -> None:
    await asyncio.get_running_loop().create_future()


async def _loops_time() -> None:
    asyncio.get_running_loop().time()


async def _queue() -> None:
    await asyncio.Queue().get()


async def _lock() -> None:
    lock = asyncio.Lock()
    await lock.acquire()
    await lock.acquire()


async def _to_thread() -> None:
    await asyncio.to_thread(print)


async def _connect() -> None:
    await asyncio.open_connection("127.0.0.1", 1)


async def _loop_clock_sleep() -> None:
    await LoopClock().sleep(1)


async def _loop_clock_timeout() -> None:
    async with LoopClock().timeout(1):
        raise AssertionError("entered")


async def _loop_clock_start() -> None:
    await LoopClock().start(nothing())


async def _loop_clock_event() -> None:
    await LoopClock().event().wait()


async def _other_sleep() -> None:
    await VirtualClock().sleep(1)


async def _other_event() -> None:
    await VirtualClock().event().wait()


async def _other_task() -> None:
    other = VirtualClock()
    task = other.start(nothing())
    try:
        await task
    finally:
        other.close()


async def _other_timeout() -> None:
    async with VirtualClock().timeout(1):
        raise AssertionError("entered")


class _Odd:
    def __await__(self):
        yield "odd"


FOREIGN = [
    _sleep_zero,
    _sleep,
    _event,
    _timeout,
    _wait_for,
    _gather,
    _create_task,
    _task_group,
    _wait,
    _as_completed,
    _future,
    _loops_future,
    _loops_time,
    _queue,
    _lock,
    _to_thread,
    _connect,
    _loop_clock_sleep,
    _loop_clock_timeout,
    _loop_clock_start,
    _loop_clock_event,
    _other_sleep,
    _other_event,
    _other_task,
    _other_timeout,
]


@pytest.mark.parametrize("swallow", [False, True])
@pytest.mark.parametrize("foreign", FOREIGN, ids=lambda function: function.__name__.strip("_"))
def test_what_is_not_the_clocks_ends_the_run_and_names_the_coroutine(clock, foreign, swallow):
    """Awaiting another world's things is told with the coroutine, its line and its task, though it be swallowed."""
    swept = []

    async def bystander():
        try:
            await clock.event().wait()
        finally:
            swept.append("bystander")

    async def main():
        clock.start(bystander())
        await clock.sleep(1)
        if not swallow:
            await foreign()
        while True:
            try:
                await foreign()
            except Exception:
                await clock.sleep(1)

    with pytest.raises(ForeignAwaitableError) as caught:
        clock.run(main())
    assert f"coroutine '{foreign.__name__}' (line {_line(foreign)}" in str(caught.value)
    assert "main'" in str(caught.value)
    assert clock.now() == 1.0
    assert swept == ["bystander"]
    assert _still_works(clock)


def _line(function: Callable[..., Any]) -> str:
    """The digits that the numbers of its lines begin with."""
    lines = [line for *_, line in function.__code__.co_lines() if line]
    same = 0
    while len({str(line)[: same + 1] for line in lines}) == 1 and same < len(str(lines[0])):
        same += 1
    return str(lines[0])[:same]


def test_an_awaitable_of_ones_own_that_yields_something_odd_is_foreign(clock):
    """What an `__await__` yields must be the clock's; the error names the method and shows the thing."""

    async def main():
        await _Odd()

    with pytest.raises(ForeignAwaitableError, match=r"'_Odd.__await__' \(line \d+\) in task '.*main' awaited 'odd'"):
        clock.run(main())


def test_a_future_of_a_loop_that_runs_outside_is_foreign(clock):
    """A future that was made on the notebook's loop cannot be awaited on the clock, and is shown in the error."""

    async def notebook():
        future = asyncio.get_running_loop().create_future()

        async def main():
            await future

        with pytest.raises(ForeignAwaitableError, match=r"main.* awaited <Future pending"):
            clock.run(main())

    asyncio.run(notebook())


def test_a_swallower_of_everything_cannot_keep_a_run_alive(clock):
    """Even a coroutine that swallows its own closing is left behind, and the clock can be used again."""
    tries = []

    async def main():
        while len(tries) < 10:
            try:
                await asyncio.sleep(0)
            except BaseException as error:
                tries.append(type(error))

    with pytest.raises(ForeignAwaitableError):
        clock.run(main())
    assert tries == [GeneratorExit] * 10
    assert _still_works(clock)


def test_asking_for_the_current_asyncio_task_from_outside_asyncio_is_harmless(clock, caplog):
    """Others look for an asyncio task too (logging does, for every record): they find nothing, and nothing breaks."""

    async def main():
        with caplog.at_level(logging.INFO):
            logging.getLogger("somebody").info("hello")
        await clock.sleep(1)
        return asyncio.current_task(), hash(asyncio._get_running_loop())

    task = clock.run(main())[0]
    assert task is None or not hasattr(task, "get_name")  # since Python 3.14 something has to stand there
    assert "hello" in caplog.text


@pytest.mark.parametrize("outside", [False, True])
def test_the_task_of_a_loop_outside_is_not_taken_for_the_clocks(clock, outside):
    """A run inside an asyncio task neither finds that task nor disturbs it: it is the current one again afterwards."""

    async def main():
        async with asyncio.timeout(1):
            raise AssertionError("entered")

    async def around():
        task = asyncio.current_task()
        with pytest.raises(ForeignAwaitableError, match="used asyncio"):
            clock.run(main())
        assert asyncio.current_task() is task
        async with asyncio.timeout(60):
            await asyncio.create_task(nothing())

    if outside:
        asyncio.run(around())
    else:
        with pytest.raises(ForeignAwaitableError, match="used asyncio"):
            clock.run(main())


def test_a_clocks_things_are_refused_outside_any_run(clock):
    """A sleep, an event, a limit or a task awaited on an asyncio loop is one clear error."""
    task = clock.start(nothing())

    async def limit():
        async with clock.timeout(1):
            raise AssertionError("entered")

    async def awaiting(thing):
        await thing

    for coroutine in (awaiting(clock.sleep(1)), awaiting(clock.event().wait()), awaiting(task), limit()):
        with pytest.raises(ClockError, match="only a task that runs on this VirtualClock can"):
            asyncio.run(coroutine)
    clock.close()


def test_another_clocks_finished_things_may_be_used(clock):
    """What needs no waiting belongs to everybody: a task that is done, a flag that is up, a reading of the time."""
    other = VirtualClock(5)

    async def five():
        return 5

    task = other.start(five())
    other.settle()
    flag = other.event()
    flag.set()

    async def main():
        await flag.wait()
        return await task, other.now()

    assert clock.run(main()) == (5, 5.0)


# ------------------------------------------------------------------------------------------------------------ by hand


def test_advance_plays_what_is_due_and_stands_at_its_target(clock):
    """Everything up to the target runs, the target included, and the clock stands there even if nothing happened."""
    log = []

    async def ticker():
        while True:
            await clock.sleep(1)
            log.append(clock.now())

    clock.start(ticker())
    clock.advance(2.5)
    assert (log, clock.now()) == ([1.0, 2.0], 2.5)
    clock.advance(0.5)
    assert (log, clock.now()) == ([1.0, 2.0, 3.0], 3.0)
    clock.advance(0)
    assert log == [1.0, 2.0, 3.0]
    clock.close()
    assert clock.now() == 3.0


@pytest.mark.parametrize("seconds", [-1, -1e-9, math.inf, math.nan])
def test_advance_refuses_what_is_not_a_step_forward(clock, seconds):
    """Back, for ever and NaN are refused with a sentence, and nothing has happened."""
    task = clock.start(nothing())
    with pytest.raises(ClockError, match="forward"):
        clock.advance(seconds)
    assert clock.now() == 0.0
    assert not task.done()
    clock.settle()
    assert task.done()


def test_settle_plays_what_is_due_now_and_no_more(clock):
    """A chain of wakes in one instant runs to its end; what is due later waits."""
    log = []

    async def main():
        for turn in range(3):
            await clock.sleep(0)
            log.append(turn)
        await clock.sleep(1e-9)
        log.append("later")

    task = clock.start(main())
    clock.settle()
    assert log == [0, 1, 2]
    assert clock.now() == 0.0
    clock.advance(1)
    assert task.done()
    assert log[-1] == "later"


def test_events_and_cancellations_may_come_from_outside(clock):
    """Between steps the hand on the clock may set, cancel and start."""
    flag = clock.event()
    waiting, doomed = clock.start(flag.wait()), clock.start(clock.event().wait())
    clock.settle()
    flag.set()
    doomed.cancel()
    assert not waiting.done()
    assert not doomed.done()
    clock.settle()
    assert waiting.result() is True
    assert doomed.cancelled()


def test_close_ends_what_is_left(clock):
    """close() cancels, lets clean up in virtual time, closes streams, and leaves the clock usable; twice is as once."""
    log = []

    async def stream():
        try:
            yield 1
        finally:
            await clock.sleep(2)
            log.append("stream")

    held = stream()

    async def child():
        await anext(held)
        try:
            await clock.event().wait()
        finally:
            await clock.sleep(1)
            log.append("child")

    task = clock.start(child())
    clock.advance(5)
    clock.close()
    assert task.cancelled()
    assert log == ["child", "stream"]
    assert clock.now() == 8.0
    clock.close()
    assert _still_works(clock)


def test_a_clock_cannot_be_driven_from_inside(clock):
    """run, advance, settle and close from one of its own tasks are refused, and the run goes on undisturbed."""

    async def main():
        for drive in (lambda: clock.run(nothing()), lambda: clock.advance(1), clock.settle, clock.close):
            with pytest.raises(ClockError, match="runs already"):
                drive()
        await clock.sleep(1)
        return clock.now()

    assert clock.run(main()) == 1.0


def test_tasks_started_before_a_run_run_in_it(clock):
    """What was started by hand takes part in the next run, and is ended with it."""
    log = []

    async def child():
        log.append(clock.now())
        await clock.event().wait()

    task = clock.start(child())

    async def main():
        await clock.sleep(1)

    clock.run(main())
    assert log == [0.0]
    assert task.cancelled()


# --------------------------------------------------------------------------------------------------- after the accident


def _still_works(clock: VirtualClock) -> bool:
    """Whether the clock has nothing left over and runs a program with all its parts as if it were new."""
    assert not clock._tasks
    assert not clock._heap
    assert not clock._lines
    began = clock.now()
    log = []

    async def child(flag):
        async with clock.timeout(5):
            await flag.wait()
            log.append(clock.now() - began)

    async def main():
        flag = clock.event()
        task = clock.start(child(flag))
        await clock.sleep(2)
        flag.set()
        await task
        with pytest.raises(TimeoutError):
            async with clock.timeout(1):
                await clock.event().wait()
        return clock.now() - began

    return clock.run(main()) == 3.0 and log == [2.0]


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("where", ["main", "child", "clean-up"])
@pytest.mark.parametrize("drive", ["run", "advance"])
def test_an_interrupt_ends_everything_at_once_and_leaves_a_usable_clock(clock, error, where, drive):
    """Ctrl-C in any task comes out of the drive; other tasks are closed, and nothing of them runs later."""
    log = []

    async def bystander():
        try:
            await clock.event().wait()
        finally:
            log.append("swept")
            clock.start(nothing())
            await clock.sleep(1)
            log.append("too late")

    async def interrupted():
        await clock.sleep(1)
        if where != "clean-up":
            raise error
        try:
            await clock.event().wait()
        finally:
            raise error

    async def main():
        clock.start(bystander())
        if where == "main":
            await interrupted()
        task = clock.start(interrupted())
        await clock.sleep(2)
        task.cancel()
        await clock.event().wait()

    def advance(coroutine):
        clock.start(coroutine)
        clock.advance(10)

    with pytest.raises(error):
        (clock.run if drive == "run" else advance)(main())
    assert log == ["swept"]
    assert _still_works(clock)


@pytest.mark.parametrize("at", ["heappop", "run", "heapreplace"])
@pytest.mark.parametrize("drive", ["run", "advance"])
def test_an_interrupt_between_two_turns_is_as_good_as_one_inside(clock, at, drive):
    """Ctrl-C that strikes the kernel itself, before, at or after a task's turn, leaves nothing half done either."""
    swept = []

    async def child():
        try:
            await clock.sleep(1)
        finally:
            swept.append("child")

    async def main():
        clock.start(child())
        await clock.sleep(0)
        strike.append(True)
        clock.start(nothing())
        await clock.sleep(0.5)

    def profile(frame, event, argument):
        if strike and event == "c_call" and frame.f_code.co_name == "_play" and argument.__name__ == at:
            raise KeyboardInterrupt

    def advance(coroutine):
        clock.start(coroutine)
        clock.advance(10)

    strike: list[bool] = []
    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        with pytest.raises(KeyboardInterrupt):
            (clock.run if drive == "run" else advance)(main())
    finally:
        sys.setprofile(before)
    assert strike
    assert swept == ["child"]
    assert _still_works(clock)


def test_an_interrupt_beats_a_foreign_awaitable(clock):
    """If both happen in one step, the interrupt is what comes out."""

    async def main():
        try:
            await asyncio.sleep(1)
        except ForeignAwaitableError:
            raise KeyboardInterrupt from None

    with pytest.raises(KeyboardInterrupt):
        clock.run(main())


def test_an_aborted_run_closes_its_streams(clock):
    """Async generators that were open when a run was aborted run their finally, as far as it goes without waiting."""
    log = []
    held = []

    async def stream(name):
        try:
            yield name
        finally:
            log.append(name)
            await clock.sleep(1)
            log.append("too late")

    async def reader():
        async for _ in stream("inner"):
            await clock.event().wait()

    async def main():
        held.append(stream("held"))
        await anext(held[0])
        clock.start(reader())
        await clock.sleep(1)
        await asyncio.sleep(1)

    with pytest.raises(ForeignAwaitableError):
        clock.run(main())
    assert sorted(log) == ["held", "inner"]
    assert _still_works(clock)
    held.clear()
    gc.collect()
    assert sorted(log) == ["held", "inner"]
    assert _still_works(clock)


def test_a_task_of_an_aborted_run_is_over(clock):
    """Handles that were kept say cancelled, and cannot be brought back to life."""
    kept = []

    async def main():
        kept.append(clock.start(clock.event().wait()))
        await clock.event().wait()

    with pytest.raises(DeadlockError):
        clock.run(main())
    assert kept[0].done()
    assert kept[0].cancelled()
    assert kept[0].cancel() is False
    with pytest.raises(CancelledError):
        kept[0].result()
    assert _still_works(clock)


@pytest.mark.parametrize("ending", ["result", "error", "foreign", "deadlock", "interrupt", "refused"])
def test_the_world_outside_is_as_it_was(ending):
    """The running loop and the hooks for async generators are the caller's again, however the run ended."""

    async def main():
        if ending == "error":
            raise ValueError
        if ending == "foreign":
            await asyncio.sleep(1)
        if ending == "deadlock":
            await clock.event().wait()
        if ending == "interrupt":
            raise KeyboardInterrupt
        if ending == "refused":
            clock.run(nothing())

    clock = VirtualClock()

    def begins(generator):
        raise AssertionError

    def ends(generator):
        raise AssertionError

    async def notebook():
        loop = asyncio.get_running_loop()
        old = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(begins, ends)
        try:
            for _ in range(2):
                try:
                    clock.run(main())
                except (ValueError, ClockError, KeyboardInterrupt):
                    assert ending != "result"
                assert asyncio.get_running_loop() is loop
                assert sys.get_asyncgen_hooks() == (begins, ends)
        finally:
            sys.set_asyncgen_hooks(*old)
        await asyncio.sleep(0)
        return asyncio.current_task().get_name()

    assert asyncio.run(notebook())
    with pytest.raises(RuntimeError):
        asyncio.get_running_loop()


# --------------------------------------------------------------------------------------------------------------- hosts


async def _program(clock: VirtualClock) -> list[float]:
    log = []

    async def child(seconds: float) -> None:
        await clock.sleep(seconds)
        log.append(clock.now())

    tasks = [clock.start(child(seconds)) for seconds in (3, 1, 2)]
    async with clock.timeout(10):
        for task in tasks:
            await task
    return log


def _plain(run: Callable[[], Any]) -> Any:
    return run()


def _in_asyncio(run: Callable[[], Any]) -> Any:
    async def notebook() -> Any:
        await asyncio.sleep(0)
        result = run()
        await asyncio.sleep(0)
        return result

    return asyncio.run(notebook())


def _in_thread(run: Callable[[], Any]) -> Any:
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(run()))
    thread.start()
    thread.join(20)
    return results[0]


def _in_virtual_loop(run: Callable[[], Any]) -> Any:
    async def main() -> Any:
        await asyncio.sleep(100)
        result = run()
        await asyncio.sleep(100)
        assert asyncio.get_running_loop().time() == 200.0
        return result

    return run_virtual(main())


def _in_virtual_clock(run: Callable[[], Any]) -> Any:
    outer = VirtualClock()

    async def main() -> Any:
        await outer.sleep(100)
        result = run()
        await outer.sleep(100)
        assert outer.now() == 200.0
        return result

    return outer.run(main())


@pytest.mark.parametrize("outside", [_plain, _in_asyncio, _in_thread, _in_virtual_loop, _in_virtual_clock])
def test_it_runs_wherever_it_is_called(outside):
    """Alone, inside a running notebook's loop, in a callback's thread, inside a virtual loop, inside another clock."""
    clock = VirtualClock()
    assert outside(lambda: clock.run(_program(clock))) == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("use", ["sleep", "event", "task", "timeout"])
def test_a_nested_clocks_task_cannot_wait_on_the_clock_outside(use):
    """Inside another clock's run, the outer clock stands still: waiting on it would never end, and is refused."""
    outer, inner = VirtualClock(), VirtualClock()
    told = []

    async def inside(task):
        try:
            if use == "sleep":
                await outer.sleep(1)
            elif use == "event":
                await outer.event().wait()
            elif use == "task":
                await task
            else:
                async with outer.timeout(1):
                    await inner.sleep(2)
        except ClockError:
            await inner.sleep(1)

    async def main():
        task = outer.start(outer.sleep(5))
        with pytest.raises(ForeignAwaitableError, match=r"inside.* of another VirtualClock") as caught:
            inner.run(inside(task))
        told.append(str(caught.value))
        await task
        return outer.now()

    assert outer.run(main()) == 5.0
    assert len(told) == 1
    assert _still_works(inner)


def test_an_inner_run_may_act_on_the_outer_clock(clock):
    """Setting, starting and cancelling need no waiting, and arrive when the outer clock goes on."""
    log = []

    async def child():
        log.append("started")

    async def main():
        flag, inner = clock.event(), VirtualClock()
        doomed = clock.start(clock.event().wait())
        waiting = clock.start(flag.wait())
        await clock.sleep(0)

        async def inside():
            flag.set()
            clock.start(child())
            doomed.cancel()
            await inner.sleep(1)
            log.append("inner done")

        inner.run(inside())
        await clock.sleep(1)
        return waiting.done(), doomed.cancelled()

    assert clock.run(main()) == (True, True)
    assert log == ["inner done", "started"]


def test_a_virtual_loop_runs_inside_a_clocks_task(clock):
    """The other way round: asyncio code in virtual time, called from a task of the clock."""

    async def asyncio_code():
        await asyncio.sleep(50)
        return asyncio.get_running_loop().time()

    async def main():
        await clock.sleep(1)
        inner = run_virtual(asyncio_code())
        await clock.sleep(1)
        return inner, clock.now()

    assert clock.run(main()) == (50.0, 2.0)


def test_two_threads_may_each_have_their_clock():
    """Clocks share nothing, so that a kernel's subshells may each run one at a time of its own."""
    results: list[Any] = []
    barrier = threading.Barrier(2, timeout=20)

    def work() -> None:
        clock = VirtualClock()

        async def main() -> list[float]:
            barrier.wait()
            seen = []
            for _ in range(200):
                await clock.sleep(1)
                seen.append(clock.now())
            return seen

        results.append(clock.run(main()))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert results == [[float(second) for second in range(1, 201)]] * 2


def test_one_clock_is_not_for_two_threads_at_once(clock):
    """Driving a clock that another thread drives is refused, and that other one goes on."""
    told = []

    async def main():
        def intrude():
            try:
                clock.run(nothing())
            except ClockError as error:
                told.append(str(error))

        thread = threading.Thread(target=intrude)
        thread.start()
        thread.join(20)
        await clock.sleep(1)
        return clock.now()

    assert clock.run(main()) == 1.0
    assert len(told) == 1
    assert "runs already" in told[0]


# -------------------------------------------------------------------------------------------------------------- streams


@pytest.mark.parametrize("wait", [0, 1])
def test_a_stream_dropped_in_the_last_step_is_closed_as_any_other(clock, wait):
    """A generator abandoned by main's last line gets GeneratorExit and time to clean up, not a cancellation."""
    log = []

    async def stream():
        try:
            yield 1
        except BaseException as error:
            log.append(type(error).__name__)
            raise
        finally:
            if wait:
                await clock.sleep(wait)
            log.append("closed")

    async def main():
        async for _ in stream():
            break

    clock.run(main())
    assert log == ["GeneratorExit", "closed"]


def test_streams_opened_by_a_closing_stream_are_closed_too(clock):
    """Cleaning up may open streams of its own; the run ends when the last is closed."""
    log = []

    async def stream(depth):
        try:
            yield depth
        finally:
            log.append(depth)
            if depth:
                held.append(stream(depth - 1))
                await anext(held[-1])

    held = [stream(3)]

    async def main():
        await anext(held[0])

    clock.run(main())
    assert log == [3, 2, 1, 0]


def test_a_stream_that_never_finishes_closing_is_named(clock):
    """Closing that waits for ever is a deadlock, and not passed over in silence."""

    async def stream():
        try:
            yield 1
        finally:
            await clock.event().wait()

    async def main():
        async for _ in stream():
            break

    with pytest.raises(DeadlockError, match=r"close .*stream"):
        clock.run(main())
    assert _still_works(clock)


# --------------------------------------------------------------------------------------------------------------- memory


def _peak(work: Callable[[], Any]) -> int:
    gc.collect()
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def _growth(clock: VirtualClock, main: Callable[[int], Coroutine[Any, Any, Any]], few: int, many: int) -> int:
    """How many bytes the peak grows by when something is done `many` times instead of `few` times."""
    clock.run(main(few))
    least = _peak(lambda: clock.run(main(few)))
    return _peak(lambda: clock.run(main(many))) - least


def test_a_hundred_thousand_sleeps_take_no_memory(clock):
    """What is over leaves nothing behind."""

    async def main(times):
        for _ in range(times):
            await clock.sleep(1)

    began = clock.now()
    clock.run(main(100_000))
    assert clock.now() - began == 100_000.0
    assert _growth(clock, main, 100, 5_000) < 2_000


def test_tasks_that_are_over_take_no_memory(clock):
    """Neither results nor errors that somebody asked for are kept."""

    async def child(turn):
        if turn % 2:
            raise ValueError("x" * 100)
        return "x" * 100

    async def main(times):
        for turn in range(times):
            with contextlib.suppress(ValueError):
                await clock.start(child(turn))

    assert _growth(clock, main, 2_500, 7_500) < 50_000


@pytest.mark.parametrize("kind", ["timeout", "timeout_at"])
@pytest.mark.parametrize("hung", [False, True])
def test_limits_that_were_left_take_no_memory(clock, kind, hung):
    """Limits far in the future go when their blocks end, and one call that hangs does not hold those behind it."""

    def limit():
        return clock.timeout(1e9) if kind == "timeout" else clock.timeout_at(clock.now() + 1e9)

    async def hang():
        async with limit():
            await clock.event().wait()

    async def main(times):
        if hung:
            clock.start(hang())
            await clock.sleep(0)
        for _ in range(times):
            async with limit():
                await clock.sleep(1)

    assert _growth(clock, main, 1_500, 5_000) < 50_000


def test_waits_that_were_cut_short_take_no_memory(clock):
    """A cancelled sleep that would have ended far in the future gives its place and its task free."""

    async def child():
        with pytest.raises(TimeoutError):
            async with clock.timeout(1):
                await clock.sleep(1e9)

    async def main(times):
        for _ in range(times):
            await clock.start(child())

    assert _growth(clock, main, 1_500, 4_000) < 50_000


def test_streams_that_were_dropped_take_no_memory(clock):
    """An abandoned generator is forgotten once it is closed."""

    async def stream():
        yield 1
        yield 2

    async def main(times):
        for _ in range(times):
            async for _ in stream():
                break
            await clock.sleep(1)

    assert _growth(clock, main, 500, 5_000) < 20_000


def test_an_idle_clock_holds_no_limits(clock):
    """Queues of limits go once their last deadline would have been due."""

    async def main():
        for seconds in (1, 2, 3):
            async with clock.timeout(seconds):
                await clock.sleep(0)
        await clock.sleep(3)

    clock.run(main())
    assert not clock._lines
    assert not clock._heap


def test_a_task_is_freed_with_its_last_handle(clock):
    """The clock keeps no task that is over."""
    import weakref

    class Result:
        pass

    async def child():
        return Result()

    async def main():
        found = weakref.ref(await clock.start(child()))
        await clock.sleep(0)
        return found()

    assert clock.run(main()) is None


@pytest.mark.parametrize("wrong", [None, "1", b"1", object()])
@pytest.mark.parametrize("what", ["sleep", "timeout", "advance"])
def test_what_is_no_number_of_seconds_is_told(what, wrong):
    """Sleeping, limiting or advancing by something that is no number says so; None is no limit."""
    clock = VirtualClock()

    async def main():
        if what == "sleep":
            await clock.sleep(wrong)
        else:
            with clock.timeout(wrong):
                await clock.sleep(1)

    if what == "timeout" and wrong is None:
        clock.run(main())
        return
    with pytest.raises(ClockError, match="takes a number of seconds"):
        clock.advance(wrong) if what == "advance" else clock.run(main())


@pytest.mark.parametrize("number", [5, True])
def test_a_number_that_is_yielded_by_hand_is_foreign(clock, number):
    """An awaitable of one's own that yields a whole number does not pass for a sleep."""

    class Odd:
        def __await__(self):
            yield number

    async def main():
        await Odd()

    with pytest.raises(ForeignAwaitableError, match="main"):
        clock.run(main())


def test_a_library_on_asyncio_is_refused_and_its_caller_named():
    """httpx2 stands on anyio, which asks asyncio for its task: the error names the coroutine that called it."""
    pytest.importorskip("httpx2")
    from labkit.services import PartsAdapter

    with pytest.raises(ForeignAwaitableError, match=r"PartsAdapter\.\w+.*runs on a VirtualClock"):
        VirtualClock().run(PartsAdapter("http://127.0.0.1:1").call("HX-2040"))
