"""Limits the number of interim responses (HTTP status 1xx, as `103`) of a connection.

A server may send any number of them before its final response. The HTTP library reads them all
without yielding to the event loop, so a server that sends nothing else would block all other tasks
until the request times out.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import AsyncIterator, Generator, Iterable
from contextlib import contextmanager
from typing import Any, Final, cast

import httpcore2
import httpx2

MAX_INTERIM: Final = 20
"""Interim responses to one request. Servers usually send one or two."""
MAX_HEAD_BYTES: Final = 64 * 1024
_STATUS: Final = re.compile(rb"HTTP/1\.[01] (\d)")
_STATUS_BYTES: Final = len(b"HTTP/1.1 1")
_END: Final = b"\r\n\r\n"
_SWITCHING: Final = b"HTTP/1.1 101"


class CountedStream(httpcore2.AsyncNetworkStream):
    """A connection that counts the interim responses to each request."""

    def __init__(self, stream: httpcore2.AsyncNetworkStream) -> None:
        self._stream = stream
        self._head: bytes | None = b""
        self._count = 0

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109
        """Reads data. Raises: httpcore2.RemoteProtocolError after too many interim responses."""
        data = await self._stream.read(max_bytes, timeout)
        if self._head is not None:
            self._look(data)
        return data

    def _look(self, data: bytes) -> None:
        """Counts complete interim responses. Stops at the final response."""
        assert self._head is not None
        head = self._head + data
        while head:
            status = _STATUS.match(head)
            if len(head) >= _STATUS_BYTES and (
                status is None or status[1] != b"1" or head.startswith(_SWITCHING)
            ):
                self._head = None
                return
            end = head.find(_END)
            if end < 0:
                break
            self._count, head = self._count + 1, head[end + len(_END) :]
            if self._count > MAX_INTERIM:
                raise httpcore2.RemoteProtocolError("too many interim answers")
        if len(head) > MAX_HEAD_BYTES:
            raise httpcore2.RemoteProtocolError("an interim answer is too large")
        self._head = head

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        if self._head is None:  # the next request
            self._head, self._count = b"", 0
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - the signature of the library
    ) -> httpcore2.AsyncNetworkStream:
        return CountedStream(await self._stream.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


class CountedNetwork(httpcore2.AsyncNetworkBackend):
    """Opens connections that count interim responses."""

    def __init__(self, network: httpcore2.AsyncNetworkBackend | None = None) -> None:
        self._network = network or cast(httpcore2.AsyncNetworkBackend, httpcore2.AnyIOBackend())

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the signature of the library
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        stream = await self._network.connect_tcp(host, port, timeout, local_address, socket_options)
        return CountedStream(stream)


class BoundedTransport(httpx2.AsyncBaseTransport):
    """An `httpx2` transport that limits interim responses. Ignores the proxy settings of the
    environment.
    """

    def __init__(self) -> None:
        context = httpx2.create_ssl_context(trust_env=False)
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=context, network_backend=CountedNetwork()
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        url = httpcore2.URL(
            scheme=request.url.raw_scheme,
            host=request.url.raw_host,
            port=request.url.port,
            target=request.url.raw_path,
        )
        sent = httpcore2.Request(
            method=request.method,
            url=url,
            headers=request.headers.raw,
            content=request.stream,
            extensions=request.extensions,
        )
        with _translated():
            answer = await self._pool.handle_async_request(sent)
        return httpx2.Response(
            status_code=answer.status,
            headers=answer.headers,
            stream=_Body(answer),
            extensions=dict(cast(dict[str, Any], answer.extensions)),
        )

    async def aclose(self) -> None:
        await self._pool.aclose()


class _Body(httpx2.AsyncByteStream):
    """The body of a response."""

    def __init__(self, answer: httpcore2.Response) -> None:
        self._answer = answer

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _translated():
            async for part in self._answer.aiter_stream():
                yield part

    async def aclose(self) -> None:
        with _translated():
            await self._answer.aclose()


@contextmanager
def _translated() -> Generator[None]:
    """Translates errors of `httpcore2` into the errors of the same names of `httpx2`."""
    try:
        yield
    except (
        httpcore2.TimeoutException,
        httpcore2.NetworkError,
        httpcore2.ProtocolError,
        httpcore2.UnsupportedProtocol,
    ) as exc:
        kind = getattr(httpx2, type(exc).__name__, httpx2.TransportError)
        raise kind(str(exc)) from exc
