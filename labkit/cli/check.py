"""`labkit check FILE...`: say what is wrong with a stack's or a scenario's YAML, one sentence a finding.

Exit status, over all files: 2 when one cannot be read (no such file, not UTF-8, not YAML), else 1 when one has an error
or a warning, else 0. Findings are of three kinds:

- an error: the configuration is refused;
- a warning: it loads, and most likely does not do what was meant (a middleware that no function lists);
- a note: sound for the toolkit, and labkit reads something in it otherwise or not at all; notes alone are 0.

With `--lenient` an unknown key of a middleware is a warning, as the toolkit ignores it in silence, and warnings alone
are 0 as well.

`--json` prints one object, the same bytes for the same files and environment, its text in ASCII:

    schema      "labkit.check/1"
    lenient     whether --lenient was given
    exit        the exit status
    counts      files, sound, with_findings, unreadable, errors, warnings, notes
    files       a list, in the order given, of
        file        the name as given; "<stdin>" for -
        status      "sound" (notes, and warnings when lenient, do not count), "findings" or "unreadable"
        findings    a list, in the order of lines, of
            file, line, column      line and column counted from 1; null where no line is to blame
            severity                "error", "warning" or "note"
            code                    see below
            key, found, allowed, nearest    texts, or null
            message                 the sentence

Codes: unreadable, syntax (these two mean "cannot be read"); empty, too-deep, too-much, endless, placeholder,
unset-variable, unreadable-value, merge, key, duplicate-key (the YAML); base, unknown-section, wrong-kind, name,
missing-type, unknown-type, wrong-type, missing-key, unknown-key, out-of-range, at-odds (a value or a block); undefined,
unused, listed-twice, not-run, attaches-itself, not-acted-on, endless, unknown-exception, never-retried, not-approved,
same-service, odd-number, counts-refusals, left-early, shared-budget (how the parts fit together); too-many (the search
ended at 200 findings).
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from labkit.config.findings import Finding

__all__ = ["HELP", "add_arguments", "run"]

HELP = "say what is wrong with a stack's or a scenario's YAML, with lines and the names that were meant"

SCHEMA = "labkit.check/1"
STDIN = "<stdin>"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    parser.add_argument("files", nargs="+", metavar="FILE", help="a YAML file, or - for standard input")
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    parser.add_argument(
        "--lenient",
        action="store_true",
        help="let unknown keys of a middleware pass with a warning, as the toolkit does",
    )
    parser.epilog = "Exit status: 0 sound, 1 findings, 2 a file cannot be read."


def run(args: argparse.Namespace) -> int:
    """Check the files; return 0 if all are sound, 1 if there are findings, 2 if a file cannot be read."""
    stdin: bytes | None = None
    results: list[tuple[str, str, tuple[Finding, ...]]] = []
    for file in args.files:
        if file == "-" and stdin is None:
            stdin = _read_stdin()
        findings = _findings(file, stdin or b"", args.lenient)
        results.append((STDIN if file == "-" else file, _status(findings, args.lenient), findings))
    counts = _counts(results)
    status = 2 if counts["unreadable"] else 1 if counts["with_findings"] else 0
    if args.json:
        _print_json(results, counts, status, args.lenient)
    else:
        _print_text(results, counts)
    return status


def _read_stdin() -> bytes:
    from labkit.config.yaml.loader import MAX_BYTES

    stream = getattr(sys.stdin, "buffer", None)
    if stream is None:  # closed, or replaced by something that holds text
        return b"" if sys.stdin is None else sys.stdin.read(MAX_BYTES + 1).encode("utf-8", "surrogateescape")
    data: bytes = stream.read(MAX_BYTES + 1)
    return data


def _findings(file: str, stdin: bytes, lenient: bool) -> tuple[Finding, ...]:
    from pathlib import Path

    from labkit.config.yaml.loader import open_document, read_stack_config
    from labkit.errors import ConfigError

    try:
        source, name = (stdin, STDIN) if file == "-" else (Path(file), file)
        document, report = open_document(source, name=name)
        if document.has("scenario"):
            from labkit.scenario.spec.reader import read_scenario

            return read_scenario(document, report, name, lenient=lenient).stack.warnings
        return read_stack_config(document, report, lenient=lenient).warnings
    except ConfigError as error:
        return error.findings  # type: ignore[return-value]  # floor 1 cannot name the class


def _status(findings: tuple[Finding, ...], lenient: bool) -> str:
    from labkit.config.yaml.loader import UNREADABLE

    if any(finding.code in UNREADABLE for finding in findings):
        return "unreadable"
    counting = ("error",) if lenient else ("error", "warning")
    return "findings" if any(finding.severity in counting for finding in findings) else "sound"


def _counts(results: list[tuple[str, str, tuple[Finding, ...]]]) -> dict[str, int]:
    statuses = [status for _, status, _ in results]
    severities = [finding.severity for _, _, findings in results for finding in findings]
    return {
        "files": len(results),
        "sound": statuses.count("sound"),
        "with_findings": statuses.count("findings"),
        "unreadable": statuses.count("unreadable"),
        "errors": severities.count("error"),
        "warnings": severities.count("warning"),
        "notes": severities.count("note"),
    }


def _print_json(
    results: list[tuple[str, str, tuple[Finding, ...]]], counts: dict[str, int], status: int, lenient: bool
) -> None:
    import json

    files = [
        {"file": file, "status": verdict, "findings": [finding.to_dict() for finding in findings]}
        for file, verdict, findings in results
    ]
    print(
        json.dumps({"schema": SCHEMA, "lenient": lenient, "exit": status, "counts": counts, "files": files}, indent=2)
    )


def _print_text(results: list[tuple[str, str, tuple[Finding, ...]]], counts: dict[str, int]) -> None:
    from labkit.config.findings import printable

    for file, status, findings in results:
        for finding in findings:
            _print(finding.message)
        if status == "sound":
            _print(f"{printable(file)}: sound")
    words = {"sound": "sound", "with_findings": "with findings", "unreadable": "that cannot be read"}
    parts = [f"{counts[name]} {word}" for name, word in words.items() if counts[name]]
    severities = [_plural(counts[name], name[:-1]) for name in ("errors", "warnings", "notes") if counts[name]]
    found = f" ({', '.join(severities)})" if severities else ""
    _print(f"{_plural(counts['files'], 'file')}: {', '.join(parts)}{found}")


def _plural(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def _print(line: str) -> None:
    """Print a line, with escapes for what the terminal's encoding has no sign for."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    print(line.encode(encoding, "backslashreplace").decode(encoding))
