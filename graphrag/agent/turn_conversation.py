"""The messages of a turn: facts about its last question, and the changes that a turn makes."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, final

from graphrag.agent import history
from graphrag.agent.claims import NotInGraph
from graphrag.agent.events import ToolFinished
from graphrag.i18n import Language
from graphrag.llm.base import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from graphrag.prompts.library import load_phrases

_QUOTING = re.compile(r"[\s\\]+")


@final
class TurnConversation:
    """The messages of a thread while a turn of it runs. `language`: that of added phrases."""

    def __init__(self, messages: list[Message], language: Language) -> None:
        self.messages: list[Message] = messages
        self._language: Language = language

    def phrase(self, name: str, **values: str) -> str:
        return load_phrases("turn", self._language)[name].render(values)

    # Facts

    @property
    def instructions(self) -> SystemMessage | None:
        lead = (m for m in self.messages if isinstance(m, SystemMessage) and m.stable)
        return next(lead, None)

    @property
    def opening(self) -> list[Message]:
        """The context and message that the turn began with."""
        last = max(
            (i for i, m in enumerate(self.messages) if isinstance(m, UserMessage)), default=0
        )
        return [
            m
            for m in self.messages[max(0, last - 1) : last + 1]
            if history.is_context(m) or not isinstance(m, SystemMessage)
        ]

    @property
    def sees_whole_graph(self) -> bool:
        """Whether the context that the turn began with shows all of the graph."""
        return any(isinstance(m, SystemMessage) and m.whole_graph for m in self.opening)

    @property
    def last_step(self) -> list[ToolMessage]:
        """The answers to the calls of the last step, if no text follows them."""
        after = itertools.takewhile(
            lambda m: not isinstance(m, UserMessage | AssistantMessage), reversed(self.messages)
        )
        return [message for message in after if isinstance(message, ToolMessage)]

    @property
    def proposed(self) -> bool:
        """Whether a change was proposed since the person's last message."""
        last = max(
            (i for i, m in enumerate(self.messages) if isinstance(m, UserMessage)), default=0
        )
        return any(
            isinstance(message, ToolMessage)
            and message.name.startswith("propose_")
            and not message.is_error
            for message in self.messages[last:]
        )

    @property
    def asked(self) -> str:
        """The person's last message."""
        texts = (m.content for m in reversed(self.messages) if isinstance(m, UserMessage))
        return next(texts, "")

    @property
    def asks_for_change(self) -> bool:
        """Whether the person may want the graph changed."""
        return history.conversation_asks_for_change(self.messages)

    def was_read(self, written: str) -> bool:
        """Returns whether results or context contain a JSON text, however it is quoted."""
        bare = _QUOTING.sub("", written)
        given = (m.content for m in self.messages if isinstance(m, ToolMessage | SystemMessage))
        return any(bare in _QUOTING.sub("", text) for text in given)

    @property
    def retrieved(self) -> tuple[str, ...]:
        """Keys of the nodes that were retrieved for the person's last message."""
        asked = (message for message in reversed(self.messages) if isinstance(message, UserMessage))
        return next((message.retrieved for message in asked), ())

    # Changes

    def insert_instructions(self, instructions: SystemMessage) -> None:
        self.messages.insert(0, instructions)

    def take_instructions(self) -> list[SystemMessage]:
        """Removes the instructions. Returns them."""
        lead = [m for m in self.messages if isinstance(m, SystemMessage) and m.stable]
        self.messages = [
            m for m in self.messages if not (isinstance(m, SystemMessage) and m.stable)
        ]
        return lead

    def take_person_messages(self) -> list[UserMessage]:
        """Removes the person's messages. Returns them."""
        spoken = [m for m in self.messages if isinstance(m, UserMessage)]
        self.messages = [m for m in self.messages if not isinstance(m, UserMessage)]
        return spoken

    def begin_turn(
        self,
        context: SystemMessage | None,
        question: UserMessage | None,
        notes: Sequence[SystemMessage] = (),
    ) -> None:
        """Adds context, notes and question, and closes what the turn before left open.

        A turn without a question answers its notes.
        """
        self.repair()
        messages = history.past_turns(self.messages)
        spoken = [m for m in history.for_model(messages) if not isinstance(m, SystemMessage)]
        if question and spoken and not isinstance(spoken[-1], AssistantMessage):
            messages.append(AssistantMessage(content=self.phrase("unanswered_turn")))
        opening = [*([context] if context else ()), *notes, *([question] if question else ())]
        self.messages = [*messages, *opening]

    def add(self, *messages: Message) -> None:
        self.messages += messages

    def add_note(self, phrase: str, **values: str) -> None:
        """Adds a phrase for the model."""
        self.add(SystemMessage(content=self.phrase(phrase, **values), stable=False))

    def answer(
        self,
        call: ToolCall,
        text: str,
        *,
        failed: bool = False,
        outcome: Any = None,
        data: Any = None,
    ) -> ToolFinished:
        """Adds the answer to a call. Returns its event."""
        about: dict[str, Any] = {"call_id": call.id, "name": call.name, "is_error": failed}
        self.add(ToolMessage(content=text, outcome=outcome, **about))
        return ToolFinished(arguments=call.arguments, result_text=text, data=data, **about)

    def refuse(self, name: str, calls: Sequence[ToolCall], /, **values: str) -> None:
        """Answers calls that are not run with a phrase that says why."""
        reason = self.phrase(name, **values)
        for call in calls:
            self.answer(call, reason, failed=True)

    def is_answered(self, call_id: str) -> bool:
        return any(isinstance(m, ToolMessage) and m.call_id == call_id for m in self.messages)

    def repair(self) -> None:
        """Puts every answer after its call, and answers the calls that have none."""
        self.messages = history.repaired(self.messages, missing=self.phrase("interrupted"))

    def mark_claims(self, claims: NotInGraph) -> None:
        """Adds to the answer, the last message, its claims that are not in the graph."""
        last = self.messages[-1]
        assert isinstance(last, AssistantMessage)
        self.messages[-1] = replace(last, not_in_graph=claims.document(self._language))

    def mark_invalid(self) -> None:
        """Marks the last message, if it is an answer, as one of a wrong form."""
        last = self.messages[-1] if self.messages else None
        if isinstance(last, AssistantMessage):
            self.messages[-1] = replace(last, invalid=True)
