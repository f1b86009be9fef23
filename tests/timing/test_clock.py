"""What a `Clock` promises, held to the same tests on a real asyncio loop, on a virtual one, and on `VirtualClock`."""

from __future__ import annotations

import contextlib
import gc
import math
from asyncio import CancelledError
from collections.abc import AsyncIterator
from contextvars import ContextVar
from typing import Any

import pytest

from labkit.errors import ClockError
from labkit.timing import Clock, LoopClock, VirtualClock

FAR = 1000  # units: never reached, since a test that waited for it would have failed by then

# ---------------------------------------------------------------------------------------------------------------- time


def test_both_clocks_are_clocks():
    """Both classes have all that the protocol asks for."""
    assert isinstance(LoopClock(), Clock)
    assert isinstance(VirtualClock(), Clock)


def test_time_goes_forward_by_at_least_the_sleep(host):
    """A sleep takes its time, to the bit where time is virtual, and time never goes back meanwhile."""

    async def main(clock):
        seen = [clock.now()]
        for units in (1, 0, 2, -1, 0.5):
            before = clock.now()
            await clock.sleep(units * host.unit)
            seen.append(clock.now())
            passed = seen[-1] - before
            if host.exact:
                assert passed == max(0.0, units)
            else:
                assert passed >= units * host.unit - 1e-6
        return seen

    seen = host.run(main)
    assert seen == sorted(seen)


def test_sleepers_wake_in_the_order_of_their_due_times(host):
    """Who is due first wakes first, whoever went to sleep first."""
    woken = []

    async def sleeper(clock, units):
        await clock.sleep(units * host.unit)
        woken.append(units)

    async def main(clock):
        tasks = [clock.start(sleeper(clock, units)) for units in lengths]
        for task in tasks:
            await task

    lengths = (4, 1, 3, 2) if host.exact else (10, 1)  # far apart where a busy machine may come between
    host.run(main)
    assert woken == sorted(lengths)


@pytest.mark.parametrize("seconds", [0, 0.0, -1, -math.inf])
def test_a_sleep_of_nothing_gives_way_once(host, seconds):
    """Zero or less lets everything else that is due run once, and takes no time."""
    log = []

    async def other(clock, name):
        for turn in range(3):
            log.append(f"{name}{turn}")
            await clock.sleep(seconds)

    async def main(clock):
        before = clock.now()
        a, b = clock.start(other(clock, "a")), clock.start(other(clock, "b"))
        await a
        await b
        if host.exact:
            assert clock.now() == before

    host.run(main)
    assert log == ["a0", "b0", "a1", "b1", "a2", "b2"]


def test_a_sleep_of_nan_seconds_is_refused(host):
    """NaN is not a time: the run ends with a sentence, not with a sleep of some length."""

    async def main(clock):
        await clock.sleep(math.nan)

    with pytest.raises(ClockError, match="NaN"):
        host.run(main)


def test_an_endless_sleep_can_be_cut_short(host):
    """Infinity is a wait that only a cancellation ends."""

    async def main(clock):
        with pytest.raises(TimeoutError):
            async with clock.timeout(host.unit):
                await clock.sleep(math.inf)
        return "out"

    assert host.run(main) == "out"


# ------------------------------------------------------------------------------------------------------------ timeouts


def test_a_timeout_cuts_a_wait_short(host):
    """A block that takes too long ends in TimeoutError at its limit, and the deadline says so."""

    async def main(clock):
        before = clock.now()
        deadline = clock.timeout(2 * host.unit)
        with pytest.raises(TimeoutError) as caught:
            async with deadline:
                await clock.sleep(FAR * host.unit)
        assert deadline.expired()
        assert isinstance(caught.value.__cause__, CancelledError)
        passed = clock.now() - before
        assert passed == 2.0 if host.exact else passed < FAR * host.unit

    host.run(main)


def test_plain_with_does_the_same(host):
    """`with` and `async with` are one."""

    async def main(clock):
        deadline = clock.timeout(host.unit)
        with pytest.raises(TimeoutError), deadline:
            await clock.event().wait()
        with clock.timeout(FAR * host.unit) as other:
            await clock.sleep(0)
        return deadline.expired(), other.expired()

    assert host.run(main) == (True, False)


def test_entering_gives_the_deadline(host):
    """What stands after `as` can be asked whether it expired."""

    async def main(clock):
        async with clock.timeout(FAR) as one:
            assert one.expired() is False
        async with clock.timeout_at(clock.now() + FAR) as two:
            assert two.expired() is False
        with clock.timeout_at(clock.now() + FAR) as three:
            assert three.expired() is False

    host.run(main)


@pytest.mark.parametrize("seconds", [None, math.inf, FAR])
def test_a_timeout_that_is_not_reached_does_nothing(host, seconds):
    """A block within its limit keeps its result, and nothing comes after it."""

    async def main(clock):
        limit = seconds * host.unit if seconds else seconds
        async with clock.timeout(limit) as deadline:
            await clock.sleep(host.unit)
        await clock.sleep(host.unit)
        return deadline.expired()

    assert host.run(main) is False


