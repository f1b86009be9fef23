"""What cannot be read, and what would never end: a sentence each, in no time."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest

from labkit.config import load_stack_config
from labkit.config.findings import MAX_FINDINGS, Finding
from labkit.config.yaml.document import MAX_DEPTH, MAX_NODES
from labkit.config.yaml.loader import MAX_BYTES, UNREADABLE
from labkit.errors import ConfigError

NOT_UTF_8 = "the file is not UTF-8 text (it holds the byte"


def only_finding(source: str | bytes | os.PathLike[str], name: str | None = "lesson.yaml") -> Finding:
    """Return the one finding of what cannot be loaded."""
    with pytest.raises(ConfigError) as refused:
        load_stack_config(source, name=name, environ={})
    (finding,) = refused.value.findings
    assert isinstance(finding, Finding)
    assert refused.value.__cause__ is None
    return finding


def test_a_missing_file_is_a_sentence(tmp_path: Path) -> None:
    """A path that leads nowhere is said to, with the file of nearly that name where there is one."""
    (tmp_path / "lesson.yaml").touch()
    finding = only_finding(tmp_path / "leson.yaml", name="leson.yaml")
    assert finding.message == f"leson.yaml: there is no such file; did you mean '{tmp_path / 'lesson.yaml'}'?"
    assert finding.code in UNREADABLE
    assert only_finding(tmp_path / "else" / "other.yaml", None).message.endswith("other.yaml: there is no such file")
    assert only_finding("words", None).message == "words: there is no such file"


def test_a_folder_is_a_sentence(tmp_path: Path) -> None:
    """A folder is no file."""
    assert only_finding(tmp_path).message == "lesson.yaml: this is a folder, and a YAML file is wanted"


@pytest.mark.skipif(sys.platform == "win32", reason="modes of files are POSIX's")
def test_a_locked_file_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that the learner may not read is said to be one (root may read all, so the refusal is played)."""
    file = tmp_path / "lesson.yaml"
    file.touch(mode=stat.S_IWUSR)

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("builtins.open", refuse)
    assert only_finding(file).message == "lesson.yaml: the file may not be read by you"


@pytest.mark.parametrize("path", ["a\0b", "x" * 5000])
def test_a_name_that_no_file_can_have_is_a_sentence(path: str) -> None:
    """A path that the system refuses is a sentence that repeats no sign that cannot be printed."""
    finding = only_finding(path, None)
    assert finding.message.isprintable()
    assert finding.code == "unreadable"


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"a: caf\xe9", f"lesson.yaml:1: {NOT_UTF_8} 0xe9); save it as UTF-8, not as another encoding"),
        ("a: 1".encode("utf-16"), f"lesson.yaml:1: {NOT_UTF_8} 0xff); save it as UTF-8, not as UTF-16"),
        (b"a: 1\nb: \xff", f"lesson.yaml:2: {NOT_UTF_8} 0xff); save it as UTF-8, not as another encoding"),
        (b"a: 1\nb: \x07", r"lesson.yaml:2: the file holds '\x07', which is no character of a YAML text"),
        (b"\x00", r"lesson.yaml:1: the file holds '\x00', which is no character of a YAML text"),
        ("a: \ud800", f"lesson.yaml:1: {NOT_UTF_8} 0xed); save it as UTF-8, not as another encoding"),
    ],
)
def test_what_is_no_text_is_a_sentence(data: str | bytes, sentence: str) -> None:
    """Another encoding, and signs that YAML has no place for, are named with their line."""
    finding = only_finding(data)
    assert finding.message == sentence
    assert finding.code in UNREADABLE


def test_a_huge_file_is_not_read() -> None:
    """A file beyond the limit is refused by its size, and one at the limit is read."""
    assert f"more than {MAX_BYTES} bytes" in only_finding(b"#" * (MAX_BYTES + 1)).message
    assert only_finding(b"#" * MAX_BYTES).code == "empty"


