"""Record how the real toolkit's breaker and timeout behave, as traces that labkit can replay.

    PYTHONPATH=. python tools/record_conformance.py --kind steps --seed 7 --traces 500 --out /tmp/steps.json
    labkit replay /tmp/steps.json

Needs `nvidia-nat-core` (which labkit itself does not); the format is told in tests/conformance/README.md. The toolkit
runs unchanged on labkit's `VirtualLoop`: where it would read the machine's monotonic time it is handed the loop's, so
that minutes pass in no time and two recordings of one seed are the same. The answers are the toolkit's; what is asked
is made up here from the seed, and hostile on purpose: calls that end after their half-open period, cancellations just
before and just after something else happens, a cooldown hit to the last bit, times that repeat, one instance on two
functions or twice in one list, breakers around breakers.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import logging
import math
import random
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol

from labkit.timing import run_virtual

TOOLKIT = "nvidia-nat-core"
PINNED = "1.9.0"

#: Turns of the event loop after which everything that was due has run; the toolkit's longest chain of hand-overs takes
#: fewer than ten.
TURNS = 40


class RecordedServiceError(Exception):
    """What the recorded service raises."""


class Kit(Protocol):
    """A set of middleware to record. The toolkit is one; the tests record labkit itself in the same way."""

    source: str
    open_error: type[Exception]

    def make(self, config: Mapping[str, Any]) -> Any:
        """A middleware of the configuration's `_type`."""

    def chain(self, middleware: Sequence[Any], function: str) -> Any:
        """Something with `build_single` and `build_stream`."""

    async def read(self, breaker: Any, target: str) -> dict[str, Any]:
        """`state`, `failures`, `successes`, `probing` and `changed_at` of a target."""


class Toolkit:
    """The real one."""

    def __init__(self) -> None:
        breaker = importlib.import_module("nat.middleware.circuit_breaker.circuit_breaker_middleware")
        timeout = importlib.import_module("nat.middleware.timeout.timeout_middleware")
        functions = importlib.import_module("nat.middleware.function_middleware")
        # The clock that the breaker reads, for the whole process: recording is all that this process does.
        vars(breaker)["time"] = SimpleNamespace(monotonic=lambda: asyncio.get_running_loop().time())
        logging.getLogger("nat").setLevel(logging.CRITICAL)
        version = importlib.import_module("importlib.metadata").version(TOOLKIT)
        self.source = f"behaviour of {TOOLKIT} {version} in virtual time"
        self.open_error: type[Exception] = breaker.CircuitBreakerOpenError
        self._types = {
            "circuit_breaker": (breaker.CircuitBreakerMiddleware, breaker.CircuitBreakerMiddlewareConfig),
            "timeout": (timeout.TimeoutMiddleware, timeout.TimeoutMiddlewareConfig),
        }
        self._functions = functions

    def make(self, config: Mapping[str, Any]) -> Any:
        """A middleware of the configuration's `_type`."""
        kind, model = self._types[config["_type"]]
        # It patches a builder's methods as soon as it is made; one that takes any attribute serves.
        return kind(model(**{key: value for key, value in config.items() if key != "_type"}), _AnyBuilder())

    def chain(self, middleware: Sequence[Any], function: str) -> Any:
        """The toolkit's own chain."""
        context = self._functions.FunctionMiddlewareContext(
            name=function,
            config=None,
            description=None,
            input_schema=None,
            single_output_schema=type(None),
            stream_output_schema=type(None),
        )
        return self._functions.FunctionMiddlewareChain(
            middleware=self._functions.validate_middleware(list(middleware)), context=context
        )

    async def read(self, breaker: Any, target: str) -> dict[str, Any]:
        """Through the read-outs, as anybody could."""
        return {
            "state": str(await breaker.get_state(target)),
            "failures": await breaker.get_failure_count(target),
            "successes": await breaker.get_success_count(target),
            "probing": await breaker.is_half_open_probing(target),
            "changed_at": await breaker.get_last_state_change(target),
        }


