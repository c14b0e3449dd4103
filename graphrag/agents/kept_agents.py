"""What a process keeps of its agents: compiled documents, and the connections of each."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from graphrag.agents.compiled_agent import CompiledAgent
from tools.http.executor import HttpExecutor
from tools.http.fetch import HttpClient

MAX_BYTES: Final = 16 * 1024 * 1024
IDLE_MS: Final = 900_000
"""Connections that nobody used for so long are closed: longer than any turn takes."""


class CompiledDocuments:
    """Compiled documents, the ones used last, bounded by the bytes of their sources."""

    def __init__(self) -> None:
        self._found: OrderedDict[str, tuple[CompiledAgent, int]] = OrderedDict()
        self._size = 0

    def get(self, key: str) -> CompiledAgent | None:
        if key not in self._found:
            return None
        self._found.move_to_end(key)
        return self._found[key][0]

    def put(self, key: str, agent: CompiledAgent, size: int) -> None:
        """Keep a document; `size` is that of its source in bytes."""
        self._size += size - self._found.pop(key, (agent, 0))[1]
        self._found[key] = (agent, size)
        while self._size > MAX_BYTES and len(self._found) > 1:
            self._size -= self._found.popitem(last=False)[1][1]


@dataclass(slots=True)
class _Client:
    client: HttpClient
    executor: HttpExecutor
    used_time: int = 0


class AgentClients:
    """The clients of the agents of one workspace, each with connections of its own."""

    def __init__(
        self,
        new_client: Callable[[], HttpClient],
        new_executor: Callable[[HttpClient], HttpExecutor],
        clock: Callable[[], int],
    ) -> None:
        self._new_client, self._new_executor, self._clock = new_client, new_executor, clock
        self._kept: dict[str, _Client] = {}

    def executor(self, agent_id: str) -> HttpExecutor:
        """Return what sends an agent's requests."""
        kept = self._kept.get(agent_id)
        if kept is None:
            client = self._new_client()
            kept = self._kept[agent_id] = _Client(client, self._new_executor(client))
        kept.used_time = self._clock()
        return kept.executor

    async def close_idle(self) -> None:
        """Close what nobody used for long."""
        now = self._clock()
        for name in [name for name, kept in self._kept.items() if now - kept.used_time > IDLE_MS]:
            await self._kept.pop(name).client.aclose()

    async def aclose(self) -> None:
        while self._kept:
            await self._kept.popitem()[1].client.aclose()
