"""The ten tools that propose a change; none of them changes anything.

Running one judges the change against the graph and returns it, resolved, as `data`. Whoever runs
the tools turns that into an approval for a person to decide.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any

from pydantic import Field

from tools.base import Problem, Role, Tool, ToolArguments, ToolContext, ToolResult, failure
from tools.proposal_parts import (
    ConfigureNodeType,
    CreateEdge,
    CreateNode,
    CreateNodeWithEdges,
    DeleteEdge,
    DeleteNode,
    MoveNode,
    Part,
    ReorganizeLayout,
    UpdateNode,
)
from tools.proposals import Batch, describe, parse_action, to_document
from tools.read_tools.views import missing_node
from tools.write_tools.checks import Fault
from tools.write_tools.resolve import resolve_action
from tools.write_tools.snapshot import load_snapshot

WRITERS: frozenset[Role] = frozenset(("editor", "reviewer", "admin"))
MAX_FAULTS = 8


class Reasoned(Part):
    """What every proposal says besides what it is."""

    reason: Annotated[
        str,
        Field(min_length=1, max_length=1_000, description="why, in one sentence, for the person who decides"),
    ]


class ProposeCreateNode(CreateNode, Reasoned, ToolArguments):
    pass


class ProposeCreateNodeWithEdges(CreateNodeWithEdges, Reasoned, ToolArguments):
    pass


class ProposeCreateEdge(CreateEdge, Reasoned, ToolArguments):
    pass


class ProposeUpdateNode(UpdateNode, Reasoned, ToolArguments):
    pass


class ProposeMoveNode(MoveNode, Reasoned, ToolArguments):
    pass


class ProposeDeleteNode(DeleteNode, Reasoned, ToolArguments):
    pass


class ProposeDeleteEdge(DeleteEdge, Reasoned, ToolArguments):
    pass


class ProposeBatch(Batch, Reasoned, ToolArguments):
    pass


class ProposeConfigureNodeType(ConfigureNodeType, Reasoned, ToolArguments):
    pass


class ProposeReorganizeLayout(ReorganizeLayout, Reasoned, ToolArguments):
    pass


def _runner(kind: str) -> Callable[[Any, ToolContext], Awaitable[ToolResult]]:
    async def propose(arguments: Part, context: ToolContext) -> ToolResult:
        payload = arguments.model_dump(by_alias=True, exclude={"reason"}, exclude_none=True)
        action = parse_action({"type": kind, "payload": payload})
        snapshot = await load_snapshot(
            context.source,
            context.graph_key,
            action,
            whole_graph_nodes=context.limits.whole_graph_nodes,
        )
        resolved, faults = resolve_action(action, snapshot)
        if faults:
            return await _refused(faults, context)
        text = (
            f"PROPOSED: {describe(resolved)}. Nothing has changed yet: a person decides. Say what you"
            " propose and why; do not say that it is done."
        )
        return ToolResult(text=text, data=to_document(resolved))

    return propose


async def _refused(faults: list[Fault], context: ToolContext) -> ToolResult:
    graph = await context.source.get_graph(context.graph_key)
    problems: list[Problem] = []
    for fault in faults[:MAX_FAULTS]:
        if fault.unknown_node is not None:
            problems.append(await missing_node(context, graph, fault.unknown_node, fault.where))
        else:
            problems.append(Problem(what=fault.what, where=fault.where or None, allowed=fault.allowed))
    if len(faults) > MAX_FAULTS:
        problems.append(Problem(what=f"{len(faults) - MAX_FAULTS} more problems"))
    only_unknown = all(fault.unknown_node is not None for fault in faults)
    return failure("not_found" if only_unknown else "invalid_arguments", *problems)


def _tool(
    kind: str, arguments: type[ToolArguments], description: str, example: Mapping[str, Any]
) -> Tool[Any]:
    return Tool(
        name=f"propose_{kind}",
        description=description,
        arguments=arguments,
        run=_runner(kind),
        example=example,
        roles=WRITERS,
        writes=True,
    )


WRITE_TOOLS: tuple[Tool[Any], ...] = (
    _tool(
        "create_node",
        ProposeCreateNode,
        "Propose one new node without edges. Use propose_create_node_with_edges when it should be connected,"
        " propose_batch for several nodes. Read the type first (read_node_config).",
        {"typeKey": "filter", "data": {"name": "Only active"}, "reason": "inactive players are not wanted"},
    ),
    _tool(
        "create_node_with_edges",
        ProposeCreateNodeWithEdges,
        "Propose one new node and its edges to nodes that exist. To put it between two connected nodes use"
        " propose_batch: this action, and delete_edge of the edge between them.",
        {
            "typeKey": "filter",
            "data": {"name": "Only active"},
            "edges": [
                {"direction": "in", "handleId": "0", "targetNodeKey": "fetch-api", "targetHandleId": "0"}
            ],
            "reason": "inactive players are not wanted",
        },
    ),
    _tool(
        "create_edge",
        ProposeCreateEdge,
        "Propose an edge from an out handle of one node to an in handle of another on the same sheet. Read"
        " both nodes' handles first; the accepted types must be equal, or one of them any.",
        {
            "sourceKey": "fetch-api",
            "sourceHandle": "1",
            "targetKey": "error-handler",
            "targetHandle": "0",
            "reason": "errors should be logged",
        },
    ),
    _tool(
        "update_node",
        ProposeUpdateNode,
        "Propose new values for fields of one node: data, code, size, handles. Code: give patches for a part"
        " (read it first, copy the search text exactly), changes.process only for all of it. Not for"
        " positions (propose_move_node) nor for the type of many nodes (propose_configure_node_type).",
        {"nodeKey": "fetch-api", "changes": {"data.timeoutMs": 5000}, "reason": "8 s is too long to wait"},
    ),
    _tool(
        "move_node",
        ProposeMoveNode,
        "Propose another position for one node. For several nodes use propose_reorganize_layout.",
        {"nodeKey": "fetch-api", "posX": 400, "posY": 280, "reason": "it covers another node"},
    ),
    _tool(
        "delete_node",
        ProposeDeleteNode,
        "Propose to delete one node; every edge of it goes too. Say which edges (list_node_edges).",
        {"nodeKey": "disconnected-note", "reason": "nothing uses it"},
    ),
    _tool(
        "delete_edge",
        ProposeDeleteEdge,
        "Propose to delete one edge by its _key, as list_node_edges shows it.",
        {"edgeKey": "edge-root-fetch", "reason": "the start is triggered elsewhere"},
    ),
    _tool(
        "batch",
        ProposeBatch,
        "Propose several changes that a person accepts or rejects together. A node created in it may be"
        " given a key such as $1, by which its other actions mean it. The order does not matter.",
        {
            "actions": [
                {"type": "create_node", "payload": {"typeKey": "log-node", "key": "$1"}},
                {
                    "type": "create_edge",
                    "payload": {
                        "sourceKey": "filter-active",
                        "sourceHandle": "0",
                        "targetKey": "$1",
                        "targetHandle": "0",
                    },
                },
            ],
            "reason": "the filtered players should be logged",
        },
    ),
    _tool(
        "configure_node_type",
        ProposeConfigureNodeType,
        "Propose a new node type (mode create) or changes of one of this workspace (mode update): code,"
        " handles, size, look. Affects every node of the type. Code: patches for a part, process for all.",
        {
            "mode": "update",
            "typeKey": "filter",
            "patches": [{"search": "limit = 10", "replace": "limit = 20"}],
            "reason": "ten are too few",
        },
    ),
    _tool(
        "reorganize_layout",
        ProposeReorganizeLayout,
        "Propose a tidy layered layout for the nodes named; all others stay where people put them. Positions"
        " are computed: do not invent any.",
        {
            "nodeKeys": ["root", "fetch-api", "filter-active"],
            "strategy": "left_to_right",
            "reason": "the nodes overlap",
        },
    ),
)
