"""Services and adapters by name, as a scenario's file names them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any
from zlib import crc32

from labkit.errors import ServiceError
from labkit.services.adapter import InProcessAdapter, RaisingAdapter, SwallowingAdapter
from labkit.services.checks import hint, shown
from labkit.services.faults.latency import Latency
from labkit.services.faults.plan import FaultPlan
from labkit.services.mocks.assistant import ResearchAssistant
from labkit.services.mocks.documents import MaintenanceDocuments
from labkit.services.mocks.mock import MockService
from labkit.services.mocks.parts import PartsAvailability
from labkit.timing.clock import Clock

__all__ = ["ServiceMaker", "check_settings", "make_adapter", "make_service", "register_adapter", "register_service"]

ServiceMaker = Callable[[str, Mapping[str, Any], Clock, int], Any]
"""Makes a service: `make(name, settings, clock, seed)`."""


def make_service(name: str, type_: str, settings: Mapping[str, Any], clock: Clock, seed: int = 0) -> Any:
    """A service as a file describes it.

    Args:
        name: what it is called.
        type_: `parts_availability`, `maintenance_documents`, `research_assistant`, or one that was registered.
        settings: its settings as YAML gives them, without `_type`. Of a mock service: `workers`, `queue`, `latency`
            (see `Latency.from_data`) and `faults` (see `FaultPlan.from_list`); of the assistant: `guess`, `on_error`,
            `together`, `stock` and `documents` (see `ResearchAssistant`).
        clock: whose time it lives in.
        seed: of everything random; services of different names draw differently from the same seed.

    Raises:
        ServiceError: one sentence about what is wrong; its `path` leads to the setting.

    Example:
        >>> from labkit.timing import VirtualClock
        >>> service = make_service("parts", "parts_availability", {"workers": 2, "queue": 1}, VirtualClock())
        >>> service.name, service.workers
        ('parts', 2)
    """
    make = _SERVICES.get(type_) if isinstance(type_, str) else None
    if make is None:
        raise ServiceError(
            f"service '{name}': there is no service of the type {shown(type_, 40)}{hint(type_, _SERVICES)}", ["_type"]
        )
    if not isinstance(settings, Mapping):
        raise ServiceError(f"service '{name}': its settings are {shown(settings)}; they must be a mapping")
    try:
        return make(name, settings, clock, crc32(f"{seed}/{name}".encode()))
    except ServiceError as error:
        raise ServiceError(f"service '{name}': {error}", error.path) from None


def register_service(type_: str, make: ServiceMaker) -> None:
    """Let files name a further type of service; `make(name, settings, clock, seed)` gives it."""
    _SERVICES[type_] = make


def make_adapter(name: str, service: Any) -> Any:
    """What stands between a service and the middleware: `call` and `stream`.

    Args:
        name: `in_process` (classifies), `swallowing` (turns exceptions into texts), `raise_business` (raises what the
            business says no to), `none` (the service itself), or one that was registered.
        service: what to ask.

    Raises:
        ServiceError: there is no such adapter; names the nearest.
    """
    make = _ADAPTERS.get(name) if isinstance(name, str) else None
    if make is None:
        raise ServiceError(f"there is no adapter {shown(name, 40)}{hint(name, _ADAPTERS)}", ["adapter"])
    return make(service)


def register_adapter(name: str, make: Callable[[Any], Any]) -> None:
    """Let files name a further adapter; `make(service)` gives it."""
    _ADAPTERS[name] = make


def check_settings(settings: Mapping[str, Any], known: Iterable[str]) -> None:
    """Refuse a setting that nobody knows.

    Raises:
        ServiceError: names the nearest.
    """
    known = list(known)
    for key in settings:
        if key not in known:
            raise ServiceError(f"there is no setting {shown(str(key), 40)}{hint(key, known)}", [str(key)])


def _mock(kind: type[MockService[Any]]) -> ServiceMaker:
    def make(name: str, settings: Mapping[str, Any], clock: Clock, seed: int) -> MockService[Any]:
        check_settings(settings, ("workers", "queue", "latency", "faults"))
        queue = settings.get("queue")
        faults = settings.get("faults")
        return kind(
            clock,
            plan=None if faults is None else _under("faults", FaultPlan.from_list, faults),
            latency=_under("latency", Latency.from_data, settings.get("latency", 0.05)),
            workers=settings.get("workers"),
            queue=0 if queue is None else queue,
            seed=seed,
            log_size=0,
            name=name,
        )

    return make


def _assistant(name: str, settings: Mapping[str, Any], clock: Clock, seed: int) -> ResearchAssistant:
    check_settings(settings, ("guess", "on_error", "together", "stock", "documents"))
    given = {key: value for key, value in settings.items() if value is not None}
    return ResearchAssistant(clock, seed=seed, name=name, **given)


def _under(key: str, read: Callable[[Any], Any], data: object) -> Any:
    try:
        return read(data)
    except ServiceError as error:
        raise ServiceError(str(error), [key, *error.path]) from None


_SERVICES: dict[str, ServiceMaker] = {
    PartsAvailability.name: _mock(PartsAvailability),
    MaintenanceDocuments.name: _mock(MaintenanceDocuments),
    ResearchAssistant.name: _assistant,
}

_ADAPTERS: dict[str, Callable[[Any], Any]] = {
    "in_process": InProcessAdapter,
    "swallowing": SwallowingAdapter,
    "raise_business": RaisingAdapter,
    "none": lambda service: service,
}
