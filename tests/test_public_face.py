"""The public face: what `from labkit import ...` gives, to a program and to a type checker."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import labkit
from labkit import errors

LAZY = ("labkit", "labkit.config", "labkit.services", "labkit.widgets")
SOURCE = Path(labkit.__file__)

SOUND = """\
import labkit
from labkit import METRICS, CircuitBreakerMiddleware, CircuitBreakerMiddlewareConfig, Fault, FaultPlan, HttpService
from labkit import RetryMiddlewareConfig, Scenario, TimeoutMiddlewareConfig, Trace, load_scenario, metrics
from labkit import outage_explorer, register_adapter, register_middleware, register_service, run_scenario
from labkit import state_diagram, story

scenario: Scenario = load_scenario("decision")
trace: Trace = run_scenario(scenario)
breaker = CircuitBreakerMiddleware(CircuitBreakerMiddlewareConfig(failure_threshold=2))
limits = [TimeoutMiddlewareConfig(timeout=2.0), RetryMiddlewareConfig(attempts=2)]
error: labkit.LabkitError = labkit.LeaseError("away")
reveal_type(CircuitBreakerMiddlewareConfig(failure_threshold=2).cooldown_period)
reveal_type(metrics(trace))
reveal_type(story(trace, metrics(trace)))
reveal_type(labkit.sweep)
"""

WRONG = {
    "from labkit import Nonsense": 'Module "labkit" has no attribute "Nonsense"',
    "from labkit.config import Nonsense": 'Module "labkit.config" has no attribute "Nonsense"',
    "from labkit.widgets import Nonsense": 'Module "labkit.widgets" has no attribute "Nonsense"',
    "from labkit.services import Nonsense": 'Module "labkit.services" has no attribute "Nonsense"',
    "import labkit; labkit.CircuitBreakerMiddlewareConfig(failure_treshold=2)": (
        'Unexpected keyword argument "failure_treshold" for "CircuitBreakerMiddlewareConfig"'
    ),
    "import labkit; labkit.run_scenario(3)": 'Argument 1 to "run_scenario" has incompatible type "int"',
}


def for_type_checkers(tree: ast.Module) -> dict[str, str]:
    """The names that a module imports under TYPE_CHECKING to hand them on, and from where."""
    return {
        alias.asname: node.module
        for block in tree.body
        if isinstance(block, ast.If) and isinstance(block.test, ast.Name) and block.test.id == "TYPE_CHECKING"
        for node in block.body
        if isinstance(node, ast.ImportFrom) and node.module is not None
        for alias in node.names
        if alias.asname is not None and alias.name == alias.asname
    }


def test_a_type_checker_and_a_program_see_the_same_names() -> None:
    """The names under TYPE_CHECKING are those that are handed on when they are asked for, from the same packages."""
    assert for_type_checkers(ast.parse(SOURCE.read_text("utf-8"))) == labkit._HOME_OF


@pytest.mark.parametrize("name", sorted(labkit._HOME_OF))
def test_each_public_name_is_there(name: str) -> None:
    """A public name leads to the object of its package."""
    assert getattr(labkit, name) is getattr(import_module(labkit._HOME_OF[name]), name)


def test_every_error_is_public() -> None:
    """Whatever labkit raises can be caught by a name taken from `labkit`."""
    assert {name for name in errors.__all__ if isinstance(getattr(errors, name), type)} <= set(labkit._HOME_OF)


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What mypy says of a user's files, by file."""
    folder = tmp_path_factory.mktemp("user")
    (folder / "sound.py").write_text(SOUND, "utf-8")
    for number, line in enumerate(WRONG):
        (folder / f"wrong{number}.py").write_text(line + "\n", "utf-8")
    command = [sys.executable, "-m", "mypy", "--strict", "--no-color-output", "--no-error-summary"]
    root = SOURCE.parent.parent
    done = subprocess.run(
        [*command, "--config-file", root / "pyproject.toml", *sorted(folder.glob("*.py"))],
        capture_output=True,
        text=True,
        timeout=110,
        cwd=root,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    lines: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        lines.setdefault(Path(line.split(":")[0]).name, []).append(line)
    return lines


def test_a_sound_file_is_sound_and_knows_its_types(said: dict[str, list[str]]) -> None:
    """Nothing taken from labkit is Any: a user's file is sound under --strict, and its types are known."""
    shown = said["sound.py"]
    assert not [line for line in shown if ": error:" in line]
    types = [line.partition('Revealed type is "')[2].rstrip('"') for line in shown]
    assert types[0] == "float"
    assert types[1].startswith("dict[str, ")
    assert types[2].startswith(("list[str]", "tuple[str", "str"))
    assert types[3].startswith("def (")
    assert "Any" not in types[:3]


@pytest.mark.parametrize("line", WRONG)
def test_what_is_wrong_is_said(said: dict[str, list[str]], line: str) -> None:
    """An unknown name, an unknown field and a wrong argument are found by the user's type checker."""
    found = said[f"wrong{list(WRONG).index(line)}.py"]
    assert any(WRONG[line] in one for one in found), found


Method = ast.FunctionDef | ast.AsyncFunctionDef


def functions(tree: ast.Module) -> Iterator[tuple[str, Method]]:
    """The public functions of a module, and the public methods of its public classes, by name."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from ((f"{node.name}.{one.name}", one) for one in node.body if isinstance(one, Method))
        elif isinstance(node, Method):
            yield node.name, node


def parameters(function: Method) -> tuple[str, ...]:
    """The names of what a caller passes, without * and **."""
    args = function.args
    return tuple(one.arg for one in (*args.posonlyargs, *args.args, *args.kwonlyargs) if one.arg not in ("self", "cls"))


def raises(function: Method) -> bool:
    """Whether its own body raises an exception, not one that was caught, and not the mark of an abstract method."""
    stack: list[ast.AST] = list(function.body)
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Raise) and node.exc is not None:
            names = [part.id for part in ast.walk(node.exc) if isinstance(part, ast.Name)]
            caught = isinstance(node.exc, ast.Name) and node.exc.id[0].islower()
            if not caught and "NotImplementedError" not in names:
                return True
        if not isinstance(node, Method | ast.Lambda | ast.ClassDef):
            stack += ast.iter_child_nodes(node)
    return False


def lacking(function: Method) -> set[str]:
    """The sections that its docstring should have and has not."""
    doc = ast.get_docstring(function) or ""
    wanted = {"Args:"} if len(parameters(function)) >= 3 else set()
    wanted |= {"Raises:"} if raises(function) else set()
    return {section for section in wanted if section not in doc.split()}


def test_docstrings_name_arguments_and_errors() -> None:
    """Public functions with three or more parameters say what each is; those that raise say what, and when.

    A method that stands for one of another class, with the same parameters, is documented there.
    """
    found, documented = {}, set()
    for path in sorted(SOURCE.parent.rglob("*.py")):
        for name, function in functions(ast.parse(path.read_text("utf-8"))):
            key = (function.name, parameters(function))
            if not lacking(function):
                documented.add(key)
            elif not any(
                part.startswith("_")
                for part in (*name.split("."), *path.relative_to(SOURCE.parent).parts)
                if part != "__init__.py"
            ):
                found[f"{path.name}:{function.lineno} {name}"] = key, lacking(function)
    wanting = {place: sections for place, (key, sections) in found.items() if "." not in place or key not in documented}
    assert not wanting, wanting
