"""What `flow_view` is without a front end: a run as journeys, the timeline under it, and one call that is followed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from labkit.errors import ConfigError, LabkitError
from labkit.plots import Picture, trace_timeline
from labkit.plots.draw.style import MARKS, STATES
from labkit.plots.runs.binned import axis_of
from labkit.plots.runs.trace import GUTTER, MARGIN, bins_in
from labkit.scenario import Scenario, Trace, load_scenario, metrics, run_scenario, story
from labkit.scenario.read.journeys import flow, journey_of

__all__ = ["LOOK", "FlowModel"]

LOOK: Mapping[str, Any] = {
    "states": {name: style._asdict() for name, style in STATES.items()},
    "marks": {name: style._asdict() for name, style in MARKS.items()},
}
"""The look of `labkit.plots.draw.style`, for the page."""

_WIDE, _NARROW = 860.0, 480.0
_BEFORE = 3.0  # seconds before the first thing that happens, where the playback stands at first


class FlowModel:
    """A run to be played back; see `flow_view` for the arguments.

    Attributes:
        trace: the run.
        scenario: what was run, or None.
        flow: the run as journeys.
    """

    def __init__(
        self,
        run: Trace | Scenario | str | os.PathLike[str],
        *,
        scenario: Scenario | None = None,
        function: str | None = None,
        calls: int = 3000,
        rows: int = 4,
        begin: float | None = None,
    ) -> None:
        for name, value, most in (("calls", calls, 20_000), ("rows", rows, 4)):
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
                raise ConfigError(f"{name}: found {value!r}; it is a whole number from 1 to {most:,}")
        if not isinstance(run, Trace):
            scenario = run if isinstance(run, Scenario) else load_scenario(run)
            run = run_scenario(scenario)
        self.trace = run
        self.scenario = scenario
        self.flow = flow(run, scenario, function=function, most=calls, rows=rows)
        first = min([at for one in self.flow.breakers for at, _ in one.states[1:]] +
                    [fault.start for one in self.flow.services for fault in one.faults], default=0.0)  # fmt: skip
        if begin is not None and not 0.0 <= begin <= run.until:
            raise ConfigError(f"begin: found {begin!r}; it is a number of seconds from 0 to {run.until:g}")
        self._begin = max(0.0, first - _BEFORE) if begin is None else begin
        numbers = metrics(run)
        self._sentences = story(run, numbers)
        self._narrow = False
        self._notice = ""
        self._followed: list[int] | None = None
        self._times_followed = 0
        self._pictures: dict[float, Picture] = {}

    def data(self) -> dict[str, Any]:
        """The run for the page, which never changes."""
        return {**self.flow.to_dict(), "look": LOOK, "begin": self._begin}

    def press(self, message: Mapping[str, Any]) -> None:
        """Do what a watcher did.

        Args:
            message: "do" names it: "follow" with "call", a number as typed, counted from 1; "narrow" with "on".
        """
        do = message.get("do")
        self._notice = ""
        if do == "narrow":
            self._narrow = bool(message.get("on"))
        elif do == "follow":
            typed = str(message.get("call", "")).strip()
            try:
                number = int(typed.replace(",", "").replace(" ", ""))
            except ValueError:
                many = len(self.trace.calls)
                self._notice = f"A call to follow: found “{typed[:20]}”; it is a whole number from 1 to {many:,}."
                return
            try:
                journey = journey_of(self.trace, self.flow, number - 1, self.scenario)
            except LabkitError as error:
                self._notice = f"{str(error)[:1].upper()}{str(error)[1:]}."
                return
            self._followed = journey.plain()
            self._times_followed += 1

    def view(self) -> dict[str, Any]:
        """What changes on the page: the timeline, as wide as the page, and the call that is followed."""
        width = _NARROW if self._narrow else _WIDE
        axis = axis_of([self.trace], most=bins_in(width - GUTTER - MARGIN))
        return {
            "title": "Playback of a run",
            "svg": self._picture(width).svg(themed=True),
            "line": {"width": width, "left": GUTTER, "right": width - MARGIN, "end": axis.end},
            "sentences": list(self._sentences),
            "notice": self._notice,
            "followed": self._followed,
            "followed_again": self._times_followed,
        }

    def _picture(self, width: float) -> Picture:
        found = self._pictures.get(width)
        if found is None:
            found = self._pictures[width] = trace_timeline(self.trace, width=width)
        return found

    def still(self) -> Picture:
        """The run's timeline, for where no kernel runs."""
        return self._picture(_WIDE)

    def words(self) -> str:
        """The run in sentences, for where nothing but text is shown."""
        return f"Playback of a run: {self.trace.title}. {' '.join(self._sentences)}"

    def close(self) -> None:
        """Let go of the pictures."""
        self._pictures.clear()
