"""Values, signs and documents that nobody would write: each is one sentence with its line, or it loads."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import pytest
import yaml

from labkit.config import load_stack_config
from labkit.config.findings import Finding
from labkit.config.numbers import in_range, is_number, parse_number, plain_repr
from labkit.config.yaml.loader import open_document
from labkit.errors import ConfigError, MiddlewareError
from labkit.scenario import load_scenario, run_scenario, scenario_names
from labkit.scenario.spec.arrivals import expected
from labkit.scenario.spec.library import library
from labkit.scenario.spec.reader import read_scenario

NUMBERS = (
    *("9" * 309, "-" + "9" * 309, "9" * 5000, "0x" + "f" * 300, "0x" + "f" * 6000, "0" + "7" * 6000, "0b" + "1" * 1100),
    *(
        ":".join(["59"] * 200),
        ":".join(["59"] * 3000),
        "1e400",
        "-1e400",
        "1.0e+308",
        ".inf",
        "-.inf",
        ".nan",
        "5.0e-324",
    ),
    *("[" + "9" * 400 + "]", "[[0, " + "9" * 400 + "]]", "{distribution: constant, seconds: 0x" + "f" * 5000 + "}"),
)
SECRETS = (
    *("s3cret-HUNTER-42", "hunter secret words that go on " * 5, "redis://app:pa55w0rd@cache/0", "{b: s3cretinside}"),
    *("918273645", "-77777.5", "a\nb: s3cretline", 'it\'s "quoted" s3cr', "[1, s3cretlist]", "eyJhbGciOiJI.Nry" * 9),
)
TELLING = ("s3cr", "HUNTER", "hunter", "pa55", "91827", "918,2", "77777", "eyJh")


@cache
def text_of(name: str) -> str:
    """A scenario of the library."""
    return (library() / f"{name}.yaml").read_text("utf-8")


def scalars(node: yaml.Node, at: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], yaml.ScalarNode, bool]]:
    """Every single value and key of a document, with the path of its kind; names of the file's own are '*'."""
    own = len(at) == 1 and at[0] in ("middleware", "services", "functions", "leases", "variants")
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            path = (*at, "*" if own else key.value)
            yield path, key, True
            yield from scalars(value, path)
    elif isinstance(node, yaml.SequenceNode):
        for one in node.value:
            yield from scalars(one, (*at, "*"))
    else:
        yield at, node, False  # type: ignore[misc]


@cache
def places() -> tuple[tuple[str, tuple[str, ...], int, int, bool], ...]:
    """One place for each kind of key and value in the library: its scenario, path, begin, end, whether it is a key."""
    found: dict[tuple[tuple[str, ...], bool], tuple[str, tuple[str, ...], int, int, bool]] = {}
    for name in scenario_names():
        for path, node, is_key in scalars(yaml.compose(text_of(name))):
            place = (name, path, node.start_mark.index, node.end_mark.index, is_key)
            found.setdefault((path, is_key), place)
    return tuple(found.values())


def findings(data: bytes, environ: dict[str, str] | None = None) -> tuple[Finding, ...]:
    """What is found in a scenario; anything else than sentences, each with its line, fails the test."""
    try:
        document, report = open_document(data, name="x.yaml", environ=environ or {})
        return read_scenario(document, report, "x").stack.warnings
    except ConfigError as error:
        refused = error
    found: tuple[Any, ...] = refused.findings
    assert str(refused).splitlines() == [one.message for one in found if one.severity == "error"]
    for one in found:
        assert one.message.isprintable(), one.message
        assert len(one.message) < 1200, one.message
        assert one.line is not None, one.message
    return found


