"""The fallback explorer in a real JupyterLab: by mouse, by keyboard, for a screen reader, in both themes."""

from __future__ import annotations

from typing import Any

VIOLATIONS = """async () => (await axe.run(document.querySelector('section.labkit'))).violations.map(
    each => each.id + ': ' + each.nodes.map(node => node.target.join(' ') + ' ' + node.failureSummary).join('; '))"""


def test_fallback_explorer(open_cell: Any, axe: str) -> None:
    """Switches change what users read, what is invented is flagged beside its answer; axe finds nothing."""
    opened = open_cell("from labkit import fallback_explorer\nfallback_explorer()")
    page = opened.page
    root = page.locator("section.labkit")
    page.evaluate(axe)
    cards = root.get_by_role("list", name="What users were told").get_by_role("listitem")
    assert cards.count() == 6
    assert "availability unavailable" in cards.nth(2).inner_text()
    assert "Invented" not in root.inner_text()
    root.get_by_role("switch", name="the assistant may guess").click()
    opened.until("document.querySelectorAll('.labkit-said-invented').length >= 2")
    assert "Invented: HX-2040: 42 in stock: no live reply said so (last seen)" in cards.nth(2).inner_text()
    assert "invented" in root.locator(".labkit-first").inner_text()
    assert page.evaluate(VIOLATIONS) == []
    before = cards.nth(2).inner_html()
    end = root.get_by_role("textbox", name="outage, end, s")
    end.fill("3")
    end.press("Enter")
    root.get_by_text("outage: a begin and an end are numbers from 4 to 40 s.").wait_for()
    assert cards.nth(2).inner_html() == before
    end.fill("28")
    end.press("Enter")
    opened.until("document.querySelector('section.labkit pre').textContent.includes('to: 28')")
    opened.theme("JupyterLab Dark")
    root.get_by_label("Predict first").check()
    root.get_by_role("switch", name="the assistant may guess").press("Space")
    root.get_by_role("radio", name="that it is unavailable").check()
    root.get_by_role("button", name="See if it is so").press("Enter")
    root.get_by_text("As you said.").wait_for()
    assert root.locator(".labkit-said-invented").count() == 0
    assert page.evaluate(VIOLATIONS) == []
