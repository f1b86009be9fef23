"""Mock dependencies that fail on request, adapters that classify their failures, and the same over real HTTP.

What needs an HTTP library (`PartsAdapter` when it is made, `HttpService`, `HttpServiceThread`) is imported when it is
first used; importing this package needs none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from labkit.services.adapter import InProcessAdapter, PartsAdapter, RaisingAdapter, SwallowingAdapter
from labkit.services.faults.latency import Latency
from labkit.services.faults.plan import HEALTHY, Fault, FaultKind, FaultPlan, Period, Window
from labkit.services.mocks.assistant import Answer, Claim, ResearchAssistant
from labkit.services.mocks.documents import MaintenanceDocuments, SearchHit, SearchReply
from labkit.services.mocks.mock import Attempt, MockService
from labkit.services.mocks.parts import PartsAvailability, StockReply
from labkit.services.registry import make_adapter, make_service, register_adapter, register_service

if TYPE_CHECKING:
    from labkit.services.http.server import HttpService, HttpServiceThread

__all__ = [
    "HEALTHY",
    "Answer",
    "Attempt",
    "Claim",
    "Fault",
    "FaultKind",
    "FaultPlan",
    "HttpService",
    "HttpServiceThread",
    "InProcessAdapter",
    "Latency",
    "MaintenanceDocuments",
    "MockService",
    "PartsAdapter",
    "PartsAvailability",
    "Period",
    "RaisingAdapter",
    "ResearchAssistant",
    "SearchHit",
    "SearchReply",
    "StockReply",
    "SwallowingAdapter",
    "Window",
    "make_adapter",
    "make_service",
    "register_adapter",
    "register_service",
]


if not TYPE_CHECKING:  # a type checker is to say that a name is unknown

    def __getattr__(name: str) -> Any:
        if name in ("HttpService", "HttpServiceThread"):
            from labkit.services.http import server as http_server

            return getattr(http_server, name)
        raise AttributeError(f"module 'labkit.services' has no attribute {name!r}")
