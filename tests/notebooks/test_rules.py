"""Every rule of tools/notebook_rules.py is kept by the course, and bites on a notebook that breaks it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tools.notebook_file import ROOT
from tools.notebook_rules import findings
from tools.notebooks import NOTEBOOKS, find

COURSE = find([NOTEBOOKS])


@pytest.mark.parametrize("path", COURSE, ids=lambda path: path.relative_to(NOTEBOOKS).as_posix())
def test_course(path: Path) -> None:
    """No notebook of the course breaks a rule."""
    assert findings(path, ROOT) == []


def test_there_is_a_course() -> None:
    """The rules looked at notebooks at all, and the first one is among them."""
    assert NOTEBOOKS / "00-start-here.ipynb" in COURSE


def test_a_sound_notebook_has_no_findings(course: Path) -> None:
    """What the broken notebooks below are made from breaks nothing itself."""
    assert findings(course / "notebooks" / "lesson.ipynb", course) == []


Break = Callable[[dict[str, Any]], None]


def cell(number: int, **changes: Any) -> Break:
    """Sets keys of a cell."""
    return lambda raw: raw["cells"][number - 1].update(changes)


def output(number: int, **changes: Any) -> Break:
    """Sets keys of a cell's first output."""
    return lambda raw: raw["cells"][number - 1]["outputs"][0].update(changes)


def prose(number: int, old: str, new: str) -> Break:
    """Puts other words in a markdown cell."""

    def change(raw: dict[str, Any]) -> None:
        text = "".join(raw["cells"][number - 1]["source"])
        assert old in text
        raw["cells"][number - 1]["source"] = text.replace(old, new).splitlines(keepends=True)

    return change


def data(number: int, **mimes: Any) -> Break:
    """Puts other data in a cell's first output."""
    named = {name.replace("_", "/", 1): value for name, value in mimes.items()}
    return lambda raw: raw["cells"][number - 1]["outputs"][0].update(data=named)


VIEW = {"application_vnd.jupyter.widget-view+json": {"model_id": "0" * 32, "version_major": 2, "version_minor": 0}}

