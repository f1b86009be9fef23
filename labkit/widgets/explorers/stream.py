"""`stream_explorer`: one stream, a breaker and two limits: whose time does which limit take?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from labkit.plots import Picture
from labkit.plots.runs.streams import stream_timeline
from labkit.scenario import Scenario, metrics
from labkit.scenario.watch.streams import StreamRead, follow_streams
from labkit.widgets.explorer.controls import Choice, Control, Range
from labkit.widgets.explorer.explorer import Explorer
from labkit.widgets.explorer.model import ExplorerModel, Question, Run, Shown

__all__ = ["StreamModel", "stream_explorer"]

_EARLIER = {"ordinary": "[0, 1]", "probe": "[0, 1, 2]"}  # streams that fail before, of three that open the breaker
_AFTERWARDS = {"CLOSED": "closed", "OPEN": "open", "HALF_OPEN": "half-open"}
_COUNTED = {"succeeded": "a success", "failed": "a failure", "cancelled": "neither way"}

BASE = """\
scenario:
  title: One stream
  duration: 12
  drain: 120
  seed: 4
services:
  parts_availability:
    _type: parts_availability
    latency: {distribution: uniform, low: 1.5, high: 1.5}
    faults: [{from: 0, to: 5, fault: error, seconds: 0.05}]
middleware:
  breaker:
    _type: circuit_breaker
    failure_threshold: 3
    cooldown_period: 5
    half_open_success_threshold: 1
    probe_timeout: 2
  limit: {_type: timeout, timeout: 12}
functions:
  parts_availability: {_type: parts_availability, middleware: [breaker, limit]}
workload:
- {function: parts_availability, at: [0, 1, 2], mode: stream}
- {function: parts_availability, at: [10], mode: stream, close_after: null, consumer_pause: 0}
"""


@dataclass(frozen=True, slots=True)
class _Read(Run):
    """A run, and the stream in question."""

    read: StreamRead


class StreamModel(ExplorerModel):
    """See the module."""

    name = "stream_explorer"
    title = "Stream explorer"
    base = BASE
    controls: ClassVar[tuple[Control, ...]] = (
        Range("chunk_delay", "a chunk takes", "", "Seconds until the next of the four chunks.", 0.1, 6, 0.1, "s"),
        Range("uneven", "longer by up to", "", "Drawn anew for each chunk, from the seed.", 0, 6, 0.1, "s"),
        Range("consumer_pause", "reader busy for", "workload.1.consumer_pause",
              "Seconds for which the reader is busy with a chunk.", 0, 8, 0.1, "s"),
        Range("close_after", "chunks read", "workload.1.close_after",
              "After so many the reader leaves; all: it reads to the end.", 1, 4, 1, "", whole=True, none="all"),
        Choice("call", "the call is", "", "What the breaker lets it through as.",
               (("ordinary", "an ordinary call"), ("probe", "a probe"))),
        Range("probe_timeout", "probe_timeout", "middleware.breaker.probe_timeout", "For each wait of a probe.",
              0.5, 10, 0.1, "s", none="none"),
        Range("timeout", "timeout", "", "For the whole stream.", 1, 30, 0.5, "s", none="none"),
    )  # fmt: skip
    groups: ClassVar[tuple[tuple[str, tuple[str, ...]], ...]] = (
        ("The stream and its reader", ("chunk_delay", "uneven", "consumer_pause", "close_after")),
        ("The limits", ("call", "probe_timeout", "timeout")),
    )
    defaults: ClassVar[Mapping[str, Any]] = {
        "chunk_delay": 1.5,
        "uneven": 0.0,
        "consumer_pause": 1.0,
        "close_after": None,
        "call": "probe",
        "probe_timeout": 2.0,
        "timeout": 12.0,
    }

    def scenarios(self, settings: Mapping[str, Any]) -> dict[str, Scenario]:
        """One run: streams that fail, and then the stream."""
        values = self.values(settings)
        least = settings["chunk_delay"]
        values["services.parts_availability.latency.low"] = least
        values["services.parts_availability.latency.high"] = max(least, round(least + settings["uneven"], 3))
        values["workload.0.at"] = _EARLIER[settings["call"]]
        if settings["timeout"] is None:
            values["functions.parts_availability.middleware"] = "[breaker]"
        else:
            values["middleware.limit.timeout"] = settings["timeout"]
        return {"": self.bend(self.base, values)}

    def run(self, settings: Mapping[str, Any]) -> dict[str, Run]:
        """Run it, and follow its last stream."""
        found: dict[str, Run] = {}
        for name, scenario in self.scenarios(settings).items():
            followed = follow_streams(scenario)
            numbers = metrics(followed.trace)
            read = followed.streams[-1]
            found[name] = _Read(scenario, followed.trace, numbers["all"], numbers["functions"], read)
        return found

    def show(self, runs: Mapping[str, Run], settings: Mapping[str, Any]) -> Shown:
        """The stream over time, what ended it and what was counted."""
        run = runs[""]
        assert isinstance(run, _Read)
        read = run.read
        facts = [
            ("chunks", f"{read.chunks} of 4"),
            ("the stream took", f"{read.took:.1f} s"),
            ("longest wait", f"{read.longest:.1f} s"),
            ("reader busy", f"{read.reading:.1f} s"),
            ("counted as", _COUNTED[read.counted]),
            ("the breaker then", _AFTERWARDS[read.states[-1][1]]),
        ]

        def picture(width: float) -> Picture:
            return stream_timeline(read, width=width)

        return Shown(picture(860.0), read.told(), picture(self.narrow_width) if self._narrow else None, facts)

    def question(self, settings: Mapping[str, Any]) -> Question | None:
        """How it ends, and so what is counted."""
        return Question(
            "How will this stream end for the breaker?",
            (
                ("succeeded", "read to its end, a success"),
                ("failed", "a limit runs out, a failure"),
                ("cancelled", "the reader leaves, counted neither way"),
            ),
        )

    def answer(self, runs: Mapping[str, Run], settings: Mapping[str, Any]) -> str:
        """What the breaker counted."""
        run = runs[""]
        assert isinstance(run, _Read)
        return run.read.counted


def stream_explorer(*, predict: bool = False, **settings: Any) -> Explorer:
    """Move what a stream's chunks and its reader take, and see which limit's clock runs when.

    Args:
        predict: ask before each run is shown. The learner can switch it.
        settings: what differs from the defaults, by the names of `StreamModel.defaults`.

    Raises:
        LabkitError: a setting is unknown or out of range.
    """
    return Explorer(StreamModel(predict=predict, **settings))
