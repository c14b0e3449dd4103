"""Conversations with agents of documents: a scripted model, everything else real."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

from datasources.base import Database
from datasources.types import Graph, Mutation, Node
from graphrag.agent.assistant import GraphAssistant
from graphrag.agent.events import Event
from graphrag.agent.loop import Agent
from graphrag.agent.model_caller import ModelCaller
from graphrag.agent.thread_agent import ThreadAgent
from graphrag.agent.thread_store import Thread, Threads
from graphrag.agent.tool_calls import ToolCalls
from graphrag.agent.turn_lease import TurnLeases
from graphrag.agent.turn_steps import TurnSteps
from graphrag.agents.chat_values import Locale, agent_part, http_sentence
from graphrag.agents.chats import ChatAssistants
from graphrag.agents.compiled_agent import CompiledAgent
from graphrag.agents.deliveries import LifeParts
from graphrag.agents.document_check import check_document
from graphrag.agents.errors import AgentNotFound, AgentNotRunning
from graphrag.agents.life import AgentLife
from graphrag.approvals import Approvals, Person
from graphrag.commands import BlockChecker, BlockReader, GraphHistory
from graphrag.llm.base import LLMProvider, Message
from graphrag.llm.registry import FREE, Pricing
from graphrag.llm.usage_meter import UsageMeter
from graphrag.retrieval.context import ContextOptions
from graphrag.retrieval.retriever import Retriever
from tests.support.agents import EDITOR, collected
from tests.support.chosen_database import sample_database
from tools.http.executor import HttpExecutor
from tools.http.fetch import HttpClient
from tools.http.secret_values import Secrets
from tools.read_tools import READ_TOOLS
from tools.session_tools import SESSION_TOOLS
from tools.tool_box import ToolBox
from tools.write_tools import WRITE_TOOLS

OTHER = "plans001"
"""A second graph, of two nodes."""


def agent_document(agent_id: str = "desk", **changes: Any) -> dict[str, Any]:
    """Return a small agent that can end the conversation."""
    return {
        "version": "2.0",
        "agent": {"id": agent_id, "name": "Desk"},
        "session": {"mode": "inline", "instructions": "You are at the desk of {{agent.name}}."},
        "tools": {"bye": {"type": "builtin", "action": "hangup"}},
        **changes,
    }


@dataclass
class FewAgents:
    """The agents of a workspace, by id."""

    documents: Mapping[str, Mapping[str, Any]]
    executor_: HttpExecutor
    stopped: set[str] = field(default_factory=set[str])
    unreachable: list[str] = field(default_factory=list[str])
    _compiled: dict[str, CompiledAgent] = field(default_factory=dict[str, CompiledAgent])

    async def running_version(self, agent_id: str) -> tuple[CompiledAgent, int]:
        agent = await self.compiled(agent_id, 1)
        if agent_id in self.stopped:
            raise AgentNotRunning(agent_id=agent_id, state="draining")
        return agent, 1

    async def compiled(self, agent_id: str, version: int) -> CompiledAgent:
        if agent_id not in self.documents:
            raise AgentNotFound(agent_id=agent_id)
        if agent_id not in self._compiled:
            checked = check_document(self.documents[agent_id])
            assert checked.agent is not None, checked.errors
            self._compiled[agent_id] = checked.agent
        return self._compiled[agent_id]

    async def model_failed(self, agent_id: str, refusal: Any = None) -> None:
        self.unreachable.append(agent_id)

    def executor(self, agent: CompiledAgent) -> HttpExecutor:
        return self.executor_


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatSetting:
    """What the tests of a conversation look at."""

    chats: Agent
    life: AgentLife
    database: Database
    threads: Threads
    approvals: Approvals
    agents: FewAgents

    async def say(
        self,
        message: str = "hello",
        thread_id: str | None = None,
        by: Person = EDITOR,
        graph: str = "",
        agent_id: str | None = "desk",
        **more: Any,
    ) -> list[Event]:
        agent_id = None if thread_id else agent_id
        return await collected(
            self.chats.run(thread_id, graph, message, by, agent_id=agent_id, **more)
        )

    async def resume(self, thread_id: str, by: Person = EDITOR, **more: Any) -> list[Event]:
        return await collected(self.chats.resume(thread_id, by, **more))

    async def thread(self, thread_id: str) -> Thread:
        return (await self.threads.get_of(thread_id, "default")).thread

    async def part(self, thread_id: str) -> ThreadAgent:
        return agent_part(await self.thread(thread_id))

    async def messages(self, thread_id: str) -> list[Message]:
        return (await self.thread(thread_id)).messages

    async def all_sent(self, thread_id: str) -> None:
        await self.life.deliveries.wait_until_sent([thread_id], timeout_s=60)


def chats_on(
    database: Database,
    provider: LLMProvider,
    documents: Mapping[str, Mapping[str, Any]],
    executor: HttpExecutor,
    *,
    records: Any = None,
    clock: Any = None,
) -> ChatSetting:
    """Return one server of a database; `records` in place of its own."""
    source = database.source("default")
    records = records or database.records("default")
    timed: dict[str, Any] = {"clock": clock} if clock else {}
    box = ToolBox((*READ_TOOLS, *WRITE_TOOLS, *SESSION_TOOLS))
    threads = Threads(records, **timed)
    approvals = Approvals(source, records)
    running = ToolCalls(box, approvals)
    agents = FewAgents(documents, executor)
    leases = TurnLeases(records, look_s=0.05, **timed)
    pricing = Pricing(model=provider.model, genai_provider=None, fixed=None, fallback=FREE)
    life = AgentLife(
        LifeParts(
            records, threads, agents, workspace="default", locale=Locale(), leases=leases, **timed
        )
    )
    caller = ModelCaller(provider, box, source, meter=UsageMeter(None), pricing=lambda: pricing)
    blocks = BlockReader(
        checker=BlockChecker(source=source, history=GraphHistory(records=records)),
        box=box,
        guard=running.guarded,
    )
    steps = TurnSteps(
        source=source,
        retriever=Retriever(source, None),
        blocks=blocks,
        approvals=approvals,
        caller=caller,
        calls=running,
    )
    assistants = ChatAssistants(
        agents=agents,
        life=life,
        model=lambda _provider, _model: (provider, pricing),
        source=source,
        plain=GraphAssistant(steps=steps, options=ContextOptions(language="en")),
    )
    chats = Agent(
        assistants,
        caller=caller,
        threads=threads,
        leases=leases,
        approvals=approvals,
        blocks=blocks,
        language="en",
    )
    return ChatSetting(
        chats=chats,
        life=life,
        database=database,
        threads=threads,
        approvals=approvals,
        agents=agents,
    )


@asynccontextmanager
async def chats_of(
    provider: LLMProvider, *documents: Mapping[str, Any], executor: HttpExecutor | None = None
) -> AsyncGenerator[ChatSetting]:
    """Yield conversations on the sample graph, with agents of documents."""
    async with sample_database() as database:
        await with_other_graph(database)
        named = {each["agent"]["id"]: each for each in documents or (agent_document(),)}
        yield chats_on(database, provider, named, executor or NO_REQUESTS)


async def with_other_graph(database: Database) -> None:
    """Add a second graph to a workspace: two nodes, which do not lead to one another."""
    source = database.source("default")
    nodes = tuple(
        Node(key=key, graph_key=OTHER, type="starter", data={"name": name})
        for key, name in (("plan-a", "Winter plan"), ("plan-b", "Summer plan"))
    )
    graph = Graph(key=OTHER, name="Plans", workspace="default")
    await source.create_graph(graph, Mutation(graph_key=OTHER, put_nodes=nodes))


# Sends nothing: a test that needs an API gives another.
NO_REQUESTS = HttpExecutor(cast(HttpClient, None), Secrets({}), lambda: 0, http_sentence)
