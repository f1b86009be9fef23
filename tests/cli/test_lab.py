"""`labkit lab`: the port it takes, how it starts JupyterLab, and a real server from the first line to Ctrl-C."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from labkit.cli import lab, main
from labkit.cli.course import PRIVATE, START
from labkit.errors import CourseError

LIMIT = 60.0  # seconds that a server may take to start or to end on a slow machine; it takes about two


@pytest.fixture
def taken() -> Iterator[int]:
    """A port on which something listens."""
    with socket.create_server((lab.HOST, 0)) as listener:
        yield listener.getsockname()[1]


# --------------------------------------------------------------------------------------------------------------- ports


def test_a_port_in_use_is_refused_with_a_free_one(taken: int) -> None:
    """Who asks for a port that is in use is told so, and the port named instead is free."""
    with pytest.raises(CourseError, match=f"port {taken} cannot be used") as refused:
        lab.choose_port(taken)
    named = re.search(r"--port (\d+) is free", str(refused.value))
    assert named is not None
    assert lab.choose_port(int(named[1])) == int(named[1])


def test_without_a_port_the_next_free_one_is_taken(taken: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second lab beside a first simply takes the next port."""
    monkeypatch.setattr(lab, "FIRST_PORT", taken)
    assert taken < lab.choose_port(None) < taken + lab.PORTS_TRIED


