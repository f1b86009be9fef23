"""Grids, their runs on one core and on several, and the file from which an interrupted sweep goes on."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.errors import ConfigError, LabkitError
from labkit.scenario import SweepTable, metrics, run_scenario, sweep
from labkit.scenario.sweeps import jobs as workers
from labkit.scenario.sweeps.grid import parse_seeds, parse_vary, values_of
from labkit.scenario.sweeps.sweep import digest

VARY = {"failure_threshold": "1..3", "cooldown_period": [2, 4]}


@pytest.fixture
def short(small: Any) -> Any:
    """A run of a few milliseconds whose latencies depend on its seed."""
    latency = {"distribution": "lognormal", "median": 0.05, "sigma": 0.5}
    return small(scenario__duration=15, services__parts_availability__latency=latency, workload__0__arrivals="poisson")


# ----------------------------------------------------------------------------------------------------------- the values


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1..4", (1, 2, 3, 4)),
        ("10..40:10", (10, 20, 30, 40)),
        ("10..39:10", (10, 20, 30)),
        ("0.5..2.5:0.5", (0.5, 1.0, 1.5, 2.0, 2.5)),
        ("0.1..0.3:0.1", (0.1, 0.2, 0.3)),
        ("-1..1", (-1, 0, 1)),
        ("5,15,30", (5, 15, 30)),
        ("1..3,10,20..40:10", (1, 2, 3, 10, 20, 30, 40)),
        ("constant, poisson", ("constant", "poisson")),
        ("[breaker, limit],[limit, breaker]", ("[breaker, limit]", "[limit, breaker]")),
        ("{a: 1, b: 2},null", ("{a: 1, b: 2}", "null")),
        ("1e3,.5", (1000.0, 0.5)),
    ],
)
def test_values_are_ranges_and_lists(text: str, values: tuple[Any, ...]) -> None:
    """Ranges with and without a step, lists, names and lists of YAML give their values in order, exactly."""
    found = values_of("x", text)
    assert found == values
    assert [type(one) for one in found] == [type(one) for one in values]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "lacks a value"),
        ("1,,2", "lacks a value"),
        ("0.5..2.5", "needs a step, such as 0.5..2.5:0.5"),
        ("5..1", "a range goes upwards"),
        ("1..5:0", "a range goes upwards"),
        ("..5", "has no beginning"),
        ("1..", "is no range"),
        ("a..b", "is no range"),
        ("1..1000000", "more than 10,000 values; take a larger step"),
        ("0..1:1e-999999999", "is no number that can be run"),
        ("0..1e400:1", "is no number that can be run"),
        ("0..1:1e-30", "more than 10,000 values; take a larger step"),
        ("1e999", "is no number that can be run"),
        ("9" * 5000, "has 5,000 digits; at most 40 are read"),
        ("0.." + "9" * 5000, "has 5,000 digits; at most 40 are read"),
        ("0.5.." + "9" * 5000 + ":0.5", "is no number that can be run"),
        ("5,5", "the value 5 twice"),
    ],
)
def test_values_that_cannot_be_read_are_a_sentence(text: str, said: str) -> None:
    """What is no list of values is refused in one sentence that names the parameter."""
    with pytest.raises(ConfigError) as refused:
        values_of("failure_threshold", text)
    assert said in str(refused.value)
    assert "failure_threshold" in str(refused.value)
    assert "\n" not in str(refused.value)


@given(st.text(alphabet="0123456789.,:-+e[]{}'\" ax", max_size=20))
def test_any_text_gives_values_or_a_sentence(text: str) -> None:
    """No text whatever makes reading values end in another error, and values are never doubled."""
    try:
        found = values_of("x", text)
    except ConfigError:
        return
    assert found
    assert len({repr(one) for one in found}) == len(found)


def test_what_varies_is_name_and_values() -> None:
    """A word without a name, or a name that stands twice, is refused with the forms that are allowed."""
    assert parse_vary(["b=1,2", "a=x"]) == {"b": (1, 2), "a": ("x",)}
    for words, said in [(["failure_threshold"], "is not NAME=VALUES"), (["a=1", "a=2"], "twice")]:
        with pytest.raises(ConfigError, match=said) as refused:
            parse_vary(words)
        assert "1..10" in str(refused.value)


def test_seeds_are_counted_from_the_scenarios_own() -> None:
    """A number is how many seeds from the scenario's own on; a range or a list names them."""
    assert parse_seeds("3", 7) == (7, 8, 9)
    assert parse_seeds("0..2", 7) == (0, 1, 2)
    for text, said in [("0", "from 1 to"), ("1.5", "may be a count"), ("x", "may be a count"), ("3,3", "twice")]:
        with pytest.raises(ConfigError, match=said):
            parse_seeds(text, 7)


