"""Laying the course out in the learner's folder without ever losing what the learner typed there.

The package carries the course's files; the folder holds the learner's copies and, in `.labkit/manifest.json`, what was
laid: for each file the digest of its bytes and the digest of its *work*. The work of a notebook is what a person types:
the cells' kinds, sources and attachments. Outputs, counters, metadata and an empty cell at the end change when a
notebook is merely opened or run, and how lines end when an editor saves a file; so they do not make a file the
learner's own, but they are not thrown away either.

| the learner's copy | the package brings | what happens |
| --- | --- | --- |
| is missing, was never laid | | laid |
| is missing, was laid before | | stays away: it was deleted; `labkit reset` brings it back |
| is as laid | a newer one | replaced |
| was run or saved, nothing typed | a newer one | replaced; the run is kept under `.labkit/replaced/` |
| was changed | a newer one | left alone; the newer one is laid beside it, once |
| cannot be read as a notebook | | counts as changed |
| stands there unrecorded | another one | counts as changed |

A file is never written in place: the new one is written beside it and takes its name in one step, and what had the name
before keeps a second one until it is known that nothing of it is lost. A run may be killed between any two steps.
"""

from __future__ import annotations

import codecs
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from labkit.config.disk import beside, clear_leftovers, reason, second_name, write_whole
from labkit.errors import CourseError

__all__ = [
    "DEFAULT_FOLDER",
    "START",
    "Layout",
    "around",
    "course_files",
    "find_file",
    "lay_out",
    "private_folder",
    "resolve_folder",
    "restore",
    "work_of",
    "writing",
]

DEFAULT_FOLDER = "labkit-course"
START = "notebooks/00-start-here.ipynb"
PARTS = ("notebooks", "quizzes")
PRIVATE = ".labkit"  # the folder of labkit's own records inside the learner's
MANIFEST_VERSION = 1


# ------------------------------------------------------------------------------------------------ what the package has


def course_root() -> Path:
    """Return the folder that holds notebooks/ and quizzes/: inside an installed package, or the checkout itself.

    Raises:
        CourseError: the installation carries no course.
    """
    package = Path(__file__).resolve().parent.parent
    for root in (package / "_course", package.parent):
        if (root / START).is_file():
            return root
    raise CourseError(
        f"this installation carries no course ({package} has no {START}); install the wheel again, or use a checkout"
    )


def course_files() -> dict[str, bytes]:
    """Return the course's files by their path from the course's root (`notebooks/00-start-here.ipynb`), sorted."""
    root = course_root()
    files = {}
    for part in PARTS:
        for path in sorted((root / part).rglob("*")):
            below = path.relative_to(root)
            if path.is_file() and not any(name.startswith((".", "__")) for name in below.parts):
                files[below.as_posix()] = without_answers(below.as_posix(), path.read_bytes())
    return files


def without_answers(name: str, content: bytes) -> bytes:
    """Return a file as a learner gets it: outputs that a prediction asks for are taken out of a notebook.

    The course stores all outputs, for those who only look, and so that they can be compared. Whoever is to predict an
    outcome must not read it below the question, so cells with the tag `predict` are laid as if they had not been run.

    Args:
        name: the file's name; only one that ends in `.ipynb` is a notebook.
        content: its bytes.
    """
    if not name.endswith(".ipynb") or b'"predict"' not in content:
        return content
    notebook = json.loads(content)
    for cell in notebook["cells"]:
        if "predict" in cell["metadata"].get("tags", ()):
            cell["outputs"], cell["execution_count"] = [], None
    return (json.dumps(notebook, indent=1, ensure_ascii=False) + "\n").encode()


# ------------------------------------------------------------------------------------------------- what a person typed


def digest(content: bytes) -> str:
    """Return the SHA-256 of bytes, as hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def work_of(name: str, content: bytes) -> str:
    """Return the digest of what a person typed into a file.

    How lines end, a mark of the encoding at the beginning, the last line's end and empty cells at the end of a notebook
    are no work: editors change them without being asked, and the Lab adds a cell when the last one is run.

    Args:
        name: its name; one that ends in `.ipynb` is read as a notebook.
        content: its bytes. What cannot be read as a notebook is taken as text, and what is no text whole.
    """
    if not name.endswith(".ipynb"):
        return digest(_as_saved_here(content))
    try:
        cells = json.loads(content)["cells"]
        typed = [[cell["cell_type"], _joined(cell["source"]), cell.get("attachments") or {}] for cell in cells]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return digest(_as_saved_here(content))
    while typed and not typed[-1][1].strip() and not typed[-1][2]:
        del typed[-1]
    return digest(json.dumps(typed, sort_keys=True).encode())


def _as_saved_here(content: bytes) -> bytes:
    """Text as the course has its own: UTF-8 without a mark, lines that end in a line feed, the last one too."""
    wide = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        text = content.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError:
        return content
    if "\0" in text:
        return content
    text = text.replace("\r\n", "\n").rstrip("\n")
    return f"{text}\n".encode() if text else b""


def _joined(source: object) -> str:
    """A cell's source: nbformat allows a string, or its lines in a list."""
    if isinstance(source, list):
        source = "".join(source)
    if isinstance(source, str):
        return source.replace("\r\n", "\n")
    raise TypeError(f"a cell's source is text, not {type(source).__name__}")


