"""HTTP client for configured addresses with small answers: size and time of an answer are limited.

Compressed answers are refused, because a small one could expand without limit in memory.
"""

from __future__ import annotations

import asyncio
import ssl
from functools import cache
from typing import final

import httpx2

MAX_BYTES = 1 << 20  # of one answer
TIMEOUT_S = 5.0  # for a whole answer


@final
class SmallAnswerTransport(httpx2.AsyncBaseTransport):
    """Sends each request over a connection of its own and reads at most MAX_BYTES of its answer.

    Raises, for a request: httpx2.DecodingError for a compressed answer, httpx2.ReadError for a
    larger one, and the errors of the connection.
    """

    def __init__(self, authorities: ssl.SSLContext) -> None:
        self._authorities = authorities

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        request.headers["Accept-Encoding"] = "identity"
        async with httpx2.AsyncHTTPTransport(verify=self._authorities, trust_env=False) as network:
            response = await network.handle_async_request(request)
            try:
                body = await _body_of(response)
            finally:
                await response.aclose()
        return httpx2.Response(response.status_code, headers=response.headers, content=body)


async def _body_of(response: httpx2.Response) -> bytes:
    if response.headers.get("Content-Encoding", "identity") != "identity":
        raise httpx2.DecodingError("the answer is compressed")
    body = bytearray()
    async for part in response.aiter_raw():
        body += part
        if len(body) > MAX_BYTES:
            raise httpx2.ReadError(f"it is larger than {MAX_BYTES:,} bytes")
    return bytes(body)


async def trusted_authorities() -> ssl.SSLContext:
    """Returns the certificate authorities that are trusted: the packaged ones and the system's."""
    # Reading them takes too long for the event loop.
    return await asyncio.to_thread(_authorities)


@cache
def _authorities() -> ssl.SSLContext:
    context = httpx2.create_ssl_context(trust_env=False)
    context.load_default_certs()
    return context


async def download(address: str, *, timeout_s: float = TIMEOUT_S) -> bytes:
    """Returns the content at an address. Redirects are errors.

    Raises: httpx2.HTTPError, httpx2.InvalidURL, TimeoutError.
    """
    transport = SmallAnswerTransport(await trusted_authorities())
    async with (
        asyncio.timeout(timeout_s),
        httpx2.AsyncClient(transport=transport, timeout=None, trust_env=False) as client,
    ):
        answer = await client.get(address)
        answer.raise_for_status()
        return answer.content
