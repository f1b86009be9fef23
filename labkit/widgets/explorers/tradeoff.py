"""`tradeoff_explorer`: a map of what each threshold and cooldown would have done, and the run behind any cell of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product
from typing import Any, ClassVar, NamedTuple

from labkit.plots import Picture, heat_map, trace_timeline
from labkit.plots.draw.caption import captioned
from labkit.plots.sweeps.heat_map import shades
from labkit.scenario import Scenario, sweep
from labkit.widgets.explorer.controls import Choice, Control, Range
from labkit.widgets.explorer.explorer import Explorer, explorer_page
from labkit.widgets.explorer.model import ExplorerModel, Question, Run, Shown

__all__ = ["TradeoffModel", "tradeoff_explorer"]

THRESHOLDS = (1, 2, 3, 5, 10, 20)
COOLDOWNS = (1, 2, 5, 10, 20, 40)
_AT_ONCE = 3  # runs of the map that one message of the page brings about, so that others get their turn
_THRESHOLD, _COOLDOWN = "middleware.breaker.failure_threshold", "middleware.breaker.cooldown_period"


class _Measure(NamedTuple):
    """One of the metrics that the map can show.

    Attributes:
        label: in words, with its unit.
        best: "highest" or "lowest".
        words: a number as it stands in a cell.
        fact: in a word or two, beside a number with its unit.
        unit: behind that number.
        but: what the number alone does not tell.
    """

    label: str
    best: str
    words: Callable[[float], str]
    fact: str
    unit: str = ""
    but: str = ""


MEASURES: Mapping[str, _Measure] = {
    "goodput_per_s": _Measure("live answers a second", "highest", "{:.1f}".format, "live answers", "/s"),
    "time_to_open_s": _Measure("seconds until it opens", "lowest", "{:.2f}".format, "time to open", " s",
                               "A breaker that was open already when the fault came opens late, by this count."),
    "false_opens": _Measure("times it opened without a fault", "lowest", "{:.0f}".format, "false opens"),
    "probes": _Measure("probes sent", "lowest", "{:.0f}".format, "probes", "",
                       "Fewer probes also mean that the repair is noticed later."),
    "attempts": _Measure("attempts that reached the service", "lowest", "{:,.0f}".format, "attempts", "",
                         "Fewest attempts is also what a breaker has that is open when nothing is wrong."),
}  # fmt: skip

BASE = """\
scenario: {title: A tradeoff, duration: 120, drain: 10, seed: 11, replicas: 1}
services:
  parts_availability:
    _type: parts_availability
    latency: {distribution: lognormal, median: 0.2, sigma: 0.7}
    faults: [{from: 40, to: 75, fault: hang}]
middleware:
  breaker:
    _type: circuit_breaker
    failure_threshold: 5
    cooldown_period: 10
    half_open_success_threshold: 1
    probe_timeout: 1
  limit: {_type: timeout, timeout: 1}
functions:
  parts_availability: {_type: parts_availability, middleware: [breaker, limit]}
