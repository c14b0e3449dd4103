"""REST of the rules for all automations of a workspace: a pause with its reason, a budget of a
day.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import Field

from graphrag.automations import workspace_rules
from graphrag.automations.workspace_rules import (
    MAX_REASON_CHARS,
    WorkspaceBudget,
    WorkspaceRules,
    read_rules,
    used_today,
)
from server.bodies import AnswerBody, RequestBody
from server.error_schemas import ERRORS
from server.requests import EXCLUDE_NONE, Workspaces
from server.workspaces import WorkspaceContext

router = APIRouter(prefix="/api", tags=["automations"], responses=ERRORS)


class WorkspacePauseAnswer(AnswerBody):
    by: str
    reason: str
    time: int


class WorkspaceRulesAnswer(AnswerBody):
    """The rules of a workspace, and what its automations used today. Units: tokens, US dollars;
    `usedCostUsd` is missing if a price is unknown.
    """

    workspace: str
    paused: WorkspacePauseAnswer | None = None
    day_tokens: int | None = None
    day_cost_usd: float | None = None
    used_tokens: int
    used_cost_usd: float | None = None


class WorkspaceRulesList(AnswerBody):
    workspaces: list[WorkspaceRulesAnswer]


@router.get("/automation-rules", **EXCLUDE_NONE)
async def read(workspaces: Workspaces) -> WorkspaceRulesList:
    """Tells in each workspace whether all automations are paused, and its budget of a day."""
    return WorkspaceRulesList(workspaces=[await _answer(one) for one in await workspaces.all()])


class PauseAllRequest(RequestBody):
    reason: Annotated[str, Field(max_length=MAX_REASON_CHARS)] = ""


@router.post("/automation-rules/pause", **EXCLUDE_NONE)
async def pause(workspaces: Workspaces, body: PauseAllRequest) -> WorkspaceRulesList:
    """Pauses all automations of the caller's workspaces: no run begins, and each time is noted as
    skipped. For reviewers.
    """
    places = await workspaces.all()
    for place in places:
        await workspace_rules.pause_all(place.automations.store, place.person, body.reason)
    return WorkspaceRulesList(workspaces=[await _answer(one) for one in places])


@router.post("/automation-rules/resume", **EXCLUDE_NONE)
async def resume(workspaces: Workspaces) -> WorkspaceRulesList:
    """Ends the pause: automations run at their next times. For reviewers."""
    places = await workspaces.all()
    for place in places:
        await workspace_rules.resume_all(place.automations.store, place.person)
    return WorkspaceRulesList(workspaces=[await _answer(one) for one in places])


class WorkspaceBudgetRequest(RequestBody):
    """Limits of one day for all automations together; null: no limit."""

    day_tokens: Annotated[int, Field(ge=1)] | None = None
    day_cost_usd: Annotated[float, Field(gt=0, le=1_000_000)] | None = None


@router.put("/automation-rules/budget", **EXCLUDE_NONE)
async def budget(workspaces: Workspaces, body: WorkspaceBudgetRequest) -> WorkspaceRulesList:
    """Sets the budget of a day in the caller's workspaces. When it is used up, times are skipped
    with that reason. For admins.
    """
    places = await workspaces.all()
    limits = WorkspaceBudget(day_tokens=body.day_tokens, day_cost_usd=body.day_cost_usd)
    for place in places:
        await workspace_rules.set_budget(place.automations.store, place.person, limits)
    return WorkspaceRulesList(workspaces=[await _answer(one) for one in places])


async def _answer(place: WorkspaceContext) -> WorkspaceRulesAnswer:
    store = place.automations.store
    rules: WorkspaceRules = await read_rules(store.records)
    used = await used_today(store)
    paused: dict[str, Any] | None = rules.paused.model_dump() if rules.paused else None
    return WorkspaceRulesAnswer(
        workspace=place.person.workspace,
        paused=WorkspacePauseAnswer(**paused) if paused else None,
        day_tokens=rules.budget.day_tokens,
        day_cost_usd=rules.budget.day_cost_usd,
        used_tokens=used.tokens,
        used_cost_usd=used.cost_usd,
    )
