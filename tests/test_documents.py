"""The documents at the top: what they show is run, and where they point there is something."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from labkit.cli import COMMANDS
from tools.bootstrap import COMMANDS as TARGETS

ROOT = Path(__file__).parent.parent
DOCUMENTS = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")


def test_the_readmes_example_prints_what_it_says() -> None:
    """The program in README.md, run as it stands, prints the block that follows it."""
    text = (ROOT / "README.md").read_text("utf-8")
    program, output = re.findall(r"```python\n(.*?)```.*?```\n(.*?)```", text, re.DOTALL)[0]
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr, done.returncode) == (output, "", 0)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_links_and_pictures_lead_somewhere(name: str) -> None:
    """Every link to a file of the repository leads to one."""
    links = re.findall(r"\]\(([^)#]+)\)", (ROOT / name).read_text("utf-8"))
    assert [link for link in links if not link.startswith("http") and not (ROOT / link).is_file()] == []


@pytest.mark.parametrize("name", DOCUMENTS)
def test_commands_named_exist(name: str) -> None:
    """Every `make` target and every command of labkit that is named in code exists."""
    text = (ROOT / name).read_text("utf-8")
    code = "\n".join(re.findall(r"```.*?```|`[^`\n]+`", text, re.DOTALL))
    targets = re.findall(r"\bmake ([a-z]+)", code) + re.findall(r"-m tools\.bootstrap ([a-z]+)", code)
    assert set(targets) <= set(TARGETS)
    assert set(re.findall(r"(?:^|[`/])labkit ([a-z]+)", code, re.MULTILINE)) <= set(COMMANDS)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_lines_are_short_enough_to_read(name: str) -> None:
    """Prose has at most 120 characters a line; tables may have more."""
    lines = (ROOT / name).read_text("utf-8").splitlines()
    assert [line for line in lines if len(line) > 120 and not line.startswith("|")] == []
