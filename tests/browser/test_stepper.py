"""The state stepper in a real JupyterLab: by mouse, by keyboard, in any theme and width, alone and beside another."""

from __future__ import annotations

import re
from typing import Any

import pytest


def test_by_mouse(open_notebook: Any, stepper: Any) -> None:
    """Two failures open it, a call is rejected, after the cooldown a probe goes in, undo takes the last step back."""
    shown = stepper(open_notebook())
    shown.predict(False)
    assert shown.state == ("CLOSED", 0)
    for steps in (0, 2):
        shown.press("A call arrives", steps + 1)
        shown.press("Failure", steps + 2)
    shown.shown("OPEN", 4)
    shown.press("A call arrives", 5)
    assert "rejected" in shown.text("sentence")
    shown.press("To the cooldown’s end", 6)
    assert shown.state == ("OPEN", 6)
    assert shown.root.get_by_label("time: 30 seconds").is_visible()
    shown.press("A call arrives", 7)
    shown.shown("HALF_OPEN", 7)
    assert "the probe" in shown.text("flights")
    shown.press("Cancel", 8)
    shown.shown("HALF_OPEN", 8)
    assert "cancel" in shown.text("sentence")
    shown.press("Undo", 7)
    shown.shown("HALF_OPEN", 7)
    shown.press("Success", 8)
    shown.root.locator("summary").click()
    assert [row.inner_text().split("\t")[-1] for row in shown.root.locator("tbody tr").all()] == [
        *(["closed"] * 3 + ["open"] * 3 + ["half-open"] * 2)
    ]
    shown.press("Reset", 0)
    shown.shown("CLOSED", 0)


def test_predict_first_by_mouse(open_notebook: Any, stepper: Any) -> None:
    """It asks before it shows, takes no answer for half of a question, and says and counts what came true."""
    shown = stepper(open_notebook())
    shown.predict(True)
    shown.press("A call arrives")
    shown.until(lambda: shown.asks, "it asks")
    assert shown.state == ("CLOSED", 0)
    assert "A call arrives." in shown.text("question")

    shown.press("See if it is so")
    shown.until(lambda: "Choose" in shown.text("notice"), "it names what is missing")
    assert shown.asks
    shown.choose("admitted")
    shown.choose("half-open")
    shown.press("See if it is so", 1)
    assert "Not as you said: the breaker is closed." in shown.text("verdict")
    assert shown.text("tally") == "0 of 1 as predicted"

    shown.press("Failure")
    shown.until(lambda: shown.asks, "it asks")
    assert not shown.root.get_by_text("Does the call get through?").is_visible()
    assert shown.root.locator("form input:checked").count() == 0
    shown.choose("closed")
    shown.press("See if it is so", 2)
    assert "As you said." in shown.text("verdict")
    assert shown.text("tally") == "1 of 2 as predicted"

    shown.press("A call arrives")
    shown.until(lambda: shown.asks, "it asks")
    shown.press("Take it back")
    shown.until(lambda: not shown.asks, "it does not ask any more")
    assert shown.state == ("CLOSED", 2)
    shown.press("A call arrives")
    shown.until(lambda: shown.asks, "it asks")
    shown.press("Show it without", 3)
    assert shown.text("tally") == "1 of 2 as predicted"


def focused(shown: Any) -> str:
    """What has the focus, in words."""
    return str(
        shown.page.evaluate(
            """() => {
                const at = document.activeElement;
                return (at.getAttribute('aria-label') || at.labels?.[0]?.textContent || at.textContent || '').trim();
            }"""
        )
    )


def tab_to(shown: Any, words: str) -> None:
    """Press Tab until what is named has the focus; it must come within one round through the widget."""
    for _ in range(30):
        if focused(shown) == words:
            return
        shown.page.keyboard.press("Tab")
    raise AssertionError(f"Tab does not lead to {words!r}; the focus is on {focused(shown)!r}")


