"""REST of events that start automations."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Request

from graphrag.automations.drafts import EventData, EventKey, EventName
from graphrag.automations.event_starts import start_by_event
from server.error_responses import ERRORS, MODEL_ERRORS, error_response
from server.requests import EXCLUDE_NONE, AnswerBody, InLanguage, RequestBody, Workspaces, state_of

router = APIRouter(prefix="/api/events", tags=["automations"], responses={**ERRORS, **MODEL_ERRORS})


class EventRequest(RequestBody):
    """What happened. `data` is read by the runs as data; `key`: the same event is not taken twice."""

    data: EventData = None
    key: EventKey | None = None


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
    refused: list[NotStarted]
    repeated: bool


@router.post("/{name}", **EXCLUDE_NONE)
async def take(
    request: Request,
    workspaces: Workspaces,
    language: InLanguage,
    name: EventName,
    body: EventRequest,
    idempotency_key: Annotated[
        str | None, Header(min_length=1, max_length=200, description="As `key`.")
    ] = None,
) -> EventAnswer:
    """Start the caller's automations that wait for this event, each once; admins start all. For editors.

    Of the only workspace of the caller, or the one that `workspace` names. Keys are known for seven days.
    """
    place = await workspaces.one()
    state_of(request).limiter.spend(place.person.user_id)
    key = body.key or idempotency_key
    found = await start_by_event(place.automations, name, body.data, place.person, key=key)
    refused = [(automation_id, error_response(exc, language)) for automation_id, exc in found.refused]
    return EventAnswer(
        event=name,
        started=[StartedRun(automation_id=a, session_id=s) for a, s in found.started],
        refused=[NotStarted(automation_id=a, code=r.code, message=r.message) for a, r in refused],
        repeated=found.repeated,
    )
