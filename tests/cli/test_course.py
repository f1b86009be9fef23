"""Laying the course out: nothing that a learner typed is ever lost, whatever learner and package do in turn."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from labkit.cli import course, lab
from labkit.cli.course import course_files, find_file, lay_out, resolve_folder, restore, work_of
from labkit.errors import CourseError

ONE = "notebooks/00-start-here.ipynb"
TWO = "notebooks/concepts/02-three-states.ipynb"
DATA = "quizzes/order.yaml"


def notebook(*sources: str, outputs: str | None = None, metadata: dict[str, Any] | None = None) -> bytes:
    """A notebook with a code cell for each source; with `outputs`, as if it had been run."""
    cells = [
        {
            "cell_type": "code",
            "execution_count": None if outputs is None else number,
            "id": f"cell-{number}",
            "metadata": {},
            "outputs": [] if outputs is None else [{"name": "stdout", "output_type": "stream", "text": outputs}],
            "source": source.splitlines(keepends=True),
        }
        for number, source in enumerate(sources, start=1)
    ]
    data = {"cells": cells, "metadata": metadata or {}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(data, indent=1).encode()


def files_below(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, labkit's own records left out."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != "manifest.json"
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A learner's folder, not made yet."""
    return tmp_path / "labkit-course"


def first(folder: Path, *sources: str) -> dict[str, bytes]:
    """Lays a course of one notebook out and returns it."""
    source = {ONE: notebook(*(sources or ("1 + 1",)))}
    lay_out(folder, source, "0.1.0")
    return source


# ------------------------------------------------------------------------------------------------- what counts as work


def test_running_a_notebook_does_not_change_its_work() -> None:
    """Outputs, counters and metadata are no work: merely opening or running a notebook changes them."""
    plain = work_of("a.ipynb", notebook("1 + 1"))
    assert work_of("a.ipynb", notebook("1 + 1", outputs="2", metadata={"kernelspec": {"name": "python3"}})) == plain


def test_a_source_in_lines_is_the_same_work_as_in_one_string() -> None:
    """nbformat allows a cell's source as one string or as its lines; which of them a tool writes is no work."""
    lines = notebook("a = 1\nb = 2")
    data = json.loads(lines)
    data["cells"][0]["source"] = "a = 1\nb = 2"
    assert work_of("a.ipynb", json.dumps(data).encode()) == work_of("a.ipynb", lines)


@pytest.mark.parametrize("empty", ["", " ", "\n", "\r\n"])
@pytest.mark.parametrize("kind", ["code", "markdown", "raw"])
def test_empty_cells_at_the_end_are_no_work(kind: str, empty: str) -> None:
    """JupyterLab adds a cell when the last one is run with Shift+Enter; anywhere else an empty cell is work."""
    plain = notebook("a", "b")
    data = json.loads(plain)
    data["cells"] += [{"cell_type": kind, "metadata": {}, "source": empty}] * 2
    assert work_of("a.ipynb", json.dumps(data).encode()) == work_of("a.ipynb", plain)
    data["cells"].insert(1, data["cells"].pop())
    assert work_of("a.ipynb", json.dumps(data).encode()) != work_of("a.ipynb", plain)


@given(st.text(alphabet="ab\n \u00e9\u4e2d"), st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]), st.booleans())
def test_how_an_editor_saves_a_text_is_no_work(text: str, encoding: str, last: bool) -> None:
    """Line ends, a mark of the encoding and the last line's end are no work, in a text and in a notebook's cells."""
    saved = (text.rstrip("\n") + "\n" * last).replace("\n", "\r\n").encode(encoding)
    assert work_of("a.yaml", saved) == work_of("a.yaml", text.encode())
    assert work_of("a.yaml", b"x" + text.encode()) != work_of("a.yaml", text.encode())
    assert work_of("a.ipynb", notebook(text.replace("\n", "\r\n"))) == work_of("a.ipynb", notebook(text))


def test_what_is_no_text_is_compared_whole() -> None:
    """Bytes that are no text are not taken apart: a picture with a carriage return in it is another picture."""
    for content in (b"\xff\r\n", b"\0\r\n"):
        assert work_of("a.png", content) != work_of("a.png", content.replace(b"\r", b""))


