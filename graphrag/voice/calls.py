"""The telephone calls of one workspace: they ring, are answered, held and ended, each once.

Any server may have one over the same database. The one that answers a call holds the lease of its thread
until the end; whichever server looks first ends what was left behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, Final

from graphrag.agent.thread_store import Thread
from graphrag.agents.errors import AgentError
from graphrag.approvals import Approval
from graphrag.roles import Person
from graphrag.voice.answered_calls import AnsweredCalls
from graphrag.voice.call_after import AfterCall, after_call
from graphrag.voice.call_errors import CallEnded, CallForbidden, CallNotFound, CallOpen
from graphrag.voice.call_feed import stored_feed
from graphrag.voice.call_records import Call, CallStatus, call_document

AFTER_S: Final = 8.0
"""So long it is waited for the end of a call whose stream has ended; the telephone service waits for 15 s."""
POLL_S: Final = 0.1
TAKING_MS: Final = 2_000
"""So long after its answer a call without lease may be about to take it."""


class Calls(AnsweredCalls):
    """Begins, holds, ends and shows the calls of one workspace."""

    async def after(self, call_id: str) -> AfterCall:
        """Return what the telephone service does when a stream has ended; of an unknown call it hangs up.

        Raises: SourceError.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + AFTER_S
        call = await self.records.get(call_id)
        if call is not None and call.status == "ringing":  # its stream never came
            return AfterCall() if await self.ends.not_come(call) else await self.after(call_id)
        while call is not None and call.status == "active" and loop.time() < until:
            if self.setting.clock() > (call.answered_time or 0) + TAKING_MS:
                await self.ends.recover(call)
            await asyncio.sleep(POLL_S)
            call = await self.records.get(call_id)
        if call is None:
            return AfterCall()
        try:
            agent = await self.setting.agents.compiled(call.agent_id, call.agent_version)
        except AgentError:
            return AfterCall()
        return after_call(call, agent, self.setting.life.locale)

    # -- people

    async def get(self, call_id: str, person: Person) -> Call:
        """Return a call for a reviewer, or for who talks in it. Raises: CallNotFound, CallForbidden."""
        if not person.at_least("editor"):
            raise CallForbidden
        call = await self.records.get(call_id) if person.workspace == self.records.workspace else None
        if call is None:
            raise CallNotFound(call_id=call_id)
        if not person.at_least("reviewer") and call.user_id != person.user_id:
            raise CallForbidden
        return call

    async def document(self, call_id: str, person: Person) -> dict[str, Any]:
        """Return a call whole, as `get` finds it."""
        call = await self.get(call_id, person)
        return call_document(call, await self.ends.thread(call))

    async def list(
        self,
        person: Person,
        *,
        agent_id: str | None = None,
        status: CallStatus | None = None,
        outcome: str | None = None,
        since: int | None = None,
        cursor: str | None = None,
        limit: int = 100,
    ) -> tuple[list[Call], str | None]:
        """Return calls for a reviewer, the newest first, and a cursor where there are more.

        Raises: CallForbidden, SourceError.
        """
        if not person.at_least("reviewer") or person.workspace != self.records.workspace:
            raise CallForbidden
        return await self.records.list(
            agent_id=agent_id, status=status, outcome=outcome, since=since, cursor=cursor, limit=limit
        )

    async def end(self, call_id: str, person: Person) -> Call:
        """Let a call end, after a goodbye, wherever it is served.

        Raises: CallNotFound, CallForbidden, CallEnded, SourceError.
        """
        call = await self.get(call_id, person)
        if not call.is_open:
            raise CallEnded(call_id=call_id)
        if (server := self.places.running(call_id)) is not None:
            server.end_soon("ended_by_person")
        elif call.status == "ringing":
            call = await self.ends.not_come(call) or call
        elif not await self.setting.leases.ask_to_stop(call_id, "ended_by_person"):
            call = await self.ends.recover(call) or call
        return call

    async def forget(self, call_id: str, person: Person) -> None:
        """Remove at once what is stored of a call beside its sums.

        Raises: CallNotFound, CallForbidden, CallOpen, ThreadBusy, SourceError.
        """
        call = await self.get(call_id, person)
        if not person.at_least("admin"):
            raise CallForbidden
        if call.is_open:
            raise CallOpen(call_id=call_id)
        await self.ends.forget(call)

    async def follow(self, call_id: str, person: Person) -> AsyncGenerator[dict[str, Any]]:
        """Yield what happened in a call and what happens, until it ends. Raises: as `get`."""
        await self.get(call_id, person)
        if (server := self.places.running(call_id)) is not None:
            async for message in server.feed.follow():
                yield message
                if message["type"] == "call:ended":
                    return
            # A follower that is too slow goes on with what is stored.

        async def read() -> tuple[Call, Thread | None]:
            call = await self.get(call_id, person)
            return call, await self.ends.thread(call)

        async for message in stored_feed(call_id, read):
            yield message

    async def decided(self, approval: Approval) -> None:
        """Tell the caller of a proposal at once what was decided, if the call is held here."""
        if (server := self.places.running(approval.thread_id or "")) is not None:
            await server.decided(approval.id)

    async def tick(self, now: int | None = None) -> None:
        """Do what is due: calls that did not come, were left behind or were kept long enough.

        Raises: SourceError.
        """
        await self.ends.tick(now)