def test_by_keyboard_alone(open_notebook: Any, stepper: Any) -> None:
    """From the cell to an open breaker with Tab, arrows, Space and Enter; the notebook takes none of the keys."""
    shown = stepper(open_notebook())
    page = shown.page
    cells = page.locator(".jp-Notebook .jp-Cell").count()
    shown.root.get_by_label("Predict first").focus()

    tab_to(shown, "A call arrives")
    page.keyboard.press("Enter")
    shown.until(lambda: shown.asks, "it asks")
    shown.until(lambda: focused(shown) == "admitted", "the focus is in the question")
    page.keyboard.press("Space")
    page.keyboard.press("Tab")
    assert focused(shown) == "closed"
    page.keyboard.press("ArrowRight")
    assert focused(shown) == "open"
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    shown.shown("CLOSED", 1)
    assert "As you said." in shown.text("verdict")
    shown.until(lambda: focused(shown) == "A call arrives", "the focus is back where it was")

    page.keyboard.press("Shift+Tab")
    tab_to(shown, "Predict first")
    page.keyboard.press("Space")
    shown.until(lambda: not shown.root.get_by_label("Predict first").is_checked(), "it does not ask any more")
    tab_to(shown, "A call arrives")
    page.keyboard.press("Space")
    shown.shown("CLOSED", 2)
    tab_to(shown, "Failure")
    page.keyboard.press("Enter")
    shown.shown("CLOSED", 3)
    assert focused(shown) == "Failure"
    page.keyboard.press("Enter")
    shown.shown("OPEN", 4)

    # Letters and digits, which are JupyterLab's shortcuts outside a field, belong to the field.
    for _ in range(12):
        if focused(shown) == "Seconds":
            break
        page.keyboard.press("Shift+Tab")
    page.keyboard.press("Control+a")
    page.keyboard.type("29.5")
    page.keyboard.press("Enter")
    shown.shown("OPEN", 5)
    assert shown.text("now") == "29.5 s"
    page.keyboard.press("Control+a")
    page.keyboard.type("add")
    page.keyboard.press("Enter")
    shown.until(lambda: "add" in shown.text("trouble"), "it says what is wrong with that number")
    assert shown.state == ("OPEN", 5)
    assert focused(shown) == "Seconds"
    assert page.locator(".jp-Notebook .jp-Cell").count() == cells


def test_a_button_that_cannot_be_pressed_says_why(open_notebook: Any, stepper: Any) -> None:
    """It keeps its place and focus, and pressing it gives the reason instead of a step."""
    shown = stepper(open_notebook())
    shown.predict(False)
    assert shown.button("Success").get_attribute("aria-disabled") == "true"
    shown.button("Success").click(force=True)
    shown.until(lambda: "No call is in flight" in shown.text("notice"), "it says why")
    assert shown.state == ("CLOSED", 0)


def test_two_do_not_mix(open_notebook: Any, stepper: Any) -> None:
    """Two steppers in one notebook go their own ways and share no id; running a cell anew restarts only its own."""
    opened = open_notebook()
    page = opened.page
    cell = page.locator(".jp-CodeCell", has_text="state_stepper(")
    cell.locator(".jp-InputPrompt").click()
    page.keyboard.press("c")
    page.keyboard.press("v")
    cell.nth(1).wait_for()
    page.keyboard.press("Control+Enter")
    opened.until("document.querySelectorAll('section.labkit').length === 2", says="there are two steppers")
    first, second = stepper(opened, 0), stepper(opened, 1)
    for each in (first, second):
        each.predict(False)
    names = "[...document.querySelectorAll('section.labkit [id]')].map(each => each.id)"
    ids = page.evaluate(names)
    assert len(ids) == len(set(ids))

    first.press("A call arrives", 1)
    first.press("A call arrives", 2)
    second.press("A call arrives", 1)
    second.press("Failure", 2)
    first.root.get_by_role("radio").nth(-1).click()
    first.press("Failure", 3)
    assert first.state == ("CLOSED", 3)
    assert second.state == ("CLOSED", 2)
    second.press("A call arrives", 3)
    second.press("Failure", 4)
    second.shown("OPEN", 4)
    assert first.state == ("CLOSED", 3)

    # Into the code, since an active cell's prompt leaves the focus in the stepper, which keeps its keys to itself.
    cell.nth(1).locator(".cm-line").first.click()
    page.keyboard.press("Control+Enter")
    opened.until("document.querySelectorAll('section.labkit')[1]?.dataset.steps === '0'", says="the second is new")
    assert first.state == ("CLOSED", 3)
    first.press("A call arrives", 4)
    stepper(opened, 1).predict(False)
    stepper(opened, 1).press("A call arrives", 1)


def test_says_when_nobody_listens(open_notebook: Any, stepper: Any) -> None:
    """A press that the kernel cannot answer, since it was restarted, is not swallowed: the page says what to do."""
    opened = open_notebook()
    shown = stepper(opened)
    shown.predict(False)
    opened.menu("Kernel", "Restart Kernel…")
    opened.page.get_by_role("button", name="Confirm Kernel Restart").click()
    opened.until("!document.querySelector('.jp-Dialog')")
    opened.wait_for_kernel()
    shown.button("A call arrives").click()
    shown.until(lambda: "No answer from the kernel" in shown.text("offline"), "it says that nobody answers")
    assert shown.state == ("CLOSED", 0)


VIOLATIONS = """async root => (await axe.run(root)).violations.map(
    each => each.id + ': ' + each.nodes.map(node => node.target.join(' ') + ' ' + node.failureSummary).join('; '))"""


