"""The benchmarks of labkit: prints a table a section, each promise with what was found and whether it holds.

    make bench                                     # on this Python and the newest supported one
    python benchmarks/run.py --only breaker --quick

Exit status: 0 when everything was measured, whatever was found; 1 when a case does not do what it claims.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from pathlib import Path

if __name__ == "__main__":
    # As a script this folder comes first on the path, where its modules would be found under other names.
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from benchmarks import breaker, explorers, import_time, memory, pictures, retry, scenarios, stack, virtual_time
from benchmarks.measure import FULL, QUICK, Bound, Section
from benchmarks.peers import BREAKERS, RETRIES, TOOLKIT, installed, quiet

SECTIONS = {
    module.NAME: module
    for module in (breaker, retry, stack, memory, virtual_time, scenarios, pictures, explorers, import_time)
}
PEERS = sorted({*BREAKERS, *RETRIES, "tornado", "simpy", "looptime", TOOLKIT})


def processor() -> str:
    """The processor's name, as the system tells it."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def load() -> str:
    """How busy the machine is, where the system tells."""
    if not hasattr(os, "getloadavg"):
        return "not known"
    return f"{os.getloadavg()[0]:.1f}"


def figure(bound: Bound, value: float) -> str:
    return f"{value:,.{bound.places}f}"


def table(section: Section) -> str:
    """The section as text."""
    lines = [f"{section.name}: {section.title}"]
    widths = [max([len(section.heads[0]), *(len(row.name) for row in section.rows)])]
    for column in range(1, len(section.heads)):
        cells = [row.figures[column - 1] for row in section.rows if row.figures]
        widths.append(max([len(section.heads[column]), *(len(cell) for cell in cells)]))
    lines.append(
        "  "
        + section.heads[0].ljust(widths[0])
        + "".join("  " + head.rjust(width) for head, width in zip(section.heads[1:], widths[1:], strict=True))
    )
    for row in section.rows:
        if not row.figures:
            lines.append(f"  -- {row.name}")
            continue
        cells = "".join("  " + cell.rjust(width) for cell, width in zip(row.figures, widths[1:], strict=True))
        lines.append("  " + row.name.ljust(widths[0]) + cells)
    if section.bounds:
        longest = max(len(bound.what) for bound in section.bounds)
        lines.append("  promises: found (ratio of medians / median of the rounds' ratios), limit, whether it holds")
        for bound in section.bounds:
            found = " / ".join(figure(bound, value) for value in bound.found)
            sign = ">=" if bound.at_least else "<="
            lines.append(
                f"    {bound.what.ljust(longest)}  {found:>15}  {sign} {figure(bound, bound.limit)}  {bound.verdict}"
            )
    if section.noise is not None:
        lines.append(f"  noise: the middle half of the rounds spans {section.noise:.0%} of the median (typical case)")
    lines += [f"  note: {note}" for note in section.notes]
    return "\n".join(lines)


def write_json(path: Path, facts: dict[str, object], sections: list[Section]) -> None:
    """Adds this Python's figures to the file: `make bench` runs once for each of two."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        data = {}
    if not isinstance(data, dict):
        data = {}
    data[platform.python_version()] = {**facts, "sections": [section.to_dict() for section in sections]}
    path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds: seconds, not minutes, and less certain")
    parser.add_argument("--only", action="append", choices=SECTIONS, metavar="SECTION", help=", ".join(SECTIONS))
    parser.add_argument("--json", type=Path, metavar="OUT", help="also write everything there, under this Python")
    args = parser.parse_args(argv)

    versions = {package: installed(package) for package in PEERS}
    found = ", ".join(f"{package} {number}" for package, number in versions.items() if number is not None)
    absent = ", ".join(package for package, number in versions.items() if number is None)
    print(f"labkit's benchmarks on {platform.python_implementation()} {platform.python_version()}, {processor()}")
    print(f"  {os.cpu_count()} processors, load {load()} at the start; garbage collector as it is; no log records made")
    print(f"  beside: {found or 'nothing'}")
    if absent:
        print(f"  not installed: {absent}")
    facts: dict[str, object] = {
        "implementation": platform.python_implementation(),
        "processor": processor(),
        "load": load(),
        "quick": args.quick,
        "versions": versions,
    }
    sections, broken = [], False
    for name in args.only or SECTIONS:
        print(flush=True)
        try:
            with quiet():
                section = SECTIONS[name].run(QUICK if args.quick else FULL)
        except AssertionError as problem:
            print(f"{name}: not measured, because a case does not do what it claims: {problem}")
            broken = True
            continue
        sections.append(section)
        print(table(section), flush=True)
    bounds = [bound for section in sections for bound in section.bounds]
    print(f"\n{sum(bound.holds for bound in bounds)} of {len(bounds)} promises hold; load {load()} at the end")
    if args.json is not None:
        write_json(args.json, facts, sections)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
