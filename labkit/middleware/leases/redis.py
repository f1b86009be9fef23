"""`redis`: leases among several machines, on a Redis or Valkey server; needs the extra `redis`.

The server's own time counts (`PX`), and each request is one script, so that nobody comes in between. Source of the
pattern: the Redis documentation's lock on a single instance. It is safe as long as the server keeps what it has
acknowledged: after a failover to a replica that had not yet heard of a lease, a second one can be given.

It may also forget everything: FLUSHALL or FLUSHDB, a restart without persistence, a full server whose
`maxmemory-policy` throws keys out. Then the key is free at once: another process may probe beside a probe that is still
running, and the tokens begin again at 1. That costs one probe too many, for half of the lease's time at most. No owner
can touch the other's lease, since none share a name; the first one's next renewal is refused, its probe is ended, and
its outcome counts for nothing, unless it came before that. Where even that is too much, give leases a server of their
own that nobody flushes, with `appendonly yes` and `maxmemory-policy noeviction`.

A connection is made for each request. A deployment asks a few times a recovery, and there is then nothing to keep
alive, to close, or to share between event loops.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from labkit.config.findings import without_password
from labkit.errors import LeaseError, MiddlewareError
from labkit.policies import Lease
from labkit.timing import Clock, LoopClock

if TYPE_CHECKING:
    from redis.asyncio import Redis

__all__ = ["RedisLeaseStore"]

# The braces put all keys into one slot of a cluster, since a script may touch only one.
_PREFIX = "{labkit:lease}:"
_TOKEN = f"{_PREFIX}token"

# KEYS: the lease, the last token. ARGV: owner, then milliseconds, the token and milliseconds, the token.
_ACQUIRE = """
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
local token = redis.call('INCR', KEYS[2])
redis.call('SET', KEYS[1], ARGV[1] .. ' ' .. string.format('%.0f', token), 'NX', 'PX', ARGV[2])
return token
"""
_RENEW = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] .. ' ' .. ARGV[2] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[3])
"""
_RELEASE = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] .. ' ' .. ARGV[2] then return 0 end
return redis.call('DEL', KEYS[1])
"""


class RedisLeaseStore:
    """Keeps the records as keys that the server itself lets lapse.

    Args:
        url: such as "redis://127.0.0.1:6379/0", "rediss://" for TLS, "unix://" for a socket.
        timeout: seconds that a connection, and a reply, may take.
        clock: used for `expires_at` alone, which is for reading; asyncio's by default.

    Raises:
        MiddlewareError: the client library is not installed, or the URL is none.
    """

    def __init__(self, url: str, *, timeout: float = 1.0, clock: Clock | None = None) -> None:
        self._clock: Clock = clock if clock is not None else LoopClock()
        try:
            from redis.asyncio import Redis
            from redis.asyncio.retry import Retry
            from redis.backoff import NoBackoff
            from redis.exceptions import RedisError
        except ImportError:
            raise MiddlewareError(
                "leases on Redis need its client: pip install 'labkit-circuit-breakers[redis]'"
            ) from None
        self._errors = (RedisError, OSError, UnicodeError)  # the last is about a host's name

        def connect() -> Redis:
            return Redis.from_url(
                url, socket_timeout=timeout, socket_connect_timeout=timeout, retry=Retry(NoBackoff(), 0)
            )

        try:
            connect().connection_pool.make_connection()  # type: ignore[no-untyped-call]  # nobody is called yet, but every part of the URL is read
        except (ValueError, TypeError) as error:
            shown = without_password(url)
            why = f": {error}" if shown == url else ""  # else it may quote a part of the password
            raise MiddlewareError(f"'{shown}' is not the URL of a Redis server{why}") from None
        self._connect = connect

    async def acquire(self, key: str, owner: str, time_to_live: float) -> Lease | None:
        """A new lease, or None while anybody has one."""
        token = await self._ask(_ACQUIRE, (_PREFIX + key, _TOKEN), owner, _milliseconds(time_to_live))
        return Lease(key, owner, token, time_to_live, self._clock.now() + time_to_live) if token else None

    async def renew(self, lease: Lease) -> Lease | None:
        """The lease for its whole time from now on, or None where it has lapsed or is another's."""
        milliseconds = _milliseconds(lease.time_to_live)
        if not await self._ask(_RENEW, (_PREFIX + lease.key,), lease.owner, lease.token, milliseconds):
            return None
        return lease._replace(expires_at=self._clock.now() + lease.time_to_live)

    async def release(self, lease: Lease) -> bool:
        """Give it back; False where it has lapsed or is another's."""
        return bool(await self._ask(_RELEASE, (_PREFIX + lease.key,), lease.owner, lease.token))

    async def _ask(self, script: str, keys: tuple[str, ...], *arguments: Any) -> int:
        try:
            async with self._connect() as server:
                return int(await server.eval(script, len(keys), *keys, *arguments))
        except self._errors as error:
            said = without_password(str(error))
            raise LeaseError(f"the leases on Redis cannot be asked for: {said}") from error


def _milliseconds(seconds: float) -> int:
    return max(1, int(seconds * 1000))
