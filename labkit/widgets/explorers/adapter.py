"""`adapter_explorer`: what comes back, what leaves the adapter, and what the breaker then counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from labkit.plots import Picture
from labkit.plots.machines.boundary import Passage, boundary
from labkit.scenario import Followed, Scenario, follow, metrics
from labkit.widgets.explorer.controls import Choice, Control, Range
from labkit.widgets.explorer.explorer import Explorer
from labkit.widgets.explorer.model import ExplorerModel, Question, Run, Shown

__all__ = ["AdapterModel", "adapter_explorer"]

_CALLS = 20
_ADAPTERS = {
    "in_process": "takes only a reply for an answer, and raises on anything else",
    "swallowing": "catches every exception and returns its text",
    "raise_business": "raises the business's no as well",
    "none": "hands on whatever it gets",
}
_REPLIES = (
    ("stock", "200, a stock reply"),
    ("unknown", "404, unknown part"),
    ("refused", "connection refused"),
    ("late", "nothing: a time-out"),
    ("error", "500"),
    ("rate_limit", "429"),
    ("text", "200, the text “Service error”"),
    ("broken", "a stream that breaks off"),
)
_FAULTS = {
    "refused": "connection_error",
    "late": "hang",
    "error": "error",
    "rate_limit": "rate_limit",
    "text": "error_shaped_string",
    "broken": "mid_stream_death",
}

BASE = """\
scenario: {title: What leaves the adapter, duration: 60, drain: 10, seed: 7}
services:
  parts_availability:
    _type: parts_availability
    latency: 0.05
    faults: []
middleware:
  breaker: {_type: circuit_breaker, failure_threshold: 3, cooldown_period: 120}
  limit: {_type: timeout, timeout: 2}
functions:
  parts_availability: {_type: parts_availability, adapter: none, middleware: [breaker, limit]}
workload:
- function: parts_availability
  at: [0, 3, 6, 9, 12, 15, 18, 21, 24, 27, 30, 33, 36, 39, 42, 45, 48, 51, 54, 57]
  mode: invoke
  subjects: [HX-2040]
