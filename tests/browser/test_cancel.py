"""The cancellation explorer in a real JupyterLab: by mouse, by keyboard, in both themes."""

from __future__ import annotations

from typing import Any

VIOLATIONS = """async () => (await axe.run(document.querySelector('section.labkit'))).violations.map(
    each => each.id + ': ' + each.nodes.map(node => node.target.join(' ') + ' ' + node.failureSummary).join('; '))"""


def test_cancel_explorer(open_cell: Any, axe: str) -> None:
    """One press shows a cancelled bystander, a key moves the patience, nonsense is told; axe finds nothing."""
    opened = open_cell("from labkit import cancel_explorer\ncancel_explorer()")
    page = opened.page
    root = page.locator("section.labkit")
    page.evaluate(axe)

    def told(words: str) -> None:
        opened.until(f"document.querySelector('.labkit-first').textContent.includes({words!r})", says=words)

    told("200 calls were given up by their callers")
    root.get_by_role("button", name="A cancelled bystander").click()
    told("cancel-frees-foreign-probe")
    root.locator(".labkit-picture").get_by_text("The guarded breaker").first.wait_for()
    root.get_by_role("radio", name="both, side by side", checked=True).wait_for()  # when the kernel is done with it
    assert page.evaluate(VIOLATIONS) == []

    root.get_by_role("button", name="All give up before the limit").press("Enter")
    told("200 calls were given up by their callers")
    slider = root.get_by_role("slider", name="patience", exact=True)
    slider.press("End")
    told("raises there, and so each one counts")
    root.get_by_role("radio", name="inside the breaker").focus()
    page.keyboard.press("ArrowRight")
    told("The timeout stands outside the breaker")
    field = root.get_by_role("textbox", name="patience, s", exact=True)
    field.fill("long")
    field.press("Enter")
    root.get_by_text("patience: found “long”").wait_for()
    opened.theme("JupyterLab Dark")
    assert page.evaluate(VIOLATIONS) == []
