"""Notices of a Node-RED server: each deployment is told at once by its WebSocket `/comms`.

Source: the editor of Node-RED 5.0, which gets the same messages.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

from websockets.asyncio.client import ClientConnection

from graphrag.connections.errors import EditorFault
from graphrag.importers.json_values import as_dict, as_list

DEPLOYED = "notification/runtime-deploy"
SILENCE_S = 45.0  # the server sends a heartbeat every 15 s
_AUTH_MESSAGES = 20  # messages that may come before the answer to the token


async def deployments(socket: ClientConnection, token: str, address: str) -> AsyncGenerator[None]:
    """Yields once when the notices are subscribed to, and then at each deployment.

    `token` is empty for an open server. Raises: EditorFault where the token is refused;
    TimeoutError where the server falls silent; ConnectionClosed.
    """
    if token:
        await _sign_in(socket, token, address)
    await socket.send(json.dumps({"subscribe": "notification/#"}))
    yield
    while True:
        for message in await _received(socket):
            if message.get("topic") == DEPLOYED:
                yield


async def _sign_in(socket: ClientConnection, token: str, address: str) -> None:
    await socket.send(json.dumps({"auth": token}))
    for _ in range(_AUTH_MESSAGES):
        for message in await _received(socket):
            if message.get("auth") == "ok":
                return
            if "auth" in message:
                raise EditorFault("editor_key_refused", address=address)
    raise EditorFault("editor_unreadable", address=address)


async def _received(socket: ClientConnection) -> list[dict[str, Any]]:
    """Returns the next messages; a text that is no JSON counts as none."""
    async with asyncio.timeout(SILENCE_S):
        raw = await socket.recv()
    try:
        value = json.loads(raw)
    except ValueError:
        return []
    several = as_list(value)
    found = several if several is not None else [value]
    return [message for each in found if (message := as_dict(each)) is not None]
