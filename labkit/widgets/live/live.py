"""`live_view`: the stage of `flow_view`, fed by a stack that runs now against a real HTTP service."""

from __future__ import annotations

from typing import Any

import traitlets

from labkit.widgets.flow.flow import flow_page
from labkit.widgets.live.model import LiveModel
from labkit.widgets.stage import Stage

__all__ = ["LiveView", "live_view"]


class LiveView(Stage):
    """The running stack on a page; make it with `live_view`."""

    _esm, _css = flow_page("live/live", "livePage")
    flow = traitlets.Dict().tag(sync=True)

    def __init__(self, model: LiveModel) -> None:
        super().__init__(model)
        model.connect(self._tell)

    @traitlets.default("flow")
    def _flow(self) -> dict[str, Any]:
        data: dict[str, Any] = self._model.data()  # type: ignore[attr-defined]
        return data

    def _tell(self, number: int, batch: dict[str, Any]) -> bool:
        """Send a batch to the page, from the run's thread. False if somebody is just pressing something.

        It does not wait for its turn: whoever presses "stop" has the lock and waits for the run's thread.
        """
        if not self._lock.acquire(blocking=False):
            return False
        try:
            if not self._closed:
                self.send({"live": batch, "number": number})
                if "ended" in batch:
                    self.view = self._model.view()
            return True
        finally:
            self._lock.release()


def live_view(*, minutes: float = 5.0, **settings: Any) -> LiveView:
    """Run a stack now, for a room to watch: real requests, a real HTTP service, and buttons to break and mend it.

    Args:
        minutes: after how long a run stops by itself. Running the cell again, closing the widget or restarting the
            kernel ends it at once.
        settings: `failure_threshold` 5, `cooldown_period` 10 s, `half_open_success_threshold` 2, `probe_timeout` 2 s,
            `timeout` 2 s (or None), `attempts` 1 (more put a retry outside the breaker), `fallback` False, `replicas`
            1 to 4, `rate` 8 calls a second (1 to 40), `latency` 0.25 s, `fault` "healthy" (what the service does at
            first), `wide` False (True for the whole width of the page).

    Raises:
        LabkitError: a setting is unknown or out of range.
    """
    return LiveView(LiveModel(minutes=minutes, **settings))
