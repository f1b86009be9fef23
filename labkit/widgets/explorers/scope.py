"""`scope_explorer`: which calls a breaker counts together, and who pays for whose failures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from labkit.plots.runs.scopes import scope_rows
from labkit.scenario import Scenario
from labkit.scenario.read.scopes import closed_too_early, scopes_of
from labkit.scenario.watch.breaker_counts import run_counted
from labkit.widgets.explorer.controls import Choice, Control, Range, Span, Switch
from labkit.widgets.explorer.explorer import Explorer
from labkit.widgets.explorer.model import ExplorerModel, Question, Run, Shown

__all__ = ["ScopeModel", "scope_explorer"]

_PARTS, _DOCUMENTS = "parts_availability", "maintenance_documents"
_NAMES = {_PARTS: "parts", _DOCUMENTS: "documents"}

BASE = """\
scenario:
  title: Whose failures count together
  duration: 60
  seed: 1
  replicas: 1
services:
  parts_availability: {_type: parts_availability, latency: 0.3, faults: []}
  maintenance_documents: {_type: maintenance_documents, latency: 0.3}
leases:
  tool_probe: {_type: memory, time_to_live: 10}
middleware:
  breaker: {_type: circuit_breaker, failure_threshold: 5, cooldown_period: 10}
  second_breaker: {_type: circuit_breaker, failure_threshold: 5, cooldown_period: 10}
functions:
  parts_availability: {_type: parts_availability, context_name: search, middleware: [breaker]}
  maintenance_documents: {_type: maintenance_documents, context_name: search, middleware: [breaker]}
