"""`labkit doctor`: looks at what the course stands on, and says what to do about each thing that is not right."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

from labkit.cli.course import DEFAULT_FOLDER, course_files
from labkit.errors import CourseError

HELP = "check Python, packages, kernel and widgets, and say what to do about each finding"

DISTRIBUTION = "labkit-circuit-breakers"
INSTALL = f"pip install '{DISTRIBUTION}[course]' in this environment (in a checkout: make venv)"
OLDEST, TESTED = (3, 11), (3, 14)  # the oldest Python that will do, and the newest that the tests ran on
CHROMIUMS = ("chromium", "chromium-browser", "google-chrome")
# The part in the browser, and the package that ships it.
EXTENSIONS = (("@jupyter-widgets/jupyterlab-manager", "jupyterlab_widgets"), ("anywidget", "anywidget"))
# What a notebook of the course imports first; without byte-code the first cell takes several times as long.
COMPILED = ("pydantic", "IPython", "ipykernel", "ipywidgets", "matplotlib", "numpy")


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at.

    Attributes:
        name: what was looked at.
        level: "ok"; "finding" (the course will not work as it should); "note" (it works, but could be better).
        found: what is there.
        advice: what to do, or "" when nothing is to be done.
    """

    name: str
    level: Literal["ok", "finding", "note"]
    found: str
    advice: str = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `labkit doctor`."""
    parser.epilog = "Exit status: 0 when there is no finding (notes do not count), 1 when there is one."
    parser.add_argument("--json", action="store_true", help="print the checks as a JSON list")
    parser.add_argument(
        "--dir", default=DEFAULT_FOLDER, metavar="DIR", help="your course folder (default: ./%(default)s)"
    )


def run(args: argparse.Namespace) -> int:
    """Run all checks and print them."""
    os.environ.setdefault("JUPYTER_PREFER_ENV_PATH", "1")  # as `labkit lab` starts JupyterLab
    checks = list(examine(Path(args.dir).expanduser()))
    if args.json:
        print(json.dumps([asdict(check) for check in checks], indent=1))
    else:
        for check in checks:
            print(f"{check.level:<8} {check.name}: {check.found}")
            if check.advice:
                print(f"{'':<8} -> {check.advice}")
        findings = sum(check.level == "finding" for check in checks)
        print(f"{len(checks)} checks, {findings} {'finding' if findings == 1 else 'findings'}")
    return int(any(check.level == "finding" for check in checks))


def examine(folder: Path) -> Iterator[Check]:
    """Yield every check; none of them changes anything that stays.

    Args:
        folder: the learner's folder, which need not exist yet.
    """
    yield check_python(sys.version_info[:3])
    yield from check_packages()
    yield check_course()
    yield check_kernel()
    yield from check_extensions()
    yield from check_folders(folder)
    yield check_bytecode()
    yield check_chromium()


# ------------------------------------------------------------------------------------------------ Python and packages


def check_python(version: tuple[int, ...]) -> Check:
    """Judge the version of Python against what labkit supports."""
    found = f"{'.'.join(map(str, version))} at {sys.executable}"
    if version[:2] < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        return Check("Python", "finding", found, f"labkit needs Python {oldest} or newer; make an environment with one")
    if version[:2] > TESTED:
        return Check("Python", "note", found, f"labkit has been tested up to Python {'.'.join(map(str, TESTED))}")
    return Check("Python", "ok", found)


def check_packages() -> Iterator[Check]:
    """Judge every package that labkit and its course extra ask for, by what the installed labkit itself says."""
    try:
        wanted = _requirements(DISTRIBUTION, "course")
    except metadata.PackageNotFoundError:
        yield Check("packages", "finding", f"{DISTRIBUTION} is not installed, only imported from a folder", INSTALL)
        return
    try:
        from packaging.specifiers import SpecifierSet
    except ImportError:  # comes with JupyterLab, so what is missing is the course's extra; presence alone is judged
        SpecifierSet = None  # type: ignore[assignment,misc]
    if "ipywidgets" in wanted:  # its half in the browser has a version of its own, which only ipywidgets knows
        with suppress(metadata.PackageNotFoundError):
            halves = _requirements("ipywidgets")
            wanted |= {name: specifier for name, specifier in halves.items() if name == "jupyterlab_widgets"}
    for name, specifier in sorted(wanted.items(), key=lambda item: item[0].lower()):
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            yield Check(name, "finding", "not installed", INSTALL)
            continue
        if SpecifierSet is not None and not SpecifierSet(specifier).contains(version, prereleases=True):
            yield Check(name, "finding", f"{version}, but labkit needs {specifier}", INSTALL)
        else:
            yield Check(name, "ok", version)


def _requirements(distribution: str, extra: str | None = None) -> dict[str, str]:
    """Name -> version specifier of what a distribution asks for, with an extra and the extras that this one names."""
    wanted: dict[str, str] = {}
    pending: list[str | None] = [extra]
    for current in pending:  # grows while extras name further ones
        for line in metadata.requires(distribution) or []:
            requirement, _, marker = line.partition(";")
            conditions = re.findall(r"extra\s*==\s*['\"]([\w-]+)['\"]", marker)
            match = re.match(r"\s*([\w.-]+)\s*(?:\[([^\]]*)\])?\s*(.*?)\s*$", requirement)
            if match is None or (conditions and current not in conditions):
                continue
            name, inner, specifier = match.groups()
            if name.lower().replace("_", "-") != distribution:
                wanted[name] = specifier
            elif inner:
                pending += [other for part in inner.split(",") if (other := part.strip()) not in pending]
    return wanted


def check_course() -> Check:
    """Look for the notebooks that this installation carries."""
    try:
        names = list(course_files())
    except CourseError as error:
        return Check("course", "finding", str(error), INSTALL)
    return Check("course", "ok", f"{sum(name.endswith('.ipynb') for name in names)} notebooks")


# -------------------------------------------------------------------------------------------------- kernel and widgets


def check_kernel() -> Check:
    """Judge whether a notebook of the course would run on this Python."""
    if importlib.util.find_spec("ipykernel") is None or importlib.util.find_spec("jupyter_client") is None:
        return Check("kernel", "finding", "ipykernel is not installed, so no notebook can run", INSTALL)
    from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel

    register = f"{sys.executable} -m ipykernel install --sys-prefix registers this Python again"
    try:
        spec = KernelSpecManager().get_kernel_spec("python3")
    except NoSuchKernel:
        return Check("kernel", "finding", "no kernel is called python3", register)
    program = spec.argv[0] if spec.argv else ""
    # A bare "python" is replaced by the interpreter that runs the server.
    if re.fullmatch(r"python(3(\.\d+)?)?(\.exe)?", program) or _same_file(program, sys.executable):
        return Check("kernel", "ok", f"ipykernel {metadata.version('ipykernel')}, python3 in {spec.resource_dir}")
    return Check("kernel", "finding", f"python3 ({spec.resource_dir}) starts {program or 'nothing'}", register)


def _same_file(first: str, second: str) -> bool:
    # The folders, not the files: an environment's python is a link to the one it was made from, as its neighbours' are.
    return os.path.normcase(os.path.abspath(os.path.dirname(first))) == os.path.normcase(
        os.path.abspath(os.path.dirname(second))
    )


def check_extensions() -> Iterator[Check]:
    """Judge the halves of the widgets that run in the browser: JupyterLab takes the first copy it finds on its path."""
    try:
        from jupyter_core.paths import jupyter_path
    except ImportError:
        return  # said already: JupyterLab is missing
    for extension, package in EXTENSIONS:
        name = f"{package} in JupyterLab"
        try:
            distribution = metadata.distribution(package)
        except metadata.PackageNotFoundError:
            yield Check(name, "finding", f"{package} is not installed, so widgets stay blank", INSTALL)
            continue
        ending = f"labextensions/{extension}/package.json"
        own = [distribution.locate_file(file) for file in distribution.files or () if file.as_posix().endswith(ending)]
        found = [place for folder in jupyter_path("labextensions") if (place := Path(folder, extension)).is_dir()]
        if not found or not own:
            again = f"pip install --force-reinstall --no-deps {package}"
            yield Check(name, "finding", f"JupyterLab finds no {extension}, so widgets stay blank", again)
        elif os.path.realpath(found[0] / "package.json") != os.path.realpath(str(own[0])):
            hides = f"{found[0]} hides the one that belongs to {package} {distribution.version}"
            yield Check(name, "finding", hides, f"remove {found[0]}; an older installation left it there")
        else:
            yield Check(name, "ok", f"{package} {distribution.version}")


# ------------------------------------------------------------------------------------------------------- the machine


def check_folders(folder: Path) -> Iterator[Check]:
    """Judge whether the course and Jupyter can write where they have to.

    Args:
        folder: the learner's folder, which need not exist yet.
    """
    there = Path(os.path.abspath(folder))
    if there.exists() and not there.is_dir():
        yield Check("course folder", "finding", f"{there} is a file", "name a folder with --dir")
    else:
        yield _check_writable("course folder", there, "choose another folder with --dir, or make this one yours")
    try:
        from jupyter_core.paths import jupyter_data_dir, jupyter_runtime_dir
    except ImportError:
        return
    for name, place, variable in (
        ("Jupyter's data folder", jupyter_data_dir(), "JUPYTER_DATA_DIR"),
        ("Jupyter's runtime folder", jupyter_runtime_dir(), "JUPYTER_RUNTIME_DIR"),
    ):
        advice = f"`labkit lab` keeps it elsewhere; to change that make it yours, or set {variable} to a folder that is"
        yield _check_writable(name, Path(place), advice, "note")


def _check_writable(name: str, folder: Path, advice: str, level: Literal["finding", "note"] = "finding") -> Check:
    """Asks the disk itself: rights alone do not tell of a full or read-only one. Leaves nothing behind."""
    exists = folder
    while not exists.is_dir() and exists != exists.parent:
        exists = exists.parent
    try:
        with tempfile.TemporaryFile(dir=exists):
            pass
    except OSError as error:
        return Check(name, level, f"{exists} cannot be written: {(error.strerror or str(error)).lower()}", advice)
    return Check(name, "ok", f"{folder}" if exists == folder else f"{folder} (will be made)")


def check_bytecode() -> Check:
    """See whether the packages that a notebook imports first were compiled when they were installed."""
    missing = []
    for name in COMPILED:
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
            continue
        compiled = Path(importlib.util.cache_from_source(spec.origin))
        try:
            current = compiled.stat().st_mtime_ns >= Path(spec.origin).stat().st_mtime_ns // 10**9 * 10**9
        except OSError:
            current = False
        if not current:
            missing.append(name)
    if not missing:
        return Check("byte-code", "ok", "compiled")
    where = sysconfig.get_path("purelib")
    advice = f"{sys.executable} -m compileall -q {where} makes the first imports two to four times faster"
    return Check("byte-code", "note", f"not compiled: {', '.join(missing)}", advice)


def check_chromium() -> Check:
    """Look for the browser that labkit's own browser tests drive; the course opens in any browser."""
    path = find_chromium()
    if path is not None:
        return Check("Chromium", "ok", path)
    return Check(
        "Chromium",
        "note",
        "not found",
        "only labkit's own browser tests need it: apt-get install chromium, or set LABKIT_CHROMIUM to its program",
    )


def find_chromium() -> str | None:
    """Return the program of a Chromium: LABKIT_CHROMIUM when it is set, else the first one on PATH, else None."""
    chosen = os.environ.get("LABKIT_CHROMIUM")
    if chosen:
        return shutil.which(chosen)
    return next((path for name in CHROMIUMS if (path := shutil.which(name))), None)
