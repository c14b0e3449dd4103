"""The background work of agents: ends idle conversations, sends deliveries, and checks agents.

Every server does it for all workspaces, by a `WorkspaceTicker`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Final, final

from datasources.base import GraphDataSource
from graphrag.agents.life import AgentLife
from graphrag.agents.manager import AgentManager
from graphrag.leases import now_ms
from graphrag.workers import end_tasks

log = logging.getLogger(__name__)

GRAPHS_MS: Final = 60_000  # between two checks for conversations whose graph was deleted


@final
@dataclass(slots=True, kw_only=True)
class WorkspaceAgents:
    """The agents of one workspace. `calls` does the due work of phone calls."""

    manager: AgentManager
    life: AgentLife
    source: GraphDataSource
    calls: Callable[[int], Coroutine[Any, Any, object]] | None = None
    clock: Callable[[], int] = now_ms
    _graphs: frozenset[str] | None = None
    _looked: int = 0
    _working: dict[str, asyncio.Task[Any]] = field(default_factory=dict[str, "asyncio.Task[Any]"])

    async def tick(self) -> None:
        """Starts the work that is due and not under way. Returns at once."""
        now = self.clock()
        self._begin("deliveries", self.life.deliveries.send_due())
        self._begin("agents", self.manager.tick(now))
        self._begin("idle", self.life.endings.end_idle(now))
        if self.calls is not None:
            self._begin("calls", self.calls(now))
        if now >= self._looked + GRAPHS_MS:
            self._looked = now
            self._begin("graphs", self._end_without_graph())
        await asyncio.sleep(0)

    def _begin(self, name: str, work: Coroutine[Any, Any, object]) -> None:
        if name in self._working:
            work.close()
            return
        task = asyncio.create_task(work)
        self._working[name] = task
        task.add_done_callback(lambda done: self._done(name, done))

    def _done(self, name: str, task: asyncio.Task[Any]) -> None:
        del self._working[name]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("agent_work_failed", extra={"work": name}, exc_info=error)

    async def _end_without_graph(self) -> None:
        """Ends the conversations about graphs that were deleted since the last check."""
        graphs = frozenset(graph.key for graph in await self.source.list_graphs())
        gone = (
            await self.life.endings.graphs() - graphs
            if self._graphs is None
            else self._graphs - graphs
        )
        for key in sorted(gone):
            await self.life.endings.end_all(graph_key=key)
        self._graphs = graphs

    async def idle(self) -> None:
        """Waits for the work under way."""
        while self._working:
            await asyncio.wait(self._working.values())

    async def close(self) -> None:
        """Cancels the work under way."""
        await end_tasks(*self._working.values())
        await self.life.deliveries.close()