def test_a_number_without_end_is_a_sentence_under_every_key() -> None:
    """Under every key that the library uses, hostile numbers, four in turn, load or are sentences with a line."""
    values = [place for place in places() if not place[4]]
    assert len(values) > 100
    for number, (name, _, begin, end, _) in enumerate(values):
        text = text_of(name)
        for step in range(4):
            value = NUMBERS[(number + 5 * step) % len(NUMBERS)]
            findings(f"{text[:begin]} {value}{text[end:]}".encode())


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("scenario.duration", "a number of seconds above 0, at most 10,000,000"),
        ("scenario.drain", "a number of seconds from 0 to 10,000,000"),
        ("scenario.seed", "a whole number from 0 to 9,223,372,036,854,775,807"),
        ("scenario.replicas", "a whole number from 1 to 1,000"),
        ("workload.0.rate", "a number of calls a second above 0, at most 1,000,000"),
        ("workload.0.patience", "a number of seconds above 0, at most 10,000,000"),
        ("workload.0.from", "a number of seconds from 0 to 300"),
        ("services.parts_availability.workers", "a whole number from 1 to 1,000,000,000"),
        ("services.parts_availability.faults.0.to", "a number from 0 to 1,000,000,000, or .inf"),
        (
            "middleware.availability_breaker.cooldown_period",
            "a number of seconds greater than 0, without a unit, at most 1.8e308",
        ),
        ("middleware.availability_breaker.failure_threshold", "a whole number greater than 0, at most 1.8e308"),
    ],
)
@pytest.mark.parametrize("value", ["9" * 309, "0x" + "f" * 6000])
def test_a_sentence_about_a_range_states_both_limits(path: str, allowed: str, value: str) -> None:
    """What is out of range is told with its line and with what is allowed, the upper limit included."""
    scenario = load_scenario("decision")
    with pytest.raises(ConfigError) as caught:
        scenario.with_values({path: value})
    (said,) = str(caught.value).splitlines()
    assert said.startswith("decision.yaml:")
    assert path.rpartition(".")[2].replace("to", "end").replace("from", "'from'") in said
    assert allowed in said


def test_a_duration_beyond_its_limit_is_told_the_limit() -> None:
    """`duration: 1e9`, which YAML reads as a number with a sign in its exponent alone, names the longest run."""
    with pytest.raises(ConfigError, match=r"'duration' of 'scenario' is 1000000000\.0; allowed: .* at most 10,000,000"):
        load_scenario("decision", values={"duration": 1e9})


@pytest.mark.parametrize(
    ("key", "value"), [("at", "[1, 2, {}]"), ("retry_waits", "[0, {}]"), ("ramp", "[[0, 1], [9, {}]]")]
)
def test_the_entry_of_a_list_is_blamed(key: str, value: str) -> None:
    """In a list of numbers the one that is wrong is shown, at its own line."""
    rate = "" if key in ("at", "ramp") else "rate: 1, "
    text = (
        "scenario: {duration: 10}\nservices: {parts: {_type: parts_availability}}\nfunctions: {parts: {_type: parts}}\n"
        f"workload:\n- {{function: parts, {rate}{key}:\n  {value.format('9' * 400)}}}"
    )
    (finding,) = findings(text.encode())
    assert finding.message.startswith(f"x.yaml:6: an entry of '{key}' of workload entry 1 is ")


def test_numbers_have_one_rule() -> None:
    """A number is what can be reckoned with; a text that is none is None, however long it is."""
    assert not is_number(10**309)
    assert is_number(10**308)
    assert parse_number("9" * 100_000) is parse_number("nan") is parse_number("1e999") is parse_number("") is None
    assert plain_repr({"a": 16**5000}).startswith("a dict with more than")
    assert in_range("n", 0, 1e7, above=True) == "n above 0, at most 10,000,000"


# ----------------------------------------------------------------------------------------------------- the environment


def test_no_finding_shows_what_the_environment_says() -> None:
    """Under every key, and in place of every key, a value of the environment stands in no finding, text or JSON."""
    for number, (name, _, begin, end, _) in enumerate(places()):
        text = text_of(name)
        for step in range(2):
            form = ("${X}", '"${X}"', "a${X}b")[(number + step) % 3]
            secret = SECRETS[(number + 3 * step) % len(SECRETS)]
            for finding in findings(f"{text[:begin]}{form}{text[end:]}".encode(), {"X": secret}):
                told = json.dumps(finding.to_dict())
                assert not any(word in told for word in TELLING), told


