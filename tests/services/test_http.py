"""The service over HTTP, on real sockets of this machine."""

from __future__ import annotations

import asyncio
import gc
import json
import socket
import subprocess
import sys
import threading
from contextlib import asynccontextmanager, closing, suppress

import pytest

from labkit.errors import ServiceError
from labkit.services import Fault, FaultKind, FaultPlan, HttpService, HttpServiceThread, PartsAdapter, Window
from labkit.services.mocks.parts import SITES


@asynccontextmanager
async def connected(server):
    """A bare connection to the server; closed for good at the end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    try:
        yield reader, writer
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


def live(main):
    """Run a test's coroutine on a real loop, with a limit; nothing may be left on the loop afterwards."""

    async def limited():
        result = await asyncio.wait_for(main, 60)
        assert [task.get_name() for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []
        return result

    return asyncio.run(limited())


async def ask(server, method="GET", path="/", body=b"", headers=(), host=None):
    """One request over a bare socket: status, headers, body, and whether the answer was cut off."""
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host or f'127.0.0.1:{server.port}'}", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in headers]
    if body:
        lines.append(f"Content-Length: {len(body)}")
    async with connected(server) as (reader, writer):
        writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        raw = await reader.read(-1)
    head, _, rest = raw.partition(b"\r\n\r\n")
    first, *others = head.decode().split("\r\n")
    fields = {name.lower(): value for name, _, value in (line.partition(": ") for line in others)}
    return int(first.split()[1]), fields, rest


async def ask_json(*args, **kwargs):
    """One request whose answer is JSON: status and data."""
    status, fields, body = await ask(*args, **kwargs)
    assert fields["content-type"] == "application/json"
    return status, json.loads(body)


def test_a_reply_is_json():
    """GET /parts/PART gives the reply of the service in process, and every answer forbids caching and sniffing."""

    async def main():
        async with HttpService(latency=0) as server:
            status, fields, body = await ask(server, path="/parts/HX-2040")
            return status, fields, json.loads(body), await ask_json(server, path="/parts")

    status, fields, reply, (_, catalogue) = live(main())
    assert (status, fields["content-type"]) == (200, "application/json")
    assert (fields["cache-control"], fields["x-content-type-options"]) == ("no-store", "nosniff")
    assert (reply["status"], reply["quantity"], sum(reply["sites"].values())) == ("ok", 42, 42)
    assert catalogue["HX-2040"] == "hydraulic seal kit"


@pytest.mark.parametrize(
    ("fault", "status", "kind", "said"),
    [
        ("healthy", 200, "application/json", b'"quantity": 42'),
        ("slow", 200, "application/json", b'"quantity": 42'),
        ("error", 503, "application/json", b"the service failed"),
        ("error_shaped_string", 200, "text/plain; charset=utf-8", b"Service error: "),
        ("business_rejection", 404, "application/json", b'{"error": "unknown part", "part": "HX-2040"}'),
        ("mid_stream_death", 200, "application/json", b'"quantity": 42'),
        ("rate_limit", 429, "application/json", b"too many requests"),
        ("flapping", 503, "application/json", b"the service failed"),
    ],
)
def test_every_fault_has_its_look_on_the_wire(fault, status, kind, said):
    """What the service does in process has one form over HTTP."""

    async def main():
        wanted = Fault("slow", seconds=0.01) if fault == "slow" else fault
        async with HttpService(wanted, latency=0) as server:
            return await ask(server, path="/parts/HX-2040")

    seen, fields, body = live(main())
    assert (seen, fields["content-type"]) == (status, kind)
    assert said in body


def test_a_stream_is_one_line_a_chunk():
    """The stream is newline-delimited JSON, site by site, and then the total."""

    async def main():
        async with HttpService(latency=0) as server:
            return await ask(server, path="/parts/HX-2040/stream")

    status, fields, body = live(main())
    assert (status, fields["content-type"], fields["transfer-encoding"]) == (200, "application/x-ndjson", "chunked")
    chunks = [json.loads(line) for line in body.split(b"\r\n") if line.startswith(b"{")]
    assert [chunk["site"] for chunk in chunks] == [*SITES, None]
    assert body.endswith(b"0\r\n\r\n")


