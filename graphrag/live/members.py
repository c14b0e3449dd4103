"""The editors of one live graph: each change goes to the others, what was missed to
who comes back.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import orjson

from graphrag.live.errors import LiveGraphClosed

Message = dict[str, Any]
REMEMBERED = 5_000
REMEMBERED_BYTES = 4_000_000
"""Messages kept for an editor who comes back; one who was away for longer reads the graph again."""

QUEUED = 2_000
PASSING = 20
"""Who has more than so many messages waiting is not sent what need not be known later."""

QUEUED_BYTES = 8_000_000
"""Messages that wait for one member; one who falls further behind is let go and may come back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Broadcast:
    """A message as JSON, encoded once for all who get it, and the sheets it is about (None: all).

    Units: `timestamp` in milliseconds since 1970; 0: the message has none.
    """

    timestamp: int
    text: bytes
    sheets: frozenset[str] | None = None

    @staticmethod
    def of(message: Message, sheets: frozenset[str] | None = None) -> Broadcast:
        return Broadcast(
            timestamp=message.get("timestamp", 0), text=orjson.dumps(message), sheets=sheets
        )

    @property
    def message(self) -> Message:
        return orjson.loads(self.text)

    def concerns(self, sheet: str) -> bool:
        return self.sheets is None or sheet in self.sheets


class Member:
    """One editor's connection. `next` waits for what the others do."""

    def __init__(self, graph_key: str, user_id: str, sheet: str, limit: int) -> None:
        self.graph_key = graph_key
        self.user_id = user_id
        self.sheet = sheet
        self.id = secrets.token_hex(6)
        """What the others know this connection by."""
        self.is_shown = False
        self.missed: tuple[Broadcast, ...] = ()
        self.is_complete = True
        """Whether `missed` is all; if not the graph must be read again."""
        self.timestamp = 0
        self._limit = limit
        self._queue: deque[Broadcast] = deque()
        self._bytes = 0
        self._wake = asyncio.Event()
        self._reason: str | None = None

    @property
    def is_gone(self) -> bool:
        return self._reason is not None

    async def next(self) -> Broadcast:
        """Wait for the next message. Raises: LiveGraphClosed when there will be none."""
        while not self._queue:
            if self._reason is not None:
                raise LiveGraphClosed(graph_key=self.graph_key, reason=self._reason)
            self._wake.clear()
            await self._wake.wait()
        found = self._queue.popleft()
        self._bytes -= len(found.text)
        return found

    def waiting(self) -> list[Broadcast]:
        """Take what has come and was not read, without waiting."""
        found = list(self._queue)
        self._queue.clear()
        self._bytes = 0
        return found

    def offer(self, broadcast: Broadcast) -> None:
        if self.is_gone:
            return
        size = len(broadcast.text)
        if len(self._queue) >= self._limit or (self._queue and self._bytes + size > QUEUED_BYTES):
            self._queue.clear()
            self.close("it did not keep up with the others")
            return
        self._queue.append(broadcast)
        self._bytes += size
        self._wake.set()

    def offer_passing(self, broadcast: Broadcast) -> None:
        """Add a message that the next of its kind replaces, unless others wait already."""
        if len(self._queue) < PASSING:
            self.offer(broadcast)

    def close(self, reason: str) -> None:
        """End it; what has come already can still be read."""
        self._reason = self._reason or reason
        self._wake.set()


class Room:
    """The members of one live graph and the latest messages, in the order of their timestamps.

    `since` is the time of the stored graph, which an import may have set to any. What happened
    before the room was opened is known only in part: an earlier time is never answered as complete.
    """

    def __init__(self, graph_key: str, clock: Callable[[], int], *, since: int) -> None:
        self._graph_key = graph_key
        self._clock = clock
        self.latest = self._stamped = since
        self._opened = self._floor = max(since, clock())
        self._remembered: deque[Broadcast] = deque()
        self._bytes = 0
        self.members: dict[Member, None] = {}

    @property
    def seen(self) -> int:
        """The time up to which who looks now has seen everything."""
        return max(self.latest, self._opened)

    def stamp(self) -> int:
        """Return a time later than every one before, also when the clock goes backwards.

        It is not `seen` before its message is remembered: until then the graph does not
        show the change.
        """
        self._stamped = max(self._clock(), self._stamped + 1, self.seen + 1)
        return self._stamped

    def stamped(self, message: Message, user_id: str) -> Message:
        """Return a message as it will be sent, with the next time."""
        return {
            **message,
            "graphKey": self._graph_key,
            "userId": user_id,
            "timestamp": self.stamp(),
        }

    def join(
        self, user_id: str, sheet: str, from_timestamp: int | None, *, queued: int = QUEUED
    ) -> Member:
        """Add a member, with what happened on the sheet after a time (None: nothing was missed)."""
        member = Member(self._graph_key, user_id, sheet, queued)
        member.timestamp = self.seen
        if from_timestamp is not None:
            member.missed = tuple(
                broadcast
                for broadcast in self._remembered
                if broadcast.timestamp > from_timestamp and broadcast.concerns(sheet)
            )
            member.is_complete = from_timestamp >= self._floor
        self.members[member] = None
        return member

    def leave(self, member: Member, reason: str = "it left") -> None:
        if self.members.pop(member, member) is None and member.is_shown:
            self.show(member, {"gone": True})
        member.close(reason)

    def show(self, member: Member, facts: Message) -> None:
        """Tell the others on its sheet what a member points at and selected. Nothing
        of it is kept.
        """
        member.is_shown = True
        said = {
            "type": "presence",
            "graphKey": self._graph_key,
            "sheetId": member.sheet,
            "member": member.id,
        }
        message = Broadcast.of(
            {**said, "userId": member.user_id, **facts}, frozenset({member.sheet})
        )
        for other in self.members:
            if other is not member and message.concerns(other.sheet):
                other.offer_passing(message)

    def remember(self, broadcast: Broadcast) -> None:
        """Keep a message for editors who are away; the oldest are forgotten."""
        self.latest = max(self.latest, broadcast.timestamp)
        self._remembered.append(broadcast)
        self._bytes += len(broadcast.text)
        while len(self._remembered) > REMEMBERED or self._bytes > REMEMBERED_BYTES:
            oldest = self._remembered.popleft()
            self._bytes -= len(oldest.text)
            self._floor = max(self._floor, oldest.timestamp)

    def skip(self, timestamp: int) -> None:
        """Note a change whose message is not kept: editors away since before it load
        the graph again.
        """
        self.latest = max(self.latest, timestamp)
        self._floor = max(self._floor, timestamp)

    def send(self, broadcast: Broadcast, sender: Member | None = None) -> None:
        """Send to all on the message's sheets but its sender, and keep it for editors
        who are away.
        """
        self.remember(broadcast)
        self._offer(broadcast, sender)

    def notify(self, message: Message) -> None:
        """Send everyone something that need not be known later."""
        self._offer(Broadcast.of(message), None)

    def _offer(self, broadcast: Broadcast, sender: Member | None) -> None:
        for member in list(self.members):
            if member is not sender and broadcast.concerns(member.sheet):
                member.offer(broadcast)
                if member.is_gone:
                    self.members.pop(member, None)

    def close(self, reason: str) -> None:
        for member in list(self.members):
            self.leave(member, reason)
