"""Middleware around every request: gives it an id, logs and counts it, answers unexpected errors.

An unexpected error is logged with its trace; the answer names the request's id only.
"""

from __future__ import annotations

import logging
import re
import time
import uuid

from opentelemetry import context
from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.error_responses import OPENAI_PATH, respond
from server.metrics import Metrics
from server.tracing import incoming

log = logging.getLogger(__name__)

HEADER = "X-Request-ID"
CLIENT_GONE = 499
"""Counted as status where the client went away before its answer was whole."""
_GIVEN = re.compile(r"[A-Za-z0-9._-]{1,64}")
_ALWAYS = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}


class Access:
    """Middleware, the outermost of ours."""

    def __init__(self, app: ASGIApp, *, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket") and (known := incoming(scope)) is not None:
            token = context.attach(known)
            try:
                await self._answer(scope, receive, send)
            finally:
                context.detach(token)
        else:
            await self._answer(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        given = request.headers.get(HEADER, "")
        request_id = given if _GIVEN.fullmatch(given) else uuid.uuid4().hex
        request.state.request_id = request_id
        began, status = time.perf_counter(), 0

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers[HEADER] = request_id
                for name, value in _ALWAYS.items():
                    headers.setdefault(name, value)
                if scope["path"].startswith(("/api/", OPENAI_PATH)):
                    headers.setdefault("Cache-Control", "no-store")
            await send(message)

        try:
            await self._app(scope, receive, sending)
        except ClientDisconnect:
            status = status or CLIENT_GONE
            log.debug("client_gone", extra={"request_id": request_id})
        except Exception as exc:  # the last resort: see the module
            answer = respond(request, exc)
            if answer.status_code == 500:
                log.exception("request_failed", extra={"request_id": request_id})
            if status:
                raise
            await answer(scope, receive, sending)
        finally:
            self._note(scope, request, status, time.perf_counter() - began)

    def _note(self, scope: Scope, request: Request, status: int, seconds: float) -> None:
        route = str(getattr(scope.get("route"), "path", "other"))
        self._metrics.request(scope["method"], route, status, seconds)
        facts = {
            "request_id": request.state.request_id,
            "method": scope["method"],
            "route": route,
            "status": status,
            "ms": round(seconds * 1000, 1),
            "user": getattr(request.state, "user_id", None),
        }
        log.info("http_request", extra=facts)
