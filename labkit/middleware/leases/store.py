"""What a store of leases must be able to do, whatever keeps its records."""

from __future__ import annotations

from typing import Protocol

from labkit.policies import Lease

__all__ = ["LeaseStore"]


class LeaseStore(Protocol):
    """Gives a key's lease to one owner at a time, by the rules of `labkit.policies.probe_lease`.

    Each method may raise `LeaseError` (or any other `Exception`) where the store cannot be reached.
    """

    async def acquire(self, key: str, owner: str, time_to_live: float) -> Lease | None:
        """A new lease for so many seconds, or None while anybody has one.

        Args:
            key: what the lease is for.
            owner: who asks; a name that nobody else has.
            time_to_live: seconds until the lease lapses unless it is renewed.

        Raises:
            Exception: the store cannot be asked; the probe's lease makes a `LeaseError` of it.
        """

    async def renew(self, lease: Lease) -> Lease | None:
        """The lease for its whole time from now on, or None where it has lapsed or is another's."""

    async def release(self, lease: Lease) -> bool:
        """Give it back; False where it has lapsed or is another's, which then stays as it is."""
