"""The token that opens the stream of a call: random, for one call, once, for seconds.

The record of the call keeps its hash, so that taking the token and answering the call are one
write: of two that bring it one is served. The text names workspace and call: who has the stream
knows where to look.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from typing import Final

from graphrag.voice.call_errors import StreamRefused

SECRET_BYTES: Final = 16
MOST_CHARS: Final = 400
"""Name and value of a parameter of a stream have 500 characters together."""
_TEXT: Final = re.compile(r"(.+)\.([0-9a-f]{32})\.[\w-]{22}", re.ASCII)


def new_token(workspace: str, call_id: str) -> str:
    """Return a token of 128 random bits."""
    return f"{workspace}.{call_id}.{secrets.token_urlsafe(SECRET_BYTES)}"


def digest_of(token: str) -> str:
    """Return what is stored of a token."""
    return hashlib.sha256(token.encode()).hexdigest()


def read_token(token: str) -> tuple[str, str]:
    """Return workspace and call as a token says; whether it holds, the call's record says.

    Raises: StreamRefused.
    """
    found = _TEXT.fullmatch(token) if len(token) <= MOST_CHARS else None
    if found is None:
        raise StreamRefused
    return found[1], found[2]
