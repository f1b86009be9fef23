"""What a stored notebook of the course must be, beyond what executing it can show.

nbval compares what a cell holds with what running it gives. It lets through cells that were never run, a magic that
does not exist (it hides the error after it), pictures and widget views that differ, and cells marked to be left out.
These rules look at the stored file alone; `python -m tools.notebooks --check` compares byte by byte.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from tools.notebook_file import (
    CELL_METADATA,
    METADATA,
    PICTURES,
    WIDGET_VIEW,
    NotebookError,
    as_text,
    load,
    shown,
    tidy,
)

LONGEST_CELL = 15  # lines; a notebook tells and calls, the code is in the package
LARGEST_OUTPUT = 300_000  # characters in the file, all outputs of a cell together

# What nbval obeys: cells with these are run without being compared, or not run at all.
UNCOMPARED = re.compile(r"^\s*#\s*(?:NBVAL_\w+|PYTEST_VALIDATE_IGNORE_OUTPUT)\s*$", re.MULTILINE)
UNCOMPARED_TAGS = re.compile(r"nbval-.*|pytest-validate-.*|raises-exception", re.IGNORECASE)

# Where a text betrays the machine or the moment in which it was made.
MACHINE = (
    (re.compile(r"(?<![\w.])/(?:home|Users|root|tmp|var|private|opt|mnt|work)/[\w.-]+"), "a path of one machine"),
    (re.compile(r"\b[A-Za-z]:\\{1,2}\w+"), "a path of one machine"),
    (re.compile(r"\b(?:site|dist)-packages\b"), "a path of one machine"),
    (re.compile(r"\bat 0x[0-9a-fA-F]{6,}"), "an address in memory"),
    (re.compile(r"\bipykernel_\d+"), "the number of a process"),
    (re.compile(r"https?://(?:localhost|127\.0\.0\.1)[:/]"), "an address of one machine"),
)

LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(\s*<?([^)\s>]*)>?(?:\s+\"[^\"]*\")?\s*\)")
HTML_LINK = re.compile(r"<(?:a|img)\b[^>]*?\b(?:href|src)\s*=\s*[\"']([^\"']*)[\"']", re.IGNORECASE)
HEADING = re.compile(r"^(#{1,6})\s+(.+?)\s*#*$", re.MULTILINE)
FENCED = re.compile(r"^(```|~~~).*?^\1\s*$", re.MULTILINE | re.DOTALL)
PREDICT = re.compile(r"^(?:\*\*Predict|#+ Predict)", re.MULTILINE)
INLINE = re.compile(r"`[^`\n]*`")


@dataclass(frozen=True)
class Page:
    """A notebook as its file holds it, and the course that it stands in."""

    path: Path
    raw: dict[str, Any]
    course: Path

    @property
    def cells(self) -> list[dict[str, Any]]:
        cells: list[dict[str, Any]] = self.raw["cells"]
        return cells

    def of_kind(self, kind: str) -> Iterator[tuple[int, dict[str, Any]]]:
        return ((number, cell) for number, cell in enumerate(self.cells, 1) if cell["cell_type"] == kind)


def joined(text: Any) -> str:
    return text if isinstance(text, str) else "".join(text or ())


def source(cell: dict[str, Any]) -> str:
    return joined(cell.get("source"))


def prose(cell: dict[str, Any]) -> str:
    """A markdown cell without its code."""
    return INLINE.sub("", FENCED.sub("", source(cell)))


def titles(cell: dict[str, Any]) -> list[tuple[str, str]]:
    """A markdown cell's headings: their marks and words."""
    return HEADING.findall(FENCED.sub("", source(cell)))


def texts(output: dict[str, Any]) -> Iterator[str]:
    """What of an output can be read, pictures in pixels left out."""
    yield joined(output.get("text"))
    for mime, value in output.get("data", {}).items():
        if not mime.startswith("image/") or mime == "image/svg+xml":
            yield json.dumps(value) if mime.endswith("json") else joined(value)


Rule = Callable[[Page], Iterator[str]]
RULES: list[Rule] = []


def rule(function: Rule) -> Rule:
    RULES.append(function)
    return function


def findings(path: Path, course: Path) -> list[str]:
    """What is wrong with a notebook, a sentence each. `course` is the folder that holds notebooks/ and quizzes/."""
    try:
        load(path)
    except NotebookError as error:
        return [str(error)]
    page = Page(path, json.loads(path.read_text("utf-8")), course)
    return [f"{shown(path)}: {sentence}" for look in RULES for sentence in look(page)]


# ------------------------------------------------------------------------------------------------------ how it is saved


@rule
def format_and_metadata(page: Page) -> Iterator[str]:
    if (page.raw.get("nbformat"), page.raw.get("nbformat_minor")) != (4, 5):
        yield f"it is of format {page.raw.get('nbformat')}.{page.raw.get('nbformat_minor')}, not 4.5"
    for key in sorted(page.raw.get("metadata", {}).keys() | METADATA.keys()):
        if page.raw.get("metadata", {}).get(key) != METADATA.get(key):
            yield f"its metadata hold {key!r} otherwise than `make notebooks` saves it"
    for number, cell in enumerate(page.cells, 1):
        for key in sorted(cell.get("metadata", {}).keys() - CELL_METADATA):
            yield f"cell {number}: left-over metadata {key!r}"


