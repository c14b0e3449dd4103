"""The tool `search_workspace`: finds the nodes in all graphs that refer to a value or match
the words of a query.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any

from pydantic import Field

from datasources.everywhere import FoundNode
from datasources.text import node_label
from datasources.types import Node
from datasources.uses import MAX_VALUE, entries_for, matches, uses_of
from tools.base import ToolArguments, ToolContext, ToolResult, read_tool
from tools.compact import cut, cut_name
from tools.read_tools.complete_sets import sets_of_workspace
from tools.read_tools.views import MAX_NAME_CHARS, MAX_TYPE_CHARS, Row, digest, table
from tools.secret_texts import redacted

MAX_USERS = 50
GRAPHS = 5  # graphs in the answer
HITS = 3  # nodes of each of them


class SearchAllGraphs(ToolArguments):
    query: Annotated[str, Field(min_length=1, max_length=1000, pattern=r"\S")]


@read_tool(
    "In all graphs: users of a value, words.", {"query": "api.example.com/v1"}, reusable=False
)
async def search_workspace(arguments: SearchAllGraphs, context: ToolContext) -> ToolResult:
    used: list[Row] = []
    query = arguments.query.strip()
    sets = await sets_of_workspace(query, context)
    parts: list[str] = [sets] if sets else []
    if len(query) <= MAX_VALUE:
        entries = entries_for(query)
        users = await context.source.find_users(entries, limit=MAX_USERS + 1, graphs=context.graphs)
        used = use_rows(users[:MAX_USERS], frozenset(entries))
        if used:
            more = "; there are more" if len(users) > MAX_USERS else ""
            parts.append(f"Nodes that refer to {cut_name(query, 80)!r}{more}:")
            parts.append(table("uses", used, ["graph", "_key", "name", "kind", "value", "field"]))
    hit_rows: list[Row] = []
    if context.search_all is not None:
        graphs = await context.search_all(query, limit=GRAPHS, hits=HITS, graphs=context.graphs)
        hit_rows = [
            {
                **_row(graph.key, hit.node),
                "score": round(hit.score, 2),
                "holds": digest(hit.node, 100),
            }
            for graph in graphs
            for hit in graph.hits
        ]
        if hit_rows:
            parts.append(
                table("found", hit_rows, ["graph", "_key", "type", "name", "score", "holds"])
            )
    if not parts:
        return ToolResult(
            text=f"No graph has anything for {cut_name(query, 80)!r}.", data={"uses": []}
        )
    return ToolResult(text="\n".join(parts), data={"uses": used, "found": hit_rows})


def use_rows(users: Iterable[FoundNode], entries: frozenset[str]) -> list[Row]:
    """Returns one row for each node that refers to one of `entries`, with the referring fields."""
    rows: list[Row] = []
    for user in users:
        uses = [use for use in uses_of(user.node) if matches(use, entries)]
        fields: Sequence[str] = list(dict.fromkeys(".".join(use.path) for use in uses))
        if uses:
            more: dict[str, Any] = {
                "kind": uses[0].kind,
                "value": cut(redacted(uses[0].value).text, 200),
            }
            row = _row(user.graph_key, user.node)
            rows.append({**row, **more, "field": ", ".join(fields[:5])})
    return rows


def _row(graph_key: str, node: Node) -> Row:
    return {
        "graph": graph_key,
        "_key": node.key,
        "type": cut(node.type, MAX_TYPE_CHARS),
        "name": cut_name(node_label(node), MAX_NAME_CHARS),
    }
