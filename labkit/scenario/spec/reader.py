"""From the nodes of a YAML file to a `Scenario`, or to every fault in it at once, one sentence each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from yaml.nodes import MappingNode, Node, SequenceNode

from labkit.config import check_readers, nearest
from labkit.config.findings import Report, TooMuch, in_order, printable, quoted
from labkit.config.models.leases import MemoryLeaseConfig
from labkit.config.models.stack import StackConfig
from labkit.config.numbers import in_range, in_words, is_number, is_whole
from labkit.config.yaml.document import Document
from labkit.config.yaml.loader import read_stack_config, refused
from labkit.errors import ServiceError
from labkit.scenario.spec.bounds import MOST, heaviest, most_of
from labkit.scenario.spec.model import Load, Scenario, ServiceSpec, Variant, service_of
from labkit.scenario.spec.values import HEAD, as_text, change
from labkit.services import make_adapter, make_service
from labkit.timing import VirtualClock

__all__ = ["SECTIONS", "read_scenario"]

SECTIONS = ("scenario", "services", "workload", "variants")
"""What a scenario's file has beside a stack's sections."""

MOST_REPLICAS = 1000
LONGEST = 1e7  # seconds
HIGHEST_RATE = 1e6  # calls a second
SEMANTICS = ("toolkit", "azure")
FUNCTION_KEYS = ("service", "adapter", "context_name")


def read_scenario(document: Document, report: Report, name: str, *, lenient: bool = False) -> Scenario:
    """Read a document as a scenario; `lenient` as for `load_stack_config`.

    Args:
        document: the YAML's nodes.
        report: where findings go.
        name: the scenario's name.
        lenient: let unknown keys of a middleware pass, with a warning.

    Raises:
        ConfigError: it has faults; `findings` has all of them.
    """
    reader = _Reader(document, report, lenient)
    try:
        found = reader.read(name)
    except TooMuch:
        found = None
    if found is None:
        raise refused(report)
    return found


def _rebuilt(scenario: Scenario, values: Mapping[str, Any], origin: str) -> Scenario:
    """A scenario read anew with some values set by their path; `origin` says in sentences who sets them.

    Raises:
        ConfigError: there is no such place, or the scenario that comes of it cannot be run.
    """
    report = Report(scenario.source)
    document = scenario.document(report)
    change(document, values, origin)
    return read_scenario(document, report, scenario.name)


class _Block:
    """A mapping whose keys are known: takes them one by one, and says at the end which ones nobody took."""

    def __init__(self, reader: _Reader, what: str, at: Node, node: Node | None, keys: Sequence[str]) -> None:
        self.what = what
        self.at = at
        self.keys = keys
        self._reader = reader
        self._doc = reader.doc
        self.meant: set[str | None] = set()  # keys that misspelt ones stand for: enough has been said of them
        self._entries: dict[Any, tuple[Node, Node]] = {}
        if node is None:
            return
        if not (isinstance(node, MappingNode) and self._doc.is_mapping(node)):
            if id(node) not in self._doc.unreadable:
                reader.say(at, "wrong-kind", f"{what} is {self._doc.shown(node)}", f"a mapping of {', '.join(keys)}")
            return
        self._entries = self._doc.entries(node)
        for key, (key_node, _) in self._entries.items():
            if key not in keys:
                self.meant.add(nearest(key, keys))
                reader.say(
                    key_node,
                    "unknown-key",
                    f"unknown key '{printable(str(key))}' in {what}",
                    ", ".join(keys),
                    nearest(key, keys),
                )

    def __contains__(self, key: str) -> bool:
        return key in self._entries

    def node(self, key: str) -> Node | None:
        """The value's node, or None."""
        entry = self._entries.get(key)
        return entry[1] if entry else None

    def key_node(self, key: str) -> Node:
        """Where a sentence about this key points."""
        entry = self._entries.get(key)
        return entry[0] if entry else self.at

    def wrong(self, key: str, allowed: str, node: Node | None = None, near: str | None = None) -> None:
        """Say that the value of a key is not what it may be; `node` is the entry of its list that is to blame."""
        self._reader.said += 1
        shown = node if node is not None else self.node(key)
        if shown is None and key in self.meant:
            return
        if shown is None:
            self._reader.say(self.at, "missing-key", f"{self.what} has no '{key}'", allowed)
        elif id(shown) not in self._doc.unreadable:
            place = f"'{key}' of {self.what}" if node is None else f"an entry of '{key}' of {self.what}"
            self._reader.say(
                self.key_node(key) if node is None else node,
                "out-of-range",
                f"{place} is {self._doc.shown(shown)}",
                allowed,
                near,
            )

    def value(self, key: str) -> Any:
        """What YAML makes of it; None where it is missing."""
        node = self.node(key)
        return None if node is None else self._doc.value(node)

    def text(self, key: str, default: str = "") -> str:
        """A text."""
        value = self.value(key)
        if value is None:
            return default
        if not isinstance(value, str):
            self.wrong(key, "a text")
            return default
        return value.strip()

    def choice(self, key: str, names: Sequence[str], default: str | None = None) -> str:
        """One of some names."""
        if key not in self and default is not None:
            return default
        value = self.value(key)
        if not isinstance(value, str) or value not in names:
            self.wrong(key, ", ".join(names), near=nearest(value, names))
            return default or names[0]
        return value

    def number(
        self,
        key: str,
        default: float | None = None,
        *,
        least: float = 0.0,
        most: float = LONGEST,
        above: bool = False,
        unit: str = "seconds",
    ) -> float | None:
        """A number in a range; `above` leaves out `least` itself. None where it is missing and has no default."""
        if key not in self or (self.value(key) is None and default is None):
            return default
        value = self.value(key)
        if not is_number(value, least, most, above=above):
            self.wrong(key, in_range(f"a number of {unit}", least, most, above=above))
            return default
        return float(value)

    def whole(self, key: str, default: int | None, least: int, most: int) -> int | None:
        """A whole number in a range."""
        if key not in self or (self.value(key) is None and default is None):
            return default
        value = self.value(key)
        if not is_whole(value, least, most):
            self.wrong(key, in_range("a whole number", least, most))
            return default
        return value

    def numbers(self, key: str) -> list[float]:
        """A list of numbers."""
        value = self.value(key)
        if value is None:
            return []
        if not isinstance(value, list) or not all(is_number(one, 0, LONGEST) for one in value):
            self.wrong(
                key, f"a list of seconds from 0 to {in_words(LONGEST)}, such as [0, 1.5]", self.entry(key, _no_seconds)
            )
            return []
        return [float(one) for one in value]

    def entry(self, key: str, is_wrong: Callable[[Any], bool]) -> Node | None:
        """The node of the first entry of a list with which something is wrong."""
        node = self.node(key)
        listed = node.value if isinstance(node, SequenceNode) and self._doc.is_list(node) else []
        return next((one for one in listed if is_wrong(self._doc.value(one))), None)