# ------------------------------------------------------------------------------------------------------------- the runs


def test_every_combination_is_run_from_every_seed(short: Any) -> None:
    """Rows stand in the order of the grid, and each is what a run with those values and that seed gives."""
    table = sweep(short, VARY, seeds=2, jobs=1)
    assert table.parameters == ("failure_threshold", "cooldown_period")
    assert table.seeds == (3, 4)
    assert [(row["failure_threshold"], row["cooldown_period"], row["seed"]) for row in table.rows] == [
        (threshold, cooldown, seed) for threshold in (1, 2, 3) for cooldown in (2, 4) for seed in (3, 4)
    ]
    alone = short.with_values({"failure_threshold": 2, "cooldown_period": 4, "scenario.seed": 4})
    numbers = metrics(run_scenario(alone))["all"]
    assert {name: table.rows[7][name] for name in numbers} == numbers
    assert table.rows[6]["offered"] != table.rows[7]["offered"]


def test_cells_are_medians_with_their_spread(short: Any) -> None:
    """A cell has the median, the least and the most over the seeds, and None where no run has a number."""
    table = sweep(short, {"failure_threshold": [1, 1000]}, seeds=3, jobs=1)
    opened, closed = table.cells("opens")
    of_one = sorted(row["opens"] for row in table.rows[:3])
    assert (opened.values, opened.median, opened.low, opened.high) == ((1,), of_one[1], of_one[0], of_one[2])
    assert (closed.values, closed.median, closed.known) == ((1000,), 0, 3)
    never = table.cells("time_to_open_s")[1]
    assert (never.median, never.low, never.high, never.known) == (None, None, None, 0)
    with pytest.raises(ConfigError, match="did you mean 'opens'"):
        table.cells("opns")


def test_several_functions_are_measured_apart(small: Any) -> None:
    """Where there are several functions, the metrics of each are in the rows under its name."""
    two = small(
        scenario__duration=6,
        functions__stock={"_type": "parts_availability", "service": "parts_availability"},
        workload=[{"function": "parts_availability", "rate": 2}, {"function": "stock", "rate": 3}],
    )
    (row,) = sweep(two, {"failure_threshold": [3]}, jobs=1).rows
    assert (row["offered"], row["parts_availability.offered"], row["stock.offered"]) == (30, 12, 18)


def test_any_yaml_can_vary(small: Any) -> None:
    """Values may be lists of YAML as well: the order of the middleware, for one."""
    table = sweep(
        small(scenario__duration=6),
        {"functions.parts_availability.middleware": [["limit"], ["breaker", "limit"]]},
        jobs=1,
    )
    assert [row["opens"] for row in table.rows] == [0, 1]
    assert [row["functions.parts_availability.middleware"] for row in table.rows] == [
        '["limit"]',
        '["breaker", "limit"]',
    ]


