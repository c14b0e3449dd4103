"""One person's MCP sessions never keep others out: each has a bound, and the longest idle
one makes room.
"""

from contextlib import AsyncExitStack
from typing import Any

import httpx2
import pytest

from server.mcp import open_sessions
from tests.server.mcp.helpers import connected
from tests.support.served import served
from tests.support.service import token

HEADERS = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
OPENING = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "a", "version": "1"},
    },
}


def client_of(address: str, user: str) -> httpx2.AsyncClient:
    headers = {**HEADERS, "Authorization": f"Bearer {token(user, 'viewer')}"}
    return httpx2.AsyncClient(base_url=address, headers=headers, trust_env=False, timeout=30)


async def opened(client: httpx2.AsyncClient) -> str:
    answer = await client.post("/mcp", json=OPENING)
    assert answer.status_code == 200, answer.text
    return answer.headers["mcp-session-id"]


async def pinged(client: httpx2.AsyncClient, session_id: str) -> int:
    body: dict[str, Any] = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
    return (
        await client.post("/mcp", json=body, headers={"mcp-session-id": session_id})
    ).status_code


async def test_the_longest_idle_session_of_a_person_makes_room_and_others_keep_theirs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(open_sessions, "OF_ONE", 5)
    async with served(rate_limit=0) as running, AsyncExitStack() as stack:
        other = await stack.enter_async_context(client_of(running.address, "bob"))
        own = await stack.enter_async_context(client_of(running.address, "vera"))
        kept = await opened(other)
        sessions = [await opened(own) for _ in range(5)]
        assert await pinged(own, sessions[0]) == 200  # now the second is idle for longest
        sessions += [await opened(own) for _ in range(3)]
        assert [await pinged(own, each) for each in sessions[:5]] == [200, 404, 404, 404, 200]
        assert await pinged(other, kept) == 200
        async with connected(running, user="carl") as client:
            assert (await client.list_tools()).tools


async def test_opening_counts_against_the_rate_and_using_a_session_does_not() -> None:
    async with served(rate_limit=3) as running, client_of(running.address, "vera") as client:
        sessions = [await opened(client) for _ in range(3)]
        refused = await client.post("/mcp", json=OPENING)
        assert (refused.status_code, int(refused.headers["retry-after"]) > 0) == (429, True)
        assert [await pinged(client, each) for each in sessions * 2] == [200] * 6
        async with client_of(running.address, "bob") as other:
            assert await pinged(other, await opened(other)) == 200
