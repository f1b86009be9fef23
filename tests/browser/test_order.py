"""The order explorer in a real JupyterLab: dragged, by keyboard alone, step by step, in both themes."""

from __future__ import annotations

from typing import Any

VIOLATIONS = """async () => (await axe.run(document.querySelector('section.labkit'))).violations.map(
    each => each.id + ': ' + each.nodes.map(node => node.target.join(' ') + ' ' + node.failureSummary).join('; '))"""


def test_order_explorer(open_cell: Any, axe: str) -> None:
    """A layer is dragged, moved by arrow keys and left out; a call is followed by mouse and by key; axe is content."""
    opened = open_cell("from labkit import order_explorer\norder_explorer()")
    page = opened.page
    root = page.locator("section.labkit")
    page.evaluate(axe)

    def until(sentence: str) -> None:
        root.locator(".labkit-first", has_text=sentence).wait_for()

    def order() -> list[str]:
        return [each.inner_text() for each in root.locator(".labkit-order li > span").all()]

    until("measures each physical attempt")
    items = root.locator(".labkit-order li")
    height = items.nth(0).bounding_box()["height"]
    items.nth(0).drag_to(items.nth(1), target_position={"x": 90, "y": height - 3})
    until("measures whole logical operations")
    assert order() == ["breaker", "retry", "timeout"]
    root.get_by_role("button", name="timeout, number 3 of 3").focus()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    until("stayed closed. It was told of 8 cancellations")
    assert order() == ["timeout", "breaker", "retry"]
    assert root.get_by_role("button", name="timeout, number 1 of 3").evaluate("node => node === document.activeElement")
    root.get_by_role("button", name="leave retry out").press("Enter")
    until("measures calls")
    assert root.get_by_role("button", name="+ retry").evaluate("node => node === document.activeElement")

    follow = root.get_by_role("group", name="Follow one call")
    status = follow.get_by_role("status")
    picture = root.locator(".labkit-picture")
    assert "timeout, whose clock starts" in status.inner_text()
    before = picture.inner_html()
    follow.get_by_role("button", name="Next step").click()
    assert "breaker, which is closed and admits it" in status.inner_text()
    picture.get_by_text("admitted", exact=True).wait_for()
    assert picture.inner_html() != before
    for _ in range(2):
        page.keyboard.press("ArrowRight")
    picture.get_by_text("limit runs out", exact=True).wait_for()
    assert "the limit of timeout runs out" in status.inner_text()
    follow.get_by_role("slider", name="step").press("End")
    assert "The caller gets the TimeoutError" in status.inner_text()
    assert follow.get_by_role("button", name="Next step").get_attribute("aria-disabled") == "true"
    root.get_by_text("All 8 steps").press("Enter")
    step = root.get_by_role("button", name="breaker hears of a cancellation")
    step.press("Enter")
    picture.get_by_text("counts nothing", exact=True).wait_for()
    assert step.get_attribute("aria-current") == "step"
    assert page.evaluate(VIOLATIONS) == []

    opened.theme("JupyterLab Dark")
    root.get_by_label("Predict first").check()
    root.get_by_role("button", name="timeout, number 1 of 2").press("ArrowDown")
    root.get_by_role("radio", name="3 attempts, as many as its threshold").check()
    root.get_by_role("button", name="See if it is so").press("Enter")
    root.get_by_text("As you said.").wait_for()
    page.set_viewport_size({"width": 640, "height": 1600})
    opened.until("document.querySelector('.labkit-picture svg').getAttribute('width') === '480'")
    assert page.evaluate(VIOLATIONS) == []
