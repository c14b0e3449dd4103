"""Calls for WebSocket clients: one as it goes on (`call:follow`), and the list of them (`calls:watch`)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from server.workspaces import WorkspaceContext
from server.ws_events import Message
from server.ws_messages import CallFollow, CallsWatch
from server.ws_sign_in import SignIn


async def call_messages(
    place: WorkspaceContext, asked: CallFollow, sign_in: SignIn
) -> AsyncGenerator[Message]:
    """Yield what happens in a call, from its beginning on, to its end. Raises: AuthError, CallNotFound."""
    numbered = {"_id": asked.id, "callId": asked.call_id}
    async with aclosing(place.calls.follow(asked.call_id, place.person)) as messages:
        async for message in messages:
            sign_in.check(place.person.workspace)
            yield {**message, **numbered}


async def listed_messages(
    place: WorkspaceContext, asked: CallsWatch, sign_in: SignIn
) -> AsyncGenerator[Message]:
    """Yield the calls that are open, and each call at each change. Raises: AuthError."""
    feed, seen = place.workspace.listed_calls, 0
    with feed.reading():
        while True:
            changes = await feed.next_changes(seen)
            sign_in.check(place.person.workspace)
            seen = max(state.number for state in changes)
            for state in changes:
                if asked.agent_id in (None, state.about):
                    yield {"type": "call:listed", "_id": asked.id, "call": dict(state.document)}
