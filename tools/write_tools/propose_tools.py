"""The ten tools that propose a change; none of them changes anything.

Running one checks the change against the graph and returns it, resolved, as `data`. The agent turns
that into an approval for a person to decide.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, create_model

from tools import proposal_parts
from tools.base import Problem, Role, Tool, ToolArguments, ToolContext, ToolResult, failure
from tools.proposals import Action, Batch, describe, parse_action, single_actions, to_document
from tools.read_tools.views import missing_node
from tools.write_tools.graph_reads import Snapshot, load_near
from tools.write_tools.renames import broken_references, with_references
from tools.write_tools.resolve import resolve_action

_EXAMPLES: Mapping[str, Any] = json.loads(
    Path(__file__).with_name("examples.json").read_text(encoding="utf-8")
)
"""A right call of each, by the kind of its action."""

_ESSENTIAL = frozenset(
    ("update_node", "create_edge", "delete_edge", "create_node_with_edges", "delete_node")
)

WRITERS: frozenset[Role] = frozenset(("editor", "reviewer", "admin"))
MAX_PROBLEMS = 8
MAX_REASON_CHARS = 1_000


class Reasoned(proposal_parts.Part):
    """What every proposal says besides what it is. Without a reason the person's message
    is the reason.
    """

    reason: Annotated[
        str | None,
        Field(max_length=MAX_REASON_CHARS, description="Why, for the person who decides."),
    ] = None
    ask_first: Annotated[bool, Field(description="A person is to decide it in any case.")] = False


def _runner(kind: str) -> Callable[[Any, ToolContext], Awaitable[ToolResult]]:
    async def propose(arguments: proposal_parts.Part, context: ToolContext) -> ToolResult:
        payload = arguments.model_dump(
            by_alias=True, exclude={"reason", "ask_first"}, exclude_none=True
        )
        action = parse_action({"type": kind, "payload": payload})
        # nothing is placed yet
        snapshot = await load_near(context.source, context.graph_key, action)
        resolved, problems = resolve_action(action, snapshot)
        if problems:
            return await _refused(problems, context)
        text = (
            f"PROPOSED: {describe(resolved)}. Nothing has changed yet: a person decides. Say what you"
            " propose and why; do not say that it is done."
        ) + _on_references(resolved, snapshot)
        return ToolResult(text=text, data=to_document(resolved))

    return propose


def _on_references(action: Action, snapshot: Snapshot) -> str:
    """Say what becomes of the nodes that refer by name to one that is renamed or deleted."""
    broken = {reference.node_key for reference in broken_references(action, snapshot)}
    own = single_actions(action)
    more = single_actions(with_references(action, snapshot))
    follow = len(list(more)) - len(list(own))
    text = f" {follow} nodes refer to it by name: they are changed with it." if follow else ""
    if broken:
        shown = ", ".join(sorted(broken)[:MAX_PROBLEMS])
        text += f" WARNING: {len(broken)} nodes refer by name to what goes and would fail: {shown}. Say so."
    return text


async def _refused(found: list[Problem], context: ToolContext) -> ToolResult:
    graph = await context.source.get_graph(context.graph_key)
    problems = [
        problem
        if problem.unknown_node is None
        else await missing_node(context, graph, problem.unknown_node, problem.where)
        for problem in found[:MAX_PROBLEMS]
    ]
    if len(found) > MAX_PROBLEMS:
        problems.append(Problem(what=f"{len(found) - MAX_PROBLEMS} more problems"))
    only_unknown = all(problem.unknown_node is not None for problem in found)
    return failure("not_found" if only_unknown else "invalid_arguments", *problems)


def _tool(kind: str, payload: type[proposal_parts.Part], description: str) -> Tool[Any]:
    name = f"Propose{payload.__name__}"
    return Tool(
        name=f"propose_{kind}",
        description=description,
        arguments=create_model(name, __base__=(payload, Reasoned, ToolArguments)),
        run=_runner(kind),
        example=_EXAMPLES[kind],
        roles=WRITERS,
        effect="proposes",
        essential=kind in _ESSENTIAL,
    )


WRITE_TOOLS: tuple[Tool[Any], ...] = (
    _tool("update_node", proposal_parts.UpdateNode, "Sets data fields, name or code of a node."),
    _tool("create_node", proposal_parts.CreateNode, "A node without edges."),
    _tool(
        "create_node_with_edges", proposal_parts.CreateNodeWithEdges, "A node connected to others."
    ),
    _tool("create_edge", proposal_parts.CreateEdge, "From an out to an in handle."),
    _tool("move_node", proposal_parts.MoveNode, "Moves a node."),
    _tool("delete_node", proposal_parts.DeleteNode, "Its edges go, too."),
    _tool("delete_edge", proposal_parts.DeleteEdge, "By its _key."),
    _tool("batch", Batch, "Changes accepted together; key $1 names a created node to the others."),
    _tool(
        "configure_node_type",
        proposal_parts.ConfigureNodeType,
        "For all nodes of the type. Code: patches or process.",
    ),
    _tool("reorganize_layout", proposal_parts.ReorganizeLayout, "Tidies these nodes."),
)