@pytest.mark.parametrize("change", ["source", "cell_type", "attachments", "order"])
def test_what_a_person_types_is_work(change: str) -> None:
    """Text, the kind of a cell, a picture pasted into it and the order of cells are work."""
    data = json.loads(notebook("a", "b"))
    if change == "order":
        data["cells"].reverse()
    else:
        data["cells"][0][change] = {
            "source": ["a "],
            "cell_type": "raw",
            "attachments": {"picture.png": {"image/png": "AAAA"}},
        }[change]
    assert work_of("a.ipynb", json.dumps(data).encode()) != work_of("a.ipynb", notebook("a", "b"))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not JSON",
        b"\xff\xfe",
        b"[]",
        b"null",
        b"{}",
        b'{"cells": 3}',
        b'{"cells": [null]}',
        b'{"cells": [{"cell_type": "code", "source": [1]}]}',
        b'{"cells": [{"cell_type": "code", "source": 1}]}',
        b"[" * 100_000,
    ],
)
def test_what_is_no_notebook_is_work_as_a_whole(content: bytes) -> None:
    """A file that cannot be read as a notebook is compared by its bytes, and no error comes of it."""
    assert work_of("a.ipynb", content) == work_of("a.txt", content)


# ---------------------------------------------------------------------------------------------------- the table's rows


def test_the_first_time_everything_is_laid(folder: Path) -> None:
    """An empty folder gets every file, byte for byte, and a sentence says how many."""
    source = {ONE: notebook("1"), TWO: notebook("2"), DATA: b"order: 1\n"}
    layout = lay_out(folder, source, "0.1.0")
    assert files_below(folder) == source
    assert list(layout.sentences()) == [f"laid 2 notebooks and 1 other file in {folder}"]


def test_a_second_time_does_nothing(folder: Path) -> None:
    """With nothing new, nothing is written (not even the manifest) and nothing said."""
    source = first(folder)
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    assert list(lay_out(folder, source, "0.1.0").sentences()) == []
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


def test_an_untouched_file_is_brought_up_to_date(folder: Path) -> None:
    """A newer version replaces a copy that is as it was laid, and nothing else is left behind."""
    first(folder)
    newer = {ONE: notebook("2 + 2")}
    layout = lay_out(folder, newer, "0.2.0")
    assert files_below(folder) == newer
    assert list(layout.sentences()) == [f"brought what you had not changed up to date: {ONE}"]


def test_a_file_that_was_only_run_is_brought_up_to_date_and_the_run_kept(folder: Path) -> None:
    """A newer version replaces a copy that was run without a change; the run's bytes stay, and it is said where."""
    first(folder)
    run = notebook("1 + 1", outputs="2")
    (folder / ONE).write_bytes(run)
    newer = {ONE: notebook("2 + 2")}
    layout = lay_out(folder, newer, "0.2.0")
    assert (folder / ONE).read_bytes() == newer[ONE]
    kept = layout.rerun[ONE]
    assert (folder / kept).read_bytes() == run
    assert [kept in sentence for sentence in layout.sentences()] == [True]


def test_a_text_that_an_editor_saved_its_own_way_is_brought_up_to_date(folder: Path) -> None:
    """A file saved with other line ends counts as unchanged; the learner's bytes stay, and it is said where."""
    lay_out(folder, {DATA: b"order: 1\nnext: 2\n"}, "0.1.0")
    saved = b"\xef\xbb\xbforder: 1\r\nnext: 2"
    (folder / DATA).write_bytes(saved)
    layout = lay_out(folder, {DATA: b"order: 3\n"}, "0.2.0")
    assert (folder / DATA).read_bytes() == b"order: 3\n"
    assert (folder / layout.rerun[DATA]).read_bytes() == saved
    assert ["said the same as before" in sentence for sentence in layout.sentences()] == [True]


