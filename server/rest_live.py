"""REST of a graph as people edit it: one look at all of it, and who is there.

A look tells its time: whoever then listens on the WebSocket knows which messages it holds already.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

from fastapi import APIRouter, Request, Response

from datasources.builtin_types import types_by_name
from datasources.types import NodeTypeConfig
from graphrag.client.documents import Id
from graphrag.client.graph_pages import GraphPages, Step, view_steps
from graphrag.client.view_documents import Editor, EditorList, GraphView
from graphrag.workers import run_limited
from server.auth import Caller
from server.openapi_errors import ERRORS
from server.requests import Workspace, places_of, state_of
from server.whole_graph import whole_graph

router = APIRouter(prefix="/api/graphs", tags=["graphs"], responses=ERRORS)
_SHOWN = ("_key", "workspace", "version", "displayName", "description", "category", "icon", "border")


@router.get("/{graph_key}/view", response_model=GraphView, response_model_exclude_none=True)
async def view(request: Request, who: Caller, graph_key: Id, workspace: Workspace = None) -> Response:
    """Return a graph with its nodes, edges and usable types, as they are at one moment."""
    place, graph = await places_of(request, who, workspace).of_graph(graph_key)
    configs = types_by_name(await place.services.source.get_node_configs()).values()
    types = await run_limited(lambda: [_type(config) for config in configs])

    def steps(content: GraphPages, timestamp: int) -> AsyncIterator[Step]:
        return view_steps(content, types, timestamp)

    return await whole_graph(request, place, graph, steps)


def _type(config: NodeTypeConfig) -> dict[str, Any]:
    """Return what is shown of a type; the page it draws, which can be large, is not."""
    document = config.to_document()
    shown = {name: document[name] for name in _SHOWN if document.get(name) is not None}
    made = {name: document["node"][name] for name in ("handles", "size") if name in document["node"]}
    return {**shown, **made, "type": config.type, "process": config.node.process}


@router.get("/{graph_key}/editors", response_model=EditorList)
async def editors(request: Request, who: Caller, graph_key: Id, workspace: Workspace = None) -> EditorList:
    """Return who edits a graph through this server now, and how many of its nodes are left to embed."""
    place, _ = await places_of(request, who, workspace).of_graph(graph_key)
    live = state_of(request).live.get(place.person.workspace, graph_key)
    members = [] if live is None else live.members
    windows = Counter((member.user_id, member.sheet) for member in members)
    return EditorList(
        embedding=place.services.embedding_queue.pending(graph_key),
        editors=[
            Editor(user_id=user, sheet=sheet, windows=count)
            for (user, sheet), count in sorted(windows.items())
        ],
    )