@pytest.mark.parametrize("theme", ["JupyterLab Light", "JupyterLab Dark"])
def test_axe_finds_nothing(open_notebook: Any, stepper: Any, axe: str, theme: str) -> None:
    """In both themes axe finds no violation inside the stepper: at rest, asked, with calls in flight, in trouble."""
    opened = open_notebook()
    opened.theme(theme)
    shown = stepper(opened)
    opened.page.evaluate(axe)

    def violations() -> list[str]:
        found: list[str] = opened.page.evaluate(VIOLATIONS, shown.root.element_handle())
        return found

    assert violations() == []
    shown.press("A call arrives")
    shown.until(lambda: shown.asks, "it asks")
    assert violations() == []
    shown.choose("admitted")
    shown.choose("half-open")
    shown.press("See if it is so", 1)
    assert violations() == []
    shown.predict(False)
    shown.press("A call arrives", 2)
    shown.root.locator("input[type=text]").fill("never")
    shown.press("Let time pass")
    shown.until(lambda: "never" in shown.text("trouble"), "it says what is wrong")
    shown.root.locator("summary").click()
    assert violations() == []
    shown.press("Failure", 3)
    shown.press("Failure", 4)
    shown.shown("OPEN", 4)
    assert violations() == []


CUT_OFF = """root => {
    const room = root.closest('.jp-OutputArea-output').getBoundingClientRect();
    const bad = [];
    for (const each of root.querySelectorAll('button, input, summary, label, strong, code, .labkit-now, svg')) {
        const box = each.getBoundingClientRect();
        if (box.width === 0) continue;  // hidden on purpose
        if (box.left < room.left - 1 || box.right > room.right + 1) bad.push(each.outerHTML.slice(0, 90));
        const hides = each.clientWidth > 0 && getComputedStyle(each).overflow !== 'visible';
        if (hides && each.scrollWidth > each.clientWidth + 1) bad.push('cut: ' + each.outerHTML.slice(0, 90));
    }
    if (root.scrollWidth > root.clientWidth + 1) bad.push('the stepper is wider than its frame');
    return bad;
}"""


@pytest.mark.parametrize(
    ("width", "height", "zoom"),
    [(1600, 900, 1), (800, 600, 1), (640, 512, 2), (420, 800, 1)],
    ids=["wide", "narrow", "200 % zoom", "half a small screen"],
)
def test_nothing_is_cut_off(open_notebook: Any, stepper: Any, width: int, height: int, zoom: int) -> None:
    """However narrow the panel, and at 200 % zoom, every control and picture is in view and one picture is shown."""
    opened = open_notebook(width=width, height=height, device_scale_factor=zoom)
    shown = stepper(opened)
    shown.press("A call arrives")
    shown.until(lambda: shown.asks, "it asks")
    assert opened.page.evaluate(CUT_OFF, shown.root.element_handle()) == []
    shown.press("Show it without", 1)
    shown.predict(False)
    for steps in range(2, 6):
        shown.press("A call arrives", steps)
    assert opened.page.evaluate(CUT_OFF, shown.root.element_handle()) == []
    pictures = [shown.root.locator(f".labkit-{part} svg") for part in ("wide", "narrow")]
    assert sum(picture.is_visible() for picture in pictures) == 1
    sizes = shown.root.locator("button, input[type=text], label:has(input)").evaluate_all(
        "all => all.filter(each => each.offsetParent).map(each => Math.min(each.offsetWidth, each.offsetHeight))"
    )
    assert min(sizes) >= 24  # a target that a finger finds (WCAG 2.2, 2.5.8)


def test_still_where_motion_is_unwelcome(open_notebook: Any, stepper: Any) -> None:
    """Under "reduce motion" nothing in the stepper moves by itself."""
    shown = stepper(open_notebook(reduced_motion="reduce"))
    moving = shown.root.evaluate(
        """root => [root, ...root.querySelectorAll('*')].filter(each => {
            const style = getComputedStyle(each);
            return parseFloat(style.transitionDuration) > 0 || style.animationName !== 'none';
        }).map(each => each.className)"""
    )
    assert moving == []


def test_a_theme_changes_under_it(open_notebook: Any, stepper: Any) -> None:
    """When the theme changes, the stepper changes with it, keeps its state, and goes on."""
    opened = open_notebook()
    opened.theme("JupyterLab Light")
    shown = stepper(opened)
    shown.predict(False)
    shown.press("A call arrives", 1)
    paper = "root => getComputedStyle(root).backgroundColor"
    light = shown.root.evaluate(paper)
    opened.theme("JupyterLab Dark")
    dark = shown.root.evaluate(paper)
    assert min(map(int, re.findall(r"\d+", light)[:3])) > 200
    assert max(map(int, re.findall(r"\d+", dark)[:3])) < 60
    shown.press("Failure", 2)
    opened.theme("JupyterLab Light")
