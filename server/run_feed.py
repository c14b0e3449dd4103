"""Watches the runs of automations of a workspace for all its readers: one look a second at what changed.

Runs that another server works on are seen as they are stored.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from datasources.errors import SourceError
from graphrag.agent.thread_store import Thread
from graphrag.automations.automation_store import Automations
from graphrag.automations.session_events import session_of
from graphrag.sessions.machine import SessionKind

log = logging.getLogger(__name__)

LOOK_S: Final = 1.0
MAX_SEEN: Final = 500
"""So many runs one look reads, at the first those that are open."""
SKEW_MS: Final = 10_000
"""So much the clock of the server that stored a run may be behind."""
KEPT: Final = 1_000
"""So many runs are remembered, those that changed last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunState:
    """Where a run stands; `number` grows with each change that was seen."""

    number: int
    owner: str
    graph_key: str
    document: Mapping[str, Any]


class RunFeed:
    """Looks at the open runs of a workspace while somebody reads."""

    def __init__(self, store: Automations, *, look_s: float = LOOK_S) -> None:
        self._store, self._look_s = store, look_s
        self._states: OrderedDict[str, RunState] = OrderedDict()
        self._since: int | None = None
        self._number = 0
        self._looked = asyncio.Event()
        self._readers = 0
        self._task: asyncio.Task[None] | None = None

    @contextmanager
    def reading(self) -> Generator[None]:
        """Look at the runs within the block."""
        self._readers += 1
        if self._task is None:
            self._states.clear()
            self._since = None
            self._task = asyncio.create_task(self._run())
        try:
            yield
        finally:
            self._readers -= 1
            if not self._readers:
                self._task.cancel()
                self._task = None

    async def next_changes(self, seen: int) -> list[RunState]:
        """Return the runs that changed since a number, once there is one."""
        while True:
            looked = self._looked
            found = [state for state in self._states.values() if state.number > seen]
            if found:
                return found
            await looked.wait()

    async def _run(self) -> None:
        while True:
            try:
                await self._look()
            except SourceError as exc:  # the store may be back at the next look
                log.warning("sessions_unreadable", extra={"error": type(exc).__name__})
            await asyncio.sleep(self._look_s)

    async def _look(self) -> None:
        now, since = self._store.clock(), self._since
        if since is None:
            found = await self._store.sessions({"open": True}, limit=MAX_SEEN)
        else:
            found = await self._store.changed_since(since, limit=MAX_SEEN)
        self._since = now - SKEW_MS
        runs = [stored.thread for stored in found if session_of(stored.thread).kind is SessionKind.AUTOMATION]
        changed = [self._note(thread) for thread in runs]
        if any(changed):
            self._looked.set()
            self._looked = asyncio.Event()

    def _note(self, thread: Thread) -> bool:
        document = state_document(thread)
        before = self._states.get(thread.key)
        if before is not None and before.document == document:
            return False
        self._number += 1
        self._states[thread.key] = RunState(
            number=self._number, owner=thread.user_id, graph_key=thread.graph_key, document=document
        )
        self._states.move_to_end(thread.key)
        if len(self._states) > KEPT:
            self._states.popitem(last=False)
        return True


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
