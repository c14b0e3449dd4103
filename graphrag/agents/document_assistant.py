"""Answers in a conversation with a declarative agent: with the document's prompt, tools and model.

Decision: it is made for one turn, because its tools read and change the values of one conversation.
Changed values are stored with the thread before the model sees the result.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import final

from datasources.errors import SourceError
from graphrag.agent.assistant import GraphAssistant, TurnSetup
from graphrag.agent.events import Completed, Ending, Failed
from graphrag.agent.session_turn import NETWORK_CODES
from graphrag.agent.thread_agent import ThreadAgent
from graphrag.agent.thread_store import StoredThread, ThreadBusy
from graphrag.agent.turn import Turn
from graphrag.agent.turn_steps import AgentLimits
from graphrag.agents.agent_prompt import write_agent_prompt
from graphrag.agents.chat_values import agent_part, values_of
from graphrag.agents.compiled_agent import CompiledAgent, graphs_of
from graphrag.agents.document_turn import DocumentKind
from graphrag.agents.errors import AgentError, ThreadEnded
from graphrag.agents.life import AgentLife
from graphrag.agents.manager import AgentManager
from graphrag.agents.session_fields import InlineSession
from graphrag.agents.toolbox import AgentTools, agent_role
from graphrag.approvals import Person
from graphrag.llm.base import LLMProvider, SystemMessage, UserMessage
from graphrag.llm.registry import Pricing
from tools.http.tool import Declaration

log = logging.getLogger(__name__)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentAssistant:
    """An `Assistant` for one turn. `graph` retrieves for the message, if there is a graph."""

    kind: DocumentKind
    graph: GraphAssistant
    agents: AgentManager
    life: AgentLife

    async def write_instructions(self, turn: Turn) -> SystemMessage:
        return await write_agent_prompt(
            self.graph.steps.source,
            self.kind.agent,
            agent_part(turn.stored.thread).instructions,
            about=turn.graph_key,
            proposes=turn.role == "editor" and bool(turn.graph_key),
            code=self.kind.values.agent["language"],
            language=turn.language,
        )

    async def open(self, turn: Turn, message: UserMessage) -> None:
        await self.kind.take_start(wait_ms=0)
        if turn.conversation.instructions is None:
            turn.conversation.insert_instructions(await self.write_instructions(turn))
        self.kind.take_message(turn, message.content)
        if turn.graph_key:
            await self.graph.open(turn, message)
        else:
            turn.begin(None, message, rounds=self.graph.steps.limits.rounds)

    async def finish(self, turn: Turn, ending: Ending) -> Ending:
        """Returns the last event. Ends the conversation before, if its agent hung up."""
        if isinstance(ending, Failed) and ending.fault.code in NETWORK_CODES:
            with suppress(AgentError, SourceError):  # only the agent's health depends on it
                await self.agents.model_failed(self.kind.agent.agent_id)
        if not isinstance(ending, Completed) or not self.kind.hung_up:
            return ending
        try:
            thread = await self.life.endings.end(turn.thread_id, "agent_hung_up")
        except (ThreadBusy, SourceError) as exc:  # a worker ends it later: its idle time is over
            log.warning(
                "end_put_off", extra={"thread_id": turn.thread_id, "error": type(exc).__name__}
            )
            return ending
        part = None if thread is None else thread.agent
        if part is None:
            return ending
        return replace(ending, end_reason=part.end_reason, outcome=part.outcome)


def set_up_document(
    plain: GraphAssistant,
    compiled: CompiledAgent,
    model: tuple[LLMProvider, Pricing],
    stored: StoredThread,
    person: Person,
    agents: AgentManager,
    life: AgentLife,
) -> TurnSetup:
    """Returns the collaborators of a turn with an agent. `plain`: the assistant without agents.

    Raises: ThreadEnded.
    """
    thread = stored.thread
    part = agent_part(thread)
    if not part.is_open:
        raise ThreadEnded(thread_id=thread.key)
    executor = agents.executor(compiled.agent_id)
    kind = DocumentKind(
        agent=compiled,
        thread=thread,
        values=values_of(compiled, thread, life.locale),
        deliveries=life.deliveries,
        executor=executor,
    )
    role = agent_role(compiled, person.role)
    graphs = graphs_of(compiled, thread.graph_key)
    box = AgentTools(
        agent=compiled,
        declarations=declarations_of(compiled, part),
        values=kind.values,
        executor=executor,
        take_start=kind.take_start,
        graphs=graphs,
        proposes=role == "editor",
        outcomes=kind.outcomes,
    ).box()
    provider, pricing = model
    chat = compiled.document.chat
    steps = replace(
        plain.steps,
        caller=plain.steps.caller.with_tools(
            box, provider, lambda: pricing, temperature=chat.temperature
        ),
        calls=plain.steps.calls.with_tools(box, graphs),
        limits=AgentLimits(rounds=chat.max_rounds, max_rounds=chat.max_rounds),
    )
    graph = replace(plain, steps=steps)
    assistant = DocumentAssistant(kind=kind, graph=graph, agents=agents, life=life)
    return TurnSetup(assistant=assistant, steps=steps, kind=kind, role=role)


def declarations_of(agent: CompiledAgent, part: ThreadAgent) -> list[Declaration]:
    """Returns the declarations of a conversation's functions: those of the document, or the fetched
    ones.
    """
    session = agent.document.session
    written = [
        each.model_dump() for each in (session.tools if isinstance(session, InlineSession) else ())
    ]
    found = written if part.declarations is None else part.declarations
    handlers = agent.document.tools
    return [
        Declaration(
            name=each["name"],
            description=each.get("description") or handlers[each["name"]].description,
            parameters=each.get("parameters") or {"type": "object", "properties": {}},
        )
        for each in found
        if each["name"] in handlers
    ]
