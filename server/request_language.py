"""The language in which a request is answered."""

from __future__ import annotations

from starlette.requests import HTTPConnection

from graphrag.i18n import LANGUAGES, Language


def language_of(connection: HTTPConnection) -> Language:
    """Returns the supported language that a client prefers, else that of the settings.

    A page cannot set the headers of its WebSocket, so the query names the language there
    (`/ws?lang=fr`).
    """
    asked = connection.query_params.get("lang") if connection.scope["type"] == "websocket" else None
    preferred = (asked or connection.headers.get("accept-language", "")).strip().lower()[:2]
    known: Language | None = next(
        (language for language in LANGUAGES if language == preferred), None
    )
    return known or connection.app.state.server.settings.language
