"""Shared parts of the read tools: arguments, rows, tables, and suggestions for a node key
that does not exist.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, cast

from pydantic import Field

from datasources.base import GraphDataSource
from datasources.builtin_types import types_by_name
from datasources.search import SearchRequest
from datasources.text import node_label, stemmed
from datasources.types import Edge, Graph, Node, NodeTypeConfig
from tools.base import Problem, ToolContext, ToolResult, failure
from tools.compact import cut, cut_name, sheet_label
from tools.node_meaning import facts_of, write_facts
from tools.node_meaning.writing import shorten
from tools.secret_texts import redacted
from tools.toon import encode_table

MAX_QUERY_CHARS = 200
SCANNED_NODES = 500  # keys compared one by one, in key order from each prefix that is tried

_LEAST_ALIKE = 0.55  # minimum similarity (0 to 1) of a suggestion
_SPAN = 0.25  # maximum difference of a suggestion to the best one
_LINK = re.compile(r"^\{\{\w+:(.*)\}\}$")


async def near_nodes(
    source: GraphDataSource, graph: Graph, wrong_key: str, *, limit: int = 5
) -> list[Node]:
    """Returns the nodes whose key or name is most similar to `wrong_key`, best first.

    In a large graph only a sample of the nodes is compared. Ignores case, `{{node:KEY}}`
    around the key, the graph's key before it and a handle after it.
    """
    wanted = _plain(wrong_key, graph.key)
    candidates: dict[str, Node] = {}
    words = stemmed(wanted, graph.language)
    alike = await source.search(graph.key, SearchRequest(query=words, limit=10))
    hits = [*alike.name, *alike.text[:5]]
    for node in await source.get_nodes_by_key(graph.key, [wanted, *(hit.key for hit in hits)]):
        candidates[node.key] = node
    for start in dict.fromkeys((None, wanted[:3], wanted[:3].lower(), wanted[:3].upper())):
        for node in await source.get_nodes(graph.key, after=start or None, limit=SCANNED_NODES):
            candidates.setdefault(node.key, node)
    hit_keys = [hit.key for hit in hits]
    ranked = sorted((-_likeness(node, wanted, hit_keys), node.key) for node in candidates.values())
    # If one candidate is nearly certain, weak ones would only distract.
    least = max(_LEAST_ALIKE, -ranked[0][0] - _SPAN) if ranked else 0.0
    return [candidates[key] for score, key in ranked if -score >= least][:limit]


def _plain(key: str, graph_key: str) -> str:
    key = key.strip()[:MAX_QUERY_CHARS]
    link = _LINK.match(key)
    key = link.group(1) if link else key
    return key.removeprefix("nodius_nodes/").removeprefix(f"{graph_key}-").strip() or "?"


def _likeness(node: Node, wanted: str, hits: Sequence[str]) -> float:
    low = wanted.casefold()
    best = 0.0
    for text in (node.key.casefold(), node_label(node).casefold()[:MAX_QUERY_CHARS]):
        if text == low:
            return 2.0
        if low.startswith(f"{text}:"):  # a key followed by a handle
            best = max(best, 1.5)
        matcher = difflib.SequenceMatcher(None, text, low)
        if matcher.real_quick_ratio() > best and matcher.quick_ratio() > best:
            best = max(best, matcher.ratio())
    if node.key in hits[:3]:
        best = max(best, 0.6)
    return best


def describe_near(near: Sequence[Node], graph: Graph) -> str | None:
    """Returns nodes on one line, as `fetch-api (Fetch players, sheet 0 main)`; None if empty."""
    names = [
        f"{cut_name(node_label(node), 60)}, sheet {sheet_label(graph, node.sheet)}" for node in near
    ]
    texts = [f"{cut_name(node.key, 200)} ({name})" for node, name in zip(near, names, strict=True)]
    return "; ".join(texts) or None


MAX_NAME_CHARS = 80
MAX_TYPE_CHARS = 120

NodeKey = Annotated[
    str, Field(min_length=1, max_length=400, description="Key of a node of this graph.")
]
Row = dict[str, Any]


def find_sheet(graph: Graph, wanted: str) -> str | None:
    """Returns the id of the sheet whose id, name or label (`0 main`) is `wanted`, or None."""
    if wanted in graph.sheets_list:
        return wanted
    low = wanted.strip().casefold()
    for sheet, name in graph.sheets_list.items():
        if low in (sheet.casefold(), name.casefold(), sheet_label(graph, sheet).casefold()):
            return sheet
    return None


def unknown_sheet(graph: Graph, wanted: str) -> ToolResult:
    shown = ", ".join(sheet_label(graph, sheet) for sheet in list(graph.sheets_list)[:50])
    return failure(
        "not_found", Problem(what=f"no sheet {wanted[:60]!r}", where="sheetId", allowed=shown)
    )


async def unknown_node(
    context: ToolContext, graph: Graph, key: str, where: str = "nodeKey"
) -> ToolResult:
    """Returns the error result for an unknown node key, with suggestions."""
    return failure("not_found", await missing_node(context, graph, key, where))


async def missing_node(
    context: ToolContext, graph: Graph, key: str, where: str = "nodeKey"
) -> Problem:
    near = describe_near(await near_nodes(context.source, graph, key), graph)
    what = f"no node {key[:200]!r} in this graph"
    hint = f"did you mean: {near}" if near else "find the key with search_nodes"
    return Problem(what=f"{what}; {hint}", where=where)


def node_row(node: Node, graph: Graph) -> Row:
    """Returns the first columns of every node list."""
    label = node_label(node)
    return {
        "_key": node.key,
        "type": cut(node.type, MAX_TYPE_CHARS),
        "sheet": sheet_label(graph, node.sheet),
        "name": None if label == node.key else cut_name(label, MAX_NAME_CHARS),
    }


def data_without_name(node: Node) -> Any:
    """Returns the node's data without its name, which `node_row` already shows."""
    if not isinstance(node.data, Mapping):
        return node.data
    label = node_label(node)
    pairs = cast(Mapping[str, Any], node.data)
    return {key: value for key, value in pairs.items() if key != "name" or value != label}


def digest(node: Node, limit: int) -> str | None:
    """Returns a summary of about `limit` characters: the facts from the node's data, or the
    beginning of its code if there are none.
    """
    return (
        write_facts(facts_of(node), limit)
        or shorten(redacted(node.process or "").text, limit)
        or None
    )


def edge_row(edge: Edge) -> Row:
    return {
        "from": f"{edge.source}:{edge.source_handle}",
        "to": f"{edge.target}:{edge.target_handle}",
        "label": None if edge.label is None else cut_name(edge.label, MAX_NAME_CHARS),
    }


def table(name: str, rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> str:
    """Returns rows as a table. Leaves out empty columns, except the first one."""
    kept = [
        c for i, c in enumerate(columns) if not i or any(row.get(c) is not None for row in rows)
    ]
    return encode_table(name, rows, kept)


async def all_types(context: ToolContext) -> dict[str, NodeTypeConfig]:
    """Returns all node types available in this workspace, built-in ones included, by name."""
    return types_by_name(await context.source.get_node_configs())


async def type_of(context: ToolContext, name: str) -> NodeTypeConfig | None:
    return types_by_name(await context.source.get_node_configs([name])).get(name)
