"""The recorded behaviour of the real toolkit, replayed: nothing may differ, and what differs is found and named."""

from __future__ import annotations

import copy
import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from labkit.cli import main
from labkit.conformance import replay_file
from labkit.errors import TraceFormatError

HERE = Path(__file__).parent
FILES = {"steps.json": ("steps", 300), "scenarios.json": ("scenarios", 300), "hostile.json": ("scenarios", 60)}


@pytest.fixture(scope="module")
def recorded() -> dict[str, dict[str, Any]]:
    """The files as they stand; `few` gives what may be changed."""
    return {name: json.loads((HERE / name).read_text(encoding="utf-8")) for name in FILES}


@pytest.fixture
def write(tmp_path: Path) -> Callable[[Any], str]:
    """Write text, or an object as JSON, to a file and give its path."""

    def write(data: Any) -> str:
        file = tmp_path / "traces.json"
        file.write_text(data if isinstance(data, str) else json.dumps(data), encoding="utf-8")
        return str(file)

    return write


def few(recorded: dict[str, dict[str, Any]], name: str, count: int = 3) -> dict[str, Any]:
    """The first traces of a file, free to be changed."""
    return copy.deepcopy({**recorded[name], "traces": recorded[name]["traces"][:count]})


@pytest.mark.parametrize("name", FILES)
def test_replays_without_a_difference(name: str) -> None:
    """Every recorded answer is labkit's answer too."""
    report = replay_file(HERE / name)
    assert (report.kind, report.traces) == FILES[name]
    assert [str(difference) for difference in report.differences] == []


def test_the_command_counts_over_all_files(capsys: pytest.CaptureFixture[str]) -> None:
    """`labkit replay` says how many traces it played and how many differ, by file and over all, and exits 0."""
    files = [str(HERE / name) for name in FILES]
    assert main(["replay", *files]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines() == [
        *(f"{file}: {traces} traces, 0 differ" for file, (_, traces) in zip(files, FILES.values(), strict=True)),
        "660 traces, 0 differ",
    ]
    assert err == ""


def test_the_command_says_one_line_for_one_file(capsys: pytest.CaptureFixture[str]) -> None:
    """One file needs one line only."""
    assert main(["replay", str(HERE / "hostile.json")]) == 0
    assert capsys.readouterr().out == "60 traces, 0 differ\n"


def test_json_is_complete_and_stable(capsys: pytest.CaptureFixture[str]) -> None:
    """`--json` prints one object of documented keys, to the byte the same each time."""
    file = str(HERE / "hostile.json")
    printed = []
    for _ in range(2):
        assert main(["replay", "--json", file]) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]
    assert json.loads(printed[0]) == {
        "files": [{"file": file, "kind": "scenarios", "traces": 60, "differ": 0, "differences": []}],
        "traces": 60,
        "differ": 0,
    }


def test_a_tampered_step_is_named(
    recorded: dict[str, dict[str, Any]], write: Callable[[Any], str], capsys: pytest.CaptureFixture[str]
) -> None:
    """A changed answer of one step is found, with trace, step, field and both values; the command exits 1."""
    data = few(recorded, "steps.json")
    data["traces"][1]["expect"][4]["failures"] += 1
    data["traces"][1]["expect"][9]["state"] = "HALF_CLOSED"  # only the first difference of a trace is told
    right = recorded["steps.json"]["traces"][1]["expect"][4]["failures"]
    file = write(data)
    assert main(["replay", file]) == 1
    name = data["traces"][1]["name"]
    assert capsys.readouterr().out.splitlines() == [
        f"{name}: step 5: failures is {right}, recorded was {right + 1}",
        "3 traces, 1 differ",
    ]
    assert main(["replay", "--json", file]) == 1
    (found,) = json.loads(capsys.readouterr().out)["files"][0]["differences"]
    assert found == {"trace": name, "where": "step 5", "field": "failures", "expected": right + 1, "got": right}


