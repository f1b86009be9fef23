"""Explorers between threads: pressed from several at once, in a real kernel on both of its paths, and let go of."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from labkit.widgets.explorer.explorer import Explorer
from labkit.widgets.explorers.outage import OutageModel
from tests.widgets.kernels import Kernel, answers, comm_of, views
from tests.widgets.tiny import Tiny


def thresholds(view: Mapping[str, Any]) -> Any:
    """What the first control of an explorer shows."""
    return view["controls"][0]["value"]


def move(threshold: int, ask: str = "") -> dict[str, Any]:
    """The slider of `failure_threshold`, moved."""
    return {"do": "set", "values": {"failure_threshold": threshold}, "ask": ask}


# ------------------------------------------------------------------------------------------------ threads of a process


def test_one_explorer_pressed_from_many_threads() -> None:
    """Every position is handled for itself: each view holds the run of its own settings, and the last is shown."""
    shown = Explorer(Tiny())
    seen: list[dict[str, Any]] = []
    shown.observe(lambda change: seen.append(change["new"]), "view")
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda value: shown.press({"do": "set", "values": {"threshold": value}}), range(4, 24)))
    assert sorted(map(thresholds, seen)) == list(range(4, 24))
    for view in seen:
        assert f"failure_threshold: {thresholds(view)}," in view["yaml"]
    assert shown.view == seen[-1]


def test_two_explorers_at_once_do_not_mix() -> None:
    """Two explorers that run in two threads at the same time show what each shows alone."""
    both = [Explorer(OutageModel(replicas=replicas)) for replicas in (1, 3)]
    start = threading.Barrier(2)

    def drag(shown: Explorer) -> None:
        start.wait(timeout=30)
        for value in (6, 9, 4, 12):
            shown.press(move(value))

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(drag, both))
    for shown, replicas in zip(both, (1, 3), strict=True):
        alone = OutageModel(replicas=replicas, failure_threshold=12).view()
        assert "failure_threshold 4 → 12" in shown.view["changed"]
        assert shown.view | {"changed": ""} == alone


def test_a_press_that_comes_when_it_is_closed_is_lost_in_peace() -> None:
    """Closing waits for the press that is being handled; one that comes later does nothing."""
    inside, go_on = threading.Event(), threading.Event()

    class Slow(Tiny):
        def run(self, settings: Mapping[str, Any]) -> Any:
            if settings["threshold"] == 5:
                inside.set()
                assert go_on.wait(timeout=30)
            return super().run(settings)

    shown = Explorer(Slow())
    with ThreadPoolExecutor(2) as pool:
        pressed = pool.submit(shown.press, {"do": "set", "values": {"threshold": 5}})
        assert inside.wait(timeout=30)
        closed = pool.submit(shown.close)
        go_on.set()
        pressed.result(timeout=30)
        closed.result(timeout=30)
    shown.press({"do": "set", "values": {"threshold": 6}})
    assert shown.comm is None


# -------------------------------------------------------------------------------------------------------- a real kernel

MAKE = "from labkit import outage_explorer\nexplorer = outage_explorer()\nexplorer\n"
SLOW = """
import threading, time
from labkit.widgets.explorer import model as explorer_model
run = explorer_model.run_scenario
def slowly(scenario):
    ran.append(threading.current_thread() is threading.main_thread())
    began = time.monotonic()
    while stuck and time.monotonic() - began < 30:
        time.sleep(0.01)
    return run(scenario)
