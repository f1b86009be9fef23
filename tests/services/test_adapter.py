"""The boundary: what leaves an adapter for whatever comes back."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import struct
import subprocess
import sys
from contextlib import aclosing, asynccontextmanager
from itertools import count

import httpx2
import pytest

from labkit.errors import BusinessRejection, DependencyError, OverloadedError, RateLimitedError, ServiceError
from labkit.middleware import Stack
from labkit.services import (
    Fault,
    FaultKind,
    HttpService,
    InProcessAdapter,
    PartsAdapter,
    PartsAvailability,
    SwallowingAdapter,
)
from labkit.services.mocks.parts import SITES

GOOD = {"status": "ok", "part": "HX-2040", "quantity": 3, "site": None, "sites": {"Hill plant": 3}, "as_of": 1.5}


def live(main):
    """Run a test's coroutine on a real loop, with a limit; nothing may be left on the loop afterwards."""

    async def limited():
        result = await asyncio.wait_for(main, 60)
        for _ in range(10):
            await asyncio.sleep(0)  # httpx2 leaves the generators of a body that is not read to its end to the loop
        assert [task.get_name() for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []
        return result

    return asyncio.run(limited())


@asynccontextmanager
async def answering(*pieces, then="close"):
    """A server that answers every request with these bytes; then it closes, resets, or holds the connection."""
    handlers = set()

    async def handle(reader, writer):
        handlers.add(asyncio.current_task())
        try:
            await reader.readuntil(b"\r\n\r\n")
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
            if then == "hold":
                await reader.read(-1)
            if then == "reset":
                writer.transport.abort()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
            handlers.discard(asyncio.current_task())

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for task in tuple(handlers):
            task.cancel()
        await asyncio.gather(*handlers, return_exceptions=True)


def whole(status, body, kind="application/json", *more):
    """A complete HTTP answer."""
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = [f"HTTP/1.1 {status} Whatever", f"content-type: {kind}", f"content-length: {len(body)}", "connection: close"]
    return "\r\n".join([*head, *more, "", ""]).encode() + body


async def outcome(adapter, way):
    """What a call or a stream gives: a reply, a list of chunks, or the exception."""
    try:
        if way == "call":
            return await adapter.call("HX-2040")
        async with aclosing(adapter.stream("HX-2040")) as chunks:
            return [chunk async for chunk in chunks]
    except Exception as error:  # the test judges it
        return error


def against(*pieces, then="close", way="call", **settings):
    """What leaves the adapter when a server answers with these bytes."""

    async def main():
        async with answering(*pieces, then=then) as url, PartsAdapter(url, **settings) as adapter:
            return await outcome(adapter, way)

    return live(main())


def kept(adapter):
    """The connections that an adapter holds."""
    transport = adapter._client._transport
    return [*transport._kept._pool.connections, *transport._fresh._pool.connections]


FAULTS = [
    ("error", DependencyError),
    ("connection_error", ConnectionError),
    ("error_shaped_string", DependencyError),
    ("mid_stream_death", DependencyError),
    ("rate_limit", RateLimitedError),
    ("flapping", DependencyError),  # it begins down
]


@pytest.mark.parametrize("way", ["call", "stream"])
@pytest.mark.parametrize(("fault", "kind"), FAULTS)
def test_a_fault_leaves_both_adapters_alike(fault, kind, way):
    """Over HTTP and in process every fault is classified the same; a single call survives mid-stream death."""

    async def main():
        async with HttpService(fault, latency=0) as server, PartsAdapter(server.url) as remote:
            local = InProcessAdapter(PartsAvailability(server.clock, plan=fault, latency=0))
            return [await outcome(adapter, way) for adapter in (remote, local)]

    remote, local = live(main())
    if (fault, way) == ("mid_stream_death", "call"):
        assert (remote.quantity, local.quantity) == (42, 42)
    else:
        assert type(remote) is type(local) is kind
        assert "\n" not in str(remote) + str(local)


@pytest.mark.parametrize("way", ["call", "stream"])
@pytest.mark.parametrize(("fault", "part"), [("healthy", "ZZ-0000"), ("business_rejection", "HX-2040")])
def test_an_unknown_part_leaves_both_adapters_as_a_value(fault, part, way):
    """ "Unknown part" is a result of the domain, by HTTP and in process, never an exception."""

    async def main():
        async with HttpService(fault, latency=0) as server, PartsAdapter(server.url) as remote:
            local = InProcessAdapter(PartsAvailability(server.clock, plan=fault, latency=0))
            seen = []
            for adapter in (remote, local):
                if way == "call":
                    seen.append(await adapter.call(part))
                else:
                    seen += [chunk async for chunk in adapter.stream(part)]
            return seen

    seen = live(main())
    assert [(reply.status, reply.part, reply.quantity) for reply in seen] == [("unknown part", part, None)] * 2


@pytest.mark.parametrize("way", ["call", "stream"])
def test_a_healthy_answer_is_the_same_over_http(way):
    """The reply that crossed the wire equals the one in process, but for its time."""

    async def main():
        async with HttpService(latency=0) as server, PartsAdapter(server.url + "/") as remote:
            local = InProcessAdapter(PartsAvailability(server.clock, latency=0))
            return [await outcome(adapter, way) for adapter in (remote, local)]

    remote, local = live(main())
    if way == "call":
        remote, local = [remote], [local]
    else:
        assert [chunk.site for chunk in remote] == [*SITES, None]
    assert [reply._replace(as_of=None) for reply in remote] == [reply._replace(as_of=None) for reply in local]


def test_the_in_process_adapter_runs_on_every_clock(world):
    """The classification needs no HTTP and no event loop."""

    async def main(clock):
        adapter = InProcessAdapter(PartsAvailability(clock, plan="error_shaped_string", latency=0))
        return await outcome(adapter, "call"), await outcome(adapter, "stream")

    called, streamed = world.run(main)
    assert isinstance(called, DependencyError)
    assert isinstance(streamed, DependencyError)
    assert "'Service error: parts_availability is not available'" in str(called)


def test_the_in_process_adapter_refuses_what_is_no_reply(clock):
    """Something that is neither a reply nor a text is a failure of the dependency too."""

    class Odd:
        async def call(self, part):
            return {"quantity": 5}

    with pytest.raises(DependencyError, match="answered with dict"):
        clock.run(InProcessAdapter(Odd()).call("HX-2040"))


def test_closing_the_in_process_stream_closes_the_service_s(clock):
    """A reader that stops early is seen by the service at once, through the adapter."""
    service = PartsAvailability(clock, latency=0)

    async def main():
        stream = InProcessAdapter(service).stream("HX-2040")
        await anext(stream)
        await stream.aclose()
        return service.in_flight

    assert clock.run(main()) == 0
    assert service.outcomes == {"abandoned": 1}


@pytest.mark.parametrize("way", ["call", "stream"])
@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (500, DependencyError),
        (502, DependencyError),
        (503, DependencyError),
        (504, DependencyError),
        (599, DependencyError),
        (429, RateLimitedError),
        (408, TimeoutError),
        (301, DependencyError),
        (204, DependencyError),
        (206, DependencyError),
        (400, BusinessRejection),
        (401, BusinessRejection),
        (403, BusinessRejection),
        (404, BusinessRejection),
        (422, BusinessRejection),
    ],
)
def test_every_status_has_its_class(status, kind, way):
    """Server errors and "not now" are the dependency's, other 4xx the caller's; a redirect is not followed."""
    body = b"" if status == 204 else GOOD
    seen = against(whole(status, body, "application/json", "location: http://127.0.0.1:1/"), way=way)
    assert type(seen) is kind
    assert str(status) in str(seen)
    assert "\n" not in str(seen)


