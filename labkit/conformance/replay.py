"""Recorded behaviour of the real toolkit, played through labkit's own middleware in virtual time.

Two kinds of traces (their format: tests/conformance/README.md): *steps* of one breaker, and *scenarios* of middleware
lists with timeouts, streams and cancellations. Both run the async middleware itself on a `VirtualClock`.
"""

from __future__ import annotations

import json
import math
from asyncio import CancelledError
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from os import PathLike, fspath
from typing import Any, TypeVar

from labkit.config.findings import printable
from labkit.config.reading import read_user_file
from labkit.errors import CircuitBreakerOpenError, ConfigError, LabkitError, TraceFormatError
from labkit.middleware import (
    CircuitBreakerMiddleware,
    FunctionMiddleware,
    FunctionMiddlewareChain,
    FunctionMiddlewareContext,
    TimeoutMiddleware,
    validate_middleware,
)
from labkit.timing import VirtualClock

__all__ = ["Difference", "Report", "load_traces", "replay_file", "replay_trace"]

V = TypeVar("V")

#: A file of more bytes is not read: parsed, it would take many times its size.
MOST_BYTES = 50_000_000

#: Two times that differ by less, in seconds, are the same.
TIME_TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True)
class Difference:
    """The first place where a trace and labkit part.

    Attributes:
        trace: the trace's name.
        where: the step's number (from 1) or the call's id.
        field: what differs.
        expected: as recorded.
        got: as labkit has it.
    """

    trace: str
    where: str
    field: str
    expected: Any
    got: Any

    def __str__(self) -> str:
        where = f"{printable(self.trace)}: {printable(self.where)}: {self.field}"
        return f"{where} is {_shown(self.got)}, recorded was {_shown(self.expected)}"

    def to_dict(self) -> dict[str, Any]:
        """The same as a dictionary, for JSON."""
        return {
            "trace": self.trace,
            "where": self.where,
            "field": self.field,
            "expected": self.expected,
            "got": self.got,
        }


@dataclass(frozen=True, slots=True)
class Report:
    """What replaying a file gave.

    Attributes:
        file: its path.
        kind: "steps" or "scenarios".
        traces: how many.
        differences: the first of each trace that differs.
    """

    file: str
    kind: str
    traces: int
    differences: tuple[Difference, ...]


class RecordedServiceError(LabkitError):
    """What the recorded service raised."""


def load_traces(path: str | PathLike[str]) -> tuple[str, list[dict[str, Any]]]:
    """Read a file of recorded traces; gives their kind and the traces.

    Raises:
        TraceFormatError: it cannot be read, or is not such a file; says which and where.
    """
    file = printable(fspath(path))
    try:
        content = read_user_file(
            path, most=MOST_BYTES, wanted="a JSON file of traces", usual="recorded traces have a few million"
        )
        data = json.loads(content.decode("utf-8-sig"))
    except ConfigError as error:
        raise TraceFormatError(str(error)) from None
    except UnicodeDecodeError:
        raise TraceFormatError(f"{file}: is not UTF-8 text") from None
    except json.JSONDecodeError as error:
        raise TraceFormatError(f"{file}:{error.lineno}: is not JSON: {error.msg}") from None
    except ValueError as error:  # a number of more digits than Python reads
        raise TraceFormatError(f"{file}: cannot be read: {error}") from None
    except RecursionError:
        raise TraceFormatError(f"{file}: is nested too deeply to be a file of traces") from None
    if not isinstance(data, dict) or not isinstance(data.get("traces"), list):
        raise TraceFormatError(f"{file}: is not a file of traces: an object with 'format', 'kind' and a list 'traces'")
    if data.get("format") != 1 or data["format"] is True:
        raise TraceFormatError(f"{file}: 'format' is {_shown(data.get('format'))}; labkit reads format 1")
    kind = data.get("kind")
    if not isinstance(kind, str) or kind not in _PLAYERS:
        raise TraceFormatError(f"{file}: 'kind' is {_shown(kind)}; allowed: {', '.join(_PLAYERS)}")
    if not data["traces"]:
        raise TraceFormatError(f"{file}: holds no traces, so that nothing was compared")
    return kind, data["traces"]


def replay_file(path: str | PathLike[str], progress: Callable[[int, int], None] | None = None) -> Report:
    """Play every trace of a file; `progress(done, of)` is called after each.

    Raises:
        TraceFormatError: the file, or a trace in it, is not of the format.
    """
    kind, traces = load_traces(path)
    differences = []
    for number, trace in enumerate(traces, 1):
        name = trace.get("name") if isinstance(trace, dict) else None
        where = f"{printable(fspath(path))}: {printable(name) if isinstance(name, str) else f'trace {number}'}"
        if name is not None and not isinstance(name, str):
            raise TraceFormatError(f"{where}: 'name' is {_shown(name)}; a trace's name is a text")
        try:
            difference = replay_trace(kind, trace)
        except (ArithmeticError, AttributeError, LabkitError, LookupError, TypeError, ValueError) as error:
            raise TraceFormatError(f"{where}: is not a trace of the kind '{kind}': {_what(error)}") from None
        if difference is not None:
            differences.append(difference)
        if progress is not None:
            progress(number, len(traces))
    return Report(fspath(path), kind, len(traces), tuple(differences))