ran, stuck = [], []
explorer_model.run_scenario = slowly
"""


@pytest.mark.timeout(180)
def test_moves_on_both_paths_while_a_cell_runs(kernel: Kernel) -> None:
    """Moves by the main shell, by a subshell and by a running cell: each is answered, in turn, with its own run."""
    comm = comm_of(kernel.run(SLOW + MAKE))
    subshell = kernel.subshell()
    heard = kernel.heard(kernel.press(comm, move(7, "main")))
    assert (answers(heard), [thresholds(view) for view in views(heard)]) == (["main"], [7])
    for number in range(3):  # until the comm's messages go by the subshell
        kernel.heard(kernel.press(comm, {"ask": f"hello {number}"}, subshell))

    cell = kernel.start(
        "for value in range(8, 13): explorer.press({'do': 'set', 'values': {'failure_threshold': value}})"
    )
    asked = {kernel.press(comm, move(value, str(value)), subshell) for value in range(20, 25)}
    said = kernel.until_idle({cell, *asked})
    assert sorted(answers(said)) == [str(value) for value in range(20, 25)]
    shown = views(said)
    assert sorted(map(thresholds, shown)) == [*range(8, 13), *range(20, 25)]
    for view in shown:
        assert f"failure_threshold: {thresholds(view)}\n" in view["yaml"]
    assert kernel.printed("print({*ran} == {True, False}, explorer.view['controls'][0]['value'])").split() == [
        "True", str(thresholds(shown[-1]))
    ]  # fmt: skip


@pytest.mark.timeout(180)
def test_an_interrupt_ends_a_run_and_nothing_else(kernel: Kernel) -> None:
    """Interrupt kernel during a long run: the page is answered, the last picture stays and the next move works."""
    comm = comm_of(kernel.run(SLOW + MAKE))
    kernel.run("stuck.append(1); count = len(ran)")
    asked = kernel.press(comm, move(9, "1"))
    time.sleep(0.5)  # not waited for by a condition: that would need the shell that is busy
    kernel.manager.interrupt_kernel()
    heard = kernel.heard(asked)
    assert answers(heard) == ["1"]
    assert [(thresholds(view), view["notice"]) for view in views(heard)] == [
        (5, "Interrupted: what is shown is of before.")
    ]  # fmt: skip
    kernel.run("stuck.clear()")
    heard = kernel.heard(kernel.press(comm, move(9, "2")))
    assert ([thresholds(view) for view in views(heard)], answers(heard)) == ([9], ["2"])


@pytest.mark.timeout(180)
def test_run_all_and_restart(kernel: Kernel) -> None:
    """Run All closes what the cells made before; after a restart the old page's words are lost, and new ones work."""
    first = {
        cell: comm_of(kernel.run(MAKE.replace("explorer =", f"{cell} = explorer ="), cell)) for cell in ("one", "two")
    }
    closed: set[str] = set()
    second = {}
    for cell in first:
        said = kernel.run(MAKE.replace("explorer =", f"{cell} = explorer ="), cell)
        closed |= {each["comm_id"] for each in said if each["type"] == "comm_close"}
        second[cell] = comm_of(said)
    assert set(first.values()) <= closed
    assert closed.isdisjoint(second.values())
    heard = kernel.heard(kernel.press(second["two"], move(3, "1")))
    assert [thresholds(view) for view in views(heard)] == [3]
    assert kernel.printed("print(one.view['controls'][0]['value'])").strip() == "5"

    kernel.manager.restart_kernel(now=True)
    kernel.client.wait_for_ready(timeout=60)
    assert views(kernel.heard(kernel.press(second["two"], move(4, "2")))) == []
    comm = comm_of(kernel.run(MAKE))
    assert answers(kernel.heard(kernel.press(comm, move(4, "3")))) == ["3"]


MEMORY = "import gc, psutil; gc.collect(); print(psutil.Process().memory_info().rss)"


@pytest.mark.timeout(400)
def test_forty_runs_of_a_cell_do_not_grow(kernel: Kernel) -> None:
    """A cell that shows an explorer, run forty times over, takes less than 6 MB more than when it was new.

    The kernel itself keeps 70 KB of each run; an explorer that was kept would be forty on the last line.
    """
    for _ in range(20):
        kernel.run(MAKE)
    before = int(kernel.printed(MEMORY))
    for _ in range(40):
        comm = comm_of(kernel.run(MAKE))
    kernel.heard(kernel.press(comm, move(8, "1")))
    grown = int(kernel.printed(MEMORY)) - before
    told = json.loads(
        kernel.printed(
            "import json, threading; from ipywidgets.widgets.widget import _instances; "
            "print(json.dumps([threading.active_count(), len(_instances)]))"
        )
    )
    assert grown < 6e6, f"{grown / 1e6:.1f} MB"
    assert told[0] < 20
    assert told[1] < 10
