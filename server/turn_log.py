"""What was sent of a turn or a run that this process works on; others read it at their own pace."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator
from typing import Generic, Protocol, TypeVar

from server.auth import Identity
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


class FollowedTurn(Protocol):
    """A turn or a run with a number, and what says who may follow it."""

    @property
    def number(self) -> int: ...

    def is_of(self, identity: Identity, thread_id: str) -> bool: ...


F = TypeVar("F", bound=FollowedTurn)


class Followed(Generic[F]):
    """Turns, or runs, that hold their conversation here: others may follow them, by their numbers."""

    def __init__(self) -> None:
        self.numbers = itertools.count()
        self.followed: dict[int, F] = {}
        self._new = asyncio.Event()

    def begun(self, turn: F) -> None:
        """Note that a turn holds its conversation: it may be followed from now on."""
        self.followed[turn.number] = turn
        self._new.set()
        self._new = asyncio.Event()

    async def next_of(self, identity: Identity, thread_id: str, seen: int, wait_s: float) -> F | None:
        """Return the first turn of a thread whose number is above `seen`; None when none began in a while."""
        try:
            async with asyncio.timeout(wait_s):
                while True:
                    new = self._new
                    for number, turn in self.followed.items():
                        if number > seen and turn.is_of(identity, thread_id):
                            return turn
                    await new.wait()
        except TimeoutError:
            return None