def _what(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"the key {printable(str(error))} is missing"
    faults = getattr(error, "errors", None)  # pydantic's: its own text takes several lines
    if callable(faults):
        first = faults()[0]
        return f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}"
    return printable(str(error).partition("\n")[0]) or type(error).__name__


def replay_trace(kind: str, trace: Mapping[str, Any]) -> Difference | None:
    """Play one trace; gives the first difference, or None where labkit does as recorded."""
    return _PLAYERS[kind](trace)


def _make(clock: VirtualClock, config: Mapping[str, Any], type_: str) -> CircuitBreakerMiddleware | TimeoutMiddleware:
    from labkit.config import CircuitBreakerMiddlewareConfig, TimeoutMiddlewareConfig

    fields = {key: value for key, value in config.items() if key != "_type"}
    if type_ == "circuit_breaker":
        return CircuitBreakerMiddleware(CircuitBreakerMiddlewareConfig(**fields), clock=clock)
    if type_ == "timeout":
        return TimeoutMiddleware(TimeoutMiddlewareConfig(**fields), clock=clock)
    raise ValueError(f"the middleware type {_shown(type_)} is neither 'circuit_breaker' nor 'timeout'")


# -- steps -------------------------------------------------------------------------------------------------------------


def _play_steps(trace: Mapping[str, Any]) -> Difference | None:
    clock = VirtualClock()
    breaker = _make(clock, trace["config"], "circuit_breaker")
    assert isinstance(breaker, CircuitBreakerMiddleware)
    chains: dict[str, Any] = {}
    calls: dict[str, dict[str, Any]] = {}

    async def service(call: dict[str, Any]) -> None:
        call["reached"] = True
        await call["release"].wait()
        if call["outcome"] == "error":
            raise RecordedServiceError

    async def caller(call: dict[str, Any], target: str) -> None:
        if target not in chains:
            context = FunctionMiddlewareContext(name=target)
            chains[target] = FunctionMiddlewareChain(middleware=[breaker], context=context).build_single(service)
        try:
            await chains[target](call)
        except Exception as error:
            call["error"] = type(error).__name__

    try:
        if len(trace["steps"]) != len(trace["expect"]):
            raise ValueError(f"{len(trace['steps'])} steps but {len(trace['expect'])} expectations")
        for number, (step, expected) in enumerate(zip(trace["steps"], trace["expect"], strict=True), 1):
            _advance_to(clock, step["t"], number)
            got: dict[str, Any] = {}
            if step["op"] == "start":
                call = calls[step["id"]] = {
                    "target": step["target"],
                    "release": clock.event(),
                    "outcome": None,
                    "reached": False,
                    "error": None,
                }
                call["task"] = clock.start(caller(call, step["target"]), name=step["id"])
                clock.settle()
                got["admitted"] = call["reached"]
                if not call["reached"]:
                    got["error"] = call["error"]
            elif step["op"] == "finish":
                call = _named(calls, step["id"], f"step {number}: no call was started as")
                call["outcome"] = _one_of(step["outcome"], "outcome", ("ok", "error", "cancel"))
                if step["outcome"] == "cancel":
                    call["task"].cancel()
                else:
                    call["release"].set()
                clock.settle()
            else:
                raise ValueError(f"step {number}: the op {_shown(step['op'])} is neither 'start' nor 'finish'")
            now = breaker.snapshot(call["target"])
            got.update(state=str(now.state), failures=now.failures, successes=now.successes, probing=now.probing)
            difference = _compare(trace["name"], f"step {number}", expected, got)
            if difference is not None:
                return difference
    finally:
        clock.close()
    return None


def _advance_to(clock: VirtualClock, when: float, step: int) -> None:
    if not when >= clock.now():
        raise ValueError(f"step {step}: time goes back from {clock.now():g} s to {_shown(when)} s")
    # To the bit: a cooldown may end at exactly this time, and now + (when - now) may round past it. A first stride that
    # stops short leaves a second that is exact.
    seconds = when - clock.now()
    if seconds > 0.0:
        if clock.now() + seconds > when:
            seconds = math.nextafter(seconds, 0.0)
        clock.advance(seconds)
        clock.advance(max(0.0, when - clock.now()))


# -- scenarios ---------------------------------------------------------------------------------------------------------


