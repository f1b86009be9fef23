"""What holds for every explorer, shown with one: Notebook 7, two tabs on a kernel, no kernel, a narrow zoomed panel."""

from __future__ import annotations

from typing import Any

import pytest

CODE = "from labkit import outage_explorer\noutage_explorer()"
EXPLORER = "document.querySelector('section.labkit')"


def threshold(opened: Any) -> Any:
    """The slider of `failure_threshold`."""
    return opened.page.locator("section.labkit").get_by_role("slider", name="failure_threshold")


def moved(opened: Any, key: str, value: str) -> None:
    """Press a key on the slider and wait for the picture of that position."""
    threshold(opened).press(key)
    shows(opened, value)


def shows(opened: Any, value: str) -> None:
    """Until the page shows a run with this `failure_threshold`."""
    opened.until(
        f"{EXPLORER}.querySelector('pre').textContent.includes('failure_threshold: {value}\\n')",
        says=f"it shows the run of {value}",
    )


def test_in_notebook_7(open_cell: Any) -> None:
    """In Notebook 7 it is there, follows a key and a press, and hears from its kernel."""
    pytest.importorskip("notebook", reason="Notebook 7 is not installed (pip install notebook)")
    opened = open_cell(CODE, app="notebook")
    moved(opened, "ArrowRight", "6")
    opened.page.locator("section.labkit").get_by_role("button", name="Reset").click()
    shows(opened, "5")
    assert opened.page.locator(".labkit-offline").inner_text() == ""
    # Notebook 7 itself complains of its settings, and of a command that only JupyterLab has.
    its_own = ("reading 'schema'", "'filebrowser:open-path' not registered")
    opened.complaints[:] = [each for each in opened.complaints if not any(words in each for words in its_own)]


def test_says_that_a_long_run_runs(open_cell: Any, lab: Any) -> None:
    """A run of more than 300 ms is said to run until it is there; meanwhile the hand moves on and the last one wins."""
    code = (
        "import time\nfrom pathlib import Path\nfrom labkit.widgets.explorer import model\n"
        "run, runs = model.run_scenario, []\n"
        "def slowly(scenario):\n    runs.append(1)\n"
        "    while len(runs) == 2 and not Path('go-on').exists():\n        time.sleep(0.02)\n"
        "    return run(scenario)\nmodel.run_scenario = slowly\n"
    )
    go_on = lab.folder / "go-on"  # the first move's run lasts until the hand has made its last
    opened = open_cell(f"{code}{CODE}")
    for _ in range(6):
        threshold(opened).press("ArrowRight")
    opened.until("document.querySelector('.labkit-running').textContent === 'Running …'", says="it says that it runs")
    assert threshold(opened).input_value() == "11"
    go_on.touch()
    shows(opened, "11")
    go_on.unlink()
    opened.until("document.querySelector('.labkit-running').textContent === ''", says="it runs no more")
    runs = int(opened.page.evaluate(f"{EXPLORER}.dataset.runs"))
    assert runs == 3, "of six positions the first and the last were run"
    assert threshold(opened).input_value() == "11"


def test_two_tabs_on_one_kernel(open_cell: Any, open_notebook: Any) -> None:
    """A wide and a narrow tab show the same runs, each with the picture that fits it; a half typed number stays."""
    wide = open_cell(CODE)
    moved(wide, "ArrowRight", "6")
    wide.save()
    narrow = open_notebook("cell-0.ipynb", run=False, width=560, height=900)
    narrow.page.wait_for_selector("section.labkit")
    shows(narrow, "6")
    width = "document.querySelector('.labkit-picture svg').viewBox.baseVal.width"
    narrow.until(f"{width} < 640", says="the narrow tab has its own picture")
    assert wide.page.evaluate(width) == 860

    field = narrow.page.locator("section.labkit").get_by_role("textbox", name="cooldown_period, s")
    field.fill("1")
    moved(wide, "ArrowRight", "7")
    shows(narrow, "7")
    assert field.input_value() == "1"
    assert threshold(narrow).input_value() == "7"
    field.fill("12")
    field.press("Enter")
    for tab in (wide, narrow):
        tab.until(f"{EXPLORER}.querySelector('pre').textContent.includes('cooldown_period: 12')", says="both have 12 s")
    moved(narrow, "End", "30")
    shows(wide, "30")
    assert wide.page.evaluate(width) == 860
    assert narrow.page.evaluate(width) < 640


