"""Record what the real toolkit makes of values and placeholders: python record_toolkit_values.py > toolkit_values.json

Needs `pip install nvidia-nat-core==1.9.0`; the tests need only the recording. A value is written as YAML, read with
`yaml.safe_load` and given to the field; what came of it is recorded as Python's repr, or it stands among the refused.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from pathlib import Path
from typing import Any

VALUES = """
1|3|0|-1|-0|2|2.5|4.0|1.0|0.5|0.001|0.0|-0.0|1e3|1.0e+3|1e20|1.0e+20|1e308|1.0e+400|1e-400|5e-324|4_000|0x10|0o17|017
0b11|1:30|99999999999999999999999999|9007199254740993|.inf|-.inf|.nan|.Inf|.NaN|+.inf|true|false|yes|no|on|off|null|~
Null|NULL|""|" "|" 4 "|"4"|"+4"|"-4"|"4.0"|"4.5"|"4."|".5"|"4_000"|"1_0"|"__1"|"1__0"|"1e3"|"0x10"|"1,000"|"inf"
"-inf"|"nan"|"Infinity"|"9007199254740993.0"|"0"|"1"|"true"|"True"|"TRUE"|"on"|"ON"|"no"|"t"|"f"|"y"|"n"|"2"|30s|"30s"
30 s|hello|"٣"|[]|[3]|["3"]|[a]|[a, a]|[null]|[[a]]|[true]|{}|{a: 1}|{a: null}|2001-01-01|2001-01-01T00:00:00Z|!!str 5
!!float 5|!!int "5"|!!binary aGVsbG8=|!!null ""|'it''s'
"""

PLACEHOLDERS = """
${SET}|${UNSET}|${EMPTY}|x${SET}y|${SET}${SET}|${UNSET:-d}|${EMPTY:-d}|${SET:-d}|${UNSET-d}|${EMPTY-d}|${SET-d}
${UNSET:-}|${UNSET-}|${UNSET:-${SET}}|${UNSET:-${UNSET:-d}}|${UNSET:-a${SET}b}|${UNSET:-a b}|${UNSET:-a:b}
${UNSET:-$SET}|${SET }|${UNSET :-d}|$SET|$|$$|a$|$(SET)|$${SET}|\\$SET|\\x|\\\\x|${1}|${1A}|${set}|${SET}}|{${SET}}
${UNSET:-{}}|${UNSET:-d}}|$ {SET}|${UNSET:- d}|${UNSET:-d }|${UNSET:--}|${A.B}|${}|${|${ SET}|${SET|${UNSET:?gone}
${UNSET:=d}|${SET:+d}|${SET:0:1}|${#SET}|${!SET}|${SET@U}|${SET/s/t}
"""

ENVIRONMENT = {"SET": "value", "EMPTY": ""}


def _split(table: str) -> list[str]:
    return [text for line in table.strip().splitlines() for text in line.split("|")]


def record() -> dict[str, Any]:
    """Return the whole recording."""
    from importlib.metadata import version

    import yaml
    from nat.middleware.circuit_breaker.circuit_breaker_middleware_config import CircuitBreakerMiddlewareConfig
    from nat.middleware.timeout.timeout_middleware_config import TimeoutMiddlewareConfig
    from nat.utils.io.yaml_tools import yaml_loads

    defaults: dict[str, str] = {}
    groups: dict[str, dict[str, Any]] = {}
    for model in (CircuitBreakerMiddlewareConfig, TimeoutMiddlewareConfig):
        for name, info in model.model_fields.items():
            if name in ("type", "allowed_component_functions"):
                continue
            accepted, refused = {}, []
            for text in _split(VALUES):
                needed = {"timeout": 1} if model is TimeoutMiddlewareConfig else {}
                try:
                    made = model(**{**needed, name: yaml.safe_load(text)})
                except ValueError:
                    refused.append(text)
                else:
                    accepted[text] = repr(getattr(made, name))
            field = f"{model.static_type()}.{name}"
            defaults[field] = "required" if info.is_required() else repr(info.default)
            group = {"fields": [], "accepted": accepted, "refused": refused}
            groups.setdefault(repr(group), group)["fields"].append(field)
    os.environ.update(ENVIRONMENT)
    read, refused = {}, []
    for text in _split(PLACEHOLDERS):
        try:
            read[text] = repr(yaml_loads(f"a: '{text}'", Path())["a"])
        except Exception:
            refused.append(text)
    return {
        "toolkit": f"nvidia-nat-core {version('nvidia-nat-core')}",
        "defaults": defaults,
        "values": list(groups.values()),  # fields that treat every value alike stand together
        "placeholders": {"environment": ENVIRONMENT, "read": read, "refused": refused},
    }


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    json.dump(record(), sys.stdout, indent=1, ensure_ascii=False)
    print()
