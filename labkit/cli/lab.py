"""`labkit lab`: lays the course out in the learner's folder and opens it in JupyterLab, on this machine only."""

from __future__ import annotations

import argparse
import os
import secrets
import socket
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from labkit import __version__
from labkit.cli.course import DEFAULT_FOLDER, PRIVATE, START, course_files, lay_out, resolve_folder
from labkit.errors import CourseError

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
    """Lay the course out, then become JupyterLab; returns only where that is not possible."""
    if find_spec("jupyterlab") is None:
        raise CourseError(
            f"JupyterLab is not installed for {sys.executable}; pip install 'labkit-circuit-breakers[course]' brings it"
        )
    folder = resolve_folder(args.dir)
    port = choose_port(args.port)
    for sentence in lay_out(folder, course_files(), __version__).sentences():
        print(f"labkit: {sentence}")
    token = secrets.token_hex(24)
    command = jupyter_command(folder, port, browser=not args.no_browser)
    print(f"labkit: JupyterLab starts at http://{HOST}:{port}/lab?token={token}")
    print("labkit: Ctrl-C here ends it", flush=True)
    # The token goes by the environment, where other users of the machine cannot read it. This environment's kernel
    # comes before one of the same name in the learner's home.
    environment = {"JUPYTER_PREFER_ENV_PATH": "1", **os.environ, "JUPYTER_TOKEN": token}
    if os.name == "nt":
        return subprocess.call(command, env=environment)
    # JupyterLab takes this process over: Ctrl-C and signals reach it directly, and no server can outlive the command.
    os.execve(command[0], command, environment)


def jupyter_command(folder: Path, port: int, *, browser: bool) -> list[str]:
    """Return the words that start JupyterLab on the learner's folder.

    Args:
        folder: the learner's folder, absolute.
        port: a free port of this machine.
        browser: whether to open the learner's browser.
    """
    start = f"/lab/tree/{START}" if (folder / START).is_file() else "/lab"
    command = [sys.executable, "-m", "jupyterlab"]
    command += [f"--ServerApp.ip={HOST}", f"--ServerApp.port={port}", "--ServerApp.port_retries=0"]
    command += [f"--ServerApp.root_dir={folder}", f"--LabApp.default_url={start}"]
    # Which documents are open is remembered with the course, not mixed with those of the learner's other folders.
    command += [f"--LabApp.workspaces_dir={folder / PRIVATE / 'workspaces'}"]
    # Ctrl-C ends it without asking (nothing is lost: notebooks are saved as one works), and it speaks up only when
    # something is wrong.
    command += ["--ServerApp.answer_yes=True", "--ServerApp.log_level=WARNING", "--LabApp.log_level=WARNING"]
    # It asks nothing of the internet: no news, no search for updates, no list of extensions.
    command += ["--LabApp.news_url=None", "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate"]
    command += ["--LabApp.extension_manager=readonly"]
    if not browser:
        command.append("--no-browser")
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.append("--allow-root")
    return command


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
