"""`labkit reset`: the original comes back and the learner's copy stays."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from labkit.cli import main, reset
from labkit.cli.course import lay_out
from labkit.cli.moment import stamp

NAME = "notebooks/checks/04-order.ipynb"
SOURCE = {NAME: b'{"cells": []}', "notebooks/00-start-here.ipynb": b'{"cells": [ ]}'}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A learner's folder with a small course in it."""
    monkeypatch.setattr(reset, "course_files", lambda: SOURCE)
    monkeypatch.setattr(reset, "stamp", lambda: "2026-11-30-120000")
    lay_out(tmp_path / "course", SOURCE, "0.1.0")
    return tmp_path / "course"


def test_a_changed_notebook_comes_back_and_the_copy_is_kept(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The original has its name again; the learner's bytes lie beside it under the date, and it is said where."""
    (folder / NAME).write_bytes(b"mine")
    assert main(["reset", "order", "--dir", str(folder)]) == 0
    kept = "notebooks/checks/04-order.2026-11-30-120000.ipynb"
    assert (folder / NAME).read_bytes() == SOURCE[NAME]
    assert (folder / kept).read_bytes() == b"mine"
    assert capsys.readouterr().out == f"{NAME} is the original again; your copy is kept as {kept}\n"


def test_two_resets_in_one_second_keep_both_copies(folder: Path) -> None:
    """A dated copy is never written over by another of the same second."""
    for mine in (b"first", b"second"):
        (folder / NAME).write_bytes(mine)
        assert main(["reset", "04-order", "--dir", str(folder)]) == 0
    copies = {path.read_bytes() for path in (folder / "notebooks/checks").iterdir()}
    assert copies == {SOURCE[NAME], b"first", b"second"}


def test_a_deleted_notebook_comes_back(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What the learner deleted is there again, even with its folder gone."""
    (folder / NAME).unlink()
    (folder / NAME).parent.rmdir()
    assert main(["reset", NAME, "--dir", str(folder)]) == 0
    assert (folder / NAME).read_bytes() == SOURCE[NAME]
    assert capsys.readouterr().out == f"{NAME} is back\n"


def test_the_original_itself_is_left_as_it_is(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No copy is made of a notebook that is the original to the byte."""
    assert main(["reset", "order", "--dir", str(folder)]) == 0
    assert capsys.readouterr().out == f"{NAME} is the original already; nothing changed\n"
    assert len(list((folder / NAME).parent.iterdir())) == 1


def test_after_a_reset_a_newer_version_replaces_it(folder: Path) -> None:
    """A notebook that was brought back counts as laid, not as changed."""
    (folder / NAME).write_bytes(b"mine")
    main(["reset", "order", "--dir", str(folder)])
    assert lay_out(folder, {NAME: b'{"cells": [1]}'}, "0.2.0").updated == [NAME]


def test_without_a_course_there_it_says_how_to_get_one(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder that holds no course is refused, and nothing is made there."""
    assert main(["reset", "order", "--dir", str(tmp_path / "nowhere")]) == 2
    assert "`labkit lab` lays it out" in capsys.readouterr().err
    assert not (tmp_path / "nowhere").exists()


def test_an_unknown_notebook_names_the_nearest(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A misspelt notebook is refused in one sentence with the nearest."""
    assert main(["reset", "oder", "--dir", str(folder)]) == 2
    assert capsys.readouterr().err == f"labkit: the course has no 'oder'; did you mean {NAME}?\n"


def test_the_stamp_is_fit_for_a_file_name() -> None:
    """The date has the year first, so that copies sort by age, and no character that a disk refuses."""
    assert re.fullmatch(r"\d{4}-\d\d-\d\d-\d{6}", stamp())


@pytest.mark.parametrize("below", ["", "notebooks", "notebooks/checks"])
def test_inside_the_course_no_folder_need_be_named(folder: Path, below: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a terminal that stands in the course folder, or anywhere in it, the course is found without --dir."""
    (folder / NAME).write_bytes(b"mine")
    monkeypatch.chdir(folder / below)
    assert main(["reset", "order"]) == 0
    assert (folder / NAME).read_bytes() == SOURCE[NAME]
