"""One client's look on at a conversation of theirs that another connection, or another server, runs.

Only a client that asks for it (`ai:follow`) is told. What is told carries the `_id` it asked under:
`ai:following` at once; then for each turn `ai:follow_turn` and the messages of the turn, from its beginning.
Of a turn that runs where its messages cannot be seen (another server, HTTP) only that it runs.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from datasources.errors import SourceError
from server.errors import AuthError
from server.workspaces import WorkspaceContext
from server.ws_messages import AiFollow
from server.ws_outbox import ClientGone, Outbox
from server.ws_session import Session
from server.ws_turns import ActiveTurn, RunningTurns

log = logging.getLogger(__name__)

ENDINGS = ("ai:complete", "ai:error")


class Following:
    """Follows one thread at a time for one connection, its `owner`."""

    def __init__(self, outbox: Outbox, shared: RunningTurns, owner: object, *, look_s: float) -> None:
        self._outbox, self._shared, self._owner = outbox, shared, owner
        self._look_s = look_s
        """So often it is looked whether the thread is run where this process does not see it."""
        self._task: asyncio.Task[None] | None = None

    async def follow(self, place: WorkspaceContext, asked: AiFollow, session: Session) -> None:
        """Follow this thread from now on, in place of another; returns at once."""
        await self.aclose()
        following = {"type": "ai:following", "_id": asked.id, "threadId": asked.thread_id}
        await self._outbox.put(following)
        self._task = asyncio.create_task(self._run(place, asked, session))

    async def aclose(self) -> None:
        """Follow nothing any more."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _run(self, place: WorkspaceContext, asked: AiFollow, session: Session) -> None:
        seen = -1
        is_told = False
        with suppress(ClientGone, AuthError):  # the connection says itself that a token expired
            while (identity := session.identity) is not None:
                turn = await self._shared.next_of(identity, asked.thread_id, seen, self._look_s)
                if turn is None:
                    is_told = await self._look(place, asked, is_told=is_told)
                    continue
                seen, is_told = turn.number, False
                if turn.owner is not self._owner:
                    await self._pass_on(turn, asked, session)

    async def _pass_on(self, turn: ActiveTurn, asked: AiFollow, session: Session) -> None:
        question = {} if turn.question is None else {"message": turn.question}
        await self._outbox.put(self._turn(asked, here=True) | question)
        last = ""
        async for message in turn.log.read():
            session.check(turn.place.person.workspace)
            await self._outbox.put({**message, "_id": asked.id})
            last = message["type"]
        if last not in ENDINGS:  # whoever ran it went away: how it ended is stored
            await self._outbox.put({"type": "ai:follow_end", "_id": asked.id, "threadId": asked.thread_id})

    async def _look(self, place: WorkspaceContext, asked: AiFollow, *, is_told: bool) -> bool:
        """Tell once of a turn that this process does not see; return whether one runs."""
        try:
            runs = await place.agent.leases.runs(asked.thread_id)
        except SourceError as exc:  # the store may be back at the next look
            log.warning("follow_unreadable", extra={"error": type(exc).__name__})
            return is_told
        own = any(t.wire.thread_id == asked.thread_id for t in self._shared.all())
        if runs and not is_told and not own:
            await self._outbox.put(self._turn(asked, here=False))
        return runs

    def _turn(self, asked: AiFollow, *, here: bool) -> dict[str, object]:
        return {"type": "ai:follow_turn", "_id": asked.id, "threadId": asked.thread_id, "here": here}
