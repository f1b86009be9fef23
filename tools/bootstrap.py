"""From a bare Python with pip to the course or to the checks, in one command.

    python -m tools.bootstrap lab       # make lab
    python -m tools.bootstrap test      # make test

The Makefile calls this and nothing else, so both ways do the same. Written so that an old Python can read it too: it
then looks for a fitting one, or says in a sentence which one is needed.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LOCK = os.path.join(ROOT, "requirements.lock")
PYPROJECT = os.path.join(ROOT, "pyproject.toml")
VENV = os.path.join(ROOT, ".venv")
LOCK_VENV = os.path.join(ROOT, ".venv-lock")
UV = "uv==0.13.9"  # used by `make lock` alone, in an environment of its own

OLDEST, TESTED = (3, 11), (3, 14)  # a newer one is taken too, with a sentence: a newcomer may have nothing else
CHECKS = ("lint", "types", "floors", "unit", "nbval", "browser")
COMMANDS = ("venv", "lab", "test", *CHECKS, "notebooks", "bench", "lock", "clean")

# Asked of every candidate, so it must run on any Python; the last line tells whether `venv` can bring pip along.
PROBE = """
import json, sys
try:
    import ensurepip
except ImportError:
    ensurepip = None
print(json.dumps([list(sys.version_info[:3]), sys.executable, sys.base_prefix, bool(ensurepip)]))
"""


class Problem(Exception):
    """What stands in the way, as one sentence."""


class Python:
    """An interpreter that answered."""

    def __init__(self, command: str, version: tuple[int, ...], base: str, has_ensurepip: bool) -> None:
        self.command = command
        self.version = version
        self.base = base
        self.has_ensurepip = has_ensurepip

    @property
    def minor(self) -> tuple[int, ...]:
        return self.version[:2]

    @property
    def fits(self) -> bool:
        return self.minor >= OLDEST

    @property
    def tested(self) -> bool:
        return OLDEST <= self.minor <= TESTED


def dotted(version: tuple[int, ...]) -> str:
    return ".".join(str(part) for part in version)


def ask(command: str) -> Python | None:
    """What `command` is, or None where it does not run (some systems put names on PATH that lead nowhere)."""
    path = shutil.which(command)
    if path is None:
        return None
    try:
        answer = subprocess.run(
            [path, "-c", PROBE], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, timeout=60
        )
        version, executable, base, has_ensurepip = json.loads(answer.stdout.decode())
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return Python(executable or path, tuple(version), base, has_ensurepip)


def candidates() -> list[str]:
    """Where a fitting Python may be: on PATH, the tested ones first, and where pyenv keeps its versions."""
    minors = ["%d.%d" % (OLDEST[0], minor) for minor in range(TESTED[1], OLDEST[1] - 1, -1)]
    newer = ["%d.%d" % (OLDEST[0], minor) for minor in range(TESTED[1] + 1, TESTED[1] + 9)]
    found = ["python3"] + ["python" + minor for minor in minors] + ["python"] + ["python" + minor for minor in newer]
    pyenv = os.environ.get("PYENV_ROOT") or os.path.join(os.path.expanduser("~"), ".pyenv")
    for minor in minors + newer:
        found += sorted(glob.glob(os.path.join(pyenv, "versions", minor + ".*", "bin", "python")))
    return found


def find_python() -> Python:
    """PYTHON if it is set, else the interpreter that runs this, else the first that fits; a tested one if there is one.

    Raises:
        Problem: there is none that fits.
    """
    wanted = "Python %s or newer" % dotted(OLDEST)
    chosen = os.environ.get("PYTHON")
    if chosen:
        python = ask(chosen)
        if python is None:
            raise Problem("PYTHON=%s does not run; labkit needs %s." % (chosen, wanted))
        if not python.fits:
            raise Problem("PYTHON=%s is Python %s; labkit needs %s." % (chosen, dotted(python.version), wanted))
        return python
    untested = None
    for command in [sys.executable, *candidates()]:
        python = ask(command)
        if python is not None and python.tested:
            return python
        if python is not None and python.fits:
            untested = untested or python
    if untested is not None:
        return untested
    raise Problem(
        "labkit needs %s, and none was found (this is %s); install one, or name it: make PYTHON=/path/to/python3.12 lab"
        % (wanted, dotted(tuple(sys.version_info[:3])))
    )


def newest_python() -> Python | None:
    """The newest tested Python on this machine."""
    tested = [python for python in map(ask, candidates()) if python is not None and python.tested]
    return max(tested, key=lambda python: python.minor, default=None)


def bin_of(venv: str, name: str) -> str:
    folder, suffix = ("Scripts", ".exe") if os.name == "nt" else ("bin", "")
    return os.path.join(venv, folder, name + suffix)


def say(sentence: str) -> None:
    print("labkit: " + sentence, file=sys.stderr, flush=True)


def run(command: list[str], problem: str) -> None:
    """Runs a step of the installation quietly; its own words are shown only if it fails."""
    done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        sys.stderr.write(done.stdout.decode(errors="replace")[-4000:])
        raise Problem(problem)


def digest(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def read_stamp(venv: str) -> dict[str, str]:
    try:
        with open(os.path.join(venv, "labkit-stamp.json"), encoding="utf-8") as file:
            stamp = json.load(file)
    except (OSError, ValueError):
        return {}
    return stamp if isinstance(stamp, dict) else {}


def write_stamp(venv: str, stamp: dict[str, str]) -> None:
    with open(os.path.join(venv, "labkit-stamp.json"), "w", encoding="utf-8") as file:
        json.dump(stamp, file, indent=1)


def make_venv(python: Python, venv: str) -> None:
    """An empty environment with pip in it."""
    if python.has_ensurepip:
        run(
            [python.command, "-m", "venv", "--clear", venv],
            "no environment could be made in %s (the words of `venv` are above)." % venv,
        )
        return
    # Debian and Ubuntu keep ensurepip in a package of its own (python3-venv); pip itself can fill the gap.
    advice = (
        "this Python (%s) cannot make an environment; install its venv package (Debian, Ubuntu: apt-get install "
        "python3-venv) or choose another Python with PYTHON=..." % python.command
    )
    run([python.command, "-m", "venv", "--clear", "--without-pip", venv], advice)
    run([python.command, "-m", "pip", "--python", bin_of(venv, "python"), "install", "-q", "pip"], advice)


def install_lock(venv: str) -> None:
    with open(LOCK, encoding="utf-8") as file:
        count = sum(1 for line in file if "==" in line)
    say(
        "installing about %d pinned packages into %s (once, a minute or two; needs the network)"
        % (count, os.path.relpath(venv, ROOT))
    )
    run(
        [bin_of(venv, "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check", "-r", LOCK],
        "pip could not install the versions of requirements.lock (its own words are above); run the command again "
        "once the cause is mended, it goes on where it stopped.",
    )


def install_labkit(venv: str) -> None:
    run(
        [
            *(bin_of(venv, "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check"),
            *("--no-deps", "--no-build-isolation", "-e", ROOT),
        ],
        "pip could not install labkit itself from this folder (its own words are above).",
    )


def compile_bytecode(venv: str) -> None:
    """Some installers leave this to the first import, which then takes two to four times as long."""
    python = bin_of(venv, "python")
    where = subprocess.check_output([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"])
    folders = [where.decode().strip(), os.path.join(ROOT, "labkit")]
    # Some packages ship files that are not for this Python: a file that does not compile is no reason to stop.
    subprocess.call([python, "-m", "compileall", "-qq", "-j0", *folders])


def ensure(venv: str, python: Python | None = None) -> None:
    """Makes the environment, or what is missing of it. When nothing has changed this costs one start of Python."""
    stamp = read_stamp(venv)
    pinned = {"lock": digest(LOCK), "venv": venv}
    made = "half_made" not in stamp and all(stamp.get(key) == value for key, value in pinned.items())
    if made and ask(bin_of(venv, "python")) is not None:
        chosen = find_python() if python is None and os.environ.get("PYTHON") else None
        # Two of a system's Pythons stand in one folder: only their versions tell them apart.
        if chosen is None or (stamp.get("base"), stamp.get("python")) == (chosen.base, dotted(chosen.version)):
            if stamp.get("pyproject") != digest(PYPROJECT):
                install_labkit(venv)
                write_stamp(venv, dict(stamp, pyproject=digest(PYPROJECT)))
            return
    python = python or find_python()
    # The environment that a run left half made is filled up; one made for another lock, Python or folder is made anew.
    half_made = dict(pinned, base=python.base, python=dotted(python.version), half_made="yes")
    if stamp != half_made or ask(bin_of(venv, "python")) is None:
        say("making %s with Python %s" % (os.path.relpath(venv, ROOT), dotted(python.version)))
        if not python.tested:
            say(
                "Python %s has not been tested with labkit, %s to %s have; if something fails, make "
                "PYTHON=/path/to/python%s takes another one."
                % (dotted(python.minor), dotted(OLDEST), dotted(TESTED), dotted(TESTED))
            )
        make_venv(python, venv)
        write_stamp(venv, half_made)
    install_lock(venv)
    install_labkit(venv)
    compile_bytecode(venv)
    done = dict(half_made, pyproject=digest(PYPROJECT))
    del done["half_made"]
    write_stamp(venv, done)


def become(command: list[str]) -> int:
    """Hands this process over, so that Ctrl-C and signals reach the command itself."""
    os.chdir(ROOT)
    if os.name == "nt":
        return subprocess.call(command)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(command[0], command)


def bench(arguments: list[str]) -> int:
    """The benchmarks on the environment's Python and on the newest supported one."""
    ensure(VENV)
    venvs = [VENV]
    mine, newest = ask(bin_of(VENV, "python")), newest_python()
    if mine is not None and newest is not None and newest.minor > mine.minor:
        venvs.append("%s-bench-%s" % (VENV, dotted(newest.minor)))
        ensure(venvs[1], newest)
    script = os.path.join("benchmarks", "run.py")
    return max([subprocess.call([bin_of(venv, "python"), script, *arguments]) for venv in venvs])


