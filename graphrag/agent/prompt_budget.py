"""Divides a model's window among the answer, the tools, and the context of a question.

The rule is the same for every window. Instructions, messages and the answer's room come first. Of
the rest, the tools that a turn needs have a fixed share, the context gets what it asks for, and
useful tools get what is left. So a larger window never leaves less to the context.

Decision: windows under SMALL_WINDOW get short instructions and only essential tools, and no read
tools if the context shows the whole graph: a model of 1.5 billion parameters called the wrong one
of seven.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, final

from graphrag.llm.tokens import prompt_tokens
from tools.base import Tool

SMALL_WINDOW: Final = 16_000  # tokens; a smaller window gets short instructions and essential tools
WRITERS_WINDOW: Final = 32_000
"""A larger window is offered write tools in every turn, so that a provider's prompt cache stays
valid. A smaller one is offered them only if a change is asked for.
"""

ANSWER_TOKENS: Final = 4_096
ANSWER_SHARE: Final = 1 / 8
SAFETY: Final = 0.9  # usable share of the window: our tokenizer is not the model's

TOOLS_SHARE: Final = 0.4  # of the free room, for essential tools at most
RESULTS_SHARE: Final = 1 / 16  # of the free room, for what tools return
LEAST_CONTEXT_TOKENS: Final = 200  # less shows no node in a way that helps


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSize:
    """A tool and the tokens of its schema."""

    tokens: int
    writes: bool
    essential: bool


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """Tokens for the context, and the indices of the offered tools."""

    context: int
    tools: tuple[int, ...]


def size_of(tool: Tool[Any]) -> ToolSize:
    """Returns a tool with its size."""
    tokens = prompt_tokens((), [tool.schema()])
    return ToolSize(tokens=tokens, writes=tool.effect == "proposes", essential=tool.essential)


def is_small(window: int) -> bool:
    """Returns whether a window gets short instructions and only essential tools."""
    return window < SMALL_WINDOW


def answer_room(window: int) -> int:
    """Returns the tokens of a window that are reserved for the answer."""
    return min(ANSWER_TOKENS, int(window * ANSWER_SHARE))


def prompt_room(window: int, *, share: float = 1.0) -> int:
    """Returns the maximum tokens of a prompt in a window."""
    return int((window - answer_room(window)) * SAFETY * share)


def share_out(
    window: int,
    tools: Sequence[ToolSize],
    *,
    taken: int,
    wanted: int,
    changing: bool,
    sees_all: bool = False,
) -> Shares:
    """Returns the shares of the context and the tools of a turn.

    `taken`: tokens that must be sent. `wanted`: tokens of the context, 0 if it is part of `taken`.
    `changing`: a change is asked for. `sees_all`: the whole graph is part of `taken`. Tools come in
    the order of their use.
    """
    free = max(prompt_room(window) - taken, 0)
    free -= int(free * RESULTS_SHARE)
    places = [
        i
        for i, tool in enumerate(tools)
        if _is_useful(tool, window, changing=changing, sees_all=sees_all)
    ]
    essential = [i for i in places if tools[i].essential]
    limit = int(free * TOOLS_SHARE) if wanted else free
    kept = _fitting(essential, tools, limit)
    reserved = min(limit, sum(tools[i].tokens for i in essential))
    context = min(max(free - reserved, LEAST_CONTEXT_TOKENS), wanted)
    left = free - context - sum(tools[i].tokens for i in kept)
    kept += _fitting([i for i in places if i not in kept], tools, left)
    return Shares(context=context, tools=tuple(sorted(kept)))


def _is_useful(tool: ToolSize, window: int, *, changing: bool, sees_all: bool) -> bool:
    if sees_all and not tool.writes and is_small(window):
        return False
    if tool.writes and not changing and window < WRITERS_WINDOW:
        return False
    return tool.essential or not is_small(window)


def _fitting(places: Sequence[int], tools: Sequence[ToolSize], limit: int) -> list[int]:
    kept: list[int] = []
    for i in places:
        if tools[i].tokens <= limit:
            kept.append(i)
            limit -= tools[i].tokens
    return kept
