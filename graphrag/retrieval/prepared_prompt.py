"""Builds what a model is sent for a question: system prompt, retrieved context, the question.

The one builder of it, for the agent and for the commands that show it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from datasources.base import GraphDataSource
from datasources.builtin_types import types_by_name
from datasources.types import Graph
from graphrag.i18n import Language
from graphrag.llm.base import SystemMessage, UserMessage
from graphrag.llm.tokens import count_tokens, tokenizer_name
from graphrag.prompts.system import PromptInputs, render_system_prompt
from graphrag.retrieval.context import CONTEXT_MARKER, Context, ContextOptions
from graphrag.retrieval.retriever import Retrieval, Retriever
from graphrag.retrieval.turn_context import context_for
from tools.base import Role


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedPrompt:
    """The three messages of a question, in order, and what they were made of."""

    instructions: SystemMessage
    context_message: SystemMessage
    question: UserMessage
    retrieval: Retrieval
    context: Context

    @property
    def messages(self) -> tuple[tuple[str, str, int], ...]:
        """The messages as (role, text, tokens)."""
        parts = (("system", self.instructions), ("system", self.context_message), ("user", self.question))
        return tuple((role, part.content, count_tokens(part.content)) for role, part in parts)

    def as_dict(self) -> Mapping[str, Any]:
        messages = self.messages
        return {
            "messages": [{"role": role, "content": text, "tokens": size} for role, text, size in messages],
            "tokens": sum(size for _, _, size in messages),
            "tokenizer": tokenizer_name(),
        }


async def write_instructions(
    source: GraphDataSource, graph: Graph, *, role: Role, language: Language, compact: bool = False
) -> SystemMessage:
    """Return the system prompt of a conversation about a graph. Raises: GraphNotFound, PromptError."""
    inputs = PromptInputs(
        graph=graph,
        stats=await source.get_stats(graph.key),
        configs=types_by_name(await source.get_node_configs()),
        role=role,
        language=language,
        compact=compact,
    )
    return SystemMessage(content=render_system_prompt(inputs))


async def prepare_prompt(
    source: GraphDataSource,
    retriever: Retriever,
    graph_key: str,
    question: str,
    *,
    role: Role,
    options: ContextOptions,
    instructions: SystemMessage | None = None,
    compact: bool = False,
    context_room: Callable[[int], int] | None = None,
) -> PreparedPrompt:
    """Retrieve for the question and write the messages; a conversation keeps the `instructions` it has.

    `compact`: for a small window. `context_room` says how many tokens the context may have at most after
    instructions of so many.

    Raises: GraphNotFound, PromptError.
    """
    found = await retriever.retrieve(graph_key, question)
    if instructions is None:
        instructions = await write_instructions(
            source, found.graph, role=role, language=options.language, compact=compact
        )
    system_tokens = count_tokens(instructions.content)
    if context_room is not None:
        options = replace(options, budget_tokens=min(options.budget_tokens, context_room(system_tokens)))
    context = await context_for(source, found, options, system_tokens=system_tokens)
    return PreparedPrompt(
        instructions=instructions,
        context_message=SystemMessage(content=f"{CONTEXT_MARKER}\n{context.text}", stable=False),
        question=UserMessage(content=question, retrieved=context.nodes),
        retrieval=found,
        context=context,
    )
