"""The adapter explorer in a real JupyterLab: by mouse, by keyboard, for a screen reader, in both themes."""

from __future__ import annotations

from typing import Any

VIOLATIONS = """async () => (await axe.run(document.querySelector('section.labkit'))).violations.map(
    each => each.id + ': ' + each.nodes.map(node => node.target.join(' ') + ' ' + node.failureSummary).join('; '))"""


def test_adapter_explorer(open_cell: Any, axe: str) -> None:
    """Reply and adapter are chosen by mouse and by key; sentence and picture say what leaves and what is counted."""
    opened = open_cell("from labkit import adapter_explorer\nadapter_explorer()")
    page = opened.page
    root = page.locator("section.labkit")
    page.evaluate(axe)

    def until(sentence: str) -> None:
        root.locator(".labkit-first", has_text=sentence).wait_for()

    until("An error in the shape of an answer is a success to a breaker.")
    picture = root.locator(".labkit-picture svg")
    assert "none (chosen): a value, Service error" in picture.get_attribute("aria-label")
    root.get_by_role("radio", name="in_process").check()
    until("The adapter in_process lets an exception out, DependencyError")
    root.get_by_role("radio", name="in_process").press("ArrowRight")
    until("The adapter swallowing lets a value out")
    root.get_by_role("radio", name="200, the text").press("ArrowRight")
    until("The adapter swallowing lets a value out, “2 chunks, then: Service error")
    field = root.get_by_role("textbox", name="failure_threshold")
    field.fill("none")
    field.press("Enter")
    root.get_by_text("failure_threshold: found “none”").wait_for()
    assert page.evaluate(VIOLATIONS) == []
    field.fill("5")
    field.press("Enter")
    opened.until("document.querySelector('section.labkit pre').textContent.includes('failure_threshold: 5')")
    opened.theme("JupyterLab Dark")
    root.get_by_label("Predict first").check()
    root.get_by_role("radio", name="404, unknown part").check()
    root.get_by_role("radio", name="no exception reaches it").check()
    root.get_by_role("button", name="See if it is so").press("Enter")
    root.get_by_text("As you said.").wait_for()
    page.set_viewport_size({"width": 640, "height": 1600})
    opened.until("document.querySelector('.labkit-picture svg').getAttribute('width') === '480'")
    assert page.evaluate(VIOLATIONS) == []
