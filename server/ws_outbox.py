"""Queue of messages to one WebSocket client: ordered, bounded, closed if the client does not read.

`put` waits while the queue is full, so that a turn is not faster than its reader.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

Wire = Mapping[str, Any]


class ClientGone(Exception):
    """The client closed the connection, or did not read for `waited_s` seconds
    (None: it closed).
    """

    def __init__(self, *, waited_s: float | None = None) -> None:
        self.waited_s = waited_s
        why = "closed the connection" if waited_s is None else f"read nothing for {waited_s:g} s"
        super().__init__(f"the client {why}")


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxLimits:
    """Units: messages, characters of JSON, seconds without any message being taken."""

    messages: int = 256
    chars: int = 1_000_000
    patience_s: float = 30.0


@dataclass(slots=True)
class _QueuedMessage:
    """A message with its text. Later pieces of the same answer are added to `more`."""

    message: Wire
    text: str
    chars: int
    more: list[str]

    def takes(self, message: Wire) -> bool:
        """Returns True if a message is the next piece of the same answer."""
        mine = self.message
        return mine["type"] == message["type"] == "ai:token" and mine["_id"] == message["_id"]

    def encoded(self) -> str:
        if not self.more:
            return self.text
        return encode({**self.message, "token": "".join([self.message["token"], *self.more])})


class Outbox:
    """Holds messages until `send` has sent them; `run` calls it."""

    def __init__(
        self, send: Callable[[str], Awaitable[None]], limits: OutboxLimits | None = None
    ) -> None:
        self.limits = limits or OutboxLimits()
        self._send = send
        self._waiting: deque[_QueuedMessage] = deque()
        self._chars = 0
        self._closed: ClientGone | None = None
        self._changed = asyncio.Condition()

    @property
    def chars(self) -> int:
        """The size of the messages that wait or are being sent. Units: characters."""
        return self._chars

    async def put(self, message: Wire) -> None:
        """Adds a message when there is room. Raises: ClientGone."""
        await self._put(message, encode(message))

    async def put_text(self, text: bytes) -> None:
        """Adds a message that is JSON already. Raises: ClientGone."""
        await self._put({"type": ""}, text.decode())

    async def _put(self, message: Wire, text: str) -> None:
        async with self._changed:
            await self._changed.wait_for(
                lambda: self._closed is not None or self._has_room(len(text))
            )
            self._add(message, text)

    def _has_room(self, chars: int) -> bool:
        if not self._chars:
            return True  # whatever its size: what is larger than the box goes alone
        return (
            len(self._waiting) < self.limits.messages and self._chars + chars <= self.limits.chars
        )

    def _add(self, message: Wire, text: str) -> None:
        if self._closed is not None:
            raise self._closed
        last = self._waiting[-1] if self._waiting else None
        if last is not None and last.takes(message):
            # A client that is behind gets what it missed of an answer in one piece.
            last.more.append(message["token"])
            last.chars += len(text)
        else:
            self._waiting.append(
                _QueuedMessage(message=message, text=text, chars=len(text), more=[])
            )
        self._chars += len(text)
        self._changed.notify_all()

    async def run(self) -> None:
        """Sends until closed. Raises: ClientGone if the client does not read; then nothing more is
        sent.
        """
        while True:
            async with self._changed:
                await self._changed.wait_for(
                    lambda: bool(self._waiting) or self._closed is not None
                )
                if not self._waiting:
                    return
                item = self._waiting.popleft()
            try:
                async with asyncio.timeout(self.limits.patience_s):
                    await self._send(item.encoded())
            except TimeoutError:
                gone = ClientGone(waited_s=self.limits.patience_s)
                await self.close(gone)
                raise gone from None
            async with self._changed:
                self._chars -= min(item.chars, self._chars)
                self._changed.notify_all()

    async def close(self, why: ClientGone | None = None) -> None:
        """Closes the queue. With `why` the client is gone and waiting messages are dropped;
        otherwise they are still sent.
        """
        async with self._changed:
            if self._closed is None:
                self._closed = why or ClientGone()
            if why is not None:
                self._waiting.clear()
                self._chars = 0
            self._changed.notify_all()


def encode(message: Wire) -> str:
    """Returns a message as JSON. Half a surrogate pair becomes a question mark, as it is no
    character.
    """
    try:
        return orjson.dumps(message).decode()
    except TypeError:  # orjson knows neither such text nor numbers beyond 64 bits
        return (
            json.dumps(message, allow_nan=False, ensure_ascii=False)
            .encode("utf-8", "replace")
            .decode()
        )