@pytest.mark.parametrize(("path", "status"), [("/parts/ZZ-0000/stream", 404), ("/parts/ZZ-0000", 404)])
def test_an_unknown_part_is_a_404_with_its_reason(path, status):
    """The 404 of the business says so in its body, which tells it from the 404 of a wrong path."""

    async def main():
        async with HttpService(latency=0) as server:
            return await ask_json(server, path=path), await ask_json(server, path="/part/ZZ-0000")

    (seen, data), (wrong, reason) = live(main())
    assert (seen, data) == (status, {"error": "unknown part", "part": "ZZ-0000"})
    assert wrong == 404
    assert "there is nothing at" in reason["error"]


def test_a_stream_that_dies_is_cut_in_its_body():
    """Mid-stream death sends the chunks before it and then ends the connection without the closing chunk."""

    async def main():
        async with HttpService(Fault("mid_stream_death", chunks=2), latency=0) as server:
            return await ask(server, path="/parts/HX-2040/stream")

    status, _, body = live(main())
    assert status == 200
    assert body.count(b'"site"') == 2
    assert not body.endswith(b"0\r\n\r\n")


def test_a_connection_error_is_a_reset():
    """The connection is reset before a byte of an answer, for calls and streams."""

    async def main():
        async with HttpService("connection_error") as server:
            for path in ("/parts/HX-2040", "/parts/HX-2040/stream"):
                with pytest.raises(ConnectionResetError):
                    await ask(server, path=path)
            return server.service.outcomes

    assert live(main()) == {"connection_error": 2}


def test_a_hang_ends_when_the_client_leaves(until):
    """A client that hangs up is noticed while its request hangs: the service sees a cancellation."""

    async def main():
        async with HttpService("hang") as server:
            async with connected(server) as (_, writer):
                writer.write(b"GET /parts/HX-2040 HTTP/1.1\r\nHost: localhost\r\n\r\n")
                await until(lambda: server.service.in_flight == 1)
            await until(lambda: server.service.in_flight == 0)
            return server.service.outcomes

    assert live(main()) == {"cancelled": 1}


@pytest.mark.parametrize("path", ["/parts/HX-2040", "/parts/HX-2040/stream"])
def test_two_hundred_hanging_requests_and_a_stop_within_a_second(path, until):
    """200 requests hang at once, /health still answers, and stopping cuts them all off within a second."""

    async def main():
        loop = asyncio.get_running_loop()
        async with HttpService("hang") as server:
            asked = [asyncio.create_task(ask(server, path=path)) for _ in range(200)]
            await until(lambda: server.service.in_flight == 200)
            status, health = await ask_json(server, path="/health")
            began = loop.time()
            await server.stop()
            took = loop.time() - began
            answers = await asyncio.gather(*asked, return_exceptions=True)
            return status, health["in_flight"], took, answers, server.service

    status, in_flight, took, answers, service = live(main())
    assert (status, in_flight) == (200, 200)
    assert took < 1.0
    assert all(isinstance(answer, ConnectionError | IndexError) for answer in answers)
    assert (service.in_flight, service.outcomes) == (0, {"cancelled": 200})


def test_the_fault_is_read_switched_and_given_back():
    """PUT /fault takes JSON with settings or a bare name; DELETE gives the plan back; GET tells what holds."""

    async def main():
        async with HttpService("error", latency=0) as server:
            seen = [await ask_json(server, path="/fault")]
            seen.append(await ask_json(server, "PUT", "/fault", b'{"fault": "slow", "seconds": 0.5, "rate": 0.5}'))
            seen.append(await ask_json(server, "PUT", "/fault", b"mid-stream death"))
            seen.append(await ask_json(server, "DELETE", "/fault"))
            return seen, server.service.fault

    seen, fault = live(main())
    assert [status for status, _ in seen] == [200] * 4
    assert [(data["fault"], data["switched"]) for _, data in seen] == [
        ("error", False),
        ("slow", True),
        ("mid_stream_death", True),
        ("error", False),
    ]
    assert (seen[1][1]["seconds"], seen[1][1]["rate"]) == (0.5, 0.5)
    assert list(seen[0][1]["faults"]) == [kind.value for kind in FaultKind]
    assert str(fault) == "error"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "and not nothing"),
        (b"{", 'must be JSON such as {"fault": "hang"}'),
        (b"\xff\xfe\x00", "must be JSON"),
        (b"[" * 1000, "must be JSON"),
        (b"hnag", "did you mean 'hang'?"),
        (b"[]", "a fault is a name"),
        (b"null", "there is no fault 'null'"),
        (b"7", "a fault is a name"),
        (b"{}", "'fault' is missing"),
        (b'{"fault": {"fault": "hang"}}', "a fault is a name"),
        (b'{"fault": "slow", "second": 1}', "did you mean 'seconds'?"),
        (b'{"fault": "slow", "seconds": -1}', "must be a number from 0"),
        (b'{"fault": "slow", "seconds": NaN}', "must be a number from 0"),
        (b'{"fault": "slow", "seconds": 1e999}', "must be a number from 0"),
        (b'{"fault": "mid_stream_death", "chunks": [1]}', "must be a whole number"),
        (b'{"fault": "hang", "kind": 1}', "no setting 'kind'"),
    ],
)
def test_a_nonsense_switch_is_a_400_with_a_sentence(body, said):
    """A switch that cannot be read changes nothing and is answered by one sentence."""

    async def main():
        async with HttpService() as server:
            return await ask_json(server, "PUT", "/fault", body), server.service.switched

    (status, data), switched = live(main())
    assert status == 400
    assert said in data["error"]
    assert "\n" not in data["error"]
    assert not switched


