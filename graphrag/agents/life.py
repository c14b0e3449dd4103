"""Ends conversations with agents: stores the outcome, then sends the requests to their API, once.

The end and its deliveries are one write over the version that was read, under the lease of the
conversation's turns. If several servers end a conversation, one of them stores it, and no turn is
interrupted.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, final

from datasources.errors import BadDocument, SourceError
from graphrag.agent.thread_agent import EndReason
from graphrag.agent.thread_store import (
    KIND,
    StoredThread,
    Thread,
    ThreadBusy,
    ThreadError,
    ThreadNotFound,
)
from graphrag.agents.beginnings import Beginnings
from graphrag.agents.chat_values import agent_part, values_of, with_part
from graphrag.agents.compiled_agent import CompiledAgent
from graphrag.agents.deliveries import Deliveries, LifecycleEvent, LifeParts, owed
from graphrag.agents.errors import (
    AgentError,
    AgentNotFound,
    ThreadEnded,
    ThreadWithoutAgent,
)
from graphrag.roles import Person
from graphrag.stored_records import given

log = logging.getLogger(__name__)


def outcome_of(agent: CompiledAgent, ctx: Mapping[str, Any]) -> str | None:
    """Returns the outcome of the first rule whose flag is true, or that has no flag; else None."""
    for rule in agent.outcome_rules:
        if rule.flag is None or ctx.get(rule.flag) is True:
            return rule.outcome
    return None


AT_ONCE: Final = 50
NOTHING: Final[Mapping[str, Any]] = {}
BUSY_MS: Final = 5_000
PAUSE_MS: Final = 60_000  # until a conversation that could not be ended is tried again
STOPS: Final = 75
# between two attempts to end a conversation whose turn is asked to stop, STOPS times
STOP_S: Final = 0.2
# for the deliveries of ended conversations, when an agent is taken out of service
WAITED_S: Final = 15.0


@final
class Endings:
    """Ends the conversations of one workspace."""

    def __init__(self, parts: LifeParts, deliveries: Deliveries) -> None:
        self._parts = parts
        self._clock = parts.clock
        self._deliveries = deliveries
        self._failed: dict[str, int] = {}

    async def end(
        self,
        thread_id: str,
        reason: EndReason,
        *,
        stop: bool = False,
        at: int | None = None,
        ctx: Mapping[str, Any] = NOTHING,
    ) -> Thread | None:
        """Ends a conversation and sends its deliveries concurrently. Returns None if it had ended.

        A conversation with a new message is not `idle`. With `stop`, a turn under way is stopped
        first. `at`: the time of the end, if it was earlier. `ctx`: last values of the conversation.
        Raises: ThreadNotFound, SourceError; ThreadBusy while a turn runs, or if another process
        wrote the thread.
        """
        with self._parts.leases.watched(thread_id) as inbox:
            for _ in range(STOPS if stop else 0):
                try:
                    return await self._end(thread_id, reason, at, ctx)
                except ThreadBusy:
                    await self._parts.leases.ask_to_stop(thread_id, reason)
                    await inbox.wait(STOP_S)
        return await self._end(thread_id, reason, at, ctx)

    async def _end(
        self, thread_id: str, reason: EndReason, at: int | None, ctx: Mapping[str, Any]
    ) -> Thread | None:
        async with self._parts.leases.held(thread_id):
            return await self.end_held(thread_id, reason, at=at, ctx=ctx)

    async def keep_held(
        self, thread_id: str, *, ctx: Mapping[str, Any], until: int, transfer: int = 0
    ) -> StoredThread | None:
        """Stores values of an open conversation that may last until `until`. Returns None if it
        has ended.

        The caller holds its lease. `transfer`: number of a transfer whose request is owed.
        Raises: ThreadNotFound, ThreadBusy, SourceError.
        """
        stored = await self._parts.threads.get_of(thread_id, self._parts.workspace)
        part = stored.thread.agent
        if part is None or not part.is_open:
            return None
        thread = with_part(stored.thread, ctx={**part.ctx, **ctx}, idle_time=until)
        also = [owed(thread, "on_transfer", self._clock(), transfer)] if transfer else []
        kept = await self._parts.threads.save(replace(stored, thread=thread), thread.messages, also)
        if transfer:
            self._deliveries.send_soon(thread_id, "on_transfer", number=transfer)
        return kept

    async def end_held(
        self,
        thread_id: str,
        reason: EndReason,
        *,
        at: int | None = None,
        ctx: Mapping[str, Any] = NOTHING,
    ) -> Thread | None:
        """Ends a conversation whose lease the caller holds; see `end`."""
        stored = await self._parts.threads.get_of(thread_id, self._parts.workspace)
        part = stored.thread.agent
        now = self._clock()
        if part is None or not part.is_open or (reason == "idle" and part.idle_time > now):
            return None
        if (
            reason == "idle" and part.channel == "voice"
        ):  # who served it would have ended it long before
            reason = "lost"
            at = stored.thread.last_updated_time if at is None else at
        if reason == "idle" and part.ctx.get("should_hangup") is True:
            reason = "agent_hung_up"
        try:
            agent = await self._parts.agents.compiled(part.agent_id, part.version)
        except AgentNotFound:  # nothing is left that says what is owed
            agent = None
        ended = now if at is None else min(now, max(at, part.started_time))
        last = with_part(stored.thread, ctx={**part.ctx, **ctx})
        thread, events = await self._ended(last, agent, reason, ended)
        also = [owed(thread, event, now) for event in events]
        thread = (
            await self._parts.threads.save(replace(stored, thread=thread), thread.messages, also)
        ).thread
        facts = {"agent_id": part.agent_id, "call_id": thread_id, "reason": reason}
        log.info("call_ended", extra=facts | {"outcome": agent_part(thread).outcome})
        if events:
            self._deliveries.send_soon(thread_id, *events)
        return thread

    async def _ended(
        self, thread: Thread, agent: CompiledAgent | None, reason: EndReason, now: int
    ) -> tuple[Thread, list[LifecycleEvent]]:
        """Returns the ended thread, and the events to deliver."""
        part = agent_part(thread)
        changes: dict[str, Any] = {"ended_time": now, "end_reason": reason}
        if (
            not part.start_taken
            and (first := await self._deliveries.first_values(thread.key)) is not None
        ):
            changes |= {"ctx": {**part.ctx, **first}, "start_taken": True}
        # It waits for nobody any more; a proposal of it is decided as any other.
        turn = thread.turn.model_copy(update={"status": "idle"})
        thread = with_part(thread, **changes).model_copy(
            update={"turn": turn, "pending_interrupt": None}
        )
        if agent is None:
            return thread, []
        thread = with_part(thread, outcome=outcome_of(agent, agent_part(thread).ctx))
        events: list[LifecycleEvent] = []
        lifecycle = agent.document.lifecycle
        was_put_through = agent_part(thread).ctx.get("transfer_answered") is True
        if (asked := lifecycle.on_no_action) is not None and not was_put_through:
            scope = values_of(agent, thread, self._parts.locale).scope(now)
            if await asyncio.to_thread(asked.condition.holds, scope):
                events.append("on_no_action")
        if lifecycle.on_end is not None:
            events.append("on_end")
        return thread, events

    async def end_by_person(self, thread_id: str, person: Person) -> Thread:
        """Ends a person's conversation with an agent, and stops a turn of it before.

        Raises: ThreadNotFound, ThreadWithoutAgent, ThreadEnded, ThreadBusy, SourceError.
        """
        thread = (await self._parts.threads.get(thread_id, person)).thread
        if thread.agent is None:
            raise ThreadWithoutAgent(thread_id=thread_id)
        ended = await self.end(thread_id, "ended_by_person", stop=True)
        if ended is None:
            raise ThreadEnded(thread_id=thread_id)
        return ended

    async def forget(self, thread_id: str, person: Person) -> None:
        """Deletes a person's conversation. One with an agent ends first, and its deliveries are
        tried once.

        Raises: ThreadNotFound, ThreadBusy, SourceError.
        """
        thread = (await self._parts.threads.get(thread_id, person)).thread
        if thread.agent is not None:
            await self.end(thread_id, "ended_by_person", stop=True)
            await self._deliveries.wait_until_sent([thread_id], timeout_s=WAITED_S)
        await self._parts.threads.delete(thread_id, person)

    async def end_idle(self, now: int | None = None) -> int:
        """Ends conversations whose idle time is over, or whose agent hung up.

        Returns how many. Raises: SourceError.
        """
        now = self._clock() if now is None else now
        self._failed = {key: until for key, until in self._failed.items() if until > now}
        limit = AT_ONCE + len(self._failed)
        found = await self._parts.records.query(
            KIND, order_by="agentIdleTime", at_most=now, limit=limit
        )
        return await self._end_all(
            [each.key for each in found if each.key not in self._failed], "idle", now
        )

    async def end_all(self, *, agent_id: str | None = None, graph_key: str | None = None) -> int:
        """Ends every open conversation with an agent, or about a graph.

        Returns how many. Raises: SourceError.
        """
        where = given(agentOpen=True, agentId=agent_id, graphKey=graph_key)
        ended = 0
        while True:
            found = await self._parts.records.query(
                KIND, where, order_by="agentIdleTime", limit=AT_ONCE
            )
            keys = [each.key for each in found]
            done = await self._end_all(keys, "draining", self._clock(), stop=True)
            await self._deliveries.wait_until_sent(keys, timeout_s=WAITED_S)
            ended += done
            if not done:
                return ended

    async def graphs(self) -> frozenset[str]:
        """Returns the keys of the graphs of open conversations. Raises: SourceError."""
        graphs = set[str]()
        last = -1
        while True:
            found = await self._parts.records.query(
                KIND, order_by="agentIdleTime", at_least=last, limit=AT_ONCE
            )
            graphs |= {str(each.data.get("graphKey") or "") for each in found}
            newest = int(found[-1].data["agentIdleTime"]) if found else last
            if len(found) < AT_ONCE:
                return frozenset(graphs - {""})
            last = max(newest, last + 1)

    async def _end_all(
        self, thread_ids: Sequence[str], reason: EndReason, now: int, *, stop: bool = False
    ) -> int:
        """Ends conversations. One that cannot be ended now does not stop the others.

        With `stop` they end concurrently, as a call takes time to say goodbye. Returns how many
        ended, with `stop` also those that their server ended.
        """
        places = asyncio.Semaphore(AT_ONCE if stop else 1)

        async def end(thread_id: str) -> bool:
            try:
                async with places:
                    return await self.end(thread_id, reason, stop=stop) is not None or stop
            except ThreadNotFound:
                return False
            except (ThreadError, AgentError, BadDocument, SourceError) as exc:
                pause_ms = BUSY_MS if isinstance(exc, ThreadBusy) else PAUSE_MS
                self._failed[thread_id] = now + pause_ms
                if not isinstance(exc, ThreadBusy):
                    facts = {"call_id": thread_id, "error": type(exc).__name__}
                    log.warning("call_not_ended", extra=facts)
                return False

        return sum(await asyncio.gather(*map(end, thread_ids)))


@final
class AgentLife:
    """The services for the life of conversations with the agents of one workspace."""

    def __init__(self, parts: LifeParts) -> None:
        self.locale = parts.locale
        self.deliveries = Deliveries(parts)
        self.beginnings = Beginnings(parts, self.deliveries)
        self.endings = Endings(parts, self.deliveries)
