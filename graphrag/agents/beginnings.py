"""Begins a conversation with an agent: checks, session, first values, greeting. Then it is stored.

Until then there is no thread: a blocked caller, or a session that is not to be had, leaves nothing behind.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace

from graphrag.agent.thread_agent import ThreadAgent
from graphrag.agent.thread_store import StoredThread, Thread, Threads
from graphrag.agents.chat_values import (
    Locale,
    RunningAgents,
    first_values,
    language_of,
    said,
    values_of,
    with_part,
)
from graphrag.agents.compiled_agent import CompiledAgent, CompiledCheck
from graphrag.agents.deliveries import Deliveries, owed
from graphrag.agents.errors import AgentBlocked
from graphrag.agents.session_source import SessionSource
from graphrag.leases import now_ms
from graphrag.llm.base import AssistantMessage, Message, SystemMessage
from graphrag.prompts.library import load_phrases
from tools.http.executor import HttpExecutor
from tools.http.fetch import RequestFailed
from tools.http.scope import ConversationValues
from tools.http.value_templates import TemplateFailed, ValueTemplate

log = logging.getLogger(__name__)

MESSAGE_CHARS = 300
"""Of what a check says to those it blocks, once its values are in it."""


class Beginnings:
    """Begins the conversations of one workspace. `clock` gives milliseconds since 1970."""

    def __init__(
        self,
        threads: Threads,
        agents: RunningAgents,
        deliveries: Deliveries,
        *,
        locale: Locale,
        clock: Callable[[], int] = now_ms,
    ) -> None:
        self._threads, self._agents, self._deliveries = threads, agents, deliveries
        self._locale, self._clock = locale, clock
        self._sessions = SessionSource(clock=clock)

    async def begin(
        self, agent: CompiledAgent, version: int, stored: StoredThread, *, caller_phone: str | None = None
    ) -> StoredThread:
        """Store a new thread as a conversation with a version of an agent, and return it.

        `stored` is of `Threads.begin`. What the agent's API is owed for the beginning is stored with it and
        sent beside. Raises, and leaves nothing: AgentBlocked, AgentSessionFailed, SourceError.
        """
        now = self._clock()
        part = ThreadAgent(
            agent_id=agent.agent_id,
            version=version,
            caller_phone=caller_phone,
            started_time=now,
            ctx=first_values(agent.agent_id, caller_phone, now),
        )
        thread = said(stored.thread.model_copy(update={"agent": part}), agent, now)
        values, executor = values_of(agent, thread, self._locale), self._agents.executor(agent)
        await self._check(agent, values, executor)
        session = await self._sessions.resolve(agent, values, executor)
        thread = with_part(
            thread,
            ctx={**session.ctx, **part.ctx},
            session=session.response,
            instructions=session.instructions,
            declarations=session.declarations,
        )
        messages = self._opening(agent, thread)
        also = [] if agent.on_start is None else [owed(thread, "on_start", now)]
        kept = await self._threads.save(replace(stored, thread=thread), messages, also)
        log.info("call_started", extra={"agent_id": agent.agent_id, "call_id": thread.key, "channel": "chat"})
        if also:
            self._deliveries.send_soon(thread.key, "on_start")
        return kept

    async def _check(self, agent: CompiledAgent, values: ConversationValues, executor: HttpExecutor) -> None:
        """Ask all checks side by side; the first in order that blocks decides. Raises: AgentBlocked."""
        asked = [asyncio.create_task(self._blocks(check, values, executor)) for check in agent.checks]
        try:
            for check, task in zip(agent.checks, asked, strict=True):
                if await task:
                    log.info("call_blocked", extra={"agent_id": agent.agent_id, "check": check.name})
                    raise AgentBlocked(message=self._message(check.message, values))
        finally:
            for task in asked:
                task.cancel()
            await asyncio.gather(*asked, return_exceptions=True)

    async def _blocks(self, check: CompiledCheck, values: ConversationValues, executor: HttpExecutor) -> bool:
        key = f"{values.call_id}:check:{check.name}"
        try:
            answer = await executor.request(check.request, values, key)
        except RequestFailed as exc:
            log.warning("check_failed", extra={"check": check.name, "reason": exc.code})
            return check.blocks_on_error
        if not answer.ok:
            log.warning("check_failed", extra={"check": check.name, "reason": f"http_{answer.status}"})
            return check.blocks_on_error
        scope = values.scope(self._clock(), response=answer.value, status=answer.status)
        return await asyncio.to_thread(check.block_if.holds, scope)

    def _message(self, message: ValueTemplate | None, values: ConversationValues) -> str:
        if message is None:
            return ""
        try:
            return str(message.render(values.scope(self._clock()), insert="text"))[:MESSAGE_CHARS]
        except TemplateFailed:
            return ""

    def _opening(self, agent: CompiledAgent, thread: Thread) -> list[Message]:
        """Return what stands before the person's first message."""
        if (opening := agent.document.chat.opening) is not None:
            phrase = load_phrases("turn", language_of(agent, self._locale))["agent_opening"]
            note = SystemMessage(content=phrase.render({"opening": opening}), stable=False)
            return [AssistantMessage(content=opening, exclude_from_prompt=True), note]
        if (greeting := agent.greeting) is None:
            return []
        scope = values_of(agent, thread, self._locale).scope(self._clock())
        try:
            known = greeting.condition and greeting.condition.render(scope) not in (None, "")
            text = (greeting.known if known else greeting.unknown).render(scope, insert="text")
        except TemplateFailed as exc:
            log.warning("greeting_not_rendered", extra={"agent_id": agent.agent_id, "reason": exc.code})
            return []
        return [SystemMessage(content=str(text), stable=False)]
