"""Every exception that labkit raises, in one tree.

A message is one sentence for a person: what was found, where, and what to do about it. Nothing in this module imports
anything else of labkit, so every floor may use it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from contextlib import suppress

__all__ = [
    "BulkheadFullError",
    "BusinessRejection",
    "CircuitBreakerOpenError",
    "ClockError",
    "ConfigError",
    "CourseError",
    "DeadlockError",
    "DependencyError",
    "ForeignAwaitableError",
    "LabkitError",
    "LeaseError",
    "MiddlewareError",
    "OverloadedError",
    "RateLimitedError",
    "Refusal",
    "RunTooLargeError",
    "ServiceError",
    "TraceFormatError",
    "VirtualLoopError",
    "annotate",
    "exception_named",
    "is_any",
    "is_refusal",
    "is_wholly",
    "members",
]


class LabkitError(Exception):
    """The root of the tree: catch it to catch whatever labkit itself has to say."""


class ClockError(LabkitError):
    """A clock was used in a way that cannot work (re-entered, a negative advance, a time that is not a number)."""


class DeadlockError(ClockError):
    """Nothing is due any more and the main coroutine has not ended; the message names the tasks that wait.

    Attributes:
        waiting: the names of the tasks that wait for something that can no longer happen.
    """

    def __init__(self, message: str, waiting: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.waiting = tuple(waiting)


class ForeignAwaitableError(ClockError):
    """A coroutine on a virtual clock awaited something that does not belong to that clock; the message names it."""


class VirtualLoopError(ClockError):
    """Something was asked of a virtual event loop that needs the world outside: a socket, a thread, a process."""


class ConfigError(LabkitError):
    """A configuration cannot be used.

    Attributes:
        findings: what is wrong, one object a fault, in the order in which they stand in the file.
    """

    def __init__(self, message: str, findings: Sequence[object] = ()) -> None:
        super().__init__(message)
        self.findings = tuple(findings)


class MiddlewareError(LabkitError):
    """A chain or a stack cannot be built as asked."""


class RunTooLargeError(LabkitError):
    """A run of a scenario grew beyond what any machine has memory for, and was ended."""


class TraceFormatError(LabkitError):
    """A file of recorded traces cannot be read as one."""


class CourseError(LabkitError):
    """The course folder cannot be laid out, opened or reset."""


class ServiceError(LabkitError):
    """A mock service cannot be started or told what to do.

    Attributes:
        path: where in the service's settings the fault stands, such as ("faults", 1, "seconds"); empty where that
            means nothing.
    """

    def __init__(self, message: str, path: Sequence[str | int] = ()) -> None:
        super().__init__(message)
        self.path = tuple(path)


class DependencyError(LabkitError):
    """The dependency failed in a way that counts: it answered with a server error, or its reply broke off."""


class OverloadedError(DependencyError):
    """The dependency turned the call away at once (503): all of its workers are busy, and its queue is full.

    Its arguments are the text and `retry_after`, as those of `RateLimitedError`.

    Example:
        >>> error = OverloadedError("the queue is full", 2.0)
        >>> str(error), error.retry_after, OverloadedError("the queue is full").retry_after
        ('the queue is full', 2.0, None)
    """

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""

    @property
    def retry_after(self) -> float | None:
        """Seconds until a call may be taken again, or None where the dependency does not say."""
        return self.args[1] if len(self.args) > 1 else None


class RateLimitedError(DependencyError):
    """The dependency has had enough calls for now (429). Its arguments are the text and `retry_after`.

    Example:
        >>> error = RateLimitedError("too many calls", 0.5)
        >>> str(error), error.retry_after
        ('too many calls', 0.5)
    """

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""

    @property
    def retry_after(self) -> float | None:
        """Seconds until a call may pass again, or None where the dependency does not say."""
        return self.args[1] if len(self.args) > 1 else None


class BusinessRejection(LabkitError):
    """The dependency works and says no, for example to an unknown part. Never retried; not a fault of the service."""


class Refusal(LabkitError):
    """A layer turned the call away, or ended it, for a reason of its own: it says nothing about the dependency.

    So labkit's own breakers count it neither way, and a fallback answers it unless told otherwise. (The toolkit's
    breaker counts it as a failure, like every exception.) A retry budget that is spent is none: what the caller then
    gets is the dependency's own last error.
    """


class LeaseError(Refusal):
    """A store of leases cannot be asked, or a lease lapsed while its probe was running."""


class CircuitBreakerOpenError(Refusal, RuntimeError):
    """A breaker rejected the call before it reached the dependency. (Source: the toolkit's class of this name.)

    Its arguments are the text, the target and `retry_after`; the last two may be left out, as the toolkit does. (They
    are plain arguments, not attributes set in an `__init__`, because in a rejection storm raising is the hot path.)

    Example:
        >>> error = CircuitBreakerOpenError("Circuit breaker is OPEN for 'parts'.", "parts", 12.5)
        >>> str(error), error.target, error.retry_after
        ("Circuit breaker is OPEN for 'parts'.", 'parts', 12.5)
    """

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""

    @property
    def target(self) -> str | None:
        """The name under which the breaker keeps its state, or None when raised by hand."""
        return self.args[1] if len(self.args) > 1 else None

    @property
    def retry_after(self) -> float | None:
        """Seconds until a call may be admitted as a probe, or None when the breaker cannot know."""
        return self.args[2] if len(self.args) > 2 else None


class BulkheadFullError(Refusal, RuntimeError):
    """A bulkhead turned the call away before it reached the dependency. Its arguments are the text and the target.

    Example:
        >>> error = BulkheadFullError("The bulkhead of 'parts' is full.", "parts")
        >>> str(error), error.target
        ("The bulkhead of 'parts' is full.", 'parts')
    """

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""

    @property
    def target(self) -> str | None:
        """The name under which the bulkhead keeps its places, or None when raised by hand."""
        return self.args[1] if len(self.args) > 1 else None


# -- groups: an `ExceptionGroup` is what its members are


def members(error: BaseException) -> Iterator[BaseException]:
    """The errors that a group holds, however deep, each once and in order; an error that is no group is its own only.

    Example:
        >>> one, other = TimeoutError("a"), KeyError("b")
        >>> list(members(ExceptionGroup("", [one, ExceptionGroup("", [other, one])]))) == [one, other]
        True
    """
    seen: set[int] = set()  # a group may stand in several others, and then in ever more
    waiting = [error]
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, BaseExceptionGroup):
            waiting.extend(reversed(one.exceptions))
        else:
            yield one


def is_wholly(error: BaseException, classes: tuple[type[BaseException], ...]) -> bool:
    """Whether an error is of these classes; a group is when each of its members is, or when its own class is named.

    What is done *because* of an error asks this: a retry repeats, and a fallback answers, only what they would repeat
    or answer member by member.

    Example:
        >>> mixed = ExceptionGroup("", [ConnectionError(), KeyError()])
        >>> is_wholly(mixed, (ConnectionError,)), is_wholly(mixed, (ConnectionError, LookupError))
        (False, True)
    """
    if isinstance(error, classes):
        return True
    return isinstance(error, BaseExceptionGroup) and all(isinstance(one, classes) for one in members(error))


def is_any(error: BaseException, classes: tuple[type[BaseException], ...]) -> bool:
    """Whether an error is of these classes; a group is when any of its members is.

    What *forbids* something asks this: a group with one member that must not be retried is not retried.

    Example:
        >>> is_any(ExceptionGroup("", [ConnectionError(), KeyError()]), (KeyError,))
        True
    """
    if isinstance(error, classes):
        return True
    return isinstance(error, BaseExceptionGroup) and any(isinstance(one, classes) for one in members(error))


def is_refusal(error: BaseException) -> bool:
    """Whether an error is a layer's own refusal and nothing else; a group with one real failure is a failure."""
    return is_wholly(error, (Refusal,))


# -- notes on errors that are somebody else's


def annotate(error: BaseException, note: str, *, by: Hashable) -> None:
    """Add a note to an error, in place of the one that the same hand has added before.

    One error instance may be raised again and again, and must not gather a note each time. An error that takes no note
    (its `__notes__` is no list, its class forbids it) stays as it is: what matters is the error.

    Args:
        error: whose.
        note: one line.
        by: who adds it: the same for the same hand, and nothing that keeps a larger object alive.

    Example:
        >>> error = TimeoutError()
        >>> for attempts in (2, 3):
        ...     annotate(error, f"given up after {attempts} attempts", by="retry")
        >>> error.__notes__
        ['given up after 3 attempts']
    """
    with suppress(Exception):
        mine: dict[Hashable, str] = error.__dict__.setdefault("_labkit_notes", {})
        notes = getattr(error, "__notes__", None)
        before = mine.get(by)
        if before is not None and isinstance(notes, list) and before in notes:
            notes[notes.index(before)] = note
        else:
            error.add_note(note)
        mine[by] = note


def exception_named(name: str) -> type[Exception]:
    """The exception class of this name: a built-in one, one of this module, or "package.module.Class".

    Raises:
        LookupError: there is no exception of this name; the message says so in a sentence.

    Example:
        >>> exception_named("TimeoutError"), exception_named("DependencyError").__module__
        (<class 'TimeoutError'>, 'labkit.errors')
    """
    import builtins
    from importlib import import_module

    found: object = globals().get(name) or getattr(builtins, name, None)
    if found is None and "." in name:
        module, _, last = name.rpartition(".")
        try:
            found = getattr(import_module(module), last, None)
        except ImportError:
            found = None
    if isinstance(found, type) and issubclass(found, Exception):
        return found
    what = "is not an exception" if found is not None else "is not the name of an exception"
    raise LookupError(f"'{name}' {what}; name a built-in one, one of labkit.errors, or 'package.module.Class'")
