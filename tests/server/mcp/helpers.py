"""Clients of the package `mcp` against a server on a loopback socket, in either
era of the protocol.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import mcp_types as types
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.support.served import Served
from tests.support.service import token

ERAS = ("legacy", "2026-07-28")


@asynccontextmanager
async def connected(
    running: Served,
    role: str = "editor",
    *,
    user: str = "ed",
    mode: Any = "legacy",
    bearer: str | None = None,
) -> AsyncGenerator[Client]:
    """Connect as somebody; `bearer` in place of a token of theirs."""
    headers = {"Authorization": f"Bearer {bearer or token(user, role)}"}
    async with httpx2.AsyncClient(headers=headers, trust_env=False, timeout=30) as http:
        transport = streamable_http_client(f"{running.address}/mcp", http_client=http)
        info = types.Implementation(name="test-client", version="1.2")
        async with Client(transport, mode=mode, client_info=info) as client:
            yield client


def said(result: types.CallToolResult) -> str:
    """Return the text of a result."""
    return "\n".join(part.text for part in result.content if isinstance(part, types.TextContent))
