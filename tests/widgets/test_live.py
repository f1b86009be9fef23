"""`live_view` without a front end: a real stack, real HTTP, and nothing of it left when it has ended."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import labkit
from labkit.config import load_stack_config
from labkit.errors import LabkitError, ServiceError
from labkit.scenario.read.journeys import ARRIVES, BEGINS, ENDS, ENDS_, FAILS, RUNS_OUT, TURNED_AWAY
from labkit.scenario.run.trace import STATES
from labkit.scenario.watch import live as live_run
from labkit.widgets import stage as stages
from labkit.widgets.live.live import LiveView, live_view
from labkit.widgets.live.model import FAULTS, LiveModel
from labkit.widgets.stage import Stage

QUICK: dict[str, Any] = {
    "rate": 40,
    "latency": 0.0,
    "failure_threshold": 2,
    "cooldown_period": 0.2,
    "half_open_success_threshold": 1,
    "timeout": 0.15,
    "probe_timeout": 0.15,
}
LIMIT = 30.0  # seconds after which a test gives up


def left_over() -> tuple[int, int, int]:
    """Threads, open files (sockets are some) and tasks that have not ended."""
    files = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0
    tasks = sum(isinstance(each, asyncio.Task) and not each.done() for each in gc.get_objects())
    return threading.active_count(), files, tasks


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """Every test here leaves as many threads, open files and tasks as it found."""
    gc.collect()
    before = left_over()
    yield
    assert left_over() == before


class Heard:
    """What a run tells, and waiting for it."""

    def __init__(self) -> None:
        self.batches: list[dict[str, Any]] = []
        self.changed = threading.Condition()

    def __call__(self, number: int, batch: dict[str, Any]) -> bool:
        with self.changed:
            self.batches.append(batch)
            self.changed.notify_all()
        return True

    def until(self, condition: Callable[[], bool], says: str) -> None:
        """Until something is so."""
        with self.changed:
            assert self.changed.wait_for(condition, LIMIT), says

    def all(self, what: str) -> list[Any]:
        """Everything of one kind, over all batches."""
        return [each for batch in self.batches for each in batch[what]]

    @property
    def states(self) -> list[str]:
        """The states of the first breaker that were told, without repetition."""
        told = [STATES[each[3]] for each in self.all("states") if each[1] == 0]
        return [state for n, state in enumerate(told) if n == 0 or told[n - 1] != state]


def started(**settings: Any) -> tuple[LiveModel, Heard]:
    """A model whose run has begun to tell."""
    model, heard = LiveModel(**{**QUICK, **settings}), Heard()
    model.connect(heard)
    model.press({"do": "start"})
    heard.until(lambda: any(event[3] == ENDS_ for event in heard.all("events")), "a call has ended")
    return model, heard


def test_it_breaks_opens_mends_and_closes() -> None:
    """Broken, the breaker opens; mended, it probes and closes; stopped, it tells no more."""
    model, heard = started()
    model.press({"do": "fault", "value": "error"})
    heard.until(lambda: "OPEN" in heard.states, "it has opened")
    model.press({"do": "fault", "value": "healthy"})
    heard.until(lambda: heard.states[-1] == "CLOSED" and "HALF_OPEN" in heard.states, "it has closed again")
    assert model.running
    model.press({"do": "stop"})
    many = len(heard.batches)
    assert (model.running, model.view()["running"], model.view()["notice"]) == (False, False, "Stopped.")
    threading.Event().wait(0.3)
    assert len(heard.batches) == many


@pytest.mark.parametrize("fault", [name for name, _, _ in FAULTS if name != "healthy"])
def test_each_of_the_six_ways_opens_the_breaker(fault: str) -> None:
    """However the service is broken, attempts fail or run out of time, the breaker opens, and calls are turned away."""
    model, heard = started()
    model.press({"do": "fault", "value": fault})
    heard.until(lambda: "OPEN" in heard.states, "it has opened")
    heard.until(lambda: any(event[3] == TURNED_AWAY for event in heard.all("events")), "a call was turned away")
    ways = {event[3] for event in heard.all("events")}
    assert (RUNS_OUT if fault in ("hang", "slow") else FAILS) in ways
    assert [name for _, name in heard.all("faults")] == ["healthy", fault]
    model.close()


def test_every_call_is_told_from_its_begin_to_its_end() -> None:
    """Events of a call begin with its begin and end with its end, in the order of time; the counts agree with them."""
    model, heard = started(replicas=2)
    heard.until(lambda: heard.batches[-1]["counts"].get("succeeded", 0) >= 20, "twenty calls")
    model.press({"do": "stop"})
    calls: dict[int, list[Any]] = {}
    for event in heard.all("events"):
        calls.setdefault(event[0], []).append(event)
    whole = [events for events in calls.values() if events[-1][3] == ENDS_]
    assert len(whole) >= 20
    for call, events in calls.items():
        assert events[0][3] == BEGINS
        assert [event[2] for event in events] == sorted(event[2] for event in events)
        assert {event[1] for event in events} == {call % 2}
    last = heard.batches[-1]["counts"]
    assert last["arrived"] == len(calls)
    assert last["succeeded"] == sum(events[-1][4] == ENDS.index("succeeded") for events in whole)


def test_a_probe_is_told_as_one() -> None:
    """The attempt that a breaker lets through after its cooldown is marked."""
    model, heard = started(fault="error")
    heard.until(lambda: any(event[3] == ARRIVES and event[5] for event in heard.all("events")), "a probe")
    heard.until(lambda: heard.batches[-1]["counts"].get("probes", 0) > 0, "a probe is counted")
    model.close()


def test_a_retry_and_a_fallback_are_on_the_way() -> None:
    """With both, a failing call is tried again and its caller is told that it is unavailable."""
    model, heard = started(attempts=2, fallback=True, fault="error", failure_threshold=30)
    assert [layer["name"] for layer in model.data()["layers"]] == ["say_unavailable", "again", "breaker", "limit"]
    heard.until(lambda: heard.batches[-1]["counts"].get("unavailable", 0) > 0, "somebody is told unavailable")
    call = next(event[0] for event in heard.all("events") if event[3] == ENDS_)
    assert [event[3] for event in heard.all("events") if event[0] == call].count(ARRIVES) == 2
    model.close()


def test_it_stops_by_itself() -> None:
    """When its time is over it ends, says so, and can be started again."""
    model, heard = started(minutes=0.01)
    heard.until(lambda: heard.batches[-1].get("ended") == "time", "it has ended")
    assert model.run is not None
    model.run.stop()  # waits for the thread's last step
    assert not model.running
    assert "stopped by itself" in model.view()["notice"]
    model.press({"do": "start"})
    assert model.running
    assert model.view()["number"] == 2
    model.close()


def test_a_new_rate_counts_at_once() -> None:
    """From one call a second to forty: the next calls do not wait for the old pace."""
    model, heard = started(rate=1)
    model.press({"do": "rate", "value": 40})
    heard.until(lambda: heard.batches[-1]["counts"]["arrived"] >= 10, "ten calls")
    assert heard.batches[-1]["now"] < 8.0
    assert model.view()["rate"] == 40.0
    model.close()


def test_what_cannot_be_told_now_is_told_next() -> None:
    """A batch that was refused comes again with the next: no event is lost and none comes twice."""
    model, heard = LiveModel(**QUICK), Heard()
    refused = iter(range(4))
    model.connect(lambda number, batch: False if next(refused, None) is not None else heard(number, batch))
    model.press({"do": "start"})
    heard.until(lambda: heard.batches[-1]["counts"].get("succeeded", 0) >= 15 if heard.batches else False, "calls")
    model.close()
    begun = [event[0] for event in heard.all("events") if event[3] == BEGINS]
    assert begun == list(range(len(begun)))


def test_what_goes_wrong_inside_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """A service that cannot be started ends the run with its sentence; nothing is raised into nowhere."""

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise ServiceError("the port is taken")

    monkeypatch.setattr(live_run, "HttpServiceThread", refuse)
    model, heard = LiveModel(**QUICK), Heard()
    model.connect(heard)
    model.press({"do": "start"})
    heard.until(lambda: bool(heard.batches) and heard.batches[-1].get("ended") == "the port is taken", "it has ended")
    model.close()
    assert model.view()["notice"] == "the port is taken"


def test_stop_before_it_has_begun() -> None:
    """Stopped in the moment of its start, it ends all the same."""
    model = LiveModel(**QUICK)
    model.press({"do": "start"})
    model.press({"do": "stop"})
    assert not model.running
    model.press({"do": "stop"})


# -------------------------------------------------------------------------------------------------------- on a page


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Heard:
    """What the widget sends to its page."""
    heard = Heard()
    monkeypatch.setattr(
        Stage,
        "send",
        lambda self, content, buffers=None: heard(content["number"], content["live"]) if "live" in content else None,
    )
    return heard


def test_the_widget_sends_batches_and_stops(sent: Heard) -> None:
    """The page hears batches from the run's thread; "stop" has its answer although that thread tells all the time."""
    shown = live_view(**QUICK)
    shown.press({"do": "start"})
    sent.until(lambda: len(sent.batches) >= 3, "three batches")
    assert shown.view["running"]
    shown.press({"do": "stop"})
    assert not shown.view["running"]
    shown.close()


