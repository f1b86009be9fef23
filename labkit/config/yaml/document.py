"""A YAML text as nodes with line and column, read as `yaml.safe_load` reads it, within limits.

What `yaml.safe_load` takes in silence and a person never means is a finding here: a key that stands twice. So is what
it cannot take: other tags than plain YAML's, a text that claims to be a date and is none. And so is what would never
end: an anchor inside itself, aliases of aliases of aliases.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

import yaml
from yaml.nodes import CollectionNode, MappingNode, Node, ScalarNode, SequenceNode

from labkit.config.findings import AsWritten, Hidden, Report, TooMuch, odd_signs, printable, quoted
from labkit.config.models.stack import Path, Position
from labkit.config.nearest import nearest
from labkit.config.yaml.environment import ExpandedText

__all__ = ["MAX_DEPTH", "MAX_NODES", "Document"]

MAX_DEPTH = 50  # levels of nesting, aliases followed; the toolkit's own files have five
MAX_NODES = 50_000  # values, aliases followed

_TAG = "tag:yaml.org,2002:"
_MERGE = f"{_TAG}merge"
_PLAIN = {MappingNode: f"{_TAG}map", SequenceNode: f"{_TAG}seq", ScalarNode: f"{_TAG}null"}
_OTHER_COLLECTIONS = {f"{_TAG}set", f"{_TAG}omap", f"{_TAG}pairs"}

# What PyYAML says, and what it means to a person. The first that fits.
_SYNTAX = (
    (r"found character '\\t'", "a tab stands where YAML wants spaces"),
    (r"found character '%'", "a text that begins with '%' needs quotes"),
    (r"found character '@'", "a text that begins with '@' needs quotes"),
    (r"found character '`'", "a text that begins with '`' needs quotes"),
    (
        r"mapping values are not allowed",
        "a ':' stands where no key can be: a line is indented wrongly, or a text with ': ' needs quotes",
    ),
    (r"could not find expected ':'", "a key has no ':' behind it"),
    (r"found undefined alias '?(?P<what>[^']*)'?", "the alias '*{what}' has no anchor '&{what}' before it"),
    (r"found duplicate anchor '?(?P<what>[^']*?)'?;", "the anchor '&{what}' stands twice"),
    (r"expected a single document", "a second document begins here ('---'), and a configuration is one"),
    (r"found unexpected end of stream", "the text in quotes that begins here is not closed"),
    (r"found unknown escape character '?(?P<what>.)", "'\\{what}' means nothing in double quotes; use single quotes"),
    (r"expected ',' or '\]'", "a list that begins with '[' in line {start} is not closed, or lacks a ','"),
    (r"expected ',' or '\}'", "a mapping that begins with '{{' in line {start} is not closed, or lacks a ','"),
    (r"expected <block end>, but found '-'", "a '-' is indented otherwise than the lines above it"),
    (r"expected <block end>", "the line is indented otherwise than those above it, or something is missing between"),
    (r"expected the node content", "a value is missing, or a sign stands in its place"),
    (r"sequence entries are not allowed", "a '-' stands where no list can begin: the list goes on its own line"),
    (r"found undefined tag handle", "a text that begins with '!' needs quotes"),
    (r"expected alphabetic or numeric character.*while scanning an alias", "a text that begins with '*' needs quotes"),
    (r"expected alphabetic or numeric character.*while scanning an anchor", "a text that begins with '&' needs quotes"),
)


class _Loader(yaml.SafeLoader):
    """The SafeLoader with a limit on nesting, so that no text can exhaust the interpreter's stack."""

    depth = 0

    def compose_node(self, parent: Node | None, index: Any) -> Node | None:
        self.depth += 1
        if self.depth > MAX_DEPTH + 1:
            raise _TooDeep(self.peek_event().start_mark)  # type: ignore[no-untyped-call]
        try:
            return super().compose_node(parent, index)
        finally:
            self.depth -= 1


class _TooDeep(Exception):
    def __init__(self, mark: yaml.Mark) -> None:
        super().__init__()
        self.mark = mark