@pytest.mark.parametrize(
    ("vary", "options", "said"),
    [
        ({"failure_treshold": "1..3"}, {}, "did you mean 'failure_threshold'"),
        ({"middleware.braker.failure_threshold": [1]}, {}, "did you mean 'breaker'"),
        ({"failure_threshold": "0..3"}, {}, "'failure_threshold' of middleware 'breaker' (circuit_breaker) is 0"),
        ({"workload.0.rate": [10, -1]}, {}, "'rate' of workload entry 1 is -1"),
        ({"seed": "1..3"}, {}, "--seeds"),
        ({"opens": "1..3"}, {}, "'opens' is what a run measures"),
        ({}, {}, "nothing is varied"),
        ({"failure_threshold": []}, {}, "has no values"),
        ({"failure_threshold": 3}, {}, "the values of 'failure_threshold' are 3"),
        ({"failure_threshold": [object()]}, {}, "is a object"),
        ({"failure_threshold": "1..3"}, {"seeds": 0}, "0 seeds"),
        ({"failure_threshold": "1..3"}, {"seeds": [1, -1]}, "the seeds are"),
        ({"failure_threshold": "1..3"}, {"jobs": 0}, "jobs is 0"),
        ({"failure_threshold": "1..1000", "cooldown_period": "1..1000"}, {"seeds": 2}, "2,000,000 runs"),
    ],
)
def test_a_sweep_that_cannot_be_made_is_a_sentence(
    small: Any, vary: dict[str, Any], options: dict[str, Any], said: str
) -> None:
    """A misspelt path, a value out of range or too many runs is refused before the first run."""
    runs: list[int] = []
    with pytest.raises(ConfigError) as refused:
        sweep(small(), vary, progress=lambda done, of: runs.append(done), **options)
    assert said in str(refused.value)
    assert runs == []


def test_progress_counts_the_runs(short: Any) -> None:
    """Progress is told from nothing to all, a run at a time on one core."""
    told: list[tuple[int, int]] = []
    sweep(short, {"failure_threshold": "1..4"}, jobs=1, progress=lambda done, of: told.append((done, of)))
    assert told == [(0, 4), (1, 4), (2, 4), (3, 4), (4, 4)]


# ------------------------------------------------------------------------------------------------------------- the file


def test_the_file_says_what_it_holds(short: Any, tmp_path: Path) -> None:
    """The first line names the sweep, every further one a run with its key, and the rows are those lines."""
    out = tmp_path / "out.jsonl"
    table = sweep(short, VARY, seeds=2, jobs=1, out=out)
    header, *lines = map(json.loads, out.read_text("utf-8").splitlines())
    assert header["schema"] == "labkit.sweep/1"
    assert header["vary"] == {"failure_threshold": [1, 2, 3], "cooldown_period": [2, 4]}
    assert (header["seeds"], header["digest"]) == ([3, 4], digest(short))
    assert [line["run"] for line in lines] == list(range(12))
    assert [{**line["vary"], "seed": line["seed"], **line["metrics"]} for line in lines] == table.rows


class Stop(Exception):
    """What interrupts a sweep in these tests."""


def interrupted(short: Any, out: Path, after: int) -> None:
    """A sweep that is stopped once so many runs are done."""

    def stop(done: int, of: int) -> None:
        if done >= after:
            raise Stop

    with pytest.raises(Stop):
        sweep(short, VARY, seeds=2, jobs=1, out=out, progress=stop)


def test_an_interrupted_sweep_goes_on_and_ends_in_the_same_bytes(short: Any, tmp_path: Path) -> None:
    """Stopped three times, with a torn line each time, it makes no run twice and its file is that of one go."""
    whole = tmp_path / "whole.jsonl"
    table = sweep(short, VARY, seeds=2, jobs=1, out=whole)
    out = tmp_path / "parts.jsonl"
    for after in (3, 5, 9):
        interrupted(short, out, after)
        lines = out.read_bytes().splitlines(keepends=True)
        assert len(lines) == 1 + after
        with open(out, "ab") as file:
            file.write(lines[1][: 10 * after])
    told: list[int] = []
    again = sweep(short, VARY, seeds=2, jobs=1, out=out, progress=lambda done, of: told.append(done))
    assert told == [9, 10, 11, 12]
    assert out.read_bytes() == whole.read_bytes()
    assert again == table
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["parts.jsonl", "whole.jsonl"]


