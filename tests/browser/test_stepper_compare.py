"""Three breakers side by side in a real JupyterLab: by mouse, by keyboard, narrow and dark."""

from __future__ import annotations

from typing import Any

VIOLATIONS = """async root => (await axe.run(root)).violations.map(
    each => each.id + ': ' + each.nodes.map(node => node.target.join(' ') + ' ' + node.failureSummary).join('; '))"""

CUT_OFF = """root => {
    const bad = [];
    const room = root.getBoundingClientRect();
    for (const each of root.querySelectorAll('button, input, summary, label, strong, code, dd, dt, p, svg')) {
        const box = each.getBoundingClientRect();
        if (box.width === 0 || each.closest('.labkit-hidden')) continue;
        if (box.left < room.left - 1 || box.right > room.right + 1) bad.push(each.outerHTML.slice(0, 90));
    }
    return bad;
}"""


def test_side_by_side(open_cell: Any, stepper: Any, axe: str) -> None:
    """The switch takes the history along, a fault is one press, and a call that one admitted ends there; axe agrees."""
    opened = open_cell("from labkit import state_stepper\nstate_stepper({'failure_threshold': 1}, predict=False)")
    page = opened.page
    shown = stepper(opened)
    page.evaluate(axe)

    def violations() -> list[str]:
        found: list[str] = page.evaluate(VIOLATIONS, shown.root.element_handle())
        return found

    def column(name: str) -> str:
        return str(shown.root.get_by_role("listitem", name=name).inner_text())

    shown.press("A call arrives", 1)
    shown.press("A call arrives", 2)
    shown.root.get_by_role("radio", name="c2").check()
    shown.press("Failure", 3)
    shown.until(lambda: "admitted before the breaker opened" in shown.text("flights"), "the late call is marked")
    switch = shown.root.get_by_role("switch", name="Side by side")
    switch.focus()
    page.keyboard.press("Space")
    shown.until(lambda: shown.root.get_by_role("listitem", name="Guarded").is_visible(), "there are three")
    assert shown.state == ("OPEN", 3)
    assert all("open" in column(name) for name in ("The toolkit’s", "Guarded", "Window"))
    assert not shown.root.locator(".labkit-gauges").is_visible()

    fault = shown.root.get_by_role("button", name="a cancelled bystander")
    fault.focus()
    page.keyboard.press("Enter")
    shown.shown("HALF_OPEN", 7)
    assert "differs" in column("The toolkit’s")
    assert "differs" not in column("Guarded")
    assert "Q is rejected" in column("Guarded")
    assert "in flight in: toolkit" in shown.text("flights")
    assert violations() == []
    shown.root.get_by_role("radio", name="Q,").check()
    shown.press("Failure", 8)
    assert "not in flight here" in column("Window")
    shown.press("Undo", 7)
    shown.root.locator("summary", has_text="diagram").click()
    shown.root.get_by_role("radio", name="Window", exact=True).check()
    shown.until(lambda: "the timer is over" in str(shown.root.locator(".labkit-wide").inner_html()), "its diagram")

    shown.predict(True)
    fault.click()
    shown.until(lambda: shown.asks and "Q arrives" in shown.text("event"), "it asks before the last step")
    shown.root.get_by_role("button", name="failures from before").click()
    shown.until(lambda: "S ends with a failure" in shown.text("event"), "it asks about what is played now")
    shown.choose("not in one state")
    shown.press("See if it is so", 7)
    assert "As you said." in shown.text("verdict")
    opened.theme("JupyterLab Dark")
    page.set_viewport_size({"width": 640, "height": 900})
    assert page.evaluate(CUT_OFF, shown.root.element_handle()) == []
    assert violations() == []
    shown.predict(False)
    switch.click()
    shown.until(lambda: shown.root.locator(".labkit-gauges").is_visible(), "there is one again")
    assert shown.state == ("OPEN", 7)
    assert shown.root.locator(".labkit-columns").is_visible() is False
