"""The editors of one live graph: each change is sent to the others, and missed messages to an
editor who returns.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import orjson

from graphrag.live.errors import LiveGraphClosed

Message = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberLimits:
    """Limits of the messages kept for the members of a live graph."""

    # Messages kept for an editor who reconnects; one who was away longer reads the graph
    # again.
    remembered: int = 5_000
    remembered_bytes: int = 4_000_000
    # Messages queued for one member; one who falls further behind is disconnected.
    queued: int = 2_000
    queued_bytes: int = 8_000_000
    # A member with more queued messages gets no transient ones, such as cursor positions.
    passing: int = 20


MEMBER_LIMITS: Final = MemberLimits()


@dataclass(frozen=True, slots=True, kw_only=True)
class Broadcast:
    """A message as JSON, encoded once for all recipients, and the sheets that it concerns (None:
    all).

    Units: `timestamp` in milliseconds since 1970, 0 for a message without one.
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
    """The connection of one editor. `next` waits for the messages of others."""

    def __init__(self, graph_key: str, user_id: str, sheet: str, limit: int) -> None:
        self.graph_key = graph_key
        self.user_id = user_id
        self.sheet = sheet
        self.id = secrets.token_hex(6)  # identifies the connection to the other editors
        self.is_shown = False
        self.missed: tuple[Broadcast, ...] = ()
        # If `missed` is not complete, the client must load the graph again.
        self.is_complete = True
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
        """Waits for the next message. Raises LiveGraphClosed if there will be none."""
        while not self._queue:
            if self._reason is not None:
                raise LiveGraphClosed(graph_key=self.graph_key, reason=self._reason)
            self._wake.clear()
            await self._wake.wait()
        broadcast = self._queue.popleft()
        self._bytes -= len(broadcast.text)
        return broadcast

    def waiting(self) -> list[Broadcast]:
        """Returns and removes the waiting messages, without waiting for more."""
        broadcasts = list(self._queue)
        self._queue.clear()
        self._bytes = 0
        return broadcasts

    def offer(self, broadcast: Broadcast) -> None:
        if self.is_gone:
            return
        size = len(broadcast.text)
        if len(self._queue) >= self._limit or (
            self._queue and self._bytes + size > MEMBER_LIMITS.queued_bytes
        ):
            self._queue.clear()
            self.close("it did not keep up with the others")
            return
        self._queue.append(broadcast)
        self._bytes += size
        self._wake.set()

    def offer_passing(self, broadcast: Broadcast) -> None:
        """Adds a transient message, which the next of its kind replaces, unless several are waiting
        already.
        """
        if len(self._queue) < MEMBER_LIMITS.passing:
            self.offer(broadcast)

    def close(self, reason: str) -> None:
        """Closes the connection; messages that are waiting can still be read."""
        self._reason = self._reason or reason
        self._wake.set()


class Room:
    """The members of one live graph and the latest messages, ordered by timestamp.

    `since` is the time of the stored graph, which an import may set to any value. Messages from
    before the room was opened are not all known, so a request for an earlier time is never answered
    as complete.
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
        """The time up to which the present graph contains every edit."""
        return max(self.latest, self._opened)

    def stamp(self) -> int:
        """Returns a time later than every earlier one, even if the clock goes backwards.

        It does not count as `seen` until its message is remembered, because the graph does not
        contain the change before.
        """
        self._stamped = max(self._clock(), self._stamped + 1, self.seen + 1)
        return self._stamped

    def stamped(self, message: Message, user_id: str) -> Message:
        """Returns a message as it is sent, with the next time."""
        return {
            **message,
            "graphKey": self._graph_key,
            "userId": user_id,
            "timestamp": self.stamp(),
        }

    def join(
        self,
        user_id: str,
        sheet: str,
        from_timestamp: int | None,
        *,
        queued: int = MEMBER_LIMITS.queued,
    ) -> Member:
        """Adds a member, with the messages about the sheet after a time. None means that it missed
        none.
        """
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
        """Sends a member's pointer and selection to the others on its sheet. Nothing of it is
        stored.
        """
        member.is_shown = True
        presence = {
            "type": "presence",
            "graphKey": self._graph_key,
            "sheetId": member.sheet,
            "member": member.id,
        }
        message = Broadcast.of(
            {**presence, "userId": member.user_id, **facts}, frozenset({member.sheet})
        )
        for other in self.members:
            if other is not member and message.concerns(other.sheet):
                other.offer_passing(message)

    def remember(self, broadcast: Broadcast) -> None:
        """Stores a message for editors who return; the oldest messages are removed at the limit."""
        self.latest = max(self.latest, broadcast.timestamp)
        self._remembered.append(broadcast)
        self._bytes += len(broadcast.text)
        while (
            len(self._remembered) > MEMBER_LIMITS.remembered
            or self._bytes > MEMBER_LIMITS.remembered_bytes
        ):
            oldest = self._remembered.popleft()
            self._bytes -= len(oldest.text)
            self._floor = max(self._floor, oldest.timestamp)

    def skip(self, timestamp: int) -> None:
        """Records a change whose message is not stored: editors who left before it load the graph
        again.
        """
        self.latest = max(self.latest, timestamp)
        self._floor = max(self._floor, timestamp)

    def send(self, broadcast: Broadcast, sender: Member | None = None) -> None:
        """Sends a message to all members on its sheets except its sender, and stores it for those
        who return.
        """
        self.remember(broadcast)
        self._offer(broadcast, sender)

    def notify(self, message: Message) -> None:
        """Sends all members a message that is not stored."""
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
