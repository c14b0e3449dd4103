"""Assistants: what answers the turns of a conversation, chosen for each thread.

The service itself answers about a graph (`GraphAssistant`). Other assistants answer about all
graphs of a workspace, or as an agent document says; they are in `graphrag.agents`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol, final

from graphrag.agent.chat_turn import ChatKind
from graphrag.agent.events import Ending
from graphrag.agent.thread_store import StoredThread
from graphrag.agent.turn import Turn, TurnKind
from graphrag.agent.turn_steps import TurnSteps
from graphrag.approvals import Person
from graphrag.llm.base import SystemMessage, UserMessage
from graphrag.retrieval.context import ContextOptions
from graphrag.retrieval.prepared_prompt import prepare_prompt, write_instructions
from tools.base import Role


class Assistant(Protocol):
    """Writes the instructions of a conversation, opens its turns and ends them."""

    async def write_instructions(self, turn: Turn, /) -> SystemMessage:
        """Returns the system message of the conversation."""
        ...

    async def open(self, turn: Turn, message: UserMessage, /) -> None:
        """Begins a turn with a message: adds context for it to the conversation. Stores nothing.

        Raises: GraphNotFound, PromptError.
        """
        ...

    async def finish(self, turn: Turn, ending: Ending, /) -> Ending:
        """Returns the last event of a turn, once its lease was given back."""
        ...


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TurnSetup:
    """The collaborators of one turn. `role`: what its tools may do."""

    assistant: Assistant
    steps: TurnSteps
    kind: TurnKind
    role: Role


class Assistants(Protocol):
    """Chooses the assistant of a conversation."""

    async def admit(
        self,
        stored: StoredThread,
        person: Person,
        agent_id: str | None,
        caller_phone: str | None,
        /,
    ) -> StoredThread:
        """Checks that a message may go to the thread, and begins a new one with its agent.

        Raises: AgentError, SettingsError.
        """
        ...

    async def set_up(self, stored: StoredThread, person: Person, /) -> TurnSetup:
        """Returns the collaborators of the next turn of a leased thread.

        Raises: AgentError, SettingsError.
        """
        ...


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class GraphAssistant:
    """Answers about the graph of a conversation, without an agent document.

    It is an `Assistant`, and the `Assistants` of a service without agent documents.
    """

    steps: TurnSteps
    options: ContextOptions

    async def admit(
        self, stored: StoredThread, _person: Person, _agent_id: str | None, _caller: str | None
    ) -> StoredThread:
        return stored

    async def set_up(self, _stored: StoredThread, person: Person) -> TurnSetup:
        return TurnSetup(assistant=self, steps=self.steps, kind=ChatKind(), role=person.role)

    async def write_instructions(self, turn: Turn) -> SystemMessage:
        source = self.steps.source
        return await write_instructions(
            source,
            await source.get_graph(turn.graph_key),
            role=turn.role,
            language=turn.language,
            compact=self.steps.caller.prompts.is_small,
            run=turn.run,
        )

    async def open(self, turn: Turn, message: UserMessage) -> None:
        """Adds retrieved context, the message and the data of its blocks to the conversation.

        A new conversation also gets its instructions.
        """
        steps = self.steps
        when: dict[str, Any] = {"calendar": turn.calendar, "reference": turn.reference}
        data = await steps.blocks.read(message, turn.graph_key, turn.role, turn.language, **when)
        caller = steps.caller
        look = caller.second_look(turn, steps.retriever)
        sent = message.content if data is None else f"{message.content}\n{data.content}"
        prepared = await prepare_prompt(
            steps.source,
            look or steps.retriever,
            turn.graph_key,
            message.content,
            role=turn.role,
            options=replace(self.options, language=turn.language),
            instructions=turn.conversation.instructions,
            compact=caller.prompts.is_small,
            run=turn.run,
            always_tokens=caller.prompts.always_tokens,
            context_room=lambda taken, wanted: caller.prompts.context_room(
                turn, taken, sent, wanted
            ),
        )
        turn.take_retrieval(prepared)
        if turn.conversation.instructions is None:
            turn.conversation.insert_instructions(prepared.instructions)
        question = replace(message, retrieved=prepared.question.retrieved)
        turn.begin(prepared.context_message, question, rounds=steps.limits.rounds)
        if data is not None:
            turn.conversation.add(data)
        if look is not None:
            caller.report_second_look(turn, look)

    async def finish(self, _turn: Turn, ending: Ending) -> Ending:
        return ending
