"""`labkit replay FILE...`: play recorded behaviour of the real toolkit through labkit, and say where they part.

`--json` prints one object: `files` (a list of `file`, `kind`, `traces`, `differ` and `differences`, each with `trace`,
`where`, `field`, `expected` and `got`), `traces` and `differ` over all of them.
"""

from __future__ import annotations

import argparse
import json
import logging

HELP = "play recorded traces of the real toolkit through labkit and compare"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    parser.add_argument("files", nargs="+", metavar="FILE", help="a JSON file of recorded traces")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace) -> int:
    """Replay the files; 0 if nothing differs, 1 if something does."""
    from labkit.cli.progress import Progress
    from labkit.cli.text import complain, put
    from labkit.conformance import replay_file

    # A list that names a middleware twice is recorded on purpose; the warning about it is for those who write one.
    logging.getLogger("labkit").addHandler(logging.NullHandler())
    reports = []
    try:
        for file in args.files:
            with Progress(file) as progress:
                reports.append(replay_file(file, progress))
    except KeyboardInterrupt:
        complain(f"interrupted; {len(reports)} of {len(args.files)} files were compared")
        raise
    traces = sum(report.traces for report in reports)
    differ = sum(len(report.differences) for report in reports)
    if args.json:
        files = [
            {
                "file": report.file,
                "kind": report.kind,
                "traces": report.traces,
                "differ": len(report.differences),
                "differences": [difference.to_dict() for difference in report.differences],
            }
            for report in reports
        ]
        put(json.dumps({"files": files, "traces": traces, "differ": differ}, indent=2))
    else:
        for report in reports:
            for difference in report.differences:
                put(str(difference))
            if len(reports) > 1:
                put(f"{report.file}: {report.traces} traces, {len(report.differences)} differ")
        put(f"{traces} traces, {differ} differ")
    return 1 if differ else 0
