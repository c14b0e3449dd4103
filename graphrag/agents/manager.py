"""The agents of a workspace: which run, what is wrong with those that do not, their compiled documents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from graphrag.agents.agent_store import Agents, StoredAgent
from graphrag.roles import Person

State = Literal["stopped", "starting", "running", "draining", "failed"]


class AgentManager:
    """Starts and stops the agents of one workspace. Truth is in the database: any server may be asked."""

    def __init__(self, agents: Agents) -> None:
        self.agents = agents

    async def state_of(self, agent_id: str) -> State:
        """Return the state of an agent. Raises: AgentNotFound."""
        raise NotImplementedError

    async def start(self, agent_id: str, person: Person) -> StoredAgent:
        """Let an agent take conversations. Raises: AgentNotFound, InvalidAgent."""
        raise NotImplementedError

    async def stop(self, agent_id: str, person: Person, *, now: bool = False) -> StoredAgent:
        """Let no new conversation begin; with `now`, end those that run. Raises: AgentNotFound."""
        raise NotImplementedError

    async def tick(self, now: int) -> None:
        """Look at the agents that should run: those not checked yet, and each minute those that failed."""
        raise NotImplementedError

    async def list(self) -> Sequence[StoredAgent]:
        raise NotImplementedError
