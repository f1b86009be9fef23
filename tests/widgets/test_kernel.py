"""In a real kernel: a press is handled on the main thread as well as in a subshell, and while a cell runs it waits."""

from __future__ import annotations

import pytest

from tests.widgets.kernels import Kernel, answers, comm_of, views

MAKE = """
import threading
from labkit import state_stepper
stepper = state_stepper({"failure_threshold": 1}, predict=False)
threads = []
press = stepper.press
def noted(message):
    threads.append(threading.current_thread() is threading.main_thread())
    press(message)
stepper.press = noted
"""


@pytest.mark.timeout(180)
def test_presses_arrive_on_both_paths(kernel: Kernel) -> None:
    """A press by the main shell and one by a subshell change the same stepper, each answered with its view."""
    opened = kernel.run(MAKE)
    comm = comm_of(opened)
    subshell = kernel.subshell()

    on_main = kernel.heard(kernel.press(comm, {"do": "call", "ask": "1"}))
    assert [view["sentence"] for view in views(on_main)] == ["c1 is admitted: the breaker is closed."]
    assert answers(on_main) == ["1"]

    # ipykernel sends a comm's messages to the shell that last spoke for it, so the first two may go by the main thread.
    for number in ("2", "3"):
        heard = kernel.heard(kernel.press(comm, {"do": "call", "ask": number}, subshell))
        assert answers(heard) == [number]
    heard = kernel.heard(kernel.press(comm, {"do": "finish", "id": "c1", "outcome": "error", "ask": "4"}, subshell))
    assert [(view["state"], view["word"]) for view in views(heard)] == [("OPEN", "open")]
    ways = kernel.printed("print(*threads)").split()
    assert ways[0] == "True"
    assert ways[-1] == "False"


@pytest.mark.timeout(180)
def test_a_press_while_a_cell_runs_is_not_lost(kernel: Kernel) -> None:
    """Presses that come while a cell runs, and presses by that cell itself, all count, and each is answered."""
    opened = kernel.run(MAKE)
    comm = comm_of(opened)
    subshell = kernel.subshell()
    first = kernel.press(comm, {"do": "call", "ask": "0"}, subshell)
    assert answers(kernel.heard(first)) == ["0"]
    cell = kernel.start("for _ in range(20): stepper.press({'do': 'call'})")
    asked = {kernel.press(comm, {"do": "call", "ask": str(number)}, subshell) for number in range(1, 11)}
    done: list[str] = []
    waiting = asked | {cell}
    while waiting:
        message = kernel.client.get_iopub_msg(timeout=60)
        parent = message["parent_header"].get("msg_id")
        if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
            waiting.discard(parent)
        if message["msg_type"] == "comm_msg" and message["content"]["data"]["method"] == "custom":
            done.append(message["content"]["data"]["content"]["answered"])
    assert sorted(done, key=int) == [str(number) for number in range(1, 11)]
    assert kernel.printed("print(len(stepper.view['history']), len(stepper.view['flights']))").split() == ["31", "31"]