def test_its_own_end_reaches_the_page(sent: Heard) -> None:
    """When the time is over, the view says so without anybody pressing anything."""
    shown = live_view(**{**QUICK, "minutes": 0.01})
    seen = threading.Event()
    shown.observe(lambda change: seen.set() if "by itself" in change["new"].get("notice", "") else None, "view")
    shown.press({"do": "start"})
    assert seen.wait(LIMIT)
    assert not shown.view["running"]
    shown.close()


def test_running_the_cell_again_ends_the_run(sent: Heard, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run of the cell's earlier run is over before the new widget is there."""
    monkeypatch.setattr(stages, "_running_cell", lambda: ("cell", "1"))
    first = live_view(**QUICK)
    first.press({"do": "start"})
    sent.until(lambda: len(sent.batches) >= 1, "a batch")
    monkeypatch.setattr(stages, "_running_cell", lambda: ("cell", "2"))
    second = live_view(**QUICK)
    assert threading.active_count() == len([each for each in threading.enumerate() if "labkit" not in each.name])
    second.close()


def test_nothing_runs_before_somebody_starts_it() -> None:
    """Showing it costs no thread and no socket."""
    before = left_over()
    shown = live_view()
    assert left_over() == before
    assert not shown.view["running"]
    shown.close()


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"failure_treshold": 3}, "did you mean 'failure_threshold'"),
        ({"rate": 41}, "rate: found “41”; it is a number from 1 to 40"),
        ({"replicas": 5}, "replicas: found “5”; it is a whole number from 1 to 4"),
        ({"fault": "flapping"}, "fault: found “flapping”"),
        ({"minutes": 0}, "minutes: found “0”"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, Any], says: str) -> None:
    """One sentence says what was found and what is allowed."""
    with pytest.raises(LabkitError, match=says):
        live_view(**settings)