DATE = "date: Sun, 06 Nov 1994 08:49:00 GMT"


@pytest.mark.parametrize(("status", "kind"), [(429, RateLimitedError), (503, OverloadedError)])
@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        (["retry-after: 7"], 7.0),
        (["retry-after: 0"], 0.0),
        (["retry-after: Sun, 06 Nov 1994 08:49:37 GMT", DATE], 37.0),
        (["retry-after: Sunday, 06-Nov-94 08:49:37 GMT", DATE], 37.0),
        (["retry-after: Sun Nov  6 08:49:37 1994", DATE], 37.0),
        (["retry-after: Sat, 31 Dec 2016 23:59:60 GMT", "date: Sat, 31 Dec 2016 23:59:00 GMT"], 59.0),
        (["retry-after: Sun, 06 Nov 1994 08:48:00 GMT", DATE], 0.0),
        (["retry-after: Sun, 06 Nov 1994 08:49:37 GMT"], None),
        (["retry-after: Sun, 06 Nov 1994 08:49:37 GMT", "date: today"], None),
        (["retry-after: soon", DATE], None),
        (["retry-after: Sun, 99 Nov 1994 08:49:37 GMT", DATE], None),
        (["retry-after: Sun, 06 Nov 1994 99:49:37 GMT", DATE], None),
        (["retry-after: Sun, 06 Xyz 1994 08:49:37 GMT", DATE], None),
        (["retry-after: Sun, 06 Nov 0000 08:49:37 GMT", DATE], None),
        (["retry-after: Sun, 06 Nov 1994 08:49:37 +0200", DATE], None),
        (["retry-after: " + "9" * 400], None),
        (["retry-after: -5"], None),
        (["retry-after: 1.5"], None),
        (["retry-after: 1e9"], None),
        (["retry-after:"], None),
        (["retry-after: 7", "retry-after: 8"], None),
        (["retry-after: 1_0"], None),
    ],
    ids=lambda value: ", ".join(value)[:60] if isinstance(value, list) else None,
)
def test_it_says_when_to_come_again(headers, seconds, status, kind):
    """Retry-After is read as seconds, or as a date counted from the answer's own Date; what is neither is None."""
    seen = against(whole(status, GOOD, "application/json", *headers))
    assert type(seen) is kind
    assert seen.retry_after == seconds


