"""Gives what was read of a file the keys that it has in the stored graph, so that the two
can be compared.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from datasources.types import Document, Edge, Graph, Node
from graphrag.importers.assemble import ORIGIN
from graphrag.importers.json_values import Json, as_dict
from graphrag.importers.readable_keys import KeyMaker, edge_key
from graphrag.importers.report import NATIVE
from graphrag.importers.workflow_format import EdgeEnds, ImportResult
from graphrag.workers import free
from tools.write_tools import Snapshot


class GraphContent(Snapshot):
    """A graph, whole, by key; `types` are those of its workspace and those it sees, by name."""

    def __del__(self) -> None:
        free([*self.nodes.values(), *self.edges.values()])

    @classmethod
    def of(cls, result: ImportResult) -> GraphContent:
        return cls(
            graph=result.graph,
            nodes={node.key: node for node in result.nodes},
            edges={edge.key: edge for edge in result.edges},
            types={config.type: config for config in result.configs},
        )


def origin_of(document: Document) -> Json | None:
    """Return where a document was imported from, or None for one that a person made."""
    return as_dict((document.model_extra or {}).get(ORIGIN))


def is_imported(document: Document, form: str) -> bool:
    """Say whether an import of this format made the document; Nodius JSON speaks for
    all of them.
    """
    origin = origin_of(document)
    return origin is not None and (form == NATIVE or origin.get("format") == form)


def under_key(result: ImportResult, graph_key: str) -> ImportResult:
    """Return the result as content of a graph of another key."""
    if result.graph.key == graph_key:
        return result
    return replace(
        result,
        graph=result.graph.replace(key=graph_key),
        nodes=tuple(node.model_copy(update={"graph_key": graph_key}) for node in result.nodes),
        edges=tuple(edge.model_copy(update={"graph_key": graph_key}) for edge in result.edges),
    )


def aligned(
    result: ImportResult, *known: GraphContent, written: ImportResult | None = None
) -> ImportResult:
    """Return the result with the keys and sheets by which graphs know the same things, the
    first one first.

    Nodius JSON has its keys. A node of another tool is known by its id and name there, by its id,
    or by its name; an edge by its ends; a sheet by the canvas that it was. `written` is what an
    export of a graph writes, under the graph's keys: it says by what id and name the tool knows the
    nodes that were made or renamed here.
    """
    if result.report.format == NATIVE:
        return result
    stored: dict[str, Node] = {}
    for content in known:
        stored = {**content.nodes, **stored}
    exported = written.nodes if written is not None else ()
    return with_keys(result, _node_keys(result, exported, stored), *known)


def with_keys(result: ImportResult, keys: Mapping[str, str], *known: GraphContent) -> ImportResult:
    """Return the result with other keys of nodes, and the keys of edges and sheets
    that graphs know.
    """
    form = result.report.format
    sheets = _sheets(result.graph, [content.graph for content in known])
    nodes = tuple(_renamed(node, keys, sheets) for node in result.nodes)
    edges: list[Edge] = []
    for old in result.edges:
        new = {"source": keys[old.source], "target": keys[old.target], "sheet": sheets[old.sheet]}
        edges.append(old.model_copy(update=new))
    edge_keys = _edge_keys([ends_of(edge) for edge in edges], *known)
    edges = [edge.model_copy(update={"key": edge_keys[ends_of(edge)]}) for edge in edges]
    graph = result.graph.replace(
        sheets_list={sheets[sheet]: label for sheet, label in result.graph.sheets_list.items()},
        metadata=(result.graph.metadata or {})
        | {
            ORIGIN: {
                "format": form,
                "sheets": {sheets[s]: ref for s, ref in _refs(result.graph).items()},
            }
        },
    )
    return replace(result, graph=graph, nodes=nodes, edges=tuple(edges))


def _edge_keys(wanted: Sequence[EdgeEnds], *known: GraphContent) -> dict[EdgeEnds, str]:
    """Returns the key that each edge gets, by its ends.

    The graph as it stands, the last one, goes first: an edge that was deleted and drawn again is
    the new one. Of several edges with the same ends the one that the older graphs have is meant.
    """
    *older, current = known
    before = [edge for content in older for edge in content.edges.values()]
    old = {(edge.key, ends_of(edge)) for edge in before}
    standing = sorted(current.edges.values(), key=lambda edge: (edge.key, ends_of(edge)) not in old)
    found = dict.fromkeys(wanted, "")
    used: set[str] = set()
    for edge in (*standing, *before):
        ends = ends_of(edge)
        if found.get(ends) == "" and edge.key not in used:
            found[ends] = edge.key
            used.add(edge.key)
    maker = KeyMaker({*current.edges, *(edge.key for edge in before)})
    return {ends: key or maker.make(edge_key(*ends)) for ends, key in found.items()}


def _node_keys(
    result: ImportResult, exported: Iterable[Node], stored: Mapping[str, Node]
) -> dict[str, str]:
    """Return the key that each node gets, by the key it has."""
    form = result.report.format
    before = [
        (node.key, origin_of(node) or {}) for node in stored.values() if is_imported(node, form)
    ]
    told = [(node.key, origin_of(node) or {}) for node in exported]
    new = [(node.key, origin_of(node) or {}) for node in result.nodes]
    found: dict[str, str] = {}
    used: set[str] = set()
    marks: tuple[Callable[[Json], Hashable | None], ...] = (
        _all,
        lambda origin: _mark(origin, "id"),
        lambda origin: _mark(origin, "name"),
    )
    for mark, known in itertools.product(marks, (told, before)):
        waiting: dict[Hashable, deque[str]] = {}
        for key, origin in known:
            if key not in used and (value := mark(origin)) is not None:
                waiting.setdefault(value, deque()).append(key)
        for key, origin in new:
            if key in found or (value := mark(origin)) is None or not waiting.get(value):
                continue
            found[key] = waiting[value].popleft()
            used.add(found[key])
    maker = KeyMaker(stored)
    return {key: found.get(key) or maker.make(key) for key, _ in new}


def _mark(origin: Json, field: str) -> Hashable | None:
    value: Any = origin.get(field)
    return value if isinstance(value, str) else None


def _all(origin: Json) -> Hashable | None:
    marks = (_mark(origin, "id"), _mark(origin, "name"))
    return None if marks == (None, None) else (*marks, str(origin.get("copy", 1)))


def _sheets(graph: Graph, known: Iterable[Graph]) -> dict[str, str]:
    """Return the id that each sheet gets, by the id it has."""
    before: dict[str, str] = {}
    taken: set[str] = set()
    for other in known:
        taken |= other.sheets_list.keys()
        for sheet, ref in _refs(other).items():
            before.setdefault(ref, sheet)
    refs = _refs(graph)
    found: dict[str, str] = {}
    number = 0
    for sheet in graph.sheets_list:
        chosen = before.get(refs.get(sheet, sheet))
        while chosen is None or chosen in found.values():
            chosen = None if str(number) in taken else str(number)
            number = number + 1
        found[sheet] = chosen
    return found


def _refs(graph: Graph) -> dict[str, str]:
    """Return the canvas that each sheet was in the file."""
    origin = as_dict((graph.metadata or {}).get(ORIGIN)) or {}
    refs = as_dict(origin.get("sheets")) or {}
    return {sheet: ref for sheet, ref in refs.items() if isinstance(ref, str)}


def _renamed(node: Node, keys: Mapping[str, str], sheets: Mapping[str, str]) -> Node:
    data = cast(Json, node.data)
    changes: Json = {}
    if "group" in data:
        changes["group"] = keys.get(str(data["group"]), data["group"])
    if isinstance(data.get("members"), list):
        changes["members"] = [
            keys.get(str(member), member) for member in cast(list[Any], data["members"])
        ]
    key = keys[node.key]
    sheet = sheets[node.sheet]
    if (
        key == node.key
        and sheet == node.sheet
        and all(data[name] == v for name, v in changes.items())
    ):
        return node
    return node.model_copy(update={"key": key, "sheet": sheet, "data": {**data, **changes}})


def ends_of(edge: Edge) -> EdgeEnds:
    """Return what an edge joins."""
    return (edge.source, edge.source_handle, edge.target, edge.target_handle)
