"""`make notebooks` and the check of it: the same bytes in every run, and nothing that differs goes unseen."""

from __future__ import annotations

import base64
import json
import re
import subprocess
from io import BytesIO
from pathlib import Path
from typing import Any

import nbformat
import pytest
from PIL import Image

from tools.checks import ROOT, STEPS
from tools.notebook_file import METADATA, WIDGET_VIEW, as_text, load, merge_streams, tidy
from tools.notebooks import differences, main

# A thing that shows itself as labkit's widgets do: a live view, and the picture that stands for it without a kernel.
CONTROL = """
from uuid import uuid4

class Control:
    def _repr_mimebundle_(self, include=None, exclude=None):
        return {"text/plain": "A control.", "image/png": PNG, "VIEW": {"model_id": uuid4().hex}}

Control()
""".replace("VIEW", WIDGET_VIEW)


def png(colour: str, **options: Any) -> str:
    """A small picture in one colour, as an output holds it."""
    file = BytesIO()
    Image.new("RGB", (8, 8), colour).save(file, "PNG", **options)
    return base64.b64encode(file.getvalue()).decode()


def write(folder: Path, *sources: str, name: str = "lesson") -> Path:
    """A notebook of these code cells, never run, as an editor may leave it: cells without ids, format 4.4."""
    cells = [
        {"cell_type": "code", "execution_count": None, "metadata": {"scrolled": True}, "outputs": [], "source": source}
        for source in sources
    ]
    raw = {"cells": cells, "metadata": {"widgets": {}}, "nbformat": 4, "nbformat_minor": 4}
    path = folder / f"{name}.ipynb"
    path.write_text(json.dumps(raw), "utf-8")
    return path


def with_output(cell: int = 0, **output: Any) -> nbformat.NotebookNode:
    """A notebook whose one cell holds this output."""
    cells = [
        {"cell_type": "code", "execution_count": 1, "id": "a", "metadata": {}, "outputs": [output], "source": "x"},
    ]
    whole: nbformat.NotebookNode = nbformat.from_dict(
        {"cells": cells, "metadata": METADATA, "nbformat": 4, "nbformat_minor": 5}
    )
    return whole


# ------------------------------------------------------------------------------------------------------------- saving


