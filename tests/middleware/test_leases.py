"""Stores of leases: one suite for all three, on real files and a real server; and a breaker's side of a lease."""

from __future__ import annotations

import asyncio
import shutil
import socket
import sqlite3
import subprocess
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from labkit.config import (
    GuardedCircuitBreakerMiddlewareConfig,
    MemoryLeaseConfig,
    RedisLeaseConfig,
    SqliteLeaseConfig,
    load_stack_config,
)
from labkit.errors import CircuitBreakerOpenError, DependencyError, LeaseError, MiddlewareError
from labkit.middleware import (
    BreakerEvent,
    FunctionMiddlewareChain,
    FunctionMiddlewareContext,
    GuardedCircuitBreakerMiddleware,
    LeaseStore,
    MemoryLeaseStore,
    ProbeLease,
    Stack,
)
from labkit.middleware.leases import make_lease_store
from labkit.policies import Lease
from labkit.timing import LoopClock, VirtualClock, run_virtual

LIFE = 0.3  # seconds; short where a test waits for a lease to lapse


def free_port() -> int:
    """A port of the loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Redis or Valkey server of this module's own, which ends with it."""
    pytest.importorskip("redis", reason="the client library is not installed (the extra 'redis')")
    program = shutil.which("redis-server") or shutil.which("valkey-server")
    if program is None:
        pytest.skip("no redis-server or valkey-server on this machine (apt-get install redis-server)")
    port = free_port()
    command = [program, "--bind", "127.0.0.1", "--port", str(port), "--save", "", "--appendonly", "no"]
    server = subprocess.Popen(
        command, cwd=tmp_path_factory.mktemp("redis"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        asyncio.run(listening(port))
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        server.kill()
        server.wait(30.0)


async def listening(port: int) -> None:
    """Return once somebody listens on the port."""
    async with asyncio.timeout(30.0):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.02)
                continue
            writer.close()
            await writer.wait_closed()
            return


Make = Callable[[], LeaseStore]


@pytest.fixture(params=["memory", "sqlite", "redis"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    """Makes stores that share their records, as several processes' do."""
    if request.param == "memory":
        store = make_lease_store(MemoryLeaseConfig())
        return lambda: store
    if request.param == "sqlite":
        return lambda: make_lease_store(SqliteLeaseConfig(path=str(tmp_path / "leases.sqlite3"), acquire_timeout=10.0))
    url = request.getfixturevalue("redis_url")
    return lambda: make_lease_store(RedisLeaseConfig(url=url, acquire_timeout=10.0))


@pytest.fixture
def key(request: pytest.FixtureRequest) -> str:
    """A key of this test's own: the server outlives the test."""
    return str(request.node.name)


def test_one_owner_at_a_time(make: Make, key: str) -> None:
    """While one has the lease nobody gets it, not even the same owner again; other keys are other leases."""

    async def main() -> None:
        one, other = make(), make()
        lease = await one.acquire(key, "a", 60.0)
        assert lease is not None
        assert (lease.key, lease.owner, lease.time_to_live) == (key, "a", 60.0)
        assert 0.0 < lease.expires_at - LoopClock().now() <= 60.0
        assert await other.acquire(key, "b", 60.0) is None
        assert await one.acquire(key, "a", 60.0) is None
        assert await other.acquire(f"{key} 2", "b", 60.0) is not None

    asyncio.run(main())


def test_a_lease_that_is_given_back_is_free_at_once(make: Make, key: str) -> None:
    """Release frees the key; the next lease has a higher token; the old lease can then do nothing any more."""

    async def main() -> None:
        one, other = make(), make()
        first = await one.acquire(key, "a", 60.0)
        assert first is not None
        assert await one.release(first) is True
        assert await one.release(first) is False
        second = await other.acquire(key, "b", 60.0)
        assert second is not None
        assert second.token > first.token
        assert await one.renew(first) is None
        assert await one.release(first) is False
        assert await one.acquire(key, "a", 60.0) is None

    asyncio.run(main())


def test_owner_and_token_must_both_fit(make: Make, key: str) -> None:
    """The same owner with an old token, and another owner with the token, can neither renew nor release it."""

    async def main() -> None:
        store = make()
        old = await store.acquire(key, "a", 60.0)
        assert old is not None
        assert await store.release(old)
        lease = await store.acquire(key, "a", 60.0)
        assert lease is not None
        for wrong in (old, lease._replace(owner="b")):
            assert await store.renew(wrong) is None
            assert await store.release(wrong) is False
        assert await store.acquire(key, "c", 60.0) is None
        renewed = await store.renew(lease._replace(time_to_live=90.0))
        assert renewed is not None
        assert renewed[:4] == (key, "a", lease.token, 90.0)
        assert lease.expires_at + 29.0 < renewed.expires_at <= LoopClock().now() + 90.0
        assert await store.release(lease) is True

    asyncio.run(main())


def test_a_lease_lapses_and_its_owner_is_fenced_off(make: Make, key: str) -> None:
    """After its time to live the lease is another's, and the late owner can neither renew nor release it."""

    async def main() -> None:
        one, other = make(), make()
        late = await one.acquire(key, "a", LIFE)
        assert late is not None
        second = await eventually(lambda: other.acquire(key, "b", 60.0))
        assert second.token > late.token
        assert await one.renew(late) is None
        assert await one.release(late) is False
        assert await one.acquire(key, "c", 60.0) is None

    asyncio.run(main())


def test_renewing_makes_it_last(make: Make, key: str) -> None:
    """A renewed lease lasts for its whole time from then on, whatever it was given for; and no longer."""

    async def main() -> None:
        one, other, clock = make(), make(), LoopClock()
        async with asyncio.timeout(30.0):
            while True:
                lease = await eventually(lambda: one.acquire(key, "a", 1.0))
                ends = clock.now() + 1.0
                renewed = await one.renew(lease._replace(time_to_live=60.0))
                if renewed is not None:
                    break  # else this machine stood still for a second
        await clock.sleep(ends - clock.now() + 0.1)
        assert await other.acquire(key, "b", 60.0) is None
        assert await one.renew(renewed._replace(time_to_live=LIFE)) is not None
        await eventually(lambda: other.acquire(key, "b", 60.0))

    asyncio.run(main())


def test_a_crowd_gets_one_lease(make: Make, key: str) -> None:
    """Of forty that ask at the same moment through four stores exactly one gets the lease."""

    async def main() -> None:
        stores = [make() for _ in range(4)]
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(stores[n % 4].acquire(key, f"owner {n}", 60.0)) for n in range(40)]
        assert sum(one.result() is not None for one in asked) == 1

    asyncio.run(main())


async def eventually(ask: Callable[[], Coroutine[Any, Any, Lease | None]]) -> Lease:
    """What it gives once it gives anything."""
    async with asyncio.timeout(30.0):
        while True:
            found = await ask()
            if found is not None:
                return found
            await asyncio.sleep(0.02)


async def opened(store: LeaseStore, key: str, service: Callable[[], Any]) -> tuple[Any, Callable[..., Any]]:
    """A breaker that has opened, whose cooldown is over and whose probes need the store's lease, and its call."""
    config = GuardedCircuitBreakerMiddlewareConfig(failure_threshold=1, cooldown_period=1e-9, probe_lease="probe")
    lease = ProbeLease(store, name="probe", time_to_live=LIFE, acquire_timeout=10.0)
    breaker = GuardedCircuitBreakerMiddleware(config, lease=lease)
    failing = True

    async def behind() -> Any:
        if failing:
            raise DependencyError("down")
        return await service()

    chain = FunctionMiddlewareChain(middleware=[breaker], context=FunctionMiddlewareContext(name=key))
    call = chain.build_single(behind)
    with pytest.raises(DependencyError):
        await call()
    failing = False
    return breaker, call


@pytest.mark.parametrize("answer", ["ok", DependencyError("down")], ids=["ok", "error"])
def test_a_probe_that_blocked_its_loop_past_the_lease_decides_nothing(make: Make, key: str, answer: Any) -> None:
    """Another took the lapsed lease while the loop stood still: the first's outcome changes no state, and is passed on.

    Nothing on the first's loop could notice: its keeper had no turn.
    """

    async def service() -> Any:
        other: list[Lease] = []
        thread = threading.Thread(
            target=lambda: other.append(
                asyncio.run(eventually(lambda: make().acquire(f"probe/{key}", "somebody else", 60.0)))
            )
        )
        thread.start()
        thread.join(30.0)  # and so nothing else runs on this loop until the other has the lease
        assert other
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def main() -> None:
        breaker, call = await opened(make(), key, service)
        told: list[BreakerEvent] = []
        breaker.listen(told.append)
        found: Any = None
        async with asyncio.timeout(60.0):
            while found is None:
                try:
                    found = await call()
                except DependencyError as error:
                    found = error
                except (CircuitBreakerOpenError, LeaseError):  # this machine stood still before the probe began
                    await asyncio.sleep(0.02)
        assert found is answer
        snapshot = breaker.snapshot(key)
        assert (str(snapshot.state), snapshot.probing) == ("HALF_OPEN", False)
        assert [event.kind for event in told[-2:]] == ["admitted", "cancelled"]
        assert await got(call()) is CircuitBreakerOpenError  # the other has it still

    asyncio.run(main())


# -- what a Redis server may forget ------------------------------------------------------------------------------------


def test_a_redis_server_that_was_emptied_gives_a_second_lease_and_renews_no_first(redis_url: str, key: str) -> None:
    """After FLUSHALL the key is free and tokens begin anew; the first owner can neither renew nor release it."""
    from redis.asyncio import Redis

    async def main() -> None:
        one, other = (make_lease_store(RedisLeaseConfig(url=redis_url, acquire_timeout=10.0)) for _ in range(2))
        async with Redis.from_url(redis_url) as server:
            await server.flushall()
            first = await one.acquire(key, "a", 60.0)
            assert first is not None
            await server.flushall()
        second = await other.acquire(key, "b", 60.0)
        assert second is not None
        assert second.token == first.token
        assert await one.renew(first) is None
        assert await one.release(first) is False
        assert await one.acquire(key, "c", 60.0) is None

    asyncio.run(main())


# -- what cannot be reached --------------------------------------------------------------------------------------------


def test_a_store_that_cannot_be_reached_says_so(tmp_path: Path) -> None:
    """A file in a folder that is not there, a file that is no database, a port without a server: one error, named."""
    (tmp_path / "text").write_text("this is no database, and it is long enough to be read as one" * 20)
    configs: list[Any] = [SqliteLeaseConfig(path=str(tmp_path / name)) for name in ("gone/leases", "text")]
    if shutil.which("redis-server") or shutil.which("valkey-server"):
        configs.append(RedisLeaseConfig(url=f"redis://127.0.0.1:{free_port()}/0"))
    for config in configs:
        with pytest.raises(LeaseError, match="leases"):
            asyncio.run(make_lease_store(config).acquire("parts", "a", 10.0))


def test_a_url_that_is_none_is_refused_when_the_store_is_made() -> None:
    """A URL with a port that is no number is one sentence, before anything is asked."""
    pytest.importorskip("redis", reason="the client library is not installed (the extra 'redis')")
    with pytest.raises(MiddlewareError, match="is not the URL of a Redis server"):
        make_lease_store(RedisLeaseConfig(url="redis://localhost:port"))


def test_a_store_waits_for_whoever_makes_the_file(tmp_path: Path) -> None:
    """SQLite refuses at once to change the journal of a file being written, as when replicas start: a store waits."""
    from labkit.middleware.leases.sqlite import SqliteLeaseStore

    path = tmp_path / "leases.sqlite3"

    async def main(writer: sqlite3.Connection) -> Lease | None:
        writer.execute("BEGIN IMMEDIATE")
        asyncio.get_running_loop().call_later(0.1, writer.rollback)
        return await SqliteLeaseStore(path, busy_timeout=30.0).acquire("parts", "a", 60.0)

    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        assert asyncio.run(main(writer)) is not None


def test_a_restart_of_the_machine_frees_every_lease(tmp_path: Path) -> None:
    """The machine's clock begins anew at a restart: a lease of before lies far in its future, and has lapsed."""

    class Restarted(LoopClock):
        def now(self) -> float:
            return 5.0

    path = tmp_path / "leases.sqlite3"

    async def main() -> Lease | None:
        from labkit.middleware.leases.sqlite import SqliteLeaseStore

        assert await SqliteLeaseStore(path, clock=Later()).acquire("parts", "a", 10.0) is not None
        return await SqliteLeaseStore(path, clock=Restarted()).acquire("parts", "b", 10.0)

    class Later(LoopClock):
        def now(self) -> float:
            return 1e6

    assert asyncio.run(main()) is not None


# -- a breaker's side, in virtual time ---------------------------------------------------------------------------------


class Replicas:
    """Breakers with one threshold, cooldown 10 s, that share a store; each probe of theirs is on record."""

    def __init__(self, store: Any = None, count: int = 2, **lease: Any) -> None:
        self.clock = VirtualClock()
        self.store = store if store is not None else MemoryLeaseStore(self.clock)
        self.events: list[BreakerEvent] = []
        self.running = self.peak = 0
        self.breakers = []
        self.calls: list[Callable[..., Any]] = []
        for _ in range(count):
            probe_lease = ProbeLease(self.store, clock=self.clock, **lease)
            config = GuardedCircuitBreakerMiddlewareConfig(
                failure_threshold=1, cooldown_period=10.0, probe_lease="probe", probe_hold=100.0
            )
            breaker = GuardedCircuitBreakerMiddleware(config, clock=self.clock, lease=probe_lease)
            breaker.listen(self.events.append)
            self.breakers.append(breaker)
            chain = FunctionMiddlewareChain(middleware=[breaker], context=FunctionMiddlewareContext(name="parts"))
            self.calls.append(chain.build_single(self.service))
        self.stream = chain.build_stream(self.chunks)

    async def service(self, answer: Any = "ok", seconds: float = 0.0) -> Any:
        """Takes its time, then answers or raises."""
        self.running += 1
        self.peak = max(self.peak, self.running)
        try:
            await self.clock.sleep(seconds)
            if isinstance(answer, BaseException):
                raise answer
            return answer
        finally:
            self.running -= 1

    async def chunks(self) -> Any:
        """Two chunks, a second each."""
        for chunk in "ab":
            await self.clock.sleep(1.0)
            yield chunk

    async def trip(self) -> None:
        """Open all of them, and let the cooldown pass."""
        for call in self.calls:
            with pytest.raises(DependencyError):
                await call(DependencyError("down"))
        await self.clock.sleep(10.0)
        self.events.clear()
        self.peak = 0

    def run(self, main: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Trip them, and play."""

        async def whole() -> Any:
            await self.trip()
            return await main()

        return self.clock.run(whole())

    @property
    def kinds(self) -> list[str]:
        """What was told."""
        return [event.kind for event in self.events]


async def got(call: Any) -> Any:
    """What the caller gets, or the exception's class."""
    try:
        return await call
    except Exception as error:
        return type(error)


def test_only_one_replica_probes() -> None:
    """While one replica probes, the other rejects, tells that the lease is why, and probes once it is free."""
    replicas = Replicas()
    one, other = replicas.calls

    async def main() -> None:
        probe = replicas.clock.start(one("ok", 3.0))
        await replicas.clock.sleep(1.0)
        replicas.events.clear()
        with pytest.raises(CircuitBreakerOpenError) as refused:
            await other()
        assert (refused.value.target, refused.value.retry_after) == ("parts", None)
        assert replicas.kinds == ["half_opened", "lease_refused", "rejected"]
        assert replicas.breakers[1].snapshot("parts").probing is False
        assert await probe == "ok"
        assert await other() == "ok"
        assert replicas.breakers[1].snapshot("parts").state == "CLOSED"

    replicas.run(main)
    assert replicas.peak == 1


def test_a_long_probe_keeps_its_lease() -> None:
    """A probe of five times the time to live is never joined by another replica's."""
    replicas = Replicas(time_to_live=4.0)
    one, other = replicas.calls

    async def main() -> None:
        probe = replicas.clock.start(one("ok", 20.0))
        for _ in range(19):
            await replicas.clock.sleep(1.0)
            assert await got(other()) is CircuitBreakerOpenError
        assert await probe == "ok"
        assert await other() == "ok"

    replicas.run(main)
    assert replicas.peak == 1


@pytest.mark.parametrize("fails_at", [None, 10.0])
def test_a_lease_is_renewed_at_half_of_its_time_again_and_again(fails_at: float | None) -> None:
    """A lease of 10 s is renewed every 5 s, not the first time alone; after a renewal that failed, soon again."""
    asked: list[float] = []

    class Counting(MemoryLeaseStore):
        async def renew(self, lease: Lease) -> Lease | None:
            asked.append(self._clock.now() - began)
            if asked[-1] == fails_at:
                raise LeaseError("cut off")
            return await super().renew(lease)

    store = Counting()
    replicas = Replicas(store, count=1, time_to_live=10.0)
    store._clock = replicas.clock
    began = 10.0  # the cooldown

    async def main() -> None:
        assert await replicas.calls[0]("ok", 33.0) == "ok"

    replicas.run(main)
    assert asked == ([5, 10, 15, 20, 25, 30] if fails_at is None else [5, 10, 11.25, 16.25, 21.25, 26.25, 31.25])


@pytest.mark.parametrize("kind", ["single", "stream"])
@pytest.mark.parametrize(("blocked", "state"), [(3.9, "CLOSED"), (4.0, "HALF_OPEN")])
def test_the_time_decides_and_not_whether_somebody_noticed(kind: str, blocked: float, state: str) -> None:
    """A loop that stands still for all of the lease's 4 s and then gives the answer at once: it counts no more."""
    clock = LoopClock()
    config = GuardedCircuitBreakerMiddlewareConfig(failure_threshold=1, cooldown_period=10.0, probe_lease="probe")
    lease = ProbeLease(MemoryLeaseStore(clock), time_to_live=4.0, clock=clock)
    breaker = GuardedCircuitBreakerMiddleware(config, clock=clock, lease=lease)
    chain = FunctionMiddlewareChain(middleware=[breaker], context=FunctionMiddlewareContext(name="parts"))
    failing = True

    async def service() -> str:
        if failing:
            raise DependencyError("down")
        asyncio.get_running_loop()._virtual_now += blocked  # type: ignore[attr-defined]  # as time.sleep() would
        return "ok"

    async def chunks() -> Any:
        yield await service()

    async def main() -> None:
        nonlocal failing
        call, stream = chain.build_single(service), chain.build_stream(chunks)
        assert await got(call()) is DependencyError
        await clock.sleep(10.0)
        failing = False
        if kind == "single":
            assert await call() == "ok"
        else:
            try:
                assert [chunk async for chunk in stream()] == ["ok"]
            except LeaseError:  # the loop had its turn between the chunk and the end, and ended it
                assert blocked >= 4.0
        assert (str(breaker.snapshot("parts").state), breaker.snapshot("parts").probing) == (state, False)

    run_virtual(main())


def test_a_stream_that_outlasted_its_hold_and_gave_the_lease_back_decides_nothing() -> None:
    """Once the lease is given back another process may probe: what the stream comes to says nothing any more."""
    replicas = Replicas(count=1)

    async def main() -> None:
        chunks = replicas.stream()
        await anext(chunks)
        await replicas.clock.sleep(106.0)  # the hold is 100 s, and the lease is looked after every 5 s
        assert [chunk async for chunk in chunks] == ["b"]
        assert str(replicas.breakers[0].snapshot("parts").state) == "HALF_OPEN"

    replicas.run(main)


def test_a_lease_that_came_too_late_to_be_used_is_refused() -> None:
    """If the store takes longer to answer than the lease lasts, there is no probe: somebody else may have one."""

    class Slow(MemoryLeaseStore):
        async def acquire(self, *args: Any) -> Lease | None:
            lease = await super().acquire(*args)
            await self._clock.sleep(2.0)
            return lease

    store = Slow()
    replicas = Replicas(store, count=1, time_to_live=2.0, acquire_timeout=5.0)
    store._clock = replicas.clock

    async def main() -> None:
        assert await got(replicas.calls[0]()) is CircuitBreakerOpenError
        assert (replicas.peak, replicas.breakers[0].snapshot("parts").probing) == (0, False)
        assert replicas.kinds == ["half_opened", "lease_refused", "rejected"]

    replicas.run(main)


@pytest.mark.parametrize("end", ["failed", "cancelled", "closed"])
def test_however_a_probe_ends_the_lease_is_given_back(end: str) -> None:
    """A failed probe's, a cancelled one's and a closed coroutine's lease are free at once, long before they lapse."""
    replicas = Replicas(time_to_live=1000.0)
    one, other = replicas.calls

    async def main() -> None:
        if end == "closed":
            coroutine = one("ok", 50.0)

            async def drive() -> None:
                coroutine.send(None)
                coroutine.close()

            await replicas.clock.start(drive())
        else:
            probe = replicas.clock.start(one(DependencyError("down") if end == "failed" else "ok", 2.0))
            await replicas.clock.sleep(1.0)
            if end == "cancelled":
                probe.cancel()
            await replicas.clock.sleep(2.0)
            assert probe.done()
            assert probe.cancelled() or probe.exception() is not None
        await replicas.clock.sleep(0.0)
        assert await other() == "ok"

    replicas.run(main)


def test_a_stream_needs_the_lease_too() -> None:
    """A probe's stream holds the lease to its end or until it is left, and can be had again after that."""
    replicas = Replicas()

    async def main() -> None:
        chunks = replicas.stream()
        assert await anext(chunks) == "a"
        assert await got(replicas.calls[0]()) is CircuitBreakerOpenError
        await chunks.aclose()
        await replicas.clock.sleep(0.0)
        assert [chunk async for chunk in replicas.stream()] == ["a", "b"]
        assert await replicas.calls[0]() == "ok"

    replicas.run(main)


def test_callers_of_one_process_do_not_race_for_the_lease() -> None:
    """While the store is being asked the slot is taken: of many callers one asks, the others are rejected at once."""

    class Slow(MemoryLeaseStore):
        asked = 0

        async def acquire(self, *args: Any) -> Lease | None:
            self.asked += 1
            await self._clock.sleep(0.5)
            return await super().acquire(*args)

    clock = VirtualClock()
    store = Slow(clock)
    replicas = Replicas(store, count=1)
    store._clock = replicas.clock

    async def main() -> None:
        first = replicas.clock.start(replicas.calls[0]())
        await replicas.clock.sleep(0.1)
        assert [await got(replicas.calls[0]()) for _ in range(5)] == [CircuitBreakerOpenError] * 5
        assert await first == "ok"
        assert store.asked == 1

    replicas.run(main)


class Broken(MemoryLeaseStore):
    """A store that can be cut off, in one of three ways."""

    how = "raises"
    working = False

    async def _cut_off(self) -> None:
        if not self.working:
            if self.how == "hangs":
                await self._clock.sleep(1e6)
            raise LeaseError("cut off") if self.how == "raises" else OSError("cut off")

    async def acquire(self, *args: Any) -> Lease | None:
        await self._cut_off()
        return await super().acquire(*args)

    async def renew(self, lease: Lease) -> Lease | None:
        await self._cut_off()
        return await super().renew(lease)

    async def release(self, lease: Lease) -> bool:
        await self._cut_off()
        return await super().release(lease)


@pytest.mark.parametrize(
    ("broken", "times"),
    [
        ([], [4.0, 8.0, 12.0, 16.0]),
        ([4.0], [4.0, 5.0, 9.0, 13.0, 17.0]),
        ([8.0, 9.0, 10.0], [4.0, 8.0, 9.0, 10.0, 11.0, 15.0, 19.0]),
    ],
)
def test_each_renewal_comes_after_half_of_the_time(broken: list[float], times: list[float]) -> None:
    """The first as well as all later ones; while the store is away it is asked again each eighth, and then as before.

    A lease that was renewed later than at half would lapse if the store were then away for less than half of its time.
    """
    clock = VirtualClock()
    asked: list[float] = []

    class Watched(MemoryLeaseStore):
        async def renew(self, lease: Lease) -> Lease | None:
            asked.append(clock.now())
            if clock.now() in broken:
                raise LeaseError("away")
            return await super().renew(lease)

    async def main() -> None:
        held = await ProbeLease(Watched(clock), time_to_live=8.0, clock=clock).acquire("parts", hold=100.0)
        assert held is not None
        await clock.sleep(19.5)
        assert not held.lapsed
        await held.give_back()

    clock.run(main())
    assert asked == times


@pytest.mark.parametrize("how", ["raises", "fails", "hangs"])
@pytest.mark.parametrize(("when", "answer"), [("refuse", CircuitBreakerOpenError), ("admit", "ok")])
def test_a_store_that_cannot_be_asked(how: str, when: str, answer: Any) -> None:
    """By the configuration the probe is then refused or admitted, within the store's time limit; the slot is free."""
    replicas = Replicas(Broken(), when_unreachable=when, acquire_timeout=0.5)
    replicas.store._clock, replicas.store.how = replicas.clock, how

    async def main() -> None:
        began = replicas.clock.now()
        assert await got(replicas.calls[0]()) == answer
        assert replicas.clock.now() - began == (0.5 if how == "hangs" else 0.0)
        assert replicas.breakers[0].snapshot("parts").probing is False
        assert ("lease_refused" in replicas.kinds) == (when == "refuse")

    replicas.run(main)


def test_refusing_is_the_default() -> None:
    """Who says nothing gets no probe without a lease."""
    assert MemoryLeaseConfig().when_unreachable == "refuse"
    assert ProbeLease(MemoryLeaseStore()).when_unreachable == "refuse"


@pytest.mark.parametrize("kind", ["single", "stream"])
def test_a_probe_whose_lease_lapses_is_ended(kind: str) -> None:
    """If the store is cut off for a whole time to live, the probe ends before another's may begin, and counts not."""
    replicas = Replicas(Broken(), time_to_live=4.0)
    store = replicas.store
    store._clock, store.working = replicas.clock, True
    clock = replicas.clock

    async def main() -> None:
        if kind == "single":
            probe = clock.start(got(replicas.calls[1]("ok", 50.0)))
        else:
            chunks = replicas.stream()

            async def read() -> None:
                async for _ in chunks:
                    await clock.sleep(6.0)

            probe = clock.start(got(read()))
        await clock.sleep(1.0)
        store.working = False
        await clock.sleep(3.5)
        store.working = True
        assert await got(replicas.calls[0]()) == "ok"  # the lease had lapsed
        assert replicas.running == 0
        assert await probe is LeaseError
        snapshot = replicas.breakers[1].snapshot("parts")
        assert (snapshot.state, snapshot.probing) == ("HALF_OPEN", False)

    replicas.run(main)
    assert replicas.peak == 1


def test_the_hold_ends_the_lease_of_a_stalled_stream() -> None:
    """A consumer that stalls keeps other replicas out for `probe_hold`, not for ever, and may then read on."""
    replicas = Replicas()

    async def main() -> None:
        chunks = replicas.stream()
        await anext(chunks)
        await replicas.clock.sleep(90.0)
        assert await got(replicas.calls[0]()) is CircuitBreakerOpenError
        await replicas.clock.sleep(20.0)
        assert await got(replicas.calls[0]()) == "ok"
        assert [chunk async for chunk in chunks] == ["b"]

    replicas.run(main)


# -- from YAML ---------------------------------------------------------------------------------------------------------

YAML = """
middleware:
  breaker: {_type: guarded_circuit_breaker, failure_threshold: 1, cooldown_period: 10, probe_lease: parts_probe}
functions:
  parts: {_type: parts, middleware: [breaker]}
leases:
  parts_probe: {_type: memory, time_to_live: 5}
"""


def test_a_stack_makes_the_stores_or_takes_them() -> None:
    """Each stack makes its own stores; stacks that are given one share it, and so their probes exclude each other."""
    config = load_stack_config(YAML)
    clock = VirtualClock()
    broken = True

    async def service(seconds: float = 0.0) -> str:
        await clock.sleep(seconds)
        if broken:
            raise DependencyError("down")
        return "ok"

    async def probes(**given: Any) -> list[Any]:
        nonlocal broken
        broken = True
        stacks = [Stack(config, {"parts": service}, clock, **given) for _ in range(2)]
        for stack in stacks:
            await got(stack.call("parts"))
        await clock.sleep(10.0)
        broken = False
        first = clock.start(got(stacks[0].call("parts", 3.0)))
        await clock.sleep(1.0)
        return [await got(stacks[1].call("parts")), await first]

    store = MemoryLeaseStore(clock)
    assert clock.run(probes()) == ["ok", "ok"]
    assert clock.run(probes(leases={"parts_probe": store})) == [CircuitBreakerOpenError, "ok"]


def test_a_lease_that_is_missing_is_named() -> None:
    """A breaker made by hand without its lease, and a stack whose configuration lost it, are one sentence each."""
    with pytest.raises(MiddlewareError, match="need the lease 'parts_probe'"):
        GuardedCircuitBreakerMiddleware(GuardedCircuitBreakerMiddlewareConfig(probe_lease="parts_probe"))
    config = load_stack_config(YAML)
    config.leases = {"parts_probes": MemoryLeaseConfig()}
    with pytest.raises(MiddlewareError, match="did you mean 'parts_probes'"):
        Stack(config, {"parts": len})
