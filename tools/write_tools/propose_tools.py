"""The tools that propose a change, one for each action; none of them changes anything.

Running one checks the change against the graph and returns it, resolved, as `data`. The agent turns
that into an approval for a person to decide.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Final

from pydantic import Field, create_model

from tools import proposal_parts
from tools.actions.base import SingleAction, WriteTool
from tools.actions.snapshot import Snapshot
from tools.base import Problem, Role, Tool, ToolArguments, ToolContext, ToolResult, failure
from tools.proposals import (
    ACTIONS,
    Action,
    BatchAction,
    describe,
    parse_action,
    single_actions,
    to_document,
)
from tools.read_tools.views import missing_node
from tools.write_tools.graph_reads import load_near
from tools.write_tools.renames import broken_references, with_references
from tools.write_tools.resolve import resolve_action

BATCH: Final = WriteTool(
    description="Changes accepted together; key $1 names a created node to the others.",
    example={
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
)
_ORDER = (
    *("update_node", "create_node", "create_node_with_edges", "create_edge", "move_node"),
    *("delete_node", "delete_edge", "batch", "configure_node_type", "reorganize_layout"),
)
"""The order in which models are told of tools, with which they were measured; others follow."""

WRITERS: frozenset[Role] = frozenset(("editor", "reviewer", "admin"))
MAX_PROBLEMS = 8
MAX_REASON_CHARS = 1_000


class Reasoned(proposal_parts.Part):
    """The arguments that every proposal has. By default the reason is the person's message."""

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
    """Returns what becomes of the nodes that refer by name to one that is renamed or deleted."""
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


def _tool(kind: type[SingleAction | BatchAction], offered: WriteTool) -> Tool[Any]:
    payload: Any = kind.model_fields["payload"].annotation
    name = str(kind.model_fields["type"].default)
    return Tool(
        name=f"propose_{name}",
        description=offered.description,
        arguments=create_model(
            f"Propose{payload.__name__}", __base__=(payload, Reasoned, ToolArguments)
        ),
        run=_runner(name),
        example=dict(offered.example),
        roles=WRITERS,
        effect="proposes",
        essential=offered.essential,
    )


def _place(tool: Tool[Any]) -> int:
    name = tool.name.removeprefix("propose_")
    return _ORDER.index(name) if name in _ORDER else len(_ORDER)


WRITE_TOOLS: tuple[Tool[Any], ...] = tuple(
    sorted(
        [
            *(_tool(kind, kind.tool) for kind in ACTIONS if kind.tool is not None),
            _tool(BatchAction, BATCH),
        ],
        key=_place,
    )
)
