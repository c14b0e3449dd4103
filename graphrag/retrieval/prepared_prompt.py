"""Builds what a model is sent for a question: system prompt, nodes always sent,
retrieved context, question.

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
from graphrag.prompts.library import PromptInputs, render_system_prompt
from graphrag.retrieval.always_sent import ALWAYS_TOKENS, write_always_sent
from graphrag.retrieval.context import CONTEXT_MARKER, Context, ContextOptions
from graphrag.retrieval.retrieval_result import Retrieval
from graphrag.retrieval.retriever import Retrieves
from graphrag.retrieval.turn_context import context_for
from tools.base import Role, SessionKind


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedPrompt:
    """The messages of a question, in order, and what they were made of."""

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
        found = self.retrieval
        built = self.context
        shown = {*built.nodes, *built.brief}
        return {
            "graph": found.graph.key,
            "question": found.question,
            "mode": found.mode,
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
                for scored in found.nodes
            ],
            "edges": list(built.edges),
            "types": list(built.types),
            "outline": built.outlined,
            "whole": built.whole,
            "dropped_nodes": built.dropped_nodes,
            "tokens": built.tokens,
            "tokenizer": tokenizer_name(),
            "notes": list(found.notes),
            "ms": {stage: round(value, 3) for stage, value in found.ms.items()},
            "text": built.text,
        }


async def write_instructions(
    source: GraphDataSource,
    graph: Graph,
    *,
    role: Role,
    language: Language,
    compact: bool = False,
    session_kind: SessionKind = "chat",
    calls: int | None = None,
) -> SystemMessage:
    """Return the system prompt of a conversation about a graph, or of a run, whose model is
    asked so often.

    Raises: GraphNotFound, PromptError.
    """
    inputs = PromptInputs(
        graph=graph,
        stats=await source.get_stats(graph.key),
        configs=types_by_name(await source.get_node_configs()),
        role=role,
        language=language,
        compact=compact,
        session_kind=session_kind,
        calls=calls,
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
    session_kind: SessionKind = "chat",
    calls: int | None = None,
    always_tokens: int = ALWAYS_TOKENS,
    context_room: Callable[[int, int], int] | None = None,
) -> PreparedPrompt:
    """Retrieve for the question and write the messages; a conversation keeps the
    `instructions` it has.

    `compact`: for a small window. `context_room` says after instructions of so many tokens how many
    of those wanted the context may have; `always_tokens`, how many what is always sent may have.

    Raises: GraphNotFound, PromptError.
    """
    found = await retriever.retrieve(graph_key, question)
    if instructions is None:
        instructions = await write_instructions(
            source,
            found.graph,
            role=role,
            language=options.language,
            compact=compact,
            session_kind=session_kind,
            calls=calls,
        )
    always = await write_always_sent(
        source, found.graph, language=options.language, budget=always_tokens
    )
    system_tokens = sum(count_tokens(part.content) for part in (instructions, always) if part)
    if context_room is not None:
        options = replace(options, budget_tokens=context_room(system_tokens, options.budget_tokens))
    options = replace(options, with_types=False)  # the instructions have them
    context = await context_for(source, found, options, system_tokens=system_tokens)
    return PreparedPrompt(
        instructions=instructions,
        always_sent=always,
        context_message=SystemMessage(
            content=f"{CONTEXT_MARKER}\n{context.text}", stable=False, whole_graph=context.whole
        ),
        question=UserMessage(content=question, retrieved=_shown(found, context)),
        retrieval=found,
        context=context,
    )


def _shown(found: Retrieval, context: Context) -> tuple[str, ...]:
    """Returns the keys of the nodes found that the context shows, most relevant first."""
    shown = {*context.nodes, *context.brief}
    return tuple(scored.node.key for scored in found.nodes if scored.node.key in shown)