@pytest.mark.parametrize("message", [{"do": "rate", "value": "fast"}, {"do": "fault", "value": "explode"}])
def test_a_bad_press_is_a_sentence(message: dict[str, Any]) -> None:
    """What cannot be set is said, and what was set stays."""
    model = LiveModel(**QUICK)
    model.press(message)
    assert message["value"] in model.view()["notice"]
    assert (model.view()["rate"], model.view()["fault"]) == (40.0, "healthy")
    model.press({"do": "something else"})
    assert model.view()["notice"] == ""


def test_its_stack_is_yaml_that_loads() -> None:
    """The stack is a configuration like any other, with the settings in it."""
    model = LiveModel(**{**QUICK, "attempts": 3, "fallback": True, "probe_timeout": None, "timeout": None})
    config = load_stack_config(model.yaml())
    assert config.functions["parts_availability"].middleware == ["say_unavailable", "again", "breaker"]
    breaker = config.middleware["breaker"]
    assert (breaker.failure_threshold, breaker.cooldown_period, breaker.probe_timeout) == (2, 0.2, None)  # type: ignore[attr-defined]


def test_it_shows_its_layers_and_words_where_no_kernel_runs() -> None:
    """Without a kernel there is a picture of who wraps whom, and a sentence that says what it needs."""
    shown = live_view(minutes=2)
    data, _ = shown._repr_mimebundle_()  # type: ignore[misc]
    assert "It needs a kernel, and stops by itself after 2 minutes." in data["text/plain"]
    assert data["image/png"]
    assert labkit.live_view is live_view
    assert isinstance(shown, LiveView)
    shown.close()