@pytest.mark.parametrize("seconds", [0, 0.0, -1, -math.inf])
@pytest.mark.parametrize("wait", ["sleep(0)", "event"])
def test_a_limit_of_nothing_expires_at_the_first_wait(host, seconds, wait):
    """Zero or less lets a block go as far as its first wait, however short that is."""

    async def main(clock):
        reached = []

        async def block():
            async with clock.timeout(seconds):
                reached.append("block")
                await (clock.sleep(0) if wait == "sleep(0)" else clock.event().wait())
                reached.append("after")

        with pytest.raises(TimeoutError):
            await block()
        return reached

    assert host.run(main) == ["block"]


def test_a_block_that_never_waits_cannot_expire(host):
    """A limit acts where the block waits; one that does not is through."""

    async def main(clock):
        async with clock.timeout(0) as deadline:
            done = 1
        await clock.sleep(host.unit)
        return done, deadline.expired()

    assert host.run(main) == (1, False)


def test_a_timeout_of_nan_is_refused(host):
    """A limit that is not a number means nothing, by length and by time."""

    async def main(clock):
        with pytest.raises(ClockError, match="NaN"):
            clock.timeout(math.nan)
        with pytest.raises(ClockError, match="NaN"):
            clock.timeout_at(math.nan)

    host.run(main)


def test_the_message_is_the_errors_text(host):
    """`message` is what str() of the error gives; without one it is empty, as asyncio's is."""

    async def main(clock):
        texts = []
        for deadline in (
            clock.timeout(host.unit, "too slow"),
            clock.timeout(host.unit),
            clock.timeout_at(clock.now(), "too late"),
        ):
            with pytest.raises(TimeoutError) as caught:
                async with deadline:
                    await clock.event().wait()
            texts.append(caught.value.args)
        return texts

    assert host.run(main) == [("too slow",), (), ("too late",)]


@pytest.mark.parametrize(("outer", "inner", "hit"), [(1, FAR, "outer"), (FAR, 1, "inner"), (1, 1, "outer")])
def test_of_nested_timeouts_the_one_that_is_due_acts(host, outer, inner, hit):
    """The tighter limit ends the block under it; of two that fall due together the outer one speaks."""

    async def main(clock):
        try:
            async with clock.timeout(outer * host.unit):
                try:
                    async with clock.timeout(inner * host.unit):
                        await clock.event().wait()
                except TimeoutError:
                    return "inner", clock.now()
        except TimeoutError:
            return "outer", clock.now()

    speaker, at = host.run(main)
    assert speaker == hit
    if host.exact:
        assert at == 1.0


def test_after_a_timeout_the_task_is_as_good_as_new(host):
    """An expired limit leaves no cancellation behind: the task can wait, and be timed out again."""

    async def victim(clock, log):
        for _ in range(3):
            with pytest.raises(TimeoutError):
                async with clock.timeout(host.unit):
                    await clock.event().wait()
            log.append(me[0].cancelling())
            await clock.sleep(0)

    me: list[Any] = []

    async def main(clock):
        log = []
        me.append(clock.start(victim(clock, log)))
        await me[0]
        return log

    assert host.run(main) == [0, 0, 0]


def test_many_limits_that_fall_due_together_all_act(host):
    """Deadlines of one length share a queue; each of them still ends its own block."""

    async def one(clock):
        with pytest.raises(TimeoutError):
            async with clock.timeout(2 * host.unit):
                await clock.event().wait()
        return clock.now()

    async def main(clock):
        tasks = [clock.start(one(clock)) for _ in range(50)]
        return [await task for task in tasks]

    ends = host.run(main)
    assert len(ends) == 50
    if host.exact:
        assert set(ends) == {2.0}


def test_limits_that_end_in_another_order_than_they_began(host):
    """A queue of limits survives blocks that leave it from the middle, the back and the front."""

    async def one(clock, gate):
        try:
            async with clock.timeout(10 * host.unit):
                await gate.wait()
        except TimeoutError:
            return "late"
        return "in time"

    async def main(clock):
        gates = [clock.event() for _ in range(6)]
        tasks = [clock.start(one(clock, gate)) for gate in gates]
        await clock.sleep(0)
        for index in (2, 5, 0):  # in one step: the limits cannot have struck by then, on however busy a machine
            gates[index].set()
        return [await task for task in tasks]

    assert host.run(main) == ["in time", "late", "in time", "late", "late", "in time"]


def test_a_later_limit_is_not_hurried_by_an_earlier_one_of_its_length(host):
    """When the first of a queue has left, the next keeps its own time."""

    async def main(clock):
        async with clock.timeout(10 * host.unit):
            await clock.sleep(host.unit if host.exact else 0)  # a slow machine must not reach the limit here
        began = clock.now()
        with pytest.raises(TimeoutError):
            async with clock.timeout(10 * host.unit):
                await clock.event().wait()
        return clock.now() - began

    took = host.run(main)
    assert took == 10.0 if host.exact else took >= 10 * host.unit - 1e-6


