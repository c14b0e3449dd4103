"""REST of the morning view: what happened in the graphs of a person since they last looked."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field

from graphrag.app.today import Today, TodayPlace, today
from graphrag.automations.last_seen import DAY_MS, Members
from graphrag.leases import now_ms
from server.bodies import RequestBody, Success
from server.error_schemas import ERRORS
from server.requests import InLanguage, Workspaces
from server.workspaces import WorkspaceContext

router = APIRouter(prefix="/api", tags=["all graphs"], responses=ERRORS)


@router.get("/today", response_model_exclude_none=True)
async def read(
    workspaces: Workspaces,
    language: InLanguage,
    since: Annotated[
        int | None, Query(ge=0, description="Milliseconds since 1970; at most 31 days ago.")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=500, description="Rows of each part at most.")] = 50,
) -> Today:
    """Tells what happened since the caller last looked: findings of automations, proposals that
    wait for them, runs that failed or wait, decisions of others, costs against budgets.

    Without `since`: from the time of `POST /api/today/seen`, else the last 24 hours. The `address`
    of each row opens it in the page.
    """
    now = now_ms()
    places = await workspaces.all()
    looked = await _members(places[0]).looked(places[0].person.user_id) if places else None
    begin = now - DAY_MS if looked is None else looked
    return await today(
        [
            TodayPlace(services=one.services, automations=one.automations.store, person=one.person)
            for one in places
        ],
        since=begin if since is None else since,
        now=now,
        language=language,
        limit=limit,
    )


class SeenRequest(RequestBody):
    """`time`: the `now` of what was read, in milliseconds since 1970."""

    time: Annotated[int, Field(ge=0)]


@router.post("/today/seen")
async def seen(workspaces: Workspaces, body: SeenRequest) -> Success:
    """Stores up to when the caller has seen what happened."""
    place = await workspaces.first()
    await _members(place).note_look(place.person, min(body.time, now_ms()))
    return Success()


def _members(place: WorkspaceContext) -> Members:
    return Members(place.services.database.records(place.person.workspace))
