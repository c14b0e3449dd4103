"""Makes a conversation fit a model's window before the model refuses it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from graphrag.agent.history import (
    KEPT_TURNS,
    ConversationParts,
    compacted,
    cut_text,
    is_context,
    shortened,
    with_short_results,
)
from graphrag.i18n import LocalizedError
from graphrag.llm.base import AssistantMessage, Message, SystemMessage
from graphrag.llm.tokens import TOKENS_A_MESSAGE, prompt_tokens, text_of

ANSWER_TOKENS = 4_096
"""Kept free for the answer, where the window has room for that."""
SMALL = 8_000
"""In a smaller window tools give way before the context does."""
SAFETY = 0.9
"""Another tokenizer than the model's counts; so much of the window is used."""


class WindowTooSmall(LocalizedError):
    """Not even the last message fits. Units: tokens."""

    def __init__(self, *, tokens: int, window: int) -> None:
        self.tokens = tokens
        super().__init__(tokens=tokens, window=window)


def answer_room(window: int) -> int:
    """Return how many tokens of a window are kept for the answer."""
    return min(ANSWER_TOKENS, window // (3 if window >= SMALL else 5))


def room(window: int, *, share: float = 1.0) -> int:
    """Return how many tokens a prompt may have in a window of so many."""
    return int((window - answer_room(window)) * SAFETY * share)


def fitted(messages: Sequence[Message], limit: int, *, keep: int = KEPT_TURNS) -> list[Message]:
    """Return the conversation to send, in at most `limit` tokens (what the tools need is taken off before).

    `keep`: so many turns are sent whole before they are summed up. Gives way first: old turns, then long
    results of this turn (the last step's last), then context.
    Raises: WindowTooSmall.
    """
    made = shortened(messages, keep=keep)
    for shorter in _ever_shorter(made, keep):
        if _fits(shorter, limit):
            return shorter
        made = shorter
    raise WindowTooSmall(tokens=prompt_tokens(made), window=limit)


def _ever_shorter(messages: list[Message], kept: int) -> Iterator[list[Message]]:
    yield messages
    parts = ConversationParts.of(messages)
    for keep in sorted({kept, min(kept, 3), 1}, reverse=True):
        if len(parts.turns) > keep:
            yield compacted(parts, keep=keep)
    lead, turn = parts.lead, list(parts.turns[-1] if parts.turns else ())
    note = compacted(parts, keep=1)[len(lead) : -len(turn) or None] if len(parts.turns) > 1 else []
    last = max((i for i, m in enumerate(turn) if isinstance(m, AssistantMessage)), default=len(turn))
    for older, newest, context in ((2_000, 0, 0), (500, 8_000, 0), (500, 2_000, 4_000), (200, 800, 1_000)):
        cut = with_short_results(turn[:last], older)
        cut += with_short_results(turn[last:], newest) if newest else turn[last:]
        yield [*lead, *note, *(_short_context(message, context) for message in cut)]
    yield [*lead, *(_short_context(m, 300) for m in with_short_results(turn, 200))]


def _short_context(message: Message, limit: int) -> Message:
    if limit and isinstance(message, SystemMessage) and is_context(message):
        return replace(message, content=cut_text(message.content, limit))
    return message


def _fits(messages: Sequence[Message], limit: int) -> bool:
    # A token is at least a byte and a character at most four: most prompts need no counting.
    size = sum(4 * len(text_of(message)) + TOKENS_A_MESSAGE for message in messages)
    return size < limit or prompt_tokens(messages) <= limit
