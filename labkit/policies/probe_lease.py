"""At most one recovery probe in a whole deployment: who may hold a lease, and what a lapsed owner may still do.

The rules, and nothing else: each store keeps one record a key and asks these functions what becomes of it (the one on
Redis has the same rules in scripts of the server's). A lease lasts for its time to live and lapses by itself, so that
an owner who dies holds nobody up for longer. Each new lease of a key has a higher fencing token, and renewing or
releasing needs owner and token, so that an owner whose lease has lapsed cannot touch the next one's.
"""

from __future__ import annotations

from typing import NamedTuple

from labkit.policies._machine import Transition

__all__ = ["TRANSITIONS", "Lease", "LeaseRecord", "acquired", "is_held", "released", "renewed"]

#: What becomes of a key's record. *mine* means that owner and token are the record's.
TRANSITIONS: tuple[Transition, ...] = (
    Transition("free", "acquire", "", "held", "token + 1, lasts time_to_live"),
    Transition("free", "renew", "", "free", "refused"),
    Transition("free", "release", "", "free", "refused"),
    Transition("held", "acquire", "", "held", "refused, whoever asks"),
    Transition("held", "renew", "mine", "held", "lasts time_to_live from now"),
    Transition("held", "renew", "not mine", "held", "refused"),
    Transition("held", "release", "mine", "free", "the token is kept"),
    Transition("held", "release", "not mine", "held", "refused"),
    Transition("held", "time", "time_to_live over", "free", "the token is kept"),
)


class Lease(NamedTuple):
    """Leave to probe, for a while.

    Attributes:
        key: what it is about.
        owner: who has it; no two owners ask under one name.
        token: the fencing token: higher with each new lease of the key.
        time_to_live: seconds that it lasts from when it was given or renewed.
        expires_at: when it lapses, in the seconds of the store's own clock; for reading, not for comparing with others.
    """

    key: str
    owner: str
    token: int
    time_to_live: float
    expires_at: float


class LeaseRecord(NamedTuple):
    """What a store keeps of a key.

    Attributes:
        owner: who has the lease; "" once it was released.
        token: of the latest lease.
        expires_at: when that lapses, in the store's seconds.
        time_to_live: the seconds that it was given for.
    """

    owner: str = ""
    token: int = 0
    expires_at: float = 0.0
    time_to_live: float = 0.0


def is_held(record: LeaseRecord, now: float) -> bool:
    """Whether somebody has the lease.

    One that would last for far longer than it was given for is of before the machine's last start, when its clock
    began anew: it has lapsed.
    """
    return bool(record.owner) and 0.0 < record.expires_at - now < 2.0 * record.time_to_live


def acquired(record: LeaseRecord, owner: str, time_to_live: float, now: float) -> LeaseRecord | None:
    """The record once the owner has a new lease, or None where one is held.

    >>> first = acquired(LeaseRecord(), "a", 10.0, now=0.0)
    >>> first.token, acquired(first, "b", 10.0, now=9.9), acquired(first, "b", 10.0, now=10.0).token
    (1, None, 2)
    """
    if is_held(record, now):
        return None
    return LeaseRecord(owner, record.token + 1, now + time_to_live, time_to_live)


def renewed(record: LeaseRecord, lease: Lease, now: float) -> LeaseRecord | None:
    """The record once the lease lasts for its whole time again, or None where it has lapsed or is another's."""
    if not (is_held(record, now) and _is_of(lease, record)):
        return None
    return record._replace(expires_at=now + lease.time_to_live, time_to_live=lease.time_to_live)


def released(record: LeaseRecord, lease: Lease, now: float) -> LeaseRecord | None:
    """The record once the lease is given back, or None where it has lapsed or is another's.

    >>> record = acquired(LeaseRecord(), "a", 10.0, now=0.0)
    >>> released(record, Lease("parts", "b", 1, 10.0, 10.0), now=1.0) is None
    True
    """
    if not (is_held(record, now) and _is_of(lease, record)):
        return None
    return LeaseRecord(token=record.token)


def _is_of(lease: Lease, record: LeaseRecord) -> bool:
    return (lease.owner, lease.token) == (record.owner, record.token)