def test_a_cancellation_from_outside_stays_one(host):
    """Who cancels the task gets a cancelled task, however many limits it was under."""
    log = []

    async def victim(clock):
        async with clock.timeout(FAR * host.unit) as outer:
            try:
                async with clock.timeout(FAR * host.unit):
                    await clock.event().wait()
            finally:
                log.append(outer.expired())

    async def main(clock):
        task = clock.start(victim(clock))
        await clock.sleep(0)
        task.cancel()
        with pytest.raises(CancelledError):
            await task
        return task.cancelled()

    assert host.run(main) is True
    assert log == [False]


def test_a_cancellation_that_comes_after_the_limit_is_not_taken_for_it(host):
    """If the limit has struck and somebody cancels as well, the cancellation wins."""
    log = []

    async def victim(clock, struck):
        try:
            async with clock.timeout(host.unit) as deadline:
                try:
                    await clock.event().wait()
                except CancelledError:
                    struck.set()
                    await clock.event().wait()
        finally:
            log.append(deadline.expired())

    async def main(clock):
        struck = clock.event()
        task = clock.start(victim(clock, struck))
        await struck.wait()
        task.cancel()
        with pytest.raises(CancelledError):
            await task
        return task.cancelled()

    assert host.run(main) is True
    assert log == [True]


@pytest.mark.parametrize("kind", ["zero", "negative", "at now", "two of them"])
def test_a_cancellation_that_is_pending_is_not_taken_for_the_limit(host, kind):
    """Asked for before the block and told in it, a cancellation wins over a limit that is over at once."""

    async def victim(clock):
        async def block(deadline):
            async with deadline:
                await clock.event().wait()

        me[0].cancel("from before")
        if kind == "at now":
            await block(clock.timeout_at(clock.now()))
        elif kind == "two of them":
            async with clock.timeout(0):
                await block(clock.timeout(0))
        else:
            await block(clock.timeout({"zero": 0, "negative": -1.0}[kind]))

    async def main(clock):
        me.append(clock.start(victim(clock)))
        with pytest.raises(CancelledError):
            await me[0]
        return me[0].cancelled(), me[0].cancelling()

    me = []
    assert host.run(main) == (True, 1)


def test_a_cancellation_that_was_told_before_the_block_leaves_the_limit_its_own(host):
    """Who swallowed a cancellation earlier, without taking it back, still gets a TimeoutError from a later limit."""

    async def victim(clock):
        me[0].cancel()
        with contextlib.suppress(CancelledError):
            await clock.sleep(0)
        async with clock.timeout(0):
            await clock.event().wait()

    async def main(clock):
        me.append(clock.start(victim(clock)))
        with pytest.raises(TimeoutError):
            await me[0]
        return me[0].cancelling()

    me = []
    assert host.run(main) == 1


@pytest.mark.parametrize("error", [TimeoutError("mine"), ValueError("no"), CancelledError("mine too")])
def test_the_blocks_own_error_passes_unchanged(host, error):
    """A TimeoutError, any other error, even a CancelledError that the block raised itself is none of the limit's."""

    async def main(clock):
        async def block():
            async with clock.timeout(FAR * host.unit, "the limit's"):
                await clock.sleep(0)
                raise error

        with pytest.raises(type(error)) as caught:
            await block()
        return caught.value

    assert host.run(main) is error


def test_an_error_in_reply_to_the_limit_passes_unchanged(host):
    """A block that answers the limit with an error of its own is taken at its word."""

    async def victim(clock):
        async with clock.timeout(host.unit):
            try:
                await clock.event().wait()
            except CancelledError:
                raise ValueError("in reply") from None

    async def main(clock):
        task = clock.start(victim(clock))
        with pytest.raises(ValueError, match="in reply"):
            await task
        return task.cancelling()

    assert host.run(main) == 0


def test_a_block_that_swallows_the_limit_goes_on(host):
    """As with asyncio: who swallows the cancellation inside the block gets no TimeoutError, and is not cancelled."""

    async def victim(clock):
        async with clock.timeout(host.unit) as deadline:
            try:
                await clock.event().wait()
            except CancelledError:
                await clock.sleep(0)
        await clock.sleep(0)
        return deadline.expired()

    async def main(clock):
        task = clock.start(victim(clock))
        return await task, task.cancelling()

    assert host.run(main) == (True, 0)


def test_a_limit_by_time_ends_several_blocks(host):
    """Blocks that share one end share what is left of it."""

    async def main(clock):
        end = clock.now() + 10 * host.unit
        async with clock.timeout_at(end) as first:
            await clock.sleep(0)
        await clock.sleep(host.unit)
        with pytest.raises(TimeoutError):
            async with clock.timeout_at(end):
                await clock.event().wait()
        assert not first.expired()
        return clock.now() - end

    late = host.run(main)
    assert late == 0.0 if host.exact else late >= -1e-6


