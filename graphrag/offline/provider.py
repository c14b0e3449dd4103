"""The provider without a language model: rules behind the interface of a real one.

Decision: it keeps nothing between calls. What it needs to know stands in the messages, so a turn
goes on after a restart, on another server, or after a person decided a proposal days later.
"""

from __future__ import annotations

import json
import logging
import re
import secrets
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any, cast

from graphrag.offline.conversation import Conversation, read_conversation
from graphrag.offline.phrases import PHRASES, say
from graphrag.offline.planner import Step, next_step
from graphrag.providers.base import (
    DEFAULT_OPTIONS,
    Chunk,
    Finished,
    Message,
    ModelOptions,
    TextDelta,
    ToolCall,
    ToolCallReady,
    ToolCallStarted,
    ToolSchema,
    UsageReport,
)
from graphrag.providers.identity import Identified
from graphrag.tokens import count_tokens, fits

log = logging.getLogger(__name__)

_PIECE = re.compile(r"\S*\s*\S*\s*\S*\s*", re.DOTALL)


def _new_id() -> str:
    return f"offline_{secrets.token_hex(12)}"


class OfflineProvider(Identified):
    """Answers by rules from what the tools return. `ids` makes the ids of its calls."""

    def __init__(self, *, ids: Callable[[], str] = _new_id) -> None:
        super().__init__(name="offline", model="rules", context_window=1_000_000)
        self._ids = ids

    async def stream(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSchema] = (),
        options: ModelOptions = DEFAULT_OPTIONS,
    ) -> AsyncGenerator[Chunk]:
        """Yield the answer piece by piece, or the calls of the tools that it needs first.

        Costs no tokens: the usage reported is zero. Raises nothing.
        """
        offered = frozenset[str]() if options.tool_choice == "none" else _names(tools)
        conversation = read_conversation(messages)
        step = next_step(conversation, offered)
        text = _announced(step, conversation)
        log.debug("offline_step", extra={"calls": len(step.calls), "chars": len(text)})
        cut = _first_tokens(text, options.max_tokens)
        for piece in _PIECE.findall(cut):
            if piece:
                yield TextDelta(text=piece)
        calls = step.calls if cut == text else ()
        made = [
            ToolCall(id=self._ids(), name=call.name, arguments=json.dumps(call.arguments, ensure_ascii=False))
            for call in calls
        ]
        for index, call in enumerate(made):
            yield ToolCallStarted(index=index, id=call.id, name=call.name)
        for index, call in enumerate(made):
            yield ToolCallReady(index=index, call=call)
        yield UsageReport()
        yield Finished(reason="length" if cut != text else "tool_calls" if made else "stop")

    async def aclose(self) -> None:
        """Nothing is held open."""


def _names(tools: Sequence[ToolSchema]) -> frozenset[str]:
    names: list[str] = []
    for tool in tools:
        function: Any = tool.get("function")
        if isinstance(function, Mapping):
            name: Any = cast(Mapping[str, Any], function).get("name")
            names += [name] if isinstance(name, str) else []
    return frozenset(names)


def _announced(step: Step, conversation: Conversation) -> str:
    """Return the text; the first one of a conversation begins by saying that no model is at work."""
    if not step.text:
        return ""
    notices = PHRASES["notice"].values()
    if any(text.startswith(notice) for text in conversation.earlier_texts for notice in notices):
        return step.text
    return f"{say('notice', conversation.language)}\n\n{step.text}"


def _first_tokens(text: str, max_tokens: int | None) -> str:
    """Return as much of the beginning as `max_tokens` allows."""
    if max_tokens is None or fits(text, max_tokens):
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        if count_tokens(text[:middle]) <= max_tokens:
            low = middle
        else:
            high = middle - 1
    return text[:low]