def test_a_limit_without_retry_after_says_nothing():
    """A 429 without the header has `retry_after` None, and a 503 without it is any server error."""
    assert against(whole(429, GOOD)).retry_after is None
    assert type(against(whole(503, GOOD))) is DependencyError


def test_the_mock_says_when_it_has_room_again():
    """An overload whose end the service knows goes over HTTP as a 503 with Retry-After, and comes out as it went in."""

    async def main():
        async with HttpService(latency=0) as server, PartsAdapter(server.url) as adapter:

            async def full(part):
                raise OverloadedError("no worker is free", 1.2)

            server.service.call = full
            return await outcome(adapter, "call")

    seen = live(main())
    assert (type(seen), seen.retry_after) == (OverloadedError, 2.0)


KEEP = whole(200, GOOD).replace(b"connection: close\r\n", b"")


@asynccontextmanager
async def scripted(*connections):
    """A server whose n-th connection meets its k-th request with the k-th (bytes, what then) of the n-th script."""
    scripts, numbers, seen, handlers = iter(connections), count(), [], set()

    async def handle(reader, writer):
        handlers.add(asyncio.current_task())
        number = next(numbers)
        try:
            for piece, then in next(scripts):
                request = await reader.readuntil(b"\r\n\r\n")
                seen.append((number, request.split(b" ")[1].decode()))
                writer.write(piece)
                await writer.drain()
                if then == "hold":
                    await reader.read(-1)
                if then == "reset":
                    writer.transport.get_extra_info("socket").setsockopt(
                        socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
                    )
                    writer.transport.abort()
                if then != "keep":
                    return
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
            handlers.discard(asyncio.current_task())

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", seen
    finally:
        server.close()
        for task in tuple(handlers):
            task.cancel()
        await asyncio.gather(*handlers, return_exceptions=True)