class _AnyBuilder:
    def __getattr__(self, name: str) -> Any:
        async def nothing(*_: Any, **__: Any) -> Any:
            raise LookupError(f"the recorder has no {name}")

        return nothing


async def _settle() -> None:
    for _ in range(TURNS):
        await asyncio.sleep(0)


async def _until(when: float) -> None:
    """Wait until exactly this time; a relative sleep may miss it by a rounding."""
    loop = asyncio.get_running_loop()
    if when > loop.time():
        reached = loop.create_future()
        loop.call_at(when, reached.set_result, None)
        await reached


# -- steps: one breaker, driven by hand --------------------------------------------------------------------------------

_TARGETS = ("availability", "catalog", "inv__get", "inv__list", "Ersatzteile für Köln", "a b")
_THEMES = ("mixed", "late", "newest first", "cancels", "trips", "storm", "recovery", "overlap", "overlap")


def record_steps(kit: Kit, rng: random.Random, name: str) -> dict[str, Any]:
    """Make up one trace of the kind `steps`, step by step, since what can end depends on what was admitted."""
    cooldown = rng.choice([30.0, 30.0, 10.0, 5.0, 60.0, 0.1, 0.3, 0.7, 1.1, rng.uniform(0.01, 50.0)])
    config: dict[str, Any] = {
        "failure_threshold": rng.choice([1, 1, 1, 2, 2, 3, 3, 5, 8]),
        "cooldown_period": cooldown,
        "half_open_success_threshold": rng.choice([1, 1, 1, 2, 2, 3, 5]),
    }
    if rng.random() < 0.25:
        config["probe_timeout"] = round(rng.choice([cooldown * 0.4, cooldown, cooldown * 2.5]) * rng.uniform(0.9, 1), 7)
    walk = _Walk(rng, cooldown)
    theme = rng.choice(_THEMES)
    targets = rng.sample(_TARGETS, rng.choice([1, 1, 1, 2, 3, 6]))
    length = rng.randint(15, 110)
    steps: list[dict[str, Any]] = []
    expect: list[dict[str, Any]] = []

    async def play() -> None:
        breaker = kit.make({"_type": "circuit_breaker", **config})
        calls: dict[str, _Step] = {}
        probes: set[str] = set()
        chains = {target: kit.chain([breaker], target).build_single(_step_service) for target in targets}
        now = 0.0
        try:
            for number in range(length):
                target = rng.choice(targets)
                held = await kit.read(breaker, target)
                now = walk.next(now, held)
                await _until(now)
                await _settle()
                flying = [id for id, call in calls.items() if call.task is not None and not call.task.done()]
                id, outcome = _pick(rng, theme, flying, len(flying) >= 12), _outcome(rng, theme)
                if theme == "overlap" and rng.random() < 0.8:
                    here = [id for id in flying if calls[id].target == target]
                    id, outcome = _overlap(rng, here, probes, held) or (id, outcome)
                if id is None:
                    id, call = f"c{number}", _Step(target)
                    calls[id] = call
                    call.task = asyncio.create_task(_step_caller(kit, chains[target], call))
                    steps.append({"t": now, "op": "start", "id": id, "target": target})
                else:
                    call = calls[id]
                    steps.append({"t": now, "op": "finish", "id": id, "outcome": outcome})
                    call.outcome = outcome
                    if outcome == "cancel":
                        assert call.task is not None
                        call.task.cancel()
                    else:
                        call.release.set()
                await _settle()
                answer: dict[str, Any] = {}
                if steps[-1]["op"] == "start":
                    answer["admitted"] = call.reached
                    if not call.reached:
                        answer["error"] = call.error
                seen = await kit.read(breaker, call.target)
                if steps[-1]["op"] == "start" and call.reached and seen["state"] == "HALF_OPEN":
                    probes.add(id)
                del seen["changed_at"]
                expect.append({**answer, **seen})
        finally:
            for call in calls.values():
                if call.task is not None:
                    call.task.cancel()
            await _settle()

    run_virtual(play())
    return {"name": name, "config": config, "steps": steps, "expect": expect}


