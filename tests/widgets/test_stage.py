"""The base of the explorers: presses from any thread, views in their order, and nothing kept of what is gone."""

from __future__ import annotations

import base64
import gc
import threading
import weakref
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from typing import Any

import ipywidgets
import pytest
from PIL import Image

import labkit
from labkit.errors import ClockError
from labkit.plots import Picture
from labkit.widgets import StateStepper, state_stepper
from labkit.widgets import stage as stages
from labkit.widgets.stage import Stage

CALL = {"do": "call"}


class Counter:
    """A model that counts, slowly enough for threads to meet, and fails on demand."""

    def __init__(self) -> None:
        self.count = 0
        self.inside = 0
        self.met = False
        self.closed = 0

    def press(self, message: Mapping[str, Any]) -> None:
        """Count, and note whether another thread is in here too."""
        self.inside += 1
        self.met = self.met or self.inside > 1
        if message["do"] == "fail":
            self.inside -= 1
            raise ClockError("the clock says no")
        if message["do"] == "break":
            self.inside -= 1
            raise ZeroDivisionError("a fault of ours")
        seen = self.count
        threading.Event().wait(0.001)
        self.count = seen + 1
        self.inside -= 1

    def view(self) -> dict[str, Any]:
        """The count."""
        return {"count": self.count, "notice": ""}

    def still(self) -> Picture:
        """An empty picture."""
        return Picture(20.0, 10.0, (), "Counter", f"It shows {self.count}.")

    def words(self) -> str:
        """The count in words."""
        return f"Counter at {self.count}."

    def close(self) -> None:
        """Note it."""
        self.closed += 1


class CounterStage(Stage):
    """The counter on a page."""

    _esm = "export default { render() {} }"


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What explorers send to their pages beside their views."""
    messages: list[Any] = []
    monkeypatch.setattr(Stage, "send", lambda self, content, buffers=None: messages.append(content))
    return messages


def test_presses_from_many_threads_are_handled_one_by_one() -> None:
    """Eight threads press at once: no two are inside the model together, none is lost, and the last view wins."""
    model = Counter()
    shown = CounterStage(model)
    views: list[int] = []
    shown.observe(lambda change: views.append(change["new"]["count"]), "view")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(shown.press, [CALL] * 200))
    assert (model.count, model.met) == (200, False)
    assert views == list(range(1, 201))
    assert shown.view["count"] == 200


def test_a_fault_of_the_learner_s_is_a_sentence() -> None:
    """What labkit has to say about a press is shown in the view; the explorer goes on."""
    shown = CounterStage(Counter())
    shown.press({"do": "fail"})
    assert shown.view["notice"] == "the clock says no"
    shown.press(CALL)
    assert shown.view == {"count": 1, "notice": ""}


def test_a_fault_of_ours_does_not_wedge_it(caplog: pytest.LogCaptureFixture) -> None:
    """An unforeseen exception is logged and told, the lock is free again, and the next press works."""
    shown = CounterStage(Counter())
    shown.press({"do": "break"})
    assert "could not be done" in shown.view["notice"]
    assert "ZeroDivisionError" in caplog.text
    with ThreadPoolExecutor(1) as pool:
        pool.submit(shown.press, CALL).result(timeout=10)
    assert shown.view["count"] == 1


def test_every_message_is_answered(sent: list[Any]) -> None:
    """The page hears that somebody listens, also when it only asks, and hears it after the view has changed."""
    shown = CounterStage(Counter())
    shown._handle_custom_msg({"ask": "1.1"}, [])
    shown._handle_custom_msg({"do": "call", "ask": "1.2"}, [])
    assert sent == [{"answered": "1.1"}, {"answered": "1.2"}]
    assert shown.view["count"] == 1


@pytest.mark.parametrize("content", [None, 5, "do", ["do"]])
def test_what_is_no_message_is_ignored(content: object, sent: list[Any]) -> None:
    """A message of another shape does nothing."""
    shown = CounterStage(Counter())
    shown._handle_custom_msg(content, [])
    assert (shown.view["count"], sent) == (0, [])


def test_closed_is_closed(sent: list[Any]) -> None:
    """After close a late press from another thread does nothing and sends nothing; closing again is no fault."""
    model = Counter()
    shown = CounterStage(model)
    shown.close()
    shown.close()
    shown.press(CALL)
    shown._hear(shown, {"do": "call", "ask": "1.1"}, [])
    assert (model.count, model.closed, sent) == (0, 1, [])


def test_a_stepper_is_gone_when_it_is_closed() -> None:
    """ipywidgets keeps every widget for ever; one that was closed is not kept, nor its layout, nor its session."""
    from ipywidgets.widgets.widget import _instances

    before = len(_instances)
    shown = state_stepper(predict=False)
    shown.press(CALL)
    gone = weakref.ref(shown), weakref.ref(shown._model.session)  # type: ignore[attr-defined]
    shown.close()
    del shown
    gc.collect()
    assert [each() for each in gone] == [None, None]
    assert len(_instances) == before


def run_cell(monkeypatch: pytest.MonkeyPatch, cell: str | None, run: str) -> None:
    """From here on the code runs in that cell, in that run of it."""
    monkeypatch.setattr(stages, "_running_cell", lambda: (cell, run))


def test_running_a_cell_again_frees_what_it_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cell's explorers are closed when the cell runs again; those of other cells stay."""
    models = [Counter() for _ in range(5)]
    run_cell(monkeypatch, "cell-a", "1")
    CounterStage(models[0])
    CounterStage(models[1])
    run_cell(monkeypatch, "cell-b", "2")
    CounterStage(models[2])
    assert [model.closed for model in models] == [0, 0, 0, 0, 0]
    run_cell(monkeypatch, "cell-a", "3")
    CounterStage(models[3])
    CounterStage(models[4])
    assert [model.closed for model in models] == [1, 1, 0, 0, 0]


