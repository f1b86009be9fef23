"""What a check of a configuration has to say: one `Finding` a fault, each one sentence. No pydantic, no YAML."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

__all__ = [
    "AsWritten",
    "Finding",
    "Hidden",
    "Report",
    "Severity",
    "TooMuch",
    "in_order",
    "odd_signs",
    "printable",
    "quoted",
    "without_password",
]

Severity = Literal["error", "warning", "note"]

MAX_FINDINGS = 200
"""How many findings of one file are gathered; who has more has a file that is something else."""

TOO_MANY = "too-many"

_NOTHING = object()


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a check found, and where.

    Attributes:
        message: the whole sentence, with file, line, what was found, what is allowed and the nearest known name.
        severity: "error": the configuration is refused; "warning": it loads and most likely does not do what was meant;
            "note": the file is sound, and labkit treats something in it otherwise than the toolkit, or not at all.
        code: what kind of finding it is, a stable word such as "unknown-key" (all stand in `labkit/cli/check.py`).
        file: the file's name as it was given, or a name in angle brackets for text without a file.
        line: counted from 1; None where no line is to blame (a missing file, a configuration made in Python).
        column: counted from 1, in characters; None where `line` is.
        key: the key, or the listed name, that the finding is about; None where there is none.
        found: what stands there, shortened.
        allowed: what may stand there.
        nearest: the known name that was most likely meant.
    """

    message: str
    severity: Severity = "error"
    code: str = "invalid"
    file: str | None = None
    line: int | None = None
    column: int | None = None
    key: str | None = None
    found: str | None = None
    allowed: str | None = None
    nearest: str | None = None

    def to_dict(self) -> dict[str, str | int | None]:
        """Return the finding as plain values, always with the same keys in the same order.

        >>> Finding("a.yaml:3: no", file="a.yaml", line=3).to_dict()["line"]
        3
        """
        return {
            "file": self.file,
            "line": self.line,
            "column": self.column,
            "severity": self.severity,
            "code": self.code,
            "key": self.key,
            "found": self.found,
            "allowed": self.allowed,
            "nearest": self.nearest,
            "message": self.message,
        }

    def __str__(self) -> str:
        return self.message


class AsWritten(str):
    """A value as the file has it, with the placeholder in place of what the environment says."""

    __slots__ = ()


class Hidden:
    """What no sentence may show: the environment's values, for there are secrets among them.

    A value that is looked at as such is shown as it is written (`AsWritten`). This finds what comes another way: in a
    name, in the words of a service, shortened, escaped, or read as a number.

    Args:
        values: what stands for each value, by the value.

    >>> Hidden({"s3cret-t0ken": "${TOKEN}"}).masked("no 's3cret-t0ken', no 's3cret-...', no other")
    "no '${TOKEN}', no '${TOKEN}...', no other"
    """

    def __init__(self, values: Mapping[str, str]) -> None:
        self._forms: dict[str, str] = {}
        for value, written in values.items():
            self.add(value, written)

    def __bool__(self) -> bool:
        return bool(self._forms)

    def add(self, value: object, written: str) -> None:
        """Hide one more value."""
        text = value if isinstance(value, str) else quoted(value)
        parts = {text, text.strip(), " ".join(text.split()), *text.split("\n"), *_IN_PARTS.findall(text)}
        if isinstance(value, int | float):
            parts |= {f"{value:,}", f"{value:g}"} if abs(value) < 1e300 else set()
        for part in parts:
            for form in (part, printable(part), repr(part)[1:-1], json.dumps(part)[1:-1]):
                if len(form) >= _LEAST and form.lower() not in _SAID_ANYWAY:
                    self._forms.setdefault(form, printable(written))
        self._forms = dict(sorted(self._forms.items(), key=lambda item: -len(item[0])))

    def masked(self, text: str) -> str:
        """Return the text with what stands for the values in place of them."""
        pieces = text.split("...")
        for place, piece in enumerate(pieces[:-1]):  # what was cut, as its beginning tells
            for form, written in self._forms.items():
                cut = next(
                    (n for n in range(min(len(form), len(piece)), _LEAST - 1, -1) if piece.endswith(form[:n])), 0
                )
                if cut:
                    pieces[place] = piece[:-cut] + written
                    break
        text = "...".join(pieces)
        for form, written in self._forms.items():
            if form in text:
                whole = rf"(?<!\w){re.escape(form)}(?!\w)" if len(form) < _SURELY else re.escape(form)
                text = re.sub(whole, lambda _, written=written: written, text)  # type: ignore[misc]
        return text