def test_a_run_alone_is_left_where_it_is(folder: Path) -> None:
    """With nothing newer in the package, the outputs of a run stay in the notebook."""
    source = first(folder)
    run = notebook("1 + 1", outputs="2")
    (folder / ONE).write_bytes(run)
    assert list(lay_out(folder, source, "0.2.0").sentences()) == []
    assert (folder / ONE).read_bytes() == run


def test_a_newer_version_of_a_changed_file_is_laid_beside_it_once(folder: Path) -> None:
    """What the learner changed stays; the newer version lies beside it, is named, and never comes a second time."""
    first(folder)
    mine = notebook("1 + 1  # mine")
    (folder / ONE).write_bytes(mine)
    newer = {ONE: notebook("2 + 2")}
    layout = lay_out(folder, newer, "0.2.0")
    beside = "notebooks/00-start-here.new-0.2.0.ipynb"
    assert files_below(folder) == {ONE: mine, beside: newer[ONE]}
    assert [ONE in sentence and beside in sentence for sentence in layout.sentences()] == [True]
    assert list(lay_out(folder, newer, "0.2.0").sentences()) == []
    (folder / beside).unlink()
    assert list(lay_out(folder, newer, "0.2.0").sentences()) == []
    assert files_below(folder) == {ONE: mine}


def test_a_newer_version_never_overwrites_one_that_lies_beside_already(folder: Path) -> None:
    """Who works in the newer version laid beside keeps that too, even when the version's number has not changed."""
    first(folder)
    (folder / ONE).write_bytes(notebook("mine"))
    lay_out(folder, {ONE: notebook("newer")}, "0.2.0")
    beside = folder / "notebooks/00-start-here.new-0.2.0.ipynb"
    beside.write_bytes(notebook("newer, and mine"))
    layout = lay_out(folder, {ONE: notebook("newest")}, "0.2.0")
    assert beside.read_bytes() == notebook("newer, and mine")
    assert layout.beside[ONE] != "notebooks/00-start-here.new-0.2.0.ipynb"
    assert (folder / layout.beside[ONE]).read_bytes() == notebook("newest")


def test_a_newer_version_with_other_outputs_alone_is_not_worth_a_copy(folder: Path) -> None:
    """Beside a changed file nothing is laid when the package's version differs from the old one in outputs only."""
    first(folder)
    (folder / ONE).write_bytes(notebook("mine"))
    assert list(lay_out(folder, {ONE: notebook("1 + 1", outputs="2")}, "0.2.0").sentences()) == []


def test_a_learner_who_took_the_newer_version_over_counts_as_unchanged(folder: Path) -> None:
    """A copy that says the same as the newer version, and was run, gets nothing beside it and is updated next time."""
    first(folder)
    (folder / ONE).write_bytes(notebook("newer", outputs="ran"))
    assert list(lay_out(folder, {ONE: notebook("newer")}, "0.2.0").sentences()) == []
    assert list(lay_out(folder, {ONE: notebook("newest")}, "0.3.0").rerun) == [ONE]


def test_a_deleted_file_stays_away_and_says_how_to_come_back(folder: Path) -> None:
    """What the learner deleted is not brought back unasked, not even in a newer version."""
    first(folder)
    (folder / ONE).unlink()
    layout = lay_out(folder, {ONE: notebook("newer")}, "0.2.0")
    assert not (folder / ONE).exists()
    assert list(layout.sentences()) == [f"you deleted {ONE}: `labkit reset 00-start-here` brings it back"]


def test_a_file_of_the_learners_own_is_left_alone(folder: Path) -> None:
    """A file that labkit never laid, under the name of a new lesson, stays, and the lesson is laid beside it."""
    first(folder)
    (folder / TWO).parent.mkdir(parents=True)
    (folder / TWO).write_bytes(b"notes of mine")
    layout = lay_out(folder, {TWO: notebook("lesson")}, "0.2.0")
    assert (folder / TWO).read_bytes() == b"notes of mine"
    assert (folder / layout.beside[TWO]).read_bytes() == notebook("lesson")


def test_a_notebook_that_was_broken_counts_as_changed(folder: Path) -> None:
    """A learner's notebook that is no JSON any more stays as it is."""
    first(folder)
    (folder / ONE).write_bytes(b'{"cells": [')
    layout = lay_out(folder, {ONE: notebook("newer")}, "0.2.0")
    assert (folder / ONE).read_bytes() == b'{"cells": ['
    assert ONE in layout.beside


