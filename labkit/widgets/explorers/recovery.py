"""`recovery_explorer`: a service comes back with few workers, and all of the traffic: does the breaker trip again?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from labkit.plots.runs.recovery import recovery_timeline
from labkit.scenario import Scenario
from labkit.scenario.read.recovery import Turn, turns_after
from labkit.scenario.run.trace import REJECTION_REASONS
from labkit.scenario.spec.patterns import capacity_back, returning
from labkit.widgets.explorer.controls import Control, Range
from labkit.widgets.explorer.explorer import Explorer
from labkit.widgets.explorer.model import ExplorerModel, Question, Run, Shown

__all__ = ["RecoveryModel", "recovery_explorer"]

_NAME = "parts_availability"
_REPAIR, _END, _LATENCY, _LIMIT = 30, 110, 0.25, 2.0

BASE = f"""\
scenario:
  title: Restored traffic
  duration: {_END}
  drain: 10
  seed: 1
services:
  parts_availability:
    _type: parts_availability
    latency: {_LATENCY}
    workers: 15
    queue: 200
    faults: []
middleware:
  places: {{_type: bulkhead, max_concurrent: 12}}
  breaker: {{_type: circuit_breaker, failure_threshold: 5, cooldown_period: 10, half_open_success_threshold: 1}}
  limit: {{_type: timeout, timeout: {_LIMIT}}}
functions:
  parts_availability: {{_type: parts_availability, middleware: [breaker, limit]}}
