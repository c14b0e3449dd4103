"""All conversations of a workspace, with and without an agent of a document: the way in for every channel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphrag.agent.loop import Agent
from graphrag.agent.thread_store import StoredThread, Thread
from graphrag.agents.document_agent import DocumentAgent
from graphrag.agents.errors import (
    AgentGraphUnknown,
    AgentNotInChat,
    CallerForbidden,
    CallerTooLate,
    ThreadEnded,
    ThreadOfOtherAgent,
    ThreadWithoutAgent,
)
from graphrag.agents.life import AgentLife
from graphrag.agents.manager import AgentManager
from graphrag.agents.workspace_agent import WorkspaceAgent
from graphrag.approvals import Person
from graphrag.llm.base import LLMProvider
from graphrag.llm.registry import Pricing

ModelOf = Callable[[str | None, str | None], tuple[LLMProvider, Pricing]]
"""Gives the model of a provider's and a model's name; None: the service's. Raises: SettingsError."""


class AgentChats(Agent):
    """Answers in conversations, as their agent where they have one.

    `life` is set where there are declarative agents.
    """

    def __init__(self, agents: AgentManager, life: AgentLife, model: ModelOf, **of_agent: Any) -> None:
        super().__init__(**of_agent)
        self._agents, self.life, self._model, self._of_agent = agents, life, model, of_agent

    async def end(self, thread_id: str, person: Person) -> Thread:
        """End a person's conversation with an agent; a turn of it is stopped first.

        Raises: ThreadNotFound, ThreadWithoutAgent, ThreadEnded, ThreadBusy.
        """
        thread = (await self._threads.get(thread_id, person)).thread
        if thread.agent is None:
            raise ThreadWithoutAgent(thread_id=thread_id)
        ended = await self.life.endings.end(thread_id, "ended_by_person", stop=True)
        if ended is None:
            raise ThreadEnded(thread_id=thread_id)
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
        thread, part = stored.thread, stored.thread.agent
        if agent_id is not None and (part is None or part.agent_id != agent_id):
            raise ThreadOfOtherAgent(thread_id=thread.key, agent_id=agent_id)
        if caller_phone is not None and (part is None or part.caller_phone != caller_phone):
            raise CallerTooLate
        if part is None:
            return (self if thread.graph_key else WorkspaceAgent(**self._of_agent)), stored
        if not part.is_open:
            raise ThreadEnded(thread_id=thread.key)
        compiled = await self._agents.compiled(part.agent_id, part.version)
        provider, pricing = self._model(compiled.document.chat.provider, compiled.document.chat.model)
        agent = DocumentAgent(compiled, self._agents, self.life, provider, pricing, **self._of_agent)
        return agent, stored

    async def _begun(
        self, new: StoredThread, person: Person, agent_id: str, caller_phone: str | None
    ) -> StoredThread:
        """Store a new conversation with an agent. Raises: AgentError, GraphNotFound."""
        graph_key = new.thread.graph_key
        agent, version = await self._agents.running_version(agent_id)
        document = agent.document
        if "chat" not in document.channels:
            raise AgentNotInChat(agent_id=agent_id)
        if graph_key not in (document.graphs or [""]):
            raise AgentGraphUnknown(agent_id=agent_id, graphs=document.graphs)
        if caller_phone is not None and person.role == "viewer":
            raise CallerForbidden
        if graph_key:
            await self._source.get_graph(graph_key)
        self._model(document.chat.provider, document.chat.model)  # what is missing is said before it begins
        return await self.life.beginnings.begin(agent, version, new, caller_phone=caller_phone)
