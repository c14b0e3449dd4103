"""Merges a new version of a file with the changes that people made to the graph, field by field.

Three graphs are compared: the file as it was imported before (base), the current graph (ours) and
the new file (theirs). Changes made only in the file are applied; changes made only by people stay.

Decision: if both changed the same field, or one deleted what the other changed, the graph stays as
people left it, and the file's version is proposed to them. This applies to nodes, edges, the graph
itself and node types. Node types are shared by workflows: their handles and sizes only gain what is
new. If no earlier import is stored (the graph was imported before files were stored, or was made by
hand), the whole graph counts as people's work and every difference is proposed. Conflicts of an
older proposal that was not decided are proposed again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar, cast

from datasources.types import Document, Edge, Graph, Mutation, Node, NodeTypeConfig, parse_document
from graphrag.changes.field_diff import merge, same
from graphrag.importers.align import GraphContent, is_imported, origin_of
from graphrag.importers.json_values import Json
from graphrag.importers.merged_names import following_proposal, under_merged_names
from graphrag.importers.report import NATIVE, Remark
from tools.proposal_parts import FIXED_GRAPH_FIELDS

E = TypeVar("E", Node, Edge)
Path = tuple[str, ...]
# The conflicting fields of an older proposal, by (`nodes`, `edges`, `types` or `graph`; key). No
# fields for a document that only one side has.
OpenConflicts = Mapping[tuple[str, str], frozenset[Path]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """The changes to the graph, and the proposed ones: documents by key, None for a deletion.

    `fields` are the proposed fields of the graph itself, None for one to remove; its `sheetsList`
    has only the names that differ. `kept` counts documents changed by people that differ from the
    file and are not proposed.
    """

    mutation: Mutation
    nodes: Mapping[str, Node | None]
    edges: Mapping[str, Edge | None]
    types: Mapping[str, NodeTypeConfig]
    fields: Mapping[str, Any]
    kept: int
    remarks: tuple[Remark, ...] = ()

    @property
    def conflicts(self) -> int:
        """Number of documents with proposed changes."""
        return len(self.nodes) + len(self.edges) + len(self.types) + bool(self.fields)

    @property
    def taken(self) -> int:
        """Number of documents changed."""
        m = self.mutation
        parts = (m.put_nodes, m.put_edges, m.delete_nodes, m.delete_edges, m.put_configs)
        return sum(map(len, parts)) + (m.graph is not None)


def merged(
    ours: GraphContent,
    base: GraphContent | None,
    theirs: GraphContent,
    *,
    form: str,
    open_conflicts: OpenConflicts | None = None,
) -> Merged:
    """Merges a file into a graph. All three graphs have the same keys for the same elements.

    If `base` is the current graph itself, every difference is applied: the graph becomes equal to
    the file.
    """
    return _Merge(ours, base, theirs, form, open_conflicts or {}).result()


def completed(theirs: GraphContent, written: GraphContent, ours: GraphContent) -> GraphContent:
    """Returns the content of a file, completed from the graph where the file's format lacks fields.

    `written` is the graph as the format expresses it. Where the file equals it, the value of the
    graph is meant.
    """
    document = merge(*(part.graph.to_document() for part in (written, theirs, ours)))
    return replace(
        theirs,
        graph=parse_document(Graph, document, "import"),
        nodes=_completed(Node, theirs.nodes, written.nodes, ours.nodes),
        edges=_completed(Edge, theirs.edges, written.edges, ours.edges),
        types={
            name: ours.types[name]
            if name in ours.types and alike(new, written.types.get(name))
            else new
            for name, new in theirs.types.items()
        },
    )


def _completed(
    model: type[E], theirs: Mapping[str, E], written: Mapping[str, E], ours: Mapping[str, E]
) -> dict[str, E]:
    documents: dict[str, E] = dict(theirs)
    for key in theirs.keys() & written.keys() & ours.keys():
        if alike(theirs[key], written[key]):
            documents[key] = ours[key]
        else:
            parts = (_by_handle(part[key].to_document()) for part in (written, theirs, ours))
            documents[key] = parse_document(model, _with_lists(merge(*parts)), "import")
    return documents


@dataclass(slots=True)
class _Documents(Generic[E]):
    """The merge of the nodes or of the edges. `final` are the documents after the merge, `wanted`
    the differing versions of the file.
    """

    model: type[E]
    base: Mapping[str, E] | None
    ours: Mapping[str, E]
    theirs: Mapping[str, E]
    form: str
    open_conflicts: Mapping[str, frozenset[Path]]
    final: dict[str, E] = field(default_factory=dict[str, E])
    wanted: dict[str, E | None] = field(default_factory=dict[str, E | None])
    kept: set[str] = field(default_factory=set[str])

    def __post_init__(self) -> None:
        for key in {**self.ours, **self.theirs}:
            self._decide(key, self.ours.get(key), self.theirs.get(key))

    def _decide(self, key: str, ours: E | None, theirs: E | None) -> None:
        if self.base is None:
            self._decide_without_base(key, ours, theirs)
            return
        base = self.base.get(key)
        result = ours
        is_ours = alike(theirs, base)
        is_theirs = alike(ours, base)
        if (key in self.open_conflicts or not (is_ours or is_theirs)) and not alike(ours, theirs):
            self.kept.add(key)
            if ours is None or theirs is None:
                self.wanted[key] = theirs
            else:
                result = self._fields_of_both(key, base, ours, theirs)
        elif is_ours and not is_theirs:
            self.kept.add(key)
        elif is_theirs:
            result = theirs
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
        old = {} if base is None else base.to_document()
        for path in self.open_conflicts.get(key, ()):
            old = _without(old, path)
        old, mine, other = map(_by_handle, (old, ours.to_document(), theirs.to_document()))
        stays = merge(old, mine, other)
        open_conflicts = merge(old, other, mine)
        if not same(stays, open_conflicts):
            self.wanted[key] = parse_document(self.model, _with_lists(open_conflicts), "import")
        return parse_document(self.model, _with_lists(stays), "import")

    def all(self) -> Iterator[E]:
        """Yields the documents after the merge, and the proposed ones."""
        yield from self.final.values()
        yield from (document for document in self.wanted.values() if document is not None)

    def changed(self, stored: Mapping[str, E]) -> list[E]:
        return [d for key, d in sorted(self.final.items()) if not alike(d, stored.get(key))]


def alike(first: Document | None, second: Document | None) -> bool:
    """Returns whether two documents have the same content."""
    if first is None or second is None:
        return first is second
    return first.to_json() == second.to_json() or same(first.to_document(), second.to_document())


def _by_handle(document: Json) -> Json:
    """Returns a node's document with its handle points by direction and id, because a merge treats
    a list as one value.
    """
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
    handles = {
        s: {**g, "point": list(g.get("point", {}).values())} for s, g in document["handles"].items()
    }
    return {**document, "handles": handles}


def _join_ends(nodes: _Documents[Node], edges: _Documents[Edge]) -> None:
    """Keeps the nodes of the edges that stay, and proposes edges whose nodes people deleted."""
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
    """Restores handles that edges use, from either side."""
    for edge in edges.final.values():
        for end in (
            (edge.source, edge.source_handle, "out"),
            (edge.target, edge.target_handle, "in"),
        ):
            node = nodes.final[end[0]]
            if not alike(node, nodes.ours.get(end[0])) and _point(node, *end[1:]) is None:
                nodes.final[end[0]] = _with_handle(nodes, *end)


def _with_handle(nodes: _Documents[Node], key: str, handle: str, direction: str) -> Node:
    for other in (nodes.ours.get(key), nodes.theirs.get(key)):
        point = _point(other, handle, direction) if other else None
        if point is not None:
            document = _by_handle(nodes.final[key].to_document())
            group = document.setdefault("handles", {}).setdefault(
                point[0], {"position": "separate", "point": {}}
            )
            group["point"][f"{direction}/{handle}"] = point[1]
            return parse_document(Node, _with_lists(document), "import")
    return nodes.final[key]


def _point(node: Node, handle: str, direction: str) -> tuple[str, Json] | None:
    for side, group in node.handles.items():
        for point in group.point:
            if (point.type, point.id) == (direction, handle):
                return side, point.to_document()
    return None


@dataclass(slots=True)
class _Merge:
    """Computes a merge. `types` are the node types to store, `wanted_types` the proposed ones."""

    ours: GraphContent
    base: GraphContent | None
    theirs: GraphContent
    form: str
    open_conflicts: OpenConflicts
    types: list[NodeTypeConfig] = field(default_factory=list[NodeTypeConfig])
    wanted_types: dict[str, NodeTypeConfig] = field(default_factory=dict[str, NodeTypeConfig])
    remarks: list[Remark] = field(default_factory=list[Remark])

    def result(self) -> Merged:
        ours = self.ours
        theirs = self.theirs
        form = self.form
        nodes = self._nodes()
        before = self.base.edges if self.base else None
        edges = _Documents(Edge, before, ours.edges, theirs.edges, form, self._conflicts("edges"))
        _join_ends(nodes, edges)
        _keep_handles(nodes, edges)
        nodes.wanted.update(following_proposal(ours.graph, nodes.final, nodes.wanted))
        for name, new in theirs.types.items():
            self._merge_type(name, new)
        graph, fields = self._graph({d.sheet for part in (nodes, edges) for d in part.all()})
        return Merged(
            mutation=Mutation(
                graph_key=ours.graph.key,
                put_nodes=nodes.changed(ours.nodes),
                put_edges=edges.changed(ours.edges),
                delete_nodes=sorted(ours.nodes.keys() - nodes.final.keys()),
                delete_edges=sorted(ours.edges.keys() - edges.final.keys()),
                put_configs=sorted(self.types, key=lambda config: config.key),
                graph=graph,
            ),
            nodes=nodes.wanted,
            edges=edges.wanted,
            types=self.wanted_types,
            fields=fields,
            kept=len(nodes.kept - nodes.wanted.keys()) + len(edges.kept - edges.wanted.keys()),
            remarks=tuple(self.remarks),
        )

    def _nodes(self) -> _Documents[Node]:
        """Merges the nodes. If names change, merges again with references updated to them."""
        contents = (self.base, self.ours, self.theirs)
        nodes = self._merged_nodes(*contents)
        renamed = [content and under_merged_names(content, nodes.final) for content in contents]
        if all(new is old for new, old in zip(renamed, contents, strict=True)):
            return nodes
        return self._merged_nodes(renamed[0], renamed[1] or self.ours, renamed[2] or self.theirs)

    def _merged_nodes(
        self, base: GraphContent | None, ours: GraphContent, theirs: GraphContent
    ) -> _Documents[Node]:
        before = None if base is None else base.nodes
        return _Documents(
            Node, before, ours.nodes, theirs.nodes, self.form, self._conflicts("nodes")
        )

    def _conflicts(self, kind: str) -> dict[str, frozenset[Path]]:
        return {key: paths for (of, key), paths in self.open_conflicts.items() if of == kind}

    def _merge_type(self, name: str, new: NodeTypeConfig) -> None:
        old = self.ours.types.get(name)
        before = self.base.types.get(name) if self.base else None
        if old is None:
            self.types.append(new)
            return
        workspace = self.ours.graph.workspace
        conflicts = self.open_conflicts.get(("types", new.key))
        is_ours = old.workspace == workspace
        is_native = self.form == NATIVE
        if (alike(new, before) and conflicts is None) or alike(
            old.replace(workspace=workspace), new
        ):
            return
        if is_native and (not is_ours or new.version > old.version):
            self.types.append(new)
            self.remarks.append(Remark("type_newer", type=name))
        elif not is_ours or (not is_native and origin_of(old) is None):
            self.remarks.append(Remark("type_used", type=name))
        else:
            stays, wanted = _types_of_both(before, old, new, conflicts or frozenset(), is_native)
            if not alike(stays, old):
                self.types.append(stays)
            if not alike(stays, wanted) and (is_native or before is not None):
                self.wanted_types[wanted.key] = wanted

    def _graph(self, used: Set[str]) -> tuple[Graph | None, Json]:
        """Returns the graph document if it changes, and the proposed fields; `used` are the used
        sheets.
        """
        contents = (self.base, self.ours, self.theirs)
        old, mine, other = (
            {}
            if c is None
            else {k: v for k, v in c.graph.to_document().items() if k not in FIXED_GRAPH_FIELDS}
            for c in contents
        )
        for path in self._conflicts("graph").get(self.ours.graph.key, ()):
            old = _without(old, path)
        merged_fields = {**merge(old, mine, other)}
        wanted = {**merge(old, other, mine)}
        by_rank = (self.base, self.theirs, self.ours)
        labels = {s: name for c in by_rank if c for s, name in c.graph.sheets_list.items()}
        listed = merged_fields.setdefault("sheetsList", {})
        merged_fields["sheetsList"] = {
            **listed,
            **{s: labels.get(s, s) for s in sorted(used - listed.keys())},
        }
        names = wanted.pop("sheetsList", {})
        others = [
            k
            for k in {**merged_fields, **wanted}
            if k != "sheetsList" and not same(merged_fields.get(k), wanted.get(k))
        ]
        fields: Json = {name: wanted.get(name) for name in others}
        sheets = {
            s: name for s, name in names.items() if merged_fields["sheetsList"].get(s, name) != name
        }
        fields |= {"sheetsList": sheets} if sheets else {}
        if same(merged_fields, mine):
            return None, fields
        fixed = {k: v for k, v in self.ours.graph.to_document().items() if k in FIXED_GRAPH_FIELDS}
        return parse_document(Graph, {**fixed, **merged_fields}, "graphs"), fields


def _types_of_both(
    base: NodeTypeConfig | None,
    ours: NodeTypeConfig,
    theirs: NodeTypeConfig,
    conflicts: frozenset[Path],
    is_native: bool,
) -> tuple[NodeTypeConfig, NodeTypeConfig]:
    """Returns the stored type with the additions of the file, and the proposed one.

    Handles are never removed, because other workflows use them. The handles and sizes of a foreign
    file's type are no conflict, because they differ with each workflow.
    """
    before = {} if base is None else base.to_document()
    for path in conflicts:
        before = _without(before, path)
    mine = _type_by_handle(ours.to_document())
    other = _type_by_handle(theirs.to_document())
    for side, group in mine["node"].get("handles", {}).items():
        others = other["node"].setdefault("handles", {}).setdefault(side, {**group, "point": {}})
        others["point"] = {**group["point"], **others["point"]}
    old = _type_by_handle(before)
    stays = merge(old, mine, other)
    wanted = merge(old, other, mine)
    if not is_native:
        wanted = {**wanted, "node": stays["node"]}
    documents = (
        {**document, "node": _with_lists(document["node"])} for document in (stays, wanted)
    )
    first, second = (parse_document(NodeTypeConfig, document, "import") for document in documents)
    return first, second


def _type_by_handle(document: Json) -> Json:
    return {**document, "node": _by_handle(document["node"])} if "node" in document else document


def _without(document: Json, path: Path) -> Json:
    """Returns a copy without the field at `path`; a list on the path is removed whole."""
    head, *rest = path
    inner = document.get(head)
    if head not in document or not rest or not isinstance(inner, dict):
        return {name: value for name, value in document.items() if name != head}
    return {**document, head: _without(cast(Json, inner), tuple(rest))}
