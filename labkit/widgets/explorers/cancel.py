"""`cancel_explorer`: callers that give up, a service that is slow or hangs, and what a breaker counts of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from labkit.plots import comparison, trace_timeline
from labkit.scenario import Scenario
from labkit.widgets.explorer.controls import Choice, Control, Range
from labkit.widgets.explorer.explorer import Explorer, explorer_page
from labkit.widgets.explorer.model import ExplorerModel, Question, Run, Shown

__all__ = ["CancelModel", "cancel_explorer"]

BASE = """\
scenario:
  title: Callers that give up
  duration: 60
  drain: 30
  seed: 1
services:
  parts_availability:
    _type: parts_availability
    latency: {distribution: constant, seconds: 0.05}
    faults: [{from: 5, to: 25, fault: hang}]
middleware:
  breaker: {_type: circuit_breaker, failure_threshold: 5, cooldown_period: 10}
  limit: {_type: timeout, timeout: 2}
functions:
  parts_availability: {_type: parts_availability, middleware: [breaker, limit]}
workload:
- {function: parts_availability, rate: 10, patience: 1}
"""

_LABELS = {"toolkit": "The toolkit’s breaker", "guarded": "The guarded breaker"}
_TYPES = {"toolkit": "circuit_breaker", "guarded": "guarded_circuit_breaker"}


class CancelModel(ExplorerModel):
    """See the module."""

    name = "cancel_explorer"
    title = "Cancellation explorer"
    base = BASE
    controls: ClassVar[tuple[Control, ...]] = (
        Range("patience", "patience", "", "After this a caller cancels its call.", 0.5, 20, 0.5, "s",
              none="endless"),
        Range("share", "with that patience", "", "The others wait as long as it takes.", 0, 100, 10, "%",
              whole=True),
        Range("rate", "requests", "", "Calls that arrive each second.", 2, 40, 1, "/s"),
        Choice("fault", "the service", "", "From 5 s on.", (
            ("hang", "hangs until 25 s"), ("slow", "is slow until 25 s"), ("mixed", "hangs, fails, then is slow"))),
        Range("slow", "when it is slow", "", "How long an answer takes then.", 1, 20, 0.5, "s"),
        Choice("breaker", "the breaker", "", "Both see the same calls.", (
            ("toolkit", "the toolkit’s"), ("guarded", "guarded"), ("both", "both, side by side"))),
        Range("failure_threshold", "failure_threshold", "middleware.breaker.failure_threshold",
              "Failures in a row that open the breaker.", 1, 10, 1, "", whole=True),
        Range("cooldown_period", "cooldown_period", "middleware.breaker.cooldown_period",
              "Seconds that OPEN lasts at least.", 2, 30, 1, "s"),
        Range("timeout", "timeout", "", "Bounds every call.", 0.5, 20, 0.5, "s", none="none"),
        Choice("where", "the timeout is", "", "A list is outermost first.", (
            ("inside", "inside the breaker"), ("outside", "outside it"))),
    )  # fmt: skip
    groups: ClassVar[tuple[tuple[str, tuple[str, ...]], ...]] = (
        ("The callers and the service", ("patience", "share", "rate", "fault", "slow")),
        ("Between them", ("breaker", "failure_threshold", "cooldown_period", "timeout", "where")),
    )
    defaults: ClassVar[Mapping[str, Any]] = {
        "patience": 1.0,
        "share": 100,
        "rate": 10.0,
        "fault": "hang",
        "slow": 3.0,
        "breaker": "toolkit",
        "failure_threshold": 5,
        "cooldown_period": 10.0,
        "timeout": 2.0,
        "where": "inside",
    }

    #: Settings that are worth a try, in one press: what they are called, and what differs from the defaults.
    tries: ClassVar[tuple[tuple[str, Mapping[str, Any]], ...]] = (
        ("All give up before the limit", {}),
        ("The limit is the first to run out", {"timeout": 0.5}),
        ("Half of them wait", {"share": 50}),
        ("Nobody gives up, the limit is outside", {"patience": None, "where": "outside"}),
        ("A cancelled bystander",
         {"patience": 14.0, "fault": "mixed", "slow": 15.0, "timeout": None, "breaker": "both"}),
    )  # fmt: skip

    def scenarios(self, settings: Mapping[str, Any]) -> dict[str, Scenario]:
        """The chosen breaker, or both on the same calls."""
        made = {}
        for which in ("toolkit", "guarded") if settings["breaker"] == "both" else (settings["breaker"],):
            values = self.values(settings) | {
                "middleware.breaker._type": _TYPES[which],
                "services.parts_availability.faults": _faults(settings),
                "workload": _workload(settings),
            }
            listed = ["breaker"]
            if settings["timeout"] is not None:
                values["middleware.limit.timeout"] = settings["timeout"]
                listed.insert(1 if settings["where"] == "inside" else 0, "limit")
            values["functions.parts_availability.middleware"] = listed
            made[which] = self.bend(self.base, values)
        return made

    def show(self, runs: Mapping[str, Run], settings: Mapping[str, Any]) -> Shown:
        """The timeline of the chosen breaker, or of both, and why they did what they did."""
        first = next(iter(runs.values()))
        numbers = first.numbers
        both = settings["breaker"] == "both"

        def drawn(width: float) -> Any:
            if both:
                pair = [runs[which] for which in ("toolkit", "guarded")]
                return comparison(pair[0].trace, pair[1].trace, names=list(_LABELS.values()), width=width)
            return trace_timeline(first.trace, width=width)

        facts = [
            ("answered", f"{_each(runs, 'succeeded')} of {numbers['offered']:,}"),
            ("given up by callers", _each(runs, "cancelled")),
            ("failed or timed out", _each(runs, "failed")),
            ("rejected", _each(runs, "rejected")),
            ("times opened", _each(runs, "opens")),
            ("probes at once", _each(runs, "concurrent_probes_peak")),
        ]
        extra = {"tries": [[label, {**self.defaults, **changes}] for label, changes in self.tries]}
        narrow = drawn(self.narrow_width) if self._narrow else None
        return Shown(drawn(860.0), _told(runs, settings), narrow, facts, extra)

    def question(self, settings: Mapping[str, Any]) -> Question | None:
        """Whether it opens; with bystanders, whether two probes are in flight at once."""
        if settings["fault"] == "mixed" and settings["breaker"] != "guarded":
            text = "Will the toolkit’s breaker have more than one probe in flight at once?"
            return Question(text, (("several", "more than one"), ("one", "one, or none")))
        text = "Will the breaker open during this run?"
        return Question(text, (("opens", "it opens"), ("stays", "it stays closed")))

    def answer(self, runs: Mapping[str, Run], settings: Mapping[str, Any]) -> str:
        """What was so."""
        numbers = next(iter(runs.values())).numbers
        if settings["fault"] == "mixed" and settings["breaker"] != "guarded":
            return "several" if numbers["concurrent_probes_peak"] > 1 else "one"
        return "opens" if numbers["opens"] else "stays"


def _each(runs: Mapping[str, Run], key: str) -> str:
    """A number of each run, or the one that all have."""
    return " against ".join(dict.fromkeys(f"{run.numbers[key]:,}" for run in runs.values()))


def _faults(settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    hang, fail = {"fault": "hang"}, {"fault": "error"}
    slow = {"fault": "slow", "seconds": settings["slow"]}
    if settings["fault"] == "mixed":
        return [{"from": 5, "to": 7, **hang}, {"from": 7, "to": 12, **fail}, {"from": 12, "to": 45, **slow}]
    return [{"from": 5, "to": 25, **(hang if settings["fault"] == "hang" else slow)}]


def _workload(settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    rate, patience = settings["rate"], settings["patience"]
    impatient = 0 if patience is None else settings["share"]
    loads = []
    for share, wait in ((impatient, patience), (100 - impatient, None)):
        if share:
            load = {"function": "parts_availability", "rate": round(rate * share / 100, 6)}
            loads.append(load if wait is None else load | {"patience": wait})
    return loads


def _told(runs: Mapping[str, Run], settings: Mapping[str, Any]) -> list[str]:
    """The story of the chosen run, after what explains it: which calls counted, and whose slot was freed."""
    first = next(iter(runs.values()))
    numbers, story = first.numbers, first.told()
    why = []
    if settings["timeout"] is not None and settings["where"] == "outside" and numbers["failed"]:
        why.append(
            "The timeout stands outside the breaker, so what it ends reaches the breaker as a cancellation, which "
            "counts neither way."
        )
    if numbers["cancelled"]:
        many = numbers["cancelled"]
        calls = "1 call was given up by its caller" if many == 1 else f"{many:,} calls were given up by their callers"
        so = "" if numbers["opens"] else ", so they never add up to an opening"
        why.append(f"{calls}; to a breaker a cancellation is neither success nor failure{so}.")
    elif numbers["opens"] and settings["timeout"] is not None and settings["where"] == "inside":
        why.append("The timeout inside the breaker raises there, and so each one counts as a failure.")
    if settings["breaker"] == "both":
        story, other = ([one.replace("The breaker", _LABELS[which], 1) for one in runs[which].told()[:1]]
                        for which in ("toolkit", "guarded"))  # fmt: skip
        story += [one for one in other if one not in story] + first.told()[1:]
    many = numbers["concurrent_probes_peak"]
    if many > 1:  # only the toolkit's lets that happen
        beside = ""
        if settings["breaker"] == "both":
            beside = f", in the guarded one {runs['guarded'].numbers['concurrent_probes_peak']}"
        freed = (
            f"In the toolkit’s breaker up to {many} probes were in flight at once{beside}: a cancelled call that is no "
            "probe frees the probe’s slot (cancel-frees-foreign-probe, a fault of 1.9.0)."
        )
        return [freed, " ".join([story[0], *why]), *story[1:]]
    return [" ".join([story[0], *why]), *story[1:]]


class CancelExplorer(Explorer):
    """The explorer on a page; make it with `cancel_explorer`."""

    _esm, _css = explorer_page(own="cancel")


def cancel_explorer(*, predict: bool = False, **settings: Any) -> CancelExplorer:
    """Move the patience of callers and the limits around a slow service, and see what a breaker counts of it.

    Args:
        predict: ask before each run is shown. The learner can switch it.
        settings: what differs from the defaults, by the names of `CancelModel.defaults`.

    Raises:
        LabkitError: a setting is unknown or out of range.
    """
    return CancelExplorer(CancelModel(predict=predict, **settings))
