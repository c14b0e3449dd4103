"""A client of the service's WebSocket: streams turns, several at once on one connection.

Yields the messages of the protocol unchanged; only their `_id` is read, to assign them to a turn.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Self, cast
from urllib.parse import urlsplit, urlunsplit
from weakref import WeakValueDictionary

import orjson
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidURI

from graphrag.client.rest import ServiceError, ServiceUnreachable

Message = dict[str, Any]
ENDS = ("ai:complete", "ai:error")
OPEN_S = 15.0
# Maximum size of a message in bytes; a preview may contain much code.
MAX_MESSAGE = 64 * 1024 * 1024


class StreamedTurn:
    """A running turn. Iterate over it until its end, and again for its continuation after a
    decision made elsewhere.
    """

    def __init__(self, stream: NodiusStream, id_: int) -> None:
        self.id = id_
        self._stream = stream
        self._messages: asyncio.Queue[Message | None] = asyncio.Queue()

    async def __aiter__(self) -> AsyncIterator[Message]:
        """Yields messages; the last is `ai:complete` or `ai:error`. Raises: ServiceUnreachable."""
        while True:
            message = await self._messages.get()
            if message is None:
                self._messages.put_nowait(None)
                raise self._stream.lost()
            yield message
            if message["type"] in ENDS:
                return

    async def interrupt(self) -> None:
        """Stops the turn, which then ends with `ai:complete`."""
        await self._stream.send({"type": "ai:interrupt", "_id": self.id, "threadId": ""})

    def take(self, message: Message | None) -> None:
        """Adds a message of the turn; None if the connection ended."""
        self._messages.put_nowait(message)


class NodiusStream:
    """One connection, used as `async with`. With a token it signs in.

    Raises ServiceUnreachable on entering, or ServiceError (`auth_error`) if the token is refused.
    """

    def __init__(self, address: str = "http://127.0.0.1:8426", *, token: str | None = None) -> None:
        self.address = websocket_address(address)
        self._token = token
        self._ids = itertools.count(1)
        # Weak: messages of a turn that the caller dropped are ignored.
        self._turns: WeakValueDictionary[int, StreamedTurn] = WeakValueDictionary()
        self._connection: ClientConnection | None = None
        self._reading: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        try:
            # A proxy configured in the environment would be used for local addresses, too.
            self._connection = await connect(
                self.address, proxy=None, open_timeout=OPEN_S, max_size=MAX_MESSAGE
            )
        except (OSError, InvalidHandshake, InvalidURI, TimeoutError) as exc:
            raise ServiceUnreachable(
                address=self.address, reason=str(exc) or type(exc).__name__
            ) from exc
        try:
            await self._sign_in()
        except BaseException:
            await self._connection.close()
            raise
        self._reading = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._open.close()
        if self._reading is not None:
            await self._reading

    async def chat(
        self,
        graph_key: str,
        message: str,
        *,
        thread_id: str | None = None,
        features: Sequence[str] | None = None,
        blocks: Sequence[Message] | None = None,
    ) -> StreamedTurn:
        """Asks about a graph, in a new thread or an existing one.

        `features` are the optional messages that the caller can show (`questions`); `blocks` are
        what the message refers to, uses, creates or configures.
        """
        fields: Message = {"graphKey": graph_key, "message": message}
        fields |= {"threadId": thread_id, "features": features, "blocks": blocks}
        return await self._begin("ai:chat", {k: v for k, v in fields.items() if v is not None})

    async def answer(self, thread_id: str, response: str | bool) -> StreamedTurn:
        """Answers the question that a thread is waiting for, and continues the thread."""
        return await self._begin("ai:answer", {"threadId": thread_id, "response": response})

    async def resume(
        self,
        thread_id: str,
        *,
        approved: bool,
        feedback: str | None = None,
        approval_id: str | None = None,
        edited_action: Mapping[str, Any] | None = None,
    ) -> StreamedTurn:
        """Decides a proposal that a thread is waiting for, by default the oldest, and continues the
        thread.
        """
        fields: Message = {
            "threadId": thread_id,
            "approved": approved,
            "feedback": feedback,
            "approvalId": approval_id,
            "editedAction": edited_action,
        }
        return await self._begin("ai:resume", {k: v for k, v in fields.items() if v is not None})

    async def send(self, message: Mapping[str, Any]) -> None:
        """Sends a message unchanged. Raises: ServiceUnreachable."""
        try:
            await self._open.send(orjson.dumps(message).decode())
        except ConnectionClosed:
            raise self.lost() from None

    def lost(self) -> ServiceUnreachable:
        """Returns the error that describes how the connection ended."""
        code = self._open.close_code
        reason = self._open.close_reason
        return ServiceUnreachable(
            address=self.address, reason=f"the connection ended ({code} {reason or ''})"
        )

    @property
    def _open(self) -> ClientConnection:
        if self._connection is None:
            raise RuntimeError("the stream is not open")
        return self._connection

    async def _sign_in(self) -> None:
        if self._token is None:
            return
        await self.send({"type": "authenticate", "token": self._token})
        try:
            async with asyncio.timeout(OPEN_S):
                result = _message(await self._open.recv())
        except (ConnectionClosed, TimeoutError) as exc:
            raise self.lost() from exc
        if not result.get("success"):
            reason = str(result.get("error", "the token is refused"))
            raise ServiceError(status=401, code="auth_error", reason=reason)

    async def _begin(self, type_: str, fields: Message) -> StreamedTurn:
        turn = StreamedTurn(self, next(self._ids))
        self._turns[turn.id] = turn
        await self.send({"type": type_, "_id": turn.id, **fields})
        return turn

    async def _read(self) -> None:
        """Passes each message to its turn until the connection ends."""
        try:
            async for frame in self._open:
                message = _message(frame)
                turn = self._turns.get(message.get("_id", 0))
                if turn is not None:
                    turn.take(message)
                elif message.get("type") == "authResult" and not message.get("success"):
                    await self._open.close(reason="not signed in")
        except ConnectionClosed:
            pass
        finally:
            for turn in list(self._turns.values()):
                turn.take(None)


def websocket_address(address: str) -> str:
    """Returns the WebSocket address of a service: `ws://host:port/ws` for `http://host:port`."""
    parts = urlsplit(address)
    scheme = {"http": "ws", "https": "wss"}.get(parts.scheme, parts.scheme)
    path = parts.path.rstrip("/")
    return urlunsplit(
        (scheme, parts.netloc, path if path.endswith("/ws") else f"{path}/ws", "", "")
    )


def _message(frame: str | bytes) -> Message:
    loaded: Any = orjson.loads(frame)
    return cast(Message, loaded) if isinstance(loaded, dict) else {}