class Document:
    """The nodes of one text.

    Args:
        expanded: the text, placeholders replaced.
        report: takes the findings.

    Attributes:
        root: the outermost node, or None for an empty text.
        unreadable: ids of nodes that already have a finding; nothing more needs saying about their values.

    Raises:
        TooMuch: the text is no YAML, or more than labkit reads; the report has the finding.
    """

    def __init__(self, expanded: ExpandedText, report: Report) -> None:
        self._expanded = expanded
        self._report = report
        self.unreadable: set[int] = set()
        report.hidden = Hidden(expanded.hidden)
        try:
            self._loader = _Loader(expanded.text)
            self.root: Node | None = self._loader.get_single_node()
        except _TooDeep as error:
            raise self._refuse("too-deep", self._too_deep, error.mark) from None
        except RecursionError:
            raise self._refuse("too-deep", self._too_deep, None) from None
        except yaml.MarkedYAMLError as error:
            raise self._syntax(error) from None
        except yaml.reader.ReaderError as error:
            sign = error.character if isinstance(error.character, str) else chr(error.character)
            at = expanded.position(error.position)
            report.add("syntax", f"the file holds {quoted(sign)}, which is no character of a YAML text", at)
            raise TooMuch from None
        except yaml.YAMLError as error:
            raise self._refuse("syntax", f"the file is not YAML: {printable(str(error))}", None) from None
        if self.root is not None:
            self._measure(self.root)
            self._examine(self.root)
            self._hide_numbers(self.root)

    _too_deep = f"the values are nested more than {MAX_DEPTH} levels deep"

    def has(self, section: str) -> bool:
        """Say whether the text is a mapping with this key."""
        return isinstance(self.root, MappingNode) and any(key.value == section for key, _ in self.root.value)

    def position(self, node: Node) -> Position:
        """Return line and column of a node, counted from 1."""
        return self._expanded.position(node.start_mark.index)

    def value(self, node: Node) -> Any:
        """Return the Python value that `yaml.safe_load` makes of a node."""
        return self._loader.construct_object(node, deep=True)

    def masked(self, text: str) -> str:
        """Return a text of somebody else's with nothing in it that the environment says."""
        return self._report.hidden.masked(text)

    def found(self, node: Node) -> Any:
        """Return a node's value for a finding: as it is written where the environment has a part in it."""
        written = self._as_written(node)
        return self.value(node) if written is None else written

    def _as_written(self, node: Node) -> AsWritten | None:
        """How the file has a scalar of which a part comes from the environment."""
        if not isinstance(node, ScalarNode) or node.end_mark is None:
            return None
        written = self._expanded.written(node.start_mark.index, node.end_mark.index)
        return None if written is None else AsWritten(written)

    def entries(self, node: MappingNode) -> dict[Any, tuple[Node, Node]]:
        """Return key node and value node by key, merge keys followed, the last of equal keys winning."""
        self._loader.flatten_mapping(node)
        return {self.value(key): (key, value) for key, value in node.value}

    def is_mapping(self, node: Node) -> bool:
        """Say whether a node is a plain mapping."""
        return isinstance(node, MappingNode) and node.tag == _PLAIN[MappingNode]

    def is_list(self, node: Node) -> bool:
        """Say whether a node is a plain list."""
        return isinstance(node, SequenceNode) and node.tag == _PLAIN[SequenceNode]

    def is_null(self, node: Node) -> bool:
        """Say whether a node is null, as an empty value is."""
        return isinstance(node, ScalarNode) and node.tag == f"{_TAG}null"

    def shown(self, node: Node) -> str:
        """Return a node's value for a sentence; a plain scalar as it is written, with what YAML makes of it."""
        hidden = self._as_written(node)
        if hidden is not None:
            return f"{quoted(hidden)}, whose value is not shown"
        value = self.value(node)
        text = quoted(value)
        if isinstance(node, ScalarNode) and node.style is None and not isinstance(value, str) and value is not None:
            written = quoted(node.value).strip("'")
            if written != text:
                return f"{written}, which YAML reads as {text}"
        return text

    # --------------------------------------------------------------------------------------------- a change, on a copy

    def copy(self, report: Report) -> Document:
        """Return the same nodes as a document of its own, whose findings go to another report."""
        twin = object.__new__(Document)
        twin._expanded = self._expanded
        twin._report = report
        report.hidden = self._report.hidden
        twin._loader = _Loader("")
        twin.unreadable = set()
        twin.root = None if self.root is None else _copied(self.root, {})
        return twin

    def text(self, sections: Iterable[str] | None = None) -> str:
        """Return the document as YAML, all of it or some of its sections; comments are lost."""
        root: Any = self.root
        if sections is not None and isinstance(root, MappingNode):
            wanted = set(sections)
            kept = [(key, value) for key, value in root.value if key.value in wanted]
            root = MappingNode(root.tag, kept, root.start_mark, root.end_mark, root.flow_style)
        text: str = "" if root is None else yaml.serialize(root, Dumper=yaml.SafeDumper, allow_unicode=True, width=110)
        return text

    def put(self, path: Sequence[str], text: str) -> None:
        """Set the value at a path of keys (and of places in lists, from 0) to what a text says as YAML.

        The last key may be new; what stands before it must be there. The new value stands, for sentences, where the
        old one stood, or else the mapping around it.

        Raises:
            LookupError: there is no such place; a sentence.
            ValueError: the text is not one YAML value; a sentence.
        """
        try:
            new = _Loader(text).get_single_node() or ScalarNode(f"{_TAG}null", "")
            self._measure(new)
        except (_TooDeep, RecursionError):
            raise ValueError(f"{quoted(text)} cannot be used: {self._too_deep}") from None
        except yaml.YAMLError:
            raise ValueError(f"{quoted(text)} is not a YAML value") from None
        except TooMuch:
            said = self._report.findings.pop().message
            raise ValueError(f"{quoted(text)} cannot be used: {said.rpartition(': ')[2]}") from None
        self._examine(new)
        node = self.root
        for depth, key in enumerate(path):
            before = ".".join(path[:depth]) or "the file"
            last = depth + 1 == len(path)
            if isinstance(node, MappingNode) and self.is_mapping(node):
                entries = self.entries(node)
                name: Any = key if key in entries else next((one for one in entries if str(one) == key), key)
                if name in entries:
                    child = entries[name][1]
                    if last:
                        _place_at(new, child.start_mark)
                        node.value = [(k, new if v is child and self.value(k) == name else v) for k, v in node.value]
                elif last:
                    _place_at(new, node.start_mark)
                    node.value.append((ScalarNode(f"{_TAG}str", key, node.start_mark, node.start_mark), new))
                    break
                else:
                    near = nearest(key, [str(one) for one in entries])
                    raise LookupError(
                        f"there is no '{printable(key)}' in {before}"
                        + (f"; did you mean '{printable(near)}'?" if near else f"; there are {_some(entries)}")
                    )
            elif isinstance(node, SequenceNode) and self.is_list(node):
                if not key.isdecimal() or int(key) >= len(node.value):
                    raise LookupError(
                        f"{before} is a list of {len(node.value)}, and '{printable(key)}' is no place in it "
                        "(the first is 0)"
                    )
                child = node.value[int(key)]
                if last:
                    _place_at(new, child.start_mark)
                    node.value[int(key)] = new
            else:
                raise LookupError(f"{before} is a single value, and nothing is inside it")
            node = child
        self._loader.constructed_objects.clear()  # it remembers what a mapping held before

    # ----------------------------------------------------------------------------------------------- once, at the start

    def _hide_numbers(self, root: Node) -> None:
        """Let no sentence show what the environment says, read as a number either."""
        if not self._report.hidden:
            return
        seen: set[int] = set()
        stack = [root]
        while stack:
            node = stack.pop()
            if id(node) not in seen:
                seen.add(id(node))
                stack.extend(_children(node))
                written = None if id(node) in self.unreadable or node.tag == _MERGE else self._as_written(node)
                if written is not None and not isinstance(value := self.value(node), str):
                    self._report.hidden.add(value, written)

    def _measure(self, root: Node) -> None:
        """Refuse what has no end or is far too much, once aliases are followed."""
        sizes: dict[int, tuple[int, int]] = {}  # node: values in it, levels under it
        open_: set[int] = set()
        stack: list[tuple[Node, bool]] = [(root, False)]
        while stack:
            node, done = stack.pop()
            if done:
                open_.discard(id(node))
                inside = [sizes[id(child)] for child in _children(node)]
                size = 1 + sum(count for count, _ in inside)
                depth = 1 + max((levels for _, levels in inside), default=0)
                sizes[id(node)] = size, depth
                if size > MAX_NODES:
                    sentence = f"the file has more than {MAX_NODES} values, aliases (*name) followed"
                    raise self._refuse("too-much", sentence, node.start_mark)
                if depth > MAX_DEPTH:
                    raise self._refuse("too-deep", self._too_deep, node.start_mark)
            elif id(node) in open_:
                raise self._refuse("endless", "an alias (*name) stands inside its own anchor", node.start_mark)
            elif id(node) not in sizes:
                open_.add(id(node))
                stack.append((node, True))
                stack.extend((child, False) for child in reversed(_children(node)) if isinstance(child, CollectionNode))
                for child in _children(node):
                    if not isinstance(child, CollectionNode):
                        sizes[id(child)] = 1, 1

    def _examine(self, root: Node) -> None:
        """Find what plain YAML has no value for, and keys that stand twice; put something harmless in its place."""
        seen: set[int] = set()
        stack: list[tuple[Node, Path]] = [(root, ())]
        while stack:
            node, path = stack.pop()
            if id(node) in seen:
                continue
            seen.add(id(node))
            self._examine_tag(node)
            if isinstance(node, MappingNode):
                self._examine_keys(node, path)
                stack.extend((value, (*path, str(key.value))) for key, value in reversed(node.value))
            elif isinstance(node, SequenceNode):
                stack.extend((value, (*path, index)) for index, value in enumerate(node.value))

    def _examine_tag(self, node: Node) -> bool:
        """Say whether the node has a value, after giving it one if it has none."""
        plain = _PLAIN[type(node)]
        if isinstance(node, CollectionNode):
            if node.tag == plain:
                return True
            known = node.tag in _OTHER_COLLECTIONS
        else:
            known = node.tag in yaml.SafeLoader.yaml_constructors
        if known:
            try:
                self.value(node)
                return True
            except Exception:  # a date that is none, a number of 10,000 digits: whatever PyYAML's constructors raise
                self._loader.recursive_objects.clear()  # it leaves its marks behind
                self._loader.deep_construct = False
                kind = node.tag.removeprefix(_TAG)
                sentence = f"{self._written(node)} cannot be read as YAML's '{kind}'; put it in quotes if it is a text"
        elif node.tag in (f"{_TAG}value", _MERGE):
            sentence = f"{self._written(node)} alone means something else to YAML; put it in quotes"
        else:
            tag = node.tag.replace(_TAG, "!!")
            sentence = f"the tag '{printable(tag)}' is not one of plain YAML's, and nothing else is loaded"
        self._report.add("unreadable-value", sentence, self.position(node))
        self.unreadable.add(id(node))
        node.tag = plain
        if isinstance(node, ScalarNode):
            node.value = ""
        return False

    def _examine_keys(self, node: MappingNode, path: Path) -> None:
        kept: list[tuple[Node, Node]] = []
        first: dict[Any, Node] = {}
        for key, value in node.value:
            if key.tag == _MERGE:
                if self._can_be_merged(value):
                    kept.append((key, value))
                else:
                    sentence = f"'<<' merges mappings, and {self._written(value)} stands behind it"
                    self._report.add("merge", sentence, self.position(key), key="<<", allowed="an alias such as *base")
                continue
            if not isinstance(key, ScalarNode):
                what = "a mapping" if isinstance(key, MappingNode) else "a list"
                hint = "; '{{...}}' is no placeholder here" if isinstance(key, MappingNode) else ""
                self._report.add("key", f"{what} stands where a key must be{hint}", self.position(key))
                self.unreadable.add(id(node))
                continue
            if key.tag == f"{_TAG}value":  # the SafeLoader takes a key '=' as a text
                key.tag = f"{_TAG}str"
            if not self._examine_tag(key):
                continue
            name = self.value(key)
            if name in first:
                before = str(getattr(first[name], "value", ""))
                as_what = "" if before == str(key.value) else f", as '{printable(before)}',"
                where = _place(path)
                self._report.add(
                    "duplicate-key",
                    f"the key '{printable(str(key.value))}' stands a second time in {where} "
                    f"(first{as_what} in line {self.position(first[name])[0]}), and YAML would keep only the last",
                    self.position(key),
                    key=key.value,
                )
            first.setdefault(name, key)
            kept.append((key, value))
        node.value = kept

    def _can_be_merged(self, value: Node) -> bool:
        if isinstance(value, SequenceNode):
            return all(isinstance(one, MappingNode) for one in value.value)
        return isinstance(value, MappingNode)

    def _written(self, node: Node) -> str:
        if isinstance(node, ScalarNode):
            written = self._as_written(node)
            return quoted(node.value if written is None else written)
        return "a mapping" if isinstance(node, MappingNode) else "a list"

    def _syntax(self, error: yaml.MarkedYAMLError) -> TooMuch:
        problem = f"{error.problem or ''}; {error.context or ''};"
        mark = error.problem_mark or error.context_mark
        if "unexpected end of stream" in problem:
            mark = error.context_mark or mark
        if mark is not None and (blamed := self._odd_sign(error.context_mark or mark, mark)):
            return blamed
        start = "?" if error.context_mark is None else str(self._expanded.position(error.context_mark.index)[0])
        for pattern, sentence in _SYNTAX:
            if found := re.search(pattern, problem):
                groups = {name: printable(text or "") for name, text in found.groupdict().items()}
                return self._refuse("syntax", "the file is not YAML: " + sentence.format(start=start, **groups), mark)
        said = printable(f"{error.problem or ''}" + (f" ({error.context})" if error.context else ""))
        return self._refuse("syntax", f"the file is not YAML: {said}", mark)

    def _odd_sign(self, start: yaml.Mark, end: yaml.Mark) -> TooMuch | None:
        """Blame a sign that only looks like YAML's own, if one stands where the text cannot be read any more."""
        text = self._expanded.text
        begin = text.rfind("\n", 0, max(0, text.rfind("\n", 0, start.index))) + 1  # the line before is often the one
        stop = text.find("\n", end.index)
        place = begin
        for line in text[begin : stop if stop >= 0 else len(text)].split("\n"):
            code = re.split(r"(?:^|\s)#", line, maxsplit=1)[0]
            for found in re.finditer(r"[^\x00-\x7f]", code):
                odd = next(odd_signs(found.group()), None) if _in_structure(code, found.start()) else None
                if odd is not None:
                    sentence = "the file is not YAML: a sign stands here that only looks like one of YAML's"
                    self._report.add("syntax", f"{sentence}: {odd}", self._expanded.position(place + found.start()))
                    return TooMuch()
            place += len(line) + 1
        return None

    def _refuse(self, code: str, sentence: str, mark: yaml.Mark | None) -> TooMuch:
        at = None if mark is None else self._expanded.position(mark.index)
        self._report.add(code, sentence, at)
        return TooMuch()


