"""In a real kernel: a press is handled on the main thread as well as in a subshell, and while a cell runs it waits."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from queue import Empty
from typing import Any

import pytest

jupyter_client = pytest.importorskip("jupyter_client")

ROOT = Path(__file__).resolve().parents[2]
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


class Kernel:
    """A kernel, and what it says."""

    def __init__(self, client: Any) -> None:
        self.client = client

    def _send(self, channel: str, kind: str, content: dict[str, Any], subshell: str | None = None) -> str:
        message = self.client.session.msg(kind, content)
        if subshell is not None:
            message["header"]["subshell_id"] = subshell
        getattr(self.client, f"{channel}_channel").send(message)
        return str(message["header"]["msg_id"])

    def heard(self, asked: str) -> list[dict[str, Any]]:
        """What was published for a message, until it was done."""
        messages = []
        while True:
            try:
                message = self.client.get_iopub_msg(timeout=60)
            except Empty:
                raise AssertionError(f"no end of {asked} in a minute; so far: {messages}") from None
            if message["parent_header"].get("msg_id") != asked:
                continue
            if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
                return messages
            messages.append({"type": message["msg_type"], **message["content"]})

    def run(self, code: str) -> list[dict[str, Any]]:
        """Run a cell; what it published."""
        messages = self.heard(self.client.execute(code))
        assert [each for each in messages if each["type"] == "error"] == []
        return messages

    def printed(self, code: str) -> str:
        """Run a cell; what it printed."""
        return "".join(each["text"] for each in self.run(code) if each["type"] == "stream")

    def subshell(self) -> str:
        """A new subshell, as JupyterLab makes one for widgets."""
        self._send("control", "create_subshell_request", {})
        return str(self.client.get_control_msg(timeout=60)["content"]["subshell_id"])

    def press(self, comm: str, message: dict[str, Any], subshell: str | None = None) -> str:
        """A message of the page."""
        data = {"method": "custom", "content": message}
        return self._send("shell", "comm_msg", {"comm_id": comm, "data": data}, subshell)


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[Kernel]:
    """A kernel of this environment, ended with the test."""
    from jupyter_client.manager import KernelManager

    environment = os.environ | {"PYTHONPATH": str(ROOT), "IPYTHONDIR": str(tmp_path), "JUPYTER_PREFER_ENV_PATH": "1"}
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel(env=environment, extra_arguments=["--log-level=ERROR"])
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=60)
        yield Kernel(client)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
        manager.cleanup_resources()
        manager.context.term()


def comm_of(messages: list[dict[str, Any]]) -> str:
    """The comm of the stepper that a cell made."""
    opened = [each for each in messages if each["type"] == "comm_open"]
    return next(str(each["comm_id"]) for each in opened if each["data"]["state"]["_model_module"] == "anywidget")


def views(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The views among what a kernel published."""
    updates = [each["data"] for each in messages if each["type"] == "comm_msg" and each["data"]["method"] == "update"]
    return [each["state"]["view"] for each in updates if "view" in each["state"]]


def answers(messages: list[dict[str, Any]]) -> list[str]:
    """The questions that were answered."""
    return [each["data"]["content"]["answered"] for each in messages
            if each["type"] == "comm_msg" and each["data"]["method"] == "custom"]  # fmt: skip


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
    cell = kernel.client.execute("for _ in range(20): stepper.press({'do': 'call'})")
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
