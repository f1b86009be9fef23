"""Leases for probes: at most one recovery probe in a whole deployment.

A store gives a lease to one owner at a time: `memory` within a process, `sqlite` on one machine, `redis` on several.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from labkit.errors import MiddlewareError
from labkit.middleware.leases.memory import MemoryLeaseStore
from labkit.middleware.leases.probe import HeldLease, ProbeLease
from labkit.middleware.leases.store import LeaseStore

if TYPE_CHECKING:
    from labkit.config import LeaseConfig
    from labkit.timing import Clock

__all__ = ["HeldLease", "LeaseStore", "MemoryLeaseStore", "ProbeLease", "make_lease_store"]


def make_lease_store(config: LeaseConfig, clock: Clock | None = None) -> LeaseStore:
    """The store that a configuration describes.

    Raises:
        MiddlewareError: it is of a type that labkit has no store for, or needs a library that is not installed.
    """
    from labkit.config import MemoryLeaseConfig, RedisLeaseConfig, SqliteLeaseConfig

    if isinstance(config, MemoryLeaseConfig):
        return MemoryLeaseStore(clock)
    if isinstance(config, SqliteLeaseConfig):
        from labkit.middleware.leases.sqlite import SqliteLeaseStore

        return SqliteLeaseStore(config.path, busy_timeout=config.acquire_timeout, clock=clock)
    if isinstance(config, RedisLeaseConfig):
        from labkit.middleware.leases.redis import RedisLeaseStore

        return RedisLeaseStore(config.url, timeout=config.acquire_timeout, clock=clock)
    raise MiddlewareError(f"leases of the type '{config.type_}' have no store")
