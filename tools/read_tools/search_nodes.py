"""The tool `search_nodes`: finds nodes by words and meaning, or lists nodes filtered by
type, sheet or setting.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from datasources.search import SearchRequest
from datasources.text import fold, stemmed, tokenize
from datasources.types import Graph, Node, ScoredNode
from datasources.uses import USE_KINDS
from tools.base import Problem, ToolArguments, ToolContext, ToolResult, failure, read_tool
from tools.compact import cut, cut_name
from tools.flow_summary import SERVING
from tools.node_sets import FLAGS, select
from tools.node_values import KINDS, best_text, values_of
from tools.read_tools.complete_sets import sets_of_graph
from tools.read_tools.views import (
    MAX_TYPE_CHARS,
    Row,
    digest,
    find_sheet,
    node_row,
    table,
    unknown_sheet,
)

MAX_RESULTS = 50
MAX_ROWS = 200  # in one complete list
_TYPES_NAMED = 20
# Values of `holds` beside `KINDS`: properties of the whole node (as "disabled") and kinds of
# references to things outside the graph.
_SETS = (*FLAGS, *(kind for kind in USE_KINDS if kind not in KINDS))
_ALLOWED = ", ".join(dict.fromkeys((*KINDS, *_SETS)))
_WIDER = 5  # with a filter, this many times more nodes are ranked before it is applied

PAGE = 1_000  # nodes read at once
LOOKED_AT = 20_000  # maximum number of nodes read for one list


class SearchNodes(ToolArguments):
    query: Annotated[
        str | None,
        Field(min_length=1, max_length=1000, description="What to look for; none: a list."),
    ] = None
    max_results: Annotated[int, Field(ge=1, le=MAX_RESULTS, description="Most rows.")] = 10
    type_key: Annotated[str | None, Field(max_length=400, description="Only this node type.")] = (
        None
    )
    sheet_id: Annotated[str | None, Field(max_length=400, description="Only this sheet.")] = None
    after: Annotated[str | None, Field(max_length=400, description="Go on after this key.")] = None
    holds: Annotated[
        str | None,
        Field(
            max_length=40, description="Only nodes with a credential, host, table, model, disabled…"
        ),
    ] = None
    value: Annotated[
        str | None, Field(min_length=1, max_length=200, description="What that value contains.")
    ] = None


@read_tool(
    "By words and meaning; no query: lists.", {"query": "send the error by mail"}, essential=True
)
async def search_nodes(arguments: SearchNodes, context: ToolContext) -> ToolResult:
    graph = await context.source.get_graph(context.graph_key)
    sheet = None
    if arguments.sheet_id is not None:
        sheet = find_sheet(graph, arguments.sheet_id)
        if sheet is None:
            return unknown_sheet(graph, arguments.sheet_id)
    if arguments.holds is not None and arguments.holds not in (*KINDS, *_SETS):
        return failure(
            "invalid_arguments", Problem(what="no such setting", where="holds", allowed=_ALLOWED)
        )
    if arguments.value is not None and arguments.holds is None:
        what = "says which of these values: give `holds` too"
        return failure("invalid_arguments", Problem(what=what, where="value", allowed=_ALLOWED))
    if arguments.query is None and (arguments.value is not None or arguments.holds in _SETS):
        return await _set_listed(arguments, context, graph, sheet)
    if arguments.query is None:
        return await _listed(arguments, context, graph, sheet)
    words = frozenset(tokenize(arguments.query))
    if arguments.after is not None:
        return failure(
            "invalid_arguments", Problem(what="goes on a list, without query", where="after")
        )
    filtered = any((sheet, arguments.type_key, arguments.holds))
    sets = "" if filtered else await sets_of_graph(arguments.query, context)
    wanted = arguments.max_results * (_WIDER if filtered else 1)
    results = [
        scored
        for scored in await _ranked(arguments.query, wanted, context)
        if (sheet is None or scored.node.sheet == sheet)
        and (arguments.type_key is None or scored.node.type == arguments.type_key)
        and (arguments.holds is None or _held_values(scored.node, arguments.holds) is not None)
    ][: arguments.max_results]
    rows = [
        {
            **node_row(scored.node, graph),
            "score": "weak" if scored.weak else round(scored.score, 2),
            "why": "+".join(scored.reasons) or None,
            "holds": best_text(scored.node, words, 160)
            or (digest(scored.node, 120) if "vector" in scored.reasons else None),
        }
        for scored in results
    ]
    if not rows and sets:
        return ToolResult(text=sets, data=[])
    if not rows:
        shown = cut_name(arguments.query, 80)
        hint = (
            "drop the filter or use other words"
            if filtered
            else "use other words, or read_graph_overview"
        )
        return ToolResult(text=f"No node found for {shown!r}: {hint}.", data=[])
    text = table("found", rows, ["_key", "type", "sheet", "name", "score", "why", "holds"])
    return ToolResult(text="\n".join(part for part in (sets, text) if part), data=rows)


async def _listed(
    arguments: SearchNodes, context: ToolContext, graph: Graph, sheet: str | None
) -> ToolResult:
    """Lists matching nodes by key, and counts all matches among the first `LOOKED_AT` nodes."""
    nodes: list[Node] = []
    matching = 0
    looked_at = 0
    last = arguments.after
    while looked_at < LOOKED_AT:
        page = await context.source.get_nodes(graph.key, sheet=sheet, after=last, limit=PAGE)
        for node in page:
            if (arguments.type_key is None or node.type == arguments.type_key) and (
                arguments.holds is None or values_of(node, arguments.holds) is not None
            ):
                matching += 1
                if len(nodes) < arguments.max_results:
                    nodes.append(node)
        looked_at += len(page)
        is_whole = len(page) < PAGE
        if is_whole:
            break
        last = page[-1].key
    else:
        is_whole = False
    if not nodes and is_whole:
        return await _nothing_listed(arguments, context)
    if arguments.holds is None:
        rows = [{**node_row(node, graph), "holds": digest(node, 120)} for node in nodes]
    else:
        rows = await _holding_rows(arguments.holds, nodes, context, graph)
    more = matching - len(nodes)
    parts = (
        [table("found", rows, ["_key", "type", "sheet", "name", "holds", "serves"])] if rows else []
    )
    if more or not is_whole:
        least = "" if is_whole else "at least "
        next_key = nodes[-1].key if more else last
        parts.append(f"{least}{more} more: the same call with after={next_key!r}.")
    return ToolResult(text="\n".join(parts), data=rows)


async def _set_listed(
    arguments: SearchNodes, context: ToolContext, graph: Graph, sheet: str | None
) -> ToolResult:
    """Lists and counts the nodes of a set: those that use a value, or that have a property."""
    kind = arguments.holds or ""
    wanted = fold(arguments.value or "")
    nodes = await context.source.get_nodes(graph.key, sheet=sheet, limit=LOOKED_AT)
    edges = await context.source.get_edges(graph.key) if kind in FLAGS else []
    if arguments.type_key is not None:
        nodes = [node for node in nodes if node.type == arguments.type_key]
    if kind in _SETS:
        members = select(nodes, edges, kind, arguments.value or "").members
    else:
        values_by_node = {node.key: values_of(node, kind) or () for node in nodes}
        members = {
            key: "; ".join(matching)
            for key, values in values_by_node.items()
            if (matching := [value for value in values if wanted in fold(value)])
        }
    left = [node for node in nodes if node.key in members and node.key > (arguments.after or "")]
    rows = [
        {**node_row(node, graph), "holds": members[node.key] or None} for node in left[:MAX_ROWS]
    ]
    least = "at least " if len(nodes) == LOOKED_AT else ""
    parts = [f"{least}{len(members)} nodes in all."]
    if rows:
        parts.insert(0, table("found", rows, ["_key", "type", "sheet", "name", "holds"]))
    if len(left) > len(rows):
        parts.append(
            f"{len(left) - len(rows)} more: the same call with after={rows[-1]['_key']!r}."
        )
    return ToolResult(text="\n".join(parts), data=rows)


def _held_values(node: Node, kind: str) -> Sequence[str] | None:
    """Returns the values of `kind` in a node, for any kind that `holds` accepts; None if none."""
    if kind in KINDS:
        return values_of(node, kind)
    members = select([node], (), kind).members
    return list(members.values()) or None


async def _holding_rows(
    kind: str, nodes: Sequence[Node], context: ToolContext, graph: Graph
) -> list[Row]:
    """Returns a row for each node, with its values of `kind` and the nodes it serves (as a
    model node serves an agent node).
    """
    edges = await context.source.get_edges_of(graph.key, [node.key for node in nodes])
    rows: list[Row] = []
    for node in nodes:
        serves = [
            e.target for e in edges if e.source == node.key and e.target_handle.startswith(SERVING)
        ]
        holds = "; ".join(values_of(node, kind) or ())
        rows.append(
            {**node_row(node, graph), "holds": holds or None, "serves": " ".join(serves) or None}
        )
    return rows


async def _nothing_listed(arguments: SearchNodes, context: ToolContext) -> ToolResult:
    if arguments.after is not None:
        return ToolResult(text="No more nodes.", data=[])
    types = (await context.source.get_stats(context.graph_key)).types
    if arguments.holds or arguments.type_key is None or arguments.type_key in types:
        return ToolResult(text="No node there.", data=[])
    most = sorted(types, key=lambda name: (-types[name], name))[:_TYPES_NAMED]
    shown = ", ".join(cut(name, MAX_TYPE_CHARS) for name in most)
    return ToolResult(
        text=f"No node is of type {arguments.type_key[:80]!r}. Types: {shown}.", data=[]
    )


async def _ranked(query: str, limit: int, context: ToolContext) -> Sequence[ScoredNode]:
    if context.search is not None:
        return await context.search(context.graph_key, query, limit=limit)
    graph = await context.source.get_graph(context.graph_key)
    words = stemmed(query, graph.language)
    request = SearchRequest(query=words, limit=limit, fields=("content",))
    hits = await context.source.search(graph.key, request)
    score = {hit.key: hit.score for hit in hits.text}
    nodes = await context.source.get_nodes_by_key(context.graph_key, list(score))
    return [ScoredNode(node=node, score=score[node.key], reasons=("text",)) for node in nodes]
