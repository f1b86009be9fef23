"""The mock service behind real HTTP, on this machine only.

The rules are those of `PartsAvailability`; this module only says how each outcome looks on the wire:

| outcome | on the wire |
| --- | --- |
| a stock reply | 200, JSON |
| an unknown part | 404, `{"error": "unknown part"}` |
| `error` | 503, `{"error": "the service failed"}` |
| `rate_limit` | 429, with Retry-After in whole seconds where the service knows it |
| `connection_error` | the connection is reset before a byte of an answer |
| `hang` | nothing at all, until the client leaves or the server stops |
| `error_shaped_string` | 200, the text "Service error: ..." |
| `mid_stream_death` | a stream's connection ends in the middle of its body |

    GET /parts                  the catalogue (never fails)
    GET /parts/HX-2040          one reply
    GET /parts/HX-2040/stream   newline-delimited JSON: one chunk a site, then the total
    GET /health                 this mock's own state and counters; it answers under every fault
    GET, PUT, DELETE /fault     read, switch ({"fault": "slow", "seconds": 5}), and take the switch back
    GET /                       a page that does the same

Why asyncio and h11, and no web framework. What this server is for is to misbehave: to reset a connection, to cut a
body, to never answer, and still to stop within a moment. ASGI has no word for a reset; uvicorn has no limit on the time
in which a request must arrive (Kludex/uvicorn issue 157) and on stopping waits for the answers under way (pull request
2913), which a hang never gives. h11 is the HTTP/1.1 state machine under both uvicorn and httpx2, so the extra brings it
anyway, and what is left to write are the two hundred lines below. It accepts by itself, because asyncio's server logs a
traceback for every place in its backlog when the process is out of file descriptors, and cannot be told to wait.

Any bytes at all are met by an answer or a close. A head is at most 16 KB, a body at most 1 KB, and there are as many
connections as the process may have open files, at most a thousand: further ones wait until one has ended.

It listens on 127.0.0.1. Since a browser on the same machine may visit any site, a request is refused when its Host is
not a name of this machine (a rebound name), and a switch is refused when it comes from another origin.
"""

from __future__ import annotations

import asyncio
import base64
import errno
import hashlib
import json
import logging
import math
import re
import socket
import struct
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import aclosing, suppress
from functools import cache
from importlib.resources import files
from types import TracebackType
from typing import Any, Self, TypeVar, cast
from urllib.parse import unquote, urlsplit

from labkit.errors import DependencyError, OverloadedError, RateLimitedError, ServiceError
from labkit.services.checks import is_number, is_whole, shown
from labkit.services.faults.latency import Latency, as_latency
from labkit.services.faults.plan import Fault, FaultKind, FaultPlan, as_fault, as_plan
from labkit.services.mocks.parts import CATALOGUE, PartsAvailability, StockReply
from labkit.timing.clock import Task
from labkit.timing.loop_clock import LoopClock

try:
    import h11
except ImportError as error:
    raise ServiceError(
        "the service over HTTP needs h11, which is not installed; "
        'install it with: pip install "labkit-circuit-breakers[http]"'
    ) from error

T = TypeVar("T")

__all__ = ["HOST", "HttpService", "HttpServiceThread"]

HOST = "127.0.0.1"
MAX_HEADER_BYTES = 16_384
MAX_BODY_BYTES = 1_024
MAX_CONNECTIONS = 1_000
SPARE_FILES = 32  # descriptors that are left to everything else in the process
ACCEPT_AGAIN_AFTER = 0.5
IDLE_LIMIT = 60.0
RECENT = 12
_logger = logging.getLogger(__name__)


