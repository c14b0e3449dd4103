"""What one client is told of the approvals of its workspaces: how many wait, and what was decided.

Only a client that asks for it (`ai:watch`) is told, under the `_id` that it asked with: `ai:watching` at
once, then `ai:review` for each workspace, and again whenever something was proposed or decided.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from contextlib import aclosing, suppress

from datasources.errors import SourceError
from graphrag.approvals.audit import Entry
from server.errors import AuthError
from server.state import ServerState
from server.workspaces import WorkspaceContext, WorkspaceResolver
from server.ws_events import Message
from server.ws_messages import AiWatch
from server.ws_outbox import ClientGone, Outbox
from server.ws_session import Session

log = logging.getLogger(__name__)

LOOKED_BACK = 200
"""Audit entries among which a client finds what was decided while it was away."""
_TOLD = ("approvalId", "graphKey", "threadId", "event", "asker", "userId")


class Watching:
    """Watches for one connection; a second `watch` takes the place of the first."""

    def __init__(self, state: ServerState, outbox: Outbox) -> None:
        self._state, self._outbox = state, outbox
        self._tasks: list[asyncio.Task[None]] = []

    async def watch(self, places: WorkspaceResolver, asked: AiWatch, session: Session) -> None:
        """Begin to watch; returns at once. Raises: ClientGone."""
        await self.aclose()
        await self._outbox.put({"type": "ai:watching", "_id": asked.id})
        for place in await places.all():
            self._tasks.append(asyncio.create_task(self._run(place, asked, session)))

    async def aclose(self) -> None:
        """Watch nothing any more."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, place: WorkspaceContext, asked: AiWatch, session: Session) -> None:
        feed = place.workspace.reviews
        missed = await self._missed(place, asked)
        with suppress(ClientGone, AuthError):  # the connection says itself that a token expired
            async with aclosing(feed.read()) as news:
                async for one in news:
                    session.check(place.person.workspace)
                    decided = _told([*missed, *one.decided])
                    missed = []
                    await self._outbox.put(self._message(place, asked, dict(one.waiting), decided))

    async def _missed(self, place: WorkspaceContext, asked: AiWatch) -> list[Entry]:
        """Return what was decided of this person's proposals since the time that they name."""
        if asked.since is None:
            return []
        try:
            entries = await place.services.approvals.audit.entries(limit=LOOKED_BACK)
        except SourceError as exc:
            log.warning("review_unreadable", extra={"error": type(exc).__name__})
            return []
        own = [e for e in entries if e.at > asked.since and e.facts.get("asker") == place.person.user_id]
        return own[::-1]

    def _message(
        self, place: WorkspaceContext, asked: AiWatch, waiting: dict[str, int], decided: list[Message]
    ) -> Message:
        return {
            "type": "ai:review",
            "_id": asked.id,
            "workspace": place.person.workspace,
            "waiting": waiting,
            "decided": decided,
        }


def _told(entries: Iterable[Entry]) -> list[Message]:
    return [
        {**{name: entry.facts[name] for name in _TOLD if name in entry.facts}, "at": entry.at}
        for entry in entries
    ]
