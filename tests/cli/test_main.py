"""The command line itself: what it says of its commands, and how it ends."""

from __future__ import annotations

import os
import subprocess
import sys
from types import ModuleType

import pytest

import labkit
from labkit.cli import COMMANDS, main
from labkit.errors import CourseError


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A stand-in for `labkit doctor` whose run() the test sets."""
    module = ModuleType("labkit.cli.doctor")
    module.HELP = "a stand-in"  # type: ignore[attr-defined]
    module.add_arguments = lambda parser: None  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "labkit.cli.doctor", module)
    return module


def raising(error: BaseException) -> object:
    """A run() that ends in this."""

    def run(args: object) -> int:
        raise error

    return run


def test_alone_it_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    """`labkit` without a word prints the help, with a line for each command, and ends with 0."""
    assert main([]) == 0
    out = capsys.readouterr().out
    for name in COMMANDS:
        assert f"\n    {name} " in out


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`labkit COMMAND --help` prints that command's help and ends with 0."""
    with pytest.raises(SystemExit) as ended:
        main([name, "--help"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: labkit {name}")


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    """`labkit --version` prints the version of the package."""
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"labkit {labkit.__version__}\n"


@pytest.mark.parametrize(("typed", "meant"), [("lba", "lab"), ("docter", "doctor"), ("restet", "reset")])
def test_an_unknown_command_names_the_nearest(typed: str, meant: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A misspelt command is refused in one sentence that names the nearest one."""
    assert main([typed]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert typed in err
    assert f"labkit {meant}" in err


def test_an_unknown_command_far_from_all_lists_them(capsys: pytest.CaptureFixture[str]) -> None:
    """A word that resembles no command is answered with all of them."""
    assert main(["zzzzzz"]) == 2
    err = capsys.readouterr().err
    assert all(name in err for name in COMMANDS)


def test_a_refusal_is_one_sentence(command: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    """An error of labkit's own is printed as one line on stderr, without a traceback, and ends with 2."""
    command.run = raising(CourseError("the folder is full"))  # type: ignore[attr-defined]
    assert main(["doctor"]) == 2
    assert capsys.readouterr() == ("", "labkit: the folder is full\n")


class Speechless(Exception):
    """An error of a foreign class that cannot even say what it is."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


UNFORESEEN = [
    (ValueError("max() of an\nempty \x1b[31msequence"), r"ValueError: max() of an empty \x1b[31msequence"),
    (KeyError("scenario"), "KeyError: 'scenario'"),
    (MemoryError(), "MemoryError"),
    (OSError(5, "Input/output error"), "OSError: [Errno 5] Input/output error"),
    (RecursionError("too deep"), "RecursionError: too deep"),
    (ExceptionGroup("several", [ValueError("one")]), "ExceptionGroup: several (1 sub-exception)"),
    (Speechless(), "Speechless"),
]


@pytest.mark.parametrize(("error", "words"), UNFORESEEN, ids=lambda value: type(value).__name__)
def test_what_nobody_foresaw_is_a_sentence_and_no_finding(
    error: Exception,
    words: str,
    command: ModuleType,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Any other exception ends with 3, never with 1, in one line: what it was, whom to tell, how to see more."""
    monkeypatch.delenv("LABKIT_TRACEBACK", raising=False)
    command.run = raising(error)  # type: ignore[attr-defined]
    assert main(["doctor"]) == 3
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith(f"labkit: this is a fault of labkit's own ({words}); please report it")
    assert "LABKIT_TRACEBACK=1" in err


def test_the_traceback_is_shown_to_who_asks(
    command: ModuleType, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With LABKIT_TRACEBACK=1 the sentence comes after the traceback, whose words are printable too."""
    monkeypatch.setenv("LABKIT_TRACEBACK", "1")
    command.run = raising(ValueError("odd \x1b[31m"))  # type: ignore[attr-defined]
    assert main(["doctor"]) == 3
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert any("test_main.py" in line for line in lines)
    assert lines[-1].startswith("labkit: this is a fault of labkit's own (ValueError: odd")
    assert "\x1b" not in "".join(lines)


def test_ctrl_c_is_quiet(command: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    """Ctrl-C ends with 130 and prints nothing."""
    command.run = raising(KeyboardInterrupt())  # type: ignore[attr-defined]
    assert main(["doctor"]) == 130
    assert capsys.readouterr() == ("", "")


def test_the_status_is_the_commands_own(command: ModuleType) -> None:
    """What a command returns is what labkit ends with."""
    command.run = lambda args: 1  # type: ignore[attr-defined]
    assert main(["doctor"]) == 1


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_goes_away_is_no_error(unbuffered: str) -> None:
    """`labkit ... | head` complains about nothing, whether the output is buffered or not."""
    script = (
        "import sys, labkit.cli.doctor as doctor; from labkit.cli import main; "
        "doctor.run = lambda args: print('x' * 100) or 0; sys.exit(main(['doctor']))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(60) == 141


def test_python_m_labkit_is_the_same_command() -> None:
    """`python -m labkit --version` answers as `labkit --version` does."""
    done = subprocess.run([sys.executable, "-m", "labkit", "--version"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"labkit {labkit.__version__}\n", "")
