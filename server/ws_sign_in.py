"""The signed-in person of a connection, until their token expires."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from server.auth import Identity
from server.channels.websocket_messages import Message, answer, error_message
from server.errors import AuthError
from server.ws_messages import AI_PREFIXES, InvalidMessage

LONGEST_S = 3600.0  # one wait for an expiry; clocks may be set, and computers sleep


class SignIn:
    """The signed-in person, until their token expires. Units: `clock` in seconds since 1970."""

    def __init__(
        self, identity: Identity | None = None, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._identity = identity
        self._clock = clock
        self._signed = asyncio.Event()
        # The last person who signed in, also after their token has expired: nobody else may take
        # the connection over.
        self.last = identity

    @property
    def identity(self) -> Identity | None:
        """The person who is signed in now."""
        identity = self._identity
        return None if identity is None or self._is_over(identity) else identity

    def _is_over(self, identity: Identity) -> bool:
        return identity.expires is not None and self._clock() >= identity.expires

    def set(self, identity: Identity) -> None:
        self._identity = self.last = identity
        self._signed.set()

    def check(self, workspace: str) -> None:
        """Raises: AuthError if messages about a workspace may not be sent any more."""
        identity = self.identity
        if identity is None:
            raise AuthError(code="token_expired")
        if workspace not in identity.workspaces:
            raise AuthError(code="token_claims", claim="workspaces")

    async def expired(self) -> Identity:
        """Waits until the token has expired; then nobody is signed in. Returns the identity of the
        token.
        """
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
    """Returns the message that says who is signed in, if anybody."""
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
    """Returns the answer to an invalid frame, in the form of the message that it resembles."""
    if exc.type is None or exc.type == "__ping__" or exc.type.startswith(AI_PREFIXES):
        return error_message(exc.id, "invalid_message", exc.reason)
    if exc.type == "authenticate":
        return auth_result(exc.id, error=exc.reason)
    return answer({"type": exc.type}, exc.id, problem=exc.reason)
