"""What a call needs before anybody speaks: its session and its model's connection, side by side.

They are begun at the webhook, so that the greeting waits for the slowest of them and not
for their sum.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from graphrag.agent.thread_store import StoredThread, Thread
from graphrag.agents.agent_prompt import write_agent_prompt
from graphrag.agents.chat_values import about, language_of
from graphrag.agents.compiled_agent import CompiledAgent
from graphrag.agents.session_source import ResolvedSession
from graphrag.agents.toolbox import agent_role
from graphrag.i18n import Language, text
from graphrag.llm.registry import RealtimeTokens
from graphrag.llm.usage_meter import Payer
from graphrag.voice.call_parts import CallParts
from graphrag.voice.model_side import ModelSide
from graphrag.voice.voice_session import VoiceSession
from graphrag.workers import end_tasks
from tools.base import Tool


class CallOpening:
    """A call that is about to be answered. `thread` is its draft; nothing is stored of it."""

    def __init__(self, parts: CallParts, agent: CompiledAgent, thread: Thread) -> None:
        self.parts = parts
        self.agent = agent
        self.thread = thread
        self.side = self.new_side()
        self._begun: tuple[asyncio.Task[tuple[ResolvedSession, str]], asyncio.Task[None]] | None = (
            None
        )

    @property
    def language(self) -> Language:
        return language_of(self.agent, self.parts.life.locale)

    def new_side(self) -> ModelSide:
        """Return a connection to the document's model, which is not open."""
        assert self.parts.models is not None
        return self.parts.models(self.agent.document.openai.model)

    def begin(self) -> tuple[asyncio.Task[tuple[ResolvedSession, str]], asyncio.Task[None]]:
        """Begin to fetch the session and to connect, once; return both."""
        if self._begun is None:
            self._begun = (
                asyncio.create_task(self._resolved()),
                asyncio.create_task(self.side.open()),
            )
        return self._begun

    async def _resolved(self) -> tuple[ResolvedSession, str]:
        await self.parts.meter.check(payer=Payer(workspace=self.thread.workspace))
        await asyncio.to_thread(RealtimeTokens().cost_usd, "")  # the first time prices are read
        session = await self.parts.life.beginnings.resolve(self.agent, self.thread)
        graph_key = self.thread.graph_key
        prompt = await write_agent_prompt(
            self.parts.source,
            self.agent,
            session.instructions,
            about=graph_key,
            proposes=bool(graph_key) and agent_role(self.agent, "editor") == "editor",
            code=about(self.agent, self.parts.life.locale)["language"],
            language=self.language,
            channel="voice",
        )
        return session, prompt.content

    async def connected(self) -> ModelSide:
        """Return the model side, once it is open. Raises: RealtimeRefused, RealtimeUnreachable."""
        await asyncio.shield(self.begin()[1])
        return self.side

    async def answered(self) -> tuple[StoredThread, ResolvedSession, str]:
        """Store the conversation; return it with its session and its system prompt.

        Raises: AgentSessionFailed, UsageLimitReached, PromptError, SourceError.
        """
        session, prompt = await asyncio.shield(self.begin()[0])
        new = StoredThread(thread=self.thread, version=None)
        return await self.parts.life.beginnings.store(self.agent, new, session), session, prompt

    async def close(self) -> None:
        """Leave it: nobody came, or the call is over."""
        await end_tasks(*(self._begun or ()))
        with suppress(Exception):
            await self.side.close()

    def voice_session(
        self,
        stored: StoredThread,
        session: ResolvedSession,
        prompt: str,
        tools: Sequence[Tool[Any]],
    ) -> VoiceSession:
        """Return how the call is held, for the bridge."""
        agent = self.agent
        language = self.language
        document = agent.document
        model = document.openai
        if session.voice is not None:
            model = model.model_copy(update={"voice": session.voice})
        slow = [agent.tools[tool.name] for tool in tools if tool.name in agent.tools]
        said = {tool.name: tool.model.delayed_message for tool in slow}
        ours = text("voice_delayed", language)
        return VoiceSession(
            model=model,
            options=document.voice,
            instructions=prompt,
            language=about(agent, self.parts.life.locale)["language"],
            tools=[{"type": "function", **tool.schema()["function"]} for tool in tools],
            delayed={name: own or ours for name, own in said.items() if not isinstance(own, bool)},
            greeting=self.parts.life.beginnings.greeting(agent, stored.thread),
            greeting_is_interruptible=document.greeting is None or document.greeting.interruptible,
            limits=document.limits,
            texts=language,
        )
