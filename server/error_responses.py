"""Errors on their way out: the one table from an exception to a status and a body; nothing else is told.

A body is `{"error": {code, message, retryable, requestId, details?}}`. No trace, no statement and no
text of an error that nobody foresaw reaches a client.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection

from graphrag.agent.failures import FaultCode
from graphrag.approvals import ProposalRefused
from graphrag.embedding.base import EmbeddingError
from graphrag.errors import Meaning, describe
from graphrag.i18n import Language, message
from graphrag.llm.errors import ModelError
from graphrag.workers import WorkersBusy
from server import errors
from server.redaction import INTERNAL, note, without_places
from tools.proposals import MalformedProposal

MAX_DETAILS = 20
OF_PROVIDERS = (ModelError, EmbeddingError)

MEANINGS: dict[type[errors.ServerError], Meaning] = {
    errors.AuthError: Meaning(code="unauthorized", http_status=401),
    errors.KeysUnavailable: Meaning(code="unavailable", http_status=503, retryable=True),
    errors.ForeignPage: Meaning(code="forbidden", http_status=403),
    errors.RoleNeeded: Meaning(code="forbidden", http_status=403),
    errors.WorkspaceUnclear: Meaning(code="invalid_message", http_status=422),
    errors.RequestTooLarge: Meaning(code="too_large", http_status=413),
    errors.RequestTooSlow: Meaning(code="timeout", http_status=408, retryable=True),
    errors.ServerFull: Meaning(code="busy", http_status=503, retryable=True),
    errors.NodeTypesNotLive: Meaning(code="invalid", http_status=422),
    errors.TooManyRequests: Meaning(code="rate_limit", http_status=429, retryable=True),
    errors.TurnStopped: Meaning(code="unavailable", http_status=503, retryable=True),
}

TURN_STATUS: dict[FaultCode, int] = {
    "rate_limit": 503,
    "server_error": 502,
    "auth_error": 502,
    "no_credit": 502,
    "timeout": 504,
    "network": 502,
    "content_filter": 422,
    "context_length": 413,
    "usage_limit": 429,
    "busy": 503,
    "not_found": 404,
    "forbidden": 403,
    "invalid": 422,
    "conflict": 409,
    "stale": 409,
    "request_refused": 502,
    "internal": 500,
}
"""What a turn that broke off is to HTTP. Of a provider's 429 the caller is not guilty: 503."""