def _in_structure(line: str, place: int) -> bool:
    """Whether a sign stands where YAML's own signs and spaces stand, and not in the middle of somebody's prose."""
    before, sign, after = line[:place].rstrip(), line[place], line[place + 1 :].lstrip()
    if sign.isalnum():
        return False
    if sign in "\uff1a\ufe55\u2236":  # a colon
        return re.fullmatch(r"[\s-]*[\w.\s]+", before) is not None
    if sign == "\uff0c":  # a comma
        return "[" in before or "{" in before
    if unicodedata.category(sign) == "Pd":  # a dash
        return not before
    return not before or before[-1] in ":-,[]{}" or not after or after[0] in ":,]}"


def _children(node: Node) -> list[Node]:
    if isinstance(node, MappingNode):
        return [one for pair in node.value for one in pair]
    return list(node.value) if isinstance(node, SequenceNode) else []


def _copied(node: Node, made: dict[int, Any]) -> Any:
    """A copy of a node with all that is in it; an alias stays one."""
    twin: Any = made.get(id(node))
    if twin is not None:
        return twin
    if isinstance(node, ScalarNode):
        twin = made[id(node)] = ScalarNode(node.tag, node.value, node.start_mark, node.end_mark, node.style)
        return twin
    kind: Any = type(node)
    style = getattr(node, "flow_style", None)
    twin = made[id(node)] = kind(node.tag, [], node.start_mark, node.end_mark, style)
    if isinstance(node, MappingNode):
        twin.value = [(_copied(key, made), _copied(value, made)) for key, value in node.value]
    else:
        twin.value = [_copied(one, made) for one in node.value]
    return twin


def _place_at(node: Node, mark: Any) -> None:
    """Let a node, and all that is in it, stand at another place."""
    node.start_mark = mark
    node.end_mark = None  # it is of another text, and the environment has no part in it
    for child in _children(node):
        _place_at(child, mark)


def _some(names: Iterable[Any], most: int = 8) -> str:
    words = [printable(str(name)) for name in names]
    return ", ".join(words[:most]) + (", ..." if len(words) > most else "") if words else "no keys"


def _place(path: Path) -> str:
    """Return in words where in the file a mapping stands.

    >>> _place(("middleware", "b")), _place(()), _place(("llms",))
    ("middleware 'b'", 'the file', "section 'llms'")
    """
    if not path:
        return "the file"
    section = printable(str(path[0]))
    kinds = {"middleware": "middleware", "functions": "function", "function_groups": "function group"}
    if len(path) > 1 and section in kinds:
        return f"{kinds[section]} '{printable(str(path[1]))}'"
    return "the workflow" if section == "workflow" else f"section '{section}'"
