"""A layer's own refusal says nothing about the dependency, alone or in a group: who counts, repeats and answers it."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.config import load_stack_config
from labkit.errors import (
    BulkheadFullError,
    BusinessRejection,
    CircuitBreakerOpenError,
    DependencyError,
    LabkitError,
    LeaseError,
    Refusal,
    is_any,
    is_refusal,
    is_wholly,
    members,
)
from labkit.middleware import Stack, Unavailable
from labkit.policies import CircuitBreakerState
from labkit.timing import VirtualClock

CLOSED, OPEN, HALF_OPEN = CircuitBreakerState.CLOSED, CircuitBreakerState.OPEN, CircuitBreakerState.HALF_OPEN

LIBRARY = """
middleware:
  toolkit: {_type: circuit_breaker, failure_threshold: 1, cooldown_period: 10}
  guarded: {_type: guarded_circuit_breaker, failure_threshold: 1, cooldown_period: 10}
  interval: {_type: window_circuit_breaker, failure_threshold: 1, interval: 60, open_duration: 10}
  rate: {_type: window_circuit_breaker, failure_rate: 0.5, window: 60, minimum_calls: 1, open_duration: 10}
  inner: {_type: circuit_breaker, failure_threshold: 1, cooldown_period: 50}
  places: {_type: bulkhead, max_concurrent: 1}
  answer: {_type: fallback}
  again: {_type: retry, attempts: 3, base_delay: 1, jitter: none, retry_on: [Exception]}
  usual: {_type: retry, attempts: 3, base_delay: 1, jitter: none}
functions:
  parts: {_type: parts, middleware: [%s]}
"""
OWN = ["guarded", "interval", "rate"]


def stack(bench: Any, listed: str, service: Any) -> Stack:
    """One function with this list."""
    return Stack(load_stack_config(LIBRARY % listed), {"parts": service}, bench.clock)


@pytest.mark.parametrize(("outer", "state"), [*((one, CLOSED) for one in OWN), ("toolkit", OPEN)])
def test_a_full_bulkhead_is_no_failure(bench: Any, outer: str, state: CircuitBreakerState) -> None:
    """Of two calls at once to a healthy service one is refused; labkit's breakers stay closed, the toolkit's opens."""

    async def service() -> str:
        await bench.sleep(1.0)
        return "ok"

    one = stack(bench, f"{outer}, places", service)

    async def main() -> list[Any]:
        tasks = [bench.start(bench.kind(one.call("parts"))) for _ in range(2)]
        return [await task for task in tasks]

    assert bench.run(main()) == ["ok", "BulkheadFullError"]
    breaker: Any = one.middleware[outer]
    assert breaker.snapshot("parts").state is state


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("outer", OWN)
def test_an_inner_breakers_rejections_are_not_counted(bench: Any, outer: str, stream: bool) -> None:
    """Behind one outer breaker a healthy sibling still answers after an inner breaker has rejected; one call failed."""
    one = Stack(
        load_stack_config(
            (LIBRARY % f"{outer}, inner")
            .replace("failure_threshold: 1, cooldown_period: 10", "failure_threshold: 2")
            .replace("failure_threshold: 1, interval", "failure_threshold: 2, interval")
            .replace("minimum_calls: 1", "minimum_calls: 3")
            + f"  sibling: {{_type: sibling, context_name: parts, middleware: [{outer}]}}\n"
        ),
        {"parts": bench.streams(*[(DependencyError("down"),)] * 9) if stream else bench.fails, "sibling": bench.ok},
        bench.clock,
    )

    async def main() -> None:
        for _ in range(8):
            if stream:
                await bench.read(one.stream("parts"))
            else:
                await bench.get(one.call("parts"))
        assert await bench.get(one.call("sibling")) == "ok"

    bench.run(main())
    breaker: Any = one.middleware[outer]
    assert (bench.calls, breaker.snapshot("parts").state) == (2, CLOSED)


GROUPS: list[tuple[Exception, bool]] = [
    (BulkheadFullError("full"), True),
    (LeaseError("lapsed"), True),
    (ExceptionGroup("", [CircuitBreakerOpenError("open"), LeaseError("lapsed")]), True),
    (ExceptionGroup("", [ExceptionGroup("", [BulkheadFullError("full")])]), True),
    (ExceptionGroup("", [BulkheadFullError("full"), ExceptionGroup("", [DependencyError("down")])]), False),
    (ExceptionGroup("", [DependencyError("down")]), False),
]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("heard", [False, True])
@pytest.mark.parametrize(("error", "refused"), GROUPS)
@pytest.mark.parametrize("outer", OWN)
def test_a_probe_that_is_refused_decides_nothing(
    bench: Any, outer: str, error: Exception, refused: bool, heard: bool, stream: bool
) -> None:
    """It frees its slot and leaves the breaker half-open; a group with one real failure in it is a failure."""

    class Service:
        broken: Exception = DependencyError("down")

        async def call(self) -> None:
            raise self.broken

        async def stream(self) -> AsyncIterator[str]:
            raise self.broken
            yield "never"

    service = Service()
    one = stack(bench, outer, service)
    breaker: Any = one.middleware[outer]
    events: list[Any] = []
    if heard:
        breaker.listen(events.append)

    async def call() -> None:
        if stream:
            await bench.read(one.stream("parts"))
        else:
            await bench.get(one.call("parts"))

    async def main() -> None:
        await call()
        assert breaker.snapshot("parts").state is OPEN
        await bench.sleep(10.0)
        service.broken = error
        for _ in range(3 if refused else 1):
            await call()
        held = breaker.snapshot("parts")
        assert (held.state, held.probing) == (HALF_OPEN if refused else OPEN, False)

    bench.run(main())
    if heard:
        ends = [event.kind for event in events if event.probe and event.kind in ("cancelled", "failed", "succeeded")]
        assert ends == (["cancelled"] * 3 if refused else ["failed"])


@pytest.mark.parametrize("error", [error for error, _ in GROUPS])
def test_the_toolkits_breaker_counts_every_exception(bench: Any, error: Exception) -> None:
    """A refusal or a group is one failure for it, as for the toolkit's own."""
    one = stack(bench, "toolkit", bench.script(error))
    bench.run(bench.get(one.call("parts")))
    breaker: Any = one.middleware["toolkit"]
    assert breaker.snapshot("parts").state is OPEN


