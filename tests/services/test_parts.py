"""The mock service in process: the same suite in virtual time, on a virtual loop and on a real one."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from contextlib import aclosing, suppress

import pytest

from labkit.errors import DeadlockError, DependencyError, ServiceError
from labkit.services import Fault, FaultPlan, Latency, PartsAvailability, StockReply, Window
from labkit.services.mocks.parts import CATALOGUE, SITES


async def read(stream):
    """All chunks, and what ended the stream (None for its end)."""
    chunks = []
    try:
        async with aclosing(stream) as opened:
            async for chunk in opened:
                chunks.append(chunk)
    except Exception as error:  # the test judges it
        return chunks, error
    return chunks, None


def outcomes(service):
    """How the attempts in the log ended, oldest first."""
    return [attempt.outcome for attempt in service.log]


def test_a_healthy_service_answers_after_its_latency(world):
    """A reply holds the total, the sites that add up to it, and the time; it comes after the latency."""

    async def main(clock):
        service = PartsAvailability(clock, latency=10 * world.unit)
        reply = await service.call("HX-2040")
        return service, reply, service.elapsed

    service, reply, elapsed = world.run(main)
    assert (reply.status, reply.part, reply.quantity, reply.known) == ("ok", "HX-2040", 42, True)
    assert sum(dict(reply.sites).values()) == 42
    assert elapsed >= 10 * world.unit
    if world.exact:
        assert elapsed == reply.as_of == 10.0
    assert outcomes(service) == ["answered"]
    assert (service.attempts, service.in_flight, service.in_flight_peak) == (1, 0, 1)


def test_zero_is_an_answer(world):
    """A part that is out of stock everywhere is known, and its quantity is zero."""

    async def main(clock):
        return await PartsAvailability(clock, latency=0).call("EN-5096")

    reply = world.run(main)
    assert (reply.known, reply.quantity) == (True, 0)


def test_an_unknown_part_is_a_value(world):
    """An unknown part is a reply with that status and no quantity, for a call and for a stream."""

    async def main(clock):
        service = PartsAvailability(clock, latency=0)
        return service, await service.call("ZZ-0000"), await read(service.stream("ZZ-0000"))

    service, reply, streamed = world.run(main)
    assert (reply.status, reply.quantity, reply.known) == ("unknown part", None, False)
    assert [chunk.status for chunk in streamed[0]] == ["unknown part"]
    assert streamed[1] is None
    assert outcomes(service) == ["rejected", "rejected"]


def test_a_stream_goes_site_by_site_and_ends_with_the_total(world):
    """One chunk a site, then the total; every chunk takes a latency."""

    async def main(clock):
        service = PartsAvailability(clock, latency=3 * world.unit)
        chunks, error = await read(service.stream("HX-2040"))
        return service, chunks, error

    service, chunks, error = world.run(main)
    assert error is None
    assert [chunk.site for chunk in chunks] == [*SITES, None]
    assert sum(chunk.quantity for chunk in chunks[:-1]) == chunks[-1].quantity == 42
    attempt = service.log[0]
    assert (attempt.kind, attempt.chunks, attempt.outcome) == ("stream", 4, "answered")
    if world.exact:
        assert attempt.ended - attempt.started == 12.0


@pytest.mark.parametrize(
    ("fault", "kind", "said"),
    [
        ("error", DependencyError, "server error"),
        ("connection_error", ConnectionError, "dropped"),
    ],
)
@pytest.mark.parametrize("part", ["HX-2040", "ZZ-0000"])
def test_a_service_that_is_down_fails_whatever_is_asked(world, fault, kind, said, part):
    """Errors are raised by calls and streams alike, for unknown parts too: a service that is down cannot know."""

    async def main(clock):
        service = PartsAvailability(clock, plan=fault, latency=world.unit)
        with pytest.raises(kind, match=said):
            await service.call(part)
        return service, await read(service.stream(part))

    service, (chunks, error) = world.run(main)
    assert chunks == []
    assert isinstance(error, kind)
    assert outcomes(service) == [fault, fault]
    assert service.in_flight == 0


def test_a_hanging_service_never_answers(world):
    """A hang ends only by the caller's limit; the dependency then sees a cancellation."""

    async def main(clock):
        service = PartsAvailability(clock, plan="hang")
        with pytest.raises(TimeoutError):
            async with clock.timeout(20 * world.unit):
                await service.call("HX-2040")
        with pytest.raises(TimeoutError):
            async with clock.timeout(20 * world.unit):
                await read(service.stream("HX-2040"))
        return service

    service = world.run(main)
    assert outcomes(service) == ["cancelled", "cancelled"]
    assert (service.attempts, service.in_flight) == (2, 0)


