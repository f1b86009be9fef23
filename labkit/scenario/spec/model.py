"""What a run is made of: services and how they fail, the stack, who calls how often, for how long, from which seed.

A scenario is a YAML file in the toolkit's shape (`middleware:`, `functions:`) with sections of labkit's around it:
`scenario:`, `services:`, `workload:`, `leases:`, `variants:`. `load_scenario` reads one; what is wrong with it is one
sentence a fault, with its line. It can be run as it is, as one of its variants, or with values set by their path
(`middleware.breaker.failure_threshold`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

from labkit.config import StackConfig, nearest
from labkit.config.findings import Report, printable, quoted
from labkit.config.yaml.document import Document
from labkit.config.yaml.loader import open_document
from labkit.errors import ConfigError

__all__ = ["Load", "Scenario", "ServiceSpec", "Variant", "load_scenario", "scenario_names"]


@dataclass(frozen=True, slots=True)
class ServiceSpec:
    """A mock dependency of a scenario.

    Attributes:
        name: under which functions refer to it.
        type_: its `_type`.
        settings: every other key.
    """

    name: str
    type_: str
    settings: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Load:
    """Who calls a function, and when. Times in seconds.

    Attributes:
        function: whom.
        begin, end: from when to when calls arrive.
        rate: calls a second, or None when `ramp` or `at` says it.
        ramp: points (second, calls a second), straight lines between them.
        at: the arrivals themselves.
        arrivals: "constant" (evenly spaced) or "poisson" (at random, at that rate).
        patience: after how long a caller gives up and cancels, or None.
        retry_waits: how long a caller waits before it tries again by itself, once a wait, whatever the error was; this
            is outside the stack, as in an agent that repeats every tool call that failed.
        mode: "invoke" for one result, "stream" for chunks.
        close_after: after how many chunks the reader of a stream leaves, or None.
        consumer_pause: how long the reader is busy with each chunk.
        subjects: what is asked for, in turn.
    """

    function: str
    begin: float
    end: float
    rate: float | None = None
    ramp: tuple[tuple[float, float], ...] = ()
    at: tuple[float, ...] = ()
    arrivals: str = "constant"
    patience: float | None = None
    retry_waits: tuple[float, ...] = ()
    mode: str = "invoke"
    close_after: int | None = None
    consumer_pause: float = 0.0
    subjects: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Variant:
    """A scenario with some values set otherwise.

    Attributes:
        name: after the colon: `labkit run NAME:VARIANT`.
        title: what it is, in a line.
        look_for: what to look for, or "".
        set: values by path, as YAML text.
    """

    name: str
    title: str
    look_for: str
    set: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Scenario:
    """A run, ready to be run. Made by `load_scenario`.

    Attributes:
        name: the file's name without its ending, with ":VARIANT" if it is one.
        title: in a line.
        summary: one line for a list.
        look_for: what to look for in the result, and why.
        semantics: whose rules it shows, "toolkit" or "azure".
        duration: seconds during which calls may arrive.
        drain: seconds that the run may go on after, until the last call has ended.
        seed: of everything random.
        replicas: how many there are, each with middleware of its own.
        stack: middleware, functions and leases.
        services: by name.
        workload: who calls what.
        variants: by name.
        source: the file, or None.
    """

    name: str
    title: str
    summary: str
    look_for: str
    semantics: str
    duration: float
    drain: float
    seed: int
    replicas: int
    stack: StackConfig
    services: Mapping[str, ServiceSpec]
    workload: tuple[Load, ...]
    variants: Mapping[str, Variant]
    source: str | None
    _document: Document = field(repr=False, compare=False)

    def variant(self, name: str) -> Scenario:
        """The variant of that name.

        Raises:
            ConfigError: there is none, or it cannot be run.
        """
        found = self.variants.get(name)
        if found is None:
            raise ConfigError(_no_variant(self.name, name, self.variants))
        changed = self.with_values(found.set, origin=f"variant {quoted(name)}")
        return _replaced(
            changed,
            name=f"{self.name}:{name}",
            title=found.title or self.title,
            look_for=found.look_for or self.look_for,
        )

    def with_values(self, values: Mapping[str, Any], *, origin: str = "--set") -> Scenario:
        """The same with values set by their path; a short path such as `failure_threshold` will do where it is clear.

        Args:
            values: path to value; a text is read as YAML, so "5" is a number.
            origin: who sets them, for sentences.

        Raises:
            ConfigError: there is no such place, or the scenario that comes of it cannot be run.
        """
        from labkit.scenario.spec.reader import change, read_scenario

        report = Report(self.source)
        document = self._document.copy(report)
        change(document, values, origin)
        return read_scenario(document, report, self.name)

    def text(self, sections: Iterable[str] | None = None) -> str:
        """The scenario as YAML that loads again, or some of its sections (`middleware` and `functions` are a stack)."""
        return self._document.text(sections)


def _replaced(scenario: Scenario, **changes: Any) -> Scenario:
    from dataclasses import replace

    return replace(scenario, **changes)


def _no_variant(scenario: str, name: str, known: Mapping[str, Variant]) -> str:
    shown, called = quoted(scenario), quoted(name)
    if not known:
        return f"scenario {shown} has no variants, and so none called {called}"
    near = nearest(name, known)
    hint = f"did you mean {quoted(f'{scenario}:{near}')}?" if near else f"there are {', '.join(map(printable, known))}"
    return f"scenario {shown} has no variant {called}; {hint}"


def _library() -> Path:
    return Path(str(files("labkit.scenario") / "library"))


def scenario_names() -> list[str]:
    """The names of the scenarios that come with labkit, in order."""
    return sorted(path.stem for path in _library().glob("*.yaml"))


def load_scenario(
    path_or_name: str | os.PathLike[str] | bytes,
    variant: str | None = None,
    values: Mapping[str, Any] | None = None,
) -> Scenario:
    """Read a scenario.

    Args:
        path_or_name: a YAML file, YAML text, or the name of one that comes with labkit; "NAME:VARIANT" is one of its
            variants.
        variant: the same, apart.
        values: set by their path, after the variant's own; see `Scenario.with_values`.

    Raises:
        ConfigError: it cannot be read or run: one sentence a fault, with file and line.
    """
    from labkit.scenario.spec.reader import read_scenario

    source: str | os.PathLike[str] | bytes = path_or_name
    label = None
    if isinstance(path_or_name, str) and "\n" not in path_or_name and "{" not in path_or_name:
        name, _, tail = path_or_name.partition(":")
        if _is_name(name) and not os.path.exists(path_or_name):
            variant = variant or tail or None
            source = _library() / f"{name}.yaml"
            label = f"{name}.yaml"
            if name not in scenario_names():  # not every name can be a file's, to be looked for
                raise ConfigError(_no_scenario(name))
        elif not os.path.exists(path_or_name) and tail and os.path.exists(path_or_name.rpartition(":")[0]):
            source, _, variant = path_or_name.rpartition(":")
    if isinstance(source, str) and "\n" not in source and "{" not in source:
        source = Path(source)  # `open_document` would take "a: b" for text
    document, report = open_document(source, name=label)
    stem = Path(label or (source if not isinstance(source, (bytes, str)) else "scenario")).stem
    scenario = read_scenario(document, report, stem)
    if variant is not None:
        scenario = scenario.variant(variant)
    return scenario.with_values(values) if values else scenario


def _is_name(word: str) -> bool:
    return bool(word) and not any(sign in word for sign in "/\\. \t")


def _no_scenario(name: str) -> str:
    known = scenario_names()
    near = nearest(name, known)
    hint = f"did you mean '{near}'?" if near else "`labkit scenarios` lists them"
    return f"there is no scenario {quoted(name)}, and no file of that name; {hint}"