@pytest.mark.parametrize("when", [-math.inf, -1.0, 0.0])
def test_a_limit_by_a_time_that_is_over_strikes_at_the_first_wait(host, when):
    """A block that begins after its end may go as far as its first wait."""

    async def main(clock):
        reached = []

        async def block():
            async with clock.timeout_at(clock.now() + when):
                reached.append("block")
                await clock.sleep(0)
                reached.append("after")

        with pytest.raises(TimeoutError):
            await block()
        return reached

    assert host.run(main) == ["block"]


def test_a_limit_by_time_that_is_not_reached_does_nothing(host):
    """Leaving the block in time takes the limit away, an endless one included."""

    async def main(clock):
        for when in (clock.now() + FAR * host.unit, math.inf):
            async with clock.timeout_at(when) as deadline:
                await clock.sleep(host.unit)
            assert not deadline.expired()
        await clock.sleep(host.unit)

    host.run(main)


def test_a_limit_cuts_through_an_awaited_task(host):
    """A task that is awaited under a limit is cancelled with its awaiter, and the awaiter hears of it as a timeout."""
    log = []

    async def inner(clock):
        try:
            await clock.event().wait()
        except CancelledError:
            log.append("inner cancelled")
            raise

    async def main(clock):
        task = clock.start(inner(clock))
        with pytest.raises(TimeoutError):
            async with clock.timeout(host.unit):
                await task
        return task.cancelled()

    assert host.run(main) is True
    assert log == ["inner cancelled"]


# --------------------------------------------------------------------------------------------------------------- tasks


def test_main_gives_its_result_or_its_error(host):
    """What main returns or raises is what the run returns or raises."""

    async def good(clock):
        return 42

    async def bad(clock):
        await clock.sleep(0)
        raise ValueError("no")

    assert host.run(good) == 42
    with pytest.raises(ValueError, match="no"):
        host.run(bad)


def test_a_task_begins_once_its_starter_waits(host):
    """start() runs nothing by itself; the tasks begin in the order in which they were started."""
    log = []

    async def child(name):
        log.append(name)

    async def main(clock):
        clock.start(child("a"))
        clock.start(child("b"))
        log.append("main")
        await clock.sleep(0)

    host.run(main)
    assert log == ["main", "a", "b"]


def test_awaiting_a_task_gives_its_result_as_often_as_asked(host):
    """A result is there for every awaiter, during and after the task."""

    async def child(clock):
        await clock.sleep(host.unit)
        return "done"

    async def awaiter(task):
        return await task

    async def main(clock):
        task = clock.start(child(clock))
        others = [clock.start(awaiter(task)) for _ in range(3)]
        results = [await task, await task, task.result()]
        results += [await other for other in others]
        assert task.exception() is None
        return results, task.done(), task.cancelled()

    assert host.run(main) == (["done"] * 6, True, False)


def test_awaiters_hear_in_the_order_in_which_they_came(host):
    """Several who await one task go on in turn."""
    log = []

    async def child(gate):
        await gate.wait()

    async def awaiter(task, name):
        await task
        log.append(name)

    async def main(clock):
        gate = clock.event()
        task = clock.start(child(gate))
        others = [clock.start(awaiter(task, name)) for name in "abc"]
        await clock.sleep(0)
        gate.set()
        for other in others:
            await other

    host.run(main)
    assert log == ["a", "b", "c"]


def test_the_error_of_a_task_reaches_every_awaiter(host):
    """An error is raised where the task is awaited and by result(), and given by exception()."""
    error = ValueError("broken")

    async def child(clock):
        await clock.sleep(0)
        raise error

    async def awaiter(task):
        with pytest.raises(ValueError) as caught:
            await task
        return caught.value is error

    async def main(clock):
        task = clock.start(child(clock))
        others = [clock.start(awaiter(task)) for _ in range(2)]
        seen = [await other for other in others]
        with pytest.raises(ValueError, match="broken"):
            await task
        with pytest.raises(ValueError, match="broken"):
            task.result()
        assert task.exception() is error
        assert not task.cancelled()
        return seen

    assert host.run(main) == [True, True]


def test_asking_again_does_not_pile_up_the_traceback(host):
    """An error that is raised a hundred times over keeps the traceback of where it happened, and no more."""

    async def child():
        raise ValueError("broken")

    def length(error):
        trace, frames = error.__traceback__, 0
        while trace is not None:
            trace, frames = trace.tb_next, frames + 1
        return frames

    async def main(clock):
        task = clock.start(child())
        with pytest.raises(ValueError):
            await task
        for _ in range(100):
            with pytest.raises(ValueError):
                task.result()
        return length(task.exception())

    assert host.run(main) < 10


def test_a_task_without_a_result_says_so(host):
    """result() and exception() of a running task raise instead of waiting."""

    async def main(clock):
        task = clock.start(clock.event().wait())
        for ask in (task.result, task.exception):
            with pytest.raises(Exception, match=r"(?i)not (ready|set)|no result yet"):
                ask()
        assert not task.done()
        assert not task.cancelled()

    host.run(main)


