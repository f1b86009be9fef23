"""`labkit lab`: lays the course out in the learner's folder and opens it in JupyterLab, on this machine only."""

from __future__ import annotations

import argparse
import json
import os
import secrets
import socket
import sys
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from labkit.cli.course import (
    DEFAULT_FOLDER,
    PRIVATE,
    START,
    course_files,
    lay_out,
    private_folder,
    resolve_folder,
    writing,
)
from labkit.cli.jupyter import Places, forget_settings, make_server, places
from labkit.config.disk import reason, write_whole
from labkit.errors import CourseError
from labkit.version import __version__

HELP = "lay the course out in your folder and open it in JupyterLab"

HOST = "127.0.0.1"
FIRST_PORT = 8888
PORTS_TRIED = 50


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `labkit lab`."""
    parser.description = (
        "Copies the course to your folder, never over anything that you changed, and opens it in JupyterLab on this "
        "machine. Ctrl-C ends it."
    )
    parser.add_argument(
        "--dir", default=DEFAULT_FOLDER, metavar="DIR", help="your course folder (default: ./%(default)s)"
    )
    parser.add_argument(
        "--port", type=int, metavar="N", help=f"port of the server (default: the first free one from {FIRST_PORT})"
    )
    parser.add_argument("--no-browser", action="store_true", help="print the address and open no browser")


def run(args: argparse.Namespace) -> int:
    """Lay the course out and run JupyterLab on it until it is ended.

    Raises:
        CourseError: JupyterLab is not installed or cannot start, the port is taken, or the folder cannot be written.
    """
    if find_spec("jupyterlab") is None:
        raise CourseError(
            f"JupyterLab is not installed for {sys.executable}; pip install 'labkit-circuit-breakers[course]' brings it"
        )
    folder = resolve_folder(args.dir)
    port = choose_port(args.port)
    source = course_files()
    layout = lay_out(folder, source, __version__)
    for sentence in layout.sentences():
        print(f"labkit: {sentence}")
    settle_page(folder)
    with tempfile.TemporaryDirectory(prefix="labkit-", ignore_cleanup_errors=True) as spare:
        found = find_places(folder, Path(spare))
        if found.instead:
            names = ", ".join(map(str, found.instead))
            print(
                f"labkit: JupyterLab cannot write to {names}; what it keeps there is kept with the course, or until it "
                "ends"
            )
        fresh = [*layout.laid, *layout.updated, *layout.rerun, *layout.beside.values()]
        if found.instead:  # what was laid earlier may have been signed elsewhere
            fresh += [name for name, content in source.items() if as_laid(folder / name, content)]
        token = secrets.token_hex(24)
        settle_environment(found, token)
        return serve(folder, port, token, found, fresh, browser=not args.no_browser)


def find_places(folder: Path, spare: Path) -> Places:
    """Find out where JupyterLab can write.

    Args:
        folder: the learner's folder.
        spare: a temporary one.

    Raises:
        CourseError: there is no such place.
    """
    try:
        private_folder(folder, "workspaces")
        return places(folder, spare)
    except OSError as error:
        raise _cannot_start(error) from error


def settle_environment(found: Places, token: str) -> None:
    """Set the variables that JupyterLab, its kernels and its terminals will see.

    Args:
        found: where they can write.
        token: without it nobody comes in. It goes this way because other users of the machine cannot read it here.
    """
    forget_settings(os.environ)
    os.environ["JUPYTER_TOKEN"] = token
    os.environ["JUPYTER_CONFIG_DIR"] = str(found.config)
    os.environ["JUPYTER_RUNTIME_DIR"] = str(found.runtime)
    os.environ["IPYTHONDIR"] = str(found.ipython)
    # So that `labkit reset` works in the terminals of this JupyterLab, whatever environment it was started from.
    scripts = os.path.dirname(sys.executable)
    if scripts not in os.environ.get("PATH", "").split(os.pathsep):
        os.environ["PATH"] = os.pathsep.join([scripts, os.environ.get("PATH", "")]).rstrip(os.pathsep)


def serve(folder: Path, port: int, token: str, found: Places, fresh: Iterable[str], *, browser: bool) -> int:
    """Run JupyterLab until it is ended.

    Args:
        folder: the learner's folder, absolute.
        port: a free port of this machine.
        token: the one of the environment.
        found: where it can write.
        fresh: files as the course has them, which are to be signed.
        browser: whether to open the learner's browser.

    Raises:
        CourseError: it cannot start.
    """
    # In this very process: there is no second one that Ctrl-C could miss or that could outlive this one.
    try:
        server: Any = make_server(jupyter_arguments(folder, port, found, browser=browser))
    except OSError as error:
        raise _cannot_start(error) from error
    trust(server.contents_manager.notary, folder, fresh)
    # The loop's first callback makes it listen; the address is printed by the one after that, when it works.
    server.io_loop.add_callback(print, f"labkit: JupyterLab is open at http://{HOST}:{port}/?token={token}")
    server.io_loop.add_callback(print, "labkit: Ctrl-C here ends it", flush=True)
    server.start()
    return 0


def _cannot_start(error: OSError) -> CourseError:
    where = f" ({error.filename})" if error.filename else ""
    return CourseError(f"JupyterLab cannot start: {reason(error)}{where}; `labkit doctor` says what to do")


def jupyter_arguments(folder: Path, port: int, found: Places, *, browser: bool) -> list[str]:
    """Return the options with which JupyterLab opens the learner's folder.

    Args:
        folder: the learner's folder, absolute.
        port: a free port of this machine.
        found: where it can write.
        browser: whether to open the learner's browser.
    """
    start = f"/lab/tree/{START}" if (folder / START).is_file() else "/lab"
    options = [f"--ServerApp.ip={HOST}", f"--ServerApp.port={port}", "--ServerApp.port_retries=0"]
    options += [f"--ServerApp.root_dir={folder}", f"--LabApp.default_url={start}"]
    # Which documents are open is remembered with the course, not mixed with those of the learner's other folders.
    options += [f"--LabApp.workspaces_dir={folder / PRIVATE / 'workspaces'}"]
    options += [f"--LabApp.user_settings_dir={found.settings}", f"--NotebookNotary.data_dir={found.data}"]
    # Ctrl-C ends it without asking (nothing is lost: notebooks are saved as one works), and it speaks up only when
    # something is wrong.
    options += ["--ServerApp.answer_yes=True", "--ServerApp.log_level=ERROR", "--LabApp.log_level=ERROR"]
    # It asks nothing of the internet: no news, no search for updates, no list of extensions.
    options += ["--LabApp.news_url=None", "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate"]
    options += ["--LabApp.extension_manager=readonly", f"--LabApp.app_settings_dir={folder / PRIVATE / 'lab'}"]
    if _has_curve():  # talk between server and kernel is encrypted: other users of the machine share its loopback
        options.append("--MappingKernelManager.transport_encryption=auto")
    if not browser:
        options.append("--no-browser")
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        options.append("--allow-root")
    return options


def settle_page(folder: Path) -> None:
    """Write the page's settings: it does not ask whether it may fetch news, and saves what widgets show.

    Without the second, a notebook that the learner saved and opens again later says "model not found" where an explorer
    stood; with it, the explorer is there and says to run its cell again.

    Args:
        folder: the learner's folder.

    Raises:
        CourseError: they cannot be written.
    """
    settings: dict[str, dict[str, Any]] = {
        "page_config.json": {"disabledExtensions": ["@jupyterlab/apputils-extension:announcements"]},
        "overrides.json": {"@jupyter-widgets/jupyterlab-manager:plugin": {"saveState": True}},
    }
    try:
        with writing(folder):
            place = private_folder(folder, "lab")
            for name, content in settings.items():
                write_whole(place / name, json.dumps(content).encode())
    except OSError as error:
        raise CourseError(f"{folder / PRIVATE / 'lab'} cannot be written: {reason(error)}") from error


def trust(notary: Any, folder: Path, names: Iterable[str]) -> None:
    """Sign notebooks that were just laid, so that JupyterLab shows the pictures stored in them before they are run.

    Args:
        notary: the server's own keeper of signatures.
        folder: the learner's folder.
        names: the files' paths from there; what is no notebook is left out.
    """
    import sqlite3

    import nbformat

    read: Any = nbformat.read
    with suppress(
        OSError, ValueError, sqlite3.Error
    ):  # without it the pictures appear once the cells are run; no reason to stop
        for name in names:
            if name.endswith(".ipynb"):
                notary.sign(read(folder / name, as_version=4))


def as_laid(path: Path, content: bytes) -> bool:
    """Whether a file has this content to the byte."""
    with suppress(OSError):
        return path.read_bytes() == content
    return False


def _has_curve() -> bool:
    try:
        import zmq
    except ImportError:
        return False
    return bool(zmq.has("curve"))


def choose_port(asked: int | None) -> int:
    """Return the port to serve on: the one asked for, or the first free one from 8888.

    Raises:
        CourseError: it is no port, or something else listens there; the sentence names one that is free.
    """
    if asked is not None and not 1 <= asked <= 65535:
        raise CourseError(f"{asked} is no port; a port is a number from 1 to 65535")
    if asked is not None and _is_free(asked):
        return asked
    first = FIRST_PORT if asked is None else asked + 1
    free = next((port for port in range(first, min(first + PORTS_TRIED, 65536)) if _is_free(port)), None)
    if asked is None:
        if free is None:
            raise CourseError(f"no port from {first} to {first + PORTS_TRIED - 1} is free; choose one with --port")
        return free
    hint = f"--port {free} is free" if free is not None else "choose another with --port"
    raise CourseError(f"port {asked} cannot be used (something listens there, or this user may not); {hint}")


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        if (
            os.name != "nt"
        ):  # as the server does it, so that a port just left is free; on Windows it means another thing
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True