def test_a_hang_without_a_limit_is_named_in_virtual_time(clock):
    """Nothing can ever wake a hung call: the virtual clock says so instead of hanging."""
    with pytest.raises(DeadlockError):
        clock.run(PartsAvailability(clock, plan="hang").call("HX-2040"))


def test_many_hung_calls_leave_nothing_when_cancelled(world):
    """Two hundred hung calls are in flight together, and none is once they are cancelled."""

    async def main(clock):
        service = PartsAvailability(clock, plan="hang")
        tasks = [clock.start(service.call("HX-2040")) for _ in range(200)]
        await clock.sleep(5 * world.unit)
        before = service.in_flight
        for task in tasks:
            task.cancel()
        await clock.sleep(5 * world.unit)
        return service, before, all(task.cancelled() for task in tasks)

    service, before, cancelled = world.run(main)
    assert (before, service.in_flight, service.in_flight_peak, cancelled) == (200, 0, 200, True)
    assert service.outcomes == {"cancelled": 200}


@pytest.mark.parametrize(
    ("fault", "seconds"), [(Fault("slow"), 3.0), (Fault("slow", seconds=7), 7.0), (Fault("slow", factor=4), 8.0)]
)
def test_slow_is_right_but_late(clock, fault, seconds):
    """A slow answer is correct and takes a fixed time or a multiple of the latency."""
    service = PartsAvailability(clock, plan=fault, latency=2.0)
    assert clock.run(service.call("HX-2040")).quantity == 42
    assert clock.now() == seconds
    assert outcomes(service) == ["answered"]


def test_a_slow_stream_is_slow_at_every_chunk(clock):
    """Each wait for a chunk is slow: what bounds a chunk and what bounds the stream are told apart by it."""
    service = PartsAvailability(clock, plan=Fault("slow", seconds=1.5), latency=0.1)

    async def main():
        return [clock.now() async for _ in service.stream("HX-2040")]

    assert clock.run(main()) == [1.5, 3.0, 4.5, 6.0]


def test_an_error_shaped_string_looks_like_an_answer(world):
    """The call returns, and the stream yields, a text that begins with "Service error"; nothing is raised."""

    async def main(clock):
        service = PartsAvailability(clock, plan="error_shaped_string", latency=0)
        return service, await service.call("HX-2040"), await read(service.stream("HX-2040"))

    service, text, (chunks, error) = world.run(main)
    assert text.startswith("Service error: ")
    assert (chunks, error) == ([text], None)
    assert outcomes(service) == ["error_shaped_string"] * 2


def test_a_business_rejection_refuses_a_known_part(world):
    """Under this fault every part is unknown, by a value and not by an exception."""

    async def main(clock):
        service = PartsAvailability(clock, plan="business_rejection", latency=0)
        return service, await service.call("HX-2040"), await read(service.stream("HX-2040"))

    service, reply, (chunks, error) = world.run(main)
    assert reply.status == "unknown part"
    assert [chunk.status for chunk in chunks] == ["unknown part"]
    assert error is None
    assert outcomes(service) == ["rejected", "rejected"]


@pytest.mark.parametrize("after", [0, 1, 3, 4, 99])
def test_mid_stream_death_breaks_off(world, after):
    """The stream raises after so many chunks (all four at most); single calls are answered."""

    async def main(clock):
        service = PartsAvailability(clock, plan=Fault("mid_stream_death", chunks=after), latency=0)
        reply = await service.call("HX-2040")
        return service, reply, await read(service.stream("HX-2040"))

    service, reply, (chunks, error) = world.run(main)
    assert reply.quantity == 42
    assert len(chunks) == min(after, 4)
    assert isinstance(error, DependencyError)
    assert f"broke off after {min(after, 4)} chunk" in str(error)
    assert outcomes(service) == ["answered", "mid_stream_death"]