def test_a_task_bears_the_name_that_it_was_given(host):
    """get_name() gives the name of start(), or some name where none was given."""

    async def child():
        pass

    async def main(clock):
        named, unnamed = clock.start(child(), name="probe"), clock.start(child())
        await named
        await unnamed
        return named.get_name(), bool(unnamed.get_name())

    assert host.run(main) == ("probe", True)


def test_start_takes_a_coroutine_and_nothing_else(host):
    """A function that was not called is refused with a sentence."""

    async def child():
        pass

    async def main(clock):
        for thing in (child, None, 3):
            with pytest.raises(ClockError, match="takes a coroutine"):
                clock.start(thing)

    host.run(main)


# -------------------------------------------------------------------------------------------------------- cancellation


def test_a_cancelled_task_ends_where_it_waits(host):
    """cancel() says True, the task gets CancelledError at its wait, and its awaiter too."""
    log = []

    async def child(clock):
        try:
            await clock.sleep(FAR * host.unit)
        finally:
            log.append("cleaned up")

    async def main(clock):
        before = clock.now()
        task = clock.start(child(clock))
        await clock.sleep(0)
        assert task.cancel() is True
        assert not task.done()
        with pytest.raises(CancelledError):
            await task
        with pytest.raises(CancelledError):
            task.result()
        with pytest.raises(CancelledError):
            task.exception()
        assert task.done()
        assert task.cancel() is False
        if host.exact:
            assert clock.now() == before
        return task.cancelled()

    assert host.run(main) is True
    assert log == ["cleaned up"]


def test_a_cancellations_message_arrives(host):
    """What is given to cancel() is the error's text where the task waits, through an awaited task as well."""
    seen = []

    async def child(clock):
        try:
            await clock.event().wait()
        except CancelledError as error:
            seen.append(error.args)
            raise

    async def parent(task):
        await task

    async def main(clock):
        for message in ("enough", None):
            task = clock.start(child(clock))
            over = clock.start(parent(task))
            await clock.sleep(0)
            await clock.sleep(0)
            over.cancel(message)
            with pytest.raises(CancelledError):
                await over

    host.run(main)
    assert seen == [("enough",), ()]


def test_a_task_cancelled_before_it_starts_never_runs(host):
    """Nothing of its code runs, and nobody is warned of a coroutine that was never awaited."""
    log = []

    async def child():
        log.append("ran")

    async def main(clock):
        task = clock.start(child())
        task.cancel()
        with pytest.raises(CancelledError):
            await task
        return task.cancelled()

    assert host.run(main) is True
    assert log == []


def test_a_task_cancelled_before_it_starts_keeps_its_turn(host):
    """It ends when it would have begun, before those that were started after it."""
    log = []

    async def child(name):
        log.append(name)

    async def awaiter(task):
        try:
            await task
        except CancelledError:
            log.append("heard")

    async def main(clock):
        first = clock.start(child("first"))
        clock.start(awaiter(first))
        await clock.sleep(0)
        log.clear()
        doomed = clock.start(child("doomed"))
        later = clock.start(awaiter(doomed))
        doomed.cancel()
        last = clock.start(child("last"))
        await later
        await last

    host.run(main)
    assert log == ["heard", "last"]


def test_a_task_cancelled_twice_is_told_once(host):
    """Two requests in one instant are one error, and count as two."""
    log = []

    async def child(clock):
        try:
            await clock.event().wait()
        except CancelledError:
            log.append("told")
        await clock.sleep(0)
        return "went on"

    async def main(clock):
        task = clock.start(child(clock))
        await clock.sleep(0)
        assert task.cancel()
        assert task.cancel()
        return await task, task.cancelling()

    assert host.run(main) == ("went on", 2)
    assert log == ["told"]


def test_a_swallowed_cancellation_leaves_the_task_running(host):
    """A task that answers with a result is done and not cancelled; it can be cancelled again later."""

    async def child(clock, gate):
        with contextlib.suppress(CancelledError):
            await gate.wait()
        try:
            await gate.wait()
        except CancelledError:
            return "twice"

    async def main(clock):
        task = clock.start(child(clock, clock.event()))
        for _ in range(2):
            await clock.sleep(0)
            assert task.cancel()
        return await task, task.cancelled()

    assert host.run(main) == ("twice", False)