@pytest.mark.parametrize(
    "manifest",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff",
        b'{"version": 1}',
        b'{"version": 2, "files": {}}',
        b'{"version": 1, "files": []}',
        b'{"version": 1, "files": {"a": null}}',
        b'{"version": 1, "files": {"a": {"content": 1, "work": "", "offered": ""}}}',
        b"[" * 100_000,
    ],
)
def test_a_broken_manifest_costs_nothing_but_a_sentence(folder: Path, manifest: bytes) -> None:
    """Without a usable record every differing file counts as the learner's; the record is written anew."""
    first(folder)
    mine = notebook("mine")
    (folder / ONE).write_bytes(mine)
    (folder / ".labkit/manifest.json").write_bytes(manifest)
    source = {ONE: notebook("newer")}
    said = list(lay_out(folder, source, "0.2.0").sentences())
    assert "manifest.json" in said[0]
    assert (folder / ONE).read_bytes() == mine
    assert list(lay_out(folder, source, "0.2.0").sentences()) == []


def test_a_half_finished_run_is_finished_by_the_next(folder: Path) -> None:
    """Files that were laid without a record of it, as when the machine stops between the two, are taken as laid."""
    source = {ONE: notebook("1"), TWO: notebook("2")}
    lay_out(folder, source, "0.1.0")
    (folder / ".labkit/manifest.json").unlink()
    assert list(lay_out(folder, source, "0.1.0").sentences()) == []
    newer = {ONE: notebook("newer"), TWO: notebook("2")}
    assert lay_out(folder, newer, "0.2.0").updated == [ONE]


# ------------------------------------------------------------------------------------------------ things in the way


def test_a_folder_where_a_file_belongs_is_said_and_stepped_over(folder: Path) -> None:
    """A folder with a lesson's name is left there, named with the reason, and the other files are laid."""
    (folder / ONE).mkdir(parents=True)
    layout = lay_out(folder, {ONE: notebook("1"), TWO: notebook("2")}, "0.1.0")
    assert (folder / ONE).is_dir()
    assert (folder / TWO).is_file()
    assert list(layout.blocked) == [ONE]
    assert any(ONE in sentence for sentence in layout.sentences())


def test_a_link_that_leads_nowhere_is_left_alone(folder: Path) -> None:
    """A dangling link with a lesson's name is not written through."""
    (folder / "notebooks").mkdir(parents=True)
    (folder / ONE).symlink_to(folder / "gone.ipynb")
    layout = lay_out(folder, {ONE: notebook("1")}, "0.1.0")
    assert list(layout.blocked) == [ONE]
    assert not (folder / "gone.ipynb").exists()


def test_a_linked_notebook_is_replaced_and_its_target_left(folder: Path, tmp_path: Path) -> None:
    """A learner who keeps a notebook elsewhere and links it keeps those bytes when a newer version is laid."""
    first(folder)
    elsewhere = tmp_path / "elsewhere.ipynb"
    os.replace(folder / ONE, elsewhere)
    (folder / ONE).symlink_to(elsewhere)
    lay_out(folder, {ONE: notebook("newer")}, "0.2.0")
    assert elsewhere.read_bytes() == notebook("1 + 1")


def test_a_file_instead_of_the_folder_is_a_sentence(tmp_path: Path) -> None:
    """A folder's name that is a file is refused with what to do."""
    (tmp_path / "course").write_bytes(b"")
    with pytest.raises(CourseError, match=r"course is a file; name a folder .* --dir"):
        resolve_folder(tmp_path / "course")


def test_the_courses_own_folder_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The originals are not laid out over themselves, where a learner would then change them."""
    monkeypatch.setattr(course, "course_root", lambda: tmp_path)
    with pytest.raises(CourseError, match="where the course itself lies"):
        resolve_folder(tmp_path)


def test_a_folder_that_cannot_be_made_is_a_sentence(tmp_path: Path) -> None:
    """What the system says is passed on in one sentence with the folder's name."""
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(CourseError, match=r"cannot be laid out in .*course: not a directory"):
        lay_out(tmp_path / "file" / "course", {ONE: notebook("1")}, "0.1.0")


