"""What is heard of streams while they run, beside their trace."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.scenario import load_scenario, run_scenario
from labkit.scenario.watch.streams import Followed, follow_streams

STREAM = """\
scenario: {title: One stream, duration: 12, drain: 300, seed: 4}
services:
  parts_availability:
    _type: parts_availability
    latency: {distribution: uniform, low: 1, high: 1}
    faults: [{from: 0, to: 5, fault: error, seconds: 0.05}]
middleware:
  breaker: {_type: circuit_breaker, failure_threshold: 3, cooldown_period: 5, probe_timeout: 2}
  limit: {_type: timeout, timeout: 8}
functions:
  parts_availability: {_type: parts_availability, middleware: [breaker, limit]}
workload:
- {function: parts_availability, at: [0, 1], mode: stream}
- {function: parts_availability, at: [10], mode: stream, close_after: null, consumer_pause: 0}
"""
BASE = load_scenario(STREAM)
LIBRARY = ("stream-early-break", "stream-probe-limit", "stream-slow-consumer", "stream-whole-limit")


def tenths(least: int, most: int) -> st.SearchStrategy[float]:
    """Seconds, in tenths."""
    return st.integers(least, most).map(lambda many: many / 10)


def followed(**values: str) -> Followed:
    """The streams of the scenario above, with values set; "__" stands for a dot."""
    return follow_streams(BASE.with_values({k.replace("__", "."): v for k, v in values.items()}))


def probed(**values: str) -> Followed:
    """The same, with a breaker that is open when the last stream comes."""
    return followed(workload__0__at="[0, 1, 2]", **values)


@pytest.mark.parametrize("name", LIBRARY)
def test_listening_changes_nothing(name: str) -> None:
    """The trace is the same as without a listener, and every stream of it was heard from its start to its end."""
    base = load_scenario(name)
    for scenario in [base, *(base.variant(each) for each in base.variants)]:
        heard = follow_streams(scenario)
        assert heard.trace == run_scenario(scenario)
        calls = heard.trace.calls
        assert [one.call for one in heard.streams] == list(range(len(calls)))
        assert [one.start for one in heard.streams] == list(calls.start)
        assert [one.end for one in heard.streams] == list(calls.end)


def test_a_stream_that_is_read() -> None:
    """Four chunks a second apart, a fifth wait that ends the stream at once, a success that forgets two failures."""
    read = followed().streams[-1]
    assert [(wait.asked, wait.ended, wait.chunk) for wait in read.waits] == [
        (10.0, 11.0, True),
        (11.0, 12.0, True),
        (12.0, 13.0, True),
        (13.0, 14.0, True),
        (14.0, 14.0, False),
    ]
    assert (read.how, read.counted, read.chunks, read.took, read.reading, read.before) == (
        "read", "succeeded", 4, 4.0, 0.0, 2,
    )  # fmt: skip
    assert read.told()[0] == (
        "Read to its end: 4 chunks in 4 s. The breaker counts a success: failures in a row go from 2 to 0."
    )


def test_the_clock_of_a_probe_stands_still_while_the_reader_is_busy() -> None:
    """A probe's limit runs in each wait alone and anew, the whole stream's from the first wait to the end."""
    read = probed(workload__1__consumer_pause="1.5").streams[-1]
    whole, probing = sorted(read.clocks, key=lambda clock: clock.setting != "timeout")
    assert (whole.setting, probing.setting, read.probe) == ("timeout", "probe_timeout", True)
    assert [(run.begin, run.end, run.due) for run in whole.runs] == [(10.0, 18.0, 18.0)]
    assert [(run.begin, run.end, run.due) for run in probing.runs[:3]] == [
        (10.0, 11.0, 12.0),
        (12.5, 13.5, 14.5),
        (15.0, 16.0, 17.0),
    ]


def test_a_limit_that_runs_out_in_a_wait() -> None:
    """It ends the stream at that moment; the breaker counts a failure, the third, and opens."""
    read = followed(services__parts_availability__latency="{distribution: uniform, low: 2.5, high: 2.5}").streams[-1]
    assert (read.how, read.took, read.kept_waiting, read.counted) == ("failed", 8.0, False, "failed")
    assert read.struck is not None
    assert read.struck.setting == "timeout"
    assert read.states[-1] == (18.0, "OPEN")
    assert read.told()[0] == (
        "timeout (8 s) ran out at 8 s, in the wait for chunk 4: TimeoutError. "
        "The breaker counts a failure: 3 in a row, and it opens."
    )


def test_a_limit_that_runs_out_while_the_reader_is_busy() -> None:
    """The reader hears of it at its next pull; the toolkit, which cancels the reader, is named."""
    read = followed(workload__1__consumer_pause="3").streams[-1]
    assert (read.took, read.kept_waiting, read.chunks) == (8.0, False, 2)
    read = followed(workload__1__consumer_pause="3.5").streams[-1]
    assert (read.took, read.kept_waiting, read.chunks) == (9.0, True, 2)
    assert "while the reader was busy with chunk 2: TimeoutError at its next pull, at 9 s" in read.told()[0]
    assert "1.9.0 differs: it cancels the reader's own task at 8 s" in read.told()[1]


def test_a_probe_whose_chunk_is_late() -> None:
    """A wait as long as probe_timeout ends the probe, whatever the whole stream might still take."""
    read = probed(services__parts_availability__latency="{distribution: uniform, low: 2.5, high: 2.5}").streams[-1]
    assert read.struck is not None
    assert (read.struck.setting, read.took, read.states[-1]) == ("probe_timeout", 2.0, (12.0, "OPEN"))
    assert "one failed probe opens it again" in read.told()[0]


def test_a_reader_that_leaves() -> None:
    """It counts neither way, after the last chunk as after the first; a probe's slot is free again."""
    for many in (1, 4):
        left = followed(workload__1__close_after=str(many)).streams[-1]
        assert (left.how, left.chunks, left.counted, left.before) == ("left", many, "cancelled", 2)
        assert left.told()[0].endswith("The breaker counts neither way: failures in a row stay at 2.")
    left = probed(workload__1__close_after="1").streams[-1]
    assert left.states[-1] == (10.0, "HALF_OPEN")
    assert "the probe's slot is free again, and it stays half-open" in left.told()[0]


