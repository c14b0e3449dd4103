"""Who edits a graph together: tells each of the others what happened, and the missed to who comes back."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

from graphrag.live.errors import LiveGraphClosed

Message = dict[str, Any]
REMEMBERED = 5_000
"""Messages kept for who comes back; who was away for longer reads the graph again."""

QUEUED = 2_000
"""Messages that wait for one member; who falls further behind is let go and may come back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A message with its time, and the sheets it is about (None: all). Units: milliseconds since 1970."""

    timestamp: int
    message: Message
    sheets: frozenset[str] | None

    def concerns(self, sheet: str) -> bool:
        return self.sheets is None or sheet in self.sheets


class Member:
    """One editor's connection. Iterate over it, or call `next`, for what the others do."""

    def __init__(self, graph_key: str, user_id: str, sheet: str, limit: int) -> None:
        self.graph_key, self.user_id, self.sheet = graph_key, user_id, sheet
        self.missed: tuple[Message, ...] = ()
        self.is_complete = True
        """Whether `missed` is all; if not the graph must be read again."""
        self.timestamp = 0
        self._limit = limit
        self._queue: deque[Message] = deque()
        self._wake = asyncio.Event()
        self._reason: str | None = None

    @property
    def is_gone(self) -> bool:
        return self._reason is not None

    async def next(self) -> Message:
        """Wait for the next message. Raises: LiveGraphClosed when there will be none."""
        while not self._queue:
            if self._reason is not None:
                raise LiveGraphClosed(graph_key=self.graph_key, reason=self._reason)
            self._wake.clear()
            await self._wake.wait()
        return self._queue.popleft()

    def waiting(self) -> list[Message]:
        """Take what has come and was not read, without waiting."""
        found = list(self._queue)
        self._queue.clear()
        return found

    async def __aiter__(self) -> AsyncIterator[Message]:
        while True:
            yield await self.next()

    def offer(self, message: Message) -> None:
        if self.is_gone:
            return
        if len(self._queue) >= self._limit:
            self._queue.clear()
            self.close("it did not keep up with the others")
            return
        self._queue.append(message)
        self._wake.set()

    def close(self, reason: str) -> None:
        """End it; what has come already can still be read."""
        self._reason = self._reason or reason
        self._wake.set()


class Room:
    """The members of one live graph and the latest messages, in the order of their timestamps.

    `since` is the time of the stored graph, which an import may have set to any. What happened before
    the room was opened is known only in part: an earlier time is never answered as complete.
    """

    def __init__(self, graph_key: str, clock: Callable[[], int], *, since: int) -> None:
        self._graph_key, self._clock = graph_key, clock
        self._latest = since
        self._opened = self._floor = max(since, clock())
        self._remembered: deque[Told] = deque()
        self.members: dict[Member, None] = {}

    @property
    def latest(self) -> int:
        return self._latest

    @property
    def seen(self) -> int:
        """The time up to which who looks now has seen everything."""
        return max(self._latest, self._opened)

    def stamp(self) -> int:
        """Return a time later than every one before, also when the clock goes backwards."""
        self._latest = max(self._clock(), self.seen + 1)
        return self._latest

    def stamped(self, message: Message, sheets: frozenset[str] | None, user_id: str) -> Told:
        """Return a message as it will be told, with the next time."""
        at = self.stamp()
        full = {**message, "graphKey": self._graph_key, "userId": user_id, "timestamp": at}
        return Told(timestamp=at, message=full, sheets=sheets)

    def join(self, user_id: str, sheet: str, from_timestamp: int | None, *, queued: int = QUEUED) -> Member:
        """Add a member, with what happened on the sheet after a time (None: nothing was missed)."""
        member = Member(self._graph_key, user_id, sheet, queued)
        member.timestamp = self.seen
        if from_timestamp is not None:
            member.missed = tuple(
                told.message
                for told in self._remembered
                if told.timestamp > from_timestamp and told.concerns(sheet)
            )
            member.is_complete = from_timestamp >= self._floor
        self.members[member] = None
        return member

    def leave(self, member: Member, reason: str = "it left") -> None:
        self.members.pop(member, None)
        member.close(reason)

    def remember(self, told: Told) -> None:
        self._latest = max(self._latest, told.timestamp)
        self._remembered.append(told)
        if len(self._remembered) > REMEMBERED:
            self._floor = max(self._floor, self._remembered.popleft().timestamp)

    def tell(self, told: Told, sender: Member | None = None) -> None:
        """Tell all on the message's sheets but its sender, and keep it for who is away."""
        self.remember(told)
        for member in list(self.members):
            if member is not sender and told.concerns(member.sheet):
                self._offer(member, told.message)

    def notify(self, message: Message) -> None:
        """Tell everyone something that need not be known later."""
        for member in list(self.members):
            self._offer(member, message)

    def _offer(self, member: Member, message: Message) -> None:
        member.offer(message)
        if member.is_gone:
            self.members.pop(member, None)

    def close(self, reason: str) -> None:
        for member in list(self.members):
            self.leave(member, reason)
