"""What `import labkit` adds to the start of a bare interpreter, with byte-code in place."""

from __future__ import annotations

import compileall
import json
import subprocess
import sys
from pathlib import Path

import labkit
from benchmarks.measure import Bound, Effort, Section, interleave

NAME = "import"
BARE = "python -c pass"
OURS = "python -c 'import labkit'"
PUBLIC = "... and what a stack needs"
NOT_WANTED = ("matplotlib", "ipywidgets", "pydantic", "asyncio")
PACKAGE = Path(labkit.__file__).resolve().parent


def start(code: str) -> None:
    subprocess.run([sys.executable, "-c", code], cwd=PACKAGE.parent, check=True, stdout=subprocess.DEVNULL)


def brought() -> list[str]:
    """The modules that `import labkit` brings into a bare interpreter."""
    code = (
        "import sys; before = set(sys.modules); import labkit; brought = sorted(set(sys.modules) - before); "
        "import json; print(json.dumps(brought))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=PACKAGE.parent, check=True, capture_output=True, text=True)
    names: list[str] = json.loads(done.stdout)
    return names


def run(effort: Effort) -> Section:
    section = Section(
        NAME,
        "what import labkit adds to the start of a bare interpreter, byte-code in place",
        ("µs a start", "median", "least", "spread", "adds"),
    )
    compileall.compile_dir(PACKAGE, quiet=2)
    names = brought()
    unwanted = [name for name in NOT_WANTED if name in names]
    assert "labkit" in names, "labkit was not imported"
    samples = interleave(
        {
            BARE: lambda: start("pass"),
            OURS: lambda: start("import labkit"),
            PUBLIC: lambda: start("from labkit import Stack, load_stack_config"),
        },
        effort.starts,
    )
    section.take(samples, 1e6, less=BARE)
    section.notes.append(f"import labkit brings: {', '.join(names)}.")
    section.notes.append(
        f"Of {', '.join(NOT_WANTED)} it brings {', '.join(unwanted) or 'none'}. The third line is not bounded: it is "
        "what the first use of a stack imports (pydantic, asyncio and PyYAML among it)."
    )
    added = samples.difference(OURS, BARE)
    section.bounds += [
        Bound("milliseconds added", (added[0] * 1e3, added[1] * 1e3), 15.0, places=2),
        Bound("unwanted modules brought", (float(len(unwanted)),), 0.0, places=0),
    ]
    return section
