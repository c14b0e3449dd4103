"""REST of calls: their records, ending and redacting them, and talking with an agent from the
browser.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query
from pydantic import Field

from graphrag.agents.voice_fields import VoiceEngine
from graphrag.leases import now_ms
from graphrag.voice.call_figures import MAX_COUNTED, FiguresOfCalls, figures_of, read_ended
from graphrag.voice.call_records import (
    Call,
    CallChannel,
    CallStatus,
    CallSummary,
    Filters,
    order_of,
    position_of,
)
from server.bodies import AnswerBody, Id, RequestBody, Success
from server.error_schemas import ERRORS
from server.requests import EDITORS, EXCLUDE_NONE, REVIEWERS, Workspaces
from server.voice.webhook import RELAY_PATH, STREAM_PATH
from server.ws_messages import CallerPhone

router = APIRouter(prefix="/api", tags=["calls"], responses=ERRORS)

FIGURES_MS: Final = 30 * 86_400_000


class CallList(AnswerBody):
    """`cursor`: requests the following calls, if there are more."""

    calls: list[CallSummary]
    cursor: str | None = None


class TransferFacts(AnswerBody):
    """One attempt to reach a destination of the document, by its name. `status`: of the telephone
    service: completed, busy, no-answer, failed, canceled. Units: times in milliseconds since 1970;
    `seconds` of the conversation.
    """

    destination: str
    time: int
    answered_time: int | None = None
    status: str | None = None
    seconds: int | None = None


class RecordingFacts(AnswerBody):
    """A recording that the telephone service keeps, `sid` its id there. `status`: in-progress,
    completed, absent or failed. Units: `time` in milliseconds since 1970.
    """

    sid: str
    time: int
    status: str
    seconds: int | None = None


class CallDetail(CallSummary):
    """A complete call: transcript, what the agent knew, did and relied on, and its cost. For an
    interrupted answer the transcript contains what was heard. `returns`: how often the caller came
    back to the agent after a transfer that nobody answered.
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
    transfers: list[TransferFacts] = Field(default_factory=list[TransferFacts])
    returns: int = 0
    recordings: list[RecordingFacts] = Field(default_factory=list[RecordingFacts])


class ForgottenCall(Success):
    """`recordings`: ids of recordings that have to be deleted at the telephone service, because
    this service cannot.
    """

    recordings: list[str] = Field(default_factory=list[str])


class TalkRequest(RequestBody):
    """`callerPhone`: on whose behalf. `channel`: `simulated` for a program that stands
    for a telephone.
    """

    caller_phone: CallerPhone | None = None
    channel: Annotated[CallChannel, Field(pattern="^(browser|simulated)$")] = "browser"


class TalkAnswer(AnswerBody):
    """Open a WebSocket at `url` within 60 seconds; `token` and `callSid` go into its message
    `start`, with the engine `text` into `setup`.
    """

    call_id: str
    call_sid: str
    engine: VoiceEngine
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
    number: Annotated[
        CallerPhone | None, Query(description="From or to this number, as +33612345678.")
    ] = None,
    call_id: Annotated[
        str | None,
        Query(alias="callId", min_length=1, max_length=100, description="Only this call."),
    ] = None,
) -> CallList:
    """Lists calls, the newest first. For reviewers.

    A search for `number` reads at most 2,000 calls: its page may be short or empty although there
    is a `cursor`, with which the search goes on. With `callId` the other conditions do not count.
    """
    found: list[Call] = []
    ends: list[str] = []
    filters = Filters(agent_id=agent, status=status, outcome=outcome, since=since)
    for place in await workspaces.all():
        records = place.calls.listed(place.person)
        if call_id is not None:
            one = await records.get(call_id)
            page, after = ([] if one is None else [one]), None
        elif number is not None:
            page, after = await records.find(number, cursor=cursor, limit=limit, **filters)
        else:
            page, after = await records.list(cursor=cursor, limit=limit, **filters)
        found += page
        ends += [] if after is None else [after]
    return _joined(found, ends, limit)


def _joined(found: list[Call], ends: Sequence[str], limit: int) -> CallList:
    """Returns one page of the pages of workspaces. `ends`: the cursors of those with more calls,
    which were read up to there.
    """
    end = min(ends, key=order_of, default=None)
    found.sort(key=lambda call: order_of(position_of(call)))
    reached = [
        call for call in found if end is None or order_of(position_of(call)) <= order_of(end)
    ]
    shown = reached[:limit]
    last = position_of(shown[-1]) if len(reached) > limit or len(shown) < len(found) else None
    cursor = end if len(reached) <= limit and end is not None else last
    return CallList(calls=[CallSummary.model_validate(each) for each in shown], cursor=cursor)


@router.get("/calls/figures", **EXCLUDE_NONE, **REVIEWERS)
async def figures(
    workspaces: Workspaces,
    agent: Annotated[
        str | None, Query(min_length=1, max_length=200, description="Of one agent.")
    ] = None,
    since: Annotated[
        int | None,
        Query(ge=0, le=1 << 53, description="Milliseconds since 1970; default: 30 days ago."),
    ] = None,
) -> FiguresOfCalls:
    """Returns figures of ended calls by day: outcomes, waits, containment, causes of failure and
    cost. For reviewers. At most the 10,000 newest calls are counted.
    """
    begin = now_ms() - FIGURES_MS if since is None else since
    counted: list[Call] = []
    more = False
    for place in await workspaces.all():
        left = MAX_COUNTED - len(counted)
        records = place.calls.listed(place.person)
        calls, has_more = await read_ended(records, since=begin, agent_id=agent, most=left)
        counted += calls
        more = more or has_more
    return await figures_of(counted, since=begin, more=more)


@router.get("/calls/{call_id}", **EXCLUDE_NONE)
async def call(workspaces: Workspaces, call_id: Id) -> CallDetail:
    """Returns a complete call. For reviewers, and the person who talks in it."""
    place, _ = await workspaces.of_call(call_id)
    return CallDetail.model_validate(await place.calls.document(call_id, place.person))


@router.delete("/calls/{call_id}")
async def forget(workspaces: Workspaces, call_id: Id) -> ForgottenCall:
    """Removes personal data from an ended call; its sums stay. For admins.

    Recordings that the telephone service keeps are not deleted: the answer names them.
    """
    place, _ = await workspaces.of_call(call_id)
    forgotten = await place.calls.forget(call_id, place.person)
    return ForgottenCall(recordings=forgotten)


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
        engine=begun.engine,
        url=STREAM_PATH if begun.engine == "realtime" else RELAY_PATH,
    )
