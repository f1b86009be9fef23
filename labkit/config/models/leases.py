"""The settings of the leases that probes need (section `leases`), a model a store.

The toolkit has no such section; a file with one is labkit's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field, FiniteFloat

from labkit.config.models.middleware import SECONDS, TypedConfig, setting

__all__ = ["LeaseConfig", "MemoryLeaseConfig", "RedisLeaseConfig", "SqliteLeaseConfig", "lease_types"]


class LeaseConfig(TypedConfig):
    """What the settings of every lease have in common."""

    time_to_live: FiniteFloat = setting(10.0, SECONDS, "Seconds after which a dead owner's lease lapses.", gt=0)
    when_unreachable: Literal["refuse", "admit"] = setting(
        "refuse", "refuse or admit", "What becomes of a probe when the store cannot be asked."
    )
    acquire_timeout: FiniteFloat = setting(1.0, SECONDS, "Seconds that the store has for an answer.", gt=0)


class MemoryLeaseConfig(LeaseConfig):
    """A lease among the replicas of a scenario, or the breakers of one process (`_type: memory`).

    >>> MemoryLeaseConfig().time_to_live
    10.0
    """

    type: Literal["memory"] = Field(default="memory", alias="_type", repr=False)


class SqliteLeaseConfig(LeaseConfig):
    """A lease among the processes of one machine (`_type: sqlite`).

    >>> SqliteLeaseConfig(path="leases.sqlite3").when_unreachable
    'refuse'
    """

    type: Literal["sqlite"] = Field(default="sqlite", alias="_type", repr=False)
    path: str = setting(..., "the path of a file on a disk of this machine", "Where it is kept.", min_length=1)


class RedisLeaseConfig(LeaseConfig):
    """A lease among several machines, on a Redis or Valkey server (`_type: redis`).

    The server must keep what it was told. After FLUSHALL, or a restart without persistence, a lease is gone while its
    probe is running, and another process may probe beside it until the first one's next renewal is refused. Where that
    is too much: a server of its own with `appendonly yes` and `maxmemory-policy noeviction`.

    >>> RedisLeaseConfig(url="redis://127.0.0.1:6379/0").url
    'redis://127.0.0.1:6379/0'
    """

    type: Literal["redis"] = Field(default="redis", alias="_type", repr=False)
    url: str = setting(
        ...,
        "a URL that begins with redis://, rediss:// or unix://",
        "Which server keeps it.",
        pattern=r"^(rediss?|unix)://",
    )


def lease_types() -> Mapping[str, type[LeaseConfig]]:
    """Return every `_type` of a lease, the nearest store first.

    >>> list(lease_types())
    ['memory', 'sqlite', 'redis']
    """
    return {model.static_type(): model for model in (MemoryLeaseConfig, SqliteLeaseConfig, RedisLeaseConfig)}
