"""What nobody would type on purpose: every option of run, sweep, replay and scenarios with it, and odd terminals."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import labkit
from labkit.cli import main

TINY = """\
scenario: {title: "Two \\e[31m\\u202e\\xe9 seconds", look_for: "A \\e[2Jtrap", duration: 2, seed: 3}
services: {parts_availability: {_type: parts_availability, faults: [{from: 1, to: 2, fault: error}]}}
middleware: {"brea\\u202eker": {_type: circuit_breaker, failure_threshold: 1, cooldown_period: 4}}
functions: {parts_availability: {_type: parts_availability, middleware: ["brea\\u202eker"]}}
workload: [{function: parts_availability, rate: 5}]
"""
WORDS = {
    "nothing": "",
    "300 letters": "x" * 300,
    "70,000 letters": "x" * 70_000,
    "digits of another script": "\u0661\u0662",
    "a dash": "-",
    "two dashes": "--",
    "nan": "nan",
    "minus nothing": "-0",
    "1e400": "1e400",
    "a byte that is no text": "\udcff",
    "an escape": "\x1b[31m",
    "a change of direction": "\u202e",
    "two lines": "a\nb",
    "a null character": "a\0b",
    "5,000 digits": "9" * 5000,
    "600 brackets": "[" * 600,
    "an equals sign": "=",
    "a value alone": "=b",
    "a colon": ":",
    "a folder": ".",
}
RUN = ["run", "tiny.yaml"]
SWEEP = ["sweep", "tiny.yaml", "--jobs", "1", "--vary", "failure_threshold=1"]
PLACES = {
    "run": lambda word: ["run", word],
    "run FILE:": lambda word: ["run", f"tiny.yaml:{word}"],
    **{
        f"run {option}": lambda word, option=option: [*RUN, f"{option}={word}"]
        for option in ("--set", "--seed", "--compare", "--json", "--plot", "--trace")
    },
    "run --set seed=": lambda word: [*RUN, f"--set=seed={word}"],
    "run --set PATH": lambda word: [*RUN, f"--set={word}=1"],
    "sweep": lambda word: ["sweep", word, "--vary", "failure_threshold=1"],
    **{
        f"sweep {option}": lambda word, option=option: [*SWEEP, f"{option}={word}"]
        for option in ("--vary", "--seeds", "--set", "--jobs", "--out", "--metric", "--plot", "--dask")
    },
    "sweep --vary a=": lambda word: [*SWEEP[:4], "--vary", f"failure_threshold={word}"],
    "sweep --vary a..b": lambda word: [*SWEEP[:4], "--vary", f"failure_threshold=1..{word}"],
    "sweep --vary a..b:c": lambda word: [*SWEEP[:4], "--vary", f"failure_threshold=1..2:{word}"],
    "replay": lambda word: ["replay", word],
    "scenarios": lambda word: ["scenarios", word],
    "a command": lambda word: [word],
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a scenario whose names and words a terminal would act upon."""
    monkeypatch.chdir(tmp_path)
    Path("tiny.yaml").write_text(TINY, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("place", PLACES)
def test_every_option_answers_anything_with_a_sentence(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever stands for a value, the command works or says in short what is wrong; nothing raw is printed."""
    for word in WORDS.values():
        argv = PLACES[place](word)
        try:
            status = main(argv)
        except SystemExit as ended:  # argparse's own sentences
            status = ended.code  # type: ignore[assignment]
        printed = capsys.readouterr()
        shown = [one[:50] for one in argv]
        assert status in (0, 2), shown
        assert "Traceback" not in printed.err, shown
        assert all(line.isprintable() for text in printed for line in text.split("\n")), shown
        if status == 2:
            assert 0 < len(printed.err) < 2500, shown
    assert Path("tiny.yaml").read_text("utf-8") == TINY


@pytest.mark.parametrize("command", [[*RUN], [*SWEEP, "--out", "out.jsonl"], ["scenarios", "--variants"]])
def test_what_is_printed_is_printable(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Titles, names and words of a scenario are shown with escapes, in prose and in tables."""
    assert main(command) == 0
    out = capsys.readouterr().out
    assert all(line.isprintable() for line in out.split("\n"))
    if command[0] != "scenarios":
        assert out.startswith("Two \\x1b[31m\\u202e\u00e9 seconds\n")


def ended(words: list[str], **options: object) -> subprocess.CompletedProcess[bytes]:
    """The command in a process of its own."""
    environ = {**os.environ, "PYTHONPATH": str(Path(labkit.__file__).parents[1]), **options.pop("env", {})}  # type: ignore[dict-item]
    return subprocess.run(
        [sys.executable, "-m", "labkit", *words], env=environ, timeout=60, stderr=subprocess.PIPE, **options
    )  # type: ignore[call-overload,no-any-return]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full disk here")
@pytest.mark.parametrize("words", [RUN, [*RUN, "--json", "-"]])
def test_a_full_disk_is_a_sentence(words: list[str]) -> None:
    """Output that cannot be written ends with 2 and a sentence, and the interpreter adds nothing to it."""
    with open("/dev/full", "wb") as full:
        done = ended(words, stdout=full)
    assert (done.returncode, done.stderr) == (2, b"labkit: the output cannot be written: no space left on device\n")


@pytest.mark.skipif(os.name == "nt", reason="closes a descriptor before the command begins")
def test_a_closed_output_is_no_fault() -> None:
    """Who closed stdout wants to read nothing, and the run is made all the same."""
    done = ended([*RUN, "--json", "out.json"], preexec_fn=lambda: os.close(1))
    assert (done.returncode, done.stderr) == (0, b"")
    assert Path("out.json").exists()


def test_a_terminal_without_letters_is_served() -> None:
    """Where the encoding has no sign for a letter, an escape is shown."""
    environ = {"PYTHONIOENCODING": "ascii", "COLUMNS": "1", "TERM": "dumb"}
    done = ended(RUN, stdout=subprocess.PIPE, env=environ)
    assert (done.returncode, done.stderr) == (0, b"")
    assert re.match(rb"Two \\x1b\[31m\\u202e\\xe9 seconds\n", done.stdout)
