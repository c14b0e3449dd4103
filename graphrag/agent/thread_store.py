"""Stored conversations: one document a thread, written with compare-and-set.

The form is that of Nodius's `nodius_ai_threads`; `turn` and `schemaVersion` are ours, and unknown
fields are kept. A thread belongs to one person and does not exist for others.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

from pydantic import Field

from datasources.base import Record, RecordStore, RecordWrite
from datasources.errors import RecordConflict
from datasources.record_kinds import Where
from datasources.types import Document, parse_document
from graphrag.agent.editor_threads import take_over
from graphrag.agent.thread_agent import AGENT_INDEXED_FIELDS, ThreadAgent
from graphrag.agent.thread_messages import from_stored, stamped, to_stored
from graphrag.i18n import LocalizedError
from graphrag.leases import now_ms
from graphrag.llm.base import Message, clean
from graphrag.roles import Person
from graphrag.sessions.agent_session import INDEXED_FIELDS, AgentSession, TurnStatus
from graphrag.stored_records import delete_record, given, readable

log = logging.getLogger(__name__)

KIND = "thread"
# record kind of templates and runs, which lists of conversations do not show
SESSION_KIND = "session"
SCHEMA_VERSION = 1
TITLE_CHARS = 80


class ThreadError(LocalizedError, fact_chars=500):
    """Base of the errors of threads."""


@final
class ThreadNotFound(ThreadError):
    """Facts: `thread_id`."""


@final
class EmptyMessage(ThreadError):
    """A message without words."""


@final
class ThreadOfOtherGraph(ThreadError):
    """Facts: `thread_id`, `graph_key`, and the graph `asked` for."""


@final
class ThreadBusy(ThreadError):
    """Another process holds the thread, or stored it meanwhile. Facts: `thread_id`."""


@final
class ThreadVersion(ThreadError):
    """The thread was stored by a newer program. Facts: `thread_id`, and `found`, its version."""


@final
class NothingToResume(ThreadError):
    """Facts: `thread_id` and the `status` of its turn."""


@final
class StoredTurn(Document):
    """The state of the last turn. `open`: approvals whose outcome the model awaits, by tool call.
    `unsure`: calls whose proposal may have been stored although storing it failed. `started`: acts
    that began; without an answer, one may have been carried out.

    `text`: the model's text in this turn before it waited.
    """

    number: int = 0
    status: TurnStatus = "idle"
    rounds_used: int = 0
    rounds_allowed: int = 5
    open: dict[str, str] = Field(default_factory=dict[str, str])
    unsure: list[str] = Field(default_factory=list[str])
    started: list[str] = Field(default_factory=list[str])
    text: str = ""


@final
class Thread(Document):
    """A conversation with its sums. Units: times in milliseconds since 1970, cost in US dollars."""

    key: str
    graph_key: str
    workspace: str
    user_id: str
    context_type: str | None = None
    title: str = ""
    conversation_history: list[Any] = Field(default_factory=list[Any])
    pending_interrupt: Any = None
    total_prompt_tokens: int = 0
    total_completion_tokens: int = 0
    total_tokens: int = 0
    total_cost: float = 0.0
    unpriced_tokens: int = 0
    """Tokens without a known price, which `total_cost` leaves out."""
    provider: str | None = None
    model: str | None = None
    message_count: int = 0
    tool_call_count: int = 0
    created_time: int = 0
    last_updated_time: int = 0
    schema_version: int = 0
    turn: StoredTurn = StoredTurn()
    session: AgentSession | None = None
    """The state of a template or a run; None for a conversation."""
    agent: ThreadAgent | None = None
    """The declarative agent of the conversation and its values."""

    @property
    def messages(self) -> list[Message]:
        return from_stored(self.conversation_history)

    def summary(self) -> dict[str, Any]:
        """Returns the fields that a list of threads shows."""
        return {
            "threadId": self.key,
            **self.model_dump(by_alias=True, include=_SHOWN),
            "totalCost": None if self.unpriced_tokens else self.total_cost,
            "status": self.turn.status,
            "agentId": self.agent.agent_id if self.agent else None,
            "ended": self.agent is not None and not self.agent.is_open,
        }


_SHOWN = {
    *("graph_key", "context_type", "title", "total_tokens", "provider", "model"),
    *("message_count", "tool_call_count", "created_time", "last_updated_time"),
}
"""Fields of a thread that a list of threads shows."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class StoredThread:
    """A thread and its version when it was read; None: not stored yet."""

    thread: Thread
    version: str | None


