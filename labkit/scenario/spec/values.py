"""Values set by their path in a scenario's document, and what of a path may be left out."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from labkit.config import nearest
from labkit.config.findings import printable, quoted
from labkit.config.models.middleware import middleware_types
from labkit.config.numbers import is_whole
from labkit.config.yaml.document import Document
from labkit.errors import ConfigError

__all__ = ["HEAD", "as_text", "change"]

HEAD = ("title", "summary", "look_for", "semantics", "duration", "drain", "seed", "replicas")
"""The keys of a scenario's section `scenario`."""

_LOAD = ("rate", "arrivals", "patience", "ramp", "at")
_EVERYWHERE = ("enabled",)


def as_text(value: Any) -> str:
    """A value as YAML text on one line.

    Raises:
        ValueError: it is, or holds, no plain value; a sentence's end.
    """
    if isinstance(value, str):
        return _quoted_text(value) if value != value.strip() or ": " in value or not value.isprintable() else value
    return _flow(value)


def _flow(value: Any) -> str:
    if isinstance(value, str):
        return _quoted_text(value)
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, int):
        return str(value) if is_whole(value) else hex(value)  # Python writes not every number, and every one in hex
    if isinstance(value, float):
        return repr(float(value)) if math.isfinite(value) else quoted(float(value))
    if isinstance(value, list | tuple):
        return f"[{', '.join(_flow(one) for one in value)}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_flow(key)}: {_flow(one)}' for key, one in value.items())}}}"
    raise ValueError(
        f"a {type(value).__name__}; allowed: numbers, texts, true, false, null, lists and mappings of them"
    )


def _quoted_text(text: str) -> str:
    return json.dumps(text).replace("\x7f", "\\x7f")  # JSON leaves it, and YAML does not take it


def change(document: Document, values: Mapping[str, Any], origin: str) -> None:
    """Set values by their path in a document.

    Args:
        document: what is changed in place.
        values: the new values by their paths.
        origin: where the values come from, for findings.

    Raises:
        ConfigError: a path leads nowhere or to several places, or a value is no YAML.
    """
    for path, value in values.items():
        shown = quoted(value).strip("'")
        try:
            text = value if isinstance(value, str) else as_text(value)
            document.put(_whole_path(document, path), text)
        except (LookupError, ValueError) as error:
            said = document.masked(error.args[0])
            raise ConfigError(f"{origin} {printable(path)}={shown}: {said}") from None


def _whole_path(document: Document, path: str) -> list[str]:
    """A path as it stands, or the one place that a single word means."""
    if "." in path or not path:
        return path.split(".")
    root = document.root
    data = {} if root is None else document.value(root)
    if not isinstance(data, dict) or path in data:
        return [path]
    places: list[list[str]] = []
    if path in HEAD:
        places.append(["scenario", path])
    types = middleware_types()
    for section in ("middleware", "services", "functions"):
        for name, block in _mapping(data.get(section)).items():
            settings = _mapping(block)
            known = types.get(str(settings.get("_type"))) if section == "middleware" else None
            keys = known.model.keys() if known is not None else ()
            if path in settings or (path in keys and path not in _EVERYWHERE):
                places.append([section, str(name), path])
    loads = data.get("workload")
    loads = loads if isinstance(loads, list) else []
    for index, load in enumerate(loads):
        if path in _mapping(load) or (path in _LOAD[1:3] and len(loads) == 1):
            places.append(["workload", str(index), path])
    if not places:
        words = sorted({*HEAD, *(key for place in _known(data, types) for key in place)})
        near = nearest(path, words)
        raise LookupError(
            f"there is no '{printable(path)}' in the scenario"
            + (f"; did you mean '{near}'?" if near else "; give its path, such as middleware.NAME.failure_threshold")
        )
    set_already = [place for place in places if place[-1] in _mapping(_at(data, place[:-1]))]
    if len(set_already) == 1:
        return set_already[0]
    if len(places) > 1:
        raise LookupError(f"it may be {' or '.join('.'.join(place) for place in places)}; say which")
    return places[0]


def _known(data: Mapping[Any, Any], types: Mapping[str, Any]) -> Iterable[Iterable[str]]:
    for block in _mapping(data.get("middleware")).values():
        model = types.get(str(_mapping(block).get("_type")))
        if model is not None:
            yield model.model.keys()
    for block in _mapping(data.get("services")).values():
        yield [str(key) for key in _mapping(block)]
    yield _LOAD


def _mapping(value: Any) -> dict[Any, Any]:
    return value if isinstance(value, dict) else {}


def _at(data: Any, path: Sequence[str]) -> Any:
    for key in path:
        data = data[int(key)] if isinstance(data, list) else _mapping(data).get(key)
    return data
