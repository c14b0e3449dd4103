"""Chooses the context of a question: what was found for it, or an outline of the whole graph."""

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

OPENING_TOKENS = 3_300
"""For the system prompt and the context together, where the graph as a whole is asked about."""

LEAST_DETAIL_TOKENS = 200
"""Less room than this shows no node in a way that helps."""


_WHOLE = all_words("whole_graph", "whole")
_GRAPH = all_words("whole_graph", "graph")
_ASKING = all_words("whole_graph", "asking")
_FILLING = all_words("whole_graph", "filling")


def asks_about_graph(question: str) -> bool:
    """Returns whether a question is about the graph as a whole and names no part of it."""
    words = set(re.findall(r"[^\W_]+", fold(question[:200])))
    is_about = bool(words & _WHOLE) or bool(words & _GRAPH and words & _ASKING)
    return is_about and words <= _WHOLE | _GRAPH | _ASKING | _FILLING


async def context_for(
    source: GraphDataSource, found: Retrieval, options: ContextOptions, *, system_tokens: int = 0
) -> Context:
    """Returns the context of a question, within `options.budget_tokens`, after a system prompt
    of so many.

    A small graph is written whole where that fits. Else a question about the graph as a whole, and
    one to which nothing found is near, gets the outline of the graph first; what was found takes
    the room that is left.
    """
    graph = await _small_graph(source, found)
    lists = "" if graph is None else await asyncio.to_thread(_lists, found, graph, options)
    if lists:
        # A complete list says which nodes are meant: small models answer with those found
        # in its place.
        left = options.budget_tokens - count_tokens(lists) - 2
        beside = replace(options, budget_tokens=left, names_relevant=False)
        context = await asyncio.to_thread(build_context, found, beside, count_tokens, graph)
        text = "\n\n".join(part for part in (context.text, lists) if part)
        return replace(context, text=text, tokens=count_tokens(text))
    context = await asyncio.to_thread(build_context, found, options, count_tokens, graph)
    is_about_all = asks_about_graph(found.question)
    room = options.budget_tokens
    if is_about_all:
        room = min(room, OPENING_TOKENS - system_tokens)
    if (context.whole and context.tokens <= room) or not (is_about_all or _is_weak(found)):
        return context
    outline = await build_outline(
        source,
        found.graph,
        language=options.language,
        budget_tokens=room,
        count_tokens=count_tokens,
    )
    if outline is None:
        return context
    left = room - count_tokens(outline) - 2
    details = Context(
        text="", tokens=0, dropped_nodes=len(found.nodes), dropped_edges=len(found.edges)
    )
    if is_about_all and left >= LEAST_DETAIL_TOKENS:
        rest = replace(options, budget_tokens=left)
        details = await asyncio.to_thread(build_context, found, rest, count_tokens)
    text = "\n\n".join(part for part in (outline, details.text) if part)
    return replace(details, text=text, tokens=count_tokens(text), outlined=True)


def _lists(found: Retrieval, graph: WholeGraph, options: ContextOptions) -> str:
    return complete_lists(
        found.question,
        graph,
        language=options.language,
        budget_tokens=int(options.budget_tokens * LIST_SHARE),
        count_tokens=count_tokens,
    )


def _is_weak(found: Retrieval) -> bool:
    """Returns whether nothing that was found is near the question."""
    return GRAPH_ORDER in found.notes or all(scored.weak for scored in found.nodes)


async def _small_graph(source: GraphDataSource, found: Retrieval) -> WholeGraph | None:
    """Returns all of a graph that is small enough to be written whole or
    outlined. Raises: GraphNotFound.
    """
    stats = await source.get_stats(found.graph.key)
    if not 0 < stats.nodes <= MAX_NODES:
        return None
    nodes = await source.get_nodes(found.graph.key)
    edges = await source.get_edges(found.graph.key)
    configs = types_by_name(await source.get_node_configs(sorted({node.type for node in nodes})))
    return WholeGraph(nodes=nodes, edges=edges, configs=configs)
