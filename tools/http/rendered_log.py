"""Logs rendered templates at level debug: secrets masked, numbers shortened, texts bounded."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Any, Final

from tools.http.fetch import PreparedRequest
from tools.http.secret_values import Secrets

log = logging.getLogger(__name__)

MAX_CHARS: Final = 4_000  # of one logged text
# telephone numbers, also as a query writes them, and other long numbers
_NUMBER: Final = re.compile(r"(\+|%2B)?(\d{2})\d{5,}(\d{2})", re.IGNORECASE)


def log_text(where: str, text: str, secrets: Secrets, facts: Mapping[str, Any]) -> None:
    """Logs a rendered text. `where`: its place in the document; `facts`: further log fields."""
    if log.isEnabledFor(logging.DEBUG):
        log.debug(
            "template_rendered", extra={**facts, "where": where, "rendered": shown(text, secrets)}
        )


def log_request(
    where: str, request: PreparedRequest, secrets: Secrets, facts: Mapping[str, Any]
) -> None:
    """Logs a rendered request: address, names of headers, and body."""
    if not log.isEnabledFor(logging.DEBUG):
        return
    body = "" if request.body is None else request.body.decode("utf-8", "replace")
    rendered = {
        "method": request.method,
        "url": shown(request.url, secrets),
        "headers": sorted(name for name, _ in request.headers),
        "rendered": shown(body, secrets),
    }
    log.debug("template_rendered", extra={**facts, "where": where, **rendered})


def shown(text: str, secrets: Secrets) -> str:
    """Returns a text as it may be logged, numbers as `+33…78`."""
    masked = secrets.mask(text)
    return _NUMBER.sub(lambda n: f"{n[1] or ''}{n[2]}…{n[3]}", masked)[:MAX_CHARS]
