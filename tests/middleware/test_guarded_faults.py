"""Each fault of the toolkit's breaker, played on the breaker that has it and on the guarded one, which does not.

The sequences and what the toolkit does on them stand in `test_faults.py`.
"""

from __future__ import annotations

import asyncio
import importlib.util
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from labkit.config import GuardedCircuitBreakerMiddlewareConfig
from labkit.errors import MiddlewareError
from labkit.middleware import (
    FunctionMiddlewareChain,
    FunctionMiddlewareContext,
    GuardedCircuitBreakerMiddleware,
)
from labkit.timing import run_virtual


def faults() -> Any:
    """The module with the sequences."""
    path = Path(__file__).with_name("test_faults.py")
    spec = importlib.util.spec_from_file_location("faults_for_the_guarded", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclasses look themselves up
    spec.loader.exec_module(module)
    return module


SEQUENCES = faults()


class GuardedKit(SEQUENCES.LabkitKit):  # type: ignore[misc]
    """The guarded breaker in the toolkit's place; everything else as it is."""

    def make(self, config: Mapping[str, Any]) -> Any:
        """A guarded breaker where a breaker is wanted."""
        if config["_type"] == "circuit_breaker":
            fields = {key: value for key, value in config.items() if key != "_type"}
            return GuardedCircuitBreakerMiddleware(GuardedCircuitBreakerMiddlewareConfig(**fields))
        return super().make(config)


# What is seen on the guarded breaker, step by step as in `test_faults.py`.
GUARDED = {
    # S's cancellation leaves P's slot alone; nobody else gets in.
    "cancel-frees-foreign-probe": [*["HALF_OPEN 1 0 probing"] * 3, "second probe rejected"],
    # The second probe is never admitted, so the first still owns the slot, and decides.
    "stale-probe-decides": ["HALF_OPEN 1 0 probing", "CLOSED 0 0"],
    "no-generations": ["CLOSED 0 0", "CLOSED 0 0"],
    # Freed at once; an hour later the next probe closes it. The same when the coroutine is closed.
    "wedged-by-baseexception": ["Unusual", "HALF_OPEN 1 0", "ok", "HALF_OPEN 1 0"],
    # The probe was ended when its hold was over, which counts as a failure; the next one closes.
    "hung-probe": ["ok", "CLOSED 0 0"],
    "stalled-consumer": ["a", "HALF_OPEN 1 0 probing", "ok"],
    "re-entrant-probe": ["ok", "CLOSED 0 0"],
}


@pytest.mark.parametrize("fault", GUARDED)
def test_the_guarded_breaker_does_without_the_fault(fault: str) -> None:
    """On the sequence that shows the fault, the toolkit's breaker as labkit plays it has it and the guarded one not."""
    stated = SEQUENCES.FAULTS[fault]
    assert run_virtual(stated.play(SEQUENCES.LabkitKit())) == stated.toolkit
    assert run_virtual(stated.play(GuardedKit())) == GUARDED[fault] != stated.toolkit


def test_every_fault_of_a_breaker_is_mended_or_named() -> None:
    """What the guarded breaker does not mend is the timeout's, is mended already, or is the one it cannot mend."""
    elsewhere = {"early-break-late-release", "slow-consumer-cancelled", "relabelled-timeout", "swallowed-cancel"}
    assert set(SEQUENCES.FAULTS) - elsewhere == set(GUARDED)


def test_a_probe_of_an_earlier_period_does_not_decide() -> None:
    """stale-probe-decides: a probe whose slot was taken after its hold comes back and changes nothing."""

    async def play(kit: Any, **fields: Any) -> list[str]:
        play = SEQUENCES.Play(kit, **fields)
        release = asyncio.Event()

        async def stream() -> Any:
            yield "a"
            await release.wait()

        await play.half_open()
        stale = play.stream(stream)()
        await anext(stale)
        if fields:
            await asyncio.sleep(5.0)
        else:  # without a hold, only the cancellation of a stranger frees the slot
            play.breaker._policy.cancelled("parts")
        await SEQUENCES.get(play.single(SEQUENCES.down)())
        seen = [await play.held()]
        release.set()
        async for _ in stale:
            pass
        return [*seen, await play.held()]

    assert run_virtual(play(SEQUENCES.LabkitKit())) == ["OPEN 1 0", "CLOSED 0 0"]
    assert run_virtual(play(GuardedKit(), probe_hold=5.0)) == ["OPEN 1 0", "OPEN 1 0"]


def test_a_stream_that_is_left_early_frees_the_slot_at_once() -> None:
    """early-break-late-release: as soon as the chain's stream is closed, the slot is free; the toolkit's is not."""
    stated = SEQUENCES.FAULTS["early-break-late-release"]
    assert run_virtual(stated.play(GuardedKit())) == ["HALF_OPEN 1 0"] * 2 != stated.toolkit


def test_a_second_event_loop_is_refused() -> None:
    """other-threads: while its loop lives, an instance refuses calls, streams and handling from another one."""

    async def up() -> str:
        return "ok"

    async def chunks() -> Any:
        yield "a"

    def played(breaker: Any) -> list[str]:
        chain = FunctionMiddlewareChain(middleware=[breaker], context=FunctionMiddlewareContext(name="parts"))
        call, stream = chain.build_single(up), chain.build_stream(chunks)
        first, second = asyncio.new_event_loop(), asyncio.new_event_loop()
        seen = [first.run_until_complete(SEQUENCES.get(call()))]

        async def others() -> list[str]:
            return [await SEQUENCES.get(call()), await SEQUENCES.get(anext(stream()))]

        other = threading.Thread(target=lambda: seen.extend(second.run_until_complete(others())))
        other.start()
        other.join(60.0)
        first.run_until_complete(first.shutdown_asyncgens())
        first.close()
        seen.append(second.run_until_complete(SEQUENCES.get(call())))
        second.run_until_complete(second.shutdown_asyncgens())
        second.close()
        return seen

    kit = SEQUENCES.LabkitKit()
    assert played(kit.make({"_type": "circuit_breaker"})) == ["ok", "ok", "a", "ok"]
    answers = played(GuardedKit().make({"_type": "circuit_breaker"}))
    assert [answer.partition(":")[0] for answer in answers] == ["ok", "MiddlewareError", "MiddlewareError", "ok"]
    assert "one instance for each loop" in answers[1]


def test_four_threads_at_once_find_one_owner() -> None:
    """other-threads: however four threads race for a new instance, one gets it and three are refused."""
    breaker = GuardedKit().make({"_type": "circuit_breaker"})
    chain = FunctionMiddlewareChain(middleware=[breaker], context=FunctionMiddlewareContext(name="parts"))
    begin, end = threading.Barrier(4, timeout=60.0), threading.Barrier(4, timeout=60.0)
    seen: list[str] = []

    async def call() -> None:
        begin.wait()
        try:
            seen.append(await chain.build_single(SEQUENCES.up)())
        except MiddlewareError:
            seen.append("refused")
        end.wait()  # all four loops live until here

    threads = [threading.Thread(target=lambda: asyncio.run(call())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60.0)
    assert sorted(seen) == ["ok", "refused", "refused", "refused"]


def test_one_name_is_still_one_state() -> None:
    """method-name-key: a middleware is told no more than a name, so this fault stays, on both breakers."""

    async def play(kit: Any) -> str:
        play = SEQUENCES.Play(kit)
        await play.open()  # one component's "parts"
        return str(await SEQUENCES.get(play.single(SEQUENCES.up)()))  # another component's

    assert run_virtual(play(SEQUENCES.LabkitKit())) == run_virtual(play(GuardedKit())) == "rejected"
