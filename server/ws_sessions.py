"""Where runs of automations stand, for WebSocket clients: `ai:sessions`, answered by `ai:session_state`."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from server.workspaces import WorkspaceContext
from server.ws_events import Message
from server.ws_messages import AiSessions
from server.ws_sign_in import SignIn


async def session_messages(
    place: WorkspaceContext, asked: AiSessions, sign_in: SignIn
) -> AsyncGenerator[Message]:
    """Yield where the runs stand that a person may see, now and at each change. Raises: AuthError."""
    runs, seen = place.workspace.runs, 0
    with runs.reading():
        while True:
            changes = await runs.next_changes(seen)
            sign_in.check(place.person.workspace)
            seen = max(state.number for state in changes)
            for state in changes:
                sees = state.owner == place.person.user_id or place.person.at_least("reviewer")
                if sees and asked.graph_key in (None, state.about):
                    yield {"type": "ai:session_state", "_id": asked.id, **state.document}