# -------------------------------------------------------------------------------------------------------- the manifest


@dataclass(frozen=True, slots=True)
class Laid:
    """What the manifest says about one file.

    Attributes:
        content: digest of the bytes laid last, or "" when that is not known.
        work: digest of the work in them, or "".
        offered: digest of the bytes last laid beside a changed copy, or "".
    """

    content: str = ""
    work: str = ""
    offered: str = ""


def _read_manifest(folder: Path) -> tuple[dict[str, Laid], str | None]:
    """The manifest, and a sentence when there is one that cannot be used."""
    path = folder / PRIVATE / "manifest.json"
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return {}, None
    except OSError as error:
        raise CourseError(f"{path} cannot be read: {reason(error)}") from error
    try:
        data = json.loads(text)
        if data["version"] != MANIFEST_VERSION:
            raise ValueError(data["version"])
        return {name: _laid(entry) for name, entry in data["files"].items()}, None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}, (
            f"{path} cannot be read as labkit's record of what it laid, so every file that differs from the course "
            "counts as changed by you"
        )


def _laid(entry: Any) -> Laid:
    values = [entry[key] for key in ("content", "work", "offered")]
    if not all(isinstance(value, str) for value in values):
        raise TypeError("a digest is text")
    return Laid(*values)


def _write_manifest(folder: Path, files: Mapping[str, Laid]) -> None:
    entries = {
        name: {"content": entry.content, "work": entry.work, "offered": entry.offered}
        for name, entry in sorted(files.items())
    }
    text = json.dumps({"version": MANIFEST_VERSION, "files": entries}, indent=1) + "\n"
    path = folder / PRIVATE / "manifest.json"
    if not (path.is_file() and path.read_bytes() == text.encode()):
        write_whole(path, text.encode())


# ------------------------------------------------------------------------------------------------------ laying it out


@dataclass(slots=True)
class Layout:
    """What `lay_out` did, by the files' paths from the folder.

    Attributes:
        folder: the learner's folder.
        laid: files that were not there.
        updated: files that were as laid and are newer now.
        rerun: files that were only run and are newer now -> where the run is kept.
        beside: changed files -> where the newer version lies.
        deleted: files that the learner deleted; they stay away.
        blocked: files that could not be laid -> why.
        notes: further sentences.
    """

    folder: Path
    laid: list[str] = field(default_factory=list)
    updated: list[str] = field(default_factory=list)
    rerun: dict[str, str] = field(default_factory=dict)
    beside: dict[str, str] = field(default_factory=dict)
    deleted: list[str] = field(default_factory=list)
    blocked: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def sentences(self) -> Iterator[str]:
        """Yield what the learner has to know, a sentence each; nothing when nothing happened."""
        yield from self.notes
        if self.laid:
            notebooks = sum(name.endswith(".ipynb") for name in self.laid)
            others = len(self.laid) - notebooks
            also = f" and {_count(others, 'other file')}" if others else ""
            yield f"laid {_count(notebooks, 'notebook')}{also} in {self.folder}"
        if self.updated:
            yield f"brought what you had not changed up to date: {', '.join(self.updated)}"
        for name, kept in self.rerun.items():
            was = (
                "you had run it, and that run"
                if name.endswith(".ipynb")
                else "your copy, which said the same as before,"
            )
            yield f"brought {name} up to date; {was} is kept as {kept}"
        for name, new in self.beside.items():
            yield f"you changed {name} and there is a newer version: it lies beside it as {new}"
        if self.deleted:
            names = ", ".join(self.deleted)
            yield f"you deleted {names}: `labkit reset {PurePosixPath(self.deleted[0]).stem}` brings it back"
        for name, why in self.blocked.items():
            yield f"{name} could not be laid: {why}"


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" + ("" if number == 1 else "s")


def resolve_folder(folder: str | os.PathLike[str]) -> Path:
    """Return the learner's folder as an absolute path.

    Raises:
        CourseError: it is a file, or the folder from which the course is taken.
    """
    path = Path(os.path.abspath(Path(folder).expanduser()))
    if path.exists() and not path.is_dir():
        raise CourseError(f"{path} is a file; name a folder for the course with --dir")
    try:
        source = course_root()
    except CourseError:
        return path
    if path.is_dir() and path.samefile(source):
        raise CourseError(f"{path} is where the course itself lies; name another folder for your copy with --dir")
    return path


