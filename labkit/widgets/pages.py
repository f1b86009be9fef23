"""Composes an explorer's page: the scripts and style sheets of its parts, in order, and the one function it exports."""

from __future__ import annotations

from pathlib import Path

__all__ = ["compose"]

_HERE = Path(__file__).parent


def compose(*parts: str, build: str) -> tuple[str, str]:
    """Return a page's script and style sheet.

    Args:
        parts: its files below this folder, without their endings: "stage", "explorer/explorer". A part may have a
            script, a style sheet or both; with an ending ("explorer/explorer.css") it is that file alone.
        build: JavaScript that is called as `(root, ask, unique, model)` and gives the page, to be painted.
    """
    script, style = (
        "\n".join(path.read_text("utf-8") for part in parts for path in _files(part, ending))
        for ending in (".js", ".css")
    )
    render = f"stage(model, el, (root, ask, unique) => ({build})(root, ask, unique, model))"
    return f"{script}\nexport default {{ render: ({{ model, el }}) => {render} }};\n", style


def _files(part: str, ending: str) -> list[Path]:
    """A part's file of that ending, if it has one."""
    path = _HERE / part
    if path.suffix:
        return [path] if path.suffix == ending else []
    path = path.with_suffix(ending)
    return [path] if path.is_file() else []
