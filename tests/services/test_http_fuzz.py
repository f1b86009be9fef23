"""Any bytes at all as a request: an answer or a close, and never an exception."""

from __future__ import annotations

import asyncio
import logging
import re

from hypothesis import given
from hypothesis import strategies as st

from labkit.services import HttpService
from labkit.services.http.server import _Connection

METHODS = ["GET", "GET", "HEAD", "PUT", "PUT", "DELETE", "POST", "OPTIONS", "CONNECT", "TRACE", "get", "M" * 99]
TARGETS = [
    *("/", "/health", "/fault", "/parts", "/parts/HX-2040", "/parts/ZZ-0000/stream", "/parts/HX-2040/stream", "*"),
    *("http://[", "http://[::1", "http://localhost/health", "http://localhost:x/", "http://localhost:99999999/", "//["),
    *("http://evil.example/fault", "HTTP://LOCALHOST", "http://", "http:///x", "http://\\[/", "ftp://localhost/"),
    *("localhost:80", "[::1]:80", "x", "?", "/?a=%", "/parts/%", "/parts/%ff%00%", "/parts/" + "9" * 400),
    *("/parts/%ED%A0%80", "/parts/a;b=c", "http://a@b@localhost/", "http://localhost#/fault", "/parts/" + "%2F" * 90),
    *("http://\N{FULLWIDTH SOLIDUS}localhost/", "http://[v1.x]/", "http://[1.2.3.4]/", "http://[fe80::1%25eth0]/"),
]
HEADERS = [
    *("Host: localhost", "Host: localhost:99999", "Host: [", "Host:", "Host: evil.example"),
    *("Expect: 100-continue", "Expect: everything", "Upgrade: websocket", "Connection: Upgrade", "Connection: close"),
    *("Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__", "Transfer-Encoding: chunked", "Transfer-Encoding: gzip"),
    *("Transfer-Encoding: chunked, chunked", "Content-Length: 5", "Content-Length: -1", "Content-Length: 1_0"),
    *("Content-Length: " + "9" * 18, "Content-Length: " + "9" * 5000, "Content-Length: 5, 5", "Content-Length: 6, 5"),
    *("Origin: http://[", "Sec-Fetch-Site: cross-site", " folded", "X-Long: " + "y" * 20_000, "X\x00: 1", "\xff: \xff"),
    *("Range: bytes=0-" + "9" * 400, "If-Modified-Since: never", "Accept-Encoding: gzip;q=" + "9" * 400),
]
BODIES = [
    *(b"", b"hang", b"[" * 1000, b"{" * 1000, b'{"fault": "slow", "seconds": 1e999}', b"\xff\xfe\x00", b"-", b"1e999"),
    *(b'{"fault": "slow", "seconds": %s}' % (b"9" * 400), b"9" * 900, b'{"fault": "error", "rate": -1e-999}', b"NaN"),
    *(b'{"fault": "rate_limit", "per_second": %s}' % (b"9" * 400), b'{"fault": {"fault": {}}}', b"x" * 2000),
    *(b'{"fault": "flapping", "seconds": 1e-300}', b'{"fault": "mid_stream_death", "chunks": %s}' % (b"9" * 400)),
    *(
        b'{"fault": "\\ud800"}',
        b'{"\\ud800": 1, "fault": "slow"}',
        b'"\\ud800"',
        b'{"fault": "slow", "seconds": 1e308}',
    ),
    *(
        b"5\r\nhello\r\n0\r\n\r\n",
        b"5\r\nhello\r\n0\r\nX: 1\r\n\r\n",
        b"zz\r\n",
        b"f" * 30 + b"\r\n",
        b"0;" + b"e" * 20_000,
    ),
    *(b"-5\r\n", b"4\r\nhang\r\n0\r\n" + b"T: " + b"y" * 40_000 + b"\r\n\r\n", b"ffffffff\r\n" + b"x" * 3000),
]


@st.composite
def requests(draw):
    """A request whose parts each may be right or absurd; sometimes with some of its bytes changed."""
    method = draw(st.sampled_from(METHODS))
    version = draw(
        st.sampled_from(["HTTP/1.1"] * 20 + ["HTTP/1.0", "HTTP/0.9", "HTTP/2.0", "HTTP/9.9", "HTTQ/1.1", ""])
    )
    headers = draw(st.lists(st.sampled_from(HEADERS), max_size=2))
    body = draw(st.sampled_from(BODIES)) if draw(st.booleans()) else b""
    if draw(st.booleans()):
        headers.append(f"Content-Length: {len(body)}")
    if not any(header.startswith("Host") for header in headers):
        headers.append("Host: localhost")
    raw = "\r\n".join([f"{method} {draw(st.sampled_from(TARGETS))} {version}", *headers, "", ""]).encode() + body
    for _ in range(draw(st.integers(0, 3)) if draw(st.booleans()) else 0):
        at = draw(st.integers(0, len(raw)))
        raw = raw[:at] + draw(st.binary(max_size=4)) + raw[at + draw(st.integers(0, 4)) :]
    return raw


class Wire(asyncio.Transport):
    """What the server writes, and how it ends the connection; a real one calls back as this one does."""

    def __init__(self, protocol):
        super().__init__()
        self.written, self.ended, self.protocol = b"", False, protocol

    def write(self, data):
        """Keep what is sent."""
        if not self.ended:
            self.written += data

    def write_eof(self):
        """Half of the end."""

    def close(self):
        """End it; the protocol hears so in the next round of the loop."""
        if not self.ended:
            self.ended = True
            asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)

    abort = close


def put(pieces, rounds):
    """The bytes that the server answers to these, with so many rounds of the loop between them; and what was logged."""
    said = []
    handler = logging.Handler()
    handler.emit = said.append

    async def main():
        asyncio.get_running_loop().set_exception_handler(lambda _, context: said.append(context))
        async with HttpService(latency=0) as server:
            connection = _Connection(server)
            wire = Wire(connection)
            connection.connection_made(wire)
            for piece in pieces:
                if not wire.ended:
                    connection.data_received(piece)
                for _ in range(rounds):
                    await asyncio.sleep(0)
            wire.close()  # the client leaves
            while server._connections:
                await asyncio.sleep(0)
            return wire.written

    logging.getLogger("labkit").addHandler(handler)
    logging.getLogger("asyncio").addHandler(handler)
    try:
        return asyncio.run(main()), said
    finally:
        logging.getLogger("labkit").removeHandler(handler)
        logging.getLogger("asyncio").removeHandler(handler)


@given(st.data())
def test_any_bytes_are_met_by_an_answer_or_a_close(data):
    """Whatever comes, in whatever pieces and however many requests at once: HTTP or nothing, and no exception."""
    raw = b"".join(data.draw(st.lists(requests(), min_size=1, max_size=3))) + data.draw(st.binary(max_size=9))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=3)))
    pieces = [raw[start:end] for start, end in zip([0, *cuts], [*cuts, len(raw)], strict=True) if start < end]
    written, said = put(pieces, data.draw(st.sampled_from([0, 1, 12])))
    assert said == []
    assert written == b"" or re.match(rb"HTTP/1\.1 [1-5]\d\d ", written)
