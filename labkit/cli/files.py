"""Files that commands write: data and pictures, each failure a sentence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from labkit.config.findings import printable
from labkit.errors import ConfigError, LabkitError

if TYPE_CHECKING:
    from labkit.plots import Picture

__all__ = ["check_picture", "drawing", "save_picture", "write"]

ENDINGS = (".png", ".svg")


def check_picture(path: str) -> None:
    """Refuse a name that no picture can have.

    Raises:
        ConfigError: it ends in something else than .png or .svg.
    """
    if not path.lower().endswith(ENDINGS):
        raise ConfigError(f"a picture is saved as .png or .svg, and '{printable(path)}' is neither")


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