@final
class Threads:
    """The threads of one workspace: conversations, or templates and runs, by `kind`.

    `clock` returns milliseconds since 1970.
    """

    def __init__(
        self, records: RecordStore, *, kind: str = KIND, clock: Callable[[], int] = now_ms
    ) -> None:
        self._records = records
        self._kind = kind
        self.clock = clock

    def begin(
        self,
        graph_key: str,
        person: Person,
        *,
        title: str,
        context_type: str | None = None,
        key: str | None = None,
    ) -> StoredThread:
        """Returns a new thread, with a new key by default. Stores nothing."""
        now = self.clock()
        thread = Thread(
            key=key or uuid.uuid4().hex,
            graph_key=graph_key,
            workspace=person.workspace,
            user_id=person.user_id,
            context_type=context_type,
            title=_title(title),
            created_time=now,
            last_updated_time=now,
            schema_version=SCHEMA_VERSION,
        )
        return StoredThread(thread=thread, version=None)

    async def get(self, thread_id: str, person: Person) -> StoredThread:
        """Returns a person's thread. Raises: ThreadNotFound, ThreadVersion, BadDocument."""
        stored = await self.get_of(thread_id, person.workspace)
        if stored.thread.user_id != person.user_id:
            raise ThreadNotFound(thread_id=thread_id)
        return stored

    async def get_of(self, thread_id: str, workspace: str) -> StoredThread:
        """Returns any thread of a workspace; the caller checks who may see it. Raises: as `get`."""
        record = await self._records.get(self._kind, thread_id)
        if record is None or record.data.get("workspace") != workspace:
            raise ThreadNotFound(thread_id=thread_id)
        return read_thread(record)

    async def save(
        self, stored: StoredThread, messages: list[Message], also: Sequence[RecordWrite] = ()
    ) -> StoredThread:
        """Stores the thread with these messages over the version that was read. Raises: ThreadBusy.

        New messages get their id and time in place. `also` is written in the same transaction; the
        caller holds the thread, or has just made its key.
        """
        return await self.put(self._with(stored.thread, messages), stored.version, also)

    async def save_whole(
        self, stored: StoredThread, messages: list[Message], take: Callable[[StoredThread], None]
    ) -> None:
        """Stores as `save`, and completes even if it is cancelled. `take` is called with the stored
        thread.
        """
        storing = asyncio.ensure_future(
            self.put(self._with(stored.thread, messages), stored.version)
        )
        try:
            take(await asyncio.shield(storing))
        except asyncio.CancelledError:
            await asyncio.wait({storing})
            if storing.exception() is None:
                take(storing.result())  # what is stored next goes over this
            raise

    def _with(self, thread: Thread, messages: list[Message]) -> Thread:
        messages[:] = stamped(messages, self.clock())
        return thread.model_copy(
            update={
                "conversation_history": to_stored(messages),
                "last_updated_time": max(self.clock(), thread.last_updated_time),
                "schema_version": SCHEMA_VERSION,
            }
        )

    async def put(
        self, thread: Thread, version: str | None, also: Sequence[RecordWrite] = ()
    ) -> StoredThread:
        """Stores a thread over the version that was read, without its messages; otherwise as
        `save`.
        """
        try:
            kept, *_ = await self._records.write([thread_write(self._kind, thread, version), *also])
        except RecordConflict as exc:
            raise ThreadBusy(thread_id=thread.key) from exc
        return StoredThread(thread=thread, version=kept.version if kept else None)

    async def list(
        self,
        person: Person,
        *,
        graph_key: str | None = None,
        context_type: str | None = None,
        limit: int = 100,
    ) -> list[Thread]:
        """Returns a person's threads, newest first. Unreadable ones are left out."""
        where = given(userId=person.user_id, graphKey=graph_key)
        threads = await self._query(where, person.workspace, limit)
        return [t for t in threads if context_type is None or t.context_type == context_type]

    async def list_all(
        self, workspace: str, *, graph_key: str | None = None, since: int | None = None, limit: int
    ) -> list[Thread]:
        """Returns the threads of all people in a workspace, newest first; the caller checks who
        may see them. `since`: only those stored at this time or later, milliseconds since 1970.
        """
        return await self._query(given(graphKey=graph_key), workspace, limit, since)

    async def _query(
        self, where: Where, workspace: str, limit: int, since: int | None = None
    ) -> list[Thread]:
        found = await self._records.query(
            self._kind,
            where,
            order_by="lastUpdatedTime",
            descending=True,
            at_least=since,
            limit=limit,
        )
        own = [record for record in found if record.data.get("workspace") == workspace]
        read = await asyncio.to_thread(readable, own, read_thread, ThreadVersion)
        return [stored.thread for stored in read]

    async def rename(self, thread_id: str, person: Person, title: str) -> Thread:
        """Stores another title; the caller holds the thread. Raises: as `get`, ThreadBusy."""
        stored = await self.get(thread_id, person)
        thread = stored.thread.model_copy(update={"title": _title(title)})
        return (await self.put(thread, stored.version)).thread

    async def delete(self, thread_id: str, person: Person) -> None:
        """Deletes a thread. Its proposals can still be decided. Raises: ThreadNotFound,
        ThreadBusy.
        """
        stored = await self.get(thread_id, person)
        own = Record(kind=self._kind, key=thread_id, data={}, version=stored.version)
        if not await delete_record(self._records, own):
            raise ThreadBusy(thread_id=thread_id)
        for record in await self._records.query("trace", {"threadId": thread_id}, limit=1_000):
            await delete_record(self._records, record)


