"""`window_explorer`: failures in a row, failures per interval and a failure rate, side by side on the same traffic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from labkit.plots.runs.breaker_counts import count_ribbons
from labkit.scenario import Scenario, metrics, run_scenario
from labkit.scenario.spec.patterns import evenly, failing
from labkit.scenario.watch.breaker_counts import Counted, run_counted
from labkit.widgets.explorer.controls import Control, Range
from labkit.widgets.explorer.explorer import Explorer
from labkit.widgets.explorer.model import ExplorerModel, Question, Run, Shown

__all__ = ["WindowModel", "window_explorer"]

_WAYS = (
    ("in_a_row", "in a row", "NeMo Agent Toolkit 1.9.0", "Failures in a row"),
    ("per_interval", "per interval", "Azure pattern", "Failures per interval"),
    ("by_rate", "by rate", "Azure pattern, sliding window", "Failure rate"),
)
_BEGIN, _END = 10, 110
_SECTIONS = ("scenario", "services", "middleware", "functions", "workload", "variants")

BASE = """\
scenario:
  title: Three ways to count
  duration: 120
  drain: 5
  seed: 7
services:
  parts_availability:
    _type: parts_availability
    latency: 0.05
    faults: []
middleware:
  in_a_row: {_type: circuit_breaker, failure_threshold: 30, cooldown_period: 30}
  per_interval:
    _type: window_circuit_breaker
    failure_threshold: 30
    interval: 60
    open_duration: 30
    open_factor: 1
  by_rate:
    _type: window_circuit_breaker
    failure_rate: 0.5
    window: 30
    minimum_calls: 20
    open_duration: 30
    open_factor: 1
functions:
  parts_availability: {_type: parts_availability, middleware: [in_a_row]}
workload:
- {function: parts_availability, rate: 5, from: 0.1}
variants:
  per_interval:
    title: Failures per interval
    set: {functions.parts_availability.middleware: [per_interval]}
  by_rate:
    title: Failure rate in a sliding window
    set: {functions.parts_availability.middleware: [by_rate]}
  without:
    title: No breaker
    set: {functions.parts_availability.middleware: []}
