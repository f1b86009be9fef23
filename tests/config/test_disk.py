"""Files are written whole or not at all, and never through a name that somebody else has."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from labkit.config import disk


def test_a_temporary_name_is_never_the_same_and_never_opened_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two files beside one have two names; one whose name is taken, by a link too, is refused and writes nothing."""
    path = tmp_path / "a.ipynb"
    with disk.beside(path, b"1") as one, disk.beside(path, b"2") as two:
        assert one != two
        assert (one.read_bytes(), two.read_bytes()) == (b"1", b"2")
    assert list(tmp_path.iterdir()) == []
    path.write_bytes(b"mine")
    monkeypatch.setattr(os, "urandom", bytes)
    for taken in (os.link, os.symlink):
        taken(path, tmp_path / ".labkit-0000000000000000")
        with pytest.raises(FileExistsError):
            disk.write_whole(path, b"new")
        assert path.read_bytes() == b"mine"
        (tmp_path / ".labkit-0000000000000000").unlink()


def test_a_name_may_be_as_long_as_the_disk_allows(tmp_path: Path) -> None:
    """What is written beside a file has no longer name than it."""
    path = tmp_path / ("a" * 255)
    disk.write_whole(path, [b"in ", b"pieces"])
    assert path.read_bytes() == b"in pieces"


def test_a_link_is_replaced_and_rights_are_kept(tmp_path: Path) -> None:
    """A link makes room for the file, its target stays; a file that is replaced hands its rights on."""
    outside, path = tmp_path / "outside", tmp_path / "a"
    outside.write_bytes(b"mine")
    path.symlink_to(outside)
    disk.write_whole(path, b"new")
    assert (outside.read_bytes(), path.is_symlink(), path.read_bytes()) == (b"mine", False, b"new")
    path.chmod(0o600)
    disk.write_whole(path, b"newer")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_what_fails_leaves_nothing_behind(step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When a disk fills up, or a name cannot be taken, the old file stands and no other."""
    path = tmp_path / "a"
    path.write_bytes(b"old")

    def fail(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(OSError, match="No space"):
        disk.write_whole(path, b"new")
    assert {one.name: one.read_bytes() for one in tmp_path.iterdir()} == {"a": b"old"}
