"""The recorder: with the real toolkit where that is installed, and everywhere with labkit's own middleware instead."""

from __future__ import annotations

import importlib.util
import json
import logging
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from labkit.config import CircuitBreakerMiddlewareConfig, TimeoutMiddlewareConfig
from labkit.conformance import replay_file
from labkit.errors import CircuitBreakerOpenError
from labkit.middleware import (
    CircuitBreakerMiddleware,
    FunctionMiddlewareChain,
    FunctionMiddlewareContext,
    TimeoutMiddleware,
    validate_middleware,
)

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "tools" / "record_conformance.py"
TOOLKIT = importlib.util.find_spec("nat") is not None and importlib.util.find_spec("nat.middleware") is not None


@pytest.fixture(scope="module")
def recorder() -> ModuleType:
    """The script as a module."""
    spec = importlib.util.spec_from_file_location("record_conformance", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def _names_listed_twice_are_meant() -> Iterator[None]:
    """The warning about a middleware that is listed twice is not news here."""
    logger = logging.getLogger("labkit.middleware.base")
    logger.disabled = True
    yield
    logger.disabled = False


class LabkitKit:
    """labkit's middleware on asyncio, for the recorder to record instead of the toolkit's."""

    source = "labkit itself, on a virtual event loop"
    open_error = CircuitBreakerOpenError

    def make(self, config: Mapping[str, Any]) -> Any:
        """A middleware of the configuration's `_type`, on the running loop's time."""
        fields = {key: value for key, value in config.items() if key != "_type"}
        if config["_type"] == "timeout":
            return TimeoutMiddleware(TimeoutMiddlewareConfig(**fields))
        return CircuitBreakerMiddleware(CircuitBreakerMiddlewareConfig(**fields))

    def chain(self, middleware: Sequence[Any], function: str) -> FunctionMiddlewareChain:
        """labkit's chain."""
        return FunctionMiddlewareChain(
            middleware=validate_middleware(middleware), context=FunctionMiddlewareContext(name=function)
        )

    async def read(self, breaker: Any, target: str) -> dict[str, Any]:
        """Through the read-outs."""
        return {
            "state": str(await breaker.get_state(target)),
            "failures": await breaker.get_failure_count(target),
            "successes": await breaker.get_success_count(target),
            "probing": await breaker.is_half_open_probing(target),
            "changed_at": await breaker.get_last_state_change(target),
        }


@pytest.mark.parametrize("kind", ["steps", "scenarios"])
def test_labkit_on_asyncio_is_labkit_on_the_virtual_clock(recorder: ModuleType, kind: str, tmp_path: Path) -> None:
    """What labkit's middleware does on an asyncio loop, recorded, is what it does on a `VirtualClock`, replayed."""
    file = tmp_path / "traces.json"
    file.write_text(json.dumps(recorder.record(LabkitKit(), kind, 77, 120)), encoding="utf-8")
    report = replay_file(file)
    assert report.traces == 120
    assert [str(difference) for difference in report.differences] == []


def test_a_seed_asks_the_same_questions(recorder: ModuleType) -> None:
    """Two recordings of a seed are equal, and those of two seeds are not."""
    for kind in ("steps", "scenarios"):
        once, again, other = (recorder.record(LabkitKit(), kind, seed, 4) for seed in (5, 5, 6))
        assert once == again
        assert once["traces"] != other["traces"]


def test_what_is_asked_is_hostile(recorder: ModuleType) -> None:
    """The made-up traces reach every outcome, the faults, both orders, nested breakers and the ends of cooldowns."""
    seen: Counter[Any] = Counter()
    for trace in recorder.record(LabkitKit(), "steps", 3, 80)["traces"]:
        times = [step["t"] for step in trace["steps"]]
        assert times == sorted(times)
        seen["times that repeat"] += len(times) > len(set(times))
        seen["targets"] = max(seen["targets"], len({step["target"] for step in trace["steps"] if "target" in step}))
        seen["threshold 1"] += trace["config"]["failure_threshold"] == 1
        for answer in trace["expect"]:
            seen[answer["state"]] += 1
            seen["late probe counted"] += answer["state"] != "HALF_OPEN" and answer["successes"] > 0
    for trace in recorder.record(LabkitKit(), "scenarios", 3, 150)["traces"]:
        for names in trace["functions"].values():
            seen[tuple(names)] += 1
        seen["one instance on two functions"] += len(trace["functions"]) > 1
        for call, answer in zip(trace["calls"], trace["expect"], strict=True):
            seen[call["mode"], answer["result"]] += 1
            names = trace["functions"][call["function"]]
            limited = any(trace["middleware"][name]["_type"] == "timeout" for name in names)
            assert not (limited and "consumer_pause" in call)
    wanted = [
        *("times that repeat", "threshold 1", "late probe counted", "CLOSED", "OPEN", "HALF_OPEN"),
        "one instance on two functions",
        *(("invoke", result) for result in ("ok", "error", "timeout", "rejected", "cancelled")),
        *(("stream", result) for result in ("ok", "error", "timeout", "rejected", "cancelled", "closed")),
        *(("breaker", "timeout"), ("timeout", "breaker"), ("outer", "breaker"), ("breaker", "breaker")),
    ]
    assert [what for what in wanted if not seen[what]] == []
    assert seen["targets"] >= 4


def test_simultaneous_events_are_found(recorder: ModuleType) -> None:
    """A trace in which something happens to two calls at one instant is not used, since the order would be a guess."""
    log = recorder._Log()
    log.events += [(1.0, "c0"), (1.0, "c0"), (2.0, "c1")]
    assert not log.clash()
    log.cancels.append((1.0, "cancel c0"))
    assert log.clash()


def run(*words: str) -> subprocess.CompletedProcess[str]:
    """The script, as a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run([sys.executable, str(SCRIPT), *words], capture_output=True, text=True, env=environment)


@pytest.mark.skipif(TOOLKIT, reason="nvidia-nat-core is installed here")
def test_a_missing_toolkit_is_one_sentence(tmp_path: Path) -> None:
    """Where the toolkit is not installed the script says so, with the command that installs it, and writes nothing."""
    done = run("--kind", "steps", "--out", str(tmp_path / "x.json"))
    assert done.returncode == 2
    assert done.stderr == (
        "record_conformance: nvidia-nat-core is not installed here; pip install nvidia-nat-core==1.9.0, "
        "in an environment of its own\n"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not TOOLKIT, reason="nvidia-nat-core is not installed here")
@pytest.mark.parametrize("kind", ["steps", "scenarios"])
def test_the_real_toolkit_answers_as_labkit_does(kind: str, tmp_path: Path) -> None:
    """A recording made here and now, of questions that no file holds, replays without a difference."""
    file = tmp_path / "traces.json"
    seed = random.SystemRandom().randrange(10**9)
    done = run("--kind", kind, "--seed", str(seed), "--traces", "60", "--out", str(file))
    assert done.returncode == 0, done.stderr
    assert [str(difference) for difference in replay_file(file).differences] == [], f"seed {seed}"


@pytest.mark.skipif(not TOOLKIT, reason="nvidia-nat-core is not installed here")
def test_the_hostile_file_can_be_recorded_again(tmp_path: Path) -> None:
    """The command in README.md makes `hostile.json` again, to the byte."""
    file = tmp_path / "hostile.json"
    run("--kind", "scenarios", "--seed", "2026", "--traces", "60", "--out", str(file))
    assert file.read_bytes() == (Path(__file__).parent / "hostile.json").read_bytes()
