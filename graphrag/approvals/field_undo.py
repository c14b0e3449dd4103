"""Works out what takes an applied change back, field by field, and what later changes forbid it.

A field that the change did not touch keeps what it has become since. Pure; knows no store.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, cast

from datasources.types import Document, Edge, Graph, Mutation, Node, NodeTypeConfig, parse_document
from graphrag.approvals.preview import MISSING, field_changes, same
from tools.write_tools import Snapshot

D = TypeVar("D", bound=Document)
_POSITION = ("posX", "posY")


@dataclass(frozen=True, slots=True, kw_only=True)
class Restoration:
    """What takes a change back, or what forbids it, as `node/KEY: data.name`."""

    mutation: Mutation
    obstacles: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """An applied change: its mutation, what took it back right after it, and the edges that did not fit
    before it either (see `irregular_edges`)."""

    applied: Mutation
    inverse: Mutation
    irregular: Set[str] = frozenset()


def restoration_of(now: Snapshot, changes: Sequence[Change]) -> Restoration:
    """Return what takes changes back in one step, the latest first.

    `now` must hold every node, edge and type that they name, with all edges of these nodes.
    """
    left = now
    for change in changes:
        step = restoration(left, change.applied, change.inverse, change.irregular)
        if step.obstacles:
            return step
        left = after(left, step.mutation)
    return Restoration(mutation=_difference(now, left))


def after(snapshot: Snapshot, mutation: Mutation) -> Snapshot:
    """Return the snapshot as the mutation leaves it; the revision stays."""
    gone, cut = set(mutation.delete_nodes), set(mutation.delete_edges)
    own = {config.type: config for config in mutation.put_configs}
    unset = {*mutation.delete_configs, *(config.key for config in mutation.put_configs)}
    return replace(
        snapshot,
        graph=mutation.graph or snapshot.graph,
        nodes={k: n for k, n in snapshot.nodes.items() if k not in gone}
        | {node.key: node for node in mutation.put_nodes},
        edges={
            key: edge
            for key, edge in snapshot.edges.items()
            if key not in cut and edge.source not in gone and edge.target not in gone
        }
        | {edge.key: edge for edge in mutation.put_edges},
        types={name: c for name, c in snapshot.types.items() if c.key not in unset} | own,
        vectors={k: v for k, v in snapshot.vectors.items() if k not in gone}
        | {vector.key: vector for vector in mutation.put_vectors},
    )


def _difference(before: Snapshot, left: Snapshot) -> Mutation:
    """Return the mutation that makes the one of the other."""
    gone = before.nodes.keys() - left.nodes.keys()
    kept_types = {config.key for config in left.types.values()}
    return Mutation(
        graph_key=before.graph.key,
        put_nodes=[node for key, node in left.nodes.items() if before.nodes.get(key) is not node],
        put_edges=[edge for key, edge in left.edges.items() if before.edges.get(key) is not edge],
        delete_nodes=sorted(gone),
        delete_edges=[
            key
            for key, edge in before.edges.items()
            if key not in left.edges and edge.source not in gone and edge.target not in gone
        ],
        put_configs=[c for name, c in left.types.items() if before.types.get(name) is not c],
        delete_configs=[c.key for c in before.types.values() if c.key not in kept_types],
        put_vectors=[
            v for key, v in left.vectors.items() if before.vectors.get(key) is not v and key in left.nodes
        ],
        graph=None if left.graph is before.graph else left.graph,
    )


@dataclass(slots=True)
class _Restoring:
    """Takes one change back. `left` is what the change left, by kind and key."""

    now: Snapshot
    obstacles: list[str] = field(default_factory=list[str])

    def put(
        self, kind: str, model: type[D], old: Iterable[D], left: Mapping[str, D], stored: Mapping[str, D]
    ) -> list[D]:
        """Return what the documents become that were changed or deleted."""
        found: list[D] = []
        for document in old:
            key = str(cast(Any, document).key)
            is_there, after = stored.get(key), left.get(key)
            if after is None:
                if is_there is not None:
                    self.obstacles.append(f"{kind}/{key}: is there again")
                found.append(document)
            elif is_there is None:
                self.obstacles.append(f"{kind}/{key}: was deleted")
            else:
                found.append(self._merged(f"{kind}/{key}", model, document, after, is_there))
        return found

    def _merged(self, name: str, model: type[D], old: D, left: D, now: D) -> D:
        before, after, current = old.to_document(), left.to_document(), now.to_document()
        if same(after, current):
            return old
        document: dict[str, Any] = current
        for change in field_changes(after, before):
            if not same(_value(current, change.path), change.before):
                self.obstacles.append(f"{name}: {'.'.join(change.path)}")
            else:
                document = _with(document, change.path, change.after)
        return parse_document(model, document, name)

    def graph(self, old: Graph | None, left: Graph | None) -> Graph | None:
        """Return what the graph document becomes; its times and revision are nobody's change."""
        if old is None or left is None:
            return None
        now = self.now.graph
        own = {"revision": now.revision, "last_updated_time": now.last_updated_time}
        old, left = old.replace(**own), left.replace(**own)
        return self._merged(f"graph/{now.key}", Graph, old, left, now)

    def delete(
        self, kind: str, keys: Iterable[str], left: Mapping[str, D], stored: Mapping[str, D]
    ) -> list[str]:
        """Return what is to go: documents that the change created, and nobody has altered but moved."""
        found: list[str] = []
        for key in keys:
            current, after = stored.get(key), left.get(key)
            if current is None:
                self.obstacles.append(f"{kind}/{key}: was deleted")
                continue
            changes = field_changes(after.to_document() if after else {}, current.to_document())
            for change in changes:
                if change.path[0] not in _POSITION or kind != "node":
                    self.obstacles.append(f"{kind}/{key}: {'.'.join(change.path)}")
            found.append(key)
        return found


