"""From YAML to a stack: every sentence of `sentences.txt`, and what a loaded configuration holds."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from labkit.config import Finding, load_stack_config
from labkit.config.models.middleware import CircuitBreakerMiddlewareConfig, TimeoutMiddlewareConfig
from labkit.errors import ConfigError

# Blocks of a file and, behind =====, the sentences about it. Read them as a learner would.
BLOCKS = re.findall(
    r"##### ([^\n]+)\n(.*?)=====\n(.*?)(?=\n#####|\Z)",
    (Path(__file__).parent / "sentences.txt").read_text(encoding="utf-8"),
    re.DOTALL,
)

LESSON = next(text for title, text, _ in BLOCKS if title == "the lesson's own file")


def findings(text: str | bytes | os.PathLike[str], **options: Any) -> list[Finding]:
    """Return what is found in a file, whether it loads or not."""
    try:
        return list(load_stack_config(text, environ={}, **{"name": "lesson.yaml", **options}).warnings)
    except ConfigError as error:
        return list(error.findings)  # type: ignore[arg-type]


def test_the_sentences_are_all_there() -> None:
    """No block of the file of sentences is lost by the way in which it is cut up."""
    raw = (Path(__file__).parent / "sentences.txt").read_text(encoding="utf-8")
    assert len(BLOCKS) == raw.count("#####") == raw.count("=====\n") > 50
    assert len({title for title, _, _ in BLOCKS}) == len(BLOCKS)


@pytest.mark.parametrize(("title", "text", "sentences"), BLOCKS, ids=[title for title, _, _ in BLOCKS])
def test_says_what_is_wrong(title: str, text: str, sentences: str) -> None:
    """All findings of a file are said at once, in the order of lines, in these words."""
    found = findings(text, lenient="[lenient]" in title)
    assert "".join(f"{finding.message}\n" for finding in found) == sentences


@pytest.mark.parametrize(("title", "text", "sentences"), BLOCKS, ids=[title for title, _, _ in BLOCKS])
def test_a_finding_says_in_fields_what_its_sentence_says(title: str, text: str, sentences: str) -> None:
    """File, line, severity and nearest name of the sentence are the finding's fields, and it is refused if one errs."""
    lenient = "[lenient]" in title
    found = findings(text, lenient=lenient)
    for finding in found:
        place, _, rest = finding.message.partition(": ")
        assert place == (f"lesson.yaml:{finding.line}" if finding.line else "lesson.yaml")
        assert rest.startswith(("warning: ", "note: ")) == (finding.severity != "error")
        assert rest.endswith(f"did you mean '{finding.nearest}'?") == (finding.nearest is not None)
        if finding.line is not None:
            assert finding.column is not None
            assert 1 <= finding.column <= len(text.splitlines()[finding.line - 1]) + 1
    errors = [finding.message for finding in found if finding.severity == "error"]
    if errors:
        with pytest.raises(ConfigError) as refused:
            load_stack_config(text, lenient=lenient, name="lesson.yaml", environ={})
        assert str(refused.value) == "\n".join(errors)
    else:
        load_stack_config(text, lenient=lenient, name="lesson.yaml", environ={})


def test_the_lesson_loads() -> None:
    """The lesson's configuration gives models, functions with their lists in order, and nothing to warn of."""
    stack = load_stack_config(LESSON, name="lesson.yaml")
    assert stack.middleware == {
        "availability_breaker": CircuitBreakerMiddlewareConfig(
            failure_threshold=5, cooldown_period=30.0, half_open_success_threshold=3, probe_timeout=2.0
        ),
        "availability_timeout": TimeoutMiddlewareConfig(timeout=2.0),
    }
    function = stack.functions["parts_availability"]
    assert (function.type_, function.middleware) == (
        "parts_availability",
        ["availability_breaker", "availability_timeout"],
    )
    assert (function.settings, function.line, function.name) == ({}, 5, None)
    assert (stack.workflow, stack.source, stack.warnings) == (None, "lesson.yaml", ())


