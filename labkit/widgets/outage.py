"""`outage_explorer`: an outage, a breaker with its parameters, traffic, replicas: move one and see what comes of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from labkit.plots import trace_timeline
from labkit.scenario import Scenario
from labkit.widgets.controls import Choice, Control, Range, Span, Switch
from labkit.widgets.explorer import Explorer
from labkit.widgets.explorer_model import ExplorerModel, Question, Run, Shown

__all__ = ["OutageModel", "outage_explorer"]

_FAULTS = (
    ("hang", "hangs"),
    ("error", "fails at once"),
    ("slow", "answers after 3 s"),
    ("connection_error", "drops connections"),
    ("error_shaped_string", "answers with an error's text"),
)

BASE = """\
scenario:
  title: An outage
  duration: 120
  drain: 30
  seed: 7
  replicas: 1
services:
  parts_availability:
    _type: parts_availability
    latency: {distribution: uniform, low: 0.03, high: 0.08}
    faults: [{from: 30, to: 70, fault: hang}]
leases:
  parts_probe: {_type: memory, time_to_live: 10}
middleware:
  again: {_type: retry, attempts: 3, base_delay: 0.1}
  breaker:
    _type: circuit_breaker
    failure_threshold: 5
    cooldown_period: 15
    half_open_success_threshold: 3
    probe_timeout: 2
  limit: {_type: timeout, timeout: 2}
functions:
  parts_availability: {_type: parts_availability, middleware: [again, breaker, limit]}
workload:
- {function: parts_availability, rate: 80}
"""


class OutageModel(ExplorerModel):
    """See the module."""

    name = "outage_explorer"
    title = "Outage explorer"
    base = BASE
    controls: ClassVar[tuple[Control, ...]] = (
        Range("failure_threshold", "failure_threshold", "middleware.breaker.failure_threshold",
              "Failures in a row that open the breaker.", 1, 30, 1, "", whole=True),
        Range("cooldown_period", "cooldown_period", "middleware.breaker.cooldown_period",
              "Seconds that OPEN lasts at least.", 1, 60, 0.5, "s"),
        Range("half_open_success_threshold", "half_open_success_threshold",
              "middleware.breaker.half_open_success_threshold", "Probes in a row that close it.", 1, 10, 1, "",
              whole=True),
        Range("probe_timeout", "probe_timeout", "middleware.breaker.probe_timeout", "Bounds probes only.", 0.5, 10, 0.5,
              "s", none="none"),
        Range("timeout", "timeout", "", "Bounds every attempt.", 0.5, 10, 0.5, "s", none="none"),
        Range("attempts", "attempts", "middleware.again.attempts", "In all, the first included.", 1, 6, 1, "",
              whole=True),
        Range("rate", "requests", "workload.0.rate", "Calls that arrive each second.", 5, 160, 5, "/s"),
        Span("outage", "outage", "", "From when to when the service fails.", 0, 115, 1),
        Choice("fault", "the service", "", "What it does meanwhile.", _FAULTS),
        Range("replicas", "replicas", "scenario.replicas", "Each has a breaker of its own.", 1, 8, 1, "", whole=True),
        Switch("lease", "one probe lease for all", "", "labkit's guarded breaker: a probe needs a lease."),
    )  # fmt: skip
    groups: ClassVar[tuple[tuple[str, tuple[str, ...]], ...]] = (
        (
            "The breaker",
            ("failure_threshold", "cooldown_period", "half_open_success_threshold", "probe_timeout", "lease"),
        ),
        ("Around it", ("timeout", "attempts", "rate", "replicas", "outage", "fault")),
    )
    defaults: ClassVar[Mapping[str, Any]] = {
        "failure_threshold": 5,
        "cooldown_period": 15.0,
        "half_open_success_threshold": 3,
        "probe_timeout": 2.0,
        "timeout": 2.0,
        "attempts": 3,
        "rate": 80.0,
        "outage": (30.0, 70.0),
        "fault": "hang",
        "replicas": 1,
        "lease": False,
    }

    def scenarios(self, settings: Mapping[str, Any]) -> dict[str, Scenario]:
        """One run."""
        begin, end = settings["outage"]
        values = self.values(settings)
        fault = {"from": begin, "to": end, "fault": settings["fault"]}
        values["services.parts_availability.faults"] = [fault]
        listed = "again, breaker, limit"
        if settings["timeout"] is None:
            listed = "again, breaker"
        else:
            values["middleware.limit.timeout"] = settings["timeout"]
        values["functions.parts_availability.middleware"] = f"[{listed}]"
        if settings["lease"]:
            values["middleware.breaker._type"] = "guarded_circuit_breaker"
            values["middleware.breaker.probe_lease"] = "parts_probe"
        return {"": self.bend(self.base, values)}

    def show(self, runs: Mapping[str, Run], settings: Mapping[str, Any]) -> Shown:
        """The timeline of the run, and its story."""
        run = runs[""]
        numbers = run.numbers
        picture = trace_timeline(run.trace, width=860.0)
        facts = [
            ("answered", f"{numbers['succeeded']:,} of {numbers['offered']:,}"),
            ("rejected", f"{numbers['rejected']:,}"),
            ("failed", f"{numbers['failed']:,}"),
            ("attempts", f"{numbers['attempts']:,}"),
            ("most a second", f"{numbers['attempts_per_s_peak']}/s"),
            ("probes at once", f"{numbers['concurrent_probes_peak']}"),
        ]
        narrow = trace_timeline(run.trace, width=480.0) if self._narrow else None
        return Shown(picture, run.told(), narrow, facts)

    def question(self, settings: Mapping[str, Any]) -> Question | None:
        """Whether it opens."""
        return Question("Will a breaker open during this run?", (("yes", "it opens"), ("no", "it stays closed")))

    def answer(self, runs: Mapping[str, Run], settings: Mapping[str, Any]) -> str:
        """Whether it did."""
        return "yes" if runs[""].numbers["opens"] else "no"


def outage_explorer(*, predict: bool = False, **settings: Any) -> Explorer:
    """Move the parameters of an outage and of what stands around it, and see the real middleware rerun.

    Args:
        predict: ask before each run is shown. The learner can switch it.
        settings: what differs from the defaults, by the names of `OutageModel.defaults`.

    Raises:
        LabkitError: a setting is unknown or out of range.
    """
    return Explorer(OutageModel(predict=predict, **settings))
