"""`labkit check`: exit statuses, sentences and JSON, as a learner and a script meet them."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import labkit
import labkit.cli.check as check
from labkit.cli import main

SOUND = """\
middleware:
  breaker: {_type: circuit_breaker, failure_threshold: 5}
functions:
  parts: {_type: parts_availability, middleware: [breaker]}
"""
MISSPELT = SOUND.replace("failure_threshold", "failure_treshold")
UNUSED = SOUND.replace("middleware: [breaker]", "middleware: []")
NOTED = SOUND.replace("failure_threshold: 5", "register_llms: true")
BROKEN = SOUND.replace("[breaker]}", "[breaker}")

MISSPELT_SENTENCE = (
    "misspelt.yaml:2: unknown key 'failure_treshold' in middleware 'breaker' (circuit_breaker); allowed: "
    "failure_threshold, cooldown_period, half_open_success_threshold, probe_timeout, circuit_breaker_message, enabled "
    "and the toolkit's keys for components; did you mean 'failure_threshold'?"
)


def in_a_process(*words: str, **environ: str) -> subprocess.CompletedProcess[bytes]:
    """Run the command as a process of its own, with these variables in its environment."""
    checkout = str(Path(labkit.__file__).parents[1])
    return subprocess.run(
        [sys.executable, "-m", "labkit", "check", *words],
        capture_output=True,
        env={**os.environ, "PYTHONPATH": checkout, "PYTHONUTF8": "0", **environ},
    )


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a file of each kind, in which the command is called."""
    monkeypatch.chdir(tmp_path)
    texts = {"sound": SOUND, "misspelt": MISSPELT, "unused": UNUSED, "noted": NOTED, "broken": BROKEN}
    for name, text in texts.items():
        Path(f"{name}.yaml").write_text(text, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["sound.yaml"], 0),
        (["noted.yaml"], 0),
        (["misspelt.yaml"], 1),
        (["unused.yaml"], 1),
        (["--lenient", "misspelt.yaml"], 0),
        (["--lenient", "unused.yaml"], 0),
        (["--lenient", "broken.yaml"], 2),
        (["broken.yaml"], 2),
        (["nowhere.yaml"], 2),
        (["."], 2),
        (["sound.yaml", "misspelt.yaml"], 1),
        (["sound.yaml", "misspelt.yaml", "nowhere.yaml", "sound.yaml"], 2),
    ],
)
@pytest.mark.parametrize("json_", [False, True])
def test_the_exit_status_is_the_worst(
    words: list[str], status: int, json_: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """0 when all is sound, 1 for findings, 2 when a file cannot be read, over all files and in both forms of output."""
    assert main(["check", *words, *(["--json"] if json_ else [])]) == status
    printed = capsys.readouterr()
    assert printed.err == ""
    if json_:
        assert json.loads(printed.out)["exit"] == status


def test_prints_a_sentence_a_finding_and_the_counts(capsys: pytest.CaptureFixture[str]) -> None:
    """Findings stand file by file in the order given, sound files are named, and the last line counts."""
    assert main(["check", "misspelt.yaml", "sound.yaml", "nowhere.yaml", "unused.yaml", "noted.yaml"]) == 2
    assert capsys.readouterr().out.splitlines() == [
        MISSPELT_SENTENCE,
        "sound.yaml: sound",
        "nowhere.yaml: there is no such file",
        "unused.yaml:2: warning: middleware 'breaker' is defined and no function lists it",
        "noted.yaml:2: note: 'register_llms' of middleware 'breaker' (circuit_breaker) intercepts components in the "
        "toolkit, and labkit has no such components: it is read and does nothing here",
        "noted.yaml: sound",
        "5 files: 2 sound, 2 with findings, 1 that cannot be read (2 errors, 1 warning, 1 note)",
    ]


def test_lenient_says_what_is_in_force(capsys: pytest.CaptureFixture[str]) -> None:
    """With --lenient an unknown key is a warning with the value that holds instead, and the file passes."""
    assert main(["check", "--lenient", "misspelt.yaml"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "misspelt.yaml:2: warning: unknown key 'failure_treshold' in middleware 'breaker' (circuit_breaker), which the "
        "toolkit would ignore in silence: 'failure_threshold' stays 3; did you mean 'failure_threshold'?",
        "misspelt.yaml: sound",
        "1 file: 1 sound (1 warning)",
    ]


def test_json_has_the_documented_shape(capsys: pytest.CaptureFixture[str]) -> None:
    """The JSON is the schema of the module's docstring, every finding with all its fields."""
    main(["check", "--json", "sound.yaml", "misspelt.yaml", "nowhere.yaml"])
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert list(result) == ["schema", "lenient", "exit", "counts", "files"]
    assert (result["schema"], result["lenient"], result["exit"]) == ("labkit.check/1", False, 2)
    assert result["counts"] == {
        "files": 3,
        "sound": 1,
        "with_findings": 1,
        "unreadable": 1,
        "errors": 2,
        "warnings": 0,
        "notes": 0,
    }
    assert [(file["file"], file["status"], len(file["findings"])) for file in result["files"]] == [
        ("sound.yaml", "sound", 0),
        ("misspelt.yaml", "findings", 1),
        ("nowhere.yaml", "unreadable", 1),
    ]
    (finding,) = result["files"][1]["findings"]
    assert finding == {
        "file": "misspelt.yaml",
        "line": 2,
        "column": 37,
        "severity": "error",
        "code": "unknown-key",
        "key": "failure_treshold",
        "found": "'failure_treshold'",
        "allowed": finding["allowed"],
        "nearest": "failure_threshold",
        "message": MISSPELT_SENTENCE,
    }
    assert "cooldown_period" in finding["allowed"].split(", ")
    assert result["files"][2]["findings"][0]["line"] is None


def test_json_is_the_same_bytes_every_time(folder: Path) -> None:
    """Two processes with different hash seeds and encodings print the same bytes, all of them ASCII."""
    (folder / "é.yaml").write_text(MISSPELT.replace("breaker", "brécker"), encoding="utf-8")
    printed = {
        in_a_process("--json", "é.yaml", "unused.yaml", PYTHONHASHSEED=seed, PYTHONIOENCODING=encoding).stdout
        for seed, encoding in (("1", "utf-8"), ("2", "ascii"), ("3", "latin-1"))
    }
    (only,) = printed
    assert only.isascii()
    assert json.loads(only)["files"][0]["file"] == "é.yaml"


def test_the_docstring_names_every_code() -> None:
    """Whoever reads the JSON finds every code that a finding can have in the command's documentation."""
    package = Path(check.__file__).parent.parent / "config"
    used = set()
    for module in ("checks", "findings", "yaml/document", "yaml/environment", "yaml/loader"):
        source = (package / f"{module}.py").read_text(encoding="utf-8")
        used |= set(re.findall(r'(?:\.add|_refuse)\(\s*"([a-z-]+)"', source))
        used |= set(re.findall(r'"([a-z]+-[a-z-]+)" if ', source))
    assert len(used) > 20
    documented = set(re.findall(r"[a-z]+(?:-[a-z]+)*", (check.__doc__ or "").partition("Codes:")[2]))
    assert used <= documented


def test_a_dash_is_standard_input(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A - is read from standard input, once for all that name it, and called <stdin>."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(UNUSED.encode()), encoding="utf-8"))
    assert main(["check", "-", "sound.yaml", "-"]) == 1
    sentence = "<stdin>:2: warning: middleware 'breaker' is defined and no function lists it"
    assert capsys.readouterr().out.splitlines() == [
        sentence,
        "sound.yaml: sound",
        sentence,
        "3 files: 1 sound, 2 with findings (2 warnings)",
    ]


def test_standard_input_that_is_no_text_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Bytes that are not UTF-8 come through standard input as they are, and are a finding."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a: \xff"), encoding="utf-8"))
    assert main(["check", "-"]) == 2
    assert capsys.readouterr().out.startswith("<stdin>:1: the file is not UTF-8 text")


