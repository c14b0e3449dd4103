"""Opens a turn: what the model is told of the graph before it reads the person's message."""

from __future__ import annotations

from dataclasses import replace

from datasources.base import GraphDataSource
from datasources.builtin_types import types_by_name
from graphrag.context import ContextOptions, build_context_of
from graphrag.prepared_prompt import CONTEXT_MARKER
from graphrag.prompts.system import PromptInputs, render_system_prompt
from graphrag.providers.base import SystemMessage
from graphrag.retriever import Retriever
from graphrag.tokens import count_tokens
from graphrag.turns import RunningTurn


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
    if not any(isinstance(m, SystemMessage) and m.stable for m in turn.messages):
        inputs = PromptInputs(
            graph=found.graph,
            stats=await source.get_stats(turn.graph_key),
            configs=types_by_name(await source.get_node_configs()),
            role=turn.person.role,
            language=turn.language,
        )
        turn.messages.insert(0, SystemMessage(content=render_system_prompt(inputs)))
    built = build_context_of(found, replace(options, language=turn.language), count_tokens)
    context = SystemMessage(content=f"{CONTEXT_MARKER}\n{built.text}", stable=False)
    turn.begin(context, message, rounds=rounds)
