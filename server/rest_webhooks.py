"""REST of webhooks: how each request of the service stands, and sending one again. For admins."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request

from graphrag.delivery_queue import DeliveryStatus
from server.auth import Caller
from server.openapi_errors import ERRORS
from server.requests import EXCLUDE_NONE, AnswerBody, Id, Limit, state_of

router = APIRouter(prefix="/api/webhooks", tags=["settings"], responses=ERRORS)


class WebhookDocument(AnswerBody):
    """One request. Units: times in milliseconds since 1970; `nextTime`: when it is tried or removed."""

    id: str
    event: str
    workspace: str
    status: DeliveryStatus
    attempts: int
    created_time: int
    next_time: int
    http_status: int | None = None
    error: str | None = None
    body: dict[str, Any]


class WebhookList(AnswerBody):
    """`enabled`: there is an address (NODIUS_NOTIFY_URL)."""

    enabled: bool
    webhooks: list[WebhookDocument]


@router.get("", **EXCLUDE_NONE)
async def webhooks(request: Request, caller: Caller, limit: Limit = 100) -> WebhookList:
    """List what was sent or waits of the caller's workspaces, the latest first."""
    caller.require("admin")
    hooks = state_of(request).webhooks
    found = await hooks.stored(caller.workspaces, limit=limit)
    shown = [WebhookDocument.model_validate(one) for one in found]
    return WebhookList(enabled=hooks.is_enabled, webhooks=shown)


@router.post("/{webhook_id}/retry", **EXCLUDE_NONE)
async def retry(request: Request, caller: Caller, webhook_id: Id) -> WebhookDocument:
    """Have one sent again at once that was refused, given up or waits."""
    caller.require("admin")
    found = await state_of(request).webhooks.retry(webhook_id, caller.workspaces)
    return WebhookDocument.model_validate(found)