def around(folder: Path) -> Path | None:
    """Return the course folder that a folder is, or lies in; None where there is none."""
    return next((one for one in (folder, *folder.parents) if (one / PRIVATE / "manifest.json").is_file()), None)


def lay_out(folder: Path, source: Mapping[str, bytes], version: str) -> Layout:
    """Lay the course out in the learner's folder, or bring what lies there up to date; see the module's table.

    Args:
        folder: the learner's folder, made when it is missing.
        source: the course's files, as `course_files` gives them.
        version: of the course, for the names of files laid beside changed ones.

    Returns:
        What was done.

    Raises:
        CourseError: the folder cannot be made or written.
    """
    layout = Layout(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with writing(folder, source):
            manifest, note = _read_manifest(folder)
            if note:
                layout.notes.append(note)
            for name, fresh in source.items():
                entry = _lay(layout, name, fresh, manifest.get(name), version)
                if entry is not None:
                    manifest[name] = entry
            _write_manifest(folder, manifest)
    except OSError as error:
        raise CourseError(f"the course cannot be laid out in {folder}: {reason(error)}") from error
    return layout


def _lay(layout: Layout, name: str, fresh: bytes, entry: Laid | None, version: str) -> Laid | None:
    """Does for one file what the table says, and returns what the manifest should say of it."""
    path = layout.folder / name
    now = Laid(digest(fresh), work_of(name, fresh))
    try:
        mine = path.read_bytes()
    except FileNotFoundError:
        if entry is not None:
            layout.deleted.append(name)
            return entry
        path.parent.mkdir(parents=True, exist_ok=True)
        if not _lay_new(path, fresh):
            layout.blocked[name] = "a link that leads nowhere stands there"
            return None
        layout.laid.append(name)
        return now
    except (IsADirectoryError, NotADirectoryError, PermissionError) as error:
        layout.blocked[name] = reason(error)
        return entry
    if mine == fresh:
        return now
    if entry is not None and now.content == entry.content:
        return entry  # nothing newer than what was laid
    if entry is not None and digest(mine) == entry.content:
        kept = _set_aside(layout.folder, name, fresh, entry.content[:8])
        if digest(kept.read_bytes()) == entry.content:
            kept.unlink()
        layout.updated.append(name)
        return now
    if entry is not None and work_of(name, mine) == entry.work:
        kept = _set_aside(layout.folder, name, fresh, digest(mine)[:8])
        layout.rerun[name] = kept.relative_to(layout.folder).as_posix()
        return now
    if now.work == work_of(name, mine):
        return now  # the learner's copy says the same as the newer one: only outputs differ
    if entry is not None and (now.work == entry.work or now.content == entry.offered):
        return entry  # nothing new to read, or it was laid beside already
    newer = path.with_name(f"{path.stem}.new-{version}{path.suffix}")
    if not (newer.is_file() and newer.read_bytes() == fresh):
        if not _lay_new(newer, fresh):
            newer = _free(path, f"new-{version}-{now.content[:8]}")
            _lay_new(newer, fresh)
        layout.beside[name] = newer.relative_to(layout.folder).as_posix()
    old = entry or Laid()
    return Laid(old.content, old.work, now.content)


# ---------------------------------------------------------------------------------------------- bringing one file back


def find_file(asked: str, folder: Path, names: list[str]) -> str:
    """Return the course's file that a learner means.

    Args:
        asked: a path from the folder, from the working directory or absolute, a file's name, its stem (`04-order`), or
            the stem without its number (`order`).
        folder: the learner's folder.
        names: the course's files.

    Raises:
        CourseError: none or several are meant; the sentence names the nearest, or all of them.
    """
    wanted = PurePosixPath(asked.replace(os.sep, "/"))
    paths = {wanted.as_posix()}
    with suppress(ValueError):
        paths.add(Path(os.path.abspath(Path(asked).expanduser())).relative_to(folder).as_posix())
    stem = wanted.name.removesuffix(".ipynb")
    tests: tuple[Callable[[PurePosixPath], bool], ...] = (
        lambda path: path.as_posix() in paths,
        lambda path: path.as_posix().endswith(f"/{wanted}"),
        lambda path: path.with_suffix("").as_posix().endswith(f"/{wanted.parent / stem}"),
        lambda path: len(wanted.parts) == 1 and _unnumbered(path.stem) == stem,
    )
    for test in tests:
        found = [name for name in names if test(PurePosixPath(name))]
        if len(found) == 1:
            return found[0]
        if found:
            raise CourseError(f"{asked!r} may be any of {', '.join(found)}; name one of them in full")
    from labkit.config.nearest import nearest

    stems = {PurePosixPath(name).stem: name for name in names}
    stems |= {_unnumbered(short): name for short, name in stems.items()}
    near = nearest(stem, stems)
    hint = (
        f"did you mean {stems[near]}?" if near else f"there are {', '.join(n for n in names if n.endswith('.ipynb'))}"
    )
    raise CourseError(f"the course has no {asked!r}; {hint}")


def _unnumbered(stem: str) -> str:
    """`02-three-states` without its number."""
    return stem.lstrip("0123456789").lstrip("-") or stem


def restore(folder: Path, name: str, fresh: bytes, stamp: str) -> Path | None:
    """Bring the original of one file back.

    Args:
        folder: the learner's folder.
        name: the file, by its path from there.
        fresh: the original's bytes.
        stamp: goes into the name under which the learner's copy is kept.

    Returns:
        Where the learner's copy is kept, or None when there was none or it was the original to the byte.

    Raises:
        CourseError: there is no course in that folder, or it cannot be written.
    """
    if not (folder / PRIVATE).is_dir():
        raise CourseError(f"there is no course in {folder}; `labkit lab` lays it out, --dir names another folder")
    path = folder / name
    kept: Path | None = None
    try:
        with writing(folder, [name]):
            manifest, _ = _read_manifest(folder)
            mine = path.read_bytes() if path.exists() else None
            if mine is None:
                path.parent.mkdir(parents=True, exist_ok=True)
                if not _lay_new(path, fresh):
                    raise CourseError(f"{path} is a link that leads nowhere; remove it first")
            elif mine != fresh:
                kept = _replace(path, fresh, path, stamp)
            manifest[name] = Laid(digest(fresh), work_of(name, fresh))
            _write_manifest(folder, manifest)
    except OSError as error:
        raise CourseError(f"{path} cannot be brought back: {reason(error)}") from error
    return kept


# ------------------------------------------------------------------------------------------------------ writing safely


def private_folder(folder: Path, *names: str) -> Path:
    """Return a folder of labkit's own in the learner's, made where it is missing.

    Args:
        folder: the learner's folder.
        names: the way to it from `.labkit`.

    Raises:
        CourseError: a link stands there: what it leads to is not labkit's to write to.
        OSError: it cannot be made.
    """
    path = folder
    for name in (PRIVATE, *names):
        path = path / name
        if path.is_symlink():
            raise CourseError(f"{path} is a link, and labkit keeps its own records in no other place; remove the link")
        path.mkdir(exist_ok=True)
    return path


@contextmanager
def writing(folder: Path, names: Iterable[str] = ()) -> Iterator[None]:
    """Write to the learner's folder; what killed runs left is cleared first, if no other run writes there now.

    Args:
        folder: the learner's folder, which exists.
        names: the files, by their paths from there, that may be written.

    Raises:
        CourseError: labkit's own folder in it is a link.
        OSError: that folder cannot be made.
    """
    private = private_folder(folder)
    try:
        import fcntl
    except ImportError:  # Windows has no such locks; what is left over lies there and harms nobody
        yield
        return
    handle = os.open(private, os.O_RDONLY)
    try:
        with suppress(OSError):  # somebody else writes, or this disk has no locks
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            clear_leftovers([private, private / "lab", *{(folder / name).parent for name in names}])
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_SH)
        yield
    finally:
        os.close(handle)


