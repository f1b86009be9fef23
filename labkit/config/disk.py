"""Files that are written whole or not at all: beside what they replace, under a name that nobody can foretell.

Such a file may come to be a second name of what someone works in, when the process is killed between two steps. So none
is ever opened again: its name is random, and it is made only where nothing has that name.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["beside", "clear_leftovers", "reason", "second_name", "write_new", "write_whole"]

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL
for _flag in ("O_NOFOLLOW", "O_CLOEXEC", "O_BINARY"):
    _NEW |= getattr(os, _flag, 0)
_LEFTOVER = re.compile(r"\.labkit-[0-9a-f]{16}")


def reason(error: OSError) -> str:
    """Return what the system says, as the end of a sentence."""
    return (error.strerror or str(error)).lower()


def write_new(path: Path, content: bytes | Iterable[bytes]) -> None:
    """Write a file where there is none, and see it on the disk.

    Args:
        path: where.
        content: all of it, or its pieces.

    Raises:
        FileExistsError: something has that name, be it a link that leads nowhere.
        OSError: it cannot be written; nothing is left of it.
    """
    handle = os.open(path, _NEW, 0o666)
    try:
        with os.fdopen(handle, "wb") as file:
            file.writelines([content] if isinstance(content, bytes) else content)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        os.unlink(path)
        raise


@contextmanager
def beside(path: Path, content: bytes | Iterable[bytes]) -> Iterator[Path]:
    """Content in a file of its own in the same folder, whole and on the disk; removed at the end if still there.

    Args:
        path: what it lies beside. Its name may be as long as the disk allows, so it is no part of the new one.
        content: all of it, or its pieces.

    Raises:
        OSError: it cannot be written.
    """
    new = path.with_name(f".labkit-{os.urandom(8).hex()}")
    write_new(new, content)
    try:
        yield new
    finally:
        new.unlink(missing_ok=True)


def write_whole(path: Path, content: bytes | Iterable[bytes]) -> None:
    """Give a name to new content in one step. A link of that name is replaced, and what it leads to left alone.

    Args:
        path: where. The rights of a file that is replaced are kept.
        content: all of it, or its pieces.

    Raises:
        OSError: it cannot be written.
    """
    with beside(path, content) as new:
        with suppress(OSError):
            old = os.lstat(path).st_mode
            if stat.S_ISREG(old):
                os.chmod(new, stat.S_IMODE(old))
        os.replace(new, path)


def second_name(path: Path, other: Path) -> bool:
    """Give a file a second name; False where something has that name. A disk without hard links gets a copy.

    Raises:
        OSError: it cannot be written.
    """
    try:
        os.link(path, other)
        return True
    except FileExistsError:
        return False
    except OSError:
        pass
    try:
        write_new(other, path.read_bytes())
        return True
    except FileExistsError:
        return False


def clear_leftovers(folders: Iterable[Path]) -> None:
    """Remove what killed processes left; to be called while no other process writes there.

    Only the name goes: what it is a second name of stays. No program but labkit makes such names.

    Args:
        folders: where to look; what is in folders below is not looked at.
    """
    for folder in folders:
        with suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                if _LEFTOVER.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                    os.unlink(entry.path)
