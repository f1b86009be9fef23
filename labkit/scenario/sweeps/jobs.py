"""Who makes the runs of a sweep: this process, processes beside it, or a Dask cluster.

Each takes chunks of runs and yields their results as they come, in whatever order. A run is made from nothing but its
scenario, its values and its seed, so it does not matter who makes it, or that it is made once more where a machine went
away with the result.
"""

from __future__ import annotations

import logging
import os
import pickle
import re
import signal
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import import_module
from itertools import islice
from types import ModuleType
from typing import Any

from labkit.config.findings import printable, quoted
from labkit.errors import ConfigError, LabkitError
from labkit.scenario.spec.model import Scenario
from labkit.scenario.sweeps.grid import Value
from labkit.version import __version__

__all__ = ["Chunk", "Job", "check_address", "in_processes", "in_this_process", "on_dask"]

Chunk = list[tuple[int, tuple[Value, ...], int]]
"""Runs to make: their number, the values of what varies, the seed."""

Results = dict[int, dict[str, Any]]
Stop = Callable[[], bool]

_stop_asked: Stop = lambda: False  # noqa: E731 - in a worker: whether no further run shall be begun


@dataclass(frozen=True)
class Job:
    """What all runs of a sweep have in common, small enough to be sent along with every chunk.

    Attributes:
        scenario: pickled and compressed.
        parameters: what varies.
        version: of the labkit that asks; a worker that has another one must not answer.
    """

    scenario: bytes
    parameters: tuple[str, ...]
    version: str = __version__

    @classmethod
    def of(cls, scenario: Scenario, parameters: Iterable[str]) -> Job:
        """The job of a scenario."""
        return cls(zlib.compress(pickle.dumps(scenario)), tuple(parameters))


@lru_cache(maxsize=1)
def _scenario(packed: bytes) -> Scenario:
    """The scenario of a job: read once by each worker."""
    found = pickle.loads(zlib.decompress(packed))
    assert isinstance(found, Scenario)
    return found


@lru_cache(maxsize=4)
def _combined(job: Job, values: tuple[Value, ...]) -> Scenario:
    return _scenario(job.scenario).with_values(dict(zip(job.parameters, values, strict=True)), origin="vary")


def run_chunk(job: Job, chunk: Chunk) -> Results:
    """Make some runs; fewer where this process was asked to stop.

    Raises:
        LabkitError: one cannot be run, or this is another labkit than the one that asks.
    """
    from labkit.scenario.read.metrics import metrics
    from labkit.scenario.run.runner import run_scenario

    if job.version != __version__:
        raise LabkitError(
            f"a worker has labkit {__version__} and the sweep was begun with {job.version}; use one on all"
        )
    found: Results = {}
    for number, values, seed in chunk:
        if _stop_asked():
            break
        measured = metrics(run_scenario(replace(_combined(job, values), seed=seed)))
        found[number] = flat(measured)
    return found


def flat(measured: dict[str, Any]) -> dict[str, Any]:
    """Metrics in one level: those of all by their name, those of one function, where there are several, as F.NAME."""
    found = dict(measured["all"])
    if len(measured["functions"]) > 1:
        for function, numbers in measured["functions"].items():
            found.update({f"{function}.{name}": value for name, value in numbers.items()})
    return found


# --------------------------------------------------------------------------------------------------------- this process


def in_this_process(job: Job, chunks: Iterable[Chunk], stop: Stop) -> Iterator[Results]:
    """Make the runs one after the other, here.

    Args:
        job: what all runs have in common.
        chunks: the runs, in groups that are handed out together.
        stop: asked before each run; true ends the sweep.
    """
    for chunk in chunks:
        for run in chunk:
            if stop():
                return
            yield run_chunk(job, [run])


# -------------------------------------------------------------------------------------------- processes on this machine


_LOOK_EVERY = 0.2  # seconds


def in_processes(job: Job, chunks: Iterable[Chunk], jobs: int, stop: Stop) -> Iterator[Results]:
    """Make the runs in so many processes; none outlives this generator, or this process however it ends.

    Args:
        job: what all runs have in common.
        chunks: the runs, in groups that are handed out together.
        jobs: how many processes.
        stop: asked between results; true ends the sweep once the runs under way are done.

    Raises:
        LabkitError: a process was killed, or a run cannot be made.
    """
    from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
    from concurrent.futures.process import BrokenProcessPool
    from multiprocessing import active_children, get_context

    others = set(active_children())
    spawn = get_context("spawn")
    # A bare byte, and no Event: that has a lock, which a worker that is killed would keep for ever.
    no_more = spawn.RawValue("b", 0)
    pool = ProcessPoolExecutor(jobs, mp_context=spawn, initializer=_begin, initargs=(no_more,))
    rest = iter(chunks)
    waiting: set[Future[Results]] = set()

    def submit(many: int) -> None:
        with _starting():
            waiting.update(pool.submit(run_chunk, job, chunk) for chunk in islice(rest, many))

    whole = False
    try:
        submit(2 * jobs)  # while one is made another waits, so that no worker does
        while waiting:
            done, _ = wait(waiting, timeout=_LOOK_EVERY, return_when=FIRST_COMPLETED)
            waiting -= done
            if not no_more.value and stop():
                no_more.value = 1
            if no_more.value:
                waiting -= {one for one in waiting if one.cancel()}
            else:
                submit(len(done))
            for one in done:
                yield one.result()
        whole = True
    except BrokenProcessPool:
        raise LabkitError(
            "a process of the sweep was ended from outside (was the memory too small for so many jobs?)"
        ) from None
    finally:
        if not whole:  # nobody waits for runs that nobody wants
            for child in set(active_children()) - others:
                child.terminate()
        pool.shutdown(cancel_futures=True)


