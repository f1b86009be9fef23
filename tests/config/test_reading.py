"""What a user names as a file is read only where it is one, and never without end."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from labkit.cli import main
from labkit.config.reading import read_user_file
from labkit.errors import ConfigError
from labkit.scenario import load_scenario

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pipes, devices and sockets in folders")


def refusal(path: str | Path, most: int = 1000) -> str:
    """The one sentence about a file that is not read."""
    with pytest.raises(ConfigError) as caught:
        read_user_file(path, most=most, name="x.yaml", wanted="a YAML file", usual="a stack is short")
    (finding,) = caught.value.findings
    assert (finding.code, finding.file, finding.message) == ("unreadable", "x.yaml", str(caught.value))
    return str(caught.value)


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    """A named pipe into which nobody writes."""
    path = tmp_path / "pipe.yaml"
    os.mkfifo(path)
    return path


@pytest.fixture
def listening(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A socket with a name; a short one, since systems limit it."""
    monkeypatch.chdir(tmp_path)
    with closing(socket.socket(socket.AF_UNIX)) as one:
        one.bind("socket.yaml")
        yield tmp_path / "socket.yaml"


def test_a_regular_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    """A file of as many bytes as are allowed is read, and one byte more is refused with the limit."""
    file = tmp_path / "x.yaml"
    file.write_bytes(b"a" * 1000)
    link = tmp_path / "link.yaml"
    link.symlink_to(file)
    assert read_user_file(file, most=1000) == read_user_file(link, most=1000) == b"a" * 1000
    assert refusal(file, 999) == "x.yaml: the file has more than 999 bytes, and a stack is short"


def test_what_is_no_regular_file_is_never_waited_for(tmp_path: Path, pipe: Path, listening: Path) -> None:
    """A pipe without a writer, a device that never ends, a socket and a folder are each one sentence, at once."""
    assert refusal(pipe) == "x.yaml: this is a pipe, and a YAML file is wanted"
    assert refusal("/dev/zero") == "x.yaml: this is a device, and a YAML file is wanted"
    assert refusal(listening) == "x.yaml: this is a socket, and a YAML file is wanted"
    assert refusal(tmp_path) == "x.yaml: this is a folder, and a YAML file is wanted"


def test_a_file_that_was_exchanged_meanwhile_is_looked_at_again(
    tmp_path: Path, pipe: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was a regular file a moment ago and is a pipe when it is opened does not make anybody wait either."""
    file = tmp_path / "x.yaml"
    file.write_bytes(b"")
    before = os.stat(file)
    monkeypatch.setattr(os, "stat", lambda path, *args, **kwargs: before)
    assert refusal(pipe) == "x.yaml: this is a pipe, and a YAML file is wanted"


def test_a_misspelt_name_is_told_with_its_neighbour(tmp_path: Path) -> None:
    """A file that is not there is named with the one beside it that was meant."""
    (tmp_path / "lesson.yaml").write_bytes(b"")
    assert refusal(tmp_path / "leson.yaml").startswith("x.yaml: there is no such file; did you mean '")


def test_check_and_run_share_the_reader(pipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`labkit check` and a scenario's loader refuse a pipe alike."""
    assert main(["check", str(pipe)]) == 2
    said = f"{pipe}: this is a pipe, and a YAML file is wanted"
    assert capsys.readouterr().out.startswith(said)
    with pytest.raises(ConfigError) as caught:
        load_scenario(pipe)
    assert str(caught.value) == said
