"""What a model would be sent for a first question: system prompt, retrieved context, the question."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from datasources.base import GraphDataSource
from datasources.builtin_types import types_by_name
from graphrag.context import CONTEXT_MARKER, Context, ContextOptions
from graphrag.prompts.system import PromptInputs, render_system_prompt
from graphrag.retriever import Retrieval, RetrievalOptions, Retriever
from graphrag.tokens import count_tokens, tokenizer_name
from graphrag.turn_context import context_for
from tools.base import Role


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedPrompt:
    """The messages in order, as (role, text), and how large each is. Units: `tokens` per message."""

    messages: tuple[tuple[str, str], ...]
    tokens: tuple[int, ...]
    retrieval: Retrieval
    context: Context
    tokenizer: str

    def as_dict(self) -> Mapping[str, Any]:
        return {
            "messages": [
                {"role": role, "content": text, "tokens": tokens}
                for (role, text), tokens in zip(self.messages, self.tokens, strict=True)
            ],
            "tokens": sum(self.tokens),
            "tokenizer": self.tokenizer,
        }


async def prepare_prompt(
    source: GraphDataSource,
    retriever: Retriever,
    graph_key: str,
    question: str,
    *,
    role: Role,
    context_options: ContextOptions,
    retrieval_options: RetrievalOptions | None = None,
) -> PreparedPrompt:
    """Retrieve for the question and write the messages. Raises: GraphNotFound, PromptError."""
    found = await retriever.retrieve(graph_key, question, retrieval_options)
    inputs = PromptInputs(
        graph=found.graph,
        stats=await source.get_stats(graph_key),
        configs=types_by_name(await source.get_node_configs()),
        role=role,
        language=context_options.language,
    )
    system = render_system_prompt(inputs)
    context = await context_for(source, found, context_options, system_tokens=count_tokens(system))
    messages = (
        ("system", system),
        ("system", f"{CONTEXT_MARKER}\n{context.text}"),
        ("user", question),
    )
    return PreparedPrompt(
        messages=messages,
        tokens=tuple(count_tokens(text) for _, text in messages),
        retrieval=found,
        context=context,
        tokenizer=tokenizer_name(),
    )
