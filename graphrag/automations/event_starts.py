"""Starts the automations that wait for an event, at most once per event key.

Decision: the key is stored before anything is started. If the process is killed in between, the
event is lost, and the client sees it by the missing answer; nothing runs twice.
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
KEPT_MS: Final = 7 * 86_400_000  # Time that a key is remembered.
MAX_DATA_CHARS: Final = 16_000  # Maximum length of an event's data in a run's message.
_REMOVAL_BATCH: Final = 20


class StartedRun(AnswerBody):
    automation_id: str
    session_id: str


class NotStarted(AnswerBody):
    automation_id: str
    code: str
    message: str


class EventAnswer(AnswerBody):
    """`repeated`: the event was received before; `started` are the runs of that time."""

    event: str
    started: list[StartedRun]
    refused: list[NotStarted] = Field(default_factory=list[NotStarted])
    repeated: bool = False


# Errors that prevent one automation from starting, but not the others.
REFUSALS: Final = (AutomationError, GraphNotFound, ThreadError)


async def claim_key(
    records: RecordStore, event: str, key: str | None, person: Person, now: int
) -> Record | EventAnswer:
    """Stores the key of an event. If it exists, returns what it started then. Raises:
    SourceError.
    """
    name = key or secrets.token_hex(16)
    digest = hashlib.sha256(json.dumps([person.user_id, event, name]).encode()).hexdigest()[:40]
    record = Record(kind=KIND, key=digest, data={"event": event, "time": now, "started": []})
    stored = await put_over(records, record, None)
    if stored is None:
        existing = await records.get(KIND, digest)
        runs: list[Any] = existing.data["started"] if existing is not None else []
        started = [StartedRun(automation_id=run[0], session_id=run[1]) for run in runs]
        return EventAnswer(event=event, started=started, repeated=True)
    old = await records.query(KIND, order_by="time", at_most=now - KEPT_MS, limit=_REMOVAL_BATCH)
    for outdated in old:
        await delete_record(records, outdated)
    return stored


def event_note(automation: Automation, event: str, data: Any) -> list[SystemMessage]:
    """Returns the message about an event for the run that it starts."""
    serialized = json.dumps(data, ensure_ascii=False, indent=1)[:MAX_DATA_CHARS]
    note = text("event_came", automation.language, event=event, data=serialized)
    return [SystemMessage(content=note, stable=False)]


async def start_by_event(
    service: AutomationService,
    event: str,
    data: Any,
    person: Person,
    *,
    key: str | None = None,
    language: Language = "en",
) -> EventAnswer:
    """Starts the automations of an event that the person may start: their own, or all for an admin.

    Starts nothing if `key` was received before. Raises: AutomationForbidden, SourceError.
    """
    check_role(person, "editor")
    records = service.store.records
    claimed = await claim_key(records, event, key, person, service.store.clock())
    if isinstance(claimed, EventAnswer):
        return claimed
    answer = EventAnswer(event=event, started=[])
    try:
        automations = await service.store.list(event=event)
    except SourceError:
        await delete_record(records, claimed)
        raise
    for automation in automations:
        if automation.user_id != person.user_id and not person.at_least("admin"):
            continue
        outcome = await _start(service, automation, event, data, person, language)
        if isinstance(outcome, StartedRun):
            answer.started.append(outcome)
        else:
            answer.refused.append(outcome)
    if answer.started or not answer.refused:
        started = [[run.automation_id, run.session_id] for run in answer.started]
        record = Record(kind=KIND, key=claimed.key, data={**claimed.data, "started": started})
        await put_over(records, record, claimed.version)
    else:  # the event may be sent again
        await delete_record(records, claimed)
    return answer


async def _start(
    service: AutomationService,
    automation: Automation,
    event: str,
    data: Any,
    person: Person,
    language: Language,
) -> StartedRun | NotStarted:
    """Starts one automation of an event. Raises: SourceError."""
    notes = await asyncio.to_thread(event_note, automation, event, data)
    supersede = automation.overlap == "supersede"
    try:
        run = await service.run(
            automation.key, person, supersede=supersede, trigger="event", notes=notes
        )
    except REFUSALS as exc:
        meaning = describe(exc, language)
        assert meaning is not None, "all of REFUSALS have a meaning"
        return NotStarted(automation_id=automation.key, code=meaning.code, message=meaning.message)
    return StartedRun(automation_id=automation.key, session_id=run.key)
