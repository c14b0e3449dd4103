"""Removes internals from what clients are sent: the database's path, addresses, statements.

The log has them, under the request's id.
"""

from __future__ import annotations

import logging
import re

from datasources import errors as data
from graphrag.config import SettingsError

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
