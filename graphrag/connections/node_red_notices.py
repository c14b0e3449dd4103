"""Notices of a Node-RED server: its WebSocket `/comms` tells each deployment and each failed node.

Source: the editor of Node-RED 5.0, which gets the same messages.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Any

from websockets.asyncio.client import ClientConnection

from graphrag.connections.editor import ServerNotice
from graphrag.connections.errors import EditorFault
from graphrag.connections.server_http import short_text
from graphrag.importers.json_values import as_dict, as_list, as_text

DEPLOYED = "notification/runtime-deploy"
DEBUG = "debug"
ERROR_LEVEL = 20
SILENCE_S = 45.0  # the server sends a heartbeat every 15 s
_AUTH_MESSAGES = 20  # messages that may come before the answer to the token


async def server_notices(
    socket: ClientConnection, token: str, address: str
) -> AsyncGenerator[ServerNotice]:
    """Yields a change when the notices are subscribed to, and then each deployment and failure.

    `token` is empty for an open server. Raises: EditorFault where the token is refused;
    TimeoutError where the server falls silent; ConnectionClosed.
    """
    if token:
        await _sign_in(socket, token, address)
    await socket.send(json.dumps({"subscribe": "notification/#"}))
    await socket.send(json.dumps({"subscribe": DEBUG}))
    yield ServerNotice()
    while True:
        for message in await _received(socket):
            if message.get("topic") == DEPLOYED:
                yield ServerNotice()
            elif (failure := _failure(message)) is not None:
                yield failure


def _failure(message: dict[str, Any]) -> ServerNotice | None:
    """Returns what a message of the debug panel tells about a failed node, None for another."""
    data = as_dict(message.get("data")) or {}
    node_id = as_text(data.get("id"))
    if message.get("topic") != DEBUG or data.get("level") != ERROR_LEVEL or not node_id:
        return None
    said = as_text(data.get("msg")) or ""
    with suppress(ValueError):  # an error is sent as JSON, with a stack that is left out
        fields = as_dict(json.loads(said)) or {}
        said = as_text((as_dict(fields.get("data")) or {}).get("message")) or said
    return ServerNotice(node_id=node_id, message=short_text(said))


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
