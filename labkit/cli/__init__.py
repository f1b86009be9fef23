"""The command line: `labkit COMMAND ...`, one module a command, imported when it is asked for."""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # typing's own costs an import
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from typing import NoReturn, TextIO

__all__ = ["COMMANDS", "main"]

COMMANDS = ("lab", "reset", "doctor", "check", "scenarios", "run", "sweep", "replay", "serve")

UNFORESEEN = 3  # never 1, which says that what was looked at has findings
INTERRUPTED = 130  # what a shell reports for a command that Ctrl-C ended
BROKEN_PIPE = 141  # and for one whose reader went away (`labkit ... | head`)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status.

    Args:
        argv: the words after `labkit`; those of the process when left out.

    Returns:
        What the command says (0 is fine), 2 when labkit has to refuse (one sentence on stderr), 3 when labkit itself
        fails (a sentence too; with LABKIT_TRACEBACK=1 after the traceback), 130 on Ctrl-C.
    """
    from labkit.errors import LabkitError

    try:
        try:
            return _run(list(sys.argv[1:] if argv is None else argv))
        finally:
            if sys.stdout is not None:
                _flush(sys.stdout)
    except LabkitError as error:
        from labkit.cli.text import complain

        complain(str(error))
        return 2
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _forget_stdout()
        return BROKEN_PIPE
    except Exception as error:
        return _unforeseen(error)


def _run(words: list[str]) -> int:
    command = words[0] if words else None
    if command is not None and not command.startswith("-") and command not in COMMANDS:
        return _unknown(command)
    # Only the command that is asked for is imported; the list of all of them needs the line that each has to say.
    parser = _parser((command,) if command in COMMANDS else COMMANDS)
    for word in words:
        if word.startswith("--") and word.endswith("=--"):  # of which argparse makes an empty list, up to Python 3.12
            parser.error(f"argument {word[:-3]}: expected one argument")
    args = parser.parse_args(words)
    if not hasattr(args, "run"):
        parser.print_help()
        return 0
    return int(args.run(args))


def _parser(names: Sequence[str]) -> argparse.ArgumentParser:
    import argparse
    from importlib import import_module

    from labkit.config.findings import printable
    from labkit.version import __version__

    class Parser(argparse.ArgumentParser):
        def error(self, message: str) -> NoReturn:
            shown = printable(message)  # which has words of the command line in it
            super().error(shown if len(shown) <= 500 else f"{shown[:497]}...")

    parser = Parser(
        prog="labkit",
        description="The lab that teaches circuit breakers by running them.",
        epilog="`labkit COMMAND --help` says more about one of them.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"labkit {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND [-h]")
    for name in names:
        module = import_module(f"labkit.cli.{name}")
        below = commands.add_parser(name, help=module.HELP, description=_sentence(module.HELP), allow_abbrev=False)
        if len(names) == 1:  # the list shows no options
            module.add_arguments(below)
        below.set_defaults(run=module.run)
    return parser


def _sentence(line: str) -> str:
    return line[:1].upper() + line[1:] + ("" if line.endswith(".") else ".")


def _flush(stream: TextIO) -> None:
    """Write out what was printed, or say why that cannot be."""
    try:
        stream.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        from labkit.errors import LabkitError

        _forget_stdout()
        raise LabkitError(f"the output cannot be written: {(error.strerror or str(error)).lower()}") from None


def _unknown(command: str) -> int:
    from labkit.cli.text import complain
    from labkit.config.findings import quoted
    from labkit.config.nearest import nearest

    near = nearest(command, COMMANDS)
    hint = f"did you mean `labkit {near}`?" if near else f"there are {', '.join(COMMANDS)}."
    complain(f"there is no command {quoted(command)}; {hint}")
    return 2


def _unforeseen(error: Exception) -> int:
    """Say that labkit itself failed, and what to do about it."""
    import os

    from labkit.cli.text import complain

    try:
        words = " ".join(str(error).split())
    except Exception:  # of a foreign class, whose words fail as well
        words = ""
    what = f"{type(error).__name__}: {words}" if words else type(error).__name__
    advice = "please report it, with the command and its files, to whoever gave you labkit"
    if os.environ.get("LABKIT_TRACEBACK", "") in ("", "0"):
        advice += "; with LABKIT_TRACEBACK=1 in the environment the command says where it happened"
    elif sys.stderr is not None:
        import traceback
        from contextlib import suppress

        from labkit.cli.text import shown

        with suppress(OSError):
            print(shown("".join(traceback.format_exception(error)), sys.stderr), end="", file=sys.stderr)
    complain(f"this is a fault of labkit's own ({what if len(what) <= 500 else what[:497] + '...'}); {advice}")
    return UNFORESEEN


def _forget_stdout() -> None:
    """Let the interpreter flush into nothing when it ends, instead of complaining about the closed pipe."""
    import os
    from contextlib import suppress

    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
