"""A manager of agents over any database, with a made-up world and list, and a clock set by hand."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from datasources.base import Database, Record
from graphrag.agents.agent_store import Agents
from graphrag.agents.compiled_agent import CompiledAgent
from graphrag.agents.manager import AgentManager
from graphrag.roles import Person
from tools.http.executor import HttpExecutor
from tools.http.fetch import HttpAnswer, RequestFailed
from tools.http.model import RequestLike
from tools.http.problems import DocumentProblem
from tools.http.secret_values import Secrets

ADMIN = Person("ann", "admin", "default")
NOW = 1_763_632_800_000


def document(agent_id: str = "helpdesk", **changes: Any) -> dict[str, Any]:
    """Return a small valid document."""
    about = {"id": agent_id, "name": changes.pop("name", "Help desk")}
    session = {"mode": "inline", "instructions": changes.pop("instructions", "Help."), "tools": []}
    return {"version": "2.0", "agent": about, "session": session, **changes}


@dataclass
class Surroundings:
    """A world of which each part may be taken away (World)."""

    graphs: set[str] = field(default_factory=lambda: {"flow"})
    secrets: Secrets = field(default_factory=lambda: Secrets({}))
    lost_hosts: dict[str, Literal["refused", "unknown"]] = field(default_factory=dict)
    has_key: bool = True
    asked: int = 0
    voice: DocumentProblem | None = None
    voice_tries: int = 0

    async def has_graph(self, graph_key: str) -> bool:
        self.asked += 1
        return graph_key in self.graphs

    async def host_refused(self, host: str, port: int) -> Literal["refused", "unknown"] | None:
        return self.lost_hosts.get(host)

    async def voice_problem(self, agent: CompiledAgent) -> DocumentProblem | None:
        self.voice_tries += 1
        return self.voice

    def has_model_key(self, provider: str | None) -> bool:
        return self.has_key


@dataclass
class ListApi:
    """Answers requests in place of an executor: the list of customers, or a failure."""

    answer: Any = None
    status: int = 200
    fails: bool = False

    async def request(self, request: RequestLike, values: Any, key: str, **more: Any) -> HttpAnswer:
        await asyncio.sleep(0)
        if self.fails:
            raise RequestFailed("unreachable")
        return HttpAnswer(status=self.status, value=self.answer)

    async def aclose(self) -> None:
        pass


@dataclass
class ManagerCase:
    """What the tests of managers work with; `manager()` is another server's each time."""

    database: Database
    now: int = NOW
    world: Surroundings = field(default_factory=Surroundings)
    api: ListApi = field(default_factory=ListApi)

    def agents(self, workspace: str = "default") -> Agents:
        return Agents(self.database.records(workspace), workspace, clock=lambda: self.now)

    def manager(
        self, workspace: str = "default", *, list_files: Sequence[str] = ()
    ) -> AgentManager:
        agents = self.agents(workspace)
        return AgentManager(
            agents, self.world, lambda: cast(HttpExecutor, self.api), list_files=list_files
        )

    async def conversation(self, agent_id: str, key: str, **agent: Any) -> None:
        """Store a conversation with an agent as its record looks."""
        data: Mapping[str, Any] = {
            "agentId": agent_id,
            "agentOpen": agent.pop("open", True),
            "lastUpdatedTime": self.now,
            "agent": {"agentId": agent_id, **agent},
        }
        record = Record(kind="thread", key=key, data=data)
        await self.database.records("default").put(record, expected_version=None)