def test_a_body_that_is_too_long_is_refused():
    """A switch with more than a kilobyte is refused as soon as that is known, and does not fill the memory."""

    async def main():
        async with HttpService() as server:
            return await ask_json(server, "PUT", "/fault", b"x" * 1025), server.service.switched

    (status, data), switched = live(main())
    assert (status, switched) == (413, False)
    assert "1,024 bytes" in data["error"]


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", "10.0.0.1", "[::2]"]
)
@pytest.mark.parametrize(("method", "path"), [("GET", "/parts/HX-2040"), ("GET", "/"), ("PUT", "/fault")])
def test_a_rebound_name_is_refused(host, method, path):
    """A request under a name that is not this machine's own (DNS rebinding) is refused and does not count."""

    async def main():
        async with HttpService() as server:
            answer = await ask_json(server, method, path, b"hang" if method == "PUT" else b"", host=host)
            return answer, server.service.attempts, server.service.switched

    (status, data), attempts, switched = live(main())
    assert status == 403
    assert "this machine's own names" in data["error"]
    assert (attempts, switched) == (0, False)


@pytest.mark.parametrize("host", ["localhost", "localhost:8888", "LOCALHOST", "127.0.0.1", "[::1]:1"])
def test_this_machine_s_names_are_served(host):
    """Every name of this machine is served, whatever port a tunnel gave it."""

    async def main():
        async with HttpService(latency=0) as server:
            return await ask(server, path="/health", host=host)

    assert live(main())[0] == 200


@pytest.mark.parametrize(
    "headers",
    [
        [("Origin", "http://evil.example")],
        [("Origin", "null")],
        [("Origin", "https://127.0.0.1:{port}")],
        [("Origin", "http://127.0.0.1:1")],
        [("Origin", "http://localhost:{port}")],
        [("Origin", "http://127.0.0.1:{port}"), ("Origin", "http://evil.example")],
        [("Sec-Fetch-Site", "cross-site")],
        [("Sec-Fetch-Site", "same-site")],
    ],
    ids=str,
)
@pytest.mark.parametrize("method", ["PUT", "DELETE"])
def test_a_switch_from_another_site_is_refused(method, headers):
    """Only the service's own page, or a program that sends no Origin, may switch the fault."""

    async def main():
        async with HttpService() as server:
            server.set_fault("slow")
            sent = [(name, value.replace("{port}", str(server.port))) for name, value in headers]
            answer = await ask_json(server, method, "/fault", b"hang" if method == "PUT" else b"", sent)
            return answer, str(server.service.fault)

    (status, data), fault = live(main())
    assert (status, fault) == (403, "slow")
    assert "another site" in data["error"]


def test_the_own_page_may_switch():
    """The page's own origin is accepted, and a preflight from elsewhere gets no permission."""

    async def main():
        async with HttpService() as server:
            own = [("Origin", server.url), ("Sec-Fetch-Site", "same-origin")]
            accepted = await ask_json(server, "PUT", "/fault", b"hang", own)
            preflight = await ask(server, "OPTIONS", "/fault", headers=[("Origin", "http://evil.example")])
            return accepted, preflight

    accepted, (status, fields, _) = live(main())
    assert accepted[0] == 200
    assert status == 403
    assert not any(name.startswith("access-control") for name in fields)


