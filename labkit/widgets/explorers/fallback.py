"""`fallback_explorer`: an assistant answers while one of its tools is down: what are its users told, word for word?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from labkit.plots import Picture
from labkit.plots.runs.answers import answers_timeline
from labkit.scenario import Scenario, metrics
from labkit.scenario.watch.answers import Answers, Sample, ask
from labkit.widgets.explorer.controls import Choice, Control, Span, Switch
from labkit.widgets.explorer.explorer import explorer_page
from labkit.widgets.explorer.model import ExplorerModel, Question, Run, Shown
from labkit.widgets.stage import Stage

__all__ = ["FallbackExplorer", "FallbackModel", "fallback_explorer"]

_TOOL, _ASSISTANT = "parts_availability", "research_assistant"
_REASONS = {"tool": "the parts service does not answer", "assistant": "the assistant cannot answer now"}
_FAULTS = (
    ("error", "fails at once"),
    ("hang", "hangs"),
    ("error_shaped_string", "answers with an error’s text"),
)
_KINDS = {"live": "live", "unavailable": "says “unavailable”", "invented": "invented", "error": "an error"}

BASE = """\
scenario:
  title: A live count is asked for
  duration: 45
  drain: 10
  seed: 5
services:
  parts_availability:
    _type: parts_availability
    latency: 0.05
    faults: [{from: 12, to: 30, fault: error}]
  maintenance_documents: {_type: maintenance_documents, latency: 0.08}
  research_assistant: {_type: research_assistant, on_error: tell, guess: false}
middleware:
  say_unavailable: {_type: fallback, reason: the parts service does not answer}
  breaker: {_type: circuit_breaker, failure_threshold: 3, cooldown_period: 8}
  limit: {_type: timeout, timeout: 2}
functions:
  research_assistant: {_type: research_assistant, middleware: []}
  parts_availability: {_type: parts_availability, middleware: [say_unavailable, breaker, limit]}
  maintenance_documents: {_type: maintenance_documents, middleware: [limit]}
workload:
- function: research_assistant
  rate: 2
  subjects: ["How many HX-2040 are in stock, and how is the seal replaced?"]
- function: research_assistant
  rate: 0.5
  from: 0.25
  subjects: ["How do I grease the spindle bearing?"]