def test_requests_to_cancel_are_counted_and_can_be_taken_back(host):
    """cancelling() counts up with cancel() and down with uncancel(), never below none."""

    async def child(clock):
        for _ in range(2):
            with contextlib.suppress(CancelledError):
                await clock.event().wait()

    async def main(clock):
        task = clock.start(child(clock))
        counts = [task.cancelling()]
        for _ in range(2):
            await clock.sleep(0)
            task.cancel()
            counts.append(task.cancelling())
        await task
        counts += [task.uncancel(), task.uncancel(), task.uncancel()]
        return counts

    assert host.run(main) == [0, 1, 2, 1, 0, 0]


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_cancelling_an_awaiter_cancels_what_it_awaits(host, depth):
    """The request goes down the chain of awaited tasks, and the error comes back up it."""
    log = []

    async def leaf(clock):
        try:
            await clock.event().wait()
        except CancelledError:
            log.append("leaf")
            raise

    async def link(task, level):
        try:
            await task
        except CancelledError:
            log.append(level)
            raise

    async def main(clock):
        tasks = [clock.start(leaf(clock))]
        for level in range(depth):
            tasks.append(clock.start(link(tasks[-1], level)))
        for _ in range(depth + 1):
            await clock.sleep(0)
        tasks[-1].cancel()
        with pytest.raises(CancelledError):
            await tasks[-1]
        return [task.cancelled() for task in tasks]

    assert host.run(main) == [True] * (depth + 1)
    assert log == ["leaf", *range(depth)]


@pytest.mark.parametrize(("answer", "outcome"), [("result", "got 5"), ("error", "got ValueError")])
def test_an_awaited_task_may_answer_a_cancellation(host, answer, outcome):
    """If the awaited task swallows it, its awaiter gets the result or the error and goes on, as on asyncio."""

    async def leaf(clock):
        try:
            await clock.event().wait()
        except CancelledError:
            if answer == "error":
                raise ValueError("no") from None
        return 5

    async def link(task):
        try:
            return f"got {await task}"
        except ValueError as error:
            return f"got {type(error).__name__}"

    async def main(clock):
        over = clock.start(link(clock.start(leaf(clock))))
        await clock.sleep(0)
        await clock.sleep(0)
        over.cancel()
        return await over, over.cancelled()

    assert host.run(main) == (outcome, False)


def test_awaiting_a_cancelled_task_cancels_no_one_but_the_awaiter(host):
    """The awaiter ends in CancelledError without having been asked to end."""

    async def link(task):
        await task

    async def main(clock):
        leaf = clock.start(clock.event().wait())
        over = clock.start(link(leaf))
        await clock.sleep(0)
        await clock.sleep(0)
        leaf.cancel()
        with pytest.raises(CancelledError):
            await over
        return over.cancelled(), over.cancelling()

    assert host.run(main) == (True, 0)


def test_cancelling_one_of_two_awaiters_ends_the_other_as_well(host):
    """Who awaits a task shares its fate: there is no shield."""

    async def link(task):
        await task

    async def main(clock):
        leaf = clock.start(clock.event().wait())
        one, two = clock.start(link(leaf)), clock.start(link(leaf))
        await clock.sleep(0)
        await clock.sleep(0)
        one.cancel()
        for task in (one, two, leaf):
            with pytest.raises(CancelledError):
                await task
        return two.cancelling()

    assert host.run(main) == 0


def test_a_task_cancelled_after_its_awaited_one_ended_is_cancelled(host):
    """Between the end of the awaited task and its awaiter's turn, a cancellation still arrives."""
    log = []

    async def leaf(gate):
        await gate.wait()
        return "result"

    async def link(task):
        try:
            log.append(await task)
        except CancelledError:
            log.append("cancelled")
            raise

    async def main(clock):
        gate = clock.event()
        leaf_task = clock.start(leaf(gate))
        over = clock.start(link(leaf_task))
        await clock.sleep(0)
        await clock.sleep(0)
        gate.set()
        await clock.sleep(0)  # the leaf ends here, after this task's turn and before its awaiter's
        assert leaf_task.done()
        assert not over.done()
        over.cancel()
        with pytest.raises(CancelledError):
            await over
        return leaf_task.result()

    assert host.run(main) == "result"
    assert log == ["cancelled"]


def test_a_task_that_cancels_itself_is_told_at_its_next_wait(host):
    """The running code is not torn away: the error comes where it waits next, even for nothing."""
    log = []

    async def child(clock, me):
        me[0].cancel()
        log.append("still here")
        await clock.sleep(0)
        log.append("not here")

    async def main(clock):
        me = []
        me.append(clock.start(child(clock, me)))
        with pytest.raises(CancelledError):
            await me[0]

    host.run(main)
    assert log == ["still here"]


def test_a_task_that_cancels_itself_and_awaits_another_takes_it_along(host):
    """The request passes on to the task that it awaits next."""

    async def child(me, leaf):
        me[0].cancel()
        await leaf

    async def main(clock):
        leaf = clock.start(clock.event().wait())
        me = []
        me.append(clock.start(child(me, leaf)))
        with pytest.raises(CancelledError):
            await me[0]
        return leaf.cancelled()

    assert host.run(main) is True


def test_a_task_that_raises_cancelled_is_cancelled(host):
    """Raising CancelledError oneself is being cancelled."""

    async def child():
        raise CancelledError

    async def main(clock):
        task = clock.start(child())
        with pytest.raises(CancelledError):
            await task
        return task.cancelled()

    assert host.run(main) is True


