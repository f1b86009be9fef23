"""JupyterLab as the course needs it, whatever the learner's own Jupyter is set to and wherever that may write.

Somebody's configuration can give their server another address, a password, a socket, no token at all. So `labkit lab`
reads no configuration file, of the user's or the system's, and no variable that sets the server; from the environment's
own folder it takes which extensions are switched on, and nothing else. What the learner chose in JupyterLab's settings
(a theme, keys, a font) stays, and so do parts of the page that an administrator switched off.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Callable, MutableMapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labkit.cli.course import private_folder

__all__ = ["Places", "forget_settings", "make_server", "places", "signs", "writable"]

# Variables that say where things lie, not how the server is. All others of Jupyter's are dropped.
KEPT = {
    "JUPYTER_ALLOW_INSECURE_WRITES",
    "JUPYTER_DATA_DIR",
    "JUPYTER_PATH",
    "JUPYTER_PLATFORM_DIRS",
    "JUPYTER_PREFER_ENV_PATH",
    "JUPYTER_RUNTIME_DIR",
    "JUPYTER_USE_PROGRAMDATA",
}


def forget_settings(environment: MutableMapping[str, str]) -> None:
    """Take every variable out of an environment that sets Jupyter's server: its token, address, gateway, hub.

    Args:
        environment: the one that JupyterLab and its kernels will see; changed in place.
    """
    for name in list(environment):
        if name.upper().startswith("JUPYTER") and name.upper() not in KEPT:
            del environment[name]
    # This environment's kernel comes before one of the same name in the learner's home.
    environment.setdefault("JUPYTER_PREFER_ENV_PATH", "1")


def make_server(options: list[str]) -> Any:
    """Return JupyterLab's server, which has read no configuration file; its extensions look where the server does.

    Args:
        options: all that it is told.

    Raises:
        OSError: it can write nowhere.
    """
    from jupyter_core.paths import ENV_CONFIG_PATH
    from jupyter_server.extension.config import ExtensionConfigManager
    from jupyter_server.serverapp import ServerApp
    from jupyterlab.labapp import LabApp

    class Server(ServerApp):
        config_file_paths: list[str] = []  # noqa: RUF012 - a property there

        def migrate_config(self) -> None:
            """Would copy IPython's configuration of years ago."""

    manager: Any = ExtensionConfigManager(read_config_path=ENV_CONFIG_PATH)
    make: Any = Server.instance
    server = make(jpserver_extensions={**manager.get_jpserver_extensions(), "jupyterlab": True})
    server.aliases.update(LabApp.aliases)
    server.initialize(options, starter_extension="lab", find_extensions=False)
    return server


# ------------------------------------------------------------------------------------------------- where it may write


@dataclass(frozen=True, slots=True)
class Places:
    """Where JupyterLab and its kernels keep what they write.

    Attributes:
        config: a folder of labkit's own, in place of the user's configuration.
        data: of the signatures that make notebooks trusted.
        settings: of the learner's choices in JupyterLab.
        runtime: of the files by which kernels are reached.
        ipython: of the kernels' history.
        instead: the learner's own folders of these that cannot be written.
    """

    config: Path
    data: Path
    settings: Path
    runtime: Path
    ipython: Path
    instead: tuple[Path, ...]


def places(folder: Path, spare: Path) -> Places:
    """Find out where can be written: where Jupyter always does, or else in the course's folder or a spare one.

    Args:
        folder: the learner's folder.
        spare: an empty folder that nobody else may read, removed at the end.

    Raises:
        CourseError: labkit's own folder there is a link.
        OSError: not even there.
    """
    from jupyter_core.paths import jupyter_config_dir, jupyter_data_dir, jupyter_runtime_dir

    own = private_folder(folder, "jupyter")
    instead: list[Path] = []

    def first(fits: Callable[[Path], bool], *candidates: Path) -> Path:
        for candidate in candidates[:-1]:
            if fits(candidate):
                return candidate
            if candidate == candidates[0]:
                instead.append(candidate)
        candidates[-1].mkdir(parents=True, exist_ok=True)
        return candidates[-1]

    settings = os.environ.get("JUPYTERLAB_SETTINGS_DIR") or os.path.join(jupyter_config_dir(), "lab", "user-settings")
    ipython = os.environ.get("IPYTHONDIR") or os.path.join("~", ".ipython")
    return Places(
        config=own,
        data=first(signs, Path(jupyter_data_dir()), own, spare / "data"),
        settings=first(writable, Path(settings).expanduser(), own / "settings", spare / "settings"),
        runtime=first(writable, Path(jupyter_runtime_dir()), spare / "runtime"),
        ipython=first(remembers, Path(ipython).expanduser(), spare / "ipython"),
        instead=tuple(instead),
    )


def writable(folder: Path) -> bool:
    """Whether files can be made in a folder, which is made where it is missing. Only trying tells."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def signs(data: Path) -> bool:
    """Whether notebooks can be signed with the secret and the database in a folder. Only trying tells."""
    import logging

    from nbformat import v4
    from nbformat.sign import NotebookNotary

    if not writable(data):
        return False
    quiet = logging.Logger("labkit", logging.CRITICAL)
    make: Any = NotebookNotary
    new_notebook: Any = v4.new_notebook
    try:
        notary = make(data_dir=str(data), log=quiet)
        with closing(notary.store):
            notary.sign(new_notebook())
        return True
    except (OSError, sqlite3.Error):
        return False


def remembers(ipython: Path) -> bool:
    """Whether a kernel can keep its history in a folder."""
    history = ipython / "profile_default" / "history.sqlite"
    return writable(history.parent) and (not history.exists() or (history.is_file() and os.access(history, os.W_OK)))
