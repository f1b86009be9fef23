"""The widget of every explorer: a `Stage` whose page is `explorer.js`, with an explorer's own script after it."""

from __future__ import annotations

from labkit.widgets.pages import compose
from labkit.widgets.stage import Stage

__all__ = ["Explorer", "explorer_page"]


def explorer_page(own: str | None = None) -> tuple[str, str]:
    """Return script and style sheet: the stage's, the explorer's, then those of one explorer.

    Args:
        own: the name of an explorer's own files in `explorers/`; its script has `const own = () => ({build, paint})`.
    """
    parts = ("stage", "explorer/explorer", *([f"explorers/{own}"] if own else ()))
    extra = "own()" if own else "null"
    return compose(*parts, build=f"(root, ask, unique) => explorer(root, ask, unique, {extra})")


class Explorer(Stage):
    """An explorer without a script of its own."""

    _esm, _css = explorer_page()
