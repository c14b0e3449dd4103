"""Sends the requests of documents: only to allowed addresses, limited in time and bytes, with
retries where they are safe.

Decision: requests are sent with httpcore2, the transport layer of httpx2, because it accepts a
custom network backend. The host name is still used for the Host header, SNI, certificate checks
and connection pooling, but it is not resolved again after its addresses were checked. Also,
httpcore2 keeps no cookies.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import version
from typing import Any, Final, Literal, cast
from urllib.parse import quote, urljoin, urlsplit

import httpcore2
import httpx2
import orjson

from tools.arguments import is_deeper
from tools.http.addresses import AddressRefused, AddressRules, Origin, origin_of
from tools.http.interim_answers import CountedNetwork
from tools.trace_context import trace_headers

log = logging.getLogger(__name__)

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
FailCode = Literal[
    "timed_out", "unreachable", "too_large", "not_json", "too_deep", "address_not_allowed", "redirected",
    "refused_by_server", "not_accepted", "missing_value", "template_error", "builder_failed",
    "secret_missing",
]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchLimits:
    """Limits of requests to other services. Units: bytes, seconds."""

    answer_bytes: int = 256 * 1024
    """Maximum size of a decoded response body."""
    depth: int = 100
    """Nesting of a JSON answer."""
    chunks_at_once: int = 200
    """Chunks of a body that are read before other tasks may run."""
    connections: int = 20
    """Open connections of one client."""
    redirects: int = 3
    addresses: int = 4
    """Addresses of a host that are tried."""
    connect_s: float = 3.0
    kept_open_s: float = 4.0
    """Lifetime of an idle connection. Many servers close idle connections after five seconds."""
    retry_waits_s: tuple[float, ...] = (0.2, 0.8)
    """Delay before each retry."""
    retry_after_s: float = 2.0
    """Longest `Retry-After` of an answer 429 that is waited for; after a longer one the answer is
    returned.
    """


FETCH_LIMITS: Final = FetchLimits()

KEPT_IN_URL = "%/?&=:@!$'()*+,;~-._[]"
_REPEATABLE = frozenset(("GET", "PUT", "DELETE"))
_TEMPORARY = frozenset((502, 503, 504))
_REDIRECTS = frozenset((301, 302, 303, 307, 308))


class RequestFailed(Exception):
    """Raised when a request has no usable answer. `sent`: the server may have received it.

    `fact` is a detail for the error text: seconds, a status, or the name of a value.
    """

    def __init__(self, code: FailCode, *, fact: str = "", sent: bool = False) -> None:
        self.code: FailCode = code
        self.fact = fact
        self.sent = sent
        super().__init__(f"{code} {fact}".strip())


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedRequest:
    """One rendered request. `target`: path and query. `secret_headers`: names of headers with
    secrets. `key`: Idempotency-Key. `path_text`: the path in the document, for logs.
    """

    method: Method
    origin: Origin
    target: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    timeout_s: float = 10
    retries: int = 1
    key: str = ""
    secret_headers: frozenset[str] = frozenset()
    path_text: str = ""

    @property
    def url(self) -> str:
        return f"{self.origin}{self.target}"

    def sent_headers(self) -> list[tuple[bytes, bytes]]:
        """Returns all headers. Those of the document replace the defaults."""
        headers = {"user-agent": _agent_name(), "accept": "application/json"}
        if self.body is not None:
            headers["content-type"] = "application/json"
        headers |= trace_headers()
        headers |= {name.lower(): value for name, value in self.headers}
        headers |= {"host": self.origin.netloc, "accept-encoding": "gzip"}
        if self.method != "GET":
            headers |= {"idempotency-key": self.key, "content-length": str(len(self.body or b""))}
        return [(name.encode(), value.encode()) for name, value in headers.items()]


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAnswer:
    """An answer with any status. `value` is its JSON value, None if the body is empty, or its
    text if it is not JSON (`is_text`).
    """

    status: int
    value: Any = None
    is_text: bool = False

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300


@dataclass(slots=True, kw_only=True)
class _RequestProgress:
    """The state of one attempt. `retry_after_s`: the delay requested by the server."""

    sent: bool = False
    retry_after_s: float | None = None

    async def trace(self, event: str, _info: Mapping[str, Any]) -> None:
        self.sent = self.sent or event.endswith("send_request_headers.started")


class HttpClient:
    """Sends the requests of one agent in one workspace, over at most FETCH_LIMITS.connections
    connections.
    """

    def __init__(self, rules: AddressRules, *, ssl_context: ssl.SSLContext | None = None) -> None:
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=ssl_context or _ssl_context(),
            max_connections=FETCH_LIMITS.connections,
            max_keepalive_connections=FETCH_LIMITS.connections,
            keepalive_expiry=FETCH_LIMITS.kept_open_s,
            network_backend=CountedNetwork(_CheckedNetwork(rules)),
        )

    async def send(self, request: PreparedRequest) -> HttpAnswer:
        """Sends a request with retries. Returns an answer with any status. Raises:
        RequestFailed.
        """
        begun = time.perf_counter()
        facts: dict[str, Any] = {"status": None, "code": None}
        try:
            async with asyncio.timeout(request.timeout_s):
                answer = await self._attempts(request)
        except TimeoutError:
            facts["code"] = "timed_out"
            raise RequestFailed("timed_out", fact=f"{request.timeout_s:g}", sent=True) from None
        except RequestFailed as failed:
            facts["code"] = failed.code
            raise
        else:
            facts["status"] = answer.status
            return answer
        finally:
            path = {
                "method": request.method,
                "host": request.origin.host,
                "path": request.path_text,
            }
            ms = round((time.perf_counter() - begun) * 1e3)
            log.info("http_call", extra={**path, **facts, "ms": ms})

    async def aclose(self) -> None:
        """Closes all connections."""
        await self._pool.aclose()

    async def _attempts(self, request: PreparedRequest) -> HttpAnswer:
        repeatable = request.method in _REPEATABLE
        waits = iter(FETCH_LIMITS.retry_waits_s[: request.retries])
        waited = False
        while True:
            attempt = _RequestProgress()
            try:
                answer = await self._followed(request, attempt)
            except RequestFailed as failed:
                wait_s = next(waits, None)
                if (
                    failed.code != "unreachable"
                    or wait_s is None
                    or (failed.sent and not repeatable)
                ):
                    raise
                await asyncio.sleep(wait_s)
                continue
            retry_after_s = attempt.retry_after_s
            if not repeatable:
                return answer
            may_wait = retry_after_s is not None and retry_after_s <= FETCH_LIMITS.retry_after_s
            if answer.status == 429 and not waited and may_wait:
                waited = True
                wait_s = retry_after_s if next(waits, None) is not None else None
            else:
                wait_s = next(waits, None) if answer.status in _TEMPORARY else None
            if wait_s is None:
                return answer
            await asyncio.sleep(wait_s)

    async def _followed(self, request: PreparedRequest, attempt: _RequestProgress) -> HttpAnswer:
        for _ in range(FETCH_LIMITS.redirects + 1):
            answer = await self._once(request, attempt)
            if isinstance(answer, HttpAnswer):
                return answer
            if request.method != "GET":
                break
            request = _redirected(request, answer)
        raise RequestFailed("redirected", sent=True)

    async def _once(self, request: PreparedRequest, attempt: _RequestProgress) -> HttpAnswer | str:
        """Sends the request once. Returns the answer, or the location of a redirect."""
        extensions = {"timeout": {"connect": FETCH_LIMITS.connect_s}, "trace": attempt.trace}
        url = httpcore2.URL(
            scheme=request.origin.scheme,
            host=request.origin.host,
            port=request.origin.port,
            target=request.target,
        )
        headers = request.sent_headers()
        body = request.body
        try:
            async with self._pool.stream(
                request.method, url, headers=headers, content=body, extensions=extensions
            ) as response:
                status = response.status
                response_headers = _texts(response.headers)
                if status in _REDIRECTS and "location" in response_headers:
                    return response_headers["location"]
                attempt.retry_after_s = _seconds(response_headers.get("retry-after"))
                data = await _bounded(response, response_headers.get("content-encoding", ""))
        except AddressRefused as refused:
            log.warning("address_refused", extra={"host": refused.host, "why": refused.why})
            raise RequestFailed("address_not_allowed", sent=attempt.sent) from None
        except (
            httpcore2.TimeoutException,
            httpcore2.NetworkError,
            httpcore2.ProtocolError,
            OSError,
        ) as exc:
            log.debug("request_failed", extra={"error": type(exc).__name__})
            raise RequestFailed("unreachable", sent=attempt.sent) from None
        return _parsed(status, response_headers.get("content-type", ""), data)


class _CheckedNetwork(httpcore2.AsyncNetworkBackend):
    """Opens connections only to checked addresses."""

    def __init__(self, rules: AddressRules) -> None:
        self._rules = rules
        self._network = cast(httpcore2.AsyncNetworkBackend, httpcore2.AnyIOBackend())

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the signature of the library
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        try:
            async with asyncio.timeout(timeout):
                addresses = (await self._rules.check(host, port))[: FETCH_LIMITS.addresses]
            each_s = (timeout or FETCH_LIMITS.connect_s) / len(addresses)
            stream = await self._first(addresses, port, each_s, local_address, socket_options)
        except TimeoutError:
            raise httpcore2.ConnectTimeout from None
        except OSError as exc:
            raise httpcore2.ConnectError from exc
        here = stream.get_extra_info("client_addr")
        there = stream.get_extra_info("server_addr")
        if here[0] == there[0] and self._rules.is_own_port(port):
            await stream.aclose()
            raise AddressRefused(host=host, why="this is the service itself")
        return stream

    async def _first(
        self, addresses: Sequence[str], port: int, each_s: float, *more: Any
    ) -> httpcore2.AsyncNetworkStream:
        """Returns a connection to the first address that accepts one."""
        for address in addresses[:-1]:
            try:
                return await self._network.connect_tcp(address, port, each_s, *more)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
                continue
        return await self._network.connect_tcp(addresses[-1], port, each_s, *more)


def _redirected(request: PreparedRequest, location: str) -> PreparedRequest:
    """Returns the redirected request. Removes headers with secrets if the origin changes."""
    try:
        url = urljoin(request.url, location)
        origin = origin_of(url)
        parts = urlsplit(url)
    except ValueError:
        raise RequestFailed("address_not_allowed", sent=True) from None
    target = quote(
        f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}",
        safe=KEPT_IN_URL,
        encoding="latin-1",
    )
    headers = request.headers
    secret = request.secret_headers
    if origin != request.origin:
        headers = tuple(pair for pair in headers if pair[0] not in secret)
        secret = frozenset[str]()
    return replace(request, origin=origin, target=target, headers=headers, secret_headers=secret)


async def _bounded(response: httpcore2.Response, encoding: str) -> bytes:
    """Returns the decoded body, at most FETCH_LIMITS.answer_bytes. Raises: RequestFailed."""
    decoder = None
    if encoding.strip().lower() in ("gzip", "x-gzip", "deflate"):
        decoder = zlib.decompressobj(zlib.MAX_WBITS | 32)
    elif encoding.strip().lower() not in ("", "identity"):
        raise RequestFailed("not_json", sent=True)
    read = bytearray()
    chunks = 0
    async for chunk in response.aiter_stream():
        chunks += 1
        # Thousands of tiny chunks arrive without a wait between them.
        if chunks % FETCH_LIMITS.chunks_at_once == 0:
            await asyncio.sleep(0)
        try:
            data = (
                decoder.decompress(chunk, FETCH_LIMITS.answer_bytes + 1 - len(read))
                if decoder
                else chunk
            )
        except zlib.error:
            raise RequestFailed("not_json", sent=True) from None
        read += data
        if len(read) > FETCH_LIMITS.answer_bytes:
            raise RequestFailed("too_large", sent=True)
    return bytes(read)


def _parsed(status: int, content_type: str, body: bytes) -> HttpAnswer:
    """Returns the answer with its JSON value, or its text if it is not JSON.

    Raises: RequestFailed.
    """
    body = body.removeprefix(b"\xef\xbb\xbf")
    if status == 204 or not body.strip():
        return HttpAnswer(status=status)
    answer = HttpAnswer(status=status)
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        if answer.ok and "json" in content_type.lower():
            code = (
                "too_deep"
                if body.count(b"[") + body.count(b"{") > FETCH_LIMITS.depth
                else "not_json"
            )
            raise RequestFailed(code, fact=str(status), sent=True) from None
        return replace(answer, value=body.decode(errors="replace"), is_text=True)
    if is_deeper(value, FETCH_LIMITS.depth):
        raise RequestFailed("too_deep", sent=True)
    return replace(answer, value=value)


def _texts(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in headers}


def _seconds(retry_after: str | None) -> float | None:
    text = (retry_after or "").strip()
    return float(text) if text.isascii() and text.isdigit() and len(text) < 6 else None


@cache
def _agent_name() -> str:
    return f"nodius/{version('nodius-graphrag')}"


@cache
def _ssl_context() -> ssl.SSLContext:
    return httpx2.create_ssl_context(trust_env=False)