@pytest.mark.parametrize(
    ("field", "changed"),
    [
        ("reached_service", "not"),
        ("chunks", 99),
        ("result", "lost"),
        ("ended_at", 2e-6),
        ("state_after", {"breaker": "AJAR"}),
        ("invented", True),
    ],
)
def test_a_tampered_call_is_named(
    recorded: dict[str, dict[str, Any]], write: Callable[[Any], str], field: str, changed: Any
) -> None:
    """A change of any field of a call's answer is found, a time from two millionths of a second on."""
    data = few(recorded, "scenarios.json")
    row = data["traces"][2]["expect"][3]
    row[field] = not row[field] if changed == "not" else row[field] + changed if field == "ended_at" else changed
    (difference,) = replay_file(write(data)).differences
    assert (difference.trace, difference.where) == (data["traces"][2]["name"], row["id"])
    assert (difference.field, difference.expected) == (field, row[field])


def test_an_answer_that_leaves_something_out_differs(
    recorded: dict[str, dict[str, Any]], write: Callable[[Any], str]
) -> None:
    """A field that labkit gives and the record has not is a difference as well."""
    data = few(recorded, "scenarios.json")
    del data["traces"][0]["expect"][0]["chunks"]
    (difference,) = replay_file(write(data)).differences
    assert (difference.field, difference.expected) == ("chunks", None)


def test_times_are_meant_to_the_last_bit(write: Callable[[Any], str]) -> None:
    """A call at the float that ends the cooldown is a probe, one at the float before it is rejected."""

    def trace(began: float, opened: float, then: float, answer: dict[str, Any]) -> dict[str, Any]:
        closed = {"state": "CLOSED", "failures": 0, "successes": 0, "probing": False}
        return {
            "name": f"opened at {opened}, called at {then}",
            "config": {"failure_threshold": 1, "cooldown_period": 5.0},
            "steps": [
                {"t": began, "op": "start", "id": "a", "target": "x"},
                {"t": opened, "op": "finish", "id": "a", "outcome": "error"},
                {"t": then, "op": "start", "id": "b", "target": "x"},
            ],
            "expect": [{"admitted": True, **closed}, {**closed, "state": "OPEN", "failures": 1}, answer],
        }

    held = {"failures": 1, "successes": 0}
    no = {"admitted": False, "error": "CircuitBreakerOpenError", "state": "OPEN", "probing": False, **held}
    yes = {"admitted": True, "state": "HALF_OPEN", "probing": True, **held}
    tenths = [number * 0.1 for number in range(1, 400)]
    # Pairs of times where "so many seconds from now" ends a float too late, or too early.
    pairs = [(now, then) for now in tenths[:60] for then in tenths if then > now and now + (then - now) != then]
    assert {now + (then - now) > then for now, then in pairs} == {True, False}
    traces = []
    for began, opened in pairs:
        # The toolkit's rule is on what has elapsed, which rounds in its own way.
        then = opened + 5.0
        while then - opened >= 5.0:
            then = math.nextafter(then, 0.0)
        traces.append(trace(began, opened, then, no))
        while then - opened < 5.0:
            then = math.nextafter(then, math.inf)
        traces.append(trace(began, opened, then, yes))
    report = replay_file(write({"format": 1, "kind": "steps", "traces": traces}))
    assert [str(difference) for difference in report.differences] == []


# -- broken files ------------------------------------------------------------------------------------------------------


