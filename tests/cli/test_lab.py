"""`labkit lab`: the port it takes, how it starts JupyterLab, and a real server from the first line to Ctrl-C."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from labkit.cli import lab, main
from labkit.cli.course import PRIVATE, START
from labkit.cli.jupyter import Places, forget_settings, places, signs
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


def somewhere(folder: Path) -> Places:
    """Places that nobody looks at."""
    return Places(folder, folder, folder, folder, folder, ())


def test_the_server_listens_on_this_machine_only_and_asks_the_internet_nothing(tmp_path: Path) -> None:
    """The options bind it to loopback, forbid it another port, and turn off news and the list of extensions."""
    options = lab.jupyter_arguments(tmp_path, 9000, somewhere(tmp_path), browser=True)
    assert "--ServerApp.ip=127.0.0.1" in options
    assert "--ServerApp.port=9000" in options
    assert "--ServerApp.port_retries=0" in options
    assert "--LabApp.news_url=None" in options
    assert "--LabApp.extension_manager=readonly" in options
    assert "--no-browser" not in options


def test_it_opens_the_first_notebook_while_that_is_there(tmp_path: Path) -> None:
    """The first notebook is opened; a learner who deleted it gets the lab itself instead of an error."""
    assert "--LabApp.default_url=/lab" in lab.jupyter_arguments(tmp_path, 9000, somewhere(tmp_path), browser=False)
    (tmp_path / START).parent.mkdir()
    (tmp_path / START).write_text("{}")
    options = lab.jupyter_arguments(tmp_path, 9000, somewhere(tmp_path), browser=False)
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

    def __init__(self, home: Path, variables: Mapping[str, str | None] = MappingProxyType({})) -> None:
        self.folder = home / "labkit-course"
        self.output = home / "output"
        environment = {**os.environ, "HOME": str(home), "PYTHONUNBUFFERED": "1", "IPYTHONDIR": str(home / "ipython")}
        for name in ("CONFIG", "DATA", "RUNTIME"):
            environment[f"JUPYTER_{name}_DIR"] = str(home / name.lower())
        for name, value in variables.items():
            environment.pop(name, None)
            if value is not None:
                environment[name] = value
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

    def address(self) -> tuple[str, str]:
        """Where it says that it is open: the server, and the token."""
        self.wait_for("Ctrl-C here ends it")
        found = re.search(r"(http://127\.0\.0\.1:\d+)/\?token=(\w+)", self.said())
        assert found is not None
        return found[1], found[2]

    def ask(self, path: str, data: object = None, method: str | None = None) -> Any:
        """What its API answers to who has the token."""
        server, token = self.address()
        request = urllib.request.Request(
            f"{server}/{path}", None if data is None else json.dumps(data).encode(), method=method
        )
        request.add_header("Authorization", f"token {token}")
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=LIMIT) as answer:
            content = answer.read()
        return json.loads(content) if "json" in answer.headers.get("Content-Type", "") else content.decode()

    def end(self) -> None:
        """Ends it whatever happens."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(LIMIT)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    """A lab that has been started; it is ended after the test whatever happens."""
    started = Running(tmp_path)
    yield started
    started.end()


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


# ------------------------------------------------------------------------------- the learner's own Jupyter, and home


def configure(place: Path, marks: Path) -> None:
    """A folder of configuration that would make another server of it, in each kind of file that Jupyter reads."""
    hashed = "sha1:67c9e60bb8b6:9ffede0825894254b2e042ea597d771089e11aed"
    settings = {
        "ServerApp": {
            "allow_unauthenticated_access": True,
            "base_url": "/elsewhere/",
            "disable_check_xsrf": True,
            "jpserver_extensions": {"jupyter_server_terminals": False, "jupyterlab": False},
            "password": hashed,
            "sock": str(marks / "socket"),
            "token": "",
        },
        "IdentityProvider": {"token": ""},
        "PasswordIdentityProvider": {"hashed_password": hashed},
        "LabApp": {"app_dir": str(marks), "default_url": "/tree"},
    }
    (place / "jupyter_server_config.d").mkdir(parents=True)
    (place / "jupyter_server_config.d" / "own.json").write_text(json.dumps(settings), "utf-8")
    for name in ("jupyter_config", "jupyter_server_config", "jupyter_lab_config", "jupyter_server_terminals_config"):
        (place / f"{name}.json").write_text(json.dumps(settings), "utf-8")
        lines = [f"open({str(marks / name)!r}, 'a').close()", "c = get_config()"]
        lines += [f"c.{part}.{key} = {value!r}" for part, values in settings.items() for key, value in values.items()]
        (place / f"{name}.py").write_text("\n".join(lines), "utf-8")


@pytest.mark.parametrize("where", ["at home", "by variables", "of the system"])
def test_nothing_of_the_users_own_configuration_applies(where: str, tmp_path: Path) -> None:
    """Whatever the user's Jupyter is set to, the address works, the API needs the token, and the course's parts are on.

    Of the user's own choices in JupyterLab, the settings stay.
    """
    marks = tmp_path / "marks"
    marks.mkdir()
    variables: dict[str, str | None]
    if where == "at home":
        variables = {"JUPYTER_CONFIG_DIR": None}
        configured = [tmp_path / ".jupyter", tmp_path / ".local" / "etc" / "jupyter"]
        settings = tmp_path / ".jupyter"
    elif where == "of the system":
        variables = {"JUPYTER_PLATFORM_DIRS": "1", "XDG_CONFIG_DIRS": str(tmp_path / "etc")}
        configured = [tmp_path / "etc" / "jupyter"]
        settings = tmp_path / "config"
    else:
        (tmp_path / "token").write_text("theirs")
        variables = {
            "JUPYTER_CONFIG_PATH": str(tmp_path / "path"),
            "JUPYTER_GATEWAY_URL": "http://127.0.0.1:9",
            "JUPYTER_PORT": "1",
            "JUPYTER_SERVER_ALLOW_UNAUTHENTICATED_ACCESS": "yes",
            "JUPYTER_TOKEN": "theirs",
            "JUPYTER_TOKEN_FILE": str(tmp_path / "token"),
            "JUPYTERHUB_API_TOKEN": "theirs",
            "JUPYTERHUB_BASE_URL": "/hub/",
            "JUPYTERHUB_SERVICE_PREFIX": "/user/x/",
            "JUPYTERLAB_DIR": str(marks),
        }
        configured = [tmp_path / "config", tmp_path / "path"]
        settings = tmp_path / "config"
    for place in configured:
        configure(place, marks)
    disabled = {"disabledExtensions": {"@jupyter-widgets/jupyterlab-manager": True}}
    (settings / "labconfig").mkdir(parents=True)
    (settings / "labconfig" / "page_config.json").write_text(json.dumps(disabled), "utf-8")
    theme = settings / "lab" / "user-settings" / "@jupyterlab" / "apputils-extension" / "themes.jupyterlab-settings"
    theme.parent.mkdir(parents=True)
    theme.write_text(json.dumps({"theme": "JupyterLab Dark"}), "utf-8")
    running = Running(tmp_path, variables)
    try:
        server, token = running.address()
        status, url = status_of(f"{server}/?token={token}")
        assert status == 200
        assert url.startswith(f"{server}/lab/tree/{START}")
        for path in ("contents", "kernels", "contents?token=", "contents?token=theirs"):
            assert status_of(f"{server}/api/{path}")[0] == 403
        assert running.ask("api/terminals") == []
        assert running.ask("lab/api/settings/@jupyterlab/apputils-extension:themes")["settings"] == {
            "theme": "JupyterLab Dark"
        }
        page = running.ask("lab")
        [switched_off] = re.findall(r'"disabledExtensions": \[[^]]*\]', page)
        assert "announcements" in switched_off
        assert "jupyterlab-manager" not in switched_off
        assert "python3" in running.ask("api/kernelspecs")["kernelspecs"]
        assert running.interrupt() == 0
        assert "Traceback" not in running.said()
        assert [path.name for path in marks.iterdir()] == []
    finally:
        running.end()


def test_variables_that_set_the_server_are_dropped_and_those_that_say_where_stay() -> None:
    """No setting of Jupyter's comes by a variable; where its files lie, and everything that is not Jupyter's, does."""
    stay = {"JUPYTER_DATA_DIR": "/a", "JUPYTER_PREFER_ENV_PATH": "0", "PATH": "/b", "MY_JUPYTER": "c"}
    environment = {**stay, "JUPYTER_TOKEN": "", "JUPYTERHUB_USER": "x", "JUPYTERLAB_WORKSPACES_DIR": "/d"}
    forget_settings(environment)
    assert environment == stay
    forget_settings(empty := {})
    assert empty == {"JUPYTER_PREFER_ENV_PATH": "1"}


def test_a_home_that_cannot_be_written_is_no_reason_not_to_start(tmp_path: Path) -> None:
    """With a file where each of Jupyter's own folders would be, the lab says so, runs cells, saves and trusts."""
    (tmp_path / "file").write_text("")
    names = ["JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"]
    variables: dict[str, str | None] = {name: str(tmp_path / "file" / name.lower()) for name in names}
    variables["TMPDIR"] = str(tmp_path / "tmp")
    (tmp_path / "tmp").mkdir()
    for again in (False, True):  # the second time nothing is laid, and what was laid is trusted all the same
        there = set((tmp_path / "tmp").iterdir())
        running = Running(tmp_path, variables)
        try:
            running.address()
            [sentence] = [line for line in running.said().splitlines() if "cannot write to" in line]
            assert all(str(tmp_path / "file" / name.lower()) in sentence for name in names)
            notebook = running.ask(f"api/contents/{START}")
            cells = [cell for cell in notebook["content"]["cells"] if cell["cell_type"] == "code"]
            assert cells
            assert all(cell["metadata"]["trusted"] for cell in cells)
            assert running.ask(f"api/contents/{START}", notebook, "PUT")["path"] == START
            setting = "lab/api/settings/@jupyterlab/apputils-extension:themes"
            assert running.ask(setting, {"raw": '{"theme": "JupyterLab Dark"}'}, "PUT") == ""
            if not again:
                running.ask("api/kernels", {"name": "python3"}, "POST")
                history = "labkit-*/ipython/profile_default/history.sqlite"
                running.until(partial(has, tmp_path / "tmp", history))
                assert has(tmp_path / "tmp", history)
            assert running.interrupt() == 0
            assert "Traceback" not in running.said()
            if again:
                assert set((tmp_path / "tmp").iterdir()) == there
        finally:
            running.end()


