"""Workers, the queue before them, and capacity that changes: the same in virtual time and on a real loop."""

from __future__ import annotations

import math
from contextlib import aclosing, suppress
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.errors import DeadlockError, DependencyError, OverloadedError, ServiceError
from labkit.services import Fault, FaultPlan, Latency, PartsAvailability, Window
from labkit.timing import VirtualClock


def outcomes(service):
    """How the attempts in the log ended, in the order in which they arrived."""
    return [attempt.outcome for attempt in service.log]


def times(service):
    """When each attempt arrived, was served and ended, in the order in which they arrived."""
    return [(attempt.started, attempt.served, attempt.ended) for attempt in service.log]


async def together(clock, calls):
    """Run coroutines beside each other; give their results, or the exceptions in their place."""
    tasks = [clock.start(call) for call in calls]
    results = []
    for task in tasks:
        try:
            results.append(await task)
        except Exception as error:  # the test judges it
            results.append(error)
    return results


def test_latency_grows_with_load(clock):
    """Two workers serve five callers in three rounds: who waits is served when a worker is free, in order."""
    service = PartsAvailability(clock, latency=1, workers=2, queue=10)
    clock.run(together(clock, [service.call("HX-2040") for _ in range(5)]))
    assert times(service) == [(0, 0, 1), (0, 0, 1), (0, 1, 2), (0, 1, 2), (0, 2, 3)]
    assert (service.busy, service.queued, service.in_flight, service.in_flight_peak) == (0, 0, 0, 5)


def test_a_full_queue_is_refused_at_once(world):
    """One caller more than workers and places is refused without waiting, with an error that says why."""

    async def main(clock):
        service = PartsAvailability(clock, latency=20 * world.unit, workers=1, queue=1)
        results = await together(clock, [service.call("HX-2040") for _ in range(3)])
        return service, results

    service, results = world.run(main)
    assert [getattr(result, "quantity", None) for result in results] == [42, 42, None]
    assert isinstance(results[2], OverloadedError)
    assert isinstance(results[2], DependencyError)
    assert "its queue is full" in str(results[2])
    assert "\n" not in str(results[2])
    assert sorted(outcomes(service)) == ["answered", "answered", "overloaded"]
    refused = next(attempt for attempt in service.log if attempt.outcome == "overloaded")
    assert refused.served is None
    if world.exact:
        assert refused.ended == refused.started == 0


def test_without_a_queue_a_busy_service_refuses(clock):
    """Workers without a queue turn away the first call for which none is free."""
    service = PartsAvailability(clock, latency=1, workers=1)
    results = clock.run(together(clock, [service.call("HX-2040"), service.call("HX-2040")]))
    assert isinstance(results[1], OverloadedError)


def test_without_workers_nobody_waits(clock):
    """A service whose workers are not limited serves all callers at once."""
    service = PartsAvailability(clock, latency=1)
    clock.run(together(clock, [service.call("HX-2040") for _ in range(500)]))
    assert clock.now() == 1
    assert {attempt.served for attempt in service.log} == {0.0}
    assert (service.workers, service.capacity, service.queued) == (None, None, 0)


def test_a_hang_holds_its_worker_until_the_caller_goes_away(world):
    """Callers that hang occupy the workers; the moment one gives up, the first in the queue has its place."""

    async def main(clock):
        service = PartsAvailability(clock, plan="hang", latency=0, workers=1, queue=5)

        async def patient(limit):
            with pytest.raises(TimeoutError):
                async with clock.timeout(limit * world.unit):
                    await service.call("HX-2040")

        first = clock.start(patient(20))
        second = clock.start(patient(60))
        await clock.sleep(10 * world.unit)
        before = (service.busy, service.queued)
        await clock.sleep(20 * world.unit)
        after = (service.busy, service.queued)
        await first
        await second
        return service, before, after

    service, before, after = world.run(main)
    assert (before, after) == ((1, 1), (1, 0))
    assert (service.busy, service.queued) == (0, 0)
    assert outcomes(service) == ["cancelled", "cancelled"]
    if world.exact:
        assert times(service) == [(0, 0, 20), (0, 20, 60)]


def test_a_caller_that_gives_up_in_the_queue_leaves_it(clock):
    """Who is cancelled while it waits never had a worker, and its place is free for another at once."""
    service = PartsAvailability(clock, latency=10, workers=1, queue=1)

    async def main():
        running = clock.start(service.call("HX-2040"))
        await clock.sleep(0)
        with pytest.raises(TimeoutError):
            async with clock.timeout(2):
                await service.call("HX-2040")
        assert service.queued == 0
        reply = await service.call("HX-2040")
        await running
        return reply

    assert clock.run(main()).quantity == 42
    assert times(service) == [(0, 0, 10), (0, None, 2), (2, 10, 20)]


