"""REST of a graph as people edit it: one look at all of it, and who is there.

A look tells its time: whoever then listens on the WebSocket knows which messages it holds already.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from fastapi import APIRouter, Request

from datasources.builtin_types import types_by_name
from datasources.types import NodeTypeConfig
from graphrag.service_documents import Id
from graphrag.view_documents import Editor, EditorList, GraphView
from server.auth import Caller
from server.documents import ERRORS
from server.requests import Workspace, places_of, state_of

router = APIRouter(prefix="/api/graphs", tags=["graphs"], responses=ERRORS)
_SHOWN = ("_key", "workspace", "version", "displayName", "description", "category", "icon", "border")


@router.get("/{graph_key}/view", response_model=GraphView, response_model_exclude_none=True)
async def view(request: Request, who: Caller, graph_key: Id, workspace: Workspace = None) -> GraphView:
    """Return a graph with its nodes, edges and usable types, as they are at one moment."""
    place, graph = await places_of(request, who, workspace).of_graph(graph_key)
    source, live_graphs = place.services.source, state_of(request).live
    configs = await source.get_node_configs()
    timestamp = 0
    nodes, edges = await source.get_nodes(graph_key), await source.get_edges(graph_key)
    live = live_graphs.get(source.workspace, graph_key)
    if live is not None:
        # Nothing is awaited between these: the time is that of all of it.
        graph, nodes, edges = live.document(), live.nodes, live.edges
        timestamp = live.timestamp
    return GraphView(
        graph=graph.to_document(),
        nodes=[node.to_document() for node in nodes],
        edges=[edge.to_document() for edge in edges],
        types=[_type(config) for config in types_by_name(configs).values()],
        timestamp=timestamp,
    )


def _type(config: NodeTypeConfig) -> dict[str, Any]:
    """Return what is shown of a type; the page it draws, which can be large, is not."""
    document = config.to_document()
    shown = {name: document[name] for name in _SHOWN if document.get(name) is not None}
    made = {name: document["node"][name] for name in ("handles", "size") if name in document["node"]}
    return {**shown, **made, "type": config.type, "process": config.node.process}


@router.get("/{graph_key}/editors", response_model=EditorList)
async def editors(request: Request, who: Caller, graph_key: Id, workspace: Workspace = None) -> EditorList:
    """Return who edits a graph through this server now."""
    place, _ = await places_of(request, who, workspace).of_graph(graph_key)
    live = state_of(request).live.get(place.person.workspace, graph_key)
    members = [] if live is None else live.members
    windows = Counter((member.user_id, member.sheet) for member in members)
    return EditorList(
        editors=[
            Editor(user_id=user, sheet=sheet, windows=count)
            for (user, sheet), count in sorted(windows.items())
        ]
    )