def test_a_huge_file_on_disk_is_not_read_whole(tmp_path: Path) -> None:
    """No more of a file is taken into memory than the limit, however long it is."""
    file = tmp_path / "huge.yaml"
    with file.open("wb") as sparse:
        sparse.truncate(1 << 40)
    assert f"more than {MAX_BYTES} bytes" in only_finding(file).message


@pytest.mark.parametrize("open_", ["[", "- ", "? ", "{a: ", "!!seq ["])
def test_deep_nesting_is_a_sentence(open_: str) -> None:
    """Thousands of levels end in a finding, not in the interpreter's recursion limit."""
    finding = only_finding("a:\n " + open_ * 5000)
    assert finding.code == "too-deep"
    assert f"{MAX_DEPTH} levels" in finding.message


def test_nesting_within_the_limit_is_read() -> None:
    """What a person might write, ten levels deep, loads as it is."""
    text = "functions: {f: {_type: s, a: " + "[" * 10 + "1" + "]" * 10 + "}}"
    value = load_stack_config(text).functions["f"].settings["a"]
    for _ in range(10):
        (value,) = value
    assert value == 1


def test_a_chain_of_aliases_counts_as_nesting() -> None:
    """Levels that arise only by following aliases are limited as well."""
    chain = "".join(f"a{i}: &a{i} [*a{i - 1}]\n" for i in range(1, 1000))
    assert only_finding(f"a0: &a0 [x]\n{chain}").code == "too-deep"


@pytest.mark.parametrize("link", ["[{0}]", "{{a: [{0}]}}", "{{<<: [{0}]}}"])
def test_a_bomb_of_aliases_is_a_sentence(link: str) -> None:
    """Ten aliases of ten aliases, over and over, are refused before anything is made of them."""
    first = "a0: &a0 {x: 1}\n"
    rest = "".join(f"a{i}: &a{i} {link.format(', '.join([f'*a{i - 1}'] * 10))}\n" for i in range(1, 20))
    finding = only_finding(first + rest)
    assert finding.code == "too-much"
    assert str(MAX_NODES) in finding.message


@pytest.mark.parametrize(
    "text", ["a: &a [*a]", "a: &a {b: *a}", "a: &a {b: {<<: *a}}", "a: &a [&b [*a, *b]]", "&a {b: *a}"]
)
def test_an_anchor_in_itself_is_a_sentence(text: str) -> None:
    """A value that contains itself is refused where it begins."""
    finding = only_finding(text)
    assert (finding.code, finding.line) == ("endless", 1)


def test_too_many_findings_end_the_search() -> None:
    """A file that is wrong all over gives the first couple of hundred findings and a last one that says so."""
    text = "".join(f"section_{i}: 1\n" for i in range(1000))
    with pytest.raises(ConfigError) as refused:
        load_stack_config(text, environ={})
    found = refused.value.findings
    assert len(found) == MAX_FINDINGS
    assert isinstance(found[-1], Finding)
    assert found[-1].code == "too-many"
    assert [getattr(finding, "line", 0) for finding in found[:-1]] == list(range(1, MAX_FINDINGS))


def test_a_deep_caller_gets_a_sentence_too() -> None:
    """Where little of the interpreter's stack is left, the loader still raises nothing but its own error."""
    outcomes = set()

    def descend(levels: int) -> None:
        if levels:
            descend(levels - 1)
            return
        try:
            load_stack_config("functions: {f: {_type: s, a: " + "[" * 40 + "]" * 40 + "}}")
            outcomes.add("read")
        except ConfigError as error:
            outcomes.add(str(error).partition(": ")[2])

    limit = sys.getrecursionlimit()
    used = len(__import__("inspect").stack(0))
    for spare in range(120, limit - used - 50, 60):
        descend(limit - used - spare)
    assert "read" in outcomes
    assert outcomes <= {"read", f"the values are nested more than {MAX_DEPTH} levels deep", "the values are nested too deep for what is left of the interpreter's stack"}  # fmt: skip  # noqa: E501
