"""REST of calls: their records, ending and redacting them, and talking with an agent from the
browser.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import Field

from graphrag.voice.call_records import Call, CallChannel, CallStatus, CallSummary
from server.bodies import AnswerBody, Id, RequestBody, Success
from server.error_schemas import ERRORS
from server.requests import EDITORS, EXCLUDE_NONE, REVIEWERS, Workspaces
from server.voice.webhook import STREAM_PATH
from server.ws_messages import CallerPhone

router = APIRouter(prefix="/api", tags=["calls"], responses=ERRORS)


class CallList(AnswerBody):
    """`cursor`: requests the following calls, if there are more."""

    calls: list[CallSummary]
    cursor: str | None = None


class CallDetail(CallSummary):
    """A complete call: transcript, what the agent knew, did and relied on, and its cost. For an
    interrupted answer the transcript contains what was heard.
    """

    call_sid: str | None = None
    stream_sid: str | None = None
    transcript: list[dict[str, Any]] = Field(default_factory=list[dict[str, Any]])
    tools: list[dict[str, Any]] = Field(default_factory=list[dict[str, Any]])
    flags: dict[str, bool] = Field(default_factory=dict[str, bool])
    ctx: dict[str, Any] = Field(default_factory=dict[str, Any])
    sources: list[dict[str, Any]] = Field(default_factory=list[dict[str, Any]])
    approvals: list[dict[str, Any]] = Field(default_factory=list[dict[str, Any]])
    usage: dict[str, Any] = Field(default_factory=dict[str, Any])
    latency: dict[str, Any] = Field(default_factory=dict[str, Any])


class TalkRequest(RequestBody):
    """`callerPhone`: on whose behalf. `channel`: `simulated` for a program that stands
    for a telephone.
    """

    caller_phone: CallerPhone | None = None
    channel: Annotated[CallChannel, Field(pattern="^(browser|simulated)$")] = "browser"


class TalkAnswer(AnswerBody):
    """Open a WebSocket at `url` within 60 seconds; `token` and `callSid` go into
    its message `start`.
    """

    call_id: str
    call_sid: str
    token: str
    url: str


@router.get("/calls", **EXCLUDE_NONE, **REVIEWERS)
async def calls(
    workspaces: Workspaces,
    agent: Annotated[
        str | None, Query(min_length=1, max_length=200, description="Of one agent.")
    ] = None,
    status: CallStatus | None = None,
    outcome: Annotated[str | None, Query(min_length=1, max_length=200)] = None,
    since: Annotated[
        int | None, Query(ge=0, le=1 << 53, description="Begun since; milliseconds since 1970.")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=200, description="At most so many.")] = 50,
    cursor: Annotated[
        str | None, Query(max_length=200, description="As the answer before gave it.")
    ] = None,
) -> CallList:
    """Lists calls, the newest first. For reviewers."""
    found: list[Call] = []
    more = False
    for place in await workspaces.all():
        page, after = await place.calls.listed(place.person).list(
            agent_id=agent, status=status, outcome=outcome, since=since, cursor=cursor, limit=limit
        )
        found += page
        more = more or after is not None
    found.sort(key=lambda call: (-call.started_time, call.call_id))  # as each page is
    shown = found[:limit]
    more = more or len(found) > limit
    last = f"{shown[-1].started_time}.{shown[-1].call_id}" if more and shown else None
    return CallList(calls=[CallSummary.model_validate(each) for each in shown], cursor=last)


@router.get("/calls/{call_id}", **EXCLUDE_NONE)
async def call(workspaces: Workspaces, call_id: Id) -> CallDetail:
    """Returns a complete call. For reviewers, and the person who talks in it."""
    place, _ = await workspaces.of_call(call_id)
    return CallDetail.model_validate(await place.calls.document(call_id, place.person))


@router.delete("/calls/{call_id}")
async def forget(workspaces: Workspaces, call_id: Id) -> Success:
    """Removes personal data from an ended call; its sums stay. For admins."""
    place, _ = await workspaces.of_call(call_id)
    await place.calls.forget(call_id, place.person)
    return Success()


@router.post("/calls/{call_id}/end", **EXCLUDE_NONE)
async def end(workspaces: Workspaces, call_id: Id) -> CallSummary:
    """Ends a call on any server, after the agent said goodbye. For reviewers, and the person who
    talks in it.
    """
    place, _ = await workspaces.of_call(call_id)
    ended = await place.calls.end(call_id, place.person)
    return CallSummary.model_validate(ended)


@router.post("/agents/{agent_id}/talk", **EXCLUDE_NONE, **EDITORS)
async def talk(workspaces: Workspaces, agent_id: Id, body: TalkRequest | None = None) -> TalkAnswer:
    """Starts a call with an agent from the browser. For editors."""
    place, _ = await workspaces.of_agent(agent_id)
    asked = body or TalkRequest()
    begun, token = await place.calls.begin(
        agent_id,
        caller_phone=asked.caller_phone,
        channel=asked.channel,
        user_id=place.person.user_id,
    )
    return TalkAnswer(
        call_id=begun.call_id,
        call_sid=begun.call_sid or begun.call_id,
        token=token,
        url=STREAM_PATH,
    )
