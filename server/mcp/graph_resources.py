"""Resources of MCP: the list of graphs, and the outline, context, nodes and history of each."""

from __future__ import annotations

import base64
import json
from collections.abc import Awaitable, Callable
from typing import Final
from urllib.parse import quote, unquote, urlsplit

import mcp_types as types
from mcp.shared.exceptions import MCPError

from datasources.errors import GraphNotFound
from graphrag.i18n import Language
from graphrag.retrieval.turn_context import context_for
from graphrag.workers import run_limited
from server.mcp import app_resource
from server.mcp.tool_answers import answer_call
from server.workspaces import WorkspaceContext, WorkspaceResolver
from tools.compact import cut
from tools.toon import encode_table

SCHEME: Final = "nodius"
PAGE: Final = 100
MAX_CHARS: Final = 60_000
TOON: Final = "text/x-toon"
_TEMPLATES: Final = (
    (
        "graph",
        "{graph}",
        "Outline of a graph: what it is for, its types, its way from start to end.",
    ),
    ("context", "{graph}/context/{question}", "What a model needs of a graph for a question."),
    ("node", "{graph}/node/{node}", "One node with its data, its code and its handles."),
    ("history", "{graph}/history", "Who changed what in a graph, newest first."),
    (
        "connections",
        "{graph}/connections",
        "The workflows of running servers that a graph is connected with, and where it stands.",
    ),
)


def templates() -> list[types.ResourceTemplate]:
    """Returns the address templates of the parts of a graph."""
    return [
        types.ResourceTemplate(
            name=name, uri_template=f"{SCHEME}://graph/{rest}", description=said, mime_type=TOON
        )
        for name, rest, said in _TEMPLATES
    ]


async def listed(places: WorkspaceResolver, cursor: str | None) -> types.ListResourcesResult:
    """Returns a page of the graphs, by name. Raises: MCPError for an invalid cursor."""
    begin = _offset(cursor)
    resources: list[types.Resource] = []
    for place in await places.all():
        for graph in await place.services.source.list_graphs():
            uri = f"{SCHEME}://graph/{quote(graph.key, safe='')}"
            description = graph.description or None
            resources.append(
                types.Resource(name=graph.name, uri=uri, description=description, mime_type=TOON)
            )
    resources.sort(key=lambda one: (one.name, one.uri))
    view = types.Resource(
        name="proposal view", uri=app_resource.URI, mime_type=app_resource.MIME_TYPE,
        description="Shows a proposal's result", _meta=app_resource.resource_meta(),
    )  # fmt: skip
    resources.append(view)
    following = base64.urlsafe_b64encode(json.dumps({"offset": begin + PAGE}).encode()).decode()
    rest = following if len(resources) > begin + PAGE else None
    return types.ListResourcesResult(resources=resources[begin : begin + PAGE], next_cursor=rest)


async def read(places: WorkspaceResolver, uri: str, language: Language) -> types.ReadResourceResult:
    """Returns a resource. Raises: MCPError (-32002) for a missing one."""
    if uri == app_resource.URI:
        html = await run_limited(app_resource.app_html)
        page = types.TextResourceContents(
            uri=uri, mime_type=app_resource.MIME_TYPE, text=html, _meta=app_resource.resource_meta()
        )
        return types.ReadResourceResult(contents=[page])
    parts = urlsplit(uri)
    keys = [unquote(part) for part in parts.path.split("/")[1:]]
    if parts.scheme != SCHEME or parts.netloc != "graph" or not keys:
        raise _unknown(uri)
    try:
        content = await _part(places, keys, language)
    except GraphNotFound:
        raise _unknown(uri) from None
    if content is None:
        raise _unknown(uri)
    return types.ReadResourceResult(
        contents=[types.TextResourceContents(uri=uri, mime_type=TOON, text=cut(content, MAX_CHARS))]
    )


async def _part(places: WorkspaceResolver, keys: list[str], language: Language) -> str | None:
    async def tool(name: str, **arguments: str) -> str | None:
        given = {"graphKey": keys[0], **arguments}
        found = await answer_call(places, name, given, default_graph=None, language=language)
        (shown,) = found.content
        return shown.text if isinstance(shown, types.TextContent) and not found.is_error else None

    place = await places.of_graph(keys[0][:200])
    parts: dict[tuple[int, str], Callable[[], Awaitable[str | None]]] = {
        (1, ""): lambda: tool("read_graph_overview"),
        (2, "history"): lambda: tool("read_history"),
        (2, "connections"): lambda: _connections(place, keys[0]),
        (3, "node"): lambda: tool("read_node_detail", nodeKey=keys[2]),
        (3, "context"): lambda: _context(place, keys[0], keys[2]),
    }
    work = parts.get((len(keys), keys[1] if len(keys) > 1 else ""))
    return None if work is None else await work()


async def _context(place: WorkspaceContext, graph_key: str, question: str) -> str:
    services = place.services
    retrieved = await services.retriever.retrieve(graph_key, question[:2_000])
    return (await context_for(services.source, retrieved, services.context_options)).text


async def _connections(place: WorkspaceContext, graph_key: str) -> str:
    """Returns where a graph stands to the servers that it is connected with."""
    linked = await place.workspace.connections.of_graph(graph_key, place.person)
    rows = [
        {
            "connection": connection.key,
            "server": connection.kind,
            "workflow": graph.link.name,
            "state": graph.standing,
            "proposal": graph.link.approval,
        }
        for connection, graph in linked
    ]
    columns = ("connection", "server", "workflow", "state", "proposal")
    return encode_table("connections", rows, columns)


def _unknown(uri: str) -> MCPError:
    return MCPError(code=types.INVALID_PARAMS, message="no such resource", data={"uri": uri[:300]})


def _offset(cursor: str | None) -> int:
    if cursor is None:
        return 0
    try:
        offset = json.loads(base64.urlsafe_b64decode(cursor.encode()))["offset"]
    except (ValueError, KeyError, TypeError):
        offset = None
    if not isinstance(offset, int) or not 0 <= offset <= 10**7:
        raise MCPError(
            code=types.INVALID_PARAMS, message="this cursor is none of ours: begin without one"
        )
    return offset
