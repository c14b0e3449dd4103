"""Interim answers before an answer are bounded for every client: a few pass, a flood
ends the request.
"""

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import httpx2
import pytest

from tests.support.raw_api import RawApi, answer, raw_api
from tools.http.addresses import Origin
from tools.http.fetch import HttpClient, PreparedRequest, RequestFailed
from tools.http.interim_answers import MAX_INTERIM, BoundedTransport

EARLY = b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n"


@asynccontextmanager
async def sending(early: bytes) -> AsyncGenerator[RawApi]:
    async with raw_api() as api:
        api.answers = [early + answer({"ok": True})] * 3
        yield api


async def posted(api: RawApi, *, times: int = 1) -> list[int]:
    async with httpx2.AsyncClient(transport=BoundedTransport(), trust_env=False) as client:
        return [
            (await client.post(f"{api.url}/x", content=b"{}")).status_code for _ in range(times)
        ]


async def fetched(api: RawApi) -> object:
    client = HttpClient(api.rules())
    origin = Origin(scheme="http", host="127.0.0.1", port=api.port)
    try:
        sent = PreparedRequest(method="GET", origin=origin, target="/x", key="k", retries=0)
        return (await client.send(sent)).value
    finally:
        await client.aclose()


@pytest.mark.parametrize(
    "early", [b"", EARLY, EARLY * MAX_INTERIM, b"HTTP/1.1 100 Continue\r\n\r\n" + EARLY]
)
async def test_a_few_interim_answers_pass_for_each_request_of_a_connection(early: bytes) -> None:
    async with sending(early) as api:
        assert await posted(api, times=2) == [200, 200]
        assert await fetched(api) == {"ok": True}


@pytest.mark.parametrize(
    "early", [EARLY * (MAX_INTERIM + 1), EARLY * 5_000, b"HTTP/1.1 103 X\r\nA: " + b"x" * 200_000]
)
async def test_a_flood_of_them_ends_the_request(early: bytes) -> None:
    async with sending(early) as api:
        with pytest.raises(httpx2.RemoteProtocolError):
            await posted(api)
        with pytest.raises(RequestFailed, match="unreachable"):
            await fetched(api)


async def test_the_errors_of_a_connection_are_those_that_callers_know() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    async with httpx2.AsyncClient(transport=BoundedTransport(), trust_env=False) as client:
        with pytest.raises(httpx2.ConnectError):
            await client.get(f"http://127.0.0.1:{port}/")

    async def silent(writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with raw_api() as api:
        api.answers = [silent]
        with pytest.raises(httpx2.RemoteProtocolError):
            await posted(api)
        api.answers = [answer(b"x" * 500_000)]
        async with httpx2.AsyncClient(transport=BoundedTransport(), trust_env=False) as client:
            assert len((await client.get(f"{api.url}/x")).content) == 500_000
