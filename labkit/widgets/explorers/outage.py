"""`outage_explorer`: an outage, a breaker with its parameters, traffic, replicas: move one and see what comes of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from labkit.plots import trace_timeline
from labkit.scenario import Scenario
from labkit.widgets.explorer.controls import Choice, Control, Range, Span, Switch
from labkit.widgets.explorer.explorer import Explorer
from labkit.widgets.explorer.model import ExplorerModel, Question, Run, Shown

__all__ = ["OutageModel", "outage_explorer"]

_FAULTS = (
    ("hang", "hangs"),
    ("error", "fails at once"),
    ("slow", "takes 3 s"),
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
              "Seconds that OPEN lasts at least; the next call after it is the probe.", 1, 60, 0.5, "s"),
        Range("half_open_success_threshold", "half_open_success_threshold",
              "middleware.breaker.half_open_success_threshold", "Successful probes in a row that close it.", 1, 10, 1,
              "", whole=True),
        Range("probe_timeout", "probe_timeout", "middleware.breaker.probe_timeout", "Bounds probes only.", 0.5, 10, 0.5,
              "s", none="none"),
        Switch("lease", "one probe lease for all replicas", "",
               "labkit's guarded breaker: a probe needs a lease, and there is one. The toolkit has none."),
        Range("timeout", "timeout", "", "Bounds every attempt.", 0.5, 10, 0.5, "s", none="none"),
        Range("attempts", "attempts", "middleware.again.attempts", "In all, the first included.", 1, 6, 1, "",
              whole=True),
        Span("outage", "outage", "", "From when to when the service fails.", 0, 115, 1),
        Choice("fault", "meanwhile the service", "", "How it fails.", _FAULTS),
        Range("rate", "requests", "workload.0.rate", "Calls that arrive each second.", 5, 160, 5, "/s"),
        Range("replicas", "replicas", "scenario.replicas", "Each has a breaker of its own.", 1, 8, 1, "", whole=True),
    )  # fmt: skip
    groups: ClassVar[tuple[tuple[str, tuple[str, ...]], ...]] = (
        (
            "Breaker, timeout, retry",
            (
                "failure_threshold",
                "cooldown_period",
                "half_open_success_threshold",
                "probe_timeout",
                "timeout",
                "attempts",
                "lease",
            ),
        ),
        ("Service and callers", ("outage", "fault", "rate", "replicas")),
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
        unended = f" + {numbers['unfinished']:,} unended" if numbers["unfinished"] else ""
        at_once = f" ({numbers['concurrent_probes_peak']} at once)" if numbers["probes"] else ""
        facts = [
            ("live answers", f"{sum(run.trace.calls.useful):,} of {numbers['offered']:,}"),
            ("rejected", f"{numbers['rejected']:,}"),
            ("failed", f"{numbers['failed']:,}{unended}"),
            ("attempts", f"{numbers['attempts']:,}"),
            ("most in flight", f"{numbers['in_flight_peak']:,}"),
            ("probes", f"{numbers['probes']:,}{at_once}"),
        ]
        first, *others = run.told()
        narrow = trace_timeline(run.trace, width=self.narrow_width) if self._narrow else None
        picture = trace_timeline(run.trace, width=860.0)
        return Shown(picture, [first, *_why(run, settings), *others], narrow, facts)

    def question(self, settings: Mapping[str, Any]) -> Question | None:
        """How many probes at once, whether it opens at all, or when service is back."""
        kind = _kind(settings)
        if kind == "probes":
            each = f"{settings['replicas']}, one of each replica"
            return Question(
                "At most how many probes will be in flight at one time?",
                (("one", "1"), ("each", each), ("between", "something in between"), ("none", "there will be none")),
            )
        if kind == "opens":
            return Question(
                "Will the breaker open during this run?", (("yes", "it opens"), ("no", "it stays closed all along"))
            )
        cooldown = settings["cooldown_period"]
        within = (("within", f"later, within a cooldown of {cooldown:g} s"),) if cooldown > _SOON else ()
        return Question(
            f"The service is well again at {settings['outage'][1]:g} s. When is full service back?",
            (
                ("soon", "within 2 s of that"),
                *within,
                ("beyond", "later still"),
                ("not", "not before the end"),
            ),
        )

    def answer(self, runs: Mapping[str, Run], settings: Mapping[str, Any]) -> str:
        """Read off the run."""
        numbers = runs[""].numbers
        kind = _kind(settings)
        if kind == "opens":
            return "yes" if numbers["opens"] else "no"
        if kind == "probes":
            most = numbers["concurrent_probes_peak"]
            return {0: "none", 1: "one", settings["replicas"]: "each"}.get(most, "between")
        took = numbers["recovery_s"]
        if took is None:
            return "not"
        return "soon" if took <= _SOON else "within" if took <= settings["cooldown_period"] else "beyond"


_SOON = 2.0  # seconds


def _kind(settings: Mapping[str, Any]) -> str:
    """What is worth asking about a run with these settings."""
    if settings["replicas"] > 1:
        return "probes"
    odd = settings["fault"] == "error_shaped_string" or (settings["timeout"] is None and settings["fault"] == "hang")
    return "opens" if odd or settings["failure_threshold"] > 10 else "back"


def _why(run: Run, settings: Mapping[str, Any]) -> list[str]:
    """What the story of a trace cannot know, since it stands in the settings."""
    if run.numbers["opens"]:
        if settings["lease"] and settings["replicas"] > 1:
            return ["A probe needs the one lease of all replicas: labkit's guarded breaker, which the toolkit has not."]
        return []
    if settings["fault"] == "error_shaped_string":
        return ["The error came as the text of an answer. A breaker counts what is raised, so it saw only successes."]
    if settings["timeout"] is None and settings["fault"] in ("hang", "slow"):
        return ["Without a timeout nothing is raised while a call waits, and a breaker counts only what is raised."]
    return []


def outage_explorer(*, predict: bool = False, **settings: Any) -> Explorer:
    """Move the parameters of an outage and of what stands around it, and see the real middleware rerun.

    Args:
        predict: ask before each run is shown. The learner can switch it.
        settings: what differs from the defaults, by the names of `OutageModel.defaults`.

    Raises:
        LabkitError: a setting is unknown or out of range.
    """
    return Explorer(OutageModel(predict=predict, **settings))