def test_the_page_loads_nothing_from_elsewhere():
    """The page stands alone, and its policy allows its own script and style by their hashes and nothing else."""

    async def main():
        async with HttpService() as server:
            return await ask(server, path="/")

    status, fields, body = live(main())
    policy = fields["content-security-policy"]
    assert (status, fields["content-type"]) == (200, "text/html; charset=utf-8")
    assert "default-src 'none'" in policy
    assert policy.count("'sha256-") == 2
    assert "unsafe" not in policy
    text = body.decode()
    assert "https://" not in text
    assert text.replace("http://www.w3.org/2000/svg", "").count("http://") == 0


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/fault", 405),
        ("PUT", "/health", 405),
        ("DELETE", "/parts/HX-2040", 405),
        ("HEAD", "/nothing", 404),
        ("OPTIONS", "*", 404),
        ("CONNECT", "localhost:80", 404),
        ("BREW", "/", 405),
        ("GET", "/parts/", 404),
        ("GET", "/parts/HX-2040/stream/x", 404),
        ("GET", "/../../etc/passwd", 404),
        ("GET", "//health", 404),
        ("GET", "/%2e%2e/%2e%2e/etc/passwd", 404),
    ],
)
def test_other_paths_and_methods_are_refused(method, path, status):
    """What is not there is a 404, what cannot be done there a 405; neither counts as an attempt."""

    async def main():
        async with HttpService() as server:
            return (await ask(server, method, path))[0], server.service.attempts

    assert live(main()) == (status, 0)


@pytest.mark.parametrize(
    "path",
    ["/", "/health", "/fault", "/parts", "/parts/HX-2040", "/parts/ZZ-0000", "/parts/HX-2040/stream", "/nothing"],
)
def test_head_is_get_without_its_body(path):
    """HEAD has the status and the headers of GET, and no body; the connection serves the next request."""

    async def main():
        async with HttpService(latency=0) as server:
            got = await ask(server, "GET", path)
            async with connected(server) as (reader, writer):
                for close in ("keep-alive", "close"):
                    head = f"HEAD {path} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nConnection: {close}\r\n\r\n"
                    writer.write(head.encode())
                raw = await reader.read(-1)
            return got, raw, server.service.attempts

    (status, fields, _), raw, attempts = live(main())
    first, second, rest = raw.split(b"\r\n\r\n")
    assert rest == b""
    assert [head.split(b" ")[1] for head in (first, second)] == [str(status).encode()] * 2
    stated = dict(line.lower().split(": ", 1) for line in second.decode().split("\r\n")[1:])
    assert stated.keys() == fields.keys()
    assert stated["content-type"] == fields["content-type"]
    assert attempts == (3 if path.startswith("/parts/") else 0)


def test_a_405_names_what_is_allowed():
    """A method that is not possible is answered by those that are, HEAD among them."""

    async def main():
        async with HttpService() as server:
            return [(await ask(server, "POST", path))[1]["allow"] for path in ("/health", "/fault")]

    assert live(main()) == ["GET, HEAD", "GET, HEAD, PUT, DELETE"]


@pytest.mark.parametrize("suffix", ["", "/stream"])
def test_a_rate_limit_says_when_to_come_again(suffix):
    """A 429 has Retry-After in whole seconds, rounded up, where the service knows it."""

    async def main():
        async with HttpService(Fault("rate_limit", per_second=0.001), latency=0) as server:
            first = await ask(server, path="/parts/HX-2040" + suffix)
            second = await ask(server, path="/parts/HX-2040" + suffix)
            server.set_fault("rate_limit")
            never = await ask(server, path="/parts/HX-2040" + suffix)
            return first, second, never

    first, second, never = live(main())
    assert [status for status, _, _ in (first, second, never)] == [200, 429, 429]
    assert 990 <= int(second[1]["retry-after"]) <= 1000
    assert "retry-after" not in never[1]


