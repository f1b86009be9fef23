"""The outage explorer in a real JupyterLab: by mouse, by keyboard, for a screen reader, in both themes."""

from __future__ import annotations

from typing import Any

# What changes in the place from which a screen reader is told, and in the picture, from now on.
LISTEN = """() => {
    window.heard = [];
    window.pictures = 0;
    const live = document.querySelector('section.labkit').nextElementSibling;
    new MutationObserver(() => window.heard.push(live.textContent)).observe(live, {childList: true});
    new MutationObserver(() => { window.pictures += 1; }).observe(
        document.querySelector('.labkit-picture'), {childList: true});
}"""
VIOLATIONS = """async () => (await axe.run(document.querySelector('section.labkit'))).violations.map(
    each => each.id + ': ' + each.nodes.map(node => node.target.join(' ') + ' ' + node.failureSummary).join('; '))"""


def test_outage_explorer(open_cell: Any, axe: str) -> None:
    """A slider moved by mouse or by key changes picture, sentence and YAML; nonsense is told; axe finds nothing."""
    opened = open_cell("from labkit import outage_explorer\noutage_explorer()")
    page = opened.page
    root = page.locator("section.labkit")
    page.evaluate(axe)

    def sentence() -> str:
        return str(root.locator(".labkit-first").inner_text())

    assert "after 5 time-outs in a row" in sentence()
    slider = root.get_by_role("slider", name="failure_threshold")
    box = slider.bounding_box()
    page.mouse.click(box["x"] + box["width"] * 0.66, box["y"] + box["height"] / 2)
    opened.until("!document.querySelector('.labkit-first').textContent.includes('after 5 time-outs')")
    page.wait_for_timeout(600)  # what rests is told after 0.4 s
    page.evaluate(LISTEN)
    page.mouse.move(box["x"] + box["width"] * 0.66, box["y"] + box["height"] / 2)
    page.mouse.down()
    for step in range(12):
        page.mouse.move(box["x"] + box["width"] * (0.64 - 0.03 * step), box["y"] + box["height"] / 2)
        page.wait_for_timeout(80)
    during = page.evaluate("[window.heard.length, window.pictures]")
    page.mouse.up()
    opened.until("window.heard.length === 1", says="a screen reader is told when the hand rests")
    told, sentence_now = page.evaluate("window.heard[0]"), sentence()
    assert told.endswith(sentence_now)
    assert during[0] == 0
    assert during[1] >= 2, "the picture follows while the hand moves"
    position = slider.input_value()
    assert f"failure_threshold: {position}\n" in root.locator("pre").text_content(), "the last position won"

    slider.press("Home")
    opened.until("!document.querySelector('.labkit-first').textContent.includes('in a row')", says="one is enough")
    assert "opened at 32 s; 159 attempts" in sentence()
    before = root.locator(".labkit-picture").inner_html()
    field = root.get_by_role("textbox", name="cooldown_period, s")
    field.fill("never")
    field.press("Enter")
    root.get_by_text("cooldown_period: found “never”").wait_for()
    assert root.locator(".labkit-picture").inner_html() == before
    assert page.evaluate(VIOLATIONS) == []
    field.fill("30")
    field.press("Enter")
    opened.until("document.querySelector('section.labkit pre').textContent.includes('cooldown_period: 30')")
    opened.theme("JupyterLab Dark")
    root.get_by_label("Predict first").check()
    slider.press("ArrowRight")
    root.get_by_role("radio", name="later, within a cooldown of 30 s").check()
    root.get_by_role("button", name="See if it is so").press("Enter")
    root.get_by_text("As you said.").wait_for()
    assert page.evaluate(VIOLATIONS) == []
