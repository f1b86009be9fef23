"""`sqlite`: leases among the processes of one machine, in a file; nothing has to be started for it.

Whose time: the clock's. asyncio's is the machine's monotonic clock, which is one for all processes since the machine
was started, and which no correction of the date moves; SQLite's own `'now'` is the date, and one step of it would end
all leases early, or none in time. After a restart the monotonic clock begins anew; `is_held` knows the records of
before.

The time is read before the file's lock is waited for. So a lease may lapse a little early, and none is taken early.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import weakref
from collections.abc import Callable
from contextlib import suppress
from threading import Lock
from typing import TypeVar

from labkit.errors import LeaseError
from labkit.policies import Lease
from labkit.policies.probe_lease import LeaseRecord, acquired, may_release, renewed
from labkit.timing import Clock, LoopClock

__all__ = ["SqliteLeaseStore"]

T = TypeVar("T")

_SCHEMA = """
CREATE TABLE IF NOT EXISTS leases (
    key TEXT PRIMARY KEY,
    owner TEXT NOT NULL, token INTEGER NOT NULL, expires_at REAL NOT NULL, time_to_live REAL NOT NULL
);
CREATE INDEX IF NOT EXISTS lapsing ON leases (expires_at);
CREATE TABLE IF NOT EXISTS last_token (value INTEGER NOT NULL);
INSERT INTO last_token SELECT 0 WHERE NOT EXISTS (SELECT * FROM last_token);
"""


class SqliteLeaseStore:
    """Keeps the records in a SQLite file, which it makes when it is first asked.

    The file must be on a disk of this machine: SQLite's locks are not to be trusted on network shares.

    Args:
        path: the file; its folder must be there.
        busy_timeout: seconds to wait for another process that is writing; each takes well under a millisecond.
        clock: whose time; asyncio's by default, and no other is shared by several processes.
    """

    def __init__(self, path: str | os.PathLike[str], *, busy_timeout: float = 1.0, clock: Clock | None = None) -> None:
        self._path = os.fspath(path)
        self._busy_timeout = busy_timeout
        self._clock: Clock = clock if clock is not None else LoopClock()
        self._database: sqlite3.Connection | None = None
        self._lock = Lock()  # one connection, and a thread of the loop's pool for each request

    async def acquire(self, key: str, owner: str, time_to_live: float) -> Lease | None:
        """A new lease, or None while anybody has one."""
        now = self._clock.now()

        def decide(database: sqlite3.Connection) -> Lease | None:
            (last,) = database.execute("SELECT value FROM last_token").fetchone()
            record = acquired(_read(database, key), owner, last + 1, time_to_live, now)
            if record is None:
                return None
            database.execute("UPDATE last_token SET value = ?", (record.token,))
            database.execute("DELETE FROM leases WHERE expires_at <= ?", (now,))  # whose owners died
            _write(database, key, record)
            return Lease(key, owner, record.token, time_to_live, record.expires_at)

        return await self._ask(decide)

    async def renew(self, lease: Lease) -> Lease | None:
        """The lease for its whole time from now on, or None where it has lapsed or is another's."""
        now = self._clock.now()

        def decide(database: sqlite3.Connection) -> Lease | None:
            record = renewed(_read(database, lease.key), lease, now)
            if record is None:
                return None
            _write(database, lease.key, record)
            return lease._replace(expires_at=record.expires_at)

        return await self._ask(decide)

    async def release(self, lease: Lease) -> bool:
        """Give it back; False where it has lapsed or is another's."""
        now = self._clock.now()

        def decide(database: sqlite3.Connection) -> bool:
            if not may_release(_read(database, lease.key), lease, now):
                return False
            database.execute("DELETE FROM leases WHERE key = ?", (lease.key,))
            return True

        return await self._ask(decide)

    async def _ask(self, decide: Callable[[sqlite3.Connection], T]) -> T:
        return await asyncio.to_thread(self._transact, decide)

    def _transact(self, decide: Callable[[sqlite3.Connection], T]) -> T:
        with self._lock:
            try:
                database = self._database or self._open()
                database.execute("BEGIN IMMEDIATE")  # to write what was decided on what was read
                try:
                    answer = decide(database)
                    database.execute("COMMIT")
                finally:
                    if database.in_transaction:
                        database.execute("ROLLBACK")
            except sqlite3.Error as error:
                raise LeaseError(f"the leases in '{self._path}' cannot be read or written: {error}") from error
            return answer

    def _open(self) -> sqlite3.Connection:
        database = sqlite3.connect(
            self._path, timeout=self._busy_timeout, isolation_level=None, check_same_thread=False
        )
        try:
            with suppress(sqlite3.OperationalError):  # while another process switches or reads, SQLite does not wait
                database.execute("PRAGMA journal_mode = WAL")  # kept in the file; the rest holds without it, slower
            database.execute("PRAGMA synchronous = NORMAL")
            database.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} COMMIT;")
        except BaseException:
            database.close()
            raise
        self._database = database
        weakref.finalize(self, database.close)
        return database


def _read(database: sqlite3.Connection, key: str) -> LeaseRecord | None:
    row = database.execute("SELECT owner, token, expires_at, time_to_live FROM leases WHERE key = ?", (key,)).fetchone()
    return None if row is None else LeaseRecord(*row)


def _write(database: sqlite3.Connection, key: str, record: LeaseRecord) -> None:
    database.execute("INSERT OR REPLACE INTO leases VALUES (?, ?, ?, ?, ?)", (key, *record))