@pytest.mark.parametrize("stdin", [None, io.StringIO("")])
def test_no_standard_input_is_an_empty_file(
    stdin: object, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where standard input is closed or holds nothing, the file is empty."""
    monkeypatch.setattr("sys.stdin", stdin)
    assert main(["check", "-"]) == 1
    assert capsys.readouterr().out.startswith("<stdin>: the file is empty")


def test_a_name_that_looks_like_yaml_is_a_file_all_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    """What stands on the command line is a path, even where Python would take it for text."""
    assert main(["check", "{}", "a: 1"]) == 2
    assert capsys.readouterr().out.splitlines()[:2] == ["{}: there is no such file", "a: 1: there is no such file"]


def test_a_terminal_without_the_signs_gets_escapes(folder: Path) -> None:
    """Where the output's encoding has no sign for a name, it is written as an escape instead of failing."""
    (folder / "a.yaml").write_text(UNUSED.replace("breaker", "brécker"), encoding="utf-8")
    done = in_a_process("a.yaml", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (1, b"")
    assert rb"middleware 'br\xe9cker' is defined" in done.stdout


def test_without_files_the_usage_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """Called without a file, the command says how it is called."""
    with pytest.raises(SystemExit) as stopped:
        main(["check"])
    assert stopped.value.code == 2
    assert "FILE" in capsys.readouterr().err


def test_help_names_the_exit_statuses(capsys: pytest.CaptureFixture[str]) -> None:
    """The command's help says what its exit status means."""
    with pytest.raises(SystemExit) as stopped:
        main(["check", "--help"])
    assert stopped.value.code == 0
    assert "0 sound, 1 findings, 2 a file cannot be read" in capsys.readouterr().out


SCENARIO = """\
scenario: {duration: 10}
services:
  parts: {_type: parts_availability}
workload:
  - {function: parts, rate: 8}
"""


@pytest.mark.parametrize(
    ("old", "new", "status", "said"),
    [
        ("rate: 8", "rate: 8", 0, "run.yaml: sound"),
        ("rate: 8", "rate: -8", 1, "run.yaml:5: 'rate' of workload entry 1 is -8"),
        ("_threshold: 5", "_treshold: 5", 1, "run.yaml:7: unknown key 'failure_treshold'"),
    ],
)
def test_a_scenario_is_checked_as_one(
    old: str, new: str, status: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file with a section `scenario` is read as a scenario, its services and workload with it."""
    Path("run.yaml").write_text((SCENARIO + SOUND).replace(old, new), encoding="utf-8")
    assert main(["check", "run.yaml"]) == status
    assert said in capsys.readouterr().out
