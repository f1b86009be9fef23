"""`order_explorer`: put the layers into an order, and follow one call through them step by step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from labkit.plots import Picture, layers_of, onion
from labkit.plots.machines.onion import Lit
from labkit.scenario import Followed, Scenario, follow, metrics
from labkit.widgets.explorer.controls import Choice, Control, Order, Range
from labkit.widgets.explorer.explorer import Explorer, explorer_page
from labkit.widgets.explorer.model import ExplorerModel, Question, Run, Shown

__all__ = ["OrderExplorer", "OrderModel", "order_explorer"]

_CALLS = 8
_FUNCTION = "parts_availability"
_LAYERS = ("retry", "breaker", "timeout", "fallback", "bulkhead")
_FAULTS = (
    ("hang", "hangs"),
    ("error", "fails at once"),
    ("slow", "answers after 3 s"),
    ("connection_error", "drops connections"),
    ("healthy", "works"),
)

BASE = """\
scenario: {title: The order of the layers, duration: 80, drain: 30, seed: 7}
services:
  parts_availability:
    _type: parts_availability
    latency: 0.05
    faults: []
middleware:
  retry: {_type: retry, attempts: 3, base_delay: 0.1, jitter: none}
  breaker: {_type: circuit_breaker, failure_threshold: 3, cooldown_period: 120}
  timeout: {_type: timeout, timeout: 2}
  fallback: {_type: fallback}
  bulkhead: {_type: bulkhead, max_concurrent: 2}
functions:
  parts_availability: {_type: parts_availability, middleware: [retry, breaker, timeout]}