def has(folder: Path, pattern: str) -> bool:
    """Whether there is such a file."""
    return any(folder.glob(pattern))


def in_the_way(kind: str, home: Path) -> None:
    """Something that makes one of the places useless, though its folder can be written."""
    taken = {
        "secret": "data/notebook_secret",
        "history": "ipython/profile_default/history.sqlite",
        "runtime": "runtime",
        "settings": "config/lab/user-settings",
    }
    path = home / taken[kind]
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind in ("secret", "history"):
        path.mkdir()
    else:
        path.write_bytes(b"")


@pytest.mark.parametrize(
    ("kind", "where"), [("secret", "data"), ("history", "ipython"), ("runtime", "runtime"), ("settings", "settings")]
)
def test_a_place_that_is_in_the_way_is_replaced_and_the_others_stay(
    kind: str, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each place is tried by doing there what is done there; only one that fails is replaced, and it is named."""
    for name in ("CONFIG", "DATA", "RUNTIME"):
        monkeypatch.setenv(f"JUPYTER_{name}_DIR", str(tmp_path / name.lower()))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.delenv("JUPYTERLAB_SETTINGS_DIR", raising=False)
    in_the_way(kind, tmp_path)
    usual = {"settings": tmp_path / "config" / "lab" / "user-settings"}
    usual |= {name: tmp_path / name for name in ("data", "runtime", "ipython")}
    (tmp_path / "course").mkdir()
    found = places(tmp_path / "course", tmp_path / "spare")
    assert found.instead == (usual[where],)
    for name, path in usual.items():
        assert (getattr(found, name) == path) is (name != where)
        assert getattr(found, name).is_dir()


def test_a_database_that_cannot_be_written_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A database of signatures that opens but takes no signature is as good as none, whatever the rights say."""
    assert signs(tmp_path)
    connect = sqlite3.connect

    def read_only(path: str, **options: Any) -> sqlite3.Connection:
        return connect(f"file:{path}?mode=ro", uri=True, **options)

    monkeypatch.setattr(sqlite3, "connect", read_only)
    assert not signs(tmp_path)


def test_no_place_at_all_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where not even the course's folder can be written, the learner gets one line and the way to find out more."""
    monkeypatch.setattr(lab, "course_files", dict)
    (tmp_path / "course" / PRIVATE).mkdir(parents=True)
    (tmp_path / "course" / PRIVATE / "jupyter").write_bytes(b"")
    assert main(["lab", "--no-browser", "--dir", str(tmp_path / "course")]) == 2
    assert capsys.readouterr().err == (
        "labkit: JupyterLab cannot start: file exists "
        f"({tmp_path / 'course' / PRIVATE / 'jupyter'}); `labkit doctor` says what to do\n"
    )


def test_a_saved_page_keeps_what_its_widgets_show(tmp_path: Path) -> None:
    """JupyterLab is told to save widgets' state, and to ask nothing about news."""
    lab.settle_page(tmp_path)
    settings = tmp_path / PRIVATE / "lab"
    overrides = json.loads((settings / "overrides.json").read_text("utf-8"))
    assert overrides == {"@jupyter-widgets/jupyterlab-manager:plugin": {"saveState": True}}
    disabled = json.loads((settings / "page_config.json").read_text("utf-8"))["disabledExtensions"]
    assert disabled == ["@jupyterlab/apputils-extension:announcements"]
