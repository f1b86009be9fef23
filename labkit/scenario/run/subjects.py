"""What the callers of a scenario ask for."""

from __future__ import annotations

from labkit.scenario.spec.model import Load, Scenario

__all__ = ["ASSISTANT", "subjects_of"]

ASSISTANT = "research_assistant"
"""The `_type` of a service that calls tools of its own, and so is each replica's own."""

_PART = ("HX-2040",)
_SUBJECTS = {
    "parts_availability": _PART,
    "maintenance_documents": ("replace the seal kit",),
    ASSISTANT: ("How many HX-2040 are in stock, and how is the seal replaced?",),
}


def subjects_of(scenario: Scenario, load: Load) -> tuple[str, ...]:
    """What a load asks for, in turn; where it does not say, what is usual for the service behind its function."""
    if load.subjects:
        return load.subjects
    service = scenario.service_of(load.function)
    return _SUBJECTS.get(scenario.services[service].type_, _PART) if service else _PART
