"""`labkit sweep`: its table, its file, and how it ends when it is interrupted."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep

import pytest

import labkit
from labkit.cli import main
from labkit.scenario import load_scenario, sweep

SMALL = """\
scenario: {title: "Fifteen seconds", duration: 15, seed: 3}
services:
  parts_availability:
    _type: parts_availability
    latency: {distribution: lognormal, median: 0.05, sigma: 0.4}
    faults:
      - {from: 3, to: 6, fault: error}
middleware:
  breaker: {_type: circuit_breaker, failure_threshold: 3, cooldown_period: 4}
  limit: {_type: timeout, timeout: 2}
functions:
  parts_availability: {_type: parts_availability, middleware: [breaker, limit]}
workload:
  - {function: parts_availability, rate: 10, arrivals: poisson}
"""
VARY = ("--vary", "failure_threshold=1..3", "--vary", "cooldown_period=2,4")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a scenario, in which the command is called."""
    monkeypatch.chdir(tmp_path)
    Path("small.yaml").write_text(SMALL, encoding="utf-8")
    return tmp_path


def cells(line: str) -> list[str]:
    """A line of a table."""
    return re.split(r"\s{2,}", line.strip())


def test_it_prints_a_line_a_combination(capsys: pytest.CaptureFixture[str]) -> None:
    """The table has a line a combination, with the median and the spread over the seeds of each metric asked for."""
    words = [*VARY, "--seeds", "3", "--jobs", "1", "--metric", "opens,offered", "--metric", "recovery_s"]
    assert main(["sweep", "small.yaml", *words, "--out", "out.jsonl"]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    head, numbers, end = printed.out.rstrip("\n").split("\n\n")
    assert head == "Fifteen seconds\n18 runs, each from 3 seeds: the median, and least to most"
    assert end == "Results: out.jsonl"
    rows = [cells(line) for line in numbers.splitlines()]
    assert rows[0][:3] == ["failure_threshold", "cooldown_period", "opens"]
    assert [row[:2] for row in rows[1:]] == [[a, b] for a in "123" for b in "24"]
    table = sweep("small.yaml", {"failure_threshold": "1..3", "cooldown_period": "2,4"}, seeds=3, jobs=1)
    offered = table.cells("offered")[0]
    assert f"{offered.median:g}" in rows[1]
    assert f"{offered.low:g} to {offered.high:g}" in rows[1]


def test_its_file_is_found_again_without_a_name(capsys: pytest.CaptureFixture[str]) -> None:
    """Without --out the file is named for the sweep: the same words find it, other values write another."""
    for words in (VARY, VARY, VARY[:2]):
        assert main(["sweep", "small.yaml", *words, "--jobs", "1"]) == 0
    files = sorted(path.name for path in Path.cwd().glob("*.jsonl"))
    assert len(files) == 2
    assert all(re.fullmatch(r"small-[0-9a-f]{8}\.jsonl", name) for name in files)
    assert capsys.readouterr().out.count(f"Results: {files[0]}\n") in (1, 2)


def test_set_changes_all_runs() -> None:
    """--set holds in every run of the sweep."""
    main(["sweep", "small.yaml", *VARY[:2], "--set", "scenario.duration=8", "--jobs", "1", "--out", "o.jsonl"])
    _, *lines = map(json.loads, Path("o.jsonl").read_text("utf-8").splitlines())
    short = load_scenario("small.yaml", values={"scenario.duration": 8})
    assert [line["metrics"] for line in lines] == [
        {name: row[name] for name in lines[0]["metrics"]}
        for row in sweep(short, {"failure_threshold": "1..3"}, jobs=1).rows
    ]


@pytest.mark.parametrize(
    ("words", "name"), [(VARY, "map.png"), (VARY[:2], "line.svg"), (VARY, "map.pdf"), (VARY[:2], "L.PDF")]
)
def test_a_sweep_is_drawn(words: tuple[str, ...], name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Two varied values are drawn as a map, one as a line, of the first metric named."""
    assert main(["sweep", "small.yaml", *words, "--jobs", "1", "--metric", "opens", "--plot", name]) == 0
    content = Path(name).read_bytes()
    assert content.startswith({"svg": b"<svg", "png": b"\x89PNG", "pdf": b"%PDF"}[name[-3:].lower()])
    assert capsys.readouterr().out.endswith(f"Picture: {name}\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--vary", "failure_treshold=1..3"], "did you mean 'failure_threshold'?"),
        (["--vary", "failure_threshold"], "is not NAME=VALUES; values may be 1..10, "),
        (["--vary", "failure_threshold=3..1"], "a range goes upwards"),
        (["--vary", "failure_threshold=0..2"], "small.yaml:9: 'failure_threshold'"),
        ([*VARY, "--metric", "recovery"], "did you mean 'recovery_s'?"),
        ([*VARY, "--seeds", "none"], "may be a count such as 20"),
        ([*VARY, "--jobs", "0"], "jobs is 0"),
        ([*VARY, "--jobs", "1000000"], "jobs is 1000000; it must be a whole number from 1 to 256"),
        ([*VARY, "--seeds", "9" * 5000], "has 5,000 digits; at most 40 are read"),
        ([*VARY, "--seeds", "0.." + "9" * 30], "has more than 10,000 values"),
        ([*VARY, "--seeds", "9" * 30], "seeds; there may be from 1 to 10,000"),
        ([*VARY, "--seeds=-1,3"], "the seeds are -1, 3; they may be a count"),
        (
            [word for n in range(3) for word in ("--vary", f"a{n}=1..10000")],
            "100,000,000 runs; at most",
        ),
        ([word for n in range(2000) for word in ("--vary", f"a{n}=1..10000")], "runs; at most 1,000,000 are made"),
        ([*VARY, "--dask", "nonsense://x"], "--dask 'nonsense://x' is not the address of a scheduler"),
        ([*VARY, "--dask", ""], "is not the address of a scheduler"),
        (
            [*VARY, "--out", "/dev/null"],
            "/dev/null cannot be written: it is a device or a pipe",
        ),
        ([*VARY, "--out", "nowhere/out"], "nowhere/out cannot be written: no such file or directory"),
        ([*VARY, "--out", "same.png", "--plot", "same.png"], "--plot and --out both name same.png; name two files"),
        ([*VARY, "--plot", "map.gif"], ".png, .svg or .pdf, and 'map.gif' is none of them"),
        ([*VARY, "--vary", "workload.0.rate=1,2", "--plot", "map.png"], "--plot draws one varied value or two"),
        ([*VARY, "--out", "small.yaml"], "--out names small.yaml, which is what is read; name another file"),
    ],
)
def test_what_cannot_be_swept_is_one_sentence(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong name, range, metric or file is one line on stderr before anything is run, and ends with 2."""
    assert main(["sweep", "small.yaml", *words]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert said in printed.err
    assert Path("small.yaml").read_text("utf-8") == SMALL
    assert not list(Path.cwd().glob("*.jsonl"))


# -------------------------------------------------------------------------------------------------------- interruptions


@pytest.mark.parametrize("times", [1, 2])
def test_the_first_ctrl_c_lets_a_run_end_and_the_second_does_not(
    times: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One Ctrl-C in the middle of a run keeps that run's result, two in it lose it; each says how far it came."""
    from labkit.scenario.run import runner as made

    real = made.run_scenario

    def interrupted(*args: object, **options: object) -> object:
        for _ in range(times):
            signal.raise_signal(signal.SIGINT)
        return real(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(made, "run_scenario", interrupted)
    monkeypatch.setattr(signal, "getsignal", lambda number: signal.default_int_handler)
    assert main(["sweep", "small.yaml", *VARY, "--jobs", "1", "--out", "out.jsonl"]) == 130
    first, last = capsys.readouterr().err.splitlines()
    assert first == "labkit: stopping after the runs under way; Ctrl-C again stops at once"
    went = "1 of 6 runs are in out.jsonl, and the same command goes on from there"
    assert last == f"labkit: interrupted; {went if times == 1 else 'nothing was run yet'}"
    assert runs_in(Path("out.jsonl")) == (1 if times == 1 else 0)


def until(holds: Callable[[], object], seconds: float = 60.0) -> None:
    """Wait for a condition, with a limit."""
    end = monotonic() + seconds
    while not holds():
        assert monotonic() < end, "it did not happen in time"
        sleep(0.01)


def processes_of(group: int) -> list[int]:
    """The live processes of a process group."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, of = path.read_text().rpartition(")")[2].split()[:3]
        except OSError:
            continue
        if int(of) == group and state != "Z":
            found.append(int(path.parent.name))
    return found


def runs_in(path: Path) -> int:
    """How many runs are in a file of results."""
    return max(0, path.read_bytes().count(b"\n") - 1) if path.exists() else 0


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="asks Linux for its processes")
@pytest.mark.parametrize(("how", "status"), [("SIGINT", 130), ("SIGKILL", -9)])
def test_an_interrupted_sweep_leaves_no_process_and_goes_on(how: str, status: int, folder: Path) -> None:
    """Ctrl-C says how to go on; even killed, no worker is left, and the same command ends in the bytes of one go."""
    command = [sys.executable, "-m", "labkit", "sweep", "small.yaml", *VARY, "--seeds", "40", "--jobs", "2"]
    command += ["--set", "workload.0.rate=20", "--out", "out.jsonl"]
    environ = {**os.environ, "PYTHONPATH": str(Path(labkit.__file__).parents[1])}
    with subprocess.Popen(
        command,
        env=environ,
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background job ignores it
    ) as process:
        try:
            until(lambda: runs_in(folder / "out.jsonl") >= 5)
            if how == "SIGINT":  # a terminal sends it to all of them
                os.killpg(process.pid, signal.SIGINT)
            else:
                process.kill()
            out, err = process.communicate(timeout=60)
            until(lambda: not processes_of(process.pid))
        finally:
            for left in processes_of(process.pid):
                os.kill(left, signal.SIGKILL)
    there = runs_in(folder / "out.jsonl")
    assert (process.returncode, out) == (status, "")
    assert 5 <= there < 240
    if how == "SIGINT":
        said = re.fullmatch(
            r"labkit: stopping after the runs under way; Ctrl-C again stops at once\n"
            r"labkit: interrupted; (\d+) of 240 runs are in out.jsonl, and the same command goes on from there\n",
            err,
        )
        assert said is not None, err
        assert int(said[1]) == there
    again = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=100)
    assert (again.returncode, again.stderr) == (0, "")
    content = (folder / "out.jsonl").read_bytes()
    assert runs_in(folder / "out.jsonl") == 240
    header, *lines = map(json.loads, content.splitlines())
    assert [line["run"] for line in lines] == list(range(240))
    assert header["seeds"] == list(range(3, 43))