def lock(arguments: list[str]) -> int:
    """Resolves pyproject.toml anew, for every supported Python and system at once."""
    uv = bin_of(LOCK_VENV, "uv")
    if read_stamp(LOCK_VENV) != {"uv": UV}:
        make_venv(find_python(), LOCK_VENV)
        run([bin_of(LOCK_VENV, "python"), "-m", "pip", "install", "-q", UV], "pip could not install %s." % UV)
        write_stamp(LOCK_VENV, {"uv": UV})
    command = [uv, "pip", "compile", "--quiet", "--universal", "--python-version", dotted(OLDEST), "--all-extras"]
    command += ["--no-annotate", "--no-emit-package", "labkit-circuit-breakers"]
    command += ["--custom-compile-command", "make lock", "--upgrade", *arguments, "-o", LOCK, PYPROJECT]
    return subprocess.call(command, stdout=subprocess.DEVNULL)


def clean() -> int:
    """Removes what can be made again. The learner's folder, labkit-course, is not touched."""
    names = (".hypothesis", ".import_linter_cache", ".mypy_cache", ".pytest_cache", ".ruff_cache", "build", "dist")
    folders = [os.path.join(ROOT, name) for name in names] + glob.glob(os.path.join(ROOT, ".venv*"))
    for top in ("labkit", "tests", "tools", "benchmarks", "notebooks"):
        for parent, below, _ in os.walk(os.path.join(ROOT, top)):
            folders += [os.path.join(parent, name) for name in below if name in ("__pycache__", ".ipynb_checkpoints")]
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


def main(argv: list[str]) -> int:
    command, arguments = (argv[0], argv[1:]) if argv else ("", [])
    try:
        os.chdir(ROOT)
        if command not in COMMANDS:
            raise Problem("python -m tools.bootstrap takes one of: " + ", ".join(COMMANDS))
        if command == "clean":
            return clean()
        if command == "lock":
            return lock(arguments)
        if command == "bench":
            return bench(arguments)
        ensure(VENV)
        if command == "venv":
            return 0
        python = bin_of(VENV, "python")
        if command == "lab":
            return become([python, "-m", "labkit", "lab", *arguments])
        if command == "notebooks":
            return become([python, "-m", "tools.notebooks", *arguments])
        return become([python, "-m", "tools.checks", *([] if command == "test" else [command]), *arguments])
    except Problem as problem:
        say(str(problem))
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
