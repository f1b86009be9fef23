"""At most one recovery probe in a whole deployment: who may hold a lease, and what a lapsed owner may still do.

The rules, and nothing else: each store keeps one record a key and asks these functions what becomes of it (the one on
Redis has the same rules in scripts of the server's). A lease lasts for its time to live and lapses by itself, so that
an owner who dies holds nobody up for longer. Each lease has a higher fencing token than all before it, and renewing or
releasing needs owner and token, so that an owner whose lease has lapsed cannot touch the next one's.
"""

from __future__ import annotations

from typing import NamedTuple

from labkit.policies._machine import Transition

__all__ = ["TRANSITIONS", "Lease", "LeaseRecord", "acquired", "is_held", "may_release", "renewed"]

#: What becomes of a key's record. *mine* means that owner and token are the record's.
TRANSITIONS: tuple[Transition, ...] = (
    Transition("free", "acquire", "", "held", "the next token, lasts time_to_live"),
    Transition("free", "renew", "", "free", "refused"),
    Transition("free", "release", "", "free", "refused"),
    Transition("held", "acquire", "", "held", "refused, whoever asks"),
    Transition("held", "renew", "mine", "held", "lasts time_to_live from now"),
    Transition("held", "renew", "not mine", "held", "refused"),
    Transition("held", "release", "mine", "free", ""),
    Transition("held", "release", "not mine", "held", "refused"),
    Transition("held", "time", "time_to_live over", "free", ""),
)


class Lease(NamedTuple):
    """Leave to probe, for a while.

    Attributes:
        key: what it is about.
        owner: who has it; no two owners ask under one name.
        token: the fencing token.
        time_to_live: seconds that it lasts from when it was given or renewed.
        expires_at: when it lapses, in the seconds of the store's own clock; for reading, not for comparing with others.
    """

    key: str
    owner: str
    token: int
    time_to_live: float
    expires_at: float


class LeaseRecord(NamedTuple):
    """What a store keeps of a key while somebody has its lease: as in `Lease`."""

    owner: str
    token: int
    expires_at: float
    time_to_live: float


def is_held(record: LeaseRecord | None, now: float) -> bool:
    """Whether somebody has the lease.

    One that would last for far longer than it was given for is of before the machine's last start, when its clock
    began anew: it has lapsed.
    """
    return record is not None and 0.0 < record.expires_at - now < 2.0 * record.time_to_live


def acquired(record: LeaseRecord | None, owner: str, token: int, time_to_live: float, now: float) -> LeaseRecord | None:
    """The record once the owner has a new lease, or None where one is held.

    Args:
        record: what the store holds under the key, or None.
        owner: who asks.
        token: the number of this lease, larger than every one before it.
        time_to_live: seconds until it lapses unless it is renewed.
        now: seconds, in the store's time.

    >>> first = acquired(None, "a", 1, 10.0, now=0.0)
    >>> acquired(first, "b", 2, 10.0, now=9.9), acquired(first, "b", 2, 10.0, now=10.0).owner
    (None, 'b')
    """
    return None if is_held(record, now) else LeaseRecord(owner, token, now + time_to_live, time_to_live)


def renewed(record: LeaseRecord | None, lease: Lease, now: float) -> LeaseRecord | None:
    """The record once the lease lasts for its whole time again, or None where it has lapsed or is another's.

    Args:
        record: what the store holds under the key, or None.
        lease: what its owner has.
        now: seconds, in the store's time.
    """
    if record is None or not may_release(record, lease, now):
        return None
    return record._replace(expires_at=now + lease.time_to_live, time_to_live=lease.time_to_live)


def may_release(record: LeaseRecord | None, lease: Lease, now: float) -> bool:
    """Whether the lease is still its owner's, who may then free the key.

    Args:
        record: what the store holds under the key, or None.
        lease: what its owner has.
        now: seconds, in the store's time.

    >>> record = acquired(None, "b", 2, 10.0, now=10.0)
    >>> may_release(record, Lease("parts", "a", 1, 10.0, 10.0), now=11.0)
    False
    """
    if record is None or not is_held(record, now):
        return False
    return (lease.owner, lease.token) == (record.owner, record.token)
