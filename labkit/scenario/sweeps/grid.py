"""What a sweep varies: `failure_threshold=1..10`, `cooldown_period=5,15,30`, `rate=0.5..2.5:0.5`, names, YAML lists."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any, TypeAlias

from labkit.config.findings import printable, quoted
from labkit.errors import ConfigError
from labkit.scenario.spec.values import as_text

__all__ = ["FORMS", "MOST_RUNS", "MOST_VALUES", "Value", "check_runs", "parse_seeds", "parse_vary", "values_of"]

Value: TypeAlias = int | float | str
"""A number, or YAML text for anything else: `lognormal`, `true`, `[breaker, timeout]`."""

FORMS = "1..10, 0.5..2.5:0.5 (from..to:step), or values with commas between such as 5,15,30 or constant,poisson"
MOST_RUNS = 1_000_000
MOST_VALUES = 10_000

_DIGITS = 40  # of a number; nothing that is varied has as many
_NUMBER = r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?"
_RANGE = re.compile(rf"((?:{_NUMBER})?)\.\.({_NUMBER})(?::({_NUMBER}))?")
_WHOLE = re.compile(r"[-+]?[0-9]+")


def parse_vary(words: Iterable[str]) -> dict[str, tuple[Value, ...]]:
    """What `--vary NAME=VALUES` asks for, in the order given.

    Raises:
        ConfigError: one of them cannot be read, a name stands twice, or they come to too many runs: said before the
            rest is read, which may be long.

    Example:
        >>> parse_vary(["failure_threshold=1..3", "cooldown_period=5,15"])
        {'failure_threshold': (1, 2, 3), 'cooldown_period': (5, 15)}
    """
    found: dict[str, tuple[Value, ...]] = {}
    runs = 1
    for word in words:
        name, sign, text = word.partition("=")
        name = name.strip()
        if not sign or not name:
            raise ConfigError(f"--vary {_short(word)} is not NAME=VALUES; values may be {FORMS}")
        if name in found:
            raise ConfigError(f"--vary names '{_short(name)}' twice; give all of its values at once: {FORMS}")
        found[name] = values_of(name, text)
        runs *= len(found[name])
        check_runs(runs)
    return found


def check_runs(runs: int) -> None:
    """Refuse a sweep of too many runs.

    Raises:
        ConfigError: says how many, and what is allowed.
    """
    if runs > MOST_RUNS:
        raise ConfigError(f"the sweep has {runs:,} runs; at most {MOST_RUNS:,} are made, so take fewer values or seeds")


def parse_seeds(text: str, first: int) -> tuple[int, ...]:
    """The seeds that a word asks for: so many from the scenario's own on, or those it names (5..10, or 3,7).

    Raises:
        ConfigError: it is neither.

    Example:
        >>> parse_seeds("3", 7), parse_seeds("1..2", 7), parse_seeds("5,4", 7)
        ((7, 8, 9), (1, 2), (5, 4))
    """
    if _WHOLE.fullmatch(text.strip()):
        return seeds_of(_whole("--seeds", text.strip()), first)
    return seeds_of(values_of("--seeds", text), first)


def seeds_of(seeds: int | Iterable[Any], first: int) -> tuple[int, ...]:
    """A count of seeds from `first` on, or the seeds themselves.

    Raises:
        ConfigError: there are none or too many, one of them is no seed, or one occurs twice.
    """
    if isinstance(seeds, int) and not isinstance(seeds, bool):
        if not 1 <= seeds <= MOST_VALUES:
            raise ConfigError(f"{quoted(seeds)} seeds; there may be from 1 to {MOST_VALUES:,}")
        return tuple(range(first, first + seeds))
    listed = tuple(seeds) if isinstance(seeds, Iterable) and not isinstance(seeds, str) else ()
    if not listed or not all(type(one) is int and 0 <= one < 2**63 for one in listed):
        raise ConfigError(f"the seeds are {_listed(seeds)}; they may be a count such as 20, or 5..10, or 3,7,11")
    if len(set(listed)) < len(listed):
        raise ConfigError("a seed stands twice; each is run once")
    return listed


def values_of(name: str, values: str | Iterable[Any]) -> tuple[Value, ...]:
    """The values that a text or a list gives, in order, each once.

    Args:
        name: whose, for sentences.
        values: a text in one of `FORMS`, or the values themselves.

    Raises:
        ConfigError: they cannot be read, are too many, or one stands twice.

    Example:
        >>> values_of("rate", "0.5..2:0.5"), values_of("order", "[a, b],[b, a]")
        ((0.5, 1.0, 1.5, 2.0), ('[a, b]', '[b, a]'))
    """
    found: list[Value] = []
    if isinstance(values, str):
        for part in _parts(values):
            if not part:
                raise ConfigError(f"'{_short(name)}={_short(values)}' lacks a value; values may be {FORMS}")
            between = _RANGE.fullmatch(part)
            if between is None:
                found.append(_value(name, part))
            else:
                found += _range(name, part, *between.groups())
    elif isinstance(values, Iterable):
        for one in values:
            found.append(one if type(one) in (int, float, str) else _text(name, one))
            if len(found) > MOST_VALUES:
                break
    else:
        raise ConfigError(f"the values of '{_short(name)}' are {quoted(values)}; they may be {FORMS}")
    if not found:
        raise ConfigError(f"'{_short(name)}' has no values; they may be {FORMS}")
    if len(found) > MOST_VALUES:
        raise ConfigError(f"'{_short(name)}' has more than {MOST_VALUES:,} values; a larger step will do")
    seen: set[str] = set()
    for one in found:
        if repr(one) in seen:
            raise ConfigError(f"'{_short(name)}' has the value {_short(str(one))} twice; each is run once")
        seen.add(repr(one))
    return tuple(found)


def _parts(text: str) -> list[str]:
    """A text taken apart at its commas, but not at those inside brackets or quotes."""
    parts, depth, quote = [""], 0, ""
    for sign in text:
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "\"'":
            quote = sign
        elif sign in "[{":
            depth += 1
        elif sign in "]}":
            depth -= 1
        elif sign == "," and depth <= 0:
            parts.append("")
            continue
        parts[-1] += sign
    return [part.strip() for part in parts]


def _value(name: str, part: str) -> Value:
    if _WHOLE.fullmatch(part):
        return _whole(name, part)
    if re.fullmatch(_NUMBER, part):
        return _float(name, part)
    if ".." in part and not part.startswith(("[", "{", '"', "'")):
        raise ConfigError(f"'{_short(name)}={_short(part)}' is no range; values may be {FORMS}")
    return part


def _range(name: str, part: str, first: str, last: str, step: str | None) -> Sequence[Value]:
    shown = f"'{_short(name)}={_short(part)}'"
    if not first:
        raise ConfigError(f"{shown} has no beginning; a range is from..to, such as 1..10")
    whole = all(_WHOLE.fullmatch(one) for one in (first, last, step or "1"))
    if step is None and not whole:
        raise ConfigError(f"{shown} needs a step, such as {_short(part)}:0.5")
    numbers: list[Any]
    if whole:
        numbers = [_whole(name, one) for one in (first, last, step or "1")]
    else:
        for one in (first, last, step or "1"):
            _float(name, one)
        numbers = [Decimal(one) for one in (first, last, step or "1")]  # so that 0.1..0.3:0.1 ends with 0.3
    begin, end, by = numbers
    if by <= 0 or end < begin:
        raise ConfigError(f"{shown} leads nowhere; a range goes upwards, from..to:step, such as 0.5..2.5:0.5")
    if end - begin >= by * MOST_VALUES:
        raise ConfigError(f"{shown} has more than {MOST_VALUES:,} values; take a larger step")
    values = [begin + by * number for number in range(int((end - begin) / by) + 1)]
    return [int(one) if whole else float(one) for one in values]


def _whole(name: str, text: str) -> int:
    if len(text) > _DIGITS:
        raise ConfigError(f"'{_short(name)}={_short(text)}' has {len(text):,} digits; at most {_DIGITS} are read")
    return int(text)


def _float(name: str, text: str) -> float:
    found = float(text) if len(text) <= _DIGITS else math.nan
    if not math.isfinite(found) or (not found and any(sign in "123456789" for sign in re.split("[eE]", text)[0])):
        raise ConfigError(f"'{_short(name)}={_short(text)}' is no number that can be run; it is too large or too exact")
    return found


def _short(text: str) -> str:
    """A text for a sentence: printable, and not longer than one."""
    shown = printable(text)
    return shown if len(shown) <= 120 else f"{shown[:117]}..."


def _listed(values: object) -> str:
    if isinstance(values, (tuple, list)) and values:
        return f"{', '.join(map(quoted, values[:5]))}{', ...' if len(values) > 5 else ''}"
    return quoted(values)


def _text(name: str, value: object) -> str:
    try:
        return as_text(value)
    except (TypeError, ValueError):
        kind = type(value).__name__
        raise ConfigError(
            f"a value of '{_short(name)}' is a {kind}; numbers, texts and lists of them can be run"
        ) from None


def shown_value(value: Value) -> str:
    """A value in a table."""
    return value if isinstance(value, str) else json.dumps(value)
