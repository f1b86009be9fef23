"""The picture of a handful of calls: callers, the breaker's ribbon, the dependency, over one axis of seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from labkit.plots.calls.timeline import Period, Span, timeline
from labkit.plots.draw.picture import Picture

if TYPE_CHECKING:
    from labkit.session import Calls

__all__ = ["call_timeline"]

_CHANGES = {"opened": "OPEN", "half_opened": "HALF_OPEN", "closed": "CLOSED"}
_CALLER = {
    "ok": "success",
    "unavailable": "rejection",
    "timed out": "timeout",
    "rejected": "rejection",
    "failed": "failure",
    "refused": "success",
}
_DEPENDENCY = {"answered": "success", "rejected": "success", "cancelled": "cancelled", "abandoned": "cancelled"}


def call_timeline(calls: Calls, *, until: float | None = None, width: float = 860.0) -> Picture:
    """Return the picture of what `labkit.scenario.call_in_turn` gave.

    Args:
        calls: the calls.
        until: where the axis ends, in seconds; a little after the last thing that happens by default.
        width: of the picture, in pixels.
    """
    return timeline(
        [Span(call.started_at, call.ended_at, _CALLER[call.outcome]) for call in calls],
        [Period(event.at, _CHANGES[event.kind]) for event in calls.events if event.kind in _CHANGES],
        [
            Span(one.started, one.ended, _DEPENDENCY.get(one.outcome or "", "failure") if one.outcome else "")
            for one in calls.attempts
        ],
        until=until,
        width=width,
        title=f"Calls of {calls.function}",
    )
