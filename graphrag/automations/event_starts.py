"""Starts the automations that wait for an event, at most once for each key of it.

Decision: the key is stored before anything is started. A process that is killed in between has lost
the event, as the answer that does not come says; nothing runs twice.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
from typing import Any, Final

from pydantic import Field

from datasources.base import Record, RecordStore
from datasources.errors import GraphNotFound, SourceError
from graphrag.agent.thread_store import ThreadError
from graphrag.answer_body import AnswerBody
from graphrag.automations.automation import Automation
from graphrag.automations.errors import AutomationError
from graphrag.automations.service import AutomationService
from graphrag.automations.session_control import check_role
from graphrag.errors import describe
from graphrag.i18n import Language, text
from graphrag.llm.base import SystemMessage
from graphrag.roles import Person
from graphrag.stored_records import delete_record, put_over

KIND: Final = "event_key"
KEPT_MS: Final = 7 * 86_400_000
"""So long a key is known."""
MAX_DATA_CHARS: Final = 16_000
"""So much of an event's data a run reads."""
_REMOVED_AT_ONCE: Final = 20


class StartedRun(AnswerBody):
    automation_id: str
    session_id: str


class NotStarted(AnswerBody):
    automation_id: str
    code: str
    message: str


class EventAnswer(AnswerBody):
    """`repeated`: the key was known, and `started` are the runs of then."""

    event: str
    started: list[StartedRun]
    refused: list[NotStarted] = Field(default_factory=list[NotStarted])
    repeated: bool = False


REFUSALS: Final = (AutomationError, GraphNotFound, ThreadError)
"""What keeps one automation from being started, and no other."""


async def take_key(
    records: RecordStore, event: str, key: str | None, person: Person, now: int
) -> Record | EventAnswer:
    """Store a key of an event; where it is known, return what it started. Raises: SourceError."""
    named = key or secrets.token_hex(16)
    digest = hashlib.sha256(json.dumps([person.user_id, event, named]).encode()).hexdigest()[:40]
    made = Record(kind=KIND, key=digest, data={"event": event, "time": now, "started": []})
    stored = await put_over(records, made, None)
    if stored is None:
        known = await records.get(KIND, digest)
        runs: list[Any] = known.data["started"] if known is not None else []
        started = [StartedRun(automation_id=run[0], session_id=run[1]) for run in runs]
        return EventAnswer(event=event, started=started, repeated=True)
    old = await records.query(KIND, order_by="time", at_most=now - KEPT_MS, limit=_REMOVED_AT_ONCE)
    for each in old:
        await delete_record(records, each)
    return stored


def event_note(automation: Automation, event: str, data: Any) -> list[SystemMessage]:
    """Return what a run reads of the event that started it."""
    written = json.dumps(data, ensure_ascii=False, indent=1)[:MAX_DATA_CHARS]
    said = text("event_came", automation.language, event=event, data=written)
    return [SystemMessage(content=said, stable=False)]


async def start_by_event(
    service: AutomationService,
    event: str,
    data: Any,
    person: Person,
    *,
    key: str | None = None,
    language: Language = "en",
) -> EventAnswer:
    """Start the automations of an event that a person may start: their own, an admin's all.

    With a `key` that is known nothing is started. Raises: AutomationForbidden, SourceError.
    """
    check_role(person, "editor")
    records = service.store.records
    taken = await take_key(records, event, key, person, service.store.clock())
    if isinstance(taken, EventAnswer):
        return taken
    found = EventAnswer(event=event, started=[])
    try:
        waits = await service.store.list(event=event)
    except SourceError:
        await delete_record(records, taken)
        raise
    for automation in waits:
        if automation.user_id != person.user_id and not person.at_least("admin"):
            continue
        more = await asyncio.to_thread(event_note, automation, event, data)
        supersede = automation.overlap == "supersede"
        try:
            run = await service.run(
                automation.key, person, supersede=supersede, trigger="event", more=more
            )
        except REFUSALS as exc:
            said = describe(exc, language)
            assert said is not None, "each has a meaning"
            refused = NotStarted(automation_id=automation.key, code=said.code, message=said.message)
            found.refused.append(refused)
        else:
            found.started.append(StartedRun(automation_id=automation.key, session_id=run.key))
    if found.started or not found.refused:
        data = {
            **taken.data,
            "started": [[run.automation_id, run.session_id] for run in found.started],
        }
        await put_over(records, Record(kind=KIND, key=taken.key, data=data), taken.version)
    else:  # what refused may run when it is sent again
        await delete_record(records, taken)
    return found
