"""Sweeps: a scenario with every combination of some values, from several seeds, on all cores, and what came of it.

    table = sweep("decision", vary={"failure_threshold": "1..10", "cooldown_period": [5, 15, 30, 60]}, seeds=20)

Runs are numbered in the order of the grid (the last parameter changes fastest, seeds within a combination). Where
there is a file, each run's result is in it as soon as it is known, and the same call goes on where an interrupted one
stopped.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice, product
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import yaml

from labkit.config.findings import printable, quoted
from labkit.config.nearest import nearest
from labkit.errors import ConfigError
from labkit.scenario.read.metrics import METRICS
from labkit.scenario.spec.library import load_scenario
from labkit.scenario.spec.model import Scenario
from labkit.scenario.sweeps.grid import Value, check_runs, seeds_of, values_of
from labkit.scenario.sweeps.jobs import Chunk, Job, check_address, in_processes, in_this_process, on_dask
from labkit.scenario.sweeps.result_file import ResultFile
from labkit.version import __version__

__all__ = ["Cell", "SweepTable", "cores", "sweep"]

MOST_JOBS = 256
_CHECKED = 1000  # combinations that are looked at before the first run; a worker looks at every one
_LARGEST_CHUNK = 8  # runs; what a worker has not handed over is lost when it is interrupted

Progress = Callable[[int, int], object]
Stop = Callable[[], bool]


class Cell(NamedTuple):
    """One combination's results for one metric.

    Attributes:
        values: the combination, in the order of `SweepTable.parameters`.
        median, low, high: over the seeds for which there is a number; None if there is none.
        known: for how many seeds there is a number.
    """

    values: tuple[Value, ...]
    median: float | None
    low: float | None
    high: float | None
    known: int


@dataclass(frozen=True)
class SweepTable:
    """What a sweep found.

    Attributes:
        scenario: its name.
        title: what it is, in a line.
        vary: the values of each parameter, in order.
        seeds: from which each combination was run.
        rows: a run each, in the order of the grid: the parameters, "seed", and every metric by its name (of one
            function, where there are several, as FUNCTION.METRIC).
    """

    scenario: str
    title: str
    vary: Mapping[str, tuple[Value, ...]]
    seeds: tuple[int, ...]
    rows: Sequence[Mapping[str, Any]]

    @property
    def parameters(self) -> tuple[str, ...]:
        """What was varied."""
        return tuple(self.vary)

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of what was measured."""
        apart = {*self.vary, "seed"}
        return tuple(name for name in self.rows[0] if name not in apart)

    def cells(self, metric: str) -> list[Cell]:
        """A metric by combination, in the order of the grid.

        Raises:
            ConfigError: there is no such metric; names the nearest.
        """
        check_metrics([metric], self.metrics)
        many = len(self.seeds)
        found = []
        for number, values in enumerate(product(*self.vary.values())):
            rows = self.rows[number * many : (number + 1) * many]
            known = [row[metric] for row in rows if row[metric] is not None]
            if known:
                found.append(Cell(values, median(known), min(known), max(known), len(known)))
            else:
                found.append(Cell(values, None, None, None, 0))
        return found