"""


class AdapterModel(ExplorerModel):
    """See the module. It runs every adapter on the same twenty replies."""

    name = "adapter_explorer"
    title = "Adapter explorer"
    base = BASE
    controls: ClassVar[tuple[Control, ...]] = (
        Choice("reply", "what comes back, twenty times", "", "From the service, before any adapter.", _REPLIES),
        Choice("adapter", "the adapter", "functions.parts_availability.adapter",
               "What stands between the service and the breaker.", tuple((each, each) for each in _ADAPTERS)),
        Range("failure_threshold", "failure_threshold", "middleware.breaker.failure_threshold",
              "Failures in a row that open the breaker.", 1, 30, 1, "", whole=True),
    )  # fmt: skip
    groups: ClassVar[tuple[tuple[str, tuple[str, ...]], ...]] = (
        ("The dependency", ("reply",)),
        ("The boundary", ("adapter", "failure_threshold")),
    )
    defaults: ClassVar[Mapping[str, Any]] = {"reply": "text", "adapter": "none", "failure_threshold": 3}

    followed: dict[str, Followed]

    def scenarios(self, settings: Mapping[str, Any]) -> dict[str, Scenario]:
        """One run an adapter, the chosen one first."""
        values = self.values(settings)
        reply = settings["reply"]
        if reply in _FAULTS:
            values["services.parts_availability.faults"] = [{"from": 0, "to": 1000, "fault": _FAULTS[reply]}]
        if reply == "unknown":
            values["workload.0.subjects"] = ["ZZ-0001"]
        if reply == "broken":
            values["workload.0.mode"] = "stream"
        chosen = settings["adapter"]
        return {
            each: self.bend(self.base, {**values, "functions.parts_availability.adapter": each})
            for each in sorted(_ADAPTERS, key=lambda each: each != chosen)
        }

    def run(self, settings: Mapping[str, Any]) -> dict[str, Run]:
        """Run them, with somebody who looks on between adapter and breaker."""
        found, followed = {}, {}
        for name, scenario in self.scenarios(settings).items():
            followed[name] = one = follow(scenario)
            numbers = metrics(one.trace)
            found[name] = Run(scenario, one.trace, numbers["all"], numbers["functions"])
        self.followed = followed
        return found

    def show(self, runs: Mapping[str, Run], settings: Mapping[str, Any]) -> Shown:
        """A row an adapter, and what the chosen one does in words."""
        chosen = settings["adapter"]
        passages = [self._passage(name) for name in _ADAPTERS]
        one = next(each for each in passages if each.adapter == chosen)
        measured = self.followed[chosen].measured[0]
        told = [self._told(one) + self._trap(one), *(self._told(each) for each in passages if each is not one)]
        if settings["reply"] == "late":
            told.append("The limit stands outside the adapter, so no adapter can swallow a time-out of it.")
        told.append(
            "A breaker counts exceptions and reads no answers. That of NeMo Agent Toolkit 1.9.0 has no list of "
            "exceptions to leave out; the Azure pattern lets a breaker weigh failures by their type."
        )
        facts = [
            ("leaves the adapter", one.error or "a value"),
            ("counted as success", f"{measured.counted['succeeded']}"),
            ("counted as failure", f"{measured.counted['failed']}"),
            ("rejected", f"{measured.counted['rejected']}"),
            ("live answers", f"{self._live(chosen)} of {_CALLS}"),
        ]
        picture = self._picture(passages, settings, 860.0)
        narrow = self._picture(passages, settings, self.narrow_width) if self._narrow else None
        return Shown(picture, told, narrow, facts)

    def _picture(self, passages: list[Passage], settings: Mapping[str, Any], width: float) -> Picture:
        came = dict(_REPLIES)[settings["reply"]]
        return boundary(came, passages, lit=settings["adapter"], width=width)

    def _live(self, adapter: str) -> int:
        return sum(self.followed[adapter].trace.calls.useful)

    def _passage(self, adapter: str) -> Passage:
        followed = self.followed[adapter]
        left = followed.left[1]
        error, text = left.error, left.text
        if left.kind == "cancelled":  # nothing left it by itself; what the layers outside made of that
            error = next(step.what for step in followed.steps if step.place == 1 and step.direction == "out")
            text = "no reply; the limit outside the adapter raises"
        elif left.chunks:
            text = f"{left.chunks} {'chunk' if left.chunks == 1 else 'chunks'}, then: {text}"
        marks = [_MARKS.get(kind, "") for kind in followed.told("breaker")]
        if followed.measured[0].timeouts:
            marks = ["timeout" if kind == "failure" else kind for kind in marks]
        counted = followed.measured[0].counted
        verdict = f"counts {_many(counted['succeeded'], 'success')}; {_many(self._live(adapter), 'live answer')}"
        if counted["failed"]:
            verdict = f"counts {_many(counted['failed'], 'failure')}, rejects {counted['rejected']}"
        opened = followed.measured[0].opened_at
        return Passage(adapter, _ADAPTERS[adapter], error, text, marks, "CLOSED" if opened is None else "OPEN", verdict)

    def _told(self, one: Passage) -> str:
        measured = self.followed[one.adapter].measured[0]
        counted = measured.counted
        if self.followed[one.adapter].left[1].kind == "cancelled":
            leaves = f"Nothing leaves the adapter {one.adapter} before the limit outside of it raises {one.error}"
        elif one.error:
            leaves = f"The adapter {one.adapter} lets an exception out, {one.error}"
        else:
            leaves = f"The adapter {one.adapter} lets a value out, “{one.text}”"
        if measured.opened_at is not None:
            works = "" if self.followed[one.adapter].trace.faults else ", although the service works"
            return (
                f"{leaves}: the breaker counts {_many(counted['failed'], 'failure')}, opens at "
                f"{round(measured.opened_at, 2):g} s and rejects {_many(counted['rejected'], 'call')}{works}."
            )
        if counted["failed"]:
            return f"{leaves}: the breaker counts {_many(counted['failed'], 'failure')} and stays closed."
        told = f"{leaves}: the breaker counts {_many(counted['succeeded'], 'success')} and stays closed"
        if not self._live(one.adapter):
            told += ", and no caller gets a live answer"
        return f"{told}."

    def _trap(self, one: Passage) -> str:
        if one.error or self._live(one.adapter):
            return ""
        return " An error in the shape of an answer is a success to a breaker."

    def question(self, settings: Mapping[str, Any]) -> Question | None:
        """Whether it opens."""
        return Question(
            f"{_CALLS} calls get “{dict(_REPLIES)[settings['reply']]}” behind the adapter {settings['adapter']}, "
            f"and the threshold is {settings['failure_threshold']}: does the breaker open?",
            (("open", "an exception reaches it, and it opens"), ("few", "exceptions reach it, but it stays closed"),
             ("closed", "no exception reaches it")),
        )  # fmt: skip

    def answer(self, runs: Mapping[str, Run], settings: Mapping[str, Any]) -> str:
        """Read off the run."""
        measured = self.followed[settings["adapter"]].measured[0]
        if measured.opened_at is not None:
            return "open"
        return "few" if measured.counted["failed"] else "closed"


_MARKS = {"succeeded": "success", "failed": "failure", "cancelled": "cancelled", "rejected": "rejection"}


def _many(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}{'es' if word.endswith('s') else 's'}"


def adapter_explorer(*, predict: bool = False, **settings: Any) -> Explorer:
    """Choose what comes back and which adapter stands there, and see what leaves it and what the breaker counts.

    Args:
        predict: ask before each run is shown. The learner can switch it.
        settings: what differs from the defaults, by the names of `AdapterModel.defaults`.

    Raises:
        LabkitError: a setting is unknown or out of range.
    """
    return Explorer(AdapterModel(predict=predict, **settings))
