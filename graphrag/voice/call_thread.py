"""The stored conversation of a running call: its values, tools and transcript."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, final

from graphrag.agent.thread_agent import AgentToolCall, ThreadAgent
from graphrag.agent.thread_store import StoredThread, Threads
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
        self._start_taken = False
        self._lock = asyncio.Lock()

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

    async def save(self) -> None:
        """Stores the thread. Raises: ThreadBusy if another process has the lease, SourceError."""
        async with self._lock:
            self._hold.check()
            thread = store_values(
                with_part(self._stored.thread, transcript=self._transcript()),
                self.values,
                self._threads.clock(),
                tools=list(self.tools.values()),
                start_taken=self.part.start_taken or self._start_taken,
            )
            stored = replace(self._stored, thread=thread)
            await self._threads.save_whole(stored, [], self._set_stored)

    def _set_stored(self, stored: StoredThread) -> None:
        self._stored = stored
