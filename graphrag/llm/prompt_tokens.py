"""Counts the tokens of a request: its messages and the tools it offers."""

from __future__ import annotations

from collections.abc import Sequence

from graphrag.llm.base import AssistantMessage, Message, ToolSchema
from graphrag.llm.tokens import count_tokens
from tools.toon import compact_json

TOKENS_A_MESSAGE = 4
"""What the formats spend on a message beside its text. Source: OpenAI's cookbook on counting tokens."""


def prompt_tokens(messages: Sequence[Message], tools: Sequence[ToolSchema] = ()) -> int:
    """Return about how many tokens a request has."""
    tokens = sum(count_tokens(compact_json(dict(tool))) for tool in tools)
    return tokens + sum(count_tokens(text_of(message)) + TOKENS_A_MESSAGE for message in messages)


def text_of(message: Message) -> str:
    """Return all of a message that is sent, in one text."""
    if isinstance(message, AssistantMessage) and (message.tool_calls or message.reasoning):
        calls = "".join(call.name + call.arguments for call in message.tool_calls)
        return message.content + message.reasoning + calls
    return message.content