workload:
- {function: parts_availability, rate: 20}
- {function: maintenance_documents, rate: 2, arrivals: poisson}
"""


class ScopeModel(ExplorerModel):
    """See the module."""

    name = "scope_explorer"
    title = "Who pays for whose failures"
    base = BASE
    controls: ClassVar[tuple[Control, ...]] = (
        Choice("names", "context.name", "", "All that a breaker is told about a function.",
               (("search", "both are “search”"), ("own", "each its own"))),
        Choice("breakers", "breaker", "", "One entry of the middleware section, listed by both, or two entries.",
               (("one", "one, listed by both"), ("two", "one for each"))),
        Range("replicas", "replicas", "scenario.replicas", "Each has its own instances, and so its own states.", 1, 4,
              1, "", whole=True),
        Switch("lease", "one probe lease for all", "", "labkit's guarded breaker: a probe needs a lease."),
        Range("failure_threshold", "failure_threshold", "middleware.breaker.failure_threshold",
              "Failures in a row that open a state.", 1, 30, 1, "", whole=True),
        Range("cooldown_period", "cooldown_period", "middleware.breaker.cooldown_period",
              "Seconds that OPEN lasts at least.", 1, 30, 1, "s"),
        Range("parts", "calls for parts", "workload.0.rate", "Each second.", 1, 40, 1, "/s"),
        Range("documents", "searches of documents", "workload.1.rate", "Each second; they never fail.", 1, 40, 1, "/s"),
        Span("outage", "the parts fail", "", "From when to when; the documents are healthy.", 0, 60, 1),
    )  # fmt: skip
    groups: ClassVar[tuple[tuple[str, tuple[str, ...]], ...]] = (
        ("Who shares what", ("names", "breakers", "replicas", "lease")),
        ("The breakers and the traffic", ("failure_threshold", "cooldown_period", "parts", "documents", "outage")),
    )
    defaults: ClassVar[Mapping[str, Any]] = {
        "names": "search",
        "breakers": "one",
        "replicas": 1,
        "lease": False,
        "failure_threshold": 5,
        "cooldown_period": 10.0,
        "parts": 20.0,
        "documents": 2.0,
        "outage": (5.0, 35.0),
    }

    def scenarios(self, settings: Mapping[str, Any]) -> dict[str, Scenario]:
        """One run."""
        values = self.values(settings)
        begin, end = settings["outage"]
        values[f"services.{_PARTS}.faults"] = [{"from": begin, "to": end, "fault": "error"}]
        for key in ("failure_threshold", "cooldown_period"):
            values[f"middleware.second_breaker.{key}"] = settings[key]
        if settings["names"] == "own":
            for function in _NAMES:
                values[f"functions.{function}.context_name"] = None
        if settings["breakers"] == "two":
            values[f"functions.{_DOCUMENTS}.middleware"] = "[second_breaker]"
        if settings["lease"]:
            for name in ("breaker", "second_breaker"):
                values[f"middleware.{name}._type"] = "guarded_circuit_breaker"
                values[f"middleware.{name}.probe_lease"] = "tool_probe"
        return {"": self.bend(self.base, values)}

    def show(self, runs: Mapping[str, Run], settings: Mapping[str, Any]) -> Shown:
        """A row of calls for each function and replica around the states that decide on them, and who pays."""
        run = runs[""]
        scopes = scopes_of(run.scenario)
        parts, documents = run.functions[_PARTS], run.functions[_DOCUMENTS]
        states = len(scopes) * settings["replicas"]
        facts = [
            ("documents turned away", f"{documents['rejected']:,} of {documents['offered']:,}"),
            ("documents failed", f"{documents['failed']:,}"),
            ("parts failed", f"{parts['failed']:,}"),
            ("parts turned away", f"{parts['rejected']:,}"),
            ("states kept", f"{states}"),
            ("probes at once", f"{run.numbers['concurrent_probes_peak']}"),
        ]
        picture = scope_rows(run.trace, scopes, names=_NAMES, width=860.0, title=self.title)
        narrow = (
            scope_rows(run.trace, scopes, names=_NAMES, width=self.narrow_width, title=self.title)
            if self._narrow
            else None
        )
        sentences = [
            self._who_pays(run, settings),
            _why(settings),
            *_too_early(run),
            *self._deployment(run, settings),
            *run.told(),
        ]
        return Shown(picture, sentences, narrow, facts)

    def _who_pays(self, run: Run, settings: Mapping[str, Any]) -> str:
        parts, documents = run.functions[_PARTS], run.functions[_DOCUMENTS]
        shared = len(scopes_of(run.scenario)) == 1
        if not shared and run.numbers["opens"]:
            return (
                f"Nobody pays for the other: the parts failed {_times(parts['failed'])} and "
                f"{parts['rejected']:,} of their calls were turned away; all {documents['succeeded']:,} searches of "
                f"the documents were answered."
            )
        if run.numbers["opens"]:
            return (
                f"The documents pay for the parts: {documents['rejected']:,} of {documents['offered']:,} searches were "
                f"turned away, though none of them failed; the parts failed {_times(parts['failed'])}."
            )
        most = f"the parts failed {_times(parts['failed'])}, and nothing opened"
        if shared and parts["failed"]:
            return (
                f"The parts hide behind the documents: {most}. Each answer of the documents set the count in a row "
                f"back; it never got past {self._most_in_a_row(run)} of {settings['failure_threshold']}."
            )
        return f"Nobody pays: {most}."

    def _most_in_a_row(self, run: Run) -> int:
        return max((one.peak.failures for one in run_counted(run.scenario)[1]), default=0)

    def _deployment(self, run: Run, settings: Mapping[str, Any]) -> list[str]:
        """What several replicas make of it."""
        replicas = settings["replicas"]
        if replicas == 1:
            return []
        told = [
            f"{replicas} replicas count for themselves: the parts failed {_times(run.functions[_PARTS]['failed'])} in "
            f"all, and what is open on one says nothing about the others."
        ]
        peak = run.numbers["concurrent_probes_peak"]
        how = "one probe lease for all of them" if settings["lease"] else "each of them sends its own"
        told.append(f"At most {peak} {'probe was' if peak == 1 else 'probes were'} in flight at once: {how}.")
        return told

    def question(self, settings: Mapping[str, Any]) -> Question | None:
        """Who pays; with several replicas, how many probes there are at once."""
        replicas = settings["replicas"]
        if replicas > 1:
            counts = sorted({0, 1, replicas, 2 * replicas})
            options = tuple((str(many), "none" if not many else str(many)) for many in counts)
            return Question(
                "How many probes of one target are in flight at once, at most?", (*options, ("x", "another number"))
            )
        options = (
            ("pay", "yes, for the parts' failures"),
            ("free", "no, the parts' breaker opens alone"),
            ("hidden", "no, and nothing opens at all"),
        )
        return Question("Are searches of the healthy documents turned away?", options)

    def answer(self, runs: Mapping[str, Run], settings: Mapping[str, Any]) -> str:
        """What came true."""
        run = runs[""]
        if settings["replicas"] > 1:
            peak = run.numbers["concurrent_probes_peak"]
            return str(peak) if peak in (0, 1, settings["replicas"], 2 * settings["replicas"]) else "x"
        if run.functions[_DOCUMENTS]["rejected"]:
            return "pay"
        return "free" if run.numbers["opens"] else "hidden"


def _why(settings: Mapping[str, Any]) -> str:
    """Why they share a state, or why not."""
    one_name, one_breaker = settings["names"] == "search", settings["breakers"] == "one"
    rule = "a state is kept by each instance of a breaker, for each context.name"
    whose = "as in NeMo Agent Toolkit 1.9.0" if settings["lease"] else "NeMo Agent Toolkit 1.9.0"
    if one_name and one_breaker:
        because = "Here it is one instance and one name, so the two functions share it"
    elif one_name:
        because = "The name is the same, but each function lists an instance of its own"
    elif one_breaker:
        because = "The instance is the same, but each function has a name of its own"
    else:
        because = "Here both the instances and the names differ"
    return f"{because}: {rule} ({whose})."


def _too_early(run: Run) -> list[str]:
    """What a probe of the wrong function does."""
    many = closed_too_early(run.trace)
    if not many:
        return []
    return [
        f"A search of the documents was the probe, and closed the state while the parts still failed: {_times(many)}."
    ]


def _times(number: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(number, f"{number:,} times")


def scope_explorer(*, predict: bool = False, **settings: Any) -> Explorer:
    """Let two functions share a breaker, a name, both or neither, on one replica or several: who pays?

    Args:
        predict: ask before each run is shown. The learner can switch it.
        settings: what differs from the defaults, by the names of `ScopeModel.defaults`.

    Raises:
        LabkitError: a setting is unknown or out of range.
    """
    return Explorer(ScopeModel(predict=predict, **settings))