class HttpService:
    """`parts_availability` over HTTP on loopback; leaves no task, thread or socket behind.

    Args:
        fault: what it does at first, until it is switched: a name, a `Fault`, or a `FaultPlan` by time since the start.
        port: the port to listen on; 0 takes a free one.
        latency: seconds until an answer, a number or a `Latency`.
        seed: of everything random.
        stop_after: seconds after which it stops by itself; None for never.
        receive_limit: seconds within which a request must have arrived once it has begun.

    Attributes:
        service: the `PartsAvailability` behind it, with its counters and log; made on start.
        clock: its clock.

    Raises:
        ServiceError: a value cannot be used; on start: the port is taken or not allowed.

    Example:
        >>> async def main():
        ...     async with HttpService(fault="healthy") as server:
        ...         async with PartsAdapter(server.url) as adapter:
        ...             return await adapter.call("HX-2040")
        >>> from labkit.services import PartsAdapter
        >>> print(asyncio.run(main()))
        HX-2040: 42 in stock
    """

    def __init__(
        self,
        fault: FaultPlan | Fault | FaultKind | str = "healthy",
        port: int = 0,
        *,
        latency: Latency | float = 0.05,
        seed: int = 0,
        stop_after: float | None = None,
        receive_limit: float = 10.0,
    ) -> None:
        if not is_whole(port, 0, 65_535):
            raise ServiceError(f"the port is {shown(port)}; it must be a whole number from 0 (any free one) to 65535")
        if not is_whole(seed):
            raise ServiceError(f"the seed is {shown(seed)}; it must be a whole number, 0 or more")
        if stop_after is not None and not is_number(stop_after, 1e-9, 1e9):
            raise ServiceError(f"stop_after is {shown(stop_after)}; it must be a number of seconds above 0, or None")
        if not is_number(receive_limit, 1e-9, 1e9):
            raise ServiceError(f"receive_limit is {shown(receive_limit)}; it must be a number of seconds above 0")
        self._plan = as_plan(fault)
        self._latency = as_latency(latency)
        self._seed = seed
        self._wanted_port = port
        self._stop_after = stop_after
        self._receive_limit = receive_limit
        self.clock = LoopClock()
        self._service: PartsAvailability | None = None
        self._listener: socket.socket | None = None
        self._server: asyncio.Server | None = None  # only where an event loop watches no sockets
        self._accepting = False
        self._said_full = False
        self._max_connections = max_connections()
        self._joining: set[Task[Any]] = set()
        self._port = 0
        self._connections: set[_Connection] = set()
        self._answers: set[Task[None]] = set()
        self._keepers: list[Task[None]] = []
        self._ended = self.clock.event()
        self._stopping = False

    @property
    def service(self) -> PartsAvailability:
        """The service behind the server.

        Raises:
            ServiceError: it has not been started.
        """
        if self._service is None:
            raise ServiceError("this HttpService has not been started; use it with 'async with'")
        return self._service

    @property
    def port(self) -> int:
        """The port on which it listens.

        Raises:
            ServiceError: it has not been started.
        """
        if not self._port:
            raise ServiceError("this HttpService has not been started; use it with 'async with'")
        return self._port

    @property
    def url(self) -> str:
        """Where it is, for `PartsAdapter` or a browser."""
        return f"http://{HOST}:{self.port}"

    @property
    def running(self) -> bool:
        """Whether it listens."""
        return self._listener is not None and not self._stopping

    def set_fault(self, fault: Fault | FaultKind | str, **settings: Any) -> Fault:
        """Switch by hand; see `MockService.set_fault`."""
        return self.service.set_fault(fault, **settings)

    def clear(self) -> None:
        """Take the manual switch back."""
        self.service.clear()

    async def start(self) -> None:
        """Begin to listen.

        Raises:
            ServiceError: it was started before, or the port is taken or not allowed.
        """
        if self._listener is not None or self._stopping:
            raise ServiceError("an HttpService can be started once; make a new one")
        try:
            self._listener = socket.create_server((HOST, self._wanted_port), backlog=1024)
        except OSError as error:
            raise ServiceError(_why_not(error, self._wanted_port)) from error
        self._listener.setblocking(False)
        self._port = self._listener.getsockname()[1]
        self._service = PartsAvailability(self.clock, plan=self._plan, latency=self._latency, seed=self._seed)
        self._keepers.append(self.clock.start(self._close_the_slow(), name="labkit-http-limits"))
        if self._stop_after is not None:
            self._keepers.append(self.clock.start(self._stop_in(self._stop_after), name="labkit-http-stop-after"))
        try:
            self._accept_more()
        except NotImplementedError:  # Windows' loop accepts in another way, and has no such limit on open sockets
            self._server = await asyncio.get_running_loop().create_server(
                lambda: _Connection(self), sock=self._listener, backlog=1024
            )

    async def stop(self) -> None:
        """Stop at once: whatever is unanswered is cut off. Does nothing the second time."""
        if self._stopping or self._listener is None:
            await self.ended()
            return
        self._stopping = True
        self._accept_no_more()
        if self._server is not None:
            self._server.close()
        self._listener.close()
        me = asyncio.current_task()
        waiting = [task for task in (*self._keepers, *self._answers) if task is not me]
        for connection in tuple(self._connections):
            connection.abort()
        for task in waiting:
            task.cancel()
        try:
            for task in waiting:
                try:
                    await task
                except asyncio.CancelledError:
                    if not task.cancelled():
                        raise  # it is this stop() that was cancelled
            while self._connections or self._joining:
                await self.clock.sleep(0)  # until every socket has heard that it is closed
            if self._server is not None:
                await self._server.wait_closed()
        finally:
            self._ended.set()

    async def ended(self) -> None:
        """Wait until it has stopped, whoever stopped it; returns at once where it never ran."""
        if self._listener is not None:
            await self._ended.wait()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def _stop_in(self, seconds: float) -> None:
        await self.clock.sleep(seconds)
        await self.stop()

    async def _close_the_slow(self) -> None:
        while True:
            await self.clock.sleep(min(1.0, self._receive_limit / 4))
            now = self.clock.now()
            for connection in tuple(self._connections):
                if connection.waits_too_long(now):
                    connection.abort()

    # -- who may come in ----------------------------------------------------------------------------------------------

    def _accept_more(self) -> None:
        """Go on accepting, where there is room."""
        room = len(self._connections) + len(self._joining) < self._max_connections
        if self._listener is not None and room and not self._accepting and not self._stopping and self._server is None:
            self._watch(self._listener)
            self._accepting = True

    def _watch(self, listener: socket.socket) -> None:
        asyncio.get_running_loop().add_reader(listener, self._accept)

    def _accept_no_more(self) -> None:
        """Leave who comes now to the system's queue."""
        if self._listener is not None and self._accepting:
            asyncio.get_running_loop().remove_reader(self._listener)
            self._accepting = False

    def _accept(self) -> None:
        """Somebody knocks."""
        assert self._listener is not None
        if len(self._connections) + len(self._joining) >= self._max_connections:
            self._accept_no_more()  # the end of a connection goes on
            self._say_full(f"{self._max_connections:,} connections are open, which is the most that it takes")
            return
        try:
            client, _ = self._listener.accept()
        except OSError as error:
            if error.errno in _NO_FILES:
                self._accept_no_more()
                self._keepers.append(self.clock.start(self._accept_later(), name="labkit-http-accept"))
                self._say_full("the process has no file descriptor left for one more connection")
            return  # otherwise the client has left again, or there was none
        client.setblocking(False)
        joining = self.clock.start(self._join(client), name="labkit-http-join")
        self._joining.add(joining)

    async def _join(self, client: socket.socket) -> None:
        # Never cancelled, so that no socket is lost on the way: whoever comes during a stop is turned away at once.
        try:
            await asyncio.get_running_loop().connect_accepted_socket(lambda: _Connection(self), client)
        finally:
            self._joining.discard(cast(Any, asyncio.current_task()))
            self._accept_more()

    async def _accept_later(self) -> None:
        await self.clock.sleep(ACCEPT_AGAIN_AFTER)
        self._keepers.remove(cast(Any, asyncio.current_task()))
        self._accept_more()

    def _say_full(self, why: str) -> None:
        if not self._said_full:
            self._said_full = True
            _logger.warning("%s:%d lets further clients wait: %s", HOST, self._port, why)

    # -- what is at which path ---------------------------------------------------------------------------------------

    async def _route(self, to: _Connection, request: _Request) -> None:
        refusal = _refusal(request)
        if refusal is not None:
            to.send_json(403, {"error": refusal})
            return
        match request.segments:
            case [""]:
                if self._allows(to, request, "GET"):
                    page, policy = _page()
                    to.send(200, page, "text/html; charset=utf-8", ("content-security-policy", policy))
            case ["health"]:
                if self._allows(to, request, "GET"):
                    to.send_json(200, self._health())
            case ["fault"]:
                if self._allows(to, request, "GET", "PUT", "DELETE"):
                    self._switch(to, request)
            case ["parts"]:
                if self._allows(to, request, "GET"):
                    to.send_json(200, {part: name for part, (name, _) in CATALOGUE.items()})
            case ["parts", part] if part:
                if self._allows(to, request, "GET"):
                    await self._call(to, part)
            case ["parts", part, "stream"] if part:
                if self._allows(to, request, "GET"):
                    await self._stream(to, part)
            case _:
                to.send_json(404, {"error": f"there is nothing at {shown(request.path)}; try /parts/HX-2040 or /"})

    def _allows(self, to: _Connection, request: _Request, *methods: str) -> bool:
        if request.method in methods or (request.method == "HEAD" and "GET" in methods):
            return True  # HEAD is GET without the body, which the connection leaves out
        allowed = ", ".join(["GET", "HEAD", *methods[1:]] if methods[0] == "GET" else methods)
        message = f"{request.method[:20]} is not possible here (allowed: {allowed})"
        to.send(405, _json({"error": message}), _JSON, ("allow", allowed))
        return False

    async def _call(self, to: _Connection, part: str) -> None:
        try:
            reply = await self.service.call(part)
        except DependencyError as error:
            to.send_failure(error)
        except ConnectionError:
            to.reset()
        else:
            to.send_reply(reply)

    async def _stream(self, to: _Connection, part: str) -> None:
        begun = False
        whole: StockReply | str | None = None  # what is no stream: a rejection, an error-shaped string
        try:
            async with aclosing(self.service.stream(part)) as chunks:
                async for chunk in chunks:
                    if isinstance(chunk, str) or not chunk.known:
                        whole = chunk
                        continue
                    if not begun:
                        to.begin(200, "application/x-ndjson")
                        begun = True
                    to.go_on(_json(chunk.to_dict()) + b"\n")
            if whole is not None:
                to.send_reply(whole)
            else:
                to.finish()
        except DependencyError as error:
            if begun:
                to.cut()
            else:
                to.send_failure(error)
        except ConnectionError:
            to.reset()

    def _switch(self, to: _Connection, request: _Request) -> None:
        service = self.service
        if request.method == "PUT":
            try:
                service.set_fault(as_fault(cast(Any, _fault_in(request.body))))
            except ServiceError as error:
                to.send_json(400, {"error": str(error)})
                return
        elif request.method == "DELETE":
            service.clear()
        to.send_json(200, self._fault())

    def _fault(self) -> dict[str, object]:
        service = self.service
        return {
            **service.fault.to_dict(),
            "switched": service.switched,
            "faults": {kind.value: kind.meaning for kind in FaultKind},
        }

    def _health(self) -> dict[str, object]:
        service = self.service
        elapsed = service.elapsed
        return {
            "status": "up",
            "service": service.name,
            **service.fault.to_dict(),
            "switched": service.switched,
            "elapsed": round(elapsed, 3),
            "stops_in": None if self._stop_after is None else round(max(0.0, self._stop_after - elapsed), 3),
            "attempts": service.attempts,
            "in_flight": service.in_flight,
            "in_flight_peak": service.in_flight_peak,
            "outcomes": dict(service.outcomes),
            "recent": [attempt.to_dict() for attempt in list(service.log)[-RECENT:]],
        }


