"""Removes addresses, hosts and paths from texts that leave the service."""

from __future__ import annotations

import re

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
    """Returns the text with addresses, hosts with ports and absolute paths replaced by dots."""
    return _PLACE.sub("…", text)
