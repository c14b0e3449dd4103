"""Opens a turn: what the model is told of the graph before it reads the person's message."""

from __future__ import annotations

from dataclasses import replace

from datasources.base import GraphDataSource
from datasources.builtin_types import types_by_name
from graphrag.context import CONTEXT_MARKER, ContextOptions
from graphrag.prompts.system import PromptInputs, render_system_prompt
from graphrag.providers.base import Message, SystemMessage, UserMessage
from graphrag.retriever import Retriever
from graphrag.tokens import count_tokens
from graphrag.turn.running import RunningTurn
from graphrag.turn_context import context_for


async def open_turn(
    turn: RunningTurn,
    message: str,
    source: GraphDataSource,
    retriever: Retriever,
    options: ContextOptions,
    *,
    rounds: int,
) -> None:
    """Retrieve for the message and put context and message at the conversation's end.

    A new thread gets its instructions, once. Nothing is stored. Raises: GraphNotFound, PromptError.
    """
    found = await retriever.retrieve(turn.graph_key, message)
    if not any(map(is_instruction, turn.messages)):
        inputs = PromptInputs(
            graph=found.graph,
            stats=await source.get_stats(turn.graph_key),
            configs=types_by_name(await source.get_node_configs()),
            role=turn.person.role,
            language=turn.language,
        )
        turn.messages.insert(0, SystemMessage(content=render_system_prompt(inputs)))
    instructions = sum(count_tokens(m.content) for m in turn.messages if is_instruction(m))
    built = await context_for(
        source, found, replace(options, language=turn.language), system_tokens=instructions
    )
    context = SystemMessage(content=f"{CONTEXT_MARKER}\n{built.text}", stable=False)
    turn.begin(context, UserMessage(content=message, retrieved=built.nodes), rounds=rounds)


def is_instruction(message: Message) -> bool:
    """Return whether a message is the system prompt."""
    return isinstance(message, SystemMessage) and message.stable
