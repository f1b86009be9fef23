"""The base of every explorer: one class that owns an explorer's state and its hand-over between threads.

ipykernel 7 runs a widget's callbacks in a subshell, which is another thread with another event loop, and sometimes in
the main one. So a press is handled under a lock, whoever brings it, and the view is handed to the page under the same
lock: views reach the page in the order in which they came about. Nothing else in `labkit.widgets` touches threads.

A view is one trait of plain data. It goes to the page and never comes back, so two pages on one kernel cannot disagree:
what a page has of its own (a number half typed, a choice not yet given) stays there.
"""

from __future__ import annotations

import logging
import threading
from base64 import b64encode
from collections.abc import Mapping
from typing import Any, Protocol

import anywidget
import traitlets

from labkit.errors import LabkitError
from labkit.plots import Picture

__all__ = ["Stage", "StageModel"]

_logger = logging.getLogger(__name__)
_SCALE = 1.5  # of the still picture, which notebooks store and IPython's history keeps, run for run


class StageModel(Protocol):
    """What an explorer is without a front end."""

    def press(self, message: Mapping[str, Any]) -> None:
        """Do what a learner pressed."""

    def view(self) -> dict[str, Any]:
        """What the page shows, as plain data."""

    def still(self) -> Picture:
        """The picture that stands for it where no kernel runs."""

    def words(self) -> str:
        """It in one or two sentences, for where nothing but text is shown."""

    def close(self) -> None:
        """Let go of everything."""


class _Gone:
    """What is left of an explorer that was closed."""

    def __init__(self, words: str) -> None:
        self._words = words

    def press(self, message: Mapping[str, Any]) -> None:
        """Nothing."""

    def view(self) -> dict[str, Any]:
        """Nothing."""
        return {}

    def still(self) -> Picture:
        """No picture, but the words."""
        return Picture(20.0, 10.0, (), "A closed explorer", self._words)

    def words(self) -> str:
        """What it said last."""
        return self._words

    def close(self) -> None:
        """It is."""


class _Cells:
    """Which explorers a notebook's cell made, so that running it again frees those of the run before.

    ipywidgets keeps every widget for ever, shown or not; without this, 200 runs of a cell are 200 explorers in memory.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: dict[str, tuple[str, list[Stage]]] = {}

    def enter(self, stage: Stage) -> None:
        """Note who made an explorer, and close what the same cell made in an earlier run."""
        cell, run = _running_cell()
        if cell is None:
            return
        with self._lock:
            earlier, stages = self._made.get(cell, ("", []))
            stale = stages if earlier != run else []
            self._made[cell] = (run, [stage] if earlier != run else [*stages, stage])
        for old in stale:
            old.close()

    def leave(self, stage: Stage) -> None:
        """Forget an explorer that was closed."""
        with self._lock:
            for _, stages in self._made.values():
                if stage in stages:
                    stages.remove(stage)


def _running_cell() -> tuple[str | None, str]:
    """The id of the cell that is being run, and that of the run; (None, "") outside a notebook."""
    try:
        from IPython.core.getipython import get_ipython
    except ImportError:
        return None, ""
    kernel = getattr(get_ipython(), "kernel", None)
    if kernel is None:
        return None, ""
    parent: Mapping[str, Any] = kernel.get_parent("shell") or {}
    cell = (parent.get("metadata") or {}).get("cellId")
    run = (parent.get("header") or {}).get("msg_id")
    return (cell, str(run)) if isinstance(cell, str) else (None, "")


_cells = _Cells()


class Stage(anywidget.AnyWidget):
    """An explorer on a page. A subclass gives its `_esm` and `_css`, both from `page`.

    Args:
        model: what it shows.
    """

    view = traitlets.Dict().tag(sync=True)

    def __init__(self, model: StageModel) -> None:
        self._lock = threading.RLock()
        self._model = model
        self._closed = False
        super().__init__(view=model.view())
        self.on_msg(self._hear)
        _cells.enter(self)

    def press(self, message: Mapping[str, Any]) -> None:
        """Do what a learner pressed and show what came of it. Any thread may call it."""
        with self._lock:
            if self._closed:
                return
            trouble = ""
            try:
                self._model.press(message)
            except LabkitError as error:
                trouble = str(error)
            except Exception:
                _logger.exception("a press could not be handled: %s", message)
                trouble = "That could not be done; reset it, or run the cell again."
            view = self._model.view()
            self.view = view | {"notice": trouble} if trouble else view

    def _hear(self, widget: object, content: Any, buffers: object) -> None:
        """A message of the page. Every one is answered, so that the page knows that somebody listens."""
        if not isinstance(content, Mapping):
            return
        try:
            if "do" in content:
                self.press(content)
        except KeyboardInterrupt:  # "Interrupt kernel", which is meant for what runs, and that is this press
            with self._lock:
                if not self._closed:
                    self.view = self._model.view() | {"notice": "Interrupted: what is shown is of before."}
        finally:
            with self._lock:
                if not self._closed:
                    self.send({"answered": content.get("ask")})

    def close(self) -> None:
        """Let go of everything; the page removes the view."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            words = self._model.words()
            self._model.close()
            self.on_msg(self._hear, remove=True)
            layout = self.layout
            super().close()
            if layout is not None:
                layout.close()
            # IPython's Out keeps what a cell has shown, each time that it was run: keep no more of it than its words.
            self._model = _Gone(words)
            self.view = {}
        _cells.leave(self)

    def __repr__(self) -> str:
        with self._lock:
            return str(self._model.words())

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """The live view, and for pages without a kernel a picture and words."""
        made = super()._repr_mimebundle_(**kwargs)
        if made is None:
            return None
        data, metadata = made if isinstance(made, tuple) else (made, {})
        with self._lock:
            still, words = self._model.still(), self._model.words()
        data = {**data, "text/plain": words, "image/png": b64encode(still.png(_SCALE)).decode("ascii")}
        size = {"width": round(still.width), "height": round(still.height), "alt": f"{words} {still.alt}"}
        return data, {**metadata, "image/png": size}
