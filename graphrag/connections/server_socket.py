"""Opens WebSockets to a workflow server, under the rules of its connection."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

from graphrag.connections.errors import EditorFault, EditorUnreachable
from tools.http.addresses import AddressRefused, AddressRules, origin_of

MAX_MESSAGE_BYTES = 1024 * 1024
OPEN_S = 10.0


@asynccontextmanager
async def server_socket(
    address: str, path: str, rules: AddressRules, ssl_context: ssl.SSLContext | None
) -> AsyncGenerator[ClientConnection]:
    """Yields a WebSocket to `path` below an address; redirects to another host are refused.

    Raises: EditorFault, also where the connection ends.
    """
    origin = origin_of(address)
    parts = urlsplit(address)
    is_secure = origin.scheme == "https"
    url = urlunsplit(("wss" if is_secure else "ws", origin.netloc, f"{parts.path}{path}", "", ""))
    try:
        async with asyncio.timeout(OPEN_S):
            host, *_ = await rules.check(origin.host, origin.port)
        # The certificate is checked for the name; the connection goes to the checked address.
        tls: dict[str, Any] = (
            {"ssl": ssl_context or True, "server_hostname": origin.host} if is_secure else {}
        )
        async with connect(
            url,
            host=host,
            port=origin.port,
            proxy=None,
            open_timeout=OPEN_S,
            max_size=MAX_MESSAGE_BYTES,
            **tls,
        ) as socket:
            yield socket
    except AddressRefused:
        raise EditorFault("editor_private", address=address) from None
    except (WebSocketException, OSError, ValueError):  # also TimeoutError, ssl.SSLError
        raise EditorUnreachable("editor_unreachable", address=address) from None
