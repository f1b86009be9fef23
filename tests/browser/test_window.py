"""The window explorer in a real JupyterLab: by mouse, by keyboard, for a screen reader, in both themes."""

from __future__ import annotations

from typing import Any

VIOLATIONS = """async () => (await axe.run(document.querySelector('section.labkit'))).violations.map(
    each => each.id + ': ' + each.nodes.map(node => node.target.join(' ') + ' ' + node.failureSummary).join('; '))"""


def test_window_explorer(open_cell: Any, axe: str) -> None:
    """Three breakers follow the hand, by mouse and by key; a prediction is kept; axe finds nothing in either theme."""
    opened = open_cell("from labkit import window_explorer\nwindow_explorer()")
    page = opened.page
    root = page.locator("section.labkit")
    page.evaluate(axe)

    def says(text: str) -> None:
        opened.until(f"document.querySelector('.labkit-first').textContent.includes({text!r})")

    says("counting in a row never does")
    slider = root.get_by_role("slider", name="failure_threshold")
    box = slider.bounding_box()
    page.mouse.click(box["x"] + box["width"] * 0.1, box["y"] + box["height"] / 2)
    says("Counting in a row opens at")
    root.get_by_role("button", name="Reset").press("Enter")
    says("counting in a row never does")
    root.get_by_role("checkbox", name="never").press("Space")
    says("Counting in a row opens at")
    assert page.evaluate(VIOLATIONS) == []
    opened.theme("JupyterLab Dark")
    root.get_by_label("Predict first").check()
    root.get_by_role("slider", name="sliding window").press("ArrowLeft")
    root.get_by_role("radio", name="two or three at the same call").check()
    root.get_by_role("button", name="See if it is so").press("Enter")
    root.get_by_text("of 1 as predicted").wait_for()
    assert page.evaluate(VIOLATIONS) == []
