"""Checks the claims of an answer against its graph, and marks those that are not in it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from datasources.base import GraphDataSource
from datasources.builtin_types import types_by_name
from datasources.errors import SourceError
from datasources.types import Document, Edge
from graphrag.agent.claimed_part import read_claimed
from graphrag.agent.claims import may_claim, not_in_graph
from graphrag.agent.history import calls_of
from graphrag.agent.named_graph import NamedGraph
from graphrag.agent.reply import Reply
from graphrag.agent.turn import Turn
from graphrag.llm.base import SystemMessage, ToolMessage

WHOLE_NODES = 2_000  # a larger graph is not read whole; what the answer names is looked up
CHECK_S = 3.0  # an answer that cannot be compared within this time is not marked

log = logging.getLogger(__name__)


async def mark_claims(source: GraphDataSource, turn: Turn, reply: Reply) -> None:
    """Adds to an answer its claims that are not in the graph, if they could be checked."""
    if not turn.graph_key or not (reply.missing_nodes or may_claim(reply.text)):
        return
    try:
        async with asyncio.timeout(CHECK_S):
            answer, named, shown = await _read(source, turn.graph_key, reply.text)
            held = await asyncio.to_thread(_held, turn, shown)
            claims = await asyncio.to_thread(
                not_in_graph,
                answer,
                named,
                held=held,
                asked=turn.conversation.asked,
                proposed=[
                    call.arguments
                    for call in calls_of(turn.messages)
                    if call.name.startswith("propose_")
                ],
                linked=reply.missing_nodes,
            )
    except (SourceError, TimeoutError) as exc:
        log.warning("answer_not_checked", extra={"error": type(exc).__name__})
        return
    if claims:
        turn.conversation.mark_claims(claims)
        log.debug("answer_marked", extra={"nodes": len(claims.nodes), "edges": len(claims.edges)})


async def _read(
    source: GraphDataSource, graph_key: str, answer: str
) -> tuple[str, NamedGraph, Sequence[Document]]:
    """Returns the answer, the graph to compare it with, and the documents whose texts it may name.

    A large graph is read only as far as the answer names it, and a long answer about it only in its
    first lines.
    """
    graph = await source.get_graph(graph_key)
    edges = list[Edge]()
    if (await source.get_stats(graph_key)).nodes > WHOLE_NODES:
        part = await read_claimed(source, graph_key, answer)
        answer = part.answer
        named = part.named
        nodes = part.alike
    else:
        nodes = await source.get_nodes(graph_key)
        edges = await source.get_edges(graph_key)
        named = await asyncio.to_thread(NamedGraph.of, nodes, edges)
    configs = types_by_name(await source.get_node_configs(sorted({node.type for node in nodes})))
    return answer, named, (graph, *nodes, *edges, *configs.values())


def _held(turn: Turn, shown: Sequence[Document]) -> str:
    """Returns all text that an answer may have names from."""
    return "\n".join((*(document.to_json().decode() for document in shown), *_given(turn)))


def _given(turn: Turn) -> list[str]:
    """Returns the model's input besides the graph. An error repeats the model's own text."""
    return [
        message.content
        for message in turn.messages
        if isinstance(message, SystemMessage)
        or (isinstance(message, ToolMessage) and not message.is_error)
    ]