"""


@dataclass(frozen=True, slots=True)
class _Asked(Run):
    """A run, and what was told in it."""

    answers: Answers


class FallbackModel(ExplorerModel):
    """See the module."""

    name = "fallback_explorer"
    title = "Fallback explorer"
    base = BASE
    controls: ClassVar[tuple[Control, ...]] = (
        Choice("breaker", "the breaker is around", "", "Whose failures it counts, and whose calls it rejects.",
               (("tool", "the tool"), ("assistant", "the whole assistant"))),
        Switch("fallback", "fallback: say “unavailable”", "", "Outside of the breaker; labkit's own."),
        Choice("on_error", "when a tool raises, the assistant", "services.research_assistant.on_error", "",
               (("tell", "says so"), ("raise", "passes the error on"))),
        Switch("guess", "the assistant may guess", "services.research_assistant.guess",
               "It then states the count that it saw last, or believes to remember."),
        Choice("fault", "the parts service", "services.parts_availability.faults.0.fault", "What it does meanwhile.",
               _FAULTS),
        Span("outage", "outage", "", "From when to when the parts service fails.", 4, 40, 1),
    )  # fmt: skip
    groups: ClassVar[tuple[tuple[str, tuple[str, ...]], ...]] = (
        ("What stands where", ("breaker", "fallback", "on_error", "guess")),
        ("The outage", ("fault", "outage")),
    )
    defaults: ClassVar[Mapping[str, Any]] = {
        "breaker": "tool",
        "fallback": True,
        "on_error": "tell",
        "guess": False,
        "fault": "error",
        "outage": (12.0, 30.0),
    }

    def scenarios(self, settings: Mapping[str, Any]) -> dict[str, Scenario]:
        """One run."""
        values = self.values(settings)
        begin, end = settings["outage"]
        values["services.parts_availability.faults.0.from"] = begin
        values["services.parts_availability.faults.0.to"] = end
        where = settings["breaker"]
        guarded = "say_unavailable, breaker" if settings["fallback"] else "breaker"
        at_the_tool = {"tool": f"[{guarded}, limit]", "assistant": "[limit]"}
        values["functions.parts_availability.middleware"] = at_the_tool[where]
        values["functions.research_assistant.middleware"] = {"tool": "[]", "assistant": f"[{guarded}]"}[where]
        values["middleware.say_unavailable.reason"] = _REASONS[where]
        return {"": self.bend(self.base, values)}

    def run(self, settings: Mapping[str, Any]) -> dict[str, Run]:
        """Run it, and hear what users are told."""
        found: dict[str, Run] = {}
        for name, scenario in self.scenarios(settings).items():
            answers = ask(scenario, _ASSISTANT)
            numbers = metrics(answers.trace)
            found[name] = _Asked(scenario, answers.trace, numbers["all"], numbers["functions"], answers)
        return found

    def show(self, runs: Mapping[str, Run], settings: Mapping[str, Any]) -> Shown:
        """A few answers along the run, all of them as marks, and why they are what they are."""
        run = runs[""]
        assert isinstance(run, _Asked)
        answers = run.answers
        counts = answers.counts()
        brought, needed = answers.passages(outage=True)
        facts = [
            ("live answers", f"{counts['live']}"),
            ("told “unavailable”", f"{counts['unavailable']}"),
            ("invented", f"{'▲ ' if counts['invented'] else ''}{counts['invented']}"),
            ("only an error", f"{counts['error']}"),
            ("documents found in the outage", f"{brought} of {needed}"),
        ]

        def picture(width: float) -> Picture:
            return answers_timeline(answers, service=_TOOL, width=width)

        sentences = [answers.told_so(), *_why(run, settings), run.told()[0]]
        extra = {"answers": [_as_data(sample) for sample in answers.samples()]}
        return Shown(picture(860.0), sentences, picture(self.narrow_width) if self._narrow else None, facts, extra)

    def question(self, settings: Mapping[str, Any]) -> Question | None:
        """What those read who ask for stock in the midst of the outage."""
        return Question(
            "What will a user read who asks for stock in the midst of the outage?",
            (
                ("unavailable", "that it is unavailable"),
                ("live", "a live count"),
                ("invented", "a count that no live reply gave"),
                ("error", "nothing but an error"),
            ),
        )

    def answer(self, runs: Mapping[str, Run], settings: Mapping[str, Any]) -> str:
        """What they read."""
        run = runs[""]
        assert isinstance(run, _Asked)
        during = run.answers.counts("stock", outage=True)
        midst = next((one.told.kind for one in run.answers.samples() if one.moment == "in its midst"), "live")
        return midst if during[midst] else "live"


def _why(run: _Asked, settings: Mapping[str, Any]) -> list[str]:
    """Why users read what they read, most important first."""
    counts = run.answers.counts("stock", outage=True)
    told = []
    if counts["invented"]:
        told.append(
            "A count that was seen last is no live reply, whatever label it bears, and nobody has approved it: "
            "the right number of invented answers is 0."
        )
    if settings["guess"] and settings["on_error"] == "raise":
        told.append("Told to guess, the assistant keeps its tool's error to itself and passes nothing on.")
    opened = bool(run.numbers["opens"])
    if settings["fault"] == "error_shaped_string" and not opened:
        told.append("A text is no exception: what failed is a success to the breaker, which never opens.")
    elif settings["breaker"] == "assistant" and not opened:
        told.append("The assistant answers in place of its tool's error, so the breaker around it counts successes.")
    elif settings["breaker"] == "assistant":
        dark = run.answers.counts("documents", outage=True)
        many = dark["unavailable"] + dark["error"]
        told.append(
            "The breaker's target is the whole assistant: while it is open the healthy documents are out of reach as "
            f"well ({many} of {sum(dark.values())} who asked about documents alone were turned away)."
        )
    if counts["error"]:
        told.append("The error went through to the user, and the documents were not searched for that question.")
    elif counts["unavailable"] and settings["breaker"] == "tool" and not settings["fallback"] and opened:
        told.append("Without the fallback the user reads the middleware's own words, names of classes included.")
    elif counts["unavailable"] and settings["breaker"] == "tool" and opened:
        told.append("The fallback turns a rejection into an explicit outcome, and the assistant goes on searching.")
    return told


def _as_data(sample: Sample) -> dict[str, Any]:
    """A card's content."""
    told = sample.told
    return {
        "at": f"{told.asked:.1f} s",
        "moment": sample.moment,
        "question": told.question,
        "text": told.text,
        "kind": told.kind,
        "badge": _KINDS[told.kind],
        "invented": [f"{what} in stock: no live reply said so ({source})" for what, source in told.invented],
        "passage": "without the documents" if told.passage is False else "",
    }


class FallbackExplorer(Stage):
    """The explorer with what users read above its picture."""

    _esm, _css = explorer_page(own="fallback")


def fallback_explorer(*, predict: bool = False, **settings: Any) -> FallbackExplorer:
    """Move breaker, fallback and guessing of a research assistant, and read what its users are told.

    Args:
        predict: ask before each run is shown. The learner can switch it.
        settings: what differs from the defaults, by the names of `FallbackModel.defaults`.

    Raises:
        LabkitError: a setting is unknown or out of range.
    """
    return FallbackExplorer(FallbackModel(predict=predict, **settings))
