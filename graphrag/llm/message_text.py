"""Writes the texts of messages so that every provider takes them."""

from __future__ import annotations

import json
from typing import Literal

from graphrag.llm.base import Message, SystemMessage, ToolCall

UNREADABLE = "INVALID_JSON"
"""The key under which arguments that are no JSON go back to the model. Source: Anthropic's page on
fine-grained tool streaming, which advises it."""

LateSystem = Literal["system", "user"]
"""As what a system message after the first turn is sent: some chat templates allow none there."""


def clean(text: str) -> str:
    """Return the text with half surrogate pairs, which UTF-8 cannot hold, as `?`."""
    return text.encode(errors="replace").decode()


def is_json(text: str) -> bool:
    """Return whether a text is one whole JSON value."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def readable_arguments(call: ToolCall) -> str:
    """Return a call's arguments as JSON of an object, whatever was written."""
    text = call.arguments.strip() or "{}"
    if is_json(text) and text.startswith("{"):
        return clean(text)
    return json.dumps({UNREADABLE: clean(call.arguments)}, ensure_ascii=False)


def is_stable(message: Message) -> bool:
    """Return whether a message is instructions that stand unchanged in every call of a thread."""
    return isinstance(message, SystemMessage) and message.stable
