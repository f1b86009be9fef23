"""Every notebook in a real JupyterLab: as stored, run, run again, and without a kernel."""

from __future__ import annotations

from typing import Any

import pytest

from tools.notebook_file import ROOT
from tools.notebooks import NOTEBOOKS, find

COURSE = [path.relative_to(ROOT).as_posix() for path in find([NOTEBOOKS])]
STEPPER = "notebooks/concepts/02-three-states.ipynb"

PICTURES_SHOW = """(() => {
    const pictures = [...document.querySelectorAll('.jp-OutputArea-output img')];
    return pictures.length > 0 && pictures.every(picture => picture.complete && picture.naturalWidth > 0);
})()"""
# Once it has run, explorers stand where their pictures stood.
ALL_SHOWS = PICTURES_SHOW.replace(
    "pictures.length > 0", "document.querySelector('section.labkit, .jp-OutputArea-output img')"
)


def shows_no_error(opened: Any) -> None:
    """No cell of the notebook holds an error or a word on stderr."""
    trouble = opened.page.locator(
        ".jp-OutputArea-output[data-mime-type='application/vnd.jupyter.error'], "
        ".jp-OutputArea-output[data-mime-type='application/vnd.jupyter.stderr']"
    )
    assert [each.inner_text() for each in trouble.all()] == []


@pytest.mark.parametrize("notebook", COURSE)
def test_runs(open_notebook: Any, notebook: str) -> None:
    """A notebook shows its stored pictures when it is opened, and runs from top to bottom without an error."""
    opened = open_notebook(notebook, run=False)
    opened.until(PICTURES_SHOW, says="the stored pictures are there")
    opened.run_all()
    shows_no_error(opened)
    opened.until(f"Boolean({ALL_SHOWS})", says="the new pictures are there")


def test_links_open_the_next_notebook(open_notebook: Any) -> None:
    """The link at the end of a notebook opens the one that it names."""
    opened = open_notebook("notebooks/00-start-here.ipynb", run=False)
    opened.page.get_by_role("link", name="The three states").first.click()
    opened.page.wait_for_selector(".lm-TabBar-tab.lm-mod-current :text('02-three-states.ipynb')")


def test_runs_again_after_a_restart(open_notebook: Any, stepper: Any) -> None:
    """After a restart of the kernel everything runs again, and the stepper works from its beginning."""
    opened = open_notebook(STEPPER)
    first = stepper(opened)
    first.predict(False)
    first.press("A call arrives", 1)
    opened.menu("Kernel", "Restart Kernel and Run All Cells")
    opened.page.get_by_role("button", name="Confirm Kernel Restart").click()
    opened.until("!document.querySelector('section.labkit[data-steps=\"1\"]')", says="the old stepper is gone")
    opened.page.wait_for_selector("section.labkit[data-steps='0']")
    opened.wait_until_run()
    shows_no_error(opened)
    again = stepper(opened)
    again.predict(False)
    again.press("A call arrives", 1)


def test_without_a_kernel(open_notebook: Any, second_copy: Any) -> None:
    """A notebook opened without a kernel shows a picture where the stepper would be."""
    opened = open_notebook(second_copy(STEPPER), run=False)
    opened.wait_for_kernel()
    page = opened.page
    page.locator(".jp-Toolbar-kernelName").click()
    page.locator(".jp-Dialog select").select_option(label="No Kernel")
    page.locator(".jp-Dialog").get_by_role("button", name="Select").click()
    opened.until("!document.querySelector('.jp-Dialog')")
    page.route("**/api/sessions*", lambda route: route.abort() if route.request.method == "POST" else route.continue_())
    page.reload()
    page.wait_for_selector(".jp-Notebook .jp-Cell")
    widget = page.locator(".jp-CodeCell", has_text="state_stepper(")
    widget.scroll_into_view_if_needed()
    widget.locator(".jp-OutputArea-output img").wait_for()  # JupyterLab draws the cells one after another
    opened.until(PICTURES_SHOW, says="the stored pictures are there")
    assert widget.locator(".jp-OutputArea-output img").count() == 1
    assert widget.locator("text=/Loading widget|Error displaying widget/").count() == 0
    opened.complaints.clear()  # of the session that this test kept from starting


def test_the_next_morning(open_notebook: Any, stepper: Any, second_copy: Any, lab: Any) -> None:
    """A notebook that was run and saved, opened again in a new kernel, shows the stepper as it was left.

    A press then says what to do, and running the cell brings it back to life.
    """
    notebook = second_copy(STEPPER)
    opened = open_notebook(notebook)
    left = stepper(opened)
    left.predict(False)
    left.press("A call arrives", 1)
    opened.save()
    opened.close()
    lab.end_kernels()
    again = open_notebook(notebook, run=False)
    again.wait_for_kernel()
    shown = stepper(again)
    assert shown.state == ("CLOSED", 1)
    shown.button("Failure").click()
    shown.until(lambda: "run this cell again" in shown.text("offline"), "it says what to do")
    again.page.locator(".jp-CodeCell", has_text="state_stepper(").locator(".cm-line").first.click()
    again.page.keyboard.press("Control+Enter")
    again.page.wait_for_selector("section.labkit[data-steps='0']")
    fresh = stepper(again)
    fresh.predict(False)
    fresh.press("A call arrives", 1)