def sweep(
    scenario: Scenario | str | os.PathLike[str],
    vary: Mapping[str, str | Iterable[Any]],
    *,
    seeds: int | Iterable[int] = 1,
    jobs: int | None = None,
    out: str | os.PathLike[str] | None = None,
    dask: str | None = None,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> SweepTable:
    """Run a scenario with every combination of values.

    Args:
        scenario: one that was loaded, a file, or the name of one that comes with labkit.
        vary: values by path, such as `{"failure_threshold": "1..10"}`; see `labkit.scenario.sweeps.grid.FORMS`.
        seeds: how many (the scenario's own and those after it), or which.
        jobs: processes; as many as there are cores when left out, and 1 is this process.
        out: a file of JSON lines for the results; what is there of this sweep already is not run again.
        dask: the address of a Dask scheduler, whose workers make the runs instead.
        progress: told how many of how many runs are done.
        stop: asked a few times a second; once it says True no run is begun, those under way are finished and written,
            and KeyboardInterrupt is raised if any is missing then.

    Raises:
        ConfigError: the scenario, a path, a value or the file will not do.
        LabkitError: workers were lost.
        KeyboardInterrupt: `stop` said so.
    """
    base = scenario if isinstance(scenario, Scenario) else load_scenario(scenario)
    grid = {name: values_of(name, values) for name, values in vary.items()}
    chosen = seeds_of(seeds, base.seed)
    if jobs is not None and (type(jobs) is not int or not 1 <= jobs <= MOST_JOBS):
        raise ConfigError(f"jobs is {quoted(jobs)}; it must be a whole number from 1 to {MOST_JOBS}")
    if dask is not None:
        check_address(dask)
    runs = len(chosen)
    for values in grid.values():
        runs = min(runs * len(values), 10**18)
    _check(base, grid, runs)
    combinations = list(product(*grid.values()))
    keys = [{"vary": dict(zip(grid, values, strict=True)), "seed": seed} for values in combinations for seed in chosen]
    file = None
    if out is not None:
        file = ResultFile(Path(out), _header(base, grid, chosen), keys)
    done: dict[int, dict[str, Any]] = dict(file.done) if file is not None else {}
    try:
        if progress is not None:
            progress(len(done), runs)
        missing = [
            (number, values, seed)
            for number, (values, seed) in enumerate(product(combinations, chosen))
            if number not in done
        ]
        stop = stop or _never
        results = _results(base, grid, missing, jobs, dask, stop)
        with closing(results):
            for found in results:
                new = {number: one for number, one in found.items() if number not in done}
                if file is not None:
                    file.add(new)
                done.update(new)
                if progress is not None:
                    progress(len(done), runs)
        if len(done) < runs:
            raise KeyboardInterrupt
        if file is not None:
            file.finish()
    finally:
        if file is not None:
            file.close()
    rows = [{**key["vary"], "seed": key["seed"], **done[number]} for number, key in enumerate(keys)]  # type: ignore[dict-item]
    return SweepTable(base.name, base.title, grid, chosen, rows)


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


def digest(scenario: Scenario) -> str:
    """The digest of what a scenario says, however its file is laid out: comments and blanks do not count."""
    root = scenario._document.root
    text = "" if root is None else yaml.serialize(root, Dumper=yaml.SafeDumper, width=1_000_000)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def name_of_file(scenario: Scenario, vary: Mapping[str, tuple[Value, ...]], seeds: tuple[int, ...]) -> str:
    """A name for a sweep's results: the same for the same sweep, another for another.

    Args:
        scenario: what is run.
        vary: the values of each parameter that varies.
        seeds: one run for each, of every combination.
    """
    told = json.dumps(_header(scenario, vary, seeds))
    name = re.sub(r"[^\w. -]", "-", scenario.name)[:60]
    return f"{name}-{hashlib.sha256(told.encode()).hexdigest()[:8]}.jsonl"


def check_metrics(names: Iterable[str], known: Sequence[str]) -> None:
    """Refuse a metric that is not measured.

    Raises:
        ConfigError: names the nearest.
    """
    for name in names:
        if name not in known:
            near = nearest(name, known)
            hint = f"did you mean '{near}'?" if near else f"there are {', '.join(METRICS)}"
            raise ConfigError(f"there is no metric '{printable(name)}'; {hint}")


def metrics_of(scenario: Scenario) -> tuple[str, ...]:
    """The names of what a sweep of a scenario measures."""
    functions = scenario.stack.functions
    apart = [f"{function}.{name}" for function in functions for name in METRICS] if len(functions) > 1 else []
    return (*METRICS, *apart)


def _check(base: Scenario, grid: Mapping[str, tuple[Value, ...]], runs: int) -> None:
    if not grid:
        raise ConfigError("nothing is varied; name a value and what it shall be, such as failure_threshold=1..10")
    for name in grid:
        if name in ("seed", "scenario.seed"):
            raise ConfigError("the seed is varied by --seeds (in Python: seeds=), and not as a value")
        if name in METRICS:
            raise ConfigError(
                f"'{name}' is what a run measures; give the path of what shall vary, such as workload.0.rate"
            )
    check_runs(runs)
    for values in islice(product(*grid.values()), _CHECKED):
        base.with_values(dict(zip(grid, values, strict=True)), origin="vary")


def _header(base: Scenario, grid: Mapping[str, tuple[Value, ...]], seeds: tuple[int, ...]) -> dict[str, Any]:
    return {
        "labkit": __version__,
        "scenario": base.name,
        "digest": digest(base),
        "vary": {name: list(values) for name, values in grid.items()},
        "seeds": list(seeds),
    }


def _results(
    base: Scenario,
    grid: Mapping[str, tuple[Value, ...]],
    missing: Chunk,
    jobs: int | None,
    dask: str | None,
    stop: Stop,
) -> Generator[dict[int, dict[str, Any]], None, None]:
    """Results as they come."""
    job = Job.of(replace(base, variants={}), grid)
    many = jobs or cores()
    if not missing:
        return
    if dask is not None:
        yield from on_dask(job, _chunks(missing, 32), dask, stop)
    elif many == 1 or len(missing) == 1:
        yield from in_this_process(job, [missing], stop)
    else:
        yield from in_processes(job, _chunks(missing, many), min(many, len(missing)), stop)


def _never() -> bool:
    return False


def _chunks(runs: Chunk, workers: int) -> Iterator[Chunk]:
    """Chunks that grow small towards the end, so that no worker waits long for another."""
    start = 0
    while start < len(runs):
        size = max(1, min(_LARGEST_CHUNK, (len(runs) - start) // (workers * 8)))
        yield runs[start : start + size]
        start += size