def test_a_file_torn_in_its_first_line_begins_anew(short: Any, tmp_path: Path) -> None:
    """A header of which only a part was written is written again, and everything is run."""
    whole, torn = tmp_path / "whole.jsonl", tmp_path / "torn.jsonl"
    sweep(short, {"failure_threshold": "1..2"}, jobs=1, out=whole)
    for length in (0, 1, 30):
        torn.write_bytes(whole.read_bytes()[:length])
        sweep(short, {"failure_threshold": "1..2"}, jobs=1, out=torn)
        assert torn.read_bytes() == whole.read_bytes()


def test_a_finished_sweep_runs_nothing_again(short: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Called again, a finished sweep reads its table from the file, in whatever order the lines stand."""
    out = tmp_path / "out.jsonl"
    table = sweep(short, VARY, jobs=1, out=out)
    content = out.read_bytes()
    header, *lines = content.splitlines(keepends=True)
    out.write_bytes(header + b"".join(reversed(lines)) + lines[2])
    monkeypatch.setattr(workers, "run_chunk", None)
    assert sweep(short, VARY, jobs=1, out=out) == table
    assert out.read_bytes() == content


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"vary": {"failure_threshold": "1..4", "cooldown_period": [2, 4]}}, "it varies other values"),
        ({"seeds": 3}, "it has other seeds"),
        ({"values": {"workload.0.rate": 11}}, "its scenario had other contents"),
        ({"version": "0.0.9"}, "it was begun with labkit 0.0.9"),
        ({"line": b'{"run": 99}\n{"run": 1}\n'}, "line 3 of .* is not one of this sweep's"),
        ({"content": b"failure_threshold,1\n"}, "holds no results of a sweep"),
        ({"content": b'{"schema": "labkit.run/1"}\n'}, "holds no results of a sweep"),
    ],
)
def test_a_file_of_another_sweep_is_left_alone(short: Any, tmp_path: Path, change: dict[str, Any], said: str) -> None:
    """What does not fit is one sentence that says why, and the file keeps its bytes."""
    out = tmp_path / "out.jsonl"
    interrupted(short, out, 1)
    header, *lines = out.read_bytes().splitlines(keepends=True)
    if "version" in change:
        header = json.dumps({**json.loads(header), "labkit": change["version"]}).encode() + b"\n"
    out.write_bytes(change.get("content", header + b"".join(lines)) + change.get("line", b""))
    before = out.read_bytes()
    with pytest.raises(ConfigError, match=said) as refused:
        sweep(
            short.with_values(change["values"]) if "values" in change else short,
            change.get("vary", VARY),
            seeds=change.get("seeds", 2),
            jobs=1,
            out=out,
        )
    assert "\n" not in str(refused.value)
    assert out.read_bytes() == before


def test_layout_and_comments_are_no_other_contents(small: Any) -> None:
    """A scenario's digest is of what it says: a comment changes nothing, a value does."""
    text = small.text
    commented = small(
        text.replace("scenario:", "# a comment\nscenario:").replace(
            "{from: 5, to: 12, fault: error}", "{from:  5,  to: 12, fault: error}"
        )
    )
    assert digest(commented) == digest(small())
    assert digest(small(scenario__seed=4)) != digest(small())


def test_a_file_that_cannot_be_written_is_a_sentence(short: Any, tmp_path: Path) -> None:
    """A folder, or a folder that is not there, is refused in a sentence."""
    for out in (tmp_path, tmp_path / "nowhere" / "out.jsonl"):
        with pytest.raises(ConfigError, match="cannot be written"):
            sweep(short, VARY, out=out)


@pytest.mark.skipif(sys.platform == "win32", reason="files are not locked there")
def test_two_sweeps_do_not_write_one_file(short: Any, tmp_path: Path) -> None:
    """While a sweep writes a file, another one that is given it is refused, and the first goes on."""
    out = tmp_path / "out.jsonl"
    refused = []

    def meanwhile(done: int, of: int) -> None:
        if done == 1:
            with pytest.raises(ConfigError, match="is being written by another sweep") as error:
                sweep(short, VARY, jobs=1, out=out)
            refused.append(error)

    assert len(sweep(short, VARY, jobs=1, out=out, progress=meanwhile).rows) == 6
    assert refused


# -------------------------------------------------------------------------------------------------------- the processes


def test_several_processes_give_the_same_bytes(short: Any, tmp_path: Path) -> None:
    """Two processes and one make the same table and the same file, and none is left."""
    import multiprocessing

    before = set(multiprocessing.active_children())
    one = sweep(short, VARY, seeds=3, jobs=1, out=tmp_path / "one.jsonl")
    two = sweep(short, VARY, seeds=3, jobs=2, out=tmp_path / "two.jsonl")
    assert two == one
    assert (tmp_path / "two.jsonl").read_bytes() == (tmp_path / "one.jsonl").read_bytes()
    assert set(multiprocessing.active_children()) == before


def test_a_sweep_of_processes_that_is_stopped_leaves_none_and_goes_on(short: Any, tmp_path: Path) -> None:
    """An exception on the way ends the processes; what is in the file is not run again."""
    import multiprocessing

    out = tmp_path / "out.jsonl"
    before = set(multiprocessing.active_children())

    def stop(done: int, of: int) -> None:
        if done:
            raise Stop

    with pytest.raises(Stop):
        sweep(short, VARY, seeds=3, jobs=2, out=out, progress=stop)
    assert set(multiprocessing.active_children()) == before
    there = len(out.read_bytes().splitlines()) - 1
    assert there >= 1
    told: list[int] = []
    sweep(short, VARY, seeds=3, jobs=1, out=out, progress=lambda done, of: told.append(done))
    assert told == list(range(there, 19))
    sweep(short, VARY, seeds=3, jobs=1, out=tmp_path / "one.jsonl")
    assert out.read_bytes() == (tmp_path / "one.jsonl").read_bytes()


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_sweep_that_is_asked_to_stop_keeps_the_runs_under_way(short: Any, jobs: int, tmp_path: Path) -> None:
    """Once `stop` says so no run is begun, those under way are in the file, and the same call goes on from there."""
    import multiprocessing

    out, done = tmp_path / "out.jsonl", [0]
    before = set(multiprocessing.active_children())
    with pytest.raises(KeyboardInterrupt):
        sweep(
            short,
            VARY,
            seeds=20,
            jobs=jobs,
            out=out,
            progress=lambda many, of: done.__setitem__(0, many),
            stop=lambda: done[0] >= 1,
        )
    assert set(multiprocessing.active_children()) == before
    there = len(out.read_bytes().splitlines()) - 1
    assert 1 <= there == done[0] < 120
    table = sweep(short, VARY, seeds=20, jobs=1, out=out)
    assert table.rows == sweep(short, VARY, seeds=20, jobs=1).rows


def test_a_stop_after_the_last_run_is_none(short: Any) -> None:
    """Where all runs are there when `stop` says so, there is a table."""
    done = [0]
    table = sweep(
        short, {"failure_threshold": "1..2"}, jobs=1, progress=lambda many, of: done.__setitem__(0, many),
        stop=lambda: done[0] == 2,
    )  # fmt: skip
    assert len(table.rows) == 2


def test_a_file_of_results_is_a_file(short: Any, tmp_path: Path) -> None:
    """A pipe is refused before anybody waits for who reads it."""
    if not hasattr(os, "mkfifo"):
        pytest.skip("there are no pipes with names here")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigError, match="it is a device or a pipe, and results are a file"):
        sweep(short, VARY, out=tmp_path / "pipe")


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL there")
def test_a_process_that_is_killed_is_a_sentence(short: Any, tmp_path: Path) -> None:
    """A worker that is killed from outside ends the sweep with a sentence; the file is kept and goes on."""
    import multiprocessing

    out = tmp_path / "out.jsonl"
    before = set(multiprocessing.active_children())

    def kill(done: int, of: int) -> None:
        if done:
            for child in set(multiprocessing.active_children()) - before:
                os.kill(child.pid, signal.SIGKILL)

    with pytest.raises(LabkitError, match="was ended from outside"):
        sweep(short, VARY, seeds=20, jobs=2, out=out, progress=kill)
    assert set(multiprocessing.active_children()) == before
    table = sweep(short, VARY, seeds=20, jobs=1, out=out)
    assert table.rows == sweep(short, VARY, seeds=20, jobs=1).rows