def refused(file: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What the command says of a file that it cannot play: one sentence on stderr, nothing on stdout, exit 2."""
    assert main(["replay", file]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"labkit: {file}")
    assert err.count("\n") == 1
    return err.removeprefix(f"labkit: {file}").rstrip("\n")


BROKEN_TEXT = {
    "": ":1: is not JSON: Expecting value",
    "[1,\n2,]": ":2: is not JSON: Expecting value",
    "[]": ": is not a file of traces: an object with 'format', 'kind' and a list 'traces'",
    '{"format": 1, "kind": "steps", "traces": {}}': ": is not a file of traces: an object with 'format', 'kind' and a "
    "list 'traces'",
    '{"format": 2, "kind": "steps", "traces": []}': ": 'format' is 2; labkit reads format 1",
    '{"format": true, "kind": "steps", "traces": []}': ": 'format' is true; labkit reads format 1",
    '{"kind": "steps", "traces": []}': ": 'format' is null; labkit reads format 1",
    '{"format": 1, "kind": "stepps", "traces": []}': ": 'kind' is 'stepps'; allowed: steps, scenarios",
    '{"format": 1, "kind": ["steps"], "traces": []}': ": 'kind' is [\"steps\"]; allowed: steps, scenarios",
    '{"format": 1, "kind": "steps", "traces": [7]}': ": trace 1: is not a trace of the kind 'steps': "
    "'int' object is not subscriptable",
    '{"format": 1, "kind": "steps", "traces": [{"name": "a"}]}': ": a: is not a trace of the kind 'steps': "
    "the key 'config' is missing",
    "[" * 100_000: ": is nested too deeply to be a file of traces",
}


@pytest.mark.parametrize("text", BROKEN_TEXT, ids=lambda text: text[:40] or "empty")
def test_a_broken_file_is_one_sentence(
    text: str, write: Callable[[Any], str], capsys: pytest.CaptureFixture[str]
) -> None:
    """A file that is not one of traces is told so in one sentence with the file and, where there is one, the line."""
    said = refused(write(text), capsys)
    if text.startswith("[1") or not text:
        assert said.startswith(BROKEN_TEXT[text].partition("Expecting")[0])  # the parser's words vary with the Python
    else:
        assert said == BROKEN_TEXT[text]


def test_a_number_that_is_too_long_is_one_sentence(
    write: Callable[[Any], str], capsys: pytest.CaptureFixture[str]
) -> None:
    """A number of 5,000 digits, which Python refuses to read, is a sentence too."""
    assert "cannot be read: " in refused(write('{"format": ' + "1" * 5000 + "}"), capsys)


def test_a_folder_a_missing_file_and_other_bytes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What cannot be opened or is not UTF-8 is told with the reason."""
    assert refused(str(tmp_path), capsys) == ": this is a folder, and a JSON file of traces is wanted"
    assert refused(str(tmp_path / "none.json"), capsys) == ": there is no such file"
    (tmp_path / "latin.json").write_bytes('{"format": "ü"}'.encode("latin-1"))
    assert refused(str(tmp_path / "latin.json"), capsys) == ": is not UTF-8 text"


def test_a_pipe_a_device_and_a_file_without_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What never ends, or never begins, is not read: a sentence at once."""
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        assert refused(str(tmp_path / "pipe"), capsys) == ": this is a pipe, and a JSON file of traces is wanted"
        assert refused("/dev/zero", capsys) == ": this is a device, and a JSON file of traces is wanted"
    monkeypatch.setattr("labkit.conformance.replay.MOST_BYTES", 1000)
    (tmp_path / "long.json").write_bytes(b"[" * 1001)
    assert refused(str(tmp_path / "long.json"), capsys).startswith(": the file has more than 1000 bytes")


Change = Callable[[dict[str, Any]], object]
BROKEN_STEPS: dict[str, tuple[Change, str]] = {
    "a step without a time": (lambda trace: trace["steps"][2].pop("t"), "the key 't' is missing"),
    "time goes back": (lambda trace: trace["steps"][3].update(t=0.0), "step 4: time goes back from"),
    "time is no number": (lambda trace: trace["steps"][1].update(t=float("nan")), "step 2: time goes back from"),
    "an unknown op": (lambda trace: trace["steps"][0].update(op="begin"), "the op 'begin' is neither 'start' nor"),
    "an unknown outcome": (
        lambda trace: next(step for step in trace["steps"] if step["op"] == "finish").update(outcome="fine"),
        "'outcome' is 'fine'; allowed: ok, error, cancel",
    ),
    "a call that never began": (
        lambda trace: next(step for step in trace["steps"] if step["op"] == "finish").update(id="zz"),
        "no call was started as 'zz'",
    ),
    "fewer answers than steps": (lambda trace: trace["expect"].pop(), "expectations"),
    "a setting out of range": (
        lambda trace: trace["config"].update(failure_threshold=0),
        "failure_threshold: Input should be greater than 0",
    ),
    "a setting that does not exist": (
        lambda trace: trace["config"].update(coooldown_period=3),
        "coooldown_period: Extra inputs are not permitted",
    ),
}


@pytest.mark.parametrize("what", BROKEN_STEPS)
def test_broken_steps_are_one_sentence(
    what: str,
    recorded: dict[str, dict[str, Any]],
    write: Callable[[Any], str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What is wrong with a trace of steps is told with the trace's name and what was found."""
    change, sentence = BROKEN_STEPS[what]
    data = few(recorded, "steps.json", 2)
    change(data["traces"][1])
    said = refused(write(data), capsys)
    assert said.startswith(f": {data['traces'][1]['name']}: is not a trace of the kind 'steps': ")
    assert sentence in said


BROKEN_SCENARIOS: dict[str, tuple[Change, str]] = {
    "an unknown type": (
        lambda trace: trace["middleware"]["breaker"].update(_type="retry"),
        "the middleware type 'retry' is neither 'circuit_breaker' nor 'timeout'",
    ),
    "a list names nothing": (
        lambda trace: trace["functions"].update(availability=["braker"]),
        "the function 'availability' lists a middleware that is not there: 'braker'",
    ),
    "a call of nothing": (
        lambda trace: trace["calls"][0].update(function="stock"),
        "'c0' calls a function that is not there: 'stock'",
    ),
    "an unknown mode": (
        lambda trace: trace["calls"][1].update(mode="batch"),
        "'mode' is 'batch'; allowed: invoke, stream",
    ),
    "an answer to nobody": (
        lambda trace: trace["expect"][0].update(id="c999"),
        "an answer is recorded for a call that was not made: 'c999'",
    ),
    "a service without an end": (lambda trace: trace["calls"][0]["service"].pop("after"), "the key 'after' is missing"),
    "a service that never answers": (
        lambda trace: trace["calls"].append(
            {**trace["calls"][0], "id": "never", "mode": "invoke", "service": {"after": float("inf"), "outcome": "ok"}}
        ),
        "nothing is due any more",
    ),
}


@pytest.mark.parametrize("what", BROKEN_SCENARIOS)
def test_broken_scenarios_are_one_sentence(
    what: str,
    recorded: dict[str, dict[str, Any]],
    write: Callable[[Any], str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What is wrong with a scenario is told with the trace's name and what was found."""
    change, sentence = BROKEN_SCENARIOS[what]
    data = few(recorded, "scenarios.json", 1)
    change(data["traces"][0])
    said = refused(write(data), capsys)
    assert said.startswith(f": {data['traces'][0]['name']}: is not a trace of the kind 'scenarios': ")
    assert sentence in said


def test_names_cannot_play_tricks_on_a_terminal(
    recorded: dict[str, dict[str, Any]], write: Callable[[Any], str], capsys: pytest.CaptureFixture[str]
) -> None:
    """A trace's name with line breaks, escapes or half characters is shown harmless, and does not break the output."""
    data = few(recorded, "steps.json", 1)
    data["traces"][0]["name"] = "über\x1b[2J\n\ud800"
    data["traces"][0]["expect"][0]["state"] = "\ud800"
    file = write(data)
    assert main(["replay", file]) == 1
    shown = capsys.readouterr().out
    assert shown.startswith("über\\x1b[2J\\n\\ud800: step 1: state is 'CLOSED', recorded was '\\ud800'\n")
    assert main(["replay", "--json", file]) == 1
    assert json.loads(capsys.readouterr().out)["files"][0]["differences"][0]["trace"] == "über\x1b[2J\n\ud800"


def test_progress_is_told_after_each_trace(recorded: dict[str, dict[str, Any]], write: Callable[[Any], str]) -> None:
    """A caller of `replay_file` hears how far it is."""
    heard: list[tuple[int, int]] = []
    replay_file(write(few(recorded, "steps.json", 3)), lambda done, of: heard.append((done, of)))
    assert heard == [(1, 3), (2, 3), (3, 3)]


def test_the_error_is_labkits_own(tmp_path: Path) -> None:
    """A program that replays catches one class, whatever is wrong with the file."""
    with pytest.raises(TraceFormatError, match="there is no such file"):
        replay_file(tmp_path / "none.json")