def _many(number: float) -> str:
    return f"{number:,.0f}" if number < 1e15 else f"{number:.0e}".replace("e+", "e")


def _no_seconds(value: object) -> bool:
    return not is_number(value, 0, LONGEST)


def _no_point(value: object) -> bool:
    """Whether it is not [second, calls a second]."""
    return not (
        isinstance(value, list)
        and len(value) == 2
        and is_number(value[0], 0, LONGEST)
        and is_number(value[1], 0, HIGHEST_RATE)
    )


class _Reader:
    def __init__(self, document: Document, report: Report, lenient: bool) -> None:
        self.doc = document
        self.lenient = lenient
        self.report = report
        self.said = 0  # how often something was wrong; the report keeps one finding for a place

    def say(self, at: Node, code: str, sentence: str, allowed: str | None = None, near: str | None = None) -> None:
        """Add a finding."""
        self.said += 1
        self.report.add(code, sentence, self.doc.position(at), allowed=allowed, nearest=near)

    def read(self, name: str) -> Scenario | None:
        """All of it; None when it has faults."""
        root = self.doc.root
        sections: dict[Any, tuple[Node, Node]] = {}
        if isinstance(root, MappingNode) and self.doc.is_mapping(root):
            sections = self.doc.entries(root)
        head = self._head(sections, root)
        services = self._services(sections, head)
        workload = self._workload(sections, head)
        variants = self._variants(sections)
        stack = read_stack_config(
            self.doc, self.report, also=SECTIONS, lenient=self.lenient
        )  # raises what was found so far as well
        self._leases(stack)
        self._functions(stack, services)
        self._workload_fits(stack, workload)
        if not any(finding.severity == "error" for finding in self.report.findings):
            self._bounded(stack, services, workload, head["duration"] + (head["drain"] or 0.0))
        if any(finding.severity == "error" for finding in self.report.findings):
            return None
        readers = check_readers(stack, [(load.function, load.close_after is not None) for load, _ in workload])
        stack.warnings = tuple(in_order((*stack.warnings, *readers)))
        return Scenario(
            name=name,
            title=head["title"] or name,
            summary=head["summary"] or head["title"],
            look_for=head["look_for"],
            semantics=head["semantics"],
            duration=head["duration"],
            drain=head["drain"],
            seed=head["seed"],
            replicas=head["replicas"],
            stack=stack,
            services=services,
            workload=tuple(load for load, _ in workload),
            variants=variants,
            source=self.report.file,
            _document=self.doc,
            _rebuild=_rebuilt,
        )

    def _head(self, sections: dict[Any, tuple[Node, Node]], root: Node | None) -> dict[str, Any]:
        entry = sections.get("scenario")
        if entry is None and root is not None and sections:
            near = nearest("scenario", [str(one) for one in sections if one not in (*SECTIONS[1:], "middleware")])
            self.say(root, "missing-key", "the file has no section 'scenario'", "a mapping with 'duration'", near)
        where = entry[0] if entry else root
        block = _Block(self, "'scenario'", where, entry[1] if entry else None, HEAD)  # type: ignore[arg-type]
        duration = block.number("duration", above=True)
        if duration is None and entry is not None and "duration" not in block:
            block.wrong("duration", in_range("a number of seconds", 0, LONGEST, above=True))
        return {
            "title": block.text("title"),
            "summary": block.text("summary"),
            "look_for": block.text("look_for"),
            "semantics": block.choice("semantics", SEMANTICS, "toolkit"),
            "duration": duration or 1.0,
            "sound": duration is not None,
            "drain": block.number("drain", 60.0),
            "seed": block.whole("seed", 0, 0, 2**63 - 1),
            "replicas": block.whole("replicas", 1, 1, MOST_REPLICAS),
        }

    def _named(self, sections: dict[Any, tuple[Node, Node]], section: str, what: str) -> list[tuple[str, Node, Node]]:
        entry = sections.get(section)
        if entry is None or self.doc.is_null(entry[1]):
            return []
        if not (isinstance(entry[1], MappingNode) and self.doc.is_mapping(entry[1])):
            self.say(entry[0], "wrong-kind", f"section '{section}' is {self.doc.shown(entry[1])}", what)
            return []
        found = []
        for name, (key, value) in self.doc.entries(entry[1]).items():
            if not isinstance(name, str) or not name:
                self.say(key, "name", f"a name in section '{section}' is {self.doc.shown(key)}", "a text")
            else:
                found.append((name, key, value))
        return found

    # ------------------------------------------------------------------------------------------------------- services

    def _services(self, sections: dict[Any, tuple[Node, Node]], head: Mapping[str, Any]) -> dict[str, ServiceSpec]:
        found: dict[str, ServiceSpec] = {}
        if "services" not in sections and "scenario" in sections:
            self.say(sections["scenario"][0], "missing-key", "the file has no section 'services'", "names with '_type'")
        for name, key, node in self._named(sections, "services", "names, each with '_type' and settings"):
            settings = self.doc.value(node)
            if not isinstance(settings, dict) or not isinstance(settings.get("_type"), str):
                self.say(
                    key, "missing-type", f"service '{printable(name)}' has no '_type'", "parts_availability, for one"
                )
                continue
            spec = ServiceSpec(
                name, settings["_type"], {str(k): value for k, value in settings.items() if k != "_type"}
            )
            try:
                service = make_service(name, spec.type_, dict(spec.settings), VirtualClock(), seed=0)
            except ServiceError as error:
                self.say(self._at(node, error.path) or key, "out-of-range", str(error))
                continue
            found[name] = spec
            plan = getattr(service, "plan", None)
            for window in getattr(plan, "windows", ()):
                if head["sound"] and window.start >= head["duration"]:
                    places = [n for n, one in enumerate(settings["faults"]) if one.get("from") == window.start]
                    self.say(
                        self._at(node, ["faults", *places[:1]]) or key,
                        "out-of-range",
                        f"a fault of service '{printable(name)}' begins at {window.start:g} s, and the run's duration "
                        f"is {head['duration']:g} s: it would never be met",
                    )
        return found

    def _at(self, node: Node, path: Iterable[str | int]) -> Node | None:
        """The key, or the entry of a list, at a path inside a block; as far as it leads."""
        found: Node | None = None
        for step in path:
            if isinstance(node, MappingNode) and self.doc.is_mapping(node):
                entry = self.doc.entries(node).get(step)
                if entry is None:
                    break
                found, node = entry
            elif isinstance(node, SequenceNode) and isinstance(step, int) and step < len(node.value):
                found = node = node.value[step]
            else:
                break
        return found

    # ------------------------------------------------------------------------------------------------------- workload

    def _workload(self, sections: dict[Any, tuple[Node, Node]], head: Mapping[str, Any]) -> list[tuple[Load, _Block]]:
        entry = sections.get("workload")
        if entry is None:
            if "scenario" in sections:
                self.say(
                    sections["scenario"][0], "missing-key", "the file has no section 'workload'", "a list of loads"
                )
            return []
        if not (isinstance(entry[1], SequenceNode) and self.doc.is_list(entry[1])) or not entry[1].value:
            self.say(
                entry[0],
                "wrong-kind",
                f"section 'workload' is {self.doc.shown(entry[1])}",
                "a list of loads, such as - {function: parts_availability, rate: 80}",
            )
            return []
        found = []
        for index, node in enumerate(entry[1].value):
            load = self._load(f"workload entry {index + 1}", node, head)
            if load is not None:
                found.append(load)
        return found

    def _load(self, what: str, node: Node, head: Mapping[str, Any]) -> tuple[Load, _Block] | None:
        keys = (
            *("function", "rate", "ramp", "at", "arrivals", "from", "to", "patience", "mode"),
            *("retry_waits", "close_after", "consumer_pause", "subjects"),
        )
        before = self.said
        block = _Block(self, what, node, node, keys)
        function = block.value("function")
        if not isinstance(function, str):
            block.wrong("function", "the name of a function")
            return None
        duration = head["duration"]
        begin = block.number("from", 0.0, most=duration) or 0.0
        end = block.number("to", duration, most=duration)
        if end is not None and end <= begin and "to" in block:
            block.wrong("to", f"a number of seconds after 'from' ({in_words(begin)}), at most {in_words(duration)}")
        given = [key for key in ("rate", "ramp", "at") if block.value(key) not in (None, [])]
        if len(given) != 1 and not block.meant & {"rate", "ramp", "at"}:
            which = " and ".join(f"'{one}'" for one in given) or "none of 'rate', 'ramp' and 'at'"
            self.say(node, "missing-key", f"{what} has {which}", "exactly one of rate, ramp, at")
        at = tuple(sorted(block.numbers("at")))
        if at and at[-1] > duration:
            late = block.entry("at", lambda second: not is_number(second, 0, duration))
            block.wrong("at", f"seconds from 0 to the run's duration, {in_words(duration)}", late)
        load = Load(
            function=function,
            begin=begin,
            end=end if end is not None else duration,
            rate=block.number("rate", above=True, most=HIGHEST_RATE, unit="calls a second"),
            ramp=self._ramp(block),
            at=at,
            arrivals=block.choice("arrivals", ("constant", "poisson"), "constant"),
            patience=block.number("patience", above=True),
            retry_waits=tuple(block.numbers("retry_waits")),
            mode=block.choice("mode", ("invoke", "stream"), "invoke"),
            close_after=block.whole("close_after", None, 1, 1_000_000),
            consumer_pause=block.number("consumer_pause", 0.0) or 0.0,
            subjects=self._subjects(block),
        )
        if load.mode != "stream":
            for key in ("close_after", "consumer_pause"):
                if key in block:
                    self.say(block.key_node(key), "unknown-key", f"'{key}' of {what} is for 'mode: stream' only")
        elif load.retry_waits:
            at_node = block.key_node("retry_waits")
            self.say(at_node, "unknown-key", f"'retry_waits' of {what} is for single calls, not for 'mode: stream'")
        return (load, block) if self.said == before else None

    def _ramp(self, block: _Block) -> tuple[tuple[float, float], ...]:
        value = block.value("ramp")
        if value is None:
            return ()
        listed = value if isinstance(value, list) else []
        sound = len(listed) >= 2 and not any(_no_point(one) for one in listed)
        points = [(float(second), float(rate)) for second, rate in listed] if sound else []
        if not sound or any(a[0] >= b[0] for a, b in pairwise(points)):
            block.wrong(
                "ramp",
                f"points [second, calls a second] in the order of time, at most {in_words(LONGEST)} s and "
                f"{in_words(HIGHEST_RATE)} a second, such as [[0, 10], [60, 80]]",
                block.entry("ramp", _no_point),
            )
            return ()
        return tuple(points)

    def _subjects(self, block: _Block) -> tuple[str, ...]:
        value = block.value("subjects")
        if value is None:
            return ()
        listed = [value] if isinstance(value, str) else value
        if not isinstance(listed, list) or not listed or not all(isinstance(one, str) and one for one in listed):
            block.wrong("subjects", "a list of texts, such as [HX-2040, EN-5096]")
            return ()
        return tuple(listed)

    # ------------------------------------------------------------------------------------------- how the parts fit

    def _leases(self, stack: StackConfig) -> None:
        """The replicas of a scenario live in one process and in a time of their own, where no other store works."""
        for name, lease in stack.leases.items():
            if not isinstance(lease, MemoryLeaseConfig):
                at = None if self.doc.root is None else self._at(self.doc.root, ["leases", name, "_type"])
                self.report.add(
                    "out-of-range",
                    f"lease '{printable(name)}' is of the type '{lease.type_}', and in a scenario a lease is 'memory'",
                    None if at is None else self.doc.position(at),
                    key="_type",
                    found=lease.type_,
                    allowed=MemoryLeaseConfig.static_type(),
                    say_allowed="",
                )

    def _functions(self, stack: StackConfig, services: Mapping[str, ServiceSpec]) -> None:
        for name, function in stack.functions.items():
            what = f"function '{printable(name)}'"
            service = service_of(name, function, services)
            if service is None:
                wanted = function.settings.get("service", name)
                self.report.add(
                    "undefined",
                    f"{what} calls the service {quoted(wanted)}, which is not defined",
                    stack.position("functions", name, "service"),
                    allowed=", ".join(services) or "a name in section 'services'",
                    nearest=nearest(wanted, services),
                )
            try:
                make_adapter(function.settings.get("adapter", "none"), _ANY_SERVICE)
            except ServiceError as error:
                at = stack.position("functions", name, "adapter")
                self.report.add("out-of-range", f"{what}: {error}", at, key="adapter")
            context = function.settings.get("context_name")
            if context is not None and not (isinstance(context, str) and context):
                at = stack.position("functions", name, "context_name")
                said = f"'context_name' of {what} is {quoted(context)}"
                self.report.add("out-of-range", said, at, allowed="a text", key="context_name")
            for key in function.settings:
                if key not in FUNCTION_KEYS and nearest(key, FUNCTION_KEYS, letters_only=True):
                    self.report.add(
                        "unknown-key",
                        f"unknown key '{printable(key)}' in {what}",
                        stack.position("functions", name, key),
                        nearest=nearest(key, FUNCTION_KEYS, letters_only=True),
                    )

    def _workload_fits(self, stack: StackConfig, workload: Sequence[tuple[Load, _Block]]) -> None:
        for load, block in workload:
            if load.function not in stack.functions:
                block.wrong(
                    "function", ", ".join(stack.functions) or "a function", near=nearest(load.function, stack.functions)
                )

    def _bounded(
        self,
        stack: StackConfig,
        services: Mapping[str, ServiceSpec],
        workload: Sequence[tuple[Load, _Block]],
        until: float,
    ) -> None:
        """Refuse what would eat the machine: memory for every call, time for every attempt."""
        reached = {name: service_of(name, one, services) or "" for name, one in stack.functions.items()}
        bounds = [most_of(load, stack, services, reached, until) for load, _ in workload]
        attempts = sum(bound.attempts for bound in bounds)
        if attempts <= MOST:
            return
        calls = sum(bound.calls for bound in bounds)
        worst, block = bounds[heaviest(bounds)], workload[heaviest(bounds)][1]
        at = self.doc.position(block.key_node("rate" if "rate" in block else "ramp" if "ramp" in block else "at"))
        lower = "lower 'rate' or a shorter 'duration'"
        if worst.retry is not None and worst.times >= worst.tries:
            at = stack.position("middleware", worst.retry, "attempts") or at
            lower = f"lower 'attempts' of middleware '{printable(worst.retry)}', a 'time_budget' for it, a {lower}"
        elif worst.tries > 1:
            at = self.doc.position(block.key_node("retry_waits"))
            lower = f"fewer 'retry_waits', a {lower}"
        else:
            lower = f"a {lower}"
        said = f"the run may come to {_many(attempts)} attempts"
        if attempts > calls:
            said += (
                f" ({_many(calls)} calls, and up to {_many(worst.attempts / max(1.0, worst.calls))} for one of them)"
            )
        self.report.add("out-of-range", said, at, allowed=f"at most {MOST:,}; {lower}")

    def _variants(self, sections: dict[Any, tuple[Node, Node]]) -> dict[str, Variant]:
        found: dict[str, Variant] = {}
        for name, key, node in self._named(sections, "variants", "names, each with 'title' and 'set'"):
            block = _Block(self, f"variant '{printable(name)}'", key, node, ("title", "look_for", "set"))
            changes = block.value("set")
            if not isinstance(changes, dict) or not all(isinstance(path, str) for path in changes):
                block.wrong("set", "a mapping of paths to values")
                continue
            try:
                values = {path: as_text(value) for path, value in changes.items()}
            except ValueError as error:
                self.say(block.key_node("set"), "unreadable-value", f"'set' of {block.what} holds {error.args[0]}")
                continue
            found[name] = Variant(name, block.text("title"), block.text("look_for"), values)
        return found


_ANY_SERVICE = make_service("any", "parts_availability", {}, VirtualClock())  # for adapters, which want one to be made
