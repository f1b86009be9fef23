"""The scenarios that come with labkit, and how any scenario is loaded: by its name, from a file, from text."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from labkit.config import nearest
from labkit.config.findings import quoted
from labkit.config.yaml.loader import open_document
from labkit.errors import ConfigError
from labkit.scenario.spec.model import Scenario
from labkit.scenario.spec.reader import read_scenario

__all__ = ["library", "load_scenario", "scenario_names"]


def library() -> Path:
    """The folder of the scenarios that come with labkit."""
    return Path(str(files("labkit.scenario") / "library"))


def scenario_names() -> list[str]:
    """The names of the scenarios that come with labkit, in order."""
    return sorted(path.stem for path in library().glob("*.yaml"))


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
    source: str | os.PathLike[str] | bytes = path_or_name
    label = None
    if isinstance(path_or_name, str) and "\n" not in path_or_name and "{" not in path_or_name:
        name, _, tail = path_or_name.partition(":")
        if _is_name(name) and not os.path.exists(path_or_name):
            variant = variant or tail or None
            source = library() / f"{name}.yaml"
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