class HttpServiceThread:
    """`HttpService` in a thread of its own, for code that is not asynchronous: `with HttpServiceThread() as server:`.

    Takes what `HttpService` takes. `url`, `port`, `set_fault` and `clear` are the same; `service` may be read.

    Example:
        >>> with HttpServiceThread(fault="hang") as server:
        ...     str(server.service.fault)
        'hang'
    """

    def __init__(self, fault: FaultPlan | Fault | FaultKind | str = "healthy", port: int = 0, **settings: Any) -> None:
        self._http = HttpService(fault, port, **settings)
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._started: Future[None] = Future()

    @property
    def service(self) -> PartsAvailability:
        """The service behind the server; read it, and switch it with `set_fault` of this object."""
        return self._http.service

    @property
    def port(self) -> int:
        """The port on which it listens."""
        return self._http.port

    @property
    def url(self) -> str:
        """Where it is."""
        return self._http.url

    @property
    def running(self) -> bool:
        """Whether it listens."""
        return self._http.running and self._thread is not None and self._thread.is_alive()

    def set_fault(self, fault: Fault | FaultKind | str, **settings: Any) -> Fault:
        """Switch by hand; holds when this returns."""
        return self._inside(lambda: self._http.set_fault(fault, **settings))

    def clear(self) -> None:
        """Take the manual switch back; holds when this returns."""
        self._inside(self._http.clear)

    def start(self) -> None:
        """Begin to listen; returns when it does.

        Raises:
            ServiceError: as `HttpService.start`.
        """
        if self._thread is not None:
            raise ServiceError("an HttpServiceThread can be started once; make a new one")
        self._thread = threading.Thread(target=self._run, name="labkit-http", daemon=True)
        self._thread.start()
        self._started.result()

    def stop(self) -> None:
        """Stop at once and wait for the thread to end. Does nothing the second time."""
        if self._thread is None or self._loop is None:
            return
        with suppress(RuntimeError):  # the loop is closed: it has stopped by itself
            self._loop.call_soon_threadsafe(lambda: self._http.clock.start(self._http.stop()))
        self._thread.join()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _run(self) -> None:
        async def main() -> None:
            async with self._http:
                self._loop = asyncio.get_running_loop()
                self._started.set_result(None)
                await self._http.ended()

        try:
            asyncio.run(main())
        except BaseException as error:
            if self._started.done():
                raise
            self._started.set_exception(error)

    def _inside(self, act: Callable[[], T]) -> T:
        """Do it in the server's thread, and give what came of it."""
        if not self.running or self._loop is None:
            raise ServiceError("this HttpServiceThread does not run; use it with 'with'")

        async def acting() -> T:
            return act()

        return asyncio.run_coroutine_threadsafe(acting(), self._loop).result(10)


