"""Real processes, each with a breaker of its own, whose probes need one lease in a SQLite file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from labkit.timing import LoopClock

fcntl = pytest.importorskip("fcntl", reason="the processes watch each other with the file locks of POSIX")

LIFE = 1.5  # seconds that a lease lasts
LONG = 2.0  # seconds that a long probe takes: it needs a lease that is renewed
LIMIT = 45.0  # seconds after which everybody gives up

# Calls through its breaker until the dependency has recovered. A file says how the dependency behaves; while a call is
# in it, the process holds a lock that the system lets go of when the process dies.
WORKER = f"""
import asyncio, fcntl, os, sys, time
from pathlib import Path
from labkit.config import load_stack_config
from labkit.errors import CircuitBreakerOpenError
from labkit.middleware import Stack
from labkit.timing import LoopClock

folder, clock = Path(sys.argv[1]), LoopClock()
log = os.open(folder / "log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)

def tell(what):
    os.write(log, f"{{clock.now()!r}} {{os.getpid()}} {{what}}\\n".encode())

async def service(trip=False):
    if trip:
        raise OSError("down")
    mode = (folder / "mode").read_text()
    with open(folder / "lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            tell("overlap")
            mode = "down" if mode == "blocking" else mode  # one stands still, no more
        tell(f"begin {{mode}}")
        if mode == "blocking":  # its loop stands still until it is told to answer, whoever has the lease by then
            end = clock.now() + {LIMIT}
            while not (folder / "answer").exists() and clock.now() < end:
                time.sleep(0.01)
            tell("end")
            return "ok"
        try:
            await clock.sleep({{"long": {LONG}}}.get(mode, 0.02))
            if mode != "up":
                raise OSError("down")
        finally:
            tell("end")

async def main():
    stack = Stack(load_stack_config(Path(sys.argv[1]) / "stack.yaml"), {{"parts": service}})
    try:
        await stack.call("parts", trip=True)
    except OSError:
        tell("tripped")
    end = clock.now() + {LIMIT}
    while clock.now() < end:
        try:
            await stack.call("parts")
            state = stack.middleware["breaker"].snapshot("parts").state.value
            tell("recovered" if state == "CLOSED" else f"answered while {{state}}")
            if state == "CLOSED":
                return
        except CircuitBreakerOpenError:
            pass
        except Exception as error:
            tell(f"failed {{type(error).__name__}}")
        await clock.sleep(0.01)

asyncio.run(main())
"""

STACK = f"""
middleware:
  breaker: {{_type: guarded_circuit_breaker, failure_threshold: 1, cooldown_period: 0.05, probe_lease: parts_probe}}
functions:
  parts: {{_type: parts, middleware: [breaker]}}
leases:
  parts_probe: {{_type: sqlite, time_to_live: {LIFE}, path: PATH, acquire_timeout: 10}}
"""


class Line(NamedTuple):
    """One line of the log: when (in the machine's monotonic seconds), which process, what."""

    at: float
    process: int
    what: str


class Deployment:
    """Some processes and their log."""

    def __init__(self, folder: Path, count: int = 4) -> None:
        self.folder = folder
        (folder / "stack.yaml").write_text(STACK.replace("PATH", str(folder / "leases.sqlite3")))
        self.set("down")
        command = [sys.executable, "-c", WORKER, str(folder)]
        self.processes = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(count)]

    def set(self, mode: str) -> None:
        """Say how the dependency behaves from the next call on, in one step."""
        (self.folder / "new").write_text(mode)
        os.replace(self.folder / "new", self.folder / "mode")

    def log(self) -> list[Line]:
        """What has been told so far."""
        try:
            lines = (self.folder / "log").read_text().splitlines()
        except FileNotFoundError:
            return []
        split = [line.split(" ", 2) for line in lines]
        return [Line(float(at), int(process), what) for at, process, what in split]

    def until(self, found: Callable[[list[Line]], Any]) -> Any:
        """What is found in the log once there is something to be found."""
        clock = LoopClock()
        end = clock.now() + LIMIT
        while not (answer := found(self.log())):
            dead = [process.stderr.read() for process in self.processes if process.poll() not in (None, 0, -9)]
            assert not dead, dead
            assert clock.now() < end, self.log()
            time.sleep(0.01)
        return answer


@contextmanager
def deployment(folder: Path, count: int = 4) -> Iterator[Deployment]:
    """So many processes, which are gone in the end, whatever happens."""
    made = Deployment(folder, count)
    try:
        yield made
    finally:
        for process in made.processes:
            process.kill()
            process.communicate(timeout=30.0)


def test_never_two_probes_and_recovery_after_a_death(tmp_path: Path) -> None:
    """Four processes never probe at once; one is killed holding the lease, and the others go on within its time."""
    with deployment(tmp_path) as four:
        # Down: the four of them probe by turns, and every probe fails.
        four.until(lambda log: len({line.process for line in log if line.what == "tripped"}) == 4)
        four.until(lambda log: len({line.process for line in log if line.what.startswith("begin")}) >= 2)

        # A probe that takes longer than the lease lasts is renewed, and joined by nobody.
        four.set("long")
        first = four.until(lambda log: next((line for line in log if line.what == "begin long"), None))
        ended = four.until(
            lambda log: next((line for line in log if line[1:] == (first.process, "end") and line.at > first.at), None)
        )
        assert ended.at - first.at > LIFE

        # The next long one's process dies in the middle of it.
        held = four.until(
            lambda log: next((line for line in log if line.what == "begin long" and line.at > ended.at), None)
        )
        os.kill(held.process, signal.SIGKILL)
        killed = LoopClock().now()
        four.set("up")
        after = four.until(lambda log: next((line for line in log if line.what == "begin up"), None))
        assert after.process != held.process
        assert after.at - killed < LIFE + 2.0  # the rest is for a busy machine

        # The dependency is up: the three that are left find out, one after the other.
        four.until(lambda log: len({line.process for line in log if line.what == "recovered"}) == 3)
        log = four.log()

    assert [line for line in log if line.what == "overlap"] == []
    running: int | None = None
    for line in log:  # the lock says the same as the times
        if line.what.startswith("begin"):
            assert running in (None, held.process)
            running = line.process
        elif line.what == "end":
            assert running == line.process
            running = None
    assert held.process not in {line.process for line in log if line.what == "recovered"}


def test_a_process_that_stood_still_does_not_close_on_a_lapsed_lease(tmp_path: Path) -> None:
    """The holder's loop is blocked, another takes the lapsed lease and fails: the first's late "ok" closes nothing."""
    with deployment(tmp_path, 2) as two:
        two.until(lambda log: len({line.process for line in log if line.what == "tripped"}) == 2)
        two.set("blocking")
        first = two.until(lambda log: next((line for line in log if line.what == "begin blocking"), None))
        two.set("down")
        other = two.until(lambda log: next((line for line in log if line.what == "begin down" and line > first), None))
        assert other.process != first.process
        two.until(lambda log: any(line[1:] == (other.process, "failed OSError") and line > other for line in log))
        (tmp_path / "answer").touch()
        two.until(lambda log: any(line[1:] == (first.process, "answered while HALF_OPEN") for line in log))

        # And then it goes on as any other.
        two.set("up")
        two.until(lambda log: len({line.process for line in log if line.what == "recovered"}) == 2)