@rule
def cell_ids(page: Page) -> Iterator[str]:
    seen: dict[str, int] = {}
    for number, cell in enumerate(page.cells, 1):
        name = cell.get("id")
        if not name:
            yield f"cell {number} has no id"
        elif seen.setdefault(name, number) != number:
            yield f"cell {number} has the id {name!r} of cell {seen[name]}"


@rule
def saved_by_the_tool(page: Page) -> Iterator[str]:
    if page.path.read_text("utf-8") != as_text(tidy(load(page.path))):
        yield "it is not written as `make notebooks` writes it"


# ------------------------------------------------------------------------------------------------------------- its code


@rule
def plain_python(page: Page) -> Iterator[str]:
    """A magic that does not exist ends its cell without an error that nbval would see, so there are none at all."""
    for number, cell in page.of_kind("code"):
        text = source(cell)
        if not text.strip():
            yield f"cell {number} is empty"
            continue
        try:
            compile(text, "cell", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | ast.PyCF_ONLY_AST)
        except SyntaxError as error:
            line = (error.text or text.splitlines()[0]).strip()
            what = "a magic or a shell command" if line.startswith(("%", "!", "?")) else "no Python"
            yield f"cell {number}, line {error.lineno}: {line!r} is {what}"


@rule
def short_cells(page: Page) -> Iterator[str]:
    for number, cell in page.of_kind("code"):
        lines = len(source(cell).strip().splitlines())
        if lines > LONGEST_CELL:
            yield f"cell {number} has {lines} lines; {LONGEST_CELL} are allowed, the rest belongs in the package"


@rule
def compared(page: Page) -> Iterator[str]:
    for number, cell in page.of_kind("code"):
        for marker in UNCOMPARED.findall(source(cell)):
            yield f"cell {number} asks not to be compared: {marker.strip()}"
        for tag in cell.get("metadata", {}).get("tags", ()):
            if UNCOMPARED_TAGS.fullmatch(tag):
                yield f"cell {number} asks not to be compared: the tag {tag}"


@rule
def answers_withheld(page: Page) -> Iterator[str]:
    """What follows a prediction is laid without outputs in a learner's folder, so that nobody reads it beforehand."""
    asked = False
    for number, cell in enumerate(page.cells, 1):
        if cell["cell_type"] == "markdown":
            asked = asked or bool(PREDICT.search(prose(cell)))
        elif asked and cell.get("outputs"):
            if "predict" not in cell.get("metadata", {}).get("tags", ()):
                yield f"cell {number} answers a prediction and has no tag 'predict', so learners would see its outputs"
            asked = False


# ---------------------------------------------------------------------------------------------------------- its outputs


@rule
def run_from_top_to_bottom(page: Page) -> Iterator[str]:
    for count, (number, cell) in enumerate(page.of_kind("code"), 1):
        if cell.get("execution_count") is None:
            yield f"cell {number} was never run, or its outputs were stripped"
        elif cell["execution_count"] != count:
            yield f"cell {number} was run as number {cell['execution_count']}, not {count}"
        for output in cell.get("outputs", ()):
            if output["output_type"] == "execute_result" and output.get("execution_count") != count:
                yield f"cell {number}: its result is numbered {output.get('execution_count')}, not {count}"


@rule
def outputs_present(page: Page) -> Iterator[str]:
    """Whether every single output is there shows only in a run; but what prints or draws must have left something."""
    silent = [number for number, cell in page.of_kind("code") if not cell.get("outputs") and speaks(source(cell))]
    for number in silent:
        yield f"cell {number} prints or shows something, yet it holds no output"


def speaks(code: str) -> bool:
    """Whether a cell ends in a value of its own or prints on its way."""
    try:
        body = ast.parse(code).body
    except SyntaxError:  # told by another rule
        return False
    if not body:
        return False
    if any(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("print", "display")
        for statement in body
        for node in ast.walk(statement)
        if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    ):
        return True
    last = body[-1]
    is_value = isinstance(last, ast.Expr) and not isinstance(last.value, ast.Call | ast.Await)
    return is_value and not code.rstrip().endswith(";")


@rule
def nothing_went_wrong(page: Page) -> Iterator[str]:
    for number, cell in page.of_kind("code"):
        for output in cell.get("outputs", ()):
            if output["output_type"] == "error":
                yield f"cell {number} holds an error: {output.get('ename')}: {output.get('evalue')}"
            if output["output_type"] == "stream" and output.get("name") == "stderr":
                first = (joined(output.get("text")).strip().splitlines() or [""])[0]
                yield f"cell {number} wrote to stderr: {first}"


