"""The scope explorer in a real JupyterLab: by mouse, by keyboard, for a screen reader, in both themes."""

from __future__ import annotations

from typing import Any

VIOLATIONS = """async () => (await axe.run(document.querySelector('section.labkit'))).violations.map(
    each => each.id + ': ' + each.nodes.map(node => node.target.join(' ') + ' ' + node.failureSummary).join('; '))"""


def test_scope_explorer(open_cell: Any, axe: str) -> None:
    """A name of its own by mouse, replicas by key, a question and its answer; axe finds nothing in either theme."""
    opened = open_cell("from labkit import scope_explorer\nscope_explorer()")
    page = opened.page
    root = page.locator("section.labkit")
    page.evaluate(axe)

    def says(text: str) -> None:
        opened.until(f"document.querySelector('.labkit-first').textContent.includes({text!r})")

    says("The documents pay for the parts")
    root.get_by_text("each its own").click()
    says("Nobody pays for the other")
    root.get_by_role("radio", name="each its own").press("ArrowLeft")
    says("The documents pay for the parts")
    root.get_by_role("slider", name="replicas").press("End")
    root.get_by_text("4 replicas count for themselves").wait_for()
    assert page.evaluate(VIOLATIONS) == []
    opened.theme("JupyterLab Dark")
    root.get_by_label("Predict first").check()
    root.get_by_label("one probe lease for all").press("Space")
    root.get_by_role("radio", name="1", exact=True).check()
    root.get_by_role("button", name="See if it is so").press("Enter")
    root.get_by_text("As you said.").wait_for()
    assert page.evaluate(VIOLATIONS) == []
