"""Prepares a call: fetches its session and connects to its model concurrently.

Both begin at the webhook, so that the greeting waits for the slower one and not for their sum.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, final

from graphrag.agent.thread_store import StoredThread, Thread
from graphrag.agents.agent_prompt import write_agent_prompt
from graphrag.agents.chat_values import about, language_of
from graphrag.agents.compiled_agent import CompiledAgent
from graphrag.agents.session_source import ResolvedSession
from graphrag.agents.toolbox import agent_role
from graphrag.i18n import Language, text
from graphrag.llm.registry import RealtimeTokens
from graphrag.llm.usage_meter import Payer
from graphrag.realtime.model_side import ModelSide
from graphrag.realtime.session_settings import SessionSettings
from graphrag.voice.dependencies import CallDependencies
from graphrag.workers import end_tasks
from tools.base import Tool


@final
class CallSetup:
    """A call that is about to be answered. `thread` is a draft, which is not stored yet."""

    def __init__(self, deps: CallDependencies, agent: CompiledAgent, thread: Thread) -> None:
        self.deps = deps
        self.agent = agent
        self.thread = thread
        self._side = self.new_side()
        self._begun: tuple[asyncio.Task[tuple[ResolvedSession, str]], asyncio.Task[None]] | None = (
            None
        )

    @property
    def language(self) -> Language:
        return language_of(self.agent, self.deps.life.locale)

    def new_side(self) -> ModelSide:
        """Returns a new connection to the model of the document, not yet open."""
        assert self.deps.models is not None
        return self.deps.models(self.agent.document.openai.model)

    def begin(self) -> tuple[asyncio.Task[tuple[ResolvedSession, str]], asyncio.Task[None]]:
        """Starts fetching the session and connecting. Idempotent. Returns both tasks."""
        if self._begun is None:
            self._begun = (
                asyncio.create_task(self._resolved()),
                asyncio.create_task(self._side.open()),
            )
        return self._begun

    async def _resolved(self) -> tuple[ResolvedSession, str]:
        await self.deps.meter.check(payer=Payer(workspace=self.thread.workspace))
        await asyncio.to_thread(
            RealtimeTokens().cost_usd, ""
        )  # reads prices before they are needed
        session = await self.deps.life.beginnings.resolve(self.agent, self.thread)
        graph_key = self.thread.graph_key
        prompt = await write_agent_prompt(
            self.deps.source,
            self.agent,
            session.instructions,
            about=graph_key,
            proposes=bool(graph_key) and agent_role(self.agent, "editor") == "editor",
            code=about(self.agent, self.deps.life.locale)["language"],
            language=self.language,
            channel="voice",
        )
        return session, prompt.content

    async def connected(self) -> ModelSide:
        """Returns the open model side. Raises: RealtimeRefused, RealtimeUnreachable."""
        await asyncio.shield(self.begin()[1])
        return self._side

    async def answered(self) -> tuple[StoredThread, ResolvedSession, str]:
        """Stores the conversation. Returns it with its session and its system prompt.

        Raises: AgentSessionFailed, UsageLimitReached, PromptError, SourceError.
        """
        session, prompt = await asyncio.shield(self.begin()[0])
        new = StoredThread(thread=self.thread, version=None)
        return await self.deps.life.beginnings.store(self.agent, new, session), session, prompt

    async def close(self) -> None:
        """Cancels both tasks and closes the connection."""
        await end_tasks(*(self._begun or ()))
        with suppress(Exception):
            await self._side.close()

    def settings(
        self,
        stored: StoredThread,
        session: ResolvedSession,
        prompt: str,
        tools: Sequence[Tool[Any]],
    ) -> SessionSettings:
        """Returns the settings of the call for the bridge."""
        agent = self.agent
        language = self.language
        document = agent.document
        model = document.openai
        if session.voice is not None:
            model = model.model_copy(update={"voice": session.voice})
        slow = [agent.tools[tool.name] for tool in tools if tool.name in agent.tools]
        messages = {tool.name: tool.model.delayed_message for tool in slow}
        default = text("voice_delayed", language)
        return SessionSettings(
            model=model,
            options=document.voice,
            instructions=prompt,
            language=about(agent, self.deps.life.locale)["language"],
            tools=[{"type": "function", **tool.schema()["function"]} for tool in tools],
            delayed={
                name: message or default
                for name, message in messages.items()
                if not isinstance(message, bool)
            },
            greeting=self.deps.life.beginnings.greeting(agent, stored.thread),
            greeting_is_interruptible=document.greeting is None or document.greeting.interruptible,
            limits=document.limits,
            texts=language,
        )
