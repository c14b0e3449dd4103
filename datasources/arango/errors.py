"""Translates errors of ArangoDB and of the connection into errors of `datasources`.

    SourceUnavailable
    └── ServerRefused      the server answered with an error number
        └── WriteConflict  another writer was first; the whole step may be tried again

Error messages of the server can quote data and AQL, so they are logged for debugging and never
shown.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

import requests
from arango.exceptions import ArangoError, ArangoServerError

from datasources.errors import (
    DatabaseUnprepared,
    SourceBusy,
    SourceError,
    SourceTimeout,
    SourceUnavailable,
)

log = logging.getLogger(__name__)

CONFLICT, UNIQUE = 1200, 1210
LOCKED, LOCK_TIMEOUT, DEADLOCK = 28, 18, 29
COLLECTION_MISSING, DATABASE_MISSING, DUPLICATE_NAME = 1203, 1228, 1207
KILLED, CURSOR_LOST = 1500, 1600
VECTOR_SHAPE, VECTOR_UNUSABLE, HINT_UNUSABLE = 1554, 1555, 1577
NO_INDEX = frozenset({VECTOR_SHAPE, VECTOR_UNUSABLE, HINT_UNUSABLE, COLLECTION_MISSING})
"""Errors of a statement whose index or View is missing or not ready. Another statement is used
instead.
"""

EXPECTED = (ArangoError, requests.RequestException, OSError)
"""The errors that python-arango raises if a request fails."""

_RETRIED = frozenset({CONFLICT, LOCK_TIMEOUT, LOCKED, DEADLOCK})
_REASONS: Mapping[int, str] = {
    11: "it refuses the sign-in; check the user, the password and what the user may do",
    401: "it refuses the sign-in; check the user and the password",
    32: "the request exceeds a limit of the server",
    CONFLICT: "others are changing the same, or a change cut off by a crash holds it for a minute at most; "
    "nothing was changed",
    UNIQUE: "a document of that key exists already",
    DEADLOCK: "others are changing the same in another order; nothing was changed",
    LOCK_TIMEOUT: "a collection stayed locked; nothing was changed",
    CURSOR_LOST: "it lost the rest of an answer; try again",
    **dict.fromkeys((1653, 1654, 1655), "the transaction was ended before it was done"),
}


class ServerRefused(SourceUnavailable):
    """Raised when the server answered with an error. `code` is its error number."""

    def __init__(self, *, source: str, code: int, reason: str) -> None:
        self.code = code
        super().__init__(source=source, reason=reason)


class WriteConflict(ServerRefused, SourceBusy): ...


def translate(exc: Exception, *, source: str, timeout_s: float) -> SourceError:
    """Returns the SourceError for an error of python-arango, requests or the operating system."""
    if isinstance(exc, SourceError):
        return exc
    if isinstance(exc, requests.Timeout | TimeoutError):
        return SourceTimeout(source=source, seconds=timeout_s)
    if not isinstance(exc, ArangoError):
        return SourceUnavailable(source=source, reason="no server answers there, or it is starting")
    if not isinstance(exc, ArangoServerError):
        return SourceUnavailable(
            source=source, reason=f"its answer cannot be read ({type(exc).__name__})"
        )
    code = exc.error_code or exc.http_code or 0
    log.debug("refused", extra={"code": code, "said": exc.error_message})
    if code == KILLED:
        return SourceTimeout(source=source, seconds=timeout_s)
    if code in (DATABASE_MISSING, COLLECTION_MISSING):
        return DatabaseUnprepared(source=source, code=code)
    kind = WriteConflict if code in _RETRIED else ServerRefused
    return kind(
        source=source, code=code, reason=_REASONS.get(code, f"it answers with error {code}")
    )
