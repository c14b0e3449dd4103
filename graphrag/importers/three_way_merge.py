"""Brings a new version of a file together with what people made of the last one, field by field.

Three graphs are compared: the file as it was imported before (base), the graph as it stands (ours) and
the file as it is now (theirs). What only the file changed is taken, what only people changed stays.

Decision: where both changed the same field, or one deleted what the other changed, the graph stays as
people left it, and the file's version is proposed to them. Node types are shared by workflows: of them
only what is new is taken. Where nothing is known of an earlier import (of a graph imported before files
were kept, or made by hand), all that stands is people's work and every difference is proposed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from datasources.types import Document, Edge, Graph, Mutation, Node, NodeTypeConfig, parse_document
from graphrag.changes.field_diff import field_changes, merge, same
from graphrag.importers.align import GraphContent, is_imported, origin_of
from graphrag.importers.json_values import Json
from graphrag.importers.report import NATIVE

E = TypeVar("E", Node, Edge)
OWN = frozenset({"_key", "workspace", "revision", "createdTime", "lastUpdatedTime"})
"""Fields of a graph that a file has no say in."""

MAX_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """What is done to the graph, and what is proposed: documents by key, None for a deletion.

    `kept` counts the documents that people changed and the file has otherwise, without those proposed.
    """

    mutation: Mutation
    nodes: Mapping[str, Node | None]
    edges: Mapping[str, Edge | None]
    kept: int
    remarks: tuple[str, ...] = ()

    @property
    def taken(self) -> int:
        """How many documents change."""
        m = self.mutation
        parts = (m.put_nodes, m.put_edges, m.delete_nodes, m.delete_edges, m.put_configs)
        return sum(map(len, parts)) + (m.graph is not None)


def merged(ours: GraphContent, base: GraphContent | None, theirs: GraphContent, *, form: str) -> Merged:
    """Merge a file into a graph. All three have the same keys for the same things.

    With `base` the graph itself, everything that differs is taken: the graph becomes as the file is.
    """
    nodes = _Documents(Node, base.nodes if base else None, ours.nodes, theirs.nodes, form)
    edges = _Documents(Edge, base.edges if base else None, ours.edges, theirs.edges, form)
    _join_ends(nodes, edges)
    _keep_handles(nodes, edges)
    types, remarks = _types(ours, base, theirs, form)
    graph, differing = _graph(ours, base, theirs, [nodes, edges])
    if differing:
        remarks.append(f"kept as people left it, though the file has it otherwise: {_shown(differing)}")
    return Merged(
        mutation=Mutation(
            graph_key=ours.graph.key,
            put_nodes=nodes.changed(),
            put_edges=edges.changed(),
            delete_nodes=sorted(ours.nodes.keys() - nodes.final.keys()),
            delete_edges=sorted(ours.edges.keys() - edges.final.keys()),
            put_configs=types,
            graph=graph,
        ),
        nodes=nodes.wanted,
        edges=edges.wanted,
        kept=len(nodes.kept - nodes.wanted.keys()) + len(edges.kept - edges.wanted.keys()),
        remarks=tuple(remarks),
    )


@dataclass(slots=True)
class _Documents(Generic[E]):
    """The nodes or the edges. `final` is what will stand, `wanted` what the file has instead of it."""

    model: type[E]
    base: Mapping[str, E] | None
    ours: Mapping[str, E]
    theirs: Mapping[str, E]
    form: str
    final: dict[str, E] = field(init=False)
    wanted: dict[str, E | None] = field(init=False)
    kept: set[str] = field(init=False)

    def __post_init__(self) -> None:
        self.final, self.wanted, self.kept = {}, {}, set()
        for key in {**self.ours, **self.theirs}:
            self._decide(key, self.ours.get(key), self.theirs.get(key))

    def _decide(self, key: str, ours: E | None, theirs: E | None) -> None:
        if self.base is None:
            self._decide_without_base(key, ours, theirs)
            return
        base = self.base.get(key)
        result = ours
        if alike(theirs, base):
            if not alike(ours, base):
                self.kept.add(key)
        elif alike(ours, base):
            result = theirs
        elif not alike(ours, theirs):
            self.kept.add(key)
            if ours is None or theirs is None:
                self.wanted[key] = theirs
            else:
                result = self._fields_of_both(key, base, ours, theirs)
        if result is not None:
            self.final[key] = result

    def _decide_without_base(self, key: str, ours: E | None, theirs: E | None) -> None:
        if ours is None:
            self.wanted[key] = theirs
            return
        self.final[key] = ours
        if theirs is None:
            if is_imported(ours, self.form):
                self.wanted[key] = None
        elif not alike(ours, theirs):
            self._fields_of_both(key, None, ours, theirs)

    def _fields_of_both(self, key: str, base: E | None, ours: E, theirs: E) -> E:
        old, mine, other = ({} if d is None else _by_handle(d.to_document()) for d in (base, ours, theirs))
        stays, asked = merge(old, mine, other), merge(old, other, mine)
        if not same(stays, asked):
            self.wanted[key] = parse_document(self.model, _with_lists(asked), "import")
        return parse_document(self.model, _with_lists(stays), "import")

    def changed(self) -> list[E]:
        return [d for key, d in sorted(self.final.items()) if not alike(d, self.ours.get(key))]


def alike(one: Document | None, other: Document | None) -> bool:
    """Say whether two documents say the same."""
    if one is None or other is None:
        return one is other
    return one.to_json() == other.to_json() or same(one.to_document(), other.to_document())


def _by_handle(document: Json) -> Json:
    """Return a node's document with its handle points by direction and id: a list is one value to a merge."""
    if "handles" not in document:
        return document
    handles = {
        side: {**group, "point": {f"{p['type']}/{p['id']}": p for p in group.get("point", ())}}
        for side, group in document["handles"].items()
    }
    return {**document, "handles": handles}


