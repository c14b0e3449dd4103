"""Turns any exception into the answer of a request that failed.

A body is `{"error": {code, message, retryable, requestId, details?, warnings?}}`. No trace, no
statement and no text of an error that nobody foresaw reaches a client; addresses, paths and
statements are taken out of what does (the log has them, under the request's id). Also describes
these answers for OpenAPI.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.routing import Match, Route

from datasources import errors as data
from graphrag.agents.errors import InvalidAgent
from graphrag.approvals import ProposalRefused
from graphrag.automations.errors import AutomationRefused
from graphrag.config import SettingsError
from graphrag.embedding.embedder import EmbeddingError
from graphrag.errors import CODES, describe, headed
from graphrag.i18n import LANGUAGES, Language, text
from graphrag.llm.errors import ModelError
from graphrag.sessions.schedules import ScheduleError
from server.errors import AuthError, TurnBroken
from tools.proposals import MalformedProposal

MAX_DETAILS = 20
_OF_PROVIDERS = (ModelError, EmbeddingError)
_FRAMEWORK = {404: "not_found", 405: "method_not_allowed", 413: "too_large"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorResponse:
    """What a client reads of an error. `warnings`: what is no error of the document
    that is refused.
    """

    status: int
    code: str
    message: str
    retryable: bool = False
    details: Mapping[str, Any] | Sequence[Any] | None = None
    warnings: Sequence[Any] = ()
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    def body(self, request_id: str, *, as_openai: bool = False) -> dict[str, Any]:
        """Return the body; `as_openai` with what clients of the OpenAI API read beside it."""
        found: dict[str, Any] = {
            "code": self.code,
            "message": self.message,
            "retryable": self.retryable,
            "requestId": request_id,
        }
        found |= {} if self.details is None else {"details": self.details}
        if as_openai:
            found |= {
                "type": "server_error" if self.status >= 500 else "invalid_request_error",
                "param": None,
            }
        return {"error": found | ({"warnings": self.warnings} if self.warnings else {})}


def error_response(exc: Exception, language: Language, request_id: str = "") -> ErrorResponse:
    """Return the answer for any error."""
    if isinstance(exc, TurnBroken):
        return _turn(exc, language)
    if isinstance(exc, RequestValidationError):
        return _invalid(exc, language)
    if isinstance(exc, HTTPException):
        return _framework(exc, language)
    known = describe(exc, language)
    if known is None:
        sentence = text("unforeseen", language, request=request_id)
        return ErrorResponse(
            status=500, code="internal", message=headed("internal", sentence, language)
        )
    details = None
    warnings = list[dict[str, Any]]()
    if isinstance(exc, ProposalRefused):
        details = [
            {"where": problem.where, "what": problem.what} for problem in exc.problems[:MAX_DETAILS]
        ]
    elif isinstance(exc, MalformedProposal):
        details = [{"where": exc.where, "what": exc.reason}]
    elif isinstance(exc, AutomationRefused | ScheduleError) and exc.field:
        details = [{"where": exc.field, "what": exc.text(language)}]
    elif isinstance(exc, InvalidAgent):
        details = [each.to_document() for each in exc.errors]
        warnings = [each.to_document() for each in exc.warnings]
    elif (
        known.details and known.http_status < 500
    ):  # of the service's own troubles clients learn no more
        details = {"reason": known.details}
    message = known.message
    if isinstance(exc, INTERNAL):
        message = headed(known.code, text("see_log", language), language)
    elif isinstance(exc, _OF_PROVIDERS):
        message = without_places(message)
    return ErrorResponse(
        status=known.http_status,
        code=known.code,
        message=message,
        retryable=known.retryable,
        details=details,
        warnings=warnings,
        headers={"WWW-Authenticate": "Bearer"} if isinstance(exc, AuthError) else _pause(exc),
    )


def _pause(exc: object) -> dict[str, str]:
    seconds = getattr(exc, "retry_after_s", None)
    return {"Retry-After": str(max(1, math.ceil(seconds)))} if seconds else {}


def _turn(exc: TurnBroken, language: Language) -> ErrorResponse:
    fault = exc.fault
    return ErrorResponse(
        status=CODES[fault.code].http_status,
        code=fault.code,
        message=without_places(fault.message(language)),
        retryable=fault.retryable,
        details={"threadId": exc.thread_id} | ({"reason": fault.details} if fault.details else {}),
        headers=_pause(fault),
    )


def _invalid(exc: RequestValidationError, language: Language) -> ErrorResponse:
    """Name each fault with its place; what was sent is not repeated."""
    details = [
        {
            "where": ".".join(str(part) for part in fault["loc"])[:200],
            "what": str(fault["msg"])[:500],
        }
        for fault in exc.errors()[:MAX_DETAILS]
    ]
    first = details[0]["where"] if details else "?"
    if details and language == "en":  # the framework knows no other language
        first = f"{first}: {details[0]['what']}"
    return ErrorResponse(
        status=422,
        code="invalid_message",
        message=headed("invalid_message", first, language),
        # A name sent by a client may hold half a surrogate pair, and JSON may not.
        details=[{k: v.encode("utf-8", "replace").decode() for k, v in d.items()} for d in details],
    )


def _framework(exc: HTTPException, language: Language) -> ErrorResponse:
    code = _FRAMEWORK.get(
        exc.status_code, "invalid_message" if exc.status_code < 500 else "internal"
    )
    message = text(code, language)
    if code == "not_found":
        message = headed(code, text("no_such_address", language), language)
    status = 422 if exc.status_code == 400 else exc.status_code  # a body that is not JSON
    return ErrorResponse(status=status, code=code, message=message, headers=dict(exc.headers or {}))


OPENAI_PATH = "/v1/"
MCP_PATH, METADATA = "/mcp", "/.well-known/oauth-protected-resource"
"""MCP clients read there how to sign in. Source: RFC 9728."""


def language_of(connection: HTTPConnection) -> Language:
    """Return the language that a client prefers of ours, else the settings'.

    A page cannot choose the headers of its WebSocket: the address says it there (`/ws?lang=fr`).
    """
    asked = connection.query_params.get("lang") if connection.scope["type"] == "websocket" else None
    preferred = (asked or connection.headers.get("accept-language", "")).strip().lower()[:2]
    known: Language | None = next(
        (language for language in LANGUAGES if language == preferred), None
    )
    return known or connection.app.state.server.settings.language


def respond(request: HTTPConnection, exc: Exception) -> JSONResponse:
    """Return the answer to a request that failed."""
    request_id = str(getattr(request.state, "request_id", ""))
    answer = error_response(exc, language_of(request), request_id)
    note(exc, request_id)
    headers = dict(answer.headers)
    if isinstance(exc, AuthError) and request.url.path == MCP_PATH:
        where = f"{base_address(request)}{METADATA}{MCP_PATH}"
        headers["WWW-Authenticate"] = f'Bearer resource_metadata="{where}"'
    body = answer.body(request_id, as_openai=request.url.path.startswith(OPENAI_PATH))
    return JSONResponse(body, answer.status, headers)


def base_address(connection: HTTPConnection) -> str:
    """Return the address under which clients reach this server, without a slash at its end."""
    settings = connection.app.state.server.settings
    return (settings.public_url or str(connection.base_url)).rstrip("/")


def install(app: FastAPI, routers: Sequence[APIRouter]) -> None:
    """Let errors of endpoints and of the framework leave through `respond`."""
    routes = [route for router in routers for route in router.routes if isinstance(route, Route)]

    async def handle(request: Request, exc: Exception) -> JSONResponse:
        answer = respond(request, exc)
        if answer.status_code == 405:  # the framework names the methods of the first endpoint alone
            first = next(
                (r.path for r in routes if r.matches(request.scope)[0] is not Match.NONE), None
            )
            methods = {method for r in routes if r.path == first for method in r.methods or ()}
            answer.headers["allow"] = ", ".join(sorted(methods)) or answer.headers.get("allow", "")
        return answer

    for kind in (RequestValidationError, HTTPException):
        app.add_exception_handler(kind, handle)


class _ErrorBody(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)


class ErrorFacts(_ErrorBody):
    """`warnings`: of a document that is refused for what `details` say."""

    code: str
    message: str
    retryable: bool
    request_id: str = ""
    details: Any = None
    warnings: list[Any] | None = None


class ErrorAnswer(_ErrorBody):
    error: ErrorFacts


_MEANINGS: dict[int, str] = {
    401: "No token, or one that is not good",
    403: "The caller's role does not allow it",
    404: "There is no such thing for this caller",
    405: "Another method",
    408: "The request did not come on",
    409: "It changed, is busy or was decided already",
    410: "It expired",
    413: "Too large",
    422: "The request is not valid; `details` say where",
    429: "Too many requests, or a limit of usage",
    500: "A fault of this program, or of what is stored",
    502: "The model's provider failed",
    503: "Busy or not available; try again",
    504: "No answer in time; try again",
}


_JSON = {"application/json": {"schema": {"$ref": "#/components/schemas/ErrorAnswer"}}}


def _responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    # Not as `model`: FastAPI would build it for each status of each endpoint, 60 ms in all.
    return {status: {"description": _MEANINGS[status], "content": _JSON} for status in statuses}


ERRORS = _responses(403, 404, 405, 408, 409, 410, 413, 422, 500, 503, 504) | {
    401: {"model": ErrorAnswer, "description": _MEANINGS[401]}
}
"""What any endpoint may answer."""

TEXT_ERRORS = _responses(401, 403, 503)
"""What an endpoint may answer whose own answers are text."""

VOICE_ERRORS = _responses(403, 408, 413, 422, 503)
"""What an endpoint may answer that the telephone service calls."""

MODEL_ERRORS = _responses(429, 502)
"""And one that asks a model."""


log = logging.getLogger(__name__)

INTERNAL = (
    data.DatabaseBusy,
    data.DatabaseDamaged,
    data.DatabaseVersion,
    data.InvalidDatabaseUrl,
    data.SourceTimeout,
    data.SourceUnavailable,
    data.UnknownIndexField,
    SettingsError,
)
"""Errors whose texts are for the person who runs the service."""

_PLACE = re.compile(
    r"""[a-z][a-z0-9+.-]*://[^\s'")\]]+                  # an address
    | \b(?:sqlite|file):[^\s'")\]]+
    | (?<![\w/.])~?/(?:[^\s/'":,;)]+/)+[^\s'":,;)]*     # an absolute path
    | \b[A-Za-z]:\\[^\s'"]+
    | \b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b
    | \[[0-9a-f:]*:[0-9a-f:]*\](?::\d+)?                # IPv6
    | \bhost='[^']*'(?:,\s*port=\d+)?
    | \b(?:localhost|[a-z0-9-]+(?:\.[a-z0-9-]+)+|[a-z][a-z0-9-]*):\d{2,5}\b""",
    re.VERBOSE | re.IGNORECASE,
)


def without_places(text: str) -> str:
    """Return a text in which addresses, hosts with ports and absolute paths are dots."""
    return _PLACE.sub("…", text)


def note(exc: Exception, request_id: str = "") -> None:
    """Log what a client is not sent of an error."""
    if isinstance(exc, INTERNAL):
        facts = {"request_id": request_id, "error": type(exc).__name__, "reason": str(exc)}
        log.warning("error_withheld", extra=facts)
