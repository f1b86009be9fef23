"""The way from a bare Python to the checks: which interpreter it takes, and when it works anew."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from labkit.cli import doctor
from tools import bootstrap, checks
from tools.bootstrap import Problem, Python

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def interpreter(tmp_path: Path) -> Path:
    """A program that says it is Python 3.8."""
    program = tmp_path / "python3.8"
    program.write_text('#!/bin/sh\necho \'[[3, 8, 18], "/x/python3.8", "/x", true]\'\n')
    program.chmod(0o755)
    return program


# --------------------------------------------------------------------------------------------------------- which Python


def test_an_old_python_can_read_it() -> None:
    """The script's grammar is that of Python 3.7, so that an old interpreter says what is needed, not SyntaxError."""
    ast.parse((ROOT / "tools/bootstrap.py").read_text("utf-8"), feature_version=(3, 7))


def test_the_running_python_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """The interpreter that runs the script is taken when it fits."""
    monkeypatch.delenv("PYTHON", raising=False)
    monkeypatch.setattr(bootstrap, "candidates", list)  # a newer Python than the tested ones gives way to one of those
    assert bootstrap.find_python().version == sys.version_info[:3]


def test_a_python_that_was_named_and_does_not_fit_is_refused(
    interpreter: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PYTHON=... is taken at its word: an unfit one is refused in a sentence, not replaced by another."""
    monkeypatch.setenv("PYTHON", str(interpreter))
    with pytest.raises(Problem, match=r"is Python 3\.8\.18; labkit needs Python 3\.11 or newer"):
        bootstrap.find_python()


def test_a_python_that_was_named_and_does_not_run_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A PYTHON that leads nowhere is named in a sentence."""
    monkeypatch.setenv("PYTHON", "no-such-python")
    with pytest.raises(Problem, match="PYTHON=no-such-python does not run"):
        bootstrap.find_python()


def test_when_none_fits_it_says_which_is_needed(interpreter: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With only unfit interpreters on the machine the sentence says what to install and how to name it."""
    monkeypatch.delenv("PYTHON", raising=False)
    monkeypatch.setattr(bootstrap.sys, "executable", str(interpreter))
    monkeypatch.setattr(bootstrap, "candidates", lambda: [str(interpreter), "no-such-python"])
    with pytest.raises(Problem, match=r"labkit needs Python 3\.11 or newer, and none was found"):
        bootstrap.find_python()


def test_an_untested_python_is_taken_when_there_is_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Python newer than the tests ran on will do, and gives way to a tested one."""
    monkeypatch.delenv("PYTHON", raising=False)
    monkeypatch.setattr(bootstrap.sys, "executable", "python3.99")
    found = {"python3.99": Python("python3.99", (3, 99, 0), "/new", True)}
    monkeypatch.setattr(bootstrap, "ask", found.get)
    assert bootstrap.find_python().version == (3, 99, 0)
    found["python3.12"] = Python("python3.12", (3, 12, 1), "/old", True)
    assert bootstrap.find_python().version == (3, 12, 1)


@pytest.mark.parametrize(("version", "said"), [((3, 99, 1), True), ((3, 14, 0), False)])
def test_an_untested_python_is_told(
    version: tuple[int, ...], said: bool, installation: Installation, capsys: pytest.CaptureFixture[str]
) -> None:
    """Making the environment with a Python newer than the tests ran on says so, and how to take another."""
    python = Python("python3.99", version, "/new", True)
    bootstrap.ensure(installation.venv, python)
    sentence = "Python 3.99 has not been tested with labkit, 3.11 to 3.14 have"
    assert (sentence in capsys.readouterr().err) is said


def test_every_list_of_pythons_says_the_same() -> None:
    """The script, `labkit doctor`, the classifiers and the sentence in the Makefile name the same versions."""
    assert (doctor.OLDEST, doctor.TESTED) == (bootstrap.OLDEST, bootstrap.TESTED)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    minors = [f"3.{minor}" for minor in range(bootstrap.OLDEST[1], bootstrap.TESTED[1] + 1)]
    named = [line.rpartition(" ")[2] for line in project["classifiers"] if " :: 3." in line]
    assert named == minors
    assert project["requires-python"] == f">={minors[0]}"
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert f"Python {minors[0]} or newer" in makefile
    assert all(f"python{minor}" in makefile for minor in minors)


@pytest.mark.parametrize("answer", ["exit 127", "echo nonsense", "echo '[1]'"])
def test_a_name_on_the_path_that_leads_nowhere_is_stepped_over(answer: str, tmp_path: Path) -> None:
    """A shim without a Python behind it, or a program that answers nonsense, is no candidate."""
    shim = tmp_path / "python3.12"
    shim.write_text(f"#!/bin/sh\n{answer}\n")
    shim.chmod(0o755)
    assert bootstrap.ask(str(shim)) is None


# ------------------------------------------------------------------------------------------------------ the environment


class Installation:
    """Stands in for what takes minutes, and remembers what was done."""

    def __init__(self, room: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.did: list[str] = []
        self.venv = str(room / ".venv")
        self.lock = room / "requirements.lock"
        self.pyproject = room / "pyproject.toml"
        self.lock.write_text("a==1\n")
        self.pyproject.write_text("[project]\n")
        self.broken = False
        monkeypatch.delenv("PYTHON", raising=False)
        monkeypatch.setattr(bootstrap, "LOCK", str(self.lock))
        monkeypatch.setattr(bootstrap, "PYPROJECT", str(self.pyproject))
        monkeypatch.setattr(bootstrap, "ask", lambda command: Python(command, (3, 12, 1), "/base", True))
        monkeypatch.setattr(bootstrap, "make_venv", self.make_venv)
        monkeypatch.setattr(bootstrap, "install_lock", self.install_lock)
        monkeypatch.setattr(bootstrap, "install_labkit", lambda venv: self.did.append("labkit"))
        monkeypatch.setattr(bootstrap, "compile_bytecode", lambda venv: self.did.append("byte-code"))

    def make_venv(self, python: Python, venv: str) -> None:
        """An empty folder."""
        self.did.append("venv")
        Path(venv).mkdir(exist_ok=True)

    def install_lock(self, venv: str) -> None:
        """Nothing, or the failure that the test asked for."""
        self.did.append("lock")
        if self.broken:
            raise Problem("no network")

    def run(self) -> list[str]:
        """What `make venv` does this time."""
        self.did.clear()
        bootstrap.ensure(self.venv)
        return list(self.did)


ALL = ["venv", "lock", "labkit", "byte-code"]


@pytest.fixture
def installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Installation:
    """An empty folder with a lock."""
    return Installation(tmp_path, monkeypatch)


def test_a_second_run_does_nothing(installation: Installation) -> None:
    """The first run does everything, the second nothing."""
    assert installation.run() == ALL
    assert installation.run() == []


def test_a_changed_lock_makes_it_anew(installation: Installation) -> None:
    """Other pinned versions are installed into an empty environment, so that nothing of the old ones stays."""
    installation.run()
    installation.lock.write_text("a==2\n")
    assert installation.run() == ALL
    assert installation.run() == []


def test_a_changed_pyproject_installs_labkit_again(installation: Installation) -> None:
    """Labkit's own metadata is renewed, and nothing else."""
    installation.run()
    installation.pyproject.write_text("[project]\nname = 'x'\n")
    assert installation.run() == ["labkit"]
    assert installation.run() == []


def test_a_run_that_broke_off_is_finished(installation: Installation) -> None:
    """After a failure the next run goes on with the environment there is."""
    installation.broken = True
    with pytest.raises(Problem, match="no network"):
        installation.run()
    installation.broken = False
    assert installation.run() == ["lock", "labkit", "byte-code"]
    assert installation.run() == []


def test_a_moved_checkout_makes_it_anew(installation: Installation, tmp_path: Path) -> None:
    """An environment holds the path of its folder, so one that was moved is made again."""
    installation.run()
    moved = tmp_path / "elsewhere"
    Path(installation.venv).rename(moved)
    installation.venv = str(moved)
    assert installation.run() == ALL


@pytest.mark.parametrize(("version", "base"), [((3, 13, 0), "/other"), ((3, 13, 0), "/base"), ((3, 12, 1), "/other")])
def test_another_python_makes_it_anew(
    version: tuple[int, ...], base: str, installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PYTHON=... that names another Python than the environment's is obeyed, in the same folder too (as /usr/bin's)."""
    installation.run()
    monkeypatch.setenv("PYTHON", "python3.13")
    assert installation.run() == []
    monkeypatch.setattr(bootstrap, "ask", lambda command: Python(command, version, base, True))
    assert installation.run() == ALL


# ------------------------------------------------------------------------------------------------- the Makefile's half


@pytest.mark.skipif(shutil.which("make") is None, reason="no make on this machine")
def test_make_finds_a_python_whatever_its_version(tmp_path: Path) -> None:
    """The Makefile steps over a Python that cannot read the script, and takes a new one whose name it does not list."""
    for tool in ("make", "sh", "seq"):
        (tmp_path / tool).symlink_to(str(shutil.which(tool)))
    for name, status in (("python3", 1), ("python3.17", 0)):
        (tmp_path / name).write_text(f'#!/bin/sh\necho "$2"\n[ -z "$2" ] || exit {status}\n')
        (tmp_path / name).chmod(0o755)
    done = subprocess.run(["make", "-n", "lab"], cwd=ROOT, env={"PATH": str(tmp_path)}, capture_output=True, text=True)
    assert done.stdout.startswith("python3.17 -m tools.bootstrap lab"), done.stderr


def test_make_alone_lists_every_target() -> None:
    """`make` prints each target of the Makefile with what it does."""
    text = (ROOT / "Makefile").read_text("utf-8")
    targets = re.findall(r"^([a-z]+):", text, re.MULTILINE)
    listed = re.findall(r"^([a-z]+):.*## \S", text, re.MULTILINE)
    assert targets == listed
    assert set(bootstrap.COMMANDS) == set(targets) - {"help"}


def test_every_step_of_the_checks_is_a_target() -> None:
    """What `make test` runs can be run alone under the same name."""
    assert tuple(step.name for step in checks.STEPS) == bootstrap.CHECKS


def test_an_unknown_command_lists_them(capsys: pytest.CaptureFixture[str]) -> None:
    """`python -m tools.bootstrap` with a wrong word says which there are, and ends with 1."""
    assert bootstrap.main(["tset"]) == 1
    assert "test" in capsys.readouterr().err


# ------------------------------------------------------------------------------------------------------------ the steps


def step(*codes: int) -> checks.Step:
    """A step whose commands end with these codes."""
    return checks.Step("s", "says", tuple([sys.executable, "-c", f"raise SystemExit({code})"] for code in codes))


def test_a_test_run_that_found_no_test_fails() -> None:
    """pytest's exit code 5, no test found, is a failure like any other."""
    assert checks.run(step(0, 5), []) == 5


def test_a_failing_step_does_not_hide_the_others(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """All steps run, the summary counts the failed ones, and the whole has failed."""
    monkeypatch.setattr(checks, "STEPS", (step(0), step(3), step(0, 0)))
    assert checks.main([]) == 1
    assert capfd.readouterr().out.splitlines()[-1] == "checks: 2 passed, 1 failed"


def test_when_all_steps_hold_the_whole_does(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    """With no failed step the status is 0, and the last line says so."""
    monkeypatch.setattr(checks, "STEPS", (step(0), step(0)))
    assert checks.main([]) == 0
    assert capfd.readouterr().out.splitlines()[-1] == "checks: 2 passed, 0 failed"


def test_ci_calls_the_same_checks() -> None:
    """CI's script runs `make test`, where the browser tests may not skip, and is well-formed."""
    script = ROOT / ".ci/run"
    text = script.read_text("utf-8")
    assert "exec make test" in text
    assert "export LABKIT_REQUIRE_BROWSER=1" in text
    subprocess.run(["bash", "-n", script], check=True)