def restoration(
    now: Snapshot, applied: Mutation, inverse: Mutation, irregular: Set[str] = frozenset()
) -> Restoration:
    """Return what takes `applied` back on the graph as it is; `inverse` did so right after it.

    `irregular` are edges that did not fit before `applied` either (see `irregular_edges`).
    `now` must hold every node, edge and type that the two name, with all edges of these nodes.
    """
    work = _Restoring(now)
    own = {c.key: c for c in now.types.values() if c.workspace == now.graph.workspace}
    left_nodes = {node.key: node for node in applied.put_nodes}
    left_edges = {edge.key: edge for edge in applied.put_edges}
    left_types = {config.key: config for config in applied.put_configs}
    put_nodes = work.put("node", Node, inverse.put_nodes, left_nodes, now.nodes)
    put_edges = work.put("edge", Edge, inverse.put_edges, left_edges, now.edges)
    put_configs = work.put("type", NodeTypeConfig, inverse.put_configs, left_types, own)
    gone = work.delete("node", inverse.delete_nodes, left_nodes, now.nodes)
    cut = work.delete("edge", inverse.delete_edges, left_edges, now.edges)
    types_gone = work.delete("type", inverse.delete_configs, left_types, own)
    work.obstacles += _built_upon(now, set(gone), set(cut))
    kept = {node.key for node in put_nodes}
    exact = {node.key for node in put_nodes if node in inverse.put_nodes}
    mutation = Mutation(
        graph_key=inverse.graph_key,
        put_nodes=put_nodes,
        put_edges=put_edges,
        delete_nodes=gone,
        delete_edges=cut,
        put_configs=put_configs,
        delete_configs=types_gone,
        # The vector of a node that keeps a later change would be of another text.
        put_vectors=[v for v in inverse.put_vectors if v.key in exact or v.key not in kept],
        graph=work.graph(inverse.graph, applied.graph),
    )
    work.obstacles += _unconnectable(_After.of(now, mutation), irregular)
    return Restoration(mutation=mutation, obstacles=tuple(dict.fromkeys(work.obstacles)))


