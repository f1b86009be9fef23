"""The same program does the same on `VirtualClock` and on `LoopClock` over `VirtualLoop`, whatever the program is.

Programs are trees of what a coroutine can do with a clock. Every wait is a power of two of its own, so that no two
tasks are ever due at the same instant: every sum of waits is another one. (asyncio does not promise an order for timers
that are due together.) What happens within an instant, when tasks wake, cancel and await each other, is compared to the
last step.
"""

from __future__ import annotations

from asyncio import CancelledError
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from labkit.timing import LoopClock, VirtualClock, run_virtual

EVENTS = 3
LIMIT = 0.375  # the one length that several deadlines share, and so one queue

_leaf = st.one_of(
    st.just(("sleep",)),
    st.just(("yield",)),
    st.just(("cancel self",)),
    st.just(("raise",)),
    st.tuples(st.sampled_from(["set", "clear", "wait"]), st.integers(0, EVENTS - 1)),
    st.tuples(st.sampled_from(["cancel", "await"]), st.integers(0, 7)),
)


def _blocks(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    body = st.lists(inner, max_size=4)
    return st.one_of(
        st.tuples(st.sampled_from(["start", "swallow"]), body),
        st.tuples(st.just("finally"), body, body),
        st.tuples(st.just("timeout"), body, st.sampled_from(["own", "shared", "zero", "none", "at", "at now"])),
    )


programs = st.lists(st.recursive(_leaf, _blocks, max_leaves=25), min_size=1, max_size=6)


def shown(error: BaseException) -> str:
    """Say which error it was; of a cancellation only that it was one."""
    # Which message speaks when a task is cancelled twice in one instant, asyncio leaves to the kind of its wait.
    return "CancelledError" if isinstance(error, CancelledError) else repr(error)


def run(program: list[Any], host: str) -> list[Any]:
    """Run a program; gives everything that happened, in order, each with its time."""
    trace: list[Any] = []
    clock: Any = VirtualClock() if host == "clock" else LoopClock()
    tasks: list[Any] = []
    events: list[Any] = []
    waits = iter(2.0**power for power in range(10, 52))

    def note(me: int, *what: Any) -> None:
        trace.append((clock.now(), me, *what))

    async def block(me: int, body: list[Any]) -> None:
        for step in body:
            await do(me, *step)

    async def do(me: int, verb: str, *rest: Any) -> None:
        if verb == "sleep":
            await clock.sleep(next(waits))
        elif verb == "yield":
            await clock.sleep(0)
        elif verb == "cancel self":
            tasks[me].cancel()
        elif verb == "raise":
            raise ValueError(len(trace))
        elif verb == "set":
            events[rest[0]].set()
        elif verb == "clear":
            events[rest[0]].clear()
        elif verb == "wait":
            await events[rest[0]].wait()
        elif verb == "cancel":
            note(me, "cancels", tasks[rest[0] % len(tasks)].cancel())
        elif verb == "await":
            other = rest[0] % len(tasks)
            if other > me:  # only those that came later, so that no two await each other
                note(me, "got", await tasks[other])
        elif verb == "start":
            begin(rest[0])
        elif verb == "swallow":
            try:
                await block(me, rest[0])
            except (CancelledError, TimeoutError, ValueError) as error:
                note(me, "swallows", shown(error))
        elif verb == "finally":
            try:
                await block(me, rest[0])
            finally:
                note(me, "cleans up")
                await block(me, rest[1])
        elif verb == "timeout":
            await limited(me, *rest)
        note(me, verb)

    async def limited(me: int, body: list[Any], kind: str) -> None:
        message = f"limit of {me}"
        if kind == "at":
            deadline = clock.timeout_at(clock.now() + next(waits), message)
        elif kind == "at now":
            deadline = clock.timeout_at(clock.now(), message)
        else:
            deadline = clock.timeout({"shared": LIMIT, "zero": 0, "none": None}.get(kind) or None, message)
            if kind == "own":
                deadline = clock.timeout(next(waits), message)
            elif kind == "zero":
                deadline = clock.timeout(0, message)
        try:
            async with deadline:
                await block(me, body)
        except TimeoutError as error:
            note(me, "timed out", shown(error), tasks[me].cancelling())
        finally:
            note(me, "expired", deadline.expired())

    def begin(body: list[Any]) -> None:
        me = len(tasks)

        async def life() -> int:
            note(me, "begins")
            try:
                await block(me, body)
            except BaseException as error:
                note(me, "ends", shown(error))
                raise
            note(me, "ends")
            return me

        tasks.append(clock.start(life(), name=f"task {me}"))

    async def main() -> None:
        events.extend(clock.event() for _ in range(EVENTS))
        begin(program)
        while not all(task.done() for task in tasks):
            await clock.sleep(2.0**52 / 64)  # longer than all that came before, and then nobody shall wait for ever
            for event in events:
                event.set()
        for task in tasks:
            note(
                -1, task.get_name(), task.cancelled(), task.cancelling(), None if task.cancelled() else task.exception()
            )

    (clock.run if host == "clock" else run_virtual)(main())
    return [tuple(repr(part) if isinstance(part, Exception) else part for part in row) for row in trace]


@given(programs)
@example([("cancel self",)])
@example([("start", []), ("timeout", [], "zero"), ("start", []), ("timeout", [("await", 2)], "zero")])
@example([("start", [("wait", 0)]), ("yield",), ("start", []), ("cancel", 2), ("set", 0), ("cancel", 1), ("await", 2)])
@settings(max_examples=150, deadline=None, derandomize=True)
def test_a_program_does_the_same_on_the_kernel_and_on_a_virtual_loop(program):
    """Every step, its time, its order and its outcome are equal on both, and once more in a second run."""
    on_clock = run(program, "clock")
    assert on_clock == run(program, "loop")
    assert on_clock == run(program, "clock")