def test_health_answers_under_every_fault():
    """/health is the mock's own: it answers whatever the fault is, with the counters and the last attempts."""

    async def main():
        async with HttpService(latency=0, stop_after=100) as server:
            seen = {}
            for kind in FaultKind:
                server.set_fault(kind)
                seen[kind.value] = await ask_json(server, path="/health")
            server.set_fault("error")
            await ask(server, path="/parts/HX-2040")
            return seen, (await ask_json(server, path="/health"))[1]

    seen, after = live(main())
    assert {name: (status, data["fault"]) for name, (status, data) in seen.items()} == {
        kind.value: (200, kind.value) for kind in FaultKind
    }
    assert (after["attempts"], after["in_flight"], after["outcomes"]) == (1, 0, {"error": 1})
    assert after["recent"][0]["outcome"] == "error"
    assert 0 < after["stops_in"] <= 100


@pytest.mark.parametrize(
    "raw",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET /health HTTP/1.1\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET /health HTTP/9.9\r\nHost: localhost\r\n\r\n",
        b"nonsense\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n",
        b"GET http://[ HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET http://[::1 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET http:// HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET ftp://localhost/health HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET health HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ],
    ids=["tls", "no host", "two hosts", "version", "nonsense", "length", "[", "[::1", "no name", "ftp", "no slash"],
)
def test_what_is_no_request_is_a_4xx_and_a_close(raw):
    """Bytes that are no HTTP request are refused and the connection is closed; the server lives on."""

    async def main():
        async with HttpService() as server:
            async with connected(server) as (reader, writer):
                writer.write(raw)
                answer = await reader.read(-1)
            return answer, (await ask(server, path="/health"))[0]

    answer, after = live(main())
    assert answer.startswith((b"HTTP/1.1 400", b"HTTP/1.1 505"))
    assert after == 200


_HEAD = b"GET / HTTP/1.1\r\nHost: localhost\r\n"
_CHUNKED = b"PUT /fault HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    "raw",
    [
        _HEAD + b"X: " + b"y" * 100_000 + b"\r\n\r\n",
        _HEAD + b"X: y\r\n" * 15_000 + b"\r\n",
        _HEAD + b"X:" + b" " * 100_000 + b"y\r\n\r\n",
        b"GET /" + b"y" * 100_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        _HEAD + b"X: " + b"y" * 3_000_000,
        _CHUNKED + b"4\r\nhang\r\n0\r\nT: " + b"y" * 100_000 + b"\r\n\r\n",
        _CHUNKED + b"4;" + b"e" * 100_000 + b"\r\nhang\r\n0\r\n\r\n",
    ],
    ids=["one header", "many headers", "blanks", "target", "without end", "trailer", "chunk extension"],
)
def test_a_long_head_is_a_431_however_it_arrives(raw):
    """More than 16 KB of head is refused, in one read or in many, and the client gets to read that."""

    async def main():
        async with HttpService() as server, connected(server) as (reader, writer):
            writer.write(raw)
            return await reader.read(-1), server.service.switched

    answer, switched = live(main())
    assert answer.startswith(b"HTTP/1.1 431 Request Header Fields Too Large")
    assert b"longer than 16,384 bytes" in answer
    assert not switched


def test_a_head_of_less_is_served():
    """The limit is one on heads that are too long: 15 KB of headers are served."""

    async def main():
        async with HttpService() as server:
            return (await ask(server, path="/health", headers=[("X", "y" * 15_000)]))[0]

    assert live(main()) == 200


def test_a_body_that_is_announced_too_long_is_refused_at_once():
    """Who asks first (Expect: 100-continue) is told 413 before a byte of the body, and not to go on."""

    async def main():
        async with HttpService() as server, connected(server) as (reader, writer):
            lines = ["PUT /fault HTTP/1.1", "Host: localhost", "Expect: 100-continue", "Content-Length: 5000"]
            writer.write("\r\n".join([*lines, "", ""]).encode())
            return await reader.read(-1)

    assert live(main()).startswith(b"HTTP/1.1 413")


@pytest.mark.parametrize("target", ["http://evil.example/health", "http://user@localhost/health", "http://localhost:/"])
def test_a_url_as_target_is_asked_for_its_host_as_well(target):
    """A whole URL in the request line counts by its own host, whatever Host says."""

    async def main():
        async with HttpService() as server:
            return (await ask(server, path=target))[0], (await ask(server, path=f"{server.url}/health?x=1"))[0]

    assert live(main()) == (403, 200)