def test_two_hundred_runs_of_a_cell_keep_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """However often a cell is run, one explorer of it is alive."""
    from ipywidgets.widgets.widget import _instances

    run_cell(monkeypatch, "cell-c", "0")
    CounterStage(Counter())
    before = len(_instances)
    for number in range(1, 200):
        run_cell(monkeypatch, "cell-c", str(number))
        CounterStage(Counter())
    assert len(_instances) == before


def test_outside_a_notebook_nothing_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a cell (a script, a console) every explorer lives until it is closed."""
    assert stages._running_cell() == (None, "")
    models = [Counter(), Counter()]
    for model in models:
        CounterStage(model)
    assert [model.closed for model in models] == [0, 0]


def test_shows_a_picture_where_no_kernel_runs() -> None:
    """The output has the live view, and beside it a picture and words for pages that have no kernel."""
    shown = state_stepper({"failure_threshold": 2})
    data, metadata = shown._repr_mimebundle_()  # type: ignore[misc]
    assert set(data) == {"application/vnd.jupyter.widget-view+json", "image/png", "text/plain"}
    assert data["application/vnd.jupyter.widget-view+json"]["model_id"] == shown.model_id
    size = metadata["image/png"]
    assert Image.open(BytesIO(base64.b64decode(data["image/png"]))).size == (
        round(1.5 * size["width"]),
        round(1.5 * size["height"]),
    )
    assert "2 failures in a row open it" in size["alt"]


def test_the_words_are_the_same_in_every_run() -> None:
    """What is stored of an output has no address and no id, so that two runs of a notebook are equal."""
    one, other = state_stepper(), state_stepper()
    assert repr(one) == repr(other)
    assert one._repr_mimebundle_()[0]["image/png"] == other._repr_mimebundle_()[0]["image/png"]  # type: ignore[index]


def test_bad_settings_are_refused_at_once() -> None:
    """A stepper that cannot be is not made: the configuration's own error says what is wrong."""
    with pytest.raises(Exception, match="failure_threshold"):
        state_stepper({"failure_threshold": 0})


def test_the_page_s_files_travel_with_the_package() -> None:
    """The script and the style sheet are found beside the module, the base's part first."""
    script, style = StateStepper._esm, StateStepper._css
    assert script.index("function stage(") < script.index("export default")
    assert style.index(".labkit {") < style.index(".labkit-question")


def test_labkit_hands_on_the_stepper() -> None:
    """`from labkit import state_stepper` gives the function, and only then imports ipywidgets."""
    assert labkit.state_stepper is state_stepper
    assert isinstance(state_stepper(), ipywidgets.DOMWidget)
