"""REST of people: the caller, the usage of conversations, and the latest tool calls of models."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request

from graphrag.app.usage_groups import MAX_DAYS, usage_by
from graphrag.app.usage_report import By, UsageAnswer, usage_report
from graphrag.app.voice_services import speaker_of
from graphrag.i18n import Language
from server.auth import Caller
from server.bodies import AnswerBody
from server.error_schemas import ERRORS
from server.requests import ADMINS, EXCLUDE_NONE, GraphKey, InLanguage, Workspaces, state_of

router = APIRouter(prefix="/api", tags=["people"], responses=ERRORS)


class WhoAmI(AnswerBody):
    """The caller, and the model that answers them.

    `offline`: no language model is configured. `voice`: a model speaks in calls.
    """

    user_id: str
    username: str
    role: str
    workspaces: list[str]
    provider: str
    model: str
    offline: bool
    voice: bool
    language: Language


@router.get("/me")
async def me(request: Request, caller: Caller, language: InLanguage) -> WhoAmI:
    """Returns the caller as identified by the service, and the model that answers."""
    provider = state_of(request).backend.model
    return WhoAmI(
        user_id=caller.user_id,
        username=caller.username,
        role=caller.role,
        workspaces=list(caller.workspaces),
        provider=provider.name,
        model=provider.model,
        offline=provider.name == "offline",
        voice=speaker_of(state_of(request).settings) != "off",
        language=language,
    )


class PeopleNames(AnswerBody):
    """Names of people of the caller's workspaces, by user id, as their last tokens gave them."""

    names: dict[str, str]


@router.get("/people")
async def people(workspaces: Workspaces) -> PeopleNames:
    """Returns the names of people who were seen lately; people without a name are left out."""
    names: dict[str, str] = {}
    for place in await workspaces.all():
        names |= await place.workspace.worker.runner.members.names()
    return PeopleNames(names=names)


@router.get("/usage")
async def usage(
    workspaces: Workspaces,
    graph_key: GraphKey = None,
    by: Annotated[By | None, Query(description="What calls are added up by.")] = None,
    days: Annotated[
        int, Query(ge=1, le=MAX_DAYS, description="With `by`: the latest days, in UTC.")
    ] = 30,
) -> UsageAnswer:
    """Returns tokens and known cost of the caller's own stored conversations,
    and the month's limits.

    An admin also gets what each person used. With `by` each group is added up: for an admin of
    everybody's calls, for others of those of their own conversations.
    """
    places = [(place.services, place.person) for place in await workspaces.all()]
    report = await usage_report(places, graph_key=graph_key)
    if by is None:
        return report
    return report.model_copy(update=dict(await usage_by(places, by, days)))


class ToolCallRecord(AnswerBody):
    """One call. Units: `time` in milliseconds since 1970, `ms` as the tool took.

    `outcome`: ok, error, unchanged (the same error again), reused (answered from memory),
    timeout, broke; not run: duplicate, repeated, cut, over_limit, not_alone. `error` is the code
    of an error.
    """

    time: int
    tool: str
    ms: float
    thread_id: str
    turn: int
    round: int
    outcome: str
    error: str | None = None


class ToolCallList(AnswerBody):
    calls: list[ToolCallRecord]


@router.get("/tool-calls", **EXCLUDE_NONE, **ADMINS)
async def tool_calls(request: Request, workspaces: Workspaces) -> ToolCallList:
    """Returns the last calls of tools by models in this server's process, newest
    first. For admins.
    """
    calls = state_of(request).backend.shared.call_log.of(workspaces.names)
    return ToolCallList(calls=[ToolCallRecord.model_validate(call) for call in calls])