def test_a_fallback_answers_every_refusal(bench: Any) -> None:
    """Of two calls at once one is told that the function is unavailable, and why, instead of an error."""

    async def service() -> str:
        await bench.sleep(1.0)
        return "ok"

    one = stack(bench, "answer, places", service)

    async def main() -> list[Any]:
        tasks = [bench.start(one.call("parts")) for _ in range(2)]
        return [await task for task in tasks]

    reason = "BulkheadFullError: The bulkhead of 'parts' is full: 1 at once."
    assert bench.run(main()) == ["ok", Unavailable(reason, "parts")]


def test_every_refusal_is_known_as_one() -> None:
    """What labkit's layers raise by themselves are refusals, and an open breaker's is a RuntimeError still."""
    for kind in (CircuitBreakerOpenError, BulkheadFullError, LeaseError):
        assert issubclass(kind, Refusal)
        assert issubclass(kind, LabkitError)
    assert issubclass(CircuitBreakerOpenError, RuntimeError)
    assert not any(issubclass(kind, Refusal) for kind in (DependencyError, BusinessRejection, TimeoutError))


# -- groups ------------------------------------------------------------------------------------------------------------


def group(*errors: Exception) -> ExceptionGroup[Exception]:
    """A group of these, which stand one deeper than they need."""
    return ExceptionGroup("several", [ExceptionGroup("deep", list(errors))])


