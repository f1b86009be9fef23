"""From a slider's move to changed pixels: `outage_explorer` in a real JupyterLab, in Chromium without a window.

Two minutes of traffic at 80 requests a second, one replica. A hand drags a slider with real mouse events, a position
at a time and at a person's pace, and the page notes for each move when the slider's `input` event came, when the
picture in the page was another, and when the frame that shows it had been made: a message that is posted in the first
`requestAnimationFrame` after the change arrives when that frame's style, layout and paint are done. The kernel notes
what it did between: in turn the run itself, its numbers, its story, the timeline's shapes, the SVG.
"""

from __future__ import annotations

import json
import random
import statistics
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.measure import FULL, Bound, Effort, Row, Section
from tools.browser import NotebookPage, Unusable, chromium, lab_server

NAME = "follow-the-hand"
MEDIAN, NINTH = 80.0, 120.0  # ms
SLIDERS = ("failure_threshold", "cooldown_period", "timeout", "outage, begin")
MOVES = {True: 60, False: 16}  # whether in full
PAUSES = (0.06, 0.2)  # seconds between a picture and the next move, at random: a hand that looks

#: The parts of a press, as (name, module, attribute), in the order in which they are done.
PARTS = (
    ("reading the settings", "labkit.scenario.spec.model", "Scenario.with_values"),
    ("the run", "labkit.widgets.explorer.model", "run_scenario"),
    ("its numbers", "labkit.widgets.explorer.model", "metrics"),
    ("its story", "labkit.widgets.explorer.model", "story"),
    ("the timeline's shapes", "labkit.widgets.explorers.outage", "trace_timeline"),
    ("the SVG", "labkit.plots.draw.picture", "Picture.svg"),
    ("the YAML", "labkit.widgets.explorer.model", "ExplorerModel.yaml"),
    ("in the kernel, all of it", "labkit.widgets.stage", "Stage._hear"),
)

CELL = f"""
import importlib, json, time
from functools import wraps
from labkit import outage_explorer

spent, ends = {{}}, []

def timed(name, module, attribute):
    place = importlib.import_module(module)
    *inside, last = attribute.split(".")
    for each in inside:
        place = getattr(place, each)
    plain = getattr(place, last)
    @wraps(plain)
    def call(*args, **more):
        began = time.time()
        try:
            return plain(*args, **more)
        finally:
            spent.setdefault(name, []).append((began, time.time()))
    setattr(place, last, call)

for part in {PARTS!r}:
    timed(*part)
outage_explorer()
"""

TELL = "print(json.dumps(spent))"

WATCH = """() => {
    const root = document.querySelector('section.labkit');
    const picture = root.querySelector('.labkit-picture');
    const told = window.labkitMoves = [];
    let move = null;
    root.addEventListener('input', () => { move = {input: performance.timeOrigin + performance.now()}; }, true);
    new MutationObserver(() => {
        if (move === null || move.changed) return;
        const mine = move;
        mine.changed = performance.timeOrigin + performance.now();
        requestAnimationFrame(() => {
            const channel = new MessageChannel();
            channel.port1.onmessage = () => {
                mine.painted = performance.timeOrigin + performance.now();
                told.push(mine);
            };
            channel.port2.postMessage(null);
        });
    }).observe(picture, {childList: true, subtree: true, attributes: true, characterData: true});
}"""


def run(effort: Effort) -> Section:
    moves = MOVES[effort.runs >= FULL.runs]
    section = Section(
        NAME,
        f"from a slider's move to changed pixels, outage_explorer in JupyterLab and Chromium, {moves} moves",
        ("ms", "median", "9 of 10", "most"),
    )
    try:
        timed = measured(moves)
    except Unusable as problem:
        section.notes.append(f"{NAME}: skipped, {problem}")
        return section
    tell(section, timed, moves)
    return section