def test_a_disk_without_hard_links_loses_nothing_either(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a file cannot have two names, its bytes are copied."""

    def refuse(*names: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(course.os, "link", refuse)
    first(folder)
    run = notebook("1 + 1", outputs="2")
    (folder / ONE).write_bytes(run)
    layout = lay_out(folder, {ONE: notebook("newer")}, "0.2.0")
    assert (folder / layout.rerun[ONE]).read_bytes() == run
    assert (folder / ONE).read_bytes() == notebook("newer")


def test_a_save_that_falls_into_the_replacing_is_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An editor that writes into the file just before the newer one takes its name does not lose what it wrote."""
    first(folder)
    mine = notebook("typed at the last moment")
    replace = os.replace

    def late(source: Path, target: Path) -> None:
        if Path(target) == folder / ONE:
            Path(target).write_bytes(mine)
        replace(source, target)

    monkeypatch.setattr(course.os, "replace", late)
    lay_out(folder, {ONE: notebook("newer")}, "0.2.0")
    assert mine in files_below(folder).values()


def test_nothing_is_left_beside_when_a_disk_fills_up(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When a write fails half-way, the learner's file is as before and no temporary one remains."""
    first(folder)

    def full(number: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(course.os, "fsync", full)
    with pytest.raises(CourseError, match="no space left on device"):
        lay_out(folder, {ONE: notebook("newer")}, "0.2.0")
    assert files_below(folder) == {ONE: notebook("1 + 1")}


# ----------------------------------------------------------------------------------------- links, and what is left over


OURS = ["manifest.json", "lab/page_config.json", "lab/overrides.json"]


@pytest.mark.parametrize("name", OURS)
def test_a_link_in_place_of_a_record_is_replaced(folder: Path, tmp_path: Path, name: str) -> None:
    """What a link of a record's name leads to is never written: the record takes the link's place."""
    source = first(folder)
    lab.settle_page(folder)
    outside = tmp_path / "outside"
    outside.write_text("mine")
    ours = folder / course.PRIVATE / name
    ours.unlink()
    ours.symlink_to(outside)
    lay_out(folder, source, "0.1.0")
    lab.settle_page(folder)
    assert outside.read_text() == "mine"
    assert ours.is_file()
    assert not ours.is_symlink()


@pytest.mark.parametrize("below", ["", "lab", "replaced", "replaced/notebooks"])
def test_a_link_in_place_of_a_folder_of_labkits_own_is_refused(folder: Path, tmp_path: Path, below: str) -> None:
    """labkit's own records are written in no other folder, whoever laid a link there; the sentence names the link."""
    first(folder)
    (folder / ONE).write_bytes(notebook("1 + 1", outputs="2"))
    outside = tmp_path / "outside"
    outside.mkdir()
    (folder / course.PRIVATE / "replaced").mkdir()
    ours = folder / course.PRIVATE / below
    if ours.exists():
        ours.rename(tmp_path / "before")
    ours.symlink_to(outside, target_is_directory=True)
    attempt = lab.settle_page if below == "lab" else lambda there: lay_out(there, {ONE: notebook("newer")}, "0.2.0")
    with pytest.raises(CourseError, match=f"{re.escape(str(ours))} is a link"):
        attempt(folder)
    assert list(outside.iterdir()) == []


def test_a_file_in_place_of_a_folder_of_labkits_own_is_a_sentence(folder: Path) -> None:
    """Where the page's settings cannot be written, the learner is told which and why."""
    first(folder)
    (folder / course.PRIVATE / "lab").write_bytes(b"")
    with pytest.raises(CourseError, match=r"\.labkit/lab cannot be written: file exists"):
        lab.settle_page(folder)


def test_what_killed_runs_left_is_cleared_and_nothing_else(folder: Path) -> None:
    """A temporary file goes at the next start, though it is a second name of the learner's notebook, which stays."""
    source = first(folder)
    left = folder / "notebooks/.labkit-0123456789abcdef"
    os.link(folder / ONE, left)
    mine = [folder / "notebooks" / name for name in (".labkit-notes", ".labkit-0123456789ABCDEF", ".x.labkit")]
    for path in mine:
        path.write_bytes(b"mine")
    linked = folder / "notebooks/.labkit-00112233445566aa"
    linked.symlink_to(folder / ONE)
    lay_out(folder, source, "0.1.0")
    assert not left.exists()
    assert (folder / ONE).read_bytes() == source[ONE]
    assert all(path.exists() for path in [*mine, linked])


def test_what_another_run_is_writing_is_not_cleared(folder: Path) -> None:
    """While one run writes to the folder, another that starts leaves its temporary files alone."""
    pytest.importorskip("fcntl")
    source = first(folder)
    left = folder / "notebooks/.labkit-0123456789abcdef"
    with course.writing(folder, source):
        left.write_bytes(b"under way")
        lay_out(folder, source, "0.1.0")
        assert left.exists()
    lay_out(folder, source, "0.1.0")
    assert not left.exists()


# --------------------------------------------------------------------------------------------------- any history at all


class Killed(BaseException):
    """Stands for a process that is gone."""


@contextmanager
def killed_after(steps: int) -> Iterator[None]:
    """The process dies after so many operations on files: the next one, and all that would tidy up, never happen."""
    left = [steps]

    def or_die(operation: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **options: Any) -> Any:
            if operation is os.open and not args[1] & os.O_CREAT:  # only looks
                return operation(*args, **options)
            if left[0] == 0:
                raise Killed
            left[0] -= 1
            return operation(*args, **options)

        return wrapped

    with pytest.MonkeyPatch.context() as patch, suppress(Killed):
        patch.setattr(os, "open", or_die(os.open))
        for name in ("link", "replace", "unlink", "mkdir", "fsync", "chmod"):
            patch.setattr(os, name, or_die(getattr(os, name)))
        yield


NAMES = (ONE, TWO, DATA)
TEXTS = st.sampled_from(["a", "b", "c"])


def content(name: str, text: str, outputs: str | None = None) -> bytes:
    """A file of the course with this text in it."""
    return notebook(text, outputs=outputs) if name.endswith(".ipynb") else text.encode()


@pytest.mark.parametrize("locks", [True, False])
@pytest.mark.parametrize("what", ["the first lab", "a newer release", "a reset"])
def test_a_kill_at_any_point_loses_nothing_that_is_typed_afterwards(
    what: str, locks: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between any two operations on files the process dies; what is then typed outlives all that labkit does next.

    The process has the same number each time, as in a container. Where a disk has no locks, nothing is cleared.
    """
    if not locks:
        monkeypatch.setattr(course, "clear_leftovers", lambda folders: None)
    old, newer, newest = ({name: content(name, text) for name in NAMES} for text in "abc")
    for steps in range(100):
        folder = tmp_path / str(steps)
        if what != "the first lab":
            lay_out(folder, old, "1")
            (folder / TWO).write_bytes(content(TWO, "a", "ran"))
        ended = False
        with killed_after(steps):
            if what == "a reset":
                restore(folder, TWO, old[TWO], "stamp")
            else:
                lay_out(folder, old if what == "the first lab" else newer, "2")
            ended = True
        there = [name for name in NAMES if (folder / name).exists()]
        for name in there:
            (folder / name).write_bytes(content(name, f"mine {name}"))
        lay_out(folder, newest, "3")
        for name in NAMES:
            restore(folder, name, newest[name], "stamp")
        assert {content(name, f"mine {name}") for name in there} <= set(files_below(folder).values())
        if ended:
            break
    assert ended
    assert steps > 5


class AnyHistory(RuleBasedStateMachine):
    """Learner and package change the files in turn; labkit lays out and brings back."""

    @initialize()
    def begin(self) -> None:
        """An empty folder and a first release."""
        self.room = tempfile.TemporaryDirectory()
        self.folder = Path(self.room.name) / "course"
        self.source = {name: content(name, "a") for name in NAMES}
        self.released = set(self.source.values())
        self.version = 1
        self.typed = 0
        self.interrupted = False  # since the last `labkit lab`

    def teardown(self) -> None:
        """Removes the folder."""
        if hasattr(self, "room"):
            self.room.cleanup()

    def present(self) -> list[str]:
        """The learner's files, those under labkit's own records left out."""
        return sorted(name for name in files_below(self.folder) if ".labkit" not in name)

    @rule(name=st.sampled_from(NAMES), text=TEXTS, outputs=st.sampled_from([None, "2"]))
    def release(self, name: str, text: str, outputs: str | None) -> None:
        """A newer package, or an older one again."""
        self.source[name] = content(name, text, outputs)
        self.released.add(self.source[name])
        self.version += 1

    @rule(pick=st.integers(0, 9), text=TEXTS, fresh=st.booleans())
    def edit(self, pick: int, text: str, fresh: bool) -> None:
        """The learner types into any file there is: something new, or what some release says too."""
        present = self.present()
        if present:
            name = present[pick % len(present)]
            self.typed += 1
            text = f"mine {self.typed}" if fresh else text
            (self.folder / name).write_bytes(content(name, text, "ran"))

    @rule(pick=st.integers(0, 9))
    def run(self, pick: int) -> None:
        """The learner runs a notebook and saves it: only outputs change."""
        notebooks = [name for name in self.present() if name.endswith(".ipynb")]
        if notebooks:
            path = self.folder / notebooks[pick % len(notebooks)]
            data = json.loads(path.read_bytes())
            self.typed += 1
            data["cells"][0]["outputs"] = [{"name": "stdout", "output_type": "stream", "text": f"output {self.typed}"}]
            path.write_text(json.dumps(data), "utf-8")

    @rule(pick=st.integers(0, 9))
    def delete(self, pick: int) -> None:
        """The learner deletes a file."""
        present = self.present()
        if present:
            (self.folder / present[pick % len(present)]).unlink()

    @rule()
    def forget(self) -> None:
        """The manifest is lost."""
        (self.folder / ".labkit/manifest.json").unlink(missing_ok=True)

    @rule()
    def lab(self) -> None:
        """`labkit lab`: every byte of the learner's is still there, and what was typed is still under its name."""
        before = files_below(self.folder)
        released_work = {work_of("x.ipynb", one) for one in self.released}
        lay_out(self.folder, self.source, f"0.{self.version}.0")
        after = files_below(self.folder)
        self.interrupted = False
        self.nothing_lost(before, after)
        for name, one in before.items():
            if ".labkit-" not in name and work_of(name, one) not in released_work:
                assert after[name] == one, f"{name} was typed into and then replaced"
        assert not [s for s in lay_out(self.folder, self.source, "x").sentences() if "deleted" not in s]
        assert files_below(self.folder) == after

    @rule(name=st.sampled_from(NAMES))
    def reset(self, name: str) -> None:
        """`labkit reset`: the original is there, and every byte of the learner's too."""
        if not (self.folder / ".labkit").is_dir():
            return
        before = files_below(self.folder)
        restore(self.folder, name, self.source[name], "2026-11-30-120000")
        after = files_below(self.folder)
        assert after[name] == self.source[name]
        self.nothing_lost(before, after)

    @rule(steps=st.integers(0, 20), name=st.sampled_from(NAMES), by_reset=st.booleans())
    def killed(self, steps: int, name: str, by_reset: bool) -> None:
        """`labkit lab` or `labkit reset` is killed between two operations on files: nothing is lost, now or later.

        A learner's notebook may have a second name then. What is typed next goes into both, as into one file.
        """
        if by_reset and not (self.folder / ".labkit").is_dir():
            return
        before = files_below(self.folder)
        with killed_after(steps):
            if by_reset:
                restore(self.folder, name, self.source[name], "2026-11-30-120000")
            else:
                lay_out(self.folder, self.source, f"0.{self.version}.0")
        self.nothing_lost(before, files_below(self.folder))
        self.interrupted = True

    def nothing_lost(self, before: dict[str, bytes], after: dict[str, bytes]) -> None:
        """Whatever stood in the folder and came from no release stands there still, under some name."""
        there, still = (
            {one for name, one in files.items() if ".labkit-" not in name}  # what a killed run left is no place to keep
            for files in (before, after)
        )
        assert not there - self.released - still

    @invariant()
    def no_temporary_files(self) -> None:
        """Nothing half-written lies about."""
        if hasattr(self, "folder") and not self.interrupted:
            assert not [name for name in files_below(self.folder) if ".labkit-" in name]


TestAnyHistory = AnyHistory.TestCase
TestAnyHistory.settings = settings(max_examples=60, stateful_step_count=25)


# ------------------------------------------------------------------------------------------------------ which file


NAMED = [ONE, TWO, "notebooks/checks/04-order.ipynb", "notebooks/traps/04-order.ipynb", DATA]


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        (ONE, ONE),
        ("00-start-here.ipynb", ONE),
        ("00-start-here", ONE),
        ("start-here", ONE),
        ("three-states", TWO),
        ("concepts/02-three-states", TWO),
        ("concepts/02-three-states.ipynb", TWO),
        ("checks/04-order", "notebooks/checks/04-order.ipynb"),
        ("order.yaml", DATA),
    ],
)
def test_a_file_is_found_by_path_name_or_stem(asked: str, meant: str, folder: Path) -> None:
    """A learner may name a notebook by as much of its path as makes it clear."""
    assert find_file(asked, folder, NAMED) == meant


def test_a_file_is_found_by_its_path_on_the_disk(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Absolute paths work, and so do those from the working directory, as a shell completes them."""
    folder.mkdir()
    monkeypatch.chdir(folder.parent)
    assert find_file(str(folder / TWO), folder, NAMED) == TWO
    assert find_file(f"labkit-course/{TWO}", folder, NAMED) == TWO


def test_an_ambiguous_name_lists_what_it_may_mean(folder: Path) -> None:
    """A stem that two lessons share is refused with both."""
    with pytest.raises(CourseError, match=r"checks/04-order.ipynb, notebooks/traps/04-order.ipynb"):
        find_file("04-order", folder, NAMED)


@pytest.mark.parametrize(("asked", "near"), [("three-sattes", TWO), ("00-strat-here", ONE)])
def test_a_misspelt_name_names_the_nearest(asked: str, near: str, folder: Path) -> None:
    """A name that the course has not is refused with the nearest one."""
    with pytest.raises(CourseError, match=f"did you mean {near}"):
        find_file(asked, folder, NAMED)


@pytest.mark.parametrize("asked", ["", ".", "/", "..", "zzzz", "a" * 300])
def test_a_name_far_from_all_lists_the_notebooks(asked: str, folder: Path) -> None:
    """A name that resembles none is refused with all of them."""
    with pytest.raises(CourseError, match=r"there are notebooks/00-start-here\.ipynb, "):
        find_file(asked, folder, NAMED)


# ------------------------------------------------------------------------------------------------------ the real course


def test_the_checkout_has_a_course() -> None:
    """The course has its first notebook, no checkpoints and nothing hidden."""
    files = course_files()
    assert course.START in files
    assert not [name for name in files if "/." in name or "__" in name]
    for name, one in files.items():
        if name.endswith(".ipynb"):
            assert json.loads(one)["nbformat"] == 4


def test_a_learner_does_not_get_the_answers() -> None:
    """Of the course's notebooks, cells that answer a prediction are laid without output, all others as stored."""
    stored = {name: (course.course_root() / name).read_bytes() for name in course_files()}
    withheld = 0
    for name, content in course_files().items():
        if not name.endswith(".ipynb"):
            assert content == stored[name]
            continue
        for cell, original in zip(json.loads(content)["cells"], json.loads(stored[name])["cells"], strict=True):
            if "predict" in original["metadata"].get("tags", ()):
                withheld += bool(original["outputs"])
                assert (cell["outputs"], cell["execution_count"]) == ([], None)
                assert cell["source"] == original["source"]
            else:
                assert cell == original
        assert work_of(name, content) == work_of(name, stored[name])
    assert withheld > 3
