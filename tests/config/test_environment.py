"""Placeholders against what the real toolkit was seen to do, and positions after them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from labkit.config import load_stack_config
from labkit.config.findings import Report
from labkit.config.yaml.environment import expand
from labkit.errors import ConfigError

RECORDED: dict[str, Any] = json.loads((Path(__file__).parent / "toolkit_values.json").read_text(encoding="utf-8"))[
    "placeholders"
]
# Forms that the toolkit's expander reads and labkit refuses in a sentence.
NOT_READ = ["${A.B}", "${UNSET:=d}", "${SET:+d}", "${SET:0:1}", "${#SET}", "${!SET}", "${SET@U}", "${SET/s/t}"]


def read(text: str) -> tuple[str, Report]:
    """Return a placeholder's text as a setting of a function, with the report of its expansion."""
    report = Report("lesson.yaml")
    file = f"functions: {{f: {{_type: f, a: '{text}'}}}}"
    expand(file, report, RECORDED["environment"])
    stack = load_stack_config(file, environ=RECORDED["environment"])
    return stack.functions["f"].settings["a"], report


@pytest.mark.parametrize("text", sorted(set(RECORDED["read"]) - set(NOT_READ)))
def test_reads_placeholders_as_the_toolkit(text: str) -> None:
    """A placeholder becomes what the toolkit makes of it."""
    assert repr(read(text)[0]) == RECORDED["read"][text]


@pytest.mark.parametrize("text", [*RECORDED["refused"], *NOT_READ])
def test_refuses_what_it_does_not_read(text: str) -> None:
    """What the toolkit refuses, and its rarer forms, are one finding that shows the forms that are read."""
    with pytest.raises(ConfigError) as refused:
        read(text)
    finding = refused.value.findings[0]
    assert (finding.code, finding.line, finding.column) == ("placeholder", 1, len("functions: {f: {_type: f, a: 'x"))
    assert finding.message.endswith("allowed: ${NAME} or ${NAME:-default}")


@pytest.mark.parametrize(("text", "warned"), [("${UNSET}", True), ("${EMPTY}", False), ("${UNSET:-}", False)])
def test_warns_of_a_name_that_is_not_set(text: str, warned: bool) -> None:
    """Nothing takes the place of a name that is not set, with a warning, unless somebody wrote or set it so."""
    value, report = read(text)
    assert value == ""
    assert [finding.code for finding in report.findings] == (["unset-variable"] if warned else [])


def test_a_comment_is_not_warned_of() -> None:
    """A placeholder in a comment changes nothing, so that nothing is said about it."""
    report = Report()
    expand("a: 1\n  # ${UNSET}\n", report, {})
    assert report.findings == []


def test_lines_are_the_files_own() -> None:
    """Behind a value of several lines a finding still names the line and column of the file, not of the text made."""
    text = "middleware:\n  t: {_type: timeout, timeout: ${LIMIT}, tiemout_message: x}\n  u: {_type: timout}\n"
    with pytest.raises(ConfigError) as refused:
        load_stack_config(text, environ={"LIMIT": "2.0\n\n\n      "})
    at = {
        finding.key: (finding.line, finding.column) for finding in refused.value.findings if finding.severity == "error"
    }
    assert at == {"tiemout_message": (2, text.splitlines()[1].index("tiemout") + 1), "_type": (3, 7)}


def test_the_process_environment_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an environment of its own the loader takes the process's."""
    monkeypatch.setenv("LABKIT_TEST_LIMIT", "2.5")
    stack = load_stack_config("middleware: {t: {_type: timeout, timeout: '${LABKIT_TEST_LIMIT}'}}")
    assert stack.middleware["t"].timeout == 2.5  # type: ignore[attr-defined]
