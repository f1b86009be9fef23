"""An explicit "unavailable", or an approved alternative; never an invented answer."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import AsyncIterator
from typing import Any

import pytest

from labkit.config import FallbackMiddlewareConfig
from labkit.errors import BusinessRejection, CircuitBreakerOpenError, DependencyError, MiddlewareError
from labkit.middleware import FallbackMiddleware, Stack, Unavailable
from labkit.policies.fallback import TRANSITIONS
from labkit.timing import VirtualClock


async def spare(*args: Any, **kwargs: Any) -> Any:
    """An alternative that answers."""
    return ("spare", *args, *kwargs.items())


async def broken_spare(*_: Any) -> Any:
    """An alternative that is down too."""
    raise ConnectionError("the spare is down too")


async def buggy_spare(*_: Any) -> Any:
    """An alternative with a fault of another kind."""
    raise KeyError("spare")


async def buggy_stream(*_: Any) -> AsyncIterator[str]:
    """An alternative whose stream has a fault of another kind."""
    raise KeyError("spare")
    yield "never"


async def echo(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
    """A stream of what it was called with."""
    yield (args, kwargs)


async def spare_stream(*_: Any) -> AsyncIterator[str]:
    """An alternative that streams."""
    yield "s1"
    yield "s2"


async def broken_stream(*_: Any) -> AsyncIterator[str]:
    """An alternative whose stream is down too."""
    raise ConnectionError("the spare is down too")
    yield "never"


async def cut_stream(*_: Any) -> AsyncIterator[str]:
    """An alternative whose stream dies after a chunk."""
    yield "s1"
    raise ConnectionError("cut")


def test_an_answer_is_passed_on(bench: Any) -> None:
    """As long as the dependency answers, nothing is changed, whatever it answers."""

    async def main() -> None:
        for answer in ("ok", None, "error: none left", 0):
            call = bench.single(bench.fallback(alternative=spare), service=bench.script(answer))
            assert await call() is answer
        chunks = bench.stream(bench.fallback(stream=spare_stream), service=bench.streams(("a", "b")))()
        assert await bench.read(chunks) == ["a", "b"]

    bench.run(main())


@pytest.mark.parametrize("mode", ["single", "stream"])
def test_a_rejection_becomes_an_outcome_with_a_time(bench: Any, mode: str) -> None:
    """Around an open breaker the caller is told what is unavailable, why, and when to come back."""
    breaker = bench.breaker()

    async def main() -> Any:
        await bench.trip(breaker)
        await bench.sleep(4.0)
        if mode == "single":
            return await bench.single(bench.fallback(), breaker, service=bench.ok)()
        (outcome,) = await bench.read(bench.stream(bench.fallback(), breaker, service=bench.streams())())
        return outcome

    outcome = bench.run(main())
    assert outcome == Unavailable("the circuit breaker is open", "parts", 6.0)
    assert outcome.to_dict() == {
        "status": "unavailable",
        "reason": "the circuit breaker is open",
        "target": "parts",
        "retry_after": 6.0,
    }


@pytest.mark.parametrize(
    ("error", "fields", "reason"),
    [
        (DependencyError("HTTP 503"), {}, "DependencyError: HTTP 503"),
        (TimeoutError(), {}, "TimeoutError"),
        (TimeoutError(), {"reason": "the stock system is down"}, "the stock system is down"),
        (CircuitBreakerOpenError("open"), {"reason": "the stock system is down"}, "the stock system is down"),
    ],
)
def test_the_reason_is_the_configurations_or_the_errors(
    bench: Any, error: Exception, fields: dict[str, Any], reason: str
) -> None:
    """The configured reason goes before the error's own words; only a breaker knows when to come back."""

    async def main() -> Any:
        return await bench.single(bench.fallback(**fields), service=bench.script(error))()

    assert bench.run(main()) == Unavailable(reason, "parts", None)


