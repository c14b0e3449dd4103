"""What a model is told of the graph for a question: what was found for it, or the graph as a whole."""

from __future__ import annotations

from dataclasses import replace

from datasources.base import GraphDataSource
from graphrag.context import Context, ContextOptions, build_context, build_context_of
from graphrag.offline.questions import asks_about_graph
from graphrag.outline import build_outline
from graphrag.retriever import Retrieval
from graphrag.tokens import count_tokens

OPENING_TOKENS = 3_300
"""For the system prompt and the context together, where the graph as a whole is asked about."""

LEAST_DETAIL_TOKENS = 200
"""Less room than this shows no node in a way that helps."""


async def context_for(
    source: GraphDataSource, found: Retrieval, options: ContextOptions, *, system_tokens: int
) -> Context:
    """Return the context of a question, within `options.budget_tokens`, to stand after a system prompt.

    Asked about the graph as a whole, it begins with its outline, where that fits; then what was found
    takes the room that is left, without the types, which the system prompt has.
    """
    outline = None
    room = min(options.budget_tokens, OPENING_TOKENS - system_tokens)
    if asks_about_graph(found.question):
        outline = await build_outline(
            source, found.graph, language=options.language, budget_tokens=room, count_tokens=count_tokens
        )
    if outline is None:
        return build_context_of(found, options, count_tokens)
    left = room - count_tokens(outline) - 2
    details = Context(text="", tokens=0, dropped_nodes=len(found.nodes), dropped_edges=len(found.edges))
    if left >= LEAST_DETAIL_TOKENS:
        rest = replace(options, budget_tokens=left, with_types=False)
        details = build_context(found.nodes, found.edges, found.configs, found.graph, rest, count_tokens)
    text = "\n\n".join(part for part in (outline, details.text) if part)
    return replace(details, text=text, tokens=count_tokens(text), outlined=True)
