"""From a YAML file to a `StackConfig`, or to every fault in it at once, one sentence each."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar, get_args

from pydantic import ValidationError
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from labkit.config.checks import check_stack
from labkit.config.findings import AsWritten, Report, TooMuch, in_order, printable, quoted
from labkit.config.models.leases import LeaseConfig, lease_types
from labkit.config.models.middleware import (
    NAMES,
    TOOLKIT_ONLY_TYPES,
    AllowedComponentFunctions,
    DynamicMiddlewareConfig,
    MiddlewareConfig,
    TypedConfig,
    middleware_types,
)
from labkit.config.models.stack import FunctionConfig, Path, Position, StackConfig
from labkit.config.nearest import nearest
from labkit.config.numbers import LARGEST
from labkit.config.reading import as_text, read_user_file
from labkit.config.yaml.document import Document
from labkit.config.yaml.environment import expand
from labkit.errors import ConfigError

__all__ = ["MAX_BYTES", "UNREADABLE", "load_stack_config", "open_document", "read_stack_config", "refused"]

MAX_BYTES = 262_144
"""The longest file that is read; a stack has a few thousand bytes."""

_USUAL = "a stack has a few thousand"

UNREADABLE = frozenset({"unreadable", "syntax"})
"""Codes of the findings that say that a file could not be read, so that nothing is known about what it says."""

M = TypeVar("M", bound=TypedConfig)

_OWN_SECTIONS = ("middleware", "functions", "workflow", "leases")
_TOOLKIT_SECTIONS = (
    "authentication",
    "embedders",
    "eval",
    "finetuning",
    "function_groups",
    "general",
    "llms",
    "memory",
    "object_stores",
    "optimizer",
    "retrievers",
    "trainer_adapters",
    "trainers",
    "trajectory_builders",
    "ttc_strategies",
)


def load_stack_config(
    path_or_text: str | os.PathLike[str] | bytes,
    *,
    lenient: bool = False,
    name: str | None = None,
    environ: Mapping[str, str] | None = None,
) -> StackConfig:
    """Read a stack's configuration from a YAML file or from YAML text.

    The YAML is read as the toolkit reads it (`yaml.safe_load`, `${NAME:-default}` from the environment), in the
    toolkit's shape: `middleware:`, `functions:`, `workflow:`; its other sections are allowed and not looked at. `leases:`
    is labkit's own.

    Args:
        path_or_text: a path object is a path, bytes are text; a str is text when it has a line break, a '{' or ': ' in
            it, ends with ':' or is blank, and otherwise a path.
        lenient: load unknown keys of a middleware as the toolkit does, which ignores them, with a warning for each.
        name: what to call the file in sentences; by default the path, or `<text>`.
        environ: the environment for placeholders; by default the process's.

    Returns:
        The configuration; its `warnings` holds the findings that did not keep it from loading.

    Raises:
        ConfigError: the file cannot be read or has faults; `findings` has all of them, warnings included, in the order of
            lines, and the message the errors' sentences, one a line. Nothing else is raised, whatever the text is.

    >>> stack = load_stack_config('''
    ... middleware:
    ...   availability_breaker: {_type: circuit_breaker, failure_threshold: 5}
    ... functions:
    ...   parts_availability: {_type: parts_availability, middleware: [availability_breaker]}
    ... ''')
    >>> stack.middleware["availability_breaker"].failure_threshold, stack.functions["parts_availability"].middleware
    (5, ['availability_breaker'])

    >>> load_stack_config("middleware: {b: {_type: timeout, timout: 2}}", name="lesson.yaml")
    Traceback (most recent call last):
    ...
    labkit.errors.ConfigError: lesson.yaml:1: unknown key 'timout' in middleware 'b' (timeout); allowed: timeout, timeout_message, enabled and the toolkit's keys for components; did you mean 'timeout'?
    """  # noqa: E501 - one sentence
    return read_stack_config(*open_document(path_or_text, name=name, environ=environ), lenient=lenient)


def open_document(
    path_or_text: str | os.PathLike[str] | bytes,
    *,
    name: str | None = None,
    environ: Mapping[str, str] | None = None,
) -> tuple[Document, Report]:
    """Read a YAML file or text as nodes, for a reader of a file that holds more than a stack. See `load_stack_config`.

    Args:
        path_or_text: a path, or the YAML itself; see `load_stack_config`.
        name: how findings call the file; its path where none is given.
        environ: the variables that placeholders may name; the process's own where none are given.

    Raises:
        ConfigError: it cannot be read.
    """
    data, label = _source(path_or_text, name)
    report = Report(label)
    text = _decoded(data, report)
    if text is not None:
        try:
            return Document(expand(text, report, os.environ if environ is None else environ), report), report
        except TooMuch:
            pass
        except RecursionError:
            report.add("too-deep", "the values are nested too deep for what is left of the interpreter's stack")
    raise refused(report)


def read_stack_config(
    document: Document, report: Report, *, lenient: bool = False, also: Sequence[str] = ()
) -> StackConfig:
    """Read the stack's sections of a document. See `load_stack_config`.

    Args:
        document: what was read.
        report: takes the findings; those that it has already count as well.
        lenient: load unknown keys of a middleware with a warning.
        also: sections that belong to somebody else.

    Raises:
        ConfigError: it has faults.
    """
    config = None
    try:
        config = _Reader(document, report, lenient, also).read()
    except TooMuch:
        pass
    except RecursionError:
        report.add("too-deep", "the values are nested too deep for what is left of the interpreter's stack")
    if config is None or any(finding.severity == "error" for finding in report.findings):
        raise refused(report)
    config.warnings = tuple(in_order(report.findings))
    return config


def refused(report: Report) -> ConfigError:
    """What to raise for a report with errors: their sentences, one a line."""
    findings = in_order(report.findings)
    errors = [finding for finding in findings if finding.severity == "error"]
    return ConfigError("\n".join(finding.message for finding in errors), findings)


# ----------------------------------------------------------------------------------------------------- reading the file


def _source(path_or_text: str | os.PathLike[str] | bytes, name: str | None) -> tuple[bytes, str]:
    if isinstance(path_or_text, bytes):
        return path_or_text, name or "<text>"
    if isinstance(path_or_text, str) and _is_text(path_or_text):
        return path_or_text.encode("utf-8", "surrogatepass"), name or "<text>"
    path = os.fspath(path_or_text)
    return read_user_file(path, most=MAX_BYTES, name=name, wanted="a YAML file", usual=_USUAL), name or path


def _is_text(text: str) -> bool:
    return not text.strip() or text.rstrip().endswith(":") or any(sign in text for sign in ("\n", "\r", "{", ": "))


def _decoded(data: bytes, report: Report) -> str | None:
    if len(data) > MAX_BYTES:
        report.add("unreadable", f"the file has more than {MAX_BYTES} bytes, and {_USUAL}")
        return None
    return as_text(data, report)


# ---------------------------------------------------------------------------------------------------- reading the nodes


class _Reader:
    """One reading of one document."""

    def __init__(self, document: Document, report: Report, lenient: bool, also: Sequence[str]) -> None:
        self._report = report
        self._lenient = lenient
        self._also = tuple(also)
        self._doc = document
        self._types = middleware_types()
        self._positions: dict[Path, Position] = {}
        self._unsound: set[str] = set()
        self._unsound_leases: set[str] = set()
        self._not_run: dict[str, str] = {}

    def read(self) -> StackConfig | None:
        """Return the configuration as far as it could be read; the report says what could not."""
        root = self._doc.root
        if root is None or self._doc.is_null(root):
            if root is None or id(root) not in self._doc.unreadable:
                allowed = "the sections middleware, functions, workflow"
                self._report.add("empty", "the file is empty", allowed=allowed)
            return None
        if not (isinstance(root, MappingNode) and self._doc.is_mapping(root)):
            self._report.add(
                "wrong-kind",
                f"the file is {self._kind(root)}, not a mapping",
                self._doc.position(root),
                allowed="the sections middleware, functions, workflow",
            )
            return None
        sections = self._doc.entries(root)
        for name, (key, value) in sections.items():
            self._section(name, key, value)
        config = StackConfig(source=self._report.file, positions=self._positions)
        config.middleware = self._middleware(sections.get("middleware"))
        config.leases = self._leases(sections.get("leases"))
        config.functions = self._functions(sections, "functions")
        config.function_groups = self._functions(sections, "function_groups")
        if "workflow" in sections:
            key, value = sections["workflow"]
            config.workflow = self._function(("workflow",), "the workflow", key, value)
        for finding in check_stack(
            config, unsound=self._unsound, not_run=self._not_run, unsound_leases=self._unsound_leases
        ):
            self._report.take(finding)
        return config

    def _section(self, name: object, key: Node, value: Node) -> None:
        at = self._doc.position(key)
        if name == "base":
            self._report.add(
                "base",
                "'base' makes the toolkit merge another file under this one, and labkit reads one file",
                at,
                key="base",
                allowed="all settings in one file",
            )
        elif name in _OWN_SECTIONS:
            self._positions[(str(name),)] = at
            if not self._doc.is_mapping(value) and id(value) not in self._doc.unreadable:
                found = "is empty" if self._doc.is_null(value) else f"is {self._kind(value)}, not a mapping"
                self._report.add(
                    "wrong-kind",
                    f"section '{name}' {found}",
                    at,
                    key=name,
                    allowed="'_type' and settings" if name == "workflow" else "names, each with '_type' and settings",
                )
        elif name not in _TOOLKIT_SECTIONS and name not in self._also:
            known = (*_OWN_SECTIONS, *_TOOLKIT_SECTIONS, *self._also)
            near = nearest(name, known, letters_only=True)
            shown = printable(str(getattr(key, "value", name)))
            if near is not None:
                self._report.add(
                    "unknown-section",
                    f"unknown section '{shown}'",
                    at,
                    key=shown,
                    allowed=", ".join(known),
                    say_allowed=", ".join(_OWN_SECTIONS) + " and the toolkit's others",
                    nearest=near,
                )
            else:
                self._report.add(
                    "unknown-section",
                    f"labkit passes over the section '{shown}', and the toolkit refuses a file with a section it does "
                    "not know",
                    at,
                    severity="warning",
                    key=shown,
                    allowed=", ".join(known),
                    say_allowed="",
                )

    def _middleware(self, section: tuple[Node, Node] | None) -> dict[str, MiddlewareConfig]:
        found: dict[str, MiddlewareConfig] = {}
        for name, key, value in self._named(section, "middleware"):
            self._unsound.add(name)
            self._positions[("middleware", name)] = self._doc.position(key)
            model = self._one_middleware(name, key, value)
            if model is not None:
                found[name] = model
            if model is not None or name in self._not_run:
                self._unsound.discard(name)
        return found

    def _named(self, section: tuple[Node, Node] | None, kind: str) -> list[tuple[str, Node, Node]]:
        """Return name, key and value of each entry of a section whose name is a text."""
        if section is None or not isinstance(section[1], MappingNode) or not self._doc.is_mapping(section[1]):
            return []
        found = []
        for name, (key, value) in self._doc.entries(section[1]).items():
            if isinstance(name, str) and name:
                found.append((name, key, value))
                continue
            written = printable(str(getattr(key, "value", "")))
            reading = f"the name '{written}' in section '{kind}' is read by YAML as {quoted(name)}, not as a text"
            self._report.add(
                "name",
                f"a name in section '{kind}' is empty" if written == "" else reading,
                self._doc.position(key),
                key=written,
                found=name,
                allowed=f'the name in quotes: "{written}"' if written and name is not None else "a name",
            )
        return found

    def _one_middleware(self, name: str, key: Node, value: Node) -> MiddlewareConfig | None:
        what = f"middleware '{printable(name)}'"
        types = (*self._types, *TOOLKIT_ONLY_TYPES)
        entries = self._block(what, key, value, f"'_type' ({', '.join(self._types)}) and settings")
        if entries is None:
            return None
        type_ = self._type(what, key, value, entries, ", ".join(self._types))
        if type_ is None:
            return None
        if type_ in TOOLKIT_ONLY_TYPES:
            self._not_run[name] = type_
            self._report.add(
                "not-run",
                f"{what} has the _type '{type_}', which the toolkit has and labkit does not run",
                self._doc.position(entries["_type" if "_type" in entries else "type"][0]),
                severity="note",
                key="_type",
                found=type_,
            )
            return None
        entry = self._types.get(type_)
        if entry is None:
            self._unknown_type(what, type_, entries, self._types, types)
            return None
        return self._settings(("middleware", name), f"{what} ({type_})", key, entries, entry.model)

    def _leases(self, section: tuple[Node, Node] | None) -> dict[str, LeaseConfig]:
        found: dict[str, LeaseConfig] = {}
        types = lease_types()
        for name, key, value in self._named(section, "leases"):
            self._positions[("leases", name)] = self._doc.position(key)
            what = f"lease '{printable(name)}'"
            entries = self._block(what, key, value, f"'_type' ({', '.join(types)}) and settings")
            type_ = entries and self._type(what, key, value, entries, ", ".join(types))
            config = None
            if entries and type_:
                if type_ in types:
                    config = self._settings(("leases", name), f"{what} ({type_})", key, entries, types[type_])
                else:
                    self._unknown_type(what, type_, entries, types, types)
            if config is None:
                self._unsound_leases.add(name)
            else:
                found[name] = config
        return found

    def _unknown_type(
        self,
        what: str,
        type_: str,
        entries: dict[Any, tuple[Node, Node]],
        allowed: Iterable[str],
        known: Iterable[str],
    ) -> None:
        self._report.add(
            "unknown-type",
            f"unknown _type '{printable(type_)}' of {what}",
            self._doc.position(entries["_type" if "_type" in entries else "type"][0]),
            key="_type",
            found=type_,
            allowed=", ".join(allowed),
            nearest=nearest(type_, known),
        )

    def _block(self, what: str, key: Node, value: Node, allowed: str) -> dict[Any, tuple[Node, Node]] | None:
        """Return the entries of a middleware's, function's or workflow's own block."""
        if isinstance(value, MappingNode) and self._doc.is_mapping(value):
            return self._doc.entries(value)
        if id(value) not in self._doc.unreadable:
            found = "is empty" if self._doc.is_null(value) else f"is {self._kind(value)}, not a mapping"
            self._report.add("wrong-kind", f"{what} {found}", self._doc.position(key), key=what, allowed=allowed)
        return None

    def _type(
        self, what: str, key: Node, value: Node, entries: dict[Any, tuple[Node, Node]], allowed: str
    ) -> str | None:
        """Return the `_type` of a block; like the toolkit, `type` will do where there is no `_type`."""
        tag = "_type" if "_type" in entries else "type"
        if tag not in entries:
            for other, (other_key, _) in entries.items():
                if nearest(other, ("_type",), letters_only=True):
                    self._report.add(
                        "missing-type",
                        f"{what} has the key '{printable(str(other))}' and no '_type'",
                        self._doc.position(other_key),
                        key=other,
                        allowed=allowed,
                        say_allowed="",
                        nearest="_type",
                    )
                    return None
            if id(value) not in self._doc.unreadable:  # or it stood where a key was that could not be read
                at = self._doc.position(key)
                self._report.add("missing-type", f"{what} has no '_type'", at, key="_type", allowed=allowed)
            return None
        type_key, type_node = entries[tag]
        type_ = self._doc.value(type_node)
        if isinstance(type_, str) and type_:
            return type_
        if id(type_node) not in self._doc.unreadable:
            self._report.add(
                "wrong-type",
                f"'_type' of {what} is {self._doc.shown(type_node)}",
                self._doc.position(type_key),
                key="_type",
                found=self._doc.found(type_node),
                allowed=allowed,
            )
        return None

    # ---------------------------------------------------------------------------------------- a middleware's settings

    def _settings(
        self, path: Path, what: str, key: Node, entries: dict[Any, tuple[Node, Node]], of: type[M]
    ) -> M | None:
        keys = of.keys()
        values: dict[str, Any] = {}
        unread: set[str] = set()
        meant: set[str] = set()
        for setting, (setting_key, setting_value) in entries.items():
            if setting == "_type" or (setting == "type" and "_type" not in entries):
                continue
            if setting in keys:
                self._place((*path, setting), setting_key, setting_value)
                if self._is_unread(setting_value) or self._is_endless(what, setting, setting_key, setting_value, of):
                    unread.add(setting)
                else:
                    values[setting] = self._doc.value(setting_value)
            else:
                near = nearest(setting, keys)
                meant.add(near or "")
                self._unknown_key(what, setting_key, near, of, entries)
        model = self._validated(what, key, entries, of, values, unread if self._lenient else unread | meant)
        for setting in values:
            self._surprise(what, setting, *entries[setting], of)
        return None if unread else model

    def _is_endless(self, what: str, setting: str, key: Node, node: Node, model: type[TypedConfig]) -> bool:
        """Say whether a setting is a whole number with which nothing can be reckoned, after saying so."""
        if not (isinstance(self._doc.value(node), int) and _is_beyond(self._doc.value(node))):
            return False
        extra = model.model_fields[setting].json_schema_extra
        allowed = str(extra["allowed"]) if isinstance(extra, dict) and "allowed" in extra else "a number"
        self._report.add(
            "out-of-range",
            f"'{setting}' of {what} is {self._doc.shown(node)}",
            self._doc.position(key),
            key=setting,
            found=self._doc.found(node),
            allowed=f"{allowed}, at most 1.8e308",
        )
        return True

    def _validated(
        self,
        what: str,
        key: Node,
        entries: dict[Any, tuple[Node, Node]],
        model: type[M],
        values: dict[str, Any],
        said: set[str],
    ) -> M | None:
        """Make the model, or say what keeps it from being made; of the fields in `said` enough has been said."""
        try:
            return model(**values)
        except ValidationError as error:
            errors = error.errors(include_url=False)
        for one in errors:
            said_already = one["loc"][0] in said if one["type"] == "missing" else one["type"] == "at_odds" and said
            if not said_already:
                self._refused(what, key, entries, model, one)
        if not (self._lenient and all(one["type"] == "extra_forbidden" for one in errors)):
            return None
        for one in errors:  # the block inside a setting: drop what the toolkit would ignore
            field, last = str(one["loc"][0]), one["loc"][-1]
            values[field] = {inner: value for inner, value in values[field].items() if inner != last}
        return self._validated(what, key, entries, model, values, said)

    def _surprise(self, what: str, setting: str, key: Node, node: Node, model: type[TypedConfig]) -> None:
        """Warn of an accepted value that is a number nobody sees in it: true is 1, 017 is 15, 1:30 is 90."""
        annotation = model.model_fields[setting].annotation
        if not {int, float} & set(get_args(annotation) or (annotation,)) or not isinstance(node, ScalarNode):
            return
        value = self._doc.value(node)
        if isinstance(value, bool):
            written = self._doc.found(node)
            reading = quoted(written) if isinstance(written, AsWritten) else printable(node.value)
            reading += f", which counts as {int(value)}"
        elif node.style is None and not isinstance(value, str) and _ODD_NUMBER.fullmatch(node.value):
            reading = self._doc.shown(node)
        else:
            return
        if any(
            one.key == setting and (one.line, one.column) == self._doc.position(key) for one in self._report.findings
        ):
            return
        self._report.add(
            "odd-number",
            f"'{setting}' of {what} is {reading}",
            self._doc.position(key),
            severity="warning",
            key=setting,
            found=self._doc.found(node),
        )

    def _unknown_key(
        self,
        what: str,
        key: Node,
        near: str | None,
        model: type[TypedConfig],
        entries: dict[Any, tuple[Node, Node]],
    ) -> None:
        written = printable(str(getattr(key, "value", "")))
        read = self._doc.value(key)
        as_yaml = "" if isinstance(read, str) else f" (which YAML reads as {quoted(read)})"
        severity, in_force = "error", ""
        if self._lenient:
            severity = "warning"
            in_force = ", which the toolkit would ignore in silence"
            if near is not None:
                in_force += f": '{near}' stays {self._in_force(near, model, entries)}"
        self._report.add(
            "unknown-key",
            f"unknown key '{written}'{as_yaml} in {what}{in_force}",
            self._doc.position(key),
            severity="warning" if severity == "warning" else "error",
            key=written,
            found=written,
            allowed=", ".join(model.keys()),
            say_allowed="" if self._lenient else _keys_in_short(model),
            nearest=near,
        )

    def _in_force(self, field: str, model: type[TypedConfig], entries: dict[Any, tuple[Node, Node]]) -> str:
        if field in entries:
            return self._doc.shown(entries[field][1])
        info = model.model_fields[field]
        return "missing" if info.is_required() else quoted(info.get_default(call_default_factory=True))

    def _refused(
        self,
        what: str,
        key: Node,
        entries: dict[Any, tuple[Node, Node]],
        model: type[TypedConfig],
        error: Any,
    ) -> None:
        """Put one of pydantic's errors into a sentence."""
        loc = error["loc"]
        if error["type"] == "at_odds":
            blamed, found, allowed = (error["ctx"][name] for name in ("key", "found", "allowed"))
            at = self._doc.position(entries[blamed][0] if blamed in entries else key)
            self._report.add("at-odds", f"{what}: {found}", at, key=blamed or None, allowed=allowed)
            return
        field = str(loc[0]) if loc else ""
        info = model.model_fields.get(field)
        extra = info.json_schema_extra if info is not None else None
        allowed = str(extra["allowed"]) if isinstance(extra, dict) and "allowed" in extra else None
        if error["type"] == "missing" or field not in entries:
            at = self._doc.position(key)
            sentence = (
                f"{what} has no '{field}'" if error["type"] == "missing" else f"{what}: {printable(error['msg'])}"
            )
            self._report.add("missing-key", sentence, at, key=field, allowed=allowed)
            return
        setting_key, node = entries[field]
        at = self._doc.position(setting_key)
        for step in loc[1:]:
            inner = self._inner(node, step)
            if inner is None:
                break
            at, node = inner
        if error["type"] == "extra_forbidden":  # only a block inside a setting comes here
            self._report.add(
                "unknown-key",
                f"unknown key '{printable(str(loc[-1]))}' in '{field}' of {what}"
                + (", which the toolkit would ignore in silence" if self._lenient else ""),
                at,
                severity="warning" if self._lenient else "error",
                key=loc[-1],
                found=loc[-1],
                allowed=", ".join(AllowedComponentFunctions.model_fields),
                nearest=nearest(loc[-1], AllowedComponentFunctions.model_fields),
            )
            return
        place = f"'{field}' of {what}"
        if len(loc) > 1:
            named = isinstance(loc[1], str)
            place = f"'{printable(loc[1])}' in {place}" if named else f"an entry in {place}"
            allowed = NAMES if named else allowed
        self._report.add(
            "out-of-range" if error["type"] in _OUT_OF_RANGE else "wrong-type",
            f"{place} is {self._doc.shown(node)}",
            at,
            key=field,
            found=self._doc.found(node),
            allowed=f"{allowed}, at most 1.8e308" if allowed and _is_beyond(self._doc.value(node)) else allowed,
        )

    def _inner(self, node: Node, step: object) -> tuple[Position, Node] | None:
        if isinstance(node, SequenceNode) and isinstance(step, int) and step < len(node.value):
            return self._doc.position(node.value[step]), node.value[step]
        if isinstance(node, MappingNode) and self._doc.is_mapping(node):
            entry = self._doc.entries(node).get(step)
            if entry is not None:
                return self._doc.position(entry[0]), entry[1]
        return None

    def _is_unread(self, node: Node) -> bool:
        """Say whether something inside a value already has a finding."""
        if id(node) in self._doc.unreadable:
            return True
        if isinstance(node, MappingNode):
            return any(self._is_unread(one) for pair in node.value for one in pair)
        return isinstance(node, SequenceNode) and any(self._is_unread(one) for one in node.value)

    # ------------------------------------------------------------------------------------------ functions and workflow

    def _functions(self, sections: dict[Any, tuple[Node, Node]], section: str) -> dict[str, FunctionConfig]:
        kind = "function" if section == "functions" else "function group"
        found = {}
        for name, key, value in self._named(sections.get(section), section):
            function = self._function((section, name), f"{kind} '{printable(name)}'", key, value)
            if function is not None:
                found[name] = function
        return found

    def _function(self, path: Path, what: str, key: Node, value: Node) -> FunctionConfig | None:
        self._positions[path] = self._doc.position(key)
        if path == ("workflow",) and not self._doc.is_mapping(value):
            return None  # the section has its finding already
        entries = self._block(what, key, value, "'_type', 'middleware' and settings")
        if entries is None:
            return None
        type_ = self._type(what, key, value, entries, "the name under which the function was registered")
        function = FunctionConfig(type_ or "", line=self._doc.position(key)[0])
        for setting, (setting_key, node) in entries.items():
            if setting == "middleware":
                self._positions[(*path, "middleware")] = self._doc.position(setting_key)
                for one in self._list(what, setting_key, node):
                    self._positions[(*path, "middleware", len(function.middleware))] = self._doc.position(one)
                    function.middleware.append(self._doc.value(one))
            elif setting in ("_type", "type", "name"):
                continue
            else:
                self._place((*path, setting if isinstance(setting, str) else str(setting)), setting_key, node)
                function.settings[setting] = self._doc.value(node)
                if "middleware" not in entries and nearest(setting, ("middleware",), letters_only=True):
                    self._report.add(
                        "unknown-key",
                        f"unknown key '{printable(str(setting))}' in {what}, so that nothing stands around it",
                        self._doc.position(setting_key),
                        key=setting,
                        nearest="middleware",
                    )
        if "name" in entries:
            function.name = self._display_name(what, *entries["name"])
        return function

    def _display_name(self, what: str, key: Node, node: Node) -> str | None:
        name = self._doc.value(node)
        if name is None or isinstance(name, str):
            return name
        self._report.add(
            "wrong-type",
            f"'name' of {what} is {self._doc.shown(node)}",
            self._doc.position(key),
            key="name",
            found=self._doc.found(node),
            allowed="a text or null",
        )
        return None

    def _list(self, what: str, key: Node, node: Node) -> list[Node]:
        """Return the entries of a `middleware:` list that are names."""
        if not (isinstance(node, SequenceNode) and self._doc.is_list(node)):
            if id(node) not in self._doc.unreadable:
                value = self._doc.value(node)
                example = printable(value) if isinstance(value, str) and value else "availability_breaker"
                self._report.add(
                    "wrong-kind",
                    f"'middleware' of {what} is {'empty' if value is None else self._doc.shown(node)}",
                    self._doc.position(key),
                    key="middleware",
                    found=self._doc.found(node),
                    allowed=f"a list of names, outermost first, such as [{example}]",
                )
            return []
        names = []
        for one in node.value:
            name = self._doc.value(one)
            if isinstance(name, str):
                names.append(one)
            elif id(one) not in self._doc.unreadable:
                allowed = "the name of a middleware that the section 'middleware' defines"
                if isinstance(one, ScalarNode) and name is not None:
                    in_quotes = quoted(one.value)[1:-1]
                    allowed = f'a name; this one in quotes: "{in_quotes}"'
                self._report.add(
                    "wrong-type",
                    f"an entry in 'middleware' of {what} is {self._doc.shown(one)}",
                    self._doc.position(one),
                    key="middleware",
                    found=self._doc.found(one),
                    allowed=allowed,
                )
        return names

    def _place(self, path: Path, key: Node, value: Node) -> None:
        """Remember where a setting and the entries of its list stand."""
        self._positions[path] = self._doc.position(key)
        if isinstance(value, SequenceNode):
            for index, one in enumerate(value.value):
                self._positions[(*path, index)] = self._doc.position(one)

    def _kind(self, node: Node) -> str:
        if isinstance(node, MappingNode):
            return "a mapping" if self._doc.is_mapping(node) else "a set"
        return "a list" if isinstance(node, SequenceNode) else self._doc.shown(node)


def _is_beyond(value: object) -> bool:
    """Whether it is a number that is larger than what can be reckoned with."""
    return isinstance(value, int | float) and value == value and not -LARGEST <= value <= LARGEST


_ODD_NUMBER = re.compile(r"[-+]?(0[0-9_]+|[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?)")
_OUT_OF_RANGE = {"greater_than", "greater_than_equal", "finite_number", "less_than", "less_than_equal"}


def _keys_in_short(model: type[TypedConfig]) -> str:
    shared = DynamicMiddlewareConfig.model_fields if issubclass(model, DynamicMiddlewareConfig) else {}
    names = model.keys()
    own = [key for key in names if key not in shared or key == "enabled"]
    return ", ".join(own) + (" and the toolkit's keys for components" if shared else "")
