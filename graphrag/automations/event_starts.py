"""Starts the automations that wait for an event, at most once for each key of it.

Decision: the key is stored before anything is started. A process that is killed in between has lost the
event, as the answer that does not come says; nothing runs twice.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from datasources.base import Record, RecordStore
from datasources.errors import GraphNotFound, SourceError
from graphrag.agent.thread_store import ThreadError
from graphrag.automations.automation import Automation
from graphrag.automations.errors import AutomationError
from graphrag.automations.service import AutomationService, check_role
from graphrag.i18n import text
from graphrag.llm.base import SystemMessage
from graphrag.roles import Person
from graphrag.stored_records import delete_record, put_over

KIND: Final = "event_key"
KEPT_MS: Final = 7 * 86_400_000
"""So long a key is known."""
MAX_DATA_CHARS: Final = 16_000
"""So much of an event's data a run reads."""
_REMOVED_AT_ONCE: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class EventStarts:
    """What an event started: runs by automation, and what refused; `repeated`: its key was known, and these
    are the runs of then."""

    started: Sequence[tuple[str, str]]
    refused: Sequence[tuple[str, Exception]] = ()
    repeated: bool = False


REFUSALS: Final = (AutomationError, GraphNotFound, ThreadError)
"""What keeps one automation from being started, and no other."""


class EventKeys:
    """Which events came already; of one workspace."""

    def __init__(self, records: RecordStore) -> None:
        self._records = records

    async def take(self, event: str, key: str | None, person: Person, now: int) -> Record | EventStarts:
        """Store a key; where it is known, return what it started. Raises: SourceError."""
        named = key or secrets.token_hex(16)
        digest = hashlib.sha256(json.dumps([person.user_id, event, named]).encode()).hexdigest()[:40]
        made = Record(kind=KIND, key=digest, data={"event": event, "time": now, "started": []})
        stored = await put_over(self._records, made, None)
        if stored is None:
            known = await self._records.get(KIND, digest)
            runs: list[Any] = known.data["started"] if known is not None else []
            return EventStarts(started=[(run[0], run[1]) for run in runs], repeated=True)
        old = await self._records.query(KIND, order_by="time", at_most=now - KEPT_MS, limit=_REMOVED_AT_ONCE)
        for each in old:
            await delete_record(self._records, each)
        return stored

    async def forget(self, taken: Record) -> None:
        """Let a key be sent again, of which nothing was started. Raises: SourceError."""
        await delete_record(self._records, taken)

    async def note(self, taken: Record, started: Sequence[tuple[str, str]]) -> None:
        """Note what an event started. Raises: SourceError."""
        data = {**taken.data, "started": [list(run) for run in started]}
        await put_over(self._records, Record(kind=KIND, key=taken.key, data=data), taken.version)


def event_note(automation: Automation, event: str, data: Any) -> list[SystemMessage]:
    """Return what a run reads of the event that started it."""
    written = json.dumps(data, ensure_ascii=False, indent=1)[:MAX_DATA_CHARS]
    said = text("event_came", automation.language, event=event, data=written)
    return [SystemMessage(content=said, stable=False)]


async def start_by_event(
    service: AutomationService, event: str, data: Any, person: Person, *, key: str | None = None
) -> EventStarts:
    """Start the automations of an event that a person may start: their own, an admin's all.

    With a `key` that is known nothing is started. Raises: AutomationForbidden, SourceError.
    """
    check_role(person, "editor")
    keys = EventKeys(service.store.records)
    taken = await keys.take(event, key, person, service.store.clock())
    if isinstance(taken, EventStarts):
        return taken
    started: list[tuple[str, str]] = []
    refused: list[tuple[str, Exception]] = []
    try:
        waits = await service.store.waiting_for(event)
    except SourceError:
        await keys.forget(taken)
        raise
    for automation in waits:
        if automation.user_id != person.user_id and not person.at_least("admin"):
            continue
        more = await asyncio.to_thread(event_note, automation, event, data)
        supersede = automation.overlap == "supersede"
        try:
            run = await service.run(automation.key, person, supersede=supersede, trigger="event", more=more)
        except REFUSALS as exc:
            refused.append((automation.key, exc))
        else:
            started.append((automation.key, run.key))
    if started or not refused:
        await keys.note(taken, started)
    else:  # what refused may run when it is sent again
        await keys.forget(taken)
    return EventStarts(started=started, refused=refused)