def _built_upon(now: Snapshot, gone: set[str], cut: set[str]) -> Iterator[str]:
    """Name the edges that were added later to nodes that would go."""
    for key, edge in now.edges_of(gone).items():
        if key not in cut:
            yield f"edge/{key}: was added at node {edge.source if edge.source in gone else edge.target}"


def _unconnectable(after: _After, irregular: Set[str]) -> Iterator[str]:
    """Name restored edges that no longer fit, and standing ones that would no longer."""
    for key, edge in after.edges.items():
        is_restored = key in after.restored
        if (key in irregular) if is_restored else not {edge.source, edge.target} & after.changed:
            continue
        for end, handle, way in _ends(edge):
            if end not in after.nodes:
                if is_restored:  # the other end of a standing edge need not have been read
                    yield f"edge/{key}: node {end} is gone"
                continue
            is_due = is_restored or after.fitted(end, handle, way)
            if is_due and not _has_handle(after.nodes[end], handle, way):
                yield f"edge/{key}: node {end} has no {way} handle {handle}"
    restored = {_ends(after.edges[key]) for key in after.restored - irregular}
    for key, edge in after.edges.items():
        if key not in after.restored and _ends(edge) in restored:
            yield f"edge/{key}: connects the same handles"


@dataclass(frozen=True, slots=True, kw_only=True)
class _After:
    """The graph as the undo would leave it, as far as it was read."""

    before: Snapshot
    nodes: Mapping[str, Node]
    edges: Mapping[str, Edge]
    changed: Set[str]
    restored: Set[str]

    @classmethod
    def of(cls, now: Snapshot, mutation: Mutation) -> _After:
        left = after(now, mutation)
        return cls(
            before=now,
            nodes=left.nodes,
            edges=left.edges,
            changed={node.key for node in mutation.put_nodes},
            restored={edge.key for edge in mutation.put_edges},
        )

    def fitted(self, end: str, handle: str, way: str) -> bool:
        """Say whether the handle is there now: an edge that stands without one is nobody's fault here."""
        node = self.before.nodes.get(end)
        return node is not None and _has_handle(node, handle, way)


def irregular_edges(before: Snapshot, inverse: Mutation) -> list[str]:
    """Return the edges to restore that never fitted the rules: without a handle, or one of several."""
    restored = {edge.key: edge for edge in inverse.put_edges}
    counted = Counter(map(_ends, {**before.edges, **restored}.values()))

    def is_irregular(edge: Edge) -> bool:
        fits = all(
            end in before.nodes and _has_handle(before.nodes[end], handle, way)
            for end, handle, way in _ends(edge)
        )
        return not fits or counted[_ends(edge)] > 1

    return sorted(key for key, edge in restored.items() if is_irregular(edge))


def _ends(edge: Edge) -> tuple[tuple[str, str, str], tuple[str, str, str]]:
    """Return an edge's two ends as (node, handle, direction)."""
    return (edge.source, edge.source_handle, "out"), (edge.target, edge.target_handle, "in")


def _has_handle(node: Node, handle: str, way: str) -> bool:
    """Say whether a node has a handle; one without handles of its own has those of its type."""
    if not node.handles:
        return True
    return any(p.id == handle and p.type == way for group in node.handles.values() for p in group.point)


def _value(document: Any, path: tuple[str, ...]) -> Any:
    for part in path:
        if not isinstance(document, Mapping) or part not in document:
            return MISSING
        document = cast(Mapping[str, Any], document)[part]
    return document


def _with(document: Mapping[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    """Return a copy with one field set, or removed when the value is MISSING."""
    head, *rest = path
    copy = dict(document)
    if rest:
        copy[head] = _with(copy[head], tuple(rest), value)
    elif value is MISSING:
        copy.pop(head, None)
    else:
        copy[head] = value
    return copy