def test_cleaning_up_may_wait(host):
    """A cancelled task may await in its finally; who awaits the task waits for that."""
    log = []

    async def child(clock):
        try:
            await clock.event().wait()
        finally:
            await clock.sleep(host.unit)
            log.append("swept")

    async def main(clock):
        task = clock.start(child(clock))
        await clock.sleep(0)
        task.cancel()
        with pytest.raises(CancelledError):
            await task

    host.run(main)
    assert log == ["swept"]


def test_what_still_runs_at_the_end_is_cancelled_and_may_clean_up(host):
    """The run ends with main; tasks that are left are cancelled, and what they wait for in doing so is waited for."""
    log = []

    async def child(clock, name):
        try:
            await clock.event().wait()
        finally:
            await clock.sleep(host.unit)
            log.append(name)

    async def main(clock):
        for name in "ab":
            clock.start(child(clock, name))
        await clock.sleep(0)
        return "main"

    assert host.run(main) == "main"
    assert sorted(log) == ["a", "b"]


# -------------------------------------------------------------------------------------------------------------- events


def test_an_event_wakes_its_waiters_in_the_order_in_which_they_came(host):
    """set() wakes all who wait, first come first."""
    log = []

    async def waiter(event, name):
        await event.wait()
        log.append(name)

    async def main(clock):
        event = clock.event()
        assert not event.is_set()
        tasks = [clock.start(waiter(event, name)) for name in "abc"]
        await clock.sleep(0)
        assert log == []
        event.set()
        assert event.is_set()
        assert log == []
        for task in tasks:
            await task

    host.run(main)
    assert log == ["a", "b", "c"]


def test_a_raised_flag_is_not_waited_for(host):
    """wait() on a flag that is up returns at once, without giving way; set() twice is set() once."""
    log = []

    async def other():
        log.append("other")

    async def main(clock):
        event = clock.event()
        event.set()
        event.set()
        clock.start(other())
        await event.wait()
        log.append("main")
        await clock.sleep(0)

    host.run(main)
    assert log == ["main", "other"]


def test_clear_lowers_the_flag_for_those_who_come_later(host):
    """Who waited when it was set is woken though it was cleared in the same instant; who comes later waits."""
    log = []

    async def waiter(event, name):
        await event.wait()
        log.append(name)

    async def main(clock):
        event = clock.event()
        early = clock.start(waiter(event, "early"))
        await clock.sleep(0)
        event.set()
        event.clear()
        assert not event.is_set()
        late = clock.start(waiter(event, "late"))
        await early
        await clock.sleep(0)
        assert log == ["early"]
        event.set()
        await late

    host.run(main)
    assert log == ["early", "late"]


def test_a_cancelled_waiter_leaves_the_others_waiting(host):
    """Cancelling one who waits takes that one out of the queue and no other."""
    log = []

    async def waiter(event, name):
        try:
            await event.wait()
            log.append(name)
        except CancelledError:
            log.append(f"{name} cancelled")
            raise

    async def main(clock):
        event = clock.event()
        tasks = [clock.start(waiter(event, name)) for name in "abc"]
        await clock.sleep(0)
        tasks[1].cancel()
        await clock.sleep(0)
        event.set()
        await tasks[2]

    host.run(main)
    assert log == ["b cancelled", "a", "c"]


@pytest.mark.parametrize("first", ["set", "cancel"])
def test_a_flag_and_a_cancellation_in_one_instant(host, first):
    """Whichever comes first, the waiter is cancelled, once, and in the turn that the first gave it."""
    log = []

    async def waiter(event, name):
        try:
            await event.wait()
            log.append(name)
        except CancelledError:
            log.append(f"{name} cancelled")
            raise

    async def main(clock):
        event = clock.event()
        tasks = [clock.start(waiter(event, name)) for name in "abc"]
        await clock.sleep(0)
        if first == "set":
            event.set()
            tasks[0].cancel()
        else:
            tasks[0].cancel()
            event.set()
        await tasks[1]
        await tasks[2]
        with pytest.raises(CancelledError):
            await tasks[0]

    host.run(main)
    assert log == ["a cancelled", "b", "c"]


def test_waiting_for_an_event_under_a_limit(host):
    """A limit ends a wait, and the waiter that it ended takes no later wake."""

    async def main(clock):
        event = clock.event()
        with pytest.raises(TimeoutError):
            async with clock.timeout(host.unit):
                await event.wait()
        event.set()
        event.clear()
        with pytest.raises(TimeoutError):
            async with clock.timeout(host.unit):
                await event.wait()
        return "done"

    assert host.run(main) == "done"


@pytest.mark.parametrize("then", ["event", "sleep", "task"])
def test_a_waiter_that_gave_up_is_not_woken_by_what_it_gave_up_on(host, then):
    """Once its wait was cut short, a task waits for something else, and the first event means nothing to it."""
    log = []

    async def waiter(clock, first, second):
        with pytest.raises(TimeoutError):
            async with clock.timeout(host.unit):
                await first.wait()
        gave_up.set()
        if then == "event":
            await second.wait()
        elif then == "task":
            await clock.start(second.wait())
        else:
            await clock.sleep(10 * host.unit)
        log.append("went on")

    gave_up: Any = None

    async def main(clock):
        nonlocal gave_up
        gave_up = clock.event()
        first, second = clock.event(), clock.event()
        task = clock.start(waiter(clock, first, second))
        await gave_up.wait()
        first.set()
        for _ in range(3):
            await clock.sleep(0)
        log.append("first")
        second.set()
        await task

    host.run(main)
    assert log == ["first", "went on"]


