"""`labkit run SCENARIO`: run a scenario in virtual time and say what happened, in sentences and in numbers.

SCENARIO is a YAML file, the name of a scenario that comes with labkit (`labkit scenarios` lists them), or either with
`:VARIANT` behind it. `--set` changes values of it by their path, and `--compare` runs a second one beside it, as that
stands in its file, from the same seed if `--seed` gives one; ":VARIANT" alone is a variant of the first.

`--json` writes one object, the same bytes for the same scenario and seed:

    schema       "labkit.run/1"
    scenario     name, title, semantics, duration, replicas, set (what --set changed)
    seed         of everything random
    metrics      all: every metric by its name; functions: the same for each function
    compare      with --compare: scenario, seed and metrics of the other run
    differences  with --compare: all and functions, the other run's number less the first's; null where there is none

Exit status: 0 when it ran, 2 when it cannot be run, 130 on Ctrl-C.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from labkit.scenario import Scenario, Trace

__all__ = ["HELP", "add_arguments", "run"]

HELP = "run a scenario in virtual time and say what happened; --compare runs two"

SCHEMA = "labkit.run/1"


ALWAYS = (
    *("offered", "admitted", "rejected", "succeeded", "failed", "attempts", "attempts_per_s_peak", "amplification"),
    *("in_flight_peak", "latency_p50_s", "latency_p95_s", "latency_p99_s", "goodput_per_s"),
)
"""Metrics that any run shows; the others are shown where they say something."""

WITH_BREAKERS = ("time_to_open_s", "opens", "probes", "concurrent_probes_peak", "recovery_s")


SET_HELP = (
    "change a value of it, such as middleware.breaker.failure_threshold=3, or failure_threshold=3 where that is clear"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    parser.add_argument(
        "scenario", metavar="SCENARIO", help="a YAML file, a NAME of `labkit scenarios`, or NAME:VARIANT"
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="PATH=VALUE",
        help=SET_HELP,
    )
    parser.add_argument("--seed", type=int, metavar="N", help="of everything random, instead of the file's")
    parser.add_argument("--compare", metavar="OTHER", help="run a second one as well; :VARIANT is one of the same")
    parser.add_argument("--json", metavar="OUT", help="write the metrics as JSON; - prints them instead of the text")
    parser.add_argument("--plot", metavar="OUT", help="draw the run, or both, into a .png or .svg")
    parser.add_argument("--trace", metavar="OUT", help="write every call, attempt, probe and change of state as JSON")
    parser.add_argument("--verbose", action="store_true", help="show every metric")
    parser.epilog = (
        "Exit status: 0 it ran, 2 it cannot be run, 130 Ctrl-C. The same seed gives the same result to the byte."
    )


def run(args: argparse.Namespace) -> int:
    """Run it; see `labkit run --help`."""
    from labkit.cli.files import check_picture, check_results
    from labkit.cli.text import complain, put

    if args.plot is not None:
        check_picture(args.plot)
    check_results({"--json": args.json, "--trace": args.trace, "--plot": args.plot}, kept=args.scenario)
    values = settings(args.set)
    scenarios = [_load(args.scenario, values, args.seed)]
    if args.compare is not None:
        other = args.compare
        if other.startswith(":"):
            other = (args.scenario if os.path.exists(args.scenario) else args.scenario.partition(":")[0]) + other
        scenarios.append(_load(other, {}, args.seed))
    written: list[str] = []
    try:
        made = _run(scenarios, told=args.json != "-")
        results = [(trace, measured) for trace, measured, _ in made]
        if args.json is not None:
            _write_json(args.json, scenarios, results, values)
            written += [f"Metrics: {args.json}"] if args.json != "-" else []
        if args.trace is not None:
            _write_traces(args.trace, [trace for trace, _ in results])
            written.append(f"Trace: {args.trace}")
        if args.plot is not None:
            _draw(args.plot, [trace for trace, _ in results], names_of(scenarios))
            written.insert(0, f"Picture: {args.plot}")
        if args.json != "-":
            _tell(scenarios, made, args.verbose)
            for line in written:
                put(line)
    except KeyboardInterrupt:
        complain(f"interrupted; {', '.join(written) or 'nothing was written'}")
        raise
    return 0


def settings(words: Sequence[str]) -> dict[str, str]:
    """What `--set PATH=VALUE` says.

    Raises:
        ConfigError: a word is none.
    """
    from labkit.config.findings import printable
    from labkit.errors import ConfigError

    found = {}
    for word in words:
        path, sign, value = word.partition("=")
        if not sign or not path.strip():
            raise ConfigError(f"--set {printable(word)} is not PATH=VALUE, such as failure_threshold=3")
        found[path.strip()] = value
    return found


def _load(name: str, values: Mapping[str, str], seed: int | None) -> Scenario:
    from dataclasses import replace

    from labkit.config.findings import quoted
    from labkit.errors import ConfigError
    from labkit.scenario import load_scenario

    scenario = load_scenario(name, values=values)
    if seed is None:
        return scenario
    if not 0 <= seed < 2**63:
        raise ConfigError(f"--seed is {quoted(seed)}; it must be a whole number from 0 to 2**63 - 1")
    return replace(scenario, seed=seed)


def _run(scenarios: Sequence[Scenario], told: bool) -> list[tuple[Trace, dict[str, Any], list[str]]]:
    """Run them one after the other, count, and tell if that is wanted; Ctrl-C ends it at once, wherever it comes."""
    from labkit.cli.interrupts import heeding

    def end() -> None:
        raise KeyboardInterrupt

    with heeding(end) as interrupted:
        return [_run_one(scenario, told, interrupted) for scenario in scenarios]


def _run_one(
    scenario: Scenario, told: bool, interrupted: Callable[[], bool]
) -> tuple[Trace, dict[str, Any], list[str]]:
    from labkit.cli.progress import Progress
    from labkit.scenario import metrics, run_scenario, story

    with Progress(scenario.name, counts=False) as progress:

        def part(begin: float, end: float) -> Callable[[float], None]:
            def tell(share: float) -> None:
                if interrupted():  # it came where Python could not raise it
                    raise KeyboardInterrupt
                progress(begin + (end - begin) * share)

            return tell

        trace = run_scenario(scenario, progress=part(0.0, 0.75))
        measured = metrics(trace, progress=part(0.75, 0.95))
        return trace, measured, story(trace, measured) if told else []


def names_of(scenarios: Sequence[Scenario]) -> list[str]:
    """Names that tell scenarios apart in a table: their own, or what --set has made of one."""
    names = [scenario.name for scenario in scenarios]
    if len(set(names)) == len(names):
        return names
    return [f"{names[0]} (changed)", *names[1:]] if scenarios[0] != scenarios[1] else ["first", "second"]


# ------------------------------------------------------------------------------------------------------------- as text


def _tell(
    scenarios: Sequence[Scenario], made: Sequence[tuple[Trace, dict[str, Any], list[str]]], verbose: bool
) -> None:
    from labkit.cli.text import prose, put
    from labkit.scenario import METRICS

    names = names_of(scenarios)
    told = []
    for number, (scenario, (_, _, story)) in enumerate(zip(scenarios, made, strict=True)):
        if number:
            put("")
        put(scenario.title if len(scenarios) == 1 else f"{names[number]}: {scenario.title}")
        if scenario.look_for and scenario.look_for not in told:
            put("")
            put(prose(f"Look for: {scenario.look_for}"))
            told.append(scenario.look_for)
        put("")
        put(prose(" ".join(story)))
    chosen = list(METRICS) if verbose else _that_matter([measured for _, measured, _ in made])
    put("")
    if len(made) == 1:
        _one(made[0][1], chosen)
    else:
        _two(names, made[0][1], made[1][1], chosen)


def _that_matter(found: Sequence[Mapping[str, Any]]) -> list[str]:
    """The metrics that say something about these runs."""
    from labkit.scenario import METRICS

    scopes = [scope for measured in found for scope in (measured["all"], *measured["functions"].values())]
    opened = any(scope["opens"] or scope["probes"] for scope in scopes)
    return [
        name
        for name in METRICS
        if name in ALWAYS
        or (opened and name in WITH_BREAKERS)
        or (name not in WITH_BREAKERS and any(scope[name] for scope in scopes))
        or name == "invented_answers"
    ]


def _one(measured: Mapping[str, Any], chosen: Sequence[str]) -> None:
    """A column for all, one for each function where there are several, and what a metric counts."""
    from labkit.cli.text import number, put, table
    from labkit.scenario import METRICS

    functions = measured["functions"] if len(measured["functions"]) > 1 else {}
    scopes = [measured["all"], *functions.values()]
    heads = ["metric", "all" if functions else "value", *functions]
    rows = [[name, *(number(scope[name]) for scope in scopes)] for name in chosen]
    if not functions:
        heads.append("what it counts")
        rows = [[*row, METRICS[row[0]]] for row in rows]
    put(table(heads, rows, left=(0, *([2] if not functions else []))))


def _two(names: Sequence[str], first: Mapping[str, Any], second: Mapping[str, Any], chosen: Sequence[str]) -> None:
    """The runs side by side, and the differences; by function as well where there are several in common."""
    from labkit.cli.text import number, put, table

    both = [name for name in first["functions"] if name in second["functions"]]
    several = max(len(first["functions"]), len(second["functions"])) > 1
    for scope in ("", *(both if several else ())):
        one, other = (found["functions"][scope] if scope else found["all"] for found in (first, second))
        if scope:
            put("")
        heads = [scope or "metric", *names, "difference"]
        rows = [
            [name, number(one[name]), number(other[name]), number(_less(other[name], one[name]), sign=True)]
            for name in chosen
        ]
        put(table(heads, rows))


def _less(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one - other


# ------------------------------------------------------------------------------------------------------------ as files


def _write_json(
    path: str,
    scenarios: Sequence[Scenario],
    results: Sequence[tuple[Trace, dict[str, Any]]],
    values: Mapping[str, str],
) -> None:
    import json

    from labkit.cli.files import write
    from labkit.cli.text import put

    data: dict[str, Any] = {"schema": SCHEMA, **_as_data(scenarios[0], results[0], values)}
    if len(results) > 1:
        data["compare"] = _as_data(scenarios[1], results[1], {})
        first, second = results[0][1], results[1][1]
        data["differences"] = {
            "all": _differences(first["all"], second["all"]),
            "functions": {
                name: _differences(numbers, second["functions"][name])
                for name, numbers in first["functions"].items()
                if name in second["functions"]
            },
        }
    text = json.dumps(data, indent=2)
    if path == "-":
        put(text)
    else:
        write(path, f"{text}\n".encode())


def _as_data(scenario: Scenario, result: tuple[Trace, dict[str, Any]], values: Mapping[str, str]) -> dict[str, Any]:
    return {
        "scenario": {
            "name": scenario.name,
            "title": scenario.title,
            "semantics": scenario.semantics,
            "duration": scenario.duration,
            "replicas": scenario.replicas,
            "set": dict(values),
        },
        "seed": scenario.seed,
        "metrics": result[1],
    }


def _differences(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _less(second[name], value) for name, value in first.items()}


def _write_traces(path: str, traces: Sequence[Trace]) -> None:
    from labkit.cli.files import write

    def pieces() -> Iterator[bytes]:
        several = len(traces) > 1
        for number, trace in enumerate(traces):
            yield b", " if number else b"[" if several else b""
            for piece in trace.to_json():
                yield piece.encode()
        yield b"]\n" if several else b"\n"

    write(path, pieces())


def _draw(path: str, traces: Sequence[Trace], names: Sequence[str]) -> None:
    from labkit.cli.files import drawing, save_picture

    with drawing():
        if len(traces) == 1:
            from labkit.plots.runs.trace import trace_timeline

            picture = trace_timeline(traces[0])
        else:
            from labkit.plots.runs.compare import comparison

            picture = comparison(traces[0], traces[1], names=(names[0], names[1]))
        save_picture(picture, path)
