"""The stored conversation of a running call: its values, tools and transcript."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, final

from graphrag.agent.thread_agent import AgentToolCall, ThreadAgent
from graphrag.agent.thread_messages import stamped, to_stored
from graphrag.agent.thread_store import StoredThread, Thread, Threads
from graphrag.agent.turn_lease import TurnLease
from graphrag.agents.chat_values import (
    agent_part,
    store_values,
    transcript_of,
    values_of,
    with_part,
)
from graphrag.agents.compiled_agent import CompiledAgent
from graphrag.agents.life import AgentLife
from graphrag.llm.base import AssistantMessage, Message
from graphrag.relay.spoken_text import cut_texts


@final
class CallThread:
    """The thread of a call, written by this process alone while it has the lease `hold`.

    `transcript` returns the entries to store.
    """

    def __init__(
        self,
        agent: CompiledAgent,
        stored: StoredThread,
        life: AgentLife,
        threads: Threads,
        hold: TurnLease,
        transcript: Callable[[], Sequence[dict[str, Any]]],
    ) -> None:
        self.agent = agent
        self._stored = stored
        self.values = values_of(agent, stored.thread, life.locale)
        self.tools: dict[str, AgentToolCall] = {
            tool.tool_call_id: tool for tool in agent_part(stored.thread).tools
        }
        self._life = life
        self._threads = threads
        self._hold = hold
        self._transcript = transcript
        self._messages = stored.thread.messages
        self._start_taken = False
        self._lock = asyncio.Lock()

    @property
    def stored(self) -> StoredThread:
        """The thread with its messages, as they will be stored next."""
        history = to_stored(self._messages)
        thread = self._stored.thread.model_copy(update={"conversation_history": history})
        return replace(self._stored, thread=thread)

    @property
    def call_id(self) -> str:
        return self._stored.thread.key

    @property
    def graph_key(self) -> str:
        return self._stored.thread.graph_key

    @property
    def workspace(self) -> str:
        return self._stored.thread.workspace

    @property
    def part(self) -> ThreadAgent:
        return agent_part(self._stored.thread)

    async def take_start(self) -> None:
        """Waits for the values that the API returned when the call began, and adds them to ctx."""
        if not self._start_taken:
            values = await self._life.deliveries.awaited(self.agent, self._stored.thread)
            if values is not None and not self._start_taken:
                self.values.ctx.update(values)
                self._start_taken = True

    def update_transcript(self) -> None:
        """Makes the current transcript available to tools."""
        thread = with_part(self._stored.thread, transcript=self._transcript())
        self.values.set_transcript(transcript_of(thread))

    def say(self, message: AssistantMessage) -> list[str]:
        """Adds a message of the agent. Returns its id, in a list."""
        added = stamped([message], self._threads.clock())
        self._messages += added
        return [each.id for each in added if each.id]

    def cut(self, ids: Sequence[str], heard: str) -> None:
        """Cuts the agent's messages with these ids, one answer, to the words that were heard."""
        said = [m for m in self._messages if isinstance(m, AssistantMessage) and m.id in ids]
        kept = dict(
            zip((m.id for m in said), cut_texts([m.content for m in said], heard), strict=True)
        )
        changed = (
            replace(m, content=kept[m.id])
            if isinstance(m, AssistantMessage) and m.id in kept
            else m
            for m in self._messages
        )
        self._messages = [m for m in changed if m.id not in kept or not _is_empty(m)]

    async def save(self) -> None:
        """Stores the thread. Raises: ThreadBusy if another process has the lease, SourceError."""
        async with self._lock:
            await self._save(self._messages)

    async def save_turn(self, thread: Thread, messages: list[Message]) -> None:
        """Stores the thread with the state and the messages of a turn. Raises: as `save`.

        New messages get their id and time in place.
        """
        async with self._lock:
            whole = thread.model_copy(update={"agent": self.part})
            self._stored = replace(self._stored, thread=whole)
            messages[:] = stamped(messages, self._threads.clock())
            self._messages = list(messages)
            await self._save(self._messages)

    async def _save(self, messages: list[Message]) -> None:
        self._hold.check()
        thread = store_values(
            with_part(self._stored.thread, transcript=self._transcript()),
            self.values,
            self._threads.clock(),
            tools=list(self.tools.values()),
            start_taken=self.part.start_taken or self._start_taken,
        )
        stored = replace(self._stored, thread=thread)
        await self._threads.save_whole(stored, messages, self._set_stored)

    def _set_stored(self, stored: StoredThread) -> None:
        self._stored = stored


def _is_empty(message: Message) -> bool:
    """Returns whether an answer has neither words nor calls."""
    return (
        isinstance(message, AssistantMessage)
        and not message.content.strip()
        and not message.tool_calls
    )
