"""What holds the floors up beyond the import-linter contracts in pyproject.toml: what a fresh interpreter loads."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parent.parent


def circles(imports: dict[str, set[str]]) -> set[str]:
    """The modules that import themselves by way of others, and those that import such."""
    left = dict(imports)
    while free := [module for module, imported in left.items() if not imported & left.keys()]:
        for module in free:
            del left[module]
    return set(left)


def loaded_by(statement: str) -> set[str]:
    """The modules that a fresh interpreter has loaded after a statement and had not before."""
    script = f"import sys; before = set(sys.modules); {statement}; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    return set(done.stdout.split())


def test_no_file_imports_itself_by_way_of_others() -> None:
    """There is no circle of imports between files of the repository, in functions and for type checkers included."""
    graph = grimp.build_graph("labkit", "tools", "benchmarks", "tests", cache_dir=None)
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set()}) == {"a", "b", "c"}
    assert circles({module: graph.find_modules_directly_imported_by(module) for module in graph.modules}) == set()


def test_a_call_from_reading_a_scenario_to_its_run_only_goes_down() -> None:
    """From `load_scenario` on a module imports only those that stand behind it in the chain, in functions too."""
    chain = ("library", "reader", "values", "bounds", "arrivals", "model")
    graph = grimp.build_graph("labkit", cache_dir=None)
    for place, name in enumerate(chain):
        imported = graph.find_modules_directly_imported_by(f"labkit.scenario.spec.{name}")
        allowed = {f"labkit.scenario.spec.{one}" for one in chain[place + 1 :]}
        assert {one for one in imported if one.startswith("labkit.scenario")} <= allowed, name


def test_no_module_takes_what_is_private_to_another() -> None:
    """Private names are imported nowhere, except where clocks find out which of them drives a coroutine."""
    taken = set()
    for path in (ROOT / "labkit").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("labkit"):
                names = [one.name for one in node.names if one.name.startswith("_") and not one.name.startswith("__")]
                taken |= {path.relative_to(ROOT).as_posix() for _ in names}
    assert taken == {"labkit/timing/virtual_loop.py", "labkit/timing/virtual_time.py"}


def test_importing_labkit_loads_next_to_nothing() -> None:
    """`import labkit` loads itself and no other module, neither of labkit nor of anybody else."""
    assert loaded_by("import labkit") <= {"labkit", "__future__"}


@pytest.mark.parametrize("module", ["asyncio", "threading", "socket", "selectors", "pydantic", "logging", "yaml"])
def test_policies_load_nothing_that_waits_or_talks(module: str) -> None:
    """The rules run where there is no event loop, no thread, no socket: not even their imports' imports bring one."""
    assert module not in loaded_by("import labkit.policies")


@pytest.mark.parametrize(
    "module", ["asyncio", "pydantic", "jupyterlab", "matplotlib", "ipywidgets", "labkit.cli.doctor"]
)
def test_the_command_line_loads_only_what_a_command_needs(module: str) -> None:
    """`labkit reset` starts fast: it loads no other command and nothing heavy."""
    statement = "from labkit.cli import main; main(['reset', 'x', '--dir', 'no-such-folder'])"
    assert module not in loaded_by(
        f"import io, contextlib\nwith contextlib.redirect_stderr(io.StringIO()): {statement}"
    )


EXPLORERS = """
from importlib import import_module
from pkgutil import iter_modules
import labkit.widgets.explorers
from labkit.widgets.explorer.model import ExplorerModel
for one in iter_modules(labkit.widgets.explorers.__path__):
    import_module(f"labkit.widgets.explorers.{one.name}")
drawn = 0
for model in ExplorerModel.__subclasses__():
    made = model()
    made.press({"do": "narrow", "on": True})
    drawn += made.shown.picture.svg(themed=True).startswith("<svg") and bool(made.view()["svg"])
assert drawn == len(ExplorerModel.__subclasses__()) > 8, drawn
"""


def test_an_explorer_is_drawn_in_plain_python() -> None:
    """Every explorer runs and draws where numpy, pillow and matplotlib are missing, and asks for none of them."""
    heavy = ("numpy", "PIL", "matplotlib", "pandas")
    away = f"import sys; sys.modules.update(dict.fromkeys({heavy}))"
    subprocess.run([sys.executable, "-c", f"{away}\n{EXPLORERS}"], check=True, timeout=100)
    assert loaded_by(f"exec({EXPLORERS!r})").isdisjoint(heavy)


@pytest.mark.parametrize(
    ("statement", "wanted"),
    [
        ("import labkit.plots", set()),
        ("from labkit.plots import heat_map; heat_map([], x='a', y='b', value='c').svg()", set()),
        ("from labkit.plots import heat_map; heat_map([], x='a', y='b', value='c').png()", {"PIL"}),
        ("from labkit.plots import sweep_lines", {"PIL", "matplotlib", "numpy"}),
        (
            "from labkit import load_scenario, run_scenario; run_scenario(load_scenario('decision')).columns()",
            {"numpy"},
        ),
    ],
)
def test_a_picture_loads_what_it_is_made_with(statement: str, wanted: set[str]) -> None:
    """Pillow comes with a PNG, matplotlib with a figure (and never pyplot), numpy with a trace's columns."""
    loaded = loaded_by(statement)
    assert loaded & {"numpy", "PIL", "matplotlib", "pandas"} == wanted
    assert "matplotlib.pyplot" not in loaded


def test_one_clock_in_one_place() -> None:
    """Only the clock's own module and the one for dates in file names read the time; nothing sleeps for real."""
    found = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "labkit").rglob("*.py")
        if any(reads_the_clock(node) for node in ast.walk(ast.parse(path.read_text("utf-8"))))
    }
    assert found == {"labkit/timing/loop_clock.py", "labkit/cli/moment.py"}


def reads_the_clock(node: ast.AST) -> bool:
    """Whether a piece of code imports `time`, sleeps on asyncio or asks for the date."""
    match node:
        case ast.Import(names=names):
            return any(alias.name == "time" for alias in names)
        case ast.ImportFrom(module="time"):
            return True
        case ast.ImportFrom(module="asyncio", names=names):
            return any(alias.name == "sleep" for alias in names)
        case ast.Attribute(value=ast.Name(id="asyncio"), attr="sleep"):
            return True
        case ast.Call(func=ast.Attribute(attr="now" | "utcnow" | "today", value=ast.Name(id="datetime" | "date"))):
            return True
    return False
