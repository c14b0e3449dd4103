"""All conversations of a workspace, with and without an agent of a document: the way in
for every channel.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Annotated, Any, Final

from pydantic import Field, create_model

from graphrag.agent.loop import Agent
from graphrag.agent.running_turn import RunningTurn
from graphrag.agent.thread_store import StoredThread, Thread
from graphrag.agent.turn_lease import TurnLease
from graphrag.agents import errors
from graphrag.agents.document_agent import DocumentAgent
from graphrag.agents.life import AgentLife
from graphrag.agents.manager import AgentManager
from graphrag.agents.toolbox import on_named_graph
from graphrag.approvals import Person
from graphrag.i18n import Language
from graphrag.llm.base import LLMProvider, SystemMessage, UserMessage
from graphrag.llm.registry import Pricing
from graphrag.prompts.library import load_phrases
from graphrag.retrieval.context import CONTEXT_MARKER
from tools.base import GRAPH_ARGUMENT, Tool, ToolBox
from tools.read_tools.detail import read_node_detail
from tools.read_tools.overview import read_graph_overview
from tools.read_tools.search_workspace import SearchAllGraphs, search_workspace

ModelOf = Callable[[str | None, str | None], tuple[LLMProvider, Pricing]]
"""Gives the model of a provider's and a model's name; None: the
service's. Raises: SettingsError.
"""
QUERY_CHARS: Final = 1_000
"""Of a message, for the search of all graphs."""


class AgentChats(Agent):
    """Answers in conversations, as their agent where they have one.

    `life` is set where there are declarative agents.
    """

    def __init__(
        self, agents: AgentManager, life: AgentLife, model: ModelOf, **of_agent: Any
    ) -> None:
        super().__init__(**of_agent)
        self._agents = agents
        self.life = life
        self._model = model
        self._of_agent = of_agent

    async def end(self, thread_id: str, person: Person) -> Thread:
        """End a person's conversation with an agent; a turn of it is stopped first.

        Raises: ThreadNotFound, ThreadWithoutAgent, ThreadEnded, ThreadBusy.
        """
        thread = (await self._threads.get(thread_id, person)).thread
        if thread.agent is None:
            raise errors.ThreadWithoutAgent(thread_id=thread_id)
        ended = await self.life.endings.end(thread_id, "ended_by_person", stop=True)
        if ended is None:
            raise errors.ThreadEnded(thread_id=thread_id)
        return ended

    async def _agent_of(
        self,
        stored: StoredThread,
        person: Person,
        agent_id: str | None = None,
        caller_phone: str | None = None,
    ) -> tuple[Agent, StoredThread]:
        """Return who answers the next turn of a conversation. Raises: AgentError, SettingsError."""
        if stored.version is None and agent_id is not None:
            stored = await self._begun(stored, person, agent_id, caller_phone)
        thread = stored.thread
        part = stored.thread.agent
        if agent_id is not None and (part is None or part.agent_id != agent_id):
            raise errors.ThreadOfOtherAgent(thread_id=thread.key, agent_id=agent_id)
        if caller_phone is not None and (part is None or part.caller_phone != caller_phone):
            raise errors.CallerTooLate
        if part is None:
            return (self if thread.graph_key else WorkspaceAgent(**self._of_agent)), stored
        if not part.is_open:
            raise errors.ThreadEnded(thread_id=thread.key)
        compiled = await self._agents.compiled(part.agent_id, part.version)
        provider, pricing = self._model(
            compiled.document.chat.provider, compiled.document.chat.model
        )
        agent = DocumentAgent(
            compiled, self._agents, self.life, provider, pricing, **self._of_agent
        )
        return agent, stored

    async def _begun(
        self, new: StoredThread, person: Person, agent_id: str, caller_phone: str | None
    ) -> StoredThread:
        """Store a new conversation with an agent. Raises: AgentError, GraphNotFound."""
        graph_key = new.thread.graph_key
        agent, version = await self._agents.running_version(agent_id)
        document = agent.document
        if "chat" not in document.channels:
            raise errors.AgentNotInChat(agent_id=agent_id)
        if graph_key not in (document.graphs or [""]):
            raise errors.AgentGraphUnknown(agent_id=agent_id, graphs=document.graphs)
        if caller_phone is not None and person.role == "viewer":
            raise errors.CallerForbidden
        if graph_key:
            await self._source.get_graph(graph_key)
        # what is missing is said before it begins
        self._model(document.chat.provider, document.chat.model)
        return await self.life.beginnings.begin(agent, version, new, caller_phone=caller_phone)


class WorkspaceAgent(Agent):
    """Takes up one turn of a conversation about all graphs of a workspace: what it knows comes from
    a search of them all. It reads and proposes nothing: a change belongs to a conversation about
    its graph, or to a codemod.
    """

    def _turn_of(
        self, stored: StoredThread, person: Person, language: Language, hold: TurnLease
    ) -> RunningTurn:
        turn = super()._turn_of(stored, person, language, hold)
        turn.always_sent = ()
        self._caller = self._caller.with_tools(_box())
        self._calls = self._calls.with_tools(_box())
        return turn

    async def _open(self, turn: RunningTurn, said: UserMessage) -> None:
        if not any(
            isinstance(message, SystemMessage) and message.stable for message in turn.messages
        ):
            turn.messages.insert(0, await self._instructions(turn))
        asked = SearchAllGraphs.model_construct(query=said.content[:QUERY_CHARS], kind=None)
        found = await search_workspace.run(asked, self._place(turn).context)
        context = SystemMessage(content=f"{CONTEXT_MARKER}\n{found.text}", stable=False)
        turn.begin(context, said, rounds=self.limits.rounds)

    async def _instructions(self, turn: RunningTurn) -> SystemMessage:
        return SystemMessage(content=load_phrases("agent", turn.language)["workspace"].render({}))


@cache
def _box() -> ToolBox:
    return ToolBox([search_workspace, *map(_on_any_graph, (read_graph_overview, read_node_detail))])


def _on_any_graph(tool: Tool[Any]) -> Tool[Any]:
    """Return a tool whose calls name a graph of the workspace."""
    named: Any = (Annotated[str, Field(min_length=1, max_length=200)], ...)
    arguments: Any = create_model(
        f"{tool.arguments.__name__}OnAny", __base__=tool.arguments, graph=named
    )

    example = {GRAPH_ARGUMENT: "order-refund", **tool.example}
    return replace(on_named_graph(tool, arguments), example=example)
