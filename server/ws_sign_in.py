"""Who is signed in on a connection, until their token expires."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from server.auth import Identity
from server.channels.websocket_messages import Message, answer, error_message
from server.errors import AuthError
from server.ws_messages import AI_PREFIXES, InvalidMessage

LONGEST_S = 3600.0
"""One wait for an expiry; clocks are set and computers sleep."""


class SignIn:
    """Who is signed in, until their token expires. Units: `clock` in seconds since 1970."""

    def __init__(
        self, identity: Identity | None = None, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._identity = identity
        self._clock = clock
        self._signed = asyncio.Event()
        self.last = identity
        """Who signed in last, also when their token has expired: nobody else
        takes a connection over.
        """

    @property
    def identity(self) -> Identity | None:
        """Who is signed in now."""
        identity = self._identity
        return None if identity is None or self._is_over(identity) else identity

    def _is_over(self, identity: Identity) -> bool:
        return identity.expires is not None and self._clock() >= identity.expires

    def set(self, identity: Identity) -> None:
        self._identity = self.last = identity
        self._signed.set()

    def check(self, workspace: str) -> None:
        """Raises: AuthError when what happens in a workspace may not be sent any more."""
        identity = self.identity
        if identity is None:
            raise AuthError(code="token_expired")
        if workspace not in identity.workspaces:
            raise AuthError(code="token_claims", claim="workspaces")

    async def expired(self) -> Identity:
        """Wait until a token that somebody signed in with has expired; then nobody is signed in."""
        while True:
            await self._signed.wait()
            self._signed.clear()
            while (identity := self._identity) is not None:
                if identity.expires is None:
                    break
                left = identity.expires - self._clock()
                if left <= 0:
                    self._identity = None
                    return identity
                await asyncio.sleep(min(left, LONGEST_S))


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


def refusal(exc: InvalidMessage) -> Message:
    """Return the answer to a frame that is no message, in the form of what it seems to be."""
    if exc.type is None or exc.type == "__ping__" or exc.type.startswith(AI_PREFIXES):
        return error_message(exc.id, "invalid_message", exc.reason)
    if exc.type == "authenticate":
        return auth_result(exc.id, error=exc.reason)
    return answer({"type": exc.type}, exc.id, problem=exc.reason)