def test_connections_beyond_the_most_wait(until, caplog):
    """The most that are open at once is bounded; who comes later is served when one ends, and one line says so."""

    async def main():
        async with HttpService("hang") as server:
            server._max_connections = 3
            first = [asyncio.create_task(ask(server, path="/parts/HX-2040")) for _ in range(3)]
            await until(lambda: server.service.in_flight == 3)
            later = [asyncio.create_task(ask(server, path="/health")) for _ in range(20)]
            await until(lambda: caplog.records)
            open_at_most = len(server._connections)
            for task in first:
                task.cancel()
            answers = await asyncio.gather(*later)
            waiting = [asyncio.create_task(ask(server, path="/parts/HX-2040")) for _ in range(9)]
            await until(lambda: server.service.in_flight == 3)
            await server.stop()
            await asyncio.gather(*waiting, return_exceptions=True)
            return open_at_most, [status for status, _, _ in answers]

    assert live(main()) == (3, [200] * 20)
    assert [record.getMessage().partition(" lets ")[2] for record in caplog.records] == [
        "further clients wait: 3 connections are open, which is the most that it takes"
    ]


def test_a_loop_that_watches_no_sockets_accepts_in_its_own_way(monkeypatch):
    """Where `add_reader` does not exist (Windows), asyncio's own server accepts."""

    async def main():
        def no_watch(self, listener):
            raise NotImplementedError

        monkeypatch.setattr(HttpService, "_watch", no_watch)
        async with HttpService(latency=0) as server:
            status = (await ask(server, path="/parts/HX-2040"))[0]
        with pytest.raises(ConnectionRefusedError):
            await ask(server)
        return status

    assert live(main()) == 200


def test_a_slow_client_is_cut_off(until):
    """A request that does not arrive within the limit is cut off, however steadily its bytes trickle."""

    async def main():
        async with HttpService(receive_limit=0.05) as server:
            async with connected(server) as (reader, writer):
                ended = asyncio.create_task(reader.read(-1))

                def trickle():
                    if not writer.is_closing():
                        writer.write(b"X")
                    return ended.done()

                writer.write(b"GET /health HTTP/1.1\r\nX-Slow: ")
                await until(trickle, 5)
            return ended.exception() or ended.result(), len(server._connections)

    answer, left = live(main())
    assert isinstance(answer, ConnectionError) or answer == b""
    assert left == 0


def test_one_connection_serves_many_requests(until):
    """Requests on one connection, pipelined or not, are answered one after the other and in order."""

    async def main():
        async with HttpService(latency=0) as server:
            async with connected(server) as (reader, writer):
                one = "GET /parts/{} HTTP/1.1\r\nHost: localhost\r\n\r\n"
                writer.write("".join(one.format(part) for part in ("HX-2040", "ZZ-0000", "EN-5096")).encode())
                parts = []
                for _ in range(3):
                    head = await reader.readuntil(b"\r\n\r\n")
                    length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
                    parts.append(json.loads(await reader.readexactly(length))["part"])
            return parts, [attempt.subject for attempt in server.service.log]

    parts, seen = live(main())
    assert parts == seen == ["HX-2040", "ZZ-0000", "EN-5096"]


def test_a_client_that_only_talks_is_cut_off(until):
    """A client that goes on sending while its request hangs does not fill the memory: it is cut off."""

    async def main():
        async with HttpService("hang") as server:
            async with connected(server) as (_, writer):
                writer.write(b"GET /parts/HX-2040 HTTP/1.1\r\nHost: localhost\r\n\r\n")
                await until(lambda: server.service.in_flight == 1)
                writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 2000)
                await until(lambda: server.service.in_flight == 0)
            return server.service.outcomes

    assert live(main()) == {"cancelled": 1}


def test_a_port_in_use_is_a_sentence():
    """Starting on a taken port says which port and what to do, and leaves nothing behind."""

    async def main():
        async with HttpService() as first:
            second = HttpService(port=first.port)
            with pytest.raises(ServiceError) as caught:
                await second.start()
            await second.stop()
            return first.port, str(caught.value), (await ask(first, path="/health"))[0]

    port, message, status = live(main())
    assert (
        message == f"port {port} of 127.0.0.1 is in use by another program; choose another port, or 0 for any free one"
    )
    assert status == 200


def test_two_servers_do_not_meet():
    """Two servers at once have their own port, fault and counters."""

    async def main():
        async with HttpService("error", latency=0) as one, HttpService(latency=0) as two:
            statuses = [(await ask(server, path="/parts/HX-2040"))[0] for server in (one, two, two)]
            return statuses, one.service.attempts, two.service.attempts, one.port != two.port

    assert live(main()) == ([503, 200, 200], 1, 2, True)