@pytest.mark.parametrize(
    ("retry", "error", "attempts"),
    [
        ("again", group(CircuitBreakerOpenError("open")), 1),
        ("again", group(ConnectionError("cut"), CircuitBreakerOpenError("open")), 1),
        ("again", group(ConnectionError("cut"), BusinessRejection("unknown")), 1),
        ("again", group(ConnectionError("cut"), KeyError("x")), 3),
        ("usual", group(ConnectionError("cut"), TimeoutError()), 3),
        ("usual", group(ConnectionError("cut"), KeyError("x")), 1),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_a_group_is_retried_as_its_members_are(
    bench: Any, retry: str, error: Exception, attempts: int, stream: bool
) -> None:
    """All of them have to be worth another attempt, and one that is never retried keeps the others from it."""
    scripts = [(error,)] * 3
    one = stack(bench, retry, bench.streams(*scripts) if stream else bench.script(*(each for (each,) in scripts)))

    async def main() -> Any:
        if stream:
            return (await bench.read(one.stream("parts")))[0]
        return await bench.get(one.call("parts"))

    assert bench.run(main()) is error
    assert bench.calls == attempts


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (group(ConnectionError("cut")), Unavailable("ConnectionError: cut", "parts")),
        (
            group(CircuitBreakerOpenError("open", "parts", 3.0), CircuitBreakerOpenError("open", "docs", 8.0)),
            Unavailable("the circuit breaker is open", "parts", 8.0),
        ),
        (
            group(*(ConnectionError(str(number)) for number in range(5))),
            Unavailable("ConnectionError: 0; ConnectionError: 1; ConnectionError: 2 and 2 more", "parts"),
        ),
        (group(ConnectionError("cut"), KeyError("x")), None),
        (group(BusinessRejection("unknown")), None),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_a_group_is_answered_as_its_members_are(
    bench: Any, error: Exception, told: Unavailable | None, stream: bool
) -> None:
    """All of them have to be answered; the reasons are theirs, and the time is when the last of them may be back."""
    one = stack(bench, "answer", bench.streams((error,)) if stream else bench.script(error))

    async def main() -> Any:
        if stream:
            return (await bench.read(one.stream("parts")))[0]
        return await bench.get(one.call("parts"))

    got = bench.run(main())
    assert got == told if told is not None else got is error


KINDS = (ConnectionError, TimeoutError, BulkheadFullError, CircuitBreakerOpenError, KeyError)
leaves = st.sampled_from(KINDS).map(lambda kind: kind("x"))
trees = st.recursive(
    leaves, lambda some: st.lists(some, min_size=1, max_size=4).map(lambda own: ExceptionGroup("", own))
)


def flat(error: BaseException) -> list[BaseException]:
    """The plain way to say it."""
    return (
        [leaf for one in error.exceptions for leaf in flat(one)] if isinstance(error, BaseExceptionGroup) else [error]
    )


@given(trees, st.sets(st.sampled_from(KINDS)).map(tuple))
def test_a_group_is_what_its_members_are(error: Exception, kinds: tuple[type[Exception], ...]) -> None:
    """Any nesting: wholly means each member, any means some member, and a refusal is nothing but refusals."""
    assert list(members(error)) == flat(error)
    assert is_wholly(error, kinds) is all(isinstance(one, kinds) for one in flat(error))
    assert is_any(error, kinds) is any(isinstance(one, kinds) for one in flat(error))
    assert is_refusal(error) is all(isinstance(one, Refusal) for one in flat(error))


def test_groups_within_groups_take_no_time() -> None:
    """A group that stands twice in the next, forty times over, and one that is ten thousand deep are looked at once."""
    wide = deep = ExceptionGroup("", [BulkheadFullError("full")])
    for _ in range(40):
        wide = ExceptionGroup("", [wide, wide])
    for _ in range(10_000):
        deep = ExceptionGroup("", [deep])
    assert is_refusal(wide)
    assert is_refusal(deep)
    while deep.exceptions and isinstance(deep.exceptions[0], ExceptionGroup):  # taken apart, or freeing it recurses
        deep = deep.exceptions[0]


# -- streams that are left early ---------------------------------------------------------------------------------------


async def read_one(chunks: Any) -> None:
    """Take one chunk and leave."""
    await anext(chunks)
    await chunks.aclose()


class Streams:
    """A service that streams; every third stream fails after its first chunk when it is told so."""

    def __init__(self, failing: int = 0) -> None:
        self.failing, self.count = failing, 0

    async def stream(self) -> AsyncIterator[int]:
        """Three chunks."""
        self.count += 1
        yield 0
        if self.failing and self.count % self.failing == 0:
            raise DependencyError("broke off")
        yield 1
        yield 2


def streaming(clock: VirtualClock, kind: str, left_early: str, service: Any) -> Stack:
    """A stack with one breaker of labkit's."""
    fields = {
        "guarded": "_type: guarded_circuit_breaker, failure_threshold: 1, cooldown_period: 10",
        "rate": (
            "_type: window_circuit_breaker, failure_rate: 0.5, window: 1000, minimum_calls: 3, open_duration: 10, "
            "probe_timeout: 5"
        ),
    }[kind]
    text = f"middleware: {{b: {{{fields}, left_early: {left_early}}}}}\n"
    text += "functions: {parts: {_type: parts, middleware: [b]}}\n"
    return Stack(load_stack_config(text), {"parts": service}, clock)


@pytest.mark.parametrize(("left_early", "state"), [("neither", OPEN), ("success", CLOSED)])
def test_streams_that_are_left_early_can_count_as_successes(
    bench: Any, left_early: str, state: CircuitBreakerState
) -> None:
    """Every sixtieth stream fails, all other readers leave after a chunk: three failures of three, or of 180 calls."""
    service = Streams(failing=60)
    one = streaming(bench.clock, "rate", left_early, service)

    async def main() -> None:
        for number in range(1, 181):
            if number % 60:
                await read_one(one.stream("parts"))
            else:
                await bench.read(one.stream("parts"))

    bench.run(main())
    breaker: Any = one.middleware["b"]
    held = breaker.snapshot("parts")
    assert (held.state, held.failures, held.calls) == (state, 3, 3 if state is OPEN else 180)


@pytest.mark.parametrize("kind", ["guarded", "rate"])
@pytest.mark.parametrize(("left_early", "state"), [("neither", HALF_OPEN), ("success", CLOSED)])
def test_readers_who_always_leave_early_can_close_it(
    bench: Any, kind: str, left_early: str, state: CircuitBreakerState
) -> None:
    """In the one way it stays half-open however many probes are read in part; in the other the first closes it."""
    service = Streams(failing=1)
    one = streaming(bench.clock, kind, left_early, service)
    breaker: Any = one.middleware["b"]

    async def main() -> None:
        for _ in range(3):
            await bench.read(one.stream("parts"))
        assert breaker.snapshot("parts").state is OPEN
        await bench.sleep(10.0)
        service.failing = 0
        for _ in range(20):
            await read_one(one.stream("parts"))
            await bench.sleep(10.0)

    bench.run(main())
    assert (breaker.snapshot("parts").state, breaker.snapshot("parts").probing) == (state, False)


@pytest.mark.parametrize("kind", ["guarded", "rate"])
@pytest.mark.parametrize("way", ["before", "waiting", "closing", "thrown"])
def test_only_a_reader_who_leaves_with_a_chunk_in_hand_counts(bench: Any, kind: str, way: str) -> None:
    """Before the first chunk, while waiting for the next, with an error of its own, or where closing fails: neither."""

    class Service:
        down = True

        async def stream(self) -> AsyncIterator[int]:
            if self.down:
                raise DependencyError("down")
            if way == "before":
                await bench.sleep(3.0)
            try:
                yield 0
                await bench.sleep(3.0)
                yield 1
            finally:
                if way == "closing":
                    raise DependencyError("cannot be closed")

    service = Service()
    one = streaming(bench.clock, kind, "success", service)
    breaker: Any = one.middleware["b"]

    async def main() -> None:
        for _ in range(3):
            await bench.read(one.stream("parts"))
        await bench.sleep(10.0)
        service.down = False
        stream: Any = one.stream("parts")
        if way in ("before", "waiting"):
            task = bench.start(bench.read(stream))
            await bench.sleep(1.0)
            task.cancel()
            assert isinstance((await task)[-1], CancelledError)
        else:
            assert await anext(stream) == 0
            leaves = stream.aclose() if way == "closing" else stream.athrow(ValueError("mine"))
            assert await bench.kind(leaves) == ("DependencyError" if way == "closing" else "ValueError")
        assert (breaker.snapshot("parts").state, breaker.snapshot("parts").probing) == (HALF_OPEN, False)

    bench.run(main())


def test_a_leased_probe_that_is_left_early_counts_and_gives_its_lease_back(bench: Any) -> None:
    """With a lease as well, a probe's stream that is left with a chunk in hand closes the breaker."""
    service = Streams(failing=1)
    text = """
    middleware:
      b:
        {_type: guarded_circuit_breaker, failure_threshold: 1, cooldown_period: 10, probe_lease: l, left_early: success}
    leases: {l: {_type: memory}}
    functions: {parts: {_type: parts, middleware: [b]}}
    """
    one = Stack(load_stack_config(text), {"parts": service}, bench.clock)
    breaker: Any = one.middleware["b"]

    async def main() -> None:
        await bench.read(one.stream("parts"))
        await bench.sleep(10.0)
        service.failing = 0
        await read_one(one.stream("parts"))
        await bench.settle()
        assert breaker.snapshot("parts").state is CLOSED
        assert await one.leases["l"].acquire("l/parts", "another", 1.0) is not None

    bench.run(main())