def test_a_stream_that_fails_by_itself_or_is_rejected() -> None:
    """No limit is blamed for an error of the service or a rejection; a rejected stream was never counted."""
    first, *_ = followed().streams
    assert (first.how, first.struck, first.counted) == ("failed", None, "failed")
    assert first.told()[0].startswith("The stream failed at 0.05 s after 0 chunks (DependencyError).")
    rejected = followed(workload__0__at="[0, 1, 2, 3]").streams[3]
    assert (rejected.how, rejected.counted, rejected.states) == ("failed", "", ((3.0, "OPEN"),))
    assert rejected.error.startswith("CircuitBreakerOpenError")


@settings(max_examples=60)
@given(
    low=tenths(1, 40), more=tenths(0, 30), pause=tenths(0, 40), probe=st.booleans(),
    leave=st.none() | st.integers(1, 4), timeout=tenths(10, 200), each=st.none() | tenths(5, 50),
)  # fmt: skip
def test_the_clocks_that_are_drawn_are_those_of_the_middleware(
    low: float, more: float, pause: float, probe: bool, leave: int | None, timeout: float, each: float | None
) -> None:
    """A limit whose clock is full ended the stream, and one that ended it has a full clock: whatever the settings."""
    values = {
        "services.parts_availability.latency": f"{{distribution: uniform, low: {low}, high: {low + more}}}",
        "workload.0.at": "[0, 1, 2]" if probe else "[0, 1]",
        "workload.1.consumer_pause": f"{pause}",
        "workload.1.close_after": "null" if leave is None else f"{leave}",
        "middleware.limit.timeout": f"{timeout}",
        "middleware.breaker.probe_timeout": "null" if each is None else f"{each}",
    }
    read = follow_streams(BASE.with_values(values)).streams[-1]
    assert read.probe == probe
    full = [
        clock.setting
        for clock in read.clocks
        for run in clock.runs
        if run.due <= run.end - 1e-9 or (run is clock.runs[-1] and run.due <= run.end + 1e-9)
    ]
    if read.how == "failed":
        assert read.error.startswith("TimeoutError")
        assert read.struck is not None
        assert read.struck.setting in full
    else:
        assert read.struck is None
        waited = [clock for clock in read.clocks if clock.setting == "probe_timeout" for run in clock.runs
                  if run.end > run.due + 1e-9]  # fmt: skip
        assert waited == []
