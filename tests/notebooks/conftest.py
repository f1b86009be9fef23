"""A small course in a folder of its own, sound until a test breaks it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest

from tools.notebook_file import as_text, tidy

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="  # one pixel

INTRO = "# A lesson\n\n**Goal:** see a number. **Time:** five minutes.\n\n[To the start](start.ipynb#a-lesson)"
END = "## Take-aways\n\n- Numbers can be seen.\n\n**Next:** [the start](start.ipynb)"


def code(text: str, *outputs: dict[str, Any], count: int | None = 1, name: str = "code-1") -> dict[str, Any]:
    """A code cell as a file holds it."""
    cell = {"cell_type": "code", "execution_count": count, "id": name, "metadata": {}}
    return {**cell, "outputs": list(outputs), "source": text}


def markdown(text: str, name: str) -> dict[str, Any]:
    """A markdown cell as a file holds it."""
    return {"cell_type": "markdown", "id": name, "metadata": {}, "source": text}


def printed(text: str, name: str = "stdout") -> dict[str, Any]:
    """What a cell printed."""
    return {"name": name, "output_type": "stream", "text": text}


def drawn(**data: Any) -> dict[str, Any]:
    """What a cell displayed; `image_png` stands for image/png."""
    mimes = {key.replace("_", "/", 1): value for key, value in data.items()}
    return {"data": mimes, "metadata": {}, "output_type": "display_data"}


def notebook(*cells: dict[str, Any]) -> nbformat.NotebookNode:
    """A notebook of these cells, with the metadata of the course."""
    whole: nbformat.NotebookNode = nbformat.from_dict(
        {"cells": list(cells), "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    )
    return tidy(whole)


def lesson() -> nbformat.NotebookNode:
    """A notebook that breaks no rule."""
    return notebook(
        markdown(INTRO, "intro"),
        markdown("**Predict** what the next cell prints.", "predict"),
        {**code("print(1)", printed("1\n")), "metadata": {"tags": ["predict"]}},
        code("picture()", drawn(image_png=PNG, text_plain="A pixel."), count=2, name="code-2"),
        markdown(END, "end"),
    )


@pytest.fixture
def course(tmp_path: Path) -> Path:
    """A course of two sound notebooks: notebooks/start.ipynb and notebooks/lesson.ipynb."""
    folder = tmp_path / "notebooks"
    folder.mkdir()
    (tmp_path / "README.md").write_text("not part of the course", "utf-8")
    for name in ("start", "lesson"):
        (folder / f"{name}.ipynb").write_text(as_text(lesson()), "utf-8")
    return tmp_path