def test_a_script_is_not_run_again_by_its_workers() -> None:
    """A script that calls sweep() on two processes needs no guard, not even one that comes from standard input."""
    script = (
        "from labkit.scenario import sweep\n"
        "print('begun')\n"
        "print(len(sweep('trap-error-strings', {'failure_threshold': [2, 3]}, jobs=2).rows))\n"
    )
    done = subprocess.run([sys.executable, "-"], input=script, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("begun\n2\n", "")


def test_another_labkit_does_not_answer(short: Any) -> None:
    """A worker with another version refuses, so that no table mixes two."""
    job = workers.Job(workers.Job.of(short, ["failure_threshold"]).scenario, ("failure_threshold",), "0.0.9")
    with pytest.raises(LabkitError, match=r"begun with 0\.0\.9"):
        workers.run_chunk(job, [(0, (1,), 3)])


# ----------------------------------------------------------------------------------------------------------------- Dask


@pytest.fixture
def cluster() -> Iterator[Any]:
    """Two Dask workers on this machine, each a process, and their pids."""
    distributed = pytest.importorskip("distributed")
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # it tells of the worker that the test kills
    with (
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
            host="127.0.0.1",
            silence_logs=logging.CRITICAL,
        ) as there,
        distributed.Client(there, set_as_default=False) as client,
    ):
        yield there.scheduler_address, list(client.run(os.getpid).values())


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL there")
def test_a_dask_cluster_makes_the_runs_though_a_worker_is_killed(short: Any, tmp_path: Path, cluster: Any) -> None:
    """Of two workers one is killed on the way: nothing is lost or counted twice, and the file is that of one core."""
    address, pids = cluster
    assert len(pids) == 2
    killed: list[int] = []
    told: list[int] = []

    def kill(done: int, of: int) -> None:
        told.append(done)
        if done >= 20 and not killed:
            killed.append(done)
            os.kill(pids[0], signal.SIGKILL)

    there = sweep(short, VARY, seeds=20, dask=address, out=tmp_path / "dask.jsonl", progress=kill)
    assert killed
    assert killed[0] < 120
    assert told == sorted(set(told))
    assert told[-1] == len(there.rows) == 120
    here = sweep(short, VARY, seeds=20, jobs=1, out=tmp_path / "here.jsonl")
    assert there == here
    assert (tmp_path / "dask.jsonl").read_bytes() == (tmp_path / "here.jsonl").read_bytes()


