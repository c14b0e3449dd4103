"""Brings a new version of a file together with what people made of the last one, field by field.

Three graphs are compared: the file as it was imported before (base), the graph as it stands
(ours) and the file as it is now (theirs). What only the file changed is taken, what only
people changed stays.

Decision: where both changed the same field, or one deleted what the other changed, the graph stays
as people left it, and the file's version is proposed to them: of nodes, edges, the graph itself and
node types. Types are shared by workflows: their handles and sizes only gain what is new. Where
nothing is known of an earlier import (of a graph imported before files were kept, or made by hand),
all that stands is people's work and every difference is proposed. What an older proposal asks and
nobody decided is asked again.
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
OpenConflicts = Mapping[tuple[str, str], frozenset[Path]]
"""What an older proposal asks: the fields by (`nodes`, `edges`, `types` or `graph`; key). Of a
document that only one side has there are none.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """What is done to the graph, and what is proposed: documents by key, None for a deletion.

    Of the graph itself `fields` are proposed, None for one that goes; of `sheetsList` only the
    names that differ. `kept` counts the documents that people changed and the file has otherwise,
    without those proposed.
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
        """How many documents are proposed to change."""
        return len(self.nodes) + len(self.edges) + len(self.types) + bool(self.fields)

    @property
    def taken(self) -> int:
        """How many documents change."""
        m = self.mutation
        parts = (m.put_nodes, m.put_edges, m.delete_nodes, m.delete_edges, m.put_configs)
        return sum(map(len, parts)) + (m.graph is not None)


def merged(
    ours: GraphContent,
    base: GraphContent | None,
    theirs: GraphContent,
    *,
    form: str,
    asked: OpenConflicts | None = None,
) -> Merged:
    """Merge a file into a graph. All three have the same keys for the same things.

    With `base` the graph itself, everything that differs is taken: the graph becomes as
    the file is.
    """
    return _Merge(ours, base, theirs, form, asked or {}).result()


def completed(theirs: GraphContent, written: GraphContent, ours: GraphContent) -> GraphContent:
    """Return what a file says, completed from the graph by what the file's format cannot say.

    `written` is the graph as the format says it. Where the file says the same, it
    means what stands.
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
    found: dict[str, E] = dict(theirs)
    for key in theirs.keys() & written.keys() & ours.keys():
        if alike(theirs[key], written[key]):
            found[key] = ours[key]
        else:
            parts = (_by_handle(part[key].to_document()) for part in (written, theirs, ours))
            found[key] = parse_document(model, _with_lists(merge(*parts)), "import")
    return found


@dataclass(slots=True)
class _Documents(Generic[E]):
    """The nodes or the edges. `final` is what will stand, `wanted` what the file has
    instead of it.
    """

    model: type[E]
    base: Mapping[str, E] | None
    ours: Mapping[str, E]
    theirs: Mapping[str, E]
    form: str
    asked: Mapping[str, frozenset[Path]]
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
        if (key in self.asked or not (is_ours or is_theirs)) and not alike(ours, theirs):
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
        for path in self.asked.get(key, ()):
            old = _without(old, path)
        old, mine, other = map(_by_handle, (old, ours.to_document(), theirs.to_document()))
        stays = merge(old, mine, other)
        asked = merge(old, other, mine)
        if not same(stays, asked):
            self.wanted[key] = parse_document(self.model, _with_lists(asked), "import")
        return parse_document(self.model, _with_lists(stays), "import")

    def all(self) -> Iterator[E]:
        """Yield what will stand and what is proposed."""
        yield from self.final.values()
        yield from (document for document in self.wanted.values() if document is not None)

    def changed(self, stored: Mapping[str, E]) -> list[E]:
        return [d for key, d in sorted(self.final.items()) if not alike(d, stored.get(key))]


def alike(one: Document | None, other: Document | None) -> bool:
    """Say whether two documents say the same."""
    if one is None or other is None:
        return one is other
    return one.to_json() == other.to_json() or same(one.to_document(), other.to_document())


