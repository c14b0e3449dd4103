"""Chooses the context of a question: the nodes retrieved, or an outline of the whole graph."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace

from datasources.base import GraphDataSource
from datasources.builtin_types import types_by_name
from datasources.text import fold
from graphrag.llm.tokens import count_tokens
from graphrag.retrieval.context import Context, ContextOptions, WholeGraph, build_context
from graphrag.retrieval.outline import MAX_NODES, build_outline
from graphrag.retrieval.retrieval_result import GRAPH_ORDER, Retrieval
from graphrag.retrieval.set_questions import LIST_SHARE, complete_lists
from languages.reading import all_words

# Budget of system prompt and context together for a question about the graph as a whole.
OPENING_TOKENS = 3_300

LEAST_DETAIL_TOKENS = 200  # with less, no node could be shown usefully

_WHOLE = all_words("whole_graph", "whole")
_GRAPH = all_words("whole_graph", "graph")
_ASKING = all_words("whole_graph", "asking")
_FILLING = all_words("whole_graph", "filling")


def asks_about_graph(question: str) -> bool:
    """Returns True if a question is about the graph as a whole and names no part of it."""
    words = set(re.findall(r"[^\W_]+", fold(question[:200])))
    is_about = bool(words & _WHOLE) or bool(words & _GRAPH and words & _ASKING)
    return is_about and words <= _WHOLE | _GRAPH | _ASKING | _FILLING


async def context_for(
    source: GraphDataSource,
    retrieval: Retrieval,
    options: ContextOptions,
    *,
    system_tokens: int = 0,
) -> Context:
    """Returns the context of a question within `options.budget_tokens`.

    A small graph is written whole if it fits. Otherwise the context begins with an outline of the
    graph if the question is about the whole graph or no retrieved node is similar to it, and the
    retrieved nodes get the remaining tokens. `system_tokens` is the size of the system prompt.
    """
    graph = await _small_graph(source, retrieval)
    lists = "" if graph is None else await asyncio.to_thread(_lists, retrieval, graph, options)
    if lists:
        # A complete list has the nodes of the answer. Small models would answer with the nodes
        # marked as relevant instead.
        left = options.budget_tokens - count_tokens(lists) - 2
        beside = replace(options, budget_tokens=left, names_relevant=False)
        context = await asyncio.to_thread(build_context, retrieval, beside, count_tokens, graph)
        text = "\n\n".join(part for part in (context.text, lists) if part)
        return replace(context, text=text, tokens=count_tokens(text))
    context = await asyncio.to_thread(build_context, retrieval, options, count_tokens, graph)
    is_about_all = asks_about_graph(retrieval.question)
    room = options.budget_tokens
    if is_about_all:
        room = min(room, OPENING_TOKENS - system_tokens)
    if (context.whole and context.tokens <= room) or not (is_about_all or _is_weak(retrieval)):
        return context
    outline = await build_outline(
        source,
        retrieval.graph,
        language=options.language,
        budget_tokens=room,
        count_tokens=count_tokens,
    )
    if outline is None:
        return context
    left = room - count_tokens(outline) - 2
    details = Context(
        text="", tokens=0, dropped_nodes=len(retrieval.nodes), dropped_edges=len(retrieval.edges)
    )
    if is_about_all and left >= LEAST_DETAIL_TOKENS:
        rest = replace(options, budget_tokens=left)
        details = await asyncio.to_thread(build_context, retrieval, rest, count_tokens)
    text = "\n\n".join(part for part in (outline, details.text) if part)
    return replace(details, text=text, tokens=count_tokens(text), outlined=True)


def _lists(retrieval: Retrieval, graph: WholeGraph, options: ContextOptions) -> str:
    return complete_lists(
        retrieval.question,
        graph,
        language=options.language,
        budget_tokens=int(options.budget_tokens * LIST_SHARE),
        count_tokens=count_tokens,
    )


def _is_weak(retrieval: Retrieval) -> bool:
    """Returns True if no retrieved node is similar to the question."""
    return GRAPH_ORDER in retrieval.notes or all(scored.weak for scored in retrieval.nodes)


async def _small_graph(source: GraphDataSource, retrieval: Retrieval) -> WholeGraph | None:
    """Returns all nodes and edges of a small graph, None for a large one. Raises: GraphNotFound."""
    stats = await source.get_stats(retrieval.graph.key)
    if not 0 < stats.nodes <= MAX_NODES:
        return None
    nodes = await source.get_nodes(retrieval.graph.key)
    edges = await source.get_edges(retrieval.graph.key)
    configs = types_by_name(await source.get_node_configs(sorted({node.type for node in nodes})))
    return WholeGraph(nodes=nodes, edges=edges, configs=configs)
