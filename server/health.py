"""Tells machines how the server is: alive, ready to work, and what it counted."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST

from datasources.base import RecordStore
from datasources.errors import RecordConflict, SourceError
from graphrag.leases import now_ms
from graphrag.stored_records import change_record
from server.error_responses import TEXT_ERRORS
from server.requests import ADMINS, state_of

log = logging.getLogger(__name__)

router = APIRouter(tags=["health"])
LOOK_S, EVERY_S = 2.0, 5.0
KEY = "readyz"


@router.get("/healthz")
async def alive() -> dict[str, str]:
    """Answer as long as the process can."""
    return {"status": "ok"}


class WriteProbe:
    """Tries whether the database takes a small write; asked more often, it says what
    it found last.
    """

    def __init__(
        self, *, every_s: float = EVERY_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._every_s = every_s
        self._clock = clock
        self._lock = asyncio.Lock()
        self._tried_at = -math.inf
        self._failure = ""

    async def failure(self, records: RecordStore) -> str:
        """Return the name of the error; empty where the write went well."""
        async with self._lock:
            if self._clock() - self._tried_at >= self._every_s:
                self._failure = await self._try(records)
                self._tried_at = self._clock()
            return self._failure

    async def _try(self, records: RecordStore) -> str:
        try:
            async with asyncio.timeout(LOOK_S):
                data = {"owner": KEY, "expiresTime": now_ms()}
                await change_record(records, "lease", KEY, lambda _: data, tries=1)
        except RecordConflict:
            return ""  # another server has just written it
        except (SourceError, TimeoutError) as exc:
            log.warning("not_ready", extra={"error": type(exc).__name__, "reason": str(exc)})
            return type(exc).__name__
        return ""


@router.get(
    "/readyz", responses={503: {"description": "The database does not answer, or takes no write"}}
)
async def ready(request: Request) -> JSONResponse:
    """Answer 200 when the database takes a small write in time; tried every 5 s at most."""
    state = state_of(request)
    if not hasattr(request.app.state, "write_probe"):
        request.app.state.write_probe = WriteProbe()
    probe: WriteProbe = request.app.state.write_probe
    if await probe.failure(state.shared.database.records(state.settings.workspace)):
        return JSONResponse({"status": "unavailable"}, 503)
    return JSONResponse({"status": "ok"})


@router.get("/metrics", response_class=PlainTextResponse, responses=TEXT_ERRORS, **ADMINS)
async def metrics(request: Request) -> Response:
    """Return the counters in Prometheus's form. For admins: they tell how much the
    service is used.
    """
    return Response(state_of(request).metrics.text(), media_type=CONTENT_TYPE_LATEST)
