"""`labkit run`: what it prints, writes and draws, and how it refuses."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import labkit
from labkit.cli import main
from labkit.cli.text import number, prose, table
from labkit.scenario import METRICS, load_scenario, metrics, run_scenario

SMALL = """\
scenario:
  title: "Twenty seconds"
  look_for: "The breaker opens after three failures. It closes again after the repair, once a probe has succeeded."
  duration: 20
  seed: 3
services:
  parts_availability:
    _type: parts_availability
    latency: {distribution: lognormal, median: 0.05, sigma: 0.4}
    faults:
      - {from: 5, to: 12, fault: error}
middleware:
  breaker: {_type: circuit_breaker, failure_threshold: 3, cooldown_period: 4}
  limit: {_type: timeout, timeout: 2}
functions:
  parts_availability: {_type: parts_availability, middleware: [breaker, limit]}
workload:
  - {function: parts_availability, rate: 10}
variants:
  bare: {title: "The same without a breaker", set: {functions.parts_availability.middleware: [limit]}}
"""
TWO = SMALL.replace(
    "functions:\n",
    "functions:\n  stock: {_type: parts_availability, service: parts_availability}\n",
).replace("workload:\n", "workload:\n  - {function: stock, rate: 5}\n")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two scenarios, in which the command is called."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    Path("small.yaml").write_text(SMALL, encoding="utf-8")
    Path("two.yaml").write_text(TWO, encoding="utf-8")
    return tmp_path


def cells(line: str) -> list[str]:
    """A line of a table."""
    return re.split(r"\s{2,}", line.strip())


def test_it_prints_what_happened(capsys: pytest.CaptureFixture[str]) -> None:
    """Title, what to look for, the story and the table of numbers follow each other, prose wrapped to the terminal."""
    assert main(["run", "small.yaml"]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    title, look_for, story, numbers = printed.out.rstrip("\n").split("\n\n")
    assert title == "Twenty seconds"
    assert look_for.startswith("Look for: The breaker opens after three failures.")
    assert "The breaker opened at 5.2" in story.replace("\n", " ")
    assert max(map(len, (look_for + "\n" + story).splitlines())) <= 80
    rows = [cells(line) for line in numbers.splitlines()]
    assert rows[0] == ["metric", "value", "what it counts"]
    found = metrics(run_scenario(load_scenario("small.yaml")))["all"]
    assert [row[1] for row in rows if row[0] == "offered"] == ["200"]
    for name, value, meaning in rows[1:]:
        assert (value, meaning) == (number(found[name]), METRICS[name])
    assert not {"cancelled", "false_opens"} & {row[0] for row in rows}


def test_verbose_shows_every_metric(capsys: pytest.CaptureFixture[str]) -> None:
    """With --verbose the table has every metric, in the order in which they are documented."""
    main(["run", "small.yaml", "--verbose"])
    lines = capsys.readouterr().out.rstrip("\n").split("\n\n")[-1].splitlines()
    assert [cells(line)[0] for line in lines[1:]] == list(METRICS)


def test_several_functions_have_a_column_each(capsys: pytest.CaptureFixture[str]) -> None:
    """With several functions the numbers stand for all and for each, and add up."""
    main(["run", "two.yaml"])
    lines = capsys.readouterr().out.rstrip("\n").split("\n\n")[-1].splitlines()
    assert cells(lines[0]) == ["metric", "all", "stock", "parts_availability"]
    assert cells(lines[1]) == ["offered", "300", "100", "200"]


def test_a_name_and_a_variant_are_found(capsys: pytest.CaptureFixture[str]) -> None:
    """A scenario of the library is run by its name, and a variant by NAME:VARIANT or FILE:VARIANT."""
    assert main(["run", "check-4-order"]) == 0
    assert load_scenario("check-4-order").title in capsys.readouterr().out
    assert main(["run", "small.yaml:bare"]) == 0
    assert capsys.readouterr().out.startswith("The same without a breaker\n")


def test_json_is_the_documented_object(capsys: pytest.CaptureFixture[str]) -> None:
    """`--json -` prints one object and nothing else: schema, scenario, seed, and metrics by name and by function."""
    assert main(["run", "two.yaml", "--set", "failure_threshold=4", "--json", "-"]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    data = json.loads(printed.out)
    assert list(data) == ["schema", "scenario", "seed", "metrics"]
    assert (data["schema"], data["seed"]) == ("labkit.run/1", 3)
    assert data["scenario"] == {
        "name": "two",
        "title": "Twenty seconds",
        "semantics": "toolkit",
        "duration": 20.0,
        "replicas": 1,
        "set": {"failure_threshold": "4"},
    }
    assert data["metrics"] == metrics(run_scenario(load_scenario("two.yaml", values={"failure_threshold": 4})))
    assert set(data["metrics"]["all"]) == set(METRICS)
    assert set(data["metrics"]["functions"]) == {"stock", "parts_availability"}


def test_the_same_seed_gives_the_same_bytes(folder: Path) -> None:
    """Two processes with different hash seeds write the same JSON and the same trace; another seed writes others."""
    checkout = str(Path(labkit.__file__).parents[1])

    def written(hash_seed: str, seed: str) -> tuple[bytes, bytes]:
        subprocess.run(
            [sys.executable, "-m", "labkit", "run", "small.yaml", "--seed", seed, "--json", "j", "--trace", "t"],
            check=True,
            capture_output=True,
            timeout=60,
            env={**os.environ, "PYTHONPATH": checkout, "PYTHONHASHSEED": hash_seed},
        )
        return Path("j").read_bytes(), Path("t").read_bytes()

    first = written("1", "11")
    assert first == written("2", "11")
    other = written("1", "12")
    assert first[0] != other[0]
    assert first[1] != other[1]


def test_the_trace_is_written_whole(capsys: pytest.CaptureFixture[str]) -> None:
    """`--trace` writes the tables of the run; with --compare a list of two."""
    main(["run", "small.yaml", "--trace", "one.json", "--json", "-"])
    data = json.loads(Path("one.json").read_text("utf-8"))
    assert data == json.loads(json.dumps(run_scenario(load_scenario("small.yaml")).to_dict()))
    main(["run", "small.yaml", "--compare", ":bare", "--trace", "two.json", "--json", "-"])
    first, second = json.loads(Path("two.json").read_text("utf-8"))
    assert first == data
    assert second["title"] == "The same without a breaker"


def test_the_readmes_runs_print_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    """Each command of README.md's section on scenarios prints the lines that follow it there, in that order."""
    readme = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
    section = readme.partition("\n## Scenarios\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"```\n\$ labkit ([^\n]+)\n(.*?)```", section, re.DOTALL)
    assert len(blocks) == 2
    for command, shown in blocks:
        assert main(command.split()) == 0
        printed = iter(capsys.readouterr().out.splitlines())
        for line in shown.splitlines():
            assert line == "..." or line in printed  # `in` goes on from the line that was found last


# --------------------------------------------------------------------------------------------------------- comparison


def test_two_runs_stand_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    """With --compare both are told, and a table has a column for each and one for the difference."""
    assert main(["run", "small.yaml", "--compare", "small.yaml:bare"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("small: Twenty seconds\n")
    assert "\nsmall:bare: The same without a breaker\n" in out
    rows = [cells(line) for line in out.rstrip("\n").split("\n\n")[-1].splitlines()]
    assert rows[0] == ["metric", "small", "small:bare", "difference"]
    numbers = {row[0]: row[1:] for row in rows[1:]}
    assert numbers["offered"] == ["200", "200", "0"]
    assert numbers["attempts"][1:] == ["200", f"+{200 - int(numbers['attempts'][0])}"]
    assert numbers["time_to_open_s"][1:] == ["-", "-"]


def test_a_changed_value_is_compared_with_the_file(capsys: pytest.CaptureFixture[str]) -> None:
    """--set is of the first run only, so that a change is compared with what it changes."""
    main(["run", "small.yaml", "--set", "failure_threshold=30", "--compare", "small.yaml"])
    rows = [cells(line) for line in capsys.readouterr().out.rstrip("\n").split("\n\n")[-1].splitlines()]
    assert rows[0] == ["metric", "small (changed)", "small", "difference"]
    (failed,) = [row for row in rows if row[0] == "failed"]
    assert int(failed[1]) > int(failed[2])


def test_compared_json_has_both_runs_and_their_differences(capsys: pytest.CaptureFixture[str]) -> None:
    """The JSON of a comparison has each run's numbers, and the other's less the first's, null where one has none."""
    main(["run", "two.yaml", "--compare", ":bare", "--seed", "5", "--json", "-"])
    data = json.loads(capsys.readouterr().out)
    assert list(data) == ["schema", "scenario", "seed", "metrics", "compare", "differences"]
    assert (data["seed"], data["compare"]["seed"]) == (5, 5)
    assert data["compare"]["scenario"]["name"] == "two:bare"
    for scope in ("parts_availability", None):
        one, other, less = (
            found["functions"][scope] if scope else found["all"]
            for found in (data["metrics"], data["compare"]["metrics"], data["differences"])
        )
        for name in METRICS:
            known = one[name] is not None and other[name] is not None
            assert less[name] == (other[name] - one[name] if known else None)
    assert data["differences"]["all"]["time_to_open_s"] is None


# ------------------------------------------------------------------------------------------------------------ pictures


@pytest.mark.parametrize(
    ("words", "name", "begins"),
    [
        ([], "run.png", b"\x89PNG"),
        ([], "run.svg", b"<svg"),
        (["--compare", ":bare"], "both.png", b"\x89PNG"),
        (["--compare", ":bare"], "both.SVG", b"<svg"),
    ],
)
def test_runs_are_drawn(words: list[str], name: str, begins: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    """`--plot` writes the picture of a run, or of two, as the name ends, and says where."""
    assert main(["run", "small.yaml", *words, "--plot", name]) == 0
    assert Path(name).read_bytes().startswith(begins)
    assert capsys.readouterr().out.endswith(f"\nPicture: {name}\n")


def test_a_picture_of_two_runs_names_both() -> None:
    """The picture of a comparison carries both names."""
    main(["run", "small.yaml", "--compare", ":bare", "--plot", "both.svg"])
    text = Path("both.svg").read_text("utf-8")
    assert "small:bare" in text


def test_without_the_packages_that_draw_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where pillow is missing, a picture is refused with the command that installs it."""
    monkeypatch.setitem(sys.modules, "PIL", None)
    assert main(["run", "small.yaml", "--plot", "run.png"]) == 2
    assert "pip install 'labkit-circuit-breakers[course]'" in capsys.readouterr().err


# ------------------------------------------------------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere.yaml"], "nowhere.yaml"),
        (["decisoin"], "did you mean 'decision'?"),
        (["small.yaml:bear"], "did you mean 'small:bare'?"),
        (["small.yaml", "--compare", ":bear"], "did you mean 'small:bare'?"),
        (["small.yaml", "--set", "failure_threshold"], "is not PATH=VALUE"),
        (["small.yaml", "--set", "failure_treshold=3"], "did you mean 'failure_threshold'?"),
        (["small.yaml", "--set", "workload.0.rate=-1"], "small.yaml:18: 'rate' of workload entry 1 is -1"),
        (["small.yaml", "--seed", "-1"], "--seed is -1"),
        (["small.yaml", "--seed", "9" * 4000], "it must be a whole number from 0 to 2**63 - 1"),
        (["x" * 300], "there is no scenario 'xxxx"),
        (["small.yaml:" + "x" * 300], "has no variant 'xxxx"),
        (["deci\u202esion"], "there is no scenario 'deci\\u202esion'"),
        (["deci\0sion"], "deci\\x00sion"),
        (["small.yaml", "--plot", "run.gif"], "'run.gif' is neither"),
        (["small.yaml", "--plot", "nowhere/run.png"], "nowhere/run.png cannot be written: no such file or directory"),
        (["small.yaml", "--json", "nowhere/run.json"], "nowhere/run.json cannot be written"),
        (["small.yaml", "--trace", "."], ". cannot be written: is a directory"),
    ],
)
def test_what_cannot_be_run_is_one_sentence(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong name, path, value or file is one line on stderr, nothing on stdout, and ends with 2."""
    assert main(["run", *words]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert printed.err.startswith("labkit: ")
    assert said in printed.err


@pytest.mark.parametrize(
    ("old", "new", "line", "said"),
    [
        ("rate: 10", "rate: -10", 18, "'rate' of workload entry 1 is -10"),
        ("from: 5, to: 12", "from: 25, to: 30", 11, "begins at 25 s, and the run's duration is 20 s"),
        ("failure_threshold", "failure_treshold", 13, "did you mean 'failure_threshold'?"),
        ("middleware: [breaker", "middleware: [braker", 16, "did you mean 'breaker'?"),
    ],
)
def test_a_fault_in_the_file_is_named_with_its_line(
    old: str, new: str, line: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A typo, a negative rate or a fault after the end is a sentence with the file and the line."""
    Path("wrong.yaml").write_text(SMALL.replace(old, new, 1), encoding="utf-8")
    assert main(["run", "wrong.yaml"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert f"wrong.yaml:{line}" in printed.err
    assert said in printed.err


@pytest.mark.parametrize("lost", [False, True])
def test_ctrl_c_ends_a_run_with_a_sentence(
    lost: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An interrupted run ends with 130, one sentence and no file; also where Python loses the interrupt on the way."""
    heard = []

    def stop(self: Any, done: float, of: float = 1.0) -> None:
        heard.append(done)
        if done > 0.1:
            assert not lost or len(heard) < 20, "it went on"
            with suppress(KeyboardInterrupt if lost else ()):  # as an interrupt in a destructor is
                signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(signal, "getsignal", lambda number: signal.default_int_handler)
    monkeypatch.setattr("labkit.cli.progress.Progress.__call__", stop)
    assert main(["run", "small.yaml", "--json", "out.json"]) == 130
    assert capsys.readouterr() == ("", "labkit: interrupted; nothing was written\n")
    assert sorted(path.name for path in Path.cwd().iterdir()) == ["small.yaml", "two.yaml"]


def test_results_are_tried_before_the_run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Where a result cannot be written, nothing is run for it, and what is there is left as it was."""
    monkeypatch.setattr("labkit.scenario.run_scenario", lambda *args, **options: pytest.fail("it was run"))
    Path("folder").mkdir()
    for option, ending in (("--json", ".json"), ("--plot", ".png"), ("--trace", ".json")):
        for place in (f"nowhere/x{ending}", "folder" if ending == ".json" else "folder.png", "/dev/null", ""):
            if place == "folder.png":
                Path(place).mkdir()
            assert main(["run", "small.yaml", option, place]) == 2
            assert capsys.readouterr().err.count("\n") == 1
    assert main(["run", "small.yaml", "--json", "small.yaml"]) == 2
    assert "--json names small.yaml, which is what is read" in capsys.readouterr().err
    assert main(["run", "small.yaml", "--json", "x", "--trace", "./x"]) == 2
    assert "--json and --trace both name ./x; name two files" in capsys.readouterr().err
    assert Path("small.yaml").read_text("utf-8") == SMALL
    names = {path.name for path in Path.cwd().iterdir()}
    assert names == {"small.yaml", "two.yaml", "folder", "folder.png"}


def test_a_result_is_written_whole_or_not_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is there keeps its contents, mode and name when a newer one cannot be written; a link stays."""
    from labkit.cli.files import write
    from labkit.errors import ConfigError

    Path("old.json").write_text("old", "utf-8")
    Path("old.json").chmod(0o640)

    def torn() -> Any:
        yield b"ne"
        raise OSError(28, "No space left on device")

    with pytest.raises(ConfigError, match=r"old[.]json cannot be written: no space left on device"):
        write("old.json", torn())
    assert Path("old.json").read_text("utf-8") == "old"
    if hasattr(os, "symlink"):
        os.symlink("old.json", "link.json")
        write("link.json", b"new")
        assert os.readlink("link.json") == "old.json"
        assert Path("old.json").read_text("utf-8") == "new"
        assert Path("old.json").stat().st_mode & 0o777 == 0o640
    assert not [path for path in Path.cwd().iterdir() if path.name.startswith(".labkit")]


# --------------------------------------------------------------------------------------------------------------- words


@pytest.mark.parametrize(
    ("value", "shown"),
    [(None, "-"), (0, "0"), (0.0, "0"), (24000, "24,000"), (0.0512345, "0.05123"), (1.0, "1"), (43031.4, "43,030")],
)
def test_numbers_in_a_table(value: float | None, shown: str) -> None:
    """Whole numbers are written in full, others with four digits that count, none as a dash."""
    assert number(value) == shown


def test_a_difference_has_its_sign() -> None:
    """A difference above nothing has a plus."""
    assert [number(value, sign=True) for value in (5, -5, 0, 0.25)] == ["+5", "-5", "0", "+0.25"]


def test_tables_are_aligned() -> None:
    """Names stand to the left, numbers to the right, and lines carry no blanks at their end."""
    assert table(["name", "n", ""], [["a", "10", "x"], ["bcdefg", "5", ""]], left=(0, 2)) == (
        "name     n\na       10  x\nbcdefg   5"
    )


def test_prose_is_broken_at_the_terminals_width(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines fit a narrow terminal, and stay at a hundred signs on a wide one."""
    for columns, widest in (("40", 40), ("300", 100)):
        monkeypatch.setenv("COLUMNS", columns)
        lines = prose("one two  three\nfour " * 30).splitlines()
        assert widest - 6 < max(map(len, lines)) <= widest
