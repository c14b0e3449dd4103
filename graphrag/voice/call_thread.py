"""The stored conversation of a call that is served here: its values, its tools, what was said."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

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


class CallThread:
    """A call's thread, written by nobody else while `hold` is held. `said` gives the transcript."""

    def __init__(
        self,
        agent: CompiledAgent,
        stored: StoredThread,
        life: AgentLife,
        threads: Threads,
        hold: TurnLease,
        said: Callable[[], Sequence[dict[str, Any]]],
    ) -> None:
        self.agent = agent
        self.stored = stored
        self.values = values_of(agent, stored.thread, life.locale)
        self.tools: dict[str, AgentToolCall] = {}
        self._life = life
        self._threads = threads
        self._hold = hold
        self._said = said
        self._start_taken = False
        self._lock = asyncio.Lock()

    @property
    def call_id(self) -> str:
        return self.stored.thread.key

    @property
    def graph_key(self) -> str:
        return self.stored.thread.graph_key

    @property
    def workspace(self) -> str:
        return self.stored.thread.workspace

    @property
    def part(self) -> ThreadAgent:
        return agent_part(self.stored.thread)

    async def take_start(self) -> None:
        """Wait for what the API gave when the call began, and put it into ctx."""
        if not self._start_taken:
            given = await self._life.deliveries.awaited(self.agent, self.stored.thread)
            if given is not None and not self._start_taken:
                self.values.ctx.update(given)
                self._start_taken = True

    def look_at_words(self) -> None:
        """Let tools read what was said until now."""
        self.values.transcript = transcript_of(
            with_part(self.stored.thread, transcript=self._said())
        )
        self.values.ctx["transcript"] = self.values.transcript

    async def save(self) -> None:
        """Store the call as it is now. Raises: ThreadBusy where it is another's, SourceError."""
        async with self._lock:
            self._hold.check()
            thread = store_values(
                with_part(self.stored.thread, transcript=self._said()),
                self.values,
                self._threads.clock(),
                tools=list(self.tools.values()),
                start_taken=self.part.start_taken or self._start_taken,
            )
            take = partial(setattr, self, "stored")
            await self._threads.save_whole(replace(self.stored, thread=thread), [], take)
