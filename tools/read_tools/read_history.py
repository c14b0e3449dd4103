"""The tool `read_history`: lists the changes of a graph in a period, with author and proposal."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from tools.base import Problem, ToolArguments, ToolContext, ToolResult, failure, read_tool
from tools.compact import cut_name
from tools.past_changes import Past, PastChanges
from tools.read_tools.views import NodeKey, Row, table, unknown_node

MAX_CHANGES = 200
MAX_WHAT_CHARS = 160

PERIODS = (
    "NOW, an instant (ISO 8601 with its offset), n_HOUR, n_DAY, n_WEEK, n_MONTH or n_YEAR; "
    "not later than now"
)

Moment = Annotated[str, Field(min_length=1, max_length=40)]


class ReadHistory(ToolArguments):
    """`from` and `to` are an instant (ISO 8601) or relative to now, as `-1_WEEK`."""

    node: NodeKey | None = None
    from_: Annotated[Moment | None, Field(alias="from")] = None
    to: Moment | None = None
    limit: Annotated[int, Field(ge=1, le=MAX_CHANGES)] = 50


@read_tool(
    "Changes, newest first. from, to: NOW, -7_DAY or ISO time.",
    {"node": "fetch-api", "from": "-7_DAY", "to": "NOW"},
)
async def read_history(arguments: ReadHistory, context: ToolContext) -> ToolResult:
    graph = await context.source.get_graph(context.graph_key)
    if context.history is None:
        return failure("unavailable", Problem(what="the history of graphs cannot be read here"))
    past = Past(
        node=arguments.node,
        start=arguments.from_,
        end=arguments.to or "NOW",
        limit=arguments.limit,
        language=context.language,
    )
    try:
        past_changes = await context.history(graph.key, past)
    except ValueError as exc:  # the period cannot be parsed
        problem = Problem(what=str(exc), where="from, to", allowed=PERIODS)
        return failure("invalid_arguments", problem, example={"from": "-7_DAY", "to": "NOW"})
    node = arguments.node
    if (
        not past_changes.changes
        and node
        and not await context.source.get_nodes_by_key(graph.key, [node])
    ):
        return await unknown_node(context, graph, node, "node")
    return history_result(past_changes)


def history_result(past_changes: PastChanges) -> ToolResult:
    """Returns changes as a table, newest first."""
    rows: list[Row] = [
        {
            "time": change.time,
            "kind": change.kind,
            "who": cut_name(change.who, 80),
            "what": cut_name(change.what, MAX_WHAT_CHARS),
            "proposal": change.proposal or None,
            "undone": "yes" if change.undone else None,
        }
        for change in past_changes.changes
    ]
    head = f"From {past_changes.start or 'the beginning'} to {past_changes.end}, newest first."
    if not rows:
        return ToolResult(text=f"{head} Nothing changed.", data={"changes": [], "more": False})
    parts = [head, table("changes", rows, ["time", "kind", "who", "what", "proposal", "undone"])]
    if past_changes.more:
        parts.append("There are more, older ones: ask for a period that ends earlier.")
    return ToolResult(text="\n".join(parts), data={"changes": rows, "more": past_changes.more})
