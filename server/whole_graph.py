"""Answers with a whole graph at one moment: the live one where people edit it, else the stored one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping

from fastapi import Request, Response

from datasources.errors import RevisionConflict
from datasources.types import Graph
from graphrag.client.graph_pages import GraphPages, Step
from server.requests import state_of
from server.workspaces import WorkspaceContext

ATTEMPTS = 3


async def whole_graph(
    request: Request,
    place: WorkspaceContext,
    graph: Graph,
    steps: Callable[[GraphPages, int], AsyncIterator[Step]],
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Answer with what `steps` make of the graph and of the time up to which it holds live edits (or 0).

    Raises: RevisionConflict where others store changes faster than the graph can be read.
    """
    source, state = place.services.source, state_of(request)
    found = graph.revision
    for _ in range(ATTEMPTS):
        live = state.live.get(source.workspace, graph.key)
        if live is not None:
            # Nothing is awaited between these: the time is that of all of it.
            content, seen = GraphPages.held(live.document(), live.nodes, live.edges), live.timestamp
            return await state.downloads.answer(request, steps(content, seen), headers)
        answer = await state.downloads.answer(request, steps(GraphPages.stored(source, graph), 0), headers)
        try:
            found = (await source.get_graph(graph.key)).revision
        except BaseException:
            answer.close()
            raise
        if found == graph.revision:
            return answer
        answer.close()
        graph = await source.get_graph(graph.key)
    raise RevisionConflict(graph_key=graph.key, expected=graph.revision, actual=found)
