"""`budget_explorer`: a short dip of capacity, and retries that compete with useful work. Does it recover by itself?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from labkit.plots import Picture
from labkit.plots.runs.workers import work_timeline
from labkit.scenario import Scenario
from labkit.scenario.read.workers import Work, work
from labkit.widgets.explorer.controls import Control, Range, Span
from labkit.widgets.explorer.explorer import Explorer
from labkit.widgets.explorer.model import ExplorerModel, Question, Run, Shown

__all__ = ["BudgetModel", "budget_explorer"]

BASE = """\
scenario:
  title: Retries against useful work
  duration: 36
  drain: 10
  seed: 1
services:
  parts_availability:
    _type: parts_availability
    latency: 0.25
    workers: 5
    queue: 100
    faults: [{from: 10, to: 14, fault: healthy, capacity: [[10, 1]]}]
middleware:
  budget: {_type: retry_budget, ratio: 0.1}
  again: {_type: retry, attempts: 3, base_delay: 0.1}
  limit: {_type: timeout, timeout: 1}
functions:
  parts_availability: {_type: parts_availability, middleware: [again, limit]}
workload:
- {function: parts_availability, rate: 14}
"""


@dataclass(frozen=True, slots=True)
class _Worked(Run):
    """A run, and what the service's workers did in it."""

    work: Work


class BudgetModel(ExplorerModel):
    """See the module."""

    name = "budget_explorer"
    title = "Retry budget explorer"
    base = BASE
    controls: ClassVar[tuple[Control, ...]] = (
        Range("attempts", "attempts", "middleware.again.attempts", "In all, the first included.", 1, 4, 1, "",
              whole=True),
        Range("base_delay", "base_delay", "middleware.again.base_delay",
              "The longest wait before the first retry; it doubles, and each wait is drawn below it.", 0, 5, 0.1, "s"),
        Range("ratio", "retry_budget ratio", "", "Retries that each first attempt earns for all.", 0.05, 1, 0.05, "",
              none="none"),
        Range("rate", "calls", "workload.0.rate", "That arrive each second.", 4, 24, 1, "/s"),
        Range("workers", "workers", "services.parts_availability.workers", "Each answers 4 calls a second.", 2, 10, 1,
              "", whole=True),
        Span("dip", "dip to one worker", "", "From when to when one worker is left.", 5, 25, 0.5),
    )  # fmt: skip
    groups: ClassVar[tuple[tuple[str, tuple[str, ...]], ...]] = (
        ("The retry", ("attempts", "base_delay", "ratio")),
        ("The service", ("rate", "workers", "dip")),
    )
    defaults: ClassVar[Mapping[str, Any]] = {
        "attempts": 3,
        "base_delay": 0.1,
        "ratio": None,
        "rate": 14.0,
        "workers": 5,
        "dip": (10.0, 14.0),
    }

    def scenarios(self, settings: Mapping[str, Any]) -> dict[str, Scenario]:
        """One run."""
        values = self.values(settings)
        begin, end = settings["dip"]
        step = f"[[{begin}, 1]]"
        values["services.parts_availability.faults"] = (
            f"[{{from: {begin}, to: {end}, fault: healthy, capacity: {step}}}]"
        )
        if settings["ratio"] is not None:
            values["middleware.budget.ratio"] = settings["ratio"]
            values["middleware.again.budget"] = "budget"
        return {"": self.bend(self.base, values)}

    def run(self, settings: Mapping[str, Any]) -> dict[str, Run]:
        """Run it, and read off what the workers did."""
        return {
            name: _Worked(run.scenario, run.trace, run.numbers, run.functions, work(run.trace))
            for name, run in super().run(settings).items()
        }

    def show(self, runs: Mapping[str, Run], settings: Mapping[str, Any]) -> Shown:
        """The split of the work, the run by second, and whether it recovers."""
        run = runs[""]
        assert isinstance(run, _Worked)
        done = run.work
        live, many = done.lately
        facts = [
            ("answered", f"{run.numbers['succeeded']:,} of {run.numbers['offered']:,}"),
            ("in the last 5 s", f"{live} of {many}"),
            ("attempts a call", f"{run.numbers['amplification'] or 0:.2f}"),
            ("most a second", f"{run.numbers['attempts_per_s_peak']}/s"),
            ("retries", f"{done.retries:,}"),
            ("refused retries", f"{done.refused:,}"),
        ]

        def picture(width: float) -> Picture:
            return work_timeline(run.trace, done, width=width)

        return Shown(picture(860.0), done.told(), picture(self.narrow_width) if self._narrow else None, facts)

    def question(self, settings: Mapping[str, Any]) -> Question | None:
        """Whether it recovers."""
        return Question(
            "All workers are back after the dip. Will the service recover by itself?",
            (("yes", "it recovers by itself"), ("no", "it stays overloaded until the end")),
        )

    def answer(self, runs: Mapping[str, Run], settings: Mapping[str, Any]) -> str:
        """Whether it did."""
        run = runs[""]
        assert isinstance(run, _Worked)
        return "yes" if run.work.stays else "no"


def budget_explorer(*, predict: bool = False, **settings: Any) -> Explorer:
    """Move retries, their budget and the capacity of a service, and see what its workers work for.

    Args:
        predict: ask before each run is shown. The learner can switch it.
        settings: what differs from the defaults, by the names of `BudgetModel.defaults`.

    Raises:
        LabkitError: a setting is unknown or out of range.
    """
    return Explorer(BudgetModel(predict=predict, **settings))
