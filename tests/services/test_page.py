"""The page on which the fault is switched, in a real browser, by keyboard."""

from __future__ import annotations

import shutil

import pytest

from labkit.services import FaultKind, HttpServiceThread

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium from the system's packages (apt-get install chromium)"),
]


@pytest.fixture(scope="module")
def browser():
    """One browser for all tests of this module."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield opened
        opened.close()


@pytest.fixture(params=["light", "dark"])
def page(browser, request):
    """A page in each theme that fails the test on any error in its console."""
    context = browser.new_context(color_scheme=request.param, viewport={"width": 900, "height": 900})
    page = context.new_page()
    page.set_default_timeout(15_000)
    errors = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    yield page
    context.close()
    unexpected = [text for text in errors if not text.startswith("Failed to load resource")]  # the faults do that
    assert unexpected == []


def opened(page, server):
    """The page with all its buttons."""
    page.goto(server.url)
    page.wait_for_selector("#faults button:nth-of-type(1)")
    return page


def test_the_fault_is_switched_by_keyboard(page):
    """Tab reaches every button in order, Enter and Space switch, the pressed one is marked and announced."""
    with HttpServiceThread(latency=0) as server:
        opened(page, server)
        seen = []
        for _ in FaultKind:
            page.keyboard.press("Tab")
            seen.append(page.evaluate("document.activeElement.dataset.fault"))
        assert seen == list(page.evaluate("fetch('fault').then((answer) => answer.json())")["faults"])
        page.keyboard.press("Enter")
        page.wait_for_selector('[data-fault="flapping"][aria-pressed="true"]')
        assert str(server.service.fault) == "flapping"
        page.keyboard.press("Shift+Tab")
        page.keyboard.press("Space")
        page.wait_for_selector('[data-fault="rate_limit"][aria-pressed="true"]')
        assert page.locator('[aria-pressed="true"]').count() == 1
        assert page.locator('[role="status"]').inner_text() == "The service is now: rate limit (none passes)."
        assert page.title() == "Parts availability: rate limit"


def test_a_switch_from_elsewhere_is_followed(page):
    """A fault that was switched from a program shows on the page, with its settings."""
    with HttpServiceThread() as server:
        opened(page, server)
        server.set_fault("slow", seconds=5, rate=0.25)
        page.wait_for_selector('[data-fault="slow"][aria-pressed="true"]')
        assert page.locator("#now").inner_text() == "The service is now: slow (5 s, 25 % of requests)."


def test_asking_shows_what_comes_back(page):
    """Asking by keyboard shows the answer in words; a hang can be given up; the counters follow."""
    with HttpServiceThread(latency=0) as server:
        opened(page, server)
        page.focus("#ask")
        page.keyboard.press("Enter")
        page.wait_for_selector("#reply:has-text('42 in stock')")
        server.set_fault("error_shaped_string")
        page.keyboard.press("Enter")
        page.wait_for_selector("#reply:has-text('Service error')")
        server.set_fault("mid_stream_death", chunks=2)
        page.focus("#stream")
        page.keyboard.press("Enter")
        page.wait_for_selector("#reply:has-text('broke off')")
        server.set_fault("hang")
        page.keyboard.press("Enter")
        page.wait_for_selector("#reply:has-text('waiting')")
        page.focus("#stop")
        page.keyboard.press("Enter")
        page.wait_for_selector("#reply:has-text('You gave up')")
        page.wait_for_selector("#log tr:nth-child(1):has-text('cancelled')")
        names, values = (page.locator(f"#counts {tag}").all_inner_texts() for tag in ("dt", "dd"))
        numbers = dict(zip(names, values, strict=True))
        assert numbers == {
            "Requests": "4",
            "In flight": "0",
            "Answered": "1",
            "Unknown part": "0",
            "Failed": "2",
            "Cancelled": "1",
        }


def test_it_fits_a_narrow_window(page):
    """Nothing is wider than a window of 320 pixels: only the table scrolls, within itself."""
    with HttpServiceThread(latency=0) as server:
        page.set_viewport_size({"width": 320, "height": 600})
        opened(page, server)
        assert page.evaluate("document.documentElement.scrollWidth") <= 320


def test_its_text_is_legible(page):
    """Every text has a contrast of 4.5 or more against what lies behind it, in both themes."""
    with HttpServiceThread(latency=0) as server:
        server.set_fault("error")
        opened(page, server)
        page.wait_for_selector('[data-fault="error"][aria-pressed="true"]')
        poor = page.evaluate(
            """() => {
              const light = (colour) => {
                const [r, g, b] = colour.match(/[\\d.]+/g).map((part) => part / 255)
                  .map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
                return 0.2126 * r + 0.7152 * g + 0.0722 * b;
              };
              const behind = (element) => {
                for (; element; element = element.parentElement) {
                  const colour = getComputedStyle(element).backgroundColor;
                  if (!colour.endsWith(", 0)")) return colour;
                }
                return "rgb(255, 255, 255)";
              };
              return [...document.querySelectorAll("main *")].filter((element) => !element.disabled
                && [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim()))
                .map((element) => {
                  const [high, low] = [light(getComputedStyle(element).color), light(behind(element))].sort().reverse();
                  return [element.outerHTML.slice(0, 80), (high + 0.05) / (low + 0.05)];
                }).filter(([, contrast]) => contrast < 4.5);
            }"""
        )
        assert poor == []


def test_it_says_when_the_service_is_gone(page):
    """When the service has stopped, the page says so and how to start it again."""
    with HttpServiceThread() as server:
        opened(page, server)
        server.stop()
        page.wait_for_selector("#now.lost")
        assert "labkit serve" in page.locator("#now").inner_text()