workload:
- {{function: parts_availability, rate: 40}}
"""


class RecoveryModel(ExplorerModel):
    """See the module."""

    name = "recovery_explorer"
    title = "Recovery explorer"
    base = BASE
    controls: ClassVar[tuple[Control, ...]] = (
        Range("workers", "workers", f"services.{_NAME}.workers", "When all is well; each serves 4 calls a second.", 1,
              40, 1, "", whole=True),
        Range("first", "back at the repair", "", "Workers that serve at once when the fault ends, at 30 s.", 1, 40, 1,
              "", whole=True),
        Range("seconds", "all back after", "", "The others come back in four steps.", 0, 60, 5, "s"),
        Range("rate", "requests", "", "Calls that arrive each second.", 5, 80, 5, "/s"),
        Range("ramp", "traffic returns over", "", "From a fifth of it at the repair to all of it; 0 is at once.", 0,
              60, 5, "s"),
        Range("half_open_success_threshold", "half_open_success_threshold",
              "middleware.breaker.half_open_success_threshold", "Probes in a row that close it.", 1, 60, 1, "",
              whole=True),
        Range("cooldown_period", "cooldown_period", "middleware.breaker.cooldown_period",
              "Seconds that OPEN lasts at least.", 1, 60, 1, "s"),
        Range("bulkhead", "bulkhead", "", "Calls at once, before the breaker; labkit's own.", 1, 40, 1, "", whole=True,
              none="off"),
    )  # fmt: skip
    groups: ClassVar[tuple[tuple[str, tuple[str, ...]], ...]] = (
        ("The service and its callers", ("workers", "first", "seconds", "rate", "ramp")),
        ("What stands before it", ("half_open_success_threshold", "cooldown_period", "bulkhead")),
    )
    defaults: ClassVar[Mapping[str, Any]] = {
        "workers": 15,
        "first": 5,
        "seconds": 40.0,
        "rate": 40.0,
        "ramp": 0.0,
        "half_open_success_threshold": 1,
        "cooldown_period": 10.0,
        "bulkhead": None,
    }

    def check(self, settings: Mapping[str, Any]) -> dict[str, str]:
        """Not more may come back than there are."""
        first, workers = settings["first"], settings["workers"]
        if first <= workers:
            return {}
        return {"first": f"back at the repair: {first} of {workers} workers cannot be; it is at most {workers}."}

    def scenarios(self, settings: Mapping[str, Any]) -> dict[str, Scenario]:
        """One run."""
        values = self.values(settings)
        steps = capacity_back(_REPAIR, settings["seconds"], settings["first"], settings["workers"])
        faults: list[dict[str, Any]] = [{"from": 10, "to": _REPAIR, "fault": "error"}]
        if len(steps) > 1:
            faults.append({"from": _REPAIR, "to": steps[-1][0], "fault": "healthy", "capacity": steps[:-1]})
        values[f"services.{_NAME}.faults"] = faults
        values["workload"] = returning(_NAME, settings["rate"], _REPAIR, settings["ramp"], _END, 0.2)
        if settings["bulkhead"] is not None:
            values["middleware.places.max_concurrent"] = settings["bulkhead"]
            values[f"functions.{_NAME}.middleware"] = "[places, breaker, limit]"
        return {"": self.bend(self.base, values)}

    def show(self, runs: Mapping[str, Run], settings: Mapping[str, Any]) -> Shown:
        """Traffic against capacity, and what the breaker made of it."""
        run = runs[""]
        numbers = run.numbers
        turns = turns_after(run.trace, _NAME, _LATENCY)
        recovery = numbers["recovery_s"]
        facts = [
            ("trips again", f"{numbers['retrips']}"),
            ("full service after", "never" if recovery is None else f"{recovery:.1f} s"),
            (f"answered of {numbers['offered']:,}", f"{numbers['succeeded']:,}"),
            ("timed out", f"{numbers['timeouts']:,}"),
            ("turned away", f"{numbers['rejected']:,}"),
            ("most at the service", f"{numbers['in_flight_peak']}"),
        ]
        picture = self._picture(run, 860.0)
        narrow = self._picture(run, self.narrow_width) if self._narrow else None
        bounded = REJECTION_REASONS.index("bulkhead") in set(run.trace.rejections.reason)
        headline = _headline(turns, settings, numbers["retrips"], bounded)
        return Shown(picture, [headline, *_course(turns, settings), *run.told()], narrow, facts)

    def _picture(self, run: Run, width: float) -> Any:
        return recovery_timeline(run.trace, _NAME, seconds=_LATENCY, limit=_LIMIT, width=width, title=self.title)

    def question(self, settings: Mapping[str, Any]) -> Question | None:
        """Whether it trips again."""
        options = (("no", "no, it closes and stays closed"), ("once", "yes, once"), ("more", "yes, more than once"))
        return Question("After the repair at 30 s, does the breaker trip again?", options)

    def answer(self, runs: Mapping[str, Run], settings: Mapping[str, Any]) -> str:
        """Whether it did."""
        retrips = runs[""].numbers["retrips"]
        return "no" if not retrips else "once" if retrips == 1 else "more"


def _headline(turns: list[Turn], settings: Mapping[str, Any], retrips: int, bounded: bool) -> str:
    """Whether it trips again, and why."""
    if not turns:
        return "The breaker does not close before the run ends."
    first, last = turns[0], turns[-1]
    back = f"{first.workers} of {settings['workers']} workers back"
    serve = f"which can serve {first.can_serve:g} calls a second, and {first.arriving} arrive"
    if first.can_serve >= first.arriving:
        enough = "That is enough."
    elif bounded:
        enough = "The bulkhead turns away what they cannot serve, so that nobody waits too long."
    else:
        enough = f"More come back before five calls in a row have waited past the time-out of {_LIMIT:g} s."
    if not retrips:
        return f"It does not trip again: the breaker closes at {first.at:.1f} s, with {back}, {serve}. {enough}"
    times = "once" if retrips == 1 else f"{retrips} times"
    text = f"It trips again {times}: the breaker closes at {first.at:.1f} s, with {back}, {serve}."
    if last.state == "CLOSED":
        return f"{text} It closes for good at {last.at:.1f} s, with {last.workers} workers."
    return f"{text} When the run ends it is not closed."


def _course(turns: list[Turn], settings: Mapping[str, Any]) -> list[str]:
    """Each closing and opening after the repair."""
    told = []
    for turn in turns:
        if turn.state == "OPEN":
            told.append(f"Tripped again at {turn.at:.1f} s: calls had waited past the time-out of {_LIMIT:g} s.")
        else:
            told.append(
                f"Closed at {turn.at:.1f} s: {turn.workers} of {settings['workers']} workers can serve "
                f"{turn.can_serve:g} calls a second, and {turn.arriving} arrive."
            )
    return told


def recovery_explorer(*, predict: bool = False, **settings: Any) -> Explorer:
    """Let a service come back slowly, and see whether the traffic that returns trips the breaker again.

    Args:
        predict: ask before each run is shown. The learner can switch it.
        settings: what differs from the defaults, by the names of `RecoveryModel.defaults`.

    Raises:
        LabkitError: a setting is unknown or out of range.
    """
    return Explorer(RecoveryModel(predict=predict, **settings))
