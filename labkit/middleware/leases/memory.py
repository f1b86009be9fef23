"""`memory`: leases among the breakers of one process; for scenarios, where the replicas share one store."""

from __future__ import annotations

from labkit.policies import Lease
from labkit.policies.probe_lease import LeaseRecord, acquired, may_release, renewed
from labkit.timing import Clock, LoopClock

__all__ = ["MemoryLeaseStore"]


class MemoryLeaseStore:
    """Keeps the records in a dict. Its methods never wait, so it runs on every clock.

    Args:
        clock: whose time; asyncio's by default.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock: Clock = clock if clock is not None else LoopClock()
        self._records: dict[str, LeaseRecord] = {}
        self._token = 0

    async def acquire(self, key: str, owner: str, time_to_live: float) -> Lease | None:
        """A new lease, or None while anybody has one."""
        record = acquired(self._records.get(key), owner, self._token + 1, time_to_live, self._clock.now())
        if record is None:
            return None
        self._token += 1
        self._records[key] = record
        return Lease(key, owner, self._token, time_to_live, record.expires_at)

    async def renew(self, lease: Lease) -> Lease | None:
        """The lease for its whole time from now on, or None where it has lapsed or is another's."""
        record = renewed(self._records.get(lease.key), lease, self._clock.now())
        if record is None:
            return None
        self._records[lease.key] = record
        return lease._replace(expires_at=record.expires_at)

    async def release(self, lease: Lease) -> bool:
        """Give it back; False where it has lapsed or is another's."""
        if not may_release(self._records.get(lease.key), lease, self._clock.now()):
            return False
        del self._records[lease.key]
        return True
