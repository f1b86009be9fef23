"""Pictures of the course in a real JupyterLab, for README and for looking at.

python -m tools.screenshots: writes docs/lab.png, the lab with the stepper at work.
python -m tools.screenshots FOLDER [NOTEBOOK...]: all notebooks, or those named, after a run, whole, in both themes.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from io import BytesIO
from pathlib import Path
from typing import Any

from tools.browser import ROOT, LabServer, NotebookPage, Unusable, chromium, lab_server
from tools.notebooks import NOTEBOOKS, find

LAB = ROOT / "docs" / "lab.png"
STEPPER = "notebooks/concepts/02-three-states.ipynb"
WIDTH, HEIGHT = 1600, 1000
LARGEST = 300_000  # bytes; a page that shows it should not wait for it
THEMES = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}

BAR_AND_TOOLBAR = 140  # pixels of JupyterLab around a notebook


def pack(png: bytes) -> bytes:
    """The same picture in fewer bytes; where that is not enough, in fewer colours."""
    from PIL import Image

    picture: Any = Image.open(BytesIO(png)).convert("RGB")
    file = BytesIO()
    picture.save(file, "PNG", optimize=True)
    if len(file.getvalue()) > LARGEST:
        file = BytesIO()
        picture.quantize(256, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(
            file, "PNG", optimize=True
        )
    return file.getvalue()


def lab_picture(browser: Any, server: LabServer) -> bytes:
    """The lab with the stepper in the middle of a story: opened by two failures, and a call rejected."""
    opened = NotebookPage(browser, server, width=WIDTH, height=HEIGHT)
    try:
        opened.open(STEPPER)
        opened.run_all()
        page = opened.page
        stepper = page.locator(".jp-OutputArea-output section.labkit").first
        box = stepper.get_by_label("Predict first")
        if box.is_checked():
            box.click()
        story = ["A call arrives", "Failure", "A call arrives", "Failure", "A call arrives"]
        for steps, press in enumerate(story, 1):
            stepper.get_by_role("button", name=press, exact=True).click()
            opened.until(f"document.querySelector('section.labkit').dataset.steps === '{steps}'")
        stepper.evaluate("""each => {
            document.activeElement.blur();
            each.closest('.jp-CodeCell').scrollIntoView({block: 'center'});
        }""")
        page.mouse.move(WIDTH - 5, HEIGHT - 5)
        page.wait_for_timeout(500)  # the last transition of a bar
        picture: bytes = page.screenshot()
        return picture
    finally:
        opened.close()


def whole_notebook(browser: Any, server: LabServer, notebook: str, theme: str) -> bytes:
    """A notebook from its title to its take-aways, run, in a window high enough for all of it."""
    opened = NotebookPage(browser, server, width=1200, height=900)
    try:
        opened.open(notebook)
        opened.theme(theme)
        opened.run_all()
        page = opened.page
        page.keyboard.press("Control+b")
        for _ in range(2):  # what comes into view may still grow
            height = page.locator(".jp-WindowedPanel-viewport").first.evaluate("each => each.scrollHeight")
            page.set_viewport_size({"width": 1200, "height": int(height) + BAR_AND_TOOLBAR})
            page.wait_for_timeout(700)
        page.locator(".jp-WindowedPanel-outer").first.evaluate("each => { each.scrollTop = 0 }")
        picture: bytes = page.screenshot()
        return picture
    finally:
        opened.close()


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.screenshots")
    parser.add_argument("folder", nargs="?", type=Path, help="where pictures of all notebooks go")
    parser.add_argument("notebooks", nargs="*", type=Path, help="only these")
    args = parser.parse_args(argv)
    try:
        with (
            tempfile.TemporaryDirectory(prefix="labkit-screenshots-") as private,
            lab_server(Path(private) / "labkit-course", Path(private) / "server") as server,
            chromium() as browser,
        ):
            if args.folder is None:
                picture = pack(lab_picture(browser, server))
                LAB.parent.mkdir(exist_ok=True)
                LAB.write_bytes(picture)
                print(f"screenshots: {LAB.relative_to(ROOT)}, {len(picture) // 1000} kB")
                return 0
            args.folder.mkdir(parents=True, exist_ok=True)
            for path in find(path.resolve() for path in args.notebooks or [NOTEBOOKS]):
                for name, theme in THEMES.items():
                    target = args.folder / f"{path.stem}-{name}.png"
                    notebook = path.relative_to(ROOT).as_posix()
                    target.write_bytes(whole_notebook(browser, server, notebook, theme))
                    server.end_kernels()
                    print(f"screenshots: {target}", flush=True)
    except Unusable as problem:
        print(f"screenshots: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
