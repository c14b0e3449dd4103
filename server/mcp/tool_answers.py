"""The tools that MCP clients are shown and call: ours with a key of a graph, and
those of the proposals.

A call runs by the same guard as a model's calls, and does never more than propose.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Iterable, Mapping
from typing import Any, Final

import mcp_types as types

from datasources.builtin_types import types_by_name
from datasources.types import Edge, Graph, Node, NodeTypeConfig
from graphrag.agent.requested_calls import Answered, Requested
from graphrag.agent.tool_calls import CallPlace, ToolCalls
from graphrag.approvals import Approval, outcome_text, title
from graphrag.i18n import Language, text
from graphrag.importers.nodius import node_document
from graphrag.llm.base import ToolCall
from graphrag.workers import run_limited
from server.approval_documents import approval_document, review_link
from server.error_responses import error_response, note
from server.mcp.app_resource import RESULT_META, tool_ui
from server.workspaces import WorkspaceContext, WorkspaceResolver
from tools.answer_tables import parse_answer
from tools.arguments import ARGUMENT_LIMITS, is_deeper
from tools.base import Role, Tool, ToolBox
from tools.compact import cut
from tools.schema_values import read_by_schema
from tools.secret_texts import redacted

MAX_AROUND: Final = 60
MAX_ITEMS: Final = 60
MAX_CHARS: Final = 2_000
MAX_DEPTH: Final = 8
MAX_BYTES: Final = 256_000
_NODE: Final = ("_key", "type", "sheet", "posX", "posY", "size", "handles", "data")
_TYPE: Final = ("type", "displayName", "description", "category", "icon", "border")
_NOT_SHOWN: Final = {"action", "result", "code_diffs", "comments", "objection"}


async def proposal_view(
    place: WorkspaceContext, approval: Approval, language: Language
) -> dict[str, Any]:
    """Return `{proposal, link, around, names}`, for a result's `_meta` under
    `app_resource.RESULT_META`.

    Not its `structuredContent`: some programs give that to their model, and this may be long.
    `proposal` is as REST gives it, without its action; `names` are those of the people in it,
    by user id.
    Raises: SourceError.
    """
    source = place.services.source
    people = {approval.asker, approval.decision.by if approval.decision else ""}
    names = await place.workspace.worker.runner.members.names()
    graph = await source.get_graph(approval.graph_key)
    keys = list(dict.fromkeys(_touched(approval.preview)))[:MAX_AROUND]
    near = await source.get_neighborhood(approval.graph_key, keys, max_depth=1, limit=MAX_AROUND)
    types = types_by_name(await source.get_node_configs(sorted({node.type for node in near.nodes})))
    link = review_link(place.services.settings, approval)

    def written() -> dict[str, Any]:
        document = approval_document(place, approval, language)
        proposal = document.model_dump(
            mode="json", by_alias=True, exclude_none=True, exclude=_NOT_SHOWN
        )
        around = _around(graph, near.nodes, near.edges, types.values())
        called = {user: name for user, name in names.items() if user in people}
        view = {
            "proposal": _bounded(proposal),
            "link": link,
            "around": _bounded(around),
            "names": called,
        }
        return _fitting(view)

    return await run_limited(written)


def _touched(preview: dict[str, Any]) -> Iterable[str]:
    """Yield the keys of nodes that a preview names; such as it adds are in no graph yet."""
    for name in ("nodesChanged", "nodesMoved"):
        yield from (change["key"] for change in preview.get(name, []))
    yield from (node["_key"] for node in preview.get("nodesRemoved", []))
    for name in ("edgesAdded", "edgesRemoved"):
        for edge in preview.get(name, []):
            yield from (edge["source"], edge["target"])


def _around(
    graph: Graph, nodes: Iterable[Node], edges: Iterable[Edge], types: Iterable[NodeTypeConfig]
) -> dict[str, Any]:
    shown = {
        node.key: {k: v for k, v in node_document(node).items() if k in _NODE} for node in nodes
    }
    named = {node["type"] for node in shown.values()}
    documents = (
        {**config.to_document(), "type": config.type} for config in types if config.type in named
    )
    return {
        "graph": {"name": graph.name, "sheetsList": graph.sheets_list},
        "nodes": list(shown.values()),
        "edges": [edge.to_document() for edge in edges],
        "types": [{k: v for k, v in document.items() if k in _TYPE} for document in documents],
    }


def _bounded(value: Any, depth: int = 0) -> Any:
    """Return a JSON value with few items, short texts and no secrets."""
    if isinstance(value, str):
        text = redacted(value[: 2 * MAX_CHARS]).text
        return text if len(text) <= MAX_CHARS else f"{text[:MAX_CHARS]}…"
    if isinstance(value, dict | list) and depth > MAX_DEPTH:
        return "…"
    if isinstance(value, dict):
        items: list[tuple[str, Any]] = list(value.items())  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        return {key: _bounded(each, depth + 1) for key, each in items[:MAX_ITEMS]}
    if isinstance(value, list):
        return [_bounded(each, depth + 1) for each in value[:MAX_ITEMS]]  # pyright: ignore[reportUnknownVariableType]
    return value


def _fitting(view: dict[str, Any]) -> dict[str, Any]:
    """Leave out the surroundings, then the preview, of what is too long even so; it says that
    it is cut.
    """
    if _size(view) > MAX_BYTES:
        view = {**view, "around": {"graph": view["around"]["graph"]}}
    if _size(view) > MAX_BYTES:
        view = {**view, "proposal": {**view["proposal"], "preview": {}, "cut": True}}
    return view


def _size(view: dict[str, Any]) -> int:
    return len(json.dumps(view, ensure_ascii=False).encode())


MAX_LISTED = 100
_STATUSES = ("pending", "applied", "rejected", "expired", "stale", "failed")


async def answer_call(
    places: WorkspaceResolver,
    name: str,
    arguments: Mapping[str, Any],
    *,
    default_graph: str | None,
    language: Language,
) -> types.CallToolResult:
    """Return what a call gives; what refuses it is a result too, for the model to correct."""
    try:
        if is_deeper(arguments, ARGUMENT_LIMITS.depth):
            return failed(
                f"ERROR invalid_arguments\n- nested more than {ARGUMENT_LIMITS.depth} levels deep"
            )
        if name == LIST_PROPOSALS:
            return await _listed(places, read_by_schema(_LISTED, arguments), language)
        if name == PROPOSAL_STATUS:
            place, approval = await places.of_approval(str(arguments.get("id", ""))[:200])
            status = _status(place, approval, language)
            became = status["outcome"] or status["status"]
            return _result(f"{status['title']}: {became}\n{status['link']}", status)
        rest = dict(arguments)
        if name in WITHOUT_GRAPH:
            return await _ran(await places.one(), "", name, rest, language)
        graph_key = rest.pop(GRAPH_KEY, None) or default_graph
        if not isinstance(graph_key, str):
            return failed(f"ERROR invalid_arguments\n- {GRAPH_KEY}: name the graph")
        place = await places.of_graph(graph_key[:200])
        return await _ran(place, place.graph.key, name, rest, language)
    except Exception as exc:  # noqa: BLE001 - whatever it was, a call gets its answer
        note(exc)
        answer = error_response(exc, language)
        return failed(f"ERROR {answer.code}\n- {answer.message}")


def failed(said: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=said)], is_error=True)


def _result(said: str, structured: Mapping[str, Any]) -> types.CallToolResult:
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=said)], structured_content=dict(structured)
    )


async def _ran(
    place: WorkspaceContext,
    graph_key: str,
    name: str,
    arguments: Mapping[str, Any],
    language: Language,
) -> types.CallToolResult:
    services = place.services
    calls = ToolCalls(services.box, services.approvals, log=services.call_log)
    call = ToolCall(id=f"mcp_{secrets.token_hex(12)}", name=name, arguments=json.dumps(arguments))
    made = [
        one
        async for one in calls.run(Requested(calls=[call]), _call_place(place, graph_key, language))
    ]
    (answered,) = made
    if answered.approval is not None:
        return await _proposed(place, answered.approval, language)
    return await run_limited(_read, answered, calls.limits.result_chars)


def _call_place(place: WorkspaceContext, graph_key: str, language: Language) -> CallPlace:
    person = place.person
    client = person.client.to_document() if person.client else {}
    named = [person.workspace, person.user_id, graph_key, client.get("keyId"), client.get("name")]
    # What one program proposes about a graph may build on what it proposed before.
    thread_id = f"mcp_{hashlib.sha256(json.dumps(named).encode()).hexdigest()[:40]}"
    model = client.get("name") or "mcp"
    return place.services.call_place(
        graph_key, person, language, thread_id=thread_id, turn=0, model=model
    )


def _read(answered: Answered, most: int) -> types.CallToolResult:
    """Return what a read gave, as text and as the parts of that text; secrets are
    masked in both.
    """
    said = cut(answered.result.text, most)
    if answered.result.is_error:
        return failed(said)
    parts = parse_answer(said)
    tables = {name or "rows": list(rows) for name, rows in parts.tables.items()}
    return _result(
        said, {"fields": dict(parts.fields), "tables": tables, "notes": list(parts.notes)}
    )


async def _proposed(
    place: WorkspaceContext, approval: Approval, language: Language
) -> types.CallToolResult:
    """Return what was proposed, small; what a view draws of it stands beside, where no
    model reads it.
    """
    view = await proposal_view(place, approval, language)
    status = _status(place, approval, language)
    said = text(
        "mcp_proposed", language, title=status["title"], id=approval.id, link=status["link"]
    )
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=said)],
        # Some programs give their model this in place of the text.
        structured_content={**status, "outcome": said},
        _meta={RESULT_META: view},
    )


async def _listed(
    places: WorkspaceResolver, arguments: Mapping[str, Any], language: Language
) -> types.CallToolResult:
    status = arguments.get("status", "pending")
    limit = arguments.get("limit", 20)
    if status not in _STATUSES or not isinstance(limit, int) or not 1 <= limit <= MAX_LISTED:
        allowed = ", ".join(_STATUSES)
        return failed(
            f"ERROR invalid_arguments\n- status: one of {allowed}; limit: 1 to {MAX_LISTED}"
        )
    graph = arguments.get(GRAPH_KEY)
    rows: list[dict[str, str]] = []
    for place in await places.all():
        found = await place.services.approvals.list(
            graph_key=graph if isinstance(graph, str) else None,
            status=status,
            limit=limit,
            by=place.person,
        )
        rows += [_status(place, one, language) for one in found]
    rows = rows[:limit]
    lines = [f"{row['id']} {row['status']} {row['graphKey']}: {row['title']}" for row in rows]
    return _result("\n".join(lines) or text("mcp_no_proposals", language), {"proposals": rows})


def _status(place: WorkspaceContext, approval: Approval, language: Language) -> dict[str, str]:
    return {
        "id": approval.id,
        "graphKey": approval.graph_key,
        "title": title(approval, language),
        "status": approval.status,
        "outcome": outcome_text(approval, language, to_person=True),
        "link": review_link(place.services.settings, approval),
    }


LIST_PROPOSALS, PROPOSAL_STATUS = "list_proposals", "proposal_status"
GRAPH_KEY: Final = "graphKey"
WITHOUT_GRAPH: Final = frozenset({"search_workspace"})
"""Tools about all graphs of a workspace."""
_OUTPUT: Final[dict[str, Any]] = {
    "type": "object",
    "description": "The same answer as in the text: its fields, its tables by name, and its sentences.",
    "properties": {
        "fields": {"type": "object"},
        "tables": {
            "type": "object",
            "additionalProperties": {"type": "array", "items": {"type": "object"}},
        },
        "notes": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["fields", "tables", "notes"],
}
_STATUS: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        name: {"type": "string"}
        for name in ("id", "graphKey", "title", "status", "outcome", "link")
    },
    "required": ["id", "graphKey", "title", "status", "link"],
}
_LISTED: Final[dict[str, Any]] = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        GRAPH_KEY: {"type": "string", "description": "Of one graph only."},
        "status": {
            "type": "string",
            "enum": [*_STATUSES],
            "description": "In one state only; by default what waits for a person.",
        },
        "limit": {"type": "integer", "minimum": 1, "maximum": MAX_LISTED},
    },
}
_PROPOSED: Final = (
    " Nothing changes by this: a person decides it in the page, at the link of the result. Ask "
    f"{PROPOSAL_STATUS} later."
)


def listed_tools(box: ToolBox, role: Role, default_graph: str | None) -> list[types.Tool]:
    """Return the tools that a role is offered; `default_graph` is used where a call
    names no graph.
    """
    ours = [_tool(tool, default_graph) for tool in box.offered(role)]
    return [*ours, *_queue_tools()]


def _tool(tool: Tool[Any], default_graph: str | None) -> types.Tool:
    function = tool.schema()["function"]
    schema: dict[str, Any] = dict(function["parameters"])
    if tool.name not in WITHOUT_GRAPH:
        said = "Key of the graph, as search_workspace and the resources name it."
        said += f" Default: {default_graph}." if default_graph else ""
        key = {"type": "string", "description": said}
        schema["properties"] = {GRAPH_KEY: key, **schema.get("properties", {})}
        if default_graph is None:
            schema["required"] = [GRAPH_KEY, *schema.get("required", [])]
    proposes = tool.effect == "proposes"
    return types.Tool(
        name=tool.name,
        description=tool.description + (_PROPOSED if proposes else ""),
        input_schema=schema,
        output_schema=_STATUS if proposes else _OUTPUT,
        annotations=types.ToolAnnotations(
            read_only_hint=not proposes,
            destructive_hint=False,
            idempotent_hint=True,
            open_world_hint=False,
        ),
        _meta=tool_ui(tool.name),
    )


def _queue_tools() -> list[types.Tool]:
    reads = types.ToolAnnotations(read_only_hint=True, open_world_hint=False)
    many = {"type": "object", "properties": {"proposals": {"type": "array", "items": _STATUS}}}
    identity = {"id": {"type": "string", "description": "The proposal's id, as `ap_…`."}}
    asked = {"type": "object", "additionalProperties": False}
    return [
        types.Tool(
            name=LIST_PROPOSALS,
            description="List proposed changes, newest first: what waits for a person, or what became of it.",
            input_schema={**_LISTED},
            output_schema={**many, "required": ["proposals"]},
            annotations=reads,
        ),
        types.Tool(
            name=PROPOSAL_STATUS,
            description="Say what became of a proposal: whether it waits, who decided it and why.",
            input_schema={**asked, "properties": identity, "required": ["id"]},
            output_schema=_STATUS,
            annotations=reads,
        ),
    ]