def measured(moves: int) -> list[dict[str, Any]]:
    """Each move, in ms: "input", "changed", "painted" in the page's time, and what the kernel did in "parts"."""
    with (
        tempfile.TemporaryDirectory(prefix="labkit-bench-") as private,
        chromium() as browser,
        lab_server(Path(private) / "labkit-course", Path(private) / "server") as server,
    ):
        (server.folder / "hand.ipynb").write_text(json.dumps(notebook(CELL, TELL)), "utf-8")
        opened = NotebookPage(browser, server, width=1280, height=1000)
        try:
            opened.open("hand.ipynb")
            opened.run_all()
            page = opened.page
            page.wait_for_selector(".jp-OutputArea-output section.labkit .labkit-picture svg")
            page.evaluate(WATCH)
            pause = random.Random(7)
            for number, slider in enumerate(SLIDERS):
                drag(opened, slider, moves // len(SLIDERS), pause, number)
            told = page.evaluate("window.labkitMoves")
            page.locator(".jp-CodeCell").last.locator(".cm-line").first.click()
            page.keyboard.press("Control+Enter")
            opened.until("/\\[3\\]/.test([...document.querySelectorAll('.jp-InputPrompt')].at(-1).textContent)")
            spent = json.loads(page.locator(".jp-CodeCell").last.locator(".jp-OutputArea-output").inner_text())
            assert opened.complaints == [], opened.complaints
        finally:
            opened.close()
    assert len(told) == moves, f"{len(told)} of {moves} moves changed the picture"
    for move in told:
        move["parts"] = {
            name: sum((end - start) * 1e3 for start, end in spans
                      if move["input"] - 2.0 <= start * 1e3 and end * 1e3 <= move["painted"])
            for name, spans in spent.items()
        }  # fmt: skip
    return list(told)


def notebook(*cells: str) -> dict[str, Any]:
    """A notebook of these cells."""
    return {
        "cells": [
            {"cell_type": "code", "execution_count": None, "id": f"c{n}", "metadata": {}, "outputs": [], "source": code}
            for n, code in enumerate(cells)
        ],
        "metadata": {"kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def drag(opened: NotebookPage, name: str, moves: int, pause: random.Random, number: int) -> None:
    """From the defaults on, take the slider's thumb and move it a step each time that the picture has followed."""
    page = opened.page
    page.get_by_role("button", name="Reset", exact=True).click()
    page.wait_for_timeout(1000)
    page.evaluate(f"window.labkitMoves.length = {number * moves}")
    slider = page.get_by_role("slider", name=name, exact=True)
    slider.scroll_into_view_if_needed()
    box = slider.bounding_box()
    least, most, value = (float(slider.evaluate(f"each => +each.{key}")) for key in ("min", "max", "value"))
    thumb = 16.0
    x = box["x"] + thumb / 2 + (box["width"] - thumb) * (value - least) / (most - least)
    y = box["y"] + box["height"] / 2
    step = (box["width"] - thumb) * float(slider.evaluate("each => +each.step")) / (most - least)
    page.mouse.move(x, y)
    page.mouse.down()
    before = len(page.evaluate("window.labkitMoves"))
    for move in range(1, moves + 1):
        x += max(step, 2.0)
        page.mouse.move(x, y)
        opened.until(f"window.labkitMoves.length > {before + move - 1}", limit=20.0, says=f"move {move} of {name}")
        page.wait_for_timeout(1e3 * pause.uniform(*PAUSES))
    page.mouse.up()


def tell(section: Section, timed: list[dict[str, Any]], moves: int) -> None:
    """Rows and promises."""
    whole = [move["painted"] - move["input"] for move in timed]
    rows = {"from the move to the pixels": whole}
    each = moves // len(SLIDERS)
    for number, name in enumerate(SLIDERS):
        rows[f"  {name}"] = whole[number * each : (number + 1) * each]
    parts = {name: [move["parts"].get(name, 0.0) for move in timed] for name, _, _ in PARTS}
    shares = {f"  {name}": times for name, times in parts.items()}
    kernel = parts[PARTS[-1][0]]
    shares["  on the way to the kernel and back, and into the page"] = [
        move["changed"] - move["input"] - inside for move, inside in zip(timed, kernel, strict=True)
    ]
    shares["  from the changed page to the painted frame"] = [move["painted"] - move["changed"] for move in timed]
    for name, times in rows.items():
        section.rows.append(Row(name, figures(times), {"median": statistics.median(times) / 1e3}))
    section.heading("where it goes")
    for name, times in shares.items():
        section.rows.append(Row(name, figures(times), {"median": statistics.median(times) / 1e3}))
    section.bounds += [
        Bound("milliseconds from the move to the pixels, median", (statistics.median(whole),), MEDIAN, places=0),
        Bound("milliseconds from the move to the pixels, 9 of 10 within", (ninth(whole),), NINTH, places=0),
    ]


def ninth(times: list[float]) -> float:
    """Within which nine of ten lie."""
    return statistics.quantiles(times, n=10)[-1]


def figures(times: list[float]) -> tuple[str, str, str]:
    return f"{statistics.median(times):.1f}", f"{ninth(times):.1f}", f"{max(times):.1f}"
