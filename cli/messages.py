"""Prints the messages of a stored conversation or run."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

from cli import render
from cli.turn_display import readable
from graphrag.llm.base import AssistantMessage, Message, SystemMessage, ToolMessage, UserMessage

MAX_LINES = 6  # of a tool's result: a heading and the first entries
MAX_LINE_CHARS = 200


def show_messages(messages: Iterable[Message], *, full: bool = False) -> None:
    """Prints messages. Results of tools are cut unless `full`."""
    for message in messages:
        match message:
            case UserMessage():
                render.line()
                render.quote("> ", message.content, "bold")
            case AssistantMessage() if message.content.strip():
                render.passage(textwrap.indent(readable(message.content), "  "))
            case ToolMessage():
                _show_result(message, full=full)
            case SystemMessage() if message.kind is not None:
                render.line(f"[{message.summary or message.content}]", "dim")
            case _:
                pass


def _show_result(message: ToolMessage, *, full: bool) -> None:
    lines = message.content.splitlines()
    shown = lines if full else lines[:MAX_LINES]
    render.line(f"[{message.name}]", "dim")
    for line in shown:
        render.line(f"  {line if full else line[:MAX_LINE_CHARS]}", "dim")
    if len(lines) > len(shown):
        render.line(f"  … {len(lines) - len(shown)} more (--full shows them)", "dim")