def test_functions_and_workflow_keep_their_settings() -> None:
    """What is not labkit's stands in `settings`; the display name and the list do not."""
    text = """
functions:
  f: {_type: s, name: Shown, middleware: [], url: http://x, deep: {a: [1, {b: null}]}, on: 1}
workflow: {_type: react_agent, tool_names: [f], llm_name: small, middleware: []}
"""
    stack = load_stack_config(text)
    assert stack.functions["f"].settings == {"url": "http://x", "deep": {"a": [1, {"b": None}]}, True: 1}
    assert stack.functions["f"].name == "Shown"
    assert stack.workflow is not None
    assert (stack.workflow.type_, stack.workflow.line) == ("react_agent", 4)
    assert stack.workflow.settings == {"tool_names": ["f"], "llm_name": "small"}


SCALARS = (
    "on|yes|NO|off|true|~|null||017|0o17|1:30|1_000|1e3|1.0e3|1.0e+3|.inf|.5|5.|0x1F|0b11|2001-01-01|2001-01-01T10:00:00Z|"
    "'it''s'|\"a\\nb\"|!!str 5|!!float 5|!!binary aGk=|a b|5 # five|30s|y|n|-|'='|- 1|{a: on}|[on, 5]|"
    ">-\n      folded\n      text"
)


@pytest.mark.parametrize("value", SCALARS.split("|"))
def test_reads_values_as_safe_load_does(value: str) -> None:
    """A value is what `yaml.safe_load` makes of it, surprises included."""
    text = f"functions:\n  f:\n    _type: s\n    a:\n      {value}\n"
    made, expected = load_stack_config(text).functions["f"].settings, yaml.safe_load(text)["functions"]["f"]
    assert repr(made["a"]) == repr(expected["a"])


@pytest.mark.parametrize("key", ["on", "YES", "~", "017", "1.5", "2001-01-01", "'5'", "y", "=", "a b"])
def test_reads_keys_as_safe_load_does(key: str) -> None:
    """A key of a function's settings is what `yaml.safe_load` makes of it."""
    text = f"functions:\n  f:\n    {key}: 1\n    _type: s\n"
    (made,) = load_stack_config(text).functions["f"].settings
    assert repr(made) == repr(next(iter(yaml.safe_load(text)["functions"]["f"])))


def test_later_keys_win_over_merged_ones() -> None:
    """Merge keys give what `yaml.safe_load` makes of them: the block's own key wins over a merged one."""
    text = """
llms:
  one: &one {failure_threshold: 1, cooldown_period: 1}
  two: &two {failure_threshold: 2, probe_timeout: 2}
middleware:
  b:
    cooldown_period: 3
    <<: [*one, *two]
    _type: circuit_breaker
functions: {f: {_type: s, middleware: [b]}}
"""
    breaker = load_stack_config(text).middleware["b"]
    merged = yaml.safe_load(text)["middleware"]["b"]
    assert breaker == CircuitBreakerMiddlewareConfig(**merged)
    assert (merged["cooldown_period"], merged["probe_timeout"]) == (3, 2)


def test_a_fault_in_a_merged_block_is_said_once_where_it_stands() -> None:
    """Three middleware share one misspelt line, and there is one finding, in that line."""
    text = "llms:\n  base: &base\n    coooldown_period: 3\nmiddleware:\n" + "".join(
        f"  {name}: {{<<: *base, _type: circuit_breaker}}\n" for name in "abc"
    )
    text += "functions:\n" + "".join(f"  f_{name}: {{_type: s, middleware: [{name}]}}\n" for name in "abc")
    assert [(finding.key, finding.line, finding.column) for finding in findings(text)] == [("coooldown_period", 3, 5)]


def test_a_value_given_by_alias_is_found_where_it_is_used() -> None:
    """The key names the place to look at when its value was anchored elsewhere."""
    text = "llms: {wait: &wait 30s}\nmiddleware:\n  t: {_type: timeout, timeout: *wait}\n"
    text += "functions: {f: {_type: s, middleware: [t]}}\n"
    assert [(finding.key, finding.line) for finding in findings(text)] == [("timeout", 3)]


