"""Gives the content of a file the keys that it has in the stored graph, so that both can be
compared.
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
    """A whole graph; documents are by key. `types` are the node types visible in its workspace, by
    name.
    """

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
    """Returns the origin of an imported document, None for one that a person made."""
    return as_dict((document.model_extra or {}).get(ORIGIN))


def is_imported(document: Document, form: str) -> bool:
    """Returns whether an import of this format made the document. For Nodius JSON, an import of any
    format counts.
    """
    origin = origin_of(document)
    return origin is not None and (form == NATIVE or origin.get("format") == form)


def under_key(result: ImportResult, graph_key: str) -> ImportResult:
    """Returns the result under another graph key."""
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
    """Returns the result with the node, edge and sheet keys of the `known` graphs; earlier ones
    have precedence.

    Nodius JSON has its keys already. A node of another tool is matched by its id and name there,
    then by its id, then by its name; an edge by its ends; a sheet by its canvas in the file.
    `written` is the export of a graph under the graph's keys: it gives the ids and names by which
    the tool knows nodes that were made or renamed here.
    """
    if result.report.format == NATIVE:
        return result
    stored: dict[str, Node] = {}
    for content in known:
        stored = {**content.nodes, **stored}
    exported = written.nodes if written is not None else ()
    return with_keys(result, _node_keys(result, exported, stored), *known)


def with_keys(result: ImportResult, keys: Mapping[str, str], *known: GraphContent) -> ImportResult:
    """Returns the result with these node keys, and with the keys of the same edges and sheets in
    graphs.
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
    """Returns the key of each wanted edge, by its ends.

    The current graph, the last one, has precedence: an edge that was deleted and drawn again has
    its new key. Of several current edges with the same ends, one that older graphs have too comes
    first.
    """
    *older, current = known
    before = [edge for content in older for edge in content.edges.values()]
    old = {(edge.key, ends_of(edge)) for edge in before}
    current_edges = sorted(
        current.edges.values(), key=lambda edge: (edge.key, ends_of(edge)) not in old
    )
    edge_keys = dict.fromkeys(wanted, "")
    used: set[str] = set()
    for edge in (*current_edges, *before):
        ends = ends_of(edge)
        if edge_keys.get(ends) == "" and edge.key not in used:
            edge_keys[ends] = edge.key
            used.add(edge.key)
    maker = KeyMaker({*current.edges, *(edge.key for edge in before)})
    return {ends: key or maker.make(edge_key(*ends)) for ends, key in edge_keys.items()}


def _node_keys(
    result: ImportResult, exported: Iterable[Node], stored: Mapping[str, Node]
) -> dict[str, str]:
    """Returns the new key of each node by its present key."""
    form = result.report.format
    stored_origins = [
        (node.key, origin_of(node) or {}) for node in stored.values() if is_imported(node, form)
    ]
    exported_origins = [(node.key, origin_of(node) or {}) for node in exported]
    file_origins = [(node.key, origin_of(node) or {}) for node in result.nodes]
    new_keys: dict[str, str] = {}
    used: set[str] = set()
    marks: tuple[Callable[[Json], Hashable | None], ...] = (
        _all,
        lambda origin: _mark(origin, "id"),
        lambda origin: _mark(origin, "name"),
    )
    for mark, origins in itertools.product(marks, (exported_origins, stored_origins)):
        unmatched: dict[Hashable, deque[str]] = {}
        for key, origin in origins:
            if key not in used and (value := mark(origin)) is not None:
                unmatched.setdefault(value, deque()).append(key)
        for key, origin in file_origins:
            if key in new_keys or (value := mark(origin)) is None or not unmatched.get(value):
                continue
            new_keys[key] = unmatched[value].popleft()
            used.add(new_keys[key])
    maker = KeyMaker(stored)
    return {key: new_keys.get(key) or maker.make(key) for key, _ in file_origins}


def _mark(origin: Json, field: str) -> Hashable | None:
    value: Any = origin.get(field)
    return value if isinstance(value, str) else None


def _all(origin: Json) -> Hashable | None:
    marks = (_mark(origin, "id"), _mark(origin, "name"))
    return None if marks == (None, None) else (*marks, str(origin.get("copy", 1)))


def _sheets(graph: Graph, known: Iterable[Graph]) -> dict[str, str]:
    """Returns the new id of each sheet by its present id."""
    before: dict[str, str] = {}
    used: set[str] = set()
    for other in known:
        used |= other.sheets_list.keys()
        for sheet, ref in _refs(other).items():
            before.setdefault(ref, sheet)
    refs = _refs(graph)
    new_ids: dict[str, str] = {}
    number = 0
    for sheet in graph.sheets_list:
        chosen = before.get(refs.get(sheet, sheet))
        while chosen is None or chosen in new_ids.values():
            chosen = None if str(number) in used else str(number)
            number = number + 1
        new_ids[sheet] = chosen
    return new_ids


def _refs(graph: Graph) -> dict[str, str]:
    """Returns the id of each sheet's canvas in the file, by sheet."""
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
    """Returns source, output, target and input of an edge."""
    return (edge.source, edge.source_handle, edge.target, edge.target_handle)