def test_a_caller_that_is_cancelled_as_it_is_served_gives_the_worker_back(clock):
    """A cancellation in the instant in which the worker is handed over loses neither."""
    service = PartsAvailability(clock, latency=1, workers=1, queue=2)

    async def main():
        first = clock.start(service.call("HX-2040"))
        second = clock.start(service.call("HX-2040"))
        third = clock.start(service.call("HX-2040"))
        await first
        second.cancel()  # it has the worker by now, and has not had its turn
        await third
        return second

    assert clock.run(main()).cancelled()
    assert outcomes(service) == ["answered", "cancelled", "answered"]
    assert times(service)[1:] == [(0, 1, 1), (0, 1, 2)]
    assert service.busy == 0


def test_a_closed_coroutine_frees_its_worker():
    """A call that is closed from outside, not cancelled, gives its worker back too."""
    clock = VirtualClock()
    service = PartsAvailability(clock, plan="hang", workers=1)
    task = clock.start(service.call("HX-2040"))
    clock.settle()
    assert service.busy == 1
    with pytest.raises(DeadlockError):
        clock.run(service._clock.event().wait())  # the run is given up, and every coroutine is closed by force
    assert task.cancelled()
    assert service.busy == 0


def test_a_stream_holds_one_worker_to_its_end(clock):
    """A stream occupies its worker until it is exhausted or closed by a reader that stops early."""
    service = PartsAvailability(clock, latency=1, workers=1, queue=5)

    async def early():
        async with aclosing(service.stream("HX-2040")) as chunks:
            await anext(chunks)

    async def whole():
        async with aclosing(service.stream("HX-2040")) as chunks:
            return [chunk async for chunk in chunks]

    clock.run(together(clock, [early(), whole(), service.call("HX-2040")]))
    assert times(service) == [(0, 0, 1), (0, 1, 5), (0, 5, 6)]
    assert outcomes(service) == ["abandoned", "answered", "answered"]


def test_refusals_at_the_door_need_no_worker(clock):
    """A dropped connection and a rate limit are met although all workers are busy and the queue is full."""
    service = PartsAvailability(clock, plan="hang", workers=1)

    async def main():
        hung = clock.start(service.call("HX-2040"))
        await clock.sleep(1)
        for fault in ("connection_error", "rate_limit", "error"):
            service.set_fault(fault)
            with suppress(DependencyError, ConnectionError):
                await service.call("HX-2040")
        hung.cancel()

    clock.run(main())
    assert outcomes(service) == ["cancelled", "connection_error", "rate_limited", "overloaded"]
    assert [attempt.served for attempt in service.log] == [0.0, None, None, None]


def test_who_waited_meets_the_fault_of_the_moment_in_which_it_is_served(clock):
    """A call that arrived in an outage and waited beyond its end is answered, and the other way round."""
    service = PartsAvailability(clock, plan=FaultPlan([Window(0, 10, "hang")]), latency=1, workers=1, queue=3)

    async def impatient():
        with suppress(TimeoutError):
            async with clock.timeout(12):
                await service.call("HX-2040")

    results = clock.run(together(clock, [impatient(), service.call("HX-2040")]))
    assert results[1].quantity == 42
    assert [attempt.fault for attempt in service.log] == ["hang", "healthy"]
    assert times(service)[1] == (0, 12, 13)


def test_capacity_returns_in_steps(clock):
    """Fewer workers let running work finish; more workers let the queue in at that very time."""
    plan = FaultPlan([Window(10, 40, "healthy", capacity=[(10, 1), (20, 2)])])
    service = PartsAvailability(clock, plan=plan, latency=100, workers=4, queue=10)
    seen = []

    async def main():
        running = [clock.start(service.call("HX-2040")) for _ in range(3)]
        for second in (5, 10, 15, 20, 25, 40, 45):
            await clock.sleep(second - clock.now())
            if second == 5:
                running += [clock.start(service.call("HX-2040")) for _ in range(3)]
            seen.append((second, service.capacity, service.busy, service.queued))
        for task in running:
            await task

    clock.run(main())
    assert seen == [
        (5, 4, 3, 0),
        (10, 1, 4, 2),
        (15, 1, 4, 2),
        (20, 2, 4, 2),
        (25, 2, 4, 2),
        (40, 4, 4, 2),
        (45, 4, 4, 2),
    ]
    assert [served for _, served, _ in times(service)] == [0, 0, 0, 5, 100, 100]


def test_the_queue_is_let_in_when_capacity_returns_although_nothing_else_happens(world):
    """With no worker at all, callers wait; at the step at which workers return they are served, first come first."""

    async def main(clock):
        steps = [(0, 0), (50 * world.unit, 1), (100 * world.unit, 2)]
        service = PartsAvailability(clock, latency=0, workers=2, queue=5, capacity=steps)
        replies = await together(clock, [service.call("HX-2040") for _ in range(3)])
        return service, replies

    service, replies = world.run(main)
    assert [reply.quantity for reply in replies] == [42] * 3
    assert all(attempt.served >= 50 * world.unit for attempt in service.log)
    if world.exact:
        assert [served for _, served, _ in times(service)] == [50, 50, 50]


def test_capacity_may_go_and_return_again_and_again(clock):
    """Each time that workers are gone, those who wait are let in when they return, also long after the last time."""
    steps = [(0, 0), (10, 1), (20, 0), (30, 1), (40, 0), (50, 1)]
    service = PartsAvailability(clock, latency=0, workers=1, queue=5, capacity=steps)

    async def one(second):
        await clock.sleep(second)
        await service.call("HX-2040")

    clock.run(together(clock, [one(second) for second in (5, 15, 25, 45)]))
    assert [served for _, served, _ in times(service)] == [10, 15, 30, 50]


def test_who_waited_has_passed_a_rate_limit(clock):
    """A rate limit that begins while a call waits in the queue does not turn it away any more."""
    plan = FaultPlan([Window(0.5, 9, "rate_limit")])
    service = PartsAvailability(clock, plan=plan, latency=1, workers=1, queue=1)
    replies = clock.run(together(clock, [service.call("HX-2040"), service.call("HX-2040")]))
    assert [reply.quantity for reply in replies] == [42, 42]


def test_no_worker_for_ever_is_named_in_virtual_time(clock):
    """A queue that nothing can ever empty is named, as a hang is."""
    service = PartsAvailability(clock, workers=1, queue=1, capacity=[(0, 0)])
    with pytest.raises(DeadlockError):
        clock.run(service.call("HX-2040"))


def test_a_step_that_cannot_be_met_exactly_is_taken_all_the_same():
    """A time of which the clock falls short by rounding is still a time: nobody waits for ever, or for nothing."""
    clock = VirtualClock(start=1e9 + 0.1)
    service = PartsAvailability(clock, latency=0.1, workers=1, queue=1, capacity=[(0, 0), (0.1 + 0.2, 1)])
    assert clock.run(service.call("HX-2040")).quantity == 42


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"workers": 0}, "'workers' is 0"),
        ({"workers": 2.5}, "'workers' is 2.5"),
        ({"workers": True}, "'workers' is True"),
        ({"workers": 1, "queue": -1}, "'queue' is -1"),
        ({"queue": 3}, "'queue' means nothing without 'workers'"),
        ({"capacity": [(0, 1)]}, "'capacity' means nothing without 'workers'"),
        ({"workers": 5, "capacity": [(10, 6)]}, "from 10 s on is 6, which is more than the service's 5 workers"),
        ({"workers": 5, "capacity": [(10, 2), (10, 3)]}, "steps stand in the order of time"),
        ({"workers": 5, "capacity": [(-1, 2)]}, r"capacity\[0\] begins at -1"),
        ({"workers": 5, "capacity": [(1, -2)]}, r"capacity\[0\] has -2 workers"),
        ({"workers": 5, "capacity": [5]}, r"capacity\[0\] is 5"),
        ({"workers": 5, "capacity": 5}, "'capacity' is 5"),
    ],
)
def test_a_capacity_that_cannot_be_is_one_sentence(clock, arguments, said):
    """Workers, queue and steps that make no sense are refused by name."""
    with pytest.raises(ServiceError, match=said) as caught:
        PartsAvailability(clock, **arguments)
    assert "\n" not in str(caught.value)


def test_record_is_called_once_at_the_end_of_each_attempt(world):
    """The recorder sees every attempt once, ended, with its worker given back, in the task that made it."""

    async def main(clock):
        service = PartsAvailability(clock, latency=0, workers=1, log_size=0)
        seen = []
        service.record = lambda attempt: seen.append((attempt.outcome, attempt.ended is not None, service.busy))
        await service.call("HX-2040")
        service.set_fault("error")
        with pytest.raises(DependencyError):
            await service.call("HX-2040")
        service.clear()
        async with aclosing(service.stream("HX-2040")) as chunks:
            await anext(chunks)
        return seen, list(service.log)

    seen, log = world.run(main)
    assert seen == [("answered", True, 0), ("error", True, 0), ("abandoned", True, 0)]
    assert log == []


# -- whatever happens, no worker is lost -------------------------------------------------------------------------------


@st.composite
def runs(draw):
    """A service with some capacity, and callers that arrive, give up and stop reading at all kinds of times."""
    time = st.integers(0, 24).map(lambda quarter: quarter / 4)
    workers = draw(st.integers(1, 3))
    edges = sorted(draw(st.lists(time, max_size=4, unique=True)))
    faults = st.sampled_from(
        [
            Fault("healthy"),
            Fault("error"),
            Fault("hang"),
            Fault("slow", seconds=2),
            Fault("connection_error"),
            Fault("mid_stream_death"),
            Fault("rate_limit", per_second=1, delay=0.5),
            Fault("flapping", up=0.5, down=0.5, inner="hang"),
        ]
    )
    windows = [Window(start, end, draw(faults)) for start, end in pairwise(edges)]
    at = sorted(draw(st.lists(time, max_size=3, unique=True)))
    steps = [(second, draw(st.integers(0, workers))) for second in at]
    callers = draw(
        st.lists(
            st.tuples(
                time,  # when it arrives
                st.integers(0, 12).map(lambda quarter: quarter / 4),  # how long it is patient
                st.sampled_from(["call", "stream", "one chunk"]),
            ),
            min_size=1,
            max_size=12,
        )
    )
    return {
        "workers": workers,
        "queue": draw(st.integers(0, 3)),
        "plan": FaultPlan(windows),
        "capacity": steps,
        "latency": draw(st.sampled_from([0.0, 0.25, 1.0])),
        "callers": callers,
    }


@given(runs())
@settings(max_examples=300)
def test_no_worker_is_lost_and_none_idles_while_somebody_waits(run):
    """Whatever callers do: all workers come back, nobody works beyond the capacity or waits before an idle worker."""
    clock = VirtualClock()
    callers = run.pop("callers")
    service = PartsAvailability(clock, **run)

    async def ask(arrives, patience, how):
        await clock.sleep(arrives)
        with suppress(DependencyError, ConnectionError, TimeoutError):
            async with clock.timeout(patience):
                if how == "call":
                    await service.call("HX-2040")
                else:
                    async with aclosing(service.stream("HX-2040")) as chunks:
                        async for _ in chunks:
                            if how == "one chunk":
                                break

    async def everybody():
        for task in [clock.start(ask(*caller)) for caller in callers]:
            await task

    clock.run(everybody())
    attempts = list(service.log)
    assert (service.busy, service.queued, service.in_flight) == (0, 0, 0)
    assert sum(service.outcomes.values()) == service.attempts == len(attempts) <= len(callers)

    def capacity(at):
        return next((many for second, many in reversed(run["capacity"]) if second <= at), run["workers"])

    # Between two events nothing changes, so the middle of each gap stands for all of it.
    door = ("connection_error", "rate_limit")  # what is met there needs no worker
    served = [one for one in attempts if one.served is not None]
    events = {time for one in attempts for time in (one.started, one.ended)} | {second for second, _ in run["capacity"]}
    for before, after in pairwise(sorted(events)):
        at = (before + after) / 2
        working = [one for one in served if one.served <= at < one.ended]
        waiting = [
            one
            for one in attempts
            if one.started <= at < one.ended and (one.fault not in door if one.served is None else at < one.served)
        ]
        assert len(waiting) <= run["queue"]
        assert not waiting or len(working) >= capacity(at)
    for one in served:
        if one.served < one.ended:
            assert sum(other.served <= one.served < other.ended for other in served) <= capacity(one.served)
    assert [one.served for one in served] == sorted(one.served for one in served)  # first come, first served
    # And all of the workers are there for those who come afterwards.
    service.set_fault("healthy")
    now = math.ceil(clock.now()) + 30 - clock.now()

    async def afterwards():
        await clock.sleep(now)
        many = service.capacity
        return many, await together(clock, [service.call("HX-2040") for _ in range(many)])

    many, replies = clock.run(afterwards())
    assert [reply.quantity for reply in replies] == [42] * many
    assert all(attempt.served == attempt.started for attempt in list(service.log)[len(attempts) :])


@given(st.lists(st.integers(0, 40), min_size=2, max_size=30), st.integers(1, 4))
def test_the_queue_is_first_come_first_served(arrivals, workers):
    """Who comes earlier is served no later, whatever the load."""
    clock = VirtualClock()
    service = PartsAvailability(clock, latency=Latency.uniform(0, 20), workers=workers, queue=len(arrivals), seed=3)

    async def ask(at):
        await clock.sleep(at)
        await service.call("HX-2040")

    clock.run(together(clock, [ask(at) for at in arrivals]))
    served = [attempt.served for attempt in service.log]
    assert served == sorted(served)
    assert outcomes(service) == ["answered"] * len(arrivals)
