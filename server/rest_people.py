"""REST of the caller: who they are here, and what their conversations used."""

from __future__ import annotations

from fastapi import APIRouter, Request

from graphrag.client.documents import UsageAnswer, WhoAmI
from graphrag.llm.usage_report import usage_report
from server.auth import Caller
from server.error_responses import language_of
from server.openapi_errors import ERRORS
from server.requests import GraphKey, Workspace, places_of, state_of

router = APIRouter(prefix="/api", tags=["people"], responses=ERRORS)


@router.get("/me", response_model=WhoAmI)
async def me(request: Request, who: Caller) -> WhoAmI:
    """Return who the service takes the caller for, and which model answers."""
    provider = await state_of(request).model()
    return WhoAmI(
        user_id=who.user_id,
        username=who.username,
        role=who.role,
        workspaces=list(who.workspaces),
        provider=provider.name,
        model=provider.model,
        offline=provider.name == "offline",
        language=language_of(request),
    )


@router.get("/usage", response_model=UsageAnswer)
async def usage(
    request: Request, who: Caller, workspace: Workspace = None, graph_key: GraphKey = None
) -> UsageAnswer:
    """Return tokens and known cost of the caller's own stored conversations, and the month's limits.

    An admin also gets what each person used.
    """
    places = await places_of(request, who, workspace).all()
    return await usage_report([(place.services, place.person) for place in places], graph_key=graph_key)
