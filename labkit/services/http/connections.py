"""The adapter's own connections, which know whether a request may be repeated unasked.

A server may close an idle connection at any moment, and so at the very moment at which the next request sets out on it.
Nobody has failed then, and nothing was answered. HTTP lets a client repeat such a request by itself, where it changes
nothing at the server (RFC 9110, 9.2.2); without that, a breaker counts the closing of idle connections as failures.

So a GET is repeated once, on a fresh connection, when the one before had been used already and broke before a byte of
an answer came. Whatever else goes wrong is the caller's to judge. The pool of httpx2 tells neither of the two facts;
its streams are wrapped here, and note them for the request under way.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterable
from contextvars import ContextVar
from typing import Any

import httpcore2  # httpx2's own floor, and of its version
import httpx2

__all__ = ["KeptConnections"]

KEPT = 20
"""How many idle connections are kept for the next requests."""


class _Exchange:
    """What is known of the request that is under way."""

    __slots__ = ("answered", "fresh")

    def __init__(self) -> None:
        self.fresh = False  # a connection was opened for it
        self.answered = False  # a byte of an answer has come


_UNDER_WAY: ContextVar[_Exchange] = ContextVar("labkit-http-exchange")


class KeptConnections(httpx2.AsyncBaseTransport):
    """Connections to a service, kept open between requests, and a way around those that the service has closed.

    Args:
        context: the TLS settings; None for the usual ones.
    """

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        context = context or httpx2.create_ssl_context(trust_env=False)
        self._kept = _Noting(context, KEPT)
        self._fresh = _Noting(context, 0)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send it; once more where the service had closed the connection and the request changes nothing.

        Raises:
            httpx2.TransportError: as any transport of httpx2.
        """
        exchange = _Exchange()
        token = _UNDER_WAY.set(exchange)
        try:
            return await self._kept.handle_async_request(request)
        except (httpx2.NetworkError, httpx2.RemoteProtocolError):
            if exchange.fresh or exchange.answered or request.method not in ("GET", "HEAD"):
                raise
        finally:
            _UNDER_WAY.reset(token)
        return await self._fresh.handle_async_request(request)

    async def aclose(self) -> None:
        """Close every connection."""
        await self._kept.aclose()
        await self._fresh.aclose()


class _Noting(httpx2.AsyncHTTPTransport):
    def __init__(self, context: ssl.SSLContext, kept: int) -> None:
        super().__init__(verify=context, trust_env=False)
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=context,
            max_connections=None,
            max_keepalive_connections=kept,
            keepalive_expiry=5.0,
            network_backend=_Network(),
        )


class _Network(httpcore2.AsyncNetworkBackend):
    def __init__(self) -> None:
        self._network = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        exchange = _UNDER_WAY.get(None)
        if exchange is not None:
            exchange.fresh = True
        return _Stream(await self._network.connect_tcp(host, port, timeout, local_address, socket_options))

    async def sleep(self, seconds: float) -> None:
        await self._network.sleep(seconds)


class _Stream(httpcore2.AsyncNetworkStream):
    def __init__(self, stream: httpcore2.AsyncNetworkStream) -> None:
        self._stream = stream

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        data = await self._stream.read(max_bytes, timeout)
        exchange = _UNDER_WAY.get(None)
        if data and exchange is not None:
            exchange.answered = True
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.AsyncNetworkStream:
        return _Stream(await self._stream.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)