def session_of(thread: Thread) -> AgentSession:
    """Returns the session of a template or a run."""
    assert thread.session is not None, "only sessions are stored under their kind"
    return thread.session


def _title(text: str) -> str:
    return " ".join(clean(text).split())[:TITLE_CHARS]


def thread_write(kind: str, thread: Thread, version: str | None) -> RecordWrite:
    """Returns the write of a thread over a version, with the fields for queries."""
    document = thread.model_dump(by_alias=True, exclude_none=True, exclude={"agent"})
    if thread.agent is not None:
        # A null among the values of the conversation is a value.
        agent = thread.agent.model_dump(mode="json", by_alias=True)
        document |= {"agent": agent} | thread.agent.indexed()
    if thread.session is not None:
        session = thread.session.model_dump(mode="json", by_alias=True, exclude_none=True)
        document |= {"session": session} | thread.session.indexed()
    return RecordWrite(kind=kind, key=thread.key, data=document, expected_version=version)


def read_thread(record: Record) -> StoredThread:
    """Reads the record of a thread. Raises: ThreadVersion, BadDocument."""
    found = record.data.get("schemaVersion", 0)
    if isinstance(found, int) and found > SCHEMA_VERSION:
        raise ThreadVersion(thread_id=record.key, found=found)
    data = record.data if "schemaVersion" in record.data else take_over(record.data)
    for part, repeated in (("session", INDEXED_FIELDS), ("agent", AGENT_INDEXED_FIELDS)):
        if part in data:
            data = {name: value for name, value in data.items() if name not in repeated}
    thread = parse_document(Thread, {"_key": record.key, **data}, KIND)
    return StoredThread(thread=thread, version=record.version)