def test_two_runs_are_equal_to_the_byte(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A notebook with prints, results, a plot and widgets is saved the same twice, with only what a page needs."""
    path = write(
        tmp_path,
        "import sys\nprint('one'); sys.stdout.flush(); print('two')\n'result'",
        "import matplotlib.pyplot as plt\nplt.plot([1, 2]);",
        "import ipywidgets\nsliders = ipywidgets.IntSlider(), ipywidgets.IntSlider()\nsliders[0]",
        "display(sliders[1], sliders[0])",
        f"PNG = {png('red')!r}{CONTROL}",
    )
    assert main([str(path)]) == 1  # a lesson it is not: the rules speak
    first = path.read_bytes()
    assert main([str(path), "--check"]) == 1
    assert "as it was" in capsys.readouterr().out
    assert path.read_bytes() == first
    assert main([str(path)]) == 1
    assert path.read_bytes() == first

    saved = json.loads(first)
    assert (saved["nbformat"], saved["nbformat_minor"], saved["metadata"]) == (4, 5, METADATA)
    assert [cell["execution_count"] for cell in saved["cells"]] == [1, 2, 3, 4, 5]
    assert [cell["metadata"] for cell in saved["cells"]] == [{}] * 5
    assert len({cell["id"] for cell in saved["cells"]}) == 5
    prints, plot, slider, both, picture = (cell["outputs"] for cell in saved["cells"])
    assert prints[0] == {"name": "stdout", "output_type": "stream", "text": ["one\n", "two\n"]}
    assert prints[1]["data"] == {"text/plain": ["'result'"]}
    assert "image/png" in plot[0]["data"]
    ids = [output["data"][WIDGET_VIEW]["model_id"] for output in [*slider, *both]]
    assert ids == [f"{1:032x}", f"{2:032x}", f"{1:032x}"]
    assert picture[0]["data"] == {"image/png": png("red"), "text/plain": ["A control."]}


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("import os\nos._exit(3)", r"cell 2 \(\w+\) ends the kernel's process"),
        ("while True:\n    pass", r"cell 2 \(\w+\) takes longer than 2 s"),
        ("{}['key']", r"cell 2 \(\w+\) raises KeyError: 'key'"),
        ("%nosuchmagic\n1/0", r"cell 2 \(\w+\) raises UsageError"),
    ],
)
def test_what_does_not_run_is_not_saved(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], source: str, sentence: str
) -> None:
    """A cell that kills the kernel, never ends or raises is named in a sentence, and the file stays as it was."""
    path = write(tmp_path, "1", source)
    before = path.read_bytes()
    assert main([str(path), "--timeout", "2"]) == 1
    assert re.search(re.escape(str(path)) + ": " + sentence, capsys.readouterr().err)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_check_says_what_would_change(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With --check the file is left alone, and cell, output and mime are named."""
    path = write(tmp_path, "print('now')", "2 + 2")
    before = path.read_bytes()
    assert main([str(path), "--check"]) == 1
    said = capsys.readouterr().out
    assert "would change" in said
    assert re.search(r"cell 1 \(\w+\): it holds 0 outputs, running it gives 1", said)
    assert path.read_bytes() == before


def test_a_name_that_is_nowhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A path that does not exist is one sentence and exit code 2."""
    assert main([str(tmp_path / "nowhere.ipynb")]) == 2
    assert "there is no notebook" in capsys.readouterr().err


def test_ids_stay(tmp_path: Path) -> None:
    """A cell keeps its id; one without, or with another's, gets one made from its text, the same in every run."""
    path = write(tmp_path, "1", "1", "2")
    raw = json.loads(path.read_text("utf-8"))
    raw["cells"][2]["id"] = "mine"
    path.write_text(json.dumps(raw), "utf-8")
    ids = [cell.id for cell in load(path).cells]
    assert ids == [cell.id for cell in load(path).cells]
    assert len(set(ids)) == 3
    assert ids[2] == "mine"


def test_streams_are_merged() -> None:
    """Neighbouring pieces of the same stream become one; a display between them, or another stream, divides."""
    names = [("stdout", "a"), ("stdout", "b"), ("stderr", "c"), ("stdout", "d")]
    pieces: Any = nbformat.from_dict([{"output_type": "stream", "name": name, "text": text} for name, text in names])
    merged = merge_streams(pieces)
    assert [(piece.name, piece.text) for piece in merged] == [("stdout", "ab"), ("stderr", "c"), ("stdout", "d")]


def test_a_view_without_picture_is_kept() -> None:
    """A widget that brings no picture is saved as its view, under a steady id, so that the rules can name it."""
    notebook = with_output(output_type="display_data", metadata={}, data={WIDGET_VIEW: {"model_id": "f" * 32}})
    assert tidy(notebook).cells[0].outputs[0].data[WIDGET_VIEW] == {"model_id": f"{1:032x}"}


# ---------------------------------------------------------------------------------------------------------- comparing

SHOWN: dict[str, Any] = {"output_type": "display_data", "metadata": {}}


@pytest.mark.parametrize(
    ("stored", "fresh", "sentence"),
    [
        ({**SHOWN, "data": {"text/plain": "1"}}, {**SHOWN, "data": {"text/plain": "2"}}, "its text/plain was '1'"),
        ({**SHOWN, "data": {"text/html": "a"}}, {**SHOWN, "data": {"text/html": "a "}}, "its text/html was 'a'"),
        ({**SHOWN, "data": {"text/latex": "a"}}, {**SHOWN, "data": {"text/latex": "b"}}, "its text/latex was 'a'"),
        (
            {**SHOWN, "data": {"image/svg+xml": "<svg/>"}},
            {**SHOWN, "data": {"image/svg+xml": "<svg></svg>"}},
            "its image/svg+xml was '<svg/>'",
        ),
        (
            {**SHOWN, "data": {"image/png": png("red")}},
            {**SHOWN, "data": {"image/png": png("#FF0001")}},
            "its image/png was",
        ),
        ({**SHOWN, "data": {"image/jpeg": "AA"}}, {**SHOWN, "data": {"image/jpeg": "BB"}}, "its image/jpeg was"),
        (
            {**SHOWN, "data": {WIDGET_VIEW: {"version_major": 1}}},
            {**SHOWN, "data": {WIDGET_VIEW: {"version_major": 2}}},
            f"its {WIDGET_VIEW} was",
        ),
        ({**SHOWN, "data": {}}, {**SHOWN, "data": {"text/html": "a"}}, "running gives a text/html that is not stored"),
        ({**SHOWN, "data": {"text/html": "a"}}, {**SHOWN, "data": {}}, "running gives no text/html"),
        (
            {**SHOWN, "data": {}, "metadata": {"image/png": {"width": 1}}},
            {**SHOWN, "data": {}},
            "its metadata was {'image/png': {'width': 1}}, running gives {}",
        ),
        (
            {**SHOWN, "data": {}},
            {**SHOWN, "output_type": "execute_result", "execution_count": 1, "data": {}},
            "it was a display_data, running gives a execute_result",
        ),
        (
            {"output_type": "stream", "name": "stdout", "text": "a"},
            {"output_type": "stream", "name": "stderr", "text": "a"},
            "its name was 'stdout', running gives 'stderr'",
        ),
        (
            {"output_type": "stream", "name": "stdout", "text": "a"},
            {"output_type": "stream", "name": "stdout", "text": "b"},
            "its text was 'a', running gives 'b'",
        ),
    ],
)
def test_every_difference_is_seen(stored: dict[str, Any], fresh: dict[str, Any], sentence: str) -> None:
    """Text, markup, pixels, widget views, kinds, streams and metadata are compared, each named when it differs."""
    found = list(differences(with_output(**stored), with_output(**fresh)))
    assert len(found) == 1
    assert found[0].startswith(f"cell 1 (a), output 1: {sentence}")


def test_the_same_pixels_are_no_difference() -> None:
    """A picture packed into other bytes is the same picture."""
    packed, plain = png("red", compress_level=9), png("red", compress_level=0)
    assert packed != plain
    one, other = (with_output(**SHOWN, data={"image/png": data}) for data in (packed, plain))
    assert list(differences(one, other)) == []


# -------------------------------------------------------------------------------------------------------------- nbval


def nbval_command() -> list[str]:
    """The command by which the checks run nbval, without the folder that it looks at."""
    step = next(step for step in STEPS if step.name == "nbval")
    *command, folder = step.commands[-1]
    assert folder == "notebooks"
    return command


def test_nbval_bites(tmp_path: Path) -> None:
    """As the checks call it, nbval passes what is as stored, and fails a changed text, an error and an endless cell."""
    stored = {"sound": "1 + 1", "changed": "1 + 2", "failing": "1 / 0", "endless": "while True:\n    pass"}
    for name, source in stored.items():
        notebook = with_output(output_type="execute_result", execution_count=1, metadata={}, data={"text/plain": "2"})
        notebook.cells[0].source = source
        (tmp_path / f"{name}.ipynb").write_text(as_text(notebook), "utf-8")
    command = [*nbval_command(), "--nbval-cell-timeout=2", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "3 failed, 1 passed" in done.stdout
    assert "Timeout of 2 seconds exceeded" in done.stdout


def test_nbval_waits_a_minute_at_most() -> None:
    """A dead kernel or an endless cell holds the checks up for a minute, not for nbval's own 2,000 s."""
    (limit,) = [option for option in nbval_command() if option.startswith("--nbval-cell-timeout=")]
    assert 0 < float(limit.partition("=")[2]) <= 60


def test_the_checks_compare_bytes_too() -> None:
    """Beside nbval, which leaves pictures out, the checks compare what would be saved."""
    step = next(step for step in STEPS if step.name == "nbval")
    assert any(command[1:] == ["-m", "tools.notebooks", "--check"] for command in step.commands)


def test_what_nbval_overlooks_is_written_down() -> None:
    """Each pattern in sanitize.cfg stands below its reason, and none is wider than the id of a widget's model."""
    lines = (ROOT / "tests" / "notebooks" / "sanitize.cfg").read_text("utf-8").splitlines()
    assert all(not line.strip() or line.startswith(("#", "regex: ", "replace: ")) for line in lines)
    for number, line in enumerate(lines):
        if line.startswith("regex: "):
            assert lines[number - 1].startswith("# Reason: ")
            assert re.fullmatch(line.removeprefix("regex: "), "IPY_MODEL_" + "0a" * 16)
            assert not re.search(line.removeprefix("regex: "), "<b>12 calls at 61.6 s, 0a0a0a</b>")
