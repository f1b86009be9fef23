"""`labkit scenarios`: the list of what comes with labkit."""

from __future__ import annotations

import json

import pytest

from labkit.cli import main
from labkit.scenario import load_scenario, scenario_names


def test_each_has_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Every scenario of the package is a line with its name and its summary, and the last line says how to go on."""
    assert main(["scenarios"]) == 0
    lines = capsys.readouterr().out.splitlines()
    names = scenario_names()
    assert [line.split("  ")[0] for line in lines[: len(names)]] == names
    for name, line in zip(names, lines, strict=False):
        assert line.split(maxsplit=1)[1] == load_scenario(name).summary
    assert lines[-1].startswith(f"{len(names)} scenarios;")


def test_variants_stand_below(capsys: pytest.CaptureFixture[str]) -> None:
    """With --variants each one's variants follow it, as they are named on the command line."""
    assert main(["scenarios", "--variants"]) == 0
    lines = capsys.readouterr().out.splitlines()
    place = next(number for number, line in enumerate(lines) if line.startswith("decision "))
    variants = load_scenario("decision").variants
    assert [line.split()[0] for line in lines[place + 1 : place + 1 + len(variants)]] == [f":{one}" for one in variants]
    assert all(variants[line.split()[0][1:]].title in line for line in lines[place + 1 : place + 1 + len(variants)])


def test_json_has_all_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    """`--json` prints names, titles, summaries, semantics and variants."""
    assert main(["scenarios", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["schema"] == "labkit.scenarios/1"
    assert [one["name"] for one in data["scenarios"]] == scenario_names()
    (decision,) = [one for one in data["scenarios"] if one["name"] == "decision"]
    scenario = load_scenario("decision")
    assert decision == {
        "name": "decision",
        "title": scenario.title,
        "summary": scenario.summary,
        "semantics": "toolkit",
        "variants": [{"name": one.name, "title": one.title} for one in scenario.variants.values()],
    }
