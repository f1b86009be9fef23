"""`${NAME}` in a file, replaced from the environment before the YAML is read, as the toolkit does.

Labkit understands `${NAME}`, `${NAME:-default}` and `${NAME-default}` (a default may hold further placeholders); a
backslash keeps the sign behind it (`\\$`, `\\\\`). A name that is not set and has no default gives nothing. The further
forms of the toolkit's expander (`${NAME:?text}`, `${#NAME}`, slices) are refused in a sentence. `$NAME` without braces
stays as it is.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping
from typing import NamedTuple

from labkit.config.findings import Report, printable

__all__ = ["ExpandedText", "expand"]

_NAME = re.compile(r"\w+", re.ASCII)
_DEEPEST = 8  # placeholders inside defaults
_FORMS = "${NAME} or ${NAME:-default}"


class _Piece(NamedTuple):
    text: str
    source: int  # where it began in the original
    copied: bool  # letter by letter, or put in as a whole
    hidden: bool = False  # from the environment, which is not for everybody to read


class ExpandedText:
    """A text after expansion, and the way back from a character in it to the line and column in the file.

    Attributes:
        text: the text after expansion.
        hidden: what came from the environment, as it came, by the placeholder as it is written.

    >>> expanded = expand("a: ${X}\\nb: 1", Report(), {"X": "long\\n\\nvalue"})
    >>> expanded.text, expanded.position(expanded.text.index("b"))
    ('a: long\\n\\nvalue\\nb: 1', (2, 1))
    """

    def __init__(self, original: str, pieces: list[_Piece]) -> None:
        self.text = "".join(piece.text for piece in pieces)
        self._original = original
        self._pieces = pieces
        self._line_starts = _line_starts(original)
        self._piece_starts: list[int] = []
        length = 0
        for piece in pieces:
            self._piece_starts.append(length)
            length += len(piece.text)
        self.hidden: dict[str, str] = {
            piece.text: self._source(number) for number, piece in enumerate(pieces) if piece.hidden
        }

    def written(self, start: int, end: int) -> str | None:
        """Return how the file has what stands from `start` to `end` of the expanded text, if part of it is hidden.

        >>> expanded = expand("key: a${X}b", Report(), {"X": "secret"})
        >>> expanded.written(5, 13), expanded.written(0, 3)
        ('a${X}b', None)
        """
        if end <= start:
            return None
        first = max(0, bisect_right(self._piece_starts, start) - 1)
        last = max(first, bisect_right(self._piece_starts, end - 1) - 1)
        pieces = self._pieces[first : last + 1]
        if not any(piece.hidden for piece in pieces):
            return None
        begin, stop = pieces[0].source, self._source_end(last)
        if pieces[0].copied:
            begin += start - self._piece_starts[first]
        if pieces[-1].copied:
            stop = pieces[-1].source + end - self._piece_starts[last]
        return self._original[begin:stop]

    def _source(self, number: int) -> str:
        return self._original[self._pieces[number].source : self._source_end(number)]

    def _source_end(self, number: int) -> int:
        """Where in the original a piece ends; an empty placeholder behind it counts to it."""
        piece = self._pieces[number]
        if piece.copied:
            return piece.source + len(piece.text)
        return self._pieces[number + 1].source if number + 1 < len(self._pieces) else len(self._original)

    def position(self, index: int) -> tuple[int, int]:
        """Return line and column in the file, counted from 1, of the character at `index` of the expanded text."""
        if not self._pieces:
            return 1, 1
        number = max(0, bisect_right(self._piece_starts, index) - 1)
        piece = self._pieces[number]
        source = piece.source + (index - self._piece_starts[number] if piece.copied else 0)
        return _position(self._line_starts, source)


def expand(text: str, report: Report, environ: Mapping[str, str]) -> ExpandedText:
    """Replace the placeholders of a text; what is wrong with one goes into the report.

    Args:
        text: the YAML as it was read.
        report: where findings go.
        environ: the variables that placeholders may name.

    >>> report = Report("lesson.yaml")
    >>> expand("timeout: ${LIMIT:-2.0}", report, {}).text
    'timeout: 2.0'
    >>> expand("timeout: ${LIMIT", report, {}).text, report.findings[0].message
    ('timeout: LIMIT', "lesson.yaml:1: a placeholder '${' is not closed; allowed: ${NAME} or ${NAME:-default}")
    """
    if "$" not in text and "\\" not in text:
        return ExpandedText(text, [_Piece(text, 0, True)])
    return ExpandedText(text, _Expander(text, report, environ).run())


class _Expander:
    """One pass over one text."""

    def __init__(self, text: str, report: Report, environ: Mapping[str, str]) -> None:
        self._text = text
        self._report = report
        self._environ = environ
        self._hidden = 0  # how many values of the environment were put in
        self._line_starts = _line_starts(text)

    def run(self) -> list[_Piece]:
        """Return the pieces of the new text."""
        text, pieces, start, at = self._text, [], 0, 0
        while (at := _next_sign(text, at)) >= 0:
            if text[at] == "\\":
                if text[at + 1 : at + 2] not in ("\\", "$"):
                    at += 1
                    continue
                pieces += [_Piece(text[start:at], start, True), _Piece(text[at + 1], at + 1, True)]
                start = at = at + 2
            elif text.startswith("${", at):
                pieces.append(_Piece(text[start:at], start, True))
                before = self._hidden
                value, end = self._placeholder(at, 0)
                pieces.append(_Piece(value, at, False, self._hidden > before))
                start = at = end
            else:
                at += 1
        pieces.append(_Piece(text[start:], start, True))
        return [piece for piece in pieces if piece.text]

    def _placeholder(self, at: int, depth: int) -> tuple[str, int]:
        """Return what the placeholder at this index stands for, and the index behind it."""
        text = self._text
        line_end = text.find("\n", at)
        stop = len(text) if line_end < 0 else line_end
        name = _NAME.match(text, at + 2)
        end = text.find("}", at + 2, stop)
        if end < 0:
            return self._refuse(at, "a placeholder '${' is not closed", at + 2)
        if name is None or depth > _DEEPEST:
            return self._refuse(at, f"the placeholder '{printable(text[at : end + 1])}' cannot be read", end + 1)
        behind = name.end()
        plain_end = behind
        while text[plain_end] == " ":
            plain_end += 1
        if text[plain_end] == "}":
            return self._value(name.group(), None, at), plain_end + 1
        for form in (":-", "-"):
            if text.startswith(form, behind):
                default, end = self._default(behind + len(form), stop, depth)
                if end < 0:
                    return self._refuse(at, "a placeholder '${' is not closed", at + 2)
                return self._value(name.group(), default, at), end
        return self._refuse(at, f"labkit does not read the placeholder '{printable(text[at : end + 1])}'", end + 1)

    def _default(self, at: int, stop: int, depth: int) -> tuple[str, int]:
        """Return the default that begins at this index, and the index behind its brace; -1 when there is none."""
        text, parts = self._text, []
        while at < stop:
            if text.startswith("${", at):
                value, at = self._placeholder(at, depth + 1)
                parts.append(value)
            elif text[at] == "}":
                return "".join(parts), at + 1
            elif text[at] == "$" and (name := _NAME.match(text, at + 1)):  # inside a default the toolkit reads it
                parts.append(self._environ.get(name.group(), ""))
                self._hidden += bool(parts[-1])
                at = name.end()
            else:
                parts.append(text[at])
                at += 1
        return "", -1

    def _value(self, name: str, default: str | None, at: int) -> str:
        value = self._environ.get(name, "")
        if value:
            self._hidden += 1
            return value
        if default is not None:
            return default
        if name not in self._environ and not self._in_comment(at):
            self._report.add(
                "unset-variable",
                f"the environment has no '{name}', so that nothing takes the place of '${{{name}}}'; "
                f"a default is written ${{{name}:-value}}",
                _position(self._line_starts, at),
                severity="warning",
                key=name,
            )
        return ""

    def _in_comment(self, at: int) -> bool:
        line_start = self._text.rfind("\n", 0, at) + 1
        return self._text[line_start:at].lstrip().startswith("#")

    def _refuse(self, at: int, sentence: str, end: int) -> tuple[str, int]:
        self._report.add("placeholder", sentence, _position(self._line_starts, at), allowed=_FORMS)
        # A brace behind a quotation mark hardly belongs to it; leaving that mark out would only cause more findings.
        return "", at + 2 if {"'", '"'} & set(self._text[at:end]) else end


def _next_sign(text: str, at: int) -> int:
    found = [place for place in (text.find("$", at), text.find("\\", at)) if place >= 0]
    return min(found, default=-1)


def _line_starts(text: str) -> list[int]:
    return [0, *(found.end() for found in re.finditer("\n", text))]


def _position(line_starts: list[int], index: int) -> tuple[int, int]:
    line = bisect_right(line_starts, index)
    return line, index - line_starts[line - 1] + 1
