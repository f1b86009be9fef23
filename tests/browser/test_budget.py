"""The retry budget explorer in a real JupyterLab: by mouse, by keyboard, for a screen reader, in both themes."""

from __future__ import annotations

from typing import Any

VIOLATIONS = """async () => (await axe.run(document.querySelector('section.labkit'))).violations.map(
    each => each.id + ': ' + each.nodes.map(node => node.target.join(' ') + ' ' + node.failureSummary).join('; '))"""


def test_budget_explorer(open_cell: Any, axe: str) -> None:
    """A budget, and fewer attempts, let the service recover; nonsense is told; axe finds nothing."""
    opened = open_cell("from labkit import budget_explorer\nbudget_explorer()")
    page = opened.page
    root = page.locator("section.labkit")
    page.evaluate(axe)
    first = "document.querySelector('.labkit-first').textContent"
    assert root.locator(".labkit-first").inner_text().startswith("It does not recover by itself")
    root.get_by_role("checkbox", name="none").click()
    opened.until(f"{first}.startsWith('It recovers by itself')")
    root.get_by_role("checkbox", name="none").press("Space")
    opened.until(f"{first}.startsWith('It does not')")
    slider = root.get_by_role("slider", name="attempts")
    box = slider.bounding_box()
    page.mouse.click(box["x"] + 4, box["y"] + box["height"] / 2)
    opened.until(f"{first}.startsWith('It recovers by itself')")
    before = root.locator(".labkit-picture").inner_html()
    field = root.get_by_role("textbox", name="workers")
    field.fill("some")
    field.press("Enter")
    root.get_by_text("workers: found “some”").wait_for()
    assert root.locator(".labkit-picture").inner_html() == before
    assert page.evaluate(VIOLATIONS) == []
    field.fill("5")
    field.press("Enter")
    opened.theme("JupyterLab Dark")
    root.get_by_label("Predict first").check()
    slider.press("End")
    root.get_by_role("radio", name="it stays overloaded until the end").check()
    root.get_by_role("button", name="See if it is so").press("Enter")
    root.get_by_text("As you said.").wait_for()
    assert page.evaluate(VIOLATIONS) == []