def test_the_next_morning(open_cell: Any, open_notebook: Any, lab: Any) -> None:
    """Saved and opened again in a new kernel, it is as it was left; a move says what to do, and the cell revives it."""
    opened = open_cell(CODE)
    moved(opened, "ArrowRight", "6")
    sentence = opened.page.locator(".labkit-first").inner_text()
    opened.save()
    opened.close()
    lab.end_kernels()
    again = open_notebook("cell-0.ipynb", run=False)
    again.wait_for_kernel()
    again.page.wait_for_selector("section.labkit")
    shows(again, "6")
    assert again.page.locator(".labkit-first").inner_text() == sentence
    assert again.page.locator(".labkit-picture svg").is_visible()
    threshold(again).press("ArrowRight")
    again.until(
        "document.querySelector('.labkit-offline').textContent.includes('run this cell again')", says="it says so"
    )
    again.page.locator(".jp-CodeCell .cm-line").first.click()
    again.page.keyboard.press("Control+Enter")
    again.until(f"{EXPLORER}?.querySelector('pre').textContent.includes('failure_threshold: 5\\n')", says="it is new")
    moved(again, "ArrowRight", "6")


CUT_OFF = """root => {
    const room = root.closest('.jp-OutputArea-output').getBoundingClientRect();
    const bad = [];
    for (const each of root.querySelectorAll('button, input, summary, label, dd, svg')) {
        const box = each.getBoundingClientRect();
        if (box.width === 0) continue;  // hidden on purpose
        if (box.left < room.left - 1 || box.right > room.right + 1) bad.push(each.outerHTML.slice(0, 90));
    }
    if (root.scrollWidth > root.clientWidth + 1) bad.push('wider than its frame');
    return bad;
}"""
SMALLEST = """root => Math.min(...
    [...root.querySelectorAll('button, input[type=text], input[type=range], label:has(input)')]
    .filter(each => each.offsetParent).map(each => Math.min(each.offsetWidth, each.offsetHeight)))"""
MOVING = """root => [root, ...root.querySelectorAll('*')].filter(each => {
    const style = getComputedStyle(each);
    return parseFloat(style.transitionDuration) > 0 || style.animationName !== 'none';
}).map(each => each.className)"""


def test_narrow_zoomed_and_still(open_cell: Any) -> None:
    """At 200 % zoom in half a screen nothing is cut off or too small to hit, and under "reduce motion" nothing moves.

    Two explorers side by side share no id, and the focus stays on the slider while pictures change.
    """
    opened = open_cell(
        f"from IPython.display import display\ndisplay(outage_explorer())\n{CODE}".replace(
            "from IPython", "from labkit import outage_explorer\nfrom IPython", 1
        ),
        width=640,
        height=700,
        device_scale_factor=2,
        reduced_motion="reduce",
    )
    page = opened.page
    opened.until("document.querySelectorAll('section.labkit .labkit-picture svg').length === 2", says="there are two")
    first = page.locator("section.labkit").first
    assert first.evaluate(CUT_OFF) == []
    assert first.evaluate(SMALLEST) >= 24  # a target that a finger finds (WCAG 2.2, 2.5.8)
    assert first.evaluate(MOVING) == []
    ids = page.evaluate("[...document.querySelectorAll('section.labkit [id]')].map(each => each.id)")
    assert len(ids) == len(set(ids))

    slider = first.get_by_role("slider", name="failure_threshold")
    slider.focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    opened.until(f"{EXPLORER}.querySelector('pre').textContent.includes('failure_threshold: 8\\n')", says="it is at 8")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "failure_threshold"
    second = page.locator("section.labkit").nth(1)
    assert second.get_by_role("slider", name="failure_threshold").input_value() == "5"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.value") == "8"