class _Step:
    def __init__(self, target: str) -> None:
        self.target = target
        self.release = asyncio.Event()
        self.outcome = "ok"
        self.reached = False
        self.error: str | None = None
        self.task: asyncio.Task[None] | None = None


async def _step_service(call: _Step) -> str:
    call.reached = True
    await call.release.wait()
    if call.outcome == "error":
        raise RecordedServiceError
    return "ok"


async def _step_caller(kit: Kit, chain: Callable[[_Step], Coroutine[Any, Any, Any]], call: _Step) -> None:
    try:
        await chain(call)
    except Exception as error:
        call.error = type(error).__name__


class _Walk:
    """Where time goes next: it stands, creeps, or jumps to the very end of a cooldown."""

    def __init__(self, rng: random.Random, cooldown: float) -> None:
        self._rng = rng
        self._cooldown = cooldown
        self._grain = rng.choice([0.25, 0.1, None])

    def next(self, now: float, held: Mapping[str, Any]) -> float:
        rng = self._rng
        if held["state"] == "OPEN" and rng.random() < 0.4:
            end: float = held["changed_at"] + self._cooldown
            end = rng.choice([end, end, math.nextafter(end, math.inf), math.nextafter(end, 0.0), end * 0.999])
            return max(now, end)
        stride = rng.choice([0.0, 0.0, 0.0, rng.uniform(0.0, 1.0), rng.uniform(0.0, self._cooldown)])
        if self._grain is None:
            return now + stride
        return max(now, round((now + stride) / self._grain) * self._grain)


