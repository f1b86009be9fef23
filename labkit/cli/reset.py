"""`labkit reset NOTEBOOK`: the original again; the learner's copy is kept under a dated name."""

from __future__ import annotations

import argparse
from pathlib import Path

from labkit.cli.course import DEFAULT_FOLDER, around, course_files, find_file, resolve_folder, restore
from labkit.cli.moment import stamp

HELP = "bring back the original of a notebook; your copy is kept under a dated name"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `labkit reset`."""
    parser.add_argument("notebook", metavar="NOTEBOOK", help="its path, its name, or 04-order, or order")
    parser.add_argument(
        "--dir", metavar="DIR", help=f"your course folder (default: the one you are in, else ./{DEFAULT_FOLDER})"
    )


def run(args: argparse.Namespace) -> int:
    """Bring one file of the course back."""
    folder = resolve_folder(args.dir or around(Path.cwd()) or DEFAULT_FOLDER)
    source = course_files()
    name = find_file(args.notebook, folder, list(source))
    existed = (folder / name).exists()
    kept = restore(folder, name, source[name], stamp())
    if kept is not None:
        print(f"{name} is the original again; your copy is kept as {kept.relative_to(folder).as_posix()}")
    elif existed:
        print(f"{name} is the original already; nothing changed")
    else:
        print(f"{name} is back")
    return 0