# ------------------------------------------------------------------------------------------------------------- context


def test_a_task_has_the_context_of_its_start(host):
    """A task sees the context variables as they were when it was started, and keeps its own changes to itself."""
    colour = ContextVar("colour", default="none")
    seen = []

    async def child(clock, own):
        seen.append(colour.get())
        colour.set(own)
        await clock.sleep(0)
        seen.append(colour.get())

    async def main(clock):
        colour.set("red")
        one = clock.start(child(clock, "one"))
        colour.set("blue")
        two = clock.start(child(clock, "two"))
        await one
        await two
        seen.append(colour.get())

    host.run(main)
    assert seen == ["red", "blue", "one", "two", "blue"]
    assert colour.get() == "none"


# ---------------------------------------------------------------------------------------------------- async generators


async def _numbers(clock, log, wait=0.0) -> AsyncIterator[int]:
    try:
        for number in range(10):
            yield number
            await clock.sleep(0)
    finally:
        if wait:
            await clock.sleep(wait)
        log.append("closed")


def test_breaking_out_of_a_stream_closes_it(host):
    """A generator that nobody holds any more is closed soon after, without being told."""
    log = []

    async def main(clock):
        async for number in _numbers(clock, log):
            if number == 2:
                break
        for _ in range(4):
            await clock.sleep(0)
        log.append("main")

    host.run(main)
    assert log == ["closed", "main"]


def test_closing_a_stream_runs_its_finally(host):
    """aclose() ends it there and then, waits included."""
    log = []

    async def main(clock):
        stream = _numbers(clock, log, wait=host.unit)
        assert await anext(stream) == 0
        await stream.aclose()
        log.append("main")
        await stream.aclose()
        return [number async for number in stream]

    assert host.run(main) == []
    assert log == ["closed", "main"]


@pytest.mark.parametrize("wait", [0, 1])
def test_a_stream_that_is_held_open_is_closed_at_the_end(host, wait):
    """What is still open when the run ends is closed by it, and may wait in doing so."""
    log = []
    held = []

    async def main(clock):
        held.append(_numbers(clock, log, wait * host.unit))
        await anext(held[0])
        return "main"

    assert host.run(main) == "main"
    assert log == ["closed"]


def test_a_stream_of_a_cancelled_task_is_closed(host):
    """A task that is cancelled inside its stream leaves no open stream."""
    log = []

    async def reader(clock):
        async for _ in _numbers(clock, log):
            await clock.event().wait()

    async def main(clock):
        task = clock.start(reader(clock))
        await clock.sleep(0)
        task.cancel()
        with pytest.raises(CancelledError):
            await task
        del task
        for _ in range(4):
            await clock.sleep(0)
        log.append("main")

    host.run(main)
    assert log.count("closed") == 1


def test_an_error_in_closing_an_abandoned_stream_is_logged(host, caplog):
    """Nobody is there to catch it, so it goes to the log with its traceback, and the run goes on."""

    async def stream():
        try:
            yield 1
        finally:
            raise ValueError("while closing")

    async def main(clock):
        async for _ in stream():
            break
        await clock.sleep(0)
        return "main"

    assert host.run(main) == "main"
    gc.collect()
    errors = [record.exc_info[1] for record in caplog.records if record.levelname == "ERROR" and record.exc_info]
    assert [str(error) for error in errors] == ["while closing"]


# ------------------------------------------------------------------------------------------------------- silent errors


def test_an_error_that_nobody_asked_for_is_logged(host, caplog):
    """A task that fails unheard is in the log, with its error; one whose error was asked for is not."""

    async def child(text):
        raise ValueError(text)

    async def main(clock):
        unheard, heard = clock.start(child("unheard")), clock.start(child("heard"))
        await clock.sleep(0)
        await clock.sleep(0)
        assert unheard.done()
        with pytest.raises(ValueError, match=r"^heard"):
            await heard
        asked = clock.start(child("asked"))
        await clock.sleep(0)
        asked.exception()

    host.run(main)
    gc.collect()
    errors = [str(record.exc_info[1]) for record in caplog.records if record.levelname == "ERROR"]
    assert errors == ["unheard"]


def test_a_cancelled_task_is_not_an_error(host, caplog):
    """Cancellation is an ordinary end; nothing is logged for it."""

    async def main(clock):
        task = clock.start(clock.event().wait())
        await clock.sleep(0)
        task.cancel()
        await clock.sleep(0)
        await clock.sleep(0)
        clock.start(clock.event().wait())

    host.run(main)
    gc.collect()
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []
