"""Timelines from plain data, rate limits, flapping, capacity in a plan, what a picture is told, and latencies."""

from __future__ import annotations

import math
import random
import statistics
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.errors import DependencyError, RateLimitedError, ServiceError
from labkit.services import Fault, FaultKind, FaultPlan, Latency, PartsAvailability, Window
from labkit.timing import VirtualClock


def asked(clock, service, at):
    """What calls at these times gave: "ok", or the exception's name."""

    async def one(second):
        await clock.sleep(second)
        try:
            await service.call("HX-2040")
        except Exception as error:  # the test judges it
            return type(error).__name__
        return "ok"

    async def main():
        return [await task for task in [clock.start(one(second)) for second in at]]

    return clock.run(main())


def test_a_timeline_is_read_from_plain_data():
    """Each window has its times, its fault and that fault's settings; outside of them the service is healthy."""
    plan = FaultPlan.from_list(
        [
            {"from": 180, "to": 240, "fault": "healthy", "capacity": [[180, 20], [200, 60]]},
            {"from": 60, "to": 180, "fault": "hang"},
            {"from": 300, "to": 310, "fault": "slow", "seconds": 4, "rate": 0.5},
            {"from": 400, "fault": "mid-stream death", "chunks": 2},
        ]
    )
    assert [(window.start, window.end, str(window.fault)) for window in plan.windows] == [
        (60, 180, "hang"),
        (180, 240, "healthy"),
        (300, 310, "slow"),
        (400, math.inf, "mid_stream_death"),
    ]
    assert plan.at(305) == Fault("slow", seconds=4, rate=0.5)
    assert plan.at(1e6) == Fault("mid_stream_death", chunks=2)
    assert [str(plan.at(second)) for second in (0, 250, 399.9)] == ["healthy"] * 3
    assert plan.capacity == ((180, 20), (200, 60), (240, None))


@pytest.mark.parametrize(
    "window",
    [
        {"from": 1, "to": 5, "capacity": [[1, 2]]},
        {"from": 1, "to": 5, "fault": "slow_recovery", "capacity": [[1, 2]]},
        {"from": 1, "to": 5, "fault": "healthy", "capacity": [(1, 2)]},
    ],
)
def test_slow_recovery_is_a_healthy_window_with_a_capacity(window):
    """A window whose capacity is lower and that says nothing else is healthy, under either name."""
    assert FaultPlan.from_list([window]) == FaultPlan([Window(1, 5, "healthy", capacity=[(1, 2)])])


GOOD = {"from": 0, "to": 5, "fault": "error"}


@pytest.mark.parametrize(
    ("data", "said", "path"),
    [
        (5, "'faults' is 5; it must be a list of windows", ()),
        ("hang", "'faults' is 'hang'", ()),
        ({"from": 1}, "it must be a list", ()),
        ([GOOD, "hang"], r"faults\[1\]: a window is 'hang'", (1,)),
        ([{"to": 5, "fault": "error"}], r"faults\[0\]: .*'from' is missing", (0,)),
        ([{"form": 1, "to": 5, "fault": "error"}], r"'from' is missing; is 'form' meant", (0,)),
        ([{"from": 1, "to": 5}], r"faults\[0\]: .*'fault' is missing", (0,)),
        ([{"from": 1, "to": 5, "falt": "hang"}], "'fault' is missing; is 'falt' meant", (0,)),
        ([GOOD, {"from": 6, "to": 9, "fault": "hnag"}], r"faults\[1\]: .*'hnag'; did you mean 'hang'", (1, "fault")),
        ([{"from": 1, "to": 5, "fault": 7}], r"faults\[0\]: a fault is a name", (0, "fault")),
        (
            [{**GOOD, "from": -1}],
            r"faults\[0\]: a window's start is -1; it must be a number from 0 to 1,000,000,000",
            (0, "from"),
        ),
        ([{**GOOD, "to": "soon"}], r"a window's end is 'soon'", (0, "to")),
        ([{**GOOD, "to": math.nan}], "a window's end is nan", (0, "to")),
        ([{**GOOD, "to": 0}], "holds no time", (0, "to")),
        ([{**GOOD, "rat": 0.5}], r"no setting 'rat'; did you mean 'rate'", (0, "rat")),
        ([{**GOOD, "rate": 1.5}], "'rate' .error. is 1.5; it must be a number from 0 to 1", (0, "rate")),
        ([{**GOOD, "delay": 1}], "the fault 'error' takes no 'delay'; only 'rate_limit' does", (0, "delay")),
        ([{**GOOD, "per_second": 1}], "only 'rate_limit' does", (0, "per_second")),
        ([{**GOOD, "up": 1}], "only 'flapping' does", (0, "up")),
        ([{**GOOD, "fault": "hang", "seconds": 1}], "'hang' never answers", (0, "seconds")),
        ([{**GOOD, "fault": "rate_limit", "per_second": -1}], "'per_second' .rate_limit. is -1", (0, "per_second")),
        ([{**GOOD, "fault": "rate_limit", "seconds": 1}], "takes no 'seconds'", (0, "seconds")),
        ([{**GOOD, "fault": "flapping", "up": 0}], "'up' .flapping. is 0", (0, "up")),
        ([{**GOOD, "fault": "flapping", "rate": 0.5}], "give it to 'inner'", (0, "rate")),
        (
            [{**GOOD, "fault": "flapping", "inner": "hnag"}],
            "'inner' .flapping.: .*did you mean 'hang'",
            (0, "inner", "fault"),
        ),
        ([{**GOOD, "fault": "flapping", "inner": "flapping"}], "cannot be flapping itself", (0, "inner")),
        ([{**GOOD, "fault": "slow_recovery"}], "'slow_recovery' needs 'capacity'", (0,)),
        ([{**GOOD, "capacity": []}], "'capacity' has no step", (0, "capacity")),
        ([{**GOOD, "capacity": 20}], "'capacity' is 20; it must be a list of steps", (0, "capacity")),
        ([{**GOOD, "capacity": [[1, 2, 3]]}], r"capacity\[0\] is \[1, 2, 3\]", (0, "capacity", 0)),
        (
            [{**GOOD, "capacity": [[1, 2], [1, 3]]}],
            r"capacity\[1\] begins at 1 s and the step before",
            (0, "capacity", 1, 0),
        ),
        ([{**GOOD, "capacity": [[1, 2], [5, 3]]}], "not within the window from 0 s to 5 s", (0, "capacity", 1, 0)),
        ([{**GOOD, "capacity": [[1, 2.5]]}], "2.5 workers", (0, "capacity", 0, 1)),
        (
            [GOOD, {"from": 20, "to": 30, "fault": "hang"}, {"from": 4, "to": 9, "fault": "slow"}],
            r"faults\[2\]: two windows overlap, faults\[0\] ends at 5 s and faults\[2\] \('slow'\) starts at 4 s",
            (2, "from"),
        ),
    ],
)
def test_a_timeline_that_is_wrong_is_one_sentence(data, said, path):
    """Which window, which key, what was found and what is allowed; `path` leads to the very value."""
    with pytest.raises(ServiceError, match=said) as caught:
        FaultPlan.from_list(data)
    assert "\n" not in str(caught.value)
    assert caught.value.path == path


@pytest.mark.parametrize(
    "fault",
    [
        Fault("rate_limit"),
        Fault("rate_limit", per_second=2.5, delay=1),
        Fault("flapping"),
        Fault("flapping", up=1, down=2, inner=Fault("slow", factor=3)),
    ],
    ids=lambda fault: fault.words,
)
def test_the_newer_faults_survive_plain_data(fault):
    """A rate limit or a flapping fault written as plain data and read again is the same fault."""
    assert Fault.from_dict(fault.to_dict()) == fault


def test_an_empty_timeline_is_healthy():
    """No window at all is no fault."""
    assert FaultPlan.from_list([]) == FaultPlan()


# -- rate limits -------------------------------------------------------------------------------------------------------


def test_a_rate_limit_lets_its_rate_pass(clock):
    """Of 80 calls a second, 20 a second pass (and one second's worth at once); the rest is refused, and told so."""
    service = PartsAvailability(clock, plan=Fault("rate_limit", per_second=20), latency=0.01)
    seen = asked(clock, service, [n / 80 for n in range(800)])
    assert set(seen) == {"ok", "RateLimitedError"}
    assert seen[:20] == ["ok"] * 20
    assert seen.count("ok") == pytest.approx(200 + 20, abs=2)
    assert seen[400:].count("ok") == pytest.approx(100, abs=1)
    assert service.outcomes == {"answered": seen.count("ok"), "rate_limited": seen.count("RateLimitedError")}


def test_a_call_that_comes_when_it_was_told_to_passes(clock):
    """`retry_after` says when: a moment before it is refused again, at that time it passes."""
    service = PartsAvailability(clock, plan=Fault("rate_limit", per_second=0.5), latency=0)

    async def main():
        await service.call("HX-2040")
        with pytest.raises(RateLimitedError) as caught:
            await service.call("HX-2040")
        assert caught.value.retry_after == pytest.approx(2.0)
        await clock.sleep(1.9)
        with pytest.raises(RateLimitedError):
            await service.call("HX-2040")
        await clock.sleep(0.1)
        return await service.call("HX-2040")

    assert clock.run(main()).quantity == 42


def test_a_rate_limit_refuses_after_its_delay(world):
    """With a delay, the refusal takes that long; without a rate none passes, and nobody can say when one will."""

    async def main(clock):
        service = PartsAvailability(clock, plan=Fault("rate_limit", delay=10 * world.unit), latency=0)
        with pytest.raises(RateLimitedError, match="enough calls") as caught:
            await service.call("HX-2040")
        assert caught.value.retry_after is None
        assert isinstance(caught.value, DependencyError)
        stream = service.stream("HX-2040")
        with pytest.raises(RateLimitedError):
            await anext(stream)
        return service

    service = world.run(main)
    assert [attempt.outcome for attempt in service.log] == ["rate_limited"] * 2
    assert all(attempt.ended - attempt.started >= 9 * world.unit for attempt in service.log)
    if world.exact:
        assert [attempt.ended - attempt.started for attempt in service.log] == [10, 10]


def test_a_new_limit_begins_with_a_full_allowance(clock):
    """Switching a rate limit anew forgets what was used up before."""
    service = PartsAvailability(clock, latency=0)

    async def main():
        for _ in range(2):
            service.set_fault("rate_limit", per_second=0.001)
            await service.call("HX-2040")
            with pytest.raises(RateLimitedError):
                await service.call("HX-2040")

    clock.run(main())


@given(st.floats(0.05, 50), st.lists(st.floats(0, 20), min_size=1, max_size=80))
def test_a_rate_limit_holds_over_any_stretch(per_second, arrivals):
    """In any stretch of time no more pass than its rate allows, and one second's worth (or one call) more."""
    clock = VirtualClock()
    service = PartsAvailability(clock, plan=Fault("rate_limit", per_second=per_second), latency=0)
    asked(clock, service, arrivals)
    passed = sorted(attempt.started for attempt in service.log if attempt.outcome == "answered")
    assert passed[0] == min(arrivals)
    for index, first in enumerate(passed):
        for many, last in enumerate(passed[index:], start=1):
            assert many <= per_second * (last - first) + max(1, per_second) + 1e-6


# -- flapping ----------------------------------------------------------------------------------------------------------


def test_flapping_begins_down_and_goes_on_in_turns(clock):
    """From the window's start the inner fault holds for `down` seconds, then health for `up` seconds, and so on."""
    plan = FaultPlan.from_list([{"from": 10, "to": 30, "fault": "flapping", "down": 2, "up": 6}])
    service = PartsAvailability(clock, plan=plan, latency=0)
    at = [9.9, 10, 11.9, 12, 17.9, 18, 19.9, 20, 26, 28, 30]
    assert asked(clock, service, at) == [
        "ok" if healthy else "DependencyError" for healthy in (1, 0, 0, 1, 1, 0, 0, 1, 0, 1, 1)
    ]
    assert [attempt.fault for attempt in service.log][:3] == ["healthy", "error", "error"]


def test_flapping_by_hand_counts_from_the_switch(clock):
    """Set by hand it begins down at that moment; a connection that flaps is one that is dropped and comes back."""
    service = PartsAvailability(clock, latency=0)

    async def main():
        await clock.sleep(7)
        service.set_fault("flapping", up=1, down=1, inner="connection_error")
        assert (str(service.fault), service.switched) == ("flapping", True)
        seen = []
        for _ in range(4):
            with suppress(ConnectionError):
                await service.call("HX-2040")
            seen.append(service.log[-1].outcome)
            await clock.sleep(1)
        service.clear()
        await service.call("HX-2040")
        return seen

    assert clock.run(main()) == ["connection_error", "answered", "connection_error", "answered"]


def test_flapping_for_all_times_needs_no_window(clock):
    """A service whose only plan is to flap does so from its start."""
    service = PartsAvailability(clock, plan="flapping", latency=0)
    assert asked(clock, service, [0, 4.9, 5, 14.9, 15]) == ["DependencyError"] * 2 + ["ok"] * 2 + ["DependencyError"]


def test_the_inner_fault_keeps_its_own_rate(clock):
    """While it is down, only the inner fault's share of calls fails."""
    plan = Fault("flapping", up=10, down=10, inner=Fault("error", rate=0.5))
    seen = asked(clock, PartsAvailability(clock, plan=plan, latency=0), [n / 20 for n in range(400)])
    assert 70 < seen[:200].count("DependencyError") < 130
    assert set(seen[200:]) == {"ok"}


# -- for pictures ------------------------------------------------------------------------------------------------------


def test_a_picture_is_told_what_happened_when():
    """Faults and lowered capacities as periods in the order of time, cut at the picture's end, each with its words."""
    plan = FaultPlan.from_list(
        [
            {"from": 60, "to": 180, "fault": "hang"},
            {"from": 180, "to": 240, "capacity": [[180, 20], [200, 60], [220, 200]]},
            {"from": 280, "to": 400, "fault": "error", "rate": 0.3},
            {"from": 500, "to": 600, "fault": "slow"},
        ]
    )
    assert plan.periods(300, workers=200) == [
        (60, 180, "hang", "hang", None),
        (180, 200, "capacity", "capacity 20 of 200", 20),
        (200, 220, "capacity", "capacity 60 of 200", 60),
        (280, 300, "error", "30 % of calls: error", None),
    ]
    assert plan.periods(190)[1] == (180, 190, "capacity", "capacity 20", 20)
    assert plan.periods(60) == []
    assert FaultPlan(otherwise="slow").periods(9) == [(0, 9, "slow", "slow, 3 s", None)]


def test_a_service_tells_its_periods_with_its_own_workers(clock):
    """The service knows how many workers it usually has."""
    plan = FaultPlan([Window(1, 3, "error", capacity=[(2, 5)])])
    service = PartsAvailability(clock, plan=plan, workers=8)
    assert service.periods(10) == [(1, 3, "error", "error", None), (2, 3, "capacity", "capacity 5 of 8", 5)]


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (Fault("rate_limit", per_second=20), "rate limit 20 a second"),
        (Fault("rate_limit"), "rate limit, none passes"),
        (Fault("flapping", up=5, down=2, inner="hang"), "flapping: hang for 2 s, then healthy for 5 s"),
        (Fault("slow", factor=4), "slow, 4 times the latency"),
        (Fault("mid_stream_death"), "streams die after 1 chunk"),
        (Fault("error_shaped_string", rate=0.25), "25 % of calls: error shaped string"),
    ],
)
def test_a_fault_has_words_for_a_label(fault, words):
    """A fault says in a few words what it does."""
    assert fault.words == words


def test_every_kind_has_a_meaning_and_words():
    """No kind of fault is without its words, and none is called by two names."""
    assert len({kind.meaning for kind in FaultKind}) == len({Fault(kind).words for kind in FaultKind}) == len(FaultKind)


def drawn(latency, count, seed):
    """So many draws from a seed."""
    draw = latency.sampler(random.Random(seed))
    return [draw() for _ in range(count)]


# -- latencies from plain data -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "latency"),
    [
        (0.05, Latency.constant(0.05)),
        (0, Latency.constant(0)),
        ({"distribution": "constant", "seconds": 2}, Latency.constant(2)),
        ({"distribution": "uniform", "low": 1, "high": 2}, Latency.uniform(1, 2)),
        ({"distribution": "lognormal", "median": 0.05, "sigma": 0.3}, Latency.lognormal(0.05, 0.3)),
        ({"distribution": "lognormal", "median": 0.05}, Latency.lognormal(0.05)),
        ({"distribution": "exponential", "mean": 0.2}, Latency.exponential(0.2)),
        ({"distribution": "pareto", "least": 0.1, "alpha": 2.5}, Latency.pareto(0.1, 2.5)),
    ],
)
def test_a_latency_is_read_from_plain_data(data, latency):
    """A number of seconds, or a named distribution with its parameters."""
    assert Latency.from_data(data) == latency


@pytest.mark.parametrize(
    ("data", "said", "path"),
    [
        (-1, "the latency is -1; it must be a number of seconds", ()),
        ("fast", "the latency is 'fast'", ()),
        (True, "the latency is True", ()),
        (None, "the latency is None", ()),
        ([0.1], "the latency is", ()),
        ({"median": 1}, "no 'distribution'", ()),
        ({"distribution": "lognormel", "median": 1}, "did you mean 'lognormal'", ("distribution",)),
        ({"distribution": 3}, "there is no latency 3", ("distribution",)),
        ({"distribution": "lognormal", "medain": 1}, "did you mean 'median'", ("medain",)),
        ({"distribution": "lognormal", "sigma": 1}, "needs 'median'", ()),
        ({"distribution": "uniform", "low": 2, "high": 1}, "above its 'high'", ("low",)),
        ({"distribution": "exponential", "mean": -2}, "'mean' .exponential. is -2", ("mean",)),
        ({"distribution": "pareto", "least": 1, "alpha": 1}, "above 1", ("alpha",)),
        ({"distribution": "lognormal", "median": 1, "sigma": "x"}, "'sigma' .lognormal. is 'x'", ("sigma",)),
    ],
)
def test_a_latency_that_is_wrong_is_one_sentence(data, said, path):
    """Which setting, what was found and what is allowed; `path` leads there."""
    with pytest.raises(ServiceError, match=said) as caught:
        Latency.from_data(data)
    assert "\n" not in str(caught.value)
    assert caught.value.path == path


@pytest.mark.parametrize(
    "latency",
    [
        Latency.constant(0.2),
        Latency.uniform(0.1, 0.3),
        Latency.lognormal(0.2, 0.5),
        Latency.exponential(0.2),
        Latency.pareto(0.1, 3),
    ],
    ids=str,
)
def test_draws_have_the_mean_of_their_distribution(latency):
    """What is drawn is never negative, has the distribution's mean, and is the same for the same seed."""
    draws = [drawn(latency, 40_000, seed) for seed in (1, 1, 2)]
    assert min(draws[0]) >= 0
    assert statistics.fmean(draws[0]) == pytest.approx(latency.mean, rel=0.03)
    assert draws[0] == draws[1]
    assert latency.name == "constant" or draws[0] != draws[2]


def test_the_longer_tails_are_where_they_should_be():
    """Half of exponential draws are below 0.69 of the mean; a Pareto draw is never below its least."""
    short = sorted(drawn(Latency.exponential(1), 20_001, 5))
    assert short[10_000] == pytest.approx(math.log(2), rel=0.03)
    long = sorted(drawn(Latency.pareto(1, 2), 20_001, 5))
    assert long[0] >= 1
    assert long[10_000] == pytest.approx(math.sqrt(2), rel=0.03)