def _play_scenario(trace: Mapping[str, Any]) -> Difference | None:
    clock = VirtualClock()
    middleware: dict[str, CircuitBreakerMiddleware | TimeoutMiddleware] = {
        name: _make(clock, config, config["_type"]) for name, config in trace["middleware"].items()
    }
    lists: dict[str, list[str]] = trace["functions"]
    chains: dict[str, FunctionMiddlewareChain] = {}
    for function, names in lists.items():
        instances: list[FunctionMiddleware] = [
            _named(middleware, name, f"the function {_shown(function)} lists a middleware that is not there:")
            for name in names
        ]
        chains[function] = FunctionMiddlewareChain(
            middleware=validate_middleware(instances), context=FunctionMiddlewareContext(name=function)
        )
    rows: dict[str, dict[str, Any]] = {}

    async def caller(call: Mapping[str, Any]) -> None:
        row = rows[call["id"]] = {"id": call["id"], "reached_service": False, "chunks": 0}
        chain, service = chains[call["function"]], call["service"]
        try:
            if call["mode"] == "invoke":
                row["value"] = await chain.build_single(lambda: _answer(clock, service, row))()
                row["result"] = "ok"
            else:
                async with aclosing(chain.build_stream(lambda: _chunks(clock, service, row))()) as chunks:  # type: ignore[type-var]
                    row["result"] = await _consume(clock, chunks, call, row)
        except CircuitBreakerOpenError:
            row["result"] = "rejected"
        except TimeoutError:
            row["result"] = "timeout"
        except RecordedServiceError:
            row["result"] = "error"
        except CancelledError:
            row["result"] = "cancelled"
        row["ended_at"] = clock.now()
        await clock.sleep(0)  # let everything run that is due already
        row["state_after"] = {
            name: str(instance.snapshot(call["function"]).state)
            for name in lists[call["function"]]
            if isinstance(instance := middleware[name], CircuitBreakerMiddleware)
        }

    async def canceller(at: float, task: Any) -> None:
        await clock.sleep(at - clock.now())
        task.cancel()

    async def begin(call: Mapping[str, Any]) -> None:
        await clock.sleep(call["at"])
        task = clock.start(caller(call), name=call["id"])
        if "cancel_at" in call:
            clock.start(canceller(call["cancel_at"], task), name=f"cancel {call['id']}")
        try:
            await task
        except CancelledError:  # before it ran at all
            rows.setdefault(call["id"], {"id": call["id"], "result": "cancelled", "ended_at": clock.now()})

    for call in trace["calls"]:
        _named(chains, call["function"], f"{_shown(call['id'])} calls a function that is not there:")
        _one_of(call["mode"], "mode", ("invoke", "stream"))
        _one_of(call["service"]["outcome"], "outcome", ("ok", "error"))

    async def main() -> None:
        tasks = [clock.start(begin(call), name=f"begin {call['id']}") for call in trace["calls"]]
        for task in tasks:
            await task

    clock.run(main())
    for expected in trace["expect"]:
        got = _named(rows, expected["id"], "an answer is recorded for a call that was not made:")
        difference = _compare(trace["name"], expected["id"], expected, got)
        if difference is not None:
            return difference
    return None


async def _answer(clock: VirtualClock, service: Mapping[str, Any], row: dict[str, Any]) -> Any:
    row["reached_service"] = True
    await clock.sleep(service["after"])
    if service["outcome"] == "error":
        raise RecordedServiceError
    return service.get("value", "ok")


async def _chunks(clock: VirtualClock, service: Mapping[str, Any], row: dict[str, Any]) -> AsyncIterator[int]:
    row["reached_service"] = True
    for number, delay in enumerate(service["chunks"]):
        await clock.sleep(delay)
        yield number
    await clock.sleep(service["after"])
    if service["outcome"] == "error":
        raise RecordedServiceError


async def _consume(
    clock: VirtualClock, chunks: AsyncIterator[Any], call: Mapping[str, Any], row: dict[str, Any]
) -> str:
    async for _ in chunks:
        row["chunks"] += 1
        if row["chunks"] == call.get("close_after"):
            return "closed"
        if call.get("consumer_pause"):
            await clock.sleep(call["consumer_pause"])
    return "ok"


def _named(known: Mapping[str, V], name: str, otherwise: str) -> V:
    if name not in known:
        raise ValueError(f"{otherwise} {_shown(name)}")
    return known[name]


def _one_of(value: Any, key: str, allowed: tuple[str, ...]) -> Any:
    if value not in allowed:
        raise ValueError(f"'{key}' is {_shown(value)}; allowed: {', '.join(allowed)}")
    return value


# -- comparing ---------------------------------------------------------------------------------------------------------


def _compare(trace: str, where: str, expected: Mapping[str, Any], got: Mapping[str, Any]) -> Difference | None:
    for key, value in expected.items():
        mine = got.get(key)
        if key == "ended_at" and isinstance(value, (int, float)) and isinstance(mine, float):
            if abs(mine - value) > TIME_TOLERANCE:
                return Difference(trace, where, key, value, round(mine, 6))
        elif mine != value or type(mine) is not type(value):
            return Difference(trace, where, key, value, mine)
    for key in got:
        if key not in expected:
            return Difference(trace, where, key, None, got[key])
    return None


def _shown(value: Any) -> str:
    return f"'{printable(value)}'" if isinstance(value, str) else json.dumps(value, default=repr)


_PLAYERS: dict[str, Callable[[Mapping[str, Any]], Difference | None]] = {
    "steps": _play_steps,
    "scenarios": _play_scenario,
}
