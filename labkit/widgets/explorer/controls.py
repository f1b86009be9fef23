"""What a learner may set in an explorer: one `Control` a parameter, with its range, its words, and where it goes.

A control knows what may be typed into it and says in one sentence what is wrong with anything else. It does not know
what its value does: that is the scenario's business.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Choice", "Control", "Order", "Range", "Span", "Switch"]


@dataclass(frozen=True, slots=True)
class Control:
    """The base of all controls.

    Attributes:
        key: its name, in `view` and in shared settings.
        label: what it is called on the page.
        path: where its value goes in the scenario, or "" when the explorer places it by itself.
        help: a sentence about it, or "".
    """

    key: str
    label: str
    path: str = ""
    help: str = ""

    def read(self, typed: object) -> tuple[Any, str]:
        """What was set, as a value, and what is wrong with it in a sentence, or ""."""
        raise NotImplementedError

    def shown(self, value: Any) -> dict[str, Any]:
        """The control as plain data for the page, with its value."""
        raise NotImplementedError

    def yaml(self, value: Any) -> str:
        """The value as YAML text."""
        return "null" if value is None else str(value).lower() if isinstance(value, bool) else f"{value}"

    def words(self, value: Any) -> str:
        """The value as one says it."""
        return str(value)

    def _base(self, kind: str, value: Any) -> dict[str, Any]:
        return {"key": self.key, "kind": kind, "label": self.label, "help": self.help, "value": value}


@dataclass(frozen=True, slots=True)
class Range(Control):
    """A number from `least` to `most`, in steps of `step`, with a slider and a field to type it.

    Attributes:
        least, most, step: of the slider, and of what may be typed.
        unit: shown behind it, such as "s".
        whole: whether it must be a whole number.
        none: the word for no value at all (null), which a box beside the slider sets; "" where there must be one.
    """

    least: float = 0.0
    most: float = 100.0
    step: float = 1.0
    unit: str = ""
    whole: bool = False
    none: str = ""

    def read(self, typed: object) -> tuple[Any, str]:
        """The number, or a sentence."""
        if typed is None and self.none:
            return None, ""
        text = str(typed).strip().removesuffix(self.unit or "\0").strip().replace(",", ".")
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if isinstance(typed, bool) or not self.least <= value <= self.most:
            return None, self._allowed(typed)
        if self.whole:
            return (int(value), "") if value == int(value) else (None, self._allowed(typed))
        return float(value), ""

    def _allowed(self, typed: object) -> str:
        kind = "a whole number" if self.whole else "a number"
        unit = f" {self.unit}" if self.unit else ""
        shown = f"“{str(typed).strip()[:20]}”" if str(typed).strip() else "nothing"
        return f"{self.label}: found {shown}; it is {kind} from {self.least:g} to {self.most:g}{unit}."

    def words(self, value: Any) -> str:
        """The number with its unit."""
        return self.none if value is None else f"{value:g} {self.unit}".strip()

    def shown(self, value: Any) -> dict[str, Any]:
        """As data."""
        return self._base("range", value) | {
            "least": self.least,
            "most": self.most,
            "step": self.step,
            "unit": self.unit,
            "none": self.none,
        }


@dataclass(frozen=True, slots=True)
class Span(Control):
    """Two numbers, a begin and an end, such as an outage's; each with a slider."""

    least: float = 0.0
    most: float = 100.0
    step: float = 1.0
    unit: str = "s"

    def read(self, typed: object) -> tuple[Any, str]:
        """A pair (begin, end), or a sentence."""
        pair = typed if isinstance(typed, Sequence) and not isinstance(typed, str) else ()
        numbers = []
        for each in pair:
            try:
                numbers.append(float(str(each).strip().removesuffix(self.unit).strip().replace(",", ".")))
            except ValueError:
                numbers.append(math.nan)
        if len(numbers) != 2 or not all(self.least <= each <= self.most for each in numbers):
            return (
                None,
                f"{self.label}: a begin and an end are numbers from {self.least:g} to {self.most:g} {self.unit}.",
            )
        if numbers[0] >= numbers[1]:
            begin, end = (f"{each:g} {self.unit}" for each in numbers)
            return None, f"{self.label}: it ends at {end}, and must end after its begin at {begin}."
        return (numbers[0], numbers[1]), ""

    def words(self, value: Any) -> str:
        """From begin to end."""
        return f"{value[0]:g} to {value[1]:g} {self.unit}"

    def shown(self, value: Any) -> dict[str, Any]:
        """As data."""
        return self._base("span", list(value)) | {
            "least": self.least,
            "most": self.most,
            "step": self.step,
            "unit": self.unit,
        }


@dataclass(frozen=True, slots=True)
class Choice(Control):
    """One of a few values, each with a word.

    Attributes:
        options: value (as text) and word, in order.
    """

    options: tuple[tuple[str, str], ...] = ()

    def read(self, typed: object) -> tuple[Any, str]:
        """The value, or a sentence."""
        if any(typed == value for value, _ in self.options):
            return typed, ""
        words = ", ".join(word for _, word in self.options)
        return None, f"{self.label}: found “{str(typed)[:20]}”; it is one of {words}."

    def words(self, value: Any) -> str:
        """The word of the option."""
        return f"“{dict(self.options).get(value, value)}”"

    def shown(self, value: Any) -> dict[str, Any]:
        """As data."""
        return self._base("choice", value) | {"options": [list(option) for option in self.options]}


@dataclass(frozen=True, slots=True)
class Switch(Control):
    """On or off."""

    def read(self, typed: object) -> tuple[Any, str]:
        """True or False, or a sentence."""
        if isinstance(typed, bool):
            return typed, ""
        return None, f"{self.label}: found “{str(typed)[:20]}”; it is on or off."

    def words(self, value: Any) -> str:
        """On or off."""
        return "on" if value else "off"

    def shown(self, value: Any) -> dict[str, Any]:
        """As data."""
        return self._base("switch", value)


@dataclass(frozen=True, slots=True)
class Order(Control):
    """Things in an order that the learner changes, by drag or by keyboard; some may be left out.

    Attributes:
        items: value and word of each thing there is.
    """

    items: tuple[tuple[str, str], ...] = ()

    def read(self, typed: object) -> tuple[Any, str]:
        """The values in their order, each at most once, or a sentence."""
        known = [value for value, _ in self.items]
        listed = list(typed) if isinstance(typed, Sequence) and not isinstance(typed, str) else None
        if listed is None or any(each not in known for each in listed) or len(set(listed)) != len(listed):
            return None, f"{self.label}: it is a list of {', '.join(known)}, each at most once."
        return tuple(listed), ""

    def words(self, value: Any) -> str:
        """The things in their order."""
        return ", ".join(dict(self.items).get(each, each) for each in value) or "nothing"

    def shown(self, value: Any) -> dict[str, Any]:
        """As data."""
        return self._base("order", list(value)) | {"items": [list(item) for item in self.items]}

    def yaml(self, value: Any) -> str:
        """As a YAML list."""
        return f"[{', '.join(value)}]"


Settings = Mapping[str, Any]