class _Request:
    """A request that has arrived whole.

    Raises:
        ValueError: what it asks for is no path and no URL.
    """

    __slots__ = ("body", "headers", "hosts", "method", "path", "segments")

    def __init__(self, event: h11.Request, body: bytes) -> None:
        self.method = event.method.decode("ascii")
        self.headers = [(name.decode("ascii"), value.decode("latin-1")) for name, value in event.headers]
        self.hosts = self.all("host")
        self.path = self._path_in(event.target.decode("ascii", "replace"))
        self.segments = [unquote(segment, errors="replace") for segment in self.path.removeprefix("/").split("/")]
        self.body = body

    def _path_in(self, target: str) -> str:
        if target.startswith("/"):
            return target.partition("?")[0]
        if (target == "*" and self.method == "OPTIONS") or self.method == "CONNECT":
            return target
        url = urlsplit(target)
        if url.scheme not in ("http", "https") or not url.netloc:
            raise ValueError("neither a path nor a URL")
        self.hosts = [*self.hosts, url.netloc]  # the URL's own host counts as well: it may be a rebound one
        return url.path or "/"

    def all(self, name: str) -> list[str]:
        """Every value of a header."""
        return [value for key, value in self.headers if key == name]


class _Connection(asyncio.Protocol):
    """One client: its bytes go through h11, its requests are answered one after the other.

    Answers are small, so there is no flow control within one; a client that does not read gets no second one.
    """

    def __init__(self, server: HttpService) -> None:
        self._server = server
        self._clock = server.clock
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEADER_BYTES)
        self._transport: asyncio.Transport | None = None
        self._request: h11.Request | None = None
        self._body = b""
        self._answer: Task[None] | None = None
        self._choked = False
        self._since = 0.0
        self._arriving = False  # whether a request has begun and is not whole yet
        self._refused = False  # whether it was told why, and what it still sends is of no interest

    # -- what asyncio tells ------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._since = self._clock.now()
        if self._server._stopping:
            self._transport.abort()
        self._server._connections.add(self)

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        self._http.receive_data(data)
        if self._answer is not None or self._choked:
            if len(self._http.trailing_data[0]) > MAX_HEADER_BYTES:
                self.abort()  # it goes on talking and does not listen
            return
        if not self._arriving:
            self._since, self._arriving = self._clock.now(), True
        self._read()

    def connection_lost(self, error: Exception | None) -> None:
        self._server._connections.discard(self)
        self._server._accept_more()
        self._transport = None
        if self._answer is not None:
            self._answer.cancel()

    def pause_writing(self) -> None:
        self._choked = True

    def resume_writing(self) -> None:
        self._choked = False
        self._read()

    # -- requests ----------------------------------------------------------------------------------------------------

    def waits_too_long(self, now: float) -> bool:
        """Whether a request should have arrived by now."""
        limit = self._server._receive_limit if self._arriving else IDLE_LIMIT
        return self._answer is None and now - self._since > limit

    def _read(self) -> None:
        while self._answer is None and not self._choked and self._transport is not None:
            before = len(self._http.trailing_data[0])
            try:
                event = self._http.next_event()
            except h11.RemoteProtocolError as error:
                if error.error_status_hint == 431:
                    self._refuse(431, _TOO_LONG)
                else:
                    self._refuse(error.error_status_hint, f"this is not a request that can be read: {error}")
                return
            if isinstance(event, h11.Request):
                self._request, self._body = event, b""
            # h11 asks how long a head is only while it is not complete, so one that comes in one piece is asked here.
            read = before - len(self._http.trailing_data[0])
            if read - (len(event.data) if isinstance(event, h11.Data) else 0) > MAX_HEADER_BYTES:
                self._refuse(431, _TOO_LONG)
                return
            if event is h11.NEED_DATA or event is h11.PAUSED:
                return
            if isinstance(event, h11.Request):
                if event.http_version not in (b"1.0", b"1.1"):
                    self._refuse(505, "this service speaks HTTP/1.1")
                    return
                if any(name == b"content-length" and int(value) > MAX_BODY_BYTES for name, value in event.headers):
                    self._refuse(413, _TOO_LARGE)
                    return
                if self._http.they_are_waiting_for_100_continue:
                    self._write(h11.InformationalResponse(status_code=100, headers=[]))
            elif isinstance(event, h11.Data):
                self._body += event.data
                if len(self._body) > MAX_BODY_BYTES:
                    self._refuse(413, _TOO_LARGE)
                    return
            elif isinstance(event, h11.EndOfMessage):
                assert self._request is not None
                try:
                    request = _Request(self._request, self._body)
                except ValueError:  # a broken address such as http://[ among them
                    target = shown(self._request.target.decode("ascii", "replace"))
                    self._refuse(400, f"{target} is neither a path such as /parts/HX-2040 nor a URL")
                    return
                answer = self._clock.start(self._respond(request), name="labkit-http-answer")
                self._answer = answer
                self._server._answers.add(answer)
            else:  # the client has said that it will send no more
                self._transport.close()
                return

    def _refuse(self, status: int, why: str) -> None:
        if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self.send(status, _json({"error": why}), _JSON, ("connection", "close"))
        if self._transport is None:
            return
        # Closed at once, while something of the request is unread, the system would send a reset and with it throw the
        # answer away. So it listens on, to nothing, until the client closes or its time to send the request is over.
        self._refused = True
        self._since, self._arriving = self._clock.now(), True
        with suppress(OSError):  # it has left meanwhile
            self._transport.write_eof()

    async def _respond(self, request: _Request) -> None:
        answer = self._answer
        try:
            await self._server._route(self, request)
        except Exception:
            _logger.exception("the mock service could not answer %s %s", request.method, request.path[:200])
            if self._http.our_state is h11.SEND_RESPONSE:
                self.send_json(500, {"error": "the mock service has a fault of its own"})
            self.cut()
        finally:
            if answer is not None:
                self._server._answers.discard(answer)
            self._answer = None
        self._since, self._arriving = self._clock.now(), False
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
            self._request = None
            self._read()
        else:
            self.cut()

    # -- answers -----------------------------------------------------------------------------------------------------

    def send_reply(self, reply: StockReply | str) -> None:
        """A reply of the service, whole."""
        if isinstance(reply, str):
            self.send(200, reply.encode(), "text/plain; charset=utf-8")
        elif reply.known:
            self.send_json(200, reply.to_dict())
        else:
            self.send_json(404, {"error": reply.status, "part": reply.part})

    def send_failure(self, error: DependencyError) -> None:
        """A failure of the service, whole."""
        after = error.retry_after if isinstance(error, RateLimitedError | OverloadedError) else None
        more = [] if after is None else [("retry-after", str(max(1, math.ceil(after))))]
        if isinstance(error, RateLimitedError):
            self.send(429, _json({"error": "too many requests"}), _JSON, *more)
        else:
            self.send(503, _json({"error": "the service failed"}), _JSON, *more)

    def send_json(self, status: int, data: object) -> None:
        """A whole answer in JSON."""
        self.send(status, _json(data), _JSON)

    def send(self, status: int, body: bytes, kind: str, *more: tuple[str, str]) -> None:
        """A whole answer."""
        self.begin(status, kind, ("content-length", str(len(body))), *more)
        self.go_on(body)
        self.finish()

    def begin(self, status: int, kind: str, *more: tuple[str, str]) -> None:
        """The head of an answer."""
        headers = [("content-type", kind), ("cache-control", "no-store"), ("x-content-type-options", "nosniff"), *more]
        self._write(h11.Response(status_code=status, headers=headers, reason=_REASONS.get(status, b"")))

    def go_on(self, data: bytes) -> None:
        """More of an answer's body; nothing where a head alone was asked for."""
        if self._request is None or self._request.method != b"HEAD":
            self._write(h11.Data(data=data))

    def finish(self) -> None:
        """The proper end of an answer."""
        self._write(h11.EndOfMessage())

    def cut(self) -> None:
        """End the connection after what was written, in the middle of an answer or not."""
        if self._transport is not None:
            self._transport.close()

    def reset(self) -> None:
        """End the connection so that the client is told of a reset."""
        if self._transport is not None:
            self._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            self._transport.abort()

    def abort(self) -> None:
        """End the connection and forget what is not written yet."""
        if self._transport is not None:
            self._transport.abort()

    def _write(self, event: h11.Event) -> None:
        if self._transport is not None:
            self._transport.write(self._http.send(event) or b"")


