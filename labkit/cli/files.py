"""Files that commands write: data and pictures, each failure a sentence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from labkit.config.findings import printable
from labkit.errors import ConfigError, LabkitError

if TYPE_CHECKING:
    from labkit.plots import Picture
    from labkit.scenario import SweepTable

__all__ = ["check_picture", "drawing", "save_picture", "save_sweep_figure", "write"]

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

    Raises:
        ConfigError: it cannot be written.
    """
    from labkit.plots.figures import figure_bytes, sweep_figure

    write(path, figure_bytes(sweep_figure(table, metric), path.lower().rpartition(".")[2]))


def write(path: str, content: bytes) -> None:
    """Write a file.

    Raises:
        ConfigError: it cannot be written.
    """
    try:
        with open(path, "wb") as file:
            file.write(content)
    except OSError as error:
        raise ConfigError(f"{printable(path)} cannot be written: {(error.strerror or str(error)).lower()}") from None
