"""Checks that a conversation is valid, by our rule and in both wire formats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphrag.llm.anthropic_messages import to_request
from graphrag.llm.base import AssistantMessage, Message, ModelOptions, ToolMessage
from graphrag.llm.openai_chat import to_messages


def check_valid(messages: Sequence[Message]) -> None:
    """Fail unless each call is answered once, right after it was asked, also as both
    formats send it.
    """
    _check_ours(messages)
    check_openai(to_messages(messages))
    check_anthropic(to_request(messages, (), ModelOptions())["messages"])


def _check_ours(messages: Sequence[Message]) -> None:
    waiting: list[str] = []
    seen: set[str] = set()
    for message in messages:
        if isinstance(message, ToolMessage):
            assert waiting, f"an answer to no call: {message.call_id!r}"
            assert message.call_id == waiting.pop(0)
            continue
        assert not waiting, f"calls without answer: {waiting}"
        if isinstance(message, AssistantMessage):
            waiting = [call.id for call in message.tool_calls]
            assert len(set(waiting)) == len(waiting), "an id stands twice in a step"
            assert not seen & set(waiting), "an id stands twice in a conversation"
            seen |= set(waiting)
    assert not waiting, f"calls without answer: {waiting}"


def check_openai(messages: list[dict[str, Any]]) -> None:
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            assert message["tool_call_id"] == waiting.pop(0)
            assert isinstance(message["content"], str)
            continue
        assert not waiting
        waiting = [call["id"] for call in message.get("tool_calls", ())]
        assert waiting or message["content"] is not None
    assert not waiting


def check_anthropic(turns: list[dict[str, Any]]) -> None:
    asked: list[str] = []
    for number, turn in enumerate(turns):
        assert turn["role"] == ("user", "assistant")[number % 2]
        assert turn["content"]
        results = [b["tool_use_id"] for b in turn["content"] if b["type"] == "tool_result"]
        assert sorted(results) == sorted(asked), "each call is answered in the very next turn"
        asked = [b["id"] for b in turn["content"] if b["type"] == "tool_use"]
    assert not asked
