"""The playback of a run in a real JupyterLab: played, stepped, scrubbed, followed; still where motion is reduced."""

from __future__ import annotations

import re
from typing import Any

VIOLATIONS = """async () => (await axe.run(document.querySelector('section.labkit'))).violations.map(
    each => each.id + ': ' + each.nodes.map(node => node.target.join(' ') + ' ' + node.failureSummary).join('; '))"""

CODE = "from labkit import flow_view\nflow_view('check-3-replicas')"


class Playback:
    """The playback on a page, worked as a learner works it."""

    def __init__(self, opened: Any) -> None:
        self.opened = opened
        self.page = opened.page
        self.root = self.page.locator("section.labkit")
        self.root.locator("canvas").wait_for()
        self.stage = self.root.get_by_role("group", name="The stage")
        opened.until("document.querySelector('section.labkit').dataset.time !== undefined")

    def button(self, name: str) -> Any:
        return self.root.get_by_role("button", name=name, exact=True)

    @property
    def time(self) -> float:
        return float(self.root.get_attribute("data-time"))

    @property
    def told(self) -> str:
        return str(self.root.locator(".labkit-sentence").inner_text())

    def count(self, name: str) -> int:
        return int(self.root.locator(f"[data-count={name}] dd").inner_text().replace(",", ""))

    def pixels(self) -> str:
        return str(self.root.locator("canvas").evaluate("each => each.toDataURL()"))

    def until_time(self, condition: str) -> None:
        self.opened.until(f"(time => {condition})(Number(document.querySelector('section.labkit').dataset.time))")


def test_flow_view(open_cell: Any, axe: str) -> None:
    """Play, pause, step, scrub by keyboard and mouse, follow a call; marks move; axe finds nothing in both themes."""
    shown = Playback(open_cell(CODE))
    page, root = shown.page, shown.root
    page.evaluate(axe)
    begin, still = shown.time, shown.pixels()
    assert "one drawn from each" in root.locator(".labkit-share-of").inner_text()

    shown.button("Play").click()
    shown.until_time(f"time > {begin + 0.8}")
    assert int(root.get_attribute("data-marks")) > 3
    shown.button("Pause").click()
    at = shown.time
    assert shown.pixels() != still
    page.wait_for_timeout(300)
    assert shown.time == at
    calls = shown.count("arrived")
    assert 0 < calls <= 40 * (at + 1)

    shown.button("Step").click()
    first = shown.told
    assert re.match(r"\d+\.\d\d s: ", first)
    shown.button("Step").click()
    assert shown.told != first
    shown.button("Step back").click()
    assert shown.told == first

    shown.stage.focus()
    page.keyboard.press("Shift+ArrowRight")
    assert abs(shown.time - at - 1.0) < 0.3
    page.keyboard.press("Home")
    assert shown.time == 0.0
    page.keyboard.press("ArrowRight")
    assert "leaves its caller" in shown.told
    page.keyboard.press("Space")
    shown.until_time("time > 0.3")
    page.keyboard.press("Space")
    assert shown.button("Play").is_visible()
    page.keyboard.press("End")
    assert shown.count("arrived") == 3200
    slider = root.get_by_role("slider", name="Time")
    slider.press("Home")
    assert shown.time < 0.1

    for _ in range(20):
        shown.button("Next change").click()
        if "is open" in shown.told:
            break
    assert re.search(r"availability_breaker of replica \d is open", shown.told)
    assert root.get_attribute("data-state") in ("CLOSED", "OPEN")
    timeline = root.locator(".labkit-timeline")
    timeline.click(position={"x": timeline.bounding_box()["width"] * 0.6, "y": 120})
    shown.until_time("time > 20")

    number = root.get_by_role("textbox", name="Number of a call to follow")
    number.fill("900")
    number.press("Enter")
    shown.opened.until("document.querySelector('.labkit-sentence').textContent.includes('call 900 ')")
    shown.button("Step").click()
    assert "call 900 " in shown.told
    number.fill("4000")
    shown.button("Follow").click()
    root.get_by_text("There is no call 4,000").wait_for()
    assert page.evaluate(VIOLATIONS) == []
    root.get_by_text("The same as a list of events").click()
    current = root.locator(".labkit-events [aria-current=step]")
    assert current.inner_text() == shown.told
    shown.button("Next event").click()
    assert current.inner_text() == shown.told
    shown.opened.theme("JupyterLab Dark")
    shown.button("Let go").click()
    assert page.evaluate(VIOLATIONS) == []


def test_flow_view_where_motion_is_reduced(open_cell: Any, axe: str) -> None:
    """Nothing moves by itself: no play button, the list of events is open, and previous and next tell the story."""
    shown = Playback(open_cell(CODE, reduced_motion="reduce"))
    root = shown.root
    assert not shown.button("Play").is_visible()
    assert root.locator(".labkit-events li").count() == 9
    before = shown.told
    shown.button("Next event").press("Enter")
    after = shown.told
    assert after != before
    assert root.locator(".labkit-events [aria-current=step]").inner_text() == after
    at = shown.time
    shown.page.wait_for_timeout(300)
    assert shown.time == at
    shown.stage.focus()
    shown.page.keyboard.press("Space")
    assert shown.told != after
    root.get_by_label("Go through").select_option("changes")
    shown.button("Next event").click()
    assert "is open" in shown.told or "hang" in shown.told
    shown.page.evaluate(axe)
    assert shown.page.evaluate(VIOLATIONS) == []
