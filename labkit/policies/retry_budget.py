"""Retries, but at most a share of the requests: a token bucket for each target. labkit's own.

Every first attempt earns `ratio` tokens, every retry spends one, and where none is left nothing is retried. So of any
stretch of traffic with n first attempts at most `max_tokens + ratio * n` were retries, however many callers there are:
in an outage the dependency sees little more than the requests themselves. A minimum of retries per second is left out
on purpose: it would let idle callers, who are many, retry into an outage all the same, and the bucket would need the
time. What a quiet target needs, the bucket holds: it starts with `initial_tokens`.

How it is stored. A bucket that is as full as a fresh one is not kept. Of the others at most `max_targets` are, and the
one that was used least recently goes first: names that are used once, as those that come from a request, do not pile
up, and whoever comes back after so many others begins with a fresh bucket.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

from labkit.policies._machine import Transition

__all__ = ["TRANSITIONS", "RetryBudgetPolicy", "RetryBudgetSnapshot"]

#: FUNDED: at least one token is there. EMPTY: less than one.
TRANSITIONS: tuple[Transition, ...] = (
    Transition("FUNDED", "first attempt", "", "FUNDED", "tokens + ratio, at most max_tokens"),
    Transition("FUNDED", "retry", "tokens >= 2", "FUNDED", "allowed, tokens - 1"),
    Transition("FUNDED", "retry", "tokens < 2", "EMPTY", "allowed, tokens - 1"),
    Transition("EMPTY", "first attempt", "tokens + ratio < 1", "EMPTY", "tokens + ratio, at most max_tokens"),
    Transition("EMPTY", "first attempt", "tokens + ratio >= 1", "FUNDED", "tokens + ratio, at most max_tokens"),
    Transition("EMPTY", "retry", "", "EMPTY", "refused"),
)

_TOKEN = 1_000_000  # tokens are counted in millionths: ten times 0.1 is one, which it is not in floats


class RetryBudgetSnapshot(NamedTuple):
    """What a budget holds for one target.

    Attributes:
        tokens: how many retries it would allow now, with the fraction that is saved towards the next.
    """

    tokens: float


class RetryBudgetPolicy:
    """The bucket, for any number of targets.

    Args:
        ratio: tokens that a first attempt earns, above 0 and at most 1.
        max_tokens: what a bucket holds, 1 or more.
        initial_tokens: what it starts with, from 0 to `max_tokens`; None: full.
        max_targets: how many buckets are kept that differ from a fresh one, above 0.

    Attributes:
        entries: what is in each bucket that differs from a fresh one, in millionths; least recently used first.

    Example:
        >>> policy = RetryBudgetPolicy(ratio=0.5, max_tokens=1)
        >>> policy.spend("parts"), policy.spend("parts")
        (True, False)
        >>> policy.earn("parts"); policy.earn("parts"); policy.spend("parts")
        True
    """

    __slots__ = ("_initial", "_max", "_ratio", "entries", "max_targets")

    def __init__(
        self,
        ratio: float = 0.1,
        max_tokens: float = 10.0,
        initial_tokens: float | None = None,
        *,
        max_targets: int = 10_000,
    ) -> None:
        self._ratio = round(ratio * _TOKEN)
        self._max = round(max_tokens * _TOKEN)
        self._initial = self._max if initial_tokens is None else round(initial_tokens * _TOKEN)
        self.max_targets = max_targets
        self.entries: OrderedDict[str, int] = OrderedDict()

    def earn(self, target: str) -> None:
        """A request is made."""
        tokens = self.entries.get(target, self._initial)
        if tokens < self._max:
            self._keep(target, min(self._max, tokens + self._ratio))
        elif target in self.entries:
            self.entries.move_to_end(target)

    def spend(self, target: str) -> bool:
        """Take a token for a retry; False when there is none, and then there must be no retry."""
        tokens = self.entries.get(target, self._initial) - _TOKEN
        if tokens < 0:
            return False
        self._keep(target, tokens)
        return True

    def snapshot(self, target: str) -> RetryBudgetSnapshot:
        """What is held for a target; asking does not create it."""
        return RetryBudgetSnapshot(self.entries.get(target, self._initial) / _TOKEN)

    def _keep(self, target: str, tokens: int) -> None:
        entries = self.entries
        if tokens == self._initial:
            entries.pop(target, None)
        else:
            entries[target] = tokens
            entries.move_to_end(target)
            if len(entries) > self.max_targets:
                entries.popitem(last=False)
