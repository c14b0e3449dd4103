"""Middleware of every request: assigns its id, counts it, compresses JSON and answers unexpected
errors.

An unexpected error is logged with its trace. The answer names only the id of the request.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
import uuid
import zlib
from typing import Any

from opentelemetry import context
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.error_responses import OPENAI_PATH, respond
from server.metrics import Metrics
from tools.trace_context import PROPAGATOR

log = logging.getLogger(__name__)

HEADER = "X-Request-ID"
# Counted as the status if the client disconnects before it has the whole answer.
CLIENT_GONE = 499
_GIVEN = re.compile(r"[A-Za-z0-9._-]{1,64}")
_ALWAYS = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}


class Access:
    """The outermost middleware of the service."""

    def __init__(self, app: ASGIApp, *, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket") and (known := _incoming(scope)) is not None:
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
        began = time.perf_counter()
        status = 0

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


# Units: bytes. A shorter answer fits in one packet and is not compressed.
LEAST = 1_400
# Units: bytes. Up to this size the event loop compresses, in less than a millisecond.
AT_ONCE = 32_768
LEVEL = 3
GZIP = 16 + zlib.MAX_WBITS


class Compressed:
    """Middleware that compresses answers, except events and files that are compressed already."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        takes = scope["type"] == "http" and "gzip" in Headers(scope=scope).get(
            "accept-encoding", ""
        )
        answer = _Answer(send).take if takes and scope["method"] != "HEAD" else send
        await self._app(scope, receive, answer)


class _Answer:
    def __init__(self, send: Send) -> None:
        self._send = send
        self._start: Message | None = None
        self._packer: Any = None

    async def take(self, message: Message) -> None:
        """Sends a part of the answer. The headers wait for the first part, which shows
        the length.
        """
        if message["type"] == "http.response.start":
            headers = Headers(raw=message["headers"])
            is_json = headers.get("content-type", "").startswith("application/json")
            if is_json and "content-encoding" not in headers:
                self._start = message
                return
        if message["type"] != "http.response.body":
            await self._send(message)
            return
        if self._start is not None:
            await self._begin(self._start, message)
        if self._packer is not None:
            message = {**message, "body": await self._packed(message)}
        if message.get("body") or not message.get("more_body"):
            await self._send(message)

    async def _begin(self, start: Message, first: Message) -> None:
        self._start = None
        if len(first.get("body", b"")) >= LEAST:
            self._packer = zlib.compressobj(LEVEL, wbits=GZIP)
            headers = MutableHeaders(raw=start["headers"])
            headers["Content-Encoding"] = "gzip"
            headers.add_vary_header("Accept-Encoding")
            del headers["Content-Length"]
        await self._send(start)

    async def _packed(self, message: Message) -> bytes:
        body = message.get("body", b"")
        pack = self._packer.compress
        made: bytes = pack(body) if len(body) <= AT_ONCE else await asyncio.to_thread(pack, body)
        return made if message.get("more_body") else made + self._packer.flush()


def _incoming(scope: Scope) -> context.Context | None:
    """Returns the trace context of an HTTP or WebSocket request, None if it names none."""
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    return PROPAGATOR.extract(headers) if "traceparent" in headers else None