@pytest.mark.parametrize("error", [DependencyError("down"), CircuitBreakerOpenError("open"), KeyError("x")])
@pytest.mark.parametrize("fields", [{}, {"errors": ["KeyError"]}, {"alternative": spare}])
def test_what_it_would_answer_is_told_beforehand(bench: Any, error: Exception, fields: dict[str, Any]) -> None:
    """`answers` holds of an error exactly if a call that meets it gets an outcome, without an alternative's help."""
    asked: list[Any] = []

    async def alternative() -> Any:
        asked.append(error)

    fallback = bench.fallback(**({"alternative": alternative} if "alternative" in fields else fields))

    async def main() -> Any:
        return await bench.get(bench.single(fallback, service=bench.script(error))())

    assert fallback.answers(error) == isinstance(bench.run(main()), Unavailable)
    assert not (asked and fallback.answers(error))


@pytest.mark.parametrize("error", [BusinessRejection("unknown part"), KeyError("x"), ValueError("x")])
@pytest.mark.parametrize("mode", ["single", "stream"])
def test_what_is_not_named_is_passed_on(bench: Any, error: Exception, mode: str) -> None:
    """A no of the business and a fault of the code are not unavailability: they reach the caller as they are."""
    fallback = bench.fallback(alternative=spare, stream=spare_stream)

    async def main() -> Any:
        if mode == "single":
            return await bench.get(bench.single(fallback, service=bench.script(error))())
        return (await bench.read(bench.stream(fallback, service=bench.streams((error,)))()))[0]

    assert bench.run(main()) is error


def test_a_cancellation_is_passed_on(bench: Any) -> None:
    """Whoever cancels a call does not want another answer."""

    async def main() -> Any:
        task = bench.start(bench.single(bench.fallback(alternative=spare), service=bench.hangs)())
        await bench.sleep(1.0)
        task.cancel()
        return await bench.get(task)

    assert isinstance(bench.run(main()), CancelledError)


def test_the_alternative_gets_the_same_arguments(bench: Any) -> None:
    """An approved alternative is called as the primary was, and its answer is the answer."""

    async def fails(*_: Any, **__: Any) -> Any:
        raise DependencyError("down")

    async def dead(*_: Any, **__: Any) -> AsyncIterator[Any]:
        raise DependencyError("down")
        yield "never"

    async def main() -> None:
        call = bench.single(bench.fallback(alternative=spare), service=fails)
        assert await call("bolt", 7, size="M4") == ("spare", "bolt", 7, ("size", "M4"))
        for service in (echo, dead):
            stream = bench.stream(bench.fallback(stream=echo), service=service)
            assert await bench.read(stream("bolt", size="M4")) == [(("bolt",), {"size": "M4"})]

    bench.run(main())


def test_an_alternative_that_fails_is_told(bench: Any) -> None:
    """Of a named error the outcome tells the alternative's reason; another kind of error is passed on."""

    async def main() -> None:
        outcome = await bench.single(bench.fallback(alternative=broken_spare), service=bench.fails)()
        assert outcome == Unavailable("ConnectionError: the spare is down too", "parts")
        error = await bench.get(bench.single(bench.fallback(alternative=buggy_spare), service=bench.fails)())
        assert isinstance(error, KeyError)

    bench.run(main())


def test_a_stream_before_its_first_chunk(bench: Any) -> None:
    """A stream that delivered nothing is answered by the alternative's, or by one chunk that says unavailable.

    Of the alternative's errors that holds where they are named; others are passed on.
    """

    async def main() -> None:
        def read(fallback: Any, *scripts: Any) -> Any:
            return bench.read(bench.stream(fallback, service=bench.streams(*scripts))())

        dead = (DependencyError("down"),)
        assert await read(bench.fallback(stream=spare_stream), dead) == ["s1", "s2"]
        assert await read(bench.fallback(), dead) == [Unavailable("DependencyError: down", "parts")]
        assert await read(bench.fallback(stream=broken_stream), dead) == [
            Unavailable("ConnectionError: the spare is down too", "parts")
        ]
        (error,) = await read(bench.fallback(stream=buggy_stream), dead)
        assert isinstance(error, KeyError)

    bench.run(main())


def test_a_stream_after_its_first_chunk(bench: Any) -> None:
    """Half an answer must not look whole: after a chunk, also one of the alternative's, the error is passed on."""

    async def main() -> None:
        got = await bench.read(
            bench.stream(bench.fallback(stream=spare_stream), service=bench.streams(("a", DependencyError("cut"))))()
        )
        assert (got[0], type(got[1])) == ("a", DependencyError)
        got = await bench.read(
            bench.stream(bench.fallback(stream=cut_stream), service=bench.streams((DependencyError("down"),)))()
        )
        assert (got[0], type(got[1])) == ("s1", ConnectionError)

    bench.run(main())


