"""What travels: the lock and the wheel."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import labkit
from labkit.cli.course import course_files, course_root

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The wheel of this checkout."""
    out = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out, ROOT]
    subprocess.run(command, check=True, capture_output=True, timeout=100)
    (path,) = out.glob("*.whl")
    return zipfile.ZipFile(path)


def test_the_wheel_carries_the_whole_course(wheel: zipfile.ZipFile) -> None:
    """Every file of the course is in the wheel, byte for byte, and nothing else is beside them."""
    carried = {name.removeprefix("labkit/_course/") for name in wheel.namelist() if name.startswith("labkit/_course/")}
    assert carried == set(course_files())
    for name in course_files():
        assert wheel.read(f"labkit/_course/{name}") == (course_root() / name).read_bytes()


def test_the_wheel_carries_the_package_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    """The package's own files, its types marker and its licence are there; tests, tools and caches are not."""
    names = wheel.namelist()
    assert {name.split("/")[0] for name in names} == {
        "labkit",
        f"labkit_circuit_breakers-{labkit.__version__}.dist-info",
    }
    assert "labkit/py.typed" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert not [name for name in names if re.search(r"__pycache__|\.ipynb_checkpoints|\.pyc$", name)]


def test_the_bare_package_asks_for_two_things(wheel: zipfile.ZipFile) -> None:
    """Without an extra, pip brings pydantic and PyYAML."""
    (name,) = (name for name in wheel.namelist() if name.endswith("METADATA"))
    lines = wheel.read(name).decode().splitlines()
    required = [line for line in lines if line.startswith("Requires-Dist:") and "extra" not in line]
    assert {Requirement(line.partition(":")[2]).name.lower() for line in required} == {"pydantic", "pyyaml"}
    assert "License-Expression: Apache-2.0" in lines


def test_the_version_is_one() -> None:
    """pyproject.toml and `labkit.__version__` say the same."""
    assert PROJECT["version"] == labkit.__version__


def locked() -> list[Requirement]:
    """The lines of the lock."""
    lines = (ROOT / "requirements.lock").read_text("utf-8").splitlines()
    return [Requirement(line) for line in lines if line and not line.startswith("#")]


def test_the_lock_pins_exactly_and_names_no_source() -> None:
    """Each line is one exact version; no address, no path, no option."""
    assert locked()
    for requirement in locked():
        assert re.fullmatch(r"==[\w.]+", str(requirement.specifier)), requirement
        assert requirement.url is None


@pytest.mark.parametrize("python", ["3.11.7", "3.12.1", "3.13.0", "3.14.0", "3.15.0"])
@pytest.mark.parametrize("system", ["linux", "darwin", "win32"])
def test_the_lock_fits_pyproject(python: str, system: str) -> None:
    """On every supported Python and system each requirement of labkit has exactly one pinned version, and it fits."""
    environment = {
        "python_version": python.rpartition(".")[0],
        "python_full_version": python,
        "sys_platform": system,
        "platform_system": {"linux": "Linux", "darwin": "Darwin", "win32": "Windows"}[system],
        "os_name": "nt" if system == "win32" else "posix",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
    }
    pinned: dict[str, list[Version]] = {}
    for requirement in locked():
        if requirement.marker is None or requirement.marker.evaluate(environment):
            version = Version(str(requirement.specifier).removeprefix("=="))
            pinned.setdefault(canonicalize_name(requirement.name), []).append(version)
    assert {name: versions for name, versions in pinned.items() if len(versions) != 1} == {}
    wanted = [
        *PROJECT["dependencies"],
        *(line for lines in PROJECT["optional-dependencies"].values() for line in lines),
    ]
    for requirement in map(Requirement, wanted):
        if canonicalize_name(requirement.name) != PROJECT["name"]:
            (version,) = pinned[canonicalize_name(requirement.name)]
            assert version in requirement.specifier, requirement
