"""Failures on their way to a WebSocket client: `ai:error`, or a refused answer. Pure."""

from __future__ import annotations

from graphrag.i18n import Language
from server.auth import Identity
from server.error_responses import error_response, note
from server.errors import TooManyRequests
from server.ws_events import Message, error_message
from server.ws_messages import AI_PREFIXES, InvalidMessage


def fault_message(id_: float | None, exc: Exception, language: Language) -> Message:
    """Return the `ai:error` of a failure; of one that nobody foresaw the text is kept back."""
    found = error_response(exc, language)
    note(exc)
    details = {"retryAfterS": exc.wait_s} if isinstance(exc, TooManyRequests) else None
    return error_message(id_, found.code, found.message, retryable=found.retryable, details=details)


def is_unforeseen(exc: Exception) -> bool:
    """Tell whether a failure is a fault of this program, to be logged whole."""
    return error_response(exc, "en").code == "internal"


def refusal(exc: InvalidMessage) -> Message:
    """Return the answer to a frame that is no message, in the form of what it seems to be."""
    if exc.type is None or exc.type == "__ping__" or exc.type.startswith(AI_PREFIXES):
        return error_message(exc.id, "invalid_message", exc.reason)
    if exc.type == "authenticate":
        return auth_result(exc.id, error=exc.reason)
    return answer({"type": exc.type}, exc.id, problem=exc.reason)


def answer(
    message: Message, id_: float | None, *, problem: str | None = None, code: str | None = None
) -> Message:
    """Return an editor's message as its answer: as it was sent, with how it went."""
    response: Message = {"status": problem is None}
    if problem is not None:
        response["message"] = problem
    if code is not None:
        response["code"] = code
    numbered = {} if id_ is None else {"_id": id_}
    return {**message, **numbered, "_response": response}


def auth_result(
    id_: float | None = None, *, identity: Identity | None = None, error: str | None = None
) -> Message:
    """Return whether somebody is signed in, and who."""
    message: Message = {"type": "authResult", "success": identity is not None}
    if identity is not None:
        message |= {
            "userId": identity.user_id,
            "username": identity.username,
            "workspaces": list(identity.workspaces),
            "role": identity.role,
        }
    if error is not None:
        message["error"] = error
    return message if id_ is None else {**message, "_id": id_}
