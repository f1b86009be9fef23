"""Retries that share a budget: what is earned and spent, and what a caller is told when it is used up."""

from __future__ import annotations

from typing import Any

import pytest

from labkit.config import RetryBudgetMiddlewareConfig, RetryMiddlewareConfig, StackConfig
from labkit.config.models.stack import FunctionConfig
from labkit.errors import DependencyError, MiddlewareError
from labkit.middleware import RetryBudgetEvent, RetryBudgetMiddleware, RetryMiddleware, RetryReport, Stack

MODES = ("single", "stream")


def budget(bench: Any, **fields: Any) -> RetryBudgetMiddleware:
    """A budget of two tokens, of which a first attempt earns a half, unless told otherwise."""
    config = RetryBudgetMiddlewareConfig(**{"ratio": 0.5, "max_tokens": 2, **fields})
    return RetryBudgetMiddleware(config, clock=bench.clock)


def retry(bench: Any, shared: RetryBudgetMiddleware, attempts: int = 2, **fields: Any) -> RetryMiddleware:
    """A retry that names the budget; it waits for 1, 2, 4 ... seconds."""
    config = RetryMiddlewareConfig(
        **{"attempts": attempts, "base_delay": 1.0, "jitter": "none", "budget": "shared", **fields}
    )
    return RetryMiddleware(config, clock=bench.clock, budget=shared)


async def outcome(bench: Any, one: RetryMiddleware, mode: str, *answers: Any, name: str = "parts") -> Any:
    """A call or a stream through the retry: its last word, or its error."""
    if mode == "single":
        return await bench.get(bench.single(one, service=bench.script(*answers), name=name)())
    scripts = bench.streams(*((answer,) for answer in answers))
    return (await bench.read(bench.stream(one, service=scripts, name=name)()))[-1]


def down() -> DependencyError:
    """A failure that is worth another attempt."""
    return DependencyError("down")


@pytest.mark.parametrize("mode", MODES)
def test_when_it_is_used_up_nothing_is_retried(bench: Any, mode: str) -> None:
    """The last error comes at once, without a wait, and its report says that the budget is to blame."""
    shared = budget(bench, initial_tokens=0)
    last = down()

    async def main() -> Any:
        return await outcome(bench, retry(bench, shared), mode, last)

    error = bench.run(main())
    assert error is last
    assert error.retry_report == RetryReport(1, (), "the retry budget of 'parts' is used up")
    assert (bench.calls, bench.now()) == (1, 0.0)


@pytest.mark.parametrize("mode", MODES)
def test_it_may_run_out_on_the_way(bench: Any, mode: str) -> None:
    """A retry that was allowed is made; the report of one that is not says how many there were."""
    shared = budget(bench, initial_tokens=1)

    async def main() -> Any:
        return await outcome(bench, retry(bench, shared, attempts=9), mode, down(), down())

    error = bench.run(main())
    assert error.retry_report == RetryReport(2, (1.0,), "the retry budget of 'parts' is used up")
    assert error.__notes__ == ["given up after 2 attempts (waits: 1 s): the retry budget of 'parts' is used up"]


@pytest.mark.parametrize("mode", MODES)
def test_first_attempts_earn_and_retries_spend(bench: Any, mode: str) -> None:
    """Every operation earns, whether it succeeds or not, and only a retry spends."""
    shared = budget(bench, initial_tokens=0)
    one = retry(bench, shared)
    seen = []

    async def main() -> None:
        for answers in (("ok",), (down(), "never"), (ValueError(),), ("ok",), (down(), "ok")):
            await outcome(bench, one, mode, *answers)
            seen.append(shared.snapshot("parts").tokens)

    bench.run(main())
    assert seen == [0.5, 0.0, 0.5, 1.0, 0.5]


def test_what_is_given_up_anyway_spends_nothing(bench: Any) -> None:
    """The last of the attempts, an error that is not retried and a time budget take no token."""
    shared = budget(bench)

    async def main() -> None:
        await outcome(bench, retry(bench, shared, attempts=1), "single", down())
        await outcome(bench, retry(bench, shared, time_budget=0.5), "single", down())
        await outcome(bench, retry(bench, shared), "single", KeyError())

    bench.run(main())
    assert shared.snapshot("parts").tokens == 2.0


