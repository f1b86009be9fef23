"""The rules between the parts of a stack, on configurations made in Python."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import labkit
from labkit.cli import main
from labkit.config import (
    BulkheadMiddlewareConfig,
    CircuitBreakerMiddlewareConfig,
    FallbackMiddlewareConfig,
    Finding,
    FunctionConfig,
    GuardedCircuitBreakerMiddlewareConfig,
    MiddlewareConfig,
    RetryBudgetMiddlewareConfig,
    RetryMiddlewareConfig,
    StackConfig,
    TimeoutMiddlewareConfig,
    WindowCircuitBreakerMiddlewareConfig,
    check_alternatives,
    check_readers,
    check_stack,
    load_stack_config,
)

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(labkit.__file__).parents[1])}


def fallback(alternative: str | None, approved: bool = True) -> FallbackMiddlewareConfig:
    """Return a fallback with an alternative that somebody approved."""
    return FallbackMiddlewareConfig(alternative=alternative, approved=approved)


def codes(findings: list[Finding]) -> list[tuple[str, str | None]]:
    """Return code and key of each finding."""
    return [(finding.code, finding.key) for finding in findings]


def test_a_sound_stack_has_no_findings() -> None:
    """Everything defined, used and in its range: nothing to say."""
    stack = StackConfig(
        {"b": CircuitBreakerMiddlewareConfig(), "t": TimeoutMiddlewareConfig(timeout=2), "r": RetryMiddlewareConfig()},
        {"f": FunctionConfig("s", ["r", "b", "t"])},
        FunctionConfig("react_agent", ["t"], {"tool_names": ["f"]}),
    )
    assert check_stack(stack) == []


def test_what_is_made_in_python_has_no_place() -> None:
    """Without a file a sentence begins with the fault, and line and column are left open."""
    (finding,) = check_stack(StackConfig({}, {"f": FunctionConfig("s", ["b"])}))
    assert finding.message.startswith("function 'f' lists the middleware 'b', which is not defined")
    assert (finding.file, finding.line, finding.column) == (None, None, None)


def test_each_fault_without_a_place_is_kept() -> None:
    """Faults are told apart by their place in a file; without one none is lost."""
    stack = StackConfig({}, {"f": FunctionConfig("s", ["b"]), "g": FunctionConfig("t", ["b"])})
    assert len(check_stack(stack)) == 2


def test_a_middleware_that_attaches_itself_is_used() -> None:
    """A breaker that the toolkit attaches by its own keys is not called unused."""
    stack = StackConfig(
        {"b": CircuitBreakerMiddlewareConfig(register_llms=True), "c": CircuitBreakerMiddlewareConfig()}
    )
    assert codes(check_stack(stack)) == [("unused", "c"), ("not-acted-on", "register_llms")]


def test_the_workflow_and_groups_use_middleware() -> None:
    """A middleware that only the workflow or a function group lists is used."""
    stack = StackConfig(
        {"b": RetryMiddlewareConfig(), "c": RetryMiddlewareConfig()},
        workflow=FunctionConfig("a", ["b"]),
        function_groups={"g": FunctionConfig("g", ["c"])},
    )
    assert check_stack(stack) == []


@pytest.mark.parametrize(
    ("severity", "stack"),
    [
        ("error", StackConfig({}, {"f": FunctionConfig("s", ["b"])})),
        ("warning", StackConfig({"b": RetryMiddlewareConfig()})),
        ("warning", StackConfig({"b": RetryMiddlewareConfig()}, {"f": FunctionConfig("s", ["b", "b"])})),
        ("warning", StackConfig({"b": CircuitBreakerMiddlewareConfig(workflow_functions=["f"])})),
        ("warning", StackConfig({"b": CircuitBreakerMiddlewareConfig(register_workflow_functions=True)})),
        ("note", StackConfig({"b": CircuitBreakerMiddlewareConfig(register_llms=True)})),
    ],
)
def test_severity_says_what_becomes_of_it(severity: str, stack: StackConfig) -> None:
    """An error keeps a stack from being built, a warning from doing what was meant, a note from neither."""
    (finding,) = check_stack(stack)
    assert finding.severity == severity


def graph(edges: dict[str, list[str]], same: tuple[str, str] | None = None) -> StackConfig:
    """Return a stack of functions with a fallback for each edge; `same` names two that are one service."""
    stack = StackConfig()
    for name, others in edges.items():
        stack.functions[name] = FunctionConfig(f"type_of_{name}")
        for other in others:
            stack.middleware[f"{name}_to_{other}"] = fallback(other)
            stack.functions[name].middleware.append(f"{name}_to_{other}")
    if same is not None:
        stack.functions[same[0]].type_ = stack.functions[same[1]].type_ = "one_service"
    return stack


@pytest.mark.parametrize(
    ("edges", "same", "refused"),
    [
        ({"a": ["b"], "b": []}, None, []),
        ({"a": ["b", "c"], "b": ["c"], "c": []}, None, []),
        ({"a": ["a"]}, None, ["a_to_a"]),
        ({"a": ["b"], "b": ["a"]}, None, ["a_to_b", "b_to_a"]),
        ({"a": ["b"], "b": ["c"], "c": ["a"]}, None, ["a_to_b", "b_to_c", "c_to_a"]),
        ({"a": ["b"], "b": ["c", "d"], "c": [], "d": ["b"]}, None, ["b_to_d", "d_to_b"]),
        ({"a": ["b"], "b": []}, ("a", "b"), ["a_to_b"]),
        ({"a": ["b"], "b": ["c"], "c": []}, ("a", "c"), ["a_to_b"]),
        ({"a": ["b"], "b": ["c"], "c": []}, ("b", "c"), ["b_to_c"]),
    ],
)
def test_an_alternative_that_leads_back_is_refused(
    edges: dict[str, list[str]], same: tuple[str, str] | None, refused: list[str]
) -> None:
    """Exactly the alternatives from which the failed function, or its service, is reached again are refused."""
    found = check_alternatives(graph(edges, same))
    assert sorted(finding.message.split("'")[3] for finding in found) == refused
    assert {finding.code for finding in found} <= {"same-service"}


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ({}, {}, True),
        ({"url": "x"}, {"url": "x", "description": "for the other agent"}, True),
        ({"url": "x"}, {"url": "y"}, False),
        ({"url": "x"}, {}, False),
        ({"a": [1, {"b": 2}]}, {"a": [1, {"b": 2}]}, True),
    ],
)
def test_the_same_service_under_another_name_is_refused(
    first: dict[str, Any], second: dict[str, Any], same: bool
) -> None:
    """Two functions of one type with the same settings are one service, whatever their names and descriptions say."""
    stack = StackConfig(
        {"f": fallback("b")},
        {"a": FunctionConfig("s", ["f"], first), "b": FunctionConfig("s", [], second, name="Spare")},
    )
    assert bool(check_alternatives(stack)) is same


def test_an_agent_that_has_the_function_as_a_tool_leads_back() -> None:
    """An alternative that calls the failed function as its tool is refused, with the way back in the sentence."""
    stack = StackConfig(
        {"f": fallback("agent")},
        {"parts": FunctionConfig("s", ["f"]), "agent": FunctionConfig("react_agent", [], {"tool_names": ["parts"]})},
    )
    (finding,) = check_alternatives(stack)
    assert "leads back to function 'parts', which lists it (agent -> parts)" in finding.message


def test_an_alternative_needs_approval_and_a_function() -> None:
    """An alternative without `approved: true` and one that is nobody's name are refused, even in no list."""
    stack = StackConfig(
        {"f": fallback("spare", approved=False), "g": fallback("sparre")}, {"spare": FunctionConfig("s")}
    )
    assert codes(check_alternatives(stack)) == [("not-approved", "approved"), ("undefined", "alternative")]
    assert check_alternatives(stack)[1].nearest == "spare"