def test_lenient_loads_what_the_toolkit_would() -> None:
    """With lenient the misspelt key changes nothing, and the value in force is in the warning and in the model."""
    text = LESSON.replace("cooldown_period", "coooldown_period")
    stack = load_stack_config(text, lenient=True, name="lesson.yaml")
    assert stack.middleware["availability_breaker"].cooldown_period == 60.0  # type: ignore[attr-defined]
    (warning,) = stack.warnings
    assert (warning.severity, warning.code, warning.line, warning.nearest) == (
        "warning",
        "unknown-key",
        2,
        "cooldown_period",
    )
    assert "in silence: 'cooldown_period' stays 60.0" in warning.message


def test_a_configs_positions_lead_to_the_file() -> None:
    """The position of a setting, of a list's entry and of what has none of its own can be asked for."""
    stack = load_stack_config(LESSON)
    assert stack.position("middleware", "availability_timeout", "timeout") == (3, 42)
    assert stack.position("functions", "parts_availability", "middleware", 1) == (7, 42)
    assert stack.position("middleware", "availability_timeout", "timeout_message") == (3, 3)
    assert stack.position("workflow") is None


def test_a_path_is_read_from_disk(tmp_path: Path) -> None:
    """A path object and a path as text give the same as the text itself, under the path's name."""
    file = tmp_path / "lesson.yaml"
    file.write_text(LESSON, encoding="utf-8")
    for path in (file, str(file)):
        stack = load_stack_config(path)
        assert stack == load_stack_config(LESSON, name=str(file))
    assert findings(file, name="short.yaml") == []
    assert load_stack_config(file, name="short.yaml").source == "short.yaml"


@pytest.mark.parametrize(
    "text", ["", "  ", "\n", "{}", "a: 1", "middleware:", "# only a comment\n", "{middleware: {}}"]
)
def test_text_is_told_from_a_path(text: str) -> None:
    """What can be no sensible path is read as text, and never looked for on disk."""
    assert all("no such file" not in finding.message for finding in findings(text))


@pytest.mark.parametrize("line_break", ["\r\n", "\r"])
def test_line_breaks_of_every_system_are_counted(line_break: str) -> None:
    """A file from another system has the same lines and columns."""
    text = LESSON.replace("timeout: 2.0}", "tiemout: 2.0}")
    assert findings(text.replace("\n", line_break).encode()) == findings(text)


def test_a_byte_order_mark_is_passed_over() -> None:
    """A file that an editor began with a byte order mark loads, and columns are counted behind it."""
    assert findings(b"\xef\xbb\xbf" + LESSON.encode()) == []
    (finding,) = findings("\ufeffmiddlewares: {}".encode())
    assert (finding.line, finding.column) == (1, 1)


def test_a_finding_has_no_more_than_one_line() -> None:
    """What a file holds is quoted on one line, shortened, with escapes for what cannot be printed."""
    long = "x" * 500
    text = f'middleware: {{t: {{_type: timeout, timeout: "a\\nb\\u0085{long}"}}}}\n'
    text += 'functions: {f: {_type: s, middleware: ["t\\n"]}}\n'
    for finding in findings(text):
        assert finding.message.isprintable()
        assert len(finding.message) < 400
    assert findings(text)[0].found == "'a\\nb\\x85" + "x" * 49 + "...'"


def test_to_dict_holds_every_field() -> None:
    """The plain form of a finding has the same keys in the same order for every finding."""
    (finding,) = findings(LESSON.replace("_timeout: {_type: timeout, timeout", "_timeout: {_type: timeout, tiemout"))
    assert finding.to_dict() == {
        "file": "lesson.yaml",
        "line": 3,
        "column": 42,
        "severity": "error",
        "code": "unknown-key",
        "key": "tiemout",
        "found": "'tiemout'",
        "allowed": ", ".join(TimeoutMiddlewareConfig.keys()),
        "nearest": "timeout",
        "message": finding.message,
    }
    assert list(finding.to_dict()) == list(Finding("x").to_dict())