def _free(path: Path, mark: str) -> Path:
    """A name that nothing has yet: `name.mark.ipynb`, then `name.mark-2.ipynb`, ..."""
    candidate = path.with_name(f"{path.stem}.{mark}{path.suffix}")
    number = 2
    while os.path.lexists(candidate):
        candidate = path.with_name(f"{path.stem}.{mark}-{number}{path.suffix}")
        number += 1
    return candidate


def _lay_new(path: Path, content: bytes) -> bool:
    """Lays a file where there is none; False, and nothing done, where something has that name after all."""
    with beside(path, content) as new:
        return second_name(new, path)


def _replace(path: Path, content: bytes, like: Path, mark: str) -> Path:
    """Gives the file's name to new content in one step, and returns the name that its old content has from now on.

    The old content gets that second name (`like`, with a mark in it) first, so whatever an editor saves meanwhile,
    under either name, stays.
    """
    with beside(path, content) as new:
        kept = _free(like, mark)
        while not second_name(path, kept):
            kept = _free(like, mark)
        os.replace(new, path)
    return kept


def _set_aside(folder: Path, name: str, fresh: bytes, mark: str) -> Path:
    """Replaces a file that the learner did not change, and returns where labkit keeps what it was."""
    below = PurePosixPath(name)
    kept_in = private_folder(folder, "replaced", *below.parent.parts)
    return _replace(folder / name, fresh, kept_in / below.name, mark)
