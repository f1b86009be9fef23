"""The widget of every explorer: a `Stage` whose page is `explorer.js`, with an explorer's own script after it."""

from __future__ import annotations

from pathlib import Path

from labkit.widgets.stage import Stage

__all__ = ["Explorer", "explorer_page"]

_HERE = Path(__file__).parent


def explorer_page(own: str | None = None) -> tuple[str, str]:
    """Return script and style sheet: the stage's, the explorer's, then those of one explorer.

    Args:
        own: the name of an explorer's own files beside this one; its script has `const own = () => ({build, paint})`.
    """
    parts = ["stage", "explorer", *([own] if own else [])]
    script = "\n".join((_HERE / f"{part}.js").read_text("utf-8") for part in parts)
    style = "\n".join(path.read_text("utf-8") for part in parts if (path := _HERE / f"{part}.css").is_file())
    extra = "own()" if own else "null"
    render = f"stage(model, el, (root, ask, unique) => explorer(root, ask, unique, {extra}))"
    return f"{script}\nexport default {{ render: ({{ model, el }}) => {render} }};\n", style


class Explorer(Stage):
    """An explorer without a script of its own."""

    _esm, _css = explorer_page()
