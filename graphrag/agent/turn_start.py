"""Opens a turn: puts what was prepared for the person's message at the conversation's end."""

from __future__ import annotations

from dataclasses import replace

from datasources.base import GraphDataSource
from graphrag.agent.model_caller import ModelCaller
from graphrag.agent.running_turn import RunningTurn
from graphrag.llm.base import SystemMessage
from graphrag.retrieval.context import ContextOptions
from graphrag.retrieval.prepared_prompt import prepare_prompt
from graphrag.retrieval.retriever import Retriever


async def open_turn(
    turn: RunningTurn,
    message: str,
    source: GraphDataSource,
    retriever: Retriever,
    options: ContextOptions,
    asker: ModelCaller,
    *,
    rounds: int,
) -> None:
    """Retrieve for the message and put context and message at the conversation's end.

    A new thread gets its instructions, once. Nothing is stored. Raises: GraphNotFound, PromptError.
    """
    known = next((m for m in turn.messages if isinstance(m, SystemMessage) and m.stable), None)
    prepared = await prepare_prompt(
        source,
        retriever,
        turn.graph_key,
        message,
        role=turn.person.role,
        options=replace(options, language=turn.language),
        instructions=known,
        compact=asker.is_small,
        context_room=lambda system_tokens: asker.context_room(turn, system_tokens, message),
    )
    if known is None:
        turn.messages.insert(0, prepared.instructions)
    turn.begin(prepared.context_message, prepared.question, rounds=rounds)
    turn.reasons = {scored.node.key: scored.reasons for scored in prepared.retrieval.nodes}
    turn.words_only = prepared.retrieval.words_only
