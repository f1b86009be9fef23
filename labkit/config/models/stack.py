"""What a stack's file says, read: middleware settings by name, functions with their lists, the workflow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from labkit.config.findings import Finding
from labkit.config.models.leases import LeaseConfig
from labkit.config.models.middleware import MiddlewareConfig

__all__ = ["FunctionConfig", "Path", "Position", "StackConfig"]

Path = tuple[str | int, ...]
"""Where in the configuration: ("middleware", "availability_breaker", "cooldown_period"), or a list's name and index."""

Position = tuple[int, int]
"""Line and column in the file, both counted from 1."""


@dataclass(slots=True)
class FunctionConfig:
    """A function, a function group or the workflow, as far as labkit looks at it.

    Attributes:
        type_: its `_type`; labkit does not know which ones the learner's own package registers, so any name will do.
        middleware: names of middleware, outermost first.
        settings: every other key with its value, as YAML reads it.
        line: the line in which its name stands, or None when made in Python.
        name: the display name of the key `name`, or None.
    """

    type_: str
    middleware: list[str] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)
    line: int | None = None
    name: str | None = None

    def target(self, name: str) -> str:
        """Return the name under which middleware keeps its state: `context_name`, or else the function's own `name`.

        (labkit's key, to show two functions under one name, as the toolkit's methods of components are.)

        >>> FunctionConfig("search_service", settings={"context_name": "search"}).target("parts")
        'search'
        """
        given = self.settings.get("context_name")
        return given if isinstance(given, str) and given else name


@dataclass(slots=True)
class StackConfig:
    """A whole configuration. `load_stack_config` makes it from YAML; it can as well be made in Python.

    Attributes:
        middleware: settings of each middleware by its name.
        functions: each function by its name.
        workflow: the workflow, or None when the file has none.
        function_groups: the toolkit's function groups; labkit reads them so that names can be checked, and runs none.
        leases: settings of each lease by its name; labkit's own.
        source: the file's name, or None when made in Python.
        warnings: what the loader had to say about a configuration that it accepted, in the order of lines.
        positions: where in the file each part stands, by its path.

    >>> from labkit.config.models.middleware import TimeoutMiddlewareConfig
    >>> stack = StackConfig({"limit": TimeoutMiddlewareConfig(timeout=2)}, {"parts": FunctionConfig("parts_service")})
    >>> stack.middleware["limit"].timeout
    2.0
    """

    middleware: dict[str, MiddlewareConfig] = field(default_factory=dict)
    functions: dict[str, FunctionConfig] = field(default_factory=dict)
    workflow: FunctionConfig | None = None
    function_groups: dict[str, FunctionConfig] = field(default_factory=dict)
    leases: dict[str, LeaseConfig] = field(default_factory=dict)
    source: str | None = None
    warnings: tuple[Finding, ...] = ()
    positions: Mapping[Path, Position] = field(default_factory=dict, repr=False, compare=False)

    def target_of(self, function: str) -> str:
        """Return the name under which breakers, bulkheads and budgets keep a function's state: its `context.name`.

        It is the function's own, unless its key `context_name` (labkit's own) gives another, as the toolkit's methods
        of one component have one name.

        >>> stack = StackConfig(functions={"parts": FunctionConfig("parts", settings={"context_name": "search"})})
        >>> stack.target_of("parts")
        'search'
        """
        return self.functions[function].target(function)

    def layers_of(self, function: str) -> dict[str, MiddlewareConfig]:
        """Return the middleware that acts around a function, by name, outermost first.

        One that is not `enabled` is left out; one that is listed twice acts once, at its first place.

        >>> from labkit.config.models.middleware import TimeoutMiddlewareConfig
        >>> long, off = TimeoutMiddlewareConfig(timeout=9), TimeoutMiddlewareConfig(timeout=1, enabled=False)
        >>> limits = {"long": long, "off": off}
        >>> list(StackConfig(limits, {"parts": FunctionConfig("parts", ["off", "long", "long"])}).layers_of("parts"))
        ['long']
        """
        listed = {name: self.middleware[name] for name in self.functions[function].middleware}
        return {name: one for name, one in listed.items() if one.enabled}

    def position(self, *path: str | int) -> Position | None:
        """Return the position of a part, or of the nearest thing around it that has one; None when made in Python.

        >>> stack = StackConfig(positions={("functions", "parts"): (4, 3)})
        >>> stack.position("functions", "parts", "middleware", 0), stack.position("workflow")
        ((4, 3), None)
        """
        for length in range(len(path), 0, -1):
            found = self.positions.get(path[:length])
            if found is not None:
                return found
        return None
