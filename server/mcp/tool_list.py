"""The tools that MCP clients are shown: ours with the graph's key, and those of the queue of proposals."""

from __future__ import annotations

from typing import Any, Final

import mcp_types as types

from server.mcp.app_resource import tool_ui
from tools.base import Role, Tool, ToolBox

LIST_PROPOSALS, PROPOSAL_STATUS = "list_proposals", "proposal_status"
GRAPH_KEY: Final = "graphKey"
WITHOUT_GRAPH: Final = frozenset({"search_workspace"})
"""Tools about all graphs of a workspace."""
_OUTPUT: Final[dict[str, Any]] = {
    "type": "object",
    "description": "The same answer as in the text: its fields, its tables by name, and its sentences.",
    "properties": {
        "fields": {"type": "object"},
        "tables": {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "object"}}},
        "notes": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["fields", "tables", "notes"],
}
_STATUS: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "graphKey": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "string"},
        "outcome": {"type": "string"},
        "link": {"type": "string"},
    },
    "required": ["id", "graphKey", "title", "status", "link"],
}
_PROPOSED: Final = (
    " Nothing changes by this: a person decides it in the page, at the link of the result. Ask "
    f"{PROPOSAL_STATUS} later."
)


def listed_tools(box: ToolBox, role: Role, default_graph: str | None) -> list[types.Tool]:
    """Return the tools that a role is offered; `default_graph` is used where a call names no graph."""
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
            read_only_hint=not proposes, destructive_hint=False, idempotent_hint=True, open_world_hint=False
        ),
        _meta=tool_ui(tool.name),
    )


def _queue_tools() -> list[types.Tool]:
    reads = types.ToolAnnotations(read_only_hint=True, open_world_hint=False)
    properties = {
        GRAPH_KEY: {"type": "string", "description": "Of one graph only."},
        "status": {
            "type": "string",
            "enum": ["pending", "applied", "rejected", "expired", "stale", "failed"],
            "description": "In one state only; by default what waits for a person.",
        },
        "limit": {"type": "integer", "minimum": 1, "maximum": 100},
    }
    many = {"type": "object", "properties": {"proposals": {"type": "array", "items": _STATUS}}}
    listing = types.Tool(
        name=LIST_PROPOSALS,
        description="List proposed changes, newest first: what waits for a person, or what became of it.",
        input_schema={"type": "object", "properties": properties, "additionalProperties": False},
        output_schema={**many, "required": ["proposals"]},
        annotations=reads,
    )
    identity = {"id": {"type": "string", "description": "The proposal's id, as `ap_…`."}}
    one = types.Tool(
        name=PROPOSAL_STATUS,
        description="Say what became of a proposal: whether it waits, who decided it and why.",
        input_schema={
            "type": "object",
            "properties": identity,
            "required": ["id"],
            "additionalProperties": False,
        },
        output_schema=_STATUS,
        annotations=reads,
    )
    return [listing, one]