def test_it_is_shared_by_retries_and_kept_by_target(bench: Any) -> None:
    """Two retries of one target spend from one bucket, and another target has its own."""
    shared = budget(bench, ratio=0.001, max_tokens=1)
    first, second = retry(bench, shared), retry(bench, shared)

    async def main() -> list[str]:
        calls = [(first, "parts"), (second, "parts"), (second, "documents")]
        return [str(await outcome(bench, one, "single", down(), "ok", name=name)) for one, name in calls]

    assert bench.run(main()) == ["ok", "down", "ok"]


def test_an_outage_sees_little_more_than_the_requests(bench: Any) -> None:
    """A thousand requests of three attempts reach a dead service some 1,000 + 10 + 100 times, and not 3,000."""
    shared = budget(bench, ratio=0.1, max_tokens=10)
    call = bench.single(retry(bench, shared, attempts=3), service=bench.fails)

    async def main() -> None:
        for _ in range(1000):
            await bench.get(call())

    bench.run(main())
    assert bench.calls == 1109  # the very first attempt earns nothing: the bucket is full


def test_what_is_told(bench: Any) -> None:
    """Every retry that is asked for is told, with what is left; without traffic the refused ones alone."""
    shared = budget(bench, ratio=0.001, max_tokens=1)
    told: list[RetryBudgetEvent] = []
    quiet: list[RetryBudgetEvent] = []
    leave = shared.listen(told.append)
    shared.listen(quiet.append, traffic=False)

    async def main() -> None:
        for _ in range(2):
            await outcome(bench, retry(bench, shared), "single", down(), "ok")
        leave()
        await outcome(bench, retry(bench, shared), "single", down(), "ok")

    bench.run(main())
    assert [tuple(event) for event in told] == [("admitted", 0.0, "parts", 0.0), ("rejected", 1.0, "parts", 0.001)]
    assert [event.kind for event in quiet] == ["rejected", "rejected"]


# -- several retries of one chain --------------------------------------------------------------------------------------


def several(bench: Any, *budgets: RetryBudgetMiddleware | None, mode: str = "single", **fields: Any) -> Any:
    """A function behind retries, outermost first, of which each names a budget or none; gives its outcome a call."""
    fields = {"attempts": 2, "base_delay": 0.0, "jitter": "none", **fields}
    retries = [
        RetryMiddleware(
            RetryMiddlewareConfig(**fields, budget=None if one is None else "shared"), clock=bench.clock, budget=one
        )
        for one in budgets
    ]

    def call(*answers: Any) -> Any:
        if mode == "single":
            return bench.get(bench.single(*retries, service=bench.script(*answers))())
        return bench.read(bench.stream(*retries, service=bench.streams(*((one,) for one in answers)))())

    return call


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_request_earns_once_for_all_retries_of_its_chain(bench: Any, mode: str, count: int) -> None:
    """Ten requests at a tenth earn one token, through one retry, two or three that name the budget."""
    shared = budget(bench, ratio=0.1, initial_tokens=0)
    call = several(bench, *[shared] * count, mode=mode)

    async def main() -> None:
        for _ in range(10):
            await call("ok")

    bench.run(main())
    assert shared.snapshot("parts").tokens == 1.0


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("outer", ["shared", "another", None])
def test_an_inner_retry_earns_nothing_when_it_is_begun_anew(bench: Any, mode: str, outer: str | None) -> None:
    """Each request is tried twice from outside, and each time twice from inside: the inner budget earns once for it."""
    inner = budget(bench, ratio=0.1, max_tokens=99, initial_tokens=50)
    another = budget(bench, ratio=1.0, max_tokens=99)
    call = several(bench, {"shared": inner, "another": another, None: None}[outer], inner, mode=mode)

    async def main() -> None:
        for _ in range(9):
            await call(*(down() for _ in range(4)))

    bench.run(main())
    assert bench.calls == 36
    assert inner.snapshot("parts").tokens == 50 + 0.9 - (27 if outer == "shared" else 18)


def test_different_budgets_of_one_chain_earn_each_for_itself(bench: Any) -> None:
    """A request earns once for each budget that its retries name."""
    one, other = (budget(bench, ratio=0.1, initial_tokens=0) for _ in range(2))
    call = several(bench, one, other, one)

    async def main() -> None:
        for _ in range(5):
            await call("ok")

    bench.run(main())
    assert (one.snapshot("parts").tokens, other.snapshot("parts").tokens) == (0.5, 0.5)