workload:
- {function: parts_availability, at: [0, 10, 20, 30, 40, 50, 60, 70]}
"""


class OrderModel(ExplorerModel):
    """See the module. `at` is the step that is shown, from 0."""

    name = "order_explorer"
    title = "Order explorer"
    base = BASE
    controls: ClassVar[tuple[Control, ...]] = (
        Order("order", "from the outside in", "functions.parts_availability.middleware",
              "The first of the list is the outermost layer.", tuple((each, each) for each in _LAYERS)),
        Choice("fault", "the service", "", "What it does all the time.", _FAULTS),
        Range("failure_threshold", "failure_threshold", "middleware.breaker.failure_threshold",
              "Failures in a row that open the breaker.", 1, 10, 1, "", whole=True),
        Range("attempts", "attempts", "middleware.retry.attempts", "In all, the first included.", 1, 5, 1, "",
              whole=True),
        Range("timeout", "timeout", "middleware.timeout.timeout", "For everything inside it.", 0.5, 5, 0.5, "s"),
        Range("max_concurrent", "max_concurrent", "middleware.bulkhead.max_concurrent", "Places of the bulkhead.",
              1, 5, 1, "", whole=True),
        Range("every", "a call every", "", f"There are {_CALLS} calls.", 1, 20, 1, "s"),
        Range("call", "follow call", "", "Which of them is followed below.", 1, _CALLS, 1, "", whole=True),
    )  # fmt: skip
    groups: ClassVar[tuple[tuple[str, tuple[str, ...]], ...]] = (
        ("The layers", ("order", "fault")),
        (
            "Their settings, and the calls",
            ("failure_threshold", "attempts", "timeout", "max_concurrent", "every", "call"),
        ),
    )
    defaults: ClassVar[Mapping[str, Any]] = {
        "order": ("retry", "breaker", "timeout"),
        "fault": "hang",
        "failure_threshold": 3,
        "attempts": 3,
        "timeout": 2.0,
        "max_concurrent": 2,
        "every": 10.0,
        "call": 1,
    }

    at: int
    followed: Followed

    def scenarios(self, settings: Mapping[str, Any]) -> dict[str, Scenario]:
        """One run, in which the service does the same all the time."""
        values = self.values(settings)
        every = settings["every"]
        values["workload.0.at"] = [number * every for number in range(_CALLS)]
        values["scenario.duration"] = _CALLS * every
        if settings["fault"] != "healthy":
            values["services.parts_availability.faults"] = [{"from": 0, "to": 1000, "fault": settings["fault"]}]
        return {"": self.bend(self.base, values)}

    def run(self, settings: Mapping[str, Any]) -> dict[str, Run]:
        """Run it, with somebody who looks on between the layers; begin at the first step."""
        found = {}
        for name, scenario in self.scenarios(settings).items():
            self.followed = followed = follow(scenario, settings["call"])
            self.at = 0
            numbers = metrics(followed.trace)
            found[name] = Run(scenario, followed.trace, numbers["all"], numbers["functions"])
        return found

    def act(self, do: str, message: Mapping[str, Any]) -> None:
        """Go to a step: "step" with "to", from 0."""
        to = message.get("to")
        if do == "step" and isinstance(to, int):
            self.at = max(0, min(to, len(self.followed.steps) - 1))
            self.shown = self.show(self.runs, self.settings)

    def show(self, runs: Mapping[str, Run], settings: Mapping[str, Any]) -> Shown:
        """The onion with the present step lit, and what the breaker measures."""
        run, followed = runs[""], self.followed
        measured = followed.measured[0] if followed.measured else None
        steps = followed.steps
        told = list(measured.sentences) if measured else ["No breaker is in the list, so nothing stops a call early."]
        told += [one for one in run.told() if not one.startswith(_UNSAID)]
        told.append(
            "A list is read as in NeMo Agent Toolkit 1.9.0: outermost first. "
            "The toolkit has the breaker and the timeout; retry, fallback and bulkhead are labkit's own."
        )
        facts = [
            ("the caller gets", steps[-1].what if steps[-1].place < 0 else "nothing yet"),
            (f"attempts of call {followed.call}", f"{sum(step.what == 'reached' for step in steps)}"),
            (f"attempts of all {_CALLS} calls", f"{run.numbers['attempts']}"),
        ]
        if measured:
            opened = measured.opened_at
            facts.append(("unit measured", measured.unit))
            if opened is not None:
                facts += [("it opened", f"at {round(opened, 2):g} s"), ("attempts until then", f"{measured.attempts}")]
            else:
                facts += [("it opened", "never"), ("cancellations", f"{measured.counted['cancelled']}")]
        extra = {"steps": [[step.at, step.layer, step.what, step.sentence] for step in steps], "at": self.at}
        narrow = self._picture(run, self.narrow_width) if self._narrow else None
        return Shown(self._picture(run, 860.0), told, narrow, facts, extra)

    def _picture(self, run: Run, width: float) -> Picture:
        steps = self.followed.steps
        step = steps[self.at]
        deepest = _deepest(self.followed, self.at)
        lit = Lit(step.place, step.direction, step.kind, step.what, deepest)
        return onion(layers_of(run.scenario.stack, _FUNCTION), _FUNCTION, width=width, lit=lit)

    def question(self, settings: Mapping[str, Any]) -> Question | None:
        """After how many attempts it opens."""
        if "breaker" not in settings["order"]:
            return None
        many = settings["failure_threshold"]
        attempts = "1 attempt" if many == 1 else f"{many} attempts"
        return Question(
            f"In {_CALLS} calls: how many attempts will have ended at the service when the breaker opens?",
            (
                ("same", f"{attempts}, as many as its threshold"),
                ("more", "more than that"),
                ("fewer", "fewer than that"),
                ("never", "it does not open"),
            ),
        )

    def answer(self, runs: Mapping[str, Run], settings: Mapping[str, Any]) -> str:
        """Read off the run."""
        measured = self.followed.measured
        if not measured or measured[0].opened_at is None:
            return "never"
        attempts, many = measured[0].attempts, settings["failure_threshold"]
        return "same" if attempts == many else "more" if attempts > many else "fewer"


_UNSAID = (
    "The breaker opened",
    "No breaker",
    "The fault",
    "Within",
    f"{_CALLS} calls",
)  # said already, or of no use here


def _deepest(followed: Followed, at: int) -> int:
    """How far in the call has been since it last went in."""
    steps = followed.steps
    begun = max((number for number in range(at + 1) if steps[number].direction == "in"), default=0)
    return max(steps[begun].place, steps[at].place)


class OrderExplorer(Explorer):
    """The page, with the steps of one call."""

    _esm, _css = explorer_page("order")


def order_explorer(*, predict: bool = False, **settings: Any) -> OrderExplorer:
    """Put retry, breaker, timeout, fallback and bulkhead into an order, and follow one call through them.

    Args:
        predict: ask before each run is shown. The learner can switch it.
        settings: what differs from the defaults, by the names of `OrderModel.defaults`.

    Raises:
        LabkitError: a setting is unknown or out of range.
    """
    return OrderExplorer(OrderModel(predict=predict, **settings))
