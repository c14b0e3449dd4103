"""Checks what an answer claims against the graph of its conversation, and marks what
is not there.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from datasources.base import GraphDataSource
from datasources.builtin_types import types_by_name
from datasources.errors import SourceError
from datasources.types import Document, Edge, Node
from graphrag.agent.claims import NamedGraph, NotInGraph, may_claim, not_in_graph
from graphrag.agent.history import calls_of
from graphrag.agent.reply import Reply
from graphrag.agent.running_turn import RunningTurn
from graphrag.llm.base import SystemMessage, ToolMessage

MAX_NODES = 2_000
"""Answers about larger graphs are not checked: it would take too long to read all of the graph."""

log = logging.getLogger(__name__)


async def mark_claims(source: GraphDataSource, turn: RunningTurn, reply: Reply) -> None:
    """Keeps with an answer what it claims that the graph does not have; nothing where that
    is not known.
    """
    if not turn.graph_key or not (reply.missing_nodes or may_claim(reply.text)):
        return
    try:
        if (await source.get_stats(turn.graph_key)).nodes > MAX_NODES:
            return
        graph = await source.get_graph(turn.graph_key)
        nodes = await source.get_nodes(turn.graph_key)
        edges = await source.get_edges(turn.graph_key)
        configs = types_by_name(
            await source.get_node_configs(sorted({node.type for node in nodes}))
        )
    except SourceError as exc:
        log.warning("answer_not_checked", extra={"error": type(exc).__name__})
        return
    shown = (graph, *nodes, *edges, *configs.values())
    claims = await asyncio.to_thread(_claims, turn, reply, (nodes, edges), shown)
    if claims:
        turn.mark_answer(claims)
        log.debug("answer_marked", extra={"nodes": len(claims.nodes), "edges": len(claims.edges)})


def _claims(
    turn: RunningTurn,
    reply: Reply,
    graph: tuple[Sequence[Node], Sequence[Edge]],
    shown: Sequence[Document],
) -> NotInGraph:
    """Returns what the answer claims; `shown` are the documents whose texts it may name. Runs
    in a thread.
    """
    held = "\n".join((*(document.to_json().decode() for document in shown), *_given(turn)))
    proposed = [
        call.arguments for call in calls_of(turn.messages) if call.name.startswith("propose_")
    ]
    return not_in_graph(
        reply.text,
        NamedGraph.of(*graph),
        held=held,
        asked=turn.asked,
        proposed=proposed,
        linked=reply.missing_nodes,
    )


def _given(turn: RunningTurn) -> list[str]:
    """Returns what the model was given to read besides the graph; an error repeats what
    the model wrote.
    """
    return [
        message.content
        for message in turn.messages
        if isinstance(message, SystemMessage)
        or (isinstance(message, ToolMessage) and not message.is_error)
    ]
