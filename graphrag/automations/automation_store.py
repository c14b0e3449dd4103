"""Stores automations, their templates and their runs. A run begins with one compare-and-set.

Decision: an occurrence is claimed by the key of its run, `auto/{automation}/{time}`, written
together with the version of the automation that was read. A second server gets a conflict and gives
up. So an occurrence starts at most one run, whatever the servers' clocks show.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, Unpack

from datasources.base import Record, RecordStore, RecordWrite
from datasources.errors import RecordConflict
from datasources.record_kinds import QueryOptions, Where
from datasources.types import parse_document
from graphrag.agent.thread_messages import to_stored
from graphrag.agent.thread_store import SCHEMA_VERSION as THREAD_VERSION
from graphrag.agent.thread_store import (
    SESSION_KIND,
    StoredThread,
    Thread,
    ThreadError,
    ThreadNotFound,
    Threads,
    read_thread,
    session_of,
    thread_write,
)
from graphrag.automations.automation import KIND, SCHEMA_VERSION, Automation, session_id
from graphrag.automations.errors import AutomationChanged, AutomationNotFound, SessionNotFound
from graphrag.leases import now_ms
from graphrag.llm.base import Message
from graphrag.roles import Person
from graphrag.sessions.agent_session import AgentSession, Trigger
from graphrag.sessions.machine import SessionEvent, SessionLimits
from graphrag.sessions.phases import EventName, SessionKind
from graphrag.stored_records import check_version, delete_record, given, put_over, readable

log = logging.getLogger(__name__)

_MAX_ATTEMPTS: Final = 5
MAX_LISTED: Final = 1_000
_PRUNE_BATCH: Final = 20
_SPREAD_MS: Final = 60_000  # the starts of equal times are usually spread over less


class Automations:
    """The automations of one workspace. `clock` gives milliseconds since 1970."""

    def __init__(
        self, records: RecordStore, *, workspace: str, clock: Callable[[], int] = now_ms
    ) -> None:
        self.records = records
        self.workspace = workspace
        self.clock = clock
        # Templates and runs.
        self.threads = Threads(records, kind=SESSION_KIND, clock=clock)

    async def get(self, automation_id: str) -> Automation:
        """Returns an automation. Raises: AutomationNotFound, BadDocument."""
        record = await self.records.get(KIND, automation_id)
        if record is None or record.data.get("workspace") != self.workspace:
            raise AutomationNotFound(id=automation_id)
        return _read(record)

    async def list(
        self, *, graph_key: str | None = None, event: str | None = None, limit: int = MAX_LISTED
    ) -> list[Automation]:
        """Returns automations by key, including paused ones, without those that cannot be read."""
        records = await self.records.query(
            KIND, given(graphKey=graph_key, event=event), limit=limit
        )
        return await asyncio.to_thread(read_all, records)

    async def due(self, now: int, *, limit: int) -> list[Record]:
        """Returns the records of automations that are due, the earliest first. `read_all` parses
        them.
        """
        return await self.records.query(
            KIND, {"enabled": True}, order_by="nextTime", at_most=now, limit=limit
        )

    async def create(self, automation: Automation, messages: Sequence[Message]) -> Automation:
        """Stores a new automation and its template in one transaction."""
        seed = self._seed(automation, to_stored(messages))
        await self.records.write([_write(automation), thread_write(SESSION_KIND, seed, None)])
        return await self.get(automation.key)

    def begin(self, person: Person, graph_key: str, **fields: Any) -> Automation:
        """Returns a new automation of a person with a new key, which is not stored yet."""
        key = f"au_{secrets.token_hex(4)}"
        now = self.clock()
        return Automation(
            key=key,
            workspace=self.workspace,
            graph_key=graph_key,
            user_id=person.user_id,
            role=person.role,
            seed_id=f"seed/{key}",
            created_time=now,
            last_updated_time=now,
            **fields,
        )

    async def edit(
        self, automation: Automation, messages: Sequence[Message] | None = None
    ) -> Automation:
        """Stores an edited automation over the version that was read, with its template if it
        changed.

        Raises: AutomationChanged.
        """
        update = {"version": automation.version + 1, "last_updated_time": self.clock()}
        edited = automation.model_copy(update=update)
        writes = [_write(edited)]
        if messages is not None:
            template = await self.records.get(SESSION_KIND, edited.seed_id)
            seed = self._seed(edited, to_stored(messages))
            writes.append(thread_write(SESSION_KIND, seed, template.version if template else None))
        await self._replace(edited.key, writes)
        return await self.get(edited.key)

    async def update(
        self, automation_id: str, change: Callable[[Automation], Automation]
    ) -> tuple[Automation, Automation]:
        """Changes an automation on behalf of the service, repeating the change if others write
        meanwhile.

        Returns the automation before and after the change. Raises: AutomationNotFound,
        AutomationChanged after several attempts.
        """
        for _ in range(_MAX_ATTEMPTS):
            stored = await self.get(automation_id)
            changed = change(stored)
            if await self.put(changed):
                return stored, changed
        raise AutomationChanged(id=automation_id)

    async def check_soon(self, graph_key: str) -> None:
        """Makes the automations of a deleted graph due, also those without a schedule, so that the
        next tick pauses them and announces it.
        """
        due = self.clock() - _SPREAD_MS
        for automation in await self.list(graph_key=graph_key):
            if automation.enabled:
                with suppress(AutomationNotFound, AutomationChanged):  # the next run finds it out
                    await self.update(
                        automation.key, lambda one: one.model_copy(update={"next_time": due})
                    )

    async def put(self, automation: Automation) -> bool:
        """Stores an automation over the version that was read. Returns False if it has changed
        since.
        """
        record = Record(kind=KIND, key=automation.key, data=automation.to_data())
        return await put_over(self.records, record, automation.record_version) is not None

    async def remove(self, automation_id: str) -> None:
        """Deletes an automation and its template; its runs remain.

        Raises: AutomationNotFound, AutomationChanged.
        """
        stored = await self.get(automation_id)
        seed = await self.records.get(SESSION_KIND, stored.seed_id)
        writes = [replace(_write(stored), data=None)]
        if seed is not None:
            writes += [
                RecordWrite(
                    kind=SESSION_KIND, key=seed.key, data=None, expected_version=seed.version
                )
            ]
        await self._replace(automation_id, writes)

    async def _replace(self, automation_id: str, writes: Sequence[RecordWrite]) -> None:
        """Writes over the versions that were read, in one transaction. Raises:
        AutomationChanged.
        """
        try:
            await self.records.write(writes)
        except RecordConflict as exc:
            raise AutomationChanged(id=automation_id) from exc

    async def seed(self, automation: Automation) -> Thread:
        """Returns the template. Raises: ThreadNotFound, BadDocument."""
        return (await self.session(automation.seed_id)).thread

    async def session(self, key: str) -> StoredThread:
        """Returns a template or a run. Raises: SessionNotFound, ThreadVersion, BadDocument."""
        try:
            return await self.threads.get_of(key, self.workspace)
        except ThreadNotFound:
            raise SessionNotFound(id=key) from None

    async def put_session(self, thread: Thread, version: str | None) -> StoredThread:
        """Stores a run over the version that was read. Raises: ThreadBusy."""
        changed = thread.model_copy(update={"last_updated_time": self.clock()})
        return await self.threads.put(changed, version)

    async def sessions(self, where: Where, **options: Unpack[QueryOptions]) -> list[StoredThread]:
        """Returns the runs (and templates) with these indexed fields, by default the newest first,
        without those that cannot be read.
        """
        newest: QueryOptions = {"order_by": "scheduledTime", "descending": True}
        records = await self.records.query(SESSION_KIND, where, **(newest | options))
        return await asyncio.to_thread(readable, records, read_thread, ThreadError)

    async def prune(self, automation_id: str, *, keep: int, before: int) -> int:
        """Deletes ended runs, except the newest `keep` and those that ended after `before`; returns
        their number.

        Units: `before` in milliseconds since 1970. The proposals of the runs and their outcomes
        remain.
        """
        where: Where = {"automationId": automation_id, "open": False}
        sessions = await self.sessions(where, limit=keep + _PRUNE_BATCH)
        ended = [run for run in sessions if session_of(run.thread).ended_time]
        old = [
            run
            for index, run in enumerate(ended)
            if (index >= keep or (session_of(run.thread).ended_time or 0) < before)
            and not session_of(run.thread).unannounced
        ]
        await self._delete(old)
        return len(old)

    async def prune_ended(self, *, before: int) -> int:
        """Deletes runs that ended before an instant, also of automations that no longer run or are
        deleted; returns their number, at most MAX_LISTED.

        Units: `before` in milliseconds since 1970.
        """
        # The newest first, because templates have no time and would come before all runs.
        runs = await self.sessions({"open": False}, at_most=before, limit=MAX_LISTED)
        old = [
            run
            for run in runs
            if 0 < (session_of(run.thread).ended_time or 0) < before
            and not session_of(run.thread).unannounced
        ]
        await self._delete(old)
        return len(old)

    async def _delete(self, runs: Sequence[StoredThread]) -> None:
        for run in runs:
            record = Record(kind=SESSION_KIND, key=run.thread.key, data={}, version=run.version)
            await delete_record(self.records, record)

    async def claim(
        self,
        automation: Automation,
        scheduled_time: int,
        *,
        trigger: Trigger,
        notes: Sequence[Message] = (),
        reference: int | None = None,
    ) -> StoredThread | None:
        """Stores the changed automation and the run of an occurrence in one transaction. Returns
        None if another server did so.

        `notes` are added before the template's messages, for this run only. `reference`: the time
        from which its periods are counted, by default its own.
        """
        seed = await self.seed(automation)
        run = self._run(automation, seed, scheduled_time, trigger, notes, reference)
        try:
            await self.records.write([_write(automation), thread_write(SESSION_KIND, run, None)])
        except RecordConflict:
            return None
        return await self.session(run.key)

    def _seed(self, automation: Automation, history: list[dict[str, Any]]) -> Thread:
        session = AgentSession(
            kind=SessionKind.SEED,
            automation_id=automation.key,
            automation_version=automation.version,
        )
        return self._thread(automation, automation.seed_id, history, session)

    def _run(
        self,
        automation: Automation,
        seed: Thread,
        scheduled_time: int,
        trigger: Trigger,
        notes: Sequence[Message],
        reference: int | None,
    ) -> Thread:
        history = [dict(message) for message in seed.conversation_history]
        if history:
            history[0]["execution"] = {
                "automationId": automation.key,
                "automationVersion": automation.version,
                "trigger": trigger,
                "scheduledTime": scheduled_time if reference is None else reference,
                "timezone": automation.timezone,
            }
        session = AgentSession(
            kind=SessionKind.AUTOMATION,
            automation_id=automation.key,
            automation_version=automation.version,
            trigger=trigger,
            scheduled_time=scheduled_time,
            reference_time=reference,
            roundtrip_limit=automation.budget.model_calls,
            require_validation=automation.require_validation,
        )
        requested = SessionEvent(name=EventName.SESSION_ACTIVATION_REQUESTED)
        queued = session.after(requested, SessionLimits(), self.clock())
        assert queued is not None
        key = session_id(automation.key, scheduled_time)
        return self._thread(automation, key, [*to_stored(notes), *history], queued.state)

    def _thread(
        self, automation: Automation, key: str, history: list[dict[str, Any]], session: AgentSession
    ) -> Thread:
        now = self.clock()
        return Thread(
            key=key,
            graph_key=automation.graph_key,
            workspace=self.workspace,
            user_id=automation.user_id,
            title=automation.name,
            conversation_history=history,
            created_time=now,
            last_updated_time=now,
            schema_version=THREAD_VERSION,
            session=session,
        )


def _write(automation: Automation) -> RecordWrite:
    version = automation.record_version
    return RecordWrite(
        kind=KIND, key=automation.key, data=automation.to_data(), expected_version=version
    )


def _read(record: Record) -> Automation:
    check_version(record, SCHEMA_VERSION)
    automation = parse_document(Automation, {"_key": record.key, **record.data}, KIND)
    return automation.model_copy(update={"record_version": record.version or ""})


def read_all(records: Sequence[Record]) -> list[Automation]:
    """Returns the automations of records, without those that cannot be read."""
    return readable(records, _read)
