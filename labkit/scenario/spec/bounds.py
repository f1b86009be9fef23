"""How much a run may come to, before it is run: calls, and the attempts that every retry may make of them.

What is counted is what may come at most, with everything failing at once. Only time bounds a retry: its own waits and
`time_budget`, a limit outside of it, the patience of whoever calls, the end of the run. Waits that are drawn at random
count with their mean, since only long rows of them matter here. A breaker bounds nothing: it may stay closed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from labkit.config.models.middleware import RetryBudgetMiddlewareConfig, RetryMiddlewareConfig
from labkit.config.models.stack import StackConfig
from labkit.scenario.spec.arrivals import expected
from labkit.scenario.spec.model import Load, ServiceSpec

__all__ = ["CHUNKS", "MOST", "Bound", "heaviest", "most_of"]

MOST = 5_000_000
"""Attempts that may come in one run: a gigabyte, and some minutes where each is made singly."""

CHUNKS = 5
"""Chunks that a stream may have; each costs about what an attempt costs."""

_STEPS = 10_000  # waits that are looked at one by one


@dataclass(frozen=True, slots=True)
class Bound:
    """What one load may come to.

    Attributes:
        calls: that its callers make, about.
        attempts: at most, chunks included.
        retry: the name of the retry that multiplies most, or None where none does.
        times: by how much that one multiplies.
        tries: how often each caller calls.
    """

    calls: float
    attempts: float
    retry: str | None
    times: float
    tries: int


def most_of(
    load: Load, stack: StackConfig, services: Mapping[str, ServiceSpec], service_of: Mapping[str, str], until: float
) -> Bound:
    """What a load may come to.

    Args:
        load: who calls.
        stack: through which middleware.
        services: by name.
        service_of: which service each function calls, by the function's name.
        until: the latest second of the run, its drain included.
    """
    calls = expected(load)
    time = until - (min(load.at) if load.at else load.begin)
    if load.patience is not None:
        time = min(time, load.patience)
    tries = 1
    waited = 0.0
    for wait in load.retry_waits:
        waited += wait
        if waited > time:
            break
        tries += 1
    counting = _Counting(stack, services, service_of, calls * tries)
    each = counting.function(load.function, time, ())
    chunks = min(load.close_after or CHUNKS, CHUNKS) if load.mode == "stream" else 1
    retry = max(counting.times, key=lambda name: counting.times[name], default=None)
    return Bound(calls, calls * tries * each * chunks, retry, counting.times[retry] if retry else 1.0, tries)


class _Counting:
    """The attempts of one call, layer by layer from the outside in."""

    def __init__(
        self, stack: StackConfig, services: Mapping[str, ServiceSpec], service_of: Mapping[str, str], calls: float
    ) -> None:
        self.stack = stack
        self.services = services
        self.service_of = service_of
        self.calls = calls
        self.times: dict[str, float] = {}  # by what each retry multiplies

    def function(self, name: str, time: float, before: tuple[str, ...]) -> float:
        """Attempts that one call of this function makes, at whatever service."""
        if name not in self.stack.functions or name in before:
            return 0.0
        before = (*before, name)
        product, beside = 1.0, 0.0
        for listed, config in self.stack.layers_of(name).items():
            if isinstance(config, RetryMiddlewareConfig):
                times = self._retry(config, time)
                if times > 1.0:
                    self.times[listed] = max(times, self.times.get(listed, 0.0))
                product *= times
            elif (limit := getattr(config, "timeout", None)) is not None:
                time = min(time, limit)
            elif (other := getattr(config, "alternative", None)) is not None:
                beside += product * self.function(other, time, before)
        inside = 1.0
        spec = self.services.get(self.service_of.get(name, ""))
        for key in ("stock", "documents") if spec is not None else ():  # whom an assistant asks in turn
            asked = spec.settings.get(key) if spec is not None else None
            if isinstance(asked, str):
                inside += self.function(asked, time, before)
        return product * inside + beside

    def _retry(self, config: RetryMiddlewareConfig, time: float) -> float:
        if not config.retry_on:
            return 1.0
        if config.time_budget is not None:
            time = min(time, config.time_budget)
        times = 1.0 + _retries(config, time)
        budget = self.stack.middleware.get(config.budget) if config.budget is not None else None
        if isinstance(budget, RetryBudgetMiddlewareConfig) and budget.enabled:
            saved = budget.max_tokens if budget.initial_tokens is None else budget.initial_tokens
            times = min(times, 1.0 + budget.ratio + saved / max(1.0, self.calls))
        return times


def _retries(config: RetryMiddlewareConfig, time: float) -> float:
    """How many waits fit into a time, at most as many as there are attempts after the first."""
    most = float(min(config.attempts - 1, 10**18))
    if config.base_delay == 0.0 or config.max_delay == 0.0:
        return most
    share = 0.5 if config.jitter == "full" else 1.0
    wait, waited = min(config.base_delay, config.max_delay), 0.0
    for number in range(int(min(most, _STEPS))):
        waited += wait * share
        if waited > time:
            # A single wait may be as short as one likes where it is drawn, and a few of them as well.
            return min(most, number + (4.0 if share < 1.0 else 0.0))
        if config.factor == 1.0 or wait >= config.max_delay:
            return min(most, number + 1 + math.ceil(max(0.0, time - waited) / (wait * share)))
        wait = min(config.max_delay, wait * config.factor)
    return min(most, _STEPS + max(0.0, time - waited) / (wait * share))


def heaviest(bounds: Sequence[Bound]) -> int:
    """The place of the load that may come to the most."""
    return max(range(len(bounds)), key=lambda place: bounds[place].attempts)
