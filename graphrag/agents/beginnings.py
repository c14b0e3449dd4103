"""Begins a conversation with an agent: checks, session, first values and greeting.

The thread is stored last: a blocked caller, or a failed session, leaves nothing behind.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import final

from graphrag.agent.thread_agent import ThreadAgent
from graphrag.agent.thread_store import StoredThread, Thread
from graphrag.agents.chat_values import (
    agent_part,
    first_values,
    language_of,
    said,
    values_of,
    with_part,
)
from graphrag.agents.compiled_agent import CompiledAgent
from graphrag.agents.deliveries import Deliveries, LifeParts, owed
from graphrag.agents.document import PreCallCheck
from graphrag.agents.errors import AgentBlocked
from graphrag.agents.session_source import ResolvedSession, resolve_session, stored_voice
from graphrag.llm.base import AssistantMessage, Message, SystemMessage
from graphrag.prompts.library import load_phrases
from graphrag.workers import end_tasks
from tools.http.executor import HttpExecutor
from tools.http.fetch import RequestFailed
from tools.http.rendered_log import log_text
from tools.http.scope import ConversationValues
from tools.http.value_templates import TemplateFailed

log = logging.getLogger(__name__)

MESSAGE_CHARS = 300  # of the text of a check for the people it blocks, with its values
LOST_MS = (
    3_600_000  # after its maximum duration, until a call without a recorded end counts as lost
)


@final
class Beginnings:
    """Begins the conversations of one workspace."""

    def __init__(self, parts: LifeParts, deliveries: Deliveries) -> None:
        self._parts = parts
        self._clock = parts.clock
        self._deliveries = deliveries

    async def begin(
        self,
        agent: CompiledAgent,
        version: int,
        stored: StoredThread,
        *,
        caller_phone: str | None = None,
    ) -> StoredThread:
        """Stores a new thread as a chat with a version of an agent. Returns it.

        `stored`: from `Threads.begin`. Raises, and leaves nothing: AgentBlocked,
        AgentSessionFailed, SourceError.
        """
        part = ThreadAgent(agent_id=agent.agent_id, version=version, caller_phone=caller_phone)
        thread = self.draft(stored.thread, part)
        await self.check(agent, thread)
        session = await self.resolve(agent, thread)
        return await self.store(agent, replace(stored, thread=thread), session)

    def draft(self, thread: Thread, part: ThreadAgent) -> Thread:
        """Returns a new thread as a conversation with an agent. Stores nothing."""
        now = self._clock()
        part = part.model_copy(update={"started_time": now, "ctx": first_values(part, now)})
        return thread.model_copy(update={"agent": part})

    async def check(self, agent: CompiledAgent, thread: Thread) -> None:
        """Runs all checks concurrently. Raises: AgentBlocked for the first one that blocks."""
        values = values_of(agent, thread, self._parts.locale)
        executor = self._parts.agents.executor(agent.agent_id)
        asked = [
            asyncio.create_task(self._blocks(check, values, executor))
            for check in agent.document.pre_call_checks
        ]
        try:
            for check, task in zip(agent.document.pre_call_checks, asked, strict=True):
                if await task:
                    log.info(
                        "call_blocked", extra={"agent_id": agent.agent_id, "check": check.name}
                    )
                    raise AgentBlocked(message=self._message(check, values))
        finally:
            await end_tasks(*asked)

    async def resolve(self, agent: CompiledAgent, thread: Thread) -> ResolvedSession:
        """Returns the session of a conversation. Raises: AgentSessionFailed."""
        values = values_of(agent, thread, self._parts.locale)
        executor = self._parts.agents.executor(agent.agent_id)
        return await resolve_session(agent, values, executor, self._clock())

    async def resolve_again(self, agent: CompiledAgent, thread: Thread) -> ResolvedSession:
        """Returns the session of a stored conversation, which is not fetched again."""
        values = values_of(agent, thread, self._parts.locale)
        part = agent_part(thread)
        voice = await asyncio.to_thread(
            stored_voice, agent, part.session, values.scope(self._clock())
        )
        return ResolvedSession(
            instructions=part.instructions,
            declarations=part.declarations,
            voice=voice,
            response=part.session,
        )

    async def store(
        self, agent: CompiledAgent, stored: StoredThread, session: ResolvedSession
    ) -> StoredThread:
        """Stores a drafted conversation with the delivery of its start request. Returns it.

        The delivery is sent concurrently. Raises: SourceError.
        """
        now = self._clock()
        is_chat = agent_part(stored.thread).channel == "chat"
        begun = (
            said(stored.thread, agent, now)
            if is_chat
            else self._answered(agent, stored.thread, now)
        )
        thread = with_part(
            begun,
            ctx={**session.ctx, **agent_part(begun).ctx},
            session=session.response,
            instructions=session.instructions,
            declarations=session.declarations,
        )
        messages = self._opening(agent, thread) if is_chat else []
        also = [] if agent.document.lifecycle.on_start is None else [owed(thread, "on_start", now)]
        kept = await self._parts.threads.save(replace(stored, thread=thread), messages, also)
        channel = agent_part(thread).channel
        facts = {"agent_id": agent.agent_id, "call_id": thread.key, "channel": channel}
        log.info("call_started", extra=facts)
        if also:
            self._deliveries.send_soon(thread.key, "on_start")
        return kept

    def _answered(self, agent: CompiledAgent, thread: Thread, now: int) -> Thread:
        """Returns the thread of a call that is answered now. Calls do not become idle."""
        longest_ms = round(agent.document.limits.max_call_s * 1000) + LOST_MS
        return with_part(self.draft(thread, agent_part(thread)), idle_time=now + longest_ms)

    async def _blocks(
        self, check: PreCallCheck, values: ConversationValues, executor: HttpExecutor
    ) -> bool:
        key = f"{values.call_id}:check:{check.name}"
        try:
            answer = await executor.request(check, values, key)
        except RequestFailed as exc:
            log.warning("check_failed", extra={"check": check.name, "reason": exc.code})
            return check.on_error == "block"
        if not answer.ok:
            log.warning(
                "check_failed", extra={"check": check.name, "reason": f"http_{answer.status}"}
            )
            return check.on_error == "block"
        scope = values.scope(self._clock(), response=answer.value, status=answer.status)
        return await asyncio.to_thread(check.block_if.holds, scope)

    def _message(self, check: PreCallCheck, values: ConversationValues) -> str:
        if check.on_block != "message" or check.message is None:
            return ""
        try:
            return str(check.message.render(values.scope(self._clock()), insert="text"))[
                :MESSAGE_CHARS
            ]
        except TemplateFailed:
            return ""

    def _opening(self, agent: CompiledAgent, thread: Thread) -> list[Message]:
        """Returns the messages before the person's first one."""
        if (opening := agent.document.chat.opening) is not None:
            phrase = load_phrases("turn", language_of(agent, self._parts.locale))["agent_opening"]
            note = SystemMessage(content=phrase.render({"opening": opening}), stable=False)
            return [AssistantMessage(content=opening, exclude_from_prompt=True), note]
        greeting = self.greeting(agent, thread)
        return [] if greeting is None else [SystemMessage(content=greeting, stable=False)]

    def greeting(self, agent: CompiledAgent, thread: Thread) -> str | None:
        """Returns how the agent greets, None if it waits for the person."""
        if (greeting := agent.document.greeting) is None:
            return None
        known = greeting.known_customer
        unknown = greeting.unknown_customer
        scope = values_of(agent, thread, self._parts.locale).scope(self._clock())
        condition = greeting.condition_field
        try:
            is_known = condition is not None and condition.render(scope) not in (None, "")
            chosen = (known or unknown) if is_known else (unknown or known)
            text = None if chosen is None else str(chosen.render(scope, insert="text"))
        except TemplateFailed as exc:
            log.warning(
                "greeting_not_rendered", extra={"agent_id": agent.agent_id, "reason": exc.code}
            )
            return None
        if text is not None:
            secrets = self._parts.agents.executor(agent.agent_id).secrets
            log_text("greeting", text, secrets, {"agent_id": agent.agent_id, "call_id": thread.key})
        return text