"""


@dataclass(frozen=True, slots=True)
class CountedRun(Run):
    """A run with what its breaker counted; None where it has none."""

    counted: Counted | None = None


class WindowModel(ExplorerModel):
    """See the module."""

    name = "window_explorer"
    title = "Three ways to count failures"
    base = BASE
    controls: ClassVar[tuple[Control, ...]] = (
        Range("share", "calls that fail", "", "In bad times, drawn from the seed.", 5, 100, 5, "%", whole=True),
        Range("every", "a success every", "", "Of so many calls the last succeeds.", 2, 60, 1, "", whole=True,
              none="never"),
        Range("burst", "fails for", "", "Bad times, and then it pauses.", 1, 50, 1, "s", whole=True, none="all"),
        Range("calm", "then healthy for", "", "From one burst of failures to the next.", 1, 50, 1, "s", whole=True),
        Range("rate", "requests", "", "Calls that arrive each second.", 1, 20, 1, "/s", whole=True),
        Range("failure_threshold", "failure_threshold", "middleware.in_a_row.failure_threshold",
              "NeMo Agent Toolkit 1.9.0: failures in a row that open it.", 1, 100, 1, "", whole=True),
        Range("interval_threshold", "failures per interval", "middleware.per_interval.failure_threshold",
              "Azure pattern: failures within one interval that open it.", 1, 100, 1, "", whole=True),
        Range("interval", "interval", "middleware.per_interval.interval", "Azure pattern: at its end it counts anew.",
              5, 120, 5, "s"),
        Range("failure_rate", "failure rate", "", "The share of the calls in the window that opens it.", 5, 100, 5, "%",
              whole=True),
        Range("window", "sliding window", "middleware.by_rate.window", "How far back the rate looks.", 5, 120, 5, "s"),
        Range("minimum_calls", "minimum calls", "middleware.by_rate.minimum_calls",
              "Fewer in the window are not judged.", 1, 200, 1, "", whole=True),
        Range("open_duration", "open for", "", "cooldown_period of the toolkit's, open_duration of the others.", 5, 60,
              5, "s"),
        Range("open_factor", "each time longer", "", "Azure pattern: a failed probe makes the next wait longer.", 1,
              4, 0.5, "×"),
    )  # fmt: skip
    groups: ClassVar[tuple[tuple[str, tuple[str, ...]], ...]] = (
        ("The dependency, from 10 to 110 s", ("share", "every", "burst", "calm", "rate")),
        (
            "The breakers",
            (
                "failure_threshold",
                "interval_threshold",
                "interval",
                "failure_rate",
                "window",
                "minimum_calls",
                "open_duration",
                "open_factor",
            ),
        ),
    )
    defaults: ClassVar[Mapping[str, Any]] = {
        "share": 100,
        "every": 30,
        "burst": None,
        "calm": 10,
        "rate": 5,
        "failure_threshold": 30,
        "interval_threshold": 30,
        "interval": 60.0,
        "failure_rate": 50,
        "window": 30.0,
        "minimum_calls": 20,
        "open_duration": 30.0,
        "open_factor": 1.0,
    }

    def scenarios(self, settings: Mapping[str, Any]) -> dict[str, Scenario]:
        """One for each breaker, and one without."""
        values = self.values(settings)
        pattern = {key: settings[key] for key in ("rate", "every", "burst", "calm")}
        values["services.parts_availability.faults"] = failing(_BEGIN, _END, share=settings["share"] / 100, **pattern)
        for key, value in evenly(settings["rate"]).items():
            values[f"workload.0.{key}"] = value
        values["middleware.by_rate.failure_rate"] = settings["failure_rate"] / 100
        values["middleware.in_a_row.cooldown_period"] = settings["open_duration"]
        for name in ("per_interval", "by_rate"):
            values[f"middleware.{name}.open_duration"] = settings["open_duration"]
            values[f"middleware.{name}.open_factor"] = settings["open_factor"]
        whole = self.bend(self.base, values)
        return {"in_a_row": whole, **{name: whole.variant(name) for name in ("per_interval", "by_rate", "without")}}

    def run(self, settings: Mapping[str, Any]) -> dict[str, Run]:
        """Run each, and read its breaker's counts."""
        found: dict[str, Run] = {}
        for name, scenario in self.scenarios(settings).items():
            counted: list[Counted] = []
            if name == "without":
                trace = run_scenario(scenario)
            else:
                trace, counted = run_counted(scenario)
            numbers = metrics(trace)
            found[name] = CountedRun(scenario, trace, numbers["all"], numbers["functions"], *counted)
        return found

    def show(self, runs: Mapping[str, Run], settings: Mapping[str, Any]) -> Shown:
        """The three ribbons, and why each opened or did not."""
        opened = self._opened(runs)
        rows = []
        sentences = []
        facts = []
        for key, name, whose, spoken in _WAYS:
            run = runs[key]
            assert isinstance(run, CountedRun)
            assert run.counted is not None
            rows.append((name, whose, run.trace, run.counted))
            sentences.append(f"{spoken} ({whose}): {run.counted.why()}.")
            facts.append((f"{name} opens", f"at {opened[key]:.1f} s" if key in opened else "never"))
        without = runs["without"]
        for key, name, _, _ in _WAYS:
            facts.append((f"failed, {name}", f"{runs[key].numbers['failed']:,}"))
        picture = count_ribbons(rows, without.trace, width=860.0, title=self.title)
        narrow = count_ribbons(rows, without.trace, width=self.narrow_width, title=self.title) if self._narrow else None
        return Shown(picture, [self._headline(opened, without), *sentences], narrow, facts)

    def _opened(self, runs: Mapping[str, Run]) -> dict[str, float]:
        """When each first opened, of those that did; the earliest first."""
        found = {}
        for key, *_ in _WAYS:
            counted = getattr(runs[key], "counted", None)
            if counted is not None and counted.opened is not None:
                found[key] = counted.opened.at
        return dict(sorted(found.items(), key=lambda one: one[1]))

    def _headline(self, opened: Mapping[str, float], without: Run) -> str:
        words = {key: name for key, name, *_ in _WAYS}
        failed = f"Without a breaker {without.numbers['failed']:,} of {without.numbers['offered']:,} calls fail."
        if not opened:
            return f"{failed} None of the three breakers opens."
        told = [f"counting {words[key]} opens at {at:.1f} s" for key, at in opened.items()]
        told += [f"counting {word} never does" for key, word in words.items() if key not in opened]
        text = ", ".join(told[:-1]) + f", and {told[-1]}"
        return f"{failed} {text[:1].upper()}{text[1:]}."

    def question(self, settings: Mapping[str, Any]) -> Question | None:
        """Which opens first."""
        options = tuple((key, spoken) for key, _, _, spoken in _WAYS)
        more = (("together", "two or three at the same call"), ("none", "none of them opens"))
        return Question("Which breaker opens first?", (*options, *more))

    def answer(self, runs: Mapping[str, Run], settings: Mapping[str, Any]) -> str:
        """Which did."""
        opened = self._opened(runs)
        first = [key for key, at in opened.items() if at == min(opened.values())]
        return "none" if not first else first[0] if len(first) == 1 else "together"

    def yaml(self) -> tuple[str, bool]:
        """The scenario with all three breakers; its variants are the other two, and none."""
        run = self.runs.get("in_a_row")
        return ("", False) if run is None else (run.scenario.text(_SECTIONS), False)


def window_explorer(*, predict: bool = False, **settings: Any) -> Explorer:
    """Give three breakers the same failures, and see what each counts and when it opens.

    Args:
        predict: ask before each run is shown. The learner can switch it.
        settings: what differs from the defaults, by the names of `WindowModel.defaults`.

    Raises:
        LabkitError: a setting is unknown or out of range.
    """
    return Explorer(WindowModel(predict=predict, **settings))
