"""Health endpoints for machines: alive, ready to work, and metrics."""

from __future__ import annotations

import logging

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST

from server.error_schemas import TEXT_ERRORS
from server.requests import ADMINS, state_of

log = logging.getLogger(__name__)

router = APIRouter(tags=["health"])


@router.get("/healthz")
async def alive() -> dict[str, str]:
    """Answers while the process can."""
    return {"status": "ok"}


@router.get(
    "/readyz", responses={503: {"description": "The database does not answer, or takes no write"}}
)
async def ready(request: Request) -> JSONResponse:
    """Answers 200 if the database accepts a small write in time. Tried at most every 5 s."""
    state = state_of(request)
    records = state.backend.shared.database.records(state.settings.workspace)
    if await state.monitoring.write_probe.failure(records):
        return JSONResponse({"status": "unavailable"}, 503)
    return JSONResponse({"status": "ok"})


@router.get("/metrics", response_class=PlainTextResponse, responses=TEXT_ERRORS, **ADMINS)
async def metrics(request: Request) -> Response:
    """Returns the counters in the format of Prometheus. For admins, as they show how much the
    service is used.
    """
    return Response(state_of(request).monitoring.metrics.text(), media_type=CONTENT_TYPE_LATEST)
