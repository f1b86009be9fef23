"""A real JupyterLab on this machine's loopback and a Chromium in front of it, for the browser tests and screenshots.

The server is the one that learners get (`labkit lab`), on a folder, a configuration and a runtime of its own.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
HOST = "127.0.0.1"
CHROMIUM_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
# What JupyterLab and Chromium say that is none of our doing.
HARMLESS = re.compile(
    r"favicon|ResizeObserver loop|Autofocus processing was blocked"
    r"|Failed to load resource: .* status of 404 .*(?:/api/contents/|/lsp/|checkpoints|workspaces)"
)


class Unusable(Exception):
    """What is missing, as one sentence."""


def find_chromium() -> str | None:
    """The system's Chromium: LABKIT_CHROMIUM, or one on PATH."""
    named = os.environ.get("LABKIT_CHROMIUM")
    if named:
        return shutil.which(named)
    for name in ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"):
        path = shutil.which(name)
        if path is not None:
            return path
    return None


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


class LabServer:
    """`labkit lab` in a process of its own; `address` and `token` once it listens."""

    def __init__(self, folder: Path, private: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.token = ""
        private.mkdir(parents=True, exist_ok=True)
        self._log = private / "server.log"
        names = {"JUPYTER_CONFIG_DIR": "config", "JUPYTER_DATA_DIR": "data", "JUPYTER_RUNTIME_DIR": "runtime"}
        names |= {"IPYTHONDIR": "ipython", "HOME": "home", "XDG_CACHE_HOME": "cache"}
        for name in names.values():
            (private / name).mkdir(exist_ok=True)
        environment = dict(os.environ, PYTHONPATH=str(ROOT), JUPYTER_PREFER_ENV_PATH="1", PYTHONUNBUFFERED="1")
        environment |= {key: str(private / name) for key, name in names.items()}
        command = [
            sys.executable,
            "-m",
            "labkit",
            "lab",
            "--no-browser",
            "--dir",
            str(folder),
            "--port",
            str(self.port),
        ]
        with open(self._log, "wb") as log:
            self._process = subprocess.Popen(
                command, env=environment, cwd=private, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )

    @property
    def log(self) -> str:
        return self._log.read_text("utf-8", "replace")

    def wait(self, limit: float = 120.0) -> None:
        """Until it answers, or raise with what it said."""
        end = time.monotonic() + limit
        while time.monotonic() < end:
            found = re.search(r"\?token=([0-9a-f]+)", self.log)
            if found:
                self.token = found[1]
                try:
                    urllib.request.urlopen(self.url("api/status"), timeout=5).close()
                    return
                except (OSError, urllib.error.URLError):
                    pass
            if self._process.poll() is not None:
                break
            time.sleep(0.1)
        self.stop()
        raise Unusable(f"JupyterLab did not start within {limit:g} s; it said: {self.log[-2000:]}")

    def url(self, path: str) -> str:
        return f"http://{HOST}:{self.port}/{path}?token={self.token}"

    def ask(self, path: str, method: str = "GET", say: Any = None) -> Any:
        """What the server's own interface answers."""
        request = urllib.request.Request(
            self.url(path),
            None if say is None else json.dumps(say).encode(),
            method=method,
            headers={"Authorization": f"token {self.token}"},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def end_kernels(self) -> None:
        """End what earlier pages left running, so that the next one starts from nothing."""
        for session in self.ask("api/sessions"):
            self.ask(f"api/sessions/{session['id']}", "DELETE")

    def begin_anew(self) -> None:
        """Take back what earlier pages set for every page to come: the theme."""
        self.ask("lab/api/settings/@jupyterlab/apputils-extension:themes", "PUT", {"raw": "{}"})

    def stop(self) -> None:
        """End the server and its kernels, as Ctrl-C does; harder if it does not listen."""
        for number, limit in ((signal.SIGINT, 15.0), (signal.SIGTERM, 5.0)):
            if self._process.poll() is not None:
                return
            self._process.send_signal(number)
            try:
                self._process.wait(limit)
                return
            except subprocess.TimeoutExpired:
                continue
        self._process.kill()
        self._process.wait()


@contextmanager
def lab_server(folder: Path, private: Path) -> Iterator[LabServer]:
    """A server on a folder, ended at the end."""
    server = LabServer(folder, private)
    try:
        server.wait()
        yield server
    finally:
        server.stop()


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser, closed at the end.

    Raises:
        Unusable: there is no Chromium, or no playwright.
    """
    path = find_chromium()
    if path is None:
        raise Unusable(
            "no Chromium was found (Debian, Ubuntu: apt-get install chromium; or name it in LABKIT_CHROMIUM)"
        )
    try:
        from playwright.sync_api import sync_playwright
    except ImportError as error:
        raise Unusable("playwright is not installed") from error
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=CHROMIUM_ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()


class NotebookPage:
    """One notebook in one browser tab.

    Args:
        context: the browser's context to open the tab in, which stays; by default one of its own, with these options.

    Attributes:
        page: playwright's page.
        complaints: what the page's console said at the level of an error, and exceptions of its scripts.
    """

    def __init__(
        self,
        browser: Any,
        server: LabServer,
        *,
        width: int = 1280,
        height: int = 900,
        context: Any = None,
        **options: Any,
    ) -> None:
        self.server = server
        size = {"width": width, "height": height}
        self._own = context is None
        self.context = browser.new_context(viewport=size, **options) if self._own else context
        self.page = self.context.new_page()
        if not self._own:
            self.page.set_viewport_size(size)
        self.page.set_default_timeout(45_000)  # a busy machine is slow, not broken
        self.complaints: list[str] = []
        self.page.on("console", self._hear)
        self.page.on("pageerror", lambda error: self.complaints.append(f"exception: {error}"))

    def _hear(self, message: Any) -> None:
        where = str(message.location.get("url", "")) if message.location else ""
        if message.type == "error" and not HARMLESS.search(f"{message.text} {where}"):
            self.complaints.append(f"{message.text} ({where})")

    def open(self, notebook: str, *, app: str = "lab") -> None:
        """Open a notebook of the server's folder, in JupyterLab ("lab") or in Notebook 7 ("notebook")."""
        path = f"lab/tree/{notebook}" if app == "lab" else f"notebooks/{notebook}"
        self.page.goto(self.server.url(path) + ("&reset" if app == "lab" else ""))
        self.page.wait_for_selector(".jp-Notebook .jp-Cell")
        self.until("!document.querySelector('#main-loading-message, #jupyterlab-splash')")

    def wait_for_kernel(self) -> None:
        """Until the notebook's kernel is there and idle."""
        self.until(
            """(() => {
                const lab = document.querySelector('#jp-main-statusbar')?.innerText ?? '';
                const notebook = document.querySelector('.jp-NotebookKernelStatus-fade');  // Notebook 7, at rest
                return /\\| Idle/.test(lab) || notebook !== null;
            })()""",
            limit=120.0,
            says="the kernel is idle",
        )

    def menu(self, *path: str) -> None:
        """Choose from the menus, for example menu("Run", "Run All Cells")."""
        self.page.get_by_role("menuitem", name=path[0], exact=True).click()
        for name in path[1:]:
            self.page.locator(".lm-Menu-item", has_text=re.compile(rf"^{re.escape(name)}")).first.click()

    def run_all(self) -> None:
        """Run every cell and wait until all have run."""
        self.wait_for_kernel()
        self.menu("Run", "Run All Cells")
        self.wait_until_run()

    def until(self, condition: str, *, limit: float = 45.0, says: str = "") -> None:
        """Until a JavaScript expression is true.

        Asked from here, since a page that has nothing to draw does not run the frames that playwright's own
        `wait_for_function` counts on.
        """
        end = time.monotonic() + limit
        while not self.page.evaluate(condition):
            if time.monotonic() > end:
                raise TimeoutError(f"after {limit:g} s still not so: {says or condition}")
            self.page.wait_for_timeout(50)

    def wait_until_run(self, limit: float = 150.0) -> None:
        """Until every code cell that has a source has a number, and none is running."""
        self.until(
            """(() => {
                const prompts = [...document.querySelectorAll('.jp-CodeCell')]
                    .filter(cell => cell.querySelector('.cm-content')?.textContent.trim())
                    .map(cell => cell.querySelector('.jp-InputPrompt').textContent);
                return prompts.length > 0 && prompts.every(text => /\\[\\d+\\]/.test(text));
            })()""",
            limit=limit,
            says="every cell has run",
        )
        self.wait_for_kernel()

    def theme(self, name: str) -> None:
        """Choose "JupyterLab Light" or "JupyterLab Dark", as from the menu."""
        self.page.get_by_role("menuitem", name="Settings", exact=True).click()
        self.page.locator(".lm-Menu-item", has_text=re.compile("^Theme$")).hover()
        self.page.locator(".lm-Menu-item", has_text=re.compile(f"^{name}$")).click()
        light = "false" if "Dark" in name else "true"
        self.page.wait_for_selector(f"body[data-jp-theme-light='{light}']", state="attached")

    def close(self) -> None:
        """Close it; a context that stays keeps nothing of it but the server's scripts."""
        if self._own:
            self.context.close()
            return
        if not self.page.is_closed():
            self.page.evaluate("localStorage.clear(), sessionStorage.clear()")
            self.page.close()
        self.context.clear_cookies()
