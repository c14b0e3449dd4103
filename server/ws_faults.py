"""Exceptions as messages of the WebSocket."""

from __future__ import annotations

from graphrag.i18n import Language
from server.channels.websocket_messages import Message, error_message
from server.error_responses import error_response, note
from server.errors import TooManyRequests


def fault_message(id_: float | None, exc: Exception, language: Language) -> Message:
    """Returns the `ai:error` of an exception and logs what it leaves out: clients never receive
    the text of an unexpected one.
    """
    error = error_response(exc, language)
    note(exc)
    details = {"retryAfterS": exc.wait_s} if isinstance(exc, TooManyRequests) else None
    return error_message(id_, error.code, error.message, retryable=error.retryable, details=details)


def is_unforeseen(exc: Exception) -> bool:
    """Returns True for a fault of this program, which is logged with its trace."""
    return error_response(exc, "en").code == "internal"
