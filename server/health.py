"""Tells machines how the server is: alive, ready to work, and what it counted."""

from __future__ import annotations

import asyncio
import logging

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST

from datasources.errors import SourceError
from server.auth import Caller
from server.documents import TEXT_ERRORS
from server.requests import state_of

log = logging.getLogger(__name__)

router = APIRouter(tags=["health"])
LOOK_S = 2.0


@router.get("/healthz")
async def alive() -> dict[str, str]:
    """Answer as long as the process can."""
    return {"status": "ok"}


@router.get("/readyz", responses={503: {"description": "The database does not answer"}})
async def ready(request: Request) -> JSONResponse:
    """Answer 200 when the database answers a look-up in time."""
    state = state_of(request)
    try:
        async with asyncio.timeout(LOOK_S):
            await state.shared.database.records(state.settings.workspace).get("lease", "readyz")
    except (SourceError, TimeoutError) as exc:
        log.warning("not_ready", extra={"error": type(exc).__name__})
        return JSONResponse({"status": "unavailable"}, 503)
    return JSONResponse({"status": "ok"})


@router.get("/metrics", response_class=PlainTextResponse, responses=TEXT_ERRORS)
async def metrics(request: Request, who: Caller) -> Response:
    """Return the counters in Prometheus's form. For admins: they tell how much the service is used."""
    who.require("admin")
    return Response(state_of(request).metrics.text(), media_type=CONTENT_TYPE_LATEST)
