"""Reading the files that a user names: regular files only, up to a limit, each failure a sentence.

A pipe without a writer would wait for ever, a device may never end, and an endless file eats the memory: none of them
is opened to be read. No pydantic, no YAML.
"""

from __future__ import annotations

import os
import stat

from labkit.config.findings import Report, printable
from labkit.config.nearest import nearest
from labkit.errors import ConfigError

__all__ = ["as_text", "read_user_file"]

_KINDS = (
    (stat.S_ISDIR, "this is a folder"),
    (stat.S_ISFIFO, "this is a pipe"),
    (stat.S_ISSOCK, "this is a socket"),
    (stat.S_ISCHR, "this is a device"),
    (stat.S_ISBLK, "this is a device"),
)


def read_user_file(
    path: str | os.PathLike[str],
    *,
    most: int,
    name: str | None = None,
    wanted: str = "a file",
    usual: str = "",
) -> bytes:
    """Return the bytes of a regular file that somebody named; a symbolic link to one will do.

    Args:
        path: the file.
        most: how many bytes it may have.
        name: what to call it in sentences; by default the path.
        wanted: what it should be, for the sentence about a folder, a pipe or a device: "a YAML file".
        usual: how long such files are, for the sentence about one that is too long: "a stack has a few thousand".

    Raises:
        ConfigError: it is not there, is no regular file, is too long or cannot be read: one sentence, with the file's
            name in front and the nearest name beside it, and one finding (code "unreadable"). Nothing else is raised.
    """
    path = os.fspath(path)
    label = path if name is None else name
    try:
        _regular(os.stat(path), label, wanted)  # opening some devices already does something
        with open(path, "rb", opener=_at_once) as file:
            _regular(os.fstat(file.fileno()), label, wanted)  # it may be another one by now
            data = file.read(most + 1) or b""  # None where the system has nothing to give yet
    except FileNotFoundError:
        raise _unreadable(label, "there is no such file", _beside(path)) from None
    except PermissionError:
        raise _unreadable(label, "the file may not be read by you") from None
    except MemoryError:
        raise _unreadable(label, "the file is too long for this machine's memory") from None
    except (OSError, ValueError) as error:  # a name that is too long, or has a null character in it
        reason = getattr(error, "strerror", None) or str(error)
        raise _unreadable(label, f"the file cannot be opened: {printable(reason).lower()}") from None
    if len(data) > most:
        raise _unreadable(label, f"the file has more than {most} bytes" + (f", and {usual}" if usual else ""))
    return data


def _at_once(path: str, flags: int) -> int:
    """Open without waiting for anybody."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def as_text(data: bytes, report: Report) -> str | None:
    """Return the text as Python's `open` gives it: the same line breaks on every system, and no byte order mark.

    None when it is not UTF-8: the report has the finding.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - (data.rfind(b"\n", 0, error.start) + 1) + 1
        kind = "UTF-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "another encoding"
        sentence = (
            f"the file is not UTF-8 text (it holds the byte 0x{data[error.start]:02x}); save it as UTF-8, not as {kind}"
        )
        report.add("unreadable", sentence, (line, column))
        return None
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def _regular(found: os.stat_result, label: str, wanted: str) -> None:
    if stat.S_ISREG(found.st_mode):
        return
    what = next((words for is_one, words in _KINDS if is_one(found.st_mode)), "this is no file")
    raise _unreadable(label, f"{what}, and {wanted} is wanted")


def _beside(path: str) -> str | None:
    """The name in the same folder that was most likely meant."""
    folder = os.path.dirname(path)
    try:
        found = nearest(os.path.basename(path), os.listdir(folder or "."), letters_only=True)
    except (OSError, ValueError):
        return None
    return os.path.join(folder, found) if found else None


def _unreadable(label: str, sentence: str, nearest_name: str | None = None) -> ConfigError:
    report = Report(label)
    report.add("unreadable", sentence, nearest=nearest_name)
    return ConfigError(report.findings[0].message, report.findings)