_FRAMEWORK = {404: "not_found", 405: "method_not_allowed", 413: "too_large"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorResponse:
    """What a client is told of an error."""

    status: int
    code: str
    message: str
    retryable: bool = False
    details: Mapping[str, Any] | Sequence[Any] | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    def body(self, request_id: str) -> dict[str, Any]:
        found: dict[str, Any] = {
            "code": self.code,
            "message": self.message,
            "retryable": self.retryable,
            "requestId": request_id,
        }
        return {"error": found if self.details is None else {**found, "details": self.details}}


def told(exc: Exception, language: Language, request_id: str = "") -> ErrorResponse:
    """Return what a client is told of any error."""
    if isinstance(exc, errors.TurnBroken):
        return _turn(exc, language)
    if isinstance(exc, errors.ServerError):
        return _server(exc, language)
    if isinstance(exc, RequestValidationError):
        return _invalid(exc, language)
    if isinstance(exc, HTTPException):
        return _framework(exc, language)
    known = describe(exc, language)
    if known is not None and isinstance(exc, INTERNAL):
        known = replace(known, message=f"{message(known.code, language)}: {message('see_log', language)}")
    if known is None:
        text = message("unforeseen", language).format(request=request_id)
        return ErrorResponse(status=500, code="internal", message=f"{message('internal', language)}: {text}")
    details = None
    if isinstance(exc, ProposalRefused):
        details = [{"where": problem.where, "what": problem.what} for problem in exc.problems[:MAX_DETAILS]]
    elif isinstance(exc, MalformedProposal):
        details = [{"where": exc.where, "what": exc.reason}]
    elif known.details and known.http_status < 500:  # of the service's own troubles clients learn no more
        details = {"reason": known.details}
    return ErrorResponse(
        status=known.http_status,
        code=known.code,
        message=without_places(known.message) if isinstance(exc, OF_PROVIDERS) else known.message,
        retryable=known.retryable,
        details=details,
        headers={"Retry-After": str(exc.retry_after_s)} if isinstance(exc, WorkersBusy) else {},
    )


def _turn(exc: errors.TurnBroken, language: Language) -> ErrorResponse:
    fault = exc.fault
    headers = {"Retry-After": str(max(1, round(fault.retry_after_s)))} if fault.retry_after_s else {}
    return ErrorResponse(
        status=TURN_STATUS[fault.code],
        code=fault.code,
        message=without_places(fault.message(language)),
        retryable=fault.retryable,
        details={"threadId": exc.thread_id} | ({"reason": fault.details} if fault.details else {}),
        headers=headers,
    )


def _server(exc: errors.ServerError, language: Language) -> ErrorResponse:
    meaning = next(MEANINGS[kind] for kind in type(exc).__mro__ if kind in MEANINGS)
    headers: dict[str, str] = {}
    if isinstance(exc, errors.AuthError):
        headers["WWW-Authenticate"] = "Bearer"
    if isinstance(exc, errors.TooManyRequests):
        headers["Retry-After"] = str(exc.wait_s)
    if isinstance(exc, errors.ServerFull):
        headers["Retry-After"] = str(exc.retry_after_s)
    return ErrorResponse(
        status=meaning.http_status,
        code=meaning.code,
        message=f"{message(meaning.code, language)}: {exc.text(language)}",
        retryable=meaning.retryable,
        headers=headers,
    )


def _invalid(exc: RequestValidationError, language: Language) -> ErrorResponse:
    """Name each fault with its place; what was sent is not repeated."""
    details = [
        {"where": ".".join(str(part) for part in fault["loc"])[:200], "what": str(fault["msg"])[:500]}
        for fault in exc.errors()[:MAX_DETAILS]
    ]
    first = details[0]["where"] if details else "?"
    if details and language == "en":  # the framework knows no other language
        first = f"{first}: {details[0]['what']}"
    return ErrorResponse(
        status=422,
        code="invalid_message",
        message=f"{message('invalid_message', language)}: {first}",
        details=_storable(details),
    )


def _storable(details: list[dict[str, str]]) -> list[dict[str, str]]:
    """Replace half surrogate pairs, which a name sent by a client may hold and JSON may not."""
    return [{k: v.encode("utf-8", "replace").decode() for k, v in d.items()} for d in details]


def _framework(exc: HTTPException, language: Language) -> ErrorResponse:
    code = _FRAMEWORK.get(exc.status_code, "invalid_message" if exc.status_code < 500 else "internal")
    more = f": {message('no_such_address', language)}" if code == "not_found" else ""
    status = 422 if exc.status_code == 400 else exc.status_code  # a body that is not JSON
    return ErrorResponse(
        status=status, code=code, message=message(code, language) + more, headers=dict(exc.headers or {})
    )


def language_of(connection: HTTPConnection) -> Language:
    """Return the language that a client prefers of ours, else the settings'.

    A page cannot choose the headers of its WebSocket: the address says it there (`/ws?lang=fr`).
    """
    asked = connection.query_params.get("lang") if connection.scope["type"] == "websocket" else None
    preferred = (asked or connection.headers.get("accept-language", "")).strip().lower()[:2]
    if preferred == "fr":
        return "fr"
    if preferred == "en":
        return "en"
    return connection.app.state.server.settings.language


def respond(request: HTTPConnection, exc: Exception) -> JSONResponse:
    """Return the answer to a request that failed."""
    request_id = str(getattr(request.state, "request_id", ""))
    answer = told(exc, language_of(request), request_id)
    note(exc, request_id)
    return JSONResponse(answer.body(request_id), answer.status, dict(answer.headers))


def install(app: FastAPI) -> None:
    """Let errors of endpoints and of the framework leave through `respond`."""

    async def handle(request: Request, exc: Exception) -> JSONResponse:
        return respond(request, exc)

    for kind in (RequestValidationError, HTTPException):
        app.add_exception_handler(kind, handle)
