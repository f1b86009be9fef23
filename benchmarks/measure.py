"""How things are timed here: every case in every round, side by side, so that a slow spell of the machine hits all.

A case is called in blocks of a few milliseconds. A round runs one block of each case, and each round begins with
another case. What counts is the median over the rounds. Two ratios are given: of the medians, and the median of the
rounds' own ratios, which a machine that slows down and recovers moves less. A bound holds if both stay within it.

The garbage collector is left as it is: what a case leaves for it to do belongs to what the case costs. It is told to
collect once before the rounds, so that no section pays for the one before.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

__all__ = ["FULL", "QUICK", "Bound", "Effort", "Row", "Samples", "Section", "interleave", "interleave_async"]

clock = time.perf_counter


@dataclass(frozen=True)
class Effort:
    """How much is measured.

    Attributes:
        rounds: of each case that is called many times.
        block: seconds that one block of such a case should take.
        runs: rounds of the simulations.
        starts: rounds of the starts of an interpreter.
        targets: how many a breaker is shown in the memory section.
        rejections: how many a breaker gives in the memory section.
        requests: how many the largest scenario has.
        sweep: runs of a sweep, in tens.
        sweeps: rounds of it.
    """

    rounds: int
    block: float
    runs: int
    starts: int
    targets: int
    rejections: int
    requests: int = 20_000
    sweep: int = 10
    sweeps: int = 1


FULL = Effort(
    rounds=61,
    block=0.004,
    runs=15,
    starts=41,
    targets=100_000,
    rejections=1_000_000,
    requests=1_000_000,
    sweep=200,
    sweeps=3,
)
QUICK = Effort(
    rounds=9, block=0.002, runs=3, starts=9, targets=10_000, rejections=20_000, requests=100_000, sweep=40, sweeps=1
)


class Samples:
    """Seconds a call (or a run), by case: one figure a round."""

    def __init__(self, names: Sequence[str]) -> None:
        self.of: dict[str, list[float]] = {name: [] for name in names}

    def median(self, name: str) -> float:
        return statistics.median(self.of[name])

    def least(self, name: str) -> float:
        return min(self.of[name])

    def spread(self, name: str) -> float:
        """The middle half of the rounds, from its lower to its upper end, as a share of the median."""
        figures = self.of[name]
        if len(figures) < 2:
            return 0.0
        low, _, high = statistics.quantiles(figures, n=4)
        return (high - low) / self.median(name)

    def ratio(self, case: str, reference: str, *, less: str | None = None) -> tuple[float, float]:
        """`case` over `reference`, as (ratio of medians, median of the rounds' ratios).

        With `less`, that case's time is taken off both first: the ratio of what each adds to it.
        """
        base = self.of[less] if less is not None else [0.0] * len(self.of[case])
        zero = self.median(less) if less is not None else 0.0
        of_medians = (self.median(case) - zero) / (self.median(reference) - zero)
        per_round = [
            (mine - nothing) / (theirs - nothing)
            for mine, theirs, nothing in zip(self.of[case], self.of[reference], base, strict=True)
            if theirs != nothing
        ]
        return of_medians, statistics.median(per_round)

    def difference(self, case: str, reference: str) -> tuple[float, float]:
        """`case` minus `reference`, in seconds, as (difference of medians, median of the rounds' differences)."""
        pairs = zip(self.of[case], self.of[reference], strict=True)
        return self.median(case) - self.median(reference), statistics.median(mine - theirs for mine, theirs in pairs)


async def interleave_async(
    cases: dict[str, Callable[[int], Awaitable[None]]], effort: Effort, *, samples: Samples | None = None
) -> Samples:
    """Time cases, each an async function that makes so many calls."""
    names = list(cases)
    samples = samples or Samples(names)
    sizes = {}
    for name, block in cases.items():
        await block(20)  # what is only done the first time is not what a call costs
        size, took = 20, 0.0
        while took < effort.block / 4 and size < 1_000_000:
            size *= 2
            began = clock()
            await block(size)
            took = clock() - began
        sizes[name] = max(1, round(size * effort.block / took))
    gc.collect()
    for number in range(effort.rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            block, size = cases[name], sizes[name]
            began = clock()
            await block(size)
            samples.of[name].append((clock() - began) / size)
    return samples


def interleave(cases: dict[str, Callable[[], object]], rounds: int) -> Samples:
    """Time cases, each a function that is called once a round."""
    names = list(cases)
    samples = Samples(names)
    for run in cases.values():
        run()
    gc.collect()
    for number in range(rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            run = cases[name]
            began = clock()
            run()
            samples.of[name].append(clock() - began)
    return samples


@dataclass
class Row:
    """One line of a section's table. `figures` are already words."""

    name: str
    figures: tuple[str, ...]
    data: dict[str, Any] = field(default_factory=dict)


@dataclass
class Bound:
    """A promise and what was found.

    Attributes:
        what: in words.
        found: one figure, or two ways to compute it; the promise holds if it holds for each.
        limit: the promise.
        at_least: whether `limit` is the smallest that is allowed, not the largest.
        unit: of the figures; "" for a ratio.
        places: decimal places to print.
    """

    what: str
    found: tuple[float, ...]
    limit: float
    at_least: bool = False
    unit: str = ""
    places: int = 2

    @property
    def holds(self) -> bool:
        if self.at_least:
            return min(self.found) >= self.limit
        return max(self.found) <= self.limit

    @property
    def verdict(self) -> str:
        return "within" if self.holds else "over" if not self.at_least else "under"


@dataclass
class Section:
    """What a section found."""

    name: str
    title: str
    heads: tuple[str, ...]
    rows: list[Row] = field(default_factory=list)
    bounds: list[Bound] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    samples: dict[str, list[float]] = field(default_factory=dict)
    noise: float | None = None

    def take(self, samples: Samples, scale: float, *, reference: str | None = None, less: str | None = None) -> None:
        """A row a case: median, least and spread, then the ratio to `reference` or what it adds to `less`."""
        for name in samples.of:
            figures = [
                f"{samples.median(name) * scale:.0f}",
                f"{samples.least(name) * scale:.0f}",
                f"{samples.spread(name):.0%}",
            ]
            data: dict[str, Any] = {"median": samples.median(name), "least": samples.least(name)}
            if reference is not None:
                ratio = samples.ratio(name, reference)
                figures.append("" if name == reference else f"{ratio[0]:.2f}")
                data["ratio"] = ratio
            if less is not None:
                adds = samples.difference(name, less)
                figures.append("" if name == less else f"{adds[0] * scale:.0f}")
                data["adds"] = adds
            self.rows.append(Row(name, tuple(figures), data))
            self.samples[name] = samples.of[name]
        noise = statistics.median(samples.spread(name) for name in samples.of)
        self.noise = noise if self.noise is None else max(noise, self.noise)

    def heading(self, text: str) -> None:
        """A line between rows."""
        self.rows.append(Row(text, ()))

    def to_dict(self) -> dict[str, Any]:
        data = asdict(self)
        for bound, plain in zip(self.bounds, data["bounds"], strict=True):
            plain["holds"] = bound.holds
        data["rows"] = [{"name": row.name, **row.data} for row in self.rows if row.figures]
        return data
