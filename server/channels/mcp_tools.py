"""The tools that MCP clients are shown: those of a graph, with its key, and those of proposals."""

from __future__ import annotations

from typing import Any, Final

import mcp_types as types

from server.mcp.app_resource import tool_ui
from tools.base import Role, Tool
from tools.tool_box import ToolBox

LIST_PROPOSALS = "list_proposals"
PROPOSAL_STATUS = "proposal_status"
GRAPH_KEY: Final = "graphKey"
# Tools about all graphs of a workspace.
WITHOUT_GRAPH: Final = frozenset({"search_workspace"})
MAX_LISTED = 100  # proposals
STATUSES = ("pending", "applied", "rejected", "expired", "stale", "failed")

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
LIST_ARGUMENTS: Final[dict[str, Any]] = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        GRAPH_KEY: {"type": "string", "description": "Of one graph only."},
        "status": {
            "type": "string",
            "enum": [*STATUSES],
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
    """Returns the tools that a role is offered. Calls without a graph are about `default_graph`."""
    ours = [_tool(tool, default_graph) for tool in box.offered(role)]
    return [*ours, *_queue_tools()]


def _tool(tool: Tool[Any], default_graph: str | None) -> types.Tool:
    function = tool.schema()["function"]
    schema: dict[str, Any] = dict(function["parameters"])
    if tool.name not in WITHOUT_GRAPH:
        description = "Key of the graph, as search_workspace and the resources name it."
        if default_graph:
            description += f" Default: {default_graph}."
        key = {"type": "string", "description": description}
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
            input_schema={**LIST_ARGUMENTS},
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