def test_what_is_called_from_within_is_a_request_of_its_own(bench: Any) -> None:
    """A function that calls itself, another that it calls, and a task that outlives its request each earn."""
    config = StackConfig(
        {name: RetryMiddlewareConfig(budget="shared") for name in ("outer", "inner")}
        | {"shared": RetryBudgetMiddlewareConfig(ratio=0.1, initial_tokens=0)},
        {name: FunctionConfig(name, ["outer", "inner"]) for name in ("parts", "documents")},
    )
    tasks: list[Any] = []

    async def parts(depth: int) -> None:
        if depth:
            await stack.call("parts", depth - 1)
            await stack.call("documents")
            tasks.append(bench.start(later()))

    async def documents() -> None: ...

    async def later() -> None:
        await bench.sleep(5.0)
        await stack.call("parts", 0)

    stack = Stack(config, {"parts": parts, "documents": documents}, bench.clock)

    async def main() -> None:
        await stack.call("parts", 2)
        for task in tasks:
            await task

    bench.run(main())
    shared = stack.middleware["shared"]
    assert isinstance(shared, RetryBudgetMiddleware)
    assert shared.snapshot("parts").tokens == 0.5  # three in each other, two later
    assert shared.snapshot("documents").tokens == 0.2


@pytest.mark.parametrize("mode", MODES)
def test_requests_at_once_are_told_apart(bench: Any, mode: str) -> None:
    """Ten requests in flight at the same time, each tried anew from outside, earn ten times."""
    shared = budget(bench, ratio=0.1, max_tokens=99, initial_tokens=50)
    call = several(bench, None, shared, mode=mode, base_delay=1.0)

    async def main() -> None:
        for task in [bench.start(call(down(), down(), "ok")) for _ in range(10)]:
            await task

    bench.run(main())
    assert bench.calls == 30
    assert shared.snapshot("parts").tokens == 50 + 1 - 10


# -- in a stack --------------------------------------------------------------------------------------------------------

YAML = """
middleware:
  shared: {_type: retry_budget, max_tokens: 1, ratio: 0.001, enabled: %s}
  again: {_type: retry, attempts: 2, base_delay: 0, budget: shared}
  anew: {_type: retry, attempts: 2, base_delay: 0, budget: shared}
functions:
  parts: {_type: parts, middleware: [again]}
  documents: {_type: documents, middleware: [anew]}
"""


@pytest.mark.parametrize(("enabled", "calls"), [("true", 3), ("false", 4)])
def test_a_stack_connects_it(bench: Any, enabled: str, calls: int) -> None:
    """From YAML a retry heeds the budget that it names, and not one that is disabled."""
    stack = Stack.load(YAML % enabled, services={"parts": bench.fails, "documents": bench.fails}, clock=bench.clock)

    async def main() -> None:
        for _ in range(2):
            await bench.get(stack.call("parts"))

    bench.run(main())
    assert bench.calls == calls


def test_listed_it_passes_everything_on(bench: Any) -> None:
    """A budget in a list changes neither calls nor streams."""
    shared = budget(bench, initial_tokens=0)

    async def main() -> list[Any]:
        chunks = await bench.read(bench.stream(shared, service=bench.streams(("a", "b")))())
        return [await bench.single(shared, service=bench.ok)(), *chunks]

    assert bench.run(main()) == ["ok", "a", "b"]
    assert shared.snapshot("parts").tokens == 0.0


def test_a_budget_that_is_not_there_is_refused(bench: Any) -> None:
    """A retry that names a budget and has none is refused when its chain is built, not when it is first needed."""
    alone = RetryMiddleware(RetryMiddlewareConfig(budget="shared"), clock=bench.clock)
    for build in (bench.single, bench.stream):
        with pytest.raises(MiddlewareError, match="the retry's budget 'shared' is not there"):
            build(alone, service=bench.ok)


def test_a_stack_made_in_python_is_judged_too(bench: Any) -> None:
    """A name that leads to something else than a budget is refused in the loader's own sentence."""
    config = StackConfig(
        {"again": RetryMiddlewareConfig(budget="again"), "shared": RetryBudgetMiddlewareConfig()},
        {"parts": FunctionConfig("parts", ["again"])},
    )
    with pytest.raises(MiddlewareError, match=r"names 'again', which is no retry_budget; allowed: shared, or null"):
        Stack(config, {"parts": bench.ok}, bench.clock)