def twice(*connections, way="call", **settings):
    """What leaves the adapter on two calls, one after the other, and on which connections their requests came."""

    async def main():
        async with scripted(*connections) as (url, seen), PartsAdapter(url, **settings) as adapter:
            first = await outcome(adapter, "call")
            return first, await outcome(adapter, way), [number for number, _ in seen]

    first, second, seen = live(main())
    assert first.quantity == 3
    return second, seen


LINES = whole(200, json.dumps(GOOD).encode() + b"\n", "application/x-ndjson")


@pytest.mark.parametrize("way", ["call", "stream"])
@pytest.mark.parametrize("how", ["close", "reset"])
def test_a_connection_that_was_closed_meanwhile_is_no_failure(how, way):
    """The service ends a kept connection as the next request arrives on it: it is asked again on a fresh one."""
    second, seen = twice([(KEEP, "keep"), (b"", how)], [(KEEP if way == "call" else LINES, "keep")], way=way)
    assert (second if way == "call" else second[0]).quantity == 3
    assert seen == [0, 0, 1]


@pytest.mark.parametrize(
    ("scripts", "settings", "kind", "connections"),
    [
        ([[(KEEP, "keep"), (b"", "close")], [(b"", "close")]], {}, ConnectionError, [0, 0, 1]),
        ([[(KEEP, "keep"), (b"HTTP/1.1 200 O", "close")]], {}, ConnectionError, [0, 0]),
        ([[(KEEP, "keep"), (b"SSH-2.0-x\r\n", "close")]], {}, ConnectionError, [0, 0]),
        ([[(KEEP, "keep"), (KEEP[:-5], "close")]], {}, DependencyError, [0, 0]),
        ([[(KEEP, "keep"), (b"", "hold")]], {"timeout": 0.1}, TimeoutError, [0, 0]),
        (
            [[(KEEP.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n"), "keep")], [(b"", "close")]],
            {},
            ConnectionError,
            [0, 1],
        ),
    ],
    ids=["again", "half a head", "not HTTP", "half a body", "silence", "a fresh one"],
)
def test_nothing_else_is_asked_again(scripts, settings, kind, connections):
    """Twice on end, after a byte of an answer, out of time, on a fresh connection: it is the caller's to judge."""
    second, seen = twice(*scripts, **settings)
    assert type(second) is kind
    assert seen == connections


def test_the_second_request_takes_none_of_the_kept_connections():
    """Where every kept connection has been closed meanwhile, one repetition is enough: it makes its own."""

    async def main():
        old = [(KEEP, "keep"), (b"", "close")]
        async with scripted(old, old, old, [(KEEP, "keep")]) as (url, seen), PartsAdapter(url) as adapter:
            await asyncio.gather(*(adapter.call("HX-2040") for _ in range(3)))
            return (await adapter.call("HX-2040")).quantity, [number for number, _ in seen]

    quantity, seen = live(main())
    assert quantity == 3
    assert (sorted(seen[:3]), seen[4]) == ([0, 1, 2], 3)


def test_a_client_of_one_s_own_repeats_nothing():
    """What is done with a client that was handed in is that client's affair."""

    async def main():
        async with (
            scripted([(KEEP, "keep"), (b"", "close")]) as (url, seen),
            httpx2.AsyncClient(trust_env=False) as client,
        ):
            adapter = PartsAdapter(url, client)
            await adapter.call("HX-2040")
            return await outcome(adapter, "call"), len(seen)

    seen, requests = live(main())
    assert (type(seen), requests) == (ConnectionError, 2)


def test_a_breaker_does_not_count_the_closing_of_an_idle_connection():
    """A breaker that opens at the first failure stays closed when the service closes a kept connection."""
    text = """
middleware:
  b: {_type: circuit_breaker, failure_threshold: 1}
functions:
  parts: {_type: parts, middleware: [b]}
"""

    async def main():
        async with (
            scripted([(KEEP, "keep"), (b"", "close")], [(KEEP, "keep")]) as (url, _),
            PartsAdapter(url) as adapter,
        ):
            stack = Stack.load(text, services={"parts": adapter})
            replies = [await stack.call("parts", "HX-2040") for _ in range(2)]
            return [reply.quantity for reply in replies]

    assert live(main()) == [3, 3]


def test_a_404_that_does_not_say_unknown_part_asks_for_the_base_url():
    """A 404 of some other program must not be taken for an unknown part."""
    for body in (b"<html>Not found</html>", b'"unknown part"', b'{"error": "no such page"}', b"[" * 100_000):
        seen = against(whole(404, body))
        assert isinstance(seen, BusinessRejection)
        assert "base URL" in str(seen)


BAD_REPLIES = [
    (b"", "empty"),
    (b"Service error: connection refused", "'Service error: connection refused'"),
    (b'"Service error: quoted"', "Service error: quoted"),
    (b"{", "not JSON"),
    (b"<html>\n<body>oops</body>\n</html>", "not JSON"),
    (b"\xff\xfe\x00\x80", "not JSON"),
    (b"[" * 100_000, "not JSON"),
    (b"9" * 5000, "not JSON"),
    (b"null", "not a stock reply"),
    (b"[1, 2]", "not a stock reply"),
    (b"{}", "'status' is missing"),
    ({**GOOD, "status": "unknown part"}, "'status' is"),
    ({**GOOD, "part": "ZZ-0000"}, "'part' is"),
    ({**GOOD, "quantity": None}, "'quantity' is"),
    ({**GOOD, "quantity": -1}, "'quantity' is"),
    ({**GOOD, "quantity": 1.5}, "'quantity' is"),
    ({**GOOD, "quantity": True}, "'quantity' is"),
    ({**GOOD, "quantity": "42"}, "'quantity' is"),
    ({**GOOD, "site": 5}, "'site' is"),
    ({**GOOD, "sites": [1]}, "'sites' is"),
    ({**GOOD, "sites": {"Hill plant": "3"}}, "'sites' is"),
    ({**GOOD, "as_of": "now"}, "'as_of' is"),
    ({**GOOD, "as_of": float("nan")}, "'as_of' is"),
]


@pytest.mark.parametrize("way", ["call", "stream"])
@pytest.mark.parametrize(
    ("body", "said"), BAD_REPLIES, ids=[str(said) + str(n) for n, (_, said) in enumerate(BAD_REPLIES)]
)
def test_a_200_with_anything_else_is_a_failure(body, said, way):
    """Only a sound stock reply passes as one: an error-shaped text, broken JSON or a wrong field is raised."""
    kind = "application/json" if way == "call" else "application/x-ndjson"
    seen = against(whole(200, body, kind), way=way)
    assert type(seen) is DependencyError
    if not (way == "stream" and said == "empty"):
        assert said in str(seen)
    assert "\n" not in str(seen)
    assert len(str(seen)) < 400


def test_a_sound_reply_of_another_server_passes():
    """The adapter asks for a sound reply and not for this particular server."""
    assert against(whole(200, GOOD)).quantity == 3


@pytest.mark.parametrize("way", ["call", "stream"])
@pytest.mark.parametrize(
    ("pieces", "then", "kind"),
    [
        ((), "close", ConnectionError),
        ((), "reset", ConnectionError),
        ((b"HTTP/1.1 200 OK\r\ncontent-",), "close", ConnectionError),
        ((b"SSH-2.0-nothing\r\n",), "close", ConnectionError),
        ((b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n{",), "close", DependencyError),
        ((b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{",), "close", DependencyError),
        ((b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",), "close", DependencyError),
    ],
    ids=["closed", "reset", "half a head", "not HTTP", "half a body", "half a chunk", "bad chunk"],
)
def test_a_connection_that_breaks_is_told_from_a_reply_that_does(pieces, then, kind, way):
    """Cut before there is an answer: ConnectionError; cut in the answer: DependencyError. The cause is kept."""
    seen = against(*pieces, then=then, way=way)
    assert type(seen) is kind
    assert isinstance(seen.__cause__, httpx2.RequestError)
    assert "\n" not in str(seen)


@pytest.mark.parametrize("way", ["call", "stream"])
@pytest.mark.parametrize(
    "pieces", [(), (b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n{",)], ids=["silence", "half a body"]
)
def test_the_transport_s_limit_is_a_timeout(pieces, way):
    """Silence beyond the transport's limit is a TimeoutError, before an answer and within one."""
    seen = against(*pieces, then="hold", way=way, timeout=0.05)
    assert type(seen) is TimeoutError
    assert "within 0.05 s" in str(seen)
    assert isinstance(seen.__cause__, httpx2.TimeoutException)


def test_nothing_that_listens_is_a_connection_error():
    """A refused connection is a ConnectionError with its cause."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: connections are refused

        async def main():
            async with PartsAdapter(f"http://127.0.0.1:{taken.getsockname()[1]}") as adapter:
                return await outcome(adapter, "call")

        seen = live(main())
    assert type(seen) is ConnectionError
    assert isinstance(seen.__cause__, httpx2.ConnectError)


@pytest.mark.parametrize("way", ["call", "stream"])
def test_a_huge_body_is_not_read_to_its_end(way):
    """A reply without end is given up at the limit, and its connection is closed."""
    piece = b"x" * 65_536
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson\r\ncontent-length: 1000000000\r\n\r\n"
    seen = against(head, *[piece] * 100, way=way, max_bytes=200_000)
    assert type(seen) is DependencyError
    assert "longer than 200,000 bytes" in str(seen)


def test_nothing_is_decompressed():
    """A small reply that would unpack into a large one is not unpacked."""
    packed = gzip.compress(b" " * 50_000_000 + json.dumps(GOOD).encode())
    seen = against(whole(200, packed, "application/json", "content-encoding: gzip"))
    assert type(seen) is DependencyError
    assert "not JSON" in str(seen)


def test_a_stream_that_ends_before_its_total_is_a_failure():
    """A stream that ends properly but without the total was broken off somewhere: it must not pass as complete."""
    line = json.dumps({**GOOD, "site": "Hill plant", "sites": {}}).encode() + b"\n"
    seen = against(whole(200, line, "application/x-ndjson"), way="stream")
    assert type(seen) is DependencyError
    assert "before the total" in str(seen)
    complete = against(whole(200, line + b"\n" + json.dumps(GOOD).encode(), "application/x-ndjson"), way="stream")
    assert [chunk.site for chunk in complete] == ["Hill plant", None]


def test_a_server_that_is_stopped_cuts_its_clients_off():
    """A call that hangs when the server stops ends at once, as a connection error."""

    async def main():
        async with HttpService("hang") as server, PartsAdapter(server.url) as adapter:
            asked = asyncio.ensure_future(outcome(adapter, "call"))
            while not server.service.in_flight:
                await asyncio.sleep(0.002)
            await server.stop()
            return await asked

    assert type(live(main())) is ConnectionError


def test_a_killed_server_is_a_connection_error():
    """The same when the server's process is killed with the request in its hands."""
    code = (
        "import asyncio\nfrom labkit.services import HttpService\n"
        "async def main():\n"
        "    async with HttpService('hang', stop_after=60) as server:\n"
        "        server.service.on_attempt(lambda attempt: print('asked', flush=True))\n"
        "        print(server.url, flush=True)\n"
        "        await server.ended()\n"
        "asyncio.run(main())\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        try:
            url = process.stdout.readline().strip()

            async def main():
                async with PartsAdapter(url) as adapter:
                    asked = asyncio.ensure_future(outcome(adapter, "call"))
                    await asyncio.to_thread(process.stdout.readline)
                    process.kill()
                    return await asked

            seen = live(main())
        finally:
            process.kill()
    assert type(seen) is ConnectionError


@pytest.mark.parametrize("way", ["call", "stream"])
def test_two_hundred_cancelled_calls_leave_nothing(way, until):
    """After 200 cancelled calls no connection is in the pool, none at the server, and no task on the loop."""

    async def main():
        async with HttpService("hang") as server, PartsAdapter(server.url) as adapter:
            asked = [asyncio.ensure_future(outcome(adapter, way)) for _ in range(200)]
            await until(lambda: server.service.in_flight == 200)
            for task in asked:
                task.cancel()
            ended = await asyncio.gather(*asked, return_exceptions=True)
            await until(lambda: server.service.in_flight == 0 and not server._connections)
            server.set_fault("healthy")
            reply = await adapter.call("HX-2040")
            return ended, len(kept(adapter)), server.service.outcomes, reply

    ended, pooled, outcomes, reply = live(main())
    assert all(isinstance(end, asyncio.CancelledError) for end in ended)
    assert outcomes["cancelled"] == 200
    assert (pooled, reply.quantity) == (1, 42)


@pytest.mark.parametrize("ticks", range(8))
def test_cancelled_while_connecting_frees_its_place(ticks):
    """A call that is cancelled while it waits for a place or connects gives its place back (httpx 0.28.1 keeps it)."""

    async def main():
        limits = httpx2.Limits(max_connections=5)
        async with (
            HttpService("hang") as server,
            httpx2.AsyncClient(limits=limits, trust_env=False) as client,
        ):
            adapter = PartsAdapter(server.url, client)
            first = [asyncio.ensure_future(adapter.call("HX-2040")) for _ in range(5)]
            while server.service.in_flight < 5:
                await asyncio.sleep(0.002)
            queued = [asyncio.ensure_future(adapter.call("HX-2040")) for _ in range(5)]
            await asyncio.sleep(0.002)
            for task in first:
                task.cancel()
            for _ in range(ticks):
                await asyncio.sleep(0)
            for task in queued:
                task.cancel()
            await asyncio.gather(*first, *queued, return_exceptions=True)
            server.set_fault("healthy")
            return [(await adapter.call("HX-2040")).quantity for _ in range(3)], len(
                client._transport._pool.connections
            )

    assert live(main()) == ([42] * 3, 1)


def test_a_reader_that_stops_early_closes_its_connection(until):
    """`break` out of a stream and closing it ends the request at the server."""

    async def main():
        async with HttpService(Fault("slow", seconds=0.02)) as server, PartsAdapter(server.url) as adapter:
            async with aclosing(adapter.stream("HX-2040")) as chunks:
                async for _ in chunks:
                    break
            await until(lambda: server.service.in_flight == 0)
            return server.service.outcomes, len(kept(adapter))

    assert live(main()) == ({"cancelled": 1}, 0)


def test_more_calls_than_a_usual_pool_are_in_flight():
    """The adapter's own client bounds nothing: 160 calls are in flight at once, as the course says."""

    async def main():
        async with HttpService("hang") as server, PartsAdapter(server.url) as adapter:
            asked = [asyncio.ensure_future(adapter.call("HX-2040")) for _ in range(160)]
            while server.service.in_flight < 160:
                await asyncio.sleep(0.002)
            for task in asked:
                task.cancel()
            await asyncio.gather(*asked, return_exceptions=True)
            return server.service.in_flight_peak

    assert live(main()) == 160


def test_a_proxy_of_the_environment_is_not_used(monkeypatch):
    """A learner's proxy settings must not take calls to their own machine elsewhere."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")

    async def main():
        async with HttpService(latency=0) as server, PartsAdapter(server.url) as adapter:
            return await adapter.call("HX-2040")

    assert live(main()).quantity == 42


@pytest.mark.parametrize(
    "part", ["A/B", "..", ".", "%2e%2e", "a b", "ÄÖ", "?x=1", "#", "\n", "x" * 2000, "/fault", "\ud800"]
)
def test_any_text_arrives_as_the_part_that_it_is(part):
    """A part's number never becomes another path, query or header: an odd one is simply unknown."""

    async def main():
        async with HttpService(latency=0) as server, PartsAdapter(server.url) as adapter:
            reply = await adapter.call(part)
            return reply, [attempt.subject for attempt in server.service.log]

    reply, seen = live(main())
    assert (reply.status, reply.part) == ("unknown part", part)
    assert seen == [part.replace("\ud800", "?")]


@pytest.mark.parametrize("part", ["", None, 7])
def test_what_is_no_part_is_refused_before_it_is_sent(part):
    """The caller's mistake is a sentence and costs no request."""

    async def main():
        async with HttpService() as server, PartsAdapter(server.url) as adapter:
            with pytest.raises(ServiceError, match="a part is a text"):
                await adapter.call(part)
            with pytest.raises(ServiceError, match="a part is a text"):
                await anext(adapter.stream(part))
            return server.service.attempts

    assert live(main()) == 0


@pytest.mark.parametrize(
    "settings",
    [
        {"base_url": "127.0.0.1:8370"},
        {"base_url": "ftp://127.0.0.1"},
        {"base_url": "http://"},
        {"base_url": "http://[::1"},
        {"base_url": None},
        {"base_url": "http://127.0.0.1", "timeout": 0},
        {"base_url": "http://127.0.0.1", "timeout": "2"},
        {"base_url": "http://127.0.0.1", "timeout": float("nan")},
        {"base_url": "http://127.0.0.1", "max_bytes": 0},
        {"base_url": "http://127.0.0.1", "client": "no client"},
    ],
    ids=str,
)
def test_bad_settings_of_an_adapter_are_one_sentence(settings):
    """An adapter that cannot work says so when it is made."""
    with pytest.raises(ServiceError) as caught:
        PartsAdapter(**settings)
    assert "\n" not in str(caught.value)


def test_a_closed_adapter_says_so_and_leaves_a_foreign_client_open():
    """Closing closes the adapter's own client only; a call after it is a sentence."""

    async def main():
        async with HttpService(latency=0) as server, httpx2.AsyncClient(trust_env=False) as client:
            async with PartsAdapter(server.url, client) as adapter:
                pass
            assert (await adapter.call("HX-2040")).quantity == 42
            async with PartsAdapter(server.url) as closed:
                pass
            with pytest.raises(ServiceError, match="closed"):
                await closed.call("HX-2040")

    live(main())


@pytest.mark.parametrize("fault", [kind for kind, _ in FAULTS])
def test_the_swallowing_adapter_hides_every_failure(clock, fault):
    """The mistake of the lesson: whatever fails comes back as a text, so no breaker could ever count it."""
    mistaken = SwallowingAdapter(InProcessAdapter(PartsAvailability(clock, plan=fault, latency=0)))

    async def main():
        called = await mistaken.call("HX-2040")
        return called, [chunk async for chunk in mistaken.stream("HX-2040")]

    called, streamed = clock.run(main())
    assert isinstance(streamed[-1], str)
    assert streamed[-1].startswith("Service error: ")
    if fault != "mid_stream_death":
        assert called.startswith("Service error: ")


def test_the_swallowing_adapter_lets_cancellation_pass(clock):
    """Even the mistake does not swallow a cancellation: a limit around it still works."""

    async def main():
        with pytest.raises(TimeoutError):
            async with clock.timeout(2):
                await SwallowingAdapter(PartsAvailability(clock, plan="hang")).call("HX-2040")

    clock.run(main())
    assert clock.now() == 2.0


def test_without_httpx2_it_is_a_sentence():
    """Where the extra is missing, making an adapter says which install line brings it."""
    code = (
        "import sys; sys.modules['httpx2'] = None\n"
        "from labkit.services import PartsAdapter\n"
        "from labkit.errors import ServiceError\n"
        "try:\n    PartsAdapter('http://127.0.0.1')\nexcept ServiceError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert 'pip install "labkit-circuit-breakers[http]"' in done.stdout


def test_every_fault_is_known_to_the_table():
    """A fault that is added later must be placed in the tests of the classification."""
    placed = {fault for fault, _ in FAULTS} | {"healthy", "slow", "hang", "business_rejection"}
    assert placed == {kind.value for kind in FaultKind}
