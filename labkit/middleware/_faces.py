"""What a stack may call of a service: whether it gives something to await, or chunks, found out before it is called."""

from __future__ import annotations

import inspect
import sys
from collections.abc import AsyncIterable, Awaitable
from functools import partial
from typing import Any, get_origin

from labkit.errors import MiddlewareError

__all__ = ["check_faces", "faces"]

_AWAITED = ("Awaitable", "Coroutine", "Future", "Task", "CoroutineType")
_STREAMED = ("AsyncIterator", "AsyncIterable", "AsyncGenerator", "AsyncGeneratorType")
_DEEP = 100  # wrappers in wrappers


def faces(service: Any) -> tuple[Any, Any]:
    """What is awaited for one result, and what gives a stream; None for one that it does not have.

    Raises:
        MiddlewareError: it has neither.
    """
    named = dir(service)  # before anything is asked for: a mock makes up what it is asked for
    if not {"call", "stream"}.intersection(named) and _is_async(service):
        return (None, service) if _gives(service, stream=True) else (service, None)
    call, stream = (one if callable(one := getattr(service, name, None)) else None for name in ("call", "stream"))
    if call is None and stream is None:
        if not callable(service):
            raise MiddlewareError(
                f"a service is an async function or has 'call' or 'stream', and {service!r} has neither"
            )
        return (None, service) if _gives(service, stream=True) else (service, None)
    return call, stream


def check_faces(function: str, service: Any) -> None:
    """Refuse what would run at each call and give nothing to await: its error would then count as the dependency's.

    What a proxy or a mock makes up when it is asked is taken on trust, and so is a plain function that says by its
    annotation that it returns an awaitable or a stream.

    Raises:
        MiddlewareError: there is such a thing behind this function of the stack; says what to write instead.
    """
    call, stream = faces(service)
    for face, name, is_stream in ((call, "call", False), (stream, "stream", True)):
        if face is None or _is_mock(face):
            continue
        if face is not service and inspect.getattr_static(service, name, None) is None:
            continue
        if isinstance(service, type) and face is not service:
            unbound = inspect.isfunction(inspect.getattr_static(service, name))
            if unbound:
                raise MiddlewareError(
                    f"the service behind '{function}' is the class {service.__name__}, whose '{name}' needs an "
                    f"instance; give one: {service.__name__}(...)"
                )
        if not _gives(face, stream=is_stream):
            what = "" if face is service else f"'{name}' of "
            raise MiddlewareError(f"{what}the service behind '{function}' {_complaint(face, is_stream)}")


def _complaint(face: Any, stream: bool) -> str:
    behind = _behind(face)
    name = getattr(behind, "__qualname__", type(behind).__qualname__).rpartition("<locals>.")[2]
    if _gives(face, stream=not stream):
        gives, wanted = (
            ("one result to await", "a stream is an async function with 'yield'")
            if stream
            else ("a stream", "one result is what an async function without 'yield' returns")
        )
        return f"is '{name}', which gives {gives}; {wanted}"
    kind = (
        "a class"
        if isinstance(behind, type)
        else "a plain generator function"
        if inspect.isgeneratorfunction(behind)
        else "a plain function"
    )
    if stream:
        return f"is '{name}', {kind}; a stream is an async function with 'yield', or says '-> AsyncIterator[...]'"
    return (
        f"is '{name}', {kind}, and what it returns cannot be awaited; write 'async def', or say '-> Awaitable[...]' if "
        "it can"
    )


def _is_async(face: Any) -> bool:
    return _gives(face, stream=False, said=False) or _gives(face, stream=True, said=False)


def _gives(face: Any, *, stream: bool, said: bool = True) -> bool:
    """Whether calling it gives a stream, or else something to await; `said`: annotations count."""
    is_async = inspect.isasyncgenfunction if stream else inspect.iscoroutinefunction
    for _ in range(_DEEP):
        if is_async(face) or _is_marked(face, stream):
            return True
        if isinstance(face, type):
            return said and issubclass(face, AsyncIterable if stream else Awaitable)
        promised = _says(face) if said and inspect.isroutine(face) else None
        if promised is not None:
            return promised == ("stream" if stream else "one")
        further = _further(face)
        if further is None:
            return False
        face = further
    return False


def _is_marked(face: Any, stream: bool) -> bool:
    """Whether a plain function is marked as giving a coroutine, as `asyncio.iscoroutinefunction` has it."""
    return not stream and inspect.isroutine(face) and bool(getattr(face, "_is_coroutine", False))


def _is_mock(face: Any) -> bool:
    mock = sys.modules.get("unittest.mock")  # where it has not been imported nothing is one
    return mock is not None and isinstance(face, mock.NonCallableMock)


def _further(face: Any) -> Any:
    """What a partial, a method, a callable object or a decorated function leads to, or None."""
    if isinstance(face, partial):
        return face.func
    if inspect.ismethod(face):
        return face.__func__
    if inspect.isfunction(face) or inspect.isbuiltin(face):
        return getattr(face, "__wrapped__", None)
    call = getattr(type(face), "__call__", None)  # noqa: B004 - what is behind it, not whether it can be called
    return call if inspect.isfunction(call) or isinstance(call, partial) else None


def _behind(face: Any) -> Any:
    for _ in range(_DEEP):
        further = _further(face)
        if further is None:
            break
        face = further
    return face


def _says(face: Any) -> str | None:
    """What the annotation of a plain function promises: "one" to await, a "stream", or nothing that is known."""
    found = getattr(face, "__annotations__", {}).get("return")
    if isinstance(found, str):
        name = found.partition("[")[0].strip().rpartition(".")[2]
        return "one" if name in _AWAITED else "stream" if name in _STREAMED else None
    kind = get_origin(found) or found
    if not isinstance(kind, type):
        return None
    return "one" if issubclass(kind, Awaitable) else "stream" if issubclass(kind, AsyncIterable) else None
