"""The stepper and the notebook around it: its cell run anew, the notebook's keys, and two tabs on one kernel."""

from __future__ import annotations

from typing import Any

COUNT = "from ipywidgets.widgets.widget import _instances\nprint('alive:', len(_instances))"


def run_code(opened: Any, code: str) -> str:
    """Run code in a new cell at the notebook's end; what it printed."""
    page = opened.page
    page.locator(".jp-Cell .jp-InputPrompt, .jp-MarkdownCell").last.click()
    page.keyboard.press("Escape")
    page.keyboard.press("b")
    page.keyboard.press("Enter")
    page.keyboard.insert_text(code)
    page.keyboard.press("Control+Enter")
    output = page.locator(".jp-CodeCell").last.locator(".jp-OutputArea-output")
    output.wait_for()
    return str(output.inner_text()).strip()


def test_running_its_cell_anew_begins_anew(open_notebook: Any, stepper: Any) -> None:
    """Control and Enter inside the stepper run its cell: a fresh stepper works, and the old one is not kept."""
    opened = open_notebook()
    shown = stepper(opened)
    shown.predict(False)
    before = run_code(opened, COUNT)
    shown = stepper(opened)
    for turn in range(3):
        shown.press("A call arrives", 1)
        shown.page.keyboard.press("Control+Enter")
        opened.page.wait_for_selector("section.labkit[data-steps='0']")
        opened.wait_until_run()
        assert opened.page.locator("section.labkit").count() == 1, f"turn {turn}"
        shown = stepper(opened)
        shown.predict(False)
    assert before.startswith("alive:")
    assert run_code(opened, COUNT) == before


def test_plain_keys_do_not_reach_the_notebook(open_notebook: Any, stepper: Any) -> None:
    """Letters pressed on a button of the stepper delete, insert, cut and change no cell."""
    opened = open_notebook()
    shown = stepper(opened)
    cells = opened.page.locator(".jp-Notebook .jp-Cell").count()
    shown.button("Reset").focus()
    for key in ("d", "d", "a", "b", "x", "m", "0", "0", "ArrowUp", "ArrowDown", "Delete"):
        opened.page.keyboard.press(key)
    assert opened.page.locator(".jp-Notebook .jp-Cell").count() == cells
    assert opened.page.evaluate("document.activeElement.textContent") == "Reset"
    assert opened.page.locator(".jp-Dialog").count() == 0


def test_two_tabs_show_one_stepper(open_notebook: Any, stepper: Any) -> None:
    """A second tab on the same kernel shows the same stepper; a press in either is seen in both, and neither mixes."""
    first = open_notebook()
    one = stepper(first)
    one.predict(False)
    one.press("A call arrives", 1)
    first.save()
    second = open_notebook(run=False)
    other = stepper(second)
    other.shown("CLOSED", 1)
    # What is half typed in one tab is that tab's own.
    other.root.locator("input[type=text]").fill("12")
    one.press("Failure", 2)
    other.shown("CLOSED", 2)
    assert other.root.locator("input[type=text]").input_value() == "12"
    other.press("Let time pass", 3)
    one.shown("CLOSED", 3)
    assert one.text("now") == "12 s"