def _by_handle(document: Json) -> Json:
    """Return a node's document with its handle points by direction and id: a list is one value
    to a merge.
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
        for end in (
            (edge.source, edge.source_handle, "out"),
            (edge.target, edge.target_handle, "in"),
        ):
            node = nodes.final[end[0]]
            if not alike(node, nodes.ours.get(end[0])) and _point(node, *end[1:]) is None:
                nodes.final[end[0]] = _with_handle(nodes, *end)


def _with_handle(nodes: _Documents[Node], key: str, handle: str, way: str) -> Node:
    for other in (nodes.ours.get(key), nodes.theirs.get(key)):
        found = _point(other, handle, way) if other else None
        if found is not None:
            held = _by_handle(nodes.final[key].to_document())
            group = held.setdefault("handles", {}).setdefault(
                found[0], {"position": "separate", "point": {}}
            )
            group["point"][f"{way}/{handle}"] = found[1]
            return parse_document(Node, _with_lists(held), "import")
    return nodes.final[key]


def _point(node: Node, handle: str, way: str) -> tuple[str, Json] | None:
    for side, group in node.handles.items():
        for point in group.point:
            if (point.type, point.id) == (way, handle):
                return side, point.to_document()
    return None


@dataclass(slots=True)
class _Merge:
    """The parts of a merge. Of types those to store (new ones, what is new of others),
    and the proposed.
    """

    ours: GraphContent
    base: GraphContent | None
    theirs: GraphContent
    form: str
    asked: OpenConflicts
    types: list[NodeTypeConfig] = field(default_factory=list[NodeTypeConfig])
    wanted_types: dict[str, NodeTypeConfig] = field(default_factory=dict[str, NodeTypeConfig])
    remarks: list[Remark] = field(default_factory=list[Remark])

    def result(self) -> Merged:
        ours = self.ours
        theirs = self.theirs
        form = self.form
        nodes = self._nodes()
        before = self.base.edges if self.base else None
        edges = _Documents(Edge, before, ours.edges, theirs.edges, form, self._asked("edges"))
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
        """Decides about the nodes; where names change, again with references written with
        the new names.
        """
        contents = (self.base, self.ours, self.theirs)
        nodes = self._decided(*contents)
        named = [content and under_merged_names(content, nodes.final) for content in contents]
        if all(one is other for one, other in zip(named, contents, strict=True)):
            return nodes
        return self._decided(named[0], named[1] or self.ours, named[2] or self.theirs)

    def _decided(
        self, base: GraphContent | None, ours: GraphContent, theirs: GraphContent
    ) -> _Documents[Node]:
        before = None if base is None else base.nodes
        return _Documents(Node, before, ours.nodes, theirs.nodes, self.form, self._asked("nodes"))

    def _asked(self, kind: str) -> dict[str, frozenset[Path]]:
        return {key: paths for (of, key), paths in self.asked.items() if of == kind}

    def _merge_type(self, name: str, new: NodeTypeConfig) -> None:
        old = self.ours.types.get(name)
        before = self.base.types.get(name) if self.base else None
        if old is None:
            self.types.append(new)
            return
        workspace = self.ours.graph.workspace
        asked = self.asked.get(("types", new.key))
        is_ours = old.workspace == workspace
        is_native = self.form == NATIVE
        if (alike(new, before) and asked is None) or alike(old.replace(workspace=workspace), new):
            return
        if is_native and (not is_ours or new.version > old.version):
            self.types.append(new)
            self.remarks.append(Remark("type_newer", type=name))
        elif not is_ours or (not is_native and origin_of(old) is None):
            self.remarks.append(Remark("type_used", type=name))
        else:
            stays, wanted = _types_of_both(before, old, new, asked or frozenset(), is_native)
            if not alike(stays, old):
                self.types.append(stays)
            if not alike(stays, wanted) and (is_native or before is not None):
                self.wanted_types[wanted.key] = wanted

    def _graph(self, used: Set[str]) -> tuple[Graph | None, Json]:
        """Return the graph document if it changes, and the fields that are proposed;
        `used` are sheets.
        """
        contents = (self.base, self.ours, self.theirs)
        old, mine, other = (
            {}
            if c is None
            else {k: v for k, v in c.graph.to_document().items() if k not in FIXED_GRAPH_FIELDS}
            for c in contents
        )
        for path in self._asked("graph").get(self.ours.graph.key, ()):
            old = _without(old, path)
        made = {**merge(old, mine, other)}
        wanted = {**merge(old, other, mine)}
        by_rank = (self.base, self.theirs, self.ours)
        labels = {s: name for c in by_rank if c for s, name in c.graph.sheets_list.items()}
        listed = made.setdefault("sheetsList", {})
        made["sheetsList"] = {
            **listed,
            **{s: labels.get(s, s) for s in sorted(used - listed.keys())},
        }
        names = wanted.pop("sheetsList", {})
        others = [
            k
            for k in {**made, **wanted}
            if k != "sheetsList" and not same(made.get(k), wanted.get(k))
        ]
        fields: Json = {name: wanted.get(name) for name in others}
        sheets = {s: name for s, name in names.items() if made["sheetsList"].get(s, name) != name}
        fields |= {"sheetsList": sheets} if sheets else {}
        if same(made, mine):
            return None, fields
        own = {k: v for k, v in self.ours.graph.to_document().items() if k in FIXED_GRAPH_FIELDS}
        return parse_document(Graph, {**own, **made}, "graphs"), fields


def _types_of_both(
    base: NodeTypeConfig | None,
    ours: NodeTypeConfig,
    theirs: NodeTypeConfig,
    asked: frozenset[Path],
    is_native: bool,
) -> tuple[NodeTypeConfig, NodeTypeConfig]:
    """Return the stored type with what is new in the file's, and the one that is proposed.

    Handles never go: other workflows use them. What other workflows share with a foreign file's
    type (its handles and size) is no conflict, for each of them has it otherwise.
    """
    before = {} if base is None else base.to_document()
    for path in asked:
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
    made = ({**found, "node": _with_lists(found["node"])} for found in (stays, wanted))
    first, second = (parse_document(NodeTypeConfig, document, "import") for document in made)
    return first, second


def _type_by_handle(document: Json) -> Json:
    return {**document, "node": _by_handle(document["node"])} if "node" in document else document


def _without(document: Json, path: Path) -> Json:
    """Return a copy without a field; where the path leads into a list, without that."""
    head, *rest = path
    inner = document.get(head)
    if head not in document or not rest or not isinstance(inner, dict):
        return {name: value for name, value in document.items() if name != head}
    return {**document, head: _without(cast(Json, inner), tuple(rest))}
