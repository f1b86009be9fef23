"""Executes the course's notebooks and saves them so that two runs are equal to the byte.

python -m tools.notebooks [--check] [PATH...]: all notebooks, or those named (files or folders). With --check nothing is
written: it says what executing and saving would change, output by output and mime by mime, and ends with 1 if anything
would. Either way it names what breaks the rules of tools/notebook_rules.py.

What is saved: the cells with their ids, execution counts from 1, outputs, and only the metadata that a page needs. What
differs from run to run is left out or named steadily (METADATA and `tidy` in tools/notebook_file.py).
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import hashlib
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from typing import Any

import ipykernel.kernelspec
import nbformat
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from traitlets import default

from tools.notebook_file import ROOT, NotebookError, as_text, load, shown, tidy, write
from tools.notebook_rules import findings

NOTEBOOKS = ROOT / "notebooks"
CELL_TIMEOUT = 60  # seconds; a lesson's cell takes one or two


# ------------------------------------------------------------------------------------------------------------- execute


class _Specs(KernelSpecManager):
    """Knows one kernel: the interpreter that runs this, whatever else is installed for the user under that name."""

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        about: Any = ipykernel.kernelspec.get_kernel_dict()
        return KernelSpec(resource_dir=ipykernel.kernelspec.RESOURCES, **about)


class _Kernel(AsyncKernelManager):
    @default("kernel_spec_manager")
    def _only_this_one(self) -> KernelSpecManager:
        return _Specs()


def execute(path: Path, *, timeout: int = CELL_TIMEOUT) -> nbformat.NotebookNode:
    """The notebook run from top to bottom in a fresh kernel, and tidied.

    The kernel starts in the notebook's folder, as JupyterLab does it, and without the user's own IPython profile.
    """
    notebook = load(path)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.execution_count, cell.outputs = None, []
    at: list[int] = [0]
    client = NotebookClient(
        notebook,
        timeout=timeout,
        startup_timeout=60,
        kernel_name="python3",
        kernel_manager_class=_Kernel,
        # On loopback and for a minute: its advice to encrypt is no news to whoever runs this.
        extra_arguments=["--log-level=CRITICAL"],
        resources={"metadata": {"path": str(path.parent)}},
        record_timing=False,
        store_widget_state=False,
        on_cell_start=lambda cell, cell_index: at.__setitem__(0, cell_index),
    )
    with tempfile.TemporaryDirectory(prefix="labkit-notebooks-") as profile:
        try:
            asyncio.run(client.async_execute(env={**os.environ, "IPYTHONDIR": profile}))
        except (CellTimeoutError, DeadKernelError, CellExecutionError) as error:
            where = f"{shown(path)}: cell {at[0] + 1} ({notebook.cells[at[0]].id})"
            if isinstance(error, CellTimeoutError):
                raise NotebookError(f"{where} takes longer than {timeout} s") from None
            if isinstance(error, DeadKernelError):
                raise NotebookError(f"{where} ends the kernel's process") from None
            raise NotebookError(f"{where} raises {error.ename}: {error.evalue}\n{error.traceback}") from None
    return tidy(notebook, models=[str(name) for name in client.widget_state])


# ------------------------------------------------------------------------------------------------------------- compare


def differences(stored: nbformat.NotebookNode, fresh: nbformat.NotebookNode) -> Iterator[str]:
    """What executing anew changed, a sentence each: cell by cell, output by output, mime by mime."""
    if stored.metadata != fresh.metadata:
        yield "the notebook's metadata differ"
    for number, (old, new) in enumerate(zip(stored.cells, fresh.cells, strict=True), 1):
        where = f"cell {number} ({new.id})"
        if old.metadata != new.metadata:
            yield f"{where}: its metadata differ"
        if new.cell_type != "code":
            continue
        if old.execution_count != new.execution_count:
            yield f"{where}: its execution count is {old.execution_count}, not {new.execution_count}"
        if len(old.outputs) != len(new.outputs):
            yield f"{where}: it holds {len(old.outputs)} outputs, running it gives {len(new.outputs)}"
            continue
        for place, (had, got) in enumerate(zip(old.outputs, new.outputs, strict=True), 1):
            for what in output_differences(had, got):
                yield f"{where}, output {place}: {what}"


def output_differences(had: Any, got: Any) -> Iterator[str]:
    if had.output_type != got.output_type:
        yield f"it was a {had.output_type}, running gives a {got.output_type}"
        return
    for key in sorted((had.keys() | got.keys()) - {"data"}):
        if had.get(key) != got.get(key):
            yield f"its {key} was {brief(had.get(key))}, running gives {brief(got.get(key))}"
    before, after = had.get("data", {}), got.get("data", {})
    for mime in sorted(before.keys() | after.keys()):
        if mime not in after:
            yield f"running gives no {mime}"
        elif mime not in before:
            yield f"running gives a {mime} that is not stored"
        elif before[mime] != after[mime] and not same_pixels(mime, before[mime], after[mime]):
            yield f"its {mime} was {brief(before[mime])}, running gives {brief(after[mime])}"


def brief(value: Any) -> str:
    text = repr(value)
    return (
        text
        if len(text) <= 200
        else f"{text[:120]}... ({len(text)} characters, {hashlib.sha256(text.encode()).hexdigest()[:8]})"
    )


def same_pixels(mime: str, one: str, other: str) -> bool:
    """Whether two PNG are the same picture: another build of zlib packs the same pixels into other bytes."""
    if mime != "image/png":
        return False
    from PIL import Image

    try:
        pictures = [Image.open(BytesIO(base64.b64decode(data))).convert("RGBA") for data in (one, other)]
    except (OSError, ValueError):
        return False
    return pictures[0].size == pictures[1].size and pictures[0].tobytes() == pictures[1].tobytes()


def keep_pictures(stored: nbformat.NotebookNode, fresh: nbformat.NotebookNode) -> None:
    """Takes the stored bytes of pictures whose pixels have not changed."""
    for old, new in zip(stored.cells, fresh.cells, strict=True):
        for had, got in zip(old.get("outputs", ()), new.get("outputs", ()), strict=False):
            before, after = had.get("data", {}).get("image/png"), got.get("data", {}).get("image/png")
            if before is not None and after is not None and same_pixels("image/png", before, after):
                got["data"]["image/png"] = before


# ----------------------------------------------------------------------------------------------------------------- main


def find(paths: Iterable[Path]) -> list[Path]:
    """The notebooks named, and those below the folders named."""
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            below = sorted(path.rglob("*.ipynb"))
            found += [name for name in below if not any(part.startswith(".") for part in name.relative_to(path).parts)]
        elif path.is_file():
            found.append(path)
        else:
            raise NotebookError(f"there is no notebook {path}")
    return found


def course_of(path: Path) -> Path:
    """The folder whose notebooks/ holds this one."""
    return next((folder.parent for folder in path.parents if folder.name == "notebooks"), ROOT)


def renew(path: Path, *, check: bool = False, timeout: int = CELL_TIMEOUT) -> list[str]:
    """Executes and saves one notebook (or, with `check`, leaves the file alone); what changed, a sentence each."""
    stored = load(path)
    before = path.read_text("utf-8")
    fresh = execute(path, timeout=timeout)
    keep_pictures(stored, fresh)
    text = as_text(fresh)
    if text == before:
        return []
    if not check:
        write(path, text)
    changed = list(differences(stored, fresh))
    return changed or ["the file is written otherwise (order of keys, indent, ids, format)"]


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.notebooks", description=__doc__.split("\n\n")[0])
    parser.add_argument(
        "paths", nargs="*", type=Path, metavar="PATH", help="notebooks or folders (default: notebooks/)"
    )
    parser.add_argument("--check", action="store_true", help="only say whether saving would change anything")
    parser.add_argument(
        "--timeout", type=int, default=CELL_TIMEOUT, help="seconds a cell may take (default: %(default)s)"
    )
    args = parser.parse_args(argv)
    failed = changed = 0
    try:
        paths = find(path.resolve() for path in args.paths or [NOTEBOOKS])
    except NotebookError as error:
        print(f"notebooks: {error}", file=sys.stderr)
        return 2

    def attempt(path: Path) -> list[str] | NotebookError:
        try:
            return renew(path, check=args.check, timeout=args.timeout)
        except NotebookError as error:
            return error

    with ThreadPoolExecutor(max_workers=min(4, os.cpu_count() or 1)) as pool:
        for path, result in zip(paths, pool.map(attempt, paths), strict=True):
            if isinstance(result, NotebookError):
                failed += 1
                print(f"notebooks: {result}", file=sys.stderr)
                continue
            changed += bool(result)
            state = "as it was" if not result else "would change" if args.check else "saved anew"
            print(f"  {state:<12}  {shown(path)}", flush=True)
            for sentence in result if args.check else ():
                print(f"    {sentence}", flush=True)
    wrong = [sentence for path in paths for sentence in findings(path, course_of(path))]
    for sentence in wrong:
        print(f"notebooks: {sentence}", file=sys.stderr)
    print(
        f"notebooks: {len(paths)} run, {changed} {'would change' if args.check else 'changed'}, {failed} failed, "
        f"{len(wrong)} findings"
    )
    return 1 if failed or wrong or (args.check and changed) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
