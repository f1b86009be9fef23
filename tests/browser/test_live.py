"""A stack that runs now, in a real JupyterLab: started, broken, mended, stopped, and nothing left in the kernel."""

from __future__ import annotations

from typing import Any

VIOLATIONS = """async () => (await axe.run(document.querySelector('section.labkit'))).violations.map(
    each => each.id + ': ' + each.nodes.map(node => node.target.join(' ') + ' ' + node.failureSummary).join('; '))"""

CODE = """\
import threading
from IPython.display import display
from labkit import live_view
threads = threading.active_count()
display(live_view(failure_threshold=2, cooldown_period=1, timeout=0.5, probe_timeout=0.5, latency=0.05, rate=20))
print("threads beyond those before:", sum(each.name.startswith("labkit") for each in threading.enumerate()))
"""


def test_live_view(open_cell: Any, axe: str) -> None:
    """Start, break, see OPEN, mend, see CLOSED, stop: by mouse and keyboard, told in words, and axe finds nothing."""
    opened = open_cell(CODE)
    page = opened.page
    root = page.locator("section.labkit")
    page.evaluate(axe)

    def button(name: str) -> Any:
        return root.get_by_role("button", name=name, exact=True)

    def until(state: str) -> None:
        opened.until(f"document.querySelector('section.labkit').dataset.state === '{state}'", says=state)

    def count(name: str) -> int:
        return int(root.locator(f"[data-count={name}] dd").inner_text().replace(",", ""))

    assert root.get_attribute("data-running") == "false"
    button("Start").click()
    opened.until("Number(document.querySelector('[data-count=succeeded] dd').textContent) > 5")
    assert int(root.get_attribute("data-marks")) > 0
    button("Hang").press("Enter")
    until("OPEN")
    assert "open" in root.locator(".labkit-state-word").inner_text().lower()
    assert "the breaker is open after 2 failures in a row" in root.locator(".labkit-events").text_content()
    opened.until("Number(document.querySelector('[data-count=rejected] dd').textContent) > 0")
    assert button("Hang").get_attribute("aria-pressed") == "true"
    assert page.evaluate(VIOLATIONS) == []
    button("Mend it").click()
    until("CLOSED")
    assert count("probes") >= 1
    slider = root.get_by_role("slider", name="Calls a second")
    slider.press("End")
    opened.until("document.querySelector('section.labkit output').textContent === '40/s'")
    opened.theme("JupyterLab Dark")
    assert page.evaluate(VIOLATIONS) == []
    button("Stop").click()
    opened.until("document.querySelector('section.labkit').dataset.running === 'false'")
    root.get_by_text("Stopped.").wait_for()
    batches = root.get_attribute("data-batches")
    page.wait_for_timeout(400)
    assert root.get_attribute("data-batches") == batches

    button("Start").click()  # and left to run: running the cell again ends it
    opened.until("document.querySelector('section.labkit').dataset.running === 'true'")
    opened.run_all()
    opened.outputs("pre").get_by_text("threads beyond those before: 0").wait_for()
    assert root.count() == 1
    assert root.get_attribute("data-running") == "false"


def test_live_view_where_motion_is_reduced(open_cell: Any) -> None:
    """No mark travels; the state's word, the counters and the list of what happened tell the same."""
    opened = open_cell(CODE, reduced_motion="reduce")
    root = opened.page.locator("section.labkit")
    root.get_by_role("button", name="Start", exact=True).click()
    root.get_by_role("button", name="Fail at once", exact=True).click()
    opened.until("document.querySelector('section.labkit').dataset.state === 'OPEN'")
    assert "the breaker is open" in root.locator(".labkit-events").inner_text()
    root.get_by_role("button", name="Stop", exact=True).click()
    opened.until("document.querySelector('section.labkit').dataset.running === 'false'")