_JSON = "application/json"
_TOO_LONG = f"the head of the request is longer than {MAX_HEADER_BYTES:,} bytes"
_TOO_LARGE = f"the body is longer than {MAX_BODY_BYTES:,} bytes"
_NO_FILES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_RESET = struct.pack("ii", 1, 0)  # linger on, for no time: closing sends a reset
_LOOPBACK = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:\d{1,5})?", re.IGNORECASE)
_REASONS = {
    200: b"OK",
    400: b"Bad Request",
    403: b"Forbidden",
    404: b"Not Found",
    405: b"Method Not Allowed",
    413: b"Content Too Large",
    429: b"Too Many Requests",
    431: b"Request Header Fields Too Large",
    500: b"Internal Server Error",
    501: b"Not Implemented",
    503: b"Service Unavailable",
    505: b"HTTP Version Not Supported",
}


def max_connections() -> int:
    """How many connections a server takes at once: what the process may have open, with some to spare."""
    try:
        import resource
    except ImportError:  # Windows
        return MAX_CONNECTIONS
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if allowed == resource.RLIM_INFINITY:
        return MAX_CONNECTIONS
    return max(1, min(MAX_CONNECTIONS, allowed - SPARE_FILES))


def _json(data: object) -> bytes:
    return json.dumps(data).encode()


