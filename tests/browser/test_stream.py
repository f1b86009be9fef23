"""The stream explorer in a real JupyterLab: by mouse, by keyboard, for a screen reader, in both themes."""

from __future__ import annotations

from typing import Any

VIOLATIONS = """async () => (await axe.run(document.querySelector('section.labkit'))).violations.map(
    each => each.id + ': ' + each.nodes.map(node => node.target.join(' ') + ' ' + node.failureSummary).join('; '))"""


def test_stream_explorer(open_cell: Any, axe: str) -> None:
    """A late chunk, a busy reader, an ordinary call change picture and words; nonsense is told; axe finds nothing."""
    opened = open_cell("from labkit import stream_explorer\nstream_explorer()")
    page = opened.page
    root = page.locator("section.labkit")
    page.evaluate(axe)
    first = "document.querySelector('.labkit-first').textContent"
    assert "this probe closes it" in root.locator(".labkit-first").inner_text()
    slider = root.get_by_role("slider", name="a chunk takes")
    box = slider.bounding_box()
    page.mouse.click(box["x"] + box["width"] * 0.6, box["y"] + box["height"] / 2)
    opened.until(f"{first}.includes('in the wait for chunk 1: TimeoutError')")
    assert "ran out at 2 s" in root.locator(".labkit-picture").inner_text()
    root.get_by_role("radio", name="an ordinary call").press("Space")
    opened.until("document.querySelector('.labkit-picture').textContent.includes('its clock never runs')")
    before = root.locator(".labkit-picture").inner_html()
    field = root.get_by_role("textbox", name="timeout, s", exact=True)
    field.fill("later")
    field.press("Enter")
    root.get_by_text("timeout: found “later”").wait_for()
    assert root.locator(".labkit-picture").inner_html() == before
    assert page.evaluate(VIOLATIONS) == []
    field.fill("8")
    field.press("Enter")
    busy = root.get_by_role("textbox", name="reader busy for, s")
    busy.fill("7.5")
    busy.press("Enter")
    opened.until(f"{first}.includes('while the reader was busy')")
    root.get_by_text("NeMo Agent Toolkit 1.9.0 differs").wait_for()
    opened.theme("JupyterLab Dark")
    root.get_by_label("Predict first").check()
    slider.press("Home")
    root.get_by_role("radio", name="a limit runs out, a failure").check()
    root.get_by_role("button", name="See if it is so").press("Enter")
    root.get_by_text("As you said.").wait_for()
    assert page.evaluate(VIOLATIONS) == []
