"""A tiny explorer for tests: two controls with a path, one without, and settings that cannot be run or drawn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from labkit.errors import LabkitError
from labkit.plots import trace_timeline
from labkit.widgets.explorer.controls import Control, Range, Switch
from labkit.widgets.explorer.model import ExplorerModel, Question, Run, Shown

BASE = """\
scenario: {title: Tiny, duration: 20, drain: 5, seed: 3}
services:
  parts_availability: {_type: parts_availability, latency: 0.05, faults: [{from: 5, to: 10, fault: error}]}
middleware:
  breaker: {_type: circuit_breaker, failure_threshold: 3, cooldown_period: 2}
functions:
  parts_availability: {_type: parts_availability, middleware: [breaker]}
workload:
- {function: parts_availability, rate: 5}
"""


class Tiny(ExplorerModel):
    """Two controls with a path, one without."""

    name = "tiny_explorer"
    title = "Tiny explorer"
    base = BASE
    controls: ClassVar[tuple[Control, ...]] = (
        Range("threshold", "failure_threshold", "middleware.breaker.failure_threshold", "", 1, 30, 1, whole=True),
        Range("cooldown", "cooldown_period", "middleware.breaker.cooldown_period", "", 0.5, 60, 0.5, "s"),
        Switch("guarded", "guarded"),
    )
    defaults: ClassVar[Mapping[str, Any]] = {"threshold": 3, "cooldown": 2.0, "guarded": False}
    ran = 0

    def values(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        kind = {"middleware.breaker._type": "guarded_circuit_breaker"} if settings["guarded"] else {}
        return super().values(settings) | kind

    def check(self, settings: Mapping[str, Any]) -> dict[str, str]:
        if settings["threshold"] > 20 and settings["guarded"]:
            return {"threshold": "With the guarded one 20 is enough."}
        return {}

    def run(self, settings: Mapping[str, Any]) -> dict[str, Run]:
        self.ran += 1
        if settings["cooldown"] == 13.0:
            raise LabkitError("Thirteen cannot be run.")
        return super().run(settings)

    def show(self, runs: Mapping[str, Run], settings: Mapping[str, Any]) -> Shown:
        if settings["cooldown"] == 17.0:
            raise LabkitError("Seventeen cannot be drawn.")
        run = runs[""]
        narrow = trace_timeline(run.trace, width=400.0) if self._narrow else None
        facts = [("opened", str(run.numbers["opens"]))]
        return Shown(trace_timeline(run.trace), run.told(), narrow, facts, {"seen": len(run.trace.calls)})

    def question(self, settings: Mapping[str, Any]) -> Question | None:
        return Question("Does it open?", (("yes", "it opens"), ("no", "it stays closed")))

    def answer(self, runs: Mapping[str, Run], settings: Mapping[str, Any]) -> str:
        return "yes" if runs[""].numbers["opens"] else "no"