def test_the_placeholder_stands_as_it_is_written() -> None:
    """A value from the environment is shown as its placeholder; a default, which the file has itself, as it is."""
    stack = "middleware:\n  limit:\n    _type: timeout\n    timeout: {}\n"
    stack += "functions: {{p: {{_type: p, middleware: [limit]}}}}"

    def said(value: str) -> str:
        with pytest.raises(ConfigError) as caught:
            load_stack_config(stack.format(value), name="x", environ={"TOKEN": "0"})
        (finding,) = caught.value.findings
        return f"{finding.found} {finding.message}"  # type: ignore[attr-defined]

    rule = "; allowed: a number of seconds greater than 0, without a unit"
    whose = "x:4: 'timeout' of middleware 'limit' (timeout) is"
    assert said("${TOKEN}") == f"'${{TOKEN}}' {whose} '${{TOKEN}}', whose value is not shown{rule}"
    assert said("-${TOKEN:-3}") == f"'-${{TOKEN:-3}}' {whose} '-${{TOKEN:-3}}', whose value is not shown{rule}"
    assert said("${OTHER:-never}") == f"'never' {whose} 'never'{rule}"


def test_a_value_from_the_environment_stays_hidden_when_another_is_set() -> None:
    """What a later change brings to light is masked as well."""
    text = (
        "scenario: {duration: 5}\nservices: {${WHO}: {_type: parts_availability}}\n"
        "functions: {p: {_type: ${WHO}}}\nworkload: [{function: p, rate: 1}]"
    )
    scenario = read_scenario(*open_document(text.encode(), name="x", environ={"WHO": "s3cret-who"}), "x")
    with pytest.raises(ConfigError, match=r"'\$\{WHO\}'"):
        scenario.with_values({"services.s3cret-whp.workers": "2"})
    with pytest.raises(ConfigError, match=r"service '\$\{WHO\}': 'workers' is 0"):
        scenario.with_values({"services.s3cret-who.workers": "0"})


@pytest.mark.parametrize(
    "url", ["http://app:hun@ter2@cache", "app://:hunter2@cache:1/0", "http://cache?a=b&password=hunter2"]
)
def test_a_password_in_a_url_is_masked(url: str) -> None:
    """Passwords of URLs that stand in the file itself are shown in no sentence either."""
    with pytest.raises(ConfigError) as caught:
        load_stack_config(f"leases: {{one: {{_type: redis, url: '{url}'}}}}")
    assert "***" in str(caught.value)
    assert "hun" not in str(caught.value)
    assert "ter2" not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["redis://a:hunter2@h:port/0", "redis://a:hun/ter2@h/0", "redis://a:hunter2@h/0?hunter2=1"]
)
def test_a_redis_url_that_is_none_is_told_without_its_password(url: str) -> None:
    """The store's own error masks the password, and leaves out a reason that may quote a part of it."""
    pytest.importorskip("redis")
    from labkit.middleware.leases.redis import RedisLeaseStore

    with pytest.raises(MiddlewareError, match=r"'redis://a:\*\*\*@h.*' is not the URL of a Redis server") as caught:
        RedisLeaseStore(url)
    assert "ter2@" not in str(caught.value)
    assert "hun/" not in str(caught.value)


# ----------------------------------------------------------------------------------------------------------- odd signs

STACK = """middleware:
  limit:
    _type: timeout
    timeout: 2
  breaker:
    _type: circuit_breaker
functions:
  parts: {_type: parts, middleware: [breaker, limit]}
"""
STRUCTURE = {
    "after the colon": ("timeout: 2", "timeout:@2", 4),
    "before the colon": ("timeout: 2", "timeout@: 2", 4),
    "before the key": ("timeout: 2", "@timeout: 2", 4),
    "indentation": ("    timeout: 2", "@@@@timeout: 2", 4),
    "in a list": ("[breaker, limit]", "[breaker,@limit]", 8),
    "at the end": ("limit]}", "limit]}@", 8),
    "an empty line": ("  breaker:\n", "@\n  breaker:\n", 5),
}


@pytest.mark.parametrize("sign", ["\xa0", "\u2003", "\u3000", "\u200b", "\ufeff", "\u202e", "\xad", "\u2060"])
@pytest.mark.parametrize("where", STRUCTURE)
def test_an_odd_space_is_named_in_its_own_line(sign: str, where: str) -> None:
    """White space that is none to YAML, and what cannot be seen, is named with its number, in its own line."""
    old, new, line = STRUCTURE[where]
    with pytest.raises(ConfigError) as caught:
        load_stack_config(STACK.replace(old, new.replace("@", sign)), name="x")
    said = str(caught.value)
    assert said.startswith(f"x:{line}: ")
    assert f"U+{ord(sign):04X}" in said
    assert said.isprintable()


