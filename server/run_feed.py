"""Watches the runs of automations of a workspace; see `change_feed`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from graphrag.agent.thread_store import Thread, session_of
from graphrag.automations.automation_store import Automations
from graphrag.sessions.machine import SessionKind
from server.change_feed import MAX_SEEN, SKEW_MS, ChangeFeed, SeenDocument


class RunFeed(ChangeFeed):
    """Looks at the runs of a workspace; each belongs to its graph."""

    unreadable = "sessions_unreadable"

    def __init__(self, store: Automations) -> None:
        super().__init__()
        self._store, self._since = store, 0

    async def look(self, *, first: bool) -> Iterable[SeenDocument]:
        now = self._store.clock()
        if first:
            found = await self._store.sessions({"open": True}, limit=MAX_SEEN)
        else:
            found = await self._store.changed_since(self._since, limit=MAX_SEEN)
        self._since = now - SKEW_MS
        runs = [stored.thread for stored in found if session_of(stored.thread).kind is SessionKind.AUTOMATION]
        return [
            SeenDocument(key=run.key, owner=run.user_id, about=run.graph_key, document=state_document(run))
            for run in runs
        ]


def state_document(thread: Thread) -> Mapping[str, Any]:
    """Return where a run stands, as clients get it."""
    session = thread.session
    if session is None:
        return {}
    found: dict[str, Any] = {
        "sessionId": thread.key,
        "automationId": session.automation_id,
        "graphKey": thread.graph_key,
        "phase": session.phase.value,
        "roundtrips": session.roundtrips,
        "time": session.last_event_time,
    }
    if session.end_reason is not None:
        found["endReason"] = session.end_reason.value
    if session.waiting is not None:
        found["waiting"] = session.waiting
    return found