def test_a_reader_that_stops_early_is_seen_at_once(world):
    """Closing a stream after its first chunk ends the attempt there and then, as abandoned."""

    async def main(clock):
        service = PartsAvailability(clock, latency=0)
        stream = service.stream("HX-2040")
        await anext(stream)
        before = service.in_flight
        await stream.aclose()
        return service, before

    service, before = world.run(main)
    assert (before, service.in_flight) == (1, 0)
    assert outcomes(service) == ["abandoned"]
    assert service.log[0].chunks == 1


def test_the_plan_counts_from_the_service_s_start(world):
    """An outage window holds by the time since the service was made, whatever the clock said then."""

    async def main(clock):
        await clock.sleep(7 * world.unit)
        service = PartsAvailability(
            clock, plan=FaultPlan([Window(60 * world.unit, 180 * world.unit, "error")]), latency=0
        )
        seen = []
        for _ in range(5):
            try:
                await service.call("HX-2040")
                seen.append("ok")
            except DependencyError:
                seen.append("error")
            await clock.sleep(50 * world.unit)
        return seen

    seen = world.run(main)
    if world.exact:
        assert seen == ["ok", "ok", "error", "error", "ok"]
    else:
        assert (seen[0], seen[-1]) == ("ok", "ok")
        assert "error" in seen


def test_a_call_meets_the_fault_that_held_when_it_arrived(clock):
    """A call that arrives healthy is answered although an outage begins while it waits, and the other way round."""
    service = PartsAvailability(clock, plan=FaultPlan([Window(1, 3, "error")]), latency=2.0)
    assert clock.run(service.call("HX-2040")).quantity == 42
    with pytest.raises(DependencyError):
        clock.run(service.call("HX-2040"))
    assert clock.now() == 4.0


def test_the_switch_overrides_the_plan_until_it_is_cleared(clock):
    """`set_fault` overrides the plan from the next call on; `clear` gives it back."""
    service = PartsAvailability(clock, plan=FaultPlan([Window(0, 10, "error")]), latency=0)
    assert (str(service.fault), service.switched) == ("error", False)
    service.set_fault("healthy")
    assert (str(service.fault), service.switched) == ("healthy", True)
    assert clock.run(service.call("HX-2040")).quantity == 42
    service.set_fault("slow", seconds=2)
    assert service.fault == Fault("slow", seconds=2)
    service.clear()
    assert (str(service.fault), service.switched) == ("error", False)
    with pytest.raises(DependencyError):
        clock.run(service.call("HX-2040"))


def test_a_bad_switch_changes_nothing(clock):
    """A misspelt fault is a sentence and leaves the service as it was."""
    service = PartsAvailability(clock, latency=0)
    for wrong in ("hnag", 5, None, {"fault": "slow", "seconds": -1}):
        with pytest.raises(ServiceError):
            service.set_fault(wrong)
    with pytest.raises(ServiceError, match="not both"):
        service.set_fault(Fault("slow"), seconds=4)
    assert not service.switched


def test_switching_does_not_touch_what_is_in_flight(clock):
    """A call that hangs goes on hanging when the fault is switched off; new calls are answered."""
    service = PartsAvailability(clock, plan="hang", latency=0)

    async def main():
        hung = clock.start(service.call("HX-2040"))
        await clock.sleep(1)
        service.set_fault("healthy")
        reply = await service.call("HX-2040")
        await clock.sleep(100)
        return reply, hung.done(), hung.cancel()

    reply, done, _ = clock.run(main())
    assert (reply.quantity, done) == (42, False)


def test_a_rate_hits_a_share_of_the_calls(clock):
    """With a rate of 0.3, about three calls of ten fail; which ones is decided by the seed."""

    def run(seed):
        service = PartsAvailability(clock, plan=Fault("error", rate=0.3), latency=0, seed=seed)

        async def main():
            for _ in range(1000):
                with suppress(DependencyError):
                    await service.call("HX-2040")

        clock.run(main())
        return outcomes(service)

    first = run(1)
    assert 250 < first.count("error") < 350
    assert first == run(1)
    assert first != run(2)


