"""`flow_view`: a run played back. Requests travel from their callers through the layers to the service, and back."""

from __future__ import annotations

import os
from typing import Any

import traitlets

from labkit.scenario import Scenario, Trace
from labkit.widgets.flow.model import FlowModel
from labkit.widgets.pages import compose
from labkit.widgets.stage import Stage

__all__ = ["FlowView", "flow_page", "flow_view"]


def flow_page(own: str, build: str) -> tuple[str, str]:
    """Return script and style sheet of a page with the stage on which requests travel.

    Args:
        own: the page's own script below `labkit/widgets`, without its ending.
        build: the function in it: build(root, ask, unique, model) gives `{paint, close}`.
    """
    return compose("stage", "explorer/explorer.css", "flow/flow", own, build=build)


class FlowView(Stage):
    """The playback on a page; make it with `flow_view`."""

    _esm, _css = flow_page("flow/flow_page", "flowPage")
    flow = traitlets.Dict().tag(sync=True)

    @traitlets.default("flow")
    def _flow(self) -> dict[str, Any]:
        data: dict[str, Any] = self._model.data()  # type: ignore[attr-defined]
        return data

    def close(self) -> None:
        """Let go of everything, the run's data too."""
        super().close()
        self.flow = {}


def flow_view(
    run: Trace | Scenario | str | os.PathLike[str],
    *,
    scenario: Scenario | None = None,
    function: str | None = None,
    calls: int = 3000,
    rows: int = 4,
    begin: float | None = None,
) -> FlowView:
    """Play a run back: each mark is a request, on its way through the real middleware.

    Args:
        run: a trace, a scenario (which is run), or what `load_scenario` takes.
        scenario: what was run, for a trace: without it only those layers are known that did anything.
        function: whose calls to show; by default that which was called most.
        calls: how many to show, about; a fair sample where there are more.
        rows: how many replicas to draw, at most four.
        begin: the second at which it stands at first; by default a little before the first thing that happens.

    Raises:
        LabkitError: the scenario cannot be read or run, or an argument is out of range.
    """
    return FlowView(FlowModel(run, scenario=scenario, function=function, calls=calls, rows=rows, begin=begin))
