"""What holds for every file: mutations of a sound one, and texts of any kind."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from labkit.config import Finding, load_stack_config
from labkit.config.models.middleware import middleware_types
from labkit.errors import ConfigError

SAME_EVERY_TIME = settings(
    derandomize=True, database=None, deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=120
)

SOUND = """\
middleware:
  breaker:
    _type: circuit_breaker
    failure_threshold: 5
    cooldown_period: 30.0
    half_open_success_threshold: 3
    probe_timeout: 2.0
    circuit_breaker_message: try the documents
    enabled: true
    register_llms: false
    workflow_functions: []
  limit:
    _type: timeout
    timeout: 2.0
    timeout_message: too slow
  again:
    _type: retry
    attempts: 3
    base_delay: 0.1
    factor: 2.0
    max_delay: 10.0
    jitter: full
    seed: 7
    time_budget: 5.0
    retry_on: [TimeoutError]
  answer:
    _type: fallback
    errors: [CircuitBreakerOpenError]
    reason: unavailable
    alternative: spare
    approved: true
functions:
  parts:
    _type: parts_availability
    url: a
    middleware: [answer, again, breaker, limit]
  spare:
    _type: parts_availability
    url: b
workflow:
  _type: react_agent
  tool_names: [parts]
"""
LINES = SOUND.splitlines()
SETTINGS = [
    number
    for number, line in enumerate(LINES)
    if re.match(r"    [a-z]\w*: ", line) and number < LINES.index("functions:")
]
LETTERS = "abcdefghijklmnopqrstuvwxyz_"


def findings(text: str | bytes, **options: Any) -> list[Finding]:
    """Return what is found in a text, whether it loads or not."""
    try:
        return list(load_stack_config(text, environ={}, **options).warnings)
    except ConfigError as error:
        return list(error.findings)  # type: ignore[arg-type]


ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(),
    st.lists(st.integers()),
    st.dictionaries(st.text(), st.integers()),
)


@st.composite
def misspelt(draw: st.DrawFn, word: str) -> str:
    """Return the word with one letter added, dropped, changed or swapped with its neighbour."""
    at = draw(st.integers(0, len(word) - 1))
    letter = draw(st.sampled_from(LETTERS))
    other = draw(
        st.sampled_from(
            [
                word[:at] + letter + word[at:],
                word[:at] + word[at + 1 :],
                word[:at] + letter + word[at + 1 :],
                word[:at] + word[at : at + 2][::-1] + word[at + 2 :],
            ]
        )
    )
    return other if other != word and re.fullmatch(r"[a-z_]+", other) else f"{word}{word[-1]}"


def test_the_file_that_is_mutated_is_sound() -> None:
    """The mutations below start from a file without any finding, which has every kind of setting in it."""
    assert findings(SOUND) == []
    assert len(SETTINGS) == 22


@given(st.data())
@SAME_EVERY_TIME
def test_every_misspelt_key_is_found(data: st.DataObject) -> None:
    """One slip of the finger in any key of any middleware gives that line and the key that was meant."""
    number = data.draw(st.sampled_from(SETTINGS))
    key = LINES[number].split(":")[0].strip()
    slip = data.draw(misspelt(key))
    text = "\n".join([*LINES[:number], LINES[number].replace(key, slip, 1), *LINES[number + 1 :]])
    found = [finding for finding in findings(text) if finding.code == "unknown-key"]
    type_ = next(LINES[above] for above in range(number, 0, -1) if "_type:" in LINES[above]).split(": ")[1]
    known = middleware_types()[type_].model.keys()
    if slip in known:  # one key's slip is another key
        assert found == []
        return
    assert [(finding.line, finding.column, finding.key, finding.nearest) for finding in found] == [
        (number + 1, 5, slip, key)
    ]


@given(st.data())
@SAME_EVERY_TIME
def test_every_misspelt_name_in_a_list_is_found(data: st.DataObject) -> None:
    """A slip in a listed name, a tool's, an alternative's or a `_type` gives its line and the name that was meant."""
    where = {
        "middleware: [answer, again, breaker, limit]": ("answer", "again", "breaker", "limit"),
        "tool_names: [parts]": ("parts",),
        "alternative: spare": ("spare",),
        "_type: circuit_breaker": ("circuit_breaker",),
        "_type: retry": ("retry",),
        "retry_on: [TimeoutError]": ("TimeoutError",),
    }
    line = data.draw(st.sampled_from(sorted(where)))
    word = data.draw(st.sampled_from(where[line]))
    slip = data.draw(misspelt(word)) if word != "TimeoutError" else "TimeoutEror"
    number = next(number for number, text in enumerate(LINES) if text.strip() == line)
    text = "\n".join([*LINES[:number], LINES[number].replace(word, slip, 1), *LINES[number + 1 :]])
    found = [finding for finding in findings(text) if finding.severity == "error"]
    assert (number + 1, slip, word) in [(one.line, (one.found or "").strip("'"), one.nearest) for one in found]


@given(st.data(), ANYTHING)
@SAME_EVERY_TIME
def test_a_scrambled_value_is_judged_as_by_the_model(data: st.DataObject, value: object) -> None:
    """Any value at any setting loads exactly if the model takes it, and is otherwise found in its line."""
    number = data.draw(st.sampled_from(SETTINGS))
    key = LINES[number].split(":")[0].strip()
    written = yaml.safe_dump(value, default_flow_style=True, width=10**6, allow_unicode=False).split("\n...")[0].strip()
    if "$" in written or "\\" in written:  # placeholders are held elsewhere
        return
    text = "\n".join([*LINES[:number], f"    {key}: {written}", *LINES[number + 1 :]])
    block = yaml.safe_load(text)["middleware"]
    name = next(LINES[above] for above in range(number, 0, -1) if re.match(r"  \w", LINES[above])).strip(" :")
    model = middleware_types()[block[name].pop("_type")].model
    try:
        expected = model(**block[name])
    except ValueError:
        expected = None
    try:
        stack = load_stack_config(text, environ={})
    except ConfigError as error:
        found = [one for one in error.findings if isinstance(one, Finding) and one.severity == "error"]
        assert {one.line for one in found} == {number + 1}
        assert expected is None or {one.code for one in found} <= {
            "unknown-exception",
            "undefined",
            "not-approved",
            "same-service",
        }
    else:
        assert expected is not None
        assert repr(stack.middleware[name]) == repr(expected)


@given(st.one_of(st.text(), st.binary(), st.text("ab:-[]{}&*!|>'\"%@`#,?<\n\t $\\{}~=0.", max_size=60)))
@example("${")
@example("? ? a")
@example("!!map {a: [*a]}")
@example("%YAML 9.9\n---\na: 1")
@example("a: !!timestamp 2001-99-99\n<<: [1]\n")
@example("{<<: {<<: {<<: [a]}}}")
@example("!!omap [a: 1, b]")
@example("!!set {a: 1}")
@example("!!str {a: 1}")
@example("? !!python/name:a.b\n: 1")
@example("=: 1\n= : 2")
@example("middleware: {a: {_type: retry, ? !!binary '%' : 1}}")
@settings(SAME_EVERY_TIME, max_examples=600)
def test_any_text_is_read_or_refused(text: str | bytes) -> None:
    """Whatever the text is, nothing but ConfigError comes out, and every sentence fits on a line."""
    for lenient in (False, True):
        refused = None
        try:
            found = load_stack_config(text, lenient=lenient, environ={}).warnings
        except ConfigError as error:
            refused, found = error, error.findings  # type: ignore[assignment]
        assert all(finding.message.isprintable() for finding in found)
        assert refused is None or (str(refused) and "error" in {finding.severity for finding in found})


@given(st.data())
@settings(SAME_EVERY_TIME, max_examples=250)
def test_any_mutation_is_read_or_refused(data: st.DataObject) -> None:
    """A sound file with pieces cut, doubled or replaced by signs of YAML gives findings with lines that exist."""
    text = SOUND
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        stop = data.draw(st.integers(start, min(len(text), start + 30)))
        put = data.draw(
            st.sampled_from(
                [
                    "",
                    text[start:stop] * 2,
                    "*x",
                    "&x ",
                    "!y ",
                    "[",
                    "}",
                    ": ",
                    "\t",
                    "- ",
                    "<<: ",
                    "'",
                    "|",
                    "\n",
                    "${A}",
                ]
            )
        )
        text = text[:start] + put + text[stop:]
    for finding in findings(text):
        assert finding.line is None or 1 <= finding.line <= text.count("\n") + 2


TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.dates() | st.binary(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5) | st.integers(), inner, max_size=3),
    max_leaves=10,
)


@given(TREES, TREES, st.sampled_from([True, False, None]))
@SAME_EVERY_TIME
def test_settings_are_what_safe_load_makes(first: object, second: object, flow: bool | None) -> None:
    """Any tree of values, with what is shared written as anchor and alias, comes back as `yaml.safe_load` reads it."""
    text = yaml.safe_dump(
        {"functions": {"f": {"_type": "s", "first": first, "second": second, "again": first}}}, default_flow_style=flow
    )
    if "$" in text or "\\" in text:  # placeholders are held elsewhere
        return
    expected = yaml.safe_load(text)["functions"]["f"]
    assert repr(load_stack_config(text).functions["f"].settings) == repr(
        {key: value for key, value in expected.items() if key != "_type"}
    )


@pytest.mark.parametrize("number", SETTINGS)
def test_lenient_finds_what_strict_finds(number: int) -> None:
    """With lenient every misspelt key is a warning, in the same place, with the same name."""
    key = LINES[number].split(":")[0].strip()
    text = "\n".join([*LINES[:number], LINES[number].replace(key, f"{key}x", 1), *LINES[number + 1 :]])
    (strict,) = (one for one in findings(text) if one.code == "unknown-key")
    (lenient,) = (one for one in findings(text, lenient=True) if one.code == "unknown-key")
    assert (strict.severity, lenient.severity) == ("error", "warning")
    assert (strict.line, strict.column, strict.key, strict.nearest) == (
        lenient.line,
        lenient.column,
        lenient.key,
        lenient.nearest,
    )