@pytest.mark.parametrize(
    ("old", "new", "line", "name"),
    [
        ("timeout: 2", "timeout\uff1a 2", 4, "fullwidth colon"),
        ("timeout: 2", "timeout\uff1a2", 4, "fullwidth colon"),
        ("  breaker:\n", "  breaker\uff1a\n", 5, "fullwidth colon"),
        ("functions:", "functions\uff1a", 7, "fullwidth colon"),
        ("_type: timeout", "_type: \u201ctimeout\u201d", 3, "left double quotation mark"),
        ("breaker, limit", "breaker, \u2018limit\u2019", 8, "left single quotation mark"),
        ("breaker, limit", "breaker\uff0climit", 8, "fullwidth comma"),
        ("[breaker, limit]", "\u2013 breaker", 8, "en dash"),
        ("    timeout: 2", "\u2028\u2028timeout: 2", 4, "a line break"),
    ],
)
def test_a_sign_that_looks_like_yamls_own_is_named(old: str, new: str, line: int, name: str) -> None:
    """Quotation marks, colons, commas and dashes of a word processor are named where they stand."""
    with pytest.raises(ConfigError) as caught:
        load_stack_config(STACK.replace(old, new), name="x")
    first = str(caught.value).splitlines()[0]
    assert first.startswith(f"x:{line}: ")
    assert name in first


def test_odd_signs_in_prose_are_not_to_blame() -> None:
    """A dash in a comment or a title just before a line that cannot be read does not take the blame for it."""
    broken = STACK.replace(
        "timeout: 2", "timeout_message: two \u2013 or\xa0\u201cmore\u201d\u2026  # caf\xe9: \xa0\n   x: 2"
    )
    with pytest.raises(ConfigError) as caught:
        load_stack_config(broken, name="x")
    assert str(caught.value).startswith("x:5: ")
    assert "U+" not in str(caught.value)


def test_what_a_terminal_would_act_upon_is_escaped_in_names_too() -> None:
    """Escapes and signs that turn the reading round are printable in every finding, wherever they came from."""
    name = "par\\e[31mts\\u202e"
    text = (
        f'scenario: {{duration: 5}}\nservices: {{"{name}": {{_type: parts_availability, workers: 0}}}}\n'
        f'functions: {{"{name}": {{_type: x, middleware: ["{name}"]}}}}\n'
        f'workload: [{{function: "{name}2", rate: 1}}]\nmiddleware: {{"{name}": {{_type: "{name}", a: 1}}}}'
    )
    found = findings(text.encode())
    assert len(found) >= 2
    assert any("\\x1b[31m" in one.message and "\\u202e" in one.message for one in found)


# ------------------------------------------------------------------------------------------------------ whole documents


@pytest.mark.parametrize(
    "value", ["[" * 500, "[" * 500 + "]" * 500, "{a: " * 500, "&a [*a]", "[&a [1], &a [2], *a]", "*a", "!!x 1"]
)
def test_a_value_that_is_set_is_never_too_deep(value: str) -> None:
    """`--set seed=[[[...`, an alias inside its own anchor and the like are one sentence of a sentence's length."""
    scenario = load_scenario("decision")
    with pytest.raises(ConfigError) as caught:
        scenario.with_values({"seed": value})
    (line,) = str(caught.value).splitlines()
    assert len(line) < 400


@pytest.mark.parametrize(
    "name",
    [
        "x" * 255,
        "x" * 5000,
        "a\x1b[31m",
        "a\0b",
        "\ud800",
        "",
        " ",
        "decision:" + "v" * 300,
        "decision:\x1b[1m",
        "./" + "x" * 300,
        "a/b:c",
    ],
)
def test_a_name_that_no_scenario_has_is_a_sentence(name: str) -> None:
    """However long or odd the name of a scenario or a variant is, there is one printable sentence."""
    with pytest.raises(ConfigError) as caught:
        load_scenario(name)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("lease", ["{_type: sqlite, path: x.db}", "{_type: redis, url: 'redis://127.0.0.1:1'}"])
