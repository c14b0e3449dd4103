"""Prepares a call: fetches its session and, for a Realtime model, connects to it concurrently.

Both begin at the webhook, so that the greeting waits for the slower one and not for their sum.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, final

from graphrag.agent.thread_store import StoredThread, Thread
from graphrag.agents.agent_prompt import write_agent_prompt
from graphrag.agents.chat_values import about, agent_part, language_of, transcript_of
from graphrag.agents.compiled_agent import CompiledAgent, graphs_of
from graphrag.agents.session_source import ResolvedSession
from graphrag.agents.spoken_names import spoken_names
from graphrag.agents.toolbox import agent_role
from graphrag.agents.voice_fields import VoiceEngine
from graphrag.i18n import Language, text
from graphrag.llm.registry import RealtimeTokens
from graphrag.llm.usage_meter import Payer
from graphrag.realtime.model_side import ModelSide
from graphrag.realtime.session_settings import SessionSettings
from graphrag.voice.call_records import Call
from graphrag.voice.dependencies import CallDependencies
from graphrag.workers import end_tasks
from tools.base import Tool

# of a caller who comes back, for what the agent does then
NOTES: Final = {"agent": "voice_unanswered_agent", "message": "voice_unanswered_message"}
EARLIER_ENTRIES: Final = 60  # utterances that the model gets of the call before a transfer
RETURN_S: Final = (
    60.0  # at least, for a caller who comes back when the call has nearly lasted long enough
)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierPart:
    """A call whose caller comes back to the agent, and its stored conversation."""

    call: Call
    stored: StoredThread

    def lines(self) -> list[tuple[str, str]]:
        """Returns the last utterances as (role, words), for the model."""
        entries = transcript_of(self.stored.thread)[-EARLIER_ENTRIES:]
        return [(entry["role"], entry["content"]) for entry in entries]


@final
class CallSetup:
    """A call that is about to be answered. `thread` is a draft, which is not stored yet.

    `earlier`: the call so far, if its caller comes back after a transfer; its thread is stored.
    """

    def __init__(
        self,
        deps: CallDependencies,
        agent: CompiledAgent,
        thread: Thread,
        earlier: EarlierPart | None = None,
    ) -> None:
        self.deps = deps
        self.agent = agent
        self.thread = thread
        self.earlier = earlier
        self._side = self.new_side() if self.engine == "realtime" else None
        self._names: tuple[str, ...] = ()
        self._begun: tuple[asyncio.Task[tuple[ResolvedSession, str]], asyncio.Task[None]] | None = (
            None
        )

    @property
    def is_by_telephone(self) -> bool:
        """Whether a telephone service holds the line, which speaks the welcome itself."""
        return agent_part(self.thread).call_sid is not None

    @property
    def engine(self) -> VoiceEngine:
        return self.agent.document.voice.engine

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
                asyncio.create_task(self._opened()),
            )
        return self._begun

    async def _resolved(self) -> tuple[ResolvedSession, str]:
        await self.deps.meter.check(payer=Payer(workspace=self.thread.workspace))
        if self._side is not None:  # reads prices before they are needed
            await asyncio.to_thread(RealtimeTokens().cost_usd, "")
        beginnings = self.deps.life.beginnings
        session = await (
            beginnings.resolve(self.agent, self.thread)
            if self.earlier is None
            else beginnings.resolve_again(self.agent, self.thread)
        )
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
        transcription = self.agent.document.openai.input_audio_transcription
        if self.engine == "realtime" and transcription.graph_names:
            secrets = self.deps.agents.executor(self.agent.agent_id).secrets
            graphs = graphs_of(self.agent, graph_key)
            self._names = await spoken_names(self.deps.source, graphs, secrets)
        return session, prompt.content

    async def _opened(self) -> None:
        if self._side is not None:
            await self._side.open()

    async def connected(self) -> ModelSide:
        """Returns the open model side. Raises: RealtimeRefused, RealtimeUnreachable."""
        await asyncio.shield(self.begin()[1])
        assert self._side is not None, "this engine has no model side"
        return self._side

    async def answered(self) -> tuple[StoredThread, ResolvedSession, str]:
        """Stores the conversation. Returns it with its session and its system prompt.

        Raises: AgentSessionFailed, UsageLimitReached, PromptError, SourceError.
        """
        session, prompt = await asyncio.shield(self.begin()[0])
        if self.earlier is not None:
            return self.earlier.stored, session, prompt
        new = StoredThread(thread=self.thread, version=None)
        return await self.deps.life.beginnings.store(self.agent, new, session), session, prompt

    async def close(self) -> None:
        """Cancels both tasks and closes the connection."""
        await end_tasks(*(self._begun or ()))
        if self._side is not None:
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
        limits = document.limits
        earlier = self.earlier
        if earlier is not None:
            passed_s = (self.deps.clock() - (earlier.call.answered_time or 0)) / 1000
            left_s = max(RETURN_S, limits.max_call_s - passed_s)
            limits = limits.model_copy(update={"max_call_s": left_s})
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
            greeting=self.deps.life.beginnings.greeting(agent, stored.thread)
            if earlier is None
            else None,
            names=self._names,
            earlier=() if earlier is None else earlier.lines(),
            note=None
            if earlier is None
            else text(NOTES[earlier.call.return_to or "agent"], language),
            greeting_is_interruptible=document.greeting is None or document.greeting.interruptible,
            limits=limits,
            texts=language,
        )
