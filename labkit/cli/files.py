"""Files that commands write: data and pictures, each failure a sentence.

Where a result shall go is looked at before the work that it is of. It is written beside that place and then gets its
name in one step, so that nobody finds half of one.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from labkit.config.disk import beside, write_whole
from labkit.config.findings import printable
from labkit.errors import ConfigError, LabkitError

if TYPE_CHECKING:
    from labkit.plots import Picture
    from labkit.scenario import SweepTable

__all__ = ["check_picture", "check_results", "drawing", "save_picture", "save_sweep_figure", "write"]

ENDINGS = (".png", ".svg")


def check_picture(path: str, *further: str) -> None:
    """Refuse a name that no picture can have.

    Args:
        path: the name.
        further: endings that this picture can have beside those of all.

    Raises:
        ConfigError: it ends in something else.
    """
    if not path.lower().endswith((*ENDINGS, *further)):
        *first, last = (*ENDINGS, *further)
        neither = "none of them" if further else "neither"
        raise ConfigError(f"a picture is saved as {', '.join(first)} or {last}, and '{printable(path)}' is {neither}")


def check_results(places: Mapping[str, str | None], *, kept: str | None = None) -> None:
    """Refuse where results cannot be written, before the work that they are of.

    Args:
        places: the file that each option names; None, and "-" for stdout, are passed over.
        kept: a file that none of them may be, since it is what is read.

    Raises:
        ConfigError: says which, and why.
    """
    taken: dict[str, str] = {}
    for option, path in places.items():
        if path is None or path == "-":
            continue
        if not path:
            raise ConfigError(f"{option} names no file")
        name = printable(path)
        try:
            real = os.path.realpath(path)
            if kept is not None and os.path.isfile(kept) and real == os.path.realpath(kept):
                raise ConfigError(f"{option} names {name}, which is what is read; name another file")
            if real in taken:
                raise ConfigError(f"{taken[real]} and {option} both name {name}; name two files")
            taken[real] = option
            _try(real)
        except (OSError, ValueError) as error:
            raise _unwritable(path, error) from None


def _try(real: str) -> None:
    """Do everything that writing a file will need, and leave nothing behind."""
    try:
        mode = os.stat(real).st_mode
    except FileNotFoundError:
        pass
    else:
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(None, "is a directory")
        if not stat.S_ISREG(mode):
            raise OSError(None, "it is a device or a pipe, and a result is a file")
        if not os.access(real, os.W_OK):
            raise PermissionError(None, "permission denied")
    if os.path.lexists(real):
        with open(real, "ab"):
            pass
    with beside(Path(real), b""):
        pass


def _unwritable(path: str, error: OSError | ValueError) -> ConfigError:
    why = (getattr(error, "strerror", None) or str(error)).lower()
    return ConfigError(f"{printable(path)} cannot be written: {why}")


@contextmanager
def drawing() -> Iterator[None]:
    """What draws needs the course's packages; without them, a sentence.

    Raises:
        LabkitError: one is missing.
    """
    try:
        yield
    except ImportError as error:
        if error.name is None or error.name.partition(".")[0] == "labkit":
            raise
        raise LabkitError(
            f"a picture needs {error.name}, which is not installed: pip install 'labkit-circuit-breakers[course]'"
        ) from None


def save_picture(picture: Picture, path: str) -> None:
    """Write a picture as its name ends.

    Raises:
        ConfigError: it cannot be written.
    """
    write(path, picture.svg().encode() if path.lower().endswith(".svg") else picture.png())


def save_sweep_figure(table: SweepTable, metric: str, path: str) -> None:
    """Write a figure of a sweep, drawn by matplotlib, as its name ends.

    Args:
        table: the sweep.
        metric: what to draw, by its name in `METRICS`.
        path: the file; its ending is the format.

    Raises:
        ConfigError: it cannot be written.
    """
    from labkit.plots.figures import figure_bytes, sweep_figure

    write(path, figure_bytes(sweep_figure(table, metric), path.lower().rpartition(".")[2]))


def write(path: str, content: bytes | Iterable[bytes]) -> None:
    """Write a file, as a whole or not at all.

    Args:
        path: where; a symbolic link stays one.
        content: all of it, or its pieces.

    Raises:
        ConfigError: it cannot be written.
    """
    try:
        real = os.path.realpath(path)
        if os.path.isdir(real):
            raise IsADirectoryError(None, "is a directory")
        write_whole(Path(real), content)
    except (OSError, ValueError) as error:
        raise _unwritable(path, error) from None
