"""The open sessions of each person at `/mcp`. Their number is limited: a new one replaces the one
that was idle longest.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Final

from mcp.server.streamable_http import MCP_SESSION_ID_HEADER
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.datastructures import Headers
from starlette.types import Message, Receive, Scope, Send

from server.errors import TooManyRequests

OF_ONE: Final = 50  # open sessions of one person
BUSY_RETRY_S: Final = 5.0
_ID: Final = MCP_SESSION_ID_HEADER.encode("ascii")


@dataclass(slots=True)
class _SessionUse:
    """`user`: the credential that opened the session, which alone may end it."""

    user: Any
    in_flight: int = 0


class OpenSessions:
    """Passes requests to the sessions of `manager`, each for a person."""

    def __init__(self, manager: StreamableHTTPSessionManager) -> None:
        self._manager = manager
        # By person, ordered by last use, the oldest first.
        self._of: dict[str, OrderedDict[str, _SessionUse]] = {}

    @staticmethod
    def opens(scope: Scope) -> bool:
        """True if a request may open a session: it names none, and its protocol revision has
        sessions.
        """
        headers = Headers(scope=scope)
        version = headers.get(MCP_PROTOCOL_VERSION_HEADER)
        has_sessions = version is None or version in HANDSHAKE_PROTOCOL_VERSIONS
        return scope["method"] == "POST" and MCP_SESSION_ID_HEADER not in headers and has_sessions

    async def handle(self, user_id: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request of a person. Raises: TooManyRequests if it opens a session and all of
        theirs are in use.
        """
        if self.opens(scope):
            await self._make_room(user_id, scope)
        named = Headers(scope=scope).get(MCP_SESSION_ID_HEADER)
        own = self._of.get(user_id)
        use = None if own is None or named is None else own.get(named)
        is_ended = False

        async def watched(message: Message) -> None:
            nonlocal use, is_ended
            if message["type"] == "http.response.start":
                given = Headers(raw=message["headers"]).get(MCP_SESSION_ID_HEADER)
                is_ended = message["status"] == 404 or (
                    scope["method"] == "DELETE" and message["status"] < 300
                )
                if named is None and given is not None and message["status"] < 400:
                    use = self._of.setdefault(user_id, OrderedDict()).setdefault(
                        given, _SessionUse(user=scope["user"])
                    )
                    use.in_flight += 1
            await send(message)

        if use is not None and named is not None:
            use.in_flight += 1
            self._of[user_id].move_to_end(named)
        try:
            await self._manager.handle_request(scope, receive, watched)
        finally:
            if use is not None:
                use.in_flight -= 1
            if is_ended and named is not None:
                self._forget(user_id, named)

    def _forget(self, user_id: str, session_id: str) -> None:
        own = self._of.get(user_id)
        if own is not None:
            own.pop(session_id, None)
            if not own:
                del self._of[user_id]

    async def _make_room(self, user_id: str, scope: Scope) -> None:
        """Ends the session of a person that was idle longest, if they have the maximum."""
        own = self._of.get(user_id, OrderedDict[str, _SessionUse]())
        if len(own) < OF_ONE:
            return
        idle = next(
            ((session_id, use.user) for session_id, use in own.items() if not use.in_flight), None
        )
        if idle is None:
            raise TooManyRequests(retry_after_s=BUSY_RETRY_S)
        session_id, user = idle
        self._forget(user_id, session_id)
        kept = [(name, value) for name, value in scope["headers"] if name in (b"host", b"origin")]
        ending = {
            **scope,
            "user": user,
            "method": "DELETE",
            "headers": [*kept, (_ID, session_id.encode("ascii"))],
        }
        await self._manager.handle_request(ending, _empty, _dropped)


async def _empty() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


async def _dropped(_: Message) -> None:
    """Drops the answer to a request of the service itself."""
