"""Watches stored documents of a workspace for all its readers, with one query a second and one at
each notice of the database.

Changes by other servers are seen when they are stored. `SessionFeed` watches runs of automations
and conversations.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncGenerator, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

from datasources.errors import SourceError
from datasources.notices import WorkspaceNotices
from graphrag.agent.conversation_state import conversation_state
from graphrag.agent.thread_store import KIND as THREAD_KIND
from graphrag.agent.thread_store import SESSION_KIND, Thread, Threads, session_of
from graphrag.automations.automation_store import Automations
from graphrag.automations.automation_view import run_summary
from graphrag.sessions.phases import Phase, SessionKind

log = logging.getLogger(__name__)

LOOK_S: Final = 1.0
# Minimum time between two queries: one may read hundreds of documents.
LEAST_S: Final = 0.05
# Documents that one query reads; the first query reads the open ones.
MAX_SEEN: Final = 500
# Conversations that the first query reads, those that changed last.
MAX_CHATS: Final = 100
# Maximum difference between the clocks of servers.
SKEW_MS: Final = 10_000
# Documents that are remembered, those that changed last.
KEPT: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenDocument:
    """A document as it was read. `number` grows with each change; `about`: the key of the object
    that it belongs to.
    """

    key: str
    about: str
    document: Mapping[str, Any]
    owner: str = ""
    is_private: bool = False  # only its owner may see it
    number: int = 0


class StoreWatch:
    """Queries a store while there are readers, and notifies them of changes. Units: seconds.

    `kinds` are those of the watched records.
    """

    unreadable = "feed_unreadable"  # event that is logged if the store does not answer
    look_s = LOOK_S

    def __init__(self, notices: WorkspaceNotices, *kinds: str) -> None:
        self._notices = notices
        self._kinds = kinds
        self._changed = asyncio.Event()
        self.readers = 0
        self._task: asyncio.Task[None] | None = None

    @contextmanager
    def watching(self) -> Generator[None]:
        """Watches the store during the block, or longer for other readers."""
        self.readers += 1
        if self._task is None:
            self.forget()
            self._task = asyncio.create_task(self._run())
        try:
            yield
        finally:
            self.readers -= 1
            if not self.readers:
                self._task.cancel()
                self._task = None

    def forget(self) -> None:
        """Clears what was read before a time without readers."""
        raise NotImplementedError

    async def see(self) -> bool:
        """Queries the store once. Returns True if something changed. Raises: SourceError."""
        raise NotImplementedError

    async def _run(self) -> None:
        with self._notices.subscribed(*self._kinds, least_s=LEAST_S) as inbox:
            while True:
                try:
                    if await self.see():
                        self._changed.set()
                        self._changed = asyncio.Event()
                except SourceError as exc:  # the store may be back at the next look
                    log.warning(self.unreadable, extra={"error": type(exc).__name__})
                await inbox.wait(self.look_s)


class ChangeFeed(StoreWatch):
    """A feed of changed documents."""

    def __init__(self, notices: WorkspaceNotices, *kinds: str) -> None:
        super().__init__(notices, *kinds)
        self._states: OrderedDict[str, SeenDocument] = OrderedDict()
        self._number = 0
        self._first = True

    async def look(self, *, first: bool) -> Iterable[SeenDocument]:
        """Returns documents that may have changed since the last query; at first the open ones.

        Raises: SourceError.
        """
        raise NotImplementedError

    async def changes(self) -> AsyncGenerator[list[SeenDocument]]:
        """Yields the current documents, then those that changed each time. Close it (`aclosing`) to
        stop watching.
        """
        seen = 0
        with self.watching():
            while True:
                changed = self._changed
                newer = [state for state in self._states.values() if state.number > seen]
                if newer:
                    seen = max(state.number for state in newer)
                    yield newer
                else:
                    await changed.wait()

    def forget(self) -> None:
        self._states.clear()
        self._first = True

    async def see(self) -> bool:
        noted = [self._note(each) for each in await self.look(first=self._first)]
        self._first = False
        return any(noted)

    def _note(self, now: SeenDocument) -> bool:
        before = self._states.get(now.key)
        if before is not None and before.document == now.document:
            return False
        self._number += 1
        self._states[now.key] = replace(now, number=self._number)
        self._states.move_to_end(now.key)
        if len(self._states) > KEPT:
            self._states.popitem(last=False)
        return True


class SessionFeed(ChangeFeed):
    """Watches the sessions of a workspace: runs of automations, and conversations."""

    unreadable = "sessions_unreadable"

    def __init__(self, runs: Automations, chats: Threads) -> None:
        super().__init__(runs.records.notices, SESSION_KIND, THREAD_KIND)
        self._runs = runs
        self._chats = chats
        self._since = 0

    async def look(self, *, first: bool) -> Iterable[SeenDocument]:
        now = self._runs.clock()
        if first:
            stored = await self._runs.sessions({"open": True}, limit=MAX_SEEN)
            chats = await self._chats.list_all(self._runs.workspace, limit=MAX_CHATS)
        else:
            stored = await self._runs.sessions(
                {}, order_by="lastUpdatedTime", at_least=self._since, limit=MAX_SEEN
            )
            chats = await self._chats.list_all(
                self._runs.workspace, since=self._since, limit=MAX_SEEN
            )
        self._since = now - SKEW_MS
        runs = [
            each.thread for each in stored if session_of(each.thread).kind is SessionKind.AUTOMATION
        ]
        seen = [_seen(run, run_document(run)) for run in runs]
        states = [_seen(chat, chat_document(chat), is_private=True) for chat in chats]
        if first:
            states = [state for state in states if state.document["phase"] != Phase.IDLE]
        return [*seen, *states]


def _seen(thread: Thread, document: Mapping[str, Any], *, is_private: bool = False) -> SeenDocument:
    return SeenDocument(
        key=thread.key,
        owner=thread.user_id,
        about=thread.graph_key,
        document=document,
        is_private=is_private,
    )


def run_document(thread: Thread) -> Mapping[str, Any]:
    """Returns the state of a run for clients."""
    shown = {
        "session_id",
        "kind",
        "automation_id",
        "graph_key",
        "phase",
        "roundtrips",
        "end_reason",
        "waiting",
    }
    run = run_summary(thread)
    document = run.model_dump(mode="json", by_alias=True, exclude_none=True, include=shown)
    return {**document, "time": run.last_event_time}


def chat_document(thread: Thread) -> Mapping[str, Any]:
    """Returns the state of a conversation for clients. It has no count of model calls, which only
    runs have.
    """
    state = conversation_state(thread)
    fields = {"kind", "phase", "waiting"}
    return {
        "sessionId": thread.key,
        "graphKey": thread.graph_key,
        **state.model_dump(mode="json", by_alias=True, exclude_none=True, include=fields),
        "time": thread.last_updated_time,
    }