def _begin(no_more: Any) -> None:
    """A worker leaves Ctrl-C to the process that started it, and ends when that process does, even if it is killed."""
    from multiprocessing import parent_process
    from threading import Thread

    global _stop_asked
    _stop_asked = lambda: bool(no_more.value)  # noqa: E731 - in place of the one above
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()
    assert parent is not None

    def follow() -> None:
        parent.join()
        os._exit(1)

    Thread(target=follow, daemon=True).start()


@contextmanager
def _starting() -> Iterator[None]:
    """For processes that are started inside: they hear no Ctrl-C, and do not run the caller's script once more.

    Ctrl-C is held back here and not ignored there, since a process hears it before it has begun to ignore it. And a
    worker needs nothing of the caller's `__main__`: without it a script needs no `if __name__ == "__main__"`.
    """
    main = sys.modules["__main__"]
    held = hasattr(signal, "pthread_sigmask")  # on Windows they hear it until `_begin`
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}) if held else set()
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main
        if held:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


# ----------------------------------------------------------------------------------------------------------------- Dask

_ANSWER_WITHIN = 10.0  # seconds for a scheduler to answer, and for its first worker to be there


_SCHEMES = ("tcp", "tls", "ws", "wss", "ucx", "inproc")
_HOST = re.compile(r"(?:\[[0-9A-Fa-f:.%]+\]|[^\s:/\[\]]+):[0-9]{1,5}")


def check_address(address: str) -> None:
    """Refuse what no scheduler can be reached at; a client would look for it for long, or begin a cluster of its own.

    Raises:
        ConfigError: it is none.
    """
    scheme, sign, rest = address.partition("://")
    known = not sign or scheme in _SCHEMES
    sound = known and (scheme == "inproc" or _HOST.fullmatch(rest if sign else address) is not None)
    if not sound or not address.isprintable() or len(address) > 300:
        raise ConfigError(
            f"--dask {quoted(address)} is not the address of a scheduler, such as tcp://127.0.0.1:8786"
            + ("" if known else f"; it may begin with {', '.join(_SCHEMES[:-1])}")
        )


def on_dask(job: Job, chunks: Iterable[Chunk], address: str, stop: Stop) -> Iterator[Results]:
    """Make the runs on a Dask cluster that is there already; the cluster makes again what a lost worker had.

    Args:
        job: what all runs have in common.
        chunks: the runs, in groups that are handed out together.
        address: of the cluster's scheduler, such as tcp://host:8786.
        stop: asked between results; true ends the sweep.

    Raises:
        LabkitError: `distributed` is not installed, nobody answers there, or a run cannot be made.
    """
    try:
        dask: Any = import_module("distributed")  # it has no types to speak of
    except ImportError:
        raise LabkitError("--dask needs Dask: pip install 'labkit-circuit-breakers[dask]'") from None
    shown = printable(address)
    try:
        client = dask.Client(address, timeout=_ANSWER_WITHIN, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        why = "" if isinstance(error, (OSError, TimeoutError)) else f" ({printable(str(error))})"
        raise LabkitError(
            f"no Dask scheduler answers at {shown}{why}; the address is what `dask scheduler` printed, "
            "such as tcp://127.0.0.1:8786"
        ) from None
    rest = iter(chunks)
    try:
        try:
            client.wait_for_workers(1, timeout=_ANSWER_WITHIN)
        except TimeoutError:
            raise LabkitError(
                f"the Dask cluster at {shown} has no workers; start one with `dask worker {shown}`"
            ) from None
        threads = sum(client.nthreads().values())

        def submitted(many: int) -> list[Any]:
            # pure=False: every chunk has a name of its own, whatever a cluster remembers of an earlier sweep.
            return [client.submit(run_chunk, job, chunk, pure=False) for chunk in islice(rest, many)]

        # As a chunk ends the next is sent; its result is asked for at once, and then the cluster may forget it.
        running = dask.as_completed(submitted(3 * threads), loop=client.loop)
        for future in running:
            try:
                found: Results = future.result()
            except dask.KilledWorker:
                raise LabkitError(
                    f"workers of the Dask cluster at {shown} were lost again and again over the same runs"
                ) from None
            except (LabkitError, OSError, CancelledError):
                raise
            except Exception as error:  # what a cluster says that has no labkit, or cannot read what this one sends
                raise LabkitError(
                    f"the Dask cluster at {shown} cannot make the runs; its scheduler and its workers need labkit "
                    f"{__version__} too ({type(error).__name__}: {printable(str(error).partition(chr(10))[0])})"
                ) from None
            if not stop():
                running.update(submitted(1))
            yield found
    except (OSError, CancelledError):
        raise LabkitError(f"the Dask cluster at {shown} went away: its scheduler cannot be reached any more") from None
    finally:
        with suppress(OSError, TimeoutError), _quiet("distributed.client", "distributed.utils"):
            client.close()


@contextmanager
def _quiet(*loggers: str) -> Iterator[None]:
    """Without what a client logs, tracebacks included, of a line that was cut: what there is to say is an exception."""
    before = {name: logging.getLogger(name).level for name in loggers}
    try:
        for name in loggers:
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)
        yield
    finally:
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)