def test_an_alternative_that_is_not_approved_is_refused() -> None:
    """An alternative without `approved: true` is refused when the middleware is made, with the reason."""
    with pytest.raises(MiddlewareError, match=r"the alternative 'catalogue' is not approved; .*'approved: true'"):
        FallbackMiddleware(FallbackMiddlewareConfig(alternative="catalogue"))


def test_an_alternative_that_is_not_there_is_said(bench: Any) -> None:
    """An alternative that exists for calls but not for streams is named when a stream needs it."""

    async def main() -> Any:
        return (
            await bench.read(
                bench.stream(bench.fallback(alternative=spare), service=bench.streams((TimeoutError(),)))()
            )
        )[0]

    assert str(bench.run(main())) == "the alternative 'spare' is not there for this kind of call"


def test_each_row_of_the_table_happens(bench: Any) -> None:
    """Each row of the table is played, and ends as it says."""

    def call(fallback: Any, *answers: Any) -> Any:
        return bench.get(bench.single(fallback, service=bench.script(*answers))())

    async def main() -> dict[tuple[str, str, str], Any]:
        down = DependencyError("down")
        task = bench.start(bench.single(bench.fallback(), service=bench.hangs)())
        await bench.settle()
        task.cancel()
        chunk = await bench.read(bench.stream(bench.fallback(), service=bench.streams(("a", down)))())
        return {
            ("PRIMARY", "success", ""): await call(bench.fallback(), "ok"),
            ("PRIMARY", "failure", "named, no alternative"): await call(bench.fallback(), down),
            ("PRIMARY", "failure", "named, an approved alternative"): await call(
                bench.fallback(alternative=spare), down
            ),
            ("PRIMARY", "failure", "not named"): await call(bench.fallback(), KeyError()),
            ("PRIMARY", "failure", "a chunk was delivered"): chunk[1],
            ("PRIMARY", "cancelled", ""): await bench.get(task),
            ("ALTERNATIVE", "success", ""): await call(bench.fallback(alternative=spare), down),
            ("ALTERNATIVE", "failure", "named"): await call(bench.fallback(alternative=broken_spare), down),
            ("ALTERNATIVE", "failure", "not named"): await call(bench.fallback(alternative=buggy_spare), down),
        }

    def target_of(got: Any) -> str:
        if isinstance(got, Unavailable):
            return "UNAVAILABLE"
        return "FAILED" if isinstance(got, BaseException) else "ANSWERED"

    played = {row: target_of(got) for row, got in bench.run(main()).items()}
    rows = {(row.source, row.trigger, row.guard): row.target for row in TRANSITIONS}
    # What the alternative is asked is answered by it: that row passes through ALTERNATIVE.
    assert played == {**rows, ("PRIMARY", "failure", "named, an approved alternative"): "ANSWERED"}


@pytest.mark.parametrize("kind", ["bare and adapter", "two adapters", "adapters around one another", "two clients"])
def test_an_alternative_that_leads_to_the_same_service_is_refused(kind: str) -> None:
    """Adapters in between, or two clients of one address, do not make one dependency two."""
    from labkit.services import InProcessAdapter, PartsAdapter, PartsAvailability

    clock = VirtualClock()
    one = PartsAvailability(clock)
    services: dict[str, tuple[Any, Any]] = {
        "bare and adapter": (one, InProcessAdapter(one)),
        "two adapters": (InProcessAdapter(one), InProcessAdapter(one)),
        "adapters around one another": (one, InProcessAdapter(InProcessAdapter(one))),
    }
    if kind == "two clients":
        pytest.importorskip("httpx2")
        services[kind] = (PartsAdapter("http://127.0.0.1:1"), PartsAdapter("http://127.0.0.1:1"))
    text = """
middleware:
  plainly: {_type: fallback, alternative: b, approved: true}
functions:
  a: {_type: a, middleware: [plainly]}
  b: {_type: b}
"""
    first, second = services[kind]
    with pytest.raises(MiddlewareError, match="the same service"):
        Stack.load(text, services={"a": first, "b": second}, clock=clock)
    Stack.load(text, services={"a": first, "b": PartsAvailability(clock)}, clock=clock)
