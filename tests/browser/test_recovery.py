"""The recovery explorer in a real JupyterLab: by mouse, by keyboard, for a screen reader, in both themes."""

from __future__ import annotations

from typing import Any

VIOLATIONS = """async () => (await axe.run(document.querySelector('section.labkit'))).violations.map(
    each => each.id + ': ' + each.nodes.map(node => node.target.join(' ') + ' ' + node.failureSummary).join('; '))"""


def test_recovery_explorer(open_cell: Any, axe: str) -> None:
    """Capacity by mouse, traffic by key, nonsense told and the picture kept; axe finds nothing in either theme."""
    opened = open_cell("from labkit import recovery_explorer\nrecovery_explorer()")
    page = opened.page
    root = page.locator("section.labkit")
    page.evaluate(axe)

    def says(text: str) -> None:
        opened.until(f"document.querySelector('.labkit-first').textContent.includes({text!r})")

    says("It trips again once")
    slider = root.get_by_role("slider", name="all back after")
    box = slider.bounding_box()
    page.mouse.click(box["x"] + 2, box["y"] + box["height"] / 2)
    says("15 of 15 workers back")
    root.get_by_role("button", name="Reset").press("Enter")
    says("It trips again once")
    root.get_by_role("slider", name="traffic returns over").press("End")
    says("It does not trip again")
    before = root.locator(".labkit-picture").inner_html()
    field = root.get_by_role("textbox", name="back at the repair")
    field.fill("16")
    field.press("Enter")
    root.get_by_text("16 of 15 workers cannot be").wait_for()
    assert root.locator(".labkit-picture").inner_html() == before
    assert page.evaluate(VIOLATIONS) == []
    opened.theme("JupyterLab Dark")
    root.get_by_label("Predict first").check()
    root.get_by_role("slider", name="cooldown_period").press("ArrowRight")
    root.get_by_role("radio", name="no, it closes and stays closed").check()
    root.get_by_role("button", name="See if it is so").press("Enter")
    root.get_by_text("As you said.").wait_for()
    assert page.evaluate(VIOLATIONS) == []