BROKEN: dict[str, tuple[Break, str]] = {
    # how it is saved
    "an older format": (lambda raw: raw.update(nbformat_minor=4), "it is of format 4.4, not 4.5"),
    "left-over metadata": (
        lambda raw: raw["metadata"].update(widgets={}),
        "its metadata hold 'widgets' otherwise than `make notebooks` saves it",
    ),
    "a version of Python": (
        lambda raw: raw["metadata"]["language_info"].update(version="3.11.7"),
        "its metadata hold 'language_info' otherwise",
    ),
    "another kernel": (
        lambda raw: raw["metadata"]["kernelspec"].update(name="conda-env"),
        "its metadata hold 'kernelspec' otherwise",
    ),
    "times in a cell": (
        cell(3, metadata={"execution": {"iopub.execute_input": "2026-01-01T00:00:00Z"}}),
        "cell 3: left-over metadata 'execution'",
    ),
    "a cell without id": (lambda raw: raw["cells"][2].pop("id"), "cell 3 has no id"),
    "an id twice": (cell(4, id="code-1"), "cell 4 has the id 'code-1' of cell 3"),
    "another indent": (lambda raw: raw.update(indent=4), "it is not written as `make notebooks` writes it"),
    # its code
    "a magic that does not exist": (
        cell(3, source="%nosuchmagic\n1/0"),
        "cell 3, line 1: '%nosuchmagic' is a magic or a shell command",
    ),
    "a cell magic": (cell(3, source="%%time\nprint(1)"), "cell 3, line 1: '%%time' is a magic"),
    "a shell command": (cell(3, source="!pip install x"), "'!pip install x' is a magic or a shell command"),
    "no Python": (cell(3, source="print(1"), "cell 3, line 1: 'print(1' is no Python"),
    "an empty cell": (cell(3, source="\n", outputs=[]), "cell 3 is empty"),
    "a long cell": (cell(3, source="x = 1\n" * 16, outputs=[]), "cell 3 has 16 lines; 15 are allowed"),
    "a cell that is not compared": (
        cell(3, source="# NBVAL_IGNORE_OUTPUT\nprint(1)"),
        "cell 3 asks not to be compared: # NBVAL_IGNORE_OUTPUT",
    ),
    "a cell that is skipped": (
        cell(3, metadata={"tags": ["nbval-skip"]}),
        "cell 3 asks not to be compared: the tag nbval-skip",
    ),
    "a cell that may fail": (
        cell(3, metadata={"tags": ["raises-exception"]}),
        "cell 3 asks not to be compared: the tag raises-exception",
    ),
    "an answer that is not withheld": (cell(3, metadata={}), "cell 3 answers a prediction and has no tag 'predict'"),
    # its outputs
    "stripped outputs": (
        cell(4, execution_count=None, outputs=[]),
        "cell 4 was never run, or its outputs were stripped",
    ),
    "a print without output": (cell(3, outputs=[]), "cell 3 prints or shows something, yet it holds no output"),
    "a value without output": (
        cell(4, source="1 + 1", outputs=[]),
        "cell 4 prints or shows something, yet it holds no output",
    ),
    "cells run out of order": (cell(4, execution_count=7), "cell 4 was run as number 7, not 2"),
    "a result of another run": (
        output(4, output_type="execute_result", execution_count=9),
        "cell 4: its result is numbered 9, not 2",
    ),
    "an error": (
        cell(3, outputs=[{"output_type": "error", "ename": "KeyError", "evalue": "'x'", "traceback": []}]),
        "cell 3 holds an error: KeyError: 'x'",
    ),
    "a warning": (output(3, name="stderr", text=["UserWarning: x\n"]), "cell 3 wrote to stderr: UserWarning: x"),
    "a home folder": (output(3, text=["/home/somebody/labkit.py\n"]), "a path of one machine: /home/somebody"),
    "a Windows path": (output(3, text=["C:\\Users\\x\n"]), "cell 3 (output) holds a path of one machine: C:\\Users"),
    "a temporary folder in the code": (cell(3, source="print('/tmp/x')"), "cell 3 holds a path of one machine: /tmp/x"),
    "an address in memory": (
        output(3, text=["<object object at 0x7f21c8e0>\n"]),
        "cell 3 (output) holds an address in memory: at 0x7f21c8e0",
    ),
    "an address of one server": (
        prose(2, "the next cell", "http://localhost:8888/lab"),
        "cell 2 holds an address of one machine: http://localhost:",
    ),
    "a huge output": (output(3, text=["x" * 300_001]), "cell 3 holds 300 kB of output; 300 kB are allowed"),
    "a widget without picture": (
        data(4, text_plain=["A widget."], **VIEW),
        "cell 4 holds a widget's view without a picture for pages without a kernel",
    ),
    "a view that hides its picture": (
        data(4, image_png="AAAA", text_plain=["A widget."], **VIEW),
        "cell 4 holds a widget's view that hides the picture beside it",
    ),
    # its prose
    "a link to no file": (prose(1, "start.ipynb#a-lesson", "nowhere.ipynb"), "cell 1: nowhere.ipynb leads to no file"),
    "a link to no heading": (prose(1, "#a-lesson", "#nothing"), "cell 1: start.ipynb#nothing leads to no heading"),
    "a link out of the course": (
        prose(1, "start.ipynb#a-lesson", "../README.md"),
        "cell 1: ../README.md leads out of the course",
    ),
    "a link in HTML": (prose(1, "see", '<a href="gone.ipynb">see</a>'), "cell 1: gone.ipynb leads to no file"),
    "an empty link": (prose(1, "start.ipynb#a-lesson", ""), "cell 1: a link leads nowhere"),
    "a link without words": (prose(1, "To the start", ""), "cell 1: the link to 'start.ipynb#a-lesson' has no words"),
    "a picture without words": (
        prose(1, "[To the start](start.ipynb#a-lesson)", "![](https://example.org/x.png)"),
        "cell 1: the picture https://example.org/x.png has no words",
    ),
    "an attachment that is not there": (
        prose(1, "[To the start](start.ipynb#a-lesson)", "![A plan](attachment:plan.png)"),
        "cell 1: there is no attachment:plan.png",
    ),
    "a heading that skips a level": (prose(5, "## Take-aways", "### Take-aways"), "'Take-aways' skips a level"),
    "two titles": (prose(5, "## Take-aways", "# Take-aways"), "cell 5: 'Take-aways' is a second title"),
    "no title": (prose(1, "# A lesson\n", "A lesson\n"), "its first cell does not begin with a title"),
    "no goal": (prose(1, "**Goal:** see", "See"), "its first cell names no goal"),
    "no time": (prose(1, "**Time:** five minutes.", ""), "its first cell does not say how long it takes"),
    "nothing to predict": (prose(2, "**Predict**", "Look"), "nothing in it is to be predicted"),
    "no take-aways": (prose(5, "## Take-aways", "## The end"), "it has no heading Take-aways"),
    "take-aways without points": (prose(5, "- Numbers", "Numbers"), "its Take-aways are no list"),
    "no way on": (prose(5, "[the start](start.ipynb)", "that is all"), "no link after its Take-aways leads on"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_rules_bite(course: Path, name: str) -> None:
    """A notebook broken in one way is told so in a sentence that names its file and its cell."""
    change, sentence = BROKEN[name]
    path = course / "notebooks" / "lesson.ipynb"
    raw = json.loads(path.read_text("utf-8"))
    change(raw)
    indent = raw.pop("indent", 1)
    path.write_text(json.dumps(raw, indent=indent, ensure_ascii=False, sort_keys=True) + "\n", "utf-8")
    found = findings(path, course)
    assert any(sentence in each for each in found), found
    assert all(each.startswith(str(path)) for each in found)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"nbformat": 3}', '{"nbformat": 4, "cells": 1}'])
def test_no_notebook(course: Path, text: str) -> None:
    """A file that is no notebook is a finding, not a traceback."""
    path = course / "notebooks" / "lesson.ipynb"
    path.write_text(text, "utf-8")
    assert len(findings(path, course)) == 1