workload:
- {function: parts_availability, rate: 20}
"""

Place = tuple[int, int]
_CORNERS: Mapping[str, tuple[Place, str]] = {
    "few-short": ((THRESHOLDS[0], COOLDOWNS[0]), "few failures open it, a short cooldown"),
    "few-long": ((THRESHOLDS[0], COOLDOWNS[-1]), "few failures open it, a long cooldown"),
    "many-short": ((THRESHOLDS[-1], COOLDOWNS[0]), "many failures open it, a short cooldown"),
    "many-long": ((THRESHOLDS[-1], COOLDOWNS[-1]), "many failures open it, a long cooldown"),
}


class TradeoffModel(ExplorerModel):
    """See the module. The map is made a few runs at a time, as the page asks for more of it."""

    name = "tradeoff_explorer"
    title = "Tradeoff explorer"
    base = BASE
    controls: ClassVar[tuple[Control, ...]] = (
        Choice("metric", "the map shows", "", "What each cell counts.",
               tuple((name, measure.fact) for name, measure in MEASURES.items())),
        Choice("fault", "in the outage the service", "", "From 40 s on.",
               (("hang", "hangs"), ("error", "fails at once"))),
        Range("outage", "outage lasts", "", "From 40 s on.", 5, 60, 5, "s"),
        Choice("tail", "otherwise slow answers are", "",
               "Of answers that are healthy but slow, some run into the timeout of 1 s.",
               (("0.5", "rare"), ("0.7", "a few"), ("0.9", "many"))),
        Choice("failure_threshold", "failure_threshold", _THRESHOLD, "", tuple((str(n), str(n)) for n in THRESHOLDS)),
        Choice("cooldown_period", "cooldown_period", _COOLDOWN, "", tuple((str(n), f"{n} s") for n in COOLDOWNS)),
    )  # fmt: skip
    groups: ClassVar[tuple[tuple[str, tuple[str, ...]], ...]] = (
        ("The map", ("metric",)),
        ("What happens", ("fault", "outage", "tail")),
    )
    defaults: ClassVar[Mapping[str, Any]] = {
        "metric": "goodput_per_s",
        "fault": "hang",
        "outage": 35.0,
        "tail": "0.7",
        "failure_threshold": "5",
        "cooldown_period": "10",
    }

    def __init__(self, *, predict: bool = False, **settings: Any) -> None:
        self._table: dict[Place, Mapping[str, Any]] = {}
        self._said: tuple[Any, Mapping[str, str]] | None = None  # a prediction that waits for the map's last run
        for name in ("failure_threshold", "cooldown_period"):
            if isinstance(settings.get(name), (int, float)):
                settings[name] = f"{settings[name]:g}"
        super().__init__(predict=predict, **settings)
        if predict:
            self._asking = dict(self.settings)

    # ------------------------------------------------------------------------------------------------------- the runs

    def scenarios(self, settings: Mapping[str, Any]) -> dict[str, Scenario]:
        """The run of the chosen cell."""
        values = self.values(settings)
        end = 40 + settings["outage"]
        values["services.parts_availability.faults"] = [{"from": 40, "to": end, "fault": settings["fault"]}]
        values["services.parts_availability.latency.sigma"] = settings["tail"]
        return {"": self.bend(self.base, values)}

    def run(self, settings: Mapping[str, Any]) -> dict[str, Run]:
        """The run of the chosen cell; if it would be another map, that begins anew."""
        if hasattr(self, "runs") and _same(settings, self.settings, "metric"):
            return self.runs
        runs = super().run(settings)
        if hasattr(self, "runs") and not _same(settings, self.settings, *_OF_THE_CELL):
            self._table, self._said = {}, None
        return runs

    def act(self, do: str, message: Mapping[str, Any]) -> None:
        """ "more": make the next few runs of the map."""
        if do != "more" or self._asking is not None or not self.runs:
            return
        base = self.runs[""].scenario
        missing = [place for place in product(THRESHOLDS, COOLDOWNS) if place not in self._table]
        for place in missing[:_AT_ONCE]:
            vary = dict(zip((_THRESHOLD, _COOLDOWN), ([one] for one in place), strict=True))
            self._table[place] = sweep(base, vary, jobs=1).rows[0]
        if missing and self._whole:
            self.shown = self.show(self.runs, self.settings)
            if self._said is not None:
                self._judge(*self._said)

    @property
    def _whole(self) -> bool:
        return len(self._table) == len(THRESHOLDS) * len(COOLDOWNS)

    # ------------------------------------------------------------------------------------------------ what is asked

    def question(self, settings: Mapping[str, Any]) -> Question | None:
        """Which corner answers most: of another map, and of this one before anything of it is there."""
        begun = bool(self._table) or self._said is not None
        if not _same(settings, self.settings, "metric", *_OF_THE_CELL) or not begun:
            options = tuple((name, words) for name, (_, words) in _CORNERS.items())
            return Question("Which corner of the map will have the most live answers?", options)
        return None

    def answer(self, runs: Mapping[str, Run], settings: Mapping[str, Any]) -> str:
        """The corner with the most; what was said where it has as many."""
        most = {name: self._table[place]["goodput_per_s"] for name, (place, _) in _CORNERS.items()}
        said = self._said[0] if self._said is not None else ""
        return max(most, key=lambda name: (most[name], name == said))

    def _judge(self, value: Any, words: Mapping[str, str]) -> None:
        self._said = (value, words)
        if self._whole:
            super()._judge(value, words)
            self._said = None

    # ------------------------------------------------------------------------------------------------ what is shown

    def show(self, runs: Mapping[str, Run], settings: Mapping[str, Any]) -> Shown:
        """The chosen cell's run, and what the whole map says."""
        run = runs[""]
        measure, numbers = MEASURES[settings["metric"]], run.numbers
        where = _at((int(settings["failure_threshold"]), int(settings["cooldown_period"])))
        facts = [
            (one.fact, _words(one, numbers[name]) + (one.unit if numbers[name] is not None else ""))
            for name, one in MEASURES.items()
        ]
        narrow = trace_timeline(run.trace, width=self.narrow_width) if self._narrow else None
        but = [measure.but] if measure.but else []
        told = [*self._extremes(settings["metric"], measure), *but, f"The run below has {where}.", *run.told()]
        return Shown(trace_timeline(run.trace, width=860.0), told, narrow, facts)

    def _extremes(self, metric: str, measure: _Measure) -> list[str]:
        known = {place: row[metric] for place, row in self._table.items() if row[metric] is not None}
        if not self._whole or not known:
            return []
        most, least = max(known.values()), min(known.values())
        if measure.words(most) == measure.words(least):
            return [f"All cells have the same: {measure.words(most)} {measure.label}."]
        best, worst = (most, least) if measure.best == "highest" else (least, most)
        return [
            f"Best in “{measure.label}” is {measure.words(best)}, {_places(known, measure, best)}; "
            f"worst is {measure.words(worst)}, {_places(known, measure, worst)}."
        ]

    def view(self) -> dict[str, Any]:
        """As every explorer's; the map is extra, and the cell is chosen in it, not by controls."""
        view = super().view()
        view["controls"] = [one for one in view["controls"] if one["key"] not in _OF_THE_CELL]
        view["can_predict"] = True
        view["extra"] = self._map({**self.settings, **(self._asking or {})})
        return view

    def _map(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        measure = MEASURES[settings["metric"]]
        stale = self._asking is not None and not _same(settings, self.settings, "metric", *_OF_THE_CELL)
        table = {} if stale else self._table
        places = list(product(THRESHOLDS, COOLDOWNS))
        numbers = [table[place][settings["metric"]] if place in table else None for place in places]
        known = [number for number in numbers if number is not None]
        aim = (max if measure.best == "highest" else min)(known, default=0.0)
        cells = [
            {
                "threshold": str(place[0]),
                "cooldown": str(place[1]),
                "name": f"{_at(place)}: {_words(measure, number) if place in table else 'not run yet'}",
                "words": "" if place not in table else _words(measure, number),
                "ground": ground,
                "ink": ink,
                "best": self._whole and number is not None and measure.words(number) == measure.words(aim),
            }
            for place, number, (ground, ink) in zip(places, numbers, shades(numbers), strict=True)
        ]
        return {
            "label": f"{measure.label}; {measure.best} is best",
            "thresholds": [str(one) for one in THRESHOLDS],
            "cooldowns": [str(one) for one in COOLDOWNS],
            "cells": cells,
            "done": len(table),
            "chosen": [settings["failure_threshold"], settings["cooldown_period"]],
        }

    def share(self) -> str:
        """As every explorer's, with the cell's values as numbers."""
        line = super().share()
        for key in _OF_THE_CELL:
            line = line.replace(f"{key}={self.settings[key]!r}", f"{key}={self.settings[key]}")
        return line

    def still(self) -> Picture:
        """The map where it is whole, else the chosen cell's run."""
        if not self._whole:
            return super().still()
        metric = self.settings["metric"]
        rows = [
            {"failure_threshold": threshold, "cooldown_period_s": cooldown, metric: row[metric]}
            for (threshold, cooldown), row in self._table.items()
        ]
        picture = heat_map(
            rows, x="cooldown_period_s", y="failure_threshold", value=metric, best=MEASURES[metric].best,
            title=f"A tradeoff: {MEASURES[metric].label}",
        )  # fmt: skip
        return captioned(
            picture, self.shown.sentences[0], "A still picture: run this cell to choose a cell of the map."
        )


_OF_THE_CELL = ("failure_threshold", "cooldown_period")


def _same(one: Mapping[str, Any], other: Mapping[str, Any], *apart: str) -> bool:
    """Whether two settings differ in nothing but these keys."""
    return all(one[key] == other[key] for key in one if key not in apart)


def _words(measure: _Measure, number: float | None) -> str:
    return "never" if number is None else measure.words(number)


def _at(place: Place) -> str:
    return f"failure_threshold {place[0]} and cooldown_period {place[1]} s"


def _places(known: Mapping[Place, float], measure: _Measure, number: float) -> str:
    """Where a number stands, as it can be read in the map."""
    found = [place for place, one in known.items() if measure.words(one) == measure.words(number)]
    more = f" and {len(found) - 1} more" if len(found) > 1 else ""
    return f"at {_at(found[0])}{more}"


class TradeoffExplorer(Explorer):
    """The explorer on a page; make it with `tradeoff_explorer`."""

    _esm, _css = explorer_page("tradeoff")


def tradeoff_explorer(*, predict: bool = False, **settings: Any) -> TradeoffExplorer:
    """See what each threshold and cooldown would have done with one outage, and the run behind any of them.

    Args:
        predict: ask which corner answers most before the map is made. The learner can switch it.
        settings: what differs from the defaults, by the names of `TradeoffModel.defaults`.

    Raises:
        LabkitError: a setting is unknown or out of range.
    """
    return TradeoffExplorer(TradeoffModel(predict=predict, **settings))
