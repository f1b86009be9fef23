"""A real JupyterLab, started as a learner starts it, and Chromium before it.

One server and one browser for all tests of a worker. Each test has a page, a kernel and JupyterLab's first settings of
its own. The first page of a test shares a context with those of other tests, so that JupyterLab's scripts, which take
longer to load than all else, come from its cache; nothing else stays in it. Whatever a page complains about or asks of
another machine fails the test that opened it.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tools.browser import ROOT, LabServer, NotebookPage, lab_server
from tools.browser import chromium as start_chromium

STEPPER = "notebooks/concepts/02-three-states.ipynb"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every test in this folder needs the browser, and may wait long on a busy machine."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker("browser")
            item.add_marker(pytest.mark.timeout(500))


@pytest.fixture(scope="session")
def lab(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabServer]:
    """JupyterLab on a fresh copy of the course."""
    folder = tmp_path_factory.mktemp("lab")
    with lab_server(folder / "course", folder / "private") as server:
        yield server


@pytest.fixture(scope="session")
def browser(chromium: str) -> Iterator[Any]:
    """One Chromium for all tests."""
    with start_chromium() as running:
        yield running


@pytest.fixture(scope="session")
def shared(browser: Any) -> Iterator[Any]:
    """A context whose cache lasts."""
    context = browser.new_context()
    yield context
    context.close()


class Opened(NotebookPage):
    """A notebook in a tab, and what the tab asked of machines that are not this one."""

    def __init__(self, browser: Any, lab: LabServer, **options: Any) -> None:
        super().__init__(browser, lab, **options)
        self.abroad: list[str] = []
        self._asked = lambda request: self._watch(request.url)
        self.context.on("request", self._asked)
        self.page.on("websocket", lambda socket: self._watch(socket.url))

    def _watch(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("data", "blob") and parts.hostname != "127.0.0.1":
            self.abroad.append(url)

    def close(self) -> None:
        """Close it and listen no more."""
        self.context.remove_listener("request", self._asked)
        super().close()

    def open(self, notebook: str, *, app: str = "lab") -> None:
        """Open a notebook, without the file browser beside it."""
        super().open(notebook, app=app)
        sidebar = self.page.locator("#jp-left-stack")
        if sidebar.is_visible():
            self.page.keyboard.press("Control+b")
            sidebar.wait_for(state="hidden")

    def outputs(self, selector: str = "") -> Any:
        """The outputs of the open notebook."""
        return self.page.locator(f".jp-NotebookPanel:not(.lm-mod-hidden) .jp-OutputArea-output {selector}".strip())

    def save(self) -> None:
        """Save the notebook and wait until it is written."""
        self.menu("File", "Save Notebook")
        self.until("!document.querySelector('.lm-TabBar-tab.jp-mod-dirty, .jp-mod-current .jp-DirtyIndicator')")


Open = Callable[..., Opened]


@pytest.fixture
def open_notebook(lab: LabServer, browser: Any, shared: Any) -> Iterator[Open]:
    """Opens a notebook: open_notebook(path, run=True, width=..., ...). At the end no page has complained."""
    opened: list[Opened] = []
    lab.begin_anew()

    def start(notebook: str = STEPPER, *, run: bool = True, app: str = "lab", **options: Any) -> Opened:
        if not opened and (ROOT / notebook).is_file():  # as it is stored, whatever an earlier test saved there
            shutil.copyfile(ROOT / notebook, lab.folder / notebook)
        # A second page is another person's: JupyterLab would tell two pages of one context from each other.
        common = not opened and not options.keys() - {"width", "height"}
        page = Opened(browser, lab, context=shared if common else None, **options)
        opened.append(page)
        page.open(notebook, app=app)
        if run:
            page.run_all()
        return page

    yield start
    complaints = [complaint for page in opened for complaint in page.complaints]
    abroad = [url for page in opened for url in page.abroad]
    for page in opened:
        page.close()  # a page that the test has closed is closed again
    lab.end_kernels()
    assert complaints == []
    assert abroad == []


@pytest.fixture
def open_cell(lab: LabServer, open_notebook: Open) -> Iterator[Callable[..., Opened]]:
    """Opens a notebook of one cell and runs it: open_cell("outage_explorer()"); the explorer is `section.labkit`."""
    laid: list[Path] = []

    def start(code: str, **options: Any) -> Opened:
        cell = {
            "cell_type": "code",
            "execution_count": None,
            "id": "only",
            "metadata": {},
            "outputs": [],
            "source": code,
        }
        kernel = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
        page = {"cells": [cell], "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
        target = lab.folder / f"cell-{len(laid)}.ipynb"
        target.write_text(json.dumps(page), "utf-8")
        laid.append(target)
        opened = open_notebook(target.name, **options)
        opened.page.wait_for_selector(".jp-OutputArea-output section.labkit")
        return opened

    yield start
    for target in laid:
        target.unlink(missing_ok=True)


class Stepper:
    """The state stepper on a page, worked as a learner works it."""

    def __init__(self, opened: Opened, number: int = 0) -> None:
        self.opened = opened
        self.page = opened.page
        self.root = self.page.locator(".jp-OutputArea-output section.labkit").nth(number)
        self.root.wait_for()
        self.root.scroll_into_view_if_needed()

    def button(self, name: str) -> Any:
        """A button by its words."""
        return self.root.get_by_role("button", name=name, exact=True)

    def text(self, part: str) -> str:
        """What stands in a part: sentence, notice, trouble, verdict, tally, now."""
        return str(self.root.locator(f".labkit-{part}").inner_text())

    @property
    def state(self) -> tuple[str, int]:
        """The state that the page shows, and the number of steps."""
        return str(self.root.get_attribute("data-state")), int(self.root.get_attribute("data-steps") or 0)

    @property
    def asks(self) -> bool:
        """Whether it waits for a prediction."""
        return bool(self.root.locator(".labkit-question").is_visible())

    def until(self, condition: Callable[[], bool], says: str) -> None:
        """Until something is so."""
        for _ in range(900):
            if condition():
                return
            self.page.wait_for_timeout(50)
        raise TimeoutError(f"after 45 s still not so: {says}; the page shows {self.root.inner_text()!r}")

    def press(self, name: str, steps: int | None = None) -> None:
        """Press a button; with `steps`, until the page shows so many."""
        self.button(name).click()
        if steps is not None:
            self.until(lambda: self.state[1] == steps, f"{steps} steps after {name!r}")

    def shown(self, state: str, steps: int) -> None:
        """Until the page shows this state after so many steps."""
        self.until(lambda: self.state == (state, steps), f"{state} after {steps} steps")

    def choose(self, answer: str) -> None:
        """Choose an answer of the question."""
        self.root.locator("form").get_by_role("radio", name=answer, exact=True).check()

    def predict(self, on: bool) -> None:
        """Switch predict-first."""
        box = self.root.get_by_label("Predict first")
        if box.is_checked() != on:
            box.click()
            self.until(lambda: box.is_checked() == on, f"predict first is {on}")


@pytest.fixture
def stepper() -> type[Stepper]:
    """How to work a state stepper: stepper(opened)."""
    return Stepper


@pytest.fixture(scope="session")
def axe() -> str:
    """The script of axe-core."""
    return (files("axe_playwright_python") / "axe.min.js").read_text("utf-8")


@pytest.fixture
def second_copy(lab: LabServer) -> Iterator[Callable[[str], str]]:
    """Lays a course's notebook under another name beside itself, as stored, and takes it away at the end."""
    laid: list[Path] = []

    def copy(notebook: str) -> str:
        target = lab.folder / Path(notebook).with_name(f"copy-{len(laid)}-{Path(notebook).name}")
        shutil.copyfile(ROOT / notebook, target)
        laid.append(target)
        return target.relative_to(lab.folder).as_posix()

    yield copy
    for target in laid:
        target.unlink(missing_ok=True)
