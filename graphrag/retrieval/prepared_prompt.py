"""Builds the messages for a question: instructions, nodes always sent, context and question.

Used by the agent and by the commands that show a prompt.
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
from graphrag.prompts import PromptInputs, RunFacts, render_system_prompt
from graphrag.retrieval.always_sent import ALWAYS_TOKENS, write_always_sent
from graphrag.retrieval.context import CONTEXT_MARKER, Context, ContextOptions
from graphrag.retrieval.retrieval_result import Retrieval
from graphrag.retrieval.retriever import Retrieves
from graphrag.retrieval.turn_context import context_for
from tools.base import Role


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedPrompt:
    """The messages for a question, in order, and the retrieval and context behind them."""

    instructions: SystemMessage
    always_sent: SystemMessage | None
    context_message: SystemMessage
    question: UserMessage
    retrieval: Retrieval
    context: Context

    @property
    def messages(self) -> tuple[tuple[str, str, int], ...]:
        """The messages as (role, text, tokens)."""
        system = (self.instructions, self.always_sent, self.context_message)
        parts = [("system", part.content) for part in system if part is not None]
        parts.append(("user", self.question.content))
        return tuple((role, content, count_tokens(content)) for role, content in parts)

    def as_dict(self) -> Mapping[str, Any]:
        messages = self.messages
        return {
            "messages": [
                {"role": role, "content": text, "tokens": size} for role, text, size in messages
            ],
            "tokens": sum(size for _, _, size in messages),
            "tokenizer": tokenizer_name(),
        }

    def context_as_dict(self) -> dict[str, Any]:
        """Returns the retrieval and its context as JSON, without the other messages."""
        retrieval = self.retrieval
        context = self.context
        shown = {*context.nodes, *context.brief}
        return {
            "graph": retrieval.graph.key,
            "question": retrieval.question,
            "mode": retrieval.mode,
            "nodes": [
                {
                    "key": scored.node.key,
                    "type": scored.node.type,
                    "sheet": scored.node.sheet,
                    "score": round(scored.score, 4),
                    "weak": scored.weak,
                    "reasons": list(scored.reasons),
                    "shown": scored.node.key in shown,
                }
                for scored in retrieval.nodes
            ],
            "edges": list(context.edges),
            "types": list(context.types),
            "outline": context.outlined,
            "whole": context.whole,
            "dropped_nodes": context.dropped_nodes,
            "tokens": context.tokens,
            "tokenizer": tokenizer_name(),
            "notes": list(retrieval.notes),
            "ms": {stage: round(value, 3) for stage, value in retrieval.ms.items()},
            "text": context.text,
        }


async def write_instructions(
    source: GraphDataSource,
    graph: Graph,
    *,
    role: Role,
    language: Language,
    compact: bool = False,
    run: RunFacts | None = None,
) -> SystemMessage:
    """Returns the system prompt of a conversation about a graph, or of a run.

    Raises: GraphNotFound, PromptError.
    """
    inputs = PromptInputs(
        graph=graph,
        stats=await source.get_stats(graph.key),
        configs=types_by_name(await source.get_node_configs()),
        role=role,
        language=language,
        compact=compact,
        run=run,
    )
    return SystemMessage(content=render_system_prompt(inputs))


async def prepare_prompt(
    source: GraphDataSource,
    retriever: Retrieves,
    graph_key: str,
    question: str,
    *,
    role: Role,
    options: ContextOptions,
    instructions: SystemMessage | None = None,
    compact: bool = False,
    run: RunFacts | None = None,
    always_tokens: int = ALWAYS_TOKENS,
    context_room: Callable[[int, int], int] | None = None,
) -> PreparedPrompt:
    """Retrieves nodes for a question and writes the messages for the model.

    A conversation passes the `instructions` that it already has. `compact` is for models with a
    small context window. `context_room` takes the tokens of all system messages and the wanted
    budget, and returns the budget of the context. `always_tokens` is the budget for nodes that are
    always sent.

    Raises: GraphNotFound, PromptError.
    """
    retrieval = await retriever.retrieve(graph_key, question)
    if instructions is None:
        instructions = await write_instructions(
            source,
            retrieval.graph,
            role=role,
            language=options.language,
            compact=compact,
            run=run,
        )
    always = await write_always_sent(
        source, retrieval.graph, language=options.language, budget=always_tokens
    )
    system_tokens = sum(count_tokens(part.content) for part in (instructions, always) if part)
    if context_room is not None:
        options = replace(options, budget_tokens=context_room(system_tokens, options.budget_tokens))
    options = replace(options, with_types=False)  # the instructions contain the types
    context = await context_for(source, retrieval, options, system_tokens=system_tokens)
    return PreparedPrompt(
        instructions=instructions,
        always_sent=always,
        context_message=SystemMessage(
            content=f"{CONTEXT_MARKER}\n{context.text}", stable=False, whole_graph=context.whole
        ),
        question=UserMessage(content=question, retrieved=_shown(retrieval, context)),
        retrieval=retrieval,
        context=context,
    )


def _shown(retrieval: Retrieval, context: Context) -> tuple[str, ...]:
    """Returns the keys of the retrieved nodes that the context shows, most relevant first."""
    shown = {*context.nodes, *context.brief}
    return tuple(scored.node.key for scored in retrieval.nodes if scored.node.key in shown)
