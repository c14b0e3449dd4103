"""What the messages of a conversation say about its current turn."""

from __future__ import annotations

import itertools

from graphrag.agent.change_words import conversation_asks_for_change
from graphrag.agent.history import is_context
from graphrag.llm.base import AssistantMessage, Message, SystemMessage, ToolMessage, UserMessage


class ConversationView:
    """Reads the messages of a turn; who has them gives `messages`, and whether outcomes were just added."""

    __slots__ = ()
    messages: list[Message]
    has_outcomes: bool

    @property
    def opening(self) -> list[Message]:
        """The context and message that the turn began with."""
        last = max((i for i, m in enumerate(self.messages) if isinstance(m, UserMessage)), default=0)
        return [m for m in self.messages[max(0, last - 1) : last + 1] if is_context(m) or not _is_system(m)]

    @property
    def last_step(self) -> list[ToolMessage]:
        """The answers to the calls of the last step, if nothing was said since."""
        after = itertools.takewhile(
            lambda m: not isinstance(m, UserMessage | AssistantMessage), reversed(self.messages)
        )
        return [message for message in after if isinstance(message, ToolMessage)]

    @property
    def proposed(self) -> bool:
        """Whether a change was proposed, or its outcome added, since the person's last message."""
        last = max((i for i, m in enumerate(self.messages) if isinstance(m, UserMessage)), default=0)
        return self.has_outcomes or any(
            isinstance(message, ToolMessage) and message.name.startswith("propose_") and not message.is_error
            for message in self.messages[last:]
        )

    @property
    def asked(self) -> str:
        """The person's last message."""
        said = (message.content for message in reversed(self.messages) if isinstance(message, UserMessage))
        return next(said, "")

    @property
    def asks_for_change(self) -> bool:
        """Whether the person may want the graph changed."""
        return conversation_asks_for_change(self.messages)

    @property
    def retrieved(self) -> tuple[str, ...]:
        """Keys of the nodes that were retrieved for the person's last message."""
        asked = (message for message in reversed(self.messages) if isinstance(message, UserMessage))
        return next((message.retrieved for message in asked), ())


def _is_system(message: Message) -> bool:
    return isinstance(message, SystemMessage)