def test_without_dask_it_says_what_to_install(short: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where `distributed` is not installed, a sweep on a cluster is refused with the command that installs it."""
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(LabkitError, match=r"pip install 'labkit-circuit-breakers\[dask\]'"):
        sweep(short, VARY, dask="tcp://127.0.0.1:8786")


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("", "is not the address of a scheduler, such as tcp://127.0.0.1:8786"),
        ("tcp://127.0.0.1:1", "no Dask scheduler answers at tcp://127.0.0.1:1"),
        ("nonsense://x", "it may begin with tcp, tls, ws, wss, ucx"),
    ],
)
def test_a_scheduler_that_is_not_there_is_a_sentence(
    short: Any, address: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An address at which nobody answers is named, with an example of a right one."""
    pytest.importorskip("distributed")
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    monkeypatch.setattr(workers, "_ANSWER_WITHIN", 0.3)
    with pytest.raises(LabkitError) as refused:
        sweep(short, VARY, dask=address)
    assert said in str(refused.value)
    assert "tcp://127.0.0.1:8786" in str(refused.value)


def test_the_table_is_a_value(short: Any) -> None:
    """Two sweeps of the same scenario are equal, and tables of others are not."""
    one = sweep(short, {"failure_threshold": [1]}, jobs=1)
    assert one == sweep(short, {"failure_threshold": [1]}, jobs=1)
    assert one != sweep(short, {"failure_threshold": [2]}, jobs=1)
    assert isinstance(one, SweepTable)