_LEAST = 4  # signs; a shorter value is no secret
_SURELY = 8  # signs from which on a value is found inside a word as well
_SAID_ANYWAY = frozenset({"true", "false", "null", "none", "text", "list", "name", "file"})
_IN_PARTS = re.compile(r"[^\s,:;/@?&=#{}\[\]'\"]{6,}")


class TooMuch(Exception):
    """There is no sense in reading on; the report says why."""


class Report:
    """Gathers the findings of one file, words their sentences alike, and keeps one for each fault.

    A fault in a block that is merged into several others (`<<: *base`) is met several times; it is one finding.
    """

    def __init__(self, file: str | None = None) -> None:
        self.file = file
        self.findings: list[Finding] = []
        self.hidden = Hidden({})
        self._seen: set[tuple[object, ...]] = set()

    def add(
        self,
        code: str,
        sentence: str,
        at: tuple[int, int] | None = None,
        *,
        severity: Severity = "error",
        key: object = None,
        found: object = _NOTHING,
        allowed: str | None = None,
        say_allowed: str | None = None,
        nearest: str | None = None,
    ) -> None:
        """Add a finding: `sentence` is what was found; what is allowed and the nearest name are appended to it.

        In front of it go the place and, when it is no error, the severity.

        Args:
            say_allowed: what the sentence says is allowed, where `allowed` is too long for one.
        """
        line, column = at if at is not None else (None, None)
        place = (
            ""
            if self.file is None
            else f"{printable(self.file)}: "
            if line is None
            else f"{printable(self.file)}:{line}: "
        )
        if (odd := next(odd_signs(sentence), None)) and odd not in sentence:
            sentence += f" ({odd})"
        say = allowed if say_allowed is None else say_allowed
        message = f"{place}{'' if severity == 'error' else severity + ': '}{sentence}"
        if say:
            message += f"; allowed: {say}"
        if nearest is not None:
            message += f"; did you mean '{printable(nearest)}'?"
        self.take(
            Finding(
                message=message,
                severity=severity,
                code=code,
                file=self.file,
                line=line,
                column=column,
                key=None if key is None else printable(str(key)),
                found=None if found is _NOTHING else quoted(found),
                allowed=allowed,
                nearest=nearest,
            )
        )

    def take(self, finding: Finding) -> None:
        """Add a finding, unless the same place in the file has the same fault already.

        Raises:
            TooMuch: the report is full.
        """
        finding = self._told(finding)
        where = (finding.line, finding.column, finding.code, finding.key)
        if finding.line is not None and where in self._seen:
            return
        self._seen.add(where)
        self.findings.append(finding)
        if len(self.findings) == MAX_FINDINGS:
            place = "" if self.file is None else f"{printable(self.file)}: "
            sentence = f"{place}there are more than {MAX_FINDINGS - 1} findings, and the search ended here"
            self.findings[-1] = Finding(sentence, code=TOO_MANY, file=self.file)
            raise TooMuch

    def _told(self, finding: Finding) -> Finding:
        """The finding without what is not to be shown, and without signs that a terminal would act upon."""

        def told(text: str) -> str:
            return printable(self.hidden.masked(text) if self.hidden else text)

        def may_be_told(text: str | None) -> str | None:
            return None if text is None else told(text)

        return replace(
            finding,
            message=told(finding.message),
            key=may_be_told(finding.key),
            found=may_be_told(finding.found),
            allowed=may_be_told(finding.allowed),
            nearest=may_be_told(finding.nearest),
        )


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """Sort findings as they stand in the file; those without a line come first, that there are too many last.

    >>> [f.line for f in in_order([Finding("b", line=7), Finding("c", line=2), Finding("a")])]
    [None, 2, 7]
    """
    return sorted(findings, key=lambda finding: (finding.code == TOO_MANY, finding.line or 0, finding.column or 0))