def test_no_free_port_at_all_is_a_sentence(taken: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """When every port that would be tried is in use, the learner is asked to choose one."""
    monkeypatch.setattr(lab, "FIRST_PORT", taken)
    monkeypatch.setattr(lab, "PORTS_TRIED", 1)
    with pytest.raises(CourseError, match="choose one with --port"):
        lab.choose_port(None)


@pytest.mark.parametrize("port", ["0", "-1", "65536", "123456789012345678901234567890"])
def test_a_number_that_is_no_port_is_refused(port: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A port outside 1 to 65535 is refused before anything is laid out."""
    assert main(["lab", f"--port={port}", "--dir", str(tmp_path / "course")]) == 2
    assert capsys.readouterr().err == f"labkit: {port} is no port; a port is a number from 1 to 65535\n"
    assert not (tmp_path / "course").exists()


# ------------------------------------------------------------------------------------------- JupyterLab's options


def test_the_server_listens_on_this_machine_only_and_asks_the_internet_nothing(tmp_path: Path) -> None:
    """The options bind it to loopback, forbid it another port, and turn off news and the list of extensions."""
    options = lab.jupyter_arguments(tmp_path, 9000, browser=True)
    assert "--ServerApp.ip=127.0.0.1" in options
    assert "--ServerApp.port=9000" in options
    assert "--ServerApp.port_retries=0" in options
    assert "--LabApp.news_url=None" in options
    assert "--LabApp.extension_manager=readonly" in options
    assert "--no-browser" not in options


def test_it_opens_the_first_notebook_while_that_is_there(tmp_path: Path) -> None:
    """The first notebook is opened; a learner who deleted it gets the lab itself instead of an error."""
    assert "--LabApp.default_url=/lab" in lab.jupyter_arguments(tmp_path, 9000, browser=False)
    (tmp_path / START).parent.mkdir()
    (tmp_path / START).write_text("{}")
    options = lab.jupyter_arguments(tmp_path, 9000, browser=False)
    assert f"--LabApp.default_url=/lab/tree/{START}" in options
    assert "--no-browser" in options


def test_without_jupyterlab_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In an environment without the course's extra the sentence names what brings it."""
    monkeypatch.setattr(lab, "find_spec", lambda name: None)
    assert main(["lab", "--dir", str(tmp_path / "course")]) == 2
    assert "pip install 'labkit-circuit-breakers[course]'" in capsys.readouterr().err


def test_a_file_in_the_folders_place_is_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--dir` with a file's name is refused in one line."""
    (tmp_path / "course").write_text("")
    assert main(["lab", "--dir", str(tmp_path / "course")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


# ------------------------------------------------------------------------------------------------------- a real server


class Running:
    """`labkit lab --no-browser` in a process of its own, in a home of its own."""

    def __init__(self, home: Path) -> None:
        self.folder = home / "labkit-course"
        self.output = home / "output"
        environment = {**os.environ, "HOME": str(home), "PYTHONUNBUFFERED": "1"}
        for name in ("CONFIG", "DATA", "RUNTIME"):
            environment[f"JUPYTER_{name}_DIR"] = str(home / name.lower())
        with open(self.output, "wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "labkit", "lab", "--no-browser"],
                cwd=home,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def said(self) -> str:
        """What it has printed so far."""
        return self.output.read_text("utf-8")

    def wait_for(self, words: str) -> None:
        """Waits until it has printed these words."""
        self.until(lambda: words in self.said() or self.process.poll() is not None)
        assert words in self.said(), self.said()

    def until(self, condition: Callable[[], bool]) -> None:
        """Waits for a condition, with a limit."""
        end = time.monotonic() + LIMIT
        while not condition() and time.monotonic() < end:
            time.sleep(0.02)

    def interrupt(self) -> int:
        """Ctrl-C, and the status with which it ends."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(LIMIT)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    """A lab that has been started; it is ended after the test whatever happens."""
    started = Running(tmp_path)
    yield started
    if started.process.poll() is None:
        started.process.kill()
        started.process.wait(LIMIT)


def status_of(url: str) -> tuple[int, str]:
    """The status of an answer, and the address where it came from in the end."""
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(), urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=LIMIT) as answer:
            return answer.status, answer.url
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.url


def test_the_lab_opens_and_ctrl_c_ends_it(running: Running) -> None:
    """The address printed opens the first notebook, nobody comes in without it, and Ctrl-C ends all of it quietly."""
    running.wait_for("Ctrl-C here ends it")
    lines = running.said().splitlines()
    assert [line.startswith("labkit: ") for line in lines] == [True, True, True], lines
    address = re.search(r"http://127\.0\.0\.1:(\d+)/\?token=\w+", running.said())
    assert address is not None
    assert (running.folder / START).is_file()

    status, url = status_of(address[0])
    assert status == 200
    assert f"/lab/tree/{START}" in url
    assert status_of(f"http://127.0.0.1:{address[1]}/api/contents")[0] == 403

    assert running.interrupt() == 0
    assert running.said().splitlines() == lines
    with pytest.raises(OSError, match=r"refused"):
        socket.create_connection((lab.HOST, int(address[1])), timeout=LIMIT)
    assert (running.folder / PRIVATE / "manifest.json").is_file()


def test_the_laid_notebooks_are_trusted(running: Running) -> None:
    """JupyterLab shows the pictures stored in what was laid before it is run, since what labkit lays is signed."""
    running.wait_for("Ctrl-C here ends it")
    assert running.interrupt() == 0
    script = (
        "import sys, nbformat; from nbformat.sign import NotebookNotary; notary = NotebookNotary(); "
        "ok = notary.check_signature(nbformat.read(sys.argv[1], as_version=4)); notary.store.close(); sys.exit(not ok)"
    )
    environment = {**os.environ, "JUPYTER_DATA_DIR": str(running.folder.parent / "data")}
    done = subprocess.run(
        [sys.executable, "-c", script, running.folder / START], env=environment, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_ctrl_c_while_it_starts_is_quiet_too(running: Running) -> None:
    """Who changes their mind while JupyterLab is still being loaded sees no traceback."""
    running.wait_for("labkit: laid")
    assert running.interrupt() in (0, 130)
    assert "Traceback" not in running.said()


def test_a_home_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    """Where JupyterLab finds no place for its own files, the learner gets one line and the way to find out more."""
    (tmp_path / "file").write_text("")
    environment = {**os.environ, "JUPYTER_RUNTIME_DIR": str(tmp_path / "file" / "runtime")}
    command = [sys.executable, "-m", "labkit", "lab", "--no-browser", "--dir", tmp_path / "course"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [done.stderr.strip()]
    assert "JupyterLab cannot start: not a directory" in done.stderr
    assert "labkit doctor" in done.stderr


def test_a_saved_page_keeps_what_its_widgets_show(tmp_path: Path) -> None:
    """JupyterLab is told to save widgets' state, and to ask nothing about news."""
    lab.settle_page(tmp_path)
    settings = tmp_path / PRIVATE / "lab"
    overrides = json.loads((settings / "overrides.json").read_text("utf-8"))
    assert overrides == {"@jupyter-widgets/jupyterlab-manager:plugin": {"saveState": True}}
    disabled = json.loads((settings / "page_config.json").read_text("utf-8"))["disabledExtensions"]
    assert disabled == ["@jupyterlab/apputils-extension:announcements"]