def test_a_fallback_without_an_alternative_is_no_concern() -> None:
    """The explicit "unavailable" leads nowhere, so nothing is said of it."""
    assert (
        check_alternatives(StackConfig({"f": fallback(None, approved=False)}, {"a": FunctionConfig("s", ["f"])})) == []
    )


def test_findings_of_alternatives_are_errors() -> None:
    """A builder may take every finding of the alternatives for a refusal."""
    stack = StackConfig({"f": fallback("a", approved=False), "g": fallback("x")}, {"a": FunctionConfig("s", ["f"])})
    assert {finding.severity for finding in check_alternatives(stack)} == {"error"}
    assert len(check_alternatives(stack)) == 3


def test_a_check_needs_no_yaml() -> None:
    """A configuration made in Python is judged without a parser being imported."""
    code = (
        "import sys; from labkit.config import StackConfig, check_stack, CircuitBreakerMiddlewareConfig as C; "
        "assert check_stack(StackConfig({'b': C()})); print('yaml' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=ENVIRONMENT)
    assert done.stdout.strip() == "False"


def test_two_retries_of_one_list_that_name_one_budget_are_told() -> None:
    """A warning with its line for the second of them; two budgets, two lists and what is disabled are no concern."""
    text = """
middleware:
  shared: {_type: retry_budget}
  outer: {_type: retry, budget: shared}
  inner: {_type: retry, budget: shared}
functions:
  parts: {_type: p, middleware: [outer, inner]}
"""
    (finding,) = load_stack_config(text).warnings
    assert str(finding) == (
        "<text>:7: warning: function 'parts' lists the retries 'outer' and 'inner', which name the same budget "
        "'shared': a request earns once for both, and their attempts multiply; list one of them"
    )
    assert (finding.code, finding.key) == ("shared-budget", "inner")
    for harmless in (
        text.replace("inner: {_type: retry, budget: shared}", "inner: {_type: retry, budget: shared, enabled: false}"),
        text.replace("retry_budget", "retry_budget, enabled: false"),
        text.replace("inner: {_type: retry, budget: shared}", "inner: {_type: retry}"),
        text.replace("[outer, inner]", "[outer]") + "  other: {_type: q, middleware: [inner]}\n",
        text.replace("[outer, inner]", "[outer, outer]").replace("  inner: {_type: retry, budget: shared}\n", ""),
    ):
        assert "shared-budget" not in [finding.code for finding in load_stack_config(harmless).warnings]


def test_a_budget_that_is_shared_twice_is_no_refusal() -> None:
    """A stack of such retries can be built: what it does is right, if hardly what was meant."""
    stack = StackConfig(
        {name: RetryMiddlewareConfig(budget="shared") for name in ("a", "b")}
        | {"shared": RetryBudgetMiddlewareConfig()},
        {"parts": FunctionConfig("s", ["a", "b"])},
    )
    assert [finding.severity for finding in check_stack(stack)] == ["warning"]


LAYERS: dict[str, MiddlewareConfig] = {
    "toolkit": CircuitBreakerMiddlewareConfig(),
    "guarded": GuardedCircuitBreakerMiddlewareConfig(),
    "rate": WindowCircuitBreakerMiddlewareConfig(failure_rate=0.5, window=60),
    "interval": WindowCircuitBreakerMiddlewareConfig(failure_threshold=5, interval=60),
    "counting": GuardedCircuitBreakerMiddlewareConfig(left_early="success"),
    "places": BulkheadMiddlewareConfig(max_concurrent=1),
    "limit": TimeoutMiddlewareConfig(timeout=2),
    "again": RetryMiddlewareConfig(),
    "answer": FallbackMiddlewareConfig(),
    "answer_open": FallbackMiddlewareConfig(errors=["CircuitBreakerOpenError"]),
    "off": CircuitBreakerMiddlewareConfig(enabled=False),
    "no_places": BulkheadMiddlewareConfig(max_concurrent=1, enabled=False),
    "inner": CircuitBreakerMiddlewareConfig(),
}


def listing(*names: str, **functions: list[str]) -> StackConfig:
    """A stack in which the function 'parts' has this list, with the layers that are listed."""
    lists = {"parts": list(names), **functions}
    used = {name for listed in lists.values() for name in listed}
    return StackConfig(
        {name: one for name, one in LAYERS.items() if name in used},
        {name: FunctionConfig("s", listed) for name, listed in lists.items()},
    )


@pytest.mark.parametrize(
    ("listed", "found"),
    [
        (["toolkit", "places"], [("toolkit", "'places'")]),
        (["toolkit", "limit", "again", "guarded", "places"], [("toolkit", "'guarded'")]),
        (["toolkit", "inner", "rate"], [("toolkit", "'inner'"), ("inner", "'rate'")]),
        (["toolkit", "answer_open", "guarded", "places"], [("toolkit", "'places'")]),
        (["toolkit", "answer", "places", "guarded"], []),
        (["toolkit", "answer_open", "inner"], []),
        (["places", "toolkit", "limit"], []),
        (["guarded", "rate", "interval", "toolkit"], []),
        (["off", "places"], []),
        (["toolkit", "no_places", "off"], []),
        (["toolkit", "toolkit"], []),
    ],
)
def test_a_toolkit_breaker_outside_a_layer_that_refuses(listed: list[str], found: list[tuple[str, str]]) -> None:
    """It would count refusals as failures of the dependency: a warning, unless a fallback between them answers them."""
    findings = [finding for finding in check_stack(listing(*listed)) if finding.code == "counts-refusals"]
    assert [(finding.key, finding.found) for finding in findings] == found
    assert all(finding.severity == "warning" for finding in findings)


def test_the_sentence_about_refusals() -> None:
    """It says who counts what, and what to do."""
    (finding,) = check_stack(listing("toolkit", "places"))
    assert finding.message == (
        "warning: function 'parts' lists the breaker 'toolkit' (circuit_breaker) outside 'places' (bulkhead): it "
        "counts each refusal of a full bulkhead as a failure of the dependency, and may open while that is well; list "
        "it inside, or make it a guarded_circuit_breaker, which counts refusals neither way"
    )


@pytest.mark.parametrize(
    ("listed", "calls", "severities"),
    [
        (["toolkit"], [("parts", True)], ["warning"]),
        (["guarded"], [("parts", True), ("parts", True)], ["warning"]),
        (["interval", "rate"], [("parts", True)], ["warning", "warning"]),
        (["counting"], [("parts", True)], []),
        (["off"], [("parts", True)], []),
        (["toolkit", "guarded", "interval"], [("parts", True), ("parts", False)], []),
        (["rate"], [("parts", True), ("parts", False)], ["note"]),
        (["rate"], [("parts", False)], []),
        (["toolkit"], [("parts", True), ("documents", False)], ["warning"]),
        (["toolkit"], [("nobody", True)], []),
        (["limit"], [("parts", True)], []),
    ],
)
def test_readers_who_leave_early_are_told_of(
    listed: list[str], calls: list[tuple[str, bool]], severities: list[str]
) -> None:
    """A breaker that sees nothing else can never close again: a warning. A rate of the rest alone: a note."""
    findings = check_readers(listing(*listed, documents=["toolkit"]), calls)
    assert [finding.severity for finding in findings] == severities
    assert all(finding.code == "left-early" for finding in findings)


def test_functions_of_one_name_share_their_readers() -> None:
    """A reader of another function under the same name who stays closes the breaker for both."""
    stack = listing("toolkit", documents=["toolkit"])
    stack.functions["documents"].settings["context_name"] = "parts"
    assert check_readers(stack, [("parts", True), ("documents", False)]) == []


READERS = """\
scenario: {duration: 10}
services:
  parts: {_type: parts_availability}
middleware:
  breaker: {_type: window_circuit_breaker, failure_rate: 0.5, window: 60, minimum_calls: 3}
functions:
  parts: {_type: parts_availability, middleware: [breaker]}
workload:
  - {function: parts, rate: 1, mode: stream, close_after: 1}
"""


def test_check_reads_who_leaves_early_from_a_scenario(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`labkit check` warns of the latch with the breaker's line; with `left_early: success` there is none."""
    file = tmp_path / "scenario.yaml"
    file.write_text(READERS, encoding="utf-8")
    assert main(["check", str(file)]) == 1
    assert capsys.readouterr().out.startswith(
        f"{file}:5: warning: the breaker 'breaker' (window_circuit_breaker) of 'parts' sees nothing but streams that "
        "their readers leave early, and it counts those neither way: once it is open it stays HALF_OPEN, as no probe "
        "succeeds; let some be read to their end, or set 'left_early: success'"
    )
    file.write_text(READERS.replace("minimum_calls: 3", "left_early: success"), encoding="utf-8")
    assert main(["check", str(file)]) == 0
