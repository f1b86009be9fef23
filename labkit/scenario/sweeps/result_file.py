"""A sweep's results on disk: JSON lines, the first of which says what is swept, then one a run as it ends.

A line is written in one piece and flushed, so an interruption can tear the last line and no other; a torn one is cut
off when the file is taken up again. When all runs are there the file is written anew in the order of the grid, under
its own name in one step: however often a sweep was interrupted, the finished file has the same bytes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from labkit.config.disk import write_whole
from labkit.config.findings import printable
from labkit.errors import ConfigError

__all__ = ["SCHEMA", "ResultFile"]

SCHEMA = "labkit.sweep/1"

_LONGEST_LINE = 10_000_000  # bytes


class ResultFile:
    """The file of one sweep. Only one process writes it.

    Args:
        path: where.
        header: what is swept; a file that holds another sweep is refused.
        keys: for each run, by its number, what its line says of it.

    Attributes:
        done: results that are there already, by the number of the run.

    Raises:
        ConfigError: it cannot be opened, holds something else, or another process writes it.
    """

    def __init__(self, path: Path, header: Mapping[str, Any], keys: Sequence[Mapping[str, Any]]) -> None:
        self.path = path
        self.done: dict[int, dict[str, Any]] = {}
        self._header = {"schema": SCHEMA, **header}
        self._keys = keys
        try:
            if path.exists() and not path.is_file() and not path.is_dir():
                raise OSError(None, "it is a device or a pipe, and results are a file")
            self._file: IO[bytes] = open(path, "a+b")  # noqa: SIM115 - it stays open while the sweep runs
        except (OSError, ValueError) as error:
            why = (getattr(error, "strerror", None) or str(error)).lower()
            raise ConfigError(f"{_name(path)} cannot be written: {why}") from None
        try:
            self._lock()
            self._take_up()
        except BaseException:
            self._file.close()
            raise

    def add(self, results: Mapping[int, Mapping[str, Any]]) -> None:
        """Write the results of some runs."""
        self._write(b"".join(self._line(number, found) for number, found in results.items()))
        self.done.update({number: dict(found) for number, found in results.items()})

    def finish(self) -> None:
        """Put the lines in the order of the grid, in one step."""
        lines = [_json(self._header), *(self._line(number, self.done[number]) for number in range(len(self._keys)))]
        content = b"".join(lines)
        self._file.seek(0)
        if self._file.read() == content:
            return
        if os.name == "nt":  # there a file that is open keeps its name
            self._file.close()
        write_whole(Path(os.path.realpath(self.path)), content)

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    # ------------------------------------------------------------------------------------------------- what is there

    def _lock(self) -> None:
        try:
            import fcntl
        except ImportError:  # Windows
            return
        try:
            fcntl.flock(self._file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ConfigError(f"{_name(self.path)} is being written by another sweep; name another file") from None

    def _take_up(self) -> None:
        self._file.seek(0)
        header = _json(self._header)
        longest = max(len(header), _LONGEST_LINE)  # a file that is something else may have no lines at all
        first = self._file.readline(longest)
        if not first or (header.startswith(first) and first != header):  # new, or torn in its first line
            self._file.truncate(0)
            self._write(header)
            return
        self._compare(first)
        good, number = len(first), 1
        while line := self._file.readline(longest):
            number += 1
            if self._run_of(line) is None:
                if self._file.read(1):
                    raise ConfigError(
                        f"line {number} of {_name(self.path)} is not one of this sweep's; name another file"
                    )
                self._file.truncate(good)
                break
            good += len(line)

    def _compare(self, first: bytes) -> None:
        try:
            found = json.loads(first)
        except ValueError:
            found = None
        if not isinstance(found, dict) or found.get("schema") != SCHEMA:
            raise ConfigError(f"{_name(self.path)} is there and holds no results of a sweep; name another file")
        words = {
            "labkit": f"it was begun with labkit {printable(str(found.get('labkit')))}",
            "scenario": f"it is of the scenario '{printable(str(found.get('scenario')))}'",
            "digest": "its scenario had other contents",
            "vary": "it varies other values",
            "seeds": "it has other seeds",
        }
        for key, value in self._header.items():
            if found.get(key) != value:
                why = words.get(key, "it has another form")
                raise ConfigError(f"{_name(self.path)} holds another sweep: {why}; name another file, or delete it")

    def _run_of(self, line: bytes) -> int | None:
        """The run whose result a line holds, which is remembered; None if it is no such line."""
        try:
            found = json.loads(line) if line.endswith(b"\n") else None
        except ValueError:
            return None
        if not isinstance(found, dict):
            return None
        number, results = found.get("run"), found.get("metrics")
        if type(number) is not int or not 0 <= number < len(self._keys) or not isinstance(results, dict):
            return None
        if any(found.get(name) != value for name, value in self._keys[number].items()):
            return None
        self.done.setdefault(number, results)
        return number

    # ------------------------------------------------------------------------------------------------ what is written

    def _line(self, number: int, found: Mapping[str, Any]) -> bytes:
        return _json({"run": number, **self._keys[number], "metrics": found})

    def _write(self, content: bytes) -> None:
        try:
            self._file.write(content)
            self._file.flush()
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            raise ConfigError(f"{_name(self.path)} cannot be written any further: {why}") from None


def _json(data: Mapping[str, Any]) -> bytes:
    return (json.dumps(data) + "\n").encode()


def _name(path: Path) -> str:
    return printable(str(path))
