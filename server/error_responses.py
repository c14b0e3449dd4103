"""Turns any exception into the answer of a request that failed.

A body is `{"error": {code, message, retryable, requestId, details?, warnings?}}`. Clients never
receive a trace, a statement or the text of an unexpected error. Addresses and paths are removed
from the other texts; the log has them, under the request's id.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.routing import Match, Route

from datasources import errors as data
from graphrag.agents.errors import InvalidAgent
from graphrag.approvals import ProposalRefused
from graphrag.automations.errors import AutomationRefused
from graphrag.config import SettingsError
from graphrag.connections.errors import WorkflowServerError
from graphrag.embedding.embedder import EmbeddingError
from graphrag.errors import CODES, Described, describe, headed
from graphrag.i18n import Language, text
from graphrag.llm.errors import ModelError
from graphrag.sessions.schedules import ScheduleError
from server.errors import AuthError, TurnBroken
from server.redaction import without_places
from server.request_language import language_of
from tools.proposals import MalformedProposal

log = logging.getLogger(__name__)

MAX_DETAILS = 20
_OF_PROVIDERS = (ModelError, EmbeddingError)
# Errors whose texts are for the person who runs the service.
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
_FRAMEWORK = {404: "not_found", 405: "method_not_allowed", 413: "too_large"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorResponse:
    """An error as a client reads it. `warnings`: findings about a refused document that are not
    errors.
    """

    status: int
    code: str
    message: str
    retryable: bool = False
    details: Mapping[str, Any] | Sequence[Any] | None = None
    warnings: Sequence[Any] = ()
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    def body(self, request_id: str, *, as_openai: bool = False) -> dict[str, Any]:
        """Returns the body; `as_openai` adds the fields that clients of the OpenAI API read."""
        facts: dict[str, Any] = {
            "code": self.code,
            "message": self.message,
            "retryable": self.retryable,
            "requestId": request_id,
        }
        facts |= {} if self.details is None else {"details": self.details}
        if as_openai:
            facts |= {
                "type": "server_error" if self.status >= 500 else "invalid_request_error",
                "param": None,
            }
        return {"error": facts | ({"warnings": self.warnings} if self.warnings else {})}


def error_response(exc: Exception, language: Language, request_id: str = "") -> ErrorResponse:
    """Returns the answer for any error."""
    if isinstance(exc, TurnBroken):
        return _turn(exc, language)
    if isinstance(exc, RequestValidationError):
        return _invalid(exc, language)
    if isinstance(exc, HTTPException):
        return _framework(exc, language)
    described = describe(exc, language)
    if described is None:
        sentence = text("unforeseen", language, request=request_id)
        return ErrorResponse(
            status=500, code="internal", message=headed("internal", sentence, language)
        )
    message = described.message
    if isinstance(exc, INTERNAL):
        message = headed(described.code, text("see_log", language), language)
    elif isinstance(exc, _OF_PROVIDERS):
        message = without_places(message)
    return ErrorResponse(
        status=described.http_status,
        code=described.code,
        message=message,
        retryable=described.retryable,
        details=_details(exc, described, language),
        warnings=[each.to_document() for each in exc.warnings]
        if isinstance(exc, InvalidAgent)
        else (),
        headers={"WWW-Authenticate": "Bearer"} if isinstance(exc, AuthError) else _pause(exc),
    )


def _details(
    exc: Exception, described: Described, language: Language
) -> Mapping[str, Any] | Sequence[Any] | None:
    """Returns where and what is wrong, or the reason. Faults of the service have no details."""
    if isinstance(exc, ProposalRefused):
        shown = exc.problems[:MAX_DETAILS]
        return [{"where": problem.where, "what": problem.what} for problem in shown]
    if isinstance(exc, MalformedProposal):
        return [{"where": exc.where, "what": exc.reason}]
    if isinstance(exc, AutomationRefused | ScheduleError | WorkflowServerError) and exc.field:
        return [{"where": exc.field, "what": exc.text(language)}]
    if isinstance(exc, InvalidAgent):
        return [each.to_document() for each in exc.errors]
    if described.details and described.http_status < 500:
        return {"reason": described.details}
    return None


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
    """Returns each fault with its place, without the values that were sent."""
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
MCP_PATH = "/mcp"
# MCP clients read there how to sign in. Source: RFC 9728.
METADATA = "/.well-known/oauth-protected-resource"


def respond(request: HTTPConnection, exc: Exception) -> JSONResponse:
    """Returns the answer to a request that failed, and logs what it leaves out."""
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
    """Returns the address under which clients reach this server, without a slash at the end."""
    settings = connection.app.state.server.settings
    return (settings.public_url or str(connection.base_url)).rstrip("/")


def install(app: FastAPI, routers: Sequence[APIRouter]) -> None:
    """Answers errors of endpoints and of the framework by `respond`."""
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


def note(exc: Exception, request_id: str = "") -> None:
    """Logs the text of an error that clients do not receive."""
    if isinstance(exc, INTERNAL):
        facts = {"request_id": request_id, "error": type(exc).__name__, "reason": str(exc)}
        log.warning("error_withheld", extra=facts)
