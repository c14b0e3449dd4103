"""What was sent of a turn or a run that this process works on; others read it at their own pace."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from server.ws_events import Message

SHOWN_CHARS = 20_000
"""So much of a tool's result is kept for other connections."""


class TurnLog:
    """Stores what was sent of a turn: messages without their `_id`, and between them pieces of the answer."""

    def __init__(self) -> None:
        self._parts: list[Message | list[str]] = []
        self._ended = False
        self._readers: set[asyncio.Event] = set()

    def add(self, message: Message) -> None:
        """Keep a message as it was sent."""
        if message["type"] == "ai:token":
            if not self._parts or isinstance(self._parts[-1], dict):
                self._parts.append([])
            pieces = self._parts[-1]
            assert isinstance(pieces, list)
            pieces.append(message["token"])
        else:
            kept = {name: value for name, value in message.items() if name != "_id"}
            if isinstance(kept.get("result"), str):
                kept["result"] = kept["result"][:SHOWN_CHARS]
            self._parts.append(kept)
        self._tell()

    def end(self) -> None:
        """Nothing more comes."""
        self._ended = True
        self._tell()

    def _tell(self) -> None:
        for changed in self._readers:
            changed.set()

    async def read(self) -> AsyncGenerator[Message]:
        """Yield it from its beginning to its end; what is there already of the answer comes in one piece."""
        changed = asyncio.Event()
        self._readers.add(changed)
        try:
            at = 0
            piece = 0
            while True:
                changed.clear()
                while at < len(self._parts):
                    part = self._parts[at]
                    if isinstance(part, dict):
                        at += 1
                        yield part
                        continue
                    text, piece = "".join(part[piece:]), len(part)
                    if text:
                        yield {"type": "ai:token", "token": text}
                    elif at + 1 < len(self._parts):
                        at, piece = at + 1, 0
                    else:
                        break
                if self._ended and not changed.is_set():
                    return
                await changed.wait()
        finally:
            self._readers.discard(changed)
