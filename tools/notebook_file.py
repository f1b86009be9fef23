"""A notebook's file: how it is read, what of it is kept so that two runs are equal to the byte, how it is written."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import nbformat

ROOT = Path(__file__).resolve().parent.parent

# All that is kept of a notebook's metadata: which kernel opens it. The version of Python and the like would change with
# the machine; JupyterLab fills them in.
METADATA: dict[str, Any] = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
# Of a cell's metadata: what changes how it is shown or graded. Not kept: times of execution, what was folded by chance.
# The tag "predict" withholds a cell's outputs from learners (labkit/cli/course.py).
CELL_METADATA = frozenset({"deletable", "editable", "jupyter", "nbgrader", "tags"})

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
PICTURES = ("image/png", "image/jpeg", "image/svg+xml")


class NotebookError(Exception):
    """A notebook that cannot be read or does not run to its end, as one sentence (and the kernel's own words)."""


# ------------------------------------------------------------------------------------------------------ read and write


def load(path: Path) -> nbformat.NotebookNode:
    """The notebook as it is stored; cells without an id get one from what they say, so that it stays the same."""
    try:
        raw = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise NotebookError(f"{shown(path)} cannot be read as a notebook: {error}") from error
    cells = raw.get("cells") if isinstance(raw, dict) else None
    if not isinstance(cells, list) or raw.get("nbformat") != 4:
        raise NotebookError(f"{shown(path)} is no notebook of format 4")
    raw["nbformat_minor"] = 5
    taken: set[str] = set()
    for cell in cells:
        name = cell.get("id")
        if not isinstance(name, str) or not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name) or name in taken:
            source = "".join(cell.get("source", ""))
            names = (hashlib.sha256(f"{source}{turn}".encode()).hexdigest()[:8] for turn in range(len(cells) + 1))
            cell["id"] = next(name for name in names if name not in taken)
        taken.add(cell["id"])
    from_dict: Any = nbformat.from_dict
    for cell in cells:
        cell["source"] = "".join(cell.get("source", ""))
        for output in cell.get("outputs", ()):
            join_lines(output)
    notebook: nbformat.NotebookNode = from_dict(raw)
    return notebook


def join_lines(output: dict[str, Any]) -> None:
    """Texts that the file holds as lists of lines, put together."""
    if isinstance(output.get("text"), list):
        output["text"] = "".join(output["text"])
    for mime, value in output.get("data", {}).items():
        if isinstance(value, list) and not mime.endswith("json"):
            output["data"][mime] = "".join(value)


def as_text(notebook: nbformat.NotebookNode) -> str:
    """The notebook as its file holds it."""
    validate: Any = nbformat.validate
    writes: Any = nbformat.writes
    validate(notebook)
    text: str = writes(notebook, version=nbformat.NO_CONVERT)
    return text.rstrip("\n") + "\n"


def write(path: Path, text: str) -> None:
    """Replaces the file in one step, so that an interrupted run leaves the old one."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".ipynb")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        os.chmod(name, path.stat().st_mode & 0o777)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def shown(path: Path) -> str:
    """The path as a person here would write it."""
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else str(path)


# ---------------------------------------------------------------------------------------------------------------- tidy


def tidy(notebook: nbformat.NotebookNode, *, models: Iterable[str] = ()) -> nbformat.NotebookNode:
    """Leaves only what is the same in every run. Changes the notebook and returns it.

    A widget whose output brings its picture along is saved as that picture: a stored view has no model behind it, and
    JupyterLab would show "model not found" in place of the picture beside it (with a kernel) or wait for the model for
    ever (without one). Running the cell brings the widget to life.
    """
    from_dict: Any = nbformat.from_dict
    notebook.metadata = from_dict(METADATA)
    for cell in notebook.cells:
        cell.metadata = from_dict({key: value for key, value in cell.metadata.items() if key in CELL_METADATA})
        if cell.cell_type != "code":
            continue
        cell.outputs = merge_streams(cell.outputs)
        for output in cell.outputs:
            if any(mime in output.get("data", ()) for mime in PICTURES):
                output.data.pop(WIDGET_VIEW, None)
                output.metadata.pop(WIDGET_VIEW, None)
    steady_ids(notebook, models)
    return notebook


def merge_streams(outputs: list[Any]) -> list[Any]:
    """One output for what was printed in one go, however the kernel cut it into messages."""
    merged: list[Any] = []
    for output in outputs:
        last = merged[-1] if merged else None
        if last is not None and output.output_type == "stream" == last.output_type and output.name == last.name:
            last.text += output.text
        else:
            merged.append(output)
    return merged


def steady_ids(notebook: nbformat.NotebookNode, models: Iterable[str]) -> None:
    """Names widget models 1, 2, 3 in the order in which the page shows them; the kernel draws them at random."""
    known = set(models)
    found: dict[str, str] = {}

    def name(match: re.Match[str]) -> str:
        old = match.group()
        return found.setdefault(old, f"{len(found) + 1:032x}") if old in known else old

    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            known.update(filter(None, [output.get("data", {}).get(WIDGET_VIEW, {}).get("model_id")]))
    from_dict: Any = nbformat.from_dict
    for cell in notebook.cells:
        if cell.get("outputs"):
            text = re.sub(r"(?<![0-9a-f])[0-9a-f]{32}(?![0-9a-f])", name, json.dumps(cell.outputs))
            cell.outputs = from_dict(json.loads(text))
