"""Chooses the assistant of each conversation of a workspace: the service itself, or an agent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

from datasources.base import GraphDataSource
from graphrag.agent.assistant import GraphAssistant, TurnSetup
from graphrag.agent.thread_agent import ThreadAgent
from graphrag.agent.thread_store import StoredThread
from graphrag.agents import errors
from graphrag.agents.compiled_agent import CompiledAgent
from graphrag.agents.document_assistant import set_up_document
from graphrag.agents.life import AgentLife
from graphrag.agents.manager import AgentManager
from graphrag.agents.workspace_assistant import set_up_workspace
from graphrag.approvals import Person
from graphrag.llm.base import LLMProvider
from graphrag.llm.registry import Pricing

ModelOf = Callable[[str | None, str | None], tuple[LLMProvider, Pricing]]
"""Returns the model of a provider and a name (None: the default). Raises: SettingsError."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ChatAssistants:
    """The `Assistants` of a workspace with agent documents."""

    agents: AgentManager
    life: AgentLife
    model: ModelOf
    source: GraphDataSource
    plain: GraphAssistant

    async def admit(
        self, stored: StoredThread, person: Person, agent_id: str | None, caller_phone: str | None
    ) -> StoredThread:
        """Checks that a message may go to the thread, and begins a new one with its agent.

        Raises: AgentError, GraphNotFound, SettingsError.
        """
        if stored.version is None and agent_id is not None:
            stored = await self._begin(stored, person, agent_id, caller_phone)
        thread = stored.thread
        part = thread.agent
        if agent_id is not None and (part is None or part.agent_id != agent_id):
            raise errors.ThreadOfOtherAgent(thread_id=thread.key, agent_id=agent_id)
        if caller_phone is not None and (part is None or part.caller_phone != caller_phone):
            raise errors.CallerTooLate
        if part is not None:
            await self._open_agent(thread.key, part)
        return stored

    async def set_up(self, stored: StoredThread, person: Person) -> TurnSetup:
        """Returns the collaborators of the next turn. Raises: AgentError, SettingsError."""
        thread = stored.thread
        if thread.agent is None:
            if thread.graph_key:
                return await self.plain.set_up(stored, person)
            return set_up_workspace(self.plain.steps, person)
        compiled, model = await self._open_agent(thread.key, thread.agent)
        return set_up_document(self.plain, compiled, model, stored, person, self.agents, self.life)

    async def _open_agent(
        self, thread_id: str, part: ThreadAgent
    ) -> tuple[CompiledAgent, tuple[LLMProvider, Pricing]]:
        """Returns the agent and the model of an open conversation.

        Raises: ThreadEnded, AgentError, SettingsError.
        """
        if not part.is_open:
            raise errors.ThreadEnded(thread_id=thread_id)
        compiled = await self.agents.compiled(part.agent_id, part.version)
        chat = compiled.document.chat
        return compiled, self.model(chat.provider, chat.model)

    async def _begin(
        self, new: StoredThread, person: Person, agent_id: str, caller_phone: str | None
    ) -> StoredThread:
        """Stores a new conversation with an agent. Raises: AgentError, GraphNotFound."""
        graph_key = new.thread.graph_key
        agent, version = await self.agents.running_version(agent_id)
        document = agent.document
        if "chat" not in document.channels:
            raise errors.AgentNotInChat(agent_id=agent_id)
        if graph_key not in (document.graphs or [""]):
            raise errors.AgentGraphUnknown(agent_id=agent_id, graphs=document.graphs)
        if caller_phone is not None and person.role == "viewer":
            raise errors.CallerForbidden
        if graph_key:
            await self.source.get_graph(graph_key)
        # A missing key of the model is reported before the conversation begins.
        self.model(document.chat.provider, document.chat.model)
        return await self.life.beginnings.begin(agent, version, new, caller_phone=caller_phone)