def _with_lists(document: Json) -> Json:
    if "handles" not in document:
        return document
    handles = {s: {**g, "point": list(g.get("point", {}).values())} for s, g in document["handles"].items()}
    return {**document, "handles": handles}


def _join_ends(nodes: _Documents[Node], edges: _Documents[Edge]) -> None:
    """Keep the nodes at which edges stay, and propose the edges whose nodes people deleted."""
    for edge in list(edges.final.values()):
        for end in (edge.source, edge.target):
            if end in nodes.final:
                continue
            if end in nodes.ours:
                nodes.final[end] = nodes.ours[end]
                nodes.wanted[end] = None
            else:
                edges.final.pop(edge.key, None)
                edges.wanted[edge.key] = edge
    for edge in edges.wanted.values():
        for end in (edge.source, edge.target) if edge is not None else ():
            if end not in nodes.final and end in nodes.theirs:
                nodes.wanted.setdefault(end, nodes.theirs[end])


def _keep_handles(nodes: _Documents[Node], edges: _Documents[Edge]) -> None:
    """Give back the handles at which edges stay, whichever side has them."""
    for edge in edges.final.values():
        for end in ((edge.source, edge.source_handle, "out"), (edge.target, edge.target_handle, "in")):
            node = nodes.final[end[0]]
            if not alike(node, nodes.ours.get(end[0])) and _point(node, *end[1:]) is None:
                nodes.final[end[0]] = _with_handle(nodes, *end)


def _with_handle(nodes: _Documents[Node], key: str, handle: str, way: str) -> Node:
    for other in (nodes.ours.get(key), nodes.theirs.get(key)):
        found = _point(other, handle, way) if other else None
        if found is not None:
            held = _by_handle(nodes.final[key].to_document())
            group = held.setdefault("handles", {}).setdefault(found[0], {"position": "separate", "point": {}})
            group["point"][f"{way}/{handle}"] = found[1]
            return parse_document(Node, _with_lists(held), "import")
    return nodes.final[key]


def _point(node: Node, handle: str, way: str) -> tuple[str, Json] | None:
    for side, group in node.handles.items():
        for point in group.point:
            if (point.type, point.id) == (way, handle):
                return side, point.to_document()
    return None


def _types(
    ours: GraphContent, base: GraphContent | None, theirs: GraphContent, form: str
) -> tuple[list[NodeTypeConfig], list[str]]:
    """Return the types to store: new ones, and others with what the file has anew."""
    put: list[NodeTypeConfig] = []
    remarks: list[str] = []
    workspace = ours.graph.workspace
    for name, new in theirs.types.items():
        old, before = ours.types.get(name), base.types.get(name) if base else None
        if old is None:
            put.append(new)
            continue
        is_ours = old.workspace == workspace
        if alike(new, before) or alike(old.replace(workspace=workspace), new):
            continue
        if form == NATIVE and (not is_ours or new.version > old.version):
            put.append(new)
            remarks.append(f"the node type {name} is newer in the file and replaces the one there was")
        elif not is_ours or (form != NATIVE and origin_of(old) is None):
            remarks.append(f"a node type of the name {name} was there before and is used as it is")
        else:
            wider = _widened(before, old, new)
            if not alike(wider, old):
                put.append(wider)
            if form == NATIVE and not alike(wider, new):
                remarks.append(f"the node type {name} was changed here and keeps those changes")
    return sorted(put, key=lambda config: config.key), remarks


def _widened(base: NodeTypeConfig | None, ours: NodeTypeConfig, theirs: NodeTypeConfig) -> NodeTypeConfig:
    """Return the stored type with what is new in the file's; handles never go, other workflows use them."""
    old, mine, other = ({} if c is None else _type_by_handle(c.to_document()) for c in (base, ours, theirs))
    for side, group in mine["node"].get("handles", {}).items():
        others = other["node"].setdefault("handles", {}).setdefault(side, {**group, "point": {}})
        others["point"] = {**group["point"], **others["point"]}
    made = merge(old, mine, other)
    return parse_document(NodeTypeConfig, {**made, "node": _with_lists(made["node"])}, "import")


def _type_by_handle(document: Json) -> Json:
    return {**document, "node": _by_handle(document["node"])}


def _graph(
    ours: GraphContent,
    base: GraphContent | None,
    theirs: GraphContent,
    parts: Iterable[_Documents[Any]],
) -> tuple[Graph | None, list[str]]:
    """Return the graph document if it changes, and the fields in which the file has it otherwise."""
    old, mine, other = (
        {} if c is None else {k: v for k, v in c.graph.to_document().items() if k not in OWN}
        for c in (base, ours, theirs)
    )
    made, asked = merge(old, mine, other), merge(old, other, mine)
    labels = {s: name for c in (base, theirs, ours) if c for s, name in c.graph.sheets_list.items()}
    used = {d.sheet for part in parts for d in (*part.final.values(), *part.wanted.values()) if d is not None}
    listed = made.setdefault("sheetsList", {})
    made["sheetsList"] = {**listed, **{s: labels.get(s, s) for s in sorted(used - listed.keys())}}
    differing = [
        ".".join(change.path) for change in field_changes(made, asked) if change.path[0] != "sheetsList"
    ]
    if same(made, mine):
        return None, differing
    own = {k: v for k, v in ours.graph.to_document().items() if k in OWN}
    return parse_document(Graph, {**own, **made}, "graphs"), differing


def _shown(names: list[str]) -> str:
    return ", ".join(names[:MAX_SHOWN]) + (", …" if len(names) > MAX_SHOWN else "")