def test_a_scenario_has_leases_in_memory_only(lease: str) -> None:
    """A lease of another store is refused when the scenario is read, with its line."""
    text = (
        "scenario: {duration: 5}\nservices: {p: {_type: parts_availability}}\nleases:\n"
        f"  one: {lease}\nmiddleware: {{b: {{_type: guarded_circuit_breaker, probe_lease: one}}}}\n"
        "functions: {p: {_type: p, middleware: [b]}}\nworkload: [{function: p, rate: 1}]"
    )
    (finding,) = findings(text.encode())
    assert finding.message.startswith("x.yaml:4: lease 'one' is of the type '")
    assert finding.message.endswith("and in a scenario a lease is 'memory'")
    assert load_stack_config(f"leases:\n  one: {lease}").leases.keys() == {"one"}


# ---------------------------------------------------------------------------------------------------- any kind of slip

WRONG: tuple[Any, ...] = (
    *(None, [], {}, "", 0, -1, 1.5, True, "x", [1], {"a": 1}, 10**400, float("inf"), float("nan"), 1e-300, 1e300),
    *(2**63, [[]], {"_type": "timeout"}, "a\x1bb", {1: 2}, "${X}", "a: b"),
)


def spots(data: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in plain data: what holds it, and its key or number."""
    if isinstance(data, dict | list):
        for key in list(data) if isinstance(data, dict) else range(len(data)):
            yield data, key
            yield from spots(data[key])


def slipped(name: str, rng: random.Random) -> bytes:
    """A scenario of the library in which something was deleted, exchanged, doubled, renamed, nested, or set anew."""
    if rng.random() < 0.4:
        text = text_of(name)
        at = rng.randrange(len(text))
        sign = rng.choice(
            [
                "",
                "\t",
                "[",
                "]",
                "{",
                "}",
                ":",
                "- ",
                "&a ",
                "*a",
                "!!x ",
                "'",
                '"',
                "|",
                "\xa0",
                "\x1b",
                "${",
                "\n",
                "\n  ",
            ]
        )
        return (text[:at] + sign + text[at + rng.randrange(12) :]).encode()
    data = yaml.safe_load(text_of(name))
    for _ in range(rng.choice([1, 1, 2])):
        all_spots = list(spots(data))
        where, key = rng.choice(all_spots)
        what = rng.randrange(7)
        if what == 0:
            del where[key]
        elif what == 1:
            where[key] = rng.choice(WRONG)
        elif what == 2:
            other, its_key = rng.choice(all_spots)
            where[key] = other[its_key]
        elif what == 3 and isinstance(where, dict):
            value = where.pop(key)
            where[rng.choice([f"{key}x", str(key)[:-1], 1, None, True, 10**300, "", "_type"])] = value
        elif what == 4:
            where[key] = rng.choice([[where[key]], {"a": where[key]}])
        elif what == 5 and isinstance(where, list):
            where.insert(key, where[key])
        elif what == 6 and isinstance(where[key], int | float):
            where[key] = rng.choice(
                [where[key] * 10, where[key] * 1000, -where[key], where[key] / 1000, str(where[key])]
            )
    return str(yaml.safe_dump(data, sort_keys=False)).encode()


def said_of(read: Callable[[], Any]) -> Any:
    """What a reader gives, or None after looking at its sentences."""
    try:
        return read()
    except ConfigError as error:
        refused = error
    assert all(line.isprintable() for line in str(refused).splitlines())
    return None


def test_a_slip_of_any_kind_is_a_sentence_or_a_scenario_that_runs() -> None:
    """Scenarios with random slips, from one seed, load as a scenario and as a stack, or say what is wrong."""
    rng = random.Random(7)
    ran = 0
    for _ in range(200):
        try:
            text = slipped(rng.choice(scenario_names()), rng)
        except (RecursionError, ValueError):  # it stands in itself now, or has a number that no YAML can be made of
            continue
        said_of(partial(load_stack_config, text, lenient=True))
        scenario = said_of(partial(load_scenario, text))
        if scenario is not None and sum(expected(load) for load in scenario.workload) < 300:
            run_scenario(scenario)
            ran += 1
    assert ran >= 5


@pytest.mark.parametrize("given", ["5", "''", "[search]", "{a: 1}"])
def test_a_context_name_is_a_text(given: str) -> None:
    """A `context_name` that is no text is a sentence with its line: breakers keep their states by it."""
    with pytest.raises(ConfigError, match=r"decision\.yaml:\d+: 'context_name' of function .*; allowed: a text"):
        load_scenario("decision", values={"functions.parts_availability.context_name": given})