def _refusal(request: _Request) -> str | None:
    """Why a request must not be served, or None."""
    hosts = request.hosts
    if len(request.all("host")) != 1 or not all(_LOOPBACK.fullmatch(host) for host in hosts):
        return f"this service answers on this machine's own names only (localhost, {HOST})"
    if request.method not in ("GET", "HEAD"):
        foreign = any(origin.lower() != f"http://{hosts[0].lower()}" for origin in request.all("origin"))
        if foreign or any(site not in ("same-origin", "none") for site in request.all("sec-fetch-site")):
            return "the fault can be switched from this service's own page or from a program, not from another site"
    return None


def _fault_in(body: bytes) -> object:
    """What a switch's body says: JSON, or a bare name."""
    text = body.decode("utf-8", "replace").strip()
    if re.fullmatch(r"[A-Za-z][A-Za-z _-]*", text):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        found = shown(text, 40) if text else "nothing"
        raise ServiceError(f'the body must be JSON such as {{"fault": "hang"}}, and not {found}') from None


def _why_not(error: OSError, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} of {HOST} is in use by another program; choose another port, or 0 for any free one"
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"port {port} of {HOST} is not allowed to this user; choose one above 1023, or 0 for any free one"
    return f"cannot listen on port {port} of {HOST}: {error.strerror or error}"


@cache
def _page() -> tuple[bytes, str]:
    """The page, and the policy that lets it run its own script and style and nothing else."""
    page = files("labkit.services.http").joinpath("page.html").read_text("utf-8")

    def allowed(tag: str) -> str:
        found = re.findall(f"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        return " ".join(
            f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in found
        )

    policy = (
        f"default-src 'none'; script-src {allowed('script')}; style-src {allowed('style')}; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; "
        f"frame-ancestors 'self' http://localhost:* http://{HOST}:*"  # a notebook may show it in a frame
    )
    return page.encode(), policy