def quoted(value: object, limit: int = 60) -> str:
    """Return a value as it may stand in a sentence: in quotes when it is text, shortened, on one line, printable.

    >>> quoted("30s"), quoted(2.5), quoted(True), quoted(None), quoted([1, 2]), quoted("a\\nb")
    ("'30s'", '2.5', 'true', 'null', 'a list', "'a\\\\nb'")
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "a mapping" if value else "an empty mapping"
    if isinstance(value, (list, tuple, set, frozenset)):
        return "a list" if value else "an empty list"
    if isinstance(value, float):
        text = repr(value)
        return {"inf": ".inf", "-inf": "-.inf", "nan": ".nan"}.get(text, text)
    if isinstance(value, int):
        return _shortened(str(value) if value.bit_length() < _WRITTEN else hex(value), limit)
    if isinstance(value, AsWritten):
        return f"'{_shortened(printable(value), limit)}'"
    if isinstance(value, str):
        if value == "":
            return "an empty text"
        return f"'{_shortened(printable(without_password(value)), limit)}'"
    return _shortened(printable(str(value)), limit)


_WRITTEN = 10_000  # bits; Python writes no number of more than 4,300 digits

_AT = re.compile(r"(://[^\s@:'\"]*):[^\s'\"]+(?=@)")
_IN_QUERY = re.compile(r"([?&](?:password|passwd|pwd|token|secret)=)[^\s'\"&]+", re.IGNORECASE)


def without_password(text: str) -> str:
    """Return the text with the password of every URL in it masked; what a sentence shows lands in logs.

    >>> without_password("redis://app:hunter2@cache:6379/0 redis://cache/0")
    'redis://app:***@cache:6379/0 redis://cache/0'
    """
    return _IN_QUERY.sub(r"\1***", _AT.sub(r"\1:***", text)) if "://" in text else text


def odd_signs(text: str) -> Iterator[str]:
    """Name the signs of a text, escaped or not, that look like YAML's own and are none, or like nothing at all.

    >>> next(odd_signs("timeout:\xa02"))
    "'\\\\xa0' is U+00A0, no-break space"
    """
    for found in _ODD.finditer(text):
        sign = found.group()
        if len(sign) > 1:
            sign = chr(int(sign[2:], 16))
        if sign in _LOOK_ALIKE or sign in _BREAKS or unicodedata.category(sign) in ("Zs", "Cf"):
            name = _BREAKS.get(sign) or unicodedata.name(sign, "without a name").lower()
            yield f"'{printable(sign)}' is U+{ord(sign):04X}, {name}"


_LOOK_ALIKE = (
    "\u201c\u201d\u201e\u201f\u2018\u2019\u201a\u201b\u00ab\u00bb"  # quotation marks
    "\uff1a\ufe55\u2236\uff0c\uff0d\u2013\u2014\u2212\u2010\u2011"  # colons, a comma, dashes
)
_BREAKS = {"\x85": "a line break", "\u2028": "a line break", "\u2029": "a line break"}
_ODD = re.compile(r"\\x(?:85|a0|ad)|\\u[0-9a-f]{4}|[^\x00-\x7f]")


def printable(text: str) -> str:
    """Return the text with every character that is no letter, sign or plain space written as an escape.

    >>> printable("a\\tb é")
    'a\\\\tb é'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode() for c in text)


def _shortened(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 3]}..."
