"""What a run is made of: services and how they fail, the stack, who calls how often, for how long, from which seed.

A scenario is a YAML file in the toolkit's shape (`middleware:`, `functions:`) with sections of labkit's around it:
`scenario:`, `services:`, `workload:`, `leases:`, `variants:`. It can be run as it is, as one of its variants, or with
values set by their path (`middleware.breaker.failure_threshold`). Nothing here reads: the reader makes a `Scenario` and
hands it the function that makes it anew with other values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from labkit.config import StackConfig, nearest
from labkit.config.findings import Report, printable, quoted
from labkit.config.models.stack import FunctionConfig
from labkit.config.yaml.document import Document
from labkit.errors import ConfigError

__all__ = ["Load", "Scenario", "ServiceSpec", "Variant", "service_of"]


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
    # A function of a module, so that a scenario can be pickled and sent to the processes of a sweep.
    _rebuild: Callable[[Scenario, Mapping[str, Any], str], Scenario] = field(repr=False, compare=False)

    def variant(self, name: str) -> Scenario:
        """The variant of that name.

        Raises:
            ConfigError: there is none, or it cannot be run.
        """
        found = self.variants.get(name)
        if found is None:
            raise ConfigError(_no_variant(self.name, name, self.variants))
        changed = self.with_values(found.set, origin=f"variant {quoted(name)}")
        return replace(
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
        return self._rebuild(self, values, origin)

    def service_of(self, function: str) -> str | None:
        """The name of the service that a function calls."""
        return service_of(function, self.stack.functions[function], self.services)

    def document(self, report: Report) -> Document:
        """A copy of what it was read from, to be changed; `report` takes what is found in it."""
        return self._document.copy(report)

    def text(self, sections: Iterable[str] | None = None) -> str:
        """The scenario as YAML that loads again, or some of its sections (`middleware` and `functions` are a stack)."""
        return self._document.text(sections)


def _no_variant(scenario: str, name: str, known: Mapping[str, Variant]) -> str:
    shown, called = quoted(scenario), quoted(name)
    if not known:
        return f"scenario {shown} has no variants, and so none called {called}"
    near = nearest(name, known)
    hint = f"did you mean {quoted(f'{scenario}:{near}')}?" if near else f"there are {', '.join(map(printable, known))}"
    return f"scenario {shown} has no variant {called}; {hint}"


def service_of(name: str, function: FunctionConfig, services: Mapping[str, Any]) -> str | None:
    """Which service a function calls: the one that it names, or the one of its own name or `_type`.

    Args:
        name: the function's name.
        function: its configuration.
        services: the scenario's services by name.
    """
    wanted = function.settings.get("service")
    if wanted is not None:
        return wanted if isinstance(wanted, str) and wanted in services else None
    return next((one for one in (name, function.type_) if one in services), None)
