"""The boundary between a dependency and the middleware: what counts as its failure, and what is an answer.

A circuit breaker counts exceptions and nothing else. So whatever goes wrong has to leave the adapter as an exception of
the right kind, and whatever is a fact of the business has to leave it as a value:

| what came back | what leaves the adapter |
| --- | --- |
| 200 with a stock reply | `StockReply`, status "ok" |
| 404 whose body says "unknown part" | `StockReply`, status "unknown part" |
| no connection, or cut before the first byte of an answer (see below) | `ConnectionError` |
| the transport's time limit passed, or 408 | `TimeoutError` |
| 5xx, a redirect | `DependencyError` |
| 503 with Retry-After | `OverloadedError`, which is a `DependencyError` |
| 429 | `RateLimitedError`, which is a `DependencyError` |
| 200 with anything else: a text "Service error: ...", broken JSON, too much of it | `DependencyError` |
| a body or stream that breaks off | `DependencyError` |
| any other 4xx: the caller's own mistake | `BusinessRejection`, which `retry` never repeats |

429 and 408 are 4xx by number but say "not now", so they count as the dependency's. A mistake of the caller's is raised
rather than returned because nobody may take it for a stock count; mind that the toolkit's breaker has no exclude list
and counts it.

Both errors say in `retry_after` when to come again, where Retry-After does: in seconds, or by a date together with the
answer's own Date, so that no clock of this machine is asked and none need be right.

A service may close an idle connection just as the next request sets out on it. Such a request is repeated once on a
fresh connection, before anybody hears of it; see `labkit.services.http.connections`. So a service that resets a
connection without an answer may see one attempt more than there were calls.

Why httpx2 and not httpx. httpx 0.28.1 is of December 2024 and still the newest release that is not a preview; its issue
tracker is closed. httpx2 is its continuation by the Pydantic team, API-compatible, with twenty-two releases in 2026
(2.16.2 at the time of writing). What settles it for a course on failing dependencies: in httpcore 1.0.9, on which httpx
stands, a request that is cancelled while its connection is being made may occupy a place in the pool for ever
(encode/httpcore issue 1093, open); httpx2 mended it (pydantic/httpx2 pull request 983).
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING, Generic, NoReturn, Protocol, Self, TypeVar
from urllib.parse import quote

from labkit.errors import BusinessRejection, DependencyError, OverloadedError, RateLimitedError, ServiceError
from labkit.services.checks import is_number, is_whole, shown
from labkit.services.mocks.assistant import Answer
from labkit.services.mocks.documents import SearchReply
from labkit.services.mocks.parts import UNKNOWN_PART, StockReply, check_part

if TYPE_CHECKING:
    import httpx2

__all__ = ["InProcessAdapter", "PartsAdapter", "RaisingAdapter", "SwallowingAdapter"]

MAX_REPLY_BYTES = 1_048_576
"""More than this is not a stock reply, whatever it begins with."""


R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Source(Protocol[R_co]):
    """What can be asked: a mock service or an adapter."""

    def call(self, subject: str, /) -> Awaitable[R_co | str]:
        """One reply."""

    def stream(self, subject: str, /) -> AsyncGenerator[R_co | str, None]:
        """One chunk after the other."""


def _in_a_path(part: str) -> str:
    quoted = quote(part, safe="", errors="replace")
    return quoted.replace(".", "%2E") if not part.strip(".") else quoted  # "." and ".." would be steps in the path


class InProcessAdapter(Generic[R]):
    """The classification of `PartsAdapter` for any service in the same process, on any clock.

    Args:
        service: what to ask, for example a `PartsAvailability`.

    Example:
        >>> from labkit.services import PartsAvailability
        >>> from labkit.timing import VirtualClock
        >>> clock = VirtualClock()
        >>> service = PartsAvailability(clock, plan="error_shaped_string")
        >>> print(clock.run(service.call("HX-2040")))
        Service error: parts_availability is not available
        >>> clock.run(InProcessAdapter(service).call("HX-2040"))
        Traceback (most recent call last):
        ...
        labkit.errors.DependencyError: the dependency answered with a text, 'Service error: ...'
    """

    def __init__(self, service: Source[R]) -> None:
        self.service = service
        self._ask = service.call

    async def call(self, subject: str) -> R:
        """One reply; a text in place of it is raised.

        Raises:
            DependencyError, ConnectionError, TimeoutError: the dependency's failure.
            ServiceError: the subject is not a text.
        """
        reply = await self._ask(subject)
        return reply if isinstance(reply, _REPLIES) else _refuse(reply)

    async def stream(self, subject: str) -> AsyncGenerator[R, None]:
        """The service's chunks; a text in place of one is raised.

        Raises:
            DependencyError, ConnectionError, TimeoutError: the dependency's failure.
            ServiceError: the subject is not a text.
        """
        async with aclosing(self.service.stream(subject)) as chunks:
            async for chunk in chunks:
                yield chunk if isinstance(chunk, _REPLIES) else _refuse(chunk)


_REPLIES = (StockReply, SearchReply, Answer)


def _refuse(reply: object) -> NoReturn:
    if isinstance(reply, str):
        raise DependencyError(f"the dependency answered with a text, {shown(reply)}")
    raise DependencyError(f"the dependency answered with {type(reply).__name__} in place of a reply")


class RaisingAdapter(InProcessAdapter[R]):
    """**The mistake, on purpose.** Raises what the business says no to: an unknown part is a `BusinessRejection`.

    A breaker counts exceptions and asks no further, so a few unknown parts in a row shut a dependency that works. The
    remedy is `InProcessAdapter`, from which an unknown part leaves as a value.

    Args:
        service: what to ask.
    """

    async def call(self, subject: str) -> R:
        """As `InProcessAdapter.call`, but for the business's no.

        Raises:
            BusinessRejection: the part is unknown.
        """
        return _nothing_refused(await super().call(subject))

    async def stream(self, subject: str) -> AsyncGenerator[R, None]:
        """As `InProcessAdapter.stream`, but for the business's no.

        Raises:
            BusinessRejection: the part is unknown.
        """
        async with aclosing(super().stream(subject)) as chunks:
            async for chunk in chunks:
                yield _nothing_refused(chunk)


def _nothing_refused(reply: R) -> R:
    if isinstance(reply, StockReply) and not reply.known:
        raise BusinessRejection(str(reply))
    return reply


class SwallowingAdapter(Generic[R]):
    """**The mistake, on purpose.** Catches every exception and returns its text as if it were an answer.

    No breaker around it ever opens, because no breaker ever sees a failure; no threshold, cooldown or probe limit mends
    that. The remedy is to let the exception pass. Never copy this into anything but a lesson.

    Args:
        source: what to spoil: a service or an adapter.
    """

    def __init__(self, source: Source[R]) -> None:
        self.source = source

    async def call(self, subject: str) -> R | str:
        """A reply, or a text that begins with "Service error"; never an exception (but for a cancellation)."""
        try:
            return await self.source.call(subject)
        except Exception as error:
            return f"Service error: {error}"

    async def stream(self, subject: str) -> AsyncGenerator[R | str, None]:
        """Chunks; a failure becomes one more chunk, a text that begins with "Service error"."""
        try:
            async with aclosing(self.source.stream(subject)) as chunks:
                async for chunk in chunks:
                    yield chunk
        except Exception as error:
            yield f"Service error: {error}"


class PartsAdapter:
    """Asks a parts service over HTTP and classifies whatever comes back (see the table at the top of the module).

    A cancelled call closes its connection. Use it with `async with`, or call `aclose()`.

    Args:
        base_url: where the service is, for example `HttpService().url`.
        client: an `httpx2.AsyncClient` to use, which stays yours to close, and repeats nothing; by default one of its
            own, which takes no proxy from the environment and puts no limit on connections at once (a limit on those in
            flight is a bulkhead's business, and a hidden one would look like time-outs).
        timeout: seconds that the transport may wait for a connection or for the next bytes; None for ever. The last
            line of defence: the limit that decides belongs into a `timeout` middleware.
        max_bytes: the longest reply (or stream, in all) that is read.

    Raises:
        ServiceError: httpx2 is not installed, or a value cannot be used.
    """

    def __init__(
        self,
        base_url: str,
        client: httpx2.AsyncClient | None = None,
        *,
        timeout: float | None = 30.0,
        max_bytes: int = MAX_REPLY_BYTES,
    ) -> None:
        try:
            import ssl

            import httpx2

            from labkit.services.http.connections import KeptConnections
        except ImportError as error:
            raise ServiceError(
                "PartsAdapter needs httpx2, which is not installed; "
                'install it with: pip install "labkit-circuit-breakers[http]"'
            ) from error
        if timeout is not None and not is_number(timeout, 1e-9, 1e9):
            raise ServiceError(
                f"the adapter's timeout is {shown(timeout)}; it must be a number of seconds above 0, or None"
            )
        if not is_whole(max_bytes, 1):
            raise ServiceError(f"max_bytes is {shown(max_bytes)}; it must be a whole number, 1 or more")
        if client is not None and not isinstance(client, httpx2.AsyncClient):
            raise ServiceError(f"client is a {type(client).__name__}; it must be an httpx2.AsyncClient")
        try:
            url = httpx2.URL(base_url)
        except (httpx2.InvalidURL, TypeError) as error:
            raise ServiceError(
                f"base_url is {shown(base_url)}, which is not a URL such as 'http://127.0.0.1:8370'"
            ) from error
        if url.scheme not in ("http", "https") or not url.host:
            raise ServiceError(f"base_url is {shown(base_url)}; it must begin with http:// or https:// and name a host")
        self.base_url = str(url).rstrip("/")
        self._http = httpx2
        self._timeout = timeout
        self._max_bytes = max_bytes
        self._owned = client is None
        self._client = client or httpx2.AsyncClient(
            # Without TLS no certificates need reading (50 ms); this context trusts none.
            transport=KeptConnections(None if url.scheme == "https" else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)),
            trust_env=False,
        )

    async def call(self, part: str) -> StockReply:
        """How many of the part are in stock.

        Raises:
            ConnectionError, TimeoutError, DependencyError, BusinessRejection: see the table at the top of the module.
            ServiceError: the part is not a text, or the adapter is closed.
        """
        async with self._ask(part, "") as response:
            body = await self._body(response)
            rejection = self._classify(response, body, part)
            return rejection if rejection is not None else _reply(body, part)

    async def stream(self, part: str) -> AsyncGenerator[StockReply, None]:
        """One chunk a site, then the total. A reader that stops early closes the connection.

        Raises:
            ConnectionError, TimeoutError, DependencyError, BusinessRejection: see the table at the top of the module.
            ServiceError: the part is not a text, or the adapter is closed.
        """
        async with self._ask(part, "/stream") as response:
            kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
            if response.status_code != 200 or kind != "application/x-ndjson":
                body = await self._body(response)
                rejection = self._classify(response, body, part)
                yield rejection if rejection is not None else _reply(body, part)
                return
            complete = False
            # Leaving early, by whatever way, closes the response and with it the connection, before anybody goes on.
            async with aclosing(self._lines(response)) as lines:
                async for line in lines:
                    chunk = _reply(line, part)
                    complete = chunk.site is None
                    yield chunk
            if not complete:
                raise DependencyError(f"the stream for part {shown(part)} ended before the total")

    async def aclose(self) -> None:
        """Close the adapter's own client and with it every connection; a client that was handed in is left alone."""
        if self._owned:
            await self._client.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    @asynccontextmanager
    async def _ask(self, part: str, suffix: str) -> AsyncIterator[httpx2.Response]:
        """Send the request; the transport's errors leave as the builtin ones, with their cause."""
        check_part(part)
        http = self._http
        if self._client.is_closed:
            raise ServiceError("this PartsAdapter is closed; make a new one")
        answered = False
        try:
            async with self._client.stream(
                "GET",
                f"{self.base_url}/parts/{_in_a_path(part)}{suffix}",
                # Nothing is decompressed, so a small reply cannot become a large one.
                headers={"accept": "application/json, application/x-ndjson", "accept-encoding": "identity"},
                timeout=self._timeout,
                follow_redirects=False,
            ) as response:
                answered = True
                yield response
        except http.TimeoutException as error:
            raise TimeoutError(f"{self.base_url} did not answer within {self._timeout:g} s") from error
        except http.RequestError as error:
            why = f" ({error})" if str(error) else ""
            if answered:
                raise DependencyError(f"the reply of {self.base_url} broke off{why}") from error
            raise ConnectionError(f"the connection to {self.base_url} failed{why}") from error

    async def _body(self, response: httpx2.Response) -> bytes:
        parts: list[bytes] = []
        size = 0
        async for piece in response.aiter_raw():
            size += len(piece)
            if size > self._max_bytes:
                raise DependencyError(f"the reply of {self.base_url} is longer than {self._max_bytes:,} bytes")
            parts.append(piece)
        return b"".join(parts)

    async def _lines(self, response: httpx2.Response) -> AsyncGenerator[bytes, None]:
        rest = b""
        size = 0
        async for piece in response.aiter_raw():
            size += len(piece)
            if size > self._max_bytes:
                raise DependencyError(f"the stream of {self.base_url} is longer than {self._max_bytes:,} bytes")
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                if line.strip():
                    yield line
        if rest.strip():
            yield rest

    def _classify(self, response: httpx2.Response, body: bytes, part: str) -> StockReply | None:
        """A rejection as a value, a failure as an exception, None for a 200 that is still to be read."""
        status = response.status_code
        if status == 200:
            return None
        said = f"{self.base_url} answered {status} {response.reason_phrase}".rstrip()
        if status == 404 and _says_unknown_part(body):
            return StockReply(UNKNOWN_PART, part)
        if status == 408:
            raise TimeoutError(said)
        if status == 429:
            raise RateLimitedError(said, _retry_after(response.headers))
        if status == 503 and "retry-after" in response.headers:
            raise OverloadedError(said, _retry_after(response.headers))
        if 400 <= status < 500:
            hint = ", and not that the part is unknown; is the base URL right?" if status == 404 else ""
            raise BusinessRejection(said + hint)
        raise DependencyError(said)


def _retry_after(headers: httpx2.Headers) -> float | None:
    """Seconds until a call may be made again, as Retry-After says; None where it says nothing that can be used."""
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit() and len(text) <= 9:
        return float(text)
    then, now = _date_in(text), _date_in(headers.get("date", "").strip())
    return None if then is None or now is None else max(0.0, (then - now).total_seconds())


_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
# The three forms of a date in HTTP (RFC 9110, 5.6.7). The day of the week is not asked whether it is right.
_DATES = [
    re.compile(form.replace("TIME", r"(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2}):(?P<second>[0-9]{2})"))
    for form in (
        r"[A-Z][a-z]{2}, (?P<day>[0-9]{2}) (?P<month>[A-Z][a-z]{2}) (?P<year>[0-9]{4}) TIME GMT",
        r"[A-Z][a-z]{5,8}, (?P<day>[0-9]{2})-(?P<month>[A-Z][a-z]{2})-(?P<year>[0-9]{2}) TIME GMT",
        r"[A-Z][a-z]{2} (?P<month>[A-Z][a-z]{2}) (?P<day>[ 0-9][0-9]) TIME (?P<year>[0-9]{4})",
    )
]


def _date_in(text: str) -> datetime | None:
    found = next((match for form in _DATES if (match := form.fullmatch(text))), None)
    if found is None or found["month"] not in _MONTHS:
        return None
    year = int(found["year"])
    if len(found["year"]) == 2:
        year += 1900 if year >= 70 else 2000
    month, second = _MONTHS.index(found["month"]) + 1, min(59, int(found["second"]))  # 60 is a leap second
    try:
        return datetime(year, month, int(found["day"]), int(found["hour"]), int(found["minute"]), second, tzinfo=UTC)
    except ValueError:
        return None


def _says_unknown_part(body: bytes) -> bool:
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        return False
    return isinstance(data, dict) and data.get("error") == UNKNOWN_PART


def _reply(body: bytes, part: str) -> StockReply:
    """The stock reply in a body, or `DependencyError` about what is there instead."""
    try:
        data = json.loads(body)
    except (ValueError, RecursionError) as error:
        text = body[:400].decode("utf-8", "replace")
        raise DependencyError(
            f"the reply is not JSON but {shown(text)}" if text.strip() else "the reply is empty"
        ) from error
    if not isinstance(data, dict):
        raise DependencyError(f"the reply is not a stock reply but {shown(json.dumps(data))}")

    def fault(key: str, allowed: str) -> DependencyError:
        found = f"is {shown(json.dumps(data[key]))}" if key in data else "is missing"
        return DependencyError(f"the reply is not a stock reply: '{key}' {found} (expected {allowed})")

    site, sites, as_of = data.get("site"), data.get("sites", {}), data.get("as_of")
    if data.get("status") != "ok":
        raise fault("status", "'ok'")
    if data.get("part") != part:
        raise fault("part", f"'{part}'")
    if not is_whole(data.get("quantity")):
        raise fault("quantity", "a whole number, 0 or more")
    if site is not None and not isinstance(site, str):
        raise fault("site", "a name or null")
    if not isinstance(sites, dict) or not all(is_whole(many) for many in sites.values()):
        raise fault("sites", "a whole number for each site")
    if as_of is not None and not is_number(as_of):
        raise fault("as_of", "seconds or null")
    return StockReply("ok", part, data["quantity"], site, tuple(sites.items()), as_of)
