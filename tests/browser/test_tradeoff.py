"""The tradeoff explorer in a real JupyterLab: the map fills by itself, a cell is chosen by mouse or by key alone."""

from __future__ import annotations

from typing import Any

VIOLATIONS = """async () => (await axe.run(document.querySelector('section.labkit'))).violations.map(
    each => each.id + ': ' + each.nodes.map(node => node.target.join(' ') + ' ' + node.failureSummary).join('; '))"""
WHOLE = (
    "document.querySelectorAll('.labkit-map-cell').length === 36 && document.querySelector('.labkit-map-making').hidden"
)


def test_tradeoff_explorer(open_cell: Any, axe: str) -> None:
    """A prediction, the map as it fills, cells by mouse and by key with their runs below; axe finds nothing."""
    opened = open_cell("from labkit import tradeoff_explorer\ntradeoff_explorer(predict=True)")
    page = opened.page
    root = page.locator("section.labkit")
    page.evaluate(axe)

    def focused() -> str:
        return str(page.evaluate("document.activeElement.getAttribute('aria-label')"))

    assert page.evaluate(VIOLATIONS) == []
    assert root.locator(".labkit-map-cell").first.inner_text() == ""
    root.get_by_role("radio", name="few failures open it, a long cooldown").check()
    root.get_by_role("button", name="See if it is so").click()
    opened.until(WHOLE, says="the map is whole")
    root.get_by_text("Not as you said: many failures open it, a short cooldown.").wait_for()
    assert root.locator(".labkit-tally").inner_text() == "0 of 1 as predicted"
    assert root.get_by_role("gridcell", name="the best").count() > 0
    assert page.evaluate(VIOLATIONS) == []

    root.get_by_role("gridcell", name="failure_threshold 1 and cooldown_period 40 s").click()
    opened.until("document.querySelector('section.labkit pre').textContent.includes('cooldown_period: 40')")
    chosen = root.locator("[aria-selected=true]")
    assert chosen.count() == 1
    assert focused().startswith("failure_threshold 1 and cooldown_period 40 s: 2.")

    # By key: one stop of Tab for the whole map, the arrows inside, Enter to choose.
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("End")
    page.keyboard.press("ArrowRight")
    assert focused().startswith("failure_threshold 2 and cooldown_period 40 s")
    page.keyboard.press("Control+Home")
    assert focused().startswith("failure_threshold 1 and cooldown_period 1 s")
    page.keyboard.press("PageDown")
    page.keyboard.press("Enter")
    opened.until("document.querySelector('section.labkit pre').textContent.includes('failure_threshold: 20')")
    assert focused().startswith("failure_threshold 20 and cooldown_period 1 s")
    assert root.locator(".labkit-map-cell[tabindex='0']").count() == 1
    page.keyboard.press("Shift+Tab")
    assert "labkit-map-cell" not in str(page.evaluate("document.activeElement.className"))

    opened.theme("JupyterLab Dark")
    root.get_by_label("Predict first").uncheck()
    root.get_by_role("radio", name="false opens").check()
    root.get_by_role("radio", name="fails at once").check()
    opened.until("document.querySelector('.labkit-map-making').hidden === false", says="another map begins")
    opened.until(WHOLE, says="the other map is whole")
    assert page.evaluate(VIOLATIONS) == []
