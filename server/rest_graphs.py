"""REST of graphs: list, look at, import, export."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Any, Literal, cast
from urllib.parse import quote

from fastapi import APIRouter, Query, Request, Response

from datasources.types import Document, Edge, Graph, Node
from graphrag.client.documents import (
    EdgePage,
    GraphDetail,
    GraphList,
    GraphSummary,
    Id,
    ImportAnswer,
    NodePage,
)
from graphrag.client.graph_pages import GraphPages, Pages, Step, export_steps, json_steps
from graphrag.importers.exchange import import_bytes
from server.auth import Caller
from server.openapi_errors import ERRORS
from server.requests import Workspace, places_of, state_of
from server.whole_graph import whole_graph
from server.workspaces import WorkspaceContext

router = APIRouter(prefix="/api/graphs", tags=["graphs"], responses=ERRORS)
Sheet = Annotated[str | None, Query(min_length=1, max_length=200, description="Of one sheet only.")]
PAGE = 5000
PIECE = 500


@router.get("", response_model=GraphList, response_model_exclude_none=True)
async def graphs(request: Request, who: Caller, workspace: Workspace = None) -> GraphList:
    """List the graphs of the caller's workspaces."""
    found: list[GraphSummary] = []
    for place in await places_of(request, who, workspace).all():
        for graph in await place.services.source.list_graphs():
            found.append(GraphSummary.model_validate(await _summary(place, graph)))
    return GraphList(graphs=found)


async def _summary(place: WorkspaceContext, graph: Graph) -> dict[str, Any]:
    stats = await place.services.source.get_stats(graph.key)
    embedder = place.services.embedder
    return {
        "graphKey": graph.key,
        "name": graph.name,
        "workspace": graph.workspace,
        "description": graph.description,
        "category": graph.category,
        "sheets": graph.sheets_list,
        "nodes": stats.nodes,
        "edges": stats.edges,
        "embedded": stats.vectors.get(embedder.model, 0) if embedder else 0,
        "embedding": place.services.embedding_queue.pending(graph.key),
        "revision": graph.revision,
        "createdTime": graph.created_time,
        "lastUpdatedTime": graph.last_updated_time,
        "types": dict(stats.types),
    }


_WORKFLOW: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "A workflow's file: Nodius JSON, an n8n workflow or a Node-RED flow.",
        "content": {"application/json": {"schema": {}}},
    }
}


@router.post("/import", response_model=ImportAnswer, openapi_extra=_WORKFLOW)
async def import_graph(
    request: Request,
    who: Caller,
    workspace: Workspace = None,
    graph_key: Annotated[
        str | None,
        Query(alias="graphKey", min_length=1, max_length=200, description="Key of the graph it becomes."),
    ] = None,
    file_name: Annotated[
        str, Query(alias="fileName", min_length=1, max_length=200, description="What the file is called.")
    ] = "workflow.json",
    replace: Annotated[
        bool, Query(description="Make a graph as the file is, whatever people changed in it since.")
    ] = False,
) -> ImportAnswer:
    """Import a workflow as a new graph, or merge it into the graph that it made before. For editors.

    Of a graph that is there, what only the file changed is taken and what people changed stays; where
    both changed the same, `approval` proposes the file's version. `replace` takes the file as it is.
    Where people sign in, a new graph's key ends with a mark of its workspace: see `graphKey` of the answer.
    """
    who.require("editor")
    place = await places_of(request, who, workspace).one()
    done = await import_bytes(
        place.services.approvals,
        await request.body(),
        place.person,
        file_name=file_name,
        graph_key=graph_key,
        is_shared=state_of(request).authenticator.is_configured,
        replaces=replace,
    )
    place.services.embedding_queue.add(done.graph_key, None)
    return ImportAnswer(
        graph_key=done.graph_key,
        format=done.format,
        action=cast(Literal["created", "updated", "unchanged"], done.action),
        nodes=done.nodes,
        edges=done.edges,
        taken=done.taken,
        kept=done.kept,
        conflicts=done.conflicts,
        approval=done.approval,
        remarks=list(done.remarks),
    )


@router.get("/{graph_key}", response_model=GraphDetail, response_model_exclude_none=True)
async def graph(request: Request, who: Caller, graph_key: Id, workspace: Workspace = None) -> GraphDetail:
    """Return a graph with its counts and the node types that it can use."""
    place, found = await places_of(request, who, workspace).of_graph(graph_key)
    configs = await place.services.source.get_node_configs()
    return GraphDetail.model_validate(
        {**await _summary(place, found), "configs": [config.to_document() for config in configs]}
    )


@router.get("/{graph_key}/nodes", response_model=NodePage, response_model_exclude_none=True)
async def nodes(
    request: Request,
    who: Caller,
    graph_key: Id,
    workspace: Workspace = None,
    sheet: Sheet = None,
    after: Annotated[
        str | None, Query(max_length=200, description="Nodes of greater keys: `next` of the page before.")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=PAGE, description="At most so many.")] = PAGE,
) -> Response:
    """Return the nodes of a graph, by key, in pages."""
    place, _ = await places_of(request, who, workspace).of_graph(graph_key)
    found = await place.services.source.get_nodes(graph_key, sheet=sheet, after=after, limit=limit + 1)
    return await _page(request, "nodes", found, limit)


@router.get("/{graph_key}/edges", response_model=EdgePage, response_model_exclude_none=True)
async def edges(
    request: Request,
    who: Caller,
    graph_key: Id,
    workspace: Workspace = None,
    sheet: Sheet = None,
    after: Annotated[
        str | None, Query(max_length=200, description="Edges of greater keys: `next` of the page before.")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=PAGE, description="At most so many.")] = PAGE,
) -> Response:
    """Return the edges of a graph, by key, in pages."""
    place, _ = await places_of(request, who, workspace).of_graph(graph_key)
    found = await place.services.source.get_edges(graph_key, sheet=sheet, after=after, limit=limit + 1)
    return await _page(request, "edges", found, limit)


async def _page(request: Request, name: str, found: Sequence[Node | Edge], limit: int) -> Response:
    """Answer with the first `limit` of what was found."""

    async def pieces() -> AsyncIterator[Sequence[Node | Edge]]:
        for i in range(0, min(limit, len(found)), PIECE):
            yield found[i : min(i + PIECE, limit)]

    following = found[limit - 1].key if len(found) > limit else None
    steps = json_steps({name: Pages(pages=pieces(), dump=Document.to_json), "next": following})
    return await state_of(request).downloads.answer(request, steps)


@router.get("/{graph_key}/export", response_model=dict[str, Any])
async def export(request: Request, who: Caller, graph_key: Id, workspace: Workspace = None) -> Response:
    """Return a graph as one Nodius JSON document, which `import` takes."""
    place, found = await places_of(request, who, workspace).of_graph(graph_key)

    def steps(content: GraphPages, _: int) -> AsyncIterator[Step]:
        return export_steps(place.services.source, content)

    name = f"attachment; filename*=UTF-8''{quote(found.key, safe='')}.json"
    return await whole_graph(request, place, found, steps, headers={"Content-Disposition": name})
