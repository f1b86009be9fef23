"""A real kernel for the tests of widgets, and how to read what it says."""

from __future__ import annotations

from queue import Empty
from typing import Any


class Kernel:
    """A kernel, and what it says."""

    def __init__(self, manager: Any, client: Any) -> None:
        self.manager = manager
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

    def start(self, code: str, cell: str = "cell") -> str:
        """Begin to run a cell of a notebook."""
        content = {"code": code, "silent": False, "store_history": True, "allow_stdin": False, "stop_on_error": True}
        message = self.client.session.msg("execute_request", content, metadata={"cellId": cell})
        self.client.shell_channel.send(message)
        return str(message["header"]["msg_id"])

    def run(self, code: str, cell: str = "cell") -> list[dict[str, Any]]:
        """Run a cell of a notebook; what it published."""
        messages = self.heard(self.start(code, cell))
        assert [each for each in messages if each["type"] == "error"] == []
        return messages

    def printed(self, code: str, cell: str = "asking") -> str:
        """Run a cell; what it printed."""
        return "".join(each["text"] for each in self.run(code, cell) if each["type"] == "stream")

    def until_idle(self, waiting: set[str]) -> list[dict[str, Any]]:
        """What was published until all of these messages were done, whoever brought it about."""
        messages, waiting = [], set(waiting)
        while waiting:
            message = self.client.get_iopub_msg(timeout=60)
            if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
                waiting.discard(message["parent_header"].get("msg_id"))
            else:
                messages.append({"type": message["msg_type"], **message["content"]})
        return messages

    def subshell(self) -> str:
        """A new subshell, as JupyterLab makes one for widgets."""
        self._send("control", "create_subshell_request", {})
        return str(self.client.get_control_msg(timeout=60)["content"]["subshell_id"])

    def press(self, comm: str, message: dict[str, Any], subshell: str | None = None) -> str:
        """A message of the page."""
        data = {"method": "custom", "content": message}
        return self._send("shell", "comm_msg", {"comm_id": comm, "data": data}, subshell)


def comm_of(messages: list[dict[str, Any]]) -> str:
    """The comm of the explorer that a cell made."""
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
