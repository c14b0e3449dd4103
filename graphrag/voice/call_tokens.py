"""The token that opens the stream of a call: random, for one call, once, for seconds.

The record of the call keeps its hash, so that taking the token and answering the call are one write: of two
that bring it one is served. The text names workspace and call: who has the stream knows where to look.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass
from typing import Final

from graphrag.voice.call_errors import StreamRefused

SECRET_BYTES: Final = 16
MOST_CHARS: Final = 400
"""Name and value of a parameter of a stream have 500 characters together."""
_TEXT: Final = re.compile(r"(.+)\.([0-9a-f]{32})\.[\w-]{22}", re.ASCII)


@dataclass(frozen=True, slots=True)
class CallToken:
    """A token as text; `workspace` and `call_id` as it says. Whether it holds, the call's record says."""

    text: str
    workspace: str
    call_id: str

    @property
    def digest(self) -> str:
        """What is stored of it."""
        return hashlib.sha256(self.text.encode()).hexdigest()


def new_token(workspace: str, call_id: str) -> CallToken:
    """Return a token of 128 random bits."""
    text = f"{workspace}.{call_id}.{secrets.token_urlsafe(SECRET_BYTES)}"
    return CallToken(text, workspace, call_id)


def read_token(text: str) -> CallToken:
    """Read a token's text. Raises: StreamRefused."""
    found = _TEXT.fullmatch(text) if len(text) <= MOST_CHARS else None
    if found is None:
        raise StreamRefused
    return CallToken(text, *found.groups())
