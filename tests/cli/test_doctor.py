"""`labkit doctor`: what it finds, what it advises, and how it ends."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest

from labkit.cli import doctor, main
from labkit.cli.doctor import Check


@pytest.fixture(autouse=True)
def jupyter_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Jupyter's folders of a learner who has never used it; they come after the environment's, as for `labkit lab`."""
    for name in ("CONFIG", "DATA", "RUNTIME"):
        monkeypatch.setenv(f"JUPYTER_{name}_DIR", str(tmp_path / name.lower()))
    monkeypatch.setenv("JUPYTER_PREFER_ENV_PATH", "1")
    return tmp_path


def level_of(checks: list[Check]) -> dict[str, str]:
    """Each check's level by its name."""
    return {check.name: check.level for check in checks}


def packages(monkeypatch: pytest.MonkeyPatch, change: Callable[[str], str | None]) -> dict[str, Check]:
    """The checks of packages, with `change` giving some of them another version; None means not installed."""
    real = metadata.version

    def version(name: str) -> str:
        found = change(name)
        if found is None:
            raise metadata.PackageNotFoundError(name)
        return real(name) if found == "" else found

    monkeypatch.setattr(doctor.metadata, "version", version)
    return {check.name: check for check in doctor.check_packages()}


def test_a_sound_environment_has_no_finding(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In the environment that `make venv` makes there is no finding, and the status is 0."""
    assert main(["doctor", "--json", "--dir", str(tmp_path / "course")]) == 0
    checks = json.loads(capsys.readouterr().out)
    assert [check for check in checks if check["level"] == "finding"] == []
    assert {"Python", "jupyterlab", "pydantic", "kernel", "anywidget in JupyterLab"} <= {c["name"] for c in checks}


def test_it_leaves_nothing_behind(tmp_path: Path) -> None:
    """Asking the disk whether it can be written leaves no file."""
    main(["doctor", "--dir", str(tmp_path / "course")])
    assert list(tmp_path.iterdir()) == []


def test_a_finding_is_printed_with_advice_and_ends_with_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each finding has a line that says what to do, the last line counts, and the status is 1."""
    (tmp_path / "course").write_text("")
    assert main(["doctor", "--dir", str(tmp_path / "course")]) == 1
    lines = capsys.readouterr().out.splitlines()
    place = next(number for number, line in enumerate(lines) if line.startswith("finding"))
    assert "is a file" in lines[place]
    assert "->" in lines[place + 1]
    assert lines[-1].endswith(", 1 finding")


@pytest.mark.parametrize(
    ("version", "level"),
    [((3, 10, 14), "finding"), ((3, 11, 0), "ok"), ((3, 14, 2), "ok"), ((3, 15, 0), "note"), ((4, 0, 0), "note")],
)
def test_python(version: tuple[int, ...], level: str) -> None:
    """An older Python than 3.11 is a finding; a newer one than the tests ran on is a note."""
    assert doctor.check_python(version).level == level


def test_a_missing_package_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package of the course that is not installed is a finding that says how to install it; the others are fine."""
    checks = packages(monkeypatch, lambda name: None if name == "ipywidgets" else "")
    assert checks["ipywidgets"].level == "finding"
    assert "labkit-circuit-breakers[course]" in checks["ipywidgets"].advice
    assert [name for name, check in checks.items() if check.level != "ok"] == ["ipywidgets"]


@pytest.mark.parametrize(("package", "version"), [("jupyterlab", "3.6.8"), ("pydantic", "1.10.0"), ("httpx2", "0.1")])
def test_a_package_that_does_not_fit_is_found(package: str, version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A version outside what the extras ask for, also those that one extra takes from another, is a finding."""
    checks = packages(monkeypatch, lambda name: version if name == package else "")
    assert checks[package].level == "finding"
    assert version in checks[package].found


def test_the_widgets_half_in_the_browser_must_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """jupyterlab_widgets is held to what the installed ipywidgets asks of it."""
    checks = packages(monkeypatch, lambda name: "1.1.0" if name == "jupyterlab_widgets" else "")
    assert checks["jupyterlab_widgets"].level == "finding"


def test_an_uninstalled_labkit_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A labkit that was only put on the path cannot say what it needs, and that is the finding."""

    def requires(name: str) -> list[str]:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(doctor.metadata, "requires", requires)
    assert level_of(list(doctor.check_packages())) == {"packages": "finding"}


def test_a_kernel_that_starts_another_python_is_found(jupyter_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel of the same name that leads to another environment would run the course without labkit."""
    monkeypatch.setenv("JUPYTER_PREFER_ENV_PATH", "0")
    spec = jupyter_home / "data/kernels/python3"
    spec.mkdir(parents=True)
    argv = ["/somewhere/else/bin/python", "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (spec / "kernel.json").write_text(json.dumps({"argv": argv, "display_name": "Python 3", "language": "python"}))
    check = doctor.check_kernel()
    assert check.level == "finding"
    assert "/somewhere/else/bin/python" in check.found
    assert "ipykernel install" in check.advice


def test_this_environments_kernel_comes_first(jupyter_home: Path) -> None:
    """As `labkit lab` starts it, a kernel in the learner's home does not hide the environment's."""
    spec = jupyter_home / "data/kernels/python3"
    spec.mkdir(parents=True)
    (spec / "kernel.json").write_text('{"argv": ["/x/python"], "display_name": "x", "language": "python"}')
    assert doctor.check_kernel().level == "ok"


def test_a_hidden_extension_is_found(jupyter_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An older copy of a widget's browser half in the learner's home is named with its place."""
    monkeypatch.setenv("JUPYTER_PREFER_ENV_PATH", "0")
    old = jupyter_home / "data/labextensions/anywidget"
    old.mkdir(parents=True)
    (old / "package.json").write_text('{"name": "anywidget", "version": "0.1.0"}')
    checks = {check.name: check for check in doctor.check_extensions()}
    assert checks["anywidget in JupyterLab"].level == "finding"
    assert str(old) in checks["anywidget in JupyterLab"].advice
    assert checks["jupyterlab_widgets in JupyterLab"].level == "ok"


def test_a_missing_extension_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A browser half that JupyterLab cannot find leaves widgets blank, and that is said."""
    monkeypatch.setattr("jupyter_core.paths.jupyter_path", lambda *parts: [])
    assert {check.level for check in doctor.check_extensions()} == {"finding"}


def test_a_disk_that_cannot_be_written_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full or read-only disk is found by writing, and the nearest folder that exists is named.

    The course needs its own folder; for Jupyter's, `labkit lab` finds others.
    """

    def refuse(**where: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(doctor.tempfile, "TemporaryFile", refuse)
    checks = list(doctor.check_folders(tmp_path / "a" / "b"))
    assert [check.level for check in checks] == ["finding", "note", "note"]
    assert checks[0].found == f"{tmp_path} cannot be written: read-only file system"


def test_byte_code_that_is_missing_is_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package without byte-code is noted, with the command that compiles it; that is no finding."""
    (tmp_path / "uncompiled_package.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(doctor, "COMPILED", ("uncompiled_package", "no_such_package"))
    check = doctor.check_bytecode()
    assert (check.level, check.found) == ("note", "not compiled: uncompiled_package")
    assert "compileall" in check.advice


def test_chromium_is_optional(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without a Chromium there is a note; LABKIT_CHROMIUM names one that is not on the path."""
    program = tmp_path / "my-chromium"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("LABKIT_CHROMIUM", str(program))
    assert doctor.check_chromium() == Check("Chromium", "ok", str(program))
    monkeypatch.setenv("LABKIT_CHROMIUM", str(tmp_path / "none"))
    assert doctor.check_chromium().level == "note"
