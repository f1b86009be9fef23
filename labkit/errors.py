"""Every exception that labkit raises, in one tree.

A message is one sentence for a person: what was found, where, and what to do about it. Nothing in this module imports
anything else of labkit, so every floor may use it.
"""

from __future__ import annotations

from collections.abc import Sequence

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
    "ServiceError",
    "TraceFormatError",
    "VirtualLoopError",
    "exception_named",
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


class LeaseError(LabkitError):
    """A store of leases cannot be asked, or a lease lapsed while its probe was running."""


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


class CircuitBreakerOpenError(LabkitError, RuntimeError):
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


class BulkheadFullError(LabkitError, RuntimeError):
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