def test_a_plan_does_not_change_the_latencies(clock):
    """Whether an error rate is drawn or not, the same seed gives the same latencies."""

    def took(plan):
        service = PartsAvailability(clock, plan=plan, latency=Latency.lognormal(0.1, 0.7), seed=5)
        for _ in range(20):
            with suppress(DependencyError):
                clock.run(service.call("HX-2040"))
        return [pytest.approx(attempt.ended - attempt.started) for attempt in service.log]

    assert took(None) == took(Fault("error", rate=0.5))


def test_listeners_hear_of_begin_and_end(world):
    """A listener is told when an attempt arrives and when it has ended, and no longer once it has unsubscribed."""

    async def main(clock):
        service = PartsAvailability(clock, latency=0)
        heard = []
        stop = service.on_attempt(lambda attempt: heard.append((attempt.number, attempt.outcome, service.in_flight)))
        await service.call("HX-2040")
        service.set_fault("error")
        with pytest.raises(DependencyError):
            await service.call("HX-2040")
        stop()
        stop()
        service.clear()
        await service.call("HX-2040")
        return heard

    assert world.run(main) == [(1, None, 1), (1, "answered", 0), (2, None, 1), (2, "error", 0)]


def test_a_broken_listener_disturbs_nobody(clock, caplog):
    """A listener that raises is reported in the log; the call is answered and nothing stays in flight."""
    service = PartsAvailability(clock, latency=0)

    def broken(attempt):
        raise ZeroDivisionError

    service.on_attempt(broken)
    assert clock.run(service.call("HX-2040")).quantity == 42
    assert service.in_flight == 0
    assert "a listener of the service 'parts_availability' failed" in caplog.text


def test_the_log_is_bounded_and_the_counts_are_not(clock):
    """The log keeps the last attempts only; the counters count all."""
    service = PartsAvailability(clock, latency=0, log_size=3)

    async def main():
        for _ in range(10):
            await service.call("HX-2040")

    clock.run(main())
    assert [attempt.number for attempt in service.log] == [8, 9, 10]
    assert service.attempts == service.outcomes["answered"] == 10
    assert json.dumps(service.log[-1].to_dict())
    assert "answered" in repr(service.log[-1])


@pytest.mark.parametrize("part", ["", None, 5, b"HX-2040", ["HX-2040"]])
def test_what_is_no_part_is_refused_and_not_counted(world, part):
    """A part that is not a text is the caller's mistake: one sentence, and no attempt is counted."""

    async def main(clock):
        service = PartsAvailability(clock)
        with pytest.raises(ServiceError, match="a part is a text"):
            await service.call(part)
        with pytest.raises(ServiceError, match="a part is a text"):
            await anext(service.stream(part))
        return service.attempts, service.in_flight

    assert world.run(main) == (0, 0)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"plan": "hnag"}, "hang"),
        ({"latency": -1}, "latency"),
        ({"seed": 1.5}, "seed"),
        ({"seed": True}, "seed"),
        ({"log_size": -1}, "log_size"),
    ],
)
def test_bad_settings_of_a_service_are_one_sentence(clock, settings, said):
    """A service that cannot be made says why in one sentence."""
    with pytest.raises(ServiceError, match=said):
        PartsAvailability(clock, **settings)


def test_a_service_needs_a_clock():
    """Something that is not a clock is refused in one sentence."""
    with pytest.raises(ServiceError, match="needs a clock"):
        PartsAvailability(asyncio)  # type: ignore[arg-type]


def test_replies_are_values():
    """A reply is immutable, reads as a sentence and goes into JSON."""
    reply = StockReply("ok", "HX-2040", 3, "Hill plant")
    with pytest.raises(AttributeError):
        reply.quantity = 4  # type: ignore[misc]
    assert str(reply) == "HX-2040: 3 in stock at Hill plant"
    assert str(StockReply("unknown part", "Q")) == "Q: unknown part"
    assert json.loads(json.dumps(reply.to_dict()))["quantity"] == 3


def test_the_catalogue_is_sound():
    """Every part has a name and one count a site, and one is out of stock everywhere."""
    assert all(name and len(stock) == len(SITES) for name, stock in CATALOGUE.values())
    assert [part for part, (_, stock) in CATALOGUE.items() if sum(stock) == 0] == ["EN-5096"]


def test_importing_services_brings_no_http_library():
    """The bare package works without the extra: no HTTP library is imported by `labkit.services`."""
    code = "import sys, labkit.services; print({'httpx2', 'httpcore2', 'h11', 'anyio'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "set()"