@rule
def of_no_machine(page: Page) -> Iterator[str]:
    for number, cell in enumerate(page.cells, 1):
        outputs = (text for output in cell.get("outputs", ()) for text in texts(output))
        for where, text in [("", source(cell)), *((" (output)", text) for text in outputs)]:
            for pattern, what in MACHINE:
                match = pattern.search(text)
                if match:
                    yield f"cell {number}{where} holds {what}: {match.group()}"


@rule
def small_outputs(page: Page) -> Iterator[str]:
    for number, cell in page.of_kind("code"):
        size = len(json.dumps(cell.get("outputs", [])))
        if size > LARGEST_OUTPUT:
            yield f"cell {number} holds {size // 1000} kB of output; {LARGEST_OUTPUT // 1000} kB are allowed"


@rule
def pictures_for_widgets(page: Page) -> Iterator[str]:
    """`make notebooks` saves the picture that a widget brings along, and the bare view only where there is none."""
    for number, cell in page.of_kind("code"):
        for output in cell.get("outputs", ()):
            if WIDGET_VIEW in output.get("data", {}):
                has = any(mime in output["data"] for mime in PICTURES)
                yield f"cell {number} holds a widget's view" + (
                    " that hides the picture beside it; `make notebooks` leaves it out"
                    if has
                    else " without a picture for pages without a kernel"
                )


# ------------------------------------------------------------------------------------------------------------ its prose


@rule
def links_lead_somewhere(page: Page) -> Iterator[str]:
    for number, cell in page.of_kind("markdown"):
        text = prose(cell)
        for bang, words, target in LINK.findall(text):
            if bang and not words.strip():
                yield f"cell {number}: the picture {target} has no words for those who cannot see it"
            if not bang and not words.strip():
                yield f"cell {number}: the link to {target!r} has no words"
            yield from dead_link(page, number, cell, target)
        for target in HTML_LINK.findall(text):
            yield from dead_link(page, number, cell, target)


def dead_link(page: Page, number: int, cell: dict[str, Any], target: str) -> Iterator[str]:
    if re.match(r"(?:https?|mailto):", target):
        return
    if target.startswith("attachment:"):
        if unquote(target.removeprefix("attachment:")) not in cell.get("attachments", {}):
            yield f"cell {number}: there is no {target}"
        return
    name, _, heading = target.partition("#")
    where = (page.path.parent / unquote(name)).resolve() if name else page.path
    rooms = [(page.course / room).resolve() for room in ("notebooks", "quizzes")]
    if not target:
        yield f"cell {number}: a link leads nowhere"
    elif not any(where.is_relative_to(room) for room in rooms):
        yield f"cell {number}: {target} leads out of the course, which is not there in a learner's folder"
    elif not where.is_file():
        yield f"cell {number}: {target} leads to no file"
    elif heading and where.suffix == ".ipynb" and slug(unquote(heading)) not in headings(where):
        yield f"cell {number}: {target} leads to no heading"


def slug(heading: str) -> str:
    """JupyterLab's anchor of a heading, in lower case, since GitHub's differs only in that."""
    return re.sub(r"[*_`]", "", heading).replace(" ", "-").lower()


def headings(path: Path) -> set[str]:
    cells = json.loads(path.read_text("utf-8"))["cells"]
    found = (titles(cell) for cell in cells if cell["cell_type"] == "markdown")
    return {slug(words) for several in found for _, words in several}


@rule
def headings_in_order(page: Page) -> Iterator[str]:
    level = 0
    for number, cell in page.of_kind("markdown"):
        for marks, words in titles(cell):
            if len(marks) > level + 1:
                yield f"cell {number}: the heading {words!r} skips a level"
            if len(marks) == 1 and level:
                yield f"cell {number}: {words!r} is a second title"
            level = len(marks)


@rule
def told_in_order(page: Page) -> Iterator[str]:
    """Goal and time first, something to predict, the take-aways, and the way on."""
    intro = prose(page.cells[0]) if page.cells and page.cells[0]["cell_type"] == "markdown" else ""
    if not re.match(r"\s*# \S", intro):
        yield "its first cell does not begin with a title (# ...)"
    if not re.search(r"\bgoal\b", intro, re.IGNORECASE):
        yield "its first cell names no goal"
    if not re.search(r"\btime\b\W*\w[\w\s-]*\bminutes?\b", intro, re.IGNORECASE):
        yield "its first cell does not say how long it takes (Time: ten minutes)"
    rest = [cell for _, cell in page.of_kind("markdown")][1:]
    if not any(re.search(r"\bpredict", prose(cell), re.IGNORECASE) for cell in rest):
        yield "nothing in it is to be predicted (no markdown cell says Predict)"
    ends = [at for at, cell in enumerate(rest) if any("take-aways" in words.lower() for _, words in titles(cell))]
    if not ends:
        yield "it has no heading Take-aways"
        return
    after = "\n".join(prose(cell) for cell in rest[ends[-1] :])
    if not re.search(r"^\s*(?:[-*+]|\d+\.) \S", after, re.MULTILINE):
        yield "its Take-aways are no list"
    if not any(target.partition("#")[0].endswith(".ipynb") for _, _, target in LINK.findall(after)):
        yield "no link after its Take-aways leads on to another notebook"
