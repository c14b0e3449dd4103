"""An agent on the sample graph, with a scripted model and everything else real."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from datasources.base import Database, MutableGraphDataSource
from datasources.types import Node
from graphrag.agent.assistant import GraphAssistant
from graphrag.agent.events import Event
from graphrag.agent.loop import Agent
from graphrag.agent.model_caller import ModelCaller
from graphrag.agent.requested_calls import CallLimits
from graphrag.agent.thread_store import Threads
from graphrag.agent.tool_calls import ToolCalls
from graphrag.agent.turn_lease import TurnLeases
from graphrag.agent.turn_steps import AgentLimits, TurnSteps
from graphrag.approvals import Approvals, Asked, Person, Policy
from graphrag.approvals.validation import CLASSES, ActionClass
from graphrag.commands import BlockChecker, BlockReader, GraphHistory
from graphrag.llm.base import LLMProvider, Message
from graphrag.llm.registry import FREE, Pricing
from graphrag.llm.usage_meter import UsageLimits, UsageMeter
from graphrag.retrieval.context import ContextOptions
from graphrag.retrieval.retriever import Retriever
from tests.support.chosen_database import sample_database
from tests.support.scripted_provider import ScriptedProvider, Step
from tools.base import Tool
from tools.read_tools import READ_TOOLS
from tools.session_tools import SESSION_TOOLS
from tools.tool_box import ToolBox
from tools.write_tools import WRITE_TOOLS

GRAPH = "testgraph001"
EDITOR = Person("ed", "editor", "default")
VIEWER = Person("vi", "viewer", "default")
REVIEWER = Person("rev", "reviewer", "default")
E = TypeVar("E")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What the tests of a turn look at."""

    agent: Agent
    assistant: GraphAssistant
    database: Database
    source: MutableGraphDataSource
    threads: Threads
    approvals: Approvals
    meter: UsageMeter

    async def ask(
        self, message: str = "hello", thread_id: str | None = None, by: Person = EDITOR, **more: Any
    ) -> list[Event]:
        return await collected(self.agent.run(thread_id, GRAPH, message, by, **more))

    async def resume(self, thread_id: str, by: Person = EDITOR, **more: Any) -> list[Event]:
        return await collected(self.agent.resume(thread_id, by, **more))

    async def messages(self, thread_id: str, by: Person = EDITOR) -> list[Message]:
        return (await self.threads.get(thread_id, by)).thread.messages

    async def node(self, key: str) -> Node | None:
        found = await self.source.get_nodes_by_key(GRAPH, [key])
        return found[0] if found else None


def setting_on(
    database: Database,
    provider: LLMProvider,
    *,
    tools: tuple[Tool[Any], ...] = (*READ_TOOLS, *WRITE_TOOLS, *SESSION_TOOLS),
    limits: AgentLimits | None = None,
    calls: CallLimits | None = None,
    usage: UsageLimits | None = None,
    policy: Policy | None = None,
    free: frozenset[ActionClass] = frozenset(),
    language: Any = "en",
    leases: TurnLeases | None = None,
) -> Setting:
    source = database.source("default")
    records = database.records("default")
    retriever = Retriever(source, None)
    box = ToolBox(tools)
    threads = Threads(records)
    approvals = Approvals(source, records, policy=policy, require_validation=CLASSES - free)
    meter = UsageMeter(usage)
    running = ToolCalls(box, approvals, limits=calls)
    caller = ModelCaller(
        provider,
        box,
        source,
        meter=meter,
        pricing=lambda: Pricing(
            model=provider.model, genai_provider=None, fixed=None, fallback=FREE
        ),
    )
    blocks = BlockReader(
        checker=BlockChecker(source=source, history=GraphHistory(records=records)),
        box=box,
        guard=running.guarded,
    )
    steps = TurnSteps(
        source=source,
        retriever=retriever,
        blocks=blocks,
        approvals=approvals,
        caller=caller,
        calls=running,
        limits=limits or AgentLimits(),
    )
    assistant = GraphAssistant(steps=steps, options=ContextOptions(language=language))
    agent = Agent(
        assistant,
        caller=caller,
        threads=threads,
        leases=leases or TurnLeases(records),
        approvals=approvals,
        blocks=blocks,
        language=language,
        limits=steps.limits,
    )
    return Setting(
        agent=agent,
        assistant=assistant,
        database=database,
        source=source,
        threads=threads,
        approvals=approvals,
        meter=meter,
    )


@asynccontextmanager
async def setting_of(provider: LLMProvider, **more: Any) -> AsyncIterator[Setting]:
    async with sample_database() as database:
        yield setting_on(database, provider, **more)


@asynccontextmanager
async def scripted(*steps: Step, **more: Any) -> AsyncIterator[tuple[Setting, ScriptedProvider]]:
    """Yield a setting whose model plays these steps, all of them, and the model."""
    async with ScriptedProvider(*steps) as model, setting_of(model, **more) as setting:
        yield setting, model


def an_ask(graph_key: str = GRAPH, asker: Person = EDITOR, **more: Any) -> Asked:
    """Return who asks for a change, of which graph, and by what call of which model."""
    call = {"thread_id": "t1", "turn": 1, "tool_call_id": "c1", "model": "a-model"}
    return Asked(graph_key=graph_key, asker=asker, **(call | more))


async def collected(events: AsyncGenerator[Event]) -> list[Event]:
    async with aclosing(events) as stream:
        return [event async for event in stream]


async def up_to(events: AsyncGenerator[Event], kind: type[E]) -> E:
    """Return the first event of a kind; the generator stays open."""
    async for event in events:
        if isinstance(event, kind):
            return event
    raise AssertionError(f"no {kind.__name__} came")


def of(events: list[Event], kind: type[E]) -> list[E]:
    return [event for event in events if isinstance(event, kind)]


def only(events: list[Event], kind: type[E]) -> E:
    found = of(events, kind)
    assert len(found) == 1, f"{len(found)} events of {kind.__name__} in {events}"
    return found[0]


def shown(events: list[Event]) -> str:
    """Return the text a person has seen."""
    return "".join(
        getattr(event, "text", "") for event in events if type(event).__name__ == "Token"
    )


def text_of(events: list[Event]) -> str:
    return str(getattr(events[-1], "text", ""))
