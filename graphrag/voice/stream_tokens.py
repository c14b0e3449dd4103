"""Tokens that open the stream of a call: random, for one call, valid once and for seconds.

The record of a call stores the hash of its token. Using the token and answering the call are one
write, so of two streams with the same token only one is served. The text of a token names its
workspace and call.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from typing import Final

from graphrag.voice.errors import StreamRefused

SECRET_BYTES: Final = 16
MAX_CHARS: Final = 400  # name and value of a Twilio stream parameter have 500 characters together
_TOKEN: Final = re.compile(r"(.+)\.([0-9a-f]{32})\.[\w-]{22}", re.ASCII)


def new_token(workspace: str, call_id: str) -> str:
    """Returns a token with 128 random bits."""
    return f"{workspace}.{call_id}.{secrets.token_urlsafe(SECRET_BYTES)}"


def digest_of(token: str) -> str:
    """Returns the hash that is stored of a token."""
    return hashlib.sha256(token.encode()).hexdigest()


def read_token(token: str) -> tuple[str, str]:
    """Returns the workspace and the call that a token names; its validity is not checked.

    Raises: StreamRefused for a malformed token.
    """
    match = _TOKEN.fullmatch(token) if len(token) <= MAX_CHARS else None
    if match is None:
        raise StreamRefused
    return match[1], match[2]
