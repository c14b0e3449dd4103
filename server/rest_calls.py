"""REST of tool calls: what models lately called in this process, and what became of it."""

from __future__ import annotations

from fastapi import APIRouter, Request

from server.openapi_errors import ERRORS
from server.requests import EXCLUDE_NONE, AnswerBody, Workspaces, state_of

router = APIRouter(prefix="/api", tags=["people"], responses=ERRORS)


class ToolCallRecord(AnswerBody):
    """One call. Units: `time` in milliseconds since 1970, `ms` as the tool took.

    `outcome`: ok, error, unchanged (the same error again), reused (answered from memory), timeout, broke; not
    run: duplicate, repeated, cut, over_limit, not_alone. `error` is the code of an error.
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


@router.get("/tool-calls", **EXCLUDE_NONE)
async def tool_calls(request: Request, workspaces: Workspaces) -> ToolCallList:
    """Return the last calls of tools by models in this server's process, newest first. For admins."""
    workspaces.identity.require("admin")
    found = state_of(request).shared.call_log.of(workspaces.names)
    return ToolCallList(calls=[ToolCallRecord.model_validate(call) for call in found])
