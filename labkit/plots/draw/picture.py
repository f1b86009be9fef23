"""A picture: shapes, the words that stand for them, and the files that it can be written to."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass

from labkit.plots.draw.png import to_png
from labkit.plots.draw.shapes import Shape, moved
from labkit.plots.draw.svg import to_svg

__all__ = ["Picture", "beside"]


@dataclass(frozen=True, slots=True)
class Picture:
    """Shapes, with the words that stand for them where they cannot be seen.

    Attributes:
        width, height: pixels.
        shapes: what is drawn, from the back to the front.
        title: what it is a picture of, in a few words.
        alt: what it shows, in whole sentences.

    In a notebook it shows as a PNG (`labkit.plots.draw.png`), which every page that shows notebooks can show.
    """

    width: float
    height: float
    shapes: tuple[Shape, ...]
    title: str
    alt: str

    def svg(self, *, themed: bool = False) -> str:
        """Return the picture as SVG: with a file's colours on white, or, `themed`, with those of the page it is in."""
        return to_svg(self.shapes, self.width, self.height, title=self.title, alt=self.alt, themed=themed)

    def png(self, scale: float = 2.0) -> bytes:
        """Return the picture as PNG, with `scale` pixels of the file for one of the picture."""
        return to_png(self.shapes, self.width, self.height, scale=scale)

    def save(self, path: str) -> None:
        """Write the picture to a file, as its name ends: `.svg` or `.png`.

        Raises:
            ValueError: the name ends in something else.
        """
        ending = path.rpartition(".")[2].lower()
        if ending not in ("svg", "png"):
            raise ValueError(f"a picture is saved as .svg or .png, and '{path}' is neither")
        content = self.svg().encode() if ending == "svg" else self.png()
        with open(path, "wb") as file:
            file.write(content)

    def __str__(self) -> str:
        return f"{self.title}. {self.alt}"

    def __repr__(self) -> str:
        return f"<picture: {self.title}>"

    def _repr_mimebundle_(
        self, include: object = None, exclude: object = None
    ) -> tuple[dict[str, str], dict[str, object]]:
        data = {"text/plain": str(self), "image/png": b64encode(self.png()).decode("ascii")}
        size = {"width": round(self.width), "height": round(self.height), "alt": str(self)}
        return data, {"image/png": size}


def beside(pictures: Sequence[Picture], *, gap: float = 24.0, title: str = "") -> Picture:
    """Return one picture with the given ones side by side, their tops aligned.

    Args:
        pictures: from left to right.
        gap: pixels between two of them.
        title: of the whole; the pictures' titles where it is empty.
    """
    shapes: list[Shape] = []
    at = 0.0
    for picture in pictures:
        shapes += moved(picture.shapes, at, 0.0)
        at += picture.width + gap
    return Picture(
        at - gap,
        max(picture.height for picture in pictures),
        tuple(shapes),
        title or " and ".join(picture.title for picture in pictures),
        " ".join(f"{picture.title}: {picture.alt}" for picture in pictures),
    )
