"""Who is signed in on a connection, until their token expires."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from server.auth import Identity
from server.errors import AuthError

LONGEST_S = 3600.0
"""One wait for an expiry; clocks are set and computers sleep."""


class SignIn:
    """Who is signed in, until their token expires. Units: `clock` in seconds since 1970."""

    def __init__(self, identity: Identity | None = None, *, clock: Callable[[], float] = time.time) -> None:
        self._identity, self._clock = identity, clock
        self._signed = asyncio.Event()
        self.last = identity
        """Who signed in last, also when their token has expired: nobody else takes a connection over."""

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