def _pick(rng: random.Random, theme: str, flying: list[str], crowded: bool) -> str | None:
    """Which call ends now; None for a new one."""
    if not flying or (not crowded and rng.random() < (0.75 if theme == "storm" else 0.5)):
        return None
    if theme == "late" and rng.random() < 0.8:  # the old ones are kept for later periods
        return rng.choice(flying[len(flying) // 2 :])
    if theme == "newest first":
        return flying[-1]
    return rng.choice(flying)


def _overlap(
    rng: random.Random, flying: list[str], probes: set[str], held: Mapping[str, Any]
) -> tuple[str | None, str] | None:
    """A step towards two probes beside each other, or towards one that ends after its half-open period."""
    mine = [id for id in flying if id in probes]
    others = [id for id in flying if id not in probes]
    if len(mine) > 1:
        return rng.choice(mine), rng.choice(["ok", "error", "error"])
    if held["probing"] and mine and others:  # another call's cancellation frees the probe's slot
        return rng.choice(others), "cancel"
    if mine and held["state"] != "HALF_OPEN":
        return mine[0], rng.choice(["ok", "ok", "error", "cancel"])
    if held["state"] != "CLOSED" and (mine or others):  # nothing ends that may still be needed
        return None, ""
    return None


def _outcome(rng: random.Random, theme: str) -> str:
    weights = {"cancels": (2, 3, 5), "trips": (1, 8, 1), "recovery": (7, 2, 1)}.get(theme, (4, 4, 2))
    return rng.choices(("ok", "error", "cancel"), weights)[0]


# -- scenarios: lists of middleware in virtual time --------------------------------------------------------------------

# All times are sums of powers of two, so that no sum rounds and a cooldown can be met exactly. What belongs to call
# number k carries k * UNIT, which is what keeps the events of two calls apart; limits carry a multiple of LIMIT beside.
GRID, LIMIT, UNIT = 2.0**-6, 2.0**-12, 2.0**-20

_LISTS: tuple[tuple[str, ...], ...] = (
    ("breaker",),
    ("breaker", "timeout"),
    ("breaker", "timeout"),
    ("timeout", "breaker"),
    ("timeout", "breaker"),
    ("outer", "breaker"),
    ("outer", "timeout", "breaker"),
    ("outer", "breaker", "timeout"),
    ("timeout", "outer", "breaker"),
    ("budget", "breaker", "timeout"),
    ("timeout", "breaker", "budget"),
    ("budget", "outer", "timeout", "breaker"),
    ("budget", "timeout"),
    ("breaker", "breaker"),
    ("breaker", "timeout", "breaker"),
    ("timeout", "breaker", "timeout"),
    ("timeout",),
    (),
)
_VALUES: tuple[Any, ...] = ("ok", "ok", "ok", None, 0, "", [1, 2], {"stock": 7}, "error: the backend is down", True)


def record_scenario(kit: Kit, rng: random.Random, name: str) -> dict[str, Any]:
    """Make up one trace of the kind `scenarios`, record it, and sharpen it with what the first run showed."""
    for _ in range(200):
        trace = _scenario(rng, name)
        log = _record(kit, trace)
        for _ in range(rng.choice([0, 1, 1, 2, 3])):
            _sharpen(rng, trace, log)
            log = _record(kit, trace)
        if not log.clash():
            return trace
    raise RuntimeError(f"{name}: no trace without simultaneous events was found")


def _scenario(rng: random.Random, name: str) -> dict[str, Any]:
    cooldown = rng.choice([1.0, 2.0, 5.0, 5.0, 10.0])

    def breaker(limit: float) -> dict[str, Any]:
        config: dict[str, Any] = {
            "_type": "circuit_breaker",
            "failure_threshold": rng.choice([1, 1, 1, 2, 2, 3, 5]),
            "cooldown_period": cooldown * rng.choice([1.0, 1.0, 0.5, 2.0]),
            "half_open_success_threshold": rng.choice([1, 1, 2, 2, 3]),
        }
        if rng.random() < 0.5:
            config["probe_timeout"] = rng.choice([0.25, 0.5, 1.0, 2.0]) + limit
        if rng.random() < 0.04:
            config["enabled"] = False
        return config

    def timeout(limit: float) -> dict[str, Any]:
        return {"_type": "timeout", "timeout": rng.choice([0.25, 0.5, 1.0, 1.0, 2.0]) + limit}

    every = {
        "breaker": breaker(1 * LIMIT),
        "outer": breaker(3 * LIMIT),
        "timeout": timeout(5 * LIMIT),
        "budget": timeout(9 * LIMIT),
    }
    functions = {"availability": list(rng.choice(_LISTS))}
    for other in rng.sample(["catalog", "inv__list"], rng.choice([0, 0, 0, 1, 2])):
        functions[other] = list(rng.choice(_LISTS)) if rng.random() < 0.5 else list(functions["availability"])
    middleware = {one: config for one, config in every.items() if any(one in listed for listed in functions.values())}
    calls: list[dict[str, Any]] = []
    at = 0.0
    streams = rng.choice([0.0, 0.3, 0.5, 1.0])
    failing = rng.choice([0.2, 0.5, 0.8])
    for number in range(rng.randint(4, 24)):
        pause = rng.choice([GRID, 0.125, 0.25, 0.5, 1.0, cooldown * 0.5, cooldown, cooldown + 0.5])
        at += pause * rng.choice([1, 1, 2])
        calls.append(_call(rng, number, at + number * UNIT, middleware, functions, streams, failing, cooldown))
    return {"name": name, "middleware": middleware, "functions": functions, "calls": calls}


def _call(
    rng: random.Random,
    number: int,
    at: float,
    middleware: Mapping[str, Any],
    functions: Mapping[str, list[str]],
    streams: float,
    failing: float,
    cooldown: float,
) -> dict[str, Any]:
    function = rng.choice(list(functions))
    after = rng.choice([0.0, GRID, 0.125, 0.25, 0.75, 1.5, cooldown, cooldown * 2 + 0.25, cooldown * 4])
    outcome = "error" if rng.random() < failing else "ok"
    call: dict[str, Any] = {"id": f"c{number}", "function": function, "at": at, "mode": "invoke"}
    if rng.random() < streams:
        delays = [rng.choice([0.0, GRID, 0.125, 0.25, 0.5, 0.75, 1.5]) for _ in range(rng.choice([0, 1, 2, 3, 5]))]
        call.update(mode="stream", service={"chunks": delays, "after": after, "outcome": outcome})
        if delays and rng.random() < 0.3:
            call["close_after"] = rng.randint(1, len(delays))
        # A stream under a limit whose consumer dawdles is left out: there labkit does better, on purpose.
        if rng.random() < 0.3 and not any(middleware[one]["_type"] == "timeout" for one in functions[function]):
            call["consumer_pause"] = rng.choice([GRID, 0.25, 1.0, cooldown, cooldown * 2])
    else:
        call["service"] = {"after": after, "outcome": outcome}
        if outcome == "ok" and rng.random() < 0.4:
            call["service"]["value"] = rng.choice(_VALUES)
    if rng.random() < 0.2:
        call["cancel_at"] = at + rng.choice([GRID, 0.125, 0.25, 1.0, cooldown]) + UNIT / 2
    return call


class _Log:
    """What happened when, and to which call, in one recording."""

    def __init__(self) -> None:
        self.events: list[tuple[float, str]] = []
        self.cancels: list[tuple[float, str]] = []
        self.opened: set[tuple[str, str, float]] = set()

    def clash(self) -> bool:
        """Whether two things that do not follow from each other fell on one instant: their order is anybody's guess.

        (asyncio keeps its timers in a heap, which does not promise an order among equals.)
        """
        whose: dict[float, str] = {}
        return any(whose.setdefault(at, id) != id for at, id in self.events + self.cancels)


def _sharpen(rng: random.Random, trace: dict[str, Any], log: _Log) -> None:
    """Aim at what was seen: a call at the very end of a cooldown, or a cancellation right beside an event."""
    calls = trace["calls"]
    if log.opened and rng.random() < 0.6:
        name, function, at = rng.choice(sorted(log.opened))
        at += trace["middleware"][name]["cooldown_period"] + rng.choice([0.0, 0.0, UNIT / 8, -UNIT / 8])
        number = 1 + max(int(call["id"][1:]) for call in calls)
        call = _call(rng, number, at, trace["middleware"], {function: trace["functions"][function]}, 0.4, 0.5, 1.0)
        if "cancel_at" in call:
            call["cancel_at"] += number * UNIT / 4
        calls.append(call)
        calls.sort(key=lambda one: one["at"])
        return
    call = rng.choice(calls)
    times = [at for at, id in log.events if id == call["id"] and at > call["at"]]
    if times:
        call["cancel_at"] = rng.choice(times) + rng.choice([UNIT / 4, -UNIT / 4])


def _record(kit: Kit, trace: dict[str, Any]) -> _Log:
    """Run a trace and write down its `expect`."""
    log = _Log()
    rows: dict[str, dict[str, Any]] = {}

    async def main() -> None:
        loop = asyncio.get_running_loop()
        instances = {name: kit.make(config) for name, config in trace["middleware"].items()}
        breakers = {n: one for n, one in instances.items() if trace["middleware"][n]["_type"] == "circuit_breaker"}
        chains = {
            function: kit.chain([instances[name] for name in names], function)
            for function, names in trace["functions"].items()
        }

        async def caller(call: Mapping[str, Any]) -> None:
            row = rows[call["id"]] = {"id": call["id"], "reached_service": False, "chunks": 0}
            log.events.append((loop.time(), call["id"]))
            try:
                await _consume(chains[call["function"]], call, row, log)
            except kit.open_error:
                row["result"] = "rejected"
            except TimeoutError:
                row["result"] = "timeout"
            except RecordedServiceError:
                row["result"] = "error"
            except asyncio.CancelledError:
                row["result"] = "cancelled"
            row["ended_at"] = round(loop.time(), 9)
            if loop.time() != call.get("cancel_at"):
                log.events.append((loop.time(), call["id"]))
            await _settle()
            row["state_after"] = {}
            for name in trace["functions"][call["function"]]:
                if name in breakers:
                    held = await kit.read(breakers[name], call["function"])
                    row["state_after"][name] = held["state"]
                    if held["state"] == "OPEN":
                        log.opened.add((name, call["function"], held["changed_at"]))

        async def begin(call: Mapping[str, Any]) -> None:
            await _until(call["at"])
            task = asyncio.create_task(caller(call))
            if "cancel_at" in call:
                await _until(call["cancel_at"])
                if not task.done():
                    log.cancels.append((loop.time(), f"cancel {call['id']}"))
                task.cancel()
            await task

        await asyncio.gather(*(begin(call) for call in trace["calls"]))

    run_virtual(main())
    trace["expect"] = [rows[call["id"]] for call in trace["calls"]]
    return log


async def _consume(chain: Any, call: Mapping[str, Any], row: dict[str, Any], log: _Log) -> None:
    loop = asyncio.get_running_loop()
    service = call["service"]

    async def sleep(seconds: float) -> None:
        await asyncio.sleep(seconds)
        log.events.append((loop.time(), call["id"]))

    async def single() -> Any:
        row["reached_service"] = True
        await sleep(service["after"])
        if service["outcome"] == "error":
            raise RecordedServiceError
        return service.get("value", "ok")

    async def stream() -> AsyncIterator[int]:
        row["reached_service"] = True
        for number, delay in enumerate(service["chunks"]):
            await sleep(delay)
            yield number
        await sleep(service["after"])
        if service["outcome"] == "error":
            raise RecordedServiceError

    if call["mode"] == "invoke":
        value = await chain.build_single(single)()
        row.update(result="ok", value=value)
        return
    chunks = chain.build_stream(stream)()
    try:
        async for _ in chunks:
            row["chunks"] += 1
            if row["chunks"] == call.get("close_after"):
                row["result"] = "closed"
                break
            if call.get("consumer_pause"):
                await sleep(call["consumer_pause"])
        else:
            row["result"] = "ok"
    finally:
        await chunks.aclose()


# -- the command -------------------------------------------------------------------------------------------------------

_KINDS: dict[str, Callable[[Kit, random.Random, str], dict[str, Any]]] = {
    "steps": record_steps,
    "scenarios": record_scenario,
}


def record(kit: Kit, kind: str, seed: int, traces: int) -> dict[str, Any]:
    """Record so many traces of a kind; the same seed asks the same questions."""
    made = []
    for number in range(traces):
        name = f"{kind}-{seed}-{number:04}"
        made.append(_KINDS[kind](kit, random.Random(name), name))
    return {"format": 1, "source": kit.source, "kind": kind, "traces": made}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; 0 when the file was written, 2 when it cannot be."""
    parser = argparse.ArgumentParser(description="Record traces of the real toolkit for `labkit replay`.")
    parser.add_argument("--kind", choices=sorted(_KINDS), required=True, help="what kind of traces")
    parser.add_argument("--seed", type=int, default=0, help="of what is asked; 0 by default")
    parser.add_argument("--traces", type=int, default=100, metavar="N", help="how many; 100 by default")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="the JSON file to write")
    options = parser.parse_args(argv)
    try:
        kit = Toolkit()
    except ModuleNotFoundError:
        print(
            f"record_conformance: {TOOLKIT} is not installed here; pip install {TOOLKIT}=={PINNED}, "
            "in an environment of its own",
            file=sys.stderr,
        )
        return 2
    data = record(kit, options.kind, options.seed, options.traces)
    try:
        options.out.write_text(json.dumps(data, separators=(",", ":"), ensure_ascii=False) + "\n", encoding="utf-8")
    except OSError as error:
        print(f"record_conformance: {options.out} cannot be written: {error.strerror or error}", file=sys.stderr)
        return 2
    print(f"{options.out}: {len(data['traces'])} traces of the kind {data['kind']}, {data['source']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
