"""One clock in one place: nothing else in labkit reads the time or waits for real."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import labkit

ROOT = Path(labkit.__file__).parent
ALLOWED = {"timing/loop_clock.py", "cli/moment.py"}  # the second names a file by the date, and nothing else
CLOCKS = {
    *(f"time.{name}{unit}" for name in ("time", "monotonic", "perf_counter", "process_time") for unit in ("", "_ns")),
    *("time.thread_time", "time.thread_time_ns", "time.clock_gettime", "time.clock_gettime_ns"),
    *("time.localtime", "time.gmtime", "time.ctime", "time.asctime", "time.strftime", "time.sleep"),
    *("datetime.datetime.now", "datetime.datetime.today", "datetime.datetime.utcnow", "datetime.date.today"),
    "asyncio.sleep",
}


def readings(source: str) -> Iterator[tuple[int, str]]:
    """Find every use of a clock in a module, under whatever name it was imported: line and full name."""
    tree = ast.parse(source)
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                names[alias.asname or alias.name.partition(".")[0]] = (
                    alias.name if alias.asname else alias.name.partition(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                names[alias.asname or alias.name] = full
                if full in CLOCKS or (alias.name == "*" and node.module in ("time", "datetime", "asyncio")):
                    yield node.lineno, full
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            full = dotted(node, names)
            if full in CLOCKS or full.replace("asyncio.tasks.", "asyncio.") in CLOCKS:
                yield node.lineno, full
        elif isinstance(node, ast.Call) and dotted(node.func, names) in ("__import__", "importlib.import_module"):
            if node.args and isinstance(node.args[0], ast.Constant) and node.args[0].value in ("time", "datetime"):
                yield node.lineno, f"import of {node.args[0].value!r}"


def dotted(node: ast.AST, names: dict[str, str]) -> str:
    """Give the full dotted name of an expression, or an empty string where it is not one."""
    if isinstance(node, ast.Name):
        return names.get(node.id, node.id)
    if isinstance(node, ast.Attribute):
        base = dotted(node.value, names)
        return f"{base}.{node.attr}" if base else ""
    return ""


MODULES = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py"))


@pytest.mark.parametrize("module", [module for module in MODULES if module not in ALLOWED])
def test_nothing_but_the_loop_clock_reads_the_time(module):
    """A module of labkit takes a Clock; it asks neither the machine nor asyncio for the time or a wait."""
    assert list(readings((ROOT / module).read_text("utf-8"))) == []


@pytest.mark.parametrize("module", sorted(ALLOWED))
def test_those_that_may_read_it_do(module):
    """The two exceptions exist and need to be exceptions; else the list above is out of date."""
    assert list(readings((ROOT / module).read_text("utf-8")))


@pytest.mark.parametrize(
    "source",
    [
        "import time\ntime.time()",
        "import time as t\nt.monotonic()",
        "from time import perf_counter as tick",
        "from time import *",
        "import datetime\ndatetime.datetime.now()",
        "import datetime as d\nd.date.today()",
        "from datetime import datetime\nx = datetime.utcnow",
        "import asyncio\nasync def f():\n    await asyncio.sleep(0)",
        "from asyncio import sleep",
        "import asyncio.tasks\nasyncio.tasks.sleep(1)",
        "__import__('time').sleep(1)",
        "import importlib\nimportlib.import_module('time')",
    ],
)
def test_the_search_finds_a_clock_under_any_name(source):
    """The check itself bites: each of these ways to read a clock is found."""
    assert list(readings(source))


@pytest.mark.parametrize(
    "source",
    [
        "class A:\n    def time(self): ...\nA().time()",
        "import time\nx: time.struct_time",
        "clock.sleep(1)",
        "loop.time()",
    ],
)
def test_the_search_lets_other_things_pass(source):
    """A method that is called time, or a clock that was handed over, is not a reading of the wall clock."""
    assert list(readings(source)) == []
