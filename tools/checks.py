"""Everything that must hold, one step after the other, each with its name and time, and one summary at the end.

python -m tools.checks [STEP] [ARGUMENT...]: all steps, or one of them with further arguments for its command.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHON = sys.executable
PYTEST = [PYTHON, "-m", "pytest"]
# A worker that has done its share takes from the others', so that none is left alone with the slow ones.
WORKERS = ["-n", "auto", "--dist", "worksteal"]


def script(name: str) -> str:
    """A console script of this environment."""
    return str(Path(PYTHON).with_name(name + (".exe" if os.name == "nt" else "")))


@dataclass(frozen=True)
class Step:
    """One thing that must hold: the commands that show it; the last one takes further arguments."""

    name: str
    says: str
    commands: tuple[list[str], ...]


STEPS: tuple[Step, ...] = (
    Step(
        "lint",
        "ruff: format and rules",
        ([script("ruff"), "format", "--check", "--quiet", "."], [script("ruff"), "check", "--quiet", "."]),
    ),
    Step("types", "mypy --strict", ([PYTHON, "-m", "mypy"],)),
    Step("floors", "import-linter", ([script("lint-imports"), "--no-logo"],)),
    Step("unit", "pytest: units, properties, doctests", ([*PYTEST, "-q", *WORKERS, "-m", "not browser"],)),
    Step(
        "nbval",
        "the notebooks say what they say",
        (
            [PYTHON, "-m", "tools.notebooks", "--check"],
            [
                *(*PYTEST, "-q", "--nbval", "--nbval-current-env", "--nbval-cell-timeout=60"),
                *("--nbval-sanitize-with", "tests/notebooks/sanitize.cfg", "notebooks"),
            ],
        ),
    ),
    Step(
        "browser",
        "a real JupyterLab in Chromium",
        # Each worker has a JupyterLab and a Chromium of its own: two, since memory does not grow with the cores.
        ([*PYTEST, "-q", *WORKERS, "--maxprocesses", "2", "-m", "browser", "tests/browser"],),
    ),
)


def run(step: Step, arguments: list[str]) -> int:
    """The first exit code that is not 0. pytest's 5 (it found no test) is a failure like any other."""
    *first, last = step.commands
    for command in [*first, [*last, *arguments]]:
        code = subprocess.call(command, cwd=ROOT, stdin=subprocess.DEVNULL)
        if code:
            return code
    return 0


def main(argv: list[str]) -> int:
    """Runs the steps; 0 when all hold. A step that fails does not stop the others."""
    steps = STEPS
    if argv:
        steps = tuple(step for step in STEPS if step.name == argv[0])
        if not steps:
            print(f"there is no step {argv[0]!r}; there are: {', '.join(step.name for step in STEPS)}", file=sys.stderr)
            return 2
    results: list[tuple[Step, int, float]] = []
    for step in steps:
        print(f"\n== {step.name}: {step.says}", flush=True)
        begun = time.monotonic()
        code = run(step, argv[1:])
        results.append((step, code, time.monotonic() - begun))
        print(f"== {step.name}: {'holds' if code == 0 else f'FAILED (exit {code})'}", flush=True)
    failed = [step.name for step, code, _ in results if code]
    print()
    for step, code, seconds in results:
        print(f"  {'ok    ' if code == 0 else 'FAILED'}  {step.name:<8} {seconds:7.1f} s  {step.says}")
    print(f"  {'':<6}  {'all':<8} {sum(seconds for _, _, seconds in results):7.1f} s")
    print(f"checks: {len(results) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