def test_it_listens_on_this_machine_only():
    """The socket is bound to 127.0.0.1 and to nothing else."""

    async def main():
        async with HttpService() as server:
            return [listening.getsockname()[0] for listening in [server._listener]]

    assert live(main()) == ["127.0.0.1"]


def test_it_stops_by_itself():
    """After `stop_after` seconds the server has stopped: nobody listens any more and `ended` returns."""

    async def main():
        async with HttpService(stop_after=0.05) as server:
            await server.ended()
            running = server.running
            with pytest.raises(ConnectionRefusedError):
                await ask(server)
            return running

    assert live(main()) is False


def test_a_server_can_be_used_once():
    """A second start, and reading the URL before the first, are sentences; stopping twice or unstarted is nothing."""

    async def main():
        server = HttpService()
        await server.stop()
        for read in ("url", "port", "service"):
            with pytest.raises(ServiceError, match="not been started"):
                getattr(server, read)
        async with server:
            with pytest.raises(ServiceError, match="once"):
                await server.start()
        await server.stop()
        with pytest.raises(ServiceError, match="once"):
            await server.start()

    live(main())


@pytest.mark.parametrize(
    "settings",
    [
        {"port": -1},
        {"port": 65_536},
        {"port": "80"},
        {"port": True},
        {"fault": "hnag"},
        {"latency": -1},
        {"seed": 0.5},
        {"stop_after": 0},
        {"stop_after": float("nan")},
        {"stop_after": "1h"},
        {"receive_limit": 0},
    ],
    ids=str,
)
def test_bad_settings_of_a_server_are_one_sentence(settings):
    """A server that cannot be made says why before it listens."""
    with pytest.raises(ServiceError) as caught:
        HttpService(**settings)
    assert "\n" not in str(caught.value)


def test_a_plan_runs_over_http():
    """A fault plan by time holds over HTTP as it does in process."""

    async def main():
        async with HttpService(FaultPlan([Window(0, 3600, "error")]), latency=0) as server:
            return (await ask(server, path="/parts/HX-2040"))[0]

    assert live(main()) == 503


def test_the_thread_serves_code_that_is_not_asynchronous():
    """`HttpServiceThread` works from synchronous code, and its thread and socket are gone after."""
    with HttpServiceThread("healthy", latency=0) as server:
        assert server.running
        server.set_fault("error")

        async def main():
            async with PartsAdapter(server.url) as adapter:
                with pytest.raises(Exception, match="503"):
                    await adapter.call("HX-2040")
                server.clear()
                return await adapter.call("HX-2040")

        assert live(main()).quantity == 42
        assert server.service.attempts == 2
    assert not server.running
    assert "labkit-http" not in [thread.name for thread in threading.enumerate()]
    with closing(socket.socket()) as probe, pytest.raises(ConnectionRefusedError):
        probe.connect(("127.0.0.1", server.port))
    server.stop()
    with pytest.raises(ServiceError, match="does not run"):
        server.set_fault("hang")


def test_a_thread_that_cannot_start_says_so():
    """A taken port is the same sentence from the thread, and no thread is left."""
    with HttpServiceThread() as first, pytest.raises(ServiceError, match="in use"):
        HttpServiceThread(port=first.port).start()
    assert "labkit-http" not in [thread.name for thread in threading.enumerate()]


def test_nothing_is_left_behind(until):
    """Fifty servers with requests of every outcome leave no socket: a leak is a ResourceWarning, an error."""

    async def main():
        for number in range(50):
            async with HttpService(list(FaultKind)[number % 8], latency=0) as server:
                asked = asyncio.create_task(ask(server, path="/parts/HX-2040/stream"))
                await until(lambda server=server: server.service.attempts == 1)
                await server.stop()
                await asyncio.gather(asked, return_exceptions=True)
        return True

    assert live(main())
    gc.collect()


def test_without_h11_it_is_a_sentence():
    """Where the extra is missing, the names say which install line brings it."""
    code = (
        "import sys; sys.modules['h11'] = None\n"
        "import labkit.services\n"
        "from labkit.errors import ServiceError\n"
        "try:\n    labkit.services.HttpService\nexcept ServiceError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert 'pip install "labkit-circuit-breakers[http]"' in done.stdout
